"""ITSPCA: its levels, its start and its iteration, beside plain dense versions."""

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.exceptions import ConvergenceWarning

from ebcd.fitting._methods import threshold
from ebcd.fitting._rotation import orthonormal_rows
from ebcd.peers import ITSPCA
from ebcd.peers._itspca import enough_steps

KINDS = ("hard", "soft", "scad")


def draw(n=200, p=60, seed=0, noise=1.0):
    rng = np.random.default_rng(seed)
    V = np.zeros((p, 2))
    V[:6, 0], V[10:18, 1] = 1 / np.sqrt(6), 1 / np.sqrt(8)
    scores = rng.normal(size=(n, 2)) * [5.0, 3.0]
    X = noise * (scores @ V.T + rng.normal(size=(n, p)))
    return X - X.mean(axis=0), V


class TestThresholds:
    @pytest.mark.parametrize("name", KINDS)
    def test_what_the_theory_asks(self, name):
        """Zero up to the level, and never further from its argument than the level."""
        t = np.linspace(-6, 6, 2001)[:, None] * np.ones(2)
        level = np.array([1.0, 0.3])
        after = threshold(name, t, level)
        assert not after[np.abs(t) <= level * np.ones_like(t)].any()
        assert (np.abs(after - t) <= level * (1 + 1e-12)).all()
        np.testing.assert_allclose(after, -after[::-1])
        np.testing.assert_array_equal(threshold(name, t, np.zeros(2)), t)

    def test_values(self):
        t, level = np.array([[0.9], [1.5], [3.0], [4.0]]), np.ones(1)
        np.testing.assert_allclose(threshold("hard", t, level)[:, 0], [0, 1.5, 3, 4])
        np.testing.assert_allclose(threshold("soft", t, level)[:, 0], [0, 0.5, 2, 3])
        # Fan and Li 2001, equation 2.8, with a = 3.7
        np.testing.assert_allclose(
            threshold("scad", t, level)[:, 0], [0, 0.5, (2.7 * 3 - 3.7) / 1.7, 4]
        )


