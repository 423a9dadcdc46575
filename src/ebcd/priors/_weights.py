"""Maximum-likelihood mixture weights: a convex problem, solved to a certificate.

Given the likelihoods ``A[k, i]`` of observation i under component k, maximise

    (1)  sum_i c_i log(sum_k w_k A[k, i])  over  w >= 0, sum w = 1.

At the maximum the derivatives ``D_k = sum_i c_i A[k, i] / f_i`` are at most ``n = sum c_i``, and
``max D - n`` bounds how far (1) is below its maximum. The method is Wang's constrained Newton
method (J. R. Stat. Soc. B 69, 185-198, 2007): keep the few components that carry weight, add those
at local maxima of ``D``, and solve the quadratic model of (1) over non-negative weights.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import optimize

from ebcd._numerics import Array

GOAL = 1e-14  # certificate per observation at which to stop
_SPARE = 100.0  # logarithm by which scaled likelihoods may exceed one, far from overflow
_NOTHING = 1e-150  # scaled likelihood: products of smaller ones are denormal, which is slow
_NEARLY = 1e-7  # below which what is left to gain drowns in rounding of the value


class Likelihoods:
    """Likelihoods of observations (columns) under components (rows), scaled to stay in range."""

    def __init__(self, log_likelihood: Array, counts: Array | None) -> None:
        self._top = log_likelihood.max(axis=0)
        self.rows = self._scaled(log_likelihood)
        self.counts = np.ones(self._top.shape) if counts is None else counts
        self.total = float(self.counts.sum())
        self.offset = float(self.counts @ self._top)

    def add(self, log_likelihood: Array, order: np.ndarray) -> None:
        """Add components, and bring all of them into another order."""
        top = np.maximum(self._top, log_likelihood.max(axis=0))
        if (top - self._top).max() > _SPARE:
            self.rows *= np.exp(self._top - top)
            self._top, self.offset = top, float(self.counts @ top)
        self.rows = np.concatenate([self.rows, self._scaled(log_likelihood)])[order]

    def _scaled(self, log_likelihood: Array) -> Array:
        rows = log_likelihood - self._top
        np.exp(rows, out=rows)
        rows[rows < _NOTHING] = 0.0
        return np.asarray(rows)

    def value(self, density: Array) -> float:
        """Log-likelihood (1) of the scaled mixture density, less `offset`."""
        return float(self.counts @ np.log(density))


class WeightFit(NamedTuple):
    """Weights, the log-likelihood, and the certificate per observation."""

    weights: Array
    log_likelihood: float
    certificate: float


def fit_weights(
    likelihoods: Likelihoods, start: Array | None = None, goal: float = GOAL
) -> WeightFit:
    """Maximise (1), from given weights if there are any; the result is never worse.

    The certificate per observation at which to stop is `goal`.
    """
    rows, counts = likelihoods.rows, likelihoods.counts
    weights = _em_start(likelihoods) if start is None else start / start.sum()
    density = weights @ rows
    if not (density > 0).all():  # the start rules some observation out
        weights = _em_start(likelihoods)
        density = weights @ rows
    value = likelihoods.value(density)
    certificate = np.inf
    for _ in range(300):  # tens are enough
        derivative = rows @ (counts / density)
        certificate = float(derivative.max() / likelihoods.total - 1)
        if certificate <= goal:
            break
        direction = _newton_direction(likelihoods, weights, density, derivative)
        if certificate < _NEARLY:
            new = np.maximum(weights + direction, 0.0)
            new /= new.sum()
            new_density = new @ rows
            better = float((rows @ (counts / new_density)).max() / likelihoods.total - 1)
            if not better < certificate:
                break
            weights, density, value = new, new_density, likelihoods.value(new_density)
            continue
        move = _line_search(likelihoods, weights, direction, density, value)
        if move is None:  # towards the best component: uphill whatever the quadratic model says
            vertex = np.zeros_like(weights)
            vertex[int(derivative.argmax())] = 1.0
            move = _line_search(likelihoods, weights, vertex - weights, density, value)
        if move is None:
            break
        weights, density, value = move
    return WeightFit(weights, value + likelihoods.offset, max(certificate, 0.0))


def _em_start(likelihoods: Likelihoods) -> Array:
    weights = np.full(likelihoods.rows.shape[0], 1.0 / likelihoods.rows.shape[0])
    for _ in range(5):
        derivative = likelihoods.rows @ (likelihoods.counts / (weights @ likelihoods.rows))
        weights = np.maximum(weights * derivative, 0.0)
        weights /= weights.sum()
    # drop what hardly matters; it comes back if it is wanted
    density = weights @ likelihoods.rows
    for threshold in (0.2, 0.02):
        kept = np.where(weights >= threshold / weights.size, weights, 0.0)
        if (kept @ likelihoods.rows >= 0.5 * density).all():
            return np.asarray(kept / kept.sum())
    return weights


def _newton_direction(
    likelihoods: Likelihoods, weights: Array, density: Array, derivative: Array
) -> Array:
    total = likelihoods.total
    support = np.flatnonzero((weights > 0) | _promising(derivative, total))
    ratio = likelihoods.rows[support] / density
    target = np.zeros_like(weights)
    target[support] = _quadratic_step(ratio, likelihoods.counts, derivative[support], total)
    return target - weights


def _promising(derivative: Array, total: float) -> np.ndarray:
    """Mark local maxima of the derivative that exceed the bound."""
    peak = derivative > total
    peak[1:] &= derivative[1:] >= derivative[:-1]
    peak[:-1] &= derivative[:-1] >= derivative[1:]
    return np.asarray(peak)


def _quadratic_step(ratio: Array, counts: Array, derivative: Array, total: float) -> Array:
    """Maximise the quadratic model of (1) over non-negative weights."""
    hessian = (ratio * counts) @ ratio.T
    wanted = 2 * derivative - total
    ridge = 1e-14 * float(np.trace(hessian))
    while True:
        try:
            root = np.linalg.cholesky(hessian + ridge * np.eye(wanted.size))
            break
        except np.linalg.LinAlgError:  # components that the data cannot tell apart
            ridge *= 100
    y = np.linalg.solve(root, wanted)
    solution = np.linalg.solve(root.T, y)
    if (solution < 0).any():
        solution, _ = optimize.nnls(root.T, y, maxiter=30 * wanted.size)
    return np.asarray(solution)


def _line_search(
    likelihoods: Likelihoods, weights: Array, direction: Array, density: Array, value: float
) -> tuple[Array, Array, float] | None:
    change = direction @ likelihoods.rows
    step = 1.0
    for _ in range(50):
        new = np.maximum(weights + step * direction, 0.0)
        size = new.sum()
        new_density = (density + step * change) / size if size > 0 else change
        if (new_density > 0).all():
            new_value = likelihoods.value(new_density)
            if new_value > value:
                new /= size
                return new, new @ likelihoods.rows, new_value
        step *= 0.5
    return None
