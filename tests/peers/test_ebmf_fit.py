"""The loop of `EBMF`: its ELBO and its updates against brute force, and what it must never do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ebcd.peers._ebmf_model import (
    NOISE_SIDES,
    IncompleteObservations,
    Model,
    Noise,
    Observations,
    observe,
    started,
)
from ebcd.peers._ebmf_search import Search, _Residual, extrapolated, leading_vectors, rotated
from ebcd.priors import PRIORS, make_family

NOISES = list(NOISE_SIDES)

EXCHANGEABLE = [f for f in PRIORS if PRIORS[f].exchangeable and f != "flat"]


def draw(n=12, p=9, k=2, missing=0.0, seed=0, size=2.0):
    rng = np.random.default_rng(seed)
    L = np.where(rng.random((k, p)) < 0.5, rng.normal(size=(k, p)) * size, 0.0)
    X = rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))
    X[rng.random(X.shape) < missing] = np.nan
    X[0], X[:, 0] = np.nan_to_num(X[0]), np.nan_to_num(X[:, 0])  # nothing is missing altogether
    return X


def observed(X, center):
    mean = np.nanmean(X, axis=0) if center else np.zeros(X.shape[1])
    unit = np.sqrt(np.nanmean((X - mean) ** 2))
    return observe(X, mean, unit), mean, unit


def search_of(data, noise="constant", loadings="point_laplace", scores="normal", **options):
    if isinstance(data, np.ndarray):
        data, _, _ = observed(data, False)
    families = [make_family(scores)], [make_family(loadings)]
    options = {"tol": 1e-4, "max_iter": 500} | options
    return Search(data, Noise(data, NOISE_SIDES[noise]), families, **options)


def model_of(X, noise="constant", loadings="point_laplace", n_factors=0):
    model = search_of(X, noise, loadings).model
    families = make_family("normal"), make_family(loadings)
    for _ in range(n_factors):
        model = model.with_factor(families, leading_vectors(model))
    return model


def means_of(model):
    return [side.mean for side in model.sides]


def precision_matrix(model):
    n, p = model.data.shape
    tau = model.precision
    columns = tau[:, None] if model.noise.side == 0 else tau
    return np.broadcast_to(columns, (n, p))


def expected_log_likelihood(model, X):
    """Entry by entry, from means and second moments."""
    tau = precision_matrix(model)
    F, L = means_of(model)
    second = model.sides[0].second.T @ model.sides[1].second
    cross = (F.T @ L) ** 2 - (F**2).T @ L**2
    squares = X**2 - 2 * X * (F.T @ L) + cross + second
    return np.nansum(0.5 * np.log(tau / (2 * np.pi)) - 0.5 * tau * squares)


def divergence(prior, b, s):
    """Divergence of the posterior given b from the prior, by quadrature: spike and slab apart."""
    parameters = prior.parameters
    weight, scale = parameters.get("weight", 1.0), parameters["scale"]
    slab = stats.norm(scale=scale) if "normal" in prior.family else stats.laplace(scale=scale)
    centre = b if "normal" in prior.family else np.sign(b) * max(abs(b) - s**2 / scale, 0.0)
    grid = np.unique(np.concatenate([centre + 12 * s * np.linspace(-1, 1, 40001), [0.0]]))
    density = weight * slab.pdf(grid) * stats.norm.pdf(b, grid, s)
    spike = (1 - weight) * stats.norm.pdf(b, 0, s)
    total = np.trapezoid(density, grid) + spike
    ratio = stats.norm.logpdf(b, grid, s) - np.log(total)  # log posterior / prior
    at_spike = spike / total * (stats.norm.logpdf(b, 0, s) - np.log(total)) if spike > 0 else 0.0
    return np.trapezoid(density / total * ratio, grid) + at_spike


def brute_force_elbo(model, X):
    total = expected_log_likelihood(model, X)
    for side in model.sides:
        for prior, b, s in zip(side.prior, side.b, side.s, strict=True):
            total -= sum(divergence(prior, *entry) for entry in zip(b, s, strict=True))
    return total


class TestElbo:
    @pytest.mark.parametrize("missing", [0.0, 0.2])
    @pytest.mark.parametrize("noise", NOISES)
    def test_by_brute_force(self, noise, missing):
        X = draw(n=25, p=15, missing=missing, size=4.0, seed=1)
        search = search_of(X, noise)
        search.run(2)
        unit = observed(X, False)[2]
        assert search.model.size == 2
        assert search.model.value == pytest.approx(
            brute_force_elbo(search.model, X / unit), abs=1e-6
        )

    @pytest.mark.parametrize(
        "families", [("laplace", "point_normal"), ("point_laplace", "laplace")]
    )
    def test_with_sparse_scores(self, families):
        X = draw(n=15, seed=3, size=4.0)
        search = search_of(X, loadings=families[0], scores=families[1])
        search.run(2)
        assert search.model.size
        expected = brute_force_elbo(search.model, X / observed(X, False)[2])
        assert search.model.value == pytest.approx(expected, abs=1e-6)

    def test_without_factors(self):
        X = draw()
        unit = observed(X, False)[2]
        expected = stats.norm.logpdf(X / unit, scale=np.sqrt(np.mean((X / unit) ** 2))).sum()
        assert model_of(X).value == pytest.approx(expected)


class TestUpdates:
    @pytest.mark.parametrize("missing", [0.0, 0.2])
    @pytest.mark.parametrize("noise", NOISES)
    @pytest.mark.parametrize("side", [0, 1])
    def test_normal_means_problem_by_weighted_sums(self, side, noise, missing):
        X = draw(missing=missing)
        data, _, unit = observed(X, False)
        rng = np.random.default_rng(1)
        means = [rng.normal(size=(3, size)) for size in X.shape]
        variances = [rng.random(mean.shape) for mean in means]
        families = [[make_family("normal")] * 3] * 2
        model = Model(data, Noise(data, NOISE_SIDES[noise]), started(families, means, variances))
        model.precision = rng.random(model.precision.shape) + 0.5
        X = X / unit
        tau = np.where(np.isnan(X), 0.0, precision_matrix(model))
        residual = np.nan_to_num(X - means[0][:2].T @ means[1][:2])
        axis = 1 - side
        there = means[axis][2], means[axis][2] ** 2 + variances[axis][2]
        spread = [v[None] if axis == 1 else v[:, None] for v in there]
        known = (tau * spread[1]).sum(axis=axis)
        b = (tau * spread[0] * residual).sum(axis=axis) / known
        model.update(side, [2])
        found = model.sides[side]
        np.testing.assert_allclose(found.b[2], b, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.s[2], 1 / np.sqrt(known), rtol=1e-10)

    @pytest.mark.parametrize("noise", NOISES)
    def test_complete_data_are_a_special_case_of_incomplete_ones(self, noise):
        X = draw(n=20, p=14)
        data, mean, unit = observed(X, True)
        assert type(data) is Observations
        paths = []
        for kind in (data, IncompleteObservations(X, mean, unit)):
            search = search_of(kind, noise)
            search.run(3)
            paths.append(search.path)
        # solvers for common and for individual noise stop within a millionth of a nat
        np.testing.assert_allclose(paths[0], paths[1], atol=1e-5, rtol=0)


class TestAscent:
    # a few families restart, bin or penalise; their steps down must be refused
    @settings(max_examples=25)
    @given(
        families=st.tuples(*[st.sampled_from(EXCHANGEABLE)] * 2),
        noise=st.sampled_from(NOISES),
        missing=st.sampled_from([0.0, 0.15]),
        seed=st.integers(0, 1000),
    )
    @pytest.mark.slow
    def test_elbo_never_falls(self, families, noise, missing, seed):
        X = draw(missing=missing, seed=seed, n=10, p=8)
        search = search_of(X, noise, *families, max_iter=8)
        search.run(2)
        path = np.array(search.path)
        assert np.isfinite(path).all()
        assert (np.diff(path) >= -1e-9 * np.abs(path[1:])).all()
        assert path[-1] == search.model.value

    @pytest.mark.parametrize("noise", NOISES)
    @pytest.mark.parametrize("loadings", ["point_laplace", "point_normal", "laplace"])
    def test_exact_solvers_need_no_refusals(self, loadings, noise):
        model = model_of(draw(n=30, p=20, seed=4), noise, loadings, n_factors=1)
        values = []
        for _ in range(5):  # later gains are below rounding
            model.iterate([0])
            values.append(model.value)
        assert (np.diff(values) > 0).all()

    def test_useless_factor_is_dropped_and_the_elbo_rises(self):
        rng = np.random.default_rng(5)
        X = rng.normal(size=(40, 30))
        X[:, :10] += 2 * rng.normal(size=(40, 1))
        model = model_of(X, n_factors=2)
        model.iterate([0, 1])
        search = search_of(X)
        search.model = model
        search.backfit()
        assert search.model.size == 1
        alone = search_of(X)
        alone.run(1)
        assert search.model.value == pytest.approx(alone.model.value, abs=1e-2)
        assert search.model.value > model.value

    def test_greedy_stage_stops_at_the_first_useless_factor(self):
        search = search_of(np.random.default_rng(6).normal(size=(40, 30)))
        assert not search.add()
        assert search.model.size == 0
        assert search.path == [search.model.value]


class TestMoves:
    @staticmethod
    def fitted(seed=7):
        search = search_of(draw(n=30, p=20, k=2, seed=seed, size=3.0))
        search.add()
        search.add()
        return search.model

    def test_rotation_keeps_the_fitted_matrix(self):
        model = self.fitted()
        new = rotated(model)
        before, after = (m.sides[0].mean.T @ m.sides[1].mean for m in (model, new))
        np.testing.assert_allclose(after, before, atol=1e-10)
        assert not np.allclose(new.sides[1].mean, model.sides[1].mean, atol=1e-3)

    def test_extrapolation_by_nothing_is_where_it_was(self):
        model = self.fitted()
        new = model.copy()
        new.iterate([0, 1])
        nearby, further = (extrapolated(model, new, [0, 1], stretch) for stretch in (0.0, 2.0))
        np.testing.assert_allclose(nearby.sides[0].mean, new.sides[0].mean)
        value = model.value
        further.iterate([0, 1])
        assert np.isfinite(further.value)
        assert model.value == value  # moves leave the model alone


class TestStart:
    @pytest.mark.parametrize("shape", [(30, 8), (8, 30), (450, 420)])
    def test_leading_singular_vectors(self, shape):
        rng = np.random.default_rng(8)
        X = 3 * np.outer(rng.normal(size=shape[0]), rng.normal(size=shape[1]))
        X += rng.normal(size=shape)
        model = model_of(X)
        scores, loadings = leading_vectors(model)
        u, s, vt = np.linalg.svd(X / observed(X, False)[2], full_matrices=False)
        np.testing.assert_allclose(
            np.outer(scores, loadings), s[0] * np.outer(u[:, 0], vt[0]), atol=1e-8
        )
        assert np.mean(scores**2) == pytest.approx(1)

    @pytest.mark.parametrize("missing", [0.0, 0.2])
    @pytest.mark.parametrize("noise", NOISES)
    def test_entries_are_divided_by_the_standard_deviation_of_their_noise(self, noise, missing):
        X = draw(n=30, p=20, missing=missing) * np.linspace(1, 9, 20)
        model = model_of(X, noise)
        scaled = np.nan_to_num(X / observed(X, False)[2] * np.sqrt(precision_matrix(model)))
        np.testing.assert_allclose(_Residual(model).matmul(np.eye(20)), scaled.T @ scaled)
        np.testing.assert_allclose(_Residual(model).diagonal(), (scaled**2).sum(axis=0))
        fitted = np.outer(*leading_vectors(model)) * np.sqrt(precision_matrix(model))
        u, s, vt = np.linalg.svd(scaled)
        np.testing.assert_allclose(fitted, s[0] * np.outer(u[:, 0], vt[0]), atol=1e-8)

    def test_of_the_residual(self):
        X = draw(n=30, p=20, seed=9)
        second = leading_vectors(model_of(X, n_factors=1))
        u, s, vt = np.linalg.svd(X / observed(X, False)[2])
        np.testing.assert_allclose(np.outer(*second), s[1] * np.outer(u[:, 1], vt[1]), atol=1e-8)
