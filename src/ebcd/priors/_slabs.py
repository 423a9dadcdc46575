"""Slab marginals relative to the spike, with derivatives in the log scale.

All in units of the noise: ``z = x / s``, ``rate = s / scale``. Written for speed: special functions
are evaluated once and every other quantity follows from them algebraically.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy import special

from ebcd import _numerics as num
from ebcd._numerics import Array
from ebcd.priors._columns import STRONG, Columns

_LARGEST_EXPONENT = 600.0
_NARROW = 30.0  # noise over the scale of a slab


class Slab(NamedTuple):
    """Slab against spike, entry by entry.

    ``odds * exp(excess)`` is the ratio of the marginals; `excess` is None where nothing is so
    strong that the ratio would overflow. `first` and `second` are derivatives of its logarithm in
    the log scale. `inner` is what `AbstractSlabKind.moments` needs.
    """

    odds: Array
    excess: Array | None
    first: Array
    second: Array
    inner: tuple[Array, ...]


class AbstractSlabKind(ABC):
    """One shape of slab, centred at the spike."""

    em_power: float  # EM multiplies scale ** em_power by the mean of a sufficient statistic

    @abstractmethod
    def terms(self, columns: Columns, rate: Array) -> Slab:
        """Ratio of the marginals and its derivatives."""

    @abstractmethod
    def moments(
        self, columns: Columns, rate: Array, inner: tuple[Array, ...]
    ) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise."""

    def fall(self, columns: Columns, rate: Array, excess: Array | None) -> Array:
        """``excess - z^2 / 2``, in which strong entries would lose digits."""
        fall = -0.5 * columns.z * columns.z
        return fall if excess is None else np.where(excess > 0, self._far(columns, rate), fall)

    @abstractmethod
    def _far(self, columns: Columns, rate: Array) -> Array:
        """``excess - z^2 / 2`` where there is an excess."""

    def log_odds(self, columns: Columns, rate: Array) -> Array:
        """Log ratio of the marginals."""
        slab = self.terms(columns, rate)
        log_odds = np.log(slab.odds)
        return log_odds if slab.excess is None else log_odds + slab.excess


def _clipped(gap: Array) -> tuple[Array, Array | None]:
    """Clip arguments of the Mills ratio; return the logarithm of what that takes away."""
    if gap.min() >= num.MILLS_LOWER:
        return gap, None
    return (
        np.maximum(gap, num.MILLS_LOWER),
        np.where(gap < num.MILLS_LOWER, 0.5 * (gap * gap - num.MILLS_LOWER**2), 0.0),
    )


