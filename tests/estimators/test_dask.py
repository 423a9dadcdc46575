"""Fits to Dask collections give what fits in memory give, on a cluster and when a worker dies."""

import os
import signal
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import sparse

import ebcd
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

from ebcd.data import _settings  # noqa: E402 - after the check for Dask
from ebcd.data._dask import DaskRows  # noqa: E402

CHUNKS = {
    "one block": (120, 20),
    "rows": (50, 20),
    "columns": (120, 7),
    "both": (31, 7),
    "uneven": ((3, 100, 17), (1, 15, 4)),
}
SETTINGS = {
    "auto": {},
    "number": {"n_components": 2},
    "scaled": {"n_components": 2, "scale": True},
    "not centred": {"n_components": 3, "center": False},
    "per feature": {"n_components": 2, "noise": "per_feature"},
    "auto per feature": {"noise": "per_feature"},
}
FITTED = ("components_", "components_sd_", "lfsr_", "noise_variance_", "mean_", "scale_", "elbo_")


@pytest.fixture(autouse=True)
def one_thread():
    """Small data are fastest without threads; tests of clusters choose those."""
    with dask.config.set(scheduler="synchronous"):
        yield


def draw(n=120, p=20, seed=0):
    """Two sparse components, features of different sizes, means that are not zero."""
    rng = np.random.default_rng(seed)
    loadings = np.zeros((2, p))
    loadings[0, : p // 4], loadings[1, p // 2 : p // 2 + 6] = 2.0, [1.0, -1.5] * 3
    X = rng.normal(size=(n, 2)) @ loadings + rng.normal(size=(n, p))
    return X * rng.uniform(0.7, 1.4, p) + rng.normal(size=p)


@cache
def in_memory(settings):
    return ebcd.EBCD(**SETTINGS[settings]).fit(draw())


def assert_same(ours, theirs, names=FITTED, accuracy=1e-8):
    assert ours.n_components_ == theirs.n_components_ > 0
    assert ours.n_samples_ == theirs.n_samples_
    for name in names:
        one, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(one, other, rtol=accuracy, atol=accuracy, err_msg=name)


def frame_of(X, names, npartitions=3):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    return dd.from_pandas(pd.DataFrame(X, columns=names), npartitions=npartitions)


def products_only(monkeypatch):
    """Make fits to data with more columns than rows pass through them once a product."""
    # small=0: in memory, too, no copy with a factor, so that both take the same route
    monkeypatch.setitem(dask.config.config["array"], "chunk-size", "1B")
    use(monkeypatch, small=0, exact_operations=0)
    original, calls = DaskRows._product, []

    def product(rows, v, *rest):
        calls.append(v.shape)
        return original(rows, v, *rest)

    monkeypatch.setattr(DaskRows, "_product", product)
    return calls


def use(monkeypatch, **settings):
    monkeypatch.setattr(_settings, "SETTINGS", replace(_settings.SETTINGS, **settings))


class TestSameAsInMemory:
    @pytest.mark.parametrize(
        ("chunks", "settings"),
        [
            *zip(CHUNKS, SETTINGS, strict=False),
            *zip(["uneven", "both", "columns", "rows"], SETTINGS, strict=False),
            ("uneven", "auto per feature"),
        ],
    )
    def test_ebcd(self, chunks, settings):
        array = da.from_array(draw(), chunks=CHUNKS[chunks])
        assert_same(ebcd.EBCD(**SETTINGS[settings]).fit(array), in_memory(settings))

    @pytest.mark.parametrize(
        ("chunks", "settings"), [((16, 40), "scaled"), ((30, 15), "number"), ((16, 25), "scaled")]
    )
    def test_a_pass_for_each_product(self, monkeypatch, chunks, settings):
        calls = products_only(monkeypatch)
        X = draw(30, 40)
        array = da.from_array(X, chunks=chunks)
        model = ebcd.EBCD(**SETTINGS[settings]).fit(array)
        assert calls
        assert_same(model, ebcd.EBCD(**SETTINGS[settings]).fit(X))

    def test_wide(self):
        """In memory the directions are exact, so that only the optimum is the same."""
        X = draw(30, 600)
        ours = ebcd.EBCD(2).fit(da.from_array(X, chunks=(15, 600)))
        theirs = ebcd.EBCD(2).fit(X)
        assert ours.elbo_ == pytest.approx(theirs.elbo_, abs=0.01)
        assert_same(ours, theirs, ("explained_variance_", "noise_variance_"), accuracy=1e-3)

    @pytest.mark.parametrize(
        "estimator",
        [
            ebcd.PenalizedPCA(2, alpha=3.0),
            SPC(2, sumabs=2.0),
            GPower(2),
            ITSPCA(2),
            USLPCA(2, n_nonzero=12),
        ],
        ids=lambda estimator: type(estimator).__name__,
    )
    def test_other_estimators(self, estimator):
        X = draw()
        array = da.from_array(X, chunks=(50, 20))
        theirs = type(estimator)(**estimator.get_params()).fit(X)
        names = ("components_", "noise_variance_", "mean_")
        assert_same(estimator.fit(array), theirs, names)
        np.testing.assert_allclose(estimator.transform(array), theirs.transform(X), atol=1e-8)

    def test_threads(self):
        X = draw()
        with dask.config.set(scheduler="threads"):
            assert_same(
                ebcd.EBCD(2).fit(da.from_array(X, chunks=CHUNKS["both"])), ebcd.EBCD(2).fit(X)
            )


class TestFrames:
    names = tuple(f"gene {j}" for j in range(20))

    def test_same_as_in_memory_with_names(self):
        X = draw()
        model = ebcd.EBCD(2).fit(frame_of(X, self.names))
        assert_same(model, ebcd.EBCD(2).fit(X))
        assert list(model.feature_names_in_) == list(self.names)

    def test_empty_partitions(self):
        X = draw()
        frame = frame_of(X, self.names, npartitions=6)
        frame = frame.map_partitions(lambda part: part[part.index >= 60])
        assert_same(ebcd.EBCD(2).fit(frame), ebcd.EBCD(2).fit(X[60:]))

    def test_types_of_pandas(self):
        X = (10 * draw()).round()
        frame = frame_of(X, self.names).astype({"gene 0": "Int64", "gene 1": "float32"})
        assert_same(ebcd.EBCD(2).fit(frame), ebcd.EBCD(2).fit(X))

    def test_missing_values_are_named(self):
        X = draw()
        X[70, 4] = X[80, 4] = X[90, 11] = np.nan
        frame = frame_of(X, self.names).astype({"gene 4": "Float64"})
        message = r"3 entries .* row 70, column 'gene 4'; by column: gene 4 \(2\), gene 11 \(1\)"
        with pytest.raises(ValueError, match=message):
            ebcd.EBCD(2).fit(frame)

    def test_words_are_named(self):
        frame = frame_of(draw(), self.names).assign(city="Genoa")
        with pytest.raises(TypeError, match="1 columns do not: city"):
            ebcd.EBCD(2).fit(frame)

    def test_transform_checks_names(self):
        X = draw()
        model = ebcd.EBCD(2).fit(frame_of(X, self.names))
        scores = model.transform(frame_of(X, self.names))
        np.testing.assert_allclose(scores.compute(), ebcd.EBCD(2).fit_transform(X), atol=1e-8)
        with pytest.raises(ValueError, match="feature names"):
            model.transform(frame_of(X, self.names[::-1]))


class TestLazy:
    @pytest.fixture
    def nothing_runs(self):
        def refuse(*args, **kwargs):
            raise AssertionError("something was computed")

        return dask.config.set(scheduler=refuse)

    @pytest.mark.parametrize(
        ("chunks", "kind"),
        [*zip(CHUNKS, ["dense", "sparse", "float32", "sparse", "dense"], strict=True)],
    )
    @pytest.mark.parametrize("method", ["transform", "score_samples"])
    def test_rows(self, nothing_runs, chunks, kind, method):
        X = draw().astype(np.float32 if kind == "float32" else float)
        model = ebcd.EBCD(2, scale=True).fit(X)
        array = da.from_array(X, chunks=CHUNKS[chunks])
        if kind == "sparse":
            array = array.map_blocks(sparse.csr_array)
        with nothing_runs:
            lazy = getattr(model, method)(array)
        expected = getattr(model, method)(X)
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == array.chunks[0]
        assert lazy.shape == expected.shape
        computed = lazy.compute()
        assert computed.dtype == lazy.dtype == expected.dtype
        accuracy = 1e-5 if computed.dtype == np.float32 else 1e-9
        np.testing.assert_allclose(computed, expected, rtol=accuracy, atol=accuracy)

    def test_inverse_transform(self, nothing_runs):
        X = draw()
        model = ebcd.EBCD(2).fit(X)
        array = da.from_array(X, chunks=CHUNKS["both"])
        with nothing_runs:
            lazy = model.inverse_transform(model.transform(array))
        assert lazy.chunks == (array.chunks[0], (20,))
        expected = model.inverse_transform(model.transform(X))
        np.testing.assert_allclose(lazy.compute(), expected, atol=1e-12)
        with pytest.raises(ValueError, match="each of the 2 components, got 20"):
            model.inverse_transform(array)

    def test_frames_and_unknown_sizes(self, nothing_runs):
        X = draw()
        model = ebcd.EBCD(2).fit(X)
        frame = frame_of(X, [f"x{j}" for j in range(20)])
        array = da.from_array(X, chunks=CHUNKS["rows"])
        with nothing_runs, pytest.warns(UserWarning, match="feature names"):
            of_frame = model.transform(frame)
        some = model.transform(array[array[:, 0] > 0])
        assert some.shape[1] == 2
        np.testing.assert_allclose(of_frame.compute(), model.transform(X), atol=1e-12)
        np.testing.assert_allclose(some.compute(), model.transform(X[X[:, 0] > 0]), atol=1e-12)

    def test_no_component(self):
        X = np.random.default_rng(0).normal(size=(60, 8))
        array = da.from_array(X, chunks=(30, 8))
        with pytest.warns(UserWarning, match="no component was found"):
            model = ebcd.EBCD().fit(array)
        assert model.transform(array).compute().shape == (60, 0)
        assert model.inverse_transform(model.transform(array)).compute().shape == (60, 8)

    def test_fit_transform_and_score(self):
        X = draw()
        array = da.from_array(X, chunks=CHUNKS["rows"])
        scores = ebcd.EBCD(2).fit_transform(array)
        assert isinstance(scores, da.Array)
        np.testing.assert_allclose(scores.compute(), ebcd.EBCD(2).fit_transform(X), atol=1e-8)
        assert ebcd.EBCD(2).fit(array).score(array) == pytest.approx(ebcd.EBCD(2).fit(X).score(X))

    def test_numbers_of_columns(self):
        model = ebcd.EBCD(2).fit(draw())
        with pytest.raises(ValueError, match="19 features"):
            model.transform(da.ones((5, 19)))

    def test_scores_are_not_loaded_by_accident(self):
        model = ebcd.EBCD(2).set_output(transform="pandas")
        array = da.from_array(draw(), chunks=CHUNKS["rows"])
        for method in (model.fit_transform, model.fit(array).transform):
            with pytest.raises(ValueError, match="load the scores of all rows"):
                method(array)


class TestWhatNeedsRows:
    def test_cross_validation_says_so(self):
        array = da.from_array(draw(), chunks=CHUNKS["rows"])
        with pytest.raises(TypeError, match="cannot be fitted to a Dask collection"):
            ebcd.PenalizedPCACV(2).fit(array)
        with pytest.raises(TypeError, match="sumabs"):
            SPC(2).fit(array)

    @pytest.mark.parametrize("method", [EBMF, EBPCA])
    def test_prior_on_the_scores(self, method):
        array = da.from_array(draw(), chunks=CHUNKS["rows"])
        with pytest.raises(TypeError, match="cannot be fitted to a Dask collection"):
            method(2).fit(array)

    def test_no_matrix(self):
        for held in (dask.delayed(draw()), pytest.importorskip("dask.bag").from_sequence([1, 2])):
            with pytest.raises(TypeError, match="must be a Dask array or data frame, got a Dask"):
                ebcd.EBCD(2).fit(held)

    def test_compact_matrices(self):
        with pytest.raises(ValueError, match="compact matrix"):
            ebcd.EBCD(2, center=False).fit(da.ones((5, 3)), n_samples=10)


@pytest.fixture(scope="module")
def client():
    """Two worker processes; those that a test kills are started again."""
    distributed = pytest.importorskip("distributed")
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    # LocalCluster would give up workers that were killed once, although they are started again
    patience = {"distributed.deploy.lost-worker-timeout": "1 hour"}
    with (
        dask.config.set(patience),
        distributed.LocalCluster(processes=True, **settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.slow
class TestCluster:
    @pytest.fixture(autouse=True)
    def on_cluster(self, client, one_thread):
        with dask.config.set(scheduler="distributed"):
            yield
        for _ in range(300):  # until workers that were killed are back
            if len(client.nthreads()) == 2:
                break
            time.sleep(0.1)

    @pytest.mark.parametrize("persisted", [True, False])
    def test_same_as_in_memory(self, persisted):
        X = draw()
        array = da.from_array(X, chunks=CHUNKS["both"])
        model = ebcd.EBCD().fit(array.persist() if persisted else array)
        assert_same(model, ebcd.EBCD().fit(X))
        np.testing.assert_allclose(model.transform(array), ebcd.EBCD().fit_transform(X), atol=1e-8)

    @pytest.mark.parametrize("large", [True, False])
    def test_a_pass_for_each_product(self, monkeypatch, large):
        calls = products_only(monkeypatch)
        use(monkeypatch, piece=1 if large else 250_000)
        X = draw(30, 40)
        model = ebcd.PenalizedPCA(2, alpha=3.0, start="svd").fit(da.from_array(X, chunks=(16, 40)))
        assert len(calls) > 4
        theirs = ebcd.PenalizedPCA(2, alpha=3.0, start="svd").fit(X)
        assert_same(model, theirs, ("components_", "noise_variance_", "mean_"))

    def test_worker_killed_between_products(self, monkeypatch, client):
        """Half of the data, which were kept in its memory, are gone."""
        calls = products_only(monkeypatch)
        original = DaskRows._product

        def product(rows, v, *rest):
            if len(calls) == 3:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            return original(rows, v, *rest)

        monkeypatch.setattr(DaskRows, "_product", product)
        X = draw(30, 40)
        array = da.from_array(X, chunks=(16, 20)).persist()
        model = ebcd.PenalizedPCA(2, alpha=3.0, start="svd").fit(array)
        assert len(calls) > 4
        theirs = ebcd.PenalizedPCA(2, alpha=3.0, start="svd").fit(X)
        assert_same(model, theirs, ("components_", "noise_variance_", "mean_"))

    def test_worker_killed_at_work(self, tmp_path):
        """The worker that gets the third block first dies with it."""
        mark = tmp_path / "killed"

        def deadly(block, block_info=None):
            if block_info[0]["chunk-location"][0] == 2 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return block

        X = draw()
        array = da.from_array(X, chunks=(20, 20)).map_blocks(deadly, dtype=float)
        model = ebcd.EBCD(2).fit(array)
        assert mark.exists()
        assert_same(model, ebcd.EBCD(2).fit(X))


@pytest.mark.parametrize("kind", [ebcd.EBCD, ebcd.PenalizedPCA, EBMF, EBPCA, ITSPCA, USLPCA])
def test_fits_with_the_same_parameters_are_not_taken_for_one(kind):
    # Dask names dataclasses after their fields alone, and builds them anew
    X = draw()
    models = kind(1).fit(X[:, :10]), kind(1).fit(X[:, 10:])
    names = {dask.base.tokenize(model.transform) for model in models}
    assert len(names) == 2
    lazy = da.from_array(X[:, :10], chunks=(40, 10))
    blocks = [lazy.map_blocks(model.transform, dtype=float, chunks=(40, 1)) for model in models]
    for found, model in zip(dask.compute(*blocks), models, strict=True):
        np.testing.assert_allclose(found, model.transform(X[:, :10]), atol=1e-9)
    assert dask.compute(models[0], lazy.sum())[0] is models[0]
