"""SPC: its threshold, its criterion, its deflation and its cross-validation."""

import numpy as np
import pytest
from scipy.optimize import brentq

from ebcd.datasets import make_simulation
from ebcd.fitting._methods import threshold_for_sum
from ebcd.metrics import component_angles
from ebcd.peers import SPC
from ebcd.peers._spc import best_sumabs


def soft(x, level):
    return np.sign(x) * np.maximum(np.abs(x) - level, 0.0)


def ratio(x):
    return np.abs(x).sum() / np.linalg.norm(x)


class TestThreshold:
    @pytest.mark.parametrize("size", [2, 5, 50, 501])
    @pytest.mark.parametrize("seed", range(5))
    def test_beside_a_root_finder(self, size, seed):
        rng = np.random.default_rng(seed)
        rows = rng.standard_t(2, size=(20, size)) * 10.0 ** rng.uniform(-3, 3, size=(20, 1))
        sums = rng.uniform(1.01, np.sqrt(size), size=20)
        levels = threshold_for_sum(rows, sums)
        for row, c, level in zip(rows, sums, levels, strict=True):
            if ratio(row) <= c:
                assert level == pytest.approx(0.0, abs=1e-12)
                continue
            top = np.abs(row).max()
            expected = brentq(
                lambda t, row=row, c=c: ratio(soft(row, t)) - c, 0, top * (1 - 1e-12), xtol=1e-14
            )
            assert level == pytest.approx(expected, rel=1e-6, abs=1e-9 * top)

    def test_sum_of_one_leaves_one_entry(self):
        rows = np.array([[3.0, -1.0, 2.0], [0.5, 0.1, -0.7]])
        left = soft(rows, threshold_for_sum(rows, np.ones(2))[:, None])
        assert (np.count_nonzero(left, axis=1) == 1).all()
        np.testing.assert_array_equal(np.abs(left).argmax(axis=1), [0, 2])

    def test_equal_entries_stay_equal(self):
        rows = np.array([[2.0, 2.0, -2.0, 1.0], [1.0, 1.0, 1.0, 1.0]])
        left = soft(rows, threshold_for_sum(rows, np.array([1.2, 1.2]))[:, None])
        np.testing.assert_array_equal(left[0] != 0, [True, True, True, False])
        assert np.ptp(np.abs(left[0, :3])) == 0
        assert left[1].all()

    def test_zeros(self):
        np.testing.assert_array_equal(threshold_for_sum(np.zeros((1, 4)), np.ones(1)), [0.0])


def draw(n=60, p=12, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, :4], L[1, 6:] = 2.0, 1.0
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p))


class TestCriterion:
    @pytest.mark.parametrize("sumabs", [1.0, 1.5, 2.2, 3.0])
    def test_constraints_hold(self, sumabs):
        model = SPC(3, sumabs=sumabs).fit(draw())
        v = model.components_ / np.linalg.norm(model.components_, axis=1, keepdims=True)
        assert (np.abs(v).sum(axis=1) <= sumabs * (1 + 1e-9)).all()

    @pytest.mark.parametrize("sumabs", [1.3, 2.0, 2.8])
    def test_fixed_point(self, sumabs):
        """Loadings are the best for their scores, found by a general solver of the criterion."""
        X = draw()
        X = X - X.mean(axis=0)
        model = SPC(1, sumabs=sumabs, tol=1e-14).fit(X)
        v = model.components_[0] / np.linalg.norm(model.components_[0])
        b = X.T @ (X @ v) / np.linalg.norm(X @ v)
        top = np.abs(b).max() * (1 - 1e-9)
        free = ratio(b) <= sumabs
        level = 0.0 if free else brentq(lambda t: ratio(soft(b, t)) - sumabs, 0, top)
        np.testing.assert_allclose(soft(b, level) / np.linalg.norm(soft(b, level)), v, atol=1e-5)

    @pytest.mark.parametrize("sumabs", [2.0, 2.8])
    def test_no_random_start_is_better(self, sumabs):
        X = draw()
        X = X - X.mean(axis=0)
        model = SPC(1, sumabs=sumabs).fit(X)
        v = model.components_[0] / np.linalg.norm(model.components_[0])
        w = np.random.default_rng(0).normal(size=(40, X.shape[1]))
        for _ in range(300):
            b = w @ X.T @ X
            left = soft(b, threshold_for_sum(b, np.full(40, sumabs))[:, None])
            w = left / np.linalg.norm(left, axis=1, keepdims=True)
        assert np.linalg.norm(X @ v) > np.linalg.norm(w @ X.T, axis=1).max() * (1 - 1e-6)

    def test_no_constraint_is_pca(self):
        X = draw()
        X = X - X.mean(axis=0)
        model = SPC(3, sumabs=np.sqrt(12), tol=1e-14, max_iter=10_000).fit(X)
        _, values, right = np.linalg.svd(X / np.sqrt(60), full_matrices=False)
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), values[:3])
        cosines = np.abs((model.components_ * right[:3]).sum(axis=1)) / values[:3]
        np.testing.assert_allclose(cosines, 1.0)

    def test_scores_are_uncorrelated(self):
        scores = SPC(4, sumabs=1.8).fit_transform(draw())
        np.testing.assert_allclose(scores.T @ scores / 60, np.eye(4), atol=1e-10)

    def test_next_component_is_first_of_what_is_left(self):
        """With scores taken out of the data, not of their covariance."""
        X = draw()
        X = X - X.mean(axis=0)
        model = SPC(2, sumabs=[2.0, 1.5]).fit(X)
        z = model.transform(X)[:, 0]
        left = X - np.outer(z, z @ X) / 60
        second = SPC(1, sumabs=1.5).fit(left)
        np.testing.assert_allclose(model.components_[1], second.components_[0], atol=1e-6)
        np.testing.assert_allclose(
            model.transform(X)[:, 1], second.transform(left)[:, 0], atol=1e-6
        )

    def test_list_keeps_its_order(self):
        X = draw()
        model = SPC(2, sumabs=[1.0, 3.0]).fit(X)
        np.testing.assert_array_equal(model.sumabs_, [1.0, 3.0])
        assert np.count_nonzero(model.components_[0]) == 1
        assert np.count_nonzero(model.components_[1]) > 1


