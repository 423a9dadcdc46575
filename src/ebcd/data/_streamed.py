"""Data in chunks as covariances: gathered in one pass, or read again for every product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data._chunks import Reader
from ebcd.data._covariance import AbstractCovariance, working_unit
from ebcd.data._gram import Gram, NotFiniteError, check_finite, raise_if_not_finite
from ebcd.data._matrix import is_sparse
from ebcd.data._slot import AbstractSlot, NoSlot

_PIECE = 250_000  # entries that are worked on at once
_FEWEST_ROWS = 64
_READ_AT_ONCE = 16_000_000  # bytes


class StreamedCovariance(AbstractCovariance):
    """Covariance of data that are read once for every product.

    Parameters
    ----------
    reader : Reader
        The data.
    mean, scale : array of length p
        What is subtracted from each column and what it is then divided by.
    variances : array of length p
        Mean squares of the columns after that.
    n_samples : int
        Number of rows.
    chunk_bytes : int
        How much to read at once.
    """

    def __init__(
        self,
        reader: Reader,
        mean: Array,
        scale: Array,
        variances: Array,
        n_samples: int,
        chunk_bytes: int,
    ) -> None:
        self.n_samples, self.n_features = n_samples, mean.size
        self.unit = working_unit(variances)
        self._reader, self._chunk_bytes = reader, chunk_bytes
        self._mean, self._scale = mean, scale * self.unit
        self._diagonal = variances / self.unit / self.unit
        self._centred = bool(mean.any())
        if reader.stamp is not None:
            self.divisible = ("matmul",)

    def matmul(self, v: Array, slot: AbstractSlot | None = None) -> Array:
        """``S @ v``, in one pass over the data, which leaves its sums in `slot`."""
        slot = NoSlot() if slot is None else slot
        scaled = v / self._scale[:, None]
        begin, product = slot.saved or (0, np.zeros_like(scaled))
        for start, block in self._reader.blocks(self._chunk_bytes, begin):
            for _, rows in pieces(block, self._chunk_bytes):
                add = self._add_sparse if is_sparse(rows) else self._add_dense
                add(product, rows, scaled)
            slot.offer(lambda *now: now, start + block.shape[0], product)
        if not np.isfinite(product).all():
            raise ValueError(
                "the data have changed: entries that are NaN or infinite were not there in the "
                "first pass"
            )
        product /= self.n_samples * self._scale[:, None]
        return product

    def _add_dense(self, product: Array, rows: Array, v: Array) -> None:
        dtype = single_or_double(rows)
        centred = rows.astype(dtype, copy=False)
        if self._centred:  # in double precision, whatever the data are
            out = np.empty(rows.shape, dtype)
            centred = np.subtract(rows, self._mean, out=out, casting="same_kind")
        product += centred.T @ (centred @ v.astype(dtype, copy=False))

    def _add_sparse(self, product: Array, rows: Any, v: Array) -> None:
        scores = rows @ v - self._mean @ v
        product += rows.T @ scores
        product -= np.outer(self._mean, scores.sum(axis=0))

    def diagonal(self) -> Array:
        """Diagonal of ``S``."""
        return self._diagonal


def single_or_double(rows: Any) -> Any:
    """Give the type to compute in: single precision stays, all else is double."""
    return np.float32 if rows.dtype == np.float32 else np.float64


def pieces(block: Any, chunk_bytes: int) -> Iterator[tuple[int, Any]]:
    """Split a block into as many rows as are best worked on at once."""
    rows, columns = block.shape
    if is_sparse(block):
        step = max(rows * chunk_bytes // (16 * max(block.nnz, 1)), 1)
    else:
        step = max(_PIECE // columns, _FEWEST_ROWS)
        step = max(min(step, chunk_bytes // (8 * columns)), 1)
    for i in range(0, rows, step):
        yield i, block[i : i + step]


def all_if_small(reader: Reader, chunk_bytes: int, most: int) -> tuple[Any, Iterator[Any]]:
    """Begin a pass: give the whole data if they have at most so many entries, or else the pass."""
    blocks = reader.blocks(chunk_bytes)
    head: list[tuple[int, Any]] = []
    entries = 0
    for start, block in blocks:
        entries += block.nnz if is_sparse(block) else block.size
        known = 0 if is_sparse(block) else (reader.n_rows or 0) * reader.n_features
        if max(entries, known) > most:
            return None, _chained(head, (start, block), blocks)
        head.append((start, block.copy()))  # the block may be gone when the next one is read
    whole = stacked([block for _, block in head])
    with _placed(reader, 0):
        raise_if_not_finite(whole)
    return whole.astype(single_or_double(whole), copy=False), iter(())


def _chained(
    head: list[tuple[int, Any]], current: tuple[int, Any], blocks: Iterator[tuple[int, Any]]
) -> Iterator[tuple[int, Any]]:
    yield from head
    head.clear()
    yield current
    yield from blocks


def stacked(blocks: list[Any]) -> Any:
    """Give blocks as one matrix, sparse if all of them are."""
    if all(is_sparse(block) for block in blocks):
        return sparse.vstack(blocks, format="csr")
    return np.vstack([block.toarray() if is_sparse(block) else block for block in blocks])


def gather(reader: Reader, blocks: Iterator[tuple[int, Any]], slot: AbstractSlot) -> Gram:
    """Sum up all rows."""
    gram = Gram()
    vars(gram).update(slot.saved or {})
    for start, block in blocks:
        with _placed(reader, start):
            gram.add_rows(block)
        slot.offer(vars, gram)
    slot.finish(vars(gram))
    return gram


def stream_moments(
    reader: Reader,
    blocks: Iterator[tuple[int, Any]],
    center: bool,
    chunk_bytes: int,
    slot: AbstractSlot,
) -> tuple[int, Array, Array]:
    """Give the number of rows, means (zero if not wanted) and mean squares about them."""
    moments = _Moments(reader.n_features)
    vars(moments).update(slot.saved or {})
    for start, block in blocks:
        for i, rows in pieces(block, chunk_bytes):
            with _placed(reader, start + i):
                moments.add(rows)
        slot.offer(vars, moments)
    slot.finish(vars(moments))
    variances = moments.squares / moments.n_samples
    if center:
        return moments.n_samples, moments.mean, variances
    return moments.n_samples, np.zeros_like(moments.mean), variances + moments.mean**2


def map_rows(reader: Reader, work: Callable[[Any], Array]) -> Array:
    """Do something with all rows, a piece at a time, and stack the results."""
    stack = _Stack(reader.n_rows)
    for start, block in reader.blocks(_READ_AT_ONCE):
        for i, rows in pieces(block, _READ_AT_ONCE):
            with _placed(reader, start + i):
                raise_if_not_finite(rows)
            stack.add(work(rows.astype(single_or_double(rows), copy=False)))
    return stack.whole()


class _Stack:
    """Results of pieces: in one array from the beginning if the number of rows is known."""

    def __init__(self, n_rows: int | None) -> None:
        self._n_rows, self._filled = n_rows, 0
        self._parts: list[Array] = []

    def add(self, part: Array) -> None:
        """Add the next rows."""
        if self._n_rows is None:
            self._parts.append(part)
            return
        if not self._parts:
            self._parts.append(np.empty((self._n_rows, *part.shape[1:]), part.dtype))
        if not np.can_cast(part.dtype, self._parts[0].dtype):  # double precision after single
            self._parts[0] = self._parts[0].astype(part.dtype)
        self._parts[0][self._filled : self._filled + len(part)] = part
        self._filled += len(part)

    def whole(self) -> Array:
        """Give all rows."""
        return self._parts[0] if len(self._parts) == 1 else np.concatenate(self._parts)


@contextmanager
def _placed(reader: Reader, start: int) -> Iterator[None]:
    """Say where in the whole data an entry is that is not finite."""
    try:
        yield
    except NotFiniteError as error:
        names = reader.names
        column = error.column if names is None else repr(names[error.column])
        raise ValueError(
            f"Input X contains {error.kind}: the first entry that is NaN or infinite is in row "
            f"{start + error.row}, column {column}. Drop such rows or columns, or fill them in"
        ) from None


class _Moments:
    """Number of rows, means and sums of squares about them, of rows that come in pieces."""

    def __init__(self, n_features: int) -> None:
        self.n_samples = 0
        self.mean, self.squares = np.zeros(n_features), np.zeros(n_features)

    def add(self, rows: Any) -> None:
        """Add rows."""
        n = rows.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            mean, squares = _sparse_squares(rows) if is_sparse(rows) else _squares(rows)
        check_finite(rows, squares)
        total = self.n_samples + n
        shift = mean - self.mean
        self.squares += squares + shift * shift * (self.n_samples * n / total)
        self.mean += shift * (n / total)
        self.n_samples = total


def _squares(rows: Array) -> tuple[Array, Array]:
    mean = rows.mean(axis=0, dtype=np.float64)
    centred = rows - mean
    return mean, np.einsum("ij,ij->j", centred, centred)


def _sparse_squares(rows: Any) -> tuple[Array, Array]:
    n, columns = rows.shape
    data, index = rows.data.astype(np.float64, copy=False), rows.indices
    mean = np.bincount(index, weights=data, minlength=columns) / n
    squares = np.bincount(index, weights=(data - mean[index]) ** 2, minlength=columns)
    zeros = n - np.bincount(index, minlength=columns)
    return mean, squares + zeros * mean**2
