"""Maximum-likelihood mixture weights: a convex problem, solved to a certificate.

Given the likelihoods ``A[k, i]`` of observation i under component k, maximize

    (1)  sum_i c_i log(sum_k w_k A[k, i])  over  w >= 0, sum w = 1.

At the maximum the derivatives ``D_k = sum_i c_i A[k, i] / f_i`` are at most ``n = sum c_i``, and
``max D - n`` bounds how far (1) is below its maximum. The method is Wang's constrained Newton
method (J. R. Stat. Soc. B 69, 185-198, 2007): keep the few components that carry weight, add those
at local maxima of ``D``, and solve the quadratic model of (1) over non-negative weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.linalg import lapack

from ebcd._numerics import Array

_EPS = float(np.finfo(float).eps)
# Scaled likelihood: products of smaller ones are denormal, which is slow.
_NOTHING = math.sqrt(np.finfo(float).tiny)


class WeightFit(NamedTuple):
    """Weights, the log-likelihood, and the certificate per observation."""

    weights: Array
    log_likelihood: float
    certificate: float


def fit_weights(
    log_likelihood: Array,
    counts: Array | None = None,
    start: Array | None = None,
    goal: float = 0.0,
) -> WeightFit:
    """Maximize (1), from given weights if there are any; the result is never worse.

    Rows of the log-likelihood are components, columns observations, which occur as often as
    `counts` says. It may stop once no more than `goal` is missing, in nats.
    """
    top = log_likelihood.max(axis=0)
    rows = log_likelihood - top
    np.exp(rows, out=rows)
    rows[rows < _NOTHING] = 0.0
    counts = np.ones(top.shape) if counts is None else counts
    total = float(counts.sum())
    weights = _em_start(rows, counts) if start is None else start / start.sum()
    density = weights @ rows
    if not (density > 0).all():  # the start rules some observation out
        weights = _em_start(rows, counts)
        density = weights @ rows
    value = float(counts @ np.log(density))
    certificate = np.inf
    for _ in range(300):  # tens are enough
        derivative = rows @ (counts / density)
        certificate = float(derivative.max() / total - 1)
        if certificate <= max(goal / total, _EPS):
            break
        support = np.flatnonzero((weights > 0) | _promising(derivative, total))
        direction = -weights
        ratio = rows[support] / density
        direction[support] += _quadratic_step(ratio, counts, derivative[support], total)
        if certificate < math.sqrt(_EPS):  # what is left to gain drowns in rounding of the value
            new = np.maximum(weights + direction, 0.0)
            new /= new.sum()
            new_density = new @ rows
            better = float((rows @ (counts / new_density)).max() / total - 1)
            if not better < certificate:
                break
            weights, density, value = new, new_density, float(counts @ np.log(new_density))
            continue
        move = _line_search(rows, counts, weights, direction, density, value)
        if move is None:  # toward the best component: uphill whatever the quadratic model says
            vertex = np.zeros_like(weights)
            vertex[int(derivative.argmax())] = 1.0
            move = _line_search(rows, counts, weights, vertex - weights, density, value)
        if move is None:
            break
        weights, density, value = move
    return WeightFit(weights, value + float(counts @ top), max(certificate, 0.0))


def _em_start(rows: Array, counts: Array) -> Array:
    weights = np.full(len(rows), 1.0 / len(rows))
    for _ in range(5):
        weights = np.maximum(weights * (rows @ (counts / (weights @ rows))), 0.0)
        weights /= weights.sum()
    # drop what hardly matters; it comes back if it is wanted
    density = weights @ rows
    for threshold in (0.2, 0.02):
        kept = np.where(weights >= threshold / weights.size, weights, 0.0)
        if (kept @ rows >= 0.5 * density).all():
            return np.asarray(kept / kept.sum())
    return weights


def _promising(derivative: Array, total: float) -> np.ndarray:
    """Mark local maxima of the derivative that exceed the bound."""
    peak = derivative > total
    peak[1:] &= derivative[1:] >= derivative[:-1]
    peak[:-1] &= derivative[:-1] >= derivative[1:]
    return np.asarray(peak)


def _quadratic_step(ratio: Array, counts: Array, derivative: Array, total: float) -> Array:
    """Maximize the quadratic model of (1) over non-negative weights."""
    hessian = (ratio * counts) @ ratio.T
    wanted = 2 * derivative - total
    ridge = 1e-14 * float(np.trace(hessian))
    while True:
        hessian.flat[:: wanted.size + 1] += ridge
        root, solution, failed = lapack.dposv(hessian, wanted, lower=1)
        if not failed:
            break
        ridge *= 100  # components that the data cannot tell apart
    if (solution < 0).any():
        y, _ = lapack.dtrtrs(root, wanted, lower=1)
        solution, _ = optimize.nnls(np.tril(root).T, y, maxiter=30 * wanted.size)
    return np.asarray(solution)


def _line_search(
    rows: Array, counts: Array, weights: Array, direction: Array, density: Array, value: float
) -> tuple[Array, Array, float] | None:
    """Return weights that are better, their density and value, or None if there are none."""
    change = direction @ rows
    step = 1.0
    for _ in range(50):
        new = np.maximum(weights + step * direction, 0.0)
        size = new.sum()
        new_density = (density + step * change) / size if size > 0 else change
        if (new_density > 0).all():
            new_value = float(counts @ np.log(new_density))
            if new_value > value:
                new /= size
                return new, new @ rows, new_value
        step *= 0.5
    return None
