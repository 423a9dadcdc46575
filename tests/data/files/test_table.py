"""Tables from files: formats, compressions, and how text tables are understood."""

import bz2
import gzip
import lzma
import os
import re
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import io as scipy_io
from scipy import sparse

from ebcd.data.files._table import read_table

pytest.importorskip("pandas")  # reads the text tables; the core does without

X = np.array([[1.5, 0.0, -2.0], [0.0, 3.25, 4.0], [7.0, 0.0, 0.5], [1.0, 2.0, 3.0]])
CSV = b"id,a,b,c\nr1,1.5,0,-2\nr2,0,3.25,4\nr3,7,0,0.5\nr4,1,2,3\n"
ROWS, COLUMNS = ["r1", "r2", "r3", "r4"], ["a", "b", "c"]


def read(tmp_path, content, name="table.csv", **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, **options)


def check(table, rows=ROWS, columns=COLUMNS):
    np.testing.assert_array_equal(
        table.values.toarray() if sparse.issparse(table.values) else table.values, X
    )
    assert table.row_names == rows
    assert table.column_names == columns


def zipped(content, *names):
    import io

    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_compressed_text(tmp_path, suffix, compress):
    check(read(tmp_path, compress(CSV), f"table.csv{suffix}"))
    check(read(tmp_path, compress(compress(CSV)), "table"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[gzip.compress(CSV)])
    writer.start()
    check(read_table(tmp_path / "pipe"))
    writer.join()


def test_zip_with_one_table(tmp_path):
    check(read(tmp_path, zipped(CSV, "folder/table.csv"), "table.zip"))
    with pytest.raises(ValueError, match="archive of 2 files"):
        read(tmp_path, zipped(CSV, "one.csv", "two.csv"), "table.zip")
    with pytest.raises(ValueError, match="is not a complete"):
        read(tmp_path, zipped(CSV, "one.csv")[:-30], "table.zip")


def test_zstd(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "table.csv.zst"
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(CSV)
    check(read_table(path))


def test_points_for_missing_cells_are_no_decimal_marks(tmp_path):
    table = read(tmp_path, "a;b\n1,5;2\n.;3\n4;5,25\n", drop_missing="rows")
    np.testing.assert_array_equal(table.values, [[1.5, 2], [4, 5.25]])


def test_npy_compressed_and_named_wrongly(tmp_path):
    np.save(tmp_path / "x.npy", X)
    names = ["x0", "x1", "x2"]
    content = (tmp_path / "x.npy").read_bytes()
    check(read(tmp_path, gzip.compress(content), "x.npy.gz"), None, names)
    check(read(tmp_path, content, "x.csv"), None, names)


def test_npy_stays_on_disk(tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert isinstance(read_table(tmp_path / "x.npy").values, np.memmap)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), "shape"),
        (np.ones((2, 2), dtype=complex), "complex128"),
        (np.array([["a", "b"]]), "real numbers"),
    ],
)
def test_npy_that_is_no_matrix(tmp_path, values, message):
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(ValueError, match=message):
        read_table(tmp_path / "x.npy")


def test_npy_with_objects_is_not_executed(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[print]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x.npy holds Python objects; write it again as numbers"):
        read_table(tmp_path / "x.npy")


def test_npz_with_names_that_are_objects(tmp_path):
    names = np.array(["u", "v", "w"], dtype=object)
    np.savez(tmp_path / "x.npz", counts=X, names=names)
    check(read_table(tmp_path / "x.npz"), None, ["x0", "x1", "x2"])
    with pytest.raises(ValueError, match=r"names in .*x.npz holds Python objects"):
        read_table(tmp_path / "x.npz", key="names")


@pytest.mark.parametrize(
    ("option", "files"), [("key", "NPZ"), ("layer", "h5ad"), ("sheet", "Excel")]
)
def test_options_of_other_formats(tmp_path, option, files):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match=f"--{option} is for {files} files, but .*x.npy is not"):
        read_table(tmp_path / "x.npy", **{option: "a"})


