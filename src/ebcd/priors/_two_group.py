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

from ebcd._numerics import Array
from ebcd.priors._columns import CHUNK, Columns, slices
from ebcd.priors._kernels import AbstractSlab

Slab = type[AbstractSlab]


@dataclass(frozen=True)
class _Settings:
    radius: float = 1.5  # of a step in the log scale; twice that in the log weight
    # Newton's method converges quadratically: after steps of lengths e and f the next one has about
    # f^3 / e^2. Where that is below `accuracy`, in log weight and log scale, f is the last.
    accuracy: float = 5e-6
    short_step: float = 2e-3  # up to which that holds
    first_length: float = 0.05  # of the step before the first
    shortest_step: float = 1e-7  # below which only rounding keeps the likelihood from rising
    tolerance: float = 1e-12  # gain in nats that is not worth a long step
    max_steps: int = 200
    narrowest: float = 1e-4  # slab over noise: indistinguishable from the spike
    smallest_slab: float = 1e-6  # weight of a slab, in entries
    # A warm start is trusted if it was near its optimum and that optimum is far from the null.
    trusted_gain: float = 0.5
    trusted_ratio: float = 3.0
    # Entries from which a climb with unequal noise goes most of the way on merged ones.
    merged_from: int = 6_000
    narrowest_searched: float = 0.1  # slab over the smallest noise
    most_peaks: int = 3
    rough_weight: float = 0.1  # relative accuracy of weights in the search


SETTINGS = _Settings()


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

    Parameters
    ----------
    slab : subclass of AbstractSlab
        Shape of the slab, ``family.slab``.
    x : array, c x p or 1 x p
        Observations, one normal-means problem a row, in any units.
    s : array, 0-d, of length p, c x 1 or c x p
        Noise standard deviations.
    log_weight, log_scale : array, c
        Logarithms of the weight of the slab and of its scale, in the units of `x`.
    has_spike : bool
        Whether there is a spike; if not, the weight is one whatever `log_weight` says.
    slopes : bool
        Whether derivatives of the mean are wanted.
    counts : array, c x p, optional
        How often each entry occurs.

    Returns
    -------
    Evaluation

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd.priors import PointLaplace
    >>> from ebcd.priors._two_group import evaluate_two_groups
    >>> x = np.array([[0.3, -0.5, 8.0], [0.1, 0.2, -0.4]])
    >>> w, b = np.log([0.3, 0.1]), np.log([5.0, 1.0])
    >>> found = evaluate_two_groups(PointLaplace.slab, x, 1.0, w, b)
    >>> found.value.round(2), found.mean[0].round(2)
    (array([27.31, -0.1 ]), array([ 0.02, -0.04,  7.8 ]))
    """
    s = np.atleast_2d(np.asarray(s, dtype=np.float64))
    z, rate = x / s, s * np.exp(-log_scale)[:, None]  # all in units of the noise
    c, n = len(log_weight), x.shape[1]
    weight = np.exp(log_weight) if has_spike else np.ones(c)
    mean, variance = np.empty((2, c, n))
    by_parameter = np.empty((c, 2, n)) if slopes else None
    sums = np.zeros((7, c))
    for rows in slices(c, max(1, CHUNK // n)):
        for part in slices(n, CHUNK):
            sums[:, rows] += _evaluate_block(
                slab,
                z[:, part] if len(z) == 1 else z[rows, part],
                rate[rows] if rate.shape[1] == 1 else rate[rows, part],
                weight[rows, None],
                None if counts is None else counts[rows, part],
                (mean[rows, part], variance[rows, part]),
                None if by_parameter is None else by_parameter[rows, :, part],
            )
    if s.size > 1 or s[0, 0] != 1:
        mean *= s
        variance *= s * s
        if by_parameter is not None:
            by_parameter *= s[:, None]
    return Evaluation(*_derivatives(sums, weight, has_spike), mean, variance, by_parameter)


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

    Mean and variance are written to `moments`, derivatives of the mean to `slopes`.
    """
    ratio = slab.ratio(z, rate)
    mean, variance, first, second = slab.details(z, rate, ratio)
    by_scale = None if slopes is None else slab.mean_slope(z, rate, ratio, variance)
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
    # q times the slab's variance, and q (1 - q) times the square of its mean between the two
    p *= w
    inverse *= w
    np.multiply(p, mean, out=moments[0])
    if slopes is not None and by_scale is not None:
        np.multiply(inverse, mean, out=slopes[:, 0])
        by_scale *= p
        first *= slopes[:, 0]
        first *= 1 - w
        np.add(by_scale, first, out=slopes[:, 1])
    inverse *= 1 - w
    mean *= mean
    mean *= inverse
    variance *= p
    np.add(variance, mean, out=moments[1])
    return sums


