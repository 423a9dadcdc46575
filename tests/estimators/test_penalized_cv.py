"""Cross-validated penalised PCA against plain loops over folds and strengths."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit

from ebcd import Gram, PenalizedPCA, PenalizedPCACV
from ebcd.fitting import _penalized
from ebcd.fitting._penalized import emptying_strengths
from ebcd.penalties import PENALTIES, ElasticNet, make_penalty


def draw(n=60, p=24, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, :4], L[1, 8:14] = 3.0, [1.5, -1.5] * 3
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p)) + 5.0


def plain_fit(X, k, penalty, alpha, loadings):
    """Iterate penalised PCA by an SVD and the proximal map until it stands; p x k, Z'Z = I."""
    penalty = make_penalty(penalty)
    unit = penalty.threshold(alpha)
    if loadings is None:
        _, sizes, right = np.linalg.svd(X, full_matrices=False)
        loadings = (right[:k] * sizes[:k, None]).T
        largest = np.take_along_axis(loadings, np.abs(loadings).argmax(axis=0)[None], axis=0)
        loadings = loadings * np.sign(largest)
        if penalty.one_sided:
            loadings = loadings * np.where((loadings**3).sum(axis=0) < 0, -1.0, 1.0)
    for _ in range(20_000):
        # scores of empty components stay out
        left, sizes, right = np.linalg.svd(X @ loadings, full_matrices=False)
        kept = sizes > 1e-8 * sizes.max(initial=1e-300)
        new = unit * penalty.prox(X.T @ (left[:, kept] @ right[kept]) / unit, alpha / unit)
        change, loadings = np.abs(new - loadings).max(), new
        if change < 1e-10:
            break
    return loadings


def by_loops(X, k, alphas, splits, *, penalty="l1", center=True, scale=False, warm=False):
    """Held-out errors with a plain loop for each fold and strength."""
    errors = np.empty((len(alphas), len(splits)))
    for f, (train, test) in enumerate(splits):
        mean = X[train].mean(axis=0) if center else 0.0
        spread = np.sqrt(((X[train] - mean) ** 2).mean(axis=0)) if scale else np.ones(X.shape[1])
        spread[spread == 0] = 1.0
        start = None
        for a, alpha in enumerate(alphas):
            loadings = plain_fit((X[train] - mean) / spread, k, penalty, alpha, start)
            start = loadings if warm else None
            rest = (X[test] - mean) / spread
            basis = np.linalg.svd(loadings, full_matrices=False)[0][
                :, : np.linalg.matrix_rank(loadings)
            ]
            errors[a, f] = ((rest - rest @ basis @ basis.T) ** 2).mean()
    return errors


