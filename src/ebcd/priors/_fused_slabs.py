"""Sums and posteriors of spike and slab in one pass through the entries, compiled by numba.

What `_two_group` and `_posterior` compute with some sixty array operations, to rounding: the same
formulas, in blocks of entries that stay in the fastest cache.

Only `ebcd.priors._fused` imports this. numba keeps what it compiled until this file changes: it has
to be touched if `_climbing` or `_fused_functions` does, or a constant of another module.
"""

from __future__ import annotations

import math

import numpy as np

from ebcd._numerics import MILLS_LOWER, Array
from ebcd.priors import _climbing as steps
from ebcd.priors._climbing import ARRIVE, LARGEST_STEP, MAX_STEPS, MOVE, Bounds, Sums
from ebcd.priors._fused_functions import (
    BLOCK,
    COUNT,
    FIRST,
    INNER,
    ODDS,
    RATE,
    SECOND,
    Z,
    exponentials,
    load,
    mills,
    sum_of_logarithms,
)
from ebcd.priors._jit import compiled, kept, summing
from ebcd.priors._slabs import LARGEST_EXPONENT

_sums_of, _newton, _em, _by_newton, _judged, _is_no_fall, _longer, _shorter = map(
    compiled,
    (
        steps.sums_of,
        steps.newton,
        steps.em,
        steps.by_newton,
        steps.judged,
        steps.is_no_fall,
        steps.longer,
        steps.shorter,
    ),
)

WORK = 8 * BLOCK
_SQRT_2PI = math.sqrt(2 * math.pi)
# Which slab, for `run`: numba leaves out what only concerns arguments that are None, so that no
# other slab is compiled, and what it compiled is found again in other processes.
KINDS = {
    "laplace": (True, None, None),
    "exponential": (None, True, None),
    "normal": (None, None, True),
}


@summing
def _mills_exponents(n: int, work: Array) -> float:
    """Exponents, into `ODDS`, of Mills ratios of the gaps in `INNER`; sum what overflows."""
    excess = 0.0
    for j in range(n):
        gap = work[INNER + j]
        within = min(max(gap, MILLS_LOWER), 0.0)
        work[ODDS + j] = 0.5 * within * within
        below = min(gap, MILLS_LOWER)
        excess += work[COUNT + j] * (0.5 * (below * below - MILLS_LOWER * MILLS_LOWER))
    return excess


@compiled
def _any_mills(gap: float, exponential: float) -> float:
    """Mills ratio of any gap from that of its size, and the exponential above."""
    size = mills(abs(gap))
    return _SQRT_2PI * exponential - size if gap < 0 else size


@compiled
def _laplace_ratio(n: int, work: Array, bits: Array) -> float:
    """Odds, and the lean towards the side of ``z``; return what was taken out of the exponents."""
    for j in range(n):
        work[INNER + j] = work[RATE + j] - abs(work[Z + j])
    excess = _mills_exponents(n, work)
    exponentials(n, ODDS, work, bits)
    for j in range(n):
        near = _any_mills(work[INNER + j], work[ODDS + j])
        far = mills(work[RATE + j] + abs(work[Z + j]))
        work[ODDS + j] = 0.5 * work[RATE + j] * (near + far)
        work[INNER + j] = (near - far) / (near + far)
    return excess


@compiled
def _laplace_derivatives(n: int, work: Array) -> None:
    for j in range(n):
        rate, tilt = work[RATE + j], work[RATE + j] * abs(work[Z + j])
        squared = rate * rate
        scaled = squared / work[ODDS + j]
        moved = tilt * work[INNER + j] + scaled
        work[FIRST + j] = moved - (squared + 1)
        work[SECOND + j] = (tilt - moved) * (tilt + moved) + scaled * squared - moved + 2 * squared


@compiled
def _laplace_moments(n: int, work: Array) -> None:
    for j in range(n):
        rate, lean = work[RATE + j], work[INNER + j]
        mean = abs(work[Z + j]) - rate * lean
        work[FIRST + j] = math.copysign(mean, work[Z + j])
        work[SECOND + j] = ((1 - lean) * (1 + lean) - 1 / work[ODDS + j]) * (rate * rate) + 1


@compiled
def _exponential_ratio(n: int, work: Array, bits: Array) -> float:
    """Odds, and the Mills ratio; return what was taken out of the exponents."""
    for j in range(n):
        work[INNER + j] = work[RATE + j] - work[Z + j]
    excess = _mills_exponents(n, work)
    exponentials(n, ODDS, work, bits)
    for j in range(n):
        work[INNER + j] = _any_mills(work[INNER + j], work[ODDS + j])
        work[ODDS + j] = work[RATE + j] * work[INNER + j]
    return excess