class LaplaceSlab(AbstractSlabKind):
    """Laplace slab.

    With Mills ratios ``R1, R2`` of ``rate - |z|`` and ``rate + |z|`` the ratio of the marginals
    is ``rate (R1 + R2) / 2``. All posterior moments follow from ``c = 2 / (R1 + R2)`` and
    ``lean = (R1 - R2) / (R1 + R2)``, the excess probability of the side of ``z``:
    ``E|t| = c - rate + |z| lean``, ``E t = |z| - rate lean`` (towards z),
    ``E t^2 = 1 + rate^2 + z^2 - rate c - 2 rate |z| lean``.
    """

    em_power = 1.0

    def terms(self, columns: Columns, rate: Array) -> Slab:
        """Ratio of the marginals and its derivatives."""
        size = columns.size
        odds, lean, excess = self._sides(columns, rate)
        if rate.max() > _NARROW:
            distance, square, _ = self._halves(columns, rate, lean)
            first = rate * distance
            second = rate * rate * (square - distance**2) - first
            return Slab(odds, excess, first - 1, second, (lean, lean))
        c = rate / odds
        u = size * lean
        u += c
        second = size - u  # (size - u) (size + u) + rate c + 1 = var |t|
        second *= size + u
        c *= rate
        second += c
        second += 1
        second *= rate * rate
        u -= rate
        u *= rate  # E|t| / scale
        second -= u
        u -= 1
        return Slab(odds, excess, u, second, (lean, c))

    @staticmethod
    def _sides(columns: Columns, rate: Array) -> tuple[Array, Array, Array | None]:
        """Ratio of the marginals, ``lean``, and the logarithm of what clipping took away."""
        if min(columns.largest, STRONG) + rate.max() > -num.MILLS_LOWER:
            return LaplaceSlab._strong_sides(columns.size, rate)
        # the normal cdf is thrice as fast, and exp(z^2 / 2) is the same in every evaluation
        size = columns.weak_size
        tilt = np.exp(rate * size)
        near = special.ndtr(size - rate)
        far = special.ndtr(-(size + rate))
        far *= tilt
        far *= tilt
        lean = near - far
        near += far
        lean /= near
        near *= columns.inverse_density
        near /= tilt
        near *= num.SQRT_HALF_PI * rate * np.exp(0.5 * rate * rate)
        if columns.largest <= STRONG:
            return near, lean, None
        sizes, rates = (np.broadcast_to(v, near.shape) for v in (columns.size, rate))
        at, excess = np.nonzero(sizes > STRONG), np.zeros_like(near)
        near[at], lean[at], more = LaplaceSlab._strong_sides(sizes[at], rates[at])
        excess[at] = 0.0 if more is None else more
        return near, lean, excess

    @staticmethod
    def _halves(columns: Columns, rate: Array, lean: Array) -> tuple[Array, Array, Array]:
        """Give ``E|t|``, ``E t^2`` and ``E t`` towards z, from either side of zero.

        Slower than the formulas above, which cancel if the slab is narrow.
        """
        near, far = (num.half_line_moments(rate + side * columns.size) for side in (-1.0, 1.0))
        share = 0.5 * (1 + lean), 0.5 * (1 - lean)
        parts = [p * m for p, (m, _) in zip(share, (near, far), strict=True)]
        square = sum(p * (v + m * m) for p, (m, v) in zip(share, (near, far), strict=True))
        return parts[0] + parts[1], np.asarray(square), parts[0] - parts[1]

    @staticmethod
    def _strong_sides(size: Array, rate: Array) -> tuple[Array, Array, Array | None]:
        gap, excess = _clipped(rate - size)
        near = special.erfcx(num.SQRT_HALF * gap)
        far = special.erfcx(num.SQRT_HALF * (rate + size))
        lean = (near - far) / (near + far)
        return (0.5 * num.SQRT_HALF_PI) * rate * (near + far), lean, excess

    def moments(
        self, columns: Columns, rate: Array, inner: tuple[Array, ...]
    ) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise."""
        lean, scaled_c = inner
        if rate.max() > _NARROW:
            _, square, mean = self._halves(columns, rate, lean)
            return np.copysign(mean, columns.z), square - mean**2
        mean = columns.z - np.copysign(rate * lean, columns.z)
        variance = (1 - lean) * (1 + lean)
        variance *= rate * rate
        variance -= scaled_c
        variance += 1
        return mean, variance

    def _far(self, columns: Columns, rate: Array) -> Array:
        """``((rate - |z|)^2 - MILLS_LOWER^2 - z^2) / 2``."""
        return np.asarray(rate * (0.5 * rate - columns.size) - 0.5 * num.MILLS_LOWER**2)


class ExponentialSlab(AbstractSlabKind):
    """Exponential slab on the positive side: the posterior is ``N(z - rate, 1)`` above zero."""

    em_power = 1.0

    def terms(self, columns: Columns, rate: Array) -> Slab:
        """Ratio of the marginals and its derivatives."""
        gap = rate - columns.z
        clipped, excess = _clipped(gap)
        mills = num.SQRT_HALF_PI * special.erfcx(num.SQRT_HALF * clipped)
        hazard = 1 / mills
        if gap.max() < 50.0:
            mean = hazard - gap
            variance = 1 - hazard * mean
        else:
            mean, variance = num.half_line_moments(gap)
        scaled = rate * mean
        second = rate * rate * variance - scaled
        return Slab(rate * mills, excess, scaled - 1, second, (mean, variance))

    def moments(
        self, columns: Columns, rate: Array, inner: tuple[Array, ...]
    ) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise."""
        mean, variance = inner
        return mean, variance

    def _far(self, columns: Columns, rate: Array) -> Array:
        """``((rate - |z|)^2 - MILLS_LOWER^2 - z^2) / 2``."""
        return np.asarray(rate * (0.5 * rate - columns.size) - 0.5 * num.MILLS_LOWER**2)


class NormalSlab(AbstractSlabKind):
    """Normal slab, which has the share ``1 / (1 + rate^2)`` of the variance of ``z``."""

    em_power = 2.0

    def terms(self, columns: Columns, rate: Array) -> Slab:
        """Ratio of the marginals and its derivatives."""
        square = columns.z * columns.z
        share = 1 / (1 + rate * rate)
        rest = rate * rate * share
        exponent = (0.5 * share) * square
        excess = None
        if exponent.max() > _LARGEST_EXPONENT:
            excess = np.maximum(exponent - _LARGEST_EXPONENT, 0.0)
            exponent = exponent - excess
        odds = np.exp(exponent) * np.sqrt(rest)
        first = share * (rest * square - 1)
        second = (2 * share * rest) * ((rest - share) * square - 1)
        return Slab(odds, excess, first, second, (share,))

    def moments(
        self, columns: Columns, rate: Array, inner: tuple[Array, ...]
    ) -> tuple[Array, Array]:
        """Posterior mean and variance under the slab, in units of the noise."""
        (share,) = inner
        return share * columns.z, share

    def _far(self, columns: Columns, rate: Array) -> Array:
        """``(share - 1) z^2 / 2``, less what was left in the exponent."""
        rest = rate * rate / (1 + rate * rate)
        return np.asarray(-0.5 * rest * columns.z * columns.z - _LARGEST_EXPONENT)
