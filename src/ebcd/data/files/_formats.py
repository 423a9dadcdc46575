"""Read files of all formats but text; sparse matrices stay sparse."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ebcd._parameters import unknown_name
from ebcd.data.files._columns import ReadOptions, cell_text
from ebcd.data.files._open import (
    DataFile,
    FileError,
    check_expanded,
    guarded,
    in_child,
    needs,
    unpacked,
)
from ebcd.data.files._text import SAMPLE_ROWS, Cells, split_header

_READ_MATRIX_MARKET = """
import io, sys
import numpy, scipy.io, scipy.sparse
matrix = scipy.io.mmread(io.BytesIO(sys.stdin.buffer.read()))
if scipy.sparse.issparse(matrix):
    scipy.sparse.save_npz(sys.stdout.buffer, matrix, compressed=False)
else:
    numpy.save(sys.stdout.buffer, matrix)
"""
_PATIENCE = 30  # seconds for a look at the structure of a file, which takes one
_LOOK_AT_HDF5 = """
import contextlib, io, sys, h5py
path, *texts = sys.argv[1:]
with h5py.File(path or io.BytesIO(sys.stdin.buffer.read()), "r") as file:
    file.visititems(lambda name, node: (dict(node.attrs), getattr(node, "shape", None)))
    for name in texts:
        node = file["obs"][name]
        [part[()] for part in (node.values() if hasattr(node, "values") else [node])]
    for axis in ("obs", "var"):  # text says itself how long it is
        with contextlib.suppress(KeyError, AttributeError, TypeError, ValueError):
            file[axis][file[axis].attrs.get("_index", "_index")][()]
