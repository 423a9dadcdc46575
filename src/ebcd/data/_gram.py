"""Sufficient statistics that can be gathered in pieces and merged."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ebcd._numerics import Array
from ebcd.data._matrix import is_sparse


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
        if rows.shape[0]:
            mean = rows.mean(axis=0)
            centred = rows - mean
            self._merge(rows.shape[0], mean, centred.T @ centred)
        return self

    def merge(self, other: Gram) -> Self:
        """Add what another accumulator has seen."""
        if self.n_samples and other.n_samples and self.mean.size != other.mean.size:
            raise ValueError(
                f"cannot merge a Gram of {other.mean.size} columns into one of {self.mean.size}"
            )
        if other.n_samples:
            self._merge(other.n_samples, other.mean, other.scatter)
        return self

    def __add__(self, other: Gram) -> Gram:
        if not isinstance(other, Gram):
            return NotImplemented
        return Gram().merge(self).merge(other)

    def _merge(self, n: int, mean: Array, scatter: Array) -> None:
        if self.n_samples == 0:
            self.n_samples, self.mean, self.scatter = n, mean.copy(), scatter.copy()
            return
        total = self.n_samples + n
        shift = mean - self.mean
        self.scatter = (
            self.scatter + scatter + np.outer(shift, shift) * (self.n_samples * n / total)
        )
        self.mean = self.mean + shift * (n / total)
        self.n_samples = total

    def __repr__(self) -> str:
        return f"Gram({self.n_samples} samples, {self.mean.size} features)"


def _as_rows(chunk: Any) -> Array:
    array = np.asarray(chunk.toarray() if is_sparse(chunk) else chunk)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"chunk must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 2:
        raise ValueError(f"chunk must have rows and columns, got shape {array.shape}")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"chunk has NaN or infinite entries, the first at [{row}, {column}]")
    return array
