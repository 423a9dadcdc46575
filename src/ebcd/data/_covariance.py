"""What a fit sees of the data: products with the covariance, its diagonal and its trace.

Everything is in *working units*: a covariance is divided by `unit` squared, so that its trace is
about the number of features, whatever the units of the data. `unit` leads back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy

import numpy as np

from ebcd._numerics import Array

_OVERSAMPLING = 8
PRODUCTS = 5
_SEARCH_PRODUCTS = 3
_EXACT_UP_TO = 400
_FACTOR_UP_TO = 200
_NEGLIGIBLE = 1e-12  # of the largest eigenvalue
_SAFE = 1e-6  # smallest eigenvalue of a Gram matrix of columns of length one


class AbstractCovariance(ABC):
    """``S = X'X / n`` of data that may be centred and scaled, known only through products.

    Attributes
    ----------
    n_samples : int
        Number of rows that the covariance was computed from.
    n_features : int
        Number of columns.
    unit : float
        Length in the units of the (scaled) data that is 1 here.
    passes : tuple of str
        Methods that go through all data, so that they take long where those are large.
    divisible : tuple of str
        Those of them that can be given a `slot`, where they leave their sums so far.
    """

    n_samples: int
    n_features: int
    unit: float
    passes: tuple[str, ...] = ("matmul", "rows_product")
    divisible: tuple[str, ...] = ()

    @abstractmethod
    def matmul(self, v: Array) -> Array:
        """``S @ v`` for a matrix `v` of shape (n_features, k)."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Diagonal of ``S``."""

    @property
    def factor(self) -> Array | None:
        """Rows whose cross-products are ``S``; None if those are not few rows in memory."""
        return None

    def rows_product(self, rows: Array) -> Array:
        """``rows @ S``, C-ordered and new, for a matrix of shape (k, n_features)."""
        return np.ascontiguousarray(self.matmul(rows.T).T)

    def leading(
        self, k: int, products: int = PRODUCTS, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Give the `k` leading eigenvalues, decreasing, and eigenvectors (p x k).

        From a Krylov space of blocks (Musco and Musco, 2015) with a fixed random start, which
        takes fewer products than randomised PCA to the same accuracy, and Nystrom's approximation
        from its images. If the `surplus` is wanted, all directions of that space are given.
        """
        size = min(self.block_size(k), self.n_features)
        block = np.random.default_rng(0).standard_normal((self.n_features, size))
        basis, images = np.empty((self.n_features, 0)), []
        for _ in range(products):
            for _ in range(2):  # twice is enough to be orthogonal to rounding
                block = orthonormal(block - basis @ (basis.T @ block))
            basis = np.hstack([basis, block])
            images.append(self.matmul(block))
            block = images[-1]
            if basis.shape[1] + size > self.n_features:
                break
        image = np.hstack(images)
        inner = basis.T @ image
        values, rotation = np.linalg.eigh(0.5 * (inner + inner.T))
        order = np.argsort(-values)[:k]
        ritz = np.maximum(values[order], 0.0), basis @ rotation[:, order]
        kept = values > _NEGLIGIBLE * max(values[-1], 0.0)
        factor = image @ (rotation[:, kept] / np.sqrt(values[kept]))  # S is about its square
        values, rotation = np.linalg.eigh(factor.T @ factor)
        order = np.flatnonzero(values > _NEGLIGIBLE * values.max(initial=0.0))[::-1]
        if order.size < k:  # the rank is lower, so that directions without variance are wanted too
            return ritz
        order = order if surplus else order[:k]
        return values[order], factor @ (rotation[:, order] / np.sqrt(values[order]))

    @staticmethod
    def block_size(k: int) -> int:
        """Width of the blocks from which `k` eigenpairs are found."""
        return k // 2 + _OVERSAMPLING

    def trace(self) -> float:
        """Trace of ``S``."""
        return float(self.diagonal().sum())


class CovarianceMatrix(AbstractCovariance):
    """A covariance in memory.

    Parameters
    ----------
    matrix : array, p x p
        Symmetric and positive semi-definite; not copied unless its units must change.
    n_samples : int
        Number of rows it was computed from.
    """

    def __init__(self, matrix: Array, n_samples: int) -> None:
        self.n_samples, self.n_features = n_samples, matrix.shape[0]
        self.unit = working_unit(np.diagonal(matrix))
        self._matrix = matrix / self.unit
        self._matrix /= self.unit
        self._factor: Array | None = None

    def matmul(self, v: Array) -> Array:
        """``S @ v``."""
        return np.asarray(self._matrix @ v)

    def diagonal(self) -> Array:
        """Diagonal of ``S``."""
        return np.diagonal(self._matrix)

    @property
    def factor(self) -> Array | None:
        """Rows whose cross-products are ``S``: from its eigenvectors in units of the features."""
        if self.n_features > _FACTOR_UP_TO:
            return None
        if self._factor is None:
            size = np.sqrt(self.diagonal())
            inverse = 1 / np.where(size > 0, size, 1.0)
            values, vectors = np.linalg.eigh(self._matrix * inverse * inverse[:, None])
            kept = values > _NEGLIGIBLE * max(values[-1], 0.0)
            self._factor = (vectors[:, kept] * np.sqrt(values[kept])).T * size
        return self._factor

    def leading(
        self, k: int, products: int = PRODUCTS, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Give the leading eigenpairs, exactly if the matrix is not large."""
        if self.n_features > _EXACT_UP_TO:
            return super().leading(k, products, surplus)
        values, vectors = np.linalg.eigh(self._matrix)
        return np.maximum(values[::-1][:k], 0.0), vectors[:, ::-1][:, :k]


class LowRank(AbstractCovariance):
    """Leading directions of a covariance, to search on: products cost p times their number.

    The diagonal is that of the whole covariance. `parts` are what `find` gives, if it is known.
    """

    def __init__(
        self,
        covariance: AbstractCovariance,
        rank: int,
        parts: tuple[Array, Array] | None = None,
    ) -> None:
        self.n_samples, self.n_features = covariance.n_samples, covariance.n_features
        self.unit = covariance.unit
        self._diagonal = covariance.diagonal()
        self._values, self._factor = self.find(covariance, rank) if parts is None else parts

    @staticmethod
    def find(covariance: AbstractCovariance, rank: int) -> tuple[Array, Array]:
        """Give eigenvalues and eigenvectors (rows, times the root of the value) to search on."""
        values, vectors = covariance.leading(rank, _SEARCH_PRODUCTS, surplus=True)
        return values, np.multiply(vectors.T, np.sqrt(values)[:, None], order="C")

    @property
    def factor(self) -> Array:
        """Rows whose cross-products are the leading part."""
        return self._factor

    def among(self, features: np.ndarray) -> LowRank:
        """Give the same directions among some of the features."""
        part = copy(self)
        part.n_features = features.size
        part._diagonal = self._diagonal[features]
        part._factor = np.ascontiguousarray(self._factor[:, features])
        return part

    def matmul(self, v: Array) -> Array:
        """Product with the leading part."""
        return self.rows_product(v.T).T

    def rows_product(self, rows: Array) -> Array:
        """Product of rows with the leading part."""
        return np.asarray((rows @ self._factor.T) @ self._factor)

    def diagonal(self) -> Array:
        """Diagonal of the whole covariance."""
        return self._diagonal

    def leading(
        self, k: int, products: int = PRODUCTS, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Give the leading eigenpairs, of those that there are."""
        values = self._values[:k]
        return values, self._factor[:k].T / np.sqrt(np.where(values > 0, values, 1.0))


def orthonormal(block: Array) -> Array:
    """Give an orthonormal basis of the columns of a tall matrix.

    Through its Gram matrix where that is safe, which is several times faster than a QR
    decomposition; a little less orthogonal, so to be done twice.
    """
    size = np.linalg.norm(block, axis=0)
    block = block / np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(block.T @ block)
    if values[0] < _SAFE:
        return np.asarray(np.linalg.qr(block)[0])
    return np.asarray(block @ (vectors / np.sqrt(values)))


def working_unit(variances: Array) -> float:
    """Root mean square of the features, a power of two so that nothing is rounded."""
    top = float(variances.max(initial=0.0))
    if top == 0:
        return 1.0
    mean = float(np.mean(variances / top))
    return float(2.0 ** np.round(0.5 * (np.log2(top) + np.log2(mean))))
