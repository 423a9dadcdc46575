"""The shrinkage step, the one thing in which penalised PCA and EBCD differ."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._registry import PRIORS
from ebcd.priors._solve import Prior, solve_columns


class Shrunk(NamedTuple):
    """Loadings after shrinkage, one component a row.

    `objective` is what the loadings add to the criterion beside the residuals. `fitted` is what
    the next shrinkage starts from. `curvature` is the slope of the shrinkage times the noise
    variance, if it differs from the posterior variance.
    """

    mean: Array
    variance: Array
    objective: float
    fitted: Sequence[Any]
    curvature: Array | None = None


class AbstractShrinker(ABC):
    """Shrinks every component; component numbers refer to the start."""

    def oriented(self, loadings: Array, first: int = 0) -> Array:
        """Turn rows that should lie on one side of zero to that side, as far as they can."""
        return loadings

    @abstractmethod
    def shrink(
        self, b: Array, noise: Array, components: Sequence[int], previous: Sequence[Any] | None
    ) -> Shrunk:
        """Shrink rows of `b`, whose noise has standard deviation `noise`."""


class EmpiricalBayesShrinker(AbstractShrinker):
    """Posterior means under priors that are fitted to the component.

    Parameters
    ----------
    priors : sequence of families or fitted priors
        One for each component of the start; the last serves all further ones.
    """

    def __init__(self, priors: Sequence[Prior]) -> None:
        self._priors = list(priors)

    def _prior(self, component: int) -> Prior:
        return self._priors[min(component, len(self._priors) - 1)]

    def oriented(self, loadings: Array, first: int = 0) -> Array:
        """Turn rows whose prior is one-sided; `first` is the number of the first component."""
        priors = [self._prior(first + k) for k in range(loadings.shape[0])]
        sides = np.array(
            [PRIORS[g.family if isinstance(g, FittedPrior) else g.name].side for g in priors]
        )
        leans = np.sign((loadings**3).sum(axis=1))
        return np.where((sides * leans < 0)[:, None], -loadings, loadings)

    def shrink(
        self, b: Array, noise: Array, components: Sequence[int], previous: Sequence[Any] | None
    ) -> Shrunk:
        """Solve a normal-means problem for each row."""
        priors = [self._prior(k) for k in components]
        fit = solve_columns(b, noise, priors, previous)
        # minus the KL divergence of the posterior from the prior
        distance = b - fit.mean
        distance *= distance
        distance += fit.variance
        if noise.ndim == 0:
            variance = float(noise) ** 2
            surprise = distance.sum() / variance + b.size * math.log(2 * math.pi * variance)
        else:
            distance /= noise**2
            surprise = distance.sum() + 2 * len(b) * np.log(math.sqrt(2 * math.pi) * noise).sum()
        cost = sum(
            prior.cost(found)
            for prior, found in zip(priors, fit.priors, strict=True)
            if not isinstance(prior, FittedPrior)
        )
        objective = float(fit.log_likelihood.sum() + 0.5 * surprise) - cost
        return Shrunk(fit.mean, fit.variance, objective, fit.priors)