"""
_READ_WORKBOOK = """
import io, json, sys
from python_calamine import CalamineWorkbook
book = CalamineWorkbook.from_filelike(io.BytesIO(sys.stdin.buffer.read()))
names = book.sheet_names
name = (sys.argv[1:] or names)[0]
rows = book.get_sheet_by_name(name).to_python(skip_empty_area=False) if name in names else []
json.dump([names, rows], sys.stdout, default=str)
"""


def read_excel(file: DataFile, options: ReadOptions) -> Cells:
    """Read a sheet of a workbook (.xlsx, .xls, .xlsb, .ods), the first one by default."""
    with needs("pandas and python-calamine", "Excel files", "cli"):
        import pandas as pd
        import python_calamine  # noqa: F401 - used by the child
    sheet = options.sheet
    asked = [] if sheet is None else [sheet]
    content = file.stream.read()
    packed = 10 * len(content)  # as much as XML shrinks
    with file.guarded():
        sheets, rows = json.loads(in_child(_READ_WORKBOOK, content, *asked, size=packed))
    if sheet is not None and sheet not in sheets:
        raise FileError(str(unknown_name(f"sheet in {file.name}", sheet, sheets)))
    notes = []
    if sheet is None and len(sheets) > 1:
        others = ", ".join(sheets[1:6])
        notes.append(f"the first sheet, {sheets[0]}, was read (--sheet for others: {others})")
    rows = [row for row in rows[options.skip_lines :] if any(cell != "" for cell in row)]
    if not rows:
        raise FileError(f"{file.name}, sheet {sheet or sheets[0]!r} has no rows")
    used = [j for j, column in enumerate(zip(*rows, strict=True)) if set(column) != {""}]
    rows = [[None if row[j] == "" else row[j] for j in used] for row in rows]
    head = [[cell_text(cell) for cell in row] for row in rows[:SAMPLE_ROWS]]
    header, head = split_header(file.name, head, options.header, notes)
    label, guessed = options.find_label(header, [row[0] for row in head], len(used))
    frame = pd.DataFrame(rows if header is None else rows[1:], dtype=object)
    return Cells(frame, header, label, guessed, options.decimal or ".", notes=notes)


def read_parquet(file: DataFile, options: ReadOptions) -> Cells:
    """Read a Parquet file; the index of a data frame names the rows."""
    with needs("pyarrow and pandas", "Parquet files"):
        import pandas as pd
        import pyarrow.parquet as pq
    with file.guarded():
        stored = pq.ParquetFile(file.whole())
        check_expanded(8 * stored.metadata.num_rows * stored.metadata.num_columns, file.size)
        frame = stored.read().to_pandas()
    header = [str(name) for name in frame.columns]
    has_index = not isinstance(frame.index, pd.RangeIndex)
    if has_index:
        header.insert(0, str(frame.index.names[0] or ""))
        frame.insert(0, "", frame.index.get_level_values(0), allow_duplicates=True)
    frame.columns = range(frame.shape[1])
    if has_index and options.index is None:
        return Cells(frame, header, 0)
    first = [cell_text(cell) for cell in frame.iloc[:SAMPLE_ROWS, 0]]
    return Cells(frame, header, *options.find_label(header, first, len(header)))


def read_npy(file: DataFile, options: ReadOptions) -> Cells:
    """Read one NumPy array; one that is not compressed stays on disk."""
    with file.guarded():
        return Cells(open_npy(file.path) if file.plain else np.load(file.whole()))


def open_npy(path: Path) -> Any:
    """Map the array of an NPY file into memory."""
    with guarded(path, "NPY"):
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(file: DataFile, options: ReadOptions) -> Cells:
    """Read a sparse matrix of SciPy, or one of several arrays of NumPy."""
    content = io.BytesIO(file.stream.read())
    with file.guarded():
        archive = np.load(content)
        if {"format", "shape", "data"} <= set(archive.files) and options.key is None:
            content.seek(0)
            return Cells(sparse.load_npz(content))
    chosen = _choose_key(file, archive, options.key)
    with guarded(f"{chosen} in {file.name}", "NPZ"):
        return Cells(np.asarray(archive[chosen]))


def _choose_key(file: DataFile, archive: Any, key: str | None) -> str:
    name = file.name
    if key is not None:
        if key not in archive.files:
            raise FileError(str(unknown_name(f"array in {name}", key, archive.files)))
        return key
    with file.guarded():
        tables: list[str] = [k for k in archive.files if _is_matrix(archive, k)]
    usual = [k for k in ("X", "x", "data", "arr_0") if k in tables]
    if usual or len(tables) == 1:
        return (usual or tables)[0]
    raise FileError(
        f"{name} holds {len(tables)} matrices ({', '.join(tables) or 'none'}); "
        "choose an array with --key"
    )


def _is_matrix(archive: Any, key: str) -> bool:
    try:
        array = np.asarray(archive[key])
    except ValueError:  # of objects, such as names
        return False
    return array.ndim == 2 and array.dtype.kind in "biuf"


def read_matrix_market(file: DataFile, options: ReadOptions) -> Cells:
    """Read a matrix, with names from the files beside it that 10x Genomics writes."""
    with file.guarded():
        read = io.BytesIO(in_child(_READ_MATRIX_MARKET, file.stream.read()))
        values = np.load(read)
        if isinstance(values, np.lib.npyio.NpzFile):
            values = sparse.load_npz(read)
    folder = file.path.parent
    features = _names_beside(folder, ("features.tsv", "genes.tsv"))
    cells = _names_beside(folder, ("barcodes.tsv",))
    if values.shape != (len(features), len(cells)):
        return Cells(values)
    note = (
        "names were read from the files beside it; rows are features and columns are cells, so you "
        "probably want --transpose"
    )
    return Cells(values, cells, rows=features, notes=[note])


def _names_beside(folder: Path, names: Sequence[str]) -> list[str]:
    for path in (folder / f"{name}{end}" for name in names for end in ("", ".gz")):
        if path.is_file():
            with (
                contextlib.suppress(OSError, EOFError, UnicodeDecodeError, zlib.error),
                (gzip.open if path.suffix == ".gz" else open)(path, "rb") as lines,
            ):
                unpacked(lines, path.stat().st_size)
                rows = [line.decode().rstrip("\r\n").split("\t") for line in lines]
                return [row[1] if len(row) > 1 else row[0] for row in rows]
    return []


def read_h5ad(file: DataFile, options: ReadOptions) -> Cells:
    """Read the matrix of annotated data, with the names of observations and variables."""
    with needs("h5py", "h5ad files"):
        import h5py
    whole, layer = file.whole(), options.layer
    with contextlib.ExitStack() as stack:
        with file.guarded():
            check_hdf5(whole)
            stored = stack.enter_context(h5py.File(whole, "r"))
            if "X" not in stored:
                raise FileError(f"{file.name} is an HDF5 file, but not h5ad: it has no matrix X")
            layers = stored.get("layers", {})
            if layer is not None and layer not in layers:
                raise FileError(str(unknown_name("layer", layer, list(layers))))
            values = _h5_values(stored["X"] if layer is None else layers[layer], file.size)
            obs, var = stored["obs"], stored["var"]
            rows, names = h5_names(obs), h5_names(var)
            columns = [] if hasattr(obs, "dtype") else list(obs)  # one array before anndata 0.7
        chosen = [columns[j] for j in options.beside([*columns, *names]) if j < len(columns)]
        with file.guarded():
            if chosen:
                check_hdf5(whole, *chosen)
            beside = {name: _h5_column(name, obs, file.size) for name in chosen}
    lengths = {len(column) for column in (rows, *beside.values())}
    if values.ndim == 2 and (lengths, len(names)) != ({values.shape[0]}, values.shape[1]):
        raise FileError(f"{file.name}: obs and var are not as long as there are rows and columns")
    return Cells(values, names, rows=rows, beside=beside)


def check_hdf5(file: Path | io.BytesIO, *texts: str) -> None:
    """Look at the structure of a file in a child: the library never ends on some damaged ones.

    There is also a look at these columns of ``obs``.
    """
    if isinstance(file, Path):
        size = file.stat().st_size
        in_child(_LOOK_AT_HDF5, b"", str(file), *texts, size=size, seconds=_PATIENCE)
    else:
        in_child(_LOOK_AT_HDF5, file.getvalue(), "", *texts, seconds=_PATIENCE)


def _h5_column(name: str, obs: Any, size: int) -> list[Any]:
    """Read a column of annotations: numbers or texts, None where they are missing."""
    node, categories = obs[name], obs.get("__categories", {})  # stored apart before anndata 0.8
    parts = {"values": node} if hasattr(node, "nbytes") else dict(node)
    if name in categories:
        parts = {"codes": node, "categories": categories[name]}
    check_expanded(sum(part.nbytes for part in parts.values()), size)
    read = {key: part[()] for key, part in parts.items()}
    if "codes" in read:  # of categories
        known, codes = read["categories"], read["codes"]
        return [_h5_cell(known[code]) if code >= 0 else None for code in codes]
    if "values" not in read:
        raise FileError(f"--color-by: the column {name!r} of obs holds neither numbers nor text")
    missing = read.get("mask", np.zeros(len(read["values"]), bool))
    cells = zip(read["values"], missing, strict=True)
    return [None if masked else _h5_cell(cell) for cell, masked in cells]


def _h5_cell(cell: Any) -> Any:
    return cell.decode() if isinstance(cell, bytes) else cell.item()


def _h5_values(node: Any, size: int) -> Any:
    """Read a matrix of a file of that size; what is missing in it would be filled up."""
    stored = [node] if hasattr(node, "nbytes") else node.values()
    check_expanded(sum(getattr(part, "nbytes", 0) for part in stored), size)
    if hasattr(node, "shape"):
        return np.asarray(node[()])
    kind = node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr"))
    shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape"))
    parts = tuple(node[part][()] for part in ("data", "indices", "indptr"))
    make = sparse.csc_array if "csc" in str(kind) else sparse.csr_array
    return make(parts, shape=tuple(shape))


def h5_names(node: Any) -> list[str]:
    """Return the names of the observations or variables of an h5ad file."""
    if hasattr(node, "dtype"):  # before version 0.7 of anndata
        names = node[()][node.dtype.names[0]]
    else:
        names = node[node.attrs.get("_index", "_index")][()]
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]
