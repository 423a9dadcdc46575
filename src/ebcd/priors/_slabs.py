"""Slab marginals relative to the spike, with derivatives in the log scale.

All in units of the noise: ``z = x / s``, ``rate = s / scale``. Written for speed: special functions
are evaluated once and every other quantity follows from them algebraically.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from ebcd import _numerics as num
from ebcd._numerics import Array
from ebcd.priors._columns import STRONG, Columns

LARGEST_EXPONENT = 600.0
_NARROW = 10.0  # noise over the scale of a slab from which squares of it would cancel
_FAR = 50.0  # argument of the Mills ratio from which its series is needed


class Noise(NamedTuple):
    """Noise over the scale of the slab: one row per column, and the largest of all."""

    rate: Array
    largest: float


def relative_noise(columns: Columns, log_scales: Sequence[float]) -> Noise:
    """Noise over the scale of the slab of every column."""
    rate = np.array([math.exp(-b) for b in log_scales])[:, None]
    largest = columns.largest_s * math.exp(-min(log_scales))
    return Noise(rate if columns.unit_noise else columns.s * rate, largest)


class Ratio(NamedTuple):
    """Slab against spike, entry by entry.

    ``odds * exp(excess)`` is the ratio of the marginals; `excess` is None where nothing is so
    strong that the ratio would overflow. `inner` is what derivatives and moments need besides.
    """

    odds: Array
    excess: Array | None
    inner: Array


class AbstractSlabKind(ABC):
    """One shape of slab, centred at the spike."""

    name: str
    em_power: float  # EM multiplies scale ** em_power by the mean of a sufficient statistic
    second_moment: float  # of the slab with scale one, about the spike
    fourth_moment: float
    symmetric: bool = True

    @abstractmethod
    def ratio(self, columns: Columns, noise: Noise) -> Ratio:
        """Ratio of the marginals."""

    @abstractmethod
    def derivatives(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """First and second derivative of the logarithm of the ratio in the log scale."""

    def needs_care(self, columns: Columns, largest: float) -> bool:
        """Tell whether plain formulas would cancel, `largest` being that of the noise."""
        return False

    def fall(self, columns: Columns, noise: Noise, excess: Array | None) -> Array:
        """``excess - z^2 / 2``, in which strong entries would lose digits."""
        fall = -0.5 * columns.z * columns.z
        return fall if excess is None else np.where(excess > 0, self._far(columns, noise), fall)

    @abstractmethod
    def _far(self, columns: Columns, noise: Noise) -> Array:
        """``excess - z^2 / 2`` where there is an excess."""

    @abstractmethod
    def moments(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise; new arrays."""

    @abstractmethod
    def mean_slope(self, columns: Columns, noise: Noise, ratio: Ratio, variance: Array) -> Array:
        """Return the derivative of the posterior mean under the slab in the log scale."""

    @abstractmethod
    def rarer_sign(self, columns: Columns, noise: Noise, ratio: Ratio) -> Array:
        """Posterior probability under the slab of the sign that is less likely."""


def _clipped(gap: Array) -> tuple[Array, Array | None]:
    """Clip arguments of the Mills ratio; return the logarithm of what that takes away."""
    if gap.min() >= num.MILLS_LOWER:
        return gap, None
    return (
        np.maximum(gap, num.MILLS_LOWER),
        np.where(gap < num.MILLS_LOWER, 0.5 * (gap * gap - num.MILLS_LOWER**2), 0.0),
    )


def _mills_fall(columns: Columns, noise: Noise) -> Array:
    """``((rate - |z|)^2 - MILLS_LOWER^2 - z^2) / 2``."""
    fall = noise.rate * (0.5 * noise.rate - columns.size)
    return np.asarray(fall - 0.5 * num.MILLS_LOWER**2)


