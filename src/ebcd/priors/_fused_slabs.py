"""Sums and posteriors of spike and slab in one pass through the entries, compiled by numba.

What `_two_group` and `_posterior` compute with some sixty array operations, to rounding: the same
formulas, in blocks of entries that stay in the fastest cache. Every loop is simple enough for the
compiler to work on four entries at once, which is what makes this fast; so special functions are
polynomials here, and logarithms are taken of products.

Only `ebcd.priors._fused` imports this. numba keeps what it compiled until this file changes: it has
to be touched if `_climbing` does, or a constant of another module.
"""

from __future__ import annotations

import math

import numpy as np

from ebcd._numerics import MILLS_LOWER, Array
from ebcd.priors import _climbing as steps
from ebcd.priors._climbing import (
    ARRIVE,
    LARGEST_STEP,
    MAX_STEPS,
    MOVE,
    Bounds,
    Sums,
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

# Which slab, for `run`: numba leaves out what only concerns arguments that are None, so that no
# other slab is compiled, and what it compiled is found again in other processes.
KINDS = {
    "laplace": (True, None, None),
    "exponential": (None, True, None),
    "normal": (None, None, True),
}
BLOCK = 256  # entries
# Rows of the working memory.
_Z, _RATE, _COUNT, _BITS, _ODDS, _INNER, _FIRST, _SECOND = range(0, 8 * BLOCK, BLOCK)
WORK = 8 * BLOCK

# R(t) (t + 4) of the Mills ratio R for t >= 0 is a polynomial of u = (t - 4) / (t + 4), highest
# power first: the Chebyshev series, computed with 50 digits, up to its terms of 1e-16.
_MILLS_CENTRE = 4.0
_MILLS = np.array(
    [
        -3.0073979672229866e-10,
        -4.232837128667457e-09,
        -1.4722998923842006e-09,
        4.0274966446676125e-08,
        4.4730600514526726e-08,
        -1.9748120792726717e-07,
        -4.004939292512038e-07,
        6.635890483495421e-07,
        2.568755311229751e-06,
        -1.5665301434775431e-06,
        -1.484327767908031e-05,
        1.7912419621396896e-06,
        8.809573121072339e-05,
        -4.781834677436327e-06,
        -0.0005792693046478719,
        0.0003342443649391365,
        0.004087855681200072,
        -0.008722295248200037,
        -0.018900450861711257,
        0.1513917623110474,
        -0.4675409629983325,
        0.9704095548676177,
        -1.5237709108199835,
        1.8932190633084853,
    ]
)
_SQRT_2PI = math.sqrt(2 * math.pi)
_LOG_2 = math.log(2.0)
_LOG_2_HIGH = 0.6931471803691238  # its last bits are zero, so that multiples are exact
_LOG_2_LOW = 1.9082149292705877e-10
_EXP = np.array([1 / math.factorial(power) for power in range(13, -1, -1)])
_EXPONENT_BIAS = 1023
_MANTISSA_BITS = 52
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_ONE = _EXPONENT_BIAS << _MANTISSA_BITS


@compiled
def mills(t: float) -> float:
    """Mills ratio of ``t >= 0``."""
    u = (t - _MILLS_CENTRE) / (t + _MILLS_CENTRE)
    value = 0.0
    for i in range(_MILLS.size):
        value = value * u + _MILLS[i]
    return value / (t + _MILLS_CENTRE)


@compiled
def exponentials(n: int, row: int, work: Array, bits: Array) -> None:
    """Replace what is in the row by its exponential; between -700 and 700."""
    for j in range(n):
        power = np.rint(work[row + j] * (1 / _LOG_2))
        rest = (work[row + j] - power * _LOG_2_HIGH) - power * _LOG_2_LOW
        value = 0.0
        for i in range(_EXP.size):
            value = value * rest + _EXP[i]
        work[row + j] = value
        bits[_BITS + j] = (np.int64(np.int32(power)) + _EXPONENT_BIAS) << _MANTISSA_BITS
    for j in range(n):
        work[row + j] *= work[_BITS + j]


@summing
def sum_of_logarithms(n: int, row: int, work: Array, bits: Array, counted: bool) -> float:
    """Sum of the logarithms of a row, as that of the product of the mantissas; uses it up."""
    total = 0.0
    if counted:
        for j in range(n):
            total += work[_COUNT + j] * math.log(work[row + j])
        return total
    exponent = 0
    for j in range(n):
        exponent += bits[row + j] >> _MANTISSA_BITS
        bits[row + j] = (bits[row + j] & _MANTISSA) | _ONE
    product = 1.0
    for j in range(n):
        product *= work[row + j]
    return (exponent - n * _EXPONENT_BIAS) * _LOG_2 + math.log(product)


@compiled
def _load(
    z: Array, s: Array, counts: Array, column: int, start: int, rate: float, work: Array
) -> int:
    """Bring a block of a column into the working memory; return its length."""
    n = min(BLOCK, z.shape[1] - start)
    row, count_row = min(column, z.shape[0] - 1), min(column, counts.shape[0] - 1)
    step, count_step = min(1, s.shape[1] - 1), min(1, counts.shape[1] - 1)
    for j in range(n):
        at = start + j
        work[_Z + j] = z[row, at]
        work[_RATE + j] = rate * s[0, at * step]
        work[_COUNT + j] = counts[count_row, at * count_step]
    return n


@summing
def _mills_exponents(n: int, work: Array) -> float:
    """Exponents, into `_ODDS`, of Mills ratios of the gaps in `_INNER`; sum what overflows."""
    excess = 0.0
    for j in range(n):
        gap = work[_INNER + j]
        within = min(max(gap, MILLS_LOWER), 0.0)
        work[_ODDS + j] = 0.5 * within * within
        below = min(gap, MILLS_LOWER)
        excess += work[_COUNT + j] * (0.5 * (below * below - MILLS_LOWER * MILLS_LOWER))
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
        work[_INNER + j] = work[_RATE + j] - abs(work[_Z + j])
    excess = _mills_exponents(n, work)
    exponentials(n, _ODDS, work, bits)
    for j in range(n):
        near = _any_mills(work[_INNER + j], work[_ODDS + j])
        far = mills(work[_RATE + j] + abs(work[_Z + j]))
        work[_ODDS + j] = 0.5 * work[_RATE + j] * (near + far)
        work[_INNER + j] = (near - far) / (near + far)
    return excess


@compiled
def _laplace_derivatives(n: int, work: Array) -> None:
    for j in range(n):
        rate, tilt = work[_RATE + j], work[_RATE + j] * abs(work[_Z + j])
        squared = rate * rate
        scaled = squared / work[_ODDS + j]
        moved = tilt * work[_INNER + j] + scaled
        work[_FIRST + j] = moved - (squared + 1)
        work[_SECOND + j] = (tilt - moved) * (tilt + moved) + scaled * squared - moved + 2 * squared


@compiled
def _laplace_moments(n: int, work: Array) -> None:
    for j in range(n):
        rate, lean = work[_RATE + j], work[_INNER + j]
        mean = abs(work[_Z + j]) - rate * lean
        work[_FIRST + j] = math.copysign(mean, work[_Z + j])
        work[_SECOND + j] = ((1 - lean) * (1 + lean) - 1 / work[_ODDS + j]) * (rate * rate) + 1


@compiled
def _exponential_ratio(n: int, work: Array, bits: Array) -> float:
    """Odds, and the Mills ratio; return what was taken out of the exponents."""
    for j in range(n):
        work[_INNER + j] = work[_RATE + j] - work[_Z + j]
    excess = _mills_exponents(n, work)
    exponentials(n, _ODDS, work, bits)
    for j in range(n):
        work[_INNER + j] = _any_mills(work[_INNER + j], work[_ODDS + j])
        work[_ODDS + j] = work[_RATE + j] * work[_INNER + j]
    return excess


@compiled
def _exponential_moments(n: int, work: Array) -> None:
    for j in range(n):
        hazard = 1 / work[_INNER + j]
        mean = hazard - (work[_RATE + j] - work[_Z + j])
        work[_FIRST + j] = mean
        work[_SECOND + j] = 1 - hazard * mean


@compiled
def _exponential_derivatives(n: int, work: Array) -> None:
    _exponential_moments(n, work)
    for j in range(n):
        rate = work[_RATE + j]
        mean = rate * work[_FIRST + j]
        work[_FIRST + j] = mean - 1
        work[_SECOND + j] = rate * rate * work[_SECOND + j] - mean


@summing
def _normal_ratio(n: int, work: Array, bits: Array) -> float:
    """Odds, and the slab's share of the variance; return what was taken out of the exponents."""
    excess = 0.0
    for j in range(n):
        share = 1 / (1 + work[_RATE + j] * work[_RATE + j])
        exponent = 0.5 * share * (work[_Z + j] * work[_Z + j])
        within = min(exponent, LARGEST_EXPONENT)
        work[_INNER + j] = share
        work[_ODDS + j] = within
        excess += work[_COUNT + j] * (exponent - within)
    exponentials(n, _ODDS, work, bits)
    for j in range(n):
        work[_ODDS + j] *= work[_RATE + j] * math.sqrt(work[_INNER + j])
    return excess


@compiled
def _normal_derivatives(n: int, work: Array) -> None:
    for j in range(n):
        share, square = work[_INNER + j], work[_Z + j] * work[_Z + j]
        rest = work[_RATE + j] * work[_RATE + j] * share
        work[_FIRST + j] = share * rest * square - share
        work[_SECOND + j] = 2 * share * rest * ((rest - share) * square - 1)


@compiled
def _normal_moments(n: int, work: Array) -> None:
    for j in range(n):
        work[_FIRST + j] = work[_INNER + j] * work[_Z + j]
        work[_SECOND + j] = work[_INNER + j]


@summing
def _add_up(n: int, weight: float, work: Array, column: int, sums: Array) -> None:
    """Add a block to (2) to (4) of `_two_group`; leave the density over that of the spike."""
    gradient = square = first = second = crossed = crossed_first = 0.0
    for j in range(n):
        count = work[_COUNT + j]
        density = weight * work[_ODDS + j] + (1 - weight)
        inverse = 1 / density
        p = work[_ODDS + j] * inverse
        slope = p - inverse
        cross = count * p * inverse * work[_FIRST + j]
        gradient += count * slope
        square += count * slope * slope
        first += count * p * work[_FIRST + j]
        second += count * p * work[_SECOND + j]
        crossed += cross
        crossed_first += cross * work[_FIRST + j]
        work[_ODDS + j] = density
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
        density = weight * work[_ODDS + j] + (1 - weight)
        inverse = 1 / density
        slab = weight * work[_ODDS + j] * inverse
        shrunk = slab * work[_FIRST + j]
        between = shrunk * work[_FIRST + j] * inverse * (1 - weight)
        mean[column, start + j] = noise * shrunk
        var[column, start + j] = noise * noise * (slab * work[_SECOND + j] + between)
        work[_ODDS + j] = density


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
        n = _load(z, s, counts, column, start, rate, work)
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
        sums[0, column] += sum_of_logarithms(n, _ODDS, work, bits, counted)


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
