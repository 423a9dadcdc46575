"""Means, variances and cross-products: once, for matrices, chunks and Dask blocks alike.

Moments of some rows are computed by `block_moments` and merged in any order (Chan, Golub and
LeVeque 1983):

    (1)  n = n_1 + n_2,   d = m_2 - m_1,   m = m_1 + d n_2 / n,
    (2)  C = C_1 + C_2 + d d' n_1 n_2 / n.

Entries that are NaN or infinite are found in the sums, which are fewer, and reported together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Self

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data import _settings

# Squared deviation over squared mean from which cross-products about zero keep their digits.
_SPREAD = 1e-2
# Standard deviation, as a share of the mean, of a column that is constant but for rounding.
ROUNDING = 1e-13
# Entries whose squares are numbers, and those that are safe to work with in the units of the data.
_SMALLEST, _LARGEST = np.sqrt(np.finfo(float).tiny) * 8, np.sqrt(np.finfo(float).max) / 8
_SAFE = np.sqrt([_SMALLEST, _LARGEST])


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix or array of SciPy."""
    return bool(sparse.issparse(x))


def as_dense(x: Any) -> Any:
    """Return a matrix that is not sparse."""
    return x.toarray() if is_sparse(x) else x


def unmasked(x: Any) -> Any:
    """Return an array with NaN where it is masked; anything else as it is."""
    if not isinstance(x, np.ma.MaskedArray) or x.dtype.kind not in "biufO":
        return x
    return np.ma.filled(x if x.dtype.kind in "fO" else x.astype(np.float64), np.nan)


def refuse_times(x: Any, name: str = "X") -> None:
    """Refuse dates and times, of which NumPy would make numbers."""
    cells = np.asarray(x) if isinstance(x, list | tuple) else x
    kind = getattr(getattr(cells, "dtype", None), "kind", None)
    times = np.datetime64 | np.timedelta64 | date | timedelta
    if kind in ("m", "M") or (kind == "O" and any(isinstance(c, times) for c in np.ravel(cells))):
        raise ValueError(
            f"{name} must hold numbers, but holds dates or times; drop them, or encode them as "
            "numbers"
        )


def first_text(names: Iterable[Any], columns: Iterable[Any]) -> tuple[Any, Any] | None:
    """Return the first cell that is no number, after the name of its column."""
    for name, cells in zip(names, columns, strict=True):
        for cell in cells:
            try:
                float(cell)
            except (TypeError, ValueError):
                return name, cell
    return None


def checked_sparse(x: Any) -> Any:
    """Return a sparse matrix by rows or columns whose entries are where they claim to be.

    Products with indices out of range read, or write, memory that is not theirs. `x` is left as it
    is: the check works on a shallow copy, and entries stored in parts are added up in another one.
    """
    try:
        if x.format not in ("csr", "csc"):
            x = x.tocoo(copy=True)
            for places, size in zip(x.coords, x.shape, strict=True):
                if places.size and not (places.min() >= 0 and places.max() < size):
                    raise ValueError(f"an index is outside of 0 to {size - 1}")
            x = x.tocsr()
        checked = type(x)((x.data, x.indices, x.indptr), shape=x.shape, copy=False)
        checked.check_format(full_check=True)
        if (x.indptr[1:] < x.indptr[:-1]).any():  # looked at only if the last one is above 0
            raise ValueError("indptr must be a non-decreasing sequence")
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"X is a damaged sparse matrix: {error}; was it changed after it was created?"
        ) from None
    if not checked.has_canonical_format:
        checked = checked.copy()
        checked.sum_duplicates()
    return checked


def checked_rows(chunk: Any, name: str = "chunk") -> Any:
    """Return rows of real numbers, as an array or a sparse matrix by rows."""
    rows = checked_sparse(chunk).tocsr() if is_sparse(chunk) else np.asarray(unmasked(chunk))
    if rows.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers, got dtype {rows.dtype}")
    if rows.ndim != 2:
        raise ValueError(f"{name} must have rows and columns, got shape {rows.shape}")
    return rows