class LaplaceSlab(AbstractSlabKind):
    """Laplace slab.

    With Mills ratios ``R1, R2`` of ``rate - |z|`` and ``rate + |z|`` the ratio of the marginals
    is ``rate (R1 + R2) / 2``. All posterior moments follow from ``c = 2 / (R1 + R2)`` and
    ``lean = (R1 - R2) / (R1 + R2)``, the excess probability of the side of ``z``:
    ``E|t| = c - rate + |z| lean``, ``E t = |z| - rate lean`` (towards z),
    ``E t^2 = 1 + rate^2 + z^2 - rate c - 2 rate |z| lean``.
    """

    name = "laplace"
    em_power = 1.0
    second_moment, fourth_moment = 2.0, 24.0

    def ratio(self, columns: Columns, noise: Noise) -> Ratio:
        """Ratio of the marginals."""
        rate, strongest = noise.rate, columns.largest
        if not self._is_fast(columns, noise):
            return self._strong(columns.size, rate)
        # the normal cdf is thrice as fast, and exp(z^2 / 2) is the same in every evaluation
        size = columns.weak_size
        tilt = rate * size
        np.exp(tilt, out=tilt)
        near = size - rate
        special.ndtr(near, out=near)
        far = columns.minus_weak_size - rate
        special.ndtr(far, out=far)
        far *= tilt
        far *= tilt
        lean = near - far
        near += far
        lean /= near
        near *= columns.inverse_density
        near /= tilt
        near *= num.SQRT_HALF_PI * rate * np.exp(0.5 * rate * rate)
        if strongest <= STRONG:
            return Ratio(near, None, lean)
        # beyond STRONG the far side is nothing: only the exponent (rate - |z|)^2 / 2 grows
        over, middle = columns.beyond
        return Ratio(near, over * (middle - rate), lean)

    @staticmethod
    def _is_fast(columns: Columns, noise: Noise) -> bool:
        """Tell whether normal probabilities serve, which would vanish far out."""
        return min(columns.largest, STRONG) + noise.largest <= -num.MILLS_LOWER

    def needs_care(self, columns: Columns, largest: float) -> bool:
        """Tell whether plain formulas would cancel: if the slab is narrow."""
        return largest > _NARROW

    def derivatives(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """First and second derivative of the logarithm of the ratio in the log scale."""
        (odds, _, lean), (rate, largest) = ratio, noise
        if self.needs_care(columns, largest):
            (distance, spread), _ = self._halves(columns, rate, lean)
            first = rate * distance
            return first - 1, rate * rate * spread - first
        squared = rate * rate
        tilt = rate * columns.size
        scaled_c = squared / odds
        moved = tilt * lean  # rate (E|t| + rate), less rate c
        moved += scaled_c
        # rate^2 var |t| - rate E|t|, in which the squares are a difference that may cancel
        second = tilt - moved
        tilt += moved
        second *= tilt
        scaled_c *= squared
        second += scaled_c
        second -= moved
        second += 2 * squared
        moved -= squared + 1
        return moved, second

    @staticmethod
    def _halves(
        columns: Columns, rate: Array, lean: Array
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Give mean and variance of ``|t|``, and of ``t`` towards z, from either side of zero.

        Slower than the formulas above, which cancel if the slab is narrow.
        """
        near, far = (num.half_line_moments(rate + side * columns.size) for side in (-1.0, 1.0))
        share, rest = 0.5 * (1 + lean), 0.5 * (1 - lean)
        within = share * near[1] + rest * far[1]
        mixed = share * rest
        distance = share * near[0] + rest * far[0], within + mixed * (near[0] - far[0]) ** 2
        towards = share * near[0] - rest * far[0], within + mixed * (near[0] + far[0]) ** 2
        return distance, towards

    @staticmethod
    def _strong(size: Array, rate: Array) -> Ratio:
        gap, excess = _clipped(rate - size)
        near = special.erfcx(num.SQRT_HALF * gap)
        far = special.erfcx(num.SQRT_HALF * (rate + size))
        lean = (near - far) / (near + far)
        return Ratio((0.5 * num.SQRT_HALF_PI) * rate * (near + far), excess, lean)

    def moments(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise."""
        (odds, _, lean), (rate, largest) = ratio, noise
        if self.needs_care(columns, largest):
            _, (mean, variance) = self._halves(columns, rate, lean)
            return np.copysign(mean, columns.z), variance
        mean = rate * lean
        np.subtract(columns.size, mean, out=mean)
        np.copysign(mean, columns.z, out=mean)
        variance = 1 - lean
        variance *= 1 + lean
        variance -= 1 / odds
        variance *= rate * rate
        variance += 1
        return mean, variance

    def mean_slope(self, columns: Columns, noise: Noise, ratio: Ratio, variance: Array) -> Array:
        """Return the derivative of the mean in the log scale, ``rate cov(t, |t|)`` towards z."""
        (odds, _, lean), rate = ratio, noise.rate
        slope = rate * lean / odds
        slope -= columns.size * (1 - lean) * (1 + lean)
        slope *= rate
        slope += lean
        slope *= rate
        return np.copysign(slope, columns.z)

    def rarer_sign(self, columns: Columns, noise: Noise, ratio: Ratio) -> Array:
        """Posterior probability under the slab of the sign that is less likely."""
        far = noise.rate + columns.size
        far *= num.SQRT_HALF
        special.erfcx(far, out=far)  # not (1 - lean) / 2, which cancels
        far *= (0.5 * num.SQRT_HALF_PI) * noise.rate
        far /= ratio.odds
        return far if ratio.excess is None else far * np.exp(-ratio.excess)

    def _far(self, columns: Columns, noise: Noise) -> Array:
        """``excess - z^2 / 2`` where there is an excess, as `ratio` has it."""
        if self._is_fast(columns, noise):
            return np.asarray(noise.rate * (STRONG - columns.size) - 0.5 * STRONG**2)
        return _mills_fall(columns, noise)


class ExponentialSlab(AbstractSlabKind):
    """Exponential slab on the positive side: the posterior is ``N(z - rate, 1)`` above zero."""

    name = "exponential"
    em_power = 1.0
    second_moment, fourth_moment = 2.0, 24.0
    symmetric = False

    def ratio(self, columns: Columns, noise: Noise) -> Ratio:
        """Ratio of the marginals."""
        rate = noise.rate
        gap, excess = _clipped(rate - columns.z)
        mills = special.erfcx(num.SQRT_HALF * gap)
        mills *= num.SQRT_HALF_PI
        return Ratio(rate * mills, excess, mills)

    def needs_care(self, columns: Columns, largest: float) -> bool:
        """Tell whether plain formulas would cancel: if there are arguments far out."""
        return largest - columns.smallest_z >= _FAR

    def derivatives(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """First and second derivative of the logarithm of the ratio in the log scale."""
        rate = noise.rate
        mean, variance = self.moments(columns, noise, ratio)
        mean *= rate
        variance *= rate * rate
        variance -= mean
        mean -= 1
        return mean, variance

    def moments(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise."""
        gap = noise.rate - columns.z
        if self.needs_care(columns, noise.largest):
            return num.half_line_moments(gap)
        hazard = 1 / ratio.inner
        mean = hazard - gap
        hazard *= mean
        return mean, np.subtract(1, hazard, out=hazard)

    def mean_slope(self, columns: Columns, noise: Noise, ratio: Ratio, variance: Array) -> Array:
        """Return the derivative of the mean in the log scale."""
        return np.asarray(noise.rate * variance)

    def rarer_sign(self, columns: Columns, noise: Noise, ratio: Ratio) -> Array:
        """Posterior probability under the slab of the sign that is less likely: none has it."""
        return np.zeros_like(ratio.odds)

    def _far(self, columns: Columns, noise: Noise) -> Array:
        """``excess - z^2 / 2`` where there is an excess."""
        return _mills_fall(columns, noise)


class NormalSlab(AbstractSlabKind):
    """Normal slab, which has the share ``1 / (1 + rate^2)`` of the variance of ``z``."""

    name = "normal"
    em_power = 2.0
    second_moment, fourth_moment = 1.0, 3.0

    def ratio(self, columns: Columns, noise: Noise) -> Ratio:
        """Ratio of the marginals."""
        rate = noise.rate
        share = 1 / (1 + rate * rate)
        exponent = (0.5 * share) * columns.square
        excess = None
        if exponent.max() > LARGEST_EXPONENT:
            clipped = np.minimum(exponent, LARGEST_EXPONENT)
            exponent, excess = clipped, exponent - clipped
        odds = np.exp(exponent, out=exponent)
        odds *= rate * np.sqrt(share)
        return Ratio(odds, excess, share)

    def derivatives(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """First and second derivative of the logarithm of the ratio in the log scale."""
        square, share = columns.square, ratio.inner
        rest = noise.rate * noise.rate * share
        first = (share * rest) * square
        first -= share
        second = (2 * share * rest * (rest - share)) * square
        second -= 2 * share * rest
        return first, second

    def moments(self, columns: Columns, noise: Noise, ratio: Ratio) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise."""
        mean = ratio.inner * columns.z
        return mean, np.broadcast_to(ratio.inner, mean.shape).copy()

    def mean_slope(self, columns: Columns, noise: Noise, ratio: Ratio, variance: Array) -> Array:
        """Return the derivative of the mean in the log scale."""
        return np.asarray(2 * (noise.rate * ratio.inner) ** 2 * columns.z)

    def rarer_sign(self, columns: Columns, noise: Noise, ratio: Ratio) -> Array:
        """Posterior probability under the slab of the sign that is less likely."""
        return np.asarray(special.ndtr(-np.sqrt(ratio.inner) * columns.size))

    def _far(self, columns: Columns, noise: Noise) -> Array:
        """``(share - 1) z^2 / 2``, less what was left in the exponent."""
        rest = noise.rate**2 / (1 + noise.rate**2)
        return np.asarray(-0.5 * rest * columns.z * columns.z - LARGEST_EXPONENT)
