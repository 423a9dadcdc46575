"""Sufficient statistics that can be gathered in pieces and merged."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ebcd._numerics import Array
from ebcd.data._matrix import is_sparse

_PIECE = 125_000  # entries that are worked on at once
_SPARSE = 0.05  # share of entries up to which a product of sparse matrices is faster
_SPREAD = 1e-2  # squared deviation over squared mean above which the mean need not go first


class Gram:
    """Number of rows, mean and centred cross-products of data that come in chunks.

    Chunks may come in any order and from any number of machines; accumulators are merged with
    ``+``. The result can be given to ``fit`` of any estimator that needs only a covariance.

    Attributes
    ----------
    n_samples : int
        Number of rows seen.
    mean : ndarray
        Mean of every column.
    scatter : ndarray
        Cross-products of the columns about their means.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd import Gram
    >>> X = np.random.default_rng(0).normal(size=(10, 3))
    >>> gram = Gram().update(X[:4]) + Gram().update(X[4:])
    >>> bool(np.allclose(gram.scatter / 10, np.cov(X.T, bias=True)))
    True
    """

    def __init__(self) -> None:
        self.n_samples = 0
        self.mean: Array = np.empty(0)
        self.scatter: Array = np.empty((0, 0))
        self._far = False  # whether means are large beside the spread

    def update(self, chunk: Any) -> Self:
        """Add rows.

        Parameters
        ----------
        chunk : array-like or sparse matrix of shape (n, p)
            Rows of the data; finite numbers.

        Returns
        -------
        Gram
            Itself.
        """
        rows = _as_rows(chunk)
        if self.n_samples and rows.shape[1] != self.mean.size:
            raise ValueError(
                f"chunk has {rows.shape[1]} columns, but the chunks before had {self.mean.size}"
            )
        if rows.shape[0] <= piece_rows(rows):
            return self.add_rows(rows)
        return self.merge(Gram().add_rows(rows))  # if it fails, nothing has changed here

    def add_rows(self, rows: Any) -> Self:
        """Add rows that have been checked, but for entries that are not finite."""
        step = piece_rows(rows)
        for i in range(0, rows.shape[0], step):
            try:
                self._merge(*self._moments(rows[i : i + step]))
            except NotFiniteError as error:
                raise NotFiniteError(error.row + i, error.column, error.kind) from None
        return self

    def _moments(self, rows: Any) -> tuple[int, Array, Array]:
        """Give the number of rows, their mean, and cross-products about it."""
        n = rows.shape[0]
        if is_sparse(rows):
            if rows.nnz <= _SPARSE * n * rows.shape[1]:
                rows = rows.astype(np.float64, copy=False)
                # means are small beside the spread, as most entries are zero
                return _about_mean(rows, rows.sum(axis=0) / n, (rows.T @ rows).toarray())
            rows = rows.toarray()
        rows = np.ascontiguousarray(rows, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.ones(n) @ rows / n
            if not self._far:
                product = rows.T @ rows
                level = n * mean * mean
                self._far = not bool((np.diagonal(product) >= (1 + _SPREAD) * level).all())
            if self._far:  # cancellation: the mean must be subtracted first
                centred = rows - mean
                product = centred.T @ centred
                check_finite(rows, np.diagonal(product))
                return n, mean, product
        return _about_mean(rows, mean, product)

    def merge(self, other: Gram) -> Self:
        """Add what another accumulator has seen."""
        if self.n_samples and other.n_samples and self.mean.size != other.mean.size:
            raise ValueError(
                f"cannot merge a Gram of {other.mean.size} columns into one of {self.mean.size}"
            )
        if other.n_samples:
            self._merge(other.n_samples, other.mean, other.scatter.copy())
        return self

    def __add__(self, other: Gram) -> Gram:
        if not isinstance(other, Gram):
            return NotImplemented
        return Gram().merge(self).merge(other)

    def _merge(self, n: int, mean: Array, scatter: Array) -> None:
        """Add statistics of further rows; `scatter` is ours from now on."""
        total = self.n_samples + n
        if self.n_samples == 0:
            self.mean, self.scatter = np.array(mean), scatter
        else:
            shift = mean - self.mean
            self.scatter += scatter
            add_outer(self.scatter, shift, self.n_samples * n / total)
            self.mean = self.mean + shift * (n / total)
        self.n_samples = total

    def __repr__(self) -> str:
        return f"Gram({self.n_samples} samples, {self.mean.size} features)"


def _as_rows(chunk: Any) -> Any:
    array = chunk.tocsr() if is_sparse(chunk) else np.asarray(chunk)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"chunk must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"chunk must have rows and columns, got shape {array.shape}")
    return array


class NotFiniteError(ValueError):
    """An entry is NaN or infinite."""

    def __init__(self, row: int, column: int, kind: str) -> None:
        super().__init__(f"chunk has NaN or infinite entries, the first at [{row}, {column}]")
        self.row, self.column, self.kind = row, column, kind


def piece_rows(rows: Any) -> int:
    """Give how many rows to take at once: they stay in the cache, and p x p sums are few."""
    n, p = rows.shape
    entries = int(rows.nnz) if is_sparse(rows) else n * p
    return int(max(_PIECE * n // max(entries, 1), p // 4, 1))


def _about_mean(rows: Any, mean: Array, product: Array) -> tuple[int, Array, Array]:
    check_finite(rows, np.diagonal(product))
    n = rows.shape[0]
    add_outer(product, mean, -n)
    return n, mean, product


def check_finite(rows: Any, squares: Array) -> None:
    """Look for entries that are not finite, in sums of squares since those are fewer."""
    if not np.isfinite(squares).all():
        raise_if_not_finite(rows)
        raise ValueError("the data have entries too large to square; divide them by some unit")


def raise_if_not_finite(rows: Any) -> None:
    """Raise with the place of the first entry that is NaN or infinite, if there is one."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(rows.data if is_sparse(rows) else rows)):
            return
    if is_sparse(rows):
        coordinates = rows.tocoo()
        bad = ~np.isfinite(coordinates.data)
        places = np.stack([coordinates.row[bad], coordinates.col[bad]], axis=1)
        values = coordinates.data[bad]
    else:
        places = np.argwhere(~np.isfinite(rows))
        values = rows[tuple(places.T)]
    if len(places):
        first = int(np.lexsort(places.T[::-1])[0])
        row, column = (int(index) for index in places[first])
        raise NotFiniteError(row, column, "NaN" if np.isnan(values).any() else "infinity")


def add_outer(matrix: Array, v: Array, weight: float) -> None:
    """Add ``weight v v'`` without another matrix of that size."""
    step = max(1, _PIECE // max(v.size, 1))
    for i in range(0, v.size, step):
        matrix[i : i + step] += np.multiply.outer(weight * v[i : i + step], v)
