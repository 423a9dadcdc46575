"""What all sparse PCA methods promise: scikit-learn's conventions, inputs, units, clear errors."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ebcd import Gram
from ebcd.peers import ITSPCA, SPC, USLPCA, GPower

MODELS = {
    "spc": SPC(2, sumabs=2.0),
    "spc cv": SPC(2),
    "gpower l1": GPower(2, gamma=0.2),
    "gpower l0": GPower(2, penalty="l0", gamma=0.1),
    "gpower l1 single": GPower(2, gamma=0.2, block=False),
    "gpower l0 single": GPower(2, penalty="l0", gamma=0.1, block=False),
    "itspca": ITSPCA(2, gamma=0.5),
    "itspca scad": ITSPCA(2, thresholding="scad", gamma=0.3),
    "uslpca": USLPCA(2, n_nonzero=14),
}
ALL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
FROM_COVARIANCE = pytest.mark.parametrize(
    "model", [m for name, m in MODELS.items() if name != "spc cv"]
)


def draw(n=80, p=15, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, : p // 3], L[1, p // 2 :] = 2.0, 1.2
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p)) + 1.0


@ALL
class TestConventions:
    def test_scores_have_mean_square_one_and_are_a_linear_map(self, model):
        X = draw()
        model = clone(model)
        scores = model.fit_transform(X)
        np.testing.assert_allclose((scores**2).mean(axis=0), 1.0)
        np.testing.assert_array_equal(model.transform(X), scores)
        np.testing.assert_allclose(
            model.transform(X[:5] + X[5:10] - X[10:15]),
            scores[:5] + scores[5:10] - scores[10:15],
            atol=1e-10,
        )
        np.testing.assert_allclose(model.transform(model.mean_[None]), 0.0, atol=1e-12)

    def test_attributes(self, model):
        X = draw()
        model = clone(model).fit(X)
        L = model.components_
        assert L.shape == (2, 15)
        assert model.n_components_ == 2
        assert (model.n_samples_, model.n_features_in_) == (80, 15)
        assert isinstance(model.n_iter_, int)
        assert model.converged_ is True
        np.testing.assert_allclose(model.mean_, X.mean(axis=0))
        np.testing.assert_allclose(model.explained_variance_, (L**2).sum(axis=1))
        total = X.var(axis=0).sum()
        np.testing.assert_allclose(
            model.explained_variance_ratio_, model.explained_variance_ / total
        )
        left = X - model.inverse_transform(model.transform(X))
        np.testing.assert_allclose(model.noise_variance_, (left**2).mean())
        assert (L == 0).any()
        assert np.diff(model.explained_variance_)[0] <= 0
        assert (L[np.arange(2), np.abs(L).argmax(axis=1)] > 0).all()

    def test_components_fit_their_scores(self, model):
        """No other length of a component would leave less of the data."""
        X = draw()
        model = clone(model).fit(X)
        Z, L, centred = model.transform(X), model.components_, X - X.mean(axis=0)
        uncorrelated = np.allclose(Z.T @ Z / len(Z), np.eye(2), atol=1e-6)
        best = [z @ centred @ v / len(Z) / (v @ v) for z, v in zip(Z.T, L, strict=True)]
        if uncorrelated:
            np.testing.assert_allclose(best, 1.0, rtol=1e-6)
        else:
            assert isinstance(model, ITSPCA) or not model.block
            np.testing.assert_allclose(best[0], 1.0, rtol=1e-6)

    def test_units(self, model):
        X = draw()
        plain, large = clone(model).fit(X), clone(model).fit(1000 * X)
        np.testing.assert_allclose(large.components_, 1000 * plain.components_, rtol=1e-6)
        np.testing.assert_allclose(large.noise_variance_, 1e6 * plain.noise_variance_)
        np.testing.assert_allclose(large.transform(1000 * X), plain.transform(X), atol=1e-8)

    def test_scaled(self, model):
        X = draw() * np.linspace(1, 20, 15)
        exact = {"tol": 1e-12, "max_iter": 10_000}  # other starts lead to the same optimum
        scaled = clone(model).set_params(scale=True, **exact).fit(X)
        by_hand = clone(model).set_params(**exact).fit(X / X.std(axis=0))
        same = by_hand.components_ * X.std(axis=0)
        same = same[np.argsort(-(same**2).sum(axis=1))]
        signs = np.sign((same * scaled.components_).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(scaled.components_, signs * same, atol=1e-4)
        np.testing.assert_allclose(
            scaled.noise_variance_, by_hand.noise_variance_ * X.var(axis=0), rtol=1e-6
        )

    def test_sparse_data(self, model):
        X = np.where(np.abs(draw()) > 1, draw(), 0.0)
        dense = clone(model).fit(X)
        for make in (sparse.csr_array, sparse.csc_matrix):
            np.testing.assert_allclose(
                clone(model).fit(make(X)).components_, dense.components_, atol=1e-6
            )

    def test_wide_data(self, model):
        X = draw(20, 150)
        model = clone(model)
        if isinstance(model, USLPCA):
            model.set_params(n_nonzero=150)
        scores = model.fit_transform(X)
        np.testing.assert_allclose((scores**2).mean(axis=0), 1.0)

    def test_deterministic_and_pickled(self, model):
        X = draw()
        first, again = clone(model).fit(X), clone(model).fit(X)
        np.testing.assert_array_equal(first.components_, again.components_)
        copy = pickle.loads(pickle.dumps(first))
        np.testing.assert_array_equal(copy.transform(X), first.transform(X))

    def test_for_people(self, model):
        model = clone(model).fit(draw())
        assert model.summary().startswith(f"{type(model).__name__} of 80 samples x 15 features: 2")
        assert len(model.top_features(0, 3)) == 3


@FROM_COVARIANCE
class TestStandIns:
    def test_covariance(self, model):
        X = draw()
        centred = X - X.mean(axis=0)
        data = clone(model).fit(X)
        other = clone(model).fit_covariance(centred.T @ centred / 80, 80)
        np.testing.assert_allclose(other.components_, data.components_, atol=1e-6)
        np.testing.assert_allclose(other.noise_variance_, data.noise_variance_)
        assert not hasattr(other, "mean_")
        np.testing.assert_allclose(other.transform(centred), data.transform(X), atol=1e-6)

    def test_gram_and_compact_data(self, model):
        X = draw()
        gram = clone(model).fit(Gram().update(X[:30]).update(X[30:]))
        np.testing.assert_allclose(gram.components_, clone(model).fit(X).components_, atol=1e-6)
        compact = np.linalg.qr(X)[1]
        ours = clone(model).set_params(center=False).fit(compact, n_samples=80)
        plain = clone(model).set_params(center=False).fit(X)
        np.testing.assert_allclose(ours.components_, plain.components_, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.* found no component:UserWarning")
@pytest.mark.filterwarnings("ignore:.* dropped .* components:UserWarning")
@ALL
class TestDegenerate:
    def check(self, model, X):
        model = clone(model).fit(X)
        k = len(model.components_)
        assert k == model.n_components_ == len(model.explained_variance_)
        for value in (
            model.components_,
            model.noise_variance_,
            model.get_covariance(),
            model.get_precision(),
            model.transform(X),
            model.score_samples(X),
        ):
            assert np.isfinite(value).all()
        assert (np.asarray(model.noise_variance_) > 0).all()
        np.testing.assert_allclose((model.transform(X) ** 2).mean(axis=0), 1.0, rtol=1e-3)
        return model

    def test_constant_and_duplicated_columns(self, model):
        X = draw()
        X[:, 7], X[:, 3] = 3.0, X[:, 4]
        assert not self.check(model, X).components_[:, 7].any()

    @pytest.mark.parametrize("shape", [(1, 15), (2, 15), (3, 15), (40, 1), (40, 2)])
    def test_small(self, model, shape):
        model = clone(model).set_params(n_components=min(2, *shape))
        if shape[1] < 3 and isinstance(model, SPC) and model.sumabs != "cv":
            model.set_params(sumabs=1.0)
        if isinstance(model, USLPCA):
            model.set_params(n_nonzero=model.n_components)
        self.check(model, draw()[: shape[0], : shape[1]])

    def test_more_components_than_there_are(self, model):
        X = np.random.default_rng(0).normal(size=(20, 2)) @ np.random.default_rng(1).normal(
            size=(2, 9)
        )
        found = self.check(clone(model).set_params(n_components=5), X)
        assert 1 <= found.n_components_ <= 2

    @pytest.mark.parametrize("size", [1e-150, 1e150])
    def test_extreme_units(self, model, size):
        X = draw()
        ours = self.check(model, size * X).components_ / size
        np.testing.assert_allclose(ours, clone(model).fit(X).components_, atol=1e-6)

    def test_uneven_units_are_mentioned(self, model):
        X = draw() * 10.0 ** np.linspace(-4, 4, 15)
        assert "scale=True" in self.check(model, X).summary()


@ALL
def test_nothing_varies(model):
    X = np.full((10, 15), 3.0)
    with pytest.warns(UserWarning, match="found no component: the data do not vary"):
        model = clone(model).fit(X)
    assert model.components_.shape == (0, 15)
    assert model.transform(X).shape == (10, 0)
    assert "0 components" in model.summary()


@ALL
class TestBadParameters:
    def test_data(self, model):
        X = draw()
        X[3, 4] = np.nan
        with pytest.raises(ValueError, match="the first in row 3, column 4"):
            clone(model).fit(X)

    def test_says_when_it_stopped_early(self, model):
        model = clone(model).set_params(max_iter=1, tol=0.0)
        with pytest.warns(ConvergenceWarning, match="before it converged; raise max_iter or tol"):
            model.fit(draw())
        assert not model.converged_


def test_fitting_again_forgets_the_mean():
    X = draw()
    model = USLPCA(2).fit(X)
    assert hasattr(model, "mean_")
    model.fit_covariance(X.T @ X / 80, 80)
    assert not hasattr(model, "mean_")
