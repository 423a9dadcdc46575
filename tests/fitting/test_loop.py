"""The loop against explicit computations with the data and their scores."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebcd import EBCD, ebnm
from ebcd.data import CovarianceMatrix, from_matrix
from ebcd.fitting._loop import Problem, _Walk, alternate
from ebcd.fitting._newton import newton_step
from ebcd.fitting._noise import NOISES
from ebcd.fitting._rotation import inverse_root, rotate, score_map
from ebcd.fitting._scores import FactorScores, Limits, WeightScores, scores_of
from ebcd.fitting._shrinkers import EmpiricalBayesShrinker
from ebcd.priors import PRIORS, make_family, make_prior

SEEDS = st.integers(0, 2**32 - 1)
PSEUDO = 0.2  # share of the samples that count as seen again as pure noise, with noise per feature


def draw(seed=0, n=40, p=12, k=2):
    rng = np.random.default_rng(seed)
    L = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.5) * np.linspace(3, 2, k)[:, None]
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))


def make_problem(X, *priors, noise="constant"):
    covariance = from_matrix(X, False, False, None).covariance
    families = [make_family(prior) if isinstance(prior, str) else prior for prior in priors]
    shrinker = EmpiricalBayesShrinker(families or [make_family("point_laplace")])
    return Problem(covariance, shrinker, NOISES[noise](covariance))


def polar_scores(X, weighted):
    """Scores with mean square one that fit best: the polar factor of ``X @ weighted``."""
    left, _, right = np.linalg.svd(X @ weighted, full_matrices=False)
    return np.sqrt(len(X)) * left @ right


def explicit_iteration(X, L, tau, prior):
    """One iteration with explicit scores; `tau` has one entry per feature.

    Returns posterior means, variances, residual sums of squares and minus the divergence of the
    posterior from the prior.
    """
    n = len(X)
    Z = polar_scores(X, tau[:, None] * L)
    s = 1 / np.sqrt(n * tau)
    fits = [ebnm(column, s=s, prior=prior) for column in (X.T @ Z / n).T]
    mean = np.column_stack([fit.mean for fit in fits])
    variance = np.column_stack([fit.sd**2 for fit in fits])
    B = X.T @ Z / n
    surprise = ((B - mean) ** 2 + variance) / s[:, None] ** 2 + np.log(2 * np.pi * s[:, None] ** 2)
    divergence = sum(fit.log_likelihood for fit in fits) + 0.5 * surprise.sum()
    squares = ((X - Z @ mean.T) ** 2).sum(axis=0) + n * variance.sum(axis=1)
    return mean, variance, squares, divergence


class TestOneIteration:
    """In the units of the data: the working unit is undone by hand."""

    @pytest.mark.parametrize("prior", ["point_laplace", "normal", "point_normal", "laplace"])
    @pytest.mark.parametrize("shape", [(40, 12), (9, 20)])
    def test_constant_noise(self, prior, shape):
        X = draw(1, *shape)
        n, p = shape
        L = np.random.default_rng(2).normal(size=(p, 2))
        tau = 0.7
        mean, variance, squares, divergence = explicit_iteration(X, L, np.full(p, tau), prior)
        new = n * p / squares.sum()
        elbo = -0.5 * n * p * np.log(2 * np.pi / new) - 0.5 * new * squares.sum() + divergence

        problem = make_problem(X, prior)
        unit = problem.covariance.unit
        state = problem.iterate(L.T / unit, np.asarray(tau * unit**2), (0, 1), None)
        np.testing.assert_allclose(state.mean.T * unit, mean, atol=1e-6)
        np.testing.assert_allclose(state.variance.T * unit**2, variance, atol=1e-6)
        assert float(state.precision) / unit**2 == pytest.approx(new, rel=1e-7)
        assert state.value - n * p * np.log(unit) == pytest.approx(elbo, abs=1e-5)

    @pytest.mark.parametrize("prior", ["point_laplace", "normal"])
    def test_noise_per_feature(self, prior):
        X = draw(1)
        n, p = X.shape
        rng = np.random.default_rng(2)
        L, tau = rng.normal(size=(p, 2)), rng.uniform(0.5, 2.0, p)
        mean, _, squares, divergence = explicit_iteration(X, L, tau, prior)
        variances = (X**2).mean(axis=0)
        more = PSEUDO * n
        new = (n + more) / (squares + more * variances)
        elbo = 0.5 * (n * np.log(new / (2 * np.pi)) - new * squares).sum() + divergence
        ratio = new * variances
        prior_of_precisions = 0.5 * more * (np.log(ratio) - ratio).sum()

        problem = make_problem(X, prior, noise="per_feature")
        unit = problem.covariance.unit
        state = problem.iterate(L.T * tau, tau * unit**2, (0, 1), None)
        np.testing.assert_allclose(state.mean.T * unit, mean, atol=1e-6)
        np.testing.assert_allclose(state.precision / unit**2, new, rtol=1e-6)
        assert state.value - n * p * np.log(unit) == pytest.approx(
            elbo + prior_of_precisions, abs=1e-5
        )

    def test_warm_priors_change_nothing(self):
        problem = make_problem(draw(3))
        state = problem.start(np.random.default_rng(0).normal(size=(2, 12)))
        warm = problem.plain(state, state.mean)
        cold = problem.iterate(state.mean, state.precision, state.components, None)
        assert warm.value == pytest.approx(cold.value, abs=1e-5)
        np.testing.assert_allclose(warm.mean, cold.mean, atol=1e-4)


class TestRotation:
    @given(SEEDS, st.booleans())
    def test_scores_are_the_polar_factor(self, seed, uneven):
        X = draw(seed)
        rng = np.random.default_rng(seed)
        L = rng.normal(size=(2, 12))
        tau = rng.uniform(0.5, 2, 12) if uneven else np.asarray(1.3)
        S = CovarianceMatrix(X.T @ X / 40, 40)
        W, B = score_map(S, L, tau)
        Z = polar_scores(X / S.unit, (L * tau).T)
        np.testing.assert_allclose(X / S.unit @ W, Z, atol=1e-7)
        np.testing.assert_allclose(B, Z.T @ X / S.unit / 40, atol=1e-7)

    @given(SEEDS)
    def test_inverse_root(self, seed):
        A = np.random.default_rng(seed).normal(size=(5, 3))
        gram = A.T @ A
        root = inverse_root(gram)
        np.testing.assert_allclose(root @ gram @ root, np.eye(3), atol=1e-6)

    def test_inverse_root_of_a_singular_matrix(self):
        v = np.array([[3.0], [4.0]])
        np.testing.assert_allclose(inverse_root(v @ v.T), v @ v.T / 125, atol=1e-12)
        np.testing.assert_array_equal(inverse_root(np.zeros((2, 2))), 0.0)


class TestNewton:
    """The criterion with priors fixed: sum of f(B), f' = G and f'' = H, on orthonormal scores."""

    n, p, k = 8, 12, 3

    def setup(self, seed, bend):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(self.n, self.p)) * np.linspace(2, 0.5, self.n)[:, None]
        S = CovarianceMatrix(X.T @ X / self.n, self.n)
        W, b = rotate(S, rng.normal(size=(self.k, self.p)))
        # near an optimum: gradients that the scores fit well
        gradient = rng.uniform(0.6, 1.0, self.k)[:, None] * b + 0.05 * rng.normal(size=b.shape)
        return S, W, b, gradient, bend * rng.uniform(0.2, 0.4, size=b.shape)

    def model(self, S, W, b, gradient, bend):
        """Gradient and Hessian of the model on a basis of the tangent space, by brute force."""
        matrix = S.matmul(np.eye(self.p))
        inner = b @ gradient.T
        curvature = 0.5 * (inner + inner.T)
        size = self.k * self.p
        metric = np.kron(np.eye(self.k), matrix)
        hessian = np.kron(curvature, matrix) - sum(
            np.kron(np.diag(np.eye(self.k)[i]), matrix @ np.diag(bend[i]) @ matrix)
            for i in range(self.k)
        )
        normals = [
            np.outer(np.eye(self.k)[i], b[j]).ravel() + np.outer(np.eye(self.k)[j], b[i]).ravel()
            for i in range(self.k)
            for j in range(i + 1)
        ]  # directions D with sym(B' D) = 0 are tangent
        _, values, right = np.linalg.svd(np.array(normals))
        tangent = right[len(values) :].T
        # only what the scores see: drop directions that the data do not have
        seen, vectors = np.linalg.eigh(tangent.T @ metric @ tangent)
        tangent = tangent @ vectors[:, seen > 1e-10 * seen[-1]]
        assert tangent.shape[0] == size
        return tangent, tangent.T @ metric @ gradient.ravel(), tangent.T @ hessian @ tangent

    @given(SEEDS)
    @settings(max_examples=25)
    def test_solves_the_newton_equations(self, seed):
        S, W, b, gradient, bend = self.setup(seed, bend=0.5)
        tangent, slope, hessian = self.model(S, W, b, gradient, bend)
        if np.linalg.eigvalsh(hessian)[0] <= 0.1:
            return
        exact = (tangent @ np.linalg.solve(hessian, slope)).reshape(b.shape)
        step, s_step, length = newton_step(
            S, W, b, gradient, bend, reach=100.0, accuracy=1e-9, most=200
        )
        # directions in the null space of S are the same scores
        np.testing.assert_allclose(S.matmul(step.T), S.matmul(exact.T), atol=1e-6)
        np.testing.assert_allclose(s_step.T, S.matmul(exact.T), atol=1e-6)
        assert length == pytest.approx(np.sqrt(np.vdot(exact, S.matmul(exact.T).T)), rel=1e-5)

    @given(SEEDS)
    @settings(max_examples=25)
    def test_few_products_still_climb_the_model(self, seed):
        S, W, b, gradient, bend = self.setup(seed, bend=0.5)
        _, s_step, length = newton_step(S, W, b, gradient, bend, reach=0.5, accuracy=0.3, most=2)
        assert np.vdot(gradient, s_step) > 0
        assert length <= 0.5 + 1e-12

    def test_goes_to_the_border_where_the_criterion_curves_upwards(self):
        S, W, b, gradient, bend = self.setup(3, bend=50.0)
        _, s_step, length = newton_step(S, W, b, gradient, bend, reach=0.2, accuracy=0.1, most=20)
        assert length == 0.2
        assert np.vdot(gradient, s_step) > 0

    def test_stays_at_a_stationary_point(self):
        S, W, b, _, bend = self.setup(4, bend=0.5)
        step, _, length = newton_step(S, W, b, 0.8 * W, bend, reach=0.5, accuracy=0.1, most=20)
        assert length == 0.0
        assert not step.any()

    def test_scores_are_not_lost_in_the_null_space(self):
        """Few samples: most directions of the weights mean nothing, and must not grow."""
        problem = make_problem(draw(0, n=12, p=200, k=2))
        problem.scores = WeightScores(problem.covariance)
        state = problem.start(np.random.default_rng(0).normal(size=(2, 200)))
        fit = alternate(problem, state, tol=0.0, max_iter=60)
        length = np.linalg.norm(fit.state.scores, axis=1)
        assert (length < 100 * np.linalg.norm(state.scores, axis=1)).all()

    @given(SEEDS, st.sampled_from([0.3, 2.0, 50.0]), st.sampled_from([1, 3, 20]))
    @settings(max_examples=25)
    def test_coordinates_of_a_factor_take_the_same_step(self, seed, bend, most):
        S, W, b, gradient, bend = self.setup(seed, bend)
        by_weights, by_factor = WeightScores(S), scores_of(S)
        assert isinstance(by_factor, FactorScores)
        limits = Limits(0.4, 0.1, most)
        step = by_weights.newton(W, b, gradient, bend, limits)
        own, same = by_factor.nearest(W)
        np.testing.assert_allclose(same, b, atol=1e-10)
        other = by_factor.newton(own, b, gradient, bend, limits)
        assert other.length == pytest.approx(step.length, rel=1e-6, abs=1e-9)
        np.testing.assert_allclose(other.own @ S.factor, step.dual, atol=1e-6)
        assert other.inner(other) == pytest.approx(step.inner(step))
        moved, there = by_factor.moved(own, b, other, 1.5)
        np.testing.assert_allclose(moved @ moved.T, np.eye(self.k), atol=1e-12)
        np.testing.assert_allclose(there, by_weights.moved(W, b, step, 1.5)[1], atol=1e-6)

    def test_parts_of_the_features_add_up(self, monkeypatch):
        S, W, b, gradient, bend = self.setup(5, bend=0.5)
        limits = Limits(0.4, 0.1, 5)
        own, _ = scores_of(S).nearest(W)
        whole = scores_of(S).newton(own, b, gradient, bend, limits)
        monkeypatch.setattr("ebcd.fitting._scores._BLOCK", 30)
        parts = scores_of(S).newton(own, b, gradient, bend, limits)
        np.testing.assert_allclose(parts.own, whole.own, atol=1e-12)


