"""The plain alternating loop, deflations as covariances, and starts of sparse PCA."""

import numpy as np
import pytest

from ebcd.data import CovarianceMatrix
from ebcd.fitting._alternate import alternate
from ebcd.fitting._deflation import Deflated, Selected
from ebcd.fitting._rotation import polar
from ebcd.peers._starts import joint_starts, separate_features


def draw(n=50, p=90, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, p)) * np.linspace(1, 3, p)
    return X, CovarianceMatrix(X.T @ X / n, n)


def deflated(kind, p=90):
    """Deflate a covariance by a direction, and the data."""
    X, covariance = draw(p=p)
    X = X / covariance.unit
    v = np.random.default_rng(1).normal(size=p)
    w = v / np.linalg.norm(X @ v) * np.sqrt(50)
    ours = kind(Deflated(covariance), w, covariance.matmul(w[:, None])[:, 0])
    v, z = v / np.linalg.norm(v), X @ w
    left = X - (np.outer(z, z @ X) / 50 if kind is Deflated.without_scores else np.outer(X @ v, v))
    return ours, left


@pytest.mark.parametrize("kind", [Deflated.without_scores, Deflated.without_direction])
class TestDeflation:
    @pytest.mark.parametrize("p", [20, 90])
    def test_is_the_covariance_of_deflated_data(self, kind, p):
        ours, left = deflated(kind, p)
        expected = left.T @ left / 50
        np.testing.assert_allclose(ours.matmul(np.eye(p)), expected, atol=1e-10)
        np.testing.assert_allclose(ours.diagonal(), np.diag(expected), atol=1e-10)
        assert ours.trace() == pytest.approx(np.trace(expected))

    def test_data_and_weights(self, kind):
        X, covariance = draw()
        ours, left = deflated(kind)
        np.testing.assert_allclose(ours.deflate(X / covariance.unit), left, atol=1e-10)
        weights = np.random.default_rng(2).normal(size=90)
        scores = X / covariance.unit @ ours.undeflated(weights)
        np.testing.assert_allclose(scores, left @ weights, atol=1e-10)

    @pytest.mark.parametrize("p", [20, 90])
    @pytest.mark.parametrize("k", [1, 3])
    def test_leading(self, kind, p, k):
        ours, left = deflated(kind, p)
        expected = left.T @ left / 50
        values, vectors = ours.leading(k)
        np.testing.assert_allclose(values, np.linalg.eigvalsh(expected)[::-1][:k], rtol=1e-6)
        np.testing.assert_allclose(expected @ vectors, vectors * values, atol=1e-4)

    def test_twice(self, kind):
        once, left = deflated(kind)
        v = np.eye(90)[3]
        left = left - np.outer(left @ v, v)
        twice = once.without_direction(v, once.matmul(v[:, None])[:, 0])
        np.testing.assert_allclose(twice.matmul(np.eye(90)), left.T @ left / 50, atol=1e-10)


def test_nothing_is_left():
    only = np.zeros((100, 100))
    only[0, 0] = 100.0
    covariance = CovarianceMatrix(only, 50)
    b = np.sqrt(covariance.diagonal())
    values, vectors = Deflated(covariance).without_scores(np.eye(100)[0] / b[0], b).leading(1)
    assert values == pytest.approx([0.0])
    assert np.isfinite(vectors).all()


def test_some_of_the_features():
    _, covariance = draw(p=20)
    chosen = np.array([3, 4, 11])
    expected = covariance.matmul(np.eye(20))[np.ix_(chosen, chosen)]
    ours = Selected(covariance, chosen)
    np.testing.assert_allclose(ours.matmul(np.eye(3)), expected)
    np.testing.assert_allclose(ours.diagonal(), np.diag(expected))


class Keep:
    """No shrinkage: PCA."""

    def __init__(self):
        self.values = []

    def __call__(self, b, fits):
        value = (b**2).sum(axis=(1, 2))
        self.values.append(value)
        return b, value


