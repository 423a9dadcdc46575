"""Dask arrays and data frames as covariances, against the explicit matrix they stand for."""

import moments
import numpy as np
import pytest
from moments import truth
from scipy import sparse

from ebcd.data import CovarianceMatrix, as_input, as_rows, from_matrix, is_dask

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")

from ebcd.data import _dask  # noqa: E402 - after the check for Dask

SHAPE = (50, 12)
CHUNKS = {
    "one block": SHAPE,
    "rows": (13, 12),
    "single rows": (1, 12),
    "columns": (50, 5),
    "both": (20, 5),
    "uneven": ((3, 40, 7), (1, 9, 2)),
}
ROUTES = ("one pass", "products")


@pytest.fixture(autouse=True)
def one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    """Either way to a product, which depends on the number of columns."""
    if request.param == "products":
        let_blocks_have(monkeypatch, 0)
    return request.param


def let_blocks_have(monkeypatch, entries):
    """Say how large blocks of Dask are; what is larger is not made of them."""
    monkeypatch.setitem(dask.config.config["array"], "chunk-size", f"{8 * entries or 1}B")


def draw(seed=0, shape=SHAPE):
    return moments.draw(shape, seed)


def check(data, X, center, scale, accuracy=1e-12):
    mean, divisor, S = truth(np.asarray(X, dtype=float), center, scale)
    covariance, unit = data.covariance, data.covariance.unit
    V = np.random.default_rng(1).normal(size=(X.shape[1], 3))
    size = np.abs(S).max()
    assert (covariance.n_samples, covariance.n_features) == X.shape
    np.testing.assert_allclose(data.mean, mean, rtol=accuracy)
    np.testing.assert_allclose(data.scale, divisor, rtol=accuracy)
    np.testing.assert_allclose(covariance.matmul(V) * unit**2, S @ V, atol=accuracy * size)
    np.testing.assert_allclose(covariance.diagonal() * unit**2, np.diag(S), atol=accuracy * size)
    assert covariance.trace() * unit**2 == pytest.approx(np.trace(S), rel=accuracy)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize(("center", "scale"), [(True, False), (False, True)])
def test_is_the_covariance(route, chunks, center, scale):
    X = draw()
    check(as_input(da.from_array(X, chunks=CHUNKS[chunks]), center, scale), X, center, scale)


@pytest.mark.parametrize(
    ("chunks", "kind"), [*zip(CHUNKS, 2 * ["csr_array", "csc_matrix", "coo_array"], strict=True)]
)
def test_sparse_blocks(route, chunks, kind):
    X = draw()
    blocks = da.from_array(X, chunks=CHUNKS[chunks]).map_blocks(getattr(sparse, kind))
    data = as_input(blocks, True, True)
    check(data, X, True, True)
    assert data.covariance.best_route(5) is data.covariance  # as sparse data in memory


def test_very_sparse_blocks():
    X = np.where(np.random.default_rng(2).random(SHAPE) < 0.07, draw() + 1.0, 0.0)
    X[:2] += 1.0  # so that no column is constant
    blocks = da.from_array(X, chunks=(20, 12)).map_blocks(sparse.csr_array)
    check(as_input(blocks, True, False), X, True, False)


def test_blocks_of_the_package_sparse(route):
    package = pytest.importorskip("sparse")
    X = draw()
    blocks = da.from_array(X, chunks=(20, 12)).map_blocks(package.COO)
    check(as_input(blocks, True, False), X, True, False)


@pytest.mark.parametrize(
    ("dtype", "chunks"),
    [("int32", "rows"), ("uint8", "both"), ("bool", "rows"), ("float32", "both")],
)
def test_types(route, dtype, chunks):
    X = draw().astype(dtype)
    check(as_input(da.from_array(X, chunks=CHUNKS[chunks]), True, False), X, True, False)


@pytest.mark.parametrize("chunks", [(300_000, 4), (300_000, 2)])
def test_large_single_precision_stays_single(monkeypatch, chunks):
    """Products are in single precision, sums over blocks are not."""
    monkeypatch.setattr(_dask.DaskRows, "gathers", lambda self: False)
    X = np.random.default_rng(0).normal(size=(300_001, 4)).astype(np.float32)
    seen = []
    original = _dask._as_rows
    monkeypatch.setattr(_dask, "_as_rows", lambda b, t: seen.append(np.dtype(t)) or original(b, t))
    check(as_input(da.from_array(X, chunks=chunks), True, False), X, True, False, accuracy=3e-6)
    assert set(seen) == {np.dtype(np.float32)}


def test_unknown_block_sizes(route):
    X = draw()
    array = da.from_array(X, chunks=(13, 12))
    some = array[array[:, 0] != 0]
    assert np.isnan(some.shape[0])
    check(as_input(some, True, False), X[X[:, 0] != 0], True, False)


def test_empty_blocks(route):
    X = draw()
    array = da.concatenate([da.zeros((0, 12), chunks=(1, 12)), da.from_array(X, chunks=(25, 12))])
    check(as_input(array, True, False), X, True, False)


def test_means_far_from_zero(route):
    """Cross-products about zero would lose all digits here."""
    X = draw() + 1e7
    data = as_input(da.from_array(X, chunks=(13, 12)), True, False)
    _, _, S = truth(X, True, False)
    V = np.random.default_rng(1).normal(size=(12, 3))
    product = data.covariance.matmul(V) * data.covariance.unit**2
    # products with the data themselves lose as many digits as in memory
    accuracy = 1e-7 if route == "products" else 1e-8
    np.testing.assert_allclose(product, S @ V, atol=accuracy * np.abs(S).max())
    np.testing.assert_allclose(data.variances, np.diag(S), rtol=1e-8)


