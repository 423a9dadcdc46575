"""Starts against explicit computations with the data and their scores."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebcd import EBCD, ebnm
from ebcd.data import CovarianceMatrix, from_matrix
from ebcd.fitting import _starts
from ebcd.fitting._greedy import Greedy
from ebcd.fitting._loop import Problem, alternate
from ebcd.fitting._noise import NOISES
from ebcd.fitting._shrinkers import EmpiricalBayesShrinker
from ebcd.fitting._starts import _alike, random_rotation, svd_start, varimax_start
from ebcd.priors import make_family

SEEDS = st.integers(0, 2**32 - 1)


def draw(seed=0, n=60, p=25, k=2):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(k, p)) * (rng.random((k, p)) < 0.4) * np.linspace(3, 2, k)[:, None]
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))


def make_problem(X, prior="point_laplace", noise="constant"):
    covariance = from_matrix(X, False, False, None).covariance
    shrinker = EmpiricalBayesShrinker([make_family(prior)])
    return Problem(covariance, shrinker, NOISES[noise](covariance))


def criterion(loadings):
    """What varimax maximises."""
    return (loadings**2).var(axis=1).sum()


class TestPrincipalComponents:
    @pytest.mark.parametrize("shape", [(60, 25), (20, 50)])
    def test_are_those_of_the_data(self, shape):
        X = draw(n=shape[0], p=shape[1])
        covariance = from_matrix(X, False, False, None).covariance
        _, values, right = np.linalg.svd(X, full_matrices=False)
        expected = right[:2] * values[:2, None] / np.sqrt(len(X))
        loadings = svd_start(covariance, 2) * covariance.unit
        signs = np.sign((loadings * expected).sum(axis=1))[:, None]
        np.testing.assert_allclose(loadings * signs, expected, atol=1e-3)

    def test_signs_do_not_depend_on_the_route(self):
        # random rotations of them would be other starts
        X = np.random.default_rng(1).normal(size=(30, 40))
        by_data = svd_start(from_matrix(X, False, False, None).covariance, 3)
        by_covariance = svd_start(CovarianceMatrix(X.T @ X / 30, 30), 3)
        np.testing.assert_allclose(by_data, by_covariance, atol=1e-8)


class TestVarimax:
    @given(SEEDS)
    def test_is_a_rotation_that_raises_the_criterion(self, seed):
        loadings = np.random.default_rng(seed).normal(size=(3, 20))
        rotated = varimax_start(loadings)
        np.testing.assert_allclose(rotated.T @ rotated, loadings.T @ loadings, atol=1e-8)
        assert criterion(rotated) >= criterion(loadings) - 1e-9

    @given(SEEDS)
    def test_finds_blocks(self, seed):
        blocks = np.kron(np.eye(3), np.ones(8)) * np.array([[3.0], [2.0], [1.0]])
        rotated = varimax_start(random_rotation(blocks, np.random.default_rng(seed)))
        cosines = np.abs(rotated @ blocks.T)
        cosines /= np.linalg.norm(rotated, axis=1)[:, None] * np.linalg.norm(blocks, axis=1)
        np.testing.assert_allclose(np.sort(cosines, axis=1)[:, -1], 1.0, atol=1e-4)

    def test_one_component_stays(self):
        loadings = np.random.default_rng(0).normal(size=(1, 9))
        np.testing.assert_allclose(np.abs(varimax_start(loadings)), np.abs(loadings))

    def test_zeros(self):
        np.testing.assert_array_equal(varimax_start(np.zeros((2, 5))), 0.0)


@given(SEEDS)
def test_random_rotation_is_a_rotation(seed):
    rng = np.random.default_rng(seed)
    loadings = rng.normal(size=(4, 12))
    rotated = random_rotation(loadings, rng)
    np.testing.assert_allclose(rotated.T @ rotated, loadings.T @ loadings, atol=1e-10)


def algorithm_1(X, k, prior, steps=300):
    """Greedy part of the paper's Algorithm 1 with explicit scores, for constant noise."""
    n, p = X.shape
    Z, L = np.empty((n, 0)), np.empty((p, 0))
    tau = n * p / (X**2).sum()
    for _ in range(k):
        residual = X - Z @ L.T
        _, size, right = np.linalg.svd(residual, full_matrices=False)
        loading = size[0] * right[0] / np.sqrt(n)
        for _ in range(steps):
            score = X @ loading
            score -= Z @ (Z.T @ score) / n
            score *= np.sqrt(n) / np.linalg.norm(score)
            fit = ebnm(X.T @ score / n, s=1 / np.sqrt(n * tau), prior=prior)
            loading = fit.mean
            left = ((residual - np.outer(score, loading)) ** 2).sum() + n * (fit.sd**2).sum()
            tau = n * p / left
        L = np.column_stack([L, loading])
        left, _, right = np.linalg.svd(X @ L, full_matrices=False)
        Z = np.sqrt(n) * left @ right
    return L, tau


