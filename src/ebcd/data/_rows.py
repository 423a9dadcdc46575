"""Rows of data, wherever they are, and their covariance through products with them.

A kind of input is one class with three methods: the moments of its columns, one product, and a map
from its rows to other rows. Centring and scaling never touch the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ebcd._numerics import Array
from ebcd.data import _settings
from ebcd.data._covariance import AbstractCovariance, CovarianceMatrix, top_pairs, working_unit
from ebcd.data._moments import Moments, add_outer, block_moments, check_finite, is_sparse

# What a map does with the rows of some columns; sums over those columns go to what finishes it.
Part = Callable[[Any, slice], Array]
Finish = Callable[[Array], Array]


class AbstractRows(ABC):
    """Data with one sample a row.

    Attributes
    ----------
    n_features : int
        Number of columns.
    n_rows : int or None
        Number of rows; None until a pass has counted them.
    names : list of str or None
        Names of the columns, if they have any.
    header : object, optional
        Something with those columns that scikit-learn can look at; no rows are needed.
    dtype : dtype
        Precision of products: single if the data are.
    has_sparse : bool
        Whether rows are stored as a sparse matrix.
    matrix : array or sparse matrix, optional
        The data, if they are one matrix in memory.
    gathers_later : bool
        Whether a covariance matrix may be formed once the number of components is known.
    lazy : bool
        Whether `map` returns something that is not computed yet.
    stamp : list or None
        What tells whether these are the same data in another process; None if nothing does.
    """

    n_features: int
    n_rows: int | None = None
    names: list[Any] | None = None
    header: Any = None
    dtype: Any = np.dtype(np.float64)
    has_sparse: bool = False
    matrix: Any = None
    gathers_later: bool = True
    lazy: bool = False
    stamp: list[Any] | None = None

    @abstractmethod
    def moments(self, cross: bool) -> Moments:
        """Compute means and squares about them, or all cross-products, in one pass.

        Entries that are NaN or infinite raise an error that says where they are.
        """

    @abstractmethod
    def product(self, v: Array, mean: Array, far: bool, weight: float) -> Array:
        """Compute ``weight v (X - mean)'(X - mean)`` for a matrix `v` of shape (k, n_features).

        The `mean` is that of the data, or zero. If it is `far` from zero, entries should be centred
        before they are multiplied.
        """

    @abstractmethod
    def map(self, part: Part, finish: Finish, shape: tuple[int, ...], dtype: Any = None) -> Any:
        """Compute something of every row: ``finish(part(rows, columns))``, stacked.

        Parameters
        ----------
        part : function
            Takes rows and which columns they have; its results add up over columns.
        finish : function
            Takes that sum.
        shape : tuple
            Shape of the result for one row.
        dtype : dtype, optional
            Type of the result; by default that of the data.
        """

    def gathers(self) -> bool:
        """Whether the first pass should add up all cross-products, so that no other is needed."""
        return False

    def together(self) -> AbstractRows:
        """Return the rows as one matrix if that is small and they are not yet."""
        return self

    def for_products(self, mean: Array, scale: Array) -> tuple[AbstractRows, Array, Array]:
        """Return rows to multiply with, and what is left to subtract from and divide them by."""
        return self, mean, scale

    def check_columns(self, estimator: Any, reset: bool) -> None:
        """Record number and names of the columns in an estimator, or compare them with those."""
        if self.header is not None:
            validate_data(estimator, self.header, reset=reset, skip_check_array=True)
            return
        known = getattr(estimator, "feature_names_in_", None)
        if reset:
            estimator.n_features_in_ = self.n_features
            if known is not None:
                del estimator.feature_names_in_
            if self.names is not None:
                estimator.feature_names_in_ = np.asarray(self.names, dtype=object)
        elif self.n_features != estimator.n_features_in_:
            raise ValueError(
                f"X has {self.n_features} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input"
            )


def names_of(header: Any) -> list[Any] | None:
    """Return the names of the columns of a data frame; None for what has none."""
    return list(header.columns) if hasattr(header, "columns") else None


class MatrixRows(AbstractRows):
    """A matrix in memory, dense or sparse; neither copied nor changed.

    Parameters
    ----------
    x : array or sparse matrix, n x p
        Checked numbers, but for entries that are not finite.
    header : object, optional
        What the matrix was made from, which may have names of columns.
    """

    def __init__(self, x: Any, header: Any = None) -> None:
        self.matrix, self.dtype, self.has_sparse = x, x.dtype, is_sparse(x)
        self.n_rows, self.n_features = x.shape
        self.header, self.names = header, names_of(header)

    def moments(self, cross: bool) -> Moments:
        """Compute them at once."""
        moments = block_moments(self.matrix, cross)
        moments.check(self.names)
        return moments

    def product(self, v: Array, mean: Array, far: bool, weight: float) -> Array:
        """Compute it through scores, whose means are subtracted instead of those of the data."""
        if far and not self.has_sparse:
            return centred_product(self.matrix, v, mean) * weight
        scores = self.scores(v, mean)
        scores *= weight
        return self.back(scores, mean)

    def scores(self, v: Array, mean: Array) -> Array:
        """``v (X - mean)'``."""
        scores = scores_of(self.matrix, v)
        if mean.any():
            scores -= (v @ mean)[:, None]
        return scores

    def back(self, scores: Array, mean: Array) -> Array:
        """``scores (X - mean)`` for the mean of the data, or zero."""
        if mean.any():
            scores = scores - scores.mean(axis=1, keepdims=True)
        return back_from(self.matrix, scores)

    def map(self, part: Part, finish: Finish, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Compute it for all rows at once."""
        check_finite(self.matrix, self.names)
        return finish(part(self.matrix, slice(None)))

    def gathers(self) -> bool:
        """Large data with so few columns that every fit needs their covariance."""
        rows, columns = self.matrix.shape
        few = columns <= min(rows, 2 * _settings.SETTINGS.expected_products)
        return few and rows * columns > _settings.SETTINGS.small and not self.has_sparse

    def for_products(self, mean: Array, scale: Array) -> tuple[AbstractRows, Array, Array]:
        """Copy small data: operators would cost more, and single precision stops fits early."""
        x = self.matrix
        if (x.nnz if self.has_sparse else x.size) > _settings.SETTINGS.small:
            return self, mean, scale
        if self.has_sparse:
            return MatrixRows(x.astype(np.float64, copy=False)), mean, scale
        return MatrixRows((x - mean) / scale), np.zeros_like(mean), np.ones_like(scale)

    def row_gram(self, mean: Array, scale: Array) -> Array:
        """Inner products of the centred and scaled rows."""
        rows, columns = self.matrix.shape
        gram = np.zeros((rows, rows))
        step = max(1, _settings.SETTINGS.piece // rows)
        for i in range(0, columns, step):
            part = slice(i, i + step)
            block = self.matrix[:, part]
            block = block.toarray() if self.has_sparse else block
            block = np.subtract(block, mean[part], dtype=np.float64) / scale[part]
            gram += block @ block.T
        return gram


def scores_of(x: Any, v: Array) -> Array:
    """``v x'``, in the precision of the data."""
    v = v.astype(x.dtype, copy=False)
    return np.asarray((x @ v.T).T if is_sparse(x) else v @ x.T, dtype=np.float64)


def back_from(x: Any, scores: Array) -> Array:
    """``scores x``, C-ordered, in the precision of the data."""
    scores = scores.astype(x.dtype, copy=False)
    product = (x.T @ scores.T).T if is_sparse(x) else scores @ x
    return np.ascontiguousarray(product, dtype=np.float64)


def centred_product(x: Array, v: Array, mean: Array) -> Array:
    """``v (x - mean)'(x - mean)``, with the mean subtracted from entries, in double precision."""
    product = np.zeros(v.shape)
    for piece in pieces(x):
        centred = centred_entries(piece, mean)
        product += back_from(centred, scores_of(centred, v))
    return product


def centred_entries(x: Array, mean: Array) -> Array:
    """``x - mean``, computed in double precision and returned in that of the data."""
    return np.subtract(x, mean, dtype=np.float64).astype(x.dtype, copy=False)


def block_product(x: Any, v: Array, mean: Array, far: bool) -> Array:
    """``v (x - mean)'(x - mean)`` for some rows, of which the `mean` need not be theirs.

    Through pieces that stay in the cache; sparse rows at once, as slices would be copies.
    """
    if far and not is_sparse(x):
        return centred_product(x, v, mean)
    shift, total = (v @ mean)[:, None], np.zeros(len(v))
    product = np.zeros(v.shape)
    for piece in [floating(x)] if is_sparse(x) else pieces(x):
        scores = scores_of(piece, v) - shift
        product += back_from(piece, scores)
        total += scores.sum(axis=1)
    product -= np.outer(total, mean)
    return product


def pieces(rows: Any) -> Iterator[Any]:
    """Return as many rows at a time as stay in the cache."""
    settings = _settings.SETTINGS
    step = max(settings.piece // rows.shape[1], settings.fewest_rows)
    for i in range(0, rows.shape[0], step):
        yield floating(rows[i : i + step])


def floating(rows: Any) -> Any:
    """Return rows in the precision they are worked with: single stays single."""
    dtype = np.float32 if rows.dtype == np.float32 else np.float64
    return rows.astype(dtype, copy=False)


class DataCovariance(AbstractCovariance):
    """Covariance of rows through products with them.

    Parameters
    ----------
    rows : AbstractRows
        The data.
    mean, scale : array of length p
        What is subtracted from each column, its mean or nothing, and what it is then divided by.
    variances : array of length p
        Mean squares of the columns after that.
    n_samples : int
        Number of samples; more than rows if those are a compact stand-in.
    """

    def __init__(
        self, rows: AbstractRows, mean: Array, scale: Array, variances: Array, n_samples: int
    ) -> None:
        self.n_samples, self.n_features = n_samples, rows.n_features
        self.unit = working_unit(variances)
        self._rows, self._mean, self._scale = rows.for_products(mean, scale * self.unit)
        self._copied = self._rows.matrix is not rows.matrix and not rows.has_sparse
        self._diagonal = variances / self.unit / self.unit
        # one scale for all features is applied to the scores, which are fewer
        self._common = bool((self._scale == self._scale[0]).all())
        # so far that products of data that are not centred would lose a quarter of the digits
        lost = np.finfo(self._rows.dtype).eps ** 0.25
        self._far = bool((np.abs(self._mean) * lost > self._scale).any())
        self._column_gram: Array | None = None

    def matmul(self, v: Array) -> Array:
        """``S @ v``, from one pass through the data."""
        n, scale = self.n_samples, self._scale
        if self._common:
            weight = 1 / scale[0] / scale[0] / n
            return self._rows.product(v.T, self._mean, self._far, weight).T
        product = self._rows.product(v.T / scale, self._mean, self._far, 1 / n)
        product /= scale
        return product.T

    def diagonal(self) -> Array:
        """Diagonal of ``S``."""
        return self._diagonal

    def scores(self, v: Array) -> Array:
        """Product of the centred and scaled data, which are in memory, with `v`."""
        return self._in_memory().scores(v.T / self._scale, self._mean).T

    def transposed(self, scores: Array) -> Array:
        """Product of the transpose of those data with `scores`."""
        return self._in_memory().back(scores.T, self._mean).T / self._scale[:, None]

    def _in_memory(self) -> MatrixRows:
        assert isinstance(self._rows, MatrixRows)  # who needs the rows has asked for a matrix
        return self._rows

    @cached_property
    def factor(self) -> Array | None:
        """Rows whose cross-products are ``S``, if the data are a small copy and wide."""
        if not self._copied or self._in_memory().matrix.shape[0] >= self.n_features:
            return None
        return np.asarray(self._in_memory().matrix / np.sqrt(self.n_samples))

    def _exact_pairs(self, k: int, width: int) -> tuple[Array, Array] | None:
        if not isinstance(self._rows, MatrixRows):
            return None
        rows, columns = self._rows.matrix.shape
        smaller = min(rows, columns)
        cheap = rows * columns * smaller <= _settings.SETTINGS.exact_operations
        if not cheap and (self._rows.has_sparse or smaller > 4 * width):
            return None
        if columns <= rows:
            return top_pairs(self._cross_products(), k)
        values, left = top_pairs(self._rows.row_gram(self._mean, self._scale), k)
        right = self.transposed(left)
        size = np.linalg.norm(right, axis=0)
        return values / self.n_samples, right / np.where(size > 0, size, 1.0)

    def _cross_products(self) -> Array:
        """Return ``S`` itself, from one pass through the data."""
        if self._column_gram is None:
            moments = self._rows.moments(cross=True)
            self._column_gram = cross_products(moments, bool(self._mean.any()), self._scale)
            self._column_gram /= self.n_samples
        return self._column_gram

    def best_route(self, n_components: int) -> AbstractCovariance:
        """Return the covariance matrix itself where that makes a fit cheaper."""
        through_data = 2 * _settings.SETTINGS.expected_products * n_components
        few = self.n_features <= min(self._rows.n_rows or 0, through_data)
        if self._rows.has_sparse or not self._rows.gathers_later or not few:
            return self
        return CovarianceMatrix(self._cross_products(), self.n_samples, self.unit)


def cross_products(moments: Moments, centred: bool, scale: Any) -> Array:
    """Return cross-products of the scaled columns about their means, or about zero."""
    ratio = (moments.unit or 1.0) / scale
    matrix = moments.scatter * ratio
    matrix *= ratio[:, None]
    if not centred:
        add_outer(matrix, moments.mean * ratio, moments.count)
    return np.asarray(matrix)
