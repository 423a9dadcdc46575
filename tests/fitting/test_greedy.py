"""Components one by one, against a plain transcription of the paper's Algorithm 1."""

import numpy as np
import pytest

from ebcd import ebnm
from ebcd.data import CovarianceMatrix
from ebcd.fitting._greedy import greedy_components
from ebcd.fitting._noise import ConstantNoise, PerFeatureNoise
from ebcd.priors import make_family


def draw(seed, n=40, p=12, k=3):
    rng = np.random.default_rng(seed)
    loadings = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.5) * np.array([[4.0], [2.5], [2]])
    X = rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def unit_length(scores):
    return np.sqrt(len(scores)) * scores / np.linalg.norm(scores)


def polar_scores(X, L):
    left, _, right = np.linalg.svd(X @ L, full_matrices=False)
    return np.sqrt(len(X)) * left @ right


def algorithm_1(X, k, prior, gain=1e-9):
    """The greedy part, in terms of data and scores."""
    n, p = X.shape
    Z, L, tau = np.empty((n, 0)), np.empty((p, 0)), n * p / (X**2).sum()
    for _ in range(k):
        R = X - Z @ L.T
        _, d, vt = np.linalg.svd(R)
        loading, last = d[0] * vt[0] / np.sqrt(n), -np.inf

        def rotation(loading, R=R, Z=Z):
            scores = R @ loading
            return unit_length(scores - Z @ (Z.T @ scores) / n)

        z = rotation(loading)
        for _ in range(5000):
            s = 1 / np.sqrt(n * tau)
            found = ebnm(R.T @ z / n, s, prior)
            loading, variance = found.mean, found.sd**2
            expected = -0.5 * np.log(2 * np.pi * s**2) - (
                (R.T @ z / n - loading) ** 2 + variance
            ) / (2 * s**2)
            residual = ((R - np.outer(z, loading)) ** 2).sum() + n * variance.sum()
            tau = n * p / residual
            value = 0.5 * n * p * (np.log(tau / (2 * np.pi)) - 1)
            value += found.log_likelihood - expected.sum()
            if value - last < gain:
                break
            last, z = value, rotation(loading)
        L = np.column_stack([L, loading])
        Z = polar_scores(X, L)
    return L.T, tau


@pytest.mark.parametrize("prior", ["point_laplace", "normal"])
@pytest.mark.parametrize("seed", range(3))
def test_as_in_the_paper(seed, prior):
    X = draw(seed)
    covariance = CovarianceMatrix(X.T @ X / len(X), len(X))
    noise = ConstantNoise(len(X), covariance.diagonal())
    found = greedy_components(covariance, [make_family(prior)] * 3, noise, lambda *_: False)
    loadings, tau = algorithm_1(X, 3, prior)
    loadings = loadings / covariance.unit
    signs = np.sign((found.loadings * loadings).sum(axis=1, keepdims=True))
    # one of both ends a tolerance of 1e-6 nats earlier
    np.testing.assert_allclose(signs * found.loadings, loadings, atol=5e-3 * np.abs(loadings).max())
    np.testing.assert_allclose(found.precision, tau * covariance.unit**2, rtol=1e-4)


def test_stops_at_an_empty_component():
    X = draw(0)
    covariance = CovarianceMatrix(X.T @ X / len(X), len(X))
    noise = ConstantNoise(len(X), covariance.diagonal())
    priors = [make_family(name) for name in ("normal", "point_mass", "normal")]
    found = greedy_components(covariance, priors, noise, lambda *_: False)
    assert len(found.loadings) == len(found.fitted) == 1


def test_stops_when_told_to():
    X = draw(0)
    covariance = CovarianceMatrix(X.T @ X / len(X), len(X))
    noise, told = PerFeatureNoise(len(X), covariance.diagonal()), []

    def stop(step, number):
        told.append((step, number))
        return number == 2

    priors = [make_family("point_laplace")] * 4
    assert len(greedy_components(covariance, priors, noise, stop).loadings) == 2
    assert told[0] == (1, 1)
    assert told[-1] == (0, 2)


def test_nothing_is_left_of_data_of_lower_rank():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 1)) @ rng.normal(size=(1, 6))
    covariance = CovarianceMatrix(X.T @ X / 20, 20)
    noise = ConstantNoise(20, covariance.diagonal())
    found = greedy_components(covariance, [make_family("normal")] * 3, noise, lambda *_: False)
    assert len(found.loadings) == 1
