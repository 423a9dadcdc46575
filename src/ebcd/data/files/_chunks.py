"""Files as sources of chunks, read block by block."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data._sources import AbstractSource, rows_at_once, stamp_of
from ebcd.data.files._matrices import h5_names
from ebcd.data.files._open import FileError, guarded, needs

_SMALLEST_BLOCK = 65_536  # bytes of a text file


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


class CsvSource(AbstractSource):
    """A text file with one sample a line."""

    def __init__(
        self,
        path: Path,
        columns: list[str] | None,
        drop: list[str] | None,
        delimiter: str,
        header: bool,
        rows: int | None,
    ) -> None:
        self._path, self._delimiter, self._header, self._rows = path, delimiter, header, rows
        with needs("pyarrow", "CSV files"):
            import pyarrow.csv  # noqa: F401 - say what is missing before the file is opened
        opener = gzip.open if path.suffix == ".gz" else open
        with guarded(path, "CSV"), opener(path, "rb") as file:
            self._line = len(file.readline()) + len(file.readline())
        if not self._line:
            raise FileError(f"{path} is empty")
        with self._open(_SMALLEST_BLOCK, None) as reader:
            available = reader.schema.names
        self._columns = _chosen(available, columns, drop, path)
        if "" in self._columns:
            warnings.warn(
                f"{path} has a column without a name, which is used like the others; if it has "
                'labels of the rows, as pandas writes them, leave it out with drop=[""]',
                UserWarning,
                stacklevel=3,
            )
        self.names = self._columns if header else None
        self.n_features = len(self._columns)

    @contextmanager
    def _open(self, size: int, columns: list[str] | None) -> Iterator[Any]:
        import pyarrow as pa
        from pyarrow import csv

        types = {name: pa.float64() for name in columns or []}
        read = csv.ReadOptions(
            use_threads=False,
            block_size=max(size, _SMALLEST_BLOCK, 4 * self._line),
            autogenerate_column_names=not self._header,
        )
        parse = csv.ParseOptions(delimiter=self._delimiter)
        convert = csv.ConvertOptions(column_types=types, include_columns=columns or [])
        try:
            with guarded(self._path, "CSV"), csv.open_csv(self._path, read, parse, convert) as file:
                yield file
        except FileError as error:
            if not isinstance(error.__cause__, pa.ArrowInvalid):
                raise
            raise FileError(
                f"{self._path} cannot be read as numbers: {str(error.__cause__)[:200]}. Leave out "
                "columns of text with drop, choose columns with columns, or give the delimiter"
            ) from None

    def blocks(self, size: int) -> Iterator[Array]:
        """Parse the file from its beginning."""
        with self._open(size, self._columns) as reader:
            for batch in reader:
                rows = _as_matrix(batch, np.float64)
                step = self._rows or max(len(rows), 1)
                yield from (rows[i : i + step] for i in range(0, len(rows), step))


class ParquetSource(AbstractSource):
    """Parquet files with the same columns."""

    def __init__(
        self,
        paths: list[Path],
        columns: list[str] | None,
        drop: list[str] | None,
        rows: int | None,
    ) -> None:
        if not paths:
            raise ValueError("the list of Parquet files is empty")
        self._paths, self._rows, self.n_rows = paths, rows, 0
        self.names, types = [], set()
        for path in paths:
            with _parquet_file(path) as file:
                schema = file.schema_arrow
                self.n_rows += file.metadata.num_rows
            missing = [name for name in self.names if name not in schema.names]
            if missing:
                raise FileError(f"{path} has no column {missing[0]!r}, which {paths[0]} has")
            self.names = _chosen(schema.names, columns or self.names or None, drop, path)
            types |= {_number_type(schema.field(name), path) for name in self.names}
        self._dtype = np.float32 if types == {"float"} else np.float64
        self.n_features = len(self.names)
        self.stamp = [*stamp_of(*paths), *self.names]

    def blocks(self, size: int) -> Iterator[Array]:
        """Decode the files from their beginning, a part of a row group at a time."""
        rows = rows_at_once(None, size // (8 * max(self.n_features, 1)), self._rows)
        for path in self._paths:
            with _parquet_file(path, pre_buffer=False) as file:
                for batch in file.iter_batches(rows, columns=self.names, use_threads=False):
                    yield _as_matrix(batch.select(self.names), self._dtype)


@contextmanager
def _parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    with needs("pyarrow", "Parquet files"):
        import pyarrow.parquet as pq
    if path.is_dir():
        raise IsADirectoryError(
            f"{path} is a folder; give the files in it: "
            'Chunks.from_parquet(sorted(Path(folder).glob("*.parquet")))'
        )
    with guarded(path, "Parquet"), pq.ParquetFile(path, **options) as file:
        yield file


def _number_type(field: Any, path: Path) -> str:
    kind = str(field.type)
    if not kind.startswith(("float", "double", "halffloat", "int", "uint", "bool")):
        raise FileError(
            f"column {field.name!r} of {path} holds {kind}, not numbers; leave it out with drop, "
            "or choose columns with columns"
        )
    return kind


@contextmanager
def _hdf5_file(path: Path) -> Iterator[Any]:
    with needs("h5py", "HDF5 files"):
        import h5py
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    with guarded(path, "HDF5"), h5py.File(path, "r") as file:
        yield file


class Hdf5Source(AbstractSource):
    """A matrix in an HDF5 file: a dense dataset, or a sparse one by rows as AnnData writes it."""

    def __init__(self, path: Path, dataset: str, rows: int | None) -> None:
        self._path, self._dataset, self._rows = path, dataset, rows
        with _hdf5_file(path) as file:
            stored = file.get(dataset)
            self._sparse = hasattr(stored, "keys") and "indptr" in stored
            if not self._sparse and len(getattr(stored, "shape", ())) != 2:
                raise FileError(f"{path} has no matrix called {dataset!r}")
            if self._sparse and stored.attrs.get("encoding-type") != "csr_matrix":
                raise FileError(
                    f"{dataset} of {path} is stored by columns, so that its rows cannot be read in "
                    "order; write it in CSR format"
                )
            shape = stored.attrs["shape"] if self._sparse else stored.shape
            self.n_rows, self.n_features = (int(size) for size in shape)
            # values and indices of an average row
            filled = stored["data"].shape[0] // max(self.n_rows, 1) + 1 if self._sparse else 0
            self._row_bytes = 16 * filled if self._sparse else 8 * max(self.n_features, 1)
        self.stamp = [*stamp_of(path), dataset]

    def blocks(self, size: int) -> Iterator[Any]:
        """Read the rows from the beginning."""
        with _hdf5_file(self._path) as file:
            stored = file[self._dataset]
            chunked = None if self._sparse else stored
            step = rows_at_once(chunked, size // self._row_bytes, self._rows)
            for i in range(0, self.n_rows or 0, step):
                yield self._sparse_rows(stored, i, step) if self._sparse else stored[i : i + step]

    def _sparse_rows(self, stored: Any, first: int, count: int) -> Any:
        ends = stored["indptr"][first : first + count + 1]
        part = slice(ends[0], ends[-1])
        return sparse.csr_array(
            (stored["data"][part], stored["indices"][part], ends - ends[0]),
            shape=(len(ends) - 1, self.n_features),
        )


def h5ad_source(path: Path, layer: str | None, rows: int | None) -> AbstractSource:
    """Find the matrix of an AnnData file, and the names of its variables."""
    place = "X" if layer is None else f"layers/{layer}"
    with _hdf5_file(path) as file:
        if place not in file:
            raise FileError(f"{path} has no {place}; is it an AnnData file?")
        names = h5_names(file["var"]) if "var" in file else None
    source = Hdf5Source(path, place, rows)
    source.names = names
    return source


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
