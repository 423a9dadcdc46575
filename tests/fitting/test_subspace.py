"""Fits in a growing subspace: what they promise, and that they end where the plain loop does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebcd import EBCD
from ebcd.data import CovarianceMatrix, from_matrix
from ebcd.fitting import _starts
from ebcd.fitting._loop import Problem, alternate
from ebcd.fitting._noise import NOISES
from ebcd.fitting._scores import WeightScores
from ebcd.fitting._shrinkers import EmpiricalBayesShrinker
from ebcd.fitting._subspace import Subspace, polish
from ebcd.priors import make_family


def draw(seed=0, n=60, p=80, k=3):
    rng = np.random.default_rng(seed)
    L = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.3) * np.linspace(3, 2, k)[:, None]
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))


def make_problem(X, noise="constant"):
    covariance = from_matrix(X, True, False, None).covariance
    shrinker = EmpiricalBayesShrinker([make_family("point_laplace")])
    return Problem(covariance, shrinker, NOISES[noise](covariance))


def rough_factor(problem, rank=4):
    values, vectors = problem.covariance.leading(rank)
    return (vectors * np.sqrt(values)).T.copy()


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4), st.integers(0, 3))
def test_growth_is_exact_for_its_directions_and_from_below(seed, k, rank):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(20, 12)) * np.geomspace(1, 1e-3, 12)
    covariance = CovarianceMatrix(A.T @ A / 20, 20)
    S = covariance.matmul(np.eye(12))
    values, vectors = np.linalg.eigh(S)
    order = slice(12 - rank, 12)
    small = Subspace(covariance, (vectors[:, order] * np.sqrt(values[order])).T)
    seen = []
    for _ in range(2):
        D = rng.normal(size=(k, 12))
        small = small.grown(D, D @ S)
        seen.append(D)
    for D in seen:
        np.testing.assert_allclose(small.rows_product(D), D @ S, atol=1e-10 * values[-1])
    left = S - small.factor.T @ small.factor
    assert np.linalg.eigvalsh(left).min() > -1e-10 * values[-1]
    assert small.grown(seen[0], seen[0] @ S) is small  # nothing new
    np.testing.assert_array_equal(small.diagonal(), covariance.diagonal())


@pytest.mark.parametrize("noise", ["constant", "per_feature"])
@pytest.mark.parametrize("seed", range(3))
def test_ends_where_the_loop_ends(seed, noise):
    problem = make_problem(draw(seed), noise)
    principal = _starts.principal_start(problem, 3)
    start = problem.start(_starts.varimax_start(principal))
    fit = polish(problem, start, rough_factor(problem), tol=1e-8, max_iter=2000)
    loop = alternate(problem, start, tol=1e-10, max_iter=2000, look_around=False)
    assert fit.converged
    assert fit.state.value == pytest.approx(loop.state.value, abs=1e-5)
    np.testing.assert_allclose(fit.state.mean, loop.state.mean, atol=1e-3)
    assert np.diff(fit.path).min() > -1e-9 * abs(fit.path[-1])


def test_takes_few_products():
    problem = make_problem(draw())
    covariance = problem.covariance
    problem.scores = WeightScores(covariance)  # as with data of which no factor is in memory
    start = problem.start(_starts.varimax_start(_starts.principal_start(problem, 3)))
    products = []
    product = covariance.rows_product
    covariance.rows_product = lambda rows: products.append(len(rows)) or product(rows)
    polish(problem, start, rough_factor(problem), tol=1e-6, max_iter=2000)
    few = len(products)
    products.clear()
    alternate(problem, start, tol=1e-6, max_iter=2000, look_around=False)
    assert few < len(products)


def test_most_iterations():
    problem = make_problem(draw())
    start = problem.start(_starts.principal_start(problem, 3))
    fit = polish(problem, start, rough_factor(problem), tol=0.0, max_iter=5)
    assert fit.n_iter <= 6
    assert not fit.converged


@pytest.mark.parametrize("p", [80, 400])
def test_dear_data_get_the_same_result(monkeypatch, p):
    X = draw(1, n=100, p=p)
    cheap = EBCD(3, tol=1e-9).fit(X)
    monkeypatch.setattr(_starts, "_DEAR", 100)
    monkeypatch.setattr(_starts, "_ENOUGH_FEATURES", 100)
    dear = EBCD(3, tol=1e-9).fit(X)
    assert dear.elbo_ == pytest.approx(cheap.elbo_, abs=1e-6)
    np.testing.assert_allclose(dear.components_, cheap.components_, atol=1e-4)