class TestGreedy:
    @pytest.mark.parametrize("prior", ["point_laplace", "normal", "point_normal"])
    @pytest.mark.parametrize("shape", [(60, 25), (20, 40)])
    def test_is_the_papers_algorithm(self, prior, shape):
        X = draw(3, *shape)
        expected, tau = algorithm_1(X, 2, prior)
        problem = make_problem(X, prior)
        greedy = Greedy(problem, tol=1e-10)
        assert greedy.add()
        assert greedy.add()
        loadings = greedy.loadings.T * problem.covariance.unit
        signs = np.sign((loadings * expected).sum(axis=0))
        error = np.linalg.norm(loadings * signs - expected) / np.linalg.norm(expected)
        assert error < 1e-4
        assert float(greedy.precision) / problem.covariance.unit**2 == pytest.approx(tau, rel=1e-5)

    def test_stops_where_nothing_is_left(self):
        problem = make_problem(draw(), "point_mass")
        assert not Greedy(problem, tol=1e-6).add()

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    @pytest.mark.parametrize("seed", range(6))
    def test_stops_at_the_rank_of_the_data(self, noise, seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 1)) @ rng.normal(size=(1, 8))
        greedy = Greedy(make_problem(X, noise=noise), tol=1e-6)
        while len(greedy.loadings) < 3 and greedy.add():
            pass
        assert 1 <= len(greedy.loadings) <= 3
        assert np.isfinite(greedy.loadings).all()

    def test_per_feature_noise(self):
        X = draw(5)
        greedy = Greedy(make_problem(X, noise="per_feature"), tol=1e-8)
        assert greedy.add()
        assert greedy.precision.shape == (25,)
        _, _, right = np.linalg.svd(X, full_matrices=False)
        assert abs(right[0] @ greedy.loadings[0]) / np.linalg.norm(greedy.loadings[0]) > 0.9


class TestStartsOfTheEstimator:
    @pytest.mark.parametrize("start", ["auto", "greedy", "svd", "varimax"])
    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    def test_reach_the_same_optimum_on_clear_data(self, start, noise):
        rng = np.random.default_rng(0)
        L = np.zeros((2, 30))
        L[0, :8], L[1, 12:] = 3.0, 1.5
        scores = np.sqrt(100) * np.linalg.qr(rng.normal(size=(100, 2)))[0]
        X = scores @ L + rng.normal(size=(100, 30))
        best = EBCD(2, noise=noise).fit(X).elbo_
        assert EBCD(2, noise=noise, start=start).fit(X).elbo_ == pytest.approx(best, abs=1e-3)

    def test_automatic_start_is_at_least_as_good_as_each(self):
        X = draw(2, n=40, p=60, k=3)
        best = EBCD(3).fit(X).elbo_
        for start in ("greedy", "varimax"):
            assert best >= EBCD(3, start=start).fit(X).elbo_ - 1e-3

    def test_long_plateaus_are_left(self):
        # principal components of two blocks of equal variance are an arbitrary mixture of them
        rng = np.random.default_rng(0)
        Z = rng.normal(size=(50, 2))
        Z = np.linalg.qr(Z)[0] * np.sqrt(50)
        L = np.zeros((2, 100))
        L[0, :10], L[1, 10:20] = 4.0, 4.0
        X = Z @ L + rng.normal(size=(50, 100))
        best = EBCD(2, center=False, start="varimax").fit(X).elbo_
        assert EBCD(2, center=False, start="svd").fit(X).elbo_ == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("p", [3_000, 9_000])
