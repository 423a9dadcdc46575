"""What a fit sees of the data: products with the covariance, its diagonal and its trace.

Everything is in *working units*: a covariance is divided by `unit` squared, so that its trace is
about the number of features, whatever the units of the data. `unit` leads back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ebcd._numerics import Array
from ebcd.data import _settings

# Blocks of a Krylov space beside half the number of eigenpairs, and products with them: what
# reaches the accuracy of randomised PCA with fewer products.
_OVERSAMPLING = 8
_PRODUCTS = 5
# Share of the largest eigenvalue that is rounding, and the smallest eigenvalue of a Gram matrix of
# columns of length one through which a basis is found without losing orthogonality.
_NEGLIGIBLE = 1e-12
_SAFE = 1e-6


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
    """

    n_samples: int
    n_features: int
    unit: float

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

    def best_route(self, n_components: int) -> AbstractCovariance:
        """Return the covariance matrix itself where that makes a fit cheaper."""
        return self

    def leading(
        self, k: int, products: int = _PRODUCTS, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Return the `k` leading eigenvalues, decreasing, and eigenvectors (p x k).

        Exactly where that costs no more than `products` products with blocks of vectors; otherwise
        from the Krylov space of those blocks. If the `surplus` is wanted, that space gives all its
        directions.
        """
        exact = self._exact_pairs(k, products * _block_size(k))
        return self._krylov_pairs(k, products, surplus) if exact is None else exact

    def _exact_pairs(self, k: int, width: int) -> tuple[Array, Array] | None:
        """Return exact eigenpairs if they cost no more than products with `width` vectors."""
        return None

    def _krylov_pairs(self, k: int, products: int, surplus: bool) -> tuple[Array, Array]:
        """Find eigenpairs in a block Krylov space (Musco and Musco 2015) with a fixed start.

        The images of its basis ``Q`` give Nystrom's approximation ``S Q (Q'S Q)^(-1) Q'S`` of
        ``S``, whose eigenpairs are more accurate than those of ``Q'S Q``.
        """
        p, size = self.n_features, _block_size(k)
        block = np.random.default_rng(0).standard_normal((p, min(size, p)))
        basis, images = np.empty((p, 0)), []
        for _ in range(products):
            for _ in range(2):  # twice is enough to be orthogonal to rounding
                block = _orthonormal(block - basis @ (basis.T @ block))
            basis = np.hstack([basis, block])
            images.append(self.matmul(block))
            block = images[-1][:, : p - basis.shape[1]]
            if block.shape[1] == 0:  # the basis spans all there is
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


def _block_size(k: int) -> int:
    """Width of the blocks from which `k` eigenpairs are found."""
    return k // 2 + _OVERSAMPLING


def top_pairs(matrix: Array, k: int) -> tuple[Array, Array]:
    """Return the `k` largest eigenvalues of a small matrix, decreasing, and their vectors."""
    values, vectors = np.linalg.eigh(matrix)
    return np.maximum(values[::-1][:k], 0.0), vectors[:, ::-1][:, :k]


def _orthonormal(block: Array) -> Array:
    """Return an orthonormal basis of the columns of a tall matrix.

    Through its Gram matrix where that is safe, which is several times faster than a QR
    decomposition; a little less orthogonal, so to be done twice.
    """
    size = np.linalg.norm(block, axis=0)
    block = block / np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(block.T @ block)
    if values[0] < _SAFE:
        return np.asarray(np.linalg.qr(block)[0])
    return np.asarray(block @ (vectors / np.sqrt(values)))


class CovarianceMatrix(AbstractCovariance):
    """A covariance in memory.

    Parameters
    ----------
    matrix : array, p x p
        Symmetric and positive semi-definite; not copied unless its units must change.
    n_samples : int
        Number of rows it was computed from.
    unit : float
        Units that the matrix is given in.

    Attributes
    ----------
    matrix : array, p x p
        The covariance, in working units.
    """

    def __init__(self, matrix: Array, n_samples: int, unit: float = 1.0) -> None:
        self.n_samples, self.n_features = n_samples, matrix.shape[0]
        inner = working_unit(np.diagonal(matrix))
        self.unit = unit * inner
        self.matrix = matrix / inner
        self.matrix /= inner
        self._factor: Array | None = None

    def matmul(self, v: Array) -> Array:
        """``S @ v``."""
        return np.asarray(self.matrix @ v)

    def diagonal(self) -> Array:
        """Diagonal of ``S``."""
        return np.diagonal(self.matrix)

    @property
    def factor(self) -> Array | None:
        """Rows whose cross-products are ``S``: from its eigenvectors in units of the features."""
        if self.n_features > _settings.SETTINGS.factor_features:
            return None
        if self._factor is None:
            size = np.sqrt(self.diagonal())
            inverse = 1 / np.where(size > 0, size, 1.0)
            values, vectors = np.linalg.eigh(self.matrix * inverse * inverse[:, None])
            kept = values > _NEGLIGIBLE * max(values[-1], 0.0)
            self._factor = (vectors[:, kept] * np.sqrt(values[kept])).T * size
        return self._factor

    def _exact_pairs(self, k: int, width: int) -> tuple[Array, Array] | None:
        small = self.n_features <= _settings.SETTINGS.exact_features
        return top_pairs(self.matrix, k) if small else None


def working_unit(variances: Array) -> float:
    """Root mean square of the features, a power of two so that nothing is rounded."""
    top = float(variances.max(initial=0.0))
    if top == 0:
        return 1.0
    mean = float(np.mean(variances / top))
    return float(2.0 ** np.round(0.5 * (np.log2(top) + np.log2(mean))))
