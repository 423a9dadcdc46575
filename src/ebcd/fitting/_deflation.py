"""What is left of the data when a component has been found, as a covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

ACCURATE = 10  # products for eigenvectors that searches start from: others end in other optima


class Derived(AbstractCovariance):
    """A covariance that was made from another one."""

    def __init__(self, covariance: AbstractCovariance, n_features: int | None = None) -> None:
        self.n_samples, self.unit = covariance.n_samples, covariance.unit
        self.n_features = covariance.n_features if n_features is None else n_features
        self._covariance = covariance

    def leading(
        self, k: int, products: int = ACCURATE, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Compute the leading eigenpairs more accurately than a large fit needs them."""
        return super().leading(k, products, surplus)


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
