"""Read matrices from NPY, NPZ, Parquet, Matrix Market and h5ad files; sparse ones stay sparse."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import mmread

from ebcd._lookup import unknown_name
from ebcd.data import is_sparse
from ebcd.io._columns import Raw, Selection, looks_like_labels, unique_names
from ebcd.io._source import Source

_USUAL_KEYS = ("X", "x", "data", "arr_0")


def read_npy(source: Source, selection: Selection) -> Raw:
    """Read one NumPy array; one that is large stays on disk."""
    try:
        if source.plain:
            values = np.load(source.path, mmap_mode="r", allow_pickle=False)
        else:
            values = np.load(io.BytesIO(source.stream.read()), allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if _is_of_objects(error):
            raise _objects(source.name) from None
        raise _damaged(source, error) from None
    return _chosen(source.name, values, None, None, selection)


def read_npz(source: Source, selection: Selection, key: str | None) -> Raw:
    """Read a sparse matrix of SciPy, or one of several arrays of NumPy."""
    content = io.BytesIO(source.stream.read())
    try:
        with np.load(content, allow_pickle=False) as archive:
            if {"format", "shape", "data"} <= set(archive.files) and key is None:
                content.seek(0)
                values = sparse.load_npz(content)
            else:
                values = archive[_choose_key(source.name, archive, key)]
    except (EOFError, OSError) as error:
        raise _damaged(source, error) from None
    except ValueError as error:
        if _is_of_objects(error):
            raise _objects(f"{key} in {source.name}") from None
        raise
    return _chosen(source.name, values, None, None, selection)


def _is_of_objects(error: Exception) -> bool:
    """Tell whether NumPy refused an array that only pickle can read, which may run anything."""
    return "allow_pickle" in str(error) or "Python objects" in str(error)


def _objects(what: str) -> ValueError:
    return ValueError(f"{what} holds Python objects; write it again as numbers: X.astype(float)")


def _is_matrix(archive: Any, key: str) -> bool:
    try:
        array = archive[key]
    except ValueError:  # of objects, such as names
        return False
    return array.ndim == 2 and array.dtype.kind in "biuf"


def _choose_key(name: str, archive: Any, key: str | None) -> str:
    if key is not None:
        if key not in archive.files:
            raise unknown_name(f"array in {name}", key, archive.files)
        return key
    tables: list[str] = [k for k in archive.files if _is_matrix(archive, k)]
    for usual in _USUAL_KEYS:
        if usual in tables:
            return usual
    if len(tables) == 1:
        return tables[0]
    raise ValueError(
        f"{name} holds {len(tables)} matrices ({', '.join(tables) or 'none'}); "
        "choose an array with --key"
    )


def read_matrix_market(source: Source, selection: Selection) -> Raw:
    """Read a matrix, with names from the files beside it that 10x Genomics writes."""
    try:
        values = mmread(source.stream)
    except (ValueError, OverflowError, StopIteration) as error:
        raise _damaged(source, error) from None
    folder = source.path.parent
    features = _names_beside(folder, ("features.tsv", "genes.tsv"))
    cells = _names_beside(folder, ("barcodes.tsv",))
    notes, rows, columns = [], None, None
    if values.shape == (len(features), len(cells)):
        rows, columns = features, cells
        notes.append(
            "names were read from the files beside it; rows are features and columns are cells, "
            "so you probably want --transpose"
        )
    raw = _chosen(source.name, values, rows, columns, selection)
    raw.notes += notes
    return raw


def _names_beside(folder: Path, names: Sequence[str]) -> list[str]:
    for path in (folder / f"{name}{end}" for name in names for end in ("", ".gz")):
        if path.is_file():
            opener = gzip.open if path.suffix == ".gz" else open
            with (
                contextlib.suppress(OSError, EOFError, UnicodeDecodeError),
                opener(path, "rt", encoding="utf-8") as lines,
            ):
                rows = [str(line).rstrip("\r\n").split("\t") for line in lines]
                return [row[1] if len(row) > 1 else row[0] for row in rows]
    return []


def read_h5ad(source: Source, selection: Selection, layer: str | None) -> Raw:
    """Read the matrix of annotated data, with the names of observations and variables."""
    try:
        import h5py
    except ImportError:
        raise ImportError('reading h5ad files needs h5py: pip install "ebcd[io]"') from None
    place = source.path if source.plain else io.BytesIO(source.stream.read())
    try:
        with h5py.File(place, "r") as file:
            if "X" not in file:
                raise ValueError(f"{source.name} is an HDF5 file, but not h5ad: it has no matrix X")
            values = _h5_matrix(_h5_layer(file, layer))
            rows, columns = _h5_names(file["obs"]), _h5_names(file["var"])
    except (OSError, KeyError) as error:
        raise _damaged(source, error) from None
    return _chosen(source.name, values, rows, columns, selection)


def _h5_layer(file: Any, layer: str | None) -> Any:
    if layer is None:
        return file["X"]
    layers = file.get("layers", {})
    if layer not in layers:
        raise unknown_name("layer", layer, list(layers))
    return layers[layer]


def _h5_matrix(node: Any) -> Any:
    if hasattr(node, "shape"):
        return node[()]
    kind = node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr"))
    shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape"))
    parts = tuple(node[part][()] for part in ("data", "indices", "indptr"))
    make = sparse.csc_array if "csc" in str(kind) else sparse.csr_array
    return make(parts, shape=tuple(shape))


def _h5_names(node: Any) -> list[str]:
    if hasattr(node, "dtype"):  # before version 0.7 of anndata
        names = node[()][node.dtype.names[0]]
    else:
        names = node[node.attrs.get("_index", "_index")][()]
    return [name.decode() if isinstance(name, bytes) else str(name) for name in names]


def read_parquet(source: Source, selection: Selection) -> Raw:
    """Read the columns of a Parquet file that are asked for."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError('reading Parquet files needs pyarrow: pip install "ebcd[io]"') from None
    try:
        file = pq.ParquetFile(source.path if source.plain else io.BytesIO(source.stream.read()))
        schema, index = file.schema_arrow, _pandas_index(file.schema_arrow)
        names, again = unique_names(schema.names)
        label, guessed = _parquet_label(names, file, selection, index)
        keep = selection.keep(names, label)
        table = file.read()
    except (pa.ArrowInvalid, OSError) as error:
        raise _damaged(source, error) from None
    values = np.empty((table.num_rows, len(keep)))
    raw = Raw(values, [names[j] for j in keep])
    for i, j in enumerate(keep):
        column = table.column(j)
        try:
            values[:, i] = column.cast(pa.float64(), safe=False).to_numpy()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raw.text[names[j]] = (len(column), str(column[0].as_py()) if len(column) else "")
        else:
            if pa.types.is_temporal(column.type) or pa.types.is_string(column.type):
                raw.text[names[j]] = (len(column), str(column[0].as_py()))
    if label is not None:
        raw.label_name = "" if names[label].startswith("__index_level") else names[label]
        selection.add_labels(raw, names[label], _labels(table.column(label)), guessed)
    if again:
        raw.notes.append(f"columns with the same name were numbered: {', '.join(again[:5])}")
    return raw