def test_columns_of_a_matrix(tmp_path):
    np.save(tmp_path / "x.npy", X)
    table = read_table(tmp_path / "x.npy", drop=["x1"], index="x0")
    assert table.column_names == ["x2"]
    assert table.row_names == ["1.5", "0", "7", "1"]
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_array(X))
    table = read_table(tmp_path / "x.npz", columns=["x1,x2"], index="x0")
    assert table.row_names == ["1.5", "0", "7", "1"]
    assert sparse.issparse(table.values)


def test_npz(tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=X + 1, names=np.array(["u", "v"]))
    with pytest.raises(ValueError, match=r"2 matrices \(a, b\); choose an array with --key"):
        read_table(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="unknown array"):
        read_table(tmp_path / "x.npz", key="c")
    check(read_table(tmp_path / "x.npz", key="a"), None, ["x0", "x1", "x2"])
    np.savez(tmp_path / "x.npz", only=X, names=np.array(["u", "v"]))
    check(read_table(tmp_path / "x.npz"), None, ["x0", "x1", "x2"])


@pytest.mark.slow
def test_matrix_market_of_10x(tmp_path):
    scipy_io.mmwrite(tmp_path / "matrix.mtx", sparse.coo_array(X))
    content = (tmp_path / "matrix.mtx").read_bytes()
    (tmp_path / "matrix.mtx.gz").write_bytes(gzip.compress(content))
    features = "".join(f"ENSG{i}\t{name}\tGene Expression\n" for i, name in enumerate(ROWS))
    (tmp_path / "features.tsv.gz").write_bytes(gzip.compress(features.encode()))
    (tmp_path / "barcodes.tsv").write_text("a\nb\nc\n")
    for name in ("matrix.mtx", "matrix.mtx.gz"):
        table = read_table(tmp_path / name)
        check(table)
        assert sparse.issparse(table.values)
        assert "--transpose" in table.notes[0]
    turned = table.transposed()
    assert (turned.row_names, turned.column_names) == (COLUMNS, ROWS)
    np.testing.assert_array_equal(turned.values.toarray(), X.T)
    (tmp_path / "matrix.mtx").write_bytes(content[:60])
    with pytest.raises(ValueError, match="is not a complete"):
        read_table(tmp_path / "matrix.mtx")


def test_dense_matrix_market(tmp_path):
    scipy_io.mmwrite(tmp_path / "x.mtx", X)
    table = read_table(tmp_path / "x.mtx")
    check(table, None, ["x0", "x1", "x2"])
    assert table.transposed().column_names == ["x0", "x1", "x2", "x3"]


def write_parquet(path, columns, **options):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table(columns), path, **options)


def test_parquet(tmp_path):
    columns = {"id": ROWS, "a": X[:, 0], "b": X[:, 1].astype(np.float32), "c": X[:, 2]}
    path = tmp_path / "x.parquet"
    write_parquet(path, columns)
    check(read_table(path))
    check(read(tmp_path, gzip.compress(path.read_bytes()), "x.parquet.gz"))
    table = read_table(path, columns=["a"], index="id")
    assert (table.column_names, table.row_names) == (["a"], ROWS)
    table = read_table(path, columns=["a"], index="none")
    assert (table.column_names, table.row_names) == (["a"], None)
    assert read_table(path, columns=["c", "a"], drop=["id"]).column_names == ["a", "c"]
    content = path.read_bytes()
    with pytest.raises(ValueError, match="is not a complete"):
        read(tmp_path, content[:100], "y.parquet")


def test_parquet_with_text_groups_and_missing_cells(tmp_path):
    path = tmp_path / "x.parquet"
    write_parquet(path, {"g": ["u", "u", "v"], "a": [1, 2, None], "t": ["1", "2", "3"]})
    with pytest.raises(ValueError, match=r"'g' \('u'\), 't' \('1'\); 1 cell is missing"):
        read_table(path)
    with pytest.raises(ValueError, match=r"1 cell is missing, the first in row 3, column 'a'"):
        read_table(path, drop=["g", "t"])


