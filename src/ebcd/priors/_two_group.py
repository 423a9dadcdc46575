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
curvature says. A step that lowers the likelihood is taken back and its radius cut. A cold start
searches the scale globally, because near-null columns have several maxima.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import CHUNK, Array, chunks, typical
from ebcd.priors._family import Columns
from ebcd.priors._kernels import AbstractSlab, Bump

Slab = type[AbstractSlab] | Bump
SHORTEST = 0.1  # scale over the smallest noise at which grids of scales begin


@dataclass(frozen=True)
class _Settings:
    radius: float = 1.5  # of a step in the log scale; twice that in the log weight
    smallest_slab: float = 1e-6  # entries in the slab: fewer are no slab
    spacing: float = 4.0  # of the weights that are tried, down to a fraction of an entry
    # A warm start is trusted if it lacks only a small share of its optimum, itself not small.
    trusted_gain: float = 0.02
    trusted_ratio: float = 3.0


SETTINGS = _Settings()
# Slab over noise that cannot be told from the spike: marginals change by half of their digits.
_NARROWEST = float(np.finfo(float).eps) ** 0.25


class Evaluation(NamedTuple):
    """The log-likelihood ratio (1) of c columns at a place, its derivatives, and the posterior.

    Gradient (c x 2) and Hessian (c x 2 x 2) are in log weight and log scale; those in the weight
    are zero without a spike. Means and variances (c x p) are in the units of the data, as are the
    derivatives of the mean in log weight and log scale (c x 2 x p), if they were asked for.
    """

    log_weight: Array
    log_scale: Array
    value: Array
    gradient: Array
    hessian: Array
    mean: Array
    variance: Array
    slopes: Array | None = None

    def take(self, index: np.ndarray) -> Evaluation:
        """Pick columns; slopes are left out."""
        return Evaluation(*(part[index] for part in self[:7]))

    def put(self, index: np.ndarray, other: Evaluation) -> None:
        """Overwrite columns, in place."""
        for part, new in zip(self[:7], other[:7], strict=True):
            part[index] = new


