"""Priors of vectors whose entries depend on each other: what they have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array
from ebcd.priors._fitted import FittedPrior, Posterior
from ebcd.priors._validation import as_observations


@dataclass(frozen=True)
class Evaluated:
    """Log-likelihood of observations, or a bound on it, and their posterior moments."""

    value: float
    mean: Array
    variance: Array


class AbstractJointPrior(FittedPrior):
    """A prior of a whole vector: all entries are given together, and in their order."""

    exchangeable: ClassVar[bool] = False

    @abstractmethod
    def evaluated(self, x: Array, s: Array) -> Evaluated:
        """Evaluate checked arrays."""

    @abstractmethod
    def interval(self, x: Array, s: Array, probability: float) -> tuple[Array, Array]:
        """Return both ends of the equal-tailed credible interval of every entry."""

    def log_likelihood(self, x: ArrayLike, s: ArrayLike = 1.0) -> float:
        """Log-likelihood of all entries together."""
        return self.evaluated(*self._observations(x, s)).value

    def posterior_moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior mean and variance of checked arrays."""
        found = self.evaluated(x, s)
        return found.mean, found.variance

    def posterior(self, x: ArrayLike, s: ArrayLike = 1.0) -> Posterior:
        """Posterior mean, sd and local false sign rate of every entry."""
        x, s = self._observations(x, s)
        mean, variance = self.posterior_moments(x, s)
        return Posterior(mean, np.sqrt(variance), np.minimum(*self.tails(x, s)))

    def log_marginal(self, x: Array, s: Array) -> Array:
        """Raise: entries have no marginals of their own."""
        raise ValueError(
            f"entries under a {self.family} prior depend on each other and have no marginal "
            "densities; use log_likelihood, which is that of all of them"
        )

    def penalty(self, values: ArrayLike, s: float = 1.0) -> Array:
        """Raise: entries have no penalties of their own."""
        raise ValueError(f"a {self.family} prior penalises all loadings together, not each of them")

    def shifted(self, offset: float) -> FittedPrior:
        """Raise: the prior is centred at zero."""
        raise ValueError(f"a {self.family} prior has no mode that could be moved")

    def _observations(self, x: ArrayLike, s: ArrayLike) -> tuple[Array, Array]:
        x, s = as_observations(x, s)
        if not np.isfinite(s).all():
            first = int(np.flatnonzero(~np.isfinite(s))[0])
            raise ValueError(
                f"s is infinite at position {first}: a {self.family} prior needs every entry "
                "observed; interpolate it and give it a large s, or use another prior"
            )
        return x, s
