"""GPower: its criteria, beside brute force and beside elastic-net penalised PCA."""

import numpy as np
import pytest
from decomposition import climb

from ebcd.peers import GPower


def draw(seed, n=20, p=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.5, 2, size=p)
    return X + rng.normal(size=(n, 1)) @ rng.normal(size=(1, p))


def soft(x, level):
    return np.sign(x) * np.maximum(np.abs(x) - level, 0.0)


def polar(A):
    left, _, right = np.linalg.svd(A, full_matrices=False)
    return left @ right


def brute_force(X, gamma, mu, penalty, rng, starts=60):
    """Best criterion from many random scores, on the data, straight from the definition."""
    n, s2, best = len(X), (X**2).mean(axis=0).max(), 0.0
    for start in range(starts):
        side = rng.normal(size=(n, len(mu)))
        Z = polar(side if start % 2 else X @ X.T @ side)
        old, value = -1.0, 0.0
        while value - old > 1e-12:
            B = X.T @ Z / np.sqrt(n)
            old = value
            if penalty == "l1":
                L = soft(B, gamma * np.sqrt(s2))
                size = np.linalg.norm(L, axis=0)
                value, L = mu @ size, mu * L / np.where(size > 0, size, 1.0)
            else:
                value = (mu**2 * np.maximum(B**2 - gamma * s2, 0.0)).sum()
                L = mu**2 * np.where(gamma * s2 < B**2, B, 0.0)
            Z = polar(X @ L) if L.any() else Z
        best = max(best, value)
    return best


class TestBruteForce:
    @pytest.mark.parametrize("penalty", ["l1", "l0"])
    @pytest.mark.parametrize("mu", [None, [1.0, 1.0, 1.0]])
    @pytest.mark.parametrize("seed", range(6))
    @pytest.mark.filterwarnings("ignore:GPower dropped")
    def test_block(self, penalty, mu, seed):
        X, rng = draw(seed), np.random.default_rng(seed)
        gamma = rng.uniform(0.0, 0.4)
        weights = np.array([1, 1 / 2, 1 / 3]) if mu is None else np.array(mu)
        model = GPower(
            3, penalty=penalty, gamma=gamma, mu=mu, center=False, tol=1e-13, max_iter=10_000
        ).fit(X)
        best = brute_force(X, gamma, weights, penalty, rng)
        assert model.objective_ > best * (1 - 1e-9)

    @pytest.mark.parametrize("penalty", ["l1", "l0"])
    @pytest.mark.parametrize("seed", range(6))
    def test_single(self, penalty, seed):
        X, rng = draw(seed, p=12), np.random.default_rng(seed)
        gamma = rng.uniform(0.0, 0.6)
        model = GPower(
            1, penalty=penalty, gamma=gamma, block=False, center=False, tol=1e-13, max_iter=10_000
        ).fit(X)
        assert model.objective_ > brute_force(X, gamma, np.ones(1), penalty, rng) * (1 - 1e-9)

    @pytest.mark.parametrize("penalty", ["l1", "l0"])
    def test_objective_is_that_of_the_loadings(self, penalty):
        X = draw(0)
        model = GPower(2, penalty=penalty, gamma=0.15, center=False).fit(X)
        B = X.T @ model.transform(X) / len(X)
        s, mu = np.sqrt((X**2).mean(axis=0).max()), np.array([1, 0.5])
        values = []
        for order in ([0, 1], [1, 0]):  # components are sorted by their variance
            weights = mu[order]
            if penalty == "l1":
                values.append(weights @ np.linalg.norm(soft(B, 0.15 * s), axis=0))
            else:
                values.append(weights**2 @ np.maximum(B**2 - 0.15 * s**2, 0.0).sum(axis=0))
        assert model.objective_ == pytest.approx(max(values), rel=1e-6)


