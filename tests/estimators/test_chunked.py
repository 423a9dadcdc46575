"""Estimators on data past memory against the same data in memory."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from ebcd import EBCD, Chunks, PenalizedPCA, PenalizedPCACV
from ebcd.data import Memory, PassPrinter, _settings
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower

K = 2


def draw(n=400, p=15, seed=0, offset=3.0):
    """Two sparse components and noise."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((K, p))
    loadings[0, : p // 3] = np.linspace(4.0, 2.0, p // 3)
    loadings[1, p // 2 :] = -np.linspace(1.0, 2.0, p - p // 2)
    return rng.normal(size=(n, K)) @ loadings + rng.normal(size=(n, p)) + offset


def saved(folder, X):
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


def cut(X):
    return [X[:50], X[50:51], X[51:51], X[51:]]


KINDS = {
    "map": saved,
    "map in Fortran order": lambda folder, X: saved(folder, np.asfortranarray(X)),
    "list": lambda folder, X: cut(X),
    "tuple of sparse matrices": lambda folder, X: tuple(map(sparse.csr_array, cut(X))),
    "iterator": lambda folder, X: iter(cut(X)),
    "function": lambda folder, X: Chunks(lambda: iter(cut(X))),
    "sliced": lambda folder, X: Chunks(X, rows_per_chunk=33),
}
ESTIMATORS = {
    "EBCD": EBCD(tol=1e-12),
    "EBCD per feature": EBCD(K, noise="per_feature"),
    "PenalizedPCA": PenalizedPCA(K, alpha=5.0, tol=1e-14),
    "SPC": SPC(K, sumabs=2.0, tol=1e-15, max_iter=20_000),
    "GPower": GPower(K),
    "ITSPCA": ITSPCA(K),
    "USLPCA": USLPCA(K, n_nonzero=12),
}


@pytest.fixture(params=["together", "gathered", "streamed"])
def route(request, monkeypatch):
    """Make all data go one way, however small they are."""
    sizes = {"gathered": {"small": 0}, "streamed": {"small": 0, "moderate": 0}}
    chosen = replace(_settings.SETTINGS, **sizes.get(request.param, {}))
    monkeypatch.setattr(_settings, "SETTINGS", chosen)
    return request.param


def assert_same(model, reference, rtol=1e-8):
    size = np.abs(reference.components_).max()
    np.testing.assert_allclose(model.components_, reference.components_, atol=rtol * size)
    np.testing.assert_allclose(model.noise_variance_, reference.noise_variance_, rtol=rtol)
    np.testing.assert_allclose(model.mean_, reference.mean_, rtol=rtol)
    np.testing.assert_allclose(model.scale_, reference.scale_, rtol=rtol)
    assert model.n_samples_ == reference.n_samples_
    assert model.n_components_ == reference.n_components_
    for name in ("elbo_", "objective_"):
        if hasattr(reference, name):
            assert getattr(model, name) == pytest.approx(getattr(reference, name), rel=rtol)


class TestSameAsInMemory:
    @pytest.mark.parametrize(
        ("kind", "scale"), [(kind, i % 2 == 0) for i, kind in enumerate(KINDS)]
    )
    def test_every_kind(self, kind, scale, route, tmp_path):
        if route == "streamed" and kind == "iterator":
            pytest.skip("not possible, and tested below")
        X = draw()
        settings = {"scale": scale, "tol": 1e-12}
        model = EBCD(K, **settings).fit(KINDS[kind](tmp_path, X))
        assert_same(model, EBCD(K, **settings).fit(X))

    @pytest.mark.parametrize("name", ESTIMATORS)
    def test_every_estimator(self, name, route):
        X = draw()
        estimator = clone(ESTIMATORS[name])
        assert_same(estimator.fit(cut(X)), clone(estimator).fit(X))

    def test_number_of_components(self, route):
        assert EBCD().fit(cut(draw())).n_components_ == K

    def test_wide(self, route):
        X = draw(40, 90)
        model = EBCD(K, tol=1e-12).fit([X[:9], X[9:]])
        assert_same(model, EBCD(K, tol=1e-12).fit(X))

    def test_names(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(draw(), columns=[f"f{j}" for j in range(15)])
        model = EBCD(K).fit([frame[:100], frame[100:]])
        assert list(model.feature_names_in_) == list(frame.columns)
        model.fit(cut(draw()))
        assert not hasattr(model, "feature_names_in_")


class TestScores:
    @pytest.mark.parametrize("kind", KINDS)
    def test_transform_and_score(self, kind, tmp_path):
        X = draw()
        model = EBCD(K).fit(X)
        scores = model.transform(KINDS[kind](tmp_path, X))
        np.testing.assert_allclose(scores, model.transform(X), atol=1e-12)
        likelihoods = model.score_samples(KINDS[kind](tmp_path, X))
        np.testing.assert_allclose(likelihoods, model.score_samples(X), rtol=1e-12)
        assert model.score(KINDS[kind](tmp_path, X)) == pytest.approx(model.score(X))

    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "iterator"])
    def test_fit_transform(self, kind, tmp_path):
        X = draw()
        scores = EBCD(K, tol=1e-12).fit_transform(KINDS[kind](tmp_path, X))
        np.testing.assert_allclose(scores, EBCD(K, tol=1e-12).fit_transform(X), atol=1e-7)

    def test_fit_transform_needs_the_data_twice(self):
        given = iter(cut(draw()))
        with pytest.raises(ValueError, match="needed for the fit and for the scores; pass a list"):
            EBCD(K).fit_transform(given)
        assert len(list(given)) == 4  # nothing was taken from it

    def test_transform_does_not_copy_a_map(self, tmp_path):
        X = saved(tmp_path, draw(200_000, 20))
        model = EBCD(K).fit(X[:500])
        tracemalloc.start()
        scores, score = model.transform(X), model.score(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert scores.shape == (200_000, K)
        assert np.isfinite(score)
        assert peak < X.nbytes / 2

    def test_frames_out(self):
        pandas = pytest.importorskip("pandas")
        X = draw()
        model = EBCD(K).set_output(transform="pandas").fit(cut(X))
        scores = model.transform(cut(X))
        assert isinstance(scores, pandas.DataFrame)
        assert scores.shape == (400, K)

    def test_other_columns(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(draw(), columns=[f"f{j}" for j in range(15)])
        model = EBCD(K).fit(frame)
        with pytest.raises(ValueError, match="X has 14 features, but EBCD is expecting 15"):
            model.transform([draw()[:, 1:]])
        swapped = frame[[*frame.columns[1:], frame.columns[0]]]
        with pytest.raises(ValueError, match="chunk 0 has the column 'f1' where 'f0' is expected"):
            model.transform([swapped])
        assert model.transform([frame.to_numpy()]).shape == (400, K)  # no names, no complaint


class TestWhatNeedsAllRows:
    @pytest.mark.parametrize("estimator", [EBPCA(K), EBMF(K), SPC(K, cv=2)])
    def test_scores_do_not(self, estimator):
        X = draw(60)
        model = clone(estimator).fit(X)
        np.testing.assert_allclose(model.transform(cut(X)), model.transform(X), atol=1e-12)

    @pytest.mark.parametrize("estimator", [PenalizedPCACV(K), SPC(K), EBPCA(K), EBMF(K)])
    def test_chunks_are_refused(self, estimator):
        with pytest.raises(ValueError, match="X comes in chunks, but this fit needs all rows"):
            clone(estimator).fit(cut(draw()))

    @pytest.mark.parametrize(
        "estimator", [PenalizedPCACV(K, alphas=3, cv=2), SPC(K), EBPCA(K), EBMF(K)]
    )
    def test_maps_are_read(self, estimator, tmp_path):
        X = draw(40)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            model = clone(estimator).fit(saved(tmp_path, X))
            reference = clone(estimator).fit(X)
        np.testing.assert_array_equal(model.components_, reference.components_)


class TestMistakes:
    def test_what_holds_several_matrices(self):
        held = type("AnnData", (), {"__iter__": lambda held: iter([held])})  # without end
        with pytest.raises(TypeError, match=r"X is an AnnData, .*; pass one, X\.X"):
            EBCD(1).fit(held())

    @pytest.mark.parametrize(
        "estimator",
        [
            EBCD(prior="no such prior"),
            EBCD(prior=[]),
            EBCD(0),
            EBCD(max_memory="much"),
            PenalizedPCA(K, alpha=-1.0),
            PenalizedPCA(K, penalty="no such penalty"),
            GPower(0),
        ],
    )
    def test_parameters_are_checked_before_the_data_are_read(self, estimator):
        def chunks():
            raise AssertionError("read")
            yield

        with pytest.raises((ValueError, TypeError, KeyError)):
            estimator.fit(chunks())

    def test_compact_chunks(self):
        with pytest.raises(ValueError, match="X comes in chunks, but this fit needs all rows"):
            EBCD(K, center=False).fit(cut(draw()), n_samples=1000)

    def test_compact_map(self, tmp_path):
        model = EBCD(K, center=False).fit(saved(tmp_path, draw()), n_samples=1000)
        assert model.n_samples_ == 1000

    def test_iterator_with_too_many_features(self):
        wide = (np.ones((300, 8000)) for _ in range(3))
        with pytest.raises(ValueError, match="X is an iterator, which can be read only once"):
            EBCD(K).fit(wide)


class TestMaxMemory:
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_array])
    def test_same_result(self, make):
        X = draw()
        model = EBCD(K, max_memory="100MB", tol=1e-12).fit(make(X))
        assert_same(model, EBCD(K, tol=1e-12).fit(X))

    def test_too_little(self):
        with pytest.raises(ValueError, match=r"max_memory is 3 MB, but a fit of 15 features needs"):
            EBCD(K, max_memory="3MB").fit(draw())

    def test_names_are_kept(self, route):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(draw(), columns=[f"f{j}" for j in range(15)])
        model = EBCD(K, max_memory="100MB").fit(frame)
        assert list(model.feature_names_in_) == list(frame.columns)
        assert model.transform(frame).shape == (400, K)

    def test_compact_matrix(self):
        X = draw(offset=0.0)
        C = np.linalg.cholesky(X.T @ X).T
        model = EBCD(K, center=False, max_memory="100MB").fit(C, n_samples=400)
        assert model.n_samples_ == 400

    @pytest.mark.parametrize(
        ("estimator", "shape", "matrix"),
        [
            (EBCD(3), (20_000, 120), True),
            (EBCD(3, start="greedy"), (4_000, 600), True),
            (EBCD(3, start="svd", scale=True, noise="per_feature"), (400, 6_000), False),
            (PenalizedPCA(3, alpha=3.0), (400, 6_000), False),
        ],
    )
    def test_is_kept(self, estimator, shape, matrix):
        X = draw(*shape)
        limit = Memory(None, 3).needed(shape[1], matrix) + 1_000_000
        model = clone(estimator).set_params(max_memory=limit, max_iter=5, tol=1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            clone(model).set_params(max_memory=None).fit(X[:, :100])  # what is loaded once
            tracemalloc.start()
            model.fit(Chunks(X))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < limit
        assert model.n_components_ >= 2


def test_progress_is_for_the_verbose(capsys, monkeypatch):
    monkeypatch.setattr(PassPrinter, "_interval", 0.0)
    EBCD(K).fit(cut(draw()))
    assert capsys.readouterr().out == ""
    EBCD(K, verbose=1).fit(cut(draw()))
    assert capsys.readouterr().out.startswith("pass 1: 50 rows of 400 (12%) in 0 s, ")