def bad_places(rows: Any) -> np.ndarray:
    """Return row and column of the entries that are NaN or infinite, row by row."""
    if not is_sparse(rows):
        return np.argwhere(~np.isfinite(rows))
    stored = rows.tocoo()
    bad = ~np.isfinite(stored.data)
    places = np.stack([index[bad] for index in stored.coords], axis=1)
    return np.asarray(places[np.lexsort(places.T[::-1])])


@dataclass(frozen=True)
class BadEntries:
    """Entries that are NaN or infinite: how many in each column, and where the first is."""

    counts: np.ndarray
    first: tuple[int, int]  # row and column
    nan: bool

    @classmethod
    def of(cls, rows: Any, first_row: int = 0) -> Self | None:
        """Look for bad entries in rows that begin with number `first_row`; None if all is well."""
        values = rows.data if is_sparse(rows) else rows
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.sum(values)) or np.isfinite(values).all():
                return None
        places = bad_places(rows)
        counts, (row, column) = np.bincount(places[:, 1], minlength=rows.shape[1]), places[0]
        return cls(counts, (first_row + row, column), bool(np.isnan(values).any()))

    def below(self, above: BadEntries | None, n_rows: int) -> BadEntries:
        """Add the bad entries of `n_rows` rows above these."""
        if above is None:
            return replace(self, first=(n_rows + self.first[0], self.first[1]))
        return BadEntries(above.counts + self.counts, above.first, above.nan or self.nan)

    def error(self, names: Any = None, rows_read: int | None = None) -> ValueError:
        """Return the error to raise; `rows_read` if not all rows have been looked at."""
        row, column = self.first
        kind = "NaN" if self.nan else "infinity"
        where = "" if rows_read is None else f" in the first {rows_read} rows"
        total = self.counts.sum()
        count = f"1 entry{where} is" if total == 1 else f"{total} entries{where} are"
        labels = range(self.counts.size) if names is None else names
        name = repr(labels[column]) if isinstance(labels[column], str) else labels[column]
        columns = np.flatnonzero(self.counts).tolist()
        listed = ", ".join(f"{labels[j]} ({self.counts[j]})" for j in columns[:5])
        return ValueError(
            f"Input X contains {kind}: {count} NaN or infinite, the first in row {row}, column "
            f"{name}; by column: {listed}{', ...' if len(columns) > 5 else ''}. Drop those rows or "
            "columns, or fill them in; EBCD fits data with missing values (NaN) if all rows are in "
            "memory, as one array, data frame or sparse matrix, and its impute(X) fills them in"
        )


def check_finite(rows: Any, names: Any = None, first_row: int = 0) -> None:
    """Raise if an entry is NaN or infinite, with its place."""
    bad = BadEntries.of(rows, first_row)
    if bad is not None:
        raise bad.error(names, first_row + rows.shape[0] if first_row else None)


def has_holes(x: Any) -> bool:
    """Whether entries of a matrix are missing (NaN)."""
    bad = BadEntries.of(x)
    return bad is not None and bad.nan