class TestElasticNet:
    """Section 2.3 of the paper: GPower is the inner problem of elastic-net penalised PCA."""

    LAMBDA_1, LAMBDA_2 = 0.3, 0.2

    def criterion(self, X, Z, L):
        """PCA with an elastic-net penalty, Z'Z = I, without half the sum of squares of X."""
        parts = self.LAMBDA_1 * np.abs(L) + self.LAMBDA_2 * L**2
        fit = ((X - Z @ L.mT) ** 2).sum(axis=(-2, -1)) / 2 - (X**2).sum() / 2
        return fit + parts.sum(axis=(-2, -1))

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("mu", [[3.0, 1.0], [2.0, 4.0]])
    @pytest.mark.slow
    def test_block_l1_is_the_inner_maximum(self, seed, mu):
        X, mu = draw(seed), np.array(mu)
        n, s = len(X), np.sqrt((X**2).mean(axis=0).max())
        # thresholds are gamma s in our units and lambda / sqrt(n) there
        gamma = self.LAMBDA_1 / (np.sqrt(n) * s)
        model = GPower(2, gamma=gamma, mu=mu, center=False, tol=1e-13, max_iter=10_000).fit(X)
        # criterion at fixed norms = -(inner maximum) + sum (1/2 + lambda_2) mu^2
        inner = np.sqrt(n) * model.objective_
        from_gpower = -inner + ((0.5 + self.LAMBDA_2) * mu**2).sum()
        v = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
        Z, L = model.transform(X) / np.sqrt(n), (v * mu[:, None]).T
        assert self.criterion(X, Z, L) == pytest.approx(from_gpower, rel=1e-6)

        # and no other scores and loadings of these norms are better
        def value(flat):
            at = flat.reshape(len(flat), -1, 2)
            Z, L = polar(at[:, :n]), at[:, n:]
            return -self.criterion(X, Z, L / np.linalg.norm(L, axis=1, keepdims=True) * mu)

        rng = np.random.default_rng(seed)
        starts = rng.normal(size=(4, 2 * n + 2 * X.shape[1]))
        found = [-climb(value, start, None, maxiter=60) for start in starts]
        assert min(found) > from_gpower - 1e-6 * abs(from_gpower)
        assert min(found) < from_gpower + 0.05 * abs(from_gpower)  # it did search


class TestGamma:
    @pytest.mark.parametrize("penalty", ["l1", "l0"])
    @pytest.mark.parametrize("block", [True, False])
    def test_zero_is_pca(self, penalty, block):
        X = draw(0)
        X = X - X.mean(axis=0)
        model = GPower(2, penalty=penalty, gamma=0.0, block=block, tol=1e-14, max_iter=10_000).fit(
            X
        )
        _, values, right = np.linalg.svd(X / np.sqrt(len(X)), full_matrices=False)
        np.testing.assert_allclose(
            np.abs(model.components_ @ right[:2].T), np.diag(values[:2]), atol=1e-4
        )

    @pytest.mark.parametrize("penalty", ["l1", "l0"])
    def test_just_below_one_leaves_the_largest_feature(self, penalty):
        X = draw(0)
        model = GPower(1, penalty=penalty, gamma=1 - 1e-9).fit(X)
        assert model.components_[0].nonzero()[0] == [X.var(axis=0).argmax()]

    @pytest.mark.parametrize("penalty", ["l1", "l0"])
    @pytest.mark.parametrize("mu", [None, [1.0, 1.0], [1.0, 0.05], [30.0, 7.0]])
    def test_is_relative_to_the_largest_feature_whatever_the_weights(self, penalty, mu):
        X = draw(1, n=400)
        model = GPower(2, penalty=penalty, gamma=[0.2, 0.3], mu=mu, tol=1e-13).fit(X)
        b = (X - X.mean(axis=0)).T @ model.transform(X) / 400
        s2 = X.var(axis=0).max()
        level = np.array([0.2, 0.3]) * np.sqrt(s2)
        if penalty == "l0":
            level = np.sqrt(np.array([0.2, 0.3]) * s2)
        np.testing.assert_array_equal(model.components_.T != 0, np.abs(b) > level)
        kept = soft(b, level) if penalty == "l1" else np.where(np.abs(b) > level, b, 0.0)
        unit = model.components_.T / np.linalg.norm(model.components_, axis=1)
        np.testing.assert_allclose(kept / np.linalg.norm(kept, axis=0), unit, atol=1e-4)

    def test_a_component_without_loadings_is_dropped(self):
        X = draw(0) * np.array([5.0, 1, 1, 1, 1, 1, 1, 1])
        with pytest.warns(UserWarning, match=r"dropped 1 of 2 components, .*all zero; lower gamma"):
            model = GPower(2, gamma=[0.2, 0.999], n_starts=1).fit(X)
        assert model.components_.shape == (1, 8)
        assert model.transform(X).shape == (20, 1)

    def test_one_by_one_it_is_relative_to_what_is_left(self):
        X = draw(0) * np.array([5.0, 1, 1, 1, 1, 1, 1, 1])
        model = GPower(2, gamma=0.999, block=False).fit(X)
        np.testing.assert_array_equal(np.count_nonzero(model.components_, axis=1), [1, 1])

    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("block", [True, False])
    @pytest.mark.filterwarnings("ignore:GPower dropped")
    def test_as_close_to_one_as_can_be(self, block, seed):
        """Rounding decides whether a loading is left."""
        model = GPower(2, gamma=np.nextafter(1, 0), block=block).fit(draw(seed))
        assert np.isfinite(model.components_).all()
        assert (np.count_nonzero(model.components_, axis=1) == 1).all()

    def test_one_for_each_component(self):
        X = draw(3, n=100)
        model = GPower(2, gamma=[0.0, 0.5]).fit(X)
        few, many = np.count_nonzero(model.components_, axis=1)[::-1]
        assert few < many == 8


