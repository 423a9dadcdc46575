"""Fitted priors: what a normal-means fit returns, and what can be done with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from ebcd._numerics import Array
from ebcd._parameters import N_DRAWS, as_generator
from ebcd.priors._validation import as_observations, as_values


@dataclass(frozen=True)
class Posterior:
    """Posterior summaries, one per observation.

    Attributes
    ----------
    mean, sd : ndarray
        Posterior mean and standard deviation.
    lfsr : ndarray
        Local false sign rate: the probability that the sign of `mean`, or a claim that the
        value is not zero, is wrong. It is ``P(theta = 0) + min(P(theta < 0), P(theta > 0))``.
    """

    mean: Array
    sd: Array
    lfsr: Array


class FittedPrior(ABC):
    """A prior with all its parameters known.

    Obtained from `ebcd.ebnm` (attribute ``prior`` of the result), `make_prior` or `from_dict`.

    Attributes
    ----------
    family : str
        Name of the family, a key of `PRIORS`.
    parameters : dict
        The parameters, enough to build the prior again with `make_prior`.
    """

    family: str
    parameters: dict[str, Any]

    @abstractmethod
    def describe(self) -> str:
        """Say in words what the prior is."""

    @abstractmethod
    def log_likelihood(self, x: ArrayLike, s: ArrayLike = 1.0) -> float:
        """Log-likelihood of ``x`` under the prior plus normal noise of sd `s`."""

    @abstractmethod
    def posterior(self, x: ArrayLike, s: ArrayLike = 1.0) -> Posterior:
        """Posterior mean, sd and local false sign rate of every entry."""

    @abstractmethod
    def log_marginal(self, x: Array, s: Array) -> Array:
        """Log marginal density of every entry of the checked arrays `x` and `s`."""

    @abstractmethod
    def posterior_moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior mean and variance of checked arrays, without the sign rates."""

    @abstractmethod
    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior probabilities of ``theta <= 0`` and of ``theta >= 0`` of checked arrays."""

    @abstractmethod
    def shrink(self, x: ArrayLike, s: ArrayLike = 1.0) -> Array:
        """Posterior mean: the proximal operator of `penalty`."""

    @abstractmethod
    def penalty(self, values: ArrayLike, s: float = 1.0) -> Array:
        """Penalty that the prior induces, in nats."""

    @abstractmethod
    def sample(self, n: int, random_state: Any = None) -> Array:
        """Draw `n` values from the prior."""

    @abstractmethod
    def sample_posterior(
        self, x: ArrayLike, s: ArrayLike = 1.0, n: int = 1, random_state: Any = None
    ) -> Array:
        """Draw `n` times from the posterior of every entry; the result is n x p."""

    @abstractmethod
    def rescaled(self, factor: float) -> FittedPrior:
        """Return the prior of ``factor * theta``, ``factor > 0``."""

    @abstractmethod
    def mirrored(self) -> FittedPrior:
        """Return the prior of ``-theta``; one-sided families have none."""

    @abstractmethod
    def shifted(self, offset: float) -> FittedPrior:
        """Return the prior of ``theta + offset``."""

    def to_dict(self) -> dict[str, Any]:
        """Family and parameters as plain Python values, ready for JSON."""
        plain = {
            key: value.tolist() if isinstance(value, np.ndarray) else value
            for key, value in self.parameters.items()
        }
        return {"family": self.family, "parameters": plain}

    @staticmethod
    def from_dict(description: Mapping[str, Any]) -> FittedPrior:
        """Make a prior from the dictionary that `to_dict` gave.

        Examples
        --------
        >>> from ebcd.priors import FittedPrior, make_prior
        >>> prior = make_prior("normal", scale=2.0)
        >>> FittedPrior.from_dict(prior.to_dict()) == prior
        True
        """
        from ebcd.priors._registry import prior_from_dict  # the registry is built on this module

        return prior_from_dict(description)

    def __repr__(self) -> str:
        return f"<{self.family} prior: {self.describe()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FittedPrior) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


class FlatPrior(FittedPrior):
    """The improper uniform prior on the real line: no shrinkage."""

    def __init__(self) -> None:
        self.family = "flat"
        self.parameters = {}

    def describe(self) -> str:
        """Say in words what the prior is."""
        return "no shrinkage"

    def log_likelihood(self, x: ArrayLike, s: ArrayLike = 1.0) -> float:
        """0 by definition: an improper prior has no marginal likelihood."""
        as_observations(x, s)
        return 0.0

    def log_marginal(self, x: Array, s: Array) -> Array:
        """0 by definition."""
        return np.zeros_like(x)

    def posterior_moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Mean `x` and variance ``s^2``."""
        return x, s**2 + np.zeros_like(x)

    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior probabilities of ``theta <= 0`` and of ``theta >= 0``."""
        return special.ndtr(-x / s), special.ndtr(x / s)

    def posterior(self, x: ArrayLike, s: ArrayLike = 1.0) -> Posterior:
        """Posterior ``N(x, s^2)``."""
        x, s = self._observed(x, s)
        return Posterior(x.copy(), s + np.zeros_like(x), special.ndtr(-np.abs(x) / s))

    def shrink(self, x: ArrayLike, s: ArrayLike = 1.0) -> Array:
        """Posterior mean: `x` itself."""
        return self._observed(x, s)[0].copy()

    def penalty(self, values: ArrayLike, s: float = 1.0) -> Array:
        """Zero everywhere."""
        return np.zeros_like(as_values(values, s)[0])

    def sample(self, n: int, random_state: Any = None) -> Array:
        """Raise: an improper prior cannot be sampled."""
        raise ValueError("the flat prior is improper and cannot be sampled")

    def sample_posterior(
        self, x: ArrayLike, s: ArrayLike = 1.0, n: int = 1, random_state: Any = None
    ) -> Array:
        """Draw `n` times from ``N(x, s^2)``; the result is n x p."""
        N_DRAWS.check("n", n)
        x, s = self._observed(x, s)
        return x + s * as_generator(random_state).standard_normal((n, *x.shape))

    def rescaled(self, factor: float) -> FittedPrior:
        """Return the same prior: it has no scale."""
        return self

    def mirrored(self) -> FittedPrior:
        """Return the same prior: it is symmetric."""
        return self

    def shifted(self, offset: float) -> FittedPrior:
        """Return the same prior: it has no centre."""
        return self

    @staticmethod
    def _observed(x: ArrayLike, s: ArrayLike) -> tuple[Array, Array]:
        x, s = as_observations(x, s)
        if not np.isfinite(s).all():
            first = int(np.flatnonzero(~np.isfinite(s))[0])
            raise ValueError(
                f"s is infinite at position {first}: an entry that was not observed has no "
                "posterior under the flat prior; use a proper prior or leave the entry out"
            )
        return x, s