def climb(covariance, shrinkage, starts, **options):
    return alternate(lambda loadings: polar(covariance, loadings), shrinkage, starts, **options)


class TestLoop:
    def test_rotation_of_each_start(self):
        X, covariance = draw(p=8)
        L = np.random.default_rng(0).normal(size=(3, 2, 8))
        X = X / covariance.unit
        for start, b in zip(L, polar(covariance, L), strict=True):
            left, _, right = np.linalg.svd(X @ start.T, full_matrices=False)
            np.testing.assert_allclose(b, (X.T @ left @ right).T / np.sqrt(50), atol=1e-10)

    @pytest.mark.parametrize("momentum", [False, True])
    def test_rises_to_the_leading_eigenvalues(self, momentum):
        _, covariance = draw(p=8)
        keep = Keep()
        starts = np.random.default_rng(0).normal(size=(1, 2, 8))
        options = {"tol": 1e-13, "max_iter": 5000, "momentum": momentum}
        (fit,) = climb(covariance, keep, starts, **options)
        assert fit.converged
        assert fit.path[-1] == pytest.approx(covariance.leading(2)[0].sum())
        assert (np.diff(fit.path) > -1e-12).all()
        if not momentum:
            np.testing.assert_array_equal(fit.path, np.concatenate(keep.values))
        assert len(fit.path) == len(keep.values) < (60 if momentum else 500)

    def test_every_fit_is_that_of_its_start(self):
        """Fits that end at different times are not mixed up."""
        _, covariance = draw(p=8)
        starts = np.random.default_rng(0).normal(size=(5, 2, 8))
        options = {"tol": 1e-6, "max_iter": 200, "momentum": True}
        together = climb(covariance, Keep(), starts, **options)
        assert len({len(fit.path) for fit in together}) > 1
        for start, fit in zip(starts, together, strict=True):
            (alone,) = climb(covariance, Keep(), start[None], **options)
            np.testing.assert_allclose(fit.loadings, alone.loadings, atol=1e-10)
            np.testing.assert_allclose(fit.observed, alone.observed, atol=1e-10)
            np.testing.assert_allclose(fit.path, alone.path)

    def test_starts_compete(self):
        covariance = CovarianceMatrix(np.diag([4.0, 2.0, 1.0]), 10)
        starts = np.eye(3)[:, None]  # each an eigenvector, from which nothing moves
        fits = climb(covariance, Keep(), starts, tol=1e-8, max_iter=100, compete=True)
        best = max(fits, key=lambda fit: fit.path[-1])
        np.testing.assert_array_equal(best.loadings[0] != 0, [True, False, False])

    def test_losers_are_left_out(self):
        _, covariance = draw(p=40)
        starts = np.random.default_rng(0).normal(size=(30, 1, 40))
        options = {"tol": 0.0, "max_iter": 60}
        every = climb(covariance, Keep(), starts, **options)
        (only,) = climb(covariance, Keep(), starts, compete=True, **options)
        ahead = max(every, key=lambda fit: fit.path[29])
        np.testing.assert_allclose(only.path, ahead.path)

    def test_rival(self):
        covariance = CovarianceMatrix(np.diag([4.0, 2.0, 1.0]), 10)
        top = float(covariance.diagonal().max())
        starts = np.eye(3)[:, None]
        options = {"tol": 1e-8, "max_iter": 100}
        assert len(climb(covariance, Keep(), starts, rival=0.9 * top, **options)) == 1
        assert climb(covariance, Keep(), starts, rival=1.1 * top, **options) == []

    def test_stops_in_time(self):
        _, covariance = draw(p=8)
        starts = np.random.default_rng(0).normal(size=(1, 2, 8))
        (fit,) = climb(covariance, Keep(), starts, tol=0.0, max_iter=3)
        assert (len(fit.path), fit.converged) == (3, False)


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
