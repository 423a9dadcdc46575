"""Sufficient statistics that can be gathered in pieces and merged."""

from __future__ import annotations

from typing import Any, Self

from ebcd._numerics import Array
from ebcd._parameters import shown
from ebcd.data._moments import Moments, block_moments, checked_rows, no_moments
from ebcd.data._rows import check_names, texts_of


class Gram:
    """Number of rows, mean and centered cross-products of data that arrive in chunks.

    Chunks may arrive in any order and from any number of machines, and accumulators are merged with
    ``+`` or ``sum``. The result can be passed to ``fit`` of any estimator that needs only a
    covariance. If chunks are data frames, all must have the same columns in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd import Gram
    >>> X = np.random.default_rng(0).normal(size=(10, 3))
    >>> gram = Gram().update(X[:4]) + Gram().update(X[4:])
    >>> bool(np.allclose(gram.scatter / 10, np.cov(X.T, bias=True)))
    True
    """

    feature_names: list[str] | None = None  # of the columns, if chunks have had any

    def __init__(self) -> None:
        self._moments = no_moments(0, cross=True)

    @property
    def n_samples(self) -> int:
        """Number of rows seen."""
        return self._moments.count

    @property
    def mean(self) -> Array:
        """Mean of every column."""
        return self._moments.mean * (self._moments.unit or 1.0)

    @property
    def scatter(self) -> Array:
        """Cross-products of the columns about their means."""
        unit = self._moments.unit
        return self._moments.scatter * unit**2 if 0 < unit != 1 else self._moments.scatter

    def update(self, chunk: Any) -> Self:
        """Add rows.

        Parameters
        ----------
        chunk : array-like, sparse matrix or data frame of shape (n, p)
            Rows of the data; finite numbers.

        Returns
        -------
        Gram
            Itself.
        """
        rows = checked_rows(chunk)
        if self.n_samples and rows.shape[1] != self._moments.mean.size:
            raise ValueError(
                f"chunk has {rows.shape[1]} columns, but the chunks before had "
                f"{self._moments.mean.size}"
            )
        if rows.shape[0]:
            self._add(block_moments(rows, cross=True), texts_of(chunk), "the chunk")
        return self

    def _add(self, moments: Moments, names: list[str] | None, what: str) -> None:
        """Add moments of further rows, which are ours from now on; columns must be the same."""
        check_names(names, self.feature_names, what)
        moments.check()
        self.feature_names = self.feature_names or names
        if self.n_samples:
            self._moments.add(moments)
        else:
            self._moments = moments

    def merge(self, other: Gram) -> Self:
        """Add the rows of another accumulator."""
        if not isinstance(other, Gram):
            raise TypeError(f"other must be a Gram, got {shown(other)} ({type(other).__name__})")
        if self.n_samples and other.n_samples and self.mean.size != other.mean.size:
            raise ValueError(
                f"cannot merge a Gram of {other.mean.size} columns into one of {self.mean.size}"
            )
        if other.n_samples:
            self._add(other._moments.copy(), other.feature_names, "other")
        return self

    def __add__(self, other: Gram) -> Gram:
        if not isinstance(other, Gram):
            return NotImplemented
        return Gram().merge(self).merge(other)

    def __radd__(self, other: Any) -> Gram:
        """Add to the 0 with which `sum` begins."""
        return Gram().merge(self) if isinstance(other, int) and other == 0 else NotImplemented

    def __repr__(self) -> str:
        return f"Gram({self.n_samples} samples, {self.mean.size} features)"
