"""The horseshoe, and the search for the maximum of a function of one variable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import optimize

from ebcd import _numerics as num
from ebcd._numerics import Array
from ebcd.priors import _kernels as kernels
from ebcd.priors._family import AbstractPriorFamily, Columns, Fits, as_mode, as_scale, register
from ebcd.priors._fitted import BLOCK, CELLS, FittedPrior, MixturePrior
from ebcd.priors._two_group import peaks

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


@register
@dataclass(frozen=True)
class Horseshoe(AbstractPriorFamily):
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

    def fit(self, columns: Columns, starts: Sequence[FittedPrior | None]) -> Fits:
        scale, ratio = np.zeros((2, columns.n_columns))
        mean, variance = np.zeros((2, columns.n_columns, columns.x.shape[1]))
        for k, (column, start) in enumerate(zip(columns.each(), starts, strict=True)):
            slabs = _Normals(column)
            place, value = slabs.best(0.0 if start is None else start.parameters["scale"])
            if value > 0:
                scale[k], ratio[k] = np.exp(place), value
                mean[k], variance[k] = slabs.moments(place)
        priors = [self.build(scale=number, mode=0.0) for number in scale.tolist()]
        values = columns.log_likelihood(ratio, priors)
        return Fits(priors, values, mean, variance)


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
        self._kept = [self._odds(part) for part in self._parts[: CELLS // BLOCK]]

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
            yield part, self._kept[i] if i < len(self._kept) else self._odds(part)

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

    def ratio(self, log_scale: float) -> tuple[float, float]:
        """Log-likelihood ratio to the null, and its derivative in the log scale."""
        counts, value, gradient = self._column.weights[0], 0.0, 0.0
        both = np.stack(self._weights(log_scale))
        for part, (odds, top, _) in self._blocks():
            total, slope = both @ odds
            value += float(counts[part] @ (np.log(total) + top))
            gradient += float(counts[part] @ (slope / total))
        return value, gradient

    def best(self, scale: float) -> tuple[float, float]:
        """Best log scale, and the ratio there; from near a given scale, if that is not zero."""
        step = 0.7  # narrower than any peak
        grid = np.arange(self._places[0] + 5.0, self._places[-1] - 12.0, step)
        if scale > 0 and grid[0] < (first := float(np.log(scale))) < grid[-1]:
            place, value = _polish(self.ratio, first - step, first, first + step)
            if place != first and value > 0:
                return place, value
        return search(self.ratio, grid, np.array([self.ratio(place)[0] for place in grid.tolist()]))

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