def test_search_on_leading_directions_ends_as_high_as_from_the_truth(p):
    """Large data are compressed for the search, to some of the features if these are many."""
    rng = np.random.default_rng(1)
    n = 2_400_000 // p
    L = np.zeros((3, p))
    for size, row in zip((2.0, 1.5, 1.2), L, strict=True):
        row[rng.choice(p, p // 20, replace=False)] = size * rng.laplace(size=p // 20)
    X = rng.normal(size=(n, 3)) @ L + rng.normal(size=(n, p))
    found, known = EBCD(3).fit(X), EBCD(3, start=L.T).fit(X)
    assert found.elbo_ >= known.elbo_ - 0.01
    assert found.converged_


@pytest.mark.parametrize("noise", ["constant", "per_feature"])
def test_greedy_starts_from_the_singular_vector_of_the_residual(noise):
    """Singular values that are close, so that a rough search would mix their vectors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 200))
    problem = make_problem(X, noise=noise)
    greedy = Greedy(problem, tol=1e-10)
    scale = np.sqrt((X**2).mean(axis=0)) if noise == "per_feature" else np.ones(200)
    _, values, right = np.linalg.svd(X / scale, full_matrices=False)
    loading = greedy._residual_vector() * problem.covariance.unit / scale
    assert abs(loading @ right[0]) / np.linalg.norm(loading) > 1 - 1e-6
    assert np.linalg.norm(loading) == pytest.approx(values[0] / np.sqrt(50), rel=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_components_that_some_of_the_features_do_not_tell_from_noise_are_kept(seed):
    """Four wide components take all places among the features with the largest loadings."""
    rng = np.random.default_rng(seed)
    n, p = 400, 6_000
    L = np.zeros((6, p))
    for k in range(4):
        L[k, k * 700 : (k + 1) * 700] = 2 * rng.normal(size=700)
    L[4, -12:], L[5, -40:-20] = 0.9, 0.7 * rng.choice([-1, 1], size=20)
    X = rng.normal(size=(n, 6)) @ L + rng.normal(size=(n, p))
    found = EBCD(6, prior="point_exponential").fit(X)
    known = EBCD(6, prior="point_exponential", start="varimax").fit(X)
    assert found.n_components_ == known.n_components_ == 6
    assert found.elbo_ >= known.elbo_ - 0.01


class TestStartsThatAreAlike:
    @pytest.fixture
    def problem(self):
        return make_problem(draw())

    @pytest.fixture
    def begin(self, problem):
        return problem.start(np.random.default_rng(0).normal(size=(2, 25)))

    @pytest.mark.parametrize(("cheap", "followed"), [(25, 2), (24, 1)])
    def test_only_one_is_followed_unless_that_is_cheap(
        self, monkeypatch, problem, begin, cheap, followed
    ):
        monkeypatch.setattr(_starts, "_CHEAP_FEATURES", cheap)
        run = partial(_starts._ended, problem, tol=1e-3, max_iter=20)
        starts = {"one": lambda: begin, "other": lambda: run(begin)}
        assert len(_starts._first_round(problem, starts, run, 300.0)) == followed

    def test_one_that_comes_near_a_better_one_stops(self, monkeypatch, problem, begin):
        monkeypatch.setattr(_starts, "_CHEAP_FEATURES", 0)
        way = alternate(problem, begin, tol=1e-9, max_iter=200)
        states, enough = [begin], _starts._no_news(problem, [way.state])
        short = alternate(
            problem,
            begin,
            tol=1e-9,
            max_iter=200,
            enough=enough,
            progress=lambda number, state, seconds: states.append(state),
        )
        assert short.path == way.path[: len(short.path)]
        assert [enough(state) for state in states] == [False] * (len(short.path) - 1) + [True]
        assert 3 < len(short.path) < len(way.path)
        assert not short.converged

    def test_one_that_is_better_goes_on(self, monkeypatch, problem, begin):
        monkeypatch.setattr(_starts, "_CHEAP_FEATURES", 0)
        worse = replace(begin, value=begin.value - 1.0)
        assert _starts._no_news(problem, [worse, begin])(worse)
        assert not _starts._no_news(problem, [worse])(begin)


def test_a_component_that_has_vanished_is_like_no_other():
    state = make_problem(draw()).start(np.eye(2, 25))
    turned = replace(state, mean=-3 * state.mean[::-1])
    empty = replace(state, mean=state.mean * [[1.0], [0.0]])
    assert _alike(state, turned)
    assert not _alike(empty, state)
    assert not _alike(state, empty)
    assert not _alike(empty, empty)