@dataclass
class Moments:
    """Number of rows, means and products about the means, of rows that are added in any order.

    `scatter` has all cross-products (p x p) or their diagonal only. `unit` is the power of two that
    `mean` is given in, and its square `scatter`: 1 unless entries are so large or small that
    squares would not be numbers, 0 if all entries are zero. Where entries are `bad`, the sums are
    not to be used.
    """

    count: int
    mean: Array
    scatter: Array
    unit: float = 1.0
    bad: BadEntries | None = None
    has_sparse: bool = False

    @property
    def squares(self) -> Array:
        """Sums of squares about the mean."""
        return np.diagonal(self.scatter) if self.scatter.ndim == 2 else self.scatter

    def add(self, other: Moments) -> None:
        """Add the moments of further rows, which come after these; (1) and (2)."""
        if other.bad is not None:
            self.bad = other.bad.below(self.bad, self.count)
        total = self.count + other.count
        if total and self.bad is None:
            unit = max(self.unit, other.unit)
            self.mean, self.scatter = self.in_unit(unit)
            mean, scatter = other.in_unit(unit)
            shift = mean - self.mean
            self.scatter += scatter
            add_outer(self.scatter, shift, self.count * other.count / total)
            self.mean = self.mean + shift * (other.count / total)
            self.unit, self.has_sparse = unit, self.has_sparse or other.has_sparse
        self.count = total

    def in_unit(self, unit: float) -> tuple[Array, Array]:
        """Return mean and products in another unit, which is not smaller."""
        if unit == self.unit:
            return self.mean, self.scatter
        ratio = self.unit / unit
        return self.mean * ratio, self.scatter * ratio**2

    def copy(self) -> Moments:
        """Return moments that can be added to."""
        return replace(self, scatter=self.scatter.copy())

    def about(self, center: bool) -> tuple[Array, Array]:
        """Return what to subtract from each column, its mean or zero, and its mean square then.

        Columns that are constant but for the rounding of their mean have no variance.
        """
        unit = self.unit or 1.0
        mean, variances = self.mean, np.maximum(self.squares, 0.0) / self.count
        variances = np.where(np.sqrt(variances) <= ROUNDING * np.abs(mean), 0.0, variances)
        if not center:
            mean, variances = np.zeros_like(mean), variances + mean * mean
        return mean * unit, variances * unit * unit

    def covariance(self, center: bool, scale: Array, n_samples: int) -> Array:
        """Return cross-products over `n_samples`, of scaled columns less their means or nothing."""
        ratio = (self.unit or 1.0) / scale
        matrix = self.scatter * ratio
        matrix *= ratio[:, None]
        if not center:
            add_outer(matrix, self.mean * ratio, self.count)
        matrix /= n_samples
        return np.asarray(matrix)

    def check(self, names: Any = None, rows_read: int | None = None) -> None:
        """Raise if there are entries that are no numbers or cannot be squared, or no rows."""
        if self.bad is not None:
            raise self.bad.error(names, rows_read)
        if self.count == 0:
            raise ValueError("X has no rows; a minimum of 1 is required")
        if self.unit == 0 or _SMALLEST <= self.unit <= _LARGEST:
            return
        large = self.unit > 1
        what = "entries as large as" if large else "no entries much above"
        raise ValueError(
            f"X has {what} {self.unit:.3g}, too {'large' if large else 'small'} to square; change "
            "its units"
        )


def no_moments(n_features: int, cross: bool) -> Moments:
    """Return the moments of no rows."""
    shape = (n_features, n_features) if cross else n_features
    return Moments(0, np.zeros(n_features), np.zeros(shape), unit=0.0)


def merge_moments(parts: Iterable[Moments]) -> Moments:
    """Merge the moments of several blocks, one below the other."""
    parts = iter(parts)
    merged = next(parts).copy()
    for part in parts:
        merged.add(part)
    return merged


def block_moments(rows: Any, cross: bool) -> Moments:
    """Compute the moments of some rows; with all cross-products if `cross`."""
    if rows.shape[0] == 0:
        return no_moments(rows.shape[1], cross)
    moments = _sums(rows, cross)
    moments.has_sparse = is_sparse(rows)
    low, high = _SAFE**2
    if low < moments.squares.max(initial=0.0) < high:
        return moments
    moments.bad = BadEntries.of(rows)
    if moments.bad is not None:
        return moments
    pieces = [rows.data] if is_sparse(rows) else row_pieces(rows)
    size = max(float(np.abs(piece).max(initial=0.0)) for piece in pieces)
    low, high = _SAFE
    if size == 0:
        moments.unit = 0.0
    elif not low < size < high:
        unit = 2.0 ** min(float(np.round(np.log2(size))), 1023.0)  # the largest power there is
        moments = replace(_sums(rows / unit, cross), unit=unit, has_sparse=moments.has_sparse)
    return moments


def _sums(rows: Any, cross: bool) -> Moments:
    with np.errstate(over="ignore", invalid="ignore"):
        if cross:
            return _cross_products(rows)
        return _sparse_squares(rows) if is_sparse(rows) else _dense_squares(rows)


