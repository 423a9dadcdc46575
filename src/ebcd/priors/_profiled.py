"""Families with one length to find by a global search: horseshoe and generalised binary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import optimize, special

from ebcd import _numerics as num
from ebcd._numerics import Array
from ebcd._parameters import real
from ebcd.priors import _kernels as kernels
from ebcd.priors._family import (
    AbstractPriorFamily,
    Columns,
    as_mode,
    as_positive,
    as_scale,
    as_weight,
    register,
)
from ebcd.priors._fitted import BLOCK, FittedPrior, MixturePrior
from ebcd.priors._two_group import best_weight, peaks

# A start is polished if a maximum is so near, in log length; otherwise a search is due.
_NEAR = 0.1
Profile = Callable[[float], tuple[float, float]]


def search(profile: Profile, grid: Array, values: Array) -> tuple[float, float]:
    """Place and value of the maximum of a function of one variable.

    `profile` returns value and slope; `values` rank the points of the grid, of which the highest
    peaks are polished.
    """
    found = []
    for i in peaks(values, 4).tolist():
        low, high = grid[max(i - 1, 0)], grid[min(i + 1, grid.size - 1)]
        found.append(_polish(profile, low, grid[i], high))
    return max(found, key=lambda peak: peak[1])


def _polish(profile: Profile, low: float, middle: float, high: float) -> tuple[float, float]:
    """Find the stationary point beside a point, if there is one that is higher."""
    value, slope = profile(middle)
    a, b = (middle, high) if slope > 0 else (low, middle)
    if a < b and profile(a)[1] > 0 > profile(b)[1]:
        smallest = 4 * np.finfo(float).eps  # tolerance of SciPy
        place = float(
            optimize.brentq(lambda at: profile(at)[1], a, b, xtol=smallest * (b - a), rtol=smallest)
        )
        polished = profile(place)[0]
        if polished >= value - 1e-12 * abs(value):  # up to rounding
            return place, polished
    return float(middle), value


class _OneLength(AbstractPriorFamily):
    """A family with one length to fit, whose logarithm has a likelihood with several maxima."""

    @abstractmethod
    def _grid(self, column: Columns) -> Array:
        """Log lengths to begin with."""

    @abstractmethod
    def _ratio(self, column: Columns, log_lengths: Array) -> Array:
        """Log-likelihood ratio to the null, and its derivative, at several log lengths."""

    def _best(self, column: Columns, start: FittedPrior | None) -> tuple[float, float]:
        """Best log length, and the ratio there; from nearby if a start has one."""

        def profile(log_length: float) -> tuple[float, float]:
            value, slope = self._ratio(column, np.array([log_length]))[:, 0]
            return float(value), float(slope)

        length = 0.0 if start is None else start.parameters[self.lengths[0]]
        if length > 0:
            first = float(np.log(length))
            place, value = _polish(profile, first - _NEAR, first, first + _NEAR)
            if place != first and value > 0:
                return place, value
        grid = self._grid(column)
        return search(profile, grid, self._ratio(column, grid)[0])


@register
@dataclass(frozen=True)
class Horseshoe(_OneLength):
    """Horseshoe: ``N(mode, (scale lambda)^2)`` with half-Cauchy ``lambda``.

    The integral over ``log lambda`` is done by the trapezoidal rule, which is exact to 1e-11 there;
    the result is a mixture of normals.
    """

    name: ClassVar[str] = "horseshoe"
    lengths: ClassVar[tuple[str, ...]] = ("scale",)
    smooth_tails: ClassVar[bool] = True

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `scale` and `mode`."""
        scale, mode = as_scale(parameters["scale"]), as_mode(parameters)
        kept = {"scale": scale, "mode": mode}
        if scale == 0:
            return MixturePrior(cls, kept, [1.0], [kernels.PointMass(np.array([mode]))])
        parts = kernels.Normal(np.full(_LOG_LAMBDA.size, mode), scale * np.exp(_LOG_LAMBDA))
        words = f"scale {scale:.4g}" + (f", mode {mode:.4g}" if mode else "")
        return MixturePrior(cls, kept, _LAMBDA_WEIGHTS, [parts], words, prior_sd=np.inf)

    def fit_column(self, column: Columns, start: FittedPrior | None) -> tuple[FittedPrior, float]:
        """Fit the only column, with the mode at zero."""
        place, value = self._best(column, start)
        return self.build(scale=float(np.exp(place)) if value > 0 else 0.0, mode=0.0), np.nan

    def _grid(self, column: Columns) -> Array:
        low, high = float(column.s.min()), float(column.largest.max()) + float(column.s.max())
        return np.arange(np.log(low) - np.log(1e4), np.log(high) + 1.5, 0.7)

    def _ratio(self, column: Columns, log_lengths: Array) -> Array:
        return np.array([_horseshoe_ratio(column, b) for b in log_lengths]).T


_SPACING = 0.2
_LOG_LAMBDA = np.arange(-36.0, 46.0, _SPACING)
_LAMBDA_WEIGHTS = (_SPACING / np.pi) / np.cosh(_LOG_LAMBDA)
_LAMBDA_WEIGHTS /= _LAMBDA_WEIGHTS.sum()


