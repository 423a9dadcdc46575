"""Data that come in chunks of rows: where from, and what is checked of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data._matrix import checked_sparse, is_sparse
from ebcd.data._progress import Progress
from ebcd.data._sources import (
    AbstractSource,
    ArraySource,
    ChunkSource,
    ListSource,
    MappedSource,
    StrPath,
    is_mapped,
)
from ebcd.data.files import _chunks as files
from ebcd.data.files._matrices import open_npy

_READ_AT_ONCE = 16_000_000  # bytes


class Chunks:
    """Data past memory: rows that are read in chunks, as often as they are needed.

    Can be given to ``fit``, ``transform``, ``fit_transform`` and ``score`` of all estimators that
    need only a covariance. Iterate over it to see the chunks.

    Parameters
    ----------
    source : list, iterable, callable or array
        A list of chunks; an object that gives its chunks anew whenever it is iterated; a function
        without arguments that returns an iterator over chunks; or something with a shape whose
        rows can be sliced, such as a memory map, an HDF5 dataset or a Zarr array. A chunk is an
        array, a sparse matrix or a data frame with some rows and all columns. An iterator that
        can be used only once is accepted, too; then so are the data.
    rows_per_chunk : int, optional
        Most rows to read at once, if the source can be sliced. By default what `max_memory`
        allows, up to 16 MB.

    See Also
    --------
    Gram : Sufficient statistics, if you would rather loop over the data yourself.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd import EBCD, Chunks
    >>> def simulate():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(20):
    ...         common = rng.normal(size=(500, 1)) * np.repeat([2.0, 0.0], [5, 25])
    ...         yield common + rng.normal(size=(500, 30))
    >>> model = EBCD().fit(Chunks(simulate))
    >>> model.n_samples_, model.n_components_
    (10000, 1)
    """

    def __init__(self, source: Any, rows_per_chunk: int | None = None) -> None:
        self._source = _as_source(source, _check_rows(rows_per_chunk))

    @classmethod
    def from_npy(cls, path: StrPath, *, rows_per_chunk: int | None = None) -> Chunks:
        """Read a file that ``numpy.save`` wrote.

        Parameters
        ----------
        path : path
        rows_per_chunk : int, optional
            Most rows to read at once.

        Examples
        --------
        >>> import tempfile, pathlib, numpy as np, ebcd
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.npy"
        >>> np.save(path, np.ones((100, 3)))
        >>> ebcd.Chunks.from_npy(path)
        Chunks(100 rows, 3 columns)
        """
        return cls(open_npy(Path(path)), rows_per_chunk)

    @classmethod
    def from_csv(
        cls,
        path: StrPath,
        *,
        columns: list[str] | None = None,
        drop: list[str] | None = None,
        delimiter: str = ",",
        header: bool = True,
        rows_per_chunk: int | None = None,
    ) -> Chunks:
        """Read a text file, which may be compressed (.gz); needs pyarrow (extra ``io``).

        Parameters
        ----------
        path : path
        columns : list of str, optional
            Names of the columns to use; by default all of them.
        drop : list of str, optional
            Names of columns to leave out, such as labels of the rows.
        delimiter : str, default ","
        header : bool, default True
            Whether the first line has names.
        rows_per_chunk : int, optional
            Most rows to give at once.
        """
        rows = _check_rows(rows_per_chunk)
        return cls._of(files.CsvSource(Path(path), columns, drop, delimiter, header, rows))

    @classmethod
    def from_parquet(
        cls,
        path: StrPath | list[StrPath],
        *,
        columns: list[str] | None = None,
        drop: list[str] | None = None,
        rows_per_chunk: int | None = None,
    ) -> Chunks:
        """Read one or several Parquet files; needs pyarrow (extra ``io``).

        Parameters
        ----------
        path : path, or list of them
        columns : list of str, optional
            Names of the columns to use; by default all of them.
        drop : list of str, optional
            Names of columns to leave out.
        rows_per_chunk : int, optional
            Most rows to read at once.
        """
        paths = [Path(one) for one in path] if isinstance(path, list) else [Path(path)]
        return cls._of(files.ParquetSource(paths, columns, drop, _check_rows(rows_per_chunk)))

    @classmethod
    def from_hdf5(cls, path: StrPath, dataset: str, *, rows_per_chunk: int | None = None) -> Chunks:
        """Read a dataset of an HDF5 file; needs h5py (extra ``io``).

        Parameters
        ----------
        path : path
        dataset : str
            Its name in the file.
        rows_per_chunk : int, optional
            Most rows to read at once.
        """
        return cls._of(files.Hdf5Source(Path(path), dataset, _check_rows(rows_per_chunk)))

    @classmethod
    def from_h5ad(
        cls, path: StrPath, *, layer: str | None = None, rows_per_chunk: int | None = None
    ) -> Chunks:
        """Read the matrix of an AnnData file, dense or sparse by rows; needs h5py (extra ``io``).

        Parameters
        ----------
        path : path
        layer : str, optional
            Layer to read in place of ``X``.
        rows_per_chunk : int, optional
            Most rows to read at once.
        """
        return cls._of(files.h5ad_source(Path(path), layer, _check_rows(rows_per_chunk)))

    @classmethod
    def from_zarr(
        cls, path: Any, array: str | None = None, *, rows_per_chunk: int | None = None
    ) -> Chunks:
        """Read a Zarr array; needs zarr (extra ``io``).

        Parameters
        ----------
        path : path, address or store
            Of the array, or of a group: anything that ``zarr.open`` takes.
        array : str, optional
            Name of the array in the group.
        rows_per_chunk : int, optional
            Most rows to read at once.
        """
        source = files.open_zarr(path, array)
        return cls._of(ArraySource(source, _check_rows(rows_per_chunk)))

    @classmethod
    def _of(cls, source: AbstractSource) -> Chunks:
        chunks = cls.__new__(cls)
        chunks._source = source
        return chunks

    def __iter__(self) -> Iterator[Any]:
        for _, rows in Reader(self).blocks(_READ_AT_ONCE):
            yield rows

    def __repr__(self) -> str:
        rows = "" if self._source.n_rows is None else f"{self._source.n_rows} rows, "
        return f"Chunks({rows}{self._source.n_features} columns)"


def _as_source(source: Any, rows: int | None) -> AbstractSource:
    if is_mapped(source):
        return MappedSource(source, rows)
    if is_sparse(source):
        return ArraySource(source.tocsr(), rows)
    if isinstance(source, list | tuple):
        return ListSource(list(source))
    if isinstance(source, str | PathLike):
        raise TypeError(
            f"Chunks needs data, not the path {str(source)!r}; use Chunks.from_npy(path), "
            "from_csv, from_parquet, from_hdf5, from_h5ad or from_zarr"
        )
    if isinstance(source, Iterator):
        return ChunkSource(lambda: source, once=True)
    if callable(source):
        return ChunkSource(_fresh(source))
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        return ArraySource(source, rows)
    if hasattr(source, "__iter__"):
        return ChunkSource(lambda: source)
    raise TypeError(
        "Chunks needs a list of chunks, an iterable, a function that returns an iterator, or an "
        f"array, got {type(source).__name__}"
    )


def _fresh(make: Callable[[], Any]) -> Callable[[], Any]:
    def chunks() -> Any:
        made = make()
        if not hasattr(made, "__iter__"):
            raise TypeError(
                f"the function given to Chunks must return an iterator over chunks, it returned "
                f"{type(made).__name__}"
            )
        return made

    return chunks


def _check_rows(rows: Any) -> int | None:
    if rows is None:
        return None
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer):
        raise TypeError(f"rows_per_chunk must be a whole number, got {type(rows).__name__}")
    if rows < 1:
        raise ValueError(f"rows_per_chunk must be at least 1, got {rows}")
    return int(rows)


def _as_numbers(rows: Any, names: Any, number: int) -> Any:
    """Take truth values as 0 and 1, also in data frames, whose columns then differ in type."""
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        where = "" if names is None else f" in column {_first_text(rows, names)!r}"
        raise TypeError(
            f"chunk {number} must hold real numbers{where}: {error}; drop or encode such columns"
        ) from None


def _first_text(rows: Any, names: Any) -> Any:
    for name, column in zip(names, rows.T, strict=True):
        try:
            column.astype(np.float64)
        except (TypeError, ValueError):
            return name
    return None  # pragma: no cover - one of them it was


class Reader:
    """One user of chunks: reads them again and again, and sees to it that they stay the same.

    Attributes
    ----------
    n_features : int
    n_rows : int or None
        Number of rows, once it is known.
    names : array of str or None
        Names of the columns.
    once : bool
        Whether there is only one pass.
    stamp : list or None
        What tells whether these are the same data in another process.
    """

    def __init__(self, chunks: Chunks, progress: Progress | None = None) -> None:
        self._source = chunks._source
        self._progress = Progress(False) if progress is None else progress
        self._passes = 0
        self.n_features, self.once = self._source.n_features, self._source.once
        self.n_rows, self.stamp = self._source.n_rows, self._source.stamp
        self._names = self._source.names
        if self.n_features == 0:
            raise ValueError("the data have no columns")

    @property
    def names(self) -> Array | None:
        """Names of the columns, if they have any."""
        return None if self._names is None else np.asarray(self._names, dtype=object)

    def expect(self, n_features: int, names: Any) -> None:
        """Say what columns the data must have: so many, with these names if they have any."""
        if self.n_features != n_features:
            raise ValueError(
                f"X has {self.n_features} features, but {n_features} are expected, as in fit"
            )
        if self._names is not None and names is not None:
            found, self._names = self._names, list(names)
            self._check_names(found, 0)
        elif names is not None:
            self._names = list(names)

    def blocks(self, size: int, begin: int = 0) -> Iterator[tuple[int, Any]]:
        """Read all rows once; give the number of the first row of each block, and the block.

        With a row to `begin` with, if there is a stamp.
        """
        self._passes += 1
        self._progress.begin(self.n_rows, begin)
        read = begin
        for number, chunk in enumerate(self._source.blocks(size, begin)):
            rows = self._checked(chunk, number)
            if rows.shape[0]:
                self._check_count(read + rows.shape[0], finished=False)
                yield read, rows
                read += rows.shape[0]
                self._progress.read(read)
        self._check_count(read, finished=True)
        self.n_rows = read

    def _check_count(self, read: int, finished: bool) -> None:
        if finished and read == 0 and not self.n_rows:
            raise ValueError("the data have no rows: every chunk is empty")
        if self.n_rows is None or read == self.n_rows or (read < self.n_rows and not finished):
            return
        raise ValueError(
            f"the data have changed: they had {self.n_rows} rows at first and "
            f"{'' if finished else 'at least '}{read} in pass {self._passes}; chunks must be the "
            "same whenever they are asked for"
        )

    def _checked(self, chunk: Any, number: int) -> Any:
        names = getattr(chunk, "columns", None)
        if is_sparse(chunk):
            rows = checked_sparse(chunk).tocsr()
        else:
            rows = chunk if isinstance(chunk, np.ndarray) else np.asarray(chunk)
        if rows.dtype.kind in "bO":
            rows = _as_numbers(rows, names, number)
        if rows.dtype.kind not in "iuf":
            raise TypeError(f"chunk {number} must hold real numbers, got dtype {rows.dtype}")
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(
                f"chunk {number} has shape {rows.shape}, but the data have {self.n_features} "
                "columns"
            )
        if names is not None and all(isinstance(name, str) for name in names):
            self._check_names(list(names), number)
        return rows

    def _check_names(self, names: list[str], number: int) -> None:
        if self._names is None and number == 0:
            self._names = names
        if self._names is not None and names != self._names:
            j = next(j for j, name in enumerate(names) if name != self._names[j])
            raise ValueError(
                f"chunk {number} has the column {names[j]!r} where {self._names[j]!r} is expected; "
                "all chunks must have the same columns in the same order"
            )
