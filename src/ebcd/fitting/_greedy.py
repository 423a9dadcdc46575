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
from scipy.sparse.linalg import LinearOperator, eigsh

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._noise import AbstractNoise
from ebcd.fitting._rotation import rotate
from ebcd.fitting._shrinkers import NormalMeansShrinker
from ebcd.priors._solve import Prior


@dataclass(frozen=True)
class GreedySettings:
    """How far each component is followed before the next one begins."""

    tol: float = 1e-6  # nats an iteration
    steps: int = 500
    accuracy: float = 1e-9  # of the leading singular vector, so that all kinds of input start alike
    exact_up_to: int = 50  # features up to which all eigenvectors cost next to nothing
    least: float = 1e-13  # share of the variance below which nothing is left to explain
    largest_share: float = 0.8  # of a loading that is posterior variance: bounds over-relaxation


class Begin(NamedTuple):
    """Components to begin with.

    Attributes
    ----------
    loadings : array, k x p
    fitted : list of FittedPrior, optional
        None if they are not known.
    precision : array, 1 or p
    b : array, k x p, optional
        The data rotated to their scores; by default those that fit the loadings best.
    """

    loadings: Array
    fitted: list[Any] | None
    precision: Array
    b: Array | None = None


def greedy_components(
    covariance: AbstractCovariance,
    priors: Sequence[Prior],
    noise: AbstractNoise,
    stop: Callable[[int, int], bool],
    settings: GreedySettings = GreedySettings(),
) -> Begin:
    """Add a component for each prior, until one is empty or `stop` says so.

    `stop` is given the number of iterations of the present component and that of components.
    """
    loadings, fitted = np.empty((0, covariance.n_features)), list[Any]()
    precision = noise.precision(covariance.diagonal())
    for prior in priors:
        found = _next_component(covariance, loadings, precision, prior, noise, stop, settings)
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
    settings: GreedySettings,
) -> tuple[Array, Any, Array] | None:
    """Return loadings, prior and precision after another component; None if it is empty."""
    shrinker = NormalMeansShrinker([prior])
    b_found = rotate(covariance, loadings * precision)[1]
    unexplained = covariance.diagonal() + (loadings * (loadings - 2 * b_found)).sum(axis=0)
    loading = _leading_residual(covariance, loadings, b_found, precision, settings)
    loading = loading * shrinker.oriented(loading[None])[0]
    fitted, value = np.full((1, 1), None, dtype=object), -np.inf
    for step in range(settings.steps):
        b = _rotated(covariance, loading * precision, b_found, settings.least)
        s = np.sqrt(1 / (noise.n_samples * precision))
        shrunk = shrinker.shrink(b[None, None], s[None, None], fitted)
        mean, fitted = shrunk.mean[0, 0], shrunk.priors
        if not mean.any():
            return None
        residual = np.maximum(unexplained + shrunk.fit[0], 0.0)
        precision = noise.precision(residual)
        old, value = value, float(noise.value(precision, residual) + shrunk.objective[0])
        if value - old < settings.tol or stop(step + 1, len(loadings) + 1):
            break
        # near the end each step covers the same share of what is left
        share = float(shrunk.variance.sum() / max(b @ mean, 1e-300))
        stretch = 1 / (1 - min(share, settings.largest_share)) if value - old < 1 else 1.0
        loading = loading + stretch * (mean - loading)
    return mean, fitted[0, 0], precision


def _rotated(
    covariance: AbstractCovariance, direction: Array, b_found: Array, least: float
) -> Array:
    product = covariance.matmul(direction[:, None])[:, 0]
    product = product - b_found.T @ (b_found @ direction)
    energy = float(direction @ product)
    if energy <= least * float(direction @ direction) * covariance.trace():
        return np.zeros_like(direction)  # the components so far explain all there is
    return np.asarray(product / np.sqrt(energy))


def _leading_residual(
    covariance: AbstractCovariance,
    loadings: Array,
    b_found: Array,
    precision: Array,
    settings: GreedySettings,
) -> Array:
    """Leading singular vector of the residual, times its singular value over sqrt(n)."""
    p = covariance.n_features
    scale = np.broadcast_to(np.sqrt(precision), (p,))  # one for all, or the noise is divided out

    def product(v: Array) -> Array:
        v = scale * v.ravel()
        along_l, along_b = loadings @ v, b_found @ v
        image = covariance.matmul(v[:, None])[:, 0]
        return np.asarray(scale * (image - b_found.T @ along_l + loadings.T @ (along_l - along_b)))

    if p <= settings.exact_up_to:
        matrix = np.array([product(row) for row in np.eye(p)])
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    else:
        start = np.random.default_rng(0).standard_normal(p)
        operator = LinearOperator((p, p), matvec=product, dtype=np.float64)
        values, vectors = eigsh(operator, k=1, which="LA", v0=start, tol=settings.accuracy)
    return np.asarray(np.sqrt(max(values[-1], 0.0)) * vectors[:, -1] / scale)
