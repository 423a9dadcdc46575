"""The shrinkage of penalised PCA: units, slopes, and what it adds to the criterion."""

import numpy as np
import pytest

from ebcd.data import CovarianceMatrix
from ebcd.fitting._loop import alternate
from ebcd.fitting._penalized import fit_penalized, penalized_problem
from ebcd.fitting._penalty_shrinker import FixedNoise, PenaltyShrinker, Strength
from ebcd.fitting._starts import svd_start
from ebcd.penalties import PENALTIES, make_penalty


def some_covariance(n=40, p=10, unit=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = unit * rng.normal(size=(n, p)) @ rng.normal(size=(p, p))
    return CovarianceMatrix(X.T @ X / n, n)


@pytest.mark.parametrize("name", PENALTIES)
class TestStrength:
    @pytest.mark.parametrize("alpha", [0.2, 3.0])
    @pytest.mark.parametrize("length", [0.25, 1.0, 8.0])
    def test_prox_minimises_the_criterion_of_the_units(self, name, alpha, length):
        """Brute force over u: (u - v)^2 / 2 + P(length u; alpha) / length^2."""
        strength = Strength(make_penalty(name), np.array([[alpha]]), length)
        grid = np.linspace(-12, 12, 24001)
        low = 0.0 if name.startswith("nonnegative") else -np.inf
        grid = grid[grid >= low]
        cost = np.array([strength.value(np.array([[u]]))[0] for u in grid[::40]])
        for v in (-7.3, -0.4, 0.0, 1.1, 9.7):
            u = float(strength.prox(np.array([[v]]))[0, 0])
            reached = 0.5 * (u - v) ** 2 + strength.value(np.array([[u]]))[0]
            assert reached <= (0.5 * (grid[::40] - v) ** 2 + cost).min() + 1e-12

    def test_no_strength_is_no_penalty(self, name):
        strength = Strength(make_penalty(name), np.array([[0.0]]), 2.0)
        v = np.array([[0.0, 0.5, 3.0]])
        np.testing.assert_array_equal(strength.prox(v), v)
        np.testing.assert_array_equal(strength.value(v), [0.0])

    def test_slope_is_the_derivative(self, name):
        strength = Strength(make_penalty(name), np.array([[1.3]]), 2.0)
        v = np.linspace(-6, 6, 121)[None] + 0.0123
        h = 1e-6
        change = (strength.prox(v + h) - strength.prox(v - h)) / (2 * h)
        smooth = np.abs(change) < 100
        np.testing.assert_allclose(strength.slope(v)[smooth], change[smooth], atol=1e-6)


class TestShrinker:
    def test_curvature_is_the_slope_over_the_number_of_samples(self):
        covariance = some_covariance()
        shrinker = PenaltyShrinker(make_penalty("l1"), np.array([1.0, 5.0]), covariance)
        b = np.random.default_rng(1).normal(size=(2, 10))
        shrunk = shrinker.shrink(b, np.asarray(1 / np.sqrt(40)), (0, 1), None)
        kept = np.abs(b) * np.sqrt(40) * covariance.unit > [[1.0], [5.0]]
        np.testing.assert_allclose(shrunk.curvature, kept / 40)
        np.testing.assert_array_equal(shrunk.mean != 0, kept)
        np.testing.assert_array_equal(shrunk.variance, 0.0)

    def test_strengths_go_with_the_number_of_the_component(self):
        covariance = some_covariance()
        shrinker = PenaltyShrinker(make_penalty("l1"), np.array([0.0, 1e6]), covariance)
        b = np.ones((1, 10))
        assert shrinker.shrink(b, np.asarray(1.0), (0,), None).mean.all()
        assert not shrinker.shrink(b, np.asarray(1.0), (1,), None).mean.any()
        assert not shrinker.shrink(b, np.asarray(1.0), (7,), None).mean.any()

    def test_one_sided_rows_are_turned(self):
        covariance = some_covariance()
        rows = np.array([[-3.0, 1.0, 1.0], [3.0, -1.0, -1.0]])
        turned = PenaltyShrinker(make_penalty("nonnegative"), np.ones(1), covariance)
        np.testing.assert_array_equal(turned.oriented(rows)[:, 0], [3.0, 3.0])
        plain = PenaltyShrinker(make_penalty("l1"), np.ones(1), covariance)
        np.testing.assert_array_equal(plain.oriented(rows), rows)

    def test_noise(self):
        noise = FixedNoise(some_covariance())
        assert noise.precision(np.ones(10)) == 1
        assert noise.value(np.asarray(1.0), np.full(10, 0.5)) == -0.5 * 40 * 5.0
        assert not noise.at_floor(np.asarray(1e300))


class TestLoop:
    @pytest.mark.parametrize("name", ["l1", "scad", "nonnegative_l1"])
    def test_acceleration_ends_where_plain_iterations_do(self, name):
        covariance = some_covariance()
        problem = penalized_problem(covariance, make_penalty(name), np.array([4.0]))
        start = svd_start(covariance, 3)
        state = problem.start(start)
        for _ in range(2000):
            state = problem.again(state, state.mean)
        fit = fit_penalized(problem, [start], tol=1e-13, max_iter=5000)
        assert fit.state.value >= state.value - 1e-9 * abs(state.value)
        assert fit.n_iter < 1000

    def test_newton_rotation_saves_iterations(self):
        """Two sparse components that the principal components mix half and half."""
        rng = np.random.default_rng(0)
        L = np.zeros((2, 30))
        L[0, :5], L[1, 10:15] = 1.0, 1.0
        X = rng.normal(size=(100, 2)) @ L + 0.1 * rng.normal(size=(100, 30))
        covariance = CovarianceMatrix(X.T @ X / 100, 100)
        problem = penalized_problem(covariance, make_penalty("l1"), np.array([0.05]))
        state = problem.start(svd_start(covariance, 2))
        tol = 1e-9 * 50 * covariance.trace()
        fit = alternate(problem, state, tol=tol, max_iter=2000)
        plain, gain = 0, np.inf
        while gain > tol:
            new = problem.again(state, state.mean)
            plain, gain, state = plain + 1, new.value - state.value, new
        assert fit.n_iter < plain / 3
        assert fit.state.value >= state.value - 10 * tol

    def test_best_of_several_starts(self):
        covariance = some_covariance()
        problem = penalized_problem(covariance, make_penalty("l0"), np.array([30.0]))
        rng = np.random.default_rng(0)
        starts = [rng.normal(size=(2, 10)) for _ in range(5)]
        values = [
            fit_penalized(problem, [start], tol=1e-9, max_iter=500).state.value for start in starts
        ]
        best = fit_penalized(problem, starts, tol=1e-9, max_iter=500)
        assert best.state.value == max(values)
        assert max(values) > min(values)