class TestAlternate:
    def test_ends_at_a_fixed_point(self):
        problem = make_problem(draw(5))
        fit = alternate(
            problem, problem.start(np.random.default_rng(0).normal(size=(2, 12))), tol=1e-9,
            max_iter=1000,
        )  # fmt: skip
        again = problem.plain(fit.state, fit.state.mean)
        assert fit.converged
        assert again.value == pytest.approx(fit.state.value, abs=1e-7)
        np.testing.assert_allclose(again.mean, fit.state.mean, atol=1e-3)

    @given(SEEDS)
    @settings(max_examples=15)
    def test_no_worse_than_plain_iteration(self, seed):
        problem = make_problem(draw(seed, n=25, p=10))
        first = problem.start(np.random.default_rng(seed).normal(size=(2, 10)))
        plain = first
        for _ in range(15):
            plain = problem.plain(plain, plain.mean)
        fit = alternate(problem, first, tol=1e-6, max_iter=500)
        # from a random start the two may end in different optima, but not often far apart
        assert fit.path[0] == first.value
        assert fit.state.value >= plain.value - 10.0
        assert (np.diff(fit.path) >= -1e-9 * abs(fit.path[-1])).all()

    def test_reports_progress(self):
        problem = make_problem(draw(5))
        seen = []
        fit = alternate(
            problem, problem.start(np.random.default_rng(0).normal(size=(2, 12))), tol=1e-5,
            max_iter=100, progress=lambda *report: seen.append(report),
        )  # fmt: skip
        numbers, states, seconds = zip(*seen, strict=True)
        assert list(numbers) == sorted(numbers)
        assert [state.value for state in states] == fit.path[1:]
        assert all(second >= 0 for second in seconds)

    def test_says_when_it_did_not_converge(self):
        problem = make_problem(draw(5))
        first = problem.start(np.random.default_rng(0).normal(size=(2, 12)))
        assert not alternate(problem, first, tol=1e-5, max_iter=2).converged

    def test_components_that_vanish_are_dropped_and_numbers_kept(self):
        X = draw(6, k=3)
        priors = ["normal", "point_mass", "laplace"]
        problem = make_problem(X, *priors)
        first = problem.start(np.random.default_rng(0).normal(size=(3, 12)))
        fit = alternate(problem, first, tol=1e-5, max_iter=200)
        assert fit.state.components == (0, 2)
        assert [prior.family for prior in fit.state.fitted] == ["normal", "laplace"]
        assert fit.state.mean.shape == fit.state.variance.shape == fit.state.b.shape == (2, 12)

    def test_nothing_left(self):
        problem = make_problem(draw(6), "point_mass")
        fit = alternate(problem, problem.start(np.ones((2, 12))), tol=1e-5, max_iter=50)
        assert fit.state.components == ()
        assert fit.converged


