"""Distributions whose convolution with normal noise has a closed form.

Every proper prior of the package is a mixture of these. A kernel object holds *several* components
of one kind as parameter arrays; its methods broadcast ``x`` and ``s`` against those arrays, so that
parameters of shape k x 1 give one row per component, and ``kernel.take(index)`` one component per
entry.

The mathematics is done in units of the noise: ``z = (x - location) / s`` and ``scale / s``. The
three kernels that serve as slabs have it in two functions, `ratio` and `details`, which evaluate
special functions once and take everything else from them by algebra: fits spend their time there.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy import special

from ebcd import _numerics as num
from ebcd._numerics import Array

# Noise over the size of a kernel at which its posterior is the prior to the last digit.
OVERWHELMING = 10 / math.sqrt(np.finfo(float).eps)
# |z| up to which exp(z^2 / 2) stays in range, and beyond which the far side is nothing.
_STRONG = -num.MILLS_LOWER
LARGEST_EXPONENT = 0.5 * _STRONG**2
# Noise over the scale of a Laplace kernel from which its short formulas would overflow; soon after
# they would cancel, too.
_NARROW = 0.5 * math.log(np.finfo(float).max) / _STRONG


@dataclass(frozen=True, eq=False)
class AbstractKernel(ABC):
    """Components of one kind. Parameters are arrays of one shape, in the units of ``x``."""

    location: Array

    @abstractmethod
    def log_marginal(self, x: Array, s: Array) -> Array:
        """Log density of ``x = theta + noise``."""

    def log_excess(self, x: Array, end: float) -> Array:
        """Log marginal of unit noise, less the log density of ``N(end, 1)`` at `x`.

        Kernels whose support ends at `end` say this without cancellation when `x` is far beyond.
        """
        return self.log_marginal(x, np.ones(())) - num.log_normal_density(x - end)

    @abstractmethod
    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior mean and variance of ``theta``."""

    def evaluate(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        """Log marginal, posterior mean and variance, where that is cheaper than one by one."""
        return self.log_marginal(x, s), *self.moments(x, s)

    @abstractmethod
    def tails(self, x: Array, s: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
        """Posterior probabilities of ``theta <= at`` and of ``theta >= at``."""

    @abstractmethod
    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        """One posterior draw of ``theta``; all arguments and parameters have one shape."""

    def hull(self) -> tuple[float, float]:
        """Smallest interval that holds the support of every component."""
        return -np.inf, np.inf

    @abstractmethod
    def labels(self) -> list[str]:
        """Describe each component in words."""

    @property
    def size(self) -> int:
        """Number of components."""
        return int(np.size(self.location))

    @property
    def sizes(self) -> Array:
        """Largest absolute value of the parameters of each component."""
        return np.asarray(np.max([np.abs(getattr(self, f.name)) for f in fields(self)], axis=0))

    def take(self, index: Any) -> Self:
        """Pick components by number, or arrange them in another shape."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def scaled(self, factor: float) -> Self:
        """Return the distributions of ``factor * theta``."""
        return replace(self, **{f.name: getattr(self, f.name) * factor for f in fields(self)})


class Ratio(NamedTuple):
    """Marginal of a slab over that of a spike, entry by entry.

    ``odds * exp(excess)`` is the ratio; `excess` is None where nothing is so strong that the ratio
    would overflow. `inner` is what `details` needs besides.
    """

    odds: Array
    excess: Array | None
    inner: Array


class Details(NamedTuple):
    """Posterior mean and variance under a slab, in units of the noise.

    With them the derivatives of the log ratio in the log scale. All are new arrays.
    """

    mean: Array
    variance: Array
    first: Array
    second: Array


@dataclass(frozen=True, eq=False)
class AbstractSlab(AbstractKernel):
    """A kernel with one scale, which may be fitted beside a spike at its location.

    `ratio` and `details` take ``z``, and ``rate``, the noise over the scale; they broadcast.
    """

    scale: Array

    # of the slab with scale one, about its location
    second_moment: ClassVar[float]
    fourth_moment: ClassVar[float]
    width: ClassVar[float] = 1.0

    @staticmethod
    @abstractmethod
    def ratio(z: Array, rate: Array) -> Ratio:
        """Ratio of the marginals of slab and spike."""

    @staticmethod
    @abstractmethod
    def details(z: Array, rate: Array, ratio: Ratio) -> Details:
        """Posterior moments and derivatives, given the `ratio`."""

    @staticmethod
    @abstractmethod
    def mean_slope(z: Array, rate: Array, ratio: Ratio, details: Details) -> Array:
        """Differentiate the posterior mean under the slab by the log scale; a new array."""


class AbstractHalfLine(AbstractKernel):
    """A kernel on one side of its location, with a truncated normal posterior."""

    @abstractmethod
    def half_line(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        """Direction, unit and ``t``: away from `location` the posterior is ``N(-t, 1)`` above 0."""

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        sign, unit, t = self.half_line(x, s)
        mean, variance = num.half_line_moments(t)
        return self.location + sign * unit * mean, unit * unit * variance

    def tails(self, x: Array, s: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
        sign, unit, t = self.half_line(x, s)
        distance = sign * ((at - self.location) / unit)
        beyond = num.half_line_survival(t, distance)
        within = np.where(distance <= 0, 0.0, 1.0 - beyond)
        return np.where(sign > 0, within, beyond), np.where(sign > 0, beyond, within)

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        sign, unit, t = self.half_line(x, s)
        return self.location + sign * unit * num.half_line_sample(t, rng)

    def hull(self) -> tuple[float, float]:
        sign = self.half_line(self.location, np.ones(()))[0]
        lower = -np.inf if (sign < 0).any() else float(self.location.min())
        return lower, np.inf if (sign > 0).any() else float(self.location.max())


def _from(location: float) -> str:
    return f"{location:.4g} + " if location else ""


def _log_marginal(ratio: Ratio, z: Array, rate: Array) -> Array:
    """Log marginal of an exponential slab from a `ratio` whose Mills ratios were clipped."""
    fall = -0.5 * z * z
    if ratio.excess is not None:  # there squares would cancel
        far = rate * (0.5 * rate - z) - 0.5 * num.MILLS_LOWER**2
        fall = np.where(ratio.excess > 0, far, fall)
    return np.log(ratio.odds) + fall - num.LOG_SQRT_2PI


@dataclass(frozen=True, eq=False)
class PointMass(AbstractKernel):
    """All mass at ``location``."""

    def log_marginal(self, x: Array, s: Array) -> Array:
        return num.log_normal_density((x - self.location) / s) - np.log(s)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        mean = np.broadcast_to(self.location, np.broadcast_shapes(x.shape, self.location.shape))
        return mean, np.zeros_like(mean)

    def tails(self, x: Array, s: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
        place = self.moments(x, s)[0]
        return (place <= at).astype(np.float64), (place >= at).astype(np.float64)

    def log_excess(self, x: Array, end: float) -> Array:
        return (self.location - end) * (x - 0.5 * (self.location + end))

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        return self.moments(x, s)[0]

    def hull(self) -> tuple[float, float]:
        return float(self.location.min()), float(self.location.max())

    def labels(self) -> list[str]:
        return [f"exactly {at:.4g}" for at in self.location]


@dataclass(frozen=True, eq=False)
class Normal(AbstractSlab):
    """``N(location, scale^2)``: has the share ``1 / (1 + rate^2)`` of the variance of ``z``."""

    second_moment: ClassVar[float] = 1.0
    fourth_moment: ClassVar[float] = 3.0

    @staticmethod
    def ratio(z: Array, rate: Array) -> Ratio:
        share = 1 / (1 + rate * rate)
        exponent = 0.5 * share * (z * z)
        excess = None
        if exponent.max(initial=0.0) > LARGEST_EXPONENT:
            clipped = np.minimum(exponent, LARGEST_EXPONENT)
            exponent, excess = clipped, exponent - clipped
        odds = np.exp(exponent, out=exponent)
        odds *= rate * np.sqrt(share)
        return Ratio(odds, excess, share)

    @staticmethod
    def details(z: Array, rate: Array, ratio: Ratio) -> Details:
        share = ratio.inner
        rest = rate * rate * share
        mean = share * z
        square = (rest / share) * mean * mean
        second = (2 * (rest - share)) * square - 2 * share * rest
        return Details(mean, share + np.zeros_like(mean), square - share, second)

    @staticmethod
    def mean_slope(z: Array, rate: Array, ratio: Ratio, details: Details) -> Array:
        return np.asarray(2 * (rate * ratio.inner) ** 2 * z)

    def log_marginal(self, x: Array, s: Array) -> Array:
        total = np.hypot(1.0, self.scale / s)  # no square that could overflow
        z = (x - self.location) / s
        return num.log_normal_density(z / total) - np.log(total) - np.log(s)

    def posterior(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior mean and standard deviation."""
        ratio = self.scale / s
        root = ratio / np.hypot(1.0, ratio)
        z = (x - self.location) / s
        return self.location + s * (root * root) * z, s * root * np.ones_like(z)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        mean, sd = self.posterior(x, s)
        return mean, sd * sd

    def tails(self, x: Array, s: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
        mean, sd = self.posterior(x, s)
        beyond = (mean - at) / sd
        return special.ndtr(-beyond), special.ndtr(beyond)

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        mean, sd = self.posterior(x, s)
        return mean + sd * rng.standard_normal(mean.shape)

    def labels(self) -> list[str]:
        return [f"N({m:.4g}, {b:.4g}^2)" for m, b in zip(self.location, self.scale, strict=True)]


@dataclass(frozen=True, eq=False)
class Flat(Normal):
    """Uniform on the real line: improper, with the marginal density one by definition."""

    def log_marginal(self, x: Array, s: Array) -> Array:
        return np.zeros(np.broadcast_shapes(x.shape, self.location.shape))

    def posterior(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior mean and standard deviation: the observation and its noise."""
        mean = x + np.zeros_like(self.location)
        return mean, s + np.zeros_like(mean)

    def labels(self) -> list[str]:
        return ["any value"] * self.size


@dataclass(frozen=True, eq=False)
class Exponential(AbstractHalfLine, AbstractSlab):
    """``location`` plus an exponential variable of mean ``|scale|``, downward if negative.

    With ``t = rate - z`` along the direction the posterior is ``N(-t, 1)`` above zero.
    """

    second_moment: ClassVar[float] = 2.0
    fourth_moment: ClassVar[float] = 24.0

    @staticmethod
    def ratio(z: Array, rate: Array) -> Ratio:
        gap = rate - z
        mills = num.mills(gap)
        return Ratio(rate * mills, num.mills_excess(gap), mills)

    @staticmethod
    def details(z: Array, rate: Array, ratio: Ratio) -> Details:
        mean, variance = num.half_line_moments(rate - z, ratio.inner)
        first = rate * mean
        return Details(mean, variance, first - 1, rate * rate * variance - first)

    @staticmethod
    def mean_slope(z: Array, rate: Array, ratio: Ratio, details: Details) -> Array:
        return np.asarray(rate * details.variance)

    def standard(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        """Direction, ``z`` along it, and rate."""
        sign = np.sign(self.scale)
        return sign, sign * (x - self.location) / s, s / np.abs(self.scale)

    def log_marginal(self, x: Array, s: Array) -> Array:
        _, z, rate = self.standard(x, s)
        return _log_marginal(self.ratio(z, rate), z, rate) - np.log(s)

    def half_line(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        sign, z, rate = self.standard(x, s)
        return sign, s, rate - z

    def log_excess(self, x: Array, end: float) -> Array:
        _, z, rate = self.standard(x, np.ones(()))
        shift = (self.location - end) * (x - 0.5 * (self.location + end))
        return np.log(rate) + num.log_mills(rate - z) + shift

    def labels(self) -> list[str]:
        return [
            f"{_from(m)}{'-' if b < 0 else ''}Exponential(mean {abs(b):.4g})"
            for m, b in zip(self.location, self.scale, strict=True)
        ]


def _half_lines(z: Array, rate: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Mean and variance of ``|t|`` above zero, and below."""
    return num.half_line_moments(rate - z), num.half_line_moments(rate + z)


@dataclass(frozen=True, eq=False)
class Laplace(AbstractSlab):
    """Laplace distribution: an even mixture of an upward and a downward exponential.

    With Mills ratios ``R1, R2`` of ``rate - z`` and ``rate + z`` the ratio of the marginals is
    ``rate (R1 + R2) / 2``. All posterior moments follow from ``c = 2 / (R1 + R2)`` and
    ``lean = (R1 - R2) / (R1 + R2)``, the excess probability of positive values:

        E t = z - rate lean,    var t = 1 + rate^2 (1 - lean^2) - rate c,
        E|t| = c - rate + z lean,    cov(t, |t|) = lean (2 - var t) - rate (1 - lean^2) E t.
    """

    second_moment: ClassVar[float] = 2.0
    fourth_moment: ClassVar[float] = 24.0

    @staticmethod
    def ratio(z: Array, rate: Array) -> Ratio:
        size = np.abs(z)
        if rate.max(initial=0.0) > _NARROW:
            return Laplace._narrow_ratio(z, size, rate)
        excess = None
        if size.max(initial=0.0) > _STRONG:  # where only (rate - |z|)^2 / 2 grows
            excess = np.maximum(size - _STRONG, 0.0) * (0.5 * (size + _STRONG) - rate)
            size = np.minimum(size, _STRONG)
        # R1 + R2 is exp((rate - |z|)^2 / 2) times what follows: the normal cdf is twice as fast
        # as the scaled complementary error function
        gap = size - rate
        near, far = special.ndtr(gap), special.ndtr(-rate - size) * np.exp(size * (2 * rate))
        both = near + far
        odds = np.exp(0.5 * (gap * gap)) * both * (num.SQRT_HALF_PI * rate)
        return Ratio(odds, excess, np.copysign((near - far) / both, z))

    @staticmethod
    def _narrow_ratio(z: Array, size: Array, rate: Array) -> Ratio:
        gap = rate - size
        near, far = num.mills(gap), num.mills(rate + size)
        total = near + far
        lean = np.copysign((near - far) / total, z)
        return Ratio(0.5 * rate * total, num.mills_excess(gap), lean)

    @staticmethod
    def details(z: Array, rate: Array, ratio: Ratio) -> Details:
        lean = ratio.inner
        if rate.max(initial=0.0) > _NARROW:
            return Laplace._narrow_details(z, rate, lean)
        squared = rate * rate
        mean = z - rate * lean
        by_density = squared / ratio.odds  # rate c
        variance = (1 + squared) - squared * (lean * lean) - by_density
        distance = rate * (z * lean) + by_density - squared  # rate E|t|
        second = squared * (mean * mean + variance) - distance * (distance + 1)
        return Details(mean, variance, distance - 1, second)

    @staticmethod
    def mean_slope(z: Array, rate: Array, ratio: Ratio, details: Details) -> Array:
        """Differentiate the mean: ``rate cov(t, |t|)``."""
        lean = ratio.inner
        if rate.max(initial=0.0) > _NARROW:
            (up, up_var), (down, down_var) = _half_lines(z, rate)
            share, rest = 0.5 * (1 + lean), 0.5 * (1 - lean)
            slope = share * up_var - rest * down_var + share * rest * (up**2 - down**2)
        else:
            slope = lean * (2 - details.variance) - rate * ((1 - lean * lean) * details.mean)
        return rate * slope

    @staticmethod
    def _narrow_details(z: Array, rate: Array, lean: Array) -> Details:
        """Details from the moments on either side of zero: slower, but nothing cancels."""
        (up, up_var), (down, down_var) = _half_lines(z, rate)
        share, rest = 0.5 * (1 + lean), 0.5 * (1 - lean)
        within, between = share * up_var + rest * down_var, share * rest
        mean = share * up - rest * down
        variance = within + between * (up + down) ** 2
        distance = rate * (share * up + rest * down)
        spread = within + between * (up - down) ** 2
        return Details(mean, variance, distance - 1, rate * rate * spread - distance)

    def _standard(self, x: Array, s: Array) -> tuple[Array, Array]:
        return (x - self.location) / s, s / self.scale

    def _sides(self) -> tuple[Exponential, Exponential]:
        return Exponential(self.location, -self.scale), Exponential(self.location, self.scale)

    def log_marginal(self, x: Array, s: Array) -> Array:
        z, rate = self._standard(x, s)
        size = np.abs(z)
        return _log_marginal(self._narrow_ratio(z, size, rate), size, rate) - np.log(s)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        z, rate = self._standard(x, s)
        mean, variance, _, _ = self.details(z, rate, self.ratio(z, rate))
        return self.location + s * mean, s * s * variance

    def _shares(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior probabilities of the two sides, neither as the rest of the other."""
        down, up = self._sides()
        log_odds = up.log_marginal(x, s) - down.log_marginal(x, s)
        return special.expit(-log_odds), special.expit(log_odds)

    def tails(self, x: Array, s: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
        rest, share = self._shares(x, s)
        down, up = (side.tails(x, s, at) for side in self._sides())
        below, above = (rest * d + share * u for d, u in zip(down, up, strict=True))
        return below, above

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        upward = rng.random(x.shape) < self._shares(x, s)[1]
        return Exponential(self.location, np.where(upward, 1, -1) * self.scale).draw(x, s, rng)

    def labels(self) -> list[str]:
        return [
            f"{_from(m)}Laplace(scale {b:.4g})"
            for m, b in zip(self.location, self.scale, strict=True)
        ]


def _shared(ends: Array) -> Array:
    """Return a single end for several intervals if it is the same, so that it is looked at once."""
    return ends[:1] if ends.ndim and (ends == ends[:1]).all() else ends


@dataclass(frozen=True, eq=False)
class Uniform(AbstractKernel):
    """Uniform on ``[location, upper]``."""

    upper: Array

    def _bounds(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        """Return the ends as seen from `x`, and the width, in units of the noise."""
        lower, upper = _shared(self.location), _shared(self.upper)
        return (lower - x) / s, (upper - x) / s, (self.upper - self.location) / s

    def log_marginal(self, x: Array, s: Array) -> Array:
        mass = num.log_interval_probability(*self._bounds(x, s))
        return mass - np.log(self.upper - self.location)

    def evaluate(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        bounds = self._bounds(x, s)
        mass = num.log_interval_probability(*bounds)
        mean, variance = num.interval_moments(*bounds, mass)
        mean = np.clip(x + s * mean, self.location, self.upper)
        return mass - np.log(self.upper - self.location), mean, s * s * variance

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        return self.evaluate(x, s)[1:]

    def tails(self, x: Array, s: Array, at: Array | float = 0.0) -> tuple[Array, Array]:
        total = num.log_interval_probability(*self._bounds(x, s))
        split = np.clip(at, self.location, self.upper)
        below, above = (
            np.where(
                a < b,
                np.exp(num.log_interval_probability((a - x) / s, (b - x) / s, (b - a) / s) - total),
                0.0,
            )
            for a, b in ((self.location, split), (split, self.upper))
        )
        return below, above

    def log_excess(self, x: Array, end: float) -> Array:
        ends = np.stack(np.broadcast_arrays(np.abs(self.location - x), np.abs(self.upper - x)))
        if (np.sign(self.location - x) != np.sign(self.upper - x)).any():
            return super().log_excess(x, end)
        near, far = ends.min(axis=0), ends.max(axis=0)
        width = self.upper - self.location
        mass = num.mills(near) - num.mills(far) * np.exp(-0.5 * width * (near + far))
        gap = np.minimum(np.abs(self.location - end), np.abs(self.upper - end))
        return np.asarray(np.log(mass / width) - 0.5 * gap * (near + np.abs(x - end)))

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        lower, upper, width = self._bounds(x, s)
        draw = num.interval_sample(lower, upper, rng, width)
        return np.clip(x + s * draw, self.location, self.upper)

    def hull(self) -> tuple[float, float]:
        return float(self.location.min()), float(self.upper.max())

    def labels(self) -> list[str]:
        return [
            f"Uniform({a:.4g}, {b:.4g})" for a, b in zip(self.location, self.upper, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class TruncatedNormal(AbstractHalfLine):
    """``location`` plus ``|N(mean, sd^2)|`` restricted to one side: upward if ``mean > 0``."""

    mean: Array
    sd: Array

    def _standard(self, x: Array, s: Array) -> tuple[Array, Array, Array, Array]:
        """Direction, offset of ``x`` along it, posterior mean before truncation, and its sd."""
        sign = np.sign(self.mean)
        offset = sign * (x - self.location)
        total = np.hypot(s, self.sd)
        sd = self.sd * (s / total)
        centre = np.abs(self.mean) * (s / total) ** 2 + offset * (self.sd / total) ** 2
        return sign, offset, centre, sd

    def log_marginal(self, x: Array, s: Array) -> Array:
        _, offset, centre, sd = self._standard(x, s)
        total = np.hypot(s, self.sd)
        size = np.abs(self.mean)
        return (
            num.log_normal_density((offset - size) / total)
            - np.log(total)
            + special.log_ndtr(centre / sd)
            - special.log_ndtr(size / self.sd)
        )

    def half_line(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        sign, _, centre, sd = self._standard(x, s)
        return sign, sd, -centre / sd

    def labels(self) -> list[str]:
        return [
            f"{_from(m)}N({mean:.4g}, {sd:.4g}^2) {'below' if mean < 0 else 'above'} 0"
            for m, mean, sd in zip(self.location, self.mean, self.sd, strict=True)
        ]


@dataclass(frozen=True)
class Bump:
    """The slab of nearly binary values: ``scale`` times ``N(1, spread^2)`` restricted above zero.

    What `AbstractSlab` says of a kernel, for one `spread`. In units of the noise the posterior of
    ``t`` is ``N(c, v)`` above zero; with ``u`` the log scale the log ratio has the derivatives
    ``E(z t - t^2)`` and ``var(z t - t^2) + E(z t - 2 t^2)``, the mean ``E t + cov(t, z t - t^2)``.
    """

    spread: float

    @property
    def width(self) -> float:
        """Width with scale one."""
        return self.spread

    @property
    def second_moment(self) -> float:
        """Second moment with scale one; the few values that are cut off hardly matter."""
        return 1 + self.spread**2

    @property
    def fourth_moment(self) -> float:
        """Fourth moment with scale one."""
        return 1 + 6 * self.spread**2 + 3 * self.spread**4

    def ratio(self, z: Array, rate: Array) -> Ratio:
        """Ratio of the marginals of slab and spike."""
        mean = 1 / rate
        rest = 1 / (1 + (self.spread * mean) ** 2)  # share of the noise in the variance
        edge = (1 / self.spread + self.spread * mean * z) * np.sqrt(rest)
        exponent = 0.5 * (np.log(rest) - (z - mean) ** 2 * rest + z**2)
        exponent += special.log_ndtr(edge) - special.log_ndtr(1 / self.spread)
        capped = np.minimum(exponent, LARGEST_EXPONENT)
        excess = exponent - capped if exponent.max(initial=0.0) > LARGEST_EXPONENT else None
        return Ratio(np.exp(capped, out=capped), excess, edge)

    def _moments(self, z: Array, rate: Array, ratio: Ratio) -> tuple[Array, Array, Array, Array]:
        """Mean and variance of ``t``, covariance of ``t`` and ``t^2``, mean of ``t^2``."""
        share = self.spread**2 / (self.spread**2 + rate * rate)
        sd = np.sqrt(share)
        mean, variance = num.half_line_moments(-ratio.inner)
        mean, variance = sd * mean, share * variance
        square = variance + mean * mean
        third = sd * ratio.inner * square + 2 * share * mean
        return mean, variance, third - mean * square, square

    def details(self, z: Array, rate: Array, ratio: Ratio) -> Details:
        """Posterior moments and derivatives, given the `ratio`."""
        mean, variance, cross, square = self._moments(z, rate, ratio)
        share = self.spread**2 / (self.spread**2 + rate * rate)
        centre = np.sqrt(share) * ratio.inner
        fourth = centre * (cross + mean * square) + 3 * share * square
        first = z * mean - square
        second = z * z * variance - 2 * z * cross + (fourth - square * square) + first - square
        return Details(mean, variance, first, second)

    def mean_slope(self, z: Array, rate: Array, ratio: Ratio, details: Details) -> Array:
        """Differentiate the posterior mean under the slab by the log scale; a new array."""
        mean, variance, cross, _ = self._moments(z, rate, ratio)
        return np.asarray(mean + z * variance - cross)