@pytest.mark.filterwarnings("ignore:.* dropped .* components:UserWarning")
@pytest.mark.filterwarnings("ignore:the best alpha is the:UserWarning")
class TestErrors:
    alphas = (0.0, 0.5, 2.0, 4.0, 200.0)

    @pytest.mark.parametrize("penalty", PENALTIES)
    def test_every_penalty(self, penalty):
        X = draw()
        splits = list(KFold(3).split(X))
        model = PenalizedPCACV(2, penalty=penalty, alphas=self.alphas, cv=3, tol=1e-14).fit(X)
        expected = by_loops(X, 2, self.alphas, splits, penalty=penalty)
        np.testing.assert_allclose(model.cv_errors_, expected, rtol=1e-5)
        np.testing.assert_allclose(model.mean_cv_error_, model.cv_errors_.mean(axis=1))
        assert model.alpha_ == self.alphas[int(expected.mean(axis=1).argmin())]

    @pytest.mark.parametrize("center", [True, False])
    @pytest.mark.parametrize("scale", [True, False])
    @pytest.mark.parametrize("shape", [(60, 24), (15, 24)])
    def test_centring_and_scaling_are_those_of_the_training_rows(self, center, scale, shape):
        X = draw(*shape) * np.linspace(0.5, 3.0, 24)
        splits = list(KFold(3).split(X))
        options = {"center": center, "scale": scale}
        close = {"tol": 1e-13} | options
        model = PenalizedPCACV(2, alphas=(0.0, 1.0, 2.0), cv=splits, **close).fit(X)
        expected = by_loops(X, 2, (0.0, 1.0, 2.0), splits, **options)
        np.testing.assert_allclose(model.cv_errors_, expected, rtol=1e-5)
        same = PenalizedPCACV(2, alphas=(0.0, 1.0, 2.0), cv=splits, **close).fit(
            sparse.csr_array(X)
        )
        np.testing.assert_allclose(same.cv_errors_, model.cv_errors_, rtol=1e-6)

    def test_warm_path_starts_where_the_strength_before_ended(self):
        X = np.random.default_rng(0).normal(size=(20, 30))
        splits, alphas = list(KFold(3).split(X)), (0.5, 1.0, 1.5)
        options = {"alphas": alphas, "cv": splits, "tol": 1e-13}
        warm = PenalizedPCACV(2, warm_path=True, **options).fit(X).cv_errors_
        cold = PenalizedPCACV(2, **options).fit(X).cv_errors_
        np.testing.assert_allclose(warm, by_loops(X, 2, alphas, splits, warm=True), rtol=1e-5)
        np.testing.assert_allclose(warm[0], cold[0], rtol=1e-5)
        assert np.abs(warm - cold).max() > 1e-3  # other optima, where there is nothing but noise

    def test_constant_feature_in_the_training_rows(self):
        X = draw()
        X[20:, 3] = 7.0
        splits = list(KFold(3).split(X))
        model = PenalizedPCACV(2, alphas=(0.0, 1.0), cv=splits, scale=True, tol=1e-14).fit(X)
        expected = by_loops(X, 2, (0.0, 1.0), splits, scale=True)
        np.testing.assert_allclose(model.cv_errors_, expected, rtol=1e-5)

    def test_folds_of_different_sizes(self):
        X = draw(31)
        splits = [(np.arange(20), np.arange(20, 31)), (np.arange(5, 31), np.arange(5))]
        model = PenalizedPCACV(2, alphas=(0.5, 3.0), cv=splits, tol=1e-14).fit(X)
        np.testing.assert_allclose(model.cv_errors_, by_loops(X, 2, (0.5, 3.0), splits), rtol=1e-5)

    def test_fewer_training_rows_than_components(self):
        X = draw(6)
        model = PenalizedPCACV(4, alphas=(0.0, 1.0), cv=2, center=False, tol=1e-14).fit(X)
        splits = list(KFold(2).split(X))
        expected = by_loops(X, 4, (0.0, 1.0), splits, center=False)
        np.testing.assert_allclose(model.cv_errors_, expected, rtol=1e-5)

    def test_given_and_rotated_starts(self):
        X = draw()
        fit = PenalizedPCA(2, alpha=2.0).fit(X)
        errors = [
            PenalizedPCACV(2, alphas=(1.0, 2.0, 3.0), start=start).fit(X).cv_errors_
            for start in ("svd", "varimax", fit.components_.T)
        ]
        np.testing.assert_allclose(errors[1], errors[0], rtol=1e-3)
        np.testing.assert_allclose(errors[2], errors[0], rtol=1e-3)

    @pytest.mark.parametrize("unit", [2.0**-400, 2.0**400])
    def test_units(self, unit):
        X = draw()
        one = PenalizedPCACV(2, alphas=(0.0, 1.0, 3.0)).fit(X)
        other = PenalizedPCACV(2, alphas=np.array([0.0, 1.0, 3.0]) * unit).fit(X * unit)
        np.testing.assert_allclose(other.cv_errors_, one.cv_errors_ * unit**2, rtol=1e-12)


def test_errors_at_the_tolerance_of_users():
    X = draw()
    alphas = np.linspace(0.5, 8, 6)
    model = PenalizedPCACV(2, alphas=alphas).fit(X)
    expected = by_loops(X, 2, alphas, list(KFold(5).split(X)))
    np.testing.assert_allclose(model.cv_errors_, expected, rtol=2e-3)


def test_a_tolerance_at_the_end_of_its_type():
    X = draw()
    found, expected = (PenalizedPCACV(2, tol=tol).fit(X) for tol in (np.uint64(2**64 - 1), 1e20))
    np.testing.assert_array_equal(found.components_, expected.components_)


def test_several_processes_and_small_stacks_change_nothing(monkeypatch):
    X = draw()
    model = PenalizedPCACV(2, alphas=(0.0, 1.0, 3.0, 9.0))
    expected = clone(model).fit(X).cv_errors_
    np.testing.assert_allclose(
        clone(model).set_params(n_jobs=2).fit(X).cv_errors_, expected, rtol=1e-10
    )
    monkeypatch.setattr(_penalized, "SETTINGS", replace(_penalized.SETTINGS, largest_stack=100))
    np.testing.assert_allclose(clone(model).fit(X).cv_errors_, expected, rtol=1e-10)


