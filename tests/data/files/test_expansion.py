"""Files that would fill the memory are refused by their size before they do."""

import bz2
import gzip
import io
import lzma
import tracemalloc
import zipfile

import numpy as np
import pytest
from scipy import sparse

import ebcd
from ebcd import _store
from ebcd.data.files import _open
from ebcd.data.files._open import FileError
from ebcd.data.files._table import read_table

TABLE = b"a,b\n" + b"1,2\n" * 40_000  # 160 kB, which shrink a thousandfold
BEYOND = r"unpack to .* or more, beyond the limit of [0-9.]+ kB.*EBCD_MAX_EXPANDED"


@pytest.fixture(autouse=True)
def limit(monkeypatch):
    monkeypatch.setenv("EBCD_MAX_EXPANDED", "50kB")


def npy(values):
    content = io.BytesIO()
    np.save(content, values)
    return content.getvalue()


def npy_header(shape):
    content = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, header)
    return content.getvalue()


def zipped(name, content, method=zipfile.ZIP_DEFLATED):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr(name, content)
    return packed.getvalue()


def zstd(content):
    pa = pytest.importorskip("pyarrow")
    return pa.Codec("zstd").compress(content).to_pybytes()


PACKERS = {
    "table.csv.gz": lambda: gzip.compress(TABLE),
    "table.csv.bz2": lambda: bz2.compress(TABLE),
    "table.csv.xz": lambda: lzma.compress(TABLE),
    "table.csv.zst": lambda: zstd(TABLE),
    "table.zip": lambda: zipped("table.csv", TABLE),
    "table.npy.gz": lambda: gzip.compress(npy(np.zeros((10_000, 2)))),
    "table.npz": lambda: zipped("X.npy", npy(np.zeros((10_000, 2)))),
    "twice.csv.gz": lambda: gzip.compress(gzip.compress(TABLE)),
}


@pytest.mark.parametrize("name", PACKERS)
def test_what_unpacks_to_more_than_the_limit(name, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    path = tmp_path / name
    path.write_bytes(PACKERS[name]())
    with pytest.raises(FileError, match=BEYOND):
        read_table(path)
    monkeypatch.setenv("EBCD_MAX_EXPANDED", "200kB")
    assert read_table(path).values.shape[1] == 2


def test_the_limit_grows_with_the_file(tmp_path):
    pytest.importorskip("pandas")
    values = np.random.default_rng(0).standard_normal((5_000, 2))
    path = tmp_path / "table.npy.gz"
    path.write_bytes(gzip.compress(npy(values)))  # more than 50 kB, but not 20 times the file
    np.testing.assert_array_equal(read_table(path).values, values)


@pytest.mark.parametrize("limit", ["much", "-1", "0"])
def test_a_limit_that_is_none(tmp_path, monkeypatch, limit):
    monkeypatch.setenv("EBCD_MAX_EXPANDED", limit)
    (tmp_path / "table.csv.gz").write_bytes(gzip.compress(TABLE))
    with pytest.raises(ValueError, match="EBCD_MAX_EXPANDED must be"):
        read_table(tmp_path / "table.csv.gz")


def test_nested_compression(tmp_path):
    content = b"1,2\n3,4\n"
    for _ in range(1_200):
        content = gzip.compress(content)
    (tmp_path / "nested.csv.gz").write_bytes(content)
    with pytest.raises(FileError, match="compressed more than 3 times"):
        read_table(tmp_path / "nested.csv.gz")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lambda b: zipped("X.npy", b)])
@pytest.mark.parametrize("shape", [(0, 10**15), (10**15, 0)])
def test_empty_arrays_of_any_length(tmp_path, shape, pack):
    path = tmp_path / "table"
    path.write_bytes(pack(npy_header(shape)))
    with pytest.raises(FileError, match="which is empty"):
        read_table(path)


