"""Penalised PCA with the one loop: its problem, its best start, the strength that empties it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._loop import Fit, Problem, Progress, State, alternate
from ebcd.fitting._momentum import SMALL_GAIN, momentum
from ebcd.fitting._penalty_shrinker import FixedNoise, PenaltyShrinker, Strength
from ebcd.penalties import AbstractPenalty

_ROUNDING = 1e-14  # gain, as a share of the sum of squares, that may be rounding
_HALVINGS = 60
_STRONGEST = 1e12  # over the squared argument


def penalized_problem(
    covariance: AbstractCovariance, penalty: AbstractPenalty, alpha: Array
) -> Problem:
    """Put the problem together."""
    return Problem(covariance, PenaltyShrinker(penalty, alpha, covariance), FixedNoise(covariance))


def half_sum_of_squares(covariance: AbstractCovariance) -> float:
    """Give the criterion of no components, in working units."""
    return 0.5 * covariance.n_samples * covariance.trace()


def fit_penalized(
    problem: Problem,
    starts: Iterable[Array],
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> Fit:
    """Fit from every start and return the best fit.

    Parameters
    ----------
    problem : Problem
    starts : iterable of array, k x p
        Loadings, at least one set.
    tol : float
        Gain an iteration, as a share of half the sum of squares, at which a fit has converged.
    max_iter : int
        Largest number of iterations from a start.
    progress : callable, optional
        Called after every accelerated iteration.
    """
    total = half_sum_of_squares(problem.covariance)
    tol = max(tol, _ROUNDING)
    fits = []
    for loadings in starts:
        state, path = _settled(problem, problem.start(loadings), tol, max_iter)
        left = max(max_iter - len(path) + 1, 1)
        fit = alternate(problem, state, tol=tol * total, max_iter=left, progress=progress)
        whole = replace(fit, path=path + fit.path[1:], n_iter=len(path) - 1 + fit.n_iter)
        fits.append(whole)
    return max(fits, key=lambda fit: fit.state.value)


def _settled(
    problem: Problem, state: State, tol: float, max_iter: int
) -> tuple[State, list[float]]:
    """Iterate with momentum once gains are small, until they are tiny; give the path, too.

    Momentum is added to the loadings, which goes through to ``X L`` of the next rotation.
    """
    total = half_sum_of_squares(problem.covariance)
    path, age, before = [state.value], 0, state.mean
    while len(path) < max_iter:
        proposal = state.mean
        if age:
            alive = state.mean.any(axis=1, keepdims=True)  # what is empty stays so
            proposal = state.mean + momentum(age) * alive * (state.mean - before)
        new = problem.plain(state, proposal)
        if age and new.value < state.value:
            age, new = 0, problem.plain(state, state.mean)
        gain = (new.value - state.value) / total
        path.append(new.value)
        before, state = state.mean, new
        age = age + 1 if gain < SMALL_GAIN else 0
        if gain < tol:
            break
    return state, path


def emptying_strengths(penalty: AbstractPenalty, sizes: Array) -> Array:
    """Give the smallest strengths at which the proximal maps of entries of some sizes are zero.

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
        high = np.where(empty(high)[:, None], high, 4 * high)
        if (high > _STRONGEST * np.maximum(v, v**2)).any():
            raise ValueError(
                f"the penalty {penalty!r} leaves no component empty however strong it is, so that "
                "a grid of alphas cannot be chosen from the data; give alphas as an array"
            )
    low = np.zeros_like(high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = empty(middle)[:, None]
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high[:, 0])