class TestChoice:
    def test_fit_is_that_with_the_chosen_strength(self):
        X = draw()
        model = PenalizedPCACV(2, alphas=np.linspace(0, 8, 9)).fit(X)
        plain = PenalizedPCA(2, alpha=model.alpha_).fit(X)
        np.testing.assert_array_equal(model.components_, plain.components_)
        assert model.objective_ == plain.objective_
        np.testing.assert_array_equal(model.transform(X), plain.transform(X))
        assert model.summary().startswith("PenalizedPCACV of 60 samples")

    @pytest.mark.filterwarnings("ignore:.* dropped .* components:UserWarning")
    @pytest.mark.parametrize("name", [n for n in PENALTIES if n not in ("none", "nonnegative")])
    def test_grid_goes_from_nothing_to_where_every_component_is_empty(self, name):
        X = draw()
        model = PenalizedPCACV(2, penalty=name, alphas=8).fit(X)
        assert model.alphas_.shape == (8,)
        assert model.alphas_[0] == 0
        assert (np.diff(model.alphas_) > 0).all()
        with pytest.warns(UserWarning, match="dropped 2 of 2"):
            last = PenalizedPCA(2, penalty=name, alpha=model.alphas_[-1]).fit(X)
        assert last.n_components_ == 0
        variance = X.var(axis=0).sum() / 24
        assert model.mean_cv_error_[-1] == pytest.approx(variance, rel=0.1)
        assert model.mean_cv_error_.min() < 0.5 * variance

    def test_default_grid_has_the_strength_inside(self):
        model = PenalizedPCACV(2).fit(draw())
        assert model.alphas_.shape == (25,)
        assert 0 < model.alpha_ < model.alphas_[-2]
        assert model.mean_cv_error_.min() < model.mean_cv_error_[0]

    def test_strengths_are_sorted(self):
        model = PenalizedPCACV(2, alphas=[4.0, 0.0, 2.0, 2.0]).fit(draw())
        np.testing.assert_array_equal(model.alphas_, [0.0, 2.0, 4.0])

    def test_upper_edge(self):
        with pytest.warns(UserWarning, match="largest of the grid, 0.2; .* above it"):
            PenalizedPCACV(2, alphas=[0.0, 0.1, 0.2]).fit(draw())

    def test_lower_edge(self):
        with pytest.warns(UserWarning, match="smallest of the grid, 9; .* below it"):
            PenalizedPCACV(2, alphas=[9.0, 12.0]).fit(draw())

    def test_zero_is_no_edge_and_one_strength_has_none(self):
        X = np.random.default_rng(0).normal(size=(400, 3)) @ np.random.default_rng(1).normal(
            size=(3, 6)
        )
        assert PenalizedPCACV(3, alphas=[0.0, 20.0]).fit(X).alpha_ == 0
        assert PenalizedPCACV(2, alphas=[3.0]).fit(draw()).alpha_ == 3.0

    def test_splitters(self):
        X = draw()
        splitter = ShuffleSplit(4, random_state=0)
        one = PenalizedPCACV(2, alphas=[0.5, 1.0, 9.0], cv=splitter).fit(X)
        other = PenalizedPCACV(2, alphas=[0.5, 1.0, 9.0], cv=list(splitter.split(X))).fit(X)
        masks = [
            (np.isin(np.arange(60), a), np.isin(np.arange(60), b)) for a, b in splitter.split(X)
        ]
        third = PenalizedPCACV(2, alphas=[0.5, 1.0, 9.0], cv=masks).fit(X)
        assert one.cv_errors_.shape == (3, 4)
        np.testing.assert_array_equal(one.cv_errors_, other.cv_errors_)
        np.testing.assert_allclose(one.cv_errors_, third.cv_errors_, rtol=1e-6)


class TestEmptying:
    @pytest.mark.parametrize("name", [n for n in PENALTIES if n not in ("none", "nonnegative")])
    def test_smallest_strength(self, name):
        penalty = make_penalty(name)
        sizes = np.array([1e-8, 0.3, 1.0, 17.0, 1e9])
        found = emptying_strengths(penalty, sizes)

        def kept(alpha):
            unit = penalty.threshold(alpha)
            return penalty.prox(sizes / unit, alpha / unit)

        assert (kept(found * (1 + 1e-9)) == 0).all()
        assert (kept(found * (1 - 1e-9)) > 0).all()

    def test_closed_forms(self):
        sizes = np.array([0.5, 3.0])
        for name, expected in {"l1": sizes, "l0": sizes**2 / 2, "elastic_net": 2 * sizes}.items():
            np.testing.assert_allclose(emptying_strengths(make_penalty(name), sizes), expected)

    @pytest.mark.parametrize("penalty", ["none", "nonnegative", ElasticNet(0.0)])
    def test_penalties_that_empty_nothing(self, penalty):
        with pytest.raises(ValueError, match="pass alphas as an array"):
            PenalizedPCACV(2, penalty=penalty).fit(draw())


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"alphas": 1}, ValueError, "alphas must be an integer from 2 to 10000 or a list"),
            ({"alphas": [1.0, -1.0]}, ValueError, "a list of numbers of at least 0, got"),
            ({"cv": []}, ValueError, "cv must give splits"),
            ({"cv": [([], [1])]}, ValueError, "cv must give"),
            ({"cv": [([0, 1], [99])]}, ValueError, "out of bounds for axis 0 with size 60"),
            ({"cv": [([0.5, 1], [2])]}, ValueError, "pairs .* of row numbers"),
            ({"cv": 100}, ValueError, "n_splits=100"),
            ({"penalty": "l2"}, ValueError, "unknown penalty 'l2'; did you mean"),
        ],
    )
    def test_parameters(self, options, error, message):
        with pytest.raises(error, match=message):
            PenalizedPCACV(**{"n_components": 2} | options).fit(draw())

    def test_rows_are_needed(self):
        X = draw()
        with pytest.raises(TypeError, match="to a covariance: it holds out rows; choose alpha"):
            PenalizedPCACV(2).fit_covariance(np.cov(X.T), 60)
        with pytest.raises(TypeError, match="cannot be fitted to a Gram"):
            PenalizedPCACV(2).fit(Gram().update(X))
        with pytest.raises(TypeError, match="cannot be fitted to a compact matrix"):
            PenalizedPCACV(2, center=False).fit(np.linalg.qr(X, mode="r"), n_samples=60)
