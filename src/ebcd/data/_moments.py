"""Means, variances and cross-products: once, for matrices, chunks and Dask blocks alike.

Moments of some rows are computed by `block_moments` and merged in any order (Chan, Golub and
LeVeque 1983):

    (1)  n = n_1 + n_2,   d = m_2 - m_1,   m = m_1 + d n_2 / n,
    (2)  C = C_1 + C_2 + d d' n_1 n_2 / n.

Entries that are NaN or infinite are found in the sums, which are fewer, and reported together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data import _settings

# Squared deviation over squared mean from which cross-products about zero keep their digits.
_SPREAD = 1e-2
# Sums of squares, and entries, that are safe to work with in the units of the data.
_SAFE_SQUARES = (1e-200, 1e200)
_SAFE_ENTRIES = (1e-100, 1e100)
# Magnitude of entries whose squares are numbers.
_SMALLEST, _LARGEST = 1e-153, 1e153


def is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix or array of SciPy."""
    return bool(sparse.issparse(x))


def checked_sparse(x: Any) -> Any:
    """Return a sparse matrix by rows or columns whose entries are where they claim to be.

    Products with indices out of range read, or write, memory that is not theirs. `x` is left as it
    is: the check works on a shallow copy, and entries stored in parts are added up in another one.
    """
    try:
        x = x if x.format in ("csr", "csc") else _checked_coordinates(x.tocoo(copy=True)).tocsr()
        checked = type(x)((x.data, x.indices, x.indptr), shape=x.shape, copy=False)
        checked.check_format(full_check=True)
    except (ValueError, IndexError) as error:
        raise ValueError(
            f"X is a damaged sparse matrix: {error}; was it changed after it was made?"
        ) from None
    if not checked.has_canonical_format:
        checked = checked.copy()
        checked.sum_duplicates()
    return checked


def _checked_coordinates(x: Any) -> Any:
    for places, size in zip(x.coords, x.shape, strict=True):
        if places.size and not (places.min() >= 0 and places.max() < size):
            raise ValueError(f"an index is outside of 0 to {size - 1}")
    return x


@dataclass(frozen=True)
class BadEntries:
    """Entries that are NaN or infinite.

    Attributes
    ----------
    counts : array of length p
        How many there are in each column.
    first : tuple of int
        Row and column of the first one.
    nan : bool
        Whether one of them is NaN.
    """

    counts: np.ndarray
    first: tuple[int, int]
    nan: bool

    @classmethod
    def of(cls, rows: Any, first_row: int = 0) -> Self | None:
        """Look for bad entries in rows that begin with number `first_row`; None if all is well."""
        values = rows.data if is_sparse(rows) else rows
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(np.sum(values)) or np.isfinite(values).all():
                return None
        if is_sparse(rows):
            stored = rows.tocoo()
            bad = ~np.isfinite(stored.data)
            places = np.stack([stored.coords[0][bad], stored.coords[1][bad]], axis=1)
            places = places[np.lexsort(places.T[::-1])]
        else:
            places = np.argwhere(~np.isfinite(rows))
        counts = np.bincount(places[:, 1], minlength=rows.shape[1])
        row, column = (int(index) for index in places[0])
        return cls(counts, (first_row + row, column), bool(np.isnan(values).any()))

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
            "columns, or fill them in, for example with sklearn.impute.SimpleImputer or fillna of "
            "a data frame"
        )


def check_finite(rows: Any, names: Any = None, first_row: int = 0) -> None:
    """Raise if an entry is NaN or infinite, with its place."""
    bad = BadEntries.of(rows, first_row)
    if bad is not None:
        raise bad.error(names, first_row + rows.shape[0] if first_row else None)