def _pandas_index(schema: Any) -> str | None:
    levels = (schema.pandas_metadata or {}).get("index_columns", [])
    named = [level for level in levels if isinstance(level, str)]
    return named[0] if named else None


def _parquet_label(
    names: list[str], file: Any, selection: Selection, index: str | None
) -> tuple[int | None, bool]:
    label = selection.label(names)
    if label is not None or selection.index == "none":
        return label, False
    if index in names:
        return names.index(index), False
    if not selection.may_guess(names):
        return None, False
    first = _labels(next(file.iter_batches(60, columns=[names[0]])).column(0)) if names else []
    return (0, True) if looks_like_labels(names[0], first) else (None, False)


def _labels(column: Any) -> list[str]:
    """Cells as text; a time of day that is midnight everywhere is left out."""
    cells = ["" if cell is None else str(cell) for cell in column.to_pylist()]
    midnight = " 00:00:00"
    if cells and all(cell.endswith(midnight) for cell in cells):
        return [cell.removesuffix(midnight) for cell in cells]
    return cells


def _chosen(
    name: str,
    values: Any,
    rows: list[str] | None,
    columns: list[str] | None,
    selection: Selection,
) -> Raw:
    """Columns of a matrix that are asked for; the names of its rows are not among them."""
    if values.ndim != 2:
        raise ValueError(
            f"{name} holds an array of shape {values.shape}; a matrix with samples as rows is "
            "needed"
        )
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds values of type {values.dtype}; real numbers are needed")
    if is_sparse(values):
        values = sparse.csr_array(values)
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float64)
    names, again = unique_names(columns or [f"x{j}" for j in range(values.shape[1])])
    label = selection.label(names)
    keep = selection.keep(names, label)
    if label is not None:
        column = values[:, [label]]
        rows = [f"{v:.15g}" for v in (column.toarray() if is_sparse(column) else column).ravel()]
    if len(keep) < len(names):
        values = values[:, keep]
    notes = []
    if again:
        notes.append(f"names of {len(again)} columns occur more than once and were numbered")
    return Raw(values, [names[j] for j in keep], rows, notes=notes)


def _damaged(source: Source, error: BaseException) -> ValueError:
    text = str(error).split("\n")[0].rstrip(".")
    return ValueError(
        f"{source.name} is damaged, or no {source.kind} file ({text}); download or write it again"
    )
