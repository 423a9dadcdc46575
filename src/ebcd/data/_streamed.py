"""Rows that come in chunks: read again for every pass, and checked that they stay the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
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
    checked_sparse,
    is_sparse,
    no_moments,
)
from ebcd.data._rows import (
    AbstractRows,
    Finish,
    MatrixRows,
    Part,
    Reading,
    block_product,
    floating,
    pieces,
)
from ebcd.data._sources import Source


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
        most = min(_settings.SETTINGS.small, self._size // 8)
        head: list[tuple[int, Any]] = []
        blocks, entries = self.blocks(self._size), 0
        for start, block in blocks:
            entries += block.nnz if is_sparse(block) else block.size
            known = 0 if is_sparse(block) else (self.n_rows or 0) * self.n_features
            if max(entries, known) > most:
                self._begun = chain(head, [(start, block)], blocks)
                return self
            head.append((start, block.copy()))  # the block may be gone when the next one is read
        whole = MatrixRows(_stacked([block for _, block in head]))
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
        reason = "has no room in max_memory" if moderate else "would be too large"
        return (
            f"X is an iterator, which can be read only once, but the covariance matrix of {p} "
            f"features {reason}, so that the data are needed again and again; give a list of "
            "chunks, or Chunks(function) with a function that makes the iterator anew"
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

    def map(self, part: Part, finish: Finish, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Map a piece at a time."""
        return _stacked_results(self._mapped(part, finish), self.n_rows)

    def _mapped(self, part: Part, finish: Finish) -> Iterator[Array]:
        for start, block in self.blocks(_settings.SETTINGS.read):
            for rows in pieces(block):  # blocks are as large as their maker likes
                check_finite(rows, self.names, start)
                yield finish(part(rows, slice(None)))
                start += rows.shape[0]

    def check_columns(self, estimator: Any, reset: bool) -> None:
        """Record or compare columns; every chunk is compared with them later."""
        super().check_columns(estimator, reset)
        known = getattr(estimator, "feature_names_in_", None)
        if known is not None:
            found, self.names = self.names, list(known)
            self._check_names(found or self.names, 0)

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
        rows = checked_sparse(chunk).tocsr() if is_sparse(chunk) else np.asarray(chunk)
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
        if self.names is not None and names != self.names:
            j = next(j for j, name in enumerate(names) if name != self.names[j])
            raise ValueError(
                f"chunk {number} has the column {names[j]!r} where {self.names[j]!r} is expected; "
                "all chunks must have the same columns in the same order"
            )


def _stacked(blocks: list[Any]) -> Any:
    """Return blocks as one matrix, sparse if all of them are."""
    if all(is_sparse(block) for block in blocks):
        return floating(sparse.vstack(blocks, format="csr"))
    return floating(np.vstack([as_dense(block) for block in blocks]))


def _stacked_results(parts: Iterator[Array], n_rows: int | None) -> Array:
    """Stack arrays; in one array from the beginning if the number of rows is known."""
    if n_rows is None:
        return np.concatenate(list(parts))
    whole, filled = np.empty(0), 0
    for part in parts:
        if filled == 0:
            whole = np.empty((n_rows, *part.shape[1:]), part.dtype)
        elif not np.can_cast(part.dtype, whole.dtype):  # double precision after single
            whole = whole.astype(part.dtype)
        whole[filled : filled + len(part)] = part
        filled += len(part)
    return whole


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
