"""Read matrices from NPY, NPZ, Matrix Market and h5ad files; sparse ones stay sparse."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ebcd._lookup import unknown_name
from ebcd.data._moments import checked_sparse, is_sparse
from ebcd.data.files._columns import ReadOptions
from ebcd.data.files._open import FileError, Source, guarded, in_child, needs

_USUAL_KEYS = ("X", "x", "data", "arr_0")
_READ_MATRIX_MARKET = """
import io, sys
import numpy, scipy.io, scipy.sparse
matrix = scipy.io.mmread(io.BytesIO(sys.stdin.buffer.read()))
if scipy.sparse.issparse(matrix):
    scipy.sparse.save_npz(sys.stdout.buffer, matrix, compressed=False)
else:
    numpy.save(sys.stdout.buffer, matrix)
"""


class Matrix(NamedTuple):
    """A matrix as it is in a file, with the names that the file has."""

    values: Any
    rows: list[str] | None = None
    columns: list[str] | None = None
    notes: tuple[str, ...] = ()


def read_npy(source: Source, options: ReadOptions) -> Matrix:
    """Read one NumPy array; one that is not compressed stays on disk."""
    if source.plain:
        return Matrix(open_npy(source.path))
    with no_objects(source.name):
        return Matrix(np.load(io.BytesIO(source.stream.read())))


def open_npy(path: Path) -> Any:
    """Map the array of an NPY file into memory."""
    with guarded(path, "NPY"), no_objects(str(path)):
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(source: Source, options: ReadOptions) -> Matrix:
    """Read a sparse matrix of SciPy, or one of several arrays of NumPy."""
    content = io.BytesIO(source.stream.read())
    with np.load(content) as archive:
        if {"format", "shape", "data"} <= set(archive.files) and options.key is None:
            content.seek(0)
            return Matrix(sparse.load_npz(content))
        chosen = _choose_key(source.name, archive, options.key)
        with no_objects(f"{chosen} in {source.name}"):
            return Matrix(archive[chosen])


@contextlib.contextmanager
def no_objects(name: str) -> Iterator[None]:
    """Explain why NumPy refuses an array of Python objects: reading it could run any code."""
    try:
        yield
    except ValueError as error:
        if "Object arrays" in str(error) or "Python objects" in str(error):
            message = f"{name} holds Python objects; write it again as numbers: X.astype(float)"
            raise FileError(message) from None
        raise


def _choose_key(name: str, archive: Any, key: str | None) -> str:
    if key is not None:
        if key not in archive.files:
            raise FileError(str(unknown_name(f"array in {name}", key, archive.files)))
        return key
    tables: list[str] = [k for k in archive.files if _is_matrix(archive, k)]
    for usual in _USUAL_KEYS:
        if usual in tables:
            return usual
    if len(tables) == 1:
        return tables[0]
    raise FileError(
        f"{name} holds {len(tables)} matrices ({', '.join(tables) or 'none'}); "
        "choose an array with --key"
    )


def _is_matrix(archive: Any, key: str) -> bool:
    try:
        array = archive[key]
    except ValueError:  # of objects, such as names
        return False
    return array.ndim == 2 and array.dtype.kind in "biuf"


def read_matrix_market(source: Source, options: ReadOptions) -> Matrix:
    """Read a matrix, with names from the files beside it that 10x Genomics writes."""
    read = io.BytesIO(in_child(_READ_MATRIX_MARKET, source.stream.read()))
    values = np.load(read)
    if isinstance(values, np.lib.npyio.NpzFile):
        values = sparse.load_npz(read)
    folder = source.path.parent
    features = _names_beside(folder, ("features.tsv", "genes.tsv"))
    cells = _names_beside(folder, ("barcodes.tsv",))
    if values.shape != (len(features), len(cells)):
        return Matrix(values)
    note = (
        "names were read from the files beside it; rows are features and columns are cells, so you "
        "probably want --transpose"
    )
    return Matrix(values, features, cells, (note,))


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


def read_h5ad(source: Source, options: ReadOptions) -> Matrix:
    """Read the matrix of annotated data, with the names of observations and variables."""
    with needs("h5py", "h5ad files"):
        import h5py
    with h5py.File(source.whole(), "r") as file:
        if "X" not in file:
            raise FileError(f"{source.name} is an HDF5 file, but not h5ad: it has no matrix X")
        layers, layer = file.get("layers", {}), options.layer
        if layer is not None and layer not in layers:
            raise FileError(str(unknown_name("layer", layer, list(layers))))
        values = _h5_values(file["X"] if layer is None else layers[layer])
        return Matrix(values, h5_names(file["obs"]), h5_names(file["var"]))


def _h5_values(node: Any) -> Any:
    if hasattr(node, "shape"):
        return node[()]
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


def checked_values(name: str, values: Any) -> Any:
    """Return a matrix of real numbers, with rows first if it is sparse."""
    if values.ndim != 2:
        raise FileError(
            f"{name} holds an array of shape {values.shape}; a matrix with samples as rows is "
            "needed"
        )
    if values.dtype.kind not in "biuf":
        raise FileError(f"{name} holds values of type {values.dtype}; real numbers are needed")
    if is_sparse(values):
        values = sparse.csr_array(checked_sparse(values))
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)