def test_parquet_of_pandas(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    days = pd.date_range("2020-01-30", periods=4, name="day")
    pd.DataFrame(X, columns=COLUMNS, index=days).to_parquet(tmp_path / "x.parquet")
    table = read_table(tmp_path / "x.parquet")
    check(table, ["2020-01-30", "2020-01-31", "2020-02-01", "2020-02-02"])
    assert table.index_name == "day"
    pd.DataFrame(X, columns=COLUMNS, index=ROWS).to_parquet(tmp_path / "x.parquet")
    check(read_table(tmp_path / "x.parquet"))
    pd.DataFrame(X, columns=COLUMNS).to_parquet(tmp_path / "x.parquet")
    check(read_table(tmp_path / "x.parquet"), None)


WORKBOOKS = Path(__file__).parent / "workbooks"


@pytest.fixture(params=["xlsx", "xls", "ods"])
def workbook(request):
    """A workbook with the sheets "data", "other one" and "empty"."""
    pytest.importorskip("pandas")
    pytest.importorskip("python_calamine")
    return WORKBOOKS / f"table.{request.param}"


def test_excel(workbook, tmp_path):
    table = read_table(workbook)
    check(table, ["2020-01-30", "2020-01-31", "2020-02-01", "2020-02-02"])
    assert table.index_name == "day"
    first = "the first sheet, data, was read (--sheet for others: other one, empty)"
    assert table.notes == [first, "rows are named by the column 'day'"]
    check(read(tmp_path, gzip.compress(workbook.read_bytes()), "x.gz"), table.row_names)
    assert read_table(workbook, sheet="data", columns=["b"]).notes == table.notes[1:]


def test_sheets_as_people_make_them(workbook):
    """Lines above the table, empty rows, missing cells, numbers as text and truth values."""
    with pytest.raises(ValueError, match="hold text"):
        read_table(workbook, sheet="other one")
    options = {"sheet": "other one", "skip_lines": 1, "decimal": ","}
    with pytest.raises(ValueError, match="2 cells are missing, the first in row 2"):
        read_table(workbook, **options)
    table = read_table(workbook, **options, drop_missing="rows")
    np.testing.assert_array_equal(table.values, [[1, 2.5]])
    assert (table.row_names, table.column_names) == (["u"], ["x", "y"])
    table = read_table(workbook, **options, columns=["y"], drop_missing="rows")
    np.testing.assert_array_equal(table.values, [[2.5], [1]])


def test_sheets_that_are_not_there(workbook):
    with pytest.raises(ValueError, match="'dato'; did you mean 'data'"):
        read_table(workbook, sheet="dato")
    with pytest.raises(ValueError, match=r"sheet 'empty' has no rows"):
        read_table(workbook, sheet="empty")


def write_h5ad(path, values, *, old=False):
    """Write what the specification of the format asks for; independent of anndata."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        for name in ("X", "layers/raw"):
            if sparse.issparse(values):
                group = file.create_group(name)
                group.attrs["encoding-type"] = f"{values.format}_matrix"
                group.attrs["shape"] = values.shape
                for part in ("data", "indices", "indptr"):
                    group[part] = getattr(values, part)
            else:
                file[name] = values
            values = values * 2
        for name, labels in (("obs", ROWS), ("var", COLUMNS)):
            if old:
                kind = [("index", h5py.string_dtype())]
                file[name] = np.array([(label,) for label in labels], dtype=kind)
            else:
                group = file.create_group(name)
                group.attrs["_index"] = "names"
                group["names"] = labels


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_h5ad(tmp_path, make):
    path = tmp_path / "x.h5ad"
    write_h5ad(path, make(X))
    table = read_table(path)
    check(table)
    assert sparse.issparse(table.values) == sparse.issparse(make(X))
    layer = read_table(path, layer="raw").values
    np.testing.assert_array_equal(layer.toarray() if sparse.issparse(layer) else layer, 2 * X)
    with pytest.raises(ValueError, match="did you mean 'raw'"):
        read_table(path, layer="rav")
    check(read(tmp_path, gzip.compress(path.read_bytes()), "x.h5ad.gz"))


def test_columns_of_obs_to_colour_by(tmp_path):
    anndata = pytest.importorskip("anndata")
    n, kinds = len(X), ["B", "T"]
    obs = pd.DataFrame(
        {
            "type": pd.Categorical([kinds[i % 2] for i in range(n - 1)] + [None]),
            "day, hour": [f"{i % 2}, 7" for i in range(n)],
            "age": np.arange(n) / 2,
            "doses": pd.array([*range(n - 1), None], dtype="Int64"),
            "ill": np.arange(n) % 2 == 0,
        },
        index=ROWS,
    )
    var = pd.DataFrame(index=COLUMNS)
    path = tmp_path / "x.h5ad"
    anndata.AnnData(sparse.csr_array(X), obs=obs, var=var).write_h5ad(path)
    table = read_table(path, color_by=["type,age", "day, hour", "do*", "ill"])
    check(table)
    assert table.groups["type"] == [*(kinds[i % 2] for i in range(n - 1)), ""]
    assert table.groups["day, hour"] == obs["day, hour"].tolist()
    np.testing.assert_array_equal(table.groups["age"], obs["age"])
    np.testing.assert_array_equal(table.groups["doses"], [*range(n - 1), np.nan])
    np.testing.assert_array_equal(table.groups["ill"], obs["ill"])
    table = read_table(path, color_by=[COLUMNS[0], "type"])
    assert table.column_names == COLUMNS[1:]
    assert list(table.groups) == ["type", COLUMNS[0]]
    packed = read(tmp_path, gzip.compress(path.read_bytes()), "x.h5ad.gz", color_by=["type"])
    assert packed.groups == {"type": table.groups["type"]}
    with pytest.raises(ValueError, match="did you mean 'type'"):
        read_table(path, color_by=["typ"])


def test_damaged_columns_of_obs(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5ad"
    write_h5ad(path, X)
    codes = np.arange(len(X)) % 2
    with h5py.File(path, "r+") as file:
        file["obs/type"], file["obs/__categories/type"] = codes, ["B", "T"]  # of old versions
        file["obs/short"] = codes[:-1]
        file["obs/wide"] = np.zeros((len(X), 2))
        file["obs/out of range/codes"], file["obs/out of range/categories"] = codes, ["B"]
        file["obs/other/names"] = codes
    assert read_table(path, color_by=["type"]).groups == {"type": ["BT"[code] for code in codes]}
    for name, message in (
        ("short", "not as long as there are rows"),
        ("wide", "not a complete"),
        ("out of range", "not a complete"),
        ("other", "'other' of obs holds neither numbers nor text"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(path, color_by=[name])


def test_h5ad_of_old_versions_and_other_hdf5(tmp_path):
    path = tmp_path / "x.h5ad"
    write_h5ad(path, X, old=True)
    check(read_table(path))
    content = path.read_bytes()
    with pytest.raises(ValueError, match="is not a complete"):
        read(tmp_path, content[: len(content) // 2], "y.h5ad")
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["something"] = X
    with pytest.raises(ValueError, match="not h5ad"):
        read_table(path)


def test_h5ad_of_anndata(tmp_path):
    anndata = pytest.importorskip("anndata")
    pd = pytest.importorskip("pandas")
    data = anndata.AnnData(
        sparse.csr_matrix(X), obs=pd.DataFrame(index=ROWS), var=pd.DataFrame(index=COLUMNS)
    )
    data.write_h5ad(tmp_path / "x.h5ad")
    check(read_table(tmp_path / "x.h5ad"))


@pytest.mark.parametrize(
    ("module", "content", "message"),
    [
        (
            "pyarrow",
            b"PAR1abc",
            r"Parquet files needs pyarrow and pandas: pip install \"ebcd\[io\]\"",
        ),
        ("h5py", b"\x89HDF\r\n\x1a\nabc", r"h5ad files needs h5py: pip install \"ebcd\[io\]\""),
        ("pyarrow", b"\x28\xb5\x2f\xfdabc", r"zstd files needs pyarrow"),
    ],
)
def test_without_the_extra(tmp_path, monkeypatch, module, content, message):
    if module == "pyarrow" and "zstd" in message and sys.version_info >= (3, 14):
        pytest.skip("Python reads zstd by itself")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=message):
        read(tmp_path, content)


def test_missing_cells_of_a_sparse_matrix(tmp_path):
    values = sparse.csr_array(X)
    values.data[2] = np.nan  # row 1, column 1
    values.data[3] = np.inf  # row 1, column 2
    sparse.save_npz(tmp_path / "x.npz", values)
    with pytest.raises(ValueError, match=r"2 cells are missing or infinite \(1 infinite\)"):
        read_table(tmp_path / "x.npz")
    table = read_table(tmp_path / "x.npz", drop_missing="rows")
    np.testing.assert_array_equal(table.values.toarray(), X[[0, 2, 3]])
    table = read_table(tmp_path / "x.npz", drop_missing="columns")
    assert table.column_names == ["x0"]


def test_nothing_left_without_missing_cells(tmp_path):
    with pytest.raises(ValueError, match="all rows have missing cells; try --drop-missing columns"):
        read(tmp_path, "a,b\n1,\n2,\n", drop_missing="rows")
    assert read(tmp_path, "a,b\n1,\n2,\n", drop_missing="columns").column_names == ["a"]


# what a text table means: content, values, names of rows, names of columns
MEANINGS = {
    "decimal commas with points between thousands": (
        "a;b\n1.234,5;2\n0,25;1.000.000\n",
        [[1234.5, 2], [0.25, 1e6]],
        None,
        ["a", "b"],
    ),
    "commas between thousands": (
        'a,b\n"1,234.5",2\n0.25,"1,000,000"\n',
        [[1234.5, 2], [0.25, 1e6]],
        None,
        ["a", "b"],
    ),
    "quoted whole numbers with commas": (
        'a,b\n"1,234",2\n25,"1,000"\n',
        [[1234, 2], [25, 1000]],
        None,
        ["a", "b"],
    ),
    "semicolons with whole numbers": ("a;b\n1;2\n3;4\n", [[1, 2], [3, 4]], None, ["a", "b"]),
    "points that mark decimals": ("a;b\n1.234;2\n3;4\n", [[1.234, 2], [3, 4]], None, ["a", "b"]),
    "exponents": ("a b\n1e-3 -2E+4\n.5 5.\n", [[1e-3, -2e4], [0.5, 5]], None, ["a", "b"]),
    "days of Germany": (
        "Tag;a;b\n31.12.2020;1,5;2\n01.01.2021;2;3,25\n",
        [[1.5, 2], [2, 3.25]],
        ["31.12.2020", "01.01.2021"],
        ["a", "b"],
    ),
    "days in front, each twice": (
        "when,a,b\n2020-01-01,1,2\n2020-01-01,3,4\n",
        [[1, 2], [3, 4]],
        ["2020-01-01", "2020-01-01"],
        ["a", "b"],
    ),
    "months as numbers": (
        "x,a,b\n202001,1,2\n202002,3,4\n202003,5,6\n",
        [[1, 2], [3, 4], [5, 6]],
        ["202001", "202002", "202003"],
        ["a", "b"],
    ),
    "numbered rows without a header": (
        "0,1.5,2\n1,3,4\n2,5,6\n",
        [[1.5, 2], [3, 4], [5, 6]],
        ["0", "1", "2"],
        ["x1", "x2"],
    ),
    "numbers as names of columns": (
        ",0,1\nu,1.5,2\nv,3,4\n",
        [[1.5, 2], [3, 4]],
        ["u", "v"],
        ["0", "1"],
    ),
    "names of variants": (
        "variant,a,b\n1_10,1,2\n1_20,3,4\n",
        [[1, 2], [3, 4]],
        ["1_10", "1_20"],
        ["a", "b"],
    ),
    "a first column of numbers is data": ("a,b\n5,2\n7,4\n", [[5, 2], [7, 4]], None, ["a", "b"]),
    "a name with a separator": ('"a,x",b\n1,2\n3,4\n', [[1, 2], [3, 4]], None, ["a,x", "b"]),
    "a header in a comment": ("#a\tb\n1\t2\n3\t4\n", [[1, 2], [3, 4]], None, ["#a", "b"]),
    "columns without a name": (
        "a,,b\n1,2,3\n4,5,6\n",
        [[1, 2, 3], [4, 5, 6]],
        None,
        ["a", "x1", "b"],
    ),
    "separators at the end, without a header": (
        "1.5,2,\n3,4,\n",
        [[1.5, 2], [3, 4]],
        None,
        ["x0", "x1"],
    ),
    "table of R with spaces": (
        '"a" "b"\n"u" 1.5 2\n"v" 3 4\n'.replace('"', ""),
        [[1.5, 2], [3, 4]],
        ["u", "v"],
        ["a", "b"],
    ),
}


@pytest.mark.parametrize("case", MEANINGS)
def test_meaning(tmp_path, case):
    content, values, rows, columns = MEANINGS[case]
    table = read(tmp_path, content)
    np.testing.assert_array_equal(table.values, values)
    assert table.row_names == rows
    assert table.column_names == columns


def test_notes_on_commas(tmp_path):
    notes = read(tmp_path, 'a,b\n"1,234",2\n25,"1,000"\n').notes
    assert "1,234 is 1234" in notes[0]
    notes = read(tmp_path, "a;b\n1,234;2\n25;1,000\n").notes
    assert notes == ["decimal commas: 1,234 was read as 1.234"]
    table = read(tmp_path, "a;b\n1,234;2\n25;1,000\n", decimal=".")
    np.testing.assert_array_equal(table.values, [[1234, 2], [25, 1000]])


def test_empty_rows_and_columns(tmp_path):
    table = read(tmp_path, "a,b\n1,2\n,\n3,4\n")
    np.testing.assert_array_equal(table.values, [[1, 2], [3, 4]])
    assert table.notes == ["empty rows were left out: 1"]
    with pytest.raises(ValueError, match="2 cells are missing, the first in row 1, column 'x1'"):
        read(tmp_path, "1.5,,2\n3,,4\n")  # no column is left out between others


def test_two_decimal_marks_are_an_error(tmp_path):
    content = "a;b\n" + "1,5;2\n" * 100 + "1.5;2\n"
    with pytest.raises(ValueError, match=r"'a' \('1.5' in 1 of 101 rows\)"):
        read(tmp_path, content)


def test_header_can_be_told(tmp_path):
    content = "1990,2000\n1,2\n3,4\n"
    assert read(tmp_path, content).values.shape == (3, 2)
    assert read(tmp_path, content, header=True).column_names == ["1990", "2000"]
    with pytest.raises(ValueError, match="text"):
        read(tmp_path, "a,b\n1,2\n", header=False)


def test_index_can_be_told(tmp_path):
    content = "a,day,b\n1,mon,2\n3,tue,4\n"
    assert read(tmp_path, content, index="day").row_names == ["mon", "tue"]
    table = read(tmp_path, "id,b\n1,2\n3,4\n", index="none")
    assert (table.row_names, table.column_names) == (None, ["id", "b"])
    table = read(tmp_path, "id,b\n1,2\n3,4\n", columns=["id", "b"])
    assert (table.row_names, table.column_names) == (None, ["id", "b"])
    with pytest.raises(ValueError, match="--index: unknown column 'dai'; did you mean 'day'"):
        read(tmp_path, content, index="dai")


def test_groups_in_front_of_chosen_columns(tmp_path):
    table = read(tmp_path, "g,a,b\nu,1,2\nu,3,4\n", columns=["a,b"])
    assert (table.row_names, table.column_names, table.notes) == (None, ["a", "b"], [])
    table = read(tmp_path, "date,a,b\n2020,1,2\n2021,3,4\n", drop=["date"])
    assert (table.row_names, table.column_names) == (None, ["a", "b"])


def test_unknown_column_among_many(tmp_path):
    names = [f"gene_{j}" for j in range(30)]
    content = ",".join(names) + "\n" + ",".join(["1"] * 30) + "\n"
    with pytest.raises(ValueError, match=r"--drop: unknown column 'gen_3'.*There are 30 columns"):
        read(tmp_path, content, drop=["gen_3"])


def test_many_text_columns(tmp_path):
    content = ",".join("abcdefg") + "\n" + ",".join(["u"] * 7) + "\n" + ",".join(["u"] * 7) + "\n"
    with pytest.raises(ValueError, match=r"7 columns hold text.*and 2 more; fewer than two"):
        read(tmp_path, content)
    numbers = "".join(f"{line},1,2\n" for line in content.splitlines())
    with pytest.raises(ValueError, match=r"and 2 more; leave them out with --numeric-only"):
        read(tmp_path, numbers, header=True)


def test_percent_signs(tmp_path):
    table = read(
        tmp_path,
        "t,a,b\n2020-01,1%,2%\n2020-02,3.5 %,-4%\n2020-03,,5%\n",
        index="t",
        drop_missing="rows",
    )
    np.testing.assert_array_equal(table.values, [[1, 2], [3.5, -4]])
    assert table.notes[0] == "currency and percent signs were ignored: 1% is 1"


def test_currency(tmp_path):
    content = 'a,b,c\n$48.25,5 €,"$1,234"\n-$3,"€7","$2,000.5"\n$-1,-8 €,$5\n'
    table = read(tmp_path, content)
    np.testing.assert_array_equal(table.values, [[48.25, 5, 1234], [-3, 7, 2000.5], [-1, -8, 5]])
    table = read(tmp_path, "a;b\n1.234,5 €;1,5 %\n3 €;2 %\n")
    np.testing.assert_array_equal(table.values, [[1234.5, 1.5], [3, 2]])


@pytest.mark.parametrize(
    ("cells", "odd"),
    [("5%,0.05", "0.05"), ("$5,€6", "€6"), ("$5%,$6%", "$5%"), ("--$5,$6", "--$5")],
)
def test_signs_that_cannot_be_compared(tmp_path, cells, odd):
    first, second = cells.split(",")
    with pytest.raises(ValueError, match=rf"'a' \('{re.escape(odd)}'"):
        read(tmp_path, f"b,a,c\n1,{first},2\n2,{second},3\n", header=True)


@pytest.mark.parametrize("hole", ["", "NA"])
def test_true_and_false(tmp_path, hole):
    content = f"a,b,c\nTrue,1.5,TRUE\nFalse,2,false\nTrue,3,true\n{hole},4,true\n"
    table = read(tmp_path, content, drop_missing="rows")
    np.testing.assert_array_equal(table.values, [[1, 1.5, 1], [0, 2, 0], [1, 3, 1]])


def test_names_of_rows_are_unique(tmp_path):
    table = read(tmp_path, "year,quarter,x\n1959.0,1.0,3\n1959.0,2.0,4\n1960.0,1.0,6\n")
    assert (table.row_names, table.column_names) == (None, ["year", "quarter", "x"])
    np.testing.assert_array_equal(table.values[:, 0], [1959, 1959, 1960])
    assert (
        "'year' was read as data, because its values repeat (to use it as row names: --index year"
        in table.notes[0]
    )
    table = read(tmp_path, "id,x,y\n7,1,3\n7,2,4\n7,3,9\n")
    assert (table.row_names, table.column_names) == (None, ["id", "x", "y"])
    table = read(tmp_path, "year,x,y\n1959.0,1.0,3\n1960.0,2.0,4\n1961.0,1.0,6\n")
    assert table.row_names == ["1959", "1960", "1961"]
    table = read(tmp_path, "x,year\n1,1959.0\n2,1959.0\n", index="year")  # as it was asked for
    assert table.row_names == ["1959", "1959"]


PENGUINS = "species,island,bill,depth,mass,sex\nAdelie,Biscoe,39.1,18.7,3750,m\n"
PENGUINS += "Adelie,Dream,,,,\nGentoo,Biscoe,46.1,13.2,4500,f\nGentoo,Dream,50,16.3,5700,m\n"


def test_text_and_holes_are_reported_at_once_with_options_that_work(tmp_path):
    with pytest.raises(ValueError, match="3 columns hold text") as error:
        read(tmp_path, PENGUINS)
    message = str(error.value)
    assert "3 cells are missing, the first in row 2, column 'bill'" in message
    advice = "leave out text and the 1 of 4 rows with --numeric-only --drop-missing rows"
    assert message.endswith(advice)  # all columns have a hole
    table = read(tmp_path, PENGUINS, numeric_only=True, drop_missing="rows")
    assert table.column_names == ["bill", "depth", "mass"]
    assert table.row_numbers == [0, 2, 3]
    assert "columns of text left out: species, island, sex (--numeric-only)" in table.notes
    assert "1 row with missing cells was left out, 3 remain" in table.notes
    holes = "a,b,c,d\nu,1,2,\nv,3,4,\nu,5,6,1\nv,6,,2\n"  # where fewer cells go with columns
    with pytest.raises(ValueError, match="--numeric-only") as error:
        read(tmp_path, holes.replace("6,,2", "6,7,2"))
    assert "; leave out text and the 1 of 3 columns with --numeric-only --drop" in str(error.value)
    with pytest.raises(ValueError, match=r"every row or nearly every column has some.*--drop b"):
        read(tmp_path, "b,c\n,2\n3,\n,5\n")


def test_text_with_blanks_is_text(tmp_path):
    """Blanks are no numbers among which text were a mistake to correct."""
    with pytest.raises(ValueError, match="'sex'") as error:
        read(tmp_path, PENGUINS, drop=["species", "island"], drop_missing="rows")
    assert "1 column holds text: 'sex' ('m'); leave it out with --drop sex" in str(error.value)
    with pytest.raises(ValueError, match=r"'b' \('x' in 1 of 3 rows\); correct the cells"):
        read(tmp_path, "a,b,c\n1,x,2\n3,5,4\n1,,4\n", drop_missing="rows")


def test_columns_that_were_left_out_are_noted(tmp_path):
    notes = read(tmp_path, "id,a,b,c\nu,1,2,3\nv,4,5,6\n", drop=["a"]).notes
    assert "columns left out: a" in notes
    notes = read(tmp_path, "a,b,c\n1,2,\n4,5,6\n", drop_missing="columns").notes
    assert notes == ["1 column with missing cells (c) was left out, 2 remain"]


def test_new_data_of_a_model_are_not_told_to_drop_its_columns(tmp_path):
    with pytest.raises(ValueError, match="needs these columns, so correct the cells") as error:
        read(tmp_path, "a,b\n1,x\n2,y\n", only=["a", "b"])
    assert "--drop" not in str(error.value)
    with pytest.raises(ValueError, match="leave out the rows with --drop-missing rows") as error:
        read(tmp_path, "a,b\n1,2\n2,\n", only=["a", "b"])
    assert "--drop-missing columns" not in str(error.value)
    with pytest.raises(ValueError, match="2 of the 2 features of the model are missing: a, b;"):
        read(tmp_path, "u,v\nx,y\nx,z\n", only=["a", "b"])


def test_only(tmp_path):
    table = read(tmp_path, "id,a,text,b\nr1,1,x,2\nr2,3,y,4\n", only=["b", "a", "other"])
    assert table.column_names == ["a", "b"]
    table = read(tmp_path, "group,a\nx,1\nx,3\n", only=["a"])
    assert (table.row_names, table.column_names) == (None, ["a"])
    table = read(tmp_path, "id,a\n7,1\n8,3\n", only=["a", "id"])
    assert (table.row_names, table.column_names) == (None, ["id", "a"])


@pytest.mark.parametrize("extra", ["7", "NA", '"x"'])
def test_a_cell_too_many_is_never_ignored(tmp_path, extra):
    """The others may have moved, as in 1,234,5,NA."""
    lines = ["a,b,c", *["1,2,3"] * 70, f"1,234,5,{extra}"]
    with pytest.raises(ValueError, match="line 72: 4 cells where 3 were expected"):
        read(tmp_path, "\n".join(lines) + "\n")
    table = read(tmp_path, "\n".join([*lines[:-1], "1,234,5, "]) + "\n")
    np.testing.assert_array_equal(table.values[-1], [1, 234, 5])


def test_rows_with_quotation_marks_are_like_others(tmp_path):
    rows = np.random.default_rng(0).normal(size=(200, 4)).round(3)
    plain = "".join(",".join(map(str, row)) + "\n" for row in rows)
    quoted = "".join(
        ",".join(f'"{cell}"' if i % 7 == 3 else str(cell) for cell in row) + "\r\n"
        for i, row in enumerate(rows)
    )
    for text in (plain, quoted, quoted + "\n \n,,,\n"):
        np.testing.assert_array_equal(read(tmp_path, "a,b,c,d\n" + text).values, rows)
    with pytest.raises(ValueError, match="quotation mark not closed"):
        read(tmp_path, "a,b,c,d\n" + plain + '1,2,3,"4\n')
    with pytest.raises(ValueError, match="line 204: 3 cells where 4"):
        read(tmp_path, 'a,b,c,d\n"1\n",2,3,4\n' + plain + "1,2,3\n")
