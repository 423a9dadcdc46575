"""Score models: closed forms against numerical optimisation, and the objective never falls."""

import warnings

import numpy as np
import pytest
from families import make_family
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize
from sklearn.exceptions import ConvergenceWarning

import ebcd
from ebcd import EBCD
from ebcd.data._inputs import from_matrix
from ebcd.estimators._bootstrap import _problem
from ebcd.fitting._decompose import SizeSettings, State
from ebcd.fitting._noise import NOISES
from ebcd.fitting._scores import (
    SCORES,
    IntegratedScores,
    Moments,
    RelaxedScores,
    ScoreSettings,
    UncorrelatedScores,
    iterate,
    point_of,
    population,
    settle,
    shortening,
)
from ebcd.fitting._search import principal_coordinates
from ebcd.fitting._shrinkers import NormalMeansShrinker, SpikeSlabShrinker
from ebcd.fitting._states import Model
from ebcd.metrics import component_angles
from ebcd.priors import PRIORS
from ebcd.priors._family import as_priors

N, P, K = 40, 12, 2
NAMES = ("relaxed", "integrated")


def draw(n=N, p=P, k=K, seed=0, correlation=0.0, strength=2.0):
    rng = np.random.default_rng(seed)
    L = strength * rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.5)
    mixing = np.linalg.cholesky((1 - correlation) * np.eye(k) + correlation)
    return rng.normal(size=(n, k)) @ mixing.T @ L + rng.normal(size=(n, p)), L


def model_of(X, prior="point_laplace", noise="constant", k=K, stepwise=True):
    variances = (X**2).mean(axis=0)
    family = as_priors(prior)[0]
    stepwise = stepwise and hasattr(family, "slab")
    shrinker = SpikeSlabShrinker(family) if stepwise else NormalMeansShrinker([family] * k)
    return Model(X / np.sqrt(len(X)), variances, NOISES[noise](len(X), variances), shrinker)


def start_of(model, k=K):
    return point_of(model.start(principal_coordinates(model, k)[None]))


def moments_given(X, loadings, variance, tau, scores):
    S = X.T @ X / len(X)
    gram = tau * (loadings @ loadings.T + np.diag(variance.sum(axis=1)))
    energy = tau**2 * loadings @ S @ loadings.T
    found = scores.moments(gram[None], energy[None], len(X))
    return found.take(0), S


def expected_likelihood(S, n, tau, loadings, variance, second, rotated):
    """Expected log-likelihood of the data, but for a constant."""
    gram = loadings @ loadings.T + np.diag(variance.sum(axis=1))
    residual = np.trace(S) - 2 * (rotated * loadings).sum() + (second * gram).sum()
    return -0.5 * n * tau * residual


@pytest.fixture
def given_loadings():
    X, L = draw()
    rng = np.random.default_rng(1)
    return X, L + 0.1 * rng.normal(size=L.shape), 0.02 * rng.random(L.shape), 0.8


def test_integrated_scores_are_those_of_bayes_theorem(given_loadings):
    X, loadings, variance, tau = given_loadings
    found, S = moments_given(X, loadings, variance, tau, IntegratedScores())
    spread = np.linalg.inv(
        np.eye(K) + tau * (loadings @ loadings.T + np.diag(variance.sum(axis=1)))
    )
    means = tau * X @ loadings.T @ spread
    np.testing.assert_allclose(found.second, means.T @ means / N + spread, rtol=1e-10)
    np.testing.assert_allclose(found.weights @ (tau * loadings @ S), means.T @ X / N, rtol=1e-9)
    # minus the divergence of N(mean, spread) from N(0, I), summed over samples
    divergence = 0.5 * (
        N * (np.trace(spread) - K - np.linalg.slogdet(spread)[1]) + (means**2).sum()
    )
    np.testing.assert_allclose(found.term, -divergence, rtol=1e-10)


