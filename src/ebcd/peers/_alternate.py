"""What sparse PCA methods share: shrinkage, rotation, deflation, and the loop over them.

A method is a row of this table (Table 1 of Kang and Stephens); `climb` alternates its shrinkage
with the polar rotation, on what its deflation leaves.

====== ================================== ======================== ========================
method shrinkage                          rotation                 deflation
====== ================================== ======================== ========================
SPC    soft threshold to an L1 ball       polar, of one component  `ScoresRemoved`
GPower soft or hard threshold, norm mu    polar, of all or one     none, `DirectionRemoved`
ITSPCA threshold of ``S L``               QR, after the shrinkage  none
USLPCA largest entries                    polar, of all            none
====== ================================== ======================== ========================

Loadings are rows, as everywhere in fits: a start is k x p, several starts are a stack of those.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._rotation import inverse_root

# After so many iterations only so many of several starts go on.
_CUTS: dict[int, int] = {10: 12, 30: 1}

_DENSE_UP_TO = 60
_LANCZOS_TOLERANCE = 1e-6


class AbstractShrinkage(ABC):
    """The shrinkage step, and the criterion that it maximises for given scores."""

    @abstractmethod
    def shrink(self, b: Array) -> tuple[Array, Array]:
        """Give loadings and the value of the criterion.

        Parameters
        ----------
        b : array, starts x k x p
            Least-squares loadings ``X'Z / n`` for scores of mean square one.

        Returns
        -------
        loadings : array, starts x k x p
        value : array, one for each start
        """


class Climb(NamedTuple):
    """Where the best start ended.

    Attributes
    ----------
    loadings, b : array, k x p
        Loadings after the last shrinkage, and before it.
    path : list of float
        The criterion after every iteration.
    converged : bool
    """

    loadings: Array
    b: Array
    path: list[float]
    converged: bool

    @property
    def value(self) -> float:
        """The criterion."""
        return self.path[-1]

    @property
    def n_iter(self) -> int:
        """Number of iterations."""
        return len(self.path)


def climb(
    covariance: AbstractCovariance,
    shrinkage: AbstractShrinkage,
    starts: Array,
    *,
    tol: float,
    max_iter: int,
) -> Climb:
    """Alternate rotation and shrinkage from several starts, and keep the best.

    The criterion is convex in the scores, so that it rises in every iteration (Journée et al.
    2010); a start has converged when it rises by less than `tol` of its value.
    """
    loadings = starts
    value = np.full(len(starts), -np.inf)
    rising = np.ones(len(starts), dtype=bool)
    history: list[tuple[Array, NDArray[np.intp]]] = []
    while rising.any() and len(history) < max_iter:
        b = rotate(covariance, loadings)
        loadings, new = shrinkage.shrink(b)
        rising = new - value > tol * np.abs(new)
        value = new
        best = np.argsort(-value, kind="stable")[: _CUTS.get(len(history) + 1, len(value))]
        best = best[rising[best] | (best == best[0])]  # what stays below the best is of no use
        loadings, value, rising = loadings[best], value[best], rising[best]
        history.append((new, best))
    top = int(value.argmax())
    return Climb(loadings[top], b[best[top]], _path(history, top), not rising[top])


def _path(history: list[tuple[Array, NDArray[np.intp]]], place: int) -> list[float]:
    """Give the values of a start in every iteration, from all values and which starts went on."""
    path = []
    for values, best in reversed(history):
        place = int(best[place])
        path.append(float(values[place]))
    return path[::-1]


def rotate(covariance: AbstractCovariance, loadings: Array) -> Array:
    """Polar rotation of every start: ``B = (L S L')^(-1/2) L S``."""
    product = covariance.matmul(loadings.reshape(-1, loadings.shape[-1]).T).T
    product = product.reshape(loadings.shape)
    return np.asarray(inverse_root(loadings @ product.swapaxes(-1, -2)) @ product)


class Derived(AbstractCovariance):
    """A covariance that was made from another one; its eigenvectors are found by Lanczos steps.

    Starts must be accurate here: searches from them end in different optima.
    """

    def __init__(self, covariance: AbstractCovariance, n_features: int | None = None) -> None:
        self.n_samples, self.unit = covariance.n_samples, covariance.unit
        self.n_features = covariance.n_features if n_features is None else n_features
        self._covariance = covariance

    def leading(self, k: int, products: int = 5, surplus: bool = False) -> tuple[Array, Array]:
        """Give the leading eigenpairs."""
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


class ScoresRemoved(Derived):
    """Covariance of data from which given scores were projected: ``S - sum_k b_k b_k'``.

    Parameters
    ----------
    covariance : AbstractCovariance
    b : array, k x p
        ``X'z / n`` of each of these scores, which are uncorrelated and of mean square one.
    """

    def __init__(self, covariance: AbstractCovariance, b: Array) -> None:
        super().__init__(covariance)
        self._b = b

    def matmul(self, v: Array) -> Array:
        """Product with what is left."""
        return np.asarray(self._covariance.matmul(v) - self._b.T @ (self._b @ v))

    def diagonal(self) -> Array:
        """Diagonal of what is left."""
        left = self._covariance.diagonal() - (self._b**2).sum(axis=0)
        return np.asarray(np.maximum(left, 0.0))


class DirectionRemoved(Derived):
    """Covariance of ``X - (X v) v'``, for a vector `v` of length one: ``(1 - vv') S (1 - vv')``."""

    def __init__(self, covariance: AbstractCovariance, v: Array) -> None:
        super().__init__(covariance)
        self._v = v
        self._image = covariance.matmul(v[:, None])[:, 0]

    def project(self, v: Array) -> Array:
        """Take the direction out of columns."""
        return np.asarray(v - np.outer(self._v, self._v @ v))

    def matmul(self, v: Array) -> Array:
        """Product with what is left."""
        return self.project(self._covariance.matmul(self.project(v)))

    def diagonal(self) -> Array:
        """Diagonal of what is left."""
        v, image = self._v, self._image
        left = self._covariance.diagonal() - 2 * v * image + v * v * (v @ image)
        return np.maximum(left, 0.0)
