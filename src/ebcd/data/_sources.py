"""Where chunks of rows come from: arrays, memory maps, lists and iterators."""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ebcd.data._moments import checked_sparse, is_sparse
from ebcd.data._rows import is_mapped

StrPath = str | PathLike[str]


@dataclass
class Source:
    """Rows of data that are read in blocks.

    Attributes
    ----------
    read : callable
        Reads all rows; takes how many, and how many bytes, to read at once.
    n_features, n_rows : int
        Number of columns, and of rows; None if only reading them can tell.
    names : list of str or None
        Names of the columns.
    once : bool
        Whether the rows can be read only once.
    stamp : list or None
        What tells whether these are the same data in another process; None if nothing does.
    row_bytes, most : int or None
        Size of a row, if it is not that of dense numbers, and most rows to read at once.
    """

    read: Callable[[int, int], Iterator[Any]]
    n_features: int
    n_rows: int | None = None
    names: list[str] | None = None
    once: bool = False
    stamp: list[Any] | None = None
    row_bytes: int | None = None
    most: int | None = None

    def blocks(self, size: int) -> Iterator[Any]:
        """Read all rows, in blocks of at most `size` bytes as far as that is in our hands."""
        rows = max(size // (self.row_bytes or 8 * max(self.n_features, 1)), 1)
        return self.read(rows if self.most is None else min(rows, self.most), size)


def as_source(data: Any) -> Source:
    """Take anything that `Chunks` takes."""
    if isinstance(data, Source):
        return data
    if is_sparse(data):
        return array_source(checked_sparse(data).tocsr())
    if isinstance(data, list | tuple):
        return _made_source(lambda: data, sum(int(np.shape(chunk)[0]) for chunk in data))
    if isinstance(data, str | PathLike):
        raise TypeError(
            f"Chunks needs data, not the path {str(data)!r}; use Chunks.from_npy(path), "
            "from_csv, from_parquet, from_hdf5, from_h5ad or from_zarr"
        )
    if isinstance(data, Iterator):
        return _iterator_source(data)
    if callable(data):
        return _made_source(data)
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        return array_source(data)
    if hasattr(data, "__iter__"):
        return _made_source(lambda: data)
    raise TypeError(
        "Chunks needs a list of chunks, an iterable, a function that returns an iterator, or an "
        f"array, got {type(data).__name__}"
    )


def array_source(array: Any) -> Source:
    """Slice anything with a shape: arrays, in memory or not, and sparse matrices by rows."""
    if len(array.shape) != 2:
        raise ValueError(f"data must have rows and columns, got shape {array.shape}")
    n, p = (int(size) for size in array.shape)
    filled = getattr(array, "nnz", None)
    row_bytes = None if filled is None else 16 * (filled // max(n, 1) + 1)
    return Source(partial(slices, array), p, n, stamp=_stamp_of_map(array), row_bytes=row_bytes)


def slices(array: Any, rows: int, size: int) -> Iterator[Any]:
    """Slice an array; pages of memory maps are given back to the system once they were read."""
    stored = getattr(array, "chunks", None)
    if stored and isinstance(stored[0], int) and rows > stored[0] > 0:
        rows -= rows % stored[0]  # whole chunks of a file
    for i in range(0, array.shape[0], rows):
        block = array[i : i + rows]
        yield block
        if is_mapped(block):
            release_pages(block)


def _made_source(make: Callable[[], Iterable[Any]], n_rows: int | None = None) -> Source:
    """Take chunks from iterators that are made whenever they are needed."""
    anew = _Anew(make)
    first = _first_chunk(anew())
    return Source(lambda rows, size: anew(), _width(first), n_rows, _names(first))


class _Anew:
    """Makes iterators; the same one twice is refused, as what has been read of it is missing."""

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self._make = make
        self._latest: Callable[[], Any] = lambda: None

    def __call__(self) -> Iterator[Any]:
        made = self._make()
        if not hasattr(made, "__iter__"):
            raise TypeError(
                f"the function given to Chunks must return an iterator over chunks, it returned "
                f"{type(made).__name__}"
            )
        chunks = iter(made)
        if chunks is self._latest():
            raise ValueError(
                "the data gave the same iterator twice, which is used up after one pass; make a "
                "new one in the function given to Chunks, such as "
                "Chunks(lambda: pandas.read_csv(path, chunksize=1000))"
            )
        try:
            self._latest = weakref.ref(chunks)
        except TypeError:  # remember it, but not if it keeps a whole collection alive
            self._latest = lambda: chunks if chunks is made else None
        return chunks


def _iterator_source(chunks: Iterator[Any]) -> Source:
    """Take chunks from an iterator, which can be used only once."""
    first = _first_chunk(chunks, "; an iterator that has been read before has none left")
    left = [chain([first], chunks)]

    def read(rows: int, size: int) -> Iterator[Any]:
        if not left:
            raise ValueError(
                "the data are an iterator, which is used up after one pass; give a list, or "
                "Chunks(function) with a function that makes the iterator anew"
            )
        yield from left.pop()

    return Source(read, _width(first), names=_names(first), once=True)


def _first_chunk(chunks: Iterator[Any], hint: str = "") -> Any:
    for chunk in chunks:
        return chunk
    raise ValueError(f"there are no chunks: the data have neither rows nor columns{hint}")


def _width(chunk: Any) -> int:
    shape = np.shape(chunk)
    if len(shape) != 2:
        raise ValueError(f"a chunk must have rows and columns, got shape {shape}")
    return int(shape[1])


def _names(chunk: Any) -> list[str] | None:
    names = list(getattr(chunk, "columns", []))
    return names if names and all(isinstance(name, str) for name in names) else None


def stamp_of(*paths: StrPath) -> list[Any]:
    """Return the names of files, their sizes, and when they were changed last."""
    found = [(str(Path(path).resolve()), Path(path).stat()) for path in paths]
    return [part for name, stat in found for part in (name, stat.st_size, stat.st_mtime_ns)]


def _stamp_of_map(array: Any) -> list[Any] | None:
    """Return what tells apart parts of memory maps, unless they can be written to."""
    if not is_mapped(array) or array.mode != "r" or array.filename is None or not array.size:
        return None
    place = [_offset(array), *array.shape, *array.strides, array.dtype.str]
    return [*stamp_of(array.filename), *place]


def release_pages(block: Any) -> None:
    """Take the pages of a part of a memory map out of the memory of this process.

    They stay in the cache of the file. Maps that copy on write would lose what was written.
    """
    memory = block._mmap
    if block.mode == "c" or not hasattr(memory, "madvise") or block.size == 0:
        return
    low, high = np.lib.array_utils.byte_bounds(block)
    offset = _offset(block)
    begin = offset // mmap.PAGESIZE * mmap.PAGESIZE
    memory.madvise(mmap.MADV_DONTNEED, begin, offset + high - low - begin)


def _offset(block: Any) -> int:
    """Return the place of a part of a memory map in the map, in bytes."""
    origin = np.frombuffer(block._mmap, dtype=np.uint8).__array_interface__["data"][0]
    return int(np.lib.array_utils.byte_bounds(block)[0] - origin)