def _horseshoe_ratio(column: Columns, log_scale: float) -> tuple[float, float]:
    """Log-likelihood ratio to the null, and its derivative in the log scale.

    The integral is over ``log(scale lambda)``, so that only the weights depend on the scale.
    """
    low, high = np.log(column.s.min()) - 14.0, np.log(column.largest.max() + column.s.max()) + 14.0
    places = np.arange(low - _SPACING * 2, high, _SPACING)
    distance = places - log_scale
    weights = (_SPACING / np.pi) / np.cosh(distance)
    # what lies below has no width, what lies above no density: it only counts as mass
    weights[0] += 2 / np.pi * np.arctan(np.exp(distance[0] - 0.5 * _SPACING))
    tilt = np.tanh(distance)  # minus the derivative of the log weights
    z, s, counts = column.z[0], column.noise, column.weights[0]
    value, slope = 0.0, 0.0
    size = max(1, BLOCK // places.size)
    for part in num.chunks(z.size, size):
        ratio = np.exp(places)[:, None] / s[part]
        share = ratio**2 / (1 + ratio**2)
        log_odds = 0.5 * (share * z[part] ** 2 - np.log1p(ratio**2))
        top = log_odds.max(axis=0)
        odds = np.exp(log_odds - top)
        total = weights @ odds
        value += float(counts[part] @ (np.log(total) + top))
        slope += float(counts[part] @ ((weights * tilt) @ odds / total))
    return value, slope


@register
@dataclass(frozen=True)
class GeneralizedBinary(_OneLength):
    """Nearly binary values: a spike at `mode` and a narrow bump at a positive distance.

    ``(1 - weight) delta_mode + weight (mode + N(mean, (spread mean)^2) restricted above 0)``.

    Parameters
    ----------
    spread : float, default 0.1
        Standard deviation of the bump in units of its distance from the spike.
    """

    name: ClassVar[str] = "generalized_binary"
    lengths: ClassVar[tuple[str, ...]] = ("mean",)
    binned: ClassVar[bool] = False  # the change from spike to bump may be sharper than the grid
    side: ClassVar[int] = 1

    spread: float = 0.1

    def __post_init__(self) -> None:
        real("a number from 1e-4 to 100", lambda a: 1e-4 <= a <= 100).check("spread", self.spread)

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `weight`, `mean`, `spread` and `mode`."""
        weight, mean = as_weight(parameters["weight"]), as_scale(parameters["mean"], "mean")
        spread, mode = as_positive(parameters.get("spread", 0.1), "spread"), as_mode(parameters)
        kept = {"weight": weight, "mean": mean, "spread": spread, "mode": mode}
        at = np.array([mode])
        if weight == 0 or mean == 0:
            return MixturePrior(cls, kept, [1.0], [kernels.PointMass(at)])
        bump = kernels.TruncatedNormal(at, np.array([mean]), np.array([spread * mean]))
        return MixturePrior(cls, kept, [1 - weight, weight], [kernels.PointMass(at), bump])

    def fit_column(self, column: Columns, start: FittedPrior | None) -> tuple[FittedPrior, float]:
        """Fit the only column, with the spike at zero."""
        place, value = self._best(column, start)
        weight = float(self._profile(column, np.array([place]))[2, 0]) if value > 0 else 0.0
        mean = float(np.exp(place)) if weight > 0 else 0.0
        return self.build(weight=weight, mean=mean, spread=self.spread, mode=0.0), np.nan

    def _grid(self, column: Columns) -> Array:
        """Log distances of the bump, half of its width (with noise) apart."""
        noise = float(column.s.min())
        low, high = 0.05 * noise, 1.2 * float(column.largest.max()) + noise
        u = np.arange(0.0, np.arcsinh(self.spread * high / noise), 0.5 * self.spread)
        places = np.sinh(u) * noise / self.spread
        return np.asarray(np.log(np.union1d(places[places > low], [low, high])))

    def _ratio(self, column: Columns, log_lengths: Array) -> Array:
        size = max(1, BLOCK // column.x.shape[1])
        blocks = (log_lengths[part] for part in num.chunks(log_lengths.size, size))
        return np.concatenate([self._profile(column, block)[:2] for block in blocks], axis=1)

    def _profile(self, column: Columns, log_means: Array) -> Array:
        """Ratio to the null, its derivative, and the best weight, at several log distances."""
        mean, z, counts = np.exp(log_means)[:, None] / column.s, column.z, column.weights[0]
        rest = 1 / (1 + (self.spread * mean) ** 2)  # share of the noise in the variance
        share = 1 - rest
        gap = z - mean
        edge = (1 / self.spread + self.spread * mean * z) * np.sqrt(rest)
        log_odds = (
            0.5 * (np.log(rest) - gap**2 * rest + z**2)
            + special.log_ndtr(edge)
            - special.log_ndtr(1 / self.spread)
        )
        capped = np.minimum(log_odds, kernels.LARGEST_EXPONENT)
        odds = np.exp(capped)
        weight = best_weight(odds, counts)
        w = weight[:, None]
        value = (np.log1p(w * (odds - 1)) + np.where(w > 0, log_odds - capped, 0.0)) @ counts
        slope = (
            -share
            + gap * mean * rest
            + gap**2 * rest * share
            + (self.spread * mean * z * np.sqrt(rest) - edge * share) / num.mills(-edge)
        )
        with np.errstate(divide="ignore"):
            q = special.expit(np.log(w) - np.log1p(-w) + log_odds)
        return np.array([value, (q * slope) @ counts, weight])