def test_constant_columns(route):
    X = draw()
    X[:, 3] = 0.1
    data = as_input(da.from_array(X, chunks=(13, 12)), True, True)
    assert data.variances[3] == 0
    assert data.scale[3] == 1


class TestRoute:
    def products(self, shape, chunks):
        data = as_input(da.ones(shape, chunks=chunks), True, False)
        return not isinstance(data.covariance, CovarianceMatrix)

    def test_few_columns_need_one_pass(self):
        assert not self.products((40, 500), (1, 500))
        assert not self.products((2_000, 600), (1_000, 600))

    def test_cross_products_much_larger_than_blocks_are_not_made(self):
        assert self.products((40, 600), (20, 600))
        assert self.products((40, 4_100), (20, 4_100))

    def test_joined_blocks_are_not_larger_than_usual(self, monkeypatch):
        let_blocks_have(monkeypatch, 100)
        joined = as_rows(da.ones((60, 10), chunks=(60, 5)))._x.chunks
        assert joined[1] == (10,)
        assert max(joined[0]) <= 10
        assert as_rows(da.ones((60, 10), chunks=(7, 5)))._x.chunks[0][0] == 7
        unknown = da.ones((60, 10), chunks=(4, 5))
        assert as_rows(unknown[unknown[:, 0] > 0])._x.chunks[1] == (10,)

    def test_number_of_passes(self, monkeypatch):
        passes = []
        original = _dask._computed
        monkeypatch.setattr(_dask, "_computed", lambda t: passes.append(1) or original(t))
        data = as_input(da.from_array(draw(), chunks=(13, 12)), True, False)
        covariance = data.covariance.best_route(5)
        covariance.matmul(np.eye(12))
        covariance.leading(3)
        assert len(passes) == 1


@pytest.mark.parametrize("shape", [(50, 12), (9, 30)])
@pytest.mark.parametrize("chunks", [(4, 7), (4, -1)])
def test_leading_directions_are_exact(route, shape, chunks):
    X = draw(shape=shape)
    covariance = as_input(da.from_array(X, chunks=chunks), True, False).covariance
    _, _, S = truth(X, True, False)
    values, vectors = covariance.leading(4)
    expected, axes = np.linalg.eigh(S)
    np.testing.assert_allclose(values * covariance.unit**2, expected[::-1][:4], rtol=1e-10)
    cosines = np.abs(np.vecdot(vectors.T, axes.T[::-1][:4]))
    np.testing.assert_allclose(cosines, 1.0, rtol=1e-10)


def test_covariance_itself_is_used_where_it_would_be_in_memory(route):
    X = draw()
    ours = as_input(da.from_array(X, chunks=(20, 5)), True, True).covariance.best_route(3)
    theirs = from_matrix(X, True, True, None).covariance.best_route(3)
    assert type(ours) is type(theirs)
    np.testing.assert_allclose(
        ours.matmul(np.eye(12)) * ours.unit**2,
        theirs.matmul(np.eye(12)) * theirs.unit**2,
        rtol=1e-10,
        atol=1e-13,
    )


class TestBadInput:
    @pytest.mark.parametrize("chunks", [(13, 12), (13, 5)])
    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    @pytest.mark.parametrize("kind", ["dense", "sparse"])
    def test_not_finite(self, chunks, bad, kind):
        X = draw()
        X[30, 7] = X[44, 7] = X[31, 2] = bad
        array = da.from_array(X, chunks=chunks)
        if kind == "sparse":
            array = array.map_blocks(sparse.csr_array)
        name = "NaN" if np.isnan(bad) else "infinity"
        message = (
            f"contains {name}: 3 entries .* first in row 30, column 7; by column: 2 .1., 7 .2."
        )
        with pytest.raises(ValueError, match=message):
            as_input(array, True, False)

    @pytest.mark.parametrize("dtype", ["float64", "int64"])
    def test_masked_entries_are_missing(self, route, dtype):
        masked = np.ma.masked_array(draw().astype(dtype), np.arange(600).reshape(SHAPE) == 100)
        array = da.from_array(masked, chunks=(20, 12))
        with pytest.raises(ValueError, match=r"contains NaN: 1 entry .* row 8, column 4"):
            as_input(array, True, False)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (da.ones((0, 3)), "no rows"),
            (da.ones((3, 0)), "no columns"),
            (da.ones(5), "Expected 2D array"),
            (da.ones((5, 2)) * 1e160, "too large to square"),
            (da.ones((5, 2)) * 1e-160, "too small to square"),
        ],
    )
    def test_values(self, array, message):
        with pytest.raises(ValueError, match=message):
            as_input(array, True, False)

    def test_unknown_number_of_columns(self):
        array = da.from_array(draw(), chunks=(13, 12))
        with pytest.raises(ValueError, match="number of columns of X is unknown"):
            as_input(array[:, array[0] != 0], True, False)

    def test_not_numbers(self):
        with pytest.raises(TypeError, match="real numbers, got dtype complex128"):
            as_input(da.ones((4, 2)) * 1j, True, False)

    def test_not_a_table(self):
        bag = dask.delayed(1)
        assert is_dask(bag)
        with pytest.raises(TypeError, match="got a Dask Delayed"):
            as_input(bag, True, False)
