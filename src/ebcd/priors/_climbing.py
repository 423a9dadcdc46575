"""How the weight and the scale of one column climb, in plain numbers.

See `_two_group` for the formulas.
"""

from __future__ import annotations

import math
from typing import NamedTuple

# A step of Newton's method of relative length e that promises a gain leaves about gain * e^2; where
# that is less than this, in nats, the step needs no confirmation.
_LEFT_OVER = 1e-8
_SHORT_STEP = 0.02
_TOLERANCE = 1e-12
MAX_STEPS = 200
LARGEST_STEP = 1.5  # of the log scale
_SMALLEST_STEP = 1e-3  # below which EM takes over from Newton's method
SMALLEST_SLAB = 1e-6  # entries
STAY, MOVE, ARRIVE = range(3)


class Sums(NamedTuple):
    """Log-likelihood ratio to the null of one column, and its derivatives."""

    ratio: float
    d_weight: float
    d_scale: float
    dd_weight: float
    dd_scale: float
    dd_cross: float
    slab_total: float


class Bounds(NamedTuple):
    """What stays the same in a climb: entries, bounds of the log scale, shape of the slab."""

    total: float
    smallest: float
    largest: float
    em_power: float
    fixed_weight: bool


def sums_of(
    w: float,
    n: float,
    value: float,
    gradient: float,
    square: float,
    first: float,
    second: float,
    crossed: float,
    crossed_first: float,
) -> Sums:
    """Give (1) to (4) from sums over the entries, in terms of ``p = q / w``."""
    return Sums(
        value,
        gradient,
        w * first,
        -square,
        w * ((1 - w) * crossed_first + second),
        crossed,
        w * (n + (1 - w) * gradient),
    )


def newton(at: Sums, w: float, b: float, reach: float, fixed: bool) -> tuple[float, float, float]:
    """Step of Newton's method within the bounds of the weight, and the gain that it predicts."""

    def capped(slope: float, curvature: float) -> float:
        if slope == 0:
            return 0.0
        step = abs(slope / curvature) if curvature else reach
        return math.copysign(min(step, reach), slope)

    # derivatives in log w; where that is not concave, those of the concave function of w
    d_weight, dd_weight, cross = w * at.d_weight, w * w * at.dd_weight, w * at.dd_cross
    held = fixed or (w >= 1 and d_weight >= 0) or dd_weight == 0
    if dd_weight + d_weight < 0:
        dd_weight += d_weight
    slope, curvature = at.d_scale, at.dd_scale
    if not held:  # profile the weight out
        slope -= cross * d_weight / dd_weight
        curvature -= cross**2 / dd_weight
    step_b = capped(slope, curvature)
    step_w = 0.0
    if not held:
        wanted = -(d_weight + cross * step_b) / dd_weight
        step_w = min(max(wanted, -2 * reach), 2 * reach, -math.log(w))
        if step_w != wanted and at.dd_scale < 0:  # the scale adapts to where the weight can go
            step_b = capped(at.d_scale + cross * step_w, at.dd_scale)
    gain = step_w * (d_weight + 0.5 * dd_weight * step_w + cross * step_b)
    gain += step_b * (at.d_scale + 0.5 * at.dd_scale * step_b)
    return min(w * math.exp(step_w), 1.0), b + step_b, gain


def em(at: Sums, w: float, b: float, bounds: Bounds) -> tuple[float, float, float]:
    """Step of the EM algorithm, and the gain to first order."""
    growth = 0.0
    if at.slab_total > 0:
        growth = math.log(max(1 + at.d_scale / at.slab_total, 1e-6)) / bounds.em_power
    new = w if bounds.fixed_weight else min(max(at.slab_total / bounds.total, 0.0), 1.0)
    return new, b + growth, (new - w) * at.d_weight + growth * at.d_scale


def by_newton(reach: float) -> bool:
    """Tell whether steps are long enough for Newton's method."""
    return reach >= _SMALLEST_STEP


def judged(
    w: float, b: float, step: tuple[float, float, float], reach: float, bounds: Bounds
) -> tuple[int, float, float]:
    """Bring a step within the bounds, and say what to do: stay, move, or arrive without a look."""
    to_w, to_b, gain = step
    to_w = max(to_w, SMALLEST_SLAB / bounds.total)
    to_b = min(max(to_b, bounds.smallest), bounds.largest)
    rest = max(1 - w, 1 - to_w, 1e-300)  # near one the spike is what must be right
    length = max(abs(to_b - b), abs(to_w - w) / min(w, rest))
    near = length < _SHORT_STEP and gain * length**2 < _LEFT_OVER
    if near and reach == LARGEST_STEP:
        return ARRIVE, to_w, to_b
    moves = gain > _TOLERANCE and (to_w != w or to_b != b)
    return MOVE if moves else STAY, to_w, to_b


def is_no_fall(new: float, old: float) -> bool:
    """Tell whether a likelihood ratio is as large as before, but for rounding."""
    return new >= old - 1e-14 * abs(old)


def longer(reach: float) -> float:
    """Give the reach after a step that went well."""
    return min(4 * max(reach, _SMALLEST_STEP), LARGEST_STEP)


def shorter(reach: float, w: float, b: float, to_w: float, to_b: float) -> float:
    """Give the reach after a step that went down."""
    return 0.25 * min(reach, abs(to_b - b) + abs(math.log(to_w / w)))
