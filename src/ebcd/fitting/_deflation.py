"""What is left of the data when a component has been found, as a covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

ACCURATE = 6  # products for eigenvectors that searches start from: others end in other optima


class Derived(AbstractCovariance):
    """A covariance that was made from another one."""

    def __init__(self, covariance: AbstractCovariance, n_features: int) -> None:
        self.n_samples, self.unit = covariance.n_samples, covariance.unit
        self.n_features = n_features
        self._covariance = covariance

    def leading(
        self, k: int, products: int = ACCURATE, surplus: bool = False
    ) -> tuple[Array, Array]:
        """Compute the leading eigenpairs more accurately than a large fit needs them."""
        return super().leading(k, products, surplus)


class Deflated(Derived):
    """Covariance of ``X P`` with ``P = I - A C'``; `a` and `c` are p x number of deflations."""

    def __init__(
        self, covariance: AbstractCovariance, a: Array | None = None, c: Array | None = None
    ) -> None:
        super().__init__(covariance, covariance.n_features)
        none = np.empty((covariance.n_features, 0))
        self._a, self._c = none if a is None else a, none if c is None else c

    def matmul(self, v: Array) -> Array:
        """Compute ``P'S P v``."""
        product = self._covariance.matmul(self.undeflated(v))
        return np.asarray(product - self._c @ (self._a.T @ product))

    def diagonal(self) -> Array:
        """Return the diagonal of what is left."""
        image = self._covariance.matmul(self._a)
        taken = self._c * (2 * image - self._c @ (self._a.T @ image))
        return np.asarray(np.maximum(self._covariance.diagonal() - taken.sum(axis=1), 0.0))

    def without_scores(self, w: Array, b: Array) -> Deflated:
        """Project scores ``z = X w`` out of the data, ``X - z z'X / n``, with ``b = X'z / n``."""
        directions = np.column_stack([self._a, self.undeflated(w)])
        return Deflated(self._covariance, directions, np.column_stack([self._c, b]))

    def without_direction(self, w: Array, b: Array) -> Deflated:
        """Project the direction of `w` out of the features, ``X - (X v) v'``."""
        v = w / np.linalg.norm(w)
        return self.without_scores(v, v)  # of the same form, I - v v'

    def deflate(self, x: Array) -> Array:
        """Compute ``X P``."""
        return np.asarray(x - (x @ self._a) @ self._c.T)

    def undeflated(self, weights: Array) -> Array:
        """Compute ``P w``: weights for the data of scores of the deflated data."""
        return np.asarray(weights - self._a @ (self._c.T @ weights))


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
