"""How components vary from sample to sample: draws, matching, standard deviations, intervals."""

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array
from scipy.stats import t
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import ebcd
from ebcd import EBCD, Bootstrap, Chunks
from ebcd.data._inputs import from_matrix
from ebcd.estimators._bootstrap import _GaussianDraws, _refitted, matched

N, P = 200, 20
SCORES = ("orthogonal", "relaxed", "integrated")


def true_loadings():
    L = np.zeros((2, P))
    L[0, :6], L[1, 4:10] = np.linspace(1.0, 2.0, 6), [-1.0, 1.2, 1.0, -1.5, 0.8, 1.0]
    return L


def draw(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ true_loadings() + rng.normal(size=(n, P))


def draw_incomplete():
    X = draw()
    X[np.random.default_rng(1).random(X.shape) < 0.15] = np.nan
    return X


@pytest.fixture(scope="module", params=SCORES)
def model(request):
    return EBCD(2, scores=request.param).fit(draw())


class TestDraws:
    def test_in_order_and_sign_of_the_model(self, model):
        components = model.bootstrap(n_boot=10, random_state=0).components
        assert components.shape == (10, 2, P)
        for rows in components:
            cosines = rows @ model.components_.T
            cosines /= np.outer(
                np.linalg.norm(rows, axis=1), np.linalg.norm(model.components_, axis=1)
            )
            assert (np.diag(cosines) > 0.9).all()

    def test_reproducible_for_any_number_of_jobs(self, model):
        first = model.bootstrap(n_boot=6, random_state=1).components
        np.testing.assert_array_equal(
            first, model.bootstrap(n_boot=6, random_state=1, n_jobs=2).components
        )
        assert not np.allclose(first, model.bootstrap(n_boot=6, random_state=2).components)

    @pytest.mark.parametrize(("n", "center"), [(30, True), (8, False)], ids=["triangles", "rows"])
    def test_have_the_moments_of_the_model(self, n, center):
        X = draw(n=n)[:, :12]
        model = EBCD(1, center=center).fit(X)
        source = _GaussianDraws(model)
        rng = np.random.default_rng(0)
        draws = [source.draw(rng).variances for _ in range(4000)]
        freedom = n - 1 if center else n
        estimate = model.bootstrap(n_boot=2).estimate
        variances = (estimate**2).sum(axis=0) + model.noise_variance_ * 12 / 11
        np.testing.assert_allclose(np.mean(draws, axis=0), variances * freedom / n, rtol=0.05)
        np.testing.assert_allclose(
            np.var(draws, axis=0), 2 * freedom * (variances / n) ** 2, rtol=0.15
        )

    def test_of_a_covariance(self):
        X = draw()
        model = EBCD(2).fit_covariance(np.cov(X.T, bias=True), N)
        assert model.bootstrap(n_boot=3, random_state=0).sd.shape == (2, P)

    def test_scaled_data_in_their_own_units(self):
        X, units = draw(), np.geomspace(0.01, 100, P)
        options = {"scale": True, "noise": "per_feature"}
        plain = EBCD(2, **options).fit(X).bootstrap(n_boot=5, random_state=0)
        scaled = EBCD(2, **options).fit(X * units).bootstrap(n_boot=5, random_state=0)
        np.testing.assert_allclose(scaled.components, plain.components * units, rtol=1e-6)

    def test_more_samples_cost_no_more(self):
        model = EBCD(2).fit(draw())
        model.n_samples_ = 10**12  # rows of these data would not fit into memory
        spread = model.bootstrap(n_boot=3, random_state=0).sd
        assert spread.max() < 1e-4


class OneSample:
    """Draws the same data every time."""

    def __init__(self, X, scale):
        self.X, self.scale = X, scale

    def draw(self, rng):
        return from_matrix(self.X, True, self.scale)


@pytest.mark.parametrize(  # every pair of values
    ("scores", "scale", "noise", "prior"),
    [
        ("orthogonal", False, "constant", "point_laplace"),
        ("orthogonal", True, "per_feature", ["normal", "point_laplace"]),
        ("relaxed", False, "per_feature", "point_laplace"),
        ("relaxed", True, "constant", ["normal", "point_laplace"]),
        ("integrated", False, "constant", ["normal", "point_laplace"]),
        ("integrated", True, "per_feature", "point_laplace"),
    ],
)
def test_the_data_of_the_model_lead_back_to_it(scores, scale, noise, prior):
    X = draw() * np.geomspace(0.1, 1, P)
    model = EBCD(2, scores=scores, scale=scale, noise=noise, prior=prior).fit(X)
    [found] = _refitted(model, OneSample(X, scale), seeds=[0])
    expected = model.bootstrap(n_boot=2).estimate
    size = np.abs(expected).max()
    np.testing.assert_allclose(matched(expected, found), expected, atol=0.02 * size)


@pytest.mark.parametrize(  # of which the smaller strength loses components
    ("scores", "noise", "strength"),
    [
        ("orthogonal", "constant", 0.35),
        ("orthogonal", "per_feature", 1.0),
        ("relaxed", "constant", 1.0),
        ("relaxed", "per_feature", 0.35),
        ("integrated", "constant", 0.35),
        ("integrated", "per_feature", 1.0),
    ],
)
def test_fits_to_draws_do_not_depend_on_each_other(scores, noise, strength):
    rng = np.random.default_rng(1)
    X = strength * rng.normal(size=(60, 2)) @ true_loadings() + rng.normal(size=(60, P))
    model = EBCD(2, scores=scores, noise=noise).fit(X)
    source, seeds = _GaussianDraws(model), list(range(8))
    together = [matched(model.components_, found) for found in _refitted(model, source, seeds)]
    alone = [matched(model.components_, *_refitted(model, source, [seed])) for seed in seeds]
    np.testing.assert_allclose(together, alone, atol=1e-3)
    if strength < 1 and scores == "integrated" and noise == "constant":
        assert not np.any(together, axis=-1).all()


class TestRows:
    @pytest.mark.parametrize("kind", [np.asarray, csr_array, csc_array])
    def test_of_any_matrix(self, model, kind):
        X = draw()
        sd = model.bootstrap(X, 10, method="rows", random_state=0).sd
        again = model.bootstrap(kind(X), 10, method="rows", random_state=0).sd
        np.testing.assert_allclose(again, sd, rtol=0.05, atol=1e-3)

    def test_of_a_frame(self):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(draw(), columns=[f"f{j}" for j in range(P)])
        model = EBCD(2).fit(frame)
        assert model.bootstrap(frame, 3, method="rows", random_state=0).sd.shape == (2, P)
        with pytest.raises(ValueError, match="feature names"):
            model.bootstrap(frame[frame.columns[::-1]], 3, method="rows")

    def test_vary_as_much_as_draws_from_the_model(self, model):
        rows = model.bootstrap(draw(), 60, method="rows", random_state=0).sd
        parametric = model.bootstrap(n_boot=60, random_state=0).sd
        used = np.abs(model.components_) > 0.5
        assert 0.8 < np.median(rows[used] / parametric[used]) < 1.25

    def test_need_data_in_memory(self, model):
        with pytest.raises(ValueError, match=r'"rows" draws .* so it needs X; .*"parametric"'):
            model.bootstrap(method="rows")
        with pytest.raises(ValueError, match="X must be a matrix in memory, not Chunks"):
            model.bootstrap(Chunks([draw()]), method="rows")
        with pytest.raises(ValueError, match="X has 100 rows, but the model was fitted to 200"):
            model.bootstrap(draw()[:100], method="rows")
        with pytest.raises(ValueError, match="expecting 20 features"):
            model.bootstrap(draw()[:, :7], method="rows")
        with pytest.raises(ValueError, match="NaN"):
            model.bootstrap(np.where(np.eye(N, P), np.nan, draw()), method="rows")

    @pytest.mark.slow
    def test_with_missing_entries(self):
        X, model = draw_incomplete(), EBCD(2, scores="integrated").fit(draw())
        holed = clone(model).fit(X)
        found = holed.bootstrap(X, 15, method="rows", random_state=0)
        complete = model.bootstrap(draw(), 15, method="rows", random_state=0)
        used = np.abs(holed.components_) > 0.5
        assert 0.8 < np.median(found.sd[used] / complete.sd[used]) < 1.6
        assert holed.stability(X, n_splits=4, random_state=0).min() > 0.7

    @pytest.mark.slow
    def test_with_missing_entries_and_a_list_of_priors(self):
        X = draw_incomplete()
        model = EBCD(2, prior=["normal", "point_laplace"]).fit(X)
        found = model.bootstrap(X, 4, method="rows", random_state=0)
        again = model.bootstrap(X, 4, method="rows", random_state=0, n_jobs=2)
        np.testing.assert_array_equal(found.components, again.components)
        assert np.median(found.sd[np.abs(model.components_) > 0.5]) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("scores", ["orthogonal", "integrated"])
def test_standard_deviations_by_brute_force(scores):
    """Many independent samples of a known model, fitted one by one."""
    L = true_loadings()
    found = [
        matched(L, EBCD(2, scores=scores).fit(draw(seed)).bootstrap(n_boot=2).estimate)
        for seed in range(60)
    ]
    truth = np.std(found, axis=0)
    sd = np.mean(
        [
            matched_sd(EBCD(2, scores=scores).fit(draw(seed)).bootstrap(random_state=0), L)
            for seed in range(4)
        ],
        axis=0,
    )
    used = L != 0
    assert 0.8 < np.median(sd[used] / truth[used]) < 1.25
    np.testing.assert_allclose(np.mean(found, axis=0)[used], L[used], rtol=0.1)


def matched_sd(draws, L):
    order = np.abs(draws.estimate @ L.T).argmax(axis=0)
    return draws.sd[order]


@pytest.fixture(scope="module")
def draws():
    return EBCD(2).fit(draw()).bootstrap(random_state=0)


class TestResult:
    def test_is_about_the_draws(self, draws):
        np.testing.assert_allclose(draws.sd, np.std(draws.components, axis=0, ddof=1))
        wrong = np.sign(draws.components) != np.sign(draws.estimate)
        np.testing.assert_allclose(draws.sign_error, wrong.mean(axis=0))
        used = np.abs(draws.estimate) > 0.7
        assert (draws.sign_error[used] == 0).all()
        assert draws.sign_error[~used].max() > 0.2

    def test_intervals(self, draws):
        wide, narrow = draws.intervals(0.95), draws.intervals(0.5)
        assert wide.shape == (2, 2, P)
        assert (wide[0] <= narrow[0]).all()
        assert (narrow[1] <= wide[1]).all()
        few = Bootstrap(draws.components[:5], draws.estimate).intervals(0.9)
        error = np.sqrt(np.mean((draws.components[:5] - draws.estimate) ** 2, axis=0))
        np.testing.assert_allclose(few[1] - draws.estimate, t(5).ppf(0.95) * error)
        L = matched(draws.estimate, true_loadings())
        assert ((wide[0] <= L) & (wide[1] >= L)).mean() > 0.85

    def test_lengths_are_those_of_the_population(self):
        """Components whose scores are held to mean square one are longer."""
        model = EBCD(1).fit(draw()[:, :5] * 0.5)
        squares = (model.bootstrap(n_boot=2).estimate ** 2).sum()
        longer = (model.components_**2).sum()
        assert squares == pytest.approx(longer - 5 / 4 * model.noise_variance_)


class TestMatching:
    def test_undoes_order_and_signs(self):
        L = np.random.default_rng(0).normal(size=(4, 9))
        np.testing.assert_allclose(matched(L, -L[[2, 0, 3, 1]]), L)

    def test_leaves_zeros_where_nothing_was_found(self):
        L = np.random.default_rng(0).normal(size=(3, 9))
        np.testing.assert_allclose(matched(L, L[[2]]), [L[0] * 0, L[1] * 0, L[2]])
        np.testing.assert_allclose(matched(L, L[:0]), 0 * L)


def test_is_printed_without_its_arrays(model):
    assert repr(model.bootstrap(n_boot=3)) == f"Bootstrap(3 draws of 2 x {P} loadings)"


class TestModels:
    @pytest.mark.parametrize(
        ("prior", "scores"),
        [
            ("normal", "relaxed"),
            ("point_exponential", "orthogonal"),
            ("point_exponential", "integrated"),
            ("flat", "relaxed"),
            ("flat", "integrated"),
            ("horseshoe", "orthogonal"),
        ],
    )
    def test_of_any_family(self, prior, scores):
        draws = EBCD(2, prior=prior, scores=scores).fit(draw()).bootstrap(n_boot=3, random_state=0)
        assert np.isfinite(draws.components).all()
        assert (draws.sd > 0).any()

    def test_families_stay_with_their_components(self):
        """Of a list of priors some may be those of components that were dropped."""
        priors = ["point_mass", "normal", "point_laplace"]
        model = EBCD(3, prior=priors).fit(draw())
        assert [prior.family for prior in model.priors_] == ["normal", "point_laplace"]
        assert np.isfinite(model.bootstrap(n_boot=2, random_state=0).components).all()

    def test_saved_and_loaded(self, model, tmp_path):
        ebcd.save(model, tmp_path / "model.npz")
        again = ebcd.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(
            again.bootstrap(n_boot=3, random_state=0).components,
            model.bootstrap(n_boot=3, random_state=0).components,
        )

    def test_without_components(self):
        with pytest.warns(UserWarning, match="no component"):
            model = EBCD().fit(np.random.default_rng(0).normal(size=(50, 10)))
        draws = model.bootstrap(n_boot=4)
        assert draws.components.shape == (4, 0, 10)
        assert draws.sd.shape == draws.sign_error.shape == (0, 10)
        assert draws.intervals().shape == (2, 0, 10)

    def test_components_of_full_rank(self):
        with pytest.warns(ConvergenceWarning, match="fit the data exactly"):
            model = EBCD(3).fit(draw()[:, [0, 5, 8]])
        assert np.isfinite(model.bootstrap(n_boot=3, random_state=0).components).all()


def test_progress(capsys):
    model = EBCD(2, verbose=1).fit(draw())
    capsys.readouterr()
    model.bootstrap(n_boot=5, random_state=0)
    assert capsys.readouterr().out.startswith("bootstrap fit     5 of 5")
    model.set_params(verbose=0).bootstrap(n_boot=5, random_state=0)
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_boot": 1}, ValueError, "n_boot must be an integer from 2 to 10000, got 1"),
        ({"n_boot": "50"}, TypeError, "n_boot must be an integer"),
        ({"method": "residuals"}, ValueError, 'method must be "parametric" or "rows"'),
        ({"n_jobs": 0}, ValueError, "n_jobs must be an integer other than 0, up to"),
        ({"random_state": -1}, ValueError, "random_state must be"),
    ],
)
def test_bad_parameters(model, options, error, message):
    with pytest.raises(error, match=message):
        model.bootstrap(**options)


def test_bad_level(model):
    with pytest.raises(ValueError, match="level must be a number above 0 and below 1"):
        model.bootstrap(n_boot=2).intervals(95)
