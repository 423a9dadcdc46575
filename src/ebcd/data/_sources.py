"""Where chunks of rows come from: arrays, memory maps, lists and iterators."""

from __future__ import annotations

import mmap
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ebcd.data._moments import is_sparse

StrPath = str | PathLike[str]


class AbstractSource(ABC):
    """Rows of data that are read in blocks.

    Attributes
    ----------
    n_features : int
        Number of columns.
    n_rows : int or None
        Number of rows; None if only reading them can tell.
    names : list of str or None
        Names of the columns.
    once : bool
        Whether the rows can be read only once.
    stamp : list or None
        What tells whether these are the same data in another process; None if nothing does.
    """

    n_features: int
    n_rows: int | None = None
    names: list[str] | None = None
    once = False
    stamp: list[Any] | None = None

    @abstractmethod
    def blocks(self, size: int) -> Iterator[Any]:
        """Read all rows, in blocks of at most `size` bytes as far as that is in our hands."""


class ArraySource(AbstractSource):
    """Anything with a shape whose rows can be sliced: arrays, in memory or not, and CSR matrices.

    Parameters
    ----------
    array : object, n x p
    rows : int, optional
        Most rows to read at once.
    """

    def __init__(self, array: Any, rows: int | None = None) -> None:
        if len(array.shape) != 2:
            raise ValueError(f"data must have rows and columns, got shape {array.shape}")
        self.n_rows, self.n_features = (int(size) for size in array.shape)
        self._array, self._rows = array, rows
        self._row_bytes = 8 * self.n_features
        if is_sparse(array):
            self._row_bytes = 16 * (array.nnz // max(self.n_rows, 1) + 1)

    def blocks(self, size: int) -> Iterator[Any]:
        """Slice the array."""
        step = rows_at_once(self._array, size // max(self._row_bytes, 1), self._rows)
        for i in range(0, self.n_rows or 0, step):
            yield self._array[i : i + step]


class MappedSource(ArraySource):
    """A NumPy memory map, whose pages are given back to the system once they have been read."""

    def __init__(self, array: Any, rows: int | None = None) -> None:
        super().__init__(array, rows)
        if array.mode == "r" and array.filename is not None and array.size:
            place = [_offset(array), *array.shape, *array.strides, array.dtype.str]
            self.stamp = [*stamp_of(array.filename), *place]

    def blocks(self, size: int) -> Iterator[Any]:
        """Slice the map without copying it."""
        for block in super().blocks(size):
            yield block
            release_pages(block)


class ChunkSource(AbstractSource):
    """Chunks that someone else makes: a list, a function that makes iterators, or an iterator.

    Parameters
    ----------
    make : callable
        Returns a new iterator over chunks.
    once : bool
        Whether it can do so only once.
    """

    def __init__(self, make: Callable[[], Iterable[Any]], once: bool = False) -> None:
        self._make, self.once, self._used = make, once, False
        self._latest: Callable[[], Any] = lambda: None
        chunks = self._anew()
        first = next(chunks, None)
        if first is None:
            used = "; an iterator that has been read before has none left" if once else ""
            raise ValueError(f"there are no chunks: the data have neither rows nor columns{used}")
        self.n_features = _width(first)
        names = list(getattr(first, "columns", []))
        self.names = names if names and all(isinstance(name, str) for name in names) else None
        if once:  # the first chunk must not get lost
            left = chain([first], chunks)
            self._make = lambda: left

    def blocks(self, size: int) -> Iterator[Any]:
        """Return the chunks as they are."""
        if self.once and self._used:
            raise ValueError(
                "the data are an iterator, which is used up after one pass; give a list, or "
                "Chunks(function) with a function that makes the iterator anew"
            )
        self._used = True
        yield from self._anew()

    def _anew(self) -> Iterator[Any]:
        made = self._make()
        chunks = iter(made)
        if chunks is self._latest():  # what has been read of it would be missing
            raise ValueError(
                "the data gave the same iterator twice, which is used up after one pass; make a "
                "new one in the function given to Chunks, such as "
                "Chunks(lambda: pandas.read_csv(path, chunksize=1000))"
            )
        self._latest = _remembered(chunks, alone=chunks is made)
        return chunks


class ListSource(ChunkSource):
    """A list of chunks in memory."""

    def __init__(self, chunks: list[Any]) -> None:
        super().__init__(lambda: chunks)
        self.n_rows = sum(int(np.shape(chunk)[0]) for chunk in chunks)


def _remembered(chunks: Iterator[Any], alone: bool) -> Callable[[], Any]:
    """Remember an iterator; one that keeps a whole collection alive only if it came `alone`."""
    try:
        return weakref.ref(chunks)
    except TypeError:
        return lambda: chunks if alone else None


def rows_at_once(array: Any, fit: int, most: int | None) -> int:
    """Return how many rows to read at once: whole chunks of the file where they fit in."""
    stored = getattr(array, "chunks", None)
    rows = max(fit if most is None else min(fit, most), 1)
    if stored and isinstance(stored[0], int) and rows > stored[0] > 0:
        rows -= rows % stored[0]
    return rows


def stamp_of(*paths: StrPath) -> list[Any]:
    """Return the names of files, their sizes, and when they were changed last."""
    found = [(str(Path(path).resolve()), Path(path).stat()) for path in paths]
    return [part for name, stat in found for part in (name, stat.st_size, stat.st_mtime_ns)]


def _width(chunk: Any) -> int:
    shape = np.shape(chunk)
    if len(shape) != 2:
        raise ValueError(f"a chunk must have rows and columns, got shape {shape}")
    return int(shape[1])


def is_mapped(x: Any) -> bool:
    """Whether an array is a memory map of a file, not one that was made from such a map."""
    return isinstance(x, np.memmap) and getattr(x, "_mmap", None) is not None


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