def newton_step(
    at: Evaluation, log_weight: Array, radius: Array, has_spike: bool = True
) -> tuple[Array, Array, Array]:
    """Safeguarded Newton step of every column.

    Parameters
    ----------
    at : Evaluation
        At the present weights and scales.
    log_weight : array, c
        Present log weights, which stay below zero.
    radius : array, c
        Longest step of the log scale; half of the longest one of the log weight.
    has_spike : bool
        Whether there is a weight to fit.

    Returns
    -------
    log_weight, log_scale : array, c
        Changes.
    gain : array, c
        What the quadratic model says is gained.
    """
    (slope_w, slope_b), cross = at.gradient.T, at.hessian[:, 0, 1]
    curve_w, curve_b = at.hessian[:, 0, 0], at.hessian[:, 1, 1]
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
    size = np.abs(slope) / np.maximum(np.abs(curvature), 1e-300)
    return np.copysign(np.minimum(size, radius), slope)


class _State(NamedTuple):
    """Where the climbs of c columns are; c rows each."""

    row: np.ndarray  # number of the column
    log_weight: Array
    log_scale: Array
    value: Array
    gradient: Array
    hessian: Array
    mean: Array
    variance: Array
    start: Array  # value at the beginning
    radius: Array
    length: Array  # of the last step

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation(*self[3:8])

    @property
    def gained(self) -> Array:
        return self.value - self.start

    def take(self, index: np.ndarray) -> _State:
        return _State(*(part[index] for part in self))

    def put(self, index: np.ndarray, other: _State) -> None:
        for part, new in zip(self, other, strict=True):
            part[index] = new


def _climb(
    slab: Slab, columns: Columns, log_weight: Array, log_scale: Array, has_spike: bool
) -> _State:
    """Climb to a local maximum from the given parameters, all columns in step."""
    c = columns.n_columns
    lowest_weight = np.log(SETTINGS.smallest_slab / columns.totals)
    lowest = math.log(SETTINGS.narrowest * float(columns.s.min()))
    highest = np.log(columns.largest + 1e-3) + 3.0
    log_weight = np.minimum(np.maximum(log_weight, lowest_weight), 0.0)

    def evaluate(row: np.ndarray, log_weight: Array, log_scale: Array) -> Evaluation:
        part = columns if row.size == c else columns.select(row)
        return evaluate_two_groups(
            slab, part.x, part.s, log_weight, log_scale, has_spike, counts=part.counts
        )

    at = evaluate(np.arange(c), log_weight, log_scale)
    radius, length = np.full(c, SETTINGS.radius), np.full(c, SETTINGS.first_length)
    start = at.value.copy()
    state = _State(np.arange(c), log_weight, np.array(log_scale), *at[:5], start, radius, length)
    now = state  # of the columns that still climb; the others have theirs in `state`
    for _ in range(SETTINGS.max_steps):
        step_w, step_b, gain = newton_step(now.evaluation, now.log_weight, now.radius, has_spike)
        to_w = np.maximum(now.log_weight + step_w, lowest_weight[now.row])
        to_b = np.minimum(np.maximum(now.log_scale + step_b, lowest), highest[now.row])
        length = _length(now, to_w, to_b)
        last = (length**3 < SETTINGS.accuracy * now.length**2) & (length < SETTINGS.short_step)
        last &= now.radius == SETTINGS.radius
        moves = (length > SETTINGS.shortest_step) & (last | (gain > SETTINGS.tolerance))
        if not moves.all():
            state.put(now.row, now)
            now, last, length = now.take(moves), last[moves], length[moves]
            to_w, to_b = to_w[moves], to_b[moves]
            if not now.row.size:
                return state
        at = evaluate(now.row, to_w, to_b)
        # a last step may gain less than rounding takes away
        risen = last | (at.value >= now.value - 1e-14 * np.abs(now.value))
        new = _State(now.row, to_w, to_b, *at[:5], now.start, now.radius, length)
        longer = np.minimum(4 * now.radius, SETTINGS.radius)
        if not risen.all():
            longer = np.where(risen, longer, 0.25 * np.minimum(now.radius, length))
            new.put(~risen, now.take(~risen))
        new = new._replace(radius=longer)
        now = new
        done = last | (now.radius < SETTINGS.shortest_step)
        if done.any():
            if done.all() and now.row.size == c:
                return now
            state.put(now.row, now)
            now = now.take(~done)
            if not now.row.size:
                return state
    state.put(now.row, now)
    return state