def test_relaxed_scores_maximise_the_objective(given_loadings):
    X, loadings, variance, tau = given_loadings
    found, S = moments_given(X, loadings, variance, tau, RelaxedScores())
    weights = found.weights @ (tau * loadings)  # scores are X weights'
    Z = X @ weights.T
    np.testing.assert_allclose(Z.T @ Z / N, found.second, rtol=1e-9)

    def objective(z):
        Z = z.reshape(N, K)
        second = Z.T @ Z / N
        log_det = np.linalg.slogdet(second)[1]
        term = 0.5 * (N - K - 1) * log_det - 0.5 * N * (np.trace(second) - K)
        value = expected_likelihood(S, N, tau, loadings, variance, second, Z.T @ X / N)
        return -(value + term)

    best = optimize.minimize(objective, Z.ravel(), method="L-BFGS-B", options={"maxiter": 500})
    np.testing.assert_allclose(objective(Z.ravel()), best.fun, rtol=1e-9)
    away = optimize.minimize(
        objective, Z.ravel() + 0.3, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-14}
    )
    np.testing.assert_allclose(away.fun, objective(Z.ravel()), rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_value_is_the_bound_written_out(name):
    X, _ = draw()
    model = model_of(X, "normal", stepwise=False)
    state = iterate(model, SCORES[name], start_of(model), one_by_one=True)
    second, term = state.moments.second[0], state.moments.term[0]
    mean, variance = state.shrunk.mean[0], state.shrunk.variance[0]
    tau = state.precision[0, 0]
    S = X.T @ X / N
    value = 0.5 * N * P * np.log(tau / (2 * np.pi)) + term
    value += expected_likelihood(S, N, tau, mean, variance, second, state.rotated[0])
    for k, g in enumerate(state.shrunk.priors[0]):
        scale = g.parameters["scale"] if "scale" in g.parameters else g.parameters["sd"]
        ratio = variance[k] / scale**2
        value -= 0.5 * (ratio - 1 - np.log(ratio) + mean[k] ** 2 / scale**2).sum()
    np.testing.assert_allclose(state.value[0], value, rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_component_changes_nothing(name):
    X, _ = draw()
    model = model_of(X, "point_laplace", stepwise=False)
    point = start_of(model)
    one = point.only(np.array([True, False]))
    alone = iterate(model_of(X, k=1, stepwise=False), SCORES[name], one)
    loadings = np.concatenate([one.loadings, np.zeros_like(one.loadings)], axis=1)
    both = iterate(
        model, SCORES[name], point._replace(loadings=loadings, spread=one.spread * [1.0, 0.0])
    )
    if name == "integrated":
        np.testing.assert_allclose(both.value, alone.value, rtol=1e-12)
    assert not both.shrunk.mean[0, 1].any()


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    prior=st.sampled_from([name for name in PRIORS if name not in ("flat", "point_mass")]),
    noise=st.sampled_from(list(NOISES)),
    name=st.sampled_from(NAMES),
)
def test_objective_never_falls(seed, prior, noise, name):
    X, _ = draw(seed=seed)
    model = model_of(X, make_family(prior), noise)
    values = []
    settle(
        model,
        SCORES[name],
        start_of(model),
        lambda states: values.append(states.value[0]),
        tol=1e-6,
        max_iter=12,
    )
    assert np.diff(values).min() >= -1e-9 * abs(values[-1])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noise", NOISES)
def test_covariance_will_do(name, noise):
    X, _ = draw(n=60, p=30, seed=3)
    model = EBCD(K, scores=name, noise=noise).fit(X)
    other = EBCD(K, scores=name, noise=noise).fit_covariance(np.cov(X.T, bias=True), len(X))
    for attribute in ("components_", "components_sd_", "lfsr_", "elbo_"):
        left, right = getattr(model, attribute), getattr(other, attribute)
        np.testing.assert_allclose(left, right, rtol=1e-8, atol=1e-8)


def test_steps_of_priors_that_went_too_far_become_shorter():
    X, _ = draw(p=30, k=3, seed=33, strength=0.3)
    model = model_of(X, k=3)
    options = {"tol": 1e-5, "max_iter": 500}
    found = settle(model, SCORES["relaxed"], start_of(model, 3), lambda s: False, **options)
    assert found.converged
    assert found.n_iter < 40  # 77 if every iteration tries the whole step again


@pytest.mark.slow
def test_correlated_scores_do_not_mix_components():
    errors = {name: [] for name in SCORES}
    for seed in range(2):
        X, L = draw(n=100, p=200, k=3, seed=seed, correlation=0.6)
        for name in SCORES:
            found = EBCD(3, scores=name).fit(X).components_
            errors[name].append(component_angles(L.T, found.T).mean())
    for name in NAMES:
        assert np.mean(errors[name]) < 0.4 * np.mean(errors["orthogonal"])


def test_lengths_are_those_of_the_population():
    ratios = {name: [] for name in SCORES}
    for seed in range(5):
        X, L = draw(n=2000, p=20, seed=seed, strength=0.5)
        for name in SCORES:
            model = EBCD(K, scores=name).fit(X)
            total = model.explained_variance_.sum() / (L**2).sum()
            ratios[name].append(total)
    assert all(abs(np.mean(ratios[name]) - 1) < 0.03 for name in NAMES)
    assert np.mean(ratios["orthogonal"]) > 1.1


def test_lengths_shorten_by_the_noise_of_estimated_scores():
    loadings = np.full((1, 100), 0.5)
    factor = shortening(loadings, np.array([2.0]))
    np.testing.assert_allclose(factor**2, 1 - 100 / 99 / 50)
    weaker_than_noise = shortening(np.full((1, 4), 1e-3), np.ones(1))
    np.testing.assert_allclose(weaker_than_noise, 0.1)


@pytest.mark.parametrize("name", NAMES)
def test_components_that_vanish_on_the_way(name):
    rng = np.random.default_rng(0)
    L = 0.3 * rng.laplace(size=(4, 2500)) * (rng.random((4, 2500)) < 0.1)
    X = rng.normal(size=(100, 4)) @ L + rng.normal(size=(100, 2500))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = EBCD(4, scores=name, max_iter=100).fit(X)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(model.elbo_path_).all()


def test_empty_components_are_not_followed_until_they_rest():
    X = ebcd.datasets.make_simulation(2, n_samples=50, random_state=1004)[0]
    model = EBCD(3, scores="integrated").fit(X)
    assert model.n_components_ == 2
    assert model.n_iter_ < 66  # 70 if its weight and scale have to come to rest,
    assert model.elbo_ == pytest.approx(-35567.3660, abs=1e-3)  # to the same end


def test_uncertain_scores_do_not_hold_estimates_back():
    n = p = 200
    slopes, spreads = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth, z = rng.normal(size=p), rng.normal(size=n)
        truth *= np.sqrt(3) / np.linalg.norm(truth)
        z *= np.sqrt(n) / np.linalg.norm(z)  # without chance, which the noise is to include
        X = np.outer(z, truth) + rng.normal(size=(n, p))
        model = ebcd.EBCD(1, prior="normal", scores="integrated", center=False).fit(X)
        observed, noise, back = model._posterior
        x = observed[0] * back * np.sign(observed[0] @ truth)
        slopes.append(x @ truth / 3)
        spreads.append(np.std((x - slopes[-1] * truth) / (noise[0] * back)))
    assert abs(np.mean(slopes) - 1) < 0.04
    assert 0.9 < np.mean(spreads) < 1.15


def test_uncertainty_where_rounding_leaves_nothing_of_a_component():
    """Second moments less the posterior covariance are zero then, or a little less."""
    loadings = np.array([np.ones(P), np.full(P, 1e-12)])
    spread = np.diag([0.1, 1.0])
    moments = Moments(np.diag([1.0, 1.0 - 1e-16]), spread, np.zeros(1), spread)
    prior = make_family("normal").build(scale=1.0, mode=0.0)
    ones = np.ones((1, 1))
    state = State(loadings, loadings, loadings**2, ones, ones[0], [prior] * 2, 0.0, moments)
    found = population(IntegratedScores(), state, N)
    assert np.isfinite(found.noise).all()
    assert (found.noise[1] > 1e3 * found.noise[0]).all()


@pytest.mark.parametrize("name", NAMES)
def test_uncertainty_grows_with_what_scores_do_not_tell(name):
    X, _ = draw(n=100, p=40, seed=2)
    given = EBCD(K).fit(X)
    model = EBCD(K, scores=name).fit(X)
    large = np.abs(model.components_) > 1
    assert (model.components_sd_ > given.components_sd_)[large].all()
    lower, upper = model.credible_intervals()
    assert ((lower < model.components_) & (model.components_ < upper))[large].all()


@pytest.mark.parametrize("name", SCORES)
def test_scores_of_training_data_are_a_linear_map(name):
    X, _ = draw(n=80, p=30)
    model = EBCD(K, scores=name)
    Z = model.fit_transform(X)
    np.testing.assert_allclose(Z, model.transform(X))
    square = (Z**2).mean(axis=0)
    if name == "orthogonal":
        np.testing.assert_allclose(square, 1, rtol=1e-8)
    if name == "integrated":
        tau = 1 / model.noise_variance_
        scale = model.components_ @ model.components_.T * tau
        means = tau * (X - X.mean(axis=0)) @ model.components_.T @ np.linalg.inv(np.eye(K) + scale)
        np.testing.assert_allclose(Z, means, rtol=0.05, atol=0.02)  # variances aside
        assert (square < 1).all()


def test_relaxed_scores_need_two_samples_more_than_components():
    X, _ = draw(n=6, p=10)
    with pytest.raises(ValueError, match=r"two more samples than components, .*n_components=5"):
        EBCD(5, scores="relaxed").fit(X)


@pytest.mark.parametrize(
    ("n", "p", "k", "scale"),
    [(10, 30, 10, False), (4, 10, 4, True), (20, 50, 20, True), (2, 8, 2, False)],
)
def test_as_many_components_as_samples(n, p, k, scale):
    """Centred data have a rank below k, so that loadings of the starts depend on each other."""
    X = np.random.default_rng(0).normal(size=(n, p))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", UserWarning)
        model, one_less = (EBCD(m, scores="integrated", scale=scale).fit(X) for m in (k, k - 1))
    assert np.isfinite(model.elbo_path_).all()
    assert model.elbo_ >= one_less.elbo_ - 0.1
    assert np.isfinite(model.components_sd_).all()


@pytest.mark.parametrize("name", NAMES)
def test_large_data_end_where_their_covariance_does(name):
    rng = np.random.default_rng(4)
    L = 3 * rng.laplace(size=(3, 900)) * (rng.random((3, 900)) < 0.1)
    X = rng.normal(size=(450, 3)) @ L + rng.normal(size=(450, 900))
    growing = EBCD(3, scores=name, tol=1e-6).fit(X)  # more rows than an exact factor has
    path = np.diff(growing.elbo_path_)
    assert path.min() >= -1e-9 * abs(growing.elbo_)
    model = model_of(X - X.mean(axis=0), k=3)
    exact = settle(model, SCORES[name], start_of(model, 3), lambda s: False, tol=1e-6, max_iter=500)
    assert growing.elbo_ > exact.states.value[0] - 1e-3


@pytest.mark.parametrize(("name", "factor"), [("relaxed", 1 / 3), ("integrated", 10.0)])
def test_lengths_do_not_depend_on_the_scale_of_a_prior_that_is_given(name, factor):
    """Loadings take the scale of their prior, and scores become the shorter or longer for it."""
    X, _ = draw(n=50, p=300, strength=1.0)
    free = EBCD(K, scores=name).fit(X)
    prior = [g.rescaled(factor) for g in free.priors_]
    given = EBCD(K, prior=prior, scores=name).fit(X)
    ratio = np.sort(given.explained_variance_) / np.sort(free.explained_variance_)
    np.testing.assert_allclose(ratio, 1, atol=0.1)
    np.testing.assert_allclose(np.mean(given.transform(X) ** 2, axis=0), 1, atol=0.1)
    spread = given.bootstrap(n_boot=5, random_state=0).components
    ratio = (spread**2).sum(axis=2).mean(axis=0) / given.explained_variance_
    np.testing.assert_allclose(ratio, 1, atol=0.3)


class TestCorrelationsOfRelaxedScores:
    """They are left at zero where the data say less about them than their prior."""

    @staticmethod
    def dense(n=100, p=30, k=4, seed=0):
        """Draw normal loadings, which say nothing about their rotation."""
        rng = np.random.default_rng(seed)
        return rng.normal(size=(n, k)) @ rng.normal(size=(k, p)) + 2 * rng.normal(size=(n, p))

    @staticmethod
    def correlations(model, X):
        return np.abs(np.tril(np.corrcoef(model.transform(X).T), -1)).max()

    @pytest.mark.parametrize("start", ["auto", "varimax", "greedy"])
    def test_none_for_dense_loadings(self, start):
        X = self.dense()
        relaxed, paper = (
            EBCD(4, start=start, scores=scores, tol=1e-7).fit(X)
            for scores in ("relaxed", "orthogonal")
        )
        assert self.correlations(relaxed, X) < 1e-6
        assert relaxed.elbo_ == pytest.approx(paper.elbo_, abs=1e-4)
        assert component_angles(paper.components_.T, relaxed.components_.T).max() < 1e-3
        # as ever, lengths and uncertainties are about the population
        assert (relaxed.explained_variance_ < paper.explained_variance_).all()
        assert relaxed.components_sd_.mean() > paper.components_sd_.mean()
        assert (np.diff(relaxed.elbo_path_) >= -1e-9 * abs(relaxed.elbo_)).all()

    def test_no_longer_followed_than_they_may_win(self, monkeypatch):
        """A fit that follows them to the end takes longer, and ends in the same optimum."""
        fits, calls, plain = [], [], iterate
        monkeypatch.setattr(
            "ebcd.fitting._scores.iterate", lambda *a, **kw: calls.append(1) or plain(*a, **kw)
        )
        for hope in (100.0, 1e9):
            monkeypatch.setattr("ebcd.fitting._scores.SETTINGS", ScoreSettings(hope=hope))
            calls.clear()
            fits.append((EBCD(4, scores="relaxed").fit(self.dense()).elbo_, len(calls)))
        (elbo, n), (of_patient, n_patient) = fits
        assert n < 0.75 * n_patient
        assert elbo == pytest.approx(of_patient, abs=1e-6)

    def test_that_the_data_tell_stay(self):
        X, _ = draw(n=200, p=60, k=3, correlation=0.4)
        assert 0.2 < self.correlations(EBCD(3, scores="relaxed").fit(X), X) < 0.6

    def test_in_large_data(self, monkeypatch):
        """A factor that grows decides as a whole one."""
        X = self.dense(n=300, p=120)
        sparse, _ = draw(n=300, p=120, k=3)
        whole = [EBCD(k, scores="relaxed", tol=1e-6).fit(x) for k, x in ((4, X), (3, sparse))]
        monkeypatch.setattr("ebcd.fitting._decompose.SIZES", SizeSettings(exact_rows=20))
        for model, x in zip(whole, (X, sparse), strict=True):
            again = EBCD(model.n_components_, scores="relaxed", tol=1e-6).fit(x)
            assert again.elbo_ == pytest.approx(model.elbo_, abs=1e-3)
        assert self.correlations(whole[0], X) < 1e-6 < 1e-3 < self.correlations(whole[1], sparse)

    @pytest.mark.slow
    def test_with_missing_entries(self):
        X, (sparse, _) = self.dense(), draw(n=100, p=30, k=3)
        for x, k, left_at_zero in ((X, 4, True), (sparse, 3, False)):
            x[np.random.default_rng(1).random(x.shape) < 0.1] = np.nan
            fits = [EBCD(k, scores=name).fit(x) for name in ("relaxed", "orthogonal")]
            assert left_at_zero == (component_angles(*(f.components_.T for f in fits)).max() < 0.01)

    @pytest.mark.parametrize("max_iter", [3, 7])  # before and after it is decided
    def test_resumed(self, tmp_path, max_iter):
        X, options = self.dense(), {"scores": "relaxed", "tol": 1e-7}
        straight, path = EBCD(4, **options).fit(X), tmp_path / "fit.npz"
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            EBCD(4, checkpoint=path, max_iter=max_iter, **options).fit(X)
        resumed = EBCD(4, checkpoint=path, **options).fit(X)
        assert resumed.elbo_ == pytest.approx(straight.elbo_, abs=1e-5)
        assert self.correlations(resumed, X) < 1e-6

    def test_of_bootstrap_draws(self, tmp_path):
        """They are fitted as the model was, which a file does not forget."""
        X = self.dense()
        model = EBCD(4, scores="relaxed").fit(X)
        ebcd.save(model, tmp_path / "model.npz")
        for one in (model, ebcd.load(tmp_path / "model.npz")):
            problem = _problem(one, from_matrix(X, True, False).covariance)
            assert isinstance(problem.scores, UncorrelatedScores)
            assert problem.scores.rival is None


@pytest.mark.parametrize("scores", ["relaxed", "integrated"])
def test_given_loadings_may_belong_to_correlated_scores(scores):
    """From its own loadings a fit ends no lower, also where orthogonal scores lead elsewhere."""
    rng = np.random.default_rng(3)
    loadings = np.zeros((2, 14))
    loadings[0, :5], loadings[1, 6:10] = 2.0, [1.0, -1.0, 1.2, 0.8]
    units = np.exp(rng.normal(size=14))
    z = rng.normal(size=(80, 2))
    z[:, 1] += 0.6 * z[:, 0]
    X = (z @ loadings + rng.normal(size=(80, 14))) * units
    model = EBCD(2, scores=scores).fit(X)
    again = EBCD(2, scores=scores, start=10 * model.components_.T).fit(X)
    assert again.elbo_ > model.elbo_ - 0.01
