"""Files as sources of chunks, read block by block."""

from __future__ import annotations

import gzip
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data._settings import SETTINGS
from ebcd.data._streamed import Source, array_source, slices, stamp_of
from ebcd.data.files._formats import check_hdf5, h5_names
from ebcd.data.files._open import FileError, guarded, needs

# Bytes of a line: as many lines as rows are worked on at once are a block, so that longer ones fit
# in, too; Arrow counts its bytes in 31 bits.
_LONGEST = (2**31 - 1) // SETTINGS.fewest_rows


def _chosen(
    available: list[str], columns: list[str] | None, drop: list[str] | None, path: Path
) -> list[str]:
    """Return the names of the columns to read, in their order in the file or as asked for."""
    for argument, asked in (("columns", columns), ("drop", drop)):
        if isinstance(asked, str):
            raise TypeError(f"{argument} must be a list of names, got the text {asked!r}")
        missing = [name for name in asked or [] if name not in available]
        if missing:
            raise FileError(f"{argument} has {missing[0]!r}, which {path} does not have")
    chosen = [name for name in columns or available if name not in (drop or [])]
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        if available.count(twice) == 1:
            raise FileError(f"columns has {twice!r} more than once")
        raise FileError(f"{path} has several columns called {twice!r}; leave it out with drop")
    return chosen


def _as_matrix(batch: Any, dtype: Any) -> Array:
    """Return a record batch of Arrow as a matrix, with NaN where values are missing."""
    matrix = np.empty((batch.num_columns, batch.num_rows), dtype=dtype)
    for j, column in enumerate(batch.columns):
        matrix[j] = column.to_numpy(zero_copy_only=False)
    return matrix.T


def _batches(file: Any, guard: Callable[[], AbstractContextManager[None]]) -> Iterator[Any]:
    """Read batch after batch; only what the library does is guarded."""
    batches = iter(file)
    while True:
        with guard():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _csv_file(
    path: Path, delimiter: str, header: bool, line: int, names: list[str], size: int
) -> Any:
    """Open a text file with lines of that length; columns `names` must hold numbers."""
    import pyarrow as pa
    from pyarrow import csv

    size = max(size, io.DEFAULT_BUFFER_SIZE, SETTINGS.fewest_rows * line)
    reading = csv.ReadOptions(
        use_threads=False, block_size=size, autogenerate_column_names=not header
    )
    parsing = csv.ParseOptions(delimiter=delimiter)
    types = dict.fromkeys(names, pa.float64())
    converting = csv.ConvertOptions(column_types=types, include_columns=names)
    with _csv_guard(path):
        return csv.open_csv(path, reading, parsing, converting)


@contextmanager
def _csv_guard(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        with guarded(path, "CSV", pa.ArrowInvalid):
            yield
    except pa.ArrowInvalid as error:
        raise FileError(
            f"{path} cannot be read as numbers: {str(error)[:200]}. Leave out columns of text with "
            "drop, choose columns with columns, or give the delimiter"
        ) from None


def csv_source(
    path: Path, columns: list[str] | None, drop: list[str] | None, delimiter: str, header: bool
) -> Source:
    """Read a text file with one sample a line; Arrow takes two thirds of the time of pandas."""
    with needs("pyarrow", "CSV files"):
        import pyarrow.csv  # noqa: F401 - say what is missing before the file is opened
    opener = gzip.open if path.suffix == ".gz" else open
    with guarded(path, "CSV"), opener(path, "rb") as file:
        line = max(len(file.readline(_LONGEST + 1)) for _ in range(2))
        if line > _LONGEST:
            raise FileError(f"it has lines of more than {_LONGEST:,} bytes")
    if not line:
        raise FileError(f"{path} is empty")
    opened = partial(_csv_file, path, delimiter, header, line)
    with opened([], 0) as reader:
        chosen = _chosen(reader.schema.names, columns, drop, path)
    if "" in chosen:
        warnings.warn(
            f"{path} has a column without a name, which is used like the others; if it has "
            'labels of the rows, as pandas writes them, leave it out with drop=[""]',
            UserWarning,
            stacklevel=3,
        )
    names = chosen if header else None
    return Source(partial(_read_csv, path, opened, chosen), len(chosen), names=names)


def _read_csv(path: Path, opened: Any, names: list[str], rows: int, size: int) -> Iterator[Array]:
    with opened(names, size) as file:
        for batch in _batches(file, partial(_csv_guard, path)):
            block = _as_matrix(batch, np.float64)
            yield from (block[i : i + rows] for i in range(0, len(block), rows))


def parquet_source(paths: list[Path], columns: list[str] | None, drop: list[str] | None) -> Source:
    """Read Parquet files with the same columns."""
    if not paths:
        raise ValueError("the list of Parquet files is empty")
    names: list[str] = []
    n_rows, types = 0, set[str]()
    for path in paths:
        with _parquet_file(path) as file, guarded(path, "Parquet"):
            schema = file.schema_arrow
            n_rows += file.metadata.num_rows
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise FileError(f"{path} has no column {missing[0]!r}, which {paths[0]} has")
        names = _chosen(schema.names, columns or names or None, drop, path)
        for name in names:
            kind = str(schema.field(name).type)
            if not kind.startswith(("float", "double", "halffloat", "int", "uint", "bool")):
                raise FileError(
                    f"column {name!r} of {path} holds {kind}, not numbers; leave it out with drop, "
                    "or choose columns with columns"
                )
            types.add(kind)
    dtype = np.float32 if types == {"float"} else np.float64
    read = partial(_read_parquet, paths, names, dtype)
    return Source(read, len(names), n_rows, names, stamp=[*stamp_of(*paths), *names])


def _read_parquet(
    paths: list[Path], names: list[str], dtype: Any, rows: int, size: int
) -> Iterator[Array]:
    """Decode the files from their beginning, a part of a row group at a time."""
    for path in paths:
        with _parquet_file(path, pre_buffer=False) as file:
            batches = file.iter_batches(rows, columns=names, use_threads=False)
            for batch in _batches(batches, partial(guarded, path, "Parquet")):
                yield _as_matrix(batch.select(names), dtype)


def _parquet_file(path: Path, **options: Any) -> Any:
    with needs("pyarrow", "Parquet files"):
        import pyarrow.parquet as pq
    if path.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder; give the files in it: "
            'Chunks.from_parquet(sorted(Path(folder).glob("*.parquet")))'
        )
    with guarded(path, "Parquet"):
        return pq.ParquetFile(path, **options)


