"""Priors of which only the shape is known: the scale is shared between scores and loadings.

A factor does not change if its loadings are multiplied by a number and its scores divided by it. So
a prior that is fixed on one side says nothing about scale if that of the other side is fitted. To
leave the scale to the alternation would be slow, since the data hold either side where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from ebcd._numerics import Array
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._solve import Prior

_COLD = np.linspace(-5.0, 5.0, 41)  # logarithms of scales, about the one that moments suggest
_WARM = np.array([-0.2, 0.0, 0.2])


@dataclass(frozen=True)
class UpToScale:
    """A fitted prior whose scale is free."""

    prior: FittedPrior

    @property
    def family(self) -> str:
        """Name of the family of the prior."""
        return self.prior.family

    def fitted(self, b: Array, s: Array, start: FittedPrior | None) -> FittedPrior:
        """Give the scale of highest likelihood, near that of `start` if there is one."""
        s = np.broadcast_to(s, b.shape)
        size = _root_mean_square(self.prior)
        if size == 0:  # all at zero, whatever the scale
            return self.prior

        def loss(log_scale: float) -> float:
            return -float(self.prior.rescaled(np.exp(log_scale)).log_marginal(b, s).sum())

        if start is not None:
            centre = float(np.log(_root_mean_square(start) / size))
            best, inside = _lowest(loss, centre + _WARM)
            if inside:
                return self.prior.rescaled(np.exp(best))
        spread = float(np.sqrt(max(np.mean(b**2) - np.mean(s**2), 1e-3 * np.mean(s**2))))
        best, _ = _lowest(loss, np.log(spread / size) + _COLD)
        return self.prior.rescaled(np.exp(best))


def free_scales(
    scores: list[Prior], loadings: list[Prior]
) -> tuple[list[Prior | UpToScale], list[Prior | UpToScale]]:
    """Free the scale of priors that are fixed where the other side's is fitted."""
    count = max(len(scores), len(loadings))
    pairs = [
        (scores[min(k, len(scores) - 1)], loadings[min(k, len(loadings) - 1)]) for k in range(count)
    ]
    return [_freed(f, l_) for f, l_ in pairs], [_freed(l_, f) for f, l_ in pairs]


def _freed(prior: Prior, other: Prior) -> Prior | UpToScale:
    if not isinstance(prior, FittedPrior) or prior.family == "flat":
        return prior
    fitted = not isinstance(other, FittedPrior) and other.name != "flat"
    return UpToScale(prior) if fitted else prior


def _root_mean_square(prior: FittedPrior) -> float:
    moments = prior.posterior(np.zeros(1), np.inf)
    return float(np.hypot(moments.mean[0], moments.sd[0]))


def _lowest(loss: Callable[[float], float], grid: Array) -> tuple[float, bool]:
    """Minimise near the best point of a grid; tell whether that is inside."""
    values = [loss(float(point)) for point in grid]
    k = int(np.argmin(values))
    if k in (0, len(grid) - 1):
        return float(grid[k]), False
    bounds = float(grid[k - 1]), float(grid[k + 1])
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    return (float(found.x) if found.fun <= values[k] else float(grid[k])), True
