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
from typing import NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Columns
from ebcd.priors._scale_search import search_scales
from ebcd.priors._slabs import AbstractSlabKind, Ratio

# A step of Newton's method of relative length e that promises a gain leaves about gain * e^2; where
# that is less than this, in nats, the step needs no confirmation.
_LEFT_OVER = 1e-8
_SHORT_STEP = 0.02
_TOLERANCE = 1e-12
_MAX_STEPS = 200
_LARGEST_STEP = 1.5  # of the log scale
_SMALLEST_STEP = 1e-3  # below which EM takes over from Newton's method
_SMALLEST_LOG_SCALE = math.log(1e-4)  # in units of the noise: indistinguishable from the spike
_SMALLEST_SLAB = 1e-6  # entries
# A warm start is trusted if it was near its optimum and that optimum is far from the null.
_TRUSTED_GAIN = 0.5
_TRUSTED_RATIO = 3.0
_COARSE_FROM = 6_000


class TwoGroupFit(NamedTuple):
    """Fitted weights and scales, log-likelihood ratios to the null, posterior moments."""

    weight: Array
    scale: Array
    ratio: Array
    mean: Array
    variance: Array


class _Sums(NamedTuple):
    """Log-likelihood ratio to the null and its derivatives; one column, or arrays of them."""

    ratio: float
    d_weight: float
    d_scale: float
    dd_weight: float
    dd_scale: float
    dd_cross: float
    slab_total: float


def _rate(columns: Columns, log_scale: Array) -> Array:
    return columns.s * np.exp(-log_scale)[:, None]


def _evaluate(columns: Columns, kind: AbstractSlabKind, weight: Array, log_scale: Array) -> Array:
    """Evaluate (1) to (4): one row per entry of `_Sums`, one column per column."""
    blocks = [_sums(part, kind, weight, _rate(part, log_scale)) for part in columns.blocks]
    return blocks[0] if len(blocks) == 1 else np.sum(blocks, axis=0)


def _sums(columns: Columns, kind: AbstractSlabKind, weight: Array, rate: Array) -> Array:
    ratio = kind.ratio(columns, rate)
    first, second = kind.derivatives(columns, rate, ratio)
    log_density, p, inverse = _densities(ratio, weight[:, None])
    gradient = p - inverse
    value, d_weight = columns.sum(log_density), columns.sum(gradient)
    crossed = np.multiply(p, inverse, out=inverse)
    crossed *= first
    rest = 1 - weight
    return np.array(
        [
            value,
            d_weight,
            weight * columns.dot(p, first),
            -columns.dot(gradient, gradient),
            weight * (rest * columns.dot(crossed, first) + columns.dot(p, second)),
            columns.sum(crossed),
            weight * (columns.totals + rest * d_weight),
        ]
    )


def _densities(ratio: Ratio, w: Array) -> tuple[Array, Array, Array]:
    """Log of ``1 + w (R - 1)``; ``R`` over that, which is ``q / w``; and its inverse."""
    inverse = w * ratio.odds
    inverse += 1 - w  # not 1 + w (odds - 1), which loses tiny odds
    log_density = np.log(inverse)
    if ratio.excess is not None:
        log_density += ratio.excess
    np.divide(1, inverse, out=inverse)
    return log_density, np.multiply(ratio.odds, inverse, out=ratio.odds), inverse


def _finish(
    columns: Columns, kind: AbstractSlabKind, weight: Array, log_scale: Array
) -> tuple[Array, Array, Array]:
    """Value of (1), posterior mean and variance of every entry."""
    w = weight[:, None]
    blocks = []
    for part in columns.blocks:
        rate = _rate(part, log_scale)
        ratio = kind.ratio(part, rate)
        mean, variance = kind.moments(part, rate, ratio)
        log_density, q, inverse = _densities(ratio, w)
        q *= w
        shrunk = q * mean
        variance *= q
        mean *= shrunk  # times 1 - q: the variance between spike and slab
        mean *= inverse
        mean *= 1 - w
        variance += mean
        if part.s.size > 1 or part.s[0, 0] != 1:
            shrunk *= part.s
            variance *= part.s * part.s
        blocks.append((part.sum(log_density), shrunk, variance))
    if len(blocks) == 1:
        return blocks[0]
    ratios, means, variances = zip(*blocks, strict=True)
    return np.sum(ratios, axis=0), np.concatenate(means, axis=1), np.concatenate(variances, axis=1)


