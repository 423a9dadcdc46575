"""What is left of the data when a component has been found, as a covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

_DENSE_UP_TO = 60  # features: below, Lanczos steps cost more than all eigenvectors
_LANCZOS_TOLERANCE = 1e-6  # of the eigenvalues


class Derived(AbstractCovariance):
    """A covariance that was made from another one; its eigenvectors are found by Lanczos steps.

    Starts must be accurate here: searches from them end in different optima.
    """

    def __init__(self, covariance: AbstractCovariance, n_features: int | None = None) -> None:
        self.n_samples, self.unit = covariance.n_samples, covariance.unit
        self.n_features = covariance.n_features if n_features is None else n_features
        self._covariance = covariance

    def leading(self, k: int, products: int = 5, surplus: bool = False) -> tuple[Array, Array]:
        """Compute the leading eigenpairs."""
        p = self.n_features
        if p <= _DENSE_UP_TO or k >= p // 2:
            matrix = self.matmul(np.eye(p))
            values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        else:
            product = LinearOperator(
                (p, p), matvec=lambda v: self.matmul(v.reshape(-1, 1))[:, 0], dtype=np.float64
            )
            first = np.random.default_rng(0).standard_normal(p)
            try:
                values, vectors = eigsh(product, k=k, v0=first, tol=_LANCZOS_TOLERANCE)
            except ArpackError:  # nothing is left, or eigenvalues are too close
                return super().leading(k)
        order = np.argsort(-values, kind="stable")[:k]
        return np.maximum(values[order], 0.0), vectors[:, order]


class Deflated(Derived):
    """Covariance of ``X (I - a c')``, where ``X a`` is what the deflation takes away."""

    def __init__(self, covariance: AbstractCovariance, a: Array, c: Array, image: Array) -> None:
        super().__init__(covariance)
        self._a, self._c = a, c
        self._image = image  # S a

    def matmul(self, v: Array) -> Array:
        """Compute ``(I - c a') S (I - a c') v``."""
        product = self._covariance.matmul(v) - np.outer(self._image, self._c @ v)
        return np.asarray(product - np.outer(self._c, self._a @ product))

    def diagonal(self) -> Array:
        """Return the diagonal of what is left."""
        twice = 2 * self._image - (self._a @ self._image) * self._c
        return np.maximum(self._covariance.diagonal() - self._c * twice, 0.0)

    def deflate(self, x: Array) -> Array:
        """Deflate data whose covariance was deflated."""
        return np.asarray(x - np.outer(x @ self._a, self._c))

    def undeflated(self, weights: Array) -> Array:
        """Turn weights of scores of the deflated data into weights for the data themselves."""
        return np.asarray(weights - self._a * (self._c @ weights))


def without_scores(covariance: AbstractCovariance, w: Array, b: Array) -> Deflated:
    """Project scores ``z = X w`` out of the data, ``X - z z'X / n``, with ``b = X'z / n``."""
    return Deflated(covariance, w, b, b)


def without_direction(covariance: AbstractCovariance, w: Array, b: Array) -> Deflated:
    """Project the direction of `w` out of the features, ``X - (X v) v'``; ``b = S w``."""
    size = np.linalg.norm(w)
    return Deflated(covariance, w / size, w / size, b / size)


class Selected(Derived):
    """Covariance of some of the features."""

    def __init__(self, covariance: AbstractCovariance, features: NDArray[np.intp]) -> None:
        super().__init__(covariance, features.size)
        self._features = features

    def matmul(self, v: Array) -> Array:
        """Multiply by the submatrix."""
        padded = np.zeros((self._covariance.n_features, v.shape[1]))
        padded[self._features] = v
        return np.asarray(self._covariance.matmul(padded)[self._features])

    def diagonal(self) -> Array:
        """Return the variances of the features."""
        return np.asarray(self._covariance.diagonal()[self._features])
