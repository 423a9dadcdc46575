"""What a kernel is: a distribution whose convolution with normal noise has a closed form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from ebcd._numerics import Array, log_normal_density


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
        return self.log_marginal(x, np.ones(())) - log_normal_density(x - end)

    @abstractmethod
    def moments(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior mean and variance of ``theta``."""

    @abstractmethod
    def tails(self, x: Array, s: Array) -> tuple[Array, Array]:
        """Posterior probabilities of ``theta <= 0`` and of ``theta >= 0``."""

    @abstractmethod
    def draw(self, x: Array, s: Array, rng: np.random.Generator) -> Array:
        """One posterior draw of ``theta``; all arguments and parameters have one shape."""

    @abstractmethod
    def prior_moments(self) -> tuple[Array, Array]:
        """Mean and variance before seeing data."""

    @abstractmethod
    def prior_tails(self) -> tuple[Array, Array]:
        """Probabilities of ``theta <= 0`` and of ``theta >= 0`` before seeing data."""

    @abstractmethod
    def prior_draw(self, rng: np.random.Generator) -> Array:
        """One prior draw for every component."""

    @abstractmethod
    def hull(self) -> tuple[float, float]:
        """Smallest interval that holds the support of every component."""

    @abstractmethod
    def mirrored(self) -> Self:
        """Give the distributions of ``-theta``."""

    @abstractmethod
    def labels(self) -> list[str]:
        """Say in words what each component is."""

    @property
    def size(self) -> int:
        """Number of components."""
        return int(np.size(self.location))

    def size_of_parameters(self) -> float:
        """Give the largest parameter, without regard to its sign."""
        return max(float(np.abs(getattr(self, f.name)).max()) for f in fields(self))

    def take(self, index: np.ndarray) -> Self:
        """Pick components by number."""
        return replace(self, **{f.name: getattr(self, f.name)[index] for f in fields(self)})

    def scaled(self, factor: float) -> Self:
        """Give the distributions of ``factor * theta``."""
        return replace(self, **{f.name: getattr(self, f.name) * factor for f in fields(self)})
