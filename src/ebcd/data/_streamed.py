"""Rows that come in chunks: where from, and how they are read again for every pass."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data import _settings
from ebcd.data._moments import (
    Moments,
    as_dense,
    block_moments,
    check_finite,
    checked_rows,
    checked_sparse,
    cut,
    first_text,
    is_sparse,
    no_moments,
    refuse_times,
    unmasked,
)
from ebcd.data._rows import (
    AbstractRows,
    MatrixRows,
    Reading,
    Work,
    block_product,
    check_names,
    floating,
    is_mapped,
    names_of,
    texts_of,
)

StrPath = str | PathLike[str]
_ANEW = (
    "every pass must yield the same chunks, so a function passed to Chunks must make "
    "a new iterator, as in Chunks(lambda: pandas.read_csv(path, chunksize=1000))"
)


@dataclass
class Source:
    """Rows of data that are read in blocks."""

    # reads all rows; takes how many, and how many bytes, to read at once
    read: Callable[[int, int], Iterator[Any]]
    n_features: int
    n_rows: int | None = None  # None if only reading them can tell
    names: list[str] | None = None  # of the columns
    once: bool = False  # whether the rows can be read only once
    stamp: list[Any] | None = None  # what tells whether other data are the same, if anything does
    row_bytes: int | None = None  # if rows are not dense
    most: int | None = None  # rows to read at once

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
        lengths = [np.shape(chunk)[:1] for chunk in data]
        return _made_source(lambda: data, sum(int(n) for length in lengths for n in length))
    if isinstance(data, str | PathLike):
        raise TypeError(
            f"Chunks needs data, not the path {str(data)!r}; use Chunks.from_npy(path), "
            "from_csv, from_parquet, from_hdf5, from_h5ad or from_zarr"
        )
    if isinstance(data, Iterator):
        return _made_source(lambda: data, once=True)
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


def _made_source(
    make: Callable[[], Iterable[Any]], n_rows: int | None = None, once: bool = False
) -> Source:
    """Take chunks from iterators that are made whenever they are needed.

    The first one is looked at for its columns, and then read in the first pass.
    """
    chunks = _iterator(make)
    first = next(chunks, None)
    if first is None:
        used = "; an iterator that has already been read has none left"
        raise ValueError(f"there are no chunks: the data have neither rows nor columns{used}")
    shape = np.shape(first)
    if len(shape) != 2:
        raise ValueError(f"a chunk must have rows and columns, got shape {shape}")
    begun = [chain([first], chunks)]

    def read(rows: int, size: int) -> Iterator[Any]:
        if once and not begun:
            raise ValueError(
                "the data are an iterator, which is exhausted after one pass; pass a list, or "
                "Chunks(function) with a function that returns a new iterator"
            )
        return begun.pop() if begun else _iterator(make)

    return Source(read, int(shape[1]), n_rows, texts_of(first), once)


def _iterator(make: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    made = make()
    if not hasattr(made, "__iter__"):
        raise TypeError(
            f"the function given to Chunks must return an iterator over chunks, it returned "
            f"{type(made).__name__}"
        )
    return iter(made)


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


class PassPrinter:
    """Print how many rows a pass has read, and how long it will still take."""

    _interval = 2.0  # seconds between lines

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._spoke = 0.0

    def __call__(self, number: int, read: int, n_rows: int | None) -> None:
        """Print a line if it is time."""
        now = self._clock()
        if read == 0:
            self._began = self._spoke = now
        if read == 0 or now - self._spoke < self._interval:
            return
        self._spoke, took, share, left = now, now - self._began, "", ""
        if n_rows:
            share = f" of {n_rows:,} ({100 * read / n_rows:.0f}%)"
            left = f", {took * (n_rows - read) / read:.0f} s left"
        print(f"pass {number}: {read:,} rows{share} in {took:.0f} s{left}")  # noqa: T201 - verbose


class ChunkRows(AbstractRows):
    """Rows of a source of chunks."""

    gathers_later = False  # what fits in memory was gathered in the first pass

    def __init__(self, source: Source, reading: Reading | None = None) -> None:
        reading = reading or Reading()
        self._source, self._progress, self._passes = source, reading.progress, 0
        self.n_features, self.n_rows = source.n_features, source.n_rows
        self.names, self.stamp = source.names, source.stamp
        if self.n_features == 0:
            raise ValueError("the data have no columns")
        self._memory = reading.memory
        self._size = self._memory.chunk_bytes(self.n_features, self.gathers())
        self._begun: Iterator[Any] | None = None  # a pass of which some chunks are in memory

    def gathers(self) -> bool:
        """Whether the covariance matrix is cheaper than many passes, or only one is possible."""
        p = self.n_features
        short = self.n_rows is not None and self.n_rows < p  # smaller than their covariance
        moderate = p <= _settings.SETTINGS.moderate and self._memory.has_room_for_matrix(p)
        return moderate and (self._source.once or not short)

    def together(self) -> AbstractRows:
        """Return the rows as one matrix if they are few; otherwise the pass goes on from there."""
        settings, most = _settings.SETTINGS, self._size // 8
        if self.n_rows is None or self.n_rows > settings.fewest_rows:  # else a chunk has them all
            most = min(settings.small, most)
        head: list[tuple[int, Any]] = []
        blocks, entries = self.blocks(self._size), 0
        for start, block in blocks:
            entries += block.nnz if is_sparse(block) else block.size
            known = 0 if is_sparse(block) else (self.n_rows or 0) * self.n_features
            if max(entries, known) > most:
                self._begun = chain(head, [(start, block)], blocks)
                return self
            head.append((start, block.copy()))  # the block may be gone when the next one is read
        parts = [block for _, block in head]
        if all(map(is_sparse, parts)):
            whole = MatrixRows(floating(sparse.vstack(parts, format="csr")))
        else:
            whole = MatrixRows(floating(np.vstack([as_dense(part) for part in parts])))
        whole.header, whole.names = self.header, self.names
        return whole

    def moments(self, cross: bool) -> Moments:
        """Add up the moments of the chunks."""
        if self._source.once and not cross:
            raise ValueError(self._only_once())
        blocks, self._begun = self._begun or self.blocks(self._size), None
        moments = no_moments(self.n_features, cross)
        for _, block in blocks:
            moments.add(block_moments(block, cross))
            if moments.bad is not None:
                break
        moments.check(self.names, rows_read=moments.count)
        return moments

    def _only_once(self) -> str:
        p = self.n_features
        moderate = p <= _settings.SETTINGS.moderate
        reason = "does not fit in max_memory" if moderate else "would be too large"
        return (
            f"X is an iterator, which can be read only once, but the covariance matrix of {p} "
            f"features {reason}, so the data must be read repeatedly; pass a list of chunks, or "
            "Chunks(function) with a function that returns a new iterator"
        )

    def product(self, v: Array, mean: Array, far: bool, weight: float) -> Array:
        """Add up the products of the chunks."""
        product = np.zeros(v.shape)
        for _, block in self.blocks(self._size):
            product += block_product(block, v, mean, far)
        if not np.isfinite(product).all():
            raise ValueError(
                "the data have changed: entries that are NaN or infinite were not there in the "
                "first pass"
            )
        product *= weight
        return product

    def map(self, work: Work, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Map a piece at a time."""
        return _stacked_results(self._mapped(work), self.n_rows)

    def _mapped(self, work: Work) -> Iterator[Array]:
        for start, block in self.blocks(_settings.SETTINGS.read):
            # blocks are as large as their maker likes
            for rows in map(floating, cut(block, _settings.SETTINGS.fewest_rows)):
                check_finite(rows, self.names, start)
                yield work(rows)
                start += rows.shape[0]

    def check_columns(self, estimator: Any, reset: bool) -> None:
        """Record or compare columns; every chunk is compared with them later."""
        super().check_columns(estimator, reset)
        known = getattr(estimator, "feature_names_in_", None)
        if known is not None:
            check_names(self.names, list(known), "chunk 0")
            self.names = list(known)

    def blocks(self, size: int) -> Iterator[tuple[int, Any]]:
        """Read all rows once; yield the number of the first row of each block, and the block."""
        self._passes += 1
        read = 0
        report = self._progress or (lambda *_: None)
        report(self._passes, read, self.n_rows)
        for number, chunk in enumerate(self._source.blocks(size)):
            rows = self._checked(chunk, number)
            if rows.shape[0]:
                self._check_count(read + rows.shape[0], finished=False)
                yield read, rows
                read += rows.shape[0]
                report(self._passes, read, self.n_rows)
        self._check_count(read, finished=True)
        self.n_rows = read

    def _check_count(self, read: int, finished: bool) -> None:
        if finished and read == 0 and not self.n_rows:
            raise ValueError(f"the data have no rows: every chunk is empty; {_ANEW}")
        if self.n_rows is None or read == self.n_rows or (read < self.n_rows and not finished):
            return
        raise ValueError(
            f"the data have changed: they had {self.n_rows} rows at first and "
            f"{'' if finished else 'at least '}{read} in pass {self._passes}; {_ANEW}"
        )

    def _checked(self, chunk: Any, number: int) -> Any:
        rows = chunk if is_sparse(chunk) else np.asarray(unmasked(chunk))
        if rows.dtype.kind in "bO":
            rows = _as_numbers(rows, names_of(chunk), number)
        rows = checked_rows(rows, f"chunk {number}")
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"chunk {number} has shape {rows.shape}, but the data have {self.n_features} "
                "columns"
            )
        check_names(texts_of(chunk), self.names, f"chunk {number}")
        return rows


def _stacked_results(parts: Iterator[Array], n_rows: int | None) -> Array:
    """Stack arrays; in one array from the beginning if the number of rows is known."""
    if n_rows is None:
        return np.concatenate(list(parts))
    whole, filled = np.empty(0), 0
    for part in parts:
        if filled == 0:
            whole = np.empty((n_rows, *part.shape[1:]), part.dtype)
        elif not np.can_cast(part.dtype, whole.dtype):  # double precision after single
            rest = np.empty((n_rows - filled, *part.shape[1:]), part.dtype)
            whole = np.concatenate([whole[:filled], rest])
        whole[filled : filled + len(part)] = part
        filled += len(part)
    return whole


def _as_numbers(rows: Any, names: Any, number: int) -> Any:
    """Take truth values as 0 and 1, also in data frames, whose columns then differ in type."""
    refuse_times(rows, f"chunk {number}")
    try:
        return rows.astype(np.float64)
    except (TypeError, ValueError) as error:
        odd = None if names is None else first_text(names, rows.T)
        where = f" in column {odd[0]!r}" if odd else ""
        raise TypeError(
            f"chunk {number} must hold real numbers{where}: {error}; drop or encode such columns"
        ) from None