class TestFit:
    @pytest.mark.parametrize("thresholding", KINDS)
    @pytest.mark.parametrize("noise", [1.0, 20.0])
    def test_beside_a_dense_version(self, thresholding, noise):
        X, _ = draw(noise=noise)
        n, p = X.shape
        S = X.T @ X / n
        sigma2 = np.median(np.diag(S))
        chosen = np.diag(S) >= sigma2 * (1 + 3 * np.sqrt(np.log(n) / n))
        assert 2 < chosen.sum() < 30
        values, vectors = np.linalg.eigh(S[np.ix_(chosen, chosen)])
        Q = np.zeros((p, 2))
        Q[chosen] = vectors[:, ::-1][:, :2]
        levels = 1.5 * np.sqrt(sigma2 * values[::-1][:2] * np.log(n) / n)
        for _ in range(30):
            Q, _ = np.linalg.qr(threshold(thresholding, S @ Q, levels))
        model = ITSPCA(2, thresholding=thresholding, tol=1e-20, max_iter=500).fit(X)
        np.testing.assert_allclose(model.thresholds_, levels, rtol=1e-8)
        ours = model.components_.T / np.linalg.norm(model.components_, axis=1)
        np.testing.assert_allclose(np.abs(ours.T @ Q), np.eye(2), atol=1e-8)
        np.testing.assert_allclose(
            model.explained_variance_, np.diag(ours.T @ S @ ours), rtol=1e-10
        )

    def test_no_thresholds_are_orthogonal_iteration(self):
        X, _ = draw()
        model = ITSPCA(2, gamma=0.0, tol=1e-24, max_iter=1000).fit(X)
        values, vectors = np.linalg.eigh(X.T @ X / len(X))
        np.testing.assert_allclose(model.explained_variance_, values[::-1][:2])
        ours = model.components_.T / np.linalg.norm(model.components_, axis=1)
        np.testing.assert_allclose(np.abs(ours.T @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-8)

    @pytest.mark.parametrize("seed", range(5))
    def test_closer_to_the_truth_than_pca(self, seed):
        X, V = draw(n=100, p=400, seed=seed)
        ours = ITSPCA(2).fit(X).components_.T
        pca = np.linalg.svd(X, full_matrices=False)[2][:2].T

        def distance(A):
            Q = np.linalg.qr(A)[0]
            return np.linalg.norm(V @ V.T - Q @ Q.T)

        assert distance(ours) < 0.6 * distance(pca)
        assert np.count_nonzero(ours.any(axis=1)) < 40

    def test_components_are_orthogonal(self):
        X, _ = draw()
        L = ITSPCA(2).fit(X).components_
        assert abs(L[0] @ L[1]) < 1e-10 * np.linalg.norm(L[0]) * np.linalg.norm(L[1])

    def test_correlations_start_from_pca(self):
        X, _ = draw(p=20)
        model = ITSPCA(2, scale=True).fit(X)
        assert model.n_components_ == 2
        assert set(np.flatnonzero(model.components_[:, :6].any(axis=0))) == set(range(6))

    def test_few_features_stand_out(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(50, 30))
        X[:, 4] *= 1.2
        X[:, 9] *= 1.1
        model = ITSPCA(1, alpha=100.0, gamma=0.0, max_iter=1, tol=1.0).fit(X)
        S = np.cov(X.T, bias=True)
        start = S[:, S.diagonal().argmax()]  # one step from the feature of largest variance
        cosine = start @ model.components_[0]
        assert abs(cosine) == pytest.approx(
            np.linalg.norm(start) * np.linalg.norm(model.components_[0])
        )

    def test_a_component_without_loadings_is_dropped(self):
        X, _ = draw()
        with pytest.warns(UserWarning, match=r"dropped 1 of 3 components, .*; lower gamma"):
            model = ITSPCA(3, gamma=6.0).fit(X)
        assert model.n_components_ == model.thresholds_.size == 2
        with pytest.warns(UserWarning, match="dropped 2 of 2 components"):
            none = ITSPCA(2, gamma=100.0).fit(X)
        assert none.transform(X).shape == (200, 0)


class TestChanges:
    @pytest.mark.parametrize("thresholding", KINDS)
    def test_angles_between_successive_subspaces(self, thresholding):
        X, _ = draw()
        n = len(X)
        S = X.T @ X / n
        chosen = np.diag(S) >= np.median(np.diag(S)) * (1 + 3 * np.sqrt(np.log(n) / n))
        model = ITSPCA(2, thresholding=thresholding, gamma=0.5, tol=1e-12, max_iter=100).fit(X)
        levels = np.sort(model.thresholds_)[::-1]
        Q = np.zeros((60, 2))
        Q[chosen] = np.linalg.eigh(S[np.ix_(chosen, chosen)])[1][:, :-3:-1]
        expected = []
        for _ in range(model.n_iter_):
            old, Q = Q, np.linalg.qr(threshold(thresholding, S @ Q, levels))[0]
            expected.append(np.sin(subspace_angles(old, Q).max()) ** 2)
        assert len(expected) > 3
        np.testing.assert_allclose(model.change_path_, expected, rtol=1e-4, atol=1e-15)

    def test_stops_at_the_tolerance(self):
        X, _ = draw()
        for options, tol in (({}, 1 / 200**2), ({"tol": 1e-10, "max_iter": 100}, 1e-10)):
            model = ITSPCA(2, **options).fit(X)
            assert model.converged_
            assert model.change_path_.shape == (model.n_iter_,)
            assert model.change_path_[-1] <= tol < model.change_path_[:-1].min()

    def test_stopped_before(self):
        with pytest.warns(ConvergenceWarning, match="after 2 iterations"):
            model = ITSPCA(2, max_iter=2, tol=1e-12).fit(draw()[0])
        assert model.change_path_.shape == (2,)
        assert (model.change_path_ > 1e-12).all()

    def test_no_angle_where_a_component_is_dropped(self):
        X, _ = draw()
        with pytest.warns(UserWarning, match="dropped 1 of 3"):
            model = ITSPCA(3, gamma=6.0).fit(X)
        assert model.n_iter_ > 1
        np.testing.assert_array_equal(np.isnan(model.change_path_), np.arange(model.n_iter_) == 0)
        with pytest.warns(UserWarning, match="dropped 2 of 2"):
            none = ITSPCA(2, gamma=100.0).fit(X)
        np.testing.assert_array_equal(none.change_path_, [np.nan])

    def test_nothing_to_iterate(self):
        with pytest.warns(UserWarning, match="do not vary"):
            model = ITSPCA(2).fit(np.ones((5, 3)))
        assert model.change_path_.shape == (model.n_iter_,) == (0,)


class TestPieces:
    def test_number_of_steps(self):
        """1.1 l1 / (lk - lk+1) ((1 + 1/log 2) log(max(n, p)) + max(0, log((l1 - 1)^2 / l1)))."""
        values = np.array([10.0, 5.0, 1.0])
        expected = 1.1 * 10 / 4 * ((1 + 1 / np.log(2)) * np.log(200) + np.log(81 / 10))
        assert enough_steps(values, 2, np.log(200)) == np.ceil(expected)
        small = np.array([1.5, 1.0])
        assert enough_steps(small, 1, 5.0) == np.ceil(1.1 * 3 * (1 + 1 / np.log(2)) * 5.0)
        assert enough_steps(np.ones(3), 2, 5.0) == 5000

    def test_basis_leaves_out_what_it_has(self):
        rows = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
        expected = [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]]
        np.testing.assert_allclose(orthonormal_rows(rows), expected, atol=1e-12)