# The families whose fits are slow have fewer examples.
FAST = ["point_normal", "point_laplace", "point_exponential", "normal", "laplace", "flat"]
STARTS = ["auto", "greedy", "svd", "varimax", "loadings"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:no component was found")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS)
def test_elbo_never_falls(prior, noise, start):
    most = 3 if prior in FAST or start != "auto" else 2  # ten starts from three components on

    @given(SEEDS)
    @settings(max_examples=6 if prior in FAST else 2)
    def check(seed):
        rng = np.random.default_rng(seed)
        n, p, k = (int(rng.integers(*limits)) for limits in [(5, 16), (4, 10), (1, most + 1)])
        X, loadings = draw(seed, n, p, k), rng.normal(size=(p, k))
        model = EBCD(
            k,
            prior=prior,
            noise=noise,
            start=loadings if start == "loadings" else start,
            max_iter=8,
        ).fit(X)
        path = model.elbo_path_
        assert np.isfinite(path).all()
        assert (np.diff(path) >= -1e-9 * np.abs(path[1:])).all()

    check()


@pytest.mark.parametrize("grid", [None, np.linspace(-12, 12, 97)])
@pytest.mark.parametrize("seed", range(3))
def test_criterion_of_deconvolver_is_the_elbo_less_the_penalty(seed, grid):
    problem = make_problem(draw(seed), make_family("deconvolver", grid=grid, c0=2.0))
    state = problem.start(np.random.default_rng(seed).normal(size=(2, 12)))
    values = [state.value]
    for _ in range(12):
        state = problem.plain(state, state.mean)
        values.append(state.value)
    assert (np.diff(values) >= -1e-9 * np.abs(values[1:])).all()

    s = float(state.noise)
    surprise = ((state.b - state.mean) ** 2 + state.variance) / s**2 + np.log(2 * np.pi * s**2)
    likelihoods = [g.log_likelihood(b, s) for g, b in zip(state.fitted, state.b, strict=True)]
    residual = problem.residual(state.b, state.mean) + state.variance.sum(axis=0)
    elbo = problem.noise.value(state.precision, residual) + sum(likelihoods) + 0.5 * surprise.sum()
    # log weights are a basis of mean zero and mean square one times alpha
    sizes = [np.std(np.log(prior.parameters["weights"])) for prior in state.fitted]
    assert state.value == pytest.approx(elbo - 2.0 * sum(sizes), abs=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_stops_when_little_is_left_to_gain(seed):
    X = draw(seed, n=50, p=60, k=3)
    model, tol = EBCD(3, center=False).fit(X), 1e-5
    gains = np.diff(model.elbo_path_)
    sure = gains[-1] < tol / 10 or (len(gains) > 1 and gains[-1] < 0.25 * gains[-2])
    assert gains[-1] < tol
    assert sure or gains[-2] < tol
    strict = EBCD(3, center=False, tol=tol / 1000, max_iter=5_000).fit(X)
    assert strict.elbo_ - model.elbo_ < 1e-2 * X.size / 1e6


def test_a_gain_is_not_compared_with_that_of_a_lengthened_step(monkeypatch):
    problem = make_problem(draw(n=50, p=60, k=3))
    walk = _Walk(problem, problem.start(np.eye(3, 60)), 100, faithful=False, enough=0.0)
    factors = [1.0, 1.0, 1.0, 1.5, 1.0, 1.0, 1.0, 1.0]
    steps = iter(factors)
    monkeypatch.setattr(_Walk, "_stretch", lambda self, step: next(steps))
    gains, steep = zip(*[(walk.advance(), walk.steep) for _ in factors], strict=True)
    falls = [after <= 0.25 * before for before, after in pairwise(gains)]
    assert min(gains) > 0
    assert falls[2]
    assert falls[3]
    falls[2:4] = False, False
    assert any(falls)
    assert list(steep) == [False, *falls]


class TestShrinker:
    def test_one_sided_rows_are_turned(self):
        rng = np.random.default_rng(0)
        rows = rng.exponential(size=(2, 30)) * np.array([[1.0], [-1.0]])
        for name, side in [("unimodal_nonnegative", 1), ("unimodal_nonpositive", -1)]:
            turned = EmpiricalBayesShrinker([make_family(name)]).oriented(rows)
            assert (turned.sum(axis=1) * side > 0).all()
        kept = EmpiricalBayesShrinker([make_family("normal")]).oriented(rows)
        np.testing.assert_array_equal(kept, rows)

    def test_each_component_has_its_own_prior(self):
        priors = [make_family("normal"), make_prior("point_laplace", weight=0.5, scale=1.0)]
        shrinker = EmpiricalBayesShrinker(priors)
        b = np.random.default_rng(0).normal(size=(3, 20))
        shrunk = shrinker.shrink(b, np.asarray(0.5), (0, 1, 2), None)
        assert [prior.family for prior in shrunk.fitted] == ["normal", *["point_laplace"] * 2]
        np.testing.assert_allclose(shrunk.mean[0], ebnm(b[0], 0.5, "normal").mean, atol=1e-6)
        np.testing.assert_allclose(shrunk.mean[1], priors[1].shrink(b[1], 0.5), atol=1e-10)
        np.testing.assert_allclose(shrunk.mean[2], priors[1].shrink(b[2], 0.5), atol=1e-10)
