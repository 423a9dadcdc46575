"""Data that come in chunks of rows, from memory or from files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ebcd._parameters import COUNT, NONE
from ebcd.data import _settings
from ebcd.data._streamed import ChunkRows, StrPath, as_source
from ebcd.data.files import _chunks as files
from ebcd.data.files._formats import open_npy


class Chunks:
    """Data larger than memory: rows that are read in chunks, as often as needed.

    Can be passed to ``fit``, ``transform``, ``fit_transform`` and ``score`` of all estimators that
    need only a covariance. Iterate over it to see the chunks.

    Parameters
    ----------
    source : list, iterable, callable or array
        A list of chunks; an object that yields the same chunks on every iteration; a function
        without arguments that returns an iterator over chunks; or something with a shape whose rows
        can be sliced, such as a memory map, an HDF5 dataset or a Zarr array. A chunk is an array, a
        sparse matrix or a data frame with some rows and all columns. An iterator is also accepted,
        but the data can then be read only once.
    rows_per_chunk : int, optional
        Maximum number of rows to read at once, if the source can be sliced. By default as many as
        `max_memory` allows, up to 16 MB.

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
        (COUNT | NONE).check("rows_per_chunk", rows_per_chunk)
        self._source = replace(as_source(source), most=rows_per_chunk)

    @classmethod
    def from_npy(cls, path: StrPath, *, rows_per_chunk: int | None = None) -> Chunks:
        """Read a file written by ``numpy.save``.

        Parameters
        ----------
        path : path
        rows_per_chunk : int, optional
            Maximum number of rows to read at once.

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
        columns, drop : list of str, optional
            Names of the columns to use, by default all, and of columns to leave out, such as
            labels of the rows.
        delimiter : str, default ","
        header : bool, default True
            Whether the first line has names.
        rows_per_chunk : int, optional
            Maximum number of rows to yield at once.
        """
        source = files.csv_source(Path(path), columns, drop, delimiter, header)
        return cls(source, rows_per_chunk)

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
        columns, drop : list of str, optional
            Names of the columns to use, by default all, and of columns to leave out.
        rows_per_chunk : int, optional
            Maximum number of rows to read at once.
        """
        paths = [Path(one) for one in path] if isinstance(path, list) else [Path(path)]
        return cls(files.parquet_source(paths, columns, drop), rows_per_chunk)

    @classmethod
    def from_hdf5(cls, path: StrPath, dataset: str, *, rows_per_chunk: int | None = None) -> Chunks:
        """Read a dataset of an HDF5 file; needs h5py (extra ``io``).

        Parameters
        ----------
        path : path
        dataset : str
            Its name in the file.
        rows_per_chunk : int, optional
            Maximum number of rows to read at once.
        """
        return cls(files.hdf5_source(Path(path), dataset), rows_per_chunk)

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
            Maximum number of rows to read at once.
        """
        place = "X" if layer is None else f"layers/{layer}"
        return cls(files.hdf5_source(Path(path), place, annotated=True), rows_per_chunk)

    @classmethod
    def from_zarr(
        cls, path: Any, array: str | None = None, *, rows_per_chunk: int | None = None
    ) -> Chunks:
        """Read a Zarr array; needs zarr (extra ``io``).

        Parameters
        ----------
        path : path, address or store
            Location of the array or of a group: anything that ``zarr.open`` accepts.
        array : str, optional
            Name of the array in the group.
        rows_per_chunk : int, optional
            Maximum number of rows to read at once.
        """
        return cls(files.open_zarr(path, array), rows_per_chunk)

    def __iter__(self) -> Iterator[Any]:
        for _, rows in ChunkRows(self._source).blocks(_settings.SETTINGS.read):
            yield rows

    def __repr__(self) -> str:
        rows = "" if self._source.n_rows is None else f"{self._source.n_rows} rows, "
        return f"Chunks({rows}{self._source.n_features} columns)"
