"""Distributions whose convolution with normal noise has a closed form.

Every prior of the package is a mixture of these. A kernel object holds *several* components of
one kind as parameter arrays; its methods broadcast ``x`` and ``s`` against those arrays, so that
``x[:, None]`` gives one column per component and ``kernel.take(index)`` one component per entry.

The mathematics is done in units of the noise: ``z = (x - location) / s`` and ``scale / s``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy import special

from ebcd import _numerics as num
from ebcd._numerics import Array
from ebcd.priors._kernel import AbstractKernel


def _from(location: float) -> str:
    return f"{location:.4g} + " if location else ""


def _sign_probabilities(point: Array) -> tuple[Array, Array]:
    return (point <= 0).astype(np.float64), (point >= 0).astype(np.float64)


@dataclass(frozen=True, eq=False)
class PointMass(AbstractKernel):
    """All mass at ``location``."""

    def log_marginal(self, x: Array, s: Array) -> Array:
        return num.log_normal_density((x - self.location) / s) - np.log(s)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        mean = np.broadcast_to(self.location, np.broadcast_shapes(x.shape, self.location.shape))
        return mean, np.zeros_like(mean)

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        return _sign_probabilities(self.moments(x, s)[0])

    def log_excess(self, x: Array, end: float) -> Array:
        return (self.location - end) * (x - 0.5 * (self.location + end))

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        return self.moments(x, s)[0]

    def prior_moments(self) -> tuple[Array, Array]:
        return self.location, np.zeros_like(self.location)

    def prior_tails(self) -> tuple[Array, Array]:
        return _sign_probabilities(self.location)

    def prior_draw(self, rng: np.random.Generator) -> Array:
        return self.location

    def hull(self) -> tuple[float, float]:
        return float(self.location.min()), float(self.location.max())

    def mirrored(self) -> Self:
        return replace(self, location=-self.location)

    def labels(self) -> list[str]:
        return [f"exactly {at:.4g}" for at in self.location]


@dataclass(frozen=True, eq=False)
class Normal(AbstractKernel):
    """``N(location, scale^2)``."""

    scale: Array

    def _standard(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        ratio = self.scale / s
        total = np.hypot(1.0, ratio)  # sd of x in units of s; no square that could overflow
        return (x - self.location) / s, ratio / total, total

    def log_marginal(self, x: Array, s: Array) -> Array:
        z, _, total = self._standard(x, s)
        return num.log_normal_density(z / total) - np.log(total) - np.log(s)

    def _posterior(self, x: Array, s: Array) -> tuple[Array, Array]:
        z, root, _ = self._standard(x, s)
        return self.location + s * (root * root) * z, s * root * np.ones_like(z)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        mean, sd = self._posterior(x, s)
        return mean, sd * sd

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        mean, sd = self._posterior(x, s)
        return special.ndtr(-mean / sd), special.ndtr(mean / sd)

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        mean, sd = self._posterior(x, s)
        return mean + sd * rng.standard_normal(mean.shape)

    def prior_moments(self) -> tuple[Array, Array]:
        return self.location, self.scale**2

    def prior_tails(self) -> tuple[Array, Array]:
        return special.ndtr(-self.location / self.scale), special.ndtr(self.location / self.scale)

    def prior_draw(self, rng: np.random.Generator) -> Array:
        return self.location + self.scale * rng.standard_normal(self.scale.shape)

    def hull(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def mirrored(self) -> Self:
        return replace(self, location=-self.location)

    def labels(self) -> list[str]:
        return [f"N({m:.4g}, {b:.4g}^2)" for m, b in zip(self.location, self.scale, strict=True)]


@dataclass(frozen=True, eq=False)
class Exponential(AbstractKernel):
    """``location`` plus an exponential variable of mean ``|scale|``, downwards if negative."""

    scale: Array

    def _standard(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        """Direction, rate, and ``t`` such that the posterior is ``N(-t, 1)`` above 0."""
        sign = np.sign(self.scale)
        rate = s / np.abs(self.scale)
        return sign, rate, rate - sign * (x - self.location) / s

    def log_marginal(self, x: Array, s: Array) -> Array:
        z = np.sign(self.scale) * (x - self.location) / s
        return _log_exponential_marginal(s / np.abs(self.scale), z) - np.log(s)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        sign, _, t = self._standard(x, s)
        mean, variance = num.half_line_moments(t)
        return self.location + sign * s * mean, s * s * variance

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        sign, _, t = self._standard(x, s)
        beyond = num.half_line_survival(t, -sign * self.location / s)
        return _split_tails(sign, self.location, beyond)

    def log_excess(self, x: Array, end: float) -> Array:
        _, rate, t = self._standard(x, np.ones(()))
        shift = (self.location - end) * (x - 0.5 * (self.location + end))
        return np.log(rate) + num.log_mills(t) + shift

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        sign, _, t = self._standard(x, s)
        return self.location + sign * s * num.half_line_sample(t, rng)

    def prior_moments(self) -> tuple[Array, Array]:
        return self.location + self.scale, self.scale**2

    def prior_tails(self) -> tuple[Array, Array]:
        beyond = np.exp(-np.maximum(-self.location / self.scale, 0.0))
        return _split_tails(np.sign(self.scale), self.location, beyond)

    def prior_draw(self, rng: np.random.Generator) -> Array:
        return self.location + self.scale * rng.exponential(size=self.scale.shape)

    def hull(self) -> tuple[float, float]:
        up, down = self.scale > 0, self.scale < 0
        lower = -np.inf if down.any() else float(self.location.min())
        return lower, np.inf if up.any() else float(self.location.max())

    def mirrored(self) -> Self:
        return replace(self, location=-self.location, scale=-self.scale)

    def labels(self) -> list[str]:
        return [
            f"{_from(m)}{'-' if b < 0 else ''}Exponential(mean {abs(b):.4g})"
            for m, b in zip(self.location, self.scale, strict=True)
        ]


def _log_exponential_marginal(rate: Array, z: Array) -> Array:
    """Log of ``rate * exp(-z^2 / 2) R(t) / sqrt(2 pi)`` with ``t = rate - z``."""
    t = rate - z
    # For t < 0 the squares in the exponent cancel; rate (rate / 2 - z) does not.
    inside = rate * (0.5 * rate - z) + special.log_ndtr(np.maximum(-t, 0.0))
    outside = num.log_normal_density(z) + num.log_mills(np.maximum(t, 0.0))
    return np.log(rate) + np.where(t < 0, inside, outside)


def _split_tails(sign: Array, location: Array, beyond: Array) -> tuple[Array, Array]:
    """Tails at 0 of a half line that starts at ``location``; ``beyond`` lies past 0."""
    within = np.where(sign * location >= 0, 0.0, 1.0 - beyond)
    return np.where(sign > 0, within, beyond), np.where(sign > 0, beyond, within)


@dataclass(frozen=True, eq=False)
class Laplace(AbstractKernel):
    """Laplace distribution: an even mixture of an upward and a downward exponential."""

    scale: Array

    def _sides(self) -> tuple[Exponential, Exponential]:
        return Exponential(self.location, -self.scale), Exponential(self.location, self.scale)

    def _shares(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Give the posterior probabilities of the two sides, neither as the rest of the other."""
        down, up = self._sides()
        log_odds = up.log_marginal(x, s) - down.log_marginal(x, s)
        return special.expit(-log_odds), special.expit(log_odds)

    def log_marginal(self, x: Array, s: Array) -> Array:
        down, up = self._sides()
        return np.logaddexp(down.log_marginal(x, s), up.log_marginal(x, s)) - math.log(2.0)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        rest, share = self._shares(x, s)
        (low, low_var), (high, high_var) = (side.moments(x, s) for side in self._sides())
        mean = share * high + rest * low
        return mean, share * high_var + rest * low_var + share * rest * (high - low) ** 2

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        rest, share = self._shares(x, s)
        down, up = (side.tails(x, s) for side in self._sides())
        below, above = (rest * d + share * u for d, u in zip(down, up, strict=True))
        return below, above

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        upward = rng.random(x.shape) < self._shares(x, s)[1]
        return Exponential(self.location, np.where(upward, 1, -1) * self.scale).draw(x, s, rng)

    def prior_moments(self) -> tuple[Array, Array]:
        return self.location, 2 * self.scale**2

    def prior_tails(self) -> tuple[Array, Array]:
        down, up = (side.prior_tails() for side in self._sides())
        return 0.5 * (down[0] + up[0]), 0.5 * (down[1] + up[1])

    def prior_draw(self, rng: np.random.Generator) -> Array:
        return self.location + self.scale * rng.laplace(size=self.scale.shape)

    def hull(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def mirrored(self) -> Self:
        return replace(self, location=-self.location)

    def labels(self) -> list[str]:
        return [
            f"{_from(m)}Laplace(scale {b:.4g})"
            for m, b in zip(self.location, self.scale, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Uniform(AbstractKernel):
    """Uniform on ``[location, upper]``."""

    upper: Array

    def _bounds(self, x: Array, s: Array) -> tuple[Array, Array, Array]:
        """Give the ends of the interval as seen from `x`, and its width, in units of the noise."""
        return (self.location - x) / s, (self.upper - x) / s, (self.upper - self.location) / s

    def log_marginal(self, x: Array, s: Array) -> Array:
        mass = num.log_interval_probability(*self._bounds(x, s))
        return mass - np.log(self.upper - self.location)

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        mean, variance = num.interval_moments(*self._bounds(x, s))
        return np.clip(x + s * mean, self.location, self.upper), s * s * variance

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        total = num.log_interval_probability(*self._bounds(x, s))
        zero = np.clip(0.0, self.location, self.upper)
        below, above = (
            np.where(
                a < b,
                np.exp(num.log_interval_probability((a - x) / s, (b - x) / s, (b - a) / s) - total),
                0.0,
            )
            for a, b in ((self.location, zero), (zero, self.upper))
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
        return np.clip(
            x + s * num.interval_sample(*self._bounds(x, s)[:2], rng), self.location, self.upper
        )

    def prior_moments(self) -> tuple[Array, Array]:
        return 0.5 * (self.location + self.upper), (self.upper - self.location) ** 2 / 12

    def prior_tails(self) -> tuple[Array, Array]:
        below = np.clip(-self.location / (self.upper - self.location), 0.0, 1.0)
        return below, 1 - below

    def prior_draw(self, rng: np.random.Generator) -> Array:
        return rng.uniform(self.location, self.upper)

    def hull(self) -> tuple[float, float]:
        return float(self.location.min()), float(self.upper.max())

    def mirrored(self) -> Self:
        return replace(self, location=-self.upper, upper=-self.location)

    def labels(self) -> list[str]:
        return [
            f"Uniform({a:.4g}, {b:.4g})" for a, b in zip(self.location, self.upper, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class TruncatedNormal(AbstractKernel):
    """``location`` plus ``|N(mean, sd^2)|`` restricted to one side: upwards if ``mean > 0``."""

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

    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        sign, _, centre, sd = self._standard(x, s)
        mean, variance = num.half_line_moments(-centre / sd)
        return self.location + sign * sd * mean, sd * sd * variance

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        sign, _, centre, sd = self._standard(x, s)
        beyond = num.half_line_survival(-centre / sd, -sign * self.location / sd)
        return _split_tails(sign, self.location, beyond)

    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        sign, _, centre, sd = self._standard(x, s)
        return self.location + sign * sd * num.half_line_sample(-centre / sd, rng)

    def prior_moments(self) -> tuple[Array, Array]:
        mean, variance = num.half_line_moments(-np.abs(self.mean) / self.sd)
        return self.location + np.sign(self.mean) * self.sd * mean, self.sd**2 * variance

    def prior_tails(self) -> tuple[Array, Array]:
        sign = np.sign(self.mean)
        beyond = num.half_line_survival(
            -np.abs(self.mean) / self.sd, -sign * self.location / self.sd
        )
        return _split_tails(sign, self.location, beyond)

    def prior_draw(self, rng: np.random.Generator) -> Array:
        draw = num.half_line_sample(-np.abs(self.mean) / self.sd, rng)
        return self.location + np.sign(self.mean) * self.sd * draw

    def hull(self) -> tuple[float, float]:
        up, down = self.mean > 0, self.mean < 0
        lower = -np.inf if down.any() else float(self.location.min())
        return lower, np.inf if up.any() else float(self.location.max())

    def mirrored(self) -> Self:
        return replace(self, location=-self.location, mean=-self.mean)

    def labels(self) -> list[str]:
        return [
            f"{_from(m)}N({mean:.4g}, {sd:.4g}^2) {'below' if mean < 0 else 'above'} 0"
            for m, mean, sd in zip(self.location, self.mean, self.sd, strict=True)
        ]
