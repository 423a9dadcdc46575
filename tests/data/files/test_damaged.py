"""Damaged and hostile files: one ValueError that names the file, and never a crash."""

import contextlib
import gzip
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from ebcd import Chunks
from ebcd.data import as_input
from ebcd.data.files._table import read_table

X = np.random.default_rng(0).normal(size=(20, 5)).round(3)
COUNTS = sparse.csr_array(np.maximum(X, 0))
WORKBOOKS = Path(__file__).parent / "workbooks"


def write_h5ad(path, parts, shape):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", shape
        for name, part in zip(("data", "indices", "indptr"), parts, strict=True):
            group[name] = part
        for name, size in (("obs", shape[0]), ("var", shape[1])):
            names = file.create_group(name)
            names.attrs["_index"] = "names"
            names["names"] = [f"{name}{i}" for i in range(size)]


def write(path):
    """Write a whole file in the format of its suffix."""
    match path.name.partition(".")[2]:
        case "npy":
            np.save(path, X)
        case "npz":
            np.savez_compressed(path, X=X)
        case "sparse.npz":
            sparse.save_npz(path, COUNTS)
        case "csv.gz":
            rows = "\n".join(",".join(map(str, row)) for row in X)
            path.write_bytes(gzip.compress(f"a,b,c,d,e\n{rows}\n".encode()))
        case "h5ad":
            write_h5ad(path, (COUNTS.data, COUNTS.indices, COUNTS.indptr), COUNTS.shape)
        case "parquet":
            pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
            pq.write_table(pa.table(dict(zip("abcde", X.T, strict=True))), path)
        case suffix:
            pytest.importorskip("python_calamine")
            path.write_bytes((WORKBOOKS / f"table.{suffix}").read_bytes())
    return path.read_bytes()


CHUNKS = {
    "npy": Chunks.from_npy,
    "csv.gz": Chunks.from_csv,
    "h5ad": Chunks.from_h5ad,
    "parquet": Chunks.from_parquet,
}
SUFFIXES = (*CHUNKS, "npz", "sparse.npz", "xlsx", "xls", "ods")


def damaged(whole, draw):
    content = bytearray(whole)
    if draw.random() < 0.3:
        return content[: draw.randrange(1, len(content))]
    for _ in range(draw.choice((1, 3, 10))):
        content[draw.randrange(len(content))] = draw.randrange(256)
    return content


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_damage_is_one_error_that_names_the_file(suffix, tmp_path):
    whole = write(tmp_path / f"whole.{suffix}")
    path = tmp_path / f"damaged.{suffix}"
    draw = random.Random(0)
    refused = 0
    for _ in range(12 if suffix == "h5ad" else 25):  # which takes two child processes each
        path.write_bytes(damaged(whole, draw))
        try:
            table = read_table(path)
        except ValueError as error:
            refused += 1
            text = str(error)
        else:
            text = str(path)  # the damage is in a number, or in a byte without meaning
            assert table.values.T @ table.values is not None
        assert str(path) in text
        assert "\n" not in text
        if suffix in CHUNKS:
            with contextlib.suppress(ValueError):
                as_input(CHUNKS[suffix](path), True, False)
    assert refused > 5


HEADER = b"%%MatrixMarket matrix coordinate real general\n3 3 2\n"
MATRIX_MARKET = {
    "cut within an exponent, on which SciPy crashes": HEADER + b"1 1 2.0\n2 2 1.5E-",
    "a zero byte, on which SciPy crashes": HEADER + b"1 1 4.865204333031548644684e-0\x00\n2 2 1\n",
    "cut between lines": HEADER + b"1 1 2.0\n",
    "an index out of range": HEADER + b"1 1 2.0\n4 1 1.0\n",
    "more entries than memory holds": HEADER.replace(b"3 3 2", b"3 3 9999999999999") + b"1 1 1\n",
    "no size": b"%%MatrixMarket matrix coordinate real general\n",
}


@pytest.mark.parametrize("case", MATRIX_MARKET)
def test_matrix_market(case, tmp_path):
    (tmp_path / "x.mtx").write_bytes(MATRIX_MARKET[case])
    with pytest.raises(ValueError, match=r"x.mtx is not a complete Matrix Market file"):
        read_table(tmp_path / "x.mtx")


