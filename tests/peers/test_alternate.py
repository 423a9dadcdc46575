"""Deflations as covariances, and the loop over starts."""

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackError

from ebcd.data import CovarianceMatrix
from ebcd.peers._alternate import (
    AbstractShrinkage,
    DirectionRemoved,
    ScoresRemoved,
    climb,
    rotate,
)
from ebcd.peers._starts import joint_starts, separate_features


def draw(n=50, p=90, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, p)) * np.linspace(1, 3, p)
    return X, CovarianceMatrix(X.T @ X / n, n)


def deflated(kind, p=90):
    """Give a deflated covariance, and the same from data."""
    X, covariance = draw(p=p)
    X = X / covariance.unit
    rng = np.random.default_rng(1)
    if kind is ScoresRemoved:
        Z = np.linalg.qr(rng.normal(size=(50, 2)))[0] * np.sqrt(50)
        left = X - Z @ (Z.T @ X) / 50
        return ScoresRemoved(covariance, Z.T @ X / 50), left.T @ left / 50
    v = rng.normal(size=p)
    v /= np.linalg.norm(v)
    left = X - np.outer(X @ v, v)
    return DirectionRemoved(covariance, v), left.T @ left / 50


@pytest.mark.parametrize("kind", [ScoresRemoved, DirectionRemoved])
class TestDeflation:
    @pytest.mark.parametrize("p", [20, 90])
    def test_is_the_covariance_of_deflated_data(self, kind, p):
        ours, expected = deflated(kind, p)
        np.testing.assert_allclose(ours.matmul(np.eye(p)), expected, atol=1e-10)
        np.testing.assert_allclose(ours.diagonal(), np.diag(expected), atol=1e-10)
        assert ours.trace() == pytest.approx(np.trace(expected))

    @pytest.mark.parametrize("p", [20, 90])
    @pytest.mark.parametrize("k", [1, 3])
    def test_leading(self, kind, p, k):
        ours, expected = deflated(kind, p)
        values, vectors = ours.leading(k)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(expected)[::-1][:k], rtol=1e-6)
        np.testing.assert_allclose(expected @ vectors, vectors * values, atol=1e-4)

    def test_twice(self, kind):
        once, expected = deflated(kind)
        v = np.eye(90)[3]
        left = np.eye(90) - np.outer(v, v)
        twice = DirectionRemoved(once, v)
        np.testing.assert_allclose(twice.matmul(np.eye(90)), left @ expected @ left, atol=1e-10)


def test_nothing_is_left():
    only = np.zeros((100, 100))
    only[0, 0] = 100.0
    covariance = CovarianceMatrix(only, 50)
    left = ScoresRemoved(covariance, np.sqrt(covariance.diagonal())[None])
    values, vectors = left.leading(1)
    assert values == pytest.approx([0.0])
    assert np.isfinite(vectors).all()


class Keep(AbstractShrinkage):
    """No shrinkage: PCA."""

    def __init__(self):
        self.values = []

    def shrink(self, b):
        value = (b**2).sum(axis=(1, 2))
        self.values.append(value)
        return b, value


class TestLoop:
    def test_rotation_of_each_start(self):
        X, covariance = draw(p=8)
        L = np.random.default_rng(0).normal(size=(3, 2, 8))
        X = X / covariance.unit
        for start, b in zip(L, rotate(covariance, L), strict=True):
            left, _, right = np.linalg.svd(X @ start.T, full_matrices=False)
            np.testing.assert_allclose(b, (X.T @ left @ right).T / np.sqrt(50), atol=1e-10)

    def test_rises_to_the_leading_eigenvalues(self):
        _, covariance = draw(p=8)
        keep = Keep()
        starts = np.random.default_rng(0).normal(size=(1, 2, 8))
        fit = climb(covariance, keep, starts, tol=1e-13, max_iter=5000)
        assert fit.converged
        assert fit.value == pytest.approx(covariance.leading(2)[0].sum())
        np.testing.assert_array_equal(fit.path, np.concatenate(keep.values))
        assert (np.diff(np.concatenate(keep.values)) > -1e-12).all()
        assert fit.n_iter == len(keep.values)

    def test_best_start_is_kept(self):
        covariance = CovarianceMatrix(np.diag([4.0, 2.0, 1.0]), 10)
        starts = np.eye(3)[:, None]  # each an eigenvector, from which nothing moves
        fit = climb(covariance, Keep(), starts, tol=1e-8, max_iter=100)
        np.testing.assert_array_equal(fit.loadings[0] != 0, [True, False, False])

    def test_stops_in_time(self):
        _, covariance = draw(p=8)
        starts = np.random.default_rng(0).normal(size=(1, 2, 8))
        fit = climb(covariance, Keep(), starts, tol=0.0, max_iter=3)
        assert (fit.n_iter, fit.converged) == (3, False)


class TestStarts:
    def test_separate_features(self):
        """A copy of a feature adds nothing, so that it is not taken again."""
        X = np.random.default_rng(0).normal(size=(200, 4)) * [5.0, 1.0, 4.0, 3.0]
        X[:, 1] = 0.999 * X[:, 0]
        chosen = separate_features(CovarianceMatrix(X.T @ X / 200, 200), 3)
        np.testing.assert_array_equal(chosen.argmax(axis=1), [0, 2, 3])

    @pytest.mark.parametrize("number", [1, 2, 3, 4, 9])
    @pytest.mark.parametrize("k", [1, 2])
    def test_number(self, number, k):
        _, covariance = draw(p=20)
        principal = covariance.leading(k)[1].T
        starts = joint_starts(covariance, principal, number, np.random.default_rng(0))
        assert starts.shape == (number + (k == 1 and number > 1), k, 20)
        assert starts.any(axis=(1, 2)).all()


def test_lanczos_steps_that_fail_are_replaced(monkeypatch):
    def fail(*args, **kwargs):
        raise ArpackError(-9999)

    ours, expected = deflated(ScoresRemoved)
    monkeypatch.setattr("ebcd.peers._alternate.eigsh", fail)
    values, _ = ours.leading(1)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(expected)[-1], rtol=0.05)
