"""Sparse PCA methods as rows of one table: a shrinkage, a rotation, perhaps a deflation.

This is Table 1 of Kang and Stephens. Loadings are rows throughout (k x p), several fits a stack of
those (fits x k x p), and ``B = X'Z / n`` are least-squares loadings for scores ``Z`` of mean square
one. A rotation leads from loadings to the scores that suit them, and thus to ``B``; a shrinkage
leads from ``B`` to loadings and to the value of the criterion that they maximize. `alternate`
repeats the two; EBCD has a loop of its own, which also fits priors and the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._alternate import Fit, alternate
from ebcd.fitting._deflation import Deflated
from ebcd.fitting._rotation import NEGLIGIBLE, multiply, orthonormal_rows, polar
from ebcd.fitting._shrinkers import NormalMeansShrinker
from ebcd.penalties import L0, L1, SCAD, AbstractPenalty


class Strength:
    """A penalty of given strengths (..., 1), on arguments in units of some length."""

    def __init__(self, penalty: AbstractPenalty, alpha: Array, length: Array | float) -> None:
        threshold = penalty.threshold(alpha)
        self._penalty = penalty
        self._step = alpha / threshold
        self._factor = np.asarray(length / threshold)
        self._weight = np.squeeze(self._step / self._factor**2, axis=-1)

    def prox(self, v: Array) -> Array:
        """Minimize ``(u - v)^2 / 2`` plus the penalty, both in units of the squared length."""
        return self._penalty.prox(v * self._factor, self._step) / self._factor

    def value(self, v: Array) -> Array:
        """Compute the penalty of each row of `v`, in units of the squared length."""
        values = self._penalty.value(v * self._factor)
        return np.asarray(values.sum(axis=-1) * self._weight)


def proximal_map(
    b: Array, penalty: AbstractPenalty, alpha: Array, length: Array, n_samples: Array
) -> tuple[Array, Array]:
    """Shrink for penalized PCA; the criterion is what the penalized squared error falls by.

    The paper's criterion, for ``Z'Z = I``, is ``||X - Z L'||^2 / 2 + sum_k P(l_k; alpha_k)``. For
    ``Z'Z = n I`` and data in working units it becomes, over the unit squared,

        n [(tr S - 2 <B, L> + ||L||^2) / 2 + sum_k P(length l_k; alpha_k) / length^2]

    where the length is ``sqrt(n)`` times the unit; `alpha` and `length` broadcast to fits x k x 1.
    """
    strength = Strength(penalty, alpha, length)
    loadings = strength.prox(b)
    fall = np.vecdot(loadings, b) - 0.5 * np.vecdot(loadings, loadings)
    fall -= strength.value(loadings)
    return loadings, n_samples * fall.sum(axis=-1)


def l1_ball(b: Array, sumabs: float) -> tuple[Array, Array]:
    """Shrink for SPC: directions of length one, closest to `b` with ``||v||_1 <= sumabs``.

    That is a soft threshold, at the level at which the sum of magnitudes is right.
    """
    rows = b[:, 0]  # a fit is one component
    v = unit_rows(L1().prox(rows, threshold_for_sum(rows, sumabs)[:, None]))
    return v[:, None], np.vecdot(rows, v)


def scaled_threshold(b: Array, penalty: str, levels: Array, mu: Array) -> tuple[Array, Array]:
    """Shrink for GPower: thresholds of the components, which are then weighted by `mu`.

    With "l1" thresholds are soft, rows get the length mu, and the criterion is the sum of their
    weighted lengths before that; with "l0" thresholds are hard, and the criterion is the weighted
    sum of what squares exceed the squared level by.
    """
    levels = levels[:, None]
    if penalty == "l1":
        kept = L1().prox(b, levels)
        length = np.sqrt(np.vecdot(kept, kept))
        scale = mu / np.where(length > 0, length, 1.0)
        return kept * scale[..., None], length @ mu
    excess = np.maximum(b**2 - levels**2, 0.0).sum(axis=-1)
    return L0().prox(b, levels**2 / 2) * (mu**2)[:, None], excess @ mu**2


def orthonormal_threshold(b: Array, kind: str, levels: Array) -> tuple[Array, None]:
    """Shrink for ITSPCA: thresholds, then a QR decomposition. It has no criterion."""
    kept = threshold(kind, b, levels[:, None])
    return np.array([orthonormal_rows(rows) for rows in kept]), None


def largest(b: Array, number: int) -> tuple[Array, Array]:
    """Shrink for USLPCA: keep the largest `number` entries of all components together.

    The criterion is the sum of their squares.
    """
    flat = b.reshape(len(b), -1)
    kept = np.zeros_like(flat)
    place = np.argpartition(-np.abs(flat), number - 1, axis=1)[:, :number]
    values = np.take_along_axis(flat, place, axis=1)
    np.put_along_axis(kept, place, values, axis=1)
    return kept.reshape(b.shape), (values**2).sum(axis=1)


class Components(NamedTuple):
    """Components that a method found, in working units; one a row."""

    loadings: Array  # for scores of mean square one; rows of zeros are empty components
    weights: Array  # the scores are X weights'
    observed: Array  # what the last shrinkage was applied to
    path: Array  # as in `Fit`; summed up over components that were found one by one
    n_iter: int
    converged: bool
    levels: Array  # threshold of the last shrinkage of each component
    detail: Array | None = None  # what else a method knows of each component


@dataclass(frozen=True)
class Method:
    """A sparse PCA method."""

    # from B (fits x k x p) and the method's parameters to loadings and their criterion
    shrinkage: Callable[..., Any]
    # from the covariance and loadings to B
    rotation: Callable[[AbstractCovariance, Array], Array]
    # from what is left of the covariance, the weights of a component's scores and its B to what is
    # left for the next component; None if components are found together
    deflation: Callable[[Deflated, Array, Array], Deflated] | None = None

    def fit(
        self,
        covariance: AbstractCovariance,
        parameters: tuple[Any, ...],
        starts: Array,
        *,
        tol: float,
        max_iter: int,
    ) -> Fit:
        """Alternate from several starts, which compete, and return the best fit."""
        fits = alternate(
            partial(self.rotation, covariance),
            lambda b, _: self.shrinkage(b, *parameters),
            starts,
            tol=tol,
            max_iter=max_iter,
            compete=True,
        )
        return best_of(fits)

    def fit_one_by_one(
        self,
        covariance: AbstractCovariance,
        count: int,
        prepare: Callable[[int, Deflated], tuple[tuple[Any, ...], Array]],
        *,
        tol: float,
        max_iter: int,
    ) -> Components:
        """Fit one component after the other, each to what the ones before it left.

        `prepare` returns the parameters and the starts of a component, from its number and what is
        left of the covariance.
        """
        if self.deflation is None:
            raise ValueError("this method has no deflation")
        left = Deflated(covariance)
        loadings, weights, observed = np.zeros((3, count, covariance.n_features))
        paths, converged = list[Array](), True
        for k in range(count):
            fit = self.fit(left, *prepare(k, left), tol=tol, max_iter=max_iter)
            paths.append(fit.path + (paths[-1][-1] if paths else 0.0))
            converged, observed[k] = converged and fit.converged, fit.observed[0]
            v = unit_rows(fit.loadings[0])
            product = left.matmul(v[:, None])[:, 0]
            size = np.sqrt(max(float(v @ product), 0.0))
            if size < NEGLIGIBLE:
                continue
            loadings[k], w = v * size, v / size
            weights[k] = left.undeflated(w)
            left = self.deflation(left, w, product / size)
        path = np.concatenate(paths)
        return Components(loadings, weights, observed, path, path.size, converged, np.zeros(count))


METHODS = {
    "EBCD": Method(NormalMeansShrinker, polar),  # in a loop of its own
    "PenalizedPCA": Method(proximal_map, polar),
    "SPC": Method(l1_ball, polar, Deflated.without_scores),
    "GPower": Method(scaled_threshold, polar),
    "GPower, one by one": Method(scaled_threshold, polar, Deflated.without_direction),
    "ITSPCA": Method(orthonormal_threshold, multiply),  # the rotation is the QR decomposition
    "USLPCA": Method(largest, polar),
}


def best_of(fits: list[Fit]) -> Fit:
    """Return the fit with the largest criterion."""
    return max(fits, key=lambda fit: float(fit.path[-1]))


def unit_rows(rows: Array) -> Array:
    """Scale rows to length one; rows of zeros stay."""
    size = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(size > 0, size, 1.0))


def threshold(kind: str, v: Array, level: Array) -> Array:
    """Apply hard, soft or SCAD (Fan and Li 2001) thresholding at a level."""
    if kind == "hard":
        return L0().prox(v, level**2 / 2)
    if kind == "soft":
        return L1().prox(v, level)
    unit = np.where(level > 0, level, 1.0)
    return np.where(level > 0, unit * SCAD().prox(v / unit, 1.0), v)


def threshold_for_sum(rows: Array, sumabs: Array | float) -> Array:
    """Level of the soft threshold after which ``||v||_1 / ||v||`` of each row is `sumabs`.

    Zero where that ratio is small enough without. With the m largest magnitudes ``a`` left, the
    ratio is ``c`` at ``(s - c sqrt((m q - s^2) / (m - c^2))) / m``, where ``s`` and ``q`` are the
    sums of ``a`` and ``a^2``; m is the number for which this lies between the m-th and the next.
    """
    magnitude = np.sort(np.abs(rows), axis=-1)[:, ::-1]
    c = np.broadcast_to(sumabs, len(rows))[:, None]
    top = magnitude[:, :1]
    a = magnitude / np.where(top > 0, top, 1.0)
    count = np.arange(1, a.shape[1] + 1)
    s, q = np.cumsum(a, axis=1), np.cumsum(a * a, axis=1)
    following = np.column_stack([a[:, 1:], np.zeros(len(a))])
    # sums if the level is the next magnitude
    sum_there = s - count * following
    square_there = q - 2 * following * s + count * following**2
    enough = sum_there**2 >= c**2 * square_there * (1 - 1e-12)
    enough &= square_there > 0  # unequal to the largest
    at = np.where(enough.any(axis=1), enough.argmax(axis=1), a.shape[1] - 1)[:, None]
    m = count[at]
    s, q, lower = (np.take_along_axis(sums, at, axis=1) for sums in (s, q, following))
    room = np.where(m > c**2, m - c**2, 1.0)
    spread = m * q - s * s
    level = (s - c * np.sqrt(np.maximum(spread, 0.0) / room)) / m
    # equal magnitudes stay equal at any level, so that the ratio cannot fall
    solved = (m > c**2) & (spread > 1e-14 * m * q)
    level = np.where(solved, np.maximum(level, lower), lower)
    return np.asarray((level * top)[:, 0])