@pytest.mark.parametrize("kind", ["npz", "h5ad"])
@pytest.mark.parametrize("index", [-1, 5, 10**9])
def test_sparse_indices_out_of_range(kind, index, tmp_path):
    """Products with such a matrix would read memory that is not theirs."""
    path = tmp_path / f"x.{kind}"
    indices = COUNTS.indices.copy()
    indices[7] = index
    parts = (COUNTS.data, indices, COUNTS.indptr)
    if kind == "h5ad":
        write_h5ad(path, parts, COUNTS.shape)
        with pytest.raises(ValueError, match="damaged sparse matrix"):
            as_input(Chunks.from_h5ad(path), True, False)
    else:
        names = ("data", "indices", "indptr")
        arrays = dict(zip(names, parts, strict=True))
        np.savez(path, format=np.array(b"csr"), shape=np.array(COUNTS.shape), **arrays)
    with pytest.raises(ValueError, match=f"x.{kind} is not a complete"):
        read_table(path)


def test_arrays_that_claim_more_than_the_file_has(tmp_path):
    text = str({"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**4)}).encode() + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
    for name in ("x.npy", "x.npy.gz"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
        with pytest.raises(ValueError, match=name):
            read_table(path)
    with pytest.raises(ValueError, match=r"x.npy is not a complete NPY file"):
        Chunks.from_npy(tmp_path / "x.npy")


OURS = {
    "npy": "_checked_matrix",
    "npz": "_checked_matrix",
    "sparse.npz": "_from_matrix",
    "csv.gz": "_as_numbers",
    "h5ad": "unique_names",
    "parquet": "_without_total",
    "xlsx": "_labels",
}


def fail(*_, **__):
    raise TypeError("a bug of ours")


@pytest.mark.parametrize("suffix", OURS)
def test_a_bug_of_ours_is_not_told_as_damage(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"x.{suffix}"
    write(path)
    monkeypatch.setattr(f"ebcd.data.files._table.{OURS[suffix]}", fail)
    with pytest.raises(TypeError, match="a bug of ours"):
        read_table(path)


@pytest.mark.parametrize(
    ("suffix", "ours"),
    [("csv.gz", "_as_matrix"), ("parquet", "_as_matrix"), ("h5ad", "slices")],
)
def test_a_bug_of_ours_in_chunks(suffix, ours, tmp_path, monkeypatch):
    pytest.importorskip("h5py" if suffix == "h5ad" else "pyarrow")
    path = tmp_path / f"x.{suffix}"
    write(path)
    monkeypatch.setattr(f"ebcd.data.files._chunks.{ours}", fail)
    with pytest.raises(TypeError, match="a bug of ours"):
        as_input(CHUNKS[suffix](path), True, False)


def test_cells_that_are_lists(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("pandas")
    pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X.tolist()}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="1 column holds text: 'c'"):
        read_table(tmp_path / "x.parquet")


@pytest.mark.parametrize("first", ["\N{SUPERSCRIPT TWO},2,3", f"{'1' * 5000},2,3"])
def test_first_rows_of_unusual_digits(first, tmp_path):
    pytest.importorskip("pandas")
    path = tmp_path / "x.csv"
    path.write_text("\n".join([first, *(f"{a},{b},{c}" for a, b, c in X[:, :3])]), "utf-8")
    with pytest.raises(ValueError, match=r"x\.csv"):
        read_table(path)


def test_names_that_are_not_as_many_as_columns(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5ad"
    write(path)
    with h5py.File(path, "a") as file:
        del file["var"]["names"]
        file["var"]["names"] = ["a", "b"]
    with pytest.raises(ValueError, match="not as long as there are rows and columns"):
        read_table(path)


def test_members_that_are_no_arrays(tmp_path):
    path = tmp_path / "x.npz"
    write(path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.txt", "text")
    assert read_table(path).values.shape == X.shape
    with pytest.raises(ValueError, match="a matrix with samples as rows is needed"):
        read_table(path, key="notes.txt")