@compiled
def _exponential_moments(n: int, work: Array) -> None:
    for j in range(n):
        hazard = 1 / work[INNER + j]
        mean = hazard - (work[RATE + j] - work[Z + j])
        work[FIRST + j] = mean
        work[SECOND + j] = 1 - hazard * mean


@compiled
def _exponential_derivatives(n: int, work: Array) -> None:
    _exponential_moments(n, work)
    for j in range(n):
        rate = work[RATE + j]
        mean = rate * work[FIRST + j]
        work[FIRST + j] = mean - 1
        work[SECOND + j] = rate * rate * work[SECOND + j] - mean


@summing
def _normal_ratio(n: int, work: Array, bits: Array) -> float:
    """Odds, and the slab's share of the variance; return what was taken out of the exponents."""
    excess = 0.0
    for j in range(n):
        share = 1 / (1 + work[RATE + j] * work[RATE + j])
        exponent = 0.5 * share * (work[Z + j] * work[Z + j])
        within = min(exponent, LARGEST_EXPONENT)
        work[INNER + j] = share
        work[ODDS + j] = within
        excess += work[COUNT + j] * (exponent - within)
    exponentials(n, ODDS, work, bits)
    for j in range(n):
        work[ODDS + j] *= work[RATE + j] * math.sqrt(work[INNER + j])
    return excess


@compiled
def _normal_derivatives(n: int, work: Array) -> None:
    for j in range(n):
        share, square = work[INNER + j], work[Z + j] * work[Z + j]
        rest = work[RATE + j] * work[RATE + j] * share
        work[FIRST + j] = share * rest * square - share
        work[SECOND + j] = 2 * share * rest * ((rest - share) * square - 1)


@compiled
def _normal_moments(n: int, work: Array) -> None:
    for j in range(n):
        work[FIRST + j] = work[INNER + j] * work[Z + j]
        work[SECOND + j] = work[INNER + j]


@summing
def _add_up(n: int, weight: float, work: Array, column: int, sums: Array) -> None:
    """Add a block to (2) to (4) of `_two_group`; leave the density over that of the spike."""
    gradient = square = first = second = crossed = crossed_first = 0.0
    for j in range(n):
        count = work[COUNT + j]
        density = weight * work[ODDS + j] + (1 - weight)
        inverse = 1 / density
        p = work[ODDS + j] * inverse
        slope = p - inverse
        cross = count * p * inverse * work[FIRST + j]
        gradient += count * slope
        square += count * slope * slope
        first += count * p * work[FIRST + j]
        second += count * p * work[SECOND + j]
        crossed += cross
        crossed_first += cross * work[FIRST + j]
        work[ODDS + j] = density
    sums[1, column] += gradient
    sums[2, column] += square
    sums[3, column] += first
    sums[4, column] += second
    sums[5, column] += crossed
    sums[6, column] += crossed_first


@compiled
def _shrink(
    n: int, weight: float, s: Array, work: Array, column: int, start: int, mean: Array, var: Array
) -> None:
    """Posterior moments of a block; leave the density over that of the spike."""
    step = min(1, s.shape[1] - 1)
    for j in range(n):
        noise = s[0, (start + j) * step]
        density = weight * work[ODDS + j] + (1 - weight)
        inverse = 1 / density
        slab = weight * work[ODDS + j] * inverse
        shrunk = slab * work[FIRST + j]
        between = shrunk * work[FIRST + j] * inverse * (1 - weight)
        mean[column, start + j] = noise * shrunk
        var[column, start + j] = noise * noise * (slab * work[SECOND + j] + between)
        work[ODDS + j] = density


