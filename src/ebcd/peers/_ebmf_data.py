"""Data of a factorisation: products with both sides, whether or not entries are missing.

Side 0 are the samples (scores), side 1 the features (loadings). Vectors are rows: ``k x n`` scores
and ``k x p`` loadings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ebcd._numerics import Array
from ebcd.data import checked_sparse, column_moments, is_sparse, refuse_queries, working_unit
from ebcd.data._moments import row_pieces


class AbstractObservations(ABC):
    """Centred data in working units, entries near one.

    Attributes
    ----------
    shape : tuple of int
        Numbers of samples and of features.
    squares, counts : tuple of arrays
        Sum of squares, and number of observed entries, of every sample and of every feature.
    """

    shape: tuple[int, int]
    squares: tuple[Array, Array]
    counts: tuple[Array, Array]

    @abstractmethod
    def product(self, side: int, rows: Array) -> Array:
        """Product of the data with vectors of the other side; missing entries count as zero."""

    @abstractmethod
    def total(self, side: int, row: Array) -> Array:
        """Sum of `row`, of the other side, over the entries that are observed.

        One number for each place on `side`, or a single one if they are all the same.
        """

    @abstractmethod
    def fitted_along(self, side: int, rows: Array, row: Array, target: Array) -> Array:
        """Product of the low-rank matrix of `rows` and `target` with `row` of the other side."""

    @abstractmethod
    def residual(self, side: int, mean: tuple[Array, Array], product: Array) -> Array:
        """Sum of squared residuals of the product of means, for each place on `side`.

        `product` is the product of the data with the means of the other side.
        """


class CompleteObservations(AbstractObservations):
    """Data without missing entries, dense or sparse; neither copied nor changed."""

    def __init__(self, x: Any, mean: Array, variances: Array, unit: float) -> None:
        self._x, self._mean, self._unit = x, mean / unit, unit
        n, p = self.shape = x.shape
        self.squares = _row_squares(x, mean, unit), n * (variances / unit / unit)
        self.counts = np.full(n, float(p)), np.full(p, float(n))

    def product(self, side: int, rows: Array) -> Array:
        """Product of the data with vectors of the other side."""
        x = self._x if side == 0 else self._x.T
        product = np.ascontiguousarray(np.asarray(x @ (rows / self._unit).T).T)
        if self._mean.any():
            if side == 0:
                product -= (rows @ self._mean)[:, None]
            else:
                product -= np.outer(rows.sum(axis=1), self._mean)
        return product

    def total(self, side: int, row: Array) -> Array:
        """Sum of `row`."""
        return np.asarray(row.sum())

    def fitted_along(self, side: int, rows: Array, row: Array, target: Array) -> Array:
        """Product of the low-rank matrix of `rows` and `target` with `row` of the other side."""
        return np.asarray((rows @ row) @ target)

    def residual(self, side: int, mean: tuple[Array, Array], product: Array) -> Array:
        """Sum of squared residuals, from inner products: no residual is formed."""
        here, there = mean[side], mean[1 - side]
        fitted = (there @ there.T) @ here - 2 * product
        return np.asarray(np.maximum(self.squares[side] + (here * fitted).sum(axis=0), 0.0))


class IncompleteObservations(AbstractObservations):
    """Dense data of which some entries are missing (NaN)."""

    def __init__(self, x: Array, mean: Array, unit: float) -> None:
        self.shape = x.shape
        seen = ~np.isnan(x)
        self._seen = seen.astype(np.float64)
        self._filled = np.where(seen, (x - mean) / unit, 0.0)
        squares = self._filled**2
        self.squares = squares.sum(axis=1), squares.sum(axis=0)
        self.counts = self._seen.sum(axis=1), self._seen.sum(axis=0)

    def product(self, side: int, rows: Array) -> Array:
        """Product of the observed data with vectors of the other side."""
        return np.asarray(rows @ (self._filled.T if side == 0 else self._filled))

    def total(self, side: int, row: Array) -> Array:
        """Sum of `row` over the entries that are observed, for each place on `side`."""
        return np.asarray(row @ (self._seen.T if side == 0 else self._seen))

    def fitted_along(self, side: int, rows: Array, row: Array, target: Array) -> Array:
        """Product of the observed low-rank matrix with `row` of the other side."""
        return np.asarray((self.total(side, rows * row) * target).sum(axis=0))

    def residual(self, side: int, mean: tuple[Array, Array], product: Array) -> Array:
        """Sum of squared residuals of the entries that are observed."""
        residual = self._filled - self._seen * (mean[0].T @ mean[1])
        return np.asarray((residual**2).sum(axis=1 - side))


def checked_data(estimator: Any, X: Any, reset: bool) -> Any:
    """Check data, of which dense entries may be missing."""
    refuse_queries(X)
    X = validate_data(
        estimator,
        checked_sparse(X) if is_sparse(X) else X,
        reset=reset,
        accept_sparse=("csr", "csc"),
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
    )
    values = X.data if is_sparse(X) else X
    if np.isinf(values).any():
        raise ValueError("Input X contains infinity; replace it, by NaN if the entry is unknown")
    missing = np.isnan(values)
    if not missing.any():
        return X
    if is_sparse(X):
        raise ValueError(
            "Input X contains NaN, which only dense data may; entries that a sparse matrix does "
            "not store are zeros. Use X.toarray() to have missing entries"
        )
    for axis, name in ((1, "row"), (0, "column")):
        if reset or axis == 1:
            empty = np.flatnonzero(missing.all(axis=axis))
            if empty.size:
                raise ValueError(
                    f"{name} {empty[0]} of X has no entry that is not missing (NaN), and there are "
                    f"{empty.size} such {name}s; drop them"
                )
    return X


def observe(x: Any, center: bool) -> tuple[AbstractObservations, Array, float]:
    """Give the data, what was subtracted from the features, and the working unit."""
    if not is_sparse(x) and np.isnan(x).any():
        return _observe_incomplete(x, center)
    mean, variances = column_moments(x, center)
    unit = working_unit(variances)
    return CompleteObservations(x, mean, variances, unit), mean, unit


def _observe_incomplete(x: Array, center: bool) -> tuple[AbstractObservations, Array, float]:
    mean = np.nanmean(x, axis=0) if center else np.zeros(x.shape[1])
    size = float(np.nanmax(np.abs(x - mean)))
    size = float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0
    unit = size * working_unit(np.nanmean(((x - mean) / size) ** 2, axis=0))
    return IncompleteObservations(x, mean, unit), mean, unit


def observe_again(x: Any, mean: Array, unit: float) -> AbstractObservations:
    """Give other data, centred and in units as the ones before."""
    if not is_sparse(x) and np.isnan(x).any():
        return IncompleteObservations(x, mean, unit)
    own, variances = column_moments(x, True)
    return CompleteObservations(x, mean, variances + (own - mean) ** 2, unit)


def _row_squares(x: Any, mean: Array, unit: float) -> Array:
    """Give the sums of squares of the rows of ``(x - mean) / unit``."""
    if not is_sparse(x):
        return np.concatenate([(((b - mean) / unit) ** 2).sum(axis=1) for b in row_pieces(x)])
    scaled, shift = x / unit, mean / unit
    own = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
    return np.asarray(own - 2 * (scaled @ shift) + shift @ shift)
