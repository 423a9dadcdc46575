"""Data matrices, dense or sparse, as covariances: centring and scaling never touch the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ebcd._numerics import Array
from ebcd.data._covariance import PRODUCTS, AbstractCovariance, CovarianceMatrix, working_unit
from ebcd.data._slot import AbstractSlot, NoSlot

_SMALL = 1_000_000  # entries
_CHUNK = 500_000  # entries that are worked on at once
_LARGEST = 1e153
SMALLEST = 1e-153
_NEAR = 30.0  # times a variance: squares from which it may be computed by a difference
_CHEAP = 200_000_000  # operations
# Products that a fit needs, roughly; forming the covariance must be cheaper than those.
_EXPECTED_PRODUCTS = 60


class DataMatrix(AbstractCovariance):
    """Covariance of an n x p matrix through products with the matrix and its transpose.

    Parameters
    ----------
    x : array or sparse matrix, n x p
        The data; not changed, and copied only if they are small.
    mean, scale : array of length p
        What is subtracted from each column, its mean or nothing, and what it is then divided by.
    variances : array of length p
        Mean squares of the columns after that.
    n_samples : int, optional
        Number of samples, if `x` is a compact stand-in for data with another number of rows.
    covariance : array, p x p, optional
        Mean cross-products of the columns less their means, not scaled, if they are known.
    """

    passes = ("matmul", "rows_product", "_row_gram", "_column_gram")
    divisible: tuple[str, ...] = ("_column_gram",)
    _copied = False
    _factor: Array | None = None

    def __init__(
        self,
        x: Any,
        mean: Array,
        scale: Array,
        variances: Array,
        n_samples: int | None = None,
        covariance: Array | None = None,
    ) -> None:
        rows, self.n_features = x.shape
        self.n_samples = rows if n_samples is None else n_samples
        self.unit = working_unit(variances)
        scale = scale * self.unit
        self._covariance = None if covariance is None else covariance / scale / scale[:, None]
        few = (x.nnz if is_sparse(x) else x.size) <= _SMALL
        self._copied = few and isinstance(x, np.ndarray)
        if self._copied:  # operators would cost more than a copy
            x, mean, scale = (x - mean) / scale, np.zeros_like(mean), np.ones_like(scale)
        elif few and x.dtype != np.float64:
            x = x.astype(np.float64)  # single precision stops fits early, and saves nothing here
        self._x, self._mean, self._scale = x, mean, scale
        self._diagonal = variances / self.unit / self.unit
        self._centred = bool(mean.any())
        # one scale for all features is applied to the scores, which are fewer
        self._common = float(self._scale[0]) if (self._scale == self._scale[0]).all() else None

    def scores(self, v: Array) -> Array:
        """Product of the centred and scaled data with `v`."""
        scaled = v if self._common else v / self._scale[:, None]
        product = self._x @ scaled.astype(self._x.dtype, copy=False)
        product = np.asarray(product, dtype=np.float64)
        if self._centred:
            product -= self._mean @ scaled
        if self._common and self._common != 1:
            product /= self._common
        return product

    def matmul(self, v: Array) -> Array:
        """``S @ v``, as the transpose of the data times its product with `v`."""
        scores = self.scores(v)
        scores /= self.n_samples
        return self.transposed(scores)

    def rows_product(self, rows: Array) -> Array:
        """``rows @ S``, through products in whose order nothing needs to be copied."""
        if is_sparse(self._x) or not self._common:
            return super().rows_product(rows)
        x = self._x
        scores = (rows.astype(x.dtype, copy=False) @ x.T).astype(np.float64)
        if self._centred:
            scores -= scores.mean(axis=1, keepdims=True)
        scores /= self.n_samples * self._common**2
        return np.asarray(scores.astype(x.dtype) @ x, dtype=np.float64)

    def transposed(self, scores: Array) -> Array:
        """Product of the transpose of the centred and scaled data with `scores`."""
        if self._common and self._common != 1:
            scores = scores / self._common
        if self._centred:  # the scores instead of the data, which are many more
            scores = scores - scores.mean(axis=0)
        product = self._x.T @ scores.astype(self._x.dtype, copy=False)
        product = np.asarray(product, dtype=np.float64)
        if not self._common:
            product /= self._scale[:, None]
        return product

    def diagonal(self) -> Array:
        """Diagonal of ``S``."""
        return self._diagonal

    @property
    def factor(self) -> Array | None:
        """Rows whose cross-products are ``S``, if the data are a small copy and wide."""
        rows, columns = self._x.shape
        if not self._copied or rows >= columns:
            return None
        if self._factor is None:
            self._factor = self._x / np.sqrt(self.n_samples)
        return self._factor

    def leading(
        self, k: int, products: int = PRODUCTS, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Give the leading eigenpairs, exactly if the smaller Gram matrix is cheap."""
        rows, columns = self._x.shape
        smaller = min(rows, columns)
        operations = rows * columns * smaller
        dense = not is_sparse(self._x)
        if operations > _CHEAP and not (dense and smaller <= 4 * products * self.block_size(k)):
            return super().leading(k, products, surplus)
        if columns <= rows:
            eigenvalues, vectors = np.linalg.eigh(self._column_gram())
            return np.maximum(eigenvalues[::-1][:k], 0.0), vectors[:, ::-1][:, :k]
        values, left = np.linalg.eigh(self._row_gram())
        values, left = np.maximum(values[::-1][:k], 0.0), left[:, ::-1][:, :k]
        right = self.transposed(left)
        size = np.linalg.norm(right, axis=0)
        return values, right / np.where(size > 0, size, 1.0)

    def _row_gram(self) -> Array:
        """Inner products of the rows, over n."""
        rows, columns = self._x.shape
        gram = np.zeros((rows, rows))
        size = max(1, _CHUNK // rows)
        for i in range(0, columns, size):
            part = slice(i, i + size)
            block = _dense(self._x[:, part]) - self._mean[part]
            block = block / (self._scale[part] * np.sqrt(self.n_samples))
            gram += block @ block.T
        return gram

    def _column_gram(self, slot: AbstractSlot | None = None) -> Array:
        """Inner products of the columns, over n: the covariance itself."""
        if self._covariance is not None:
            return self._covariance
        slot = NoSlot() if slot is None else slot
        _, columns = self._x.shape
        begin, gram = slot.saved or (0, np.zeros((columns, columns)))
        for block in _row_blocks(self._x, begin):
            begin += len(block)
            block = (block - self._mean) / (self._scale * np.sqrt(self.n_samples))
            gram += block.T @ block
            slot.offer(lambda *now: now, begin, gram)
        return gram

    def best_route(self, n_components: int) -> AbstractCovariance:
        """Give the covariance matrix itself where that makes a fit cheaper."""
        rows, columns = self._x.shape
        through_data = 2 * _EXPECTED_PRODUCTS * n_components
        if columns > rows or columns > through_data or is_sparse(self._x):
            return self
        covariance = CovarianceMatrix(self._column_gram(), self.n_samples)
        covariance.unit *= self.unit
        return covariance


def is_tall(x: Any) -> bool:
    """Tell whether data are large and have so few columns that every fit needs their covariance."""
    rows, columns = x.shape
    few = columns <= min(rows, 2 * _EXPECTED_PRODUCTS)
    return few and rows * columns > _SMALL and not is_sparse(x)


def is_sparse(x: Any) -> bool:
    """Tell whether `x` is a sparse matrix or array of SciPy."""
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


def _dense(block: Any) -> Array:
    return np.asarray(block.toarray() if is_sparse(block) else block, dtype=np.float64)


def _row_blocks(x: Any, begin: int = 0) -> Any:
    size = max(1, _CHUNK // x.shape[1])
    for i in range(begin, x.shape[0], size):
        yield _dense(x[i : i + size])


def column_moments(x: Any, center: bool) -> tuple[Array, Array]:
    """Mean (zero if not wanted) and mean square about it of every column."""
    if is_sparse(x):
        return _sparse_moments(x, center)
    mean = np.zeros(x.shape[1])
    with np.errstate(over="ignore", invalid="ignore"):
        if center:
            mean, variance = _one_pass_moments(x)
        if not center or not (variance >= 0).all():
            variance = _mean_squares(x, mean, 1.0)
    top = variance.max(initial=0.0)
    if top > 0 and 1e-200 < top < 1e200:
        return mean, variance
    size = max(
        (float(np.abs(block - mean).max(initial=0.0)) for block in _row_blocks(x)), default=0
    )
    if size > _LARGEST:
        raise ValueError(
            f"X has entries as large as {size:.3g}, too large to square; divide it by some unit"
        )
    if 0 < size < SMALLEST:
        raise ValueError(
            f"X has no entries above {size:.3g}, too small to square; divide it by some unit"
        )
    return mean, _mean_squares(x, mean, size) * size * size if size > 0 else np.zeros(x.shape[1])


def _one_pass_moments(x: Any) -> tuple[Array, Array]:
    """Mean and variance of every column; -1 for a variance in which digits would be lost."""
    place = np.array(x[0], dtype=np.float64)  # no further from the mean than others, as a rule
    mean, squares = np.zeros_like(place), np.zeros_like(place)
    for block in _row_blocks(x):
        centred = block - place
        mean += centred.sum(axis=0) / x.shape[0]
        squares += np.einsum("ij,ij->j", centred, centred) / x.shape[0]
    variance = squares - mean * mean
    exact = (squares <= _NEAR * variance) | (squares == 0)
    return place + mean, np.where(exact, variance, -1.0)


def _mean_squares(x: Any, mean: Array, size: float) -> Array:
    """Mean squares about the mean, in units of `size` squared."""
    squares = np.zeros(x.shape[1])
    for block in _row_blocks(x):
        centred = block - mean
        centred /= size
        squares += np.einsum("ij,ij->j", centred, centred) / x.shape[0]
    return squares


def _sparse_moments(x: Any, center: bool) -> tuple[Array, Array]:
    rows, columns = x.shape
    if x.format in ("csr", "csc") and not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    top = float(np.abs(x.data).max(initial=0.0)) or 1.0
    values, index = x, x.indices if x.format == "csr" else None
    if index is None:
        values = x.tocsc()
        index = np.repeat(np.arange(columns), np.diff(values.indptr))
    share = np.bincount(index, minlength=columns) / rows
    data = np.asarray(values.data, dtype=np.float64) / top
    mean = np.bincount(index, weights=data, minlength=columns) / rows * center
    squares = np.bincount(index, weights=(data - mean[index]) ** 2, minlength=columns) / rows
    return mean * top, (squares + (1 - share) * mean**2) * top * top