def _hdf5_file(path: Path) -> Any:
    with needs("h5py", "HDF5 files"):
        import h5py
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with guarded(path, "HDF5"):
        return h5py.File(path, "r")


def hdf5_source(path: Path, dataset: str, annotated: bool = False) -> Source:
    """Read a matrix in an HDF5 file: dense, or sparse by rows as AnnData writes it.

    In an AnnData file variables have names.
    """
    with _hdf5_file(path) as file:
        with guarded(path, "HDF5"):
            check_hdf5(path)
            if annotated and dataset not in file:
                raise FileError(f"{path} has no {dataset}; is it an AnnData file?")
            names = h5_names(file["var"]) if annotated and "var" in file else None
        source = array_source(_StoredRows(path, file, dataset))
    read = partial(_read_hdf5, path, dataset)
    return replace(source, read=read, names=names, stamp=[*stamp_of(path), dataset])


def _read_hdf5(path: Path, dataset: str, rows: int, size: int) -> Iterator[Any]:
    with _hdf5_file(path) as file:
        yield from slices(_StoredRows(path, file, dataset), rows, size)


class _StoredRows:
    """A matrix in an HDF5 file, dense or sparse by rows, of which rows can be sliced."""

    def __init__(self, path: Path, file: Any, dataset: str) -> None:
        self._path, self.nnz, self.chunks = path, None, None
        self.shape: tuple[int, ...]
        with guarded(path, "HDF5"):
            self._stored = stored = file.get(dataset)
            self._is_sparse = hasattr(stored, "keys") and "indptr" in stored
            if not self._is_sparse:
                self.shape = getattr(stored, "shape", None) or ()  # an empty dataset has none
                self.chunks = getattr(stored, "chunks", None)
            elif stored.attrs.get("encoding-type") == "csr_matrix":
                self.shape = tuple(map(int, stored.attrs["shape"]))
                self.nnz = stored["data"].shape[0]
            else:
                raise FileError(
                    f"{dataset} of {path} is stored by columns, so that its rows cannot be read in "
                    "order; write it in CSR format"
                )
        if len(self.shape) != 2:
            raise FileError(f"{path} has no matrix called {dataset!r}")

    def __getitem__(self, rows: slice) -> Any:
        with guarded(self._path, "HDF5"):
            if not self._is_sparse:
                return self._stored[rows]
            ends = self._stored["indptr"][rows.start : rows.stop + 1]
            part = slice(ends[0], ends[-1])
            return sparse.csr_array(
                (self._stored["data"][part], self._stored["indices"][part], ends - ends[0]),
                shape=(len(ends) - 1, self.shape[1]),
            )


def open_zarr(path: Any, array: str | None) -> Any:
    """Open a Zarr array; `path` may be anything that Zarr opens."""
    with needs("zarr", "Zarr arrays"):
        import zarr
    with guarded(path, "Zarr"):
        stored: Any = zarr.open(path, mode="r")
        if array is not None:
            if hasattr(stored, "dtype") or array not in stored:
                raise FileError(f"{path} has no array called {array!r}")
            stored = stored[array]
    if not hasattr(stored, "dtype"):
        raise FileError(f"{path} is a group; say which array with array=")
    return stored
