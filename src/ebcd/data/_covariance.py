"""What a fit sees of the data: products with the covariance, its diagonal and its trace.

Everything is in *working units*: a covariance is divided by `unit` squared, so that its trace is
about the number of features, whatever the units of the data. `unit` leads back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import eigh

from ebcd._numerics import Array
from ebcd.data import _settings
from ebcd.data._rows import AbstractRows, MatrixRows, scores_of, single_digits

# Width of the blocks of a Krylov space beyond half the number of eigenpairs: with five products,
# what reaches the accuracy of randomised PCA.
_OVERSAMPLING = 8


class AbstractCovariance(ABC):
    """``S = X'X / n`` of data that may be centered and scaled, known only through products."""

    n_samples: int  # rows that the covariance was computed from
    n_features: int
    unit: float  # length in the units of the (scaled) data that is 1 here
    rounding: float = float(np.finfo(np.float64).eps)  # relative error of products

    @abstractmethod
    def matmul(self, v: Array) -> Array:
        """``S @ v`` for a matrix `v` of shape (n_features, k)."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Diagonal of ``S``."""

    def trace(self) -> float:
        """Trace of ``S``."""
        return float(self.diagonal().sum())

    @property
    def factor(self) -> Array | None:
        """Rows whose cross-products are ``S``; None if those are not few rows in memory."""
        return None

    @property
    def most_rank(self) -> int:
        """Number that the rank of ``S`` does not exceed."""
        return self.n_features

    def best_route(self, n_components: int) -> AbstractCovariance:
        """Return the covariance matrix itself where that makes a fit cheaper."""
        return self

    def leading(self, k: int, products: int = 5, surplus: bool = False) -> tuple[Array, Array]:
        """Return the `k` leading eigenvalues, decreasing, and eigenvectors (p x k).

        Exactly where that costs no more than `products` products with blocks of vectors; otherwise
        from the Krylov space of those blocks. If the `surplus` is wanted, that space gives all its
        directions.
        """
        k = int(k)  # NumPy's small integers overflow
        exact = self.exact_pairs(k, products * (k // 2 + _OVERSAMPLING))
        return self._krylov_pairs(k, products, surplus) if exact is None else exact

    def exact_pairs(self, k: int, width: int, weights: Any = None) -> tuple[Array, Array] | None:
        """Return exact eigenpairs if they cost no more than products with `width` vectors.

        With `weights`, those of the covariance of features that are multiplied by them.
        """
        return None

    def _krylov_pairs(self, k: int, products: int, surplus: bool) -> tuple[Array, Array]:
        """Find eigenpairs in a block Krylov space (Musco and Musco 2015) with a fixed start.

        The images of its basis ``Q`` give Nystrom's approximation ``S Q (Q'S Q)^(-1) Q'S`` of
        ``S``, whose eigenpairs are more accurate than those of ``Q'S Q``.
        """
        p, rank = self.n_features, self.most_rank
        size = min(k // 2 + _OVERSAMPLING, rank)
        block = np.empty((p, size))
        # features in the order of their variances, so that their own order makes no difference;
        # those that only rounding tells apart stay as they are
        largest = self.diagonal().max() or 1.0
        order = np.argsort(np.round(self.diagonal() / largest, 9), kind="stable")
        block[order] = np.random.default_rng(0).standard_normal((p, size))
        basis, images = np.empty((p, 0)), []
        for _ in range(products):
            for _ in range(2):  # twice is enough to be orthogonal to rounding
                block = _orthonormal(block - basis @ (basis.T @ block))
            basis = np.hstack([basis, block])
            images.append(self.matmul(block))
            block = images[-1][:, : rank - basis.shape[1]]
            if block.shape[1] == 0:  # the basis spans all there is
                break
        image = np.hstack(images)
        inner = basis.T @ image
        values, rotation = np.linalg.eigh(0.5 * (inner + inner.T))
        order = np.argsort(-values)[:k]
        ritz = np.maximum(values[order], 0.0), basis @ rotation[:, order]
        kept = _beyond_rounding(values)
        factor = image @ (rotation[:, kept] / np.sqrt(values[kept]))  # S is about its square
        values, rotation = np.linalg.eigh(factor.T @ factor)
        order = np.flatnonzero(_beyond_rounding(values))[::-1]
        if order.size < k:  # the rank is lower, so that directions without variance are wanted too
            return ritz
        order = order if surplus else order[:k]
        return values[order], factor @ (rotation[:, order] / np.sqrt(values[order]))


def top_pairs(matrix: Array, k: int) -> tuple[Array, Array]:
    """Return the `k` largest eigenvalues of a small matrix, decreasing, and their vectors."""
    p = len(matrix)
    wanted = [max(p - max(k, 1), 0), p - 1]
    values, vectors = eigh(matrix, subset_by_index=wanted, check_finite=False)
    return np.maximum(values[::-1][:k], 0.0), vectors[:, ::-1][:, :k]


def _weighted(matrix: Array, weights: Any) -> Any:
    return matrix if weights is None else matrix * weights * weights[:, None]


def _beyond_rounding(values: Array) -> Array:
    """Whether eigenvalues are more than rounding errors of the largest."""
    return np.asarray(values > values.size * np.finfo(float).eps * values.max(initial=0.0))


def _orthonormal(block: Array) -> Array:
    """Return an orthonormal basis of the columns of a tall matrix.

    Through its Gram matrix where that is safe, which is several times faster than a QR
    decomposition; a little less orthogonal, so to be done twice.
    """
    size = np.linalg.norm(block, axis=0)
    block = block / np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(block.T @ block)
    if values[0] < np.sqrt(np.finfo(float).eps):
        return np.asarray(np.linalg.qr(block)[0])
    return np.asarray(block @ (vectors / np.sqrt(values)))


class CovarianceMatrix(AbstractCovariance):
    """A covariance in memory, symmetric and positive semi-definite; `unit` is what it is in."""

    def __init__(self, matrix: Array, n_samples: int, unit: float = 1.0) -> None:
        self.n_samples, self.n_features = n_samples, matrix.shape[0]
        inner = working_unit(np.diagonal(matrix))
        self.unit = unit * inner
        self.matrix = matrix / inner
        self.matrix /= inner

    def matmul(self, v: Array) -> Array:
        """``S @ v``."""
        return np.asarray(self.matrix @ v)

    def diagonal(self) -> Array:
        """Diagonal of ``S``."""
        return np.diagonal(self.matrix)

    def exact_pairs(self, k: int, width: int, weights: Any = None) -> tuple[Array, Array] | None:
        """Return exact eigenpairs of small matrices."""
        p = self.n_features
        small = p <= 4 * width or p**3 <= _settings.SETTINGS.exact_operations
        return top_pairs(_weighted(self.matrix, weights), k) if small else None


class DataCovariance(AbstractCovariance):
    """Covariance of rows through products with them.

    From each column its `mean`, or nothing, is subtracted; then it is divided by its `scale`, which
    leaves its mean square in `variances`. Samples outnumber rows that are a compact stand-in.
    """

    def __init__(
        self,
        rows: AbstractRows,
        mean: Array,
        scale: Array,
        variances: Array,
        n_samples: int,
        unit: float | None = None,
    ) -> None:
        self.n_samples, self.n_features = n_samples, rows.n_features
        self.unit = working_unit(variances) if unit is None else unit
        self._rows, self._mean, self._scale = rows.for_products(mean, scale * self.unit)
        self._copied = self._rows.matrix is not rows.matrix and not self._rows.has_sparse
        if self._rows.dtype == np.float32 and not single_digits(self.unit):
            raise ValueError(
                f"X is in single precision, and the size of its entries, {self.unit:.2g}, is near "
                "the end of its range; convert X to double precision, or change its units"
            )
        self.rounding = float(np.finfo(self._rows.dtype).eps)
        self._diagonal = variances / self.unit / self.unit
        # one scale for all features is applied to the scores, which are fewer
        self._common = bool((self._scale == self._scale[0]).all())
        # so far that products of data that are not centered would lose a quarter of the digits
        lost = self.rounding**0.25
        self._far = bool((np.abs(self._mean) * lost > self._scale).any())

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
        """Product of the centered and scaled data, which are in memory, with `v`."""
        return scores_of(self._in_memory().matrix, v.T / self._scale, self._mean).T

    def transposed(self, scores: Array) -> Array:
        """Product of the transpose of those data with `scores`."""
        product = self._in_memory().back(scores.T, self._mean)
        product /= self._scale
        return product.T

    @property
    def most_rank(self) -> int:
        """Number of rows, if that is smaller than the number of features."""
        return min(self._rows.n_rows or self.n_features, self.n_features)

    def _in_memory(self) -> MatrixRows:
        assert isinstance(self._rows, MatrixRows)  # who needs the rows has asked for a matrix
        return self._rows

    @cached_property
    def factor(self) -> Array | None:
        """Rows whose cross-products are ``S``, if the data are a small copy and wide."""
        if not self._copied or self._in_memory().matrix.shape[0] >= self.n_features:
            return None
        return np.asarray(self._in_memory().matrix / np.sqrt(self.n_samples))

    def exact_pairs(self, k: int, width: int, weights: Any = None) -> tuple[Array, Array] | None:
        """Return exact eigenpairs of few rows or columns in memory."""
        if not isinstance(self._rows, MatrixRows):
            return None
        rows, columns = self._rows.matrix.shape
        smaller = min(rows, columns)
        cheap = rows * columns * smaller <= _settings.SETTINGS.exact_operations
        if not cheap and (self._rows.has_sparse or smaller > 4 * width):
            return None
        if columns <= rows:
            return top_pairs(_weighted(self._matrix, weights), k)
        factors = 1 / self._scale if weights is None else weights / self._scale
        values, left = top_pairs(self._rows.row_gram(self._mean, factors), k)
        right = self._rows.back(left.T, self._mean)
        right *= factors
        right = right.T
        size = np.sqrt(np.einsum("ij,ij->j", right, right))
        right /= np.where(size > 0, size, 1.0)
        return values / self.n_samples, right

    @cached_property
    def _matrix(self) -> Array:
        """``S`` itself, from one pass through the data."""
        center = bool(self._mean.any())
        return self._rows.moments(cross=True).covariance(center, self._scale, self.n_samples)

    def best_route(self, n_components: int) -> AbstractCovariance:
        """Return the covariance matrix itself where that makes a fit cheaper."""
        through_data = 2 * _settings.SETTINGS.expected_products * int(n_components)
        few = self.n_features <= min(self._rows.n_rows or 0, through_data)
        if self._rows.has_sparse or not self._rows.gathers_later or not few:
            return self
        return CovarianceMatrix(self._matrix, self.n_samples, self.unit)


def working_unit(variances: Array) -> float:
    """Root mean square of the features, a power of two so that nothing is rounded."""
    top = float(variances.max(initial=0.0))
    if top == 0:
        return 1.0
    mean = float(np.mean(variances / top))
    return float(2.0 ** np.round(0.5 * (np.log2(top) + np.log2(mean))))
