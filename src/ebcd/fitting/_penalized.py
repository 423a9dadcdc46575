"""Penalised PCA: the best of several starts, and the strength that empties every component."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._alternate import Progress, alternate
from ebcd.fitting._methods import METHODS, Components, Strength, best_of
from ebcd.fitting._rotation import rotate
from ebcd.penalties import AbstractPenalty


@dataclass(frozen=True)
class PenalizedSettings:
    """How far penalised PCA searches, and with how much memory."""

    overlap: float = 0.05  # angle between components (radians) that may be handed over
    turn: float = 0.3  # radians, enough to leave the neighbourhood of a saddle
    largest_stack: int = 4_000_000  # entries that are held at once: loadings, rows of folds
    # Thresholds of a grid span this ratio: what is smaller hardly differs from no penalty.
    smallest: float = 1e-3
    fold_tol: float = 1e-8  # errors of held-out rows need fewer digits than loadings


SETTINGS = PenalizedSettings()


def fit_penalized(
    covariance: AbstractCovariance,
    penalty: AbstractPenalty,
    alpha: Array,
    starts: Array,
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> Components:
    """Fit from every start, then look for better optima near the best.

    Parameters
    ----------
    covariance : AbstractCovariance
    penalty : AbstractPenalty
    alpha : array
        One strength, or one for each component.
    starts : array, starts x k x p
        Loadings.
    tol : float
        Gain of an iteration, as a share of half the sum of squares, at which a fit has converged.
    max_iter : int
        Largest number of iterations from a start.
    progress : callable, optional
        Called after every iteration.

    Returns
    -------
    Components
        Their path has what the criterion falls by.
    """
    n, tol = covariance.n_samples, max(tol, 50 * np.finfo(np.float64).eps)
    length = np.sqrt(n) * covariance.unit
    method = METHODS["PenalizedPCA"]
    shrinkage = method.shrinkage(
        penalty, alpha.reshape(1, -1, 1), np.full((1, 1, 1), length), np.array([n])
    )
    run = partial(
        alternate,
        lambda loadings, _: method.rotation(covariance, loadings),
        shrinkage,
        tol=tol,
        max_iter=max_iter,
        momentum=True,
        progress=progress,
    )
    half = 0.5 * n * covariance.trace()
    best = best_of(run(starts, size=np.full(len(starts), half)))
    path = best.path
    while True:
        near = oriented(penalty, np.array(list(_neighbours(best.loadings))))
        near = near[: SETTINGS.largest_stack // starts[0].size]
        if near.size == 0:
            break
        enough = path[-1] + tol * half
        found = run(near, size=np.full(len(near), half), rival=enough)
        # a fit that ends after one iteration has not been compared yet
        better = [fit for fit in found if fit.path[-1] > enough]
        if not better:
            break
        best = best_of(better)
        path = np.append(path, best.path)
    weights, _ = rotate(covariance, best.loadings)
    return Components(best.loadings, weights, best.observed, path, path.size, best.converged)


def oriented(penalty: AbstractPenalty, loadings: Array) -> Array:
    """Turn rows to the side that a one-sided penalty allows, as far as they can be."""
    if not penalty.one_sided:
        return loadings
    return np.where((loadings**3).sum(axis=-1, keepdims=True) < 0, -loadings, loadings)


def _neighbours(loadings: Array) -> Iterator[Array]:
    """Yield rotations of two components, from which a better optimum may be reached.

    Scores are uncorrelated in the sample, true ones never quite, so that one of two sparse
    components must take up a little of the other. Either can, and both are optima: rotations hand
    the overlap over. Others leave saddle points.
    """
    gram = loadings @ loadings.T
    angles = np.arctan2(gram, np.diag(gram))
    np.fill_diagonal(angles, 0.0)
    for i, j in zip(*np.nonzero(np.abs(angles) > SETTINGS.overlap), strict=True):
        yield _turned(loadings, int(i), int(j), float(angles[i, j]))
    alive = np.flatnonzero(loadings.any(axis=1))  # what is empty stays so
    for i, j in combinations(alive.tolist(), 2):
        for angle in (SETTINGS.turn, -SETTINGS.turn):
            yield _turned(loadings, i, j, angle)


def _turned(loadings: Array, i: int, j: int, angle: float) -> Array:
    turned = loadings.copy()
    turned[i] = np.cos(angle) * loadings[i] - np.sin(angle) * loadings[j]
    turned[j] = np.sin(angle) * loadings[i] + np.cos(angle) * loadings[j]
    return turned


def emptying_strengths(penalty: AbstractPenalty, sizes: Array) -> Array:
    """Compute the smallest strengths at which proximal maps of entries of some sizes are zero.

    Parameters
    ----------
    penalty : AbstractPenalty
    sizes : array
        Positive numbers.
    """
    v = sizes[:, None]

    def empty(alpha: Array) -> np.ndarray:
        return np.asarray(Strength(penalty, alpha, 1.0).prox(v)[:, 0] == 0)

    high = np.array(v)
    while not empty(high).all():
        with np.errstate(over="ignore"):
            high = np.where(empty(high)[:, None], high, 4 * high)
        if not np.isfinite(high).all():
            raise ValueError(
                f"the penalty {penalty!r} leaves no component empty however strong it is, so that "
                "a grid of alphas cannot be chosen from the data; give alphas as an array"
            )
    low = np.zeros_like(high)
    while True:  # bisection, until there is no number in between
        middle = 0.5 * (low + high)
        if ((middle == low) | (middle == high)).all():
            return np.asarray(high[:, 0])
        enough = empty(middle)[:, None]
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