def test_empty_arrays_of_any_length_in_chunks(tmp_path):
    (tmp_path / "x.npy").write_bytes(npy_header((0, 10**15)))
    with pytest.raises(ValueError, match=r"no rows|empty|0 sample"):
        ebcd.EBCD(1).fit(ebcd.Chunks.from_npy(tmp_path / "x.npy"))


def test_empty_arrays_in_models(tmp_path):
    with zipfile.ZipFile(tmp_path / "m", "w") as archive:
        archive.writestr("header.json", '{"kind": "array", "name": "x"}')
        archive.writestr("x.npy", npy_header((0, 10**15)))
    with pytest.raises(ValueError, match=r"shape \(0, 1000000000000000\), longer than"):
        _store.read(tmp_path / "m")


def test_compressed_models(tmp_path):
    ebcd.save(ebcd.EBCD(2), tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mean_.npy", npy(np.zeros(10**7)))
    with pytest.raises(ValueError, match="members are larger than the file"):
        ebcd.load(tmp_path / "model")


@pytest.mark.parametrize("shape", [(10**8, 2), (2, 10**15), (2, 1_000)])
def test_sparse_matrices_of_any_length(tmp_path, shape):
    empty = sparse.coo_array(([1.0], ([0], [1])), shape=shape)
    sparse.save_npz(tmp_path / "x.npz", empty)
    with pytest.raises(FileError, match=BEYOND):
        read_table(tmp_path / "x.npz")


@pytest.mark.slow
def test_names_of_a_million_columns(tmp_path, monkeypatch):
    """Are all that a sparse matrix of few rows takes, once, and not several times."""
    monkeypatch.delenv("EBCD_MAX_EXPANDED")
    shape = (8, 1_048_579)
    sparse.save_npz(tmp_path / "x.npz", sparse.coo_array(([1.0, 2.0], ([0, 5], [1, 7])), shape))
    tracemalloc.start()
    try:
        table = read_table(tmp_path / "x.npz")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.values.shape == shape
    assert peak < 100 * shape[1]


def test_matrix_market_of_any_length(tmp_path):
    head = "%%MatrixMarket matrix coordinate real general\n100000000 2 1\n1 1 1\n"
    (tmp_path / "x.mtx").write_text(head)
    with pytest.raises(FileError, match=BEYOND):
        read_table(tmp_path / "x.mtx")


def test_names_beside_a_matrix(tmp_path):
    (tmp_path / "x.mtx").write_text("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n")
    (tmp_path / "features.tsv.gz").write_bytes(gzip.compress(b"name\n" * 20_000))
    with pytest.raises(FileError, match=BEYOND):
        read_table(tmp_path / "x.mtx")


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pandas")
    pq.write_table(pa.table({"a": np.zeros(20_000), "b": np.zeros(20_000)}), tmp_path / "x.parquet")
    with pytest.raises(FileError, match=BEYOND):
        read_table(tmp_path / "x.parquet")


@pytest.mark.parametrize("as_sparse", [False, True])
def test_h5ad(tmp_path, as_sparse):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        place = file.create_group("X") if as_sparse else file
        for name in ("data", "indices", "indptr") if as_sparse else ("X",):
            shape = (10**9,) if as_sparse else (10**6, 10**6)
            place.create_dataset(name, shape, "f8", chunks=True)  # of which nothing is stored
    with pytest.raises(FileError, match=BEYOND):
        read_table(tmp_path / "x.h5ad")


def test_lines_without_end(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from ebcd.data.files import _chunks

    monkeypatch.setattr(_chunks, "_LONGEST", 1_000)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"1," * 10_000))
    with pytest.raises(FileError, match="lines of more than 1,000 bytes"):
        ebcd.Chunks.from_csv(tmp_path / "x.csv.gz")


def test_a_child_has_a_limit():
    resource = pytest.importorskip("resource")
    assert resource
    with pytest.raises(ValueError, match=r"MemoryError|crashed|Unable to allocate"):
        _open.in_child("bytearray(10**10)", b"")