@dataclass
class Moments:
    """Number of rows, means and products about the means, of rows that are added in any order.

    Attributes
    ----------
    count : int
        Number of rows.
    mean : array of length p
    scatter : array, p x p or of length p
        Cross-products about the mean, or their diagonal only.
    unit : float
        Power of two that `mean` is given in, and its square `scatter`; 1 unless entries are so
        large or small that squares would not be numbers, 0 if all entries are zero.
    bad : BadEntries, optional
        Entries that are no numbers; then the sums are not to be used.
    has_sparse : bool
        Whether some rows were stored as a sparse matrix.
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
            self.bad = _merged_bad(self.bad, other.bad, self.count)
        total = self.count + other.count
        if total == 0 or self.bad is not None:
            self.count = total
            return
        mean, scatter = self._share_units(other)
        shift = mean - self.mean
        self.scatter += scatter
        add_outer(self.scatter, shift, self.count * other.count / total)
        self.mean = self.mean + shift * (other.count / total)
        self.count, self.has_sparse = total, self.has_sparse or other.has_sparse

    def _share_units(self, other: Moments) -> tuple[Array, Array]:
        """Turn to the larger of two units; return the mean and products of `other` in it."""
        if self.unit == other.unit:
            return other.mean, other.scatter
        unit = max(self.unit, other.unit)
        own, theirs = self.unit / unit, other.unit / unit
        self.mean, self.scatter, self.unit = self.mean * own, self.scatter * own**2, unit
        return other.mean * theirs, other.scatter * theirs**2

    def copy(self) -> Moments:
        """Return moments whose arrays can be added to."""
        return Moments(
            self.count, self.mean, self.scatter.copy(), self.unit, self.bad, self.has_sparse
        )

    def check(self, names: Any = None, rows_read: int | None = None) -> None:
        """Raise if there are entries that are no numbers or cannot be squared, or no rows."""
        if self.bad is not None:
            raise self.bad.error(names, rows_read)
        if self.count == 0:
            raise ValueError("X has no rows; a minimum of 1 is required")
        if self.unit > _LARGEST:
            raise ValueError(
                f"X has entries as large as {self.unit:.3g}, too large to square; divide it by "
                "some unit"
            )
        if 0 < self.unit < _SMALLEST:
            raise ValueError(
                f"X has no entries much above {self.unit:.3g}, too small to square; divide it by "
                "some unit"
            )


def _merged_bad(first: BadEntries | None, second: BadEntries, offset: int) -> BadEntries:
    if first is not None:
        return BadEntries(first.counts + second.counts, first.first, first.nan or second.nan)
    row, column = second.first
    return BadEntries(second.counts, (row + offset, column), second.nan)


def no_moments(n_features: int, cross: bool) -> Moments:
    """Return the moments of no rows."""
    shape = (n_features, n_features) if cross else n_features
    return Moments(0, np.zeros(n_features), np.zeros(shape), unit=0.0)


def merge_moments(parts: list[Moments]) -> Moments:
    """Merge the moments of several blocks, one below the other."""
    merged = parts[0].copy()
    for part in parts[1:]:
        merged.add(part)
    return merged


def block_moments(rows: Any, cross: bool) -> Moments:
    """Compute the moments of some rows; with all cross-products if `cross`."""
    count, p = rows.shape
    if count == 0:
        return no_moments(p, cross)
    moments = Moments(count, *_sums(rows, cross), has_sparse=is_sparse(rows))
    low, high = _SAFE_SQUARES
    if low < moments.squares.max(initial=0.0) < high:
        return moments
    moments.bad = BadEntries.of(rows)
    if moments.bad is not None:
        return moments
    size = _largest(rows)
    low, high = _SAFE_ENTRIES
    if size == 0:
        moments.unit = 0.0
    elif not low < size < high:
        moments.unit = float(2.0 ** np.round(np.log2(size)))
        moments.mean, moments.scatter = _sums(rows / moments.unit, cross)
    return moments


def _largest(rows: Any) -> float:
    if is_sparse(rows):
        return float(np.abs(rows.data).max(initial=0.0))
    return max(float(np.abs(piece).max(initial=0.0)) for piece in row_pieces(rows))


def _sums(rows: Any, cross: bool) -> tuple[Array, Array]:
    with np.errstate(over="ignore", invalid="ignore"):
        if cross:
            return _cross_about_zero(rows) or _cross_about_mean(rows)
        return _sparse_squares(rows) if is_sparse(rows) else _dense_squares(rows)


def row_pieces(rows: Any, at_least: int = 1) -> Iterator[Any]:
    """Return some rows at a time, in double precision; sparse ones dense unless mostly zero."""
    n, p = rows.shape
    step = max(_settings.SETTINGS.piece // max(p, 1), at_least)
    rows = rows.tocsr() if is_sparse(rows) else rows
    for i in range(0, n, step):
        piece = rows[i : i + step]
        if is_sparse(piece) and piece.nnz > _settings.SETTINGS.mostly_zero * piece.shape[0] * p:
            piece = piece.toarray()
        yield piece.astype(np.float64, copy=False)


def _cross_about_zero(rows: Any) -> tuple[Array, Array] | None:
    """Return the mean, and cross-products about it from those about zero.

    None if digits would be lost since some mean is much larger than the spread about it.
    """
    p = rows.shape[1]
    n, total, product = 0, np.zeros(p), np.zeros((p, p))
    for piece in row_pieces(rows, at_least=p // 4):  # so that p x p sums are few
        cross = piece.T @ piece  # comes first: it does not wait for memory
        product += cross.toarray() if is_sparse(cross) else cross
        total += np.ones(piece.shape[0]) @ piece
        n += piece.shape[0]
        squares = np.diagonal(product)
        if (n * squares < (1 + _SPREAD) * total * total).any() and np.isfinite(squares).all():
            return None
    mean = total / n
    add_outer(product, mean, -n)
    return mean, product


def _cross_about_mean(rows: Any) -> tuple[Array, Array]:
    """Return the mean, and cross-products about it, with the mean subtracted first."""
    moments = no_moments(rows.shape[1], cross=True)
    for piece in row_pieces(rows, at_least=rows.shape[1] // 4):
        mean, centred, rest = _centred(piece.toarray() if is_sparse(piece) else piece)
        product = centred.T @ centred
        add_outer(product, rest, -len(centred))
        moments.add(Moments(len(centred), mean, product))
    return moments.mean, moments.scatter


def _centred(piece: Array) -> tuple[Array, Array, Array]:
    """Return the mean, the rows less an estimate of it, and what the estimate was off by.

    Sums of many equal numbers are rounded the same way again and again; without the correction,
    constant columns would seem to vary.
    """
    weights = np.full(len(piece), 1 / len(piece))
    mean = weights @ piece
    centred = piece - mean
    rest = weights @ centred
    return mean + rest, centred, rest


def _dense_squares(rows: Array) -> tuple[Array, Array]:
    """Return means and sums of squares about them, of tiles that stay in the cache."""
    n, p = rows.shape
    # few rows and many columns: all rows of some columns, so that nothing needs to be merged
    width = min(p, max(_settings.SETTINGS.piece // n, 512))
    if width == p and rows.size <= _settings.SETTINGS.piece:
        return _tile_squares(rows.astype(np.float64, copy=False))
    mean, squares = np.empty(p), np.empty(p)
    for j in range(0, p, width):
        columns = slice(j, j + width)
        moments = no_moments(min(width, p - j), cross=False)
        for piece in row_pieces(rows[:, columns]):
            moments.add(Moments(len(piece), *_tile_squares(piece)))
        mean[columns], squares[columns] = moments.mean, moments.scatter
    return mean, squares


def _tile_squares(piece: Array) -> tuple[Array, Array]:
    mean, centred, rest = _centred(piece)
    squares = np.einsum("ij,ij->j", centred, centred) - len(piece) * rest * rest
    return mean, np.maximum(squares, 0.0)


def _sparse_squares(rows: Any) -> tuple[Array, Array]:
    """Return means and sums of squares about them, of which zeros are not stored."""
    n, p = rows.shape
    index = rows.indices
    if rows.format != "csr":
        rows = rows.tocsc()
        index = np.repeat(np.arange(p), np.diff(rows.indptr))
    data = rows.data.astype(np.float64, copy=False)
    mean = np.bincount(index, weights=data, minlength=p) / n
    squares = np.bincount(index, weights=(data - mean[index]) ** 2, minlength=p)
    zeros = n - np.bincount(index, minlength=p)
    return mean, squares + zeros * mean**2


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