def _length(now: _State, to_w: Array, to_b: Array) -> Array:
    """Length of a step, relative to the smaller of spike and slab."""
    spike = np.maximum(-np.minimum(now.log_weight, to_w), 1e-300)  # about its weight, if small
    moved = np.abs(to_w - now.log_weight) / np.minimum(spike, 1.0)
    return np.maximum(moved, np.abs(to_b - now.log_scale))


def _are_many(columns: Columns) -> bool:
    """Whether to go most of the way on merged entries, where that costs little."""
    return columns.s.size > 1 and columns.x.shape[1] >= SETTINGS.merged_from


def _search(slab: Slab, columns: Columns, has_spike: bool) -> list[tuple[Array, Array]]:
    """Log weights and log scales from which to climb: peaks on a grid of scales.

    The columns share their observations, which differ in their counts.
    """
    low = math.log(SETTINGS.narrowest_searched * float(columns.s.min()))
    top = max(math.log(max(float(columns.largest.max()), 1e-300)), float(np.log(columns.s).mean()))
    log_scale = np.arange(low, top + 1.0, math.log(2.0))
    counts = np.ones((1, columns.x.shape[1])) if columns.counts is None else columns.counts
    counts = counts[:, None]
    odds, excess, _ = slab.ratio(columns.z, columns.s * np.exp(-log_scale)[:, None])
    weight = np.ones((columns.n_columns, log_scale.size))
    if has_spike:
        weight = best_weight(odds, counts, SETTINGS.rough_weight)
    w = weight[..., None]
    log_density = np.log(w * odds + (1 - w))
    if excess is not None:
        log_density += np.where(w > 0, excess, 0.0)
    values = np.vecdot(log_density, counts)
    found = []
    with np.errstate(divide="ignore"):  # the climb has its own lower bound of the weight
        for value, weights in zip(values, np.log(weight), strict=True):
            # peaks that are not the highest might still win between grid points
            places = peaks(value, SETTINGS.most_peaks)
            best = float(value.max())
            places = places[value[places] >= best - max(10.0, 0.2 * best)]
            found.append((weights[places], log_scale[places]))
    return found