class TestSingle:
    def test_deflation_takes_the_direction_out(self):
        X = draw(4)
        X = X - X.mean(axis=0)
        model = GPower(3, gamma=0.3, block=False, mu=[1, 1, 1]).fit(X)
        left = X
        for number, component in enumerate(model.components_):
            s = np.sqrt((left**2).mean(axis=0).max())
            v = component / np.linalg.norm(component)
            own = GPower(1, gamma=0.3, block=False, center=False).fit(left)
            np.testing.assert_allclose(component, own.components_[0], atol=1e-5)
            b = left.T @ (left @ v) / np.linalg.norm(left @ v) / np.sqrt(len(X))
            again = soft(b, 0.3 * s)
            np.testing.assert_allclose(again / np.linalg.norm(again), v, atol=1e-3)
            z = left @ v
            np.testing.assert_allclose(
                model.transform(X)[:, number], z / np.sqrt((z**2).mean()), atol=1e-8
            )
            left = left - np.outer(z, v)

    def test_authors_start_alone(self):
        """One start: the feature of largest variance."""
        X = draw(5, n=50)
        one = GPower(1, gamma=0.6, block=False, n_starts=1).fit(X)
        many = GPower(1, gamma=0.6, block=False, n_starts=9).fit(X)
        assert many.objective_ >= one.objective_ * (1 - 1e-9)


class TestBadInput:
    @pytest.mark.parametrize("gamma", [-0.1, 1.0, 1.5, np.nan, [0.1, 1.0]])
    def test_gamma(self, gamma):
        with pytest.raises(
            ValueError, match="of at least 0 and below 1 or a list of such numbers, got"
        ):
            GPower(2, gamma=gamma).fit(draw(0))

    @pytest.mark.parametrize("mu", [[1.0], [1.0, 0.5, 0.3]])
    def test_number_of_weights(self, mu):
        with pytest.raises(
            ValueError, match=r"one for each component, got . numbers for n_components=2"
        ):
            GPower(2, mu=mu).fit(draw(0))

    @pytest.mark.parametrize("mu", [0.0, -1.0, np.inf, [1.0, np.nan]])
    def test_weights(self, mu):
        with pytest.raises(ValueError, match="mu must be a number from 1e-6"):
            GPower(2, mu=mu).fit(draw(0))

    def test_number_of_gammas(self):
        with pytest.raises(
            ValueError, match="one for each component, got 3 numbers for n_components=2"
        ):
            GPower(2, gamma=[0.1, 0.2, 0.3]).fit(draw(0))
