"""Sufficient statistics that can be gathered in pieces and merged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from ebcd._numerics import Array
from ebcd.data._matrix import checked_sparse, is_sparse

_PIECE = 250_000  # entries that are worked on at once
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
        return self.add_rows(rows) if rows.shape[0] else self

    def add_rows(self, rows: Any) -> Self:
        """Add rows that have been checked, but for entries that are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            sums = None if self._far else _sums_about_zero(rows)
            self._far = sums is None  # once means are large, they will be in other chunks
            mean, scatter = sums or _sums_about_mean(rows)
        self._merge(rows.shape[0], mean, scatter)
        return self

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

    def to_arrays(self) -> dict[str, Any]:
        """Return the statistics as plain arrays and numbers, to store them.

        Examples
        --------
        >>> from ebcd import Gram
        >>> gram = Gram().update([[1.0, 2.0], [3.0, 5.0]])
        >>> Gram.from_arrays(**gram.to_arrays())
        Gram(2 samples, 2 features)
        """
        return {"n_samples": self.n_samples, "mean": self.mean, "scatter": self.scatter}

    @classmethod
    def from_arrays(cls, n_samples: int, mean: Array, scatter: Array) -> Self:
        """Return the statistics that `to_arrays` stored."""
        mean, scatter = np.array(mean, dtype=float), np.array(scatter, dtype=float)
        if n_samples < 0 or mean.ndim != 1 or scatter.shape != (mean.size, mean.size):
            raise ValueError(
                f"statistics of {n_samples} rows with a mean of shape {mean.shape} and "
                f"cross-products of shape {scatter.shape} do not fit together"
            )
        gram = cls()
        gram.n_samples, gram.mean, gram.scatter = int(n_samples), mean, scatter
        return gram

    def __repr__(self) -> str:
        return f"Gram({self.n_samples} samples, {self.mean.size} features)"


def _as_rows(chunk: Any) -> Any:
    array = checked_sparse(chunk).tocsr() if is_sparse(chunk) else np.asarray(chunk)
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


def _pieces(rows: Any) -> Iterator[Any]:
    """Give as many rows at once as stay in the cache, but enough for p x p sums to be few."""
    n, p = rows.shape
    step = max(_PIECE // max(p, 1), p // 4, 1)
    for i in range(0, n, step):
        piece = rows[i : i + step]
        if not is_sparse(piece):
            yield np.ascontiguousarray(piece, dtype=np.float64)
        elif piece.nnz > _SPARSE * piece.shape[0] * p:
            yield piece.toarray().astype(np.float64, copy=False)
        else:
            yield piece.astype(np.float64, copy=False)


def _sums_about_zero(rows: Any) -> tuple[Array, Array] | None:
    """Give the mean, and cross-products about it from those about zero.

    None if digits would be lost since some mean is much larger than the spread about it.
    """
    n, p = rows.shape
    total, product = np.zeros(p), np.zeros((p, p))
    for piece in _pieces(rows):
        cross = piece.T @ piece  # comes first: it does not wait for memory
        product += cross.toarray() if is_sparse(cross) else cross
        total += np.ones(piece.shape[0]) @ piece
    check_finite(rows, np.diagonal(product))
    mean = total / n
    if (np.diagonal(product) < (1 + _SPREAD) * n * mean * mean).any():
        return None
    add_outer(product, mean, -n)
    return mean, product


def _sums_about_mean(rows: Any) -> tuple[Array, Array]:
    """Give the mean, and cross-products about it, with the mean subtracted first."""
    part = Gram()
    for piece in _pieces(rows):
        dense = piece.toarray() if is_sparse(piece) else piece
        mean = np.ones(len(dense)) @ dense / len(dense)
        centred = dense - mean
        part._merge(len(dense), mean, centred.T @ centred)
    check_finite(rows, np.diagonal(part.scatter))
    return part.mean, part.scatter


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
