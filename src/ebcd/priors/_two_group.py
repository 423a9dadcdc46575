"""Maximum likelihood for a spike at zero plus a slab with one scale, many columns at once.

With ``R`` the ratio of slab to spike marginal the log-likelihood ratio to the null is

    (1)  l(w, b) = sum log(1 + w (R - 1)),   w = slab weight, b = log scale,

concave in ``w`` for every ``b``, with

    (2)  dl/dw = sum G,      G = (R - 1) / (1 + w (R - 1)),   d2l/dw2 = -sum G^2
    (3)  dl/db = sum q r',   q = w R / (1 + w (R - 1)),   r = log R
    (4)  d2l/db2 = sum q ((1 - q) r'^2 + r''),   d2l/dwdb = sum q r' / (w (1 + w (R - 1)))

Newton's method runs in ``(log w, b)``, in which the ridge of near-null data (``w`` times a power of
the scale is all that matters) is straight, and in which nothing vanishes at the bound ``w = 1``, as
it would with a logit. Where the profile in ``b`` curves upwards the step goes uphill as far as that
curvature says. A step that lowers the likelihood is replaced by one of the EM algorithm, which
cannot, and which the same sums supply. A cold start searches the scale globally.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array
from ebcd.priors import _climbing as steps
from ebcd.priors._columns import Columns
from ebcd.priors._posterior import (
    Numbers,
    densities,
    posterior,
)
from ebcd.priors._scale_search import search_scales
from ebcd.priors._slabs import AbstractSlabKind, Noise, relative_noise

_SMALLEST_LOG_SCALE = math.log(1e-4)  # in units of the noise: indistinguishable from the spike
# A warm start is trusted if it was near its optimum and that optimum is far from the null.
_TRUSTED_GAIN = 0.5
_TRUSTED_RATIO = 3.0
_COARSE_FROM = 6_000
_BLOCK = 16_384  # entries that are evaluated at once: what fits into a cache


class TwoGroupFit(NamedTuple):
    """Fitted weights and scales, log-likelihood ratios to the null, posterior moments."""

    weight: list[float]
    scale: list[float]
    ratio: Array
    mean: Array
    variance: Array


class Evaluation(NamedTuple):
    """The log-likelihood ratio (1) of c columns, its derivatives, and posterior moments.

    Attributes
    ----------
    value : array, c
        Log-likelihood ratio to the null, in which all values are zero.
    gradient, hessian : array, c x 2 and c x 2 x 2
        Derivatives in log weight and log scale. Those in the weight are zero without a spike.
    mean, variance : array, c x p
        Posterior moments, in the units of the data.
    slopes : array, c x 2 x p, optional
        Derivatives of the mean in log weight and log scale, if they were asked for.
    """

    value: Array
    gradient: Array
    hessian: Array
    mean: Array
    variance: Array
    slopes: Array | None = None


def evaluate_two_groups(
    slab: AbstractSlabKind,
    x: Array,
    s: ArrayLike,
    log_weight: Array,
    log_scale: Array,
    has_spike: bool = True,
    slopes: bool = False,
) -> Evaluation:
    """Evaluate (1) to (4) and the posterior of many columns in one pass.

    Parameters
    ----------
    slab : AbstractSlabKind
        Shape of the slab, ``family.slab``.
    x : array, c x p
        Observations, one normal-means problem a row, in any units.
    s : array, 0-d, of length p, c x 1 or c x p
        Noise standard deviations.
    log_weight, log_scale : array, c
        Logarithms of the weight of the slab and of its scale, in the units of `x`.
    has_spike : bool
        Whether there is a spike; if not, the weight is one whatever `log_weight` says.
    slopes : bool
        Whether derivatives of the mean are wanted.

    Returns
    -------
    Evaluation
    """
    s = np.atleast_2d(np.asarray(s, dtype=np.float64))
    z, rate = x / s, s * np.exp(-log_scale)[:, None]  # all in units of the noise
    weight = np.exp(log_weight) if has_spike else np.ones(len(x))
    c, p = x.shape
    found = Evaluation(
        np.empty(c),
        np.zeros((c, 2)),
        np.zeros((c, 2, 2)),
        np.empty((c, p)),
        np.empty((c, p)),
        np.empty((c, 2, p)) if slopes else None,
    )
    size = max(1, _BLOCK // p)
    for rows in (slice(i, i + size) for i in range(0, c, size)):
        parts: list[Any] = [None if part is None else part[rows] for part in found]
        block = Evaluation(*parts)
        columns, noise = Columns(z[rows], np.ones((1, 1))), rate[rows]
        _evaluate_block(slab, columns, Noise(noise, float(noise.max())), weight[rows], block)
    if not has_spike:
        found.gradient[:, 0] = found.hessian[:, 0] = found.hessian[:, 1, 0] = 0.0
    np.multiply(found.mean, s, out=found.mean)
    np.multiply(found.variance, s * s, out=found.variance)
    if found.slopes is not None:
        np.multiply(found.slopes, s[:, None], out=found.slopes)
    return found


def _evaluate_block(
    slab: AbstractSlabKind, columns: Columns, noise: Noise, weight: Array, out: Evaluation
) -> None:
    """Evaluate a few columns, in terms of ``p = q / w`` and ``1 - w G``."""
    ratio = slab.ratio(columns, noise)
    first, second = slab.derivatives(columns, noise, ratio)
    mean, variance = slab.moments(columns, noise, ratio)
    by_scale = None if out.slopes is None else slab.mean_slope(columns, noise, ratio, variance)
    w = weight[:, None]
    log_density, p, inverse = densities(ratio, w)
    out.value[:] = columns.sum(log_density)
    surplus = p - inverse
    slope = weight * columns.sum(surplus)
    out.gradient[:, 0] = slope
    out.gradient[:, 1] = weight * columns.dot(p, first)
    out.hessian[:, 0, 0] = slope - weight * weight * columns.dot(surplus, surplus)
    inverse *= p
    crossed = inverse * first
    out.hessian[:, 0, 1] = out.hessian[:, 1, 0] = weight * columns.sum(crossed)
    within = (1 - weight) * columns.dot(crossed, first)
    out.hessian[:, 1, 1] = weight * (within + columns.dot(p, second))
    # the variance between spike and slab is q (1 - q) times the square of the slab's mean
    p *= w
    inverse *= w
    np.multiply(p, mean, out=out.mean)
    if out.slopes is not None and by_scale is not None:
        np.multiply(inverse, mean, out=out.slopes[:, 0])
        by_scale *= p
        first *= out.slopes[:, 0]
        first *= 1 - w
        np.add(by_scale, first, out=out.slopes[:, 1])
    inverse *= 1 - w
    mean *= mean
    mean *= inverse
    variance *= p
    np.add(variance, mean, out=out.variance)


def _evaluate(
    columns: Columns, kind: AbstractSlabKind, weight: Numbers, log_scale: Numbers
) -> list[steps.Sums]:
    """Evaluate (1) to (4) for every column."""
    w = np.array(weight)[:, None]
    blocks = [_block_sums(part, kind, w, log_scale) for part in columns.blocks]
    total = blocks[0] if len(blocks) == 1 else np.sum(blocks, axis=0)
    return [
        steps.sums_of(w, n, *sums)
        for w, n, sums in zip(weight, columns.totals.tolist(), total.T.tolist(), strict=True)
    ]


def _block_sums(columns: Columns, kind: AbstractSlabKind, w: Array, log_scale: Numbers) -> Array:
    """Add up over entries, one column per column, in terms of ``p = q / w`` and ``1 - w G``."""
    noise = relative_noise(columns, log_scale)
    ratio = kind.ratio(columns, noise)
    first, second = kind.derivatives(columns, noise, ratio)
    log_density, p, inverse = densities(ratio, w)
    gradient = p - inverse
    crossed = np.multiply(p, inverse, out=inverse)
    crossed *= first
    return np.array(
        [
            columns.sum(log_density),
            columns.sum(gradient),
            columns.dot(gradient, gradient),
            columns.dot(p, first),
            columns.dot(p, second),
            columns.sum(crossed),
            columns.dot(crossed, first),
        ]
    )


class _State(NamedTuple):
    weight: list[float]
    log_scale: list[float]
    ratio: list[float]
    gained: list[float]  # log-likelihood since the start

    def take(self, index: Sequence[int]) -> _State:
        weight, log_scale, ratio, gained = ([part[k] for k in index] for part in self)
        return _State(weight, log_scale, ratio, gained)


def _climb(
    columns: Columns,
    kind: AbstractSlabKind,
    weight: Numbers,
    log_scale: Numbers,
    fixed_weight: bool,
) -> _State:
    """Climb to a local maximum from the given parameters, all columns in step."""
    totals = columns.totals
    weights = [
        max(w, steps.SMALLEST_SLAB / n) for w, n in zip(weight, totals.tolist(), strict=True)
    ]
    smallest = _SMALLEST_LOG_SCALE + math.log(columns.smallest_s)
    most = np.log(columns.reach + 1e-3) + 3.0
    scales = list(log_scale)
    bounds = [
        steps.Bounds(n, smallest, largest, kind.em_power, fixed_weight)
        for n, largest in zip(totals.tolist(), most.tolist(), strict=True)
    ]
    sums = _evaluate(columns, kind, weights, scales)
    first = [at.ratio for at in sums]
    ratios = first.copy()
    reach = [steps.LARGEST_STEP] * len(sums)  # of a step of Newton's method
    active = list(range(len(sums)))
    for _ in range(steps.MAX_STEPS):
        moves = []
        for k in active:
            at, w, b = sums[k], weights[k], scales[k]
            if steps.by_newton(reach[k]):
                step = steps.newton(at, w, b, reach[k], fixed_weight)
            else:
                step = steps.em(at, w, b, bounds[k])
            verdict, to_w, to_b = steps.judged(w, b, step, reach[k], bounds[k])
            if verdict == steps.ARRIVE:
                weights[k], scales[k] = to_w, to_b
                ratios[k] += max(step[2], 0.0)
            elif verdict == steps.MOVE:
                moves.append((k, to_w, to_b))
        if not moves:
            break
        which, to_weights, to_scales = zip(*moves, strict=True)
        part = columns if len(moves) == len(sums) else columns.select(np.array(which))
        evaluated = _evaluate(part, kind, to_weights, to_scales)
        active = []
        for (k, w, b), at in zip(moves, evaluated, strict=True):
            if steps.is_no_fall(at.ratio, ratios[k]):
                weights[k], scales[k], sums[k], ratios[k] = w, b, at, at.ratio
                reach[k] = steps.longer(reach[k])
                active.append(k)
            elif steps.by_newton(reach[k]):  # where EM fails too, rounding has been reached
                reach[k] = steps.shorter(reach[k], weights[k], scales[k], w, b)
                active.append(k)
    gained = [last - begin for last, begin in zip(ratios, first, strict=True)]
    return _State(weights, scales, ratios, gained)


def _are_many(columns: Columns) -> bool:
    """Tell whether to go most of the way on merged entries, where that costs little."""
    return columns.s.size > 1 and columns.x.shape[1] >= _COARSE_FROM


def _starts(
    columns: Columns, kind: AbstractSlabKind, fixed_weight: bool
) -> tuple[list[int], list[float], list[float]]:
    """Find columns, weights and log scales to climb from."""
    if not _are_many(columns):
        return search_scales(columns, kind, fixed_weight)
    found = []
    for k, column in enumerate(columns.each()):
        rows, weight, log_scale = search_scales(column.merged, kind, fixed_weight)
        coarse = column.merged.select(np.array(rows))
        state = _climb(coarse, kind, weight, log_scale, fixed_weight)
        least = max(state.ratio) - 20.0
        near_best = [i for i, ratio in enumerate(state.ratio) if ratio >= least]
        found += [(k, state.weight[i], state.log_scale[i]) for i in near_best]
    rows, weight, log_scale = (list(part) for part in zip(*found, strict=True))
    return rows, weight, log_scale


def _cold(columns: Columns, kind: AbstractSlabKind, fixed_weight: bool) -> _State:
    rows, weight, log_scale = _starts(columns, kind, fixed_weight)
    wide = columns if rows == [*range(columns.n_columns)] else columns.select(np.array(rows))
    state = _climb(wide, kind, weight, log_scale, fixed_weight)
    best: dict[int, int] = {}
    for i, k in enumerate(rows):
        if k not in best or state.ratio[i] > state.ratio[best[k]]:
            best[k] = i
    return state.take([best[k] for k in range(columns.n_columns)])


def _warm(
    columns: Columns, kind: AbstractSlabKind, fixed_weight: bool, weight: Numbers, scale: Numbers
) -> _State:
    narrowest, widest = 0.05 * columns.smallest_s, columns.reach.tolist()
    usable = [
        w > 0 and narrowest < b < 10 * most + 1
        for w, b, most in zip(weight, scale, widest, strict=True)
    ]
    if not any(usable):
        return _cold(columns, kind, fixed_weight)
    # elsewhere borrow another column's start: what it leads to is searched anew below
    source = [k if fine else usable.index(True) for k, fine in enumerate(usable)]
    weights = [1.0 if fixed_weight else weight[k] for k in source]
    scales = [math.log(scale[k]) for k in source]
    gained = [0.0] * len(scales)
    if _are_many(columns):
        for k, column in enumerate(columns.each()):
            way = _climb(column.merged, kind, weights[k : k + 1], scales[k : k + 1], fixed_weight)
            weights[k], scales[k], gained[k] = way.weight[0], way.log_scale[0], way.gained[0]
    state = _climb(columns, kind, weights, scales, fixed_weight)
    doubtful = [
        k
        for k, ratio in enumerate(state.ratio)
        if not usable[k]
        or gained[k] + state.gained[k] > _TRUSTED_GAIN + 0.01 * ratio
        or ratio < _TRUSTED_RATIO
    ]
    if doubtful:
        cold = _cold(columns.select(np.array(doubtful)), kind, fixed_weight)
        for i, k in enumerate(doubtful):
            if cold.ratio[i] > state.ratio[k]:
                for old, new in zip(state, cold, strict=True):
                    old[k] = new[i]
    return state


def fit_two_groups(
    columns: Columns,
    kind: AbstractSlabKind,
    fixed_weight: bool,
    start: tuple[Numbers, Numbers] | None = None,
) -> TwoGroupFit:
    """Fit weight and scale of every column by maximum likelihood.

    Parameters
    ----------
    columns : Columns
        The observations, with the spike at zero.
    kind : AbstractSlabKind
        The slab.
    fixed_weight : bool
        Whether there is no spike: the slab has weight one.
    start : (weight, scale), optional
        Parameters of each column to start from. A column whose start says nothing (no slab, or
        one narrower than the noise) is searched as if cold.

    Returns
    -------
    TwoGroupFit
        A column that no slab improves has weight and scale zero.
    """
    if start is None:
        state = _cold(columns, kind, fixed_weight)
    else:
        state = _warm(columns, kind, fixed_weight, *start)
    some = [k for k, ratio in enumerate(state.ratio) if ratio > 0]
    if len(some) == columns.n_columns:
        ratio, mean, variance = posterior(columns, kind, state.weight, state.log_scale)
    else:  # what no slab improves needs no posterior
        ratio = np.zeros(columns.n_columns)
        mean, variance = np.zeros((2, columns.n_columns, columns.x.shape[1]))
        if some:
            part = state.take(some)
            finished = posterior(columns.select(np.array(some)), kind, part.weight, part.log_scale)
            for whole, values in zip((ratio, mean, variance), finished, strict=True):
                whole[some] = values
    fit = TwoGroupFit([0.0] * columns.n_columns, [0.0] * columns.n_columns, ratio, mean, variance)
    for k, value in enumerate(ratio.tolist()):
        if value > 0:
            fit.weight[k], fit.scale[k] = state.weight[k], math.exp(state.log_scale[k])
        else:
            ratio[k] = mean[k] = variance[k] = 0.0
    return fit