def cut(rows: Any, at_least: int) -> Iterator[Any]:
    """Return as many rows at a time as stay in the cache, and not fewer than asked for."""
    step = max(_settings.SETTINGS.piece // max(rows.shape[1], 1), at_least)
    return (rows[i : i + step] for i in range(0, rows.shape[0], step))


def row_pieces(rows: Any, at_least: int = 1) -> Iterator[Any]:
    """Return some rows at a time, in double precision; sparse ones dense unless mostly zero."""
    for piece in cut(rows.tocsr() if is_sparse(rows) else rows, at_least):
        if is_sparse(piece) and piece.nnz > _settings.SETTINGS.mostly_zero * np.prod(piece.shape):
            piece = piece.toarray()
        yield piece.astype(np.float64, copy=False)


def _cross_products(rows: Any) -> Moments:
    """Compute cross-products about the mean from those about zero or, near it, about an estimate.

    Digits are lost where the mean is much larger than the spread about it.
    """
    moments, lost = _cross_about(rows, np.zeros(rows.shape[1]))
    while lost:  # once, or twice if the first rows are not like the others
        moments, lost = _cross_about(rows, moments.mean)
    return moments


def _cross_about(rows: Any, about: Array) -> tuple[Moments, bool]:
    """Return moments from cross-products about some place, and whether that is too far away.

    In that case they are those of the first rows only, nearly always.
    """
    p, centred = rows.shape[1], bool(about.any())
    n, total, product = 0, np.zeros(p), np.zeros((p, p))
    # so many rows at a time that sums of cross-products are few
    for piece in row_pieces(rows, int(_settings.SETTINGS.rows_per_column * p)):
        if centred:
            piece = as_dense(piece) - about
        product += as_dense(piece.T @ piece)
        total += np.ones(piece.shape[0]) @ piece
        n += piece.shape[0]
        if n not in (piece.shape[0], rows.shape[0]):
            continue  # the first rows show it where the last ones do, nearly always
        squares = np.diagonal(product)
        lost = (n * squares < (1 + _SPREAD) * total * total) & (
            np.abs(total) > ROUNDING * n * np.abs(about)
        )
        if lost.any() and np.isfinite(squares).all():
            return Moments(n, about + total / n, product), True
    mean = total / n
    add_outer(product, mean, -n)
    return Moments(n, about + mean, product), False


def _dense_squares(rows: Array) -> Moments:
    """Compute sums of squares, of tiles that stay in the cache."""
    n, p = rows.shape
    # few rows and many columns: all rows of some columns, so that nothing needs to be merged
    width = max(_settings.SETTINGS.piece // n, 512)
    tiles = [
        merge_moments(_about_mean(piece) for piece in row_pieces(rows[:, j : j + width]))
        for j in range(0, p, width)
    ]
    mean, squares = zip(*((tile.mean, tile.scatter) for tile in tiles), strict=True)
    return Moments(n, np.concatenate(mean), np.concatenate(squares))


def _about_mean(piece: Array) -> Moments:
    """Compute moments of a few rows with an estimate of the mean subtracted first.

    Sums of many equal numbers are rounded the same way again and again; unless corrected by what
    the estimate was off by, constant columns would seem to vary.
    """
    weights = np.full(len(piece), 1 / len(piece))
    mean = weights @ piece
    centred = piece - mean
    rest = weights @ centred
    squares = np.einsum("ij,ij->j", centred, centred) - len(piece) * rest * rest
    return Moments(len(piece), mean + rest, squares)


def _sparse_squares(rows: Any) -> Moments:
    """Compute sums of squares about the mean, to which zeros that are not stored add up."""
    n, p = rows.shape
    index = rows.indices
    if rows.format != "csr":
        rows = rows.tocsc()
        index = np.repeat(np.arange(p), np.diff(rows.indptr))
    data = rows.data.astype(np.float64, copy=False)
    mean = np.bincount(index, weights=data, minlength=p) / n
    squares = np.bincount(index, weights=(data - mean[index]) ** 2, minlength=p)
    zeros = n - np.bincount(index, minlength=p)
    return Moments(n, mean, squares + zeros * mean**2)


def add_outer(matrix: Array, v: Array, weight: float) -> None:
    """Add ``weight v v'``, or its diagonal, without another matrix of that size."""
    if weight == 0:
        return
    if matrix.ndim == 1:
        matrix += weight * v * v
        return
    step = max(1, _settings.SETTINGS.piece // max(v.size, 1))
    for i in range(0, v.size, step):
        matrix[i : i + step] += np.multiply.outer(weight * v[i : i + step], v)