def best_weight(odds: Array, counts: Array, accuracy: float = 1e-12) -> Array:
    """Maximise ``sum log(1 + w (odds - 1))`` over the weight ``w`` of each row.

    The derivative falls from one pole to another, nearly as ``a / w - b / (1 - w)`` if the entries
    are easy to tell apart. Every step fits ``a`` and ``b`` to the derivative and to its slope, and
    goes where that vanishes; bracketed. Rows of `odds` and of `counts` are broadcast.
    """
    surplus = odds - 1
    full, empty = np.vecdot(surplus / odds, counts) >= 0, np.vecdot(surplus, counts) <= 0
    low, high = full * 0.0 + 1e-3 / counts.sum(axis=-1), np.ones(full.shape)
    weight = np.full(full.shape, 0.1)
    for _ in range(60):
        gradient = surplus / (1 + weight[..., None] * surplus)
        slope, square = np.vecdot(gradient, counts), np.vecdot(gradient * gradient, counts)
        rising = slope > 0
        low, high = np.where(rising, weight, low), np.where(rising, high, weight)
        rest = 1 - weight
        up = weight * weight * (rest * square + slope)
        down = rest * rest * (weight * square - slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            model = up / (up + down)
        near = np.abs(model - weight) <= accuracy * weight
        weight = np.where(near | ((model > low) & (model < high)), model, np.sqrt(low * high))
        if (near | full | empty).all():
            break
    return np.where(empty, 0.0, np.where(full, 1.0, np.clip(weight, 0.0, 1.0)))


def peaks(values: Array, most: int) -> np.ndarray:
    """Return the places of the highest local maxima; of a run of ties only the first counts."""
    ends = np.concatenate([[-np.inf], values, [-np.inf]])
    peak = np.flatnonzero((values > ends[:-2]) & (values >= ends[2:]))
    return np.sort(peak[np.argsort(-values[peak], kind="stable")[:most]])


def _starts(slab: Slab, columns: Columns, has_spike: bool) -> list[tuple[Array, Array]]:
    """Log weights and log scales from which to climb, for every column."""
    if columns.s.size == 1:
        shared = columns.spread() if columns.counts is None else columns
        return _search(slab, shared, has_spike)
    found = []
    for column in columns.each():
        column = column.merged()
        [start] = _search(slab, column, has_spike)
        if _are_many(columns):
            wide = column.select(np.zeros(start[0].size, dtype=np.intp))
            state = _climb(slab, wide, *start, has_spike)
            # several peaks may have led to one maximum, and merged entries err by a few nats
            ends = np.round(10 * np.array([state.log_weight, state.log_scale]))
            state = state.take(np.unique(ends, axis=1, return_index=True)[1])
            state = state.take(state.value >= state.value.max() - 20.0)
            start = state.log_weight, state.log_scale
        found.append(start)
    return found


def _cold(slab: Slab, columns: Columns, has_spike: bool) -> _State:
    """Search the scale of every column globally, climb from all peaks, and keep the best."""
    starts = _starts(slab, columns, has_spike)
    rows = np.repeat(np.arange(columns.n_columns), [start[0].size for start in starts])
    log_weight, log_scale = (np.concatenate(part) for part in zip(*starts, strict=True))
    wide = columns if rows.size == columns.n_columns else columns.select(rows)
    state = _climb(slab, wide, log_weight, log_scale, has_spike)
    order = np.lexsort((-state.value, rows))
    return state.take(order[np.unique(rows[order], return_index=True)[1]])


def _warm(slab: Slab, columns: Columns, has_spike: bool, weight: Array, scale: Array) -> _State:
    """Climb from given parameters; search anew where they turn out to be far from the optimum."""
    narrow, wide = 0.05 * float(columns.s.min()), 10 * columns.largest + 1
    usable = (weight > 0) & (scale > narrow) & (scale < wide)
    if not usable.any():
        return _cold(slab, columns, has_spike)
    log_weight = np.log(np.where(usable, weight, 0.5))
    log_scale = np.log(np.where(usable, scale, columns.s.min()))
    gained = np.zeros(weight.size)
    if _are_many(columns):
        for k, column in enumerate(columns.each()):
            way = _climb(
                slab, column.merged(), log_weight[k : k + 1], log_scale[k : k + 1], has_spike
            )
            log_weight[k], log_scale[k] = way.log_weight[0], way.log_scale[0]
            gained[k] = way.gained[0]
    state = _climb(slab, columns, log_weight, log_scale, has_spike)
    gained += state.gained
    doubtful = ~usable | (state.value < SETTINGS.trusted_ratio)
    doubtful |= gained > SETTINGS.trusted_gain + 0.01 * state.value
    if doubtful.any():
        rows = np.flatnonzero(doubtful)
        cold = _cold(slab, columns.select(rows), has_spike)
        better = cold.value > state.value[rows]
        state.put(rows[better], cold.take(better))
    return state


class TwoGroupFit(NamedTuple):
    """Fitted weights and scales, log-likelihood ratios to the null, posterior moments."""

    weight: Array
    scale: Array
    ratio: Array
    mean: Array
    variance: Array


def fit_two_groups(
    slab: Slab, columns: Columns, has_spike: bool, start: tuple[Array, Array] | None = None
) -> TwoGroupFit:
    """Fit weight and scale of every column by maximum likelihood.

    Parameters
    ----------
    slab : subclass of AbstractSlab
        Shape of the slab.
    columns : Columns
        The observations, with the spike at zero.
    has_spike : bool
        Whether there is a spike; if not, the slab has weight one.
    start : (weight, scale), optional
        Parameters of each column to start from. A column whose start says nothing (no slab, or
        one narrower than the noise) is searched as if cold.

    Returns
    -------
    TwoGroupFit
        A column that no slab improves has weight and scale zero.
    """
    if start is None:
        state = _cold(slab, columns, has_spike)
    else:
        state = _warm(slab, columns, has_spike, *start)
    weight = np.exp(state.log_weight) if has_spike else np.ones(columns.n_columns)
    fit = TwoGroupFit(weight, np.exp(state.log_scale), state.value, state.mean, state.variance)
    null = state.value <= 0
    if null.any():
        for part in fit:
            part[null] = 0.0
    return fit