@compiled
def _pass(
    laplace: bool | None,
    exponential: bool | None,
    normal: bool | None,
    z: Array,
    s: Array,
    counts: Array,
    column: int,
    weight: float,
    rate: float,
    work: Array,
    bits: Array,
    sums: Array,
    mean: Array,
    var: Array,
) -> None:
    """Add up (1) to (4) of `_two_group`, or (1) and fill in moments if there is room for them."""
    counted = counts.size > 1 or counts[0, 0] != 1
    for row in range(sums.shape[0]):
        sums[row, column] = 0.0
    for start in range(0, z.shape[1], BLOCK):
        n = load(z, s, counts, column, start, rate, work)
        if laplace is not None:
            sums[0, column] += _laplace_ratio(n, work, bits)
        if exponential is not None:
            sums[0, column] += _exponential_ratio(n, work, bits)
        if normal is not None:
            sums[0, column] += _normal_ratio(n, work, bits)
        if mean.size:
            if laplace is not None:
                _laplace_moments(n, work)
            if exponential is not None:
                _exponential_moments(n, work)
            if normal is not None:
                _normal_moments(n, work)
            _shrink(n, weight, s, work, column, start, mean, var)
        else:
            if laplace is not None:
                _laplace_derivatives(n, work)
            if exponential is not None:
                _exponential_derivatives(n, work)
            if normal is not None:
                _normal_derivatives(n, work)
            _add_up(n, weight, work, column, sums)
        sums[0, column] += sum_of_logarithms(n, ODDS, work, bits, counted)


@compiled
def _column_sums(w: float, total: float, sums: Array, column: int) -> Sums:
    return _sums_of(
        w,
        total,
        sums[0, column],
        sums[1, column],
        sums[2, column],
        sums[3, column],
        sums[4, column],
        sums[5, column],
        sums[6, column],
    )


@compiled
def _climb(
    laplace: bool | None,
    exponential: bool | None,
    normal: bool | None,
    z: Array,
    s: Array,
    counts: Array,
    column: int,
    limits: Bounds,
    largest_rate: float,
    work: Array,
    bits: Array,
    sums: Array,
    state: Array,
    nothing: Array,
) -> bool:
    """Climb in one column as `_two_group._climb` does; tell whether it comes to an end.

    If not, `state` has how far it came.
    """
    w, b, reach = state[0, column], state[1, column], LARGEST_STEP
    ratio = begin = -np.inf
    at = _sums_of(w, limits.total, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    to_w, to_b, arrived = w, b, True
    for _ in range(MAX_STEPS + 1):
        rate = math.exp(-to_b)
        if rate > largest_rate:
            arrived = False
            break
        _pass(
            laplace, exponential, normal, z, s, counts, column, to_w, rate, work, bits, sums,
            nothing, nothing,
        )  # fmt: skip
        value = sums[0, column]
        if begin == -np.inf:
            begin = value
        if _is_no_fall(value, ratio):
            w, b, ratio, at = to_w, to_b, value, _column_sums(to_w, limits.total, sums, column)
            reach = _longer(reach)
        elif _by_newton(reach):
            reach = _shorter(reach, w, b, to_w, to_b)
        else:  # where EM fails too, rounding has been reached
            break
        if _by_newton(reach):
            step = _newton(at, w, b, reach, limits.fixed_weight)
        else:
            step = _em(at, w, b, limits)
        verdict, to_w, to_b = _judged(w, b, step, reach, limits)
        if verdict == ARRIVE:
            w, b, ratio = to_w, to_b, ratio + max(step[2], 0.0)
        if verdict != MOVE:
            break
    state[0, column], state[1, column] = w, b
    if begin > -np.inf:
        state[2, column], state[3, column] = ratio, ratio - begin
    return arrived


@kept
def run(
    laplace: bool | None,
    exponential: bool | None,
    normal: bool | None,
    z: Array,
    s: Array,
    counts: Array,
    bounds: Array,
    fixed_weight: bool,
    largest_rate: float,
    work: Array,
    bits: Array,
    sums: Array,
    state: Array,
    mean: Array,
    var: Array,
    nothing: Array,
) -> bool:
    """Climb from the weights and log scales in `state` if there are bounds for them.

    Rows of `state` become those of `_two_group._State`. If there is room for moments, they are
    filled in, and the ratio is the one there. Without bounds or room, just add up. Stop and return
    False if other formulas are needed.
    """
    for column in range(state.shape[1]):
        if bounds.size:
            limits = Bounds(
                bounds[0, column],
                bounds[1, column],
                bounds[2, column],
                bounds[3, column],
                fixed_weight,
            )
            if not _climb(
                laplace, exponential, normal, z, s, counts, column, limits, largest_rate,
                work, bits, sums, state, nothing,
            ):  # fmt: skip
                return False
        if mean.size or not bounds.size:
            w, rate = state[0, column], math.exp(-state[1, column])
            if rate > largest_rate:
                return False
            _pass(
                laplace, exponential, normal, z, s, counts, column, w, rate, work, bits, sums,
                mean, var,
            )  # fmt: skip
            state[3, column] += sums[0, column] - state[2, column]
            state[2, column] = sums[0, column]
    return True
