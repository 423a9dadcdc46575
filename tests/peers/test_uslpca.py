"""USLPCA: the number of loadings, and its criterion beside brute force."""

from itertools import combinations

import numpy as np
import pytest

from ebcd.peers import USLPCA


def draw(seed=0, n=40, p=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def polar(A):
    left, _, right = np.linalg.svd(A, full_matrices=False)
    return left @ right


def residual(X, Z, L):
    return ((X - Z @ L.T) ** 2).mean()


class TestOneComponent:
    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("number", [1, 2, 3, 5, 6])
    def test_all_supports(self, seed, number):
        """The best first component on every support is its largest eigenvalue."""
        X = draw(seed)
        S = X.T @ X / len(X)
        best = max(
            np.linalg.eigvalsh(S[np.ix_(on, on)])[-1] for on in combinations(range(6), number)
        )
        model = USLPCA(1, n_nonzero=number).fit(X)
        assert np.count_nonzero(model.components_) == number
        np.testing.assert_allclose(model.explained_variance_[0], best, rtol=1e-6)


class TestTwoComponents:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("number", [4, 7])
    def test_all_patterns(self, seed, number):
        """For every pattern of loadings alternate scores and loadings to the end."""
        X = draw(seed, p=4)
        n = len(X)
        best = np.inf
        rng = np.random.default_rng(seed)
        for places in combinations(range(8), number):
            on = np.isin(np.arange(8), places).reshape(4, 2)
            for _ in range(2):
                Z = polar(X @ rng.normal(size=(4, 2))) * np.sqrt(n)
                for _ in range(60):
                    L = np.where(on, X.T @ Z / n, 0.0)
                    Z = polar(X @ L) * np.sqrt(n)
                best = min(best, residual(X, Z, np.where(on, X.T @ Z / n, 0.0)))
        model = USLPCA(2, n_nonzero=number, tol=1e-13, max_iter=10_000).fit(X)
        ours = residual(X, model.transform(X), model.components_.T)
        assert ours < best * (1 + 1e-6)
        np.testing.assert_allclose(model.noise_variance_, ours)

    @pytest.mark.parametrize("number", range(2, 13))
    def test_number_of_loadings(self, number):
        model = USLPCA(2, n_nonzero=number).fit(draw())
        assert np.count_nonzero(model.components_) == number

    def test_more_loadings_fit_better(self):
        left = [USLPCA(2, n_nonzero=number).fit(draw()).noise_variance_ for number in range(2, 13)]
        assert (np.diff(left) < 1e-9).all()

    def test_scores_are_uncorrelated(self):
        scores = USLPCA(2, n_nonzero=6).fit_transform(draw())
        np.testing.assert_allclose(scores.T @ scores / 40, np.eye(2), atol=1e-10)

    @pytest.mark.parametrize("number", [None, 12])
    def test_all_loadings_fit_as_pca_does(self, number):
        X = draw()
        model = USLPCA(2, n_nonzero=number).fit(X)
        values = np.linalg.svd(X / np.sqrt(40), compute_uv=False)
        np.testing.assert_allclose(model.noise_variance_, (values[2:] ** 2).sum() / 6)

    def test_starts_are_random_but_the_same(self):
        X = draw(1, p=30)
        first = USLPCA(3, n_nonzero=20, random_state=1).fit(X)
        again = USLPCA(3, n_nonzero=20, random_state=1).fit(X)
        np.testing.assert_array_equal(first.components_, again.components_)
        one = USLPCA(3, n_nonzero=20, n_starts=1).fit(X)
        assert first.noise_variance_ <= one.noise_variance_ * (1 + 1e-9)


def test_a_component_that_gets_no_loading_is_dropped():
    X = draw() * np.array([50.0, 40.0, 1, 1, 1, 1]) * [[1.0]]
    X[:, 1] = X[:, 0] + 0.01 * X[:, 2]
    with pytest.warns(UserWarning, match=r"dropped 1 of 2 components, .* raise n_nonzero or use"):
        model = USLPCA(2, n_nonzero=2).fit(X)
    assert model.components_.shape == (1, 6)


class TestBadInput:
    def test_more_than_there_are(self):
        with pytest.raises(ValueError, match="2 components of 6 features have only 12 loadings"):
            USLPCA(2, n_nonzero=13).fit(draw())

    def test_fewer_than_components(self):
        with pytest.raises(ValueError, match="n_nonzero is 2, fewer than one for each of 3 comp"):
            USLPCA(3, n_nonzero=2).fit(draw())


def test_without_zeros_they_are_principal_components_whatever_the_rounding():
    X = draw(n=100, p=30)
    model = USLPCA(2).fit(X)
    _, d, right = np.linalg.svd(X / 10, full_matrices=False)
    np.testing.assert_allclose(
        np.abs(model.components_), np.abs(d[:2, None] * right[:2]), atol=1e-8
    )
    other = USLPCA(2).fit_covariance(X.T @ X / 100, n_samples=100)
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-8)