def evaluate_two_groups(
    slab: Slab,
    x: Array,
    s: ArrayLike,
    log_weight: Array,
    log_scale: Array,
    has_spike: bool = True,
    slopes: bool = False,
    counts: Array | None = None,
) -> Evaluation:
    """Evaluate (1) to (4) and the posterior of many columns in one pass.

    Rows of `x` (c x p or 1 x p) are normal-means problems, in any units, `s` is broadcast to them,
    `counts` says how often each entry occurs. Without a spike the weight is one.
    """
    s = np.atleast_2d(np.asarray(s, dtype=np.float64))
    z, rate = x / s, s * np.exp(-log_scale)[:, None]  # all in units of the noise
    c, n = len(log_weight), x.shape[1]
    weight = np.exp(log_weight) if has_spike else np.ones(c)
    mean, variance = np.empty((2, c, n))
    by_parameter = np.empty((c, 2, n)) if slopes else None
    sums = np.zeros((7, c))
    for rows in chunks(c, max(1, CHUNK // n)):
        for part in chunks(n):
            sums[:, rows] += _evaluate_block(
                slab,
                z[:, part] if len(z) == 1 else z[rows, part],
                rate[rows] if rate.shape[1] == 1 else rate[rows, part],
                weight[rows, None],
                None if counts is None else counts[rows, part],
                (mean[rows, part], variance[rows, part]),
                None if by_parameter is None else by_parameter[rows, :, part],
            )
    unit = weight[:, None] * s
    mean *= unit
    variance *= unit * s
    if by_parameter is not None:
        by_parameter *= unit[:, None]
    derivatives = _derivatives(sums, weight, has_spike)
    return Evaluation(log_weight, log_scale, *derivatives, mean, variance, by_parameter)


def _derivatives(sums: Array, weight: Array, has_spike: bool) -> tuple[Array, Array, Array]:
    """Value, gradient and Hessian in log weight and log scale from the sums over entries."""
    sums[1:] *= weight
    value, slope, square, first, second, crossed, within = sums
    gradient, hessian = np.zeros((weight.size, 2)), np.zeros((weight.size, 2, 2))
    gradient[:, 1] = first
    hessian[:, 1, 1] = second + (1 - weight) * within
    if has_spike:
        gradient[:, 0] = slope
        hessian[:, 0, 0] = slope - weight * square
        hessian[:, 0, 1] = hessian[:, 1, 0] = crossed
    return value, gradient, hessian


def _evaluate_block(
    slab: Slab,
    z: Array,
    rate: Array,
    w: Array,
    counts: Array | None,
    moments: tuple[Array, Array],
    slopes: Array | None,
) -> Array:
    """Add (1) to (4) up over entries, in terms of ``p = q / w`` and ``1 - w G``.

    Mean and variance are written to `moments`, derivatives of the mean to `slopes`, all over ``w``.
    """
    ratio = slab.ratio(z, rate)
    details = slab.details(z, rate, ratio)
    mean, variance, first, second = details
    # the density 1 + w (R - 1), in a form that does not lose tiny odds
    inverse = w * ratio.odds
    inverse += 1 - w
    log_density = np.log(inverse)
    if ratio.excess is not None:
        log_density += ratio.excess
    np.divide(1, inverse, out=inverse)
    p = np.multiply(ratio.odds, inverse, out=ratio.odds)
    surplus = p - inverse
    inverse *= p
    crossed = inverse * first
    one = np.ones(z.shape[1]) if counts is None else counts
    counted_p, counted_crossed, counted_surplus = (
        part if counts is None else part * counts for part in (p, crossed, surplus)
    )
    sums = np.array(
        [
            np.vecdot(log_density, one),
            np.vecdot(surplus, one),
            np.vecdot(surplus, counted_surplus),
            np.vecdot(first, counted_p),
            np.vecdot(second, counted_p),
            np.vecdot(crossed, one),
            np.vecdot(first, counted_crossed),
        ]
    )
    np.multiply(p, mean, out=moments[0])
    inverse *= mean
    between = inverse * (1 - w)
    if slopes is not None:
        slopes[:, 0] = inverse
        by_scale = slab.mean_slope(z, rate, ratio, details)
        by_scale *= p
        first *= between
        np.add(by_scale, first, out=slopes[:, 1])
    # q times the slab's variance, and q (1 - q) times the square of its mean between the two
    variance *= p
    mean *= between
    np.add(variance, mean, out=moments[1])
    return sums


def _newton_step(
    gradient: Array, hessian: Array, log_weight: Array, radius: Array, has_spike: bool
) -> tuple[Array, Array, Array]:
    """Safeguarded Newton step of log weights and log scales, and the gain of the quadratic model.

    Steps of the log scale are at most `radius` long, those of the log weight twice that.
    """
    (slope_w, slope_b), cross = gradient.T, hessian[:, 0, 1]
    curve_w, curve_b = hessian[:, 0, 0], hessian[:, 1, 1]
    # where (1) is not concave in log w, take the curvature of the concave function of w
    curve_w = np.where(curve_w < 0, curve_w, curve_w - slope_w)
    free = (curve_w < 0) & ((log_weight < 0) | (slope_w < 0))
    if not has_spike or not free.any():
        step_w, step_b = np.zeros(radius.shape), _capped(slope_b, curve_b, radius)
    else:
        inverse = np.where(free, 1 / np.where(free, curve_w, -1.0), 0.0)
        profiled = cross * inverse
        step_b = _capped(slope_b - profiled * slope_w, curve_b - profiled * cross, radius)
        wanted = -(slope_w + cross * step_b) * inverse
        step_w = np.minimum(np.minimum(np.maximum(wanted, -2 * radius), 2 * radius), -log_weight)
        held = (step_w != wanted) & (curve_b < 0)
        if held.any():  # there the scale adapts to where the weight can go
            step_b = np.where(held, _capped(slope_b + cross * step_w, curve_b, radius), step_b)
    gain = step_w * (slope_w + 0.5 * curve_w * step_w + cross * step_b)
    gain += step_b * (slope_b + 0.5 * curve_b * step_b)
    return step_w, step_b, gain


def _capped(slope: Array, curvature: Array, radius: Array) -> Array:
    """Step uphill to the maximum, or as far as an upward curvature says, within the radius."""
    least = np.maximum(np.abs(slope) / radius, 1e-300)  # curvature that leads to the radius
    return np.asarray(slope / np.maximum(np.abs(curvature), least))


def _climb(
    slab: Slab, columns: Columns, log_weight: Array, log_scale: Array, has_spike: bool
) -> tuple[Evaluation, Array]:
    """Climb to a local maximum, all columns in step; return it and what was gained."""
    c, eps = columns.n_columns, np.finfo(float).eps
    lowest_weight = np.log(SETTINGS.smallest_slab / columns.totals)
    lowest = math.log(_NARROWEST * float(columns.s.min()))
    highest = np.log(columns.largest + 1e-3) + 3.0

    def evaluated(rows: np.ndarray, log_weight: Array, log_scale: Array) -> Evaluation:
        part = columns if rows.size == c else columns.select(rows)
        return evaluate_two_groups(
            slab, part.x, part.s, log_weight, log_scale, has_spike, counts=part.counts
        )

    rows = np.arange(c)  # of the columns that still climb
    state = evaluated(
        rows, np.clip(log_weight, lowest_weight, 0.0), np.clip(log_scale, lowest, highest)
    )
    start = state.value.copy()
    radius = np.full(c, SETTINGS.radius)
    for _ in range(200):  # a few are enough unless rounding gets in the way
        w, b, reach = state.log_weight[rows], state.log_scale[rows], radius[rows]
        step_w, step_b, gain = _newton_step(
            state.gradient[rows], state.hessian[rows], w, reach, has_spike
        )
        # where Newton's method in w passes zero, w goes there at once: a step in log w is about -1
        slope, curvature = state.gradient[rows, 0], state.hessian[rows, 0, 0]
        falls = (slope < curvature - slope) & (np.abs(step_b) < eps**0.25)
        falls &= reach == SETTINGS.radius
        step_w = np.where(falls, lowest_weight[rows] - w, step_w)
        to_w = np.maximum(w + step_w, lowest_weight[rows])
        to_b = np.minimum(np.maximum(b + step_b, lowest), highest[rows])
        far = _length(w, to_w, to_b - b)
        # Newton's method converges quadratically: the error after this step is below sqrt(eps)
        last = (far < eps**0.25) & (reach == SETTINGS.radius)
        # shorter ones, and longer ones that gain less, drown in rounding
        moves = (far > math.sqrt(eps)) & (last | (gain > eps * columns.totals[rows]))
        if not moves.all():
            rows, last = rows[moves], last[moves]
            to_w, to_b, far, reach = (part[moves] for part in (to_w, to_b, far, reach))
            if not rows.size:
                break
        at = evaluated(rows, to_w, to_b)
        # a last step may gain less than rounding takes away
        before = state.value[rows]
        risen = last | (at.value >= before - 1e-14 * np.abs(before))
        longer = np.minimum(4 * reach, SETTINGS.radius)
        radius[rows] = np.where(risen, longer, 0.25 * np.minimum(reach, far))
        state.put(rows[risen], at if risen.all() else at.take(risen))
        rows = rows[~last]
        if not rows.size:
            break
    return state, state.value - start


def _length(log_weight: Array, to_w: Array, step_b: Array) -> Array:
    """Length of a step, relative to the smaller of spike and slab."""
    spike = np.maximum(-np.minimum(log_weight, to_w), 1e-300)  # about its weight, if small
    return np.maximum(np.abs(to_w - log_weight) / np.minimum(spike, 1.0), np.abs(step_b))


def _merged(columns: Columns) -> Columns:
    """Round observations, and unequal noise, to points that columns share."""
    # eight points per unit of noise, fewer far out, where only slabs as wide as z matter
    place = np.rint(64 * np.arcsinh(columns.z / 8)).astype(np.int64)
    level = np.rint(16 * np.log(columns.s)).astype(np.int64)
    first, n_levels = level.min(), np.ptp(level) + 1
    used, index = np.unique(place * n_levels + (level - first), return_inverse=True)
    counts = [np.bincount(row, minlength=used.size) for row in index.reshape(place.shape)]
    s = np.exp((used % n_levels + first) / 16)[None] if columns.s.size > 1 else columns.s
    z = 8 * np.sinh((used // n_levels) / 64)
    return Columns(s * z, s, np.array(counts, dtype=np.float64))


def _log_scales(slab: Slab, columns: Columns) -> Array:
    """Return a grid of log scales that begins at a fraction of the noise and ends beyond the data.

    Points are as far apart as this fraction or, if that is more, as the slab is wide: those of
    slabs as wide as their scale double.
    """
    least = SHORTEST * float(columns.s.min())
    most = 2 * max(float(columns.largest.max()), typical(columns.s))
    step = slab.width * math.log(2.0)
    steps = np.arange(step, np.arcsinh(slab.width * most / least) + step, step)
    return np.log(least / slab.width * np.sinh(steps))


def _search(slab: Slab, columns: Columns, has_spike: bool) -> tuple[np.ndarray, Array, Array]:
    """Return the columns, log weights and log scales of peaks on a grid, from which to climb.

    The columns share their observations, which differ in their counts.
    """
    log_scale = _log_scales(slab, columns)
    odds, excess, _ = slab.ratio(columns.z, columns.s * np.exp(-log_scale)[:, None])
    odds = np.maximum(odds, np.finfo(float).tiny)
    fewest = math.log(SETTINGS.spacing * columns.totals.max()) / math.log(SETTINGS.spacing)
    weights = SETTINGS.spacing ** -np.arange(math.ceil(fewest) if has_spike else 1)
    values = np.empty((weights.size, columns.n_columns, log_scale.size))
    for value, w in zip(values, weights, strict=True):
        log_density = np.log(w * odds + (1 - w))
        if excess is not None:
            log_density += excess
        value[:] = columns.weights @ log_density.T
    best, at = values.max(axis=0), weights[values.argmax(axis=0)]
    # peaks that are not the highest might still win between grid points
    places = [
        part[value[part] >= value.max() - max(10.0, 0.2 * value.max())]
        for value, part in zip(best, map(peaks, best), strict=True)
    ]
    rows = np.repeat(np.arange(columns.n_columns), [part.size for part in places])
    scales = np.concatenate(places)
    return rows, np.log(at[rows, scales]), log_scale[scales]


def peaks(values: Array, most: int | None = None) -> np.ndarray:
    """Return the places of the highest local maxima; of a run of ties only the first counts."""
    ends = np.concatenate([[-np.inf], values, [-np.inf]])
    peak = np.flatnonzero((values > ends[:-2]) & (values >= ends[2:]))
    return np.sort(peak[np.argsort(-values[peak], kind="stable")[:most]])


def _cold(slab: Slab, columns: Columns, has_spike: bool) -> Evaluation:
    """Search the scale of every column globally, climb from all peaks, and keep the best."""
    merged = _merged(columns) if columns.counts is None else columns
    rows, log_weight, log_scale = _search(slab, merged, has_spike)
    wide = columns if rows.size == columns.n_columns else columns.select(rows)
    state, _ = _climb(slab, wide, log_weight, log_scale, has_spike)
    order = np.lexsort((-state.value, rows))
    return state.take(order[np.unique(rows[order], return_index=True)[1]])


def _warm(slab: Slab, columns: Columns, has_spike: bool, weight: Array, scale: Array) -> Evaluation:
    """Climb from given parameters; search anew where they turn out to be far from the optimum."""
    usable = (weight > 0) & (scale > _NARROWEST * float(columns.s.min()))
    if not usable.any():
        return _cold(slab, columns, has_spike)
    log_weight = np.log(np.where(usable, weight, 0.5))
    log_scale = np.log(np.where(usable, scale, columns.s.min()))
    state, gained = _climb(slab, columns, log_weight, log_scale, has_spike)
    doubtful = ~usable | (state.value < SETTINGS.trusted_ratio)
    doubtful |= gained > SETTINGS.trusted_gain * state.value
    if doubtful.any():
        rows = np.flatnonzero(doubtful)
        cold = _cold(slab, columns.select(rows), has_spike)
        better = cold.value > state.value[rows]
        state.put(rows[better], cold.take(better))
    return state


def fit_two_groups(
    slab: Slab, columns: Columns, has_spike: bool, start: tuple[Array, Array] | None = None
) -> tuple[Array, Array, Array, Array, Array]:
    """Fit weight and scale of every column, from given ones or cold.

    Return weights, scales, log-likelihood ratios to the null, posterior means and variances; all
    are zero where no slab improves on the null.
    """
    if start is None:
        state = _cold(slab, columns, has_spike)
    else:
        state = _warm(slab, columns, has_spike, *start)
    found = (
        np.exp(state.log_weight),
        np.exp(state.log_scale),
        state.value,
        state.mean,
        state.variance,
    )
    null = state.value <= 0
    for part in found:
        part[null] = 0.0
    return found
