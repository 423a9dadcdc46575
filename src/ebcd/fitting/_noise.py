"""Noise models: how precisions follow from residuals, and what they contribute to the ELBO."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

# The ELBO is unbounded when components fit the data exactly, so the noise has a floor.
_FLOOR = 1e-10  # of the mean variance
_PSEUDO_SHARE = 0.2  # of the number of samples


class AbstractNoise(ABC):
    """A noise model for one data set."""

    differs = False  # between features

    def __init__(self, covariance: AbstractCovariance) -> None:
        self.n_samples = covariance.n_samples
        self.variances = covariance.diagonal()
        mean = float(self.variances.mean())
        self.floor: Array = np.asarray(_FLOOR * mean if mean > 0 else 1.0)

    @abstractmethod
    def precision(self, residual: Array) -> Array:
        """Precisions that maximise the ELBO, given mean squared residuals of the features."""

    @abstractmethod
    def value(self, precision: Array, residual: Array) -> float:
        """Part of the ELBO that depends on precisions and residuals directly."""

    def at_floor(self, precision: Array) -> bool:
        """Tell whether the noise variance has reached its floor."""
        varies = self.variances > self.floor if precision.ndim else True
        return bool(((1 / precision <= 1.01 * self.floor) & varies).any())


class ConstantNoise(AbstractNoise):
    """One noise variance for all features."""

    def precision(self, residual: Array) -> Array:
        """Inverse of the mean residual."""
        return np.asarray(1 / max(float(residual.sum()) / residual.size, float(self.floor)))

    def value(self, precision: Array, residual: Array) -> float:
        """Gaussian log-likelihood of the residuals."""
        n, tau = self.n_samples, float(precision)
        per_feature = math.log(tau / (2 * math.pi)) - tau * float(residual.sum()) / residual.size
        return 0.5 * n * residual.size * per_feature


class PerFeatureNoise(AbstractNoise):
    """A noise variance for each feature, held back from fitting single features exactly.

    Without a bound a component copies one feature and the precision of that runs to infinity. Each
    feature counts as seen in a further fifth of the samples as pure noise of its own whole
    variance; this is a gamma prior on each precision, it does not depend on the units of the
    features, and the ELBO includes it. The noise is at least a sixth of a feature's variance.
    """

    differs = True

    def __init__(self, covariance: AbstractCovariance) -> None:
        super().__init__(covariance)
        self._pseudo = _PSEUDO_SHARE * self.n_samples
        constant = self.variances <= 0
        self.floor = np.where(constant, self.floor, _FLOOR * self.variances)
        self._prior = np.maximum(self.variances, self.floor)

    def precision(self, residual: Array) -> Array:
        """Inverse of the residual averaged with the pseudo-sample."""
        n = self.n_samples
        pooled = (n * residual + self._pseudo * self._prior) / (n + self._pseudo)
        return np.asarray(1 / np.maximum(pooled, self.floor))

    def value(self, precision: Array, residual: Array) -> float:
        """Gaussian log-likelihood of the residuals and log prior of the precisions."""
        n = self.n_samples
        data = n * (np.log(precision / (2 * np.pi)) - precision * residual)
        ratio = precision * self._prior  # without units
        prior = self._pseudo * (np.log(ratio) - ratio)
        return float(0.5 * (data.sum() + prior.sum()))


NOISES: dict[str, type[AbstractNoise]] = {
    "constant": ConstantNoise,
    "per_feature": PerFeatureNoise,
}
