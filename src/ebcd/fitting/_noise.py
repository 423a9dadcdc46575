"""Noise models: how precisions follow from residuals, and what they contribute to the ELBO."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ebcd._numerics import Array

# The ELBO is unbounded when components fit the data exactly, so the noise has a floor.
FLOOR = 1e-10  # of the mean variance
_PSEUDO_SHARE = 0.2  # of the number of samples


class AbstractNoise(ABC):
    """A noise model.

    Parameters
    ----------
    n_samples : int, or array of length p
        How often features were observed: all as often, or each so many times.
    variances : array of length p
        Whole variances of the features.
    """

    differs = False  # between features

    def __init__(self, n_samples: Any, variances: Array) -> None:
        self.n_samples, self.variances = n_samples, variances
        mean = float(variances.mean())
        self.floor: Array = np.asarray(FLOOR * (mean or 1.0))

    @abstractmethod
    def precision(self, residual: Array) -> Array:
        """Return the precisions that maximize the ELBO, given mean squared residuals (... x p)."""

    @abstractmethod
    def value(self, precision: Array, residual: Array) -> Array:
        """Return the part of the ELBO that depends on precisions and residuals directly."""

    def at_floor(self, precision: Array) -> bool:
        """Whether the noise variance has reached its floor."""
        varies = self.variances > self.floor if self.differs else True
        return bool(((1 / precision <= 1.01 * self.floor) & varies).any())


class ConstantNoise(AbstractNoise):
    """One noise variance for all features."""

    def precision(self, residual: Array) -> Array:
        """Return the inverse of the mean residual (... x 1)."""
        return np.asarray(1 / np.maximum(self._mean(residual)[..., None], self.floor))

    def value(self, precision: Array, residual: Array) -> Array:
        """Return the Gaussian log-likelihood of the residuals."""
        tau, n = precision[..., 0], self.n_samples
        entries = n * residual.shape[-1] if np.ndim(n) == 0 else n.sum()
        return np.asarray(
            0.5 * entries * (np.log(tau / (2 * math.pi)) - tau * self._mean(residual))
        )

    def _mean(self, residual: Array) -> Array:
        """Return the mean over all entries that were observed."""
        if np.ndim(self.n_samples) == 0:
            return np.asarray(residual.sum(axis=-1) / residual.shape[-1])
        return np.asarray(residual @ self.n_samples / self.n_samples.sum())


class PerFeatureNoise(AbstractNoise):
    """A noise variance for each feature, held back from fitting single features exactly.

    Without a bound a component copies one feature and the precision of that runs to infinity. Each
    feature counts as seen in a further fifth of the samples as pure noise of its own whole
    variance; this is a gamma prior on each precision, it does not depend on the units of the
    features, and the ELBO includes it. The noise is at least a sixth of a feature's variance.
    """

    differs = True

    def __init__(self, n_samples: Any, variances: Array) -> None:
        super().__init__(n_samples, variances)
        self._pseudo = _PSEUDO_SHARE * self.n_samples
        constant = self.variances <= 0
        self.floor = np.where(constant, self.floor, FLOOR * self.variances)
        self._prior = np.maximum(self.variances, self.floor)

    def precision(self, residual: Array) -> Array:
        """Return the inverse of the residual averaged with the pseudo-sample (... x p)."""
        n = self.n_samples
        pooled = (n * residual + self._pseudo * self._prior) / (n + self._pseudo)
        return np.asarray(1 / np.maximum(pooled, self.floor))

    def value(self, precision: Array, residual: Array) -> Array:
        """Return the log-likelihood of the residuals plus the log prior of the precisions."""
        n = self.n_samples
        data = n * (np.log(precision / (2 * np.pi)) - precision * residual)
        ratio = precision * self._prior  # without units
        prior = self._pseudo * (np.log(ratio) - ratio)
        return np.asarray(0.5 * (data + prior).sum(axis=-1))


NOISES: dict[str, type[AbstractNoise]] = {
    "constant": ConstantNoise,
    "per_feature": PerFeatureNoise,
}