class TestCrossValidation:
    def test_beside_a_plain_loop(self):
        """The same choice as fits with entries held out, one candidate and fold after the other."""
        X = draw(30, 9)
        rng = np.random.default_rng(3)
        first = np.linalg.svd(X)[2][0]
        chosen = best_sumabs(X, first, 4, rng)
        fold = np.random.default_rng(3).permutation(np.arange(X.size) % 4).reshape(X.shape)
        candidates = np.linspace(1, 3, 25)
        errors = np.zeros(25)
        for part in range(4):
            known = np.where(fold == part, 0.0, X)
            for i, c in enumerate(candidates):
                v = first
                for _ in range(5):
                    u = known @ v / np.linalg.norm(known @ v)
                    b = known.T @ u
                    v = soft(b, threshold_for_sum(b[None], np.array([c]))[0])
                    v = v / np.linalg.norm(v)
                u = known @ v / np.linalg.norm(known @ v)
                fit = (u @ known @ v) * np.outer(u, v)
                errors[i] += ((X - fit)[fold == part] ** 2).sum()
        assert chosen == pytest.approx(candidates[errors.argmin()])

    def test_finds_sparse_components(self):
        X, V, _ = make_simulation(1, random_state=3)
        model = SPC(2, center=False).fit(X)
        pca = np.linalg.svd(X)[2][:2].T
        assert component_angles(V, model.components_.T).sum() < component_angles(V, pca).sum()
        assert np.count_nonzero(model.components_) < 500

    def test_seed_is_of_the_folds(self):
        X = draw(20, 40)
        first = SPC(2, random_state=1).fit(X).sumabs_
        np.testing.assert_array_equal(first, SPC(2, random_state=1).fit(X).sumabs_)
        picks = {tuple(SPC(2, random_state=seed).fit(X).sumabs_) for seed in range(8)}
        assert len(picks) > 1

    def test_more_folds(self):
        assert SPC(1, cv=10).fit(draw()).n_components_ == 1


class TestBadInput:
    @pytest.mark.parametrize("sumabs", [3.5, [2.0, 4.0]])
    def test_outside_its_range(self, sumabs):
        with pytest.raises(ValueError, match=r"between 1 and the square root .* 3.464, got"):
            SPC(2, sumabs=sumabs).fit(draw())

    def test_root_of_the_number_of_features_is_allowed(self):
        SPC(1, sumabs=float(np.sqrt(np.float32(12)))).fit(draw())

    @pytest.mark.parametrize("sumabs", [[2.0], [1.0, 2.0, 3.0]])
    def test_wrong_number(self, sumabs):
        with pytest.raises(
            ValueError, match=r"one for each component, got . numbers for n_components=2"
        ):
            SPC(2, sumabs=sumabs).fit(draw())

    def test_more_folds_than_entries(self):
        with pytest.raises(ValueError, match=r"cv must be an integer from 2 to \d+, got 1000000"):
            SPC(2, cv=1_000_000).fit(draw())

    def test_cross_validation_needs_data(self):
        X = draw()
        with pytest.raises(
            TypeError, match=r"to a covariance: .* holds out entries; pass a number"
        ):
            SPC(2).fit_covariance(X.T @ X / 60, 60)
        with pytest.raises(TypeError, match="cannot be fitted to a compact matrix"):
            SPC(2, center=False).fit(np.linalg.qr(X)[1], n_samples=60)
