"""Estimate the centre of a prior: a search over one number around fits with the centre fixed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy import optimize

from ebcd._numerics import Array
from ebcd.priors._family import AbstractPriorFamily
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._solve import solve_columns
from ebcd.priors._two_group import peaks

_CANDIDATES = 25
_POLISHED = 3
_ACCURACY = 1e-10  # of the mode, relative to the spread of the data


def estimate_mode(
    x: Array, s: Array, family: AbstractPriorFamily, start: FittedPrior | None
) -> float:
    """Maximise the log-likelihood over the mode as well.

    The derivative of the profile is ``sum (x - posterior mean) / s^2``. It can have several zeros,
    so the best of a grid of candidates, quantiles of the data, are polished.
    """
    if family.name == "point_mass":
        return float(np.average(x, weights=np.broadcast_to(s, x.shape) ** -2.0))
    centred = None if start is None else start.shifted(-start.parameters["mode"])
    weights = np.broadcast_to(s, x.shape) ** -2.0
    candidates = np.union1d(_candidates(x), np.average(x, weights=weights))
    if start is not None:
        candidates = np.union1d(candidates, start.parameters["mode"])
    many = len(candidates)
    values = solve_columns(
        x - candidates[:, None], s, [family.for_search()] * many, [centred] * many
    ).log_likelihood

    def profile(mode: float) -> tuple[float, float]:
        """Log-likelihood and its derivative in the mode."""
        fit = solve_columns((x - mode)[None], s, [family], [centred])
        return float(fit.log_likelihood[0]), float(np.sum((x - mode - fit.mean[0]) / s**2))

    best, best_value = 0.0, -np.inf
    for i in peaks(values, _POLISHED):
        low, high = candidates[[max(int(i) - 1, 0), min(int(i) + 1, many - 1)]]
        mode = _polish(lambda m: profile(m)[1], candidates[i], low, high)
        for place in {mode, float(candidates[i])}:
            value = profile(place)[0]
            if value > best_value:
                best, best_value = place, value
    return float(best)


def _candidates(x: Array) -> Array:
    quantiles = np.quantile(x, np.linspace(0, 1, _CANDIDATES))
    even = np.linspace(x.min(), x.max(), _CANDIDATES // 2)
    return np.unique(np.concatenate([quantiles, even]))


def _polish(slope: Callable[[float], float], middle: float, low: float, high: float) -> float:
    ends = [(low, slope(low)), (middle, slope(middle)), (high, slope(high))]
    for (a, slope_a), (b, slope_b) in pairwise(ends):
        if slope_a >= 0 >= slope_b and a < b:
            return float(optimize.brentq(slope, a, b, xtol=_ACCURACY * (high - low), rtol=1e-15))
    return middle
