"""The shrinkage of penalised PCA: units, the criterion, acceleration and the search near by."""

import numpy as np
import pytest

from ebcd.data import CovarianceMatrix
from ebcd.fitting._methods import METHODS, Strength
from ebcd.fitting._penalized import fit_penalized, oriented
from ebcd.fitting._rotation import polar
from ebcd.fitting._starts import svd_start
from ebcd.penalties import PENALTIES, make_penalty


def some_covariance(n=40, p=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    return CovarianceMatrix(X.T @ X / n, n)


@pytest.mark.parametrize("name", PENALTIES)
class TestStrength:
    @pytest.mark.parametrize("alpha", [0.2, 3.0])
    @pytest.mark.parametrize("length", [0.25, 1.0, 8.0])
    def test_prox_minimises_the_criterion_of_the_units(self, name, alpha, length):
        """Brute force over u: (u - v)^2 / 2 + P(length u; alpha) / length^2."""
        strength = Strength(make_penalty(name), np.array([[alpha]]), length)
        grid = np.linspace(-12, 12, 601)
        grid = grid[grid >= (0.0 if name.startswith("nonnegative") else -np.inf)]
        cost = np.array([strength.value(np.array([[u]]))[0] for u in grid])
        for v in (-7.3, -0.4, 0.0, 1.1, 9.7):
            u = float(strength.prox(np.array([[v]]))[0, 0])
            reached = 0.5 * (u - v) ** 2 + strength.value(np.array([[u]]))[0]
            assert reached <= (0.5 * (grid - v) ** 2 + cost).min() + 1e-12

    def test_no_strength_is_no_penalty(self, name):
        strength = Strength(make_penalty(name), np.array([[0.0]]), 2.0)
        v = np.array([[0.0, 0.5, 3.0]])
        np.testing.assert_array_equal(strength.prox(v), v)
        np.testing.assert_array_equal(strength.value(v), [0.0])


def shrinkage_of(covariance, name, alpha):
    n = covariance.n_samples
    parameters = make_penalty(name), np.reshape(alpha, (-1, 1)), np.sqrt(n) * covariance.unit, n
    return lambda b: METHODS["PenalizedPCA"].shrinkage(b, *parameters)


def test_strengths_of_each_component():
    covariance = some_covariance()
    b = np.random.default_rng(1).normal(size=(1, 2, 10))
    loadings, _ = shrinkage_of(covariance, "l1", [1.0, 5.0])(b)
    kept = np.abs(b) * np.sqrt(40) * covariance.unit > [[1.0], [5.0]]
    np.testing.assert_array_equal(loadings != 0, kept)


def test_one_sided_rows_are_turned():
    rows = np.array([[-3.0, 1.0, 1.0], [3.0, -1.0, -1.0]])
    np.testing.assert_array_equal(oriented(make_penalty("nonnegative"), rows)[:, 0], [3.0, 3.0])
    np.testing.assert_array_equal(oriented(make_penalty("l1"), rows), rows)


class TestFit:
    @pytest.mark.parametrize("name", ["l1", "scad", "nonnegative_l1"])
    def test_ends_no_lower_than_plain_iterations(self, name):
        covariance = some_covariance()
        shrinkage = shrinkage_of(covariance, name, 4.0)
        start = oriented(make_penalty(name), svd_start(covariance, 3))[None]
        loadings = start
        for _ in range(2000):
            loadings, value = shrinkage(polar(covariance, loadings))
        fit = fit_penalized(
            covariance, make_penalty(name), np.full(3, 4.0), start, tol=1e-13, max_iter=5000
        )
        assert fit.path[-1] >= value[0] * (1 - 1e-9)
        assert fit.n_iter < 1000

    def test_momentum_saves_iterations(self):
        """Two sparse components that the principal components mix half and half."""
        rng = np.random.default_rng(0)
        L = np.zeros((2, 30))
        L[0, :5], L[1, 10:15] = 1.0, 1.0
        X = rng.normal(size=(100, 2)) @ L + 0.1 * rng.normal(size=(100, 30))
        covariance = CovarianceMatrix(X.T @ X / 100, 100)
        shrinkage = shrinkage_of(covariance, "l1", 0.05)
        loadings, tol = svd_start(covariance, 2)[None], 1e-9 * 50 * covariance.trace()
        plain, value, gain = 0, -np.inf, np.inf
        while gain > tol:
            loadings, new = shrinkage(polar(covariance, loadings))
            plain, gain, value = plain + 1, new[0] - value, new[0]
        fit = fit_penalized(
            covariance,
            make_penalty("l1"),
            np.full(2, 0.05),
            svd_start(covariance, 2)[None],
            tol=1e-9,
            max_iter=2000,
        )
        assert fit.n_iter < 0.7 * plain
        assert fit.path[-1] >= value - 10 * tol

    def test_best_of_several_starts(self):
        covariance = some_covariance()
        starts = np.random.default_rng(0).normal(size=(5, 2, 10))

        def reached(starts):
            fit = fit_penalized(
                covariance, make_penalty("l0"), np.full(2, 30.0), starts, tol=1e-9, max_iter=500
            )
            return fit.path[-1]

        values = [reached(start[None]) for start in starts]
        assert reached(starts) >= max(values) * (1 - 1e-9)
        assert max(values) > min(values)

    @pytest.mark.slow
    def test_a_better_optimum_near_by_is_found(self):
        """Seed and strength with which the alternation ends below a mirrored optimum."""
        found, alone = [], []
        for seed in range(12):
            covariance = some_covariance(n=60, p=8, seed=seed)
            shrinkage = shrinkage_of(covariance, "mcp", 2.0)
            start = svd_start(covariance, 4)[None]
            loadings = start
            for _ in range(1000):
                loadings, value = shrinkage(polar(covariance, loadings))
            fit = fit_penalized(
                covariance, make_penalty("mcp"), np.full(4, 2.0), start, tol=1e-9, max_iter=2000
            )
            found.append(fit.path[-1])
            alone.append(value[0])
        assert (np.array(found) >= np.array(alone) * (1 - 1e-7)).all()
        assert (np.array(found) > np.array(alone) * (1 + 1e-5)).any()


def test_a_single_iteration_ends():
    """All starts end before they have been compared with the fit that they should exceed."""
    covariance = some_covariance()
    starts = svd_start(covariance, 3)[None]
    fit = fit_penalized(
        covariance, make_penalty("none"), np.array([0.0]), starts, tol=1e-8, max_iter=1
    )
    assert fit.n_iter == 1
