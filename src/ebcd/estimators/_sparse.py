"""Sparse PCA methods with tuning parameters: how they run, and what a fit leaves behind."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ebcd._numerics import Array
from ebcd._parameters import check_length
from ebcd._warnings import warn_user
from ebcd.data import AbstractCovariance, Input
from ebcd.estimators._readable import Readable, Shrinkage
from ebcd.fitting._methods import Components
from ebcd.fitting._progress import Monitor
from ebcd.fitting._rotation import NEGLIGIBLE
from ebcd.fitting._starts import svd_start


class SparseDecomposition(Readable):
    """Base of the sparse PCA methods; a subclass says in `_find` how components are found."""

    _lists: tuple[str, ...] = ()  # parameters that may have a value for each component
    _remedy: str  # against components without loadings
    _detail: str | None = None  # attribute with one more number for each component
    _degree: int  # of the criterion in the units of the data

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in self._lists:
            check_length(name, getattr(self, name), self.n_components)

    def _check(self, data: Input) -> None:
        """Check parameters whose range depends on the data."""

    def _fit_data(self, data: Input, monitor: Monitor) -> Self:
        self._check(data)
        covariance = data.covariance.best_route(self.n_components)
        principal = _principal(covariance, self.n_components)
        none = np.empty((0, covariance.n_features))
        found = Components(none, none, none, np.zeros(1), 0, True, np.empty(0), np.empty(0))
        if len(principal):
            found = self._find(covariance, principal, data)
        self._store(found, covariance, data)
        self._warn(len(principal))
        return self

    @abstractmethod
    def _find(self, covariance: AbstractCovariance, principal: Array, data: Input) -> Components:
        """Find as many components as there are principal components (k x p)."""

    def _per_component(self, name: str) -> Array:
        """Return a number for each component from one number or one for each."""
        return np.full(self.n_components, getattr(self, name), dtype=np.float64)

    def _store(self, found: Components, covariance: AbstractCovariance, data: Input) -> None:
        back = data.scale * covariance.unit
        chosen = self._chosen(found.loadings * back)
        loadings, weights = found.loadings[chosen], found.weights[chosen]
        sign = np.array([self._sign(row, row * back) for row in loadings]).reshape(-1, 1)
        if self._detail is not None and found.detail is not None:
            setattr(self, self._detail, found.detail[chosen])
        self._observed = sign * found.observed[chosen] * covariance.unit
        self._levels = found.levels[chosen] * covariance.unit
        self._score_map = (sign * weights / back).T
        self.components_ = sign * loadings * back
        variance = back**2 * _mean_residual(covariance, loadings, weights)
        self.noise_variance_ = variance if self.scale else float(variance[0])
        self._store_common(data)
        self.n_iter_, self.converged_ = found.n_iter, bool(found.converged)
        self._store_path(found.path, covariance)

    def _chosen(self, components: Array) -> Any:
        """Numbers of the components that are not empty, in the order in which they are shown."""
        alive = np.flatnonzero(components.any(axis=1))
        if any(np.ndim(getattr(self, name)) for name in self._lists):
            return alive  # what the user said of each component is in the order of the start
        return alive[np.argsort(-(components[alive] ** 2).sum(axis=1), kind="stable")]

    def _sign(self, loadings: Array, component: Array) -> float:
        """Sign that makes the largest entry of a component positive."""
        return float(np.sign(component[np.abs(component).argmax()]))

    def _store_path(self, path: Array, covariance: AbstractCovariance) -> None:
        """Keep the criterion, in units of the data."""
        self.objective_path_ = path * covariance.unit**self._degree
        self.objective_ = float(self.objective_path_[-1])

    def _threshold(self, observed: Array, level: float) -> Array:
        """Set small entries to zero, and perhaps move the others."""
        raise NotImplementedError  # pragma: no cover - unless `_shrinkage` is another one

    def _shrinkage(self, k: int) -> Shrinkage:
        """Return the threshold, after which the component is brought to its length."""
        observed, level = self._observed[k], float(self._levels[k])
        length = np.linalg.norm(self.components_[k] / self.scale_)
        factor = float(length / np.linalg.norm(self._threshold(observed, level)))
        return Shrinkage(observed, lambda x: factor * self._threshold(x, level))

    def _warn(self, wanted: int) -> None:
        name, lost = type(self).__name__, wanted - self.n_components_
        if wanted == 0:
            warn_user(f"{name} found no component: the data do not vary")
        elif lost:
            warn_user(
                f"{name} dropped {lost} of {wanted} components, whose loadings are all zero; "
                f"{self._remedy}"
            )
        if not self.converged_:
            warn_user(
                f"{name} stopped after {self.n_iter_} iterations before it converged; raise "
                "max_iter or tol",
                ConvergenceWarning,
            )


def _principal(covariance: AbstractCovariance, k: int) -> Array:
    """Compute up to k principal components: no more than dimensions in which the data vary."""
    trace = covariance.trace()
    if trace == 0:
        return np.empty((0, covariance.n_features))
    loadings = svd_start(covariance, k)
    return np.asarray(loadings[(loadings**2).sum(axis=1) > NEGLIGIBLE * trace])


def _mean_residual(covariance: AbstractCovariance, loadings: Array, weights: Array) -> float:
    """Compute the mean square of what components leave of the data."""
    b = covariance.matmul(weights.T).T
    left = covariance.trace() - 2 * float((b * loadings).sum())
    left += float(((b @ weights.T) * (loadings @ loadings.T)).sum())
    floor = NEGLIGIBLE * (covariance.trace() or 1.0)
    return max(left, floor) / covariance.n_features
