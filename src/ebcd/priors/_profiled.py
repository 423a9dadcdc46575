"""Families with one length to find by a global search: horseshoe and generalised binary."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import optimize

from ebcd import _numerics as num
from ebcd._numerics import Array
from ebcd._parameters import real
from ebcd.priors import _kernels as kernels
from ebcd.priors._family import (
    AbstractPriorFamily,
    Columns,
    Fits,
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
_KEPT = 8  # blocks of likelihoods that stay in memory, 4 MB each
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

    def _best(
        self, column: Columns, start: FittedPrior | None, ratio: Callable[[Array], Array]
    ) -> tuple[float, float]:
        """Best log length, and the ratio there; from nearby if a start has one.

        The `ratio` of likelihoods to the null is logarithmic, comes with its derivative, and is
        that of several log lengths.
        """

        def profile(log_length: float) -> tuple[float, float]:
            value, slope = ratio(np.array([log_length]))[:, 0]
            return float(value), float(slope)

        grid = self._grid(column)
        length = 0.0 if start is None else start.parameters[self.lengths[0]]
        if length > 0 and grid[0] < (first := float(np.log(length))) < grid[-1]:
            place, value = _polish(profile, first - _NEAR, first, first + _NEAR)
            if place != first and value > 0:
                return place, value
        return search(profile, grid, ratio(grid)[0])


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
        return self.fit(column, [start]).priors[0], np.nan

    def fit(
        self, columns: Columns, starts: Sequence[FittedPrior | None], unit: float = 1.0
    ) -> Fits:
        """Fit every column, with the mode at zero."""
        scale, ratio = np.zeros((2, columns.n_columns))
        mean, variance = np.zeros((2, columns.n_columns, columns.x.shape[1]))
        for k, (column, start) in enumerate(zip(columns.each(), starts, strict=True)):
            slabs = _Normals(column)
            place, value = self._best(column, start and start.rescaled(1 / unit), slabs.ratio)
            if value > 0:
                scale[k], ratio[k] = np.exp(place), value
                mean[k], variance[k] = slabs.moments(place)
        priors = [self.build(scale=number, mode=0.0) for number in (scale * unit).tolist()]
        values = columns.log_likelihood(ratio, priors, unit)
        return Fits(priors, values, mean, variance, np.full(values.shape, np.nan))

    def _grid(self, column: Columns) -> Array:
        low, high = float(column.s.min()), float(column.largest.max()) + float(column.s.max())
        return np.arange(np.log(low) - np.log(1e4), np.log(high) + 1.5, 0.7)


_SPACING = 0.2
_LOG_LAMBDA = np.arange(-36.0, 46.0, _SPACING)
_LAMBDA_WEIGHTS = (_SPACING / np.pi) / np.cosh(_LOG_LAMBDA)
_LAMBDA_WEIGHTS /= _LAMBDA_WEIGHTS.sum()


class _Normals:
    """Likelihoods of a column under normals of many scales, the same for every horseshoe.

    The integral is over ``log(scale lambda)``, so that only the weights depend on the scale.
    """

    def __init__(self, column: Columns) -> None:
        self._column = column
        low = np.log(column.s.min()) - 14.0
        high = np.log(column.largest.max() + column.s.max()) + 14.0
        self._places = np.arange(low - _SPACING * 2, high, _SPACING)
        self._parts = list(num.chunks(column.x.shape[1], max(1, BLOCK // self._places.size)))
        self._kept = [self._odds(part) for part in self._parts[:_KEPT]]

    def _odds(self, part: slice) -> tuple[Array, Array, Array]:
        """Odds to the null, up to a factor; its logarithm; shares of the values in the variance."""
        s = self._column.s if self._column.s.size == 1 else self._column.s[:, part]
        square = (np.exp(self._places)[:, None] / s) ** 2
        share = square / (1 + square)
        log_odds = (0.5 * share) * self._column.z[:, part] ** 2
        log_odds -= 0.5 * np.log1p(square)
        top = log_odds.max(axis=0)
        log_odds -= top
        return np.exp(log_odds, out=log_odds), top, share

    def _blocks(self) -> Iterator[tuple[slice, tuple[Array, Array, Array]]]:
        """Parts of the entries, with their odds, which are computed anew if they are many."""
        for i, part in enumerate(self._parts):
            yield part, self._kept[i] if i < _KEPT else self._odds(part)

    def _weights(self, log_scale: float) -> tuple[Array, Array]:
        """Weights, and their derivatives."""
        distance = self._places - log_scale
        weights = (_SPACING / np.pi) / np.cosh(distance)
        slopes = weights * np.tanh(distance)
        # What lies below has no width and counts as mass there: with d = distance, 1 / cosh d is
        # 2 (e^d - e^3d + e^5d - ...), of which sums are geometric. What lies above has no density.
        power = np.array([1, 3, 5])
        below = np.array([1, -1, 1]) * np.exp(power * distance[0]) / np.expm1(power * _SPACING)
        weights[0] += 2 * _SPACING / np.pi * below.sum()
        slopes[0] -= 2 * _SPACING / np.pi * below @ power
        return weights, slopes

    def ratio(self, log_scales: Array) -> Array:
        """Log-likelihood ratios to the null, and their derivatives in the log scale."""
        counts, found = self._column.weights[0], np.zeros((2, log_scales.size))
        for i, log_scale in enumerate(log_scales.tolist()):
            both = np.stack(self._weights(log_scale))
            for part, (odds, top, _) in self._blocks():
                total, slope = both @ odds
                found[0, i] += counts[part] @ (np.log(total) + top)
                found[1, i] += counts[part] @ (slope / total)
        return found

    def moments(self, log_scale: float) -> tuple[Array, Array]:
        """Posterior mean and variance."""
        weights, _ = self._weights(log_scale)
        mean, variance = np.empty((2, self._column.x.shape[1]))
        for part, (odds, _, share) in self._blocks():
            posterior = weights[:, None] * odds
            posterior /= posterior.sum(axis=0)
            mean[part] = (posterior * share).sum(axis=0)
            spread = (posterior * (share - mean[part]) ** 2).sum(axis=0)
            variance[part] = mean[part] + self._column.z[0, part] ** 2 * spread
        return mean * self._column.x[0], variance * self._column.noise**2


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

    has_spike: ClassVar[bool] = True

    spread: float = 0.1

    def __post_init__(self) -> None:
        real("a number from 1e-4 to 100", lambda a: 1e-4 <= a <= 100).check("spread", self.spread)

    @property
    def slab(self) -> kernels.Bump:
        """The bump, of any size."""
        return kernels.Bump(self.spread)

    def with_slab(self, weight: float, scale: float) -> FittedPrior:
        """Make the prior with a bump at this distance."""
        return self.build(weight=weight, mean=scale, spread=self.spread, mode=0.0)

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
        place, value = self._best(column, start, partial(self._ratio, column))
        weight = float(self._profile(column, np.array([place]))[2, 0]) if value > 0 else 0.0
        mean = float(np.exp(place)) if weight > 0 else 0.0
        return self.with_slab(weight, mean), np.nan

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
        z, rate, counts = column.z, column.s * np.exp(-log_means)[:, None], column.weights[0]
        ratio = self.slab.ratio(z, rate)
        first = self.slab.details(z, rate, ratio).first
        weight = best_weight(ratio.odds, counts)
        w = weight[:, None]
        density = 1 + w * (ratio.odds - 1)
        value = np.log(density)
        share = w * ratio.odds / density
        if ratio.excess is not None:
            value += np.where(w > 0, ratio.excess, 0.0)
        return np.array([value @ counts, (share * first) @ counts, weight])