def _newton(
    at: _Sums, w: float, b: float, fixed_weight: bool, reach: float
) -> tuple[float, float, float]:
    """Step of Newton's method within the bounds of the weight, and the gain that it predicts."""
    # derivatives in log w; where that is not concave, those of the concave function of w
    d_weight, dd_weight, cross = w * at.d_weight, w * w * at.dd_weight, w * at.dd_cross
    held = fixed_weight or (w >= 1 and d_weight >= 0) or dd_weight == 0
    if dd_weight + d_weight < 0:
        dd_weight += d_weight
    slope, curvature = at.d_scale, at.dd_scale
    if not held:  # profile the weight out
        slope -= cross * d_weight / dd_weight
        curvature -= cross**2 / dd_weight
    step_b = _capped(slope, curvature, reach)
    step_w = 0.0
    if not held:
        wanted = -(d_weight + cross * step_b) / dd_weight
        step_w = min(max(wanted, -2 * reach), 2 * reach, -math.log(w))
        if step_w != wanted and at.dd_scale < 0:  # the scale adapts to where the weight can go
            step_b = _capped(at.d_scale + cross * step_w, at.dd_scale, reach)
    gain = step_w * (d_weight + 0.5 * dd_weight * step_w + cross * step_b)
    gain += step_b * (at.d_scale + 0.5 * at.dd_scale * step_b)
    return min(w * math.exp(step_w), 1.0), b + step_b, gain


def _capped(slope: float, curvature: float, reach: float) -> float:
    if slope == 0:
        return 0.0
    step = abs(slope / curvature) if curvature else reach
    return math.copysign(min(step, reach), slope)


def _em(
    at: _Sums, w: float, b: float, fixed_weight: bool, total: float, power: float
) -> tuple[float, float, float]:
    growth = 0.0
    if at.slab_total > 0:
        growth = math.log(max(1 + at.d_scale / at.slab_total, 1e-6)) / power
    new = w if fixed_weight else min(max(at.slab_total / total, 0.0), 1.0)
    return new, b + growth, (new - w) * at.d_weight + growth * at.d_scale


class _State(NamedTuple):
    weight: Array
    log_scale: Array
    ratio: Array
    gained: Array  # log-likelihood since the start

    def take(self, index: np.ndarray) -> _State:
        return _State(*(part[index] for part in self))


def _climb(
    columns: Columns, kind: AbstractSlabKind, weight: Array, log_scale: Array, fixed_weight: bool
) -> _State:
    """Climb to a local maximum from the given parameters, all columns in step."""
    totals = columns.totals.tolist()
    # plain numbers: array operations on single columns cost more than the arithmetic
    weights = [max(w, _SMALLEST_SLAB / n) for w, n in zip(weight.tolist(), totals, strict=True)]
    scales = log_scale.tolist()
    largest = [math.log(reach + 1e-3) + 3.0 for reach in columns.reach.tolist()]
    smallest = _SMALLEST_LOG_SCALE + math.log(float(columns.s.min()))
    evaluated = _evaluate(columns, kind, np.array(weights), log_scale)
    sums = [_Sums(*column) for column in evaluated.T.tolist()]
    first = evaluated[0]
    reach = [_LARGEST_STEP] * len(sums)  # of a step of Newton's method
    active = list(range(len(sums)))
    for _ in range(_MAX_STEPS):
        moves = []
        for k in active:
            at, w, b = sums[k], weights[k], scales[k]
            if reach[k] < _SMALLEST_STEP:
                to_w, to_b, gain = _em(at, w, b, fixed_weight, totals[k], kind.em_power)
            else:
                to_w, to_b, gain = _newton(at, w, b, fixed_weight, reach[k])
            to_w = max(to_w, _SMALLEST_SLAB / totals[k])
            to_b = min(max(to_b, smallest), largest[k])
            rest = max(1 - w, 1 - to_w, 1e-300)  # near one the spike is what must be right
            length = max(abs(to_b - b), abs(to_w - w) / min(w, rest))
            near = length < _SHORT_STEP and gain * length**2 < _LEFT_OVER
            if near and reach[k] == _LARGEST_STEP:
                weights[k], scales[k] = to_w, to_b
                sums[k] = at._replace(ratio=at.ratio + max(gain, 0.0))
            elif gain > _TOLERANCE and (to_w, to_b) != (w, b):
                moves.append((k, to_w, to_b))
        if not moves:
            break
        part = columns
        if len(moves) < len(sums):
            part = columns.select(np.array([k for k, _, _ in moves]))
        evaluated = _evaluate(
            part, kind, np.array([w for _, w, _ in moves]), np.array([b for _, _, b in moves])
        )
        active = []
        for (k, w, b), column in zip(moves, evaluated.T.tolist(), strict=True):
            if column[0] >= sums[k].ratio - 1e-14 * abs(sums[k].ratio):
                weights[k], scales[k], sums[k] = w, b, _Sums(*column)
                reach[k] = min(4 * max(reach[k], _SMALLEST_STEP), _LARGEST_STEP)
                active.append(k)
            elif reach[k] >= _SMALLEST_STEP:  # where EM fails too, rounding has been reached
                reach[k] = 0.25 * min(reach[k], abs(b - scales[k]) + abs(math.log(w / weights[k])))
                active.append(k)
    ratio = np.array([at.ratio for at in sums])
    return _State(np.array(weights), np.array(scales), ratio, ratio - first)


