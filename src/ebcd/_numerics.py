"""Normal-distribution arithmetic that stays accurate where textbook formulas do not.

Everything is written for unit variance and works elementwise on broadcastable arrays. Two
functions carry the rest: the Mills ratio ``R(t) = Phi(-t) / phi(t)`` and the moments of a normal
variable restricted to an interval. Naive formulas overflow from ``|t|`` of about 38 and lose all
digits by cancellation in the tails; these do neither for ``|t|`` up to 1e8.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Array = NDArray[np.float64]

SQRT_HALF = math.sqrt(0.5)
SQRT_HALF_PI = math.sqrt(math.pi / 2)
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)

# Below this argument R(t) equals sqrt(2 pi) exp(t^2 / 2) to the last digit and soon overflows.
MILLS_LOWER = -36.0
# Beyond this argument differences of nearly equal numbers are replaced by their series.
_SERIES_FROM = 16.0
# Width of an interval below which, and distance beyond which, its moments lose digits: at these the
# variance has ten.
_SHORT, _FAR = 0.1, 5.0
# Entries that are worked on at once: what fits into a cache.
CHUNK = 16_384
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(32)


def mills(t: Array) -> Array:
    """Mills ratio ``Phi(-t) / phi(t)``, clipped at ``t = MILLS_LOWER`` to stay finite."""
    return np.asarray(
        SQRT_HALF_PI * special.erfcx(SQRT_HALF * np.maximum(t, MILLS_LOWER)), dtype=np.float64
    )


def mills_excess(t: Array) -> Array | None:
    """Logarithm of what `mills` clips away; None if that is nothing."""
    if t.min(initial=0.0) >= MILLS_LOWER:
        return None
    return np.where(t < MILLS_LOWER, 0.5 * (t * t - MILLS_LOWER**2), 0.0)


def log_mills(t: Array) -> Array:
    """Logarithm of the Mills ratio for any real ``t``."""
    excess = mills_excess(t)
    return np.log(mills(t)) + (0.0 if excess is None else excess)


def log_normal_density(z: Array) -> Array:
    """Log density of the standard normal distribution."""
    return -0.5 * (z * z) - LOG_SQRT_2PI


def half_line_moments(t: Array, mills_ratio: Array | None = None) -> tuple[Array, Array]:
    """Mean and variance of ``N(-t, 1)`` restricted to the positive half line.

    The Mills ratio of `t` may be given if it is known, clipped or not.
    """
    t = np.asarray(t, dtype=np.float64)
    # clipped, its inverse is so small beside t that it might as well be zero
    hazard = 1.0 / (mills(t) if mills_ratio is None else mills_ratio)
    mean = hazard - t
    variance = 1.0 - hazard * mean
    far = t > _SERIES_FROM
    if far.any():
        inverse = 1.0 / t[far]
        u = inverse * inverse
        # t mean = sum_k (-1)^k c_k / t^(2k); c_k counts indecomposable perfect matchings
        series = np.array([1, -2, 10, -74, 706, -8162, 110410, -1708394, 29752066])
        scaled_mean = np.polynomial.polynomial.polyval(u, series)
        # variance = 1 - t mean - mean^2, with the leading 1 canceled by hand
        deficit = np.polynomial.polynomial.polyval(u, -series[1:])
        mean, variance = np.asarray(mean), np.asarray(variance)
        mean[far] = scaled_mean * inverse
        variance[far] = u * (deficit - scaled_mean**2)
    return mean, variance


def half_line_survival(t: Array, c: Array) -> Array:
    """Probability that ``N(-t, 1)`` restricted to the positive half line exceeds ``c >= 0``."""
    c = np.maximum(c, 0.0)
    if not c.any():
        return np.ones(np.broadcast_shapes(t.shape, c.shape))
    # the squares in the logarithms cancel on either side, but not in the same form
    inside = special.log_ndtr(-(t + c)) - special.log_ndtr(np.maximum(-t, 0.0))
    far = np.maximum(t, 0.0)
    outside = log_mills(far + c) - log_mills(far) - c * (far + 0.5 * c)
    return np.exp(np.where(t < 0, inside, outside))


def half_line_sample(t: Array, rng: np.random.Generator) -> Array:
    """Draw from ``N(-t, 1)`` restricted to the positive half line."""
    exponential = rng.exponential(size=np.shape(t))
    far = t > 1e4  # the density is exponential there to within 1 / t^2
    near = np.where(far, 0.0, t)
    inverse = -special.ndtri_exp(special.log_ndtr(-near) - exponential) - near
    return np.where(far, exponential / np.where(far, t, 1.0), np.maximum(inverse, 0.0))


def log_interval_probability(lower: Array, upper: Array, width: Array | None = None) -> Array:
    """``log(Phi(upper) - Phi(lower))`` for finite ``lower <= upper``.

    Far from zero the bounds do not tell the `width` any more, so that it may be given. One end may
    be an array that is broadcast, if many intervals share it.
    """
    width = upper - lower if width is None else width
    # subtract small numbers: probabilities below on the left, above on the right, any about zero
    shared = min(lower, upper, key=np.size) if np.size(lower) != np.size(upper) else lower + upper
    side = np.where(shared < 0, 1.0, -1.0)
    mass = side * (special.ndtr(side * upper) - special.ndtr(side * lower))
    with np.errstate(divide="ignore"):  # an empty interval has probability zero
        result = np.asarray(np.log(mass))
    if np.max(lower, initial=0.0) > -MILLS_LOWER or np.min(upper, initial=0.0) < MILLS_LOWER:
        near = np.maximum(lower, -upper)
        remote = near > -MILLS_LOWER  # there probabilities underflow
        start, end, wide = (
            part[remote] for part in np.broadcast_arrays(near, np.maximum(-lower, upper), width)
        )
        mass = mills(start) - mills(end) * np.exp(-0.5 * wide * (start + end))
        with np.errstate(divide="ignore"):
            result[remote] = np.log(mass) + log_normal_density(start)
    if np.min(width, initial=1.0) < 1e-2:
        middle = 0.5 * np.abs(lower + upper)
        narrow = width * (1.0 + middle) < 1e-2  # both differences above would cancel
        thin, middle = (part[narrow] for part in np.broadcast_arrays(width, middle))
        with np.errstate(divide="ignore"):
            taylor = np.log(thin) + np.log1p((middle**2 - 1) * thin**2 / 24)
        result[narrow] = log_normal_density(middle) + taylor
    return result


def interval_moments(
    lower: ArrayLike,
    upper: ArrayLike,
    width: ArrayLike | None = None,
    log_probability: Array | None = None,
) -> tuple[Array, Array]:
    """Mean and variance of the standard normal restricted to ``[lower, upper]``.

    In closed form, and by quadrature in short intervals and far out, where that would cancel. The
    logarithm of the probability may be given if it is known.
    """
    lower, upper = (np.asarray(end, dtype=np.float64) for end in (lower, upper))
    width = upper - lower if width is None else np.asarray(width, dtype=np.float64)
    if log_probability is None:
        log_probability = log_interval_probability(lower, upper, width)
    cancels = (width < _SHORT) | (lower > _FAR) | (upper < -_FAR)
    known = np.where(cancels, 0.0, log_probability)
    # densities at the ends, over the probability
    first = np.exp(log_normal_density(lower) - known)
    last = np.exp(log_normal_density(upper) - known)
    mean = np.asarray(first - last)
    variance = np.asarray(1 + (lower * first - upper * last) - mean * mean)
    if cancels.any():
        low, high, wide = (part[cancels] for part in np.broadcast_arrays(lower, upper, width))
        near = np.maximum(low, -high)
        distance, variance[cancels] = _far_moments(near, wide)
        centre = near + distance
        mean[cancels] = np.where(low + high < 0, -centre, centre)
    return mean, variance


def _far_moments(near: Array, width: Array) -> tuple[Array, Array]:
    """Mean, as a distance from `near`, and variance, in intervals far out or short about zero."""
    mean, variance = half_line_moments(near)
    ends = width * (near + 0.5 * width) < 40  # or the density at the end is below all precision
    near, width = near[ends, None], width[ends, None]
    y = 0.5 * width * (1 + _NODES)
    density = np.exp(-y * (near + 0.5 * y)) * _NODE_WEIGHTS
    density /= density.sum(axis=-1, keepdims=True)
    inside = (density * y).sum(axis=-1)
    mean[ends] = inside
    variance[ends] = (density * (y - inside[:, None]) ** 2).sum(axis=-1)
    return mean, variance


def interval_sample(
    lower: Array, upper: Array, rng: np.random.Generator, width: Array | None = None
) -> Array:
    """Draw from the standard normal restricted to ``[lower, upper]``."""
    width = upper - lower if width is None else width
    lower, upper, width = np.broadcast_arrays(lower, upper, width)
    uniform = rng.random(size=lower.shape)
    flip = lower + upper < 0
    near, far = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    # far out, and in short intervals, exponential with rate `near` to within 1e-8
    remote = (near > 1e4) | (width < 1e-4)
    rate = np.where(remote, np.where(np.abs(near) > 1e-9, near, 1e-9), 1.0)
    exponential = -np.log1p(uniform * np.expm1(-rate * np.minimum(width, 1e3))) / rate
    inner = np.where(remote, 0.0, near)
    mass = log_interval_probability(inner, far)
    log_survival = np.logaddexp(special.log_ndtr(-far), np.log1p(-uniform) + mass)
    draw = np.where(remote, near + exponential, -special.ndtri_exp(np.minimum(log_survival, 0.0)))
    draw = np.clip(draw, near, far)
    return np.where(flip, -draw, draw)


def chunks(n: int, size: int = CHUNK) -> list[slice]:
    """Cut n entries into pieces of at most `size`."""
    return [slice(i, i + size) for i in range(0, n, size)]


def typical(s: Array) -> float:
    """Return about the geometric mean of noise, a unit in which nothing overflows.

    It is a power of two, so that nothing is rounded on the way there and back.
    """
    return float(np.exp2(np.rint(np.log2(s).mean()))) if s.size else 1.0


def rising_root(
    function: Callable[[Array, NDArray[np.intp]], Array], low: Array, high: Array
) -> Array:
    """Find where rising functions cross zero, each between its own bounds.

    `function` takes places and the numbers of the functions. One that does not cross zero ends at
    the nearer bound. Inverse quadratic interpolation where it can be trusted, halving where not
    (Chandrupatla, 1997, Advances in Engineering Software 28, 145-149).
    """
    rows = np.arange(low.size)
    root = np.empty_like(low)
    # `a` is the newest place, `b` lies across the root from it, `c` is the place before
    a, b, c = low.copy(), high.copy(), low.copy()
    fa, fb = function(a, rows), function(b, rows)
    fc, step = fa.copy(), np.full_like(low, 0.5)
    while rows.size:
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        room = 1e-12 * (1 + np.abs(best)) / np.maximum(np.abs(b - a), 1e-300)
        done = ~((room <= 0.5) & (np.sign(fa) * np.sign(fb) < 0))
        root[rows[done]] = best[done]
        rows = rows[~done]
        a, b, c, fa, fb, fc, step, room = (
            values[~done] for values in (a, b, c, fa, fb, fc, step, room)
        )
        place = a + np.clip(step, room, 1 - room) * (b - a)
        value = function(place, rows)
        same = np.sign(value) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = place, value
        with np.errstate(divide="ignore", invalid="ignore"):
            t, u = (a - b) / (c - b), (fa - fb) / (fc - fb)
            step = fa / (fb - fa) * fc / (fb - fc)
            step += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        trusted = (u**2 < t) & ((1 - u) ** 2 < 1 - t) & np.isfinite(step)
        step = np.where(trusted, step, 0.5)
    return root
