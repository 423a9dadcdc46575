"""Components one by one: the greedy start of the paper's Algorithm 1.

Each component begins as the leading singular vector of the residual, and its scores stay orthogonal
to those of the components before it. All that is needed of the data are products with ``S``: the
residual covariance is ``D = S - B L' - L B' + L L'``, and the rotation of a new component is
``b = M l / sqrt(l' M l)`` with ``M = S - B B'``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._deflation import Derived
from ebcd.fitting._noise import AbstractNoise
from ebcd.fitting._rotation import NEGLIGIBLE, rotate
from ebcd.fitting._shrinkers import NormalMeansShrinker
from ebcd.fitting._starts import svd_start
from ebcd.priors._solve import Prior


@dataclass(frozen=True)
class GreedySettings:
    """How far each component is followed before the next one begins."""

    tol: float = 1e-6  # nats an iteration
    steps: int = 500
    largest_share: float = 0.8  # of a loading that is posterior variance: bounds over-relaxation


SETTINGS = GreedySettings()


class Begin(NamedTuple):
    """Components to begin with."""

    loadings: Array  # k x p
    fitted: list[Any] | None  # their priors, None if they are not known
    precision: Array  # 1 or p
    b: Array | None = None  # k x p, the data rotated to their scores; by default the best scores


def greedy_components(
    covariance: AbstractCovariance,
    priors: Sequence[Prior],
    noise: AbstractNoise,
    stop: Callable[[int, int], bool],
) -> Begin:
    """Add a component for each prior, until one is empty or `stop` says so.

    `stop` is given the number of iterations of the present component and that of components.
    """
    loadings, fitted = np.empty((0, covariance.n_features)), list[Any]()
    precision = noise.precision(covariance.diagonal())
    for prior in priors:
        found = _next_component(covariance, loadings, precision, prior, noise, stop)
        if found is None:
            break
        mean, prior_found, precision = found
        loadings, fitted = np.vstack([loadings, mean]), [*fitted, prior_found]
        if stop(0, len(fitted)):
            break
    return Begin(loadings, fitted, precision)


def _next_component(
    covariance: AbstractCovariance,
    loadings: Array,
    precision: Array,
    prior: Prior,
    noise: AbstractNoise,
    stop: Callable[[int, int], bool],
) -> tuple[Array, Any, Array] | None:
    """Return loadings, prior and precision after another component; None if it is empty."""
    shrinker = NormalMeansShrinker([prior])
    b_found = rotate(covariance, loadings * precision)[1]
    left = _Residual(covariance, loadings, b_found, precision)
    loading = svd_start(left, 1)[0] / left.scale
    loading = loading * shrinker.oriented(loading[None])[0]
    fitted, value = np.full((1, 1), None, dtype=object), -np.inf
    for step in range(SETTINGS.steps):
        b = _rotated(covariance, loading * precision, b_found)
        s = np.sqrt(1 / (noise.n_samples * precision))
        shrunk = shrinker.shrink(b[None, None], s[None, None], fitted)
        mean, fitted = shrunk.mean[0, 0], shrunk.priors
        if not mean.any():
            return None
        residual = np.maximum(left.variances + shrunk.fit[0], 0.0)
        precision = noise.precision(residual)
        old, value = value, float(noise.value(precision, residual) + shrunk.objective[0])
        if value - old < SETTINGS.tol or stop(step + 1, len(loadings) + 1):
            break
        # near the end each step covers the same share of what is left
        share = float(shrunk.variance.sum() / max(b @ mean, 1e-300))
        stretch = 1 / (1 - min(share, SETTINGS.largest_share)) if value - old < 1 else 1.0
        loading = loading + stretch * (mean - loading)
    return mean, fitted[0, 0], precision


def _rotated(covariance: AbstractCovariance, direction: Array, b_found: Array) -> Array:
    product = covariance.matmul(direction[:, None])[:, 0]
    product = product - b_found.T @ (b_found @ direction)
    energy = float(direction @ product)
    if energy <= NEGLIGIBLE * float(direction @ direction) * covariance.trace():
        return np.zeros_like(direction)  # the components so far explain all there is
    return np.asarray(product / np.sqrt(energy))


class _Residual(Derived):
    """What components leave of the data, each feature divided by the deviation of its noise."""

    def __init__(
        self, covariance: AbstractCovariance, loadings: Array, b: Array, precision: Array
    ) -> None:
        super().__init__(covariance, covariance.n_features)
        self._loadings, self._b = loadings, b
        self.scale = np.broadcast_to(np.sqrt(precision), covariance.n_features)
        self.variances = covariance.diagonal() + (loadings * (loadings - 2 * b)).sum(axis=0)

    def matmul(self, v: Array) -> Array:
        """Multiply by ``D``, divided."""
        scale, loadings, b = self.scale[:, None], self._loadings, self._b
        v = scale * v
        along_l, along_b = loadings @ v, b @ v
        image = self._covariance.matmul(v) - b.T @ along_l + loadings.T @ (along_l - along_b)
        return np.asarray(scale * image)

    def diagonal(self) -> Array:
        """Return the variances that are left, divided."""
        return np.asarray(self.scale**2 * self.variances)