def _starts(
    columns: Columns, kind: AbstractSlabKind, fixed_weight: bool
) -> tuple[np.ndarray, Array, Array]:
    if columns.s.size == 1 or columns.x.shape[1] < _COARSE_FROM:
        return search_scales(columns, kind, fixed_weight)
    found = []
    for k in range(columns.n_columns):  # on merged entries, where a search costs little
        coarse = columns.select(np.array([k])).merged()
        rows, weight, log_scale = search_scales(coarse, kind, fixed_weight)
        state = _climb(coarse.select(rows), kind, weight, log_scale, fixed_weight)
        near_best = state.ratio >= state.ratio.max() - 20.0
        found.append((rows[near_best] + k, state.weight[near_best], state.log_scale[near_best]))
    rows, weight, log_scale = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, weight, log_scale


def _cold(columns: Columns, kind: AbstractSlabKind, fixed_weight: bool) -> _State:
    rows, weight, log_scale = _starts(columns, kind, fixed_weight)
    state = _climb(columns.select(rows), kind, weight, log_scale, fixed_weight)
    by_value = np.lexsort((-state.ratio, rows))
    best = by_value[np.searchsorted(rows[by_value], np.arange(columns.n_columns))]
    return state.take(best)


def _warm(
    columns: Columns, kind: AbstractSlabKind, fixed_weight: bool, weight: Array, scale: Array
) -> _State:
    usable = (weight > 0) & (scale > 0.05 * columns.s.min()) & (scale < 10 * columns.reach + 1)
    if not usable.any():
        return _cold(columns, kind, fixed_weight)
    if not usable.all():  # borrow another column's start: what it leads to is searched anew below
        first = usable.argmax()
        weight, scale = (np.where(usable, v, v[first]) for v in (weight, scale))
    if fixed_weight:
        weight = np.ones(weight.size)
    state = _climb(columns, kind, weight, np.log(scale), fixed_weight)
    doubtful = (state.gained > _TRUSTED_GAIN + 0.01 * state.ratio) | ~usable
    doubtful |= state.ratio < _TRUSTED_RATIO
    if doubtful.any():
        index = np.flatnonzero(doubtful)
        cold = _cold(columns.select(index), kind, fixed_weight)
        rows = np.flatnonzero(cold.ratio > state.ratio[index])
        for old, new in zip(state, cold, strict=True):
            old[index[rows]] = new[rows]
    return state


def fit_two_groups(
    columns: Columns,
    kind: AbstractSlabKind,
    fixed_weight: bool,
    start: tuple[Array, Array] | None = None,
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
    some = state.ratio > 0
    if some.all():
        finished = _finish(columns, kind, state.weight, state.log_scale)
    else:  # what no slab improves needs no posterior
        finished = state.ratio, *np.zeros((2, some.size, columns.x.shape[1]))
        if some.any():
            part = state.take(some)
            parts = _finish(columns.select(some), kind, part.weight, part.log_scale)
            for whole, values in zip(finished, parts, strict=True):
                whole[some] = values
    fit = TwoGroupFit(state.weight, np.exp(state.log_scale), *finished)
    null = fit.ratio <= 0
    if null.any():
        for values in fit:
            values[null] = 0.0
    return fit
