"""What the sparse PCA estimators share: checks of parameters, and what a fit leaves behind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from ebcd._numerics import Array
from ebcd._parameters import check_length
from ebcd._warnings import warn_user
from ebcd.data import AbstractCovariance, DataMatrix, Input
from ebcd.estimators._readable import Readable
from ebcd.estimators._shrinkage import Shrinkage
from ebcd.fitting._rotation import score_map
from ebcd.fitting._starts import svd_start

_NOTHING_LEFT = 1e-12  # of the variance
_NOISE_FLOOR = 1e-12  # of the variance
_UNEVEN = 100.0


class Found(NamedTuple):
    """Components in working units.

    Attributes
    ----------
    components : array, k x p
        Loadings for scores of mean square one.
    maps : array, p x k
        What leads from data to those scores.
    detail : array of length k, optional
        What else is known of each component; the attribute that the estimator calls `_detail`.
    path : sequence of float
        The criterion after every iteration, if the method has one.
    changes : sequence of float
        How much every iteration changed, if the method has no criterion.
    observed : array, k x p
        What the last shrinkage was applied to, as loadings.
    levels : array of length k
        Thresholds of that shrinkage.
    """

    components: Array
    maps: Array
    n_iter: int
    converged: bool
    observed: Array
    levels: Array
    path: Sequence[float] = (0.0,)
    detail: Array | None = None
    changes: Sequence[float] = ()


class SparsePeer(Readable):
    """A sparse PCA method with tuning parameters.

    A subclass says in `_find` how components are found.
    """

    _lists: tuple[str, ...] = ()  # parameters that may have a value for each component
    _remedy: str  # against components without loadings
    _detail: str | None = None  # attribute with one more number for each component

    def _fit_input(self, data: Input, X: Any) -> Self:
        self._check(data)
        covariance, k = data.covariance, self.n_components
        if isinstance(covariance, DataMatrix):
            covariance = covariance.best_route(k)
        principal = _principal(covariance, k)
        found = (
            self._find(covariance, principal, data, X) if len(principal) else _nothing(covariance)
        )
        self._store(found, covariance, data)
        self._warn(len(principal))
        return self

    def _check(self, data: Input) -> None:
        """Check parameters whose range depends on the data."""

    @abstractmethod
    def _find(self, covariance: AbstractCovariance, principal: Array, data: Input, X: Any) -> Found:
        """Find as many components as there are principal components (k x p)."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in self._lists:
            check_length(name, getattr(self, name), self.n_components)

    def _per_component(self, name: str) -> Array:
        """Return a number for each component from one number or one for each."""
        return np.full(self.n_components, getattr(self, name), dtype=np.float64)

    def _store(self, found: Found, covariance: AbstractCovariance, data: Input) -> None:
        back = data.scale * covariance.unit
        alive = found.components.any(axis=1)
        components, maps = found.components[alive], found.maps[:, alive]
        order = self._order(components * back)
        components, maps = components[order], maps[:, order]
        largest = np.abs(components * back).argmax(axis=1) if order.size else order
        sign = np.where(components[np.arange(order.size), largest] < 0, -1.0, 1.0)
        components, maps = components * sign[:, None], maps * sign
        if self._detail is not None:
            detail = np.empty(0) if found.detail is None else found.detail
            setattr(self, self._detail, detail[alive][order])
        self._observed = found.observed[alive][order] * (sign[:, None] * covariance.unit)
        self._levels = found.levels[alive][order] * covariance.unit
        self._score_map = maps / back[:, None]
        self.components_ = components * back
        variance = back**2 * _noise(covariance, components, maps)
        self.noise_variance_ = variance if self.scale else float(variance[0])
        self.explained_variance_ = (self.components_**2).sum(axis=1)
        total = float(data.variances.sum())
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.n_iter_, self.converged_ = found.n_iter, bool(found.converged)
        self.n_components_ = order.size
        self.n_samples_ = covariance.n_samples
        self.scale_ = data.scale
        positive = data.variances[data.variances > 0]
        uneven = positive.size > 0 and positive.max() > _UNEVEN * positive.min()
        self._uneven = bool(uneven) and not self.scale
        if data.mean is not None:
            self.mean_ = data.mean
        elif hasattr(self, "mean_"):
            del self.mean_

    def _store_path(self, path: Sequence[float], unit: float) -> None:
        """Keep the criterion, in units of the data."""
        self.objective_path_ = np.array(path) * unit
        self.objective_ = float(self.objective_path_[-1])

    @abstractmethod
    def _threshold(self, observed: Array, level: float) -> Array:
        """Set small entries to zero, and perhaps move the others."""

    def _shrinkage(self, k: int) -> Shrinkage:
        """Give the threshold, and how its result is brought to the length of the component."""
        observed, level = self._observed[k], float(self._levels[k])
        length = np.linalg.norm(self.components_[k] / self.scale_)
        factor = float(length / np.linalg.norm(self._threshold(observed, level)))
        return Shrinkage(observed, lambda x: factor * self._threshold(x, level))

    def _order(self, components: Array) -> NDArray[np.intp]:
        """Decreasing variance, unless the user said something of each component."""
        if any(np.ndim(getattr(self, name)) for name in self._lists):
            return np.arange(len(components))
        return np.argsort(-(components**2).sum(axis=1), kind="stable")

    def _warn(self, wanted: int) -> None:
        name = type(self).__name__
        if wanted == 0:
            warn_user(
                f"{name} found no component: the data do not vary",
            )
        elif self.n_components_ < wanted:
            warn_user(
                f"{name} dropped {wanted - self.n_components_} of {wanted} components, whose "
                f"loadings are all zero; {self._remedy}",
            )
        if not self.converged_:
            warn_user(
                f"{name} stopped after {self.n_iter_} iterations before it converged; raise "
                "max_iter or tol",
                ConvergenceWarning,
            )


def with_polar_scores(covariance: AbstractCovariance, loadings: Array) -> tuple[Array, Array]:
    """Give the map to the scores that fit loadings (k x p) best, and ``X'Z / n`` (k x p)."""
    return score_map(covariance, loadings, np.array(1.0))


def directions(loadings: Array) -> Array:
    """Scale rows to length one; rows of zeros stay."""
    size = np.linalg.norm(loadings, axis=-1, keepdims=True)
    return np.asarray(loadings / np.where(size > 0, size, 1.0))


def _principal(covariance: AbstractCovariance, k: int) -> Array:
    """Give up to k principal components: no more than dimensions in which the data vary."""
    trace = covariance.trace()
    if trace == 0:
        return np.empty((0, covariance.n_features))
    loadings = svd_start(covariance, k)
    return np.asarray(loadings[(loadings**2).sum(axis=1) > _NOTHING_LEFT * trace])


def _noise(covariance: AbstractCovariance, components: Array, maps: Array) -> float:
    """Mean square of what the components leave of the data."""
    b = covariance.matmul(maps).T
    left = covariance.trace() - 2 * float((b * components).sum())
    left += float(((b @ maps) * (components @ components.T)).sum())
    floor = _NOISE_FLOOR * (covariance.trace() or 1.0)
    return max(left, floor) / covariance.n_features


def _nothing(covariance: AbstractCovariance) -> Found:
    p = covariance.n_features
    return Found(np.empty((0, p)), np.empty((p, 0)), 0, True, np.empty((0, p)), np.empty(0))
