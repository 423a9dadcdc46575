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
from typing import NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Columns
from ebcd.priors._posterior import Numbers, densities, fused_sums, posterior
from ebcd.priors._scale_search import search_scales
from ebcd.priors._slabs import AbstractSlabKind, relative_noise

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

    weight: list[float]
    scale: list[float]
    ratio: Array
    mean: Array
    variance: Array


class _Sums(NamedTuple):
    """Log-likelihood ratio to the null of one column, and its derivatives."""

    ratio: float
    d_weight: float
    d_scale: float
    dd_weight: float
    dd_scale: float
    dd_cross: float
    slab_total: float


def _evaluate(
    columns: Columns, kind: AbstractSlabKind, weight: Numbers, log_scale: Numbers
) -> list[_Sums]:
    """Evaluate (1) to (4) for every column."""
    total = fused_sums(columns, kind, weight, log_scale)
    if total is None:
        w = np.array(weight)[:, None]
        blocks = [_block_sums(part, kind, w, log_scale) for part in columns.blocks]
        total = blocks[0] if len(blocks) == 1 else np.sum(blocks, axis=0)
    return [
        _Sums(
            ratio=value,
            d_weight=gradient,
            d_scale=w * first,
            dd_weight=-square,
            dd_scale=w * ((1 - w) * crossed_first + second),
            dd_cross=crossed,
            slab_total=w * (n + (1 - w) * gradient),
        )
        for w, n, (value, gradient, square, first, second, crossed, crossed_first) in zip(
            weight, columns.totals.tolist(), total.T.tolist(), strict=True
        )
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
    weight: list[float]
    log_scale: list[float]
    ratio: list[float]
    gained: list[float]  # log-likelihood since the start

    def take(self, index: Sequence[int]) -> _State:
        return _State(*([part[k] for k in index] for part in self))


def _climb(
    columns: Columns,
    kind: AbstractSlabKind,
    weight: Numbers,
    log_scale: Numbers,
    fixed_weight: bool,
) -> _State:
    """Climb to a local maximum from the given parameters, all columns in step."""
    totals = columns.totals.tolist()
    weights = [max(w, _SMALLEST_SLAB / n) for w, n in zip(weight, totals, strict=True)]
    scales = list(log_scale)
    largest = [math.log(reach + 1e-3) + 3.0 for reach in columns.reach.tolist()]
    smallest = _SMALLEST_LOG_SCALE + math.log(columns.smallest_s)
    sums = _evaluate(columns, kind, weights, scales)
    first = [at.ratio for at in sums]
    ratios = first.copy()
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
                ratios[k] += max(gain, 0.0)
            elif gain > _TOLERANCE and (to_w, to_b) != (w, b):
                moves.append((k, to_w, to_b))
        if not moves:
            break
        which, to_weights, to_scales = zip(*moves, strict=True)
        part = columns if len(moves) == len(sums) else columns.select(np.array(which))
        evaluated = _evaluate(part, kind, to_weights, to_scales)
        active = []
        for (k, w, b), at in zip(moves, evaluated, strict=True):
            if at.ratio >= ratios[k] - 1e-14 * abs(ratios[k]):
                weights[k], scales[k], sums[k], ratios[k] = w, b, at, at.ratio
                reach[k] = min(4 * max(reach[k], _SMALLEST_STEP), _LARGEST_STEP)
                active.append(k)
            elif reach[k] >= _SMALLEST_STEP:  # where EM fails too, rounding has been reached
                reach[k] = 0.25 * min(reach[k], abs(b - scales[k]) + abs(math.log(w / weights[k])))
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
