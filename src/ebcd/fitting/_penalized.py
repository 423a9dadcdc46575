"""Penalized PCA: the best of several starts, cross-validation, and the grid of its strengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from ebcd._numerics import Array, chunks
from ebcd.data import AbstractCovariance
from ebcd.fitting._alternate import Fit, Progress, alternate
from ebcd.fitting._methods import METHODS, Components, Strength, best_of, unit_rows
from ebcd.fitting._rotation import inverse_root, rotate
from ebcd.fitting._search import SETTINGS as SEARCH
from ebcd.penalties import AbstractPenalty


@dataclass(frozen=True)
class PenalizedSettings:
    """How far penalized PCA searches, and with how much memory."""

    turn: float = 0.3  # radians, enough to leave the neighborhood of a saddle
    largest_stack: int = 4_000_000  # entries of loadings that are held at once


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
    """Fit from every start (starts x k x p), then look for better optima near the best.

    Gains are compared with `tol` as shares of half the sum of squares of the data. The path has
    what the criterion falls by; the detail of a component is its strength.
    """
    tol = max(tol, 50 * np.finfo(np.float64).eps)
    alpha = np.full(starts.shape[1], alpha)
    run = partial(
        fit_stack, covariance, penalty, alpha, tol=tol, max_iter=max_iter, progress=progress
    )
    best = best_of(run(starts))
    half = 0.5 * covariance.n_samples * covariance.trace()
    path = best.path
    while True:
        near = oriented(penalty, np.array(list(_neighbours(best.loadings))))
        near = near[: SETTINGS.largest_stack // starts[0].size]
        if near.size == 0:
            break
        enough = path[-1] + tol * half
        found = run(near, rival=enough)
        # a fit that ends after one iteration has not been compared yet
        better = [fit for fit in found if fit.path[-1] > enough]
        if not better:
            break
        best = best_of(better)
        path = np.append(path, best.path)
    loadings, observed, _, converged = best
    weights, _ = rotate(covariance, loadings)
    levels = np.zeros_like(alpha)
    return Components(loadings, weights, observed, path, path.size, converged, levels, detail=alpha)


def oriented(penalty: AbstractPenalty, loadings: Array) -> Array:
    """Turn rows to the side that a one-sided penalty allows, as far as they can be."""
    if not penalty.one_sided:
        return loadings
    return np.where(np.vecdot(loadings * loadings, loadings)[..., None] < 0, -loadings, loadings)


def _neighbours(loadings: Array) -> Iterator[Array]:
    """Yield rotations of two components, from which a better optimum may be reached.

    Scores are uncorrelated in the sample, true ones never quite, so that one of two sparse
    components must take up a little of the other. Either can, and both are optima: rotations hand
    the overlap over. Others leave saddle points.
    """
    gram = loadings @ loadings.T
    angles = np.arctan2(gram, np.diag(gram))
    np.fill_diagonal(angles, 0.0)
    for i, j in zip(*np.nonzero(np.abs(angles) > SEARCH.overlap), strict=True):
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


def held_out_errors(
    covariance: AbstractCovariance,
    test: Array,
    start: Array,
    penalty: AbstractPenalty,
    alphas: Array,
    *,
    warm_path: bool = False,
    **options: Any,
) -> Array:
    """Compute squared errors of test rows projected on the loadings, in units of the data.

    Every strength, in increasing order, is tried on the covariance of the training rows, all at
    once or (`warm_path`) each from where the one before it ended. The `start` (k x p) and the test
    rows are in working units of the covariance.
    """
    errors = []
    at_once = 1 if warm_path else max(1, SETTINGS.largest_stack // max(start.size, 1))
    for part in chunks(alphas.size, at_once):
        strengths = alphas[part, None]
        starts = np.tile(start, (len(strengths), 1, 1))
        fits = fit_stack(covariance, penalty, strengths, starts, **options)
        loadings = np.array([fit.loadings for fit in fits])
        errors.append(_left_over(test, loadings))
        if warm_path:
            start = loadings[0]
    return np.concatenate(errors) * covariance.unit**2


def fit_stack(
    covariance: AbstractCovariance,
    penalty: AbstractPenalty,
    alpha: Array,
    starts: Array,
    **options: Any,
) -> list[Fit]:
    """Fit from every start, with strengths `alpha` that broadcast to fits x k.

    Gains are relative to half the sum of squares of the data; `options` are those of `alternate`.
    """
    n, method = covariance.n_samples, METHODS["PenalizedPCA"]
    alpha = np.broadcast_to(alpha, starts.shape[:2])[:, :, None]
    length, half = np.sqrt(n) * covariance.unit, 0.5 * n * covariance.trace()
    return alternate(
        partial(method.rotation, covariance),
        lambda b, fits: method.shrinkage(b, penalty, alpha[fits], length, n),
        starts,
        size=half or 1.0,
        momentum=True,
        **options,
    )


def _left_over(test: Array, loadings: Array) -> Array:
    """Compute the squared distance of test rows from the space that each set of loadings spans."""
    unit = unit_rows(loadings)
    _, k, p = unit.shape
    scores = (unit.reshape(-1, p) @ test.T).reshape(-1, k, len(test))
    basis = inverse_root(unit @ unit.swapaxes(1, 2)) @ scores
    return np.asarray(np.vecdot(test, test).sum() - (basis**2).sum(axis=(1, 2)))


def emptying_strengths(penalty: AbstractPenalty, sizes: Array) -> Array:
    """Compute the smallest strengths at which proximal maps of entries of some sizes are zero."""
    v = sizes[:, None]

    def empty(alpha: Array) -> Array:
        return np.asarray(Strength(penalty, alpha, 1.0).prox(v) == 0)

    high = v
    while not empty(high).all():
        with np.errstate(over="ignore"):
            high = np.where(empty(high), high, 4 * high)
        if not np.isfinite(high).all():
            raise ValueError(
                f"the penalty {penalty!r} leaves no component empty however strong it is, so a "
                "grid of alphas cannot be chosen from the data; pass alphas as an array"
            )
    low = np.zeros_like(high)
    while True:  # bisection, until there is no number in between
        middle = 0.5 * (low + high)
        if ((middle == low) | (middle == high)).all():
            return np.asarray(high[:, 0])
        enough = empty(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
