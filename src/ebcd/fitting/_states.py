"""States of one or many starts, and the one iteration that every fit repeats.

The first axis of every array is the start, so that many starts are worked on together; components
are rows. Scores are kept as coordinates in a factor of the covariance: with ``S = F'F``,
orthonormal rows ``C`` (k x r) stand for the scores whose rotated data are ``B = C F``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting._noise import AbstractNoise
from ebcd.fitting._rotation import inverse_root
from ebcd.fitting._shrinkers import AbstractShrinker, Shrunk, Stack


@dataclass(frozen=True)
class AbstractStates(Stack):
    """Where the fits from m starts stand, after the shrinkage and precision steps.

    Attributes
    ----------
    b : array, m x k x p
        What is observed of the loadings: for the paper's scores, the data rotated to them.
    noise : array, m x 1 or k x 1 or p
        Standard deviation of the noise of ``b`` that the shrinkage assumed.
    shrunk : Shrunk
        Posterior moments of the loadings, and the priors.
    precision : array, m x 1 or m x p
        Precision of the data that fits the residuals.
    value : array of length m
        The objective, which is the ELBO for the paper's scores.
    """

    b: Array
    noise: Array
    shrunk: Shrunk
    precision: Array
    value: Array

    def __len__(self) -> int:
        return len(self.value)


@dataclass(frozen=True)
class States(AbstractStates):
    """Fits with the paper's scores, as `coordinates` (m x k x r)."""

    coordinates: Array


@dataclass(frozen=True)
class Model:
    """Everything that stays the same while states climb.

    Attributes
    ----------
    factor : array, r x p
        Rows ``F`` with ``S = F'F``, or an approximation of ``S`` from below.
    diagonal : array of length p
        Diagonal of the whole covariance.
    noise : AbstractNoise
        The noise model.
    shrinker : AbstractShrinker
        The shrinkage step.
    leading : array, optional
        Leading eigenvalues of the covariance, if it took products to find them; their eigenvectors
        times their roots are the first rows of the factor.
    incomplete : IncompleteRows, optional
        The data, if entries are missing; then there is no factor of their covariance.
    """

    factor: Array
    diagonal: Array
    noise: AbstractNoise
    shrinker: AbstractShrinker
    leading: Array | None = None
    incomplete: Any = None

    def of(self, index: Any) -> Model:
        """Return the model of some of the states, which differs if each is a fit to other data."""
        if self.factor.ndim == 2:
            return self
        noise = type(self.noise)(self.noise.n_samples, self.noise.variances[index])
        return replace(self, factor=self.factor[index], diagonal=self.diagonal[index], noise=noise)

    def at(
        self, coordinates: Array, precision: Array, priors: Any = None, slopes: bool = False
    ) -> States:
        """Rotate to the scores nearest to `coordinates`, shrink, update the precision."""
        coordinates = nearest_orthonormal(coordinates)
        return self.shrink(coordinates, self.rotated(coordinates), precision, priors, slopes)

    def rotated(self, coordinates: Array) -> Array:
        """Return ``C F`` (m x k x p) of coordinates (m x k x r)."""
        return _times(coordinates, self.factor)

    def projected(self, rows: Array) -> Array:
        """Return coordinates (m x k x r) of rows (m x k x p): ``rows F'``."""
        return _times(rows, self.factor.swapaxes(-1, -2))

    def shrink(
        self, coordinates: Array, b: Array, precision: Array, priors: Any, slopes: bool = False
    ) -> States:
        """Do the shrinkage and precision steps at given scores; cold if there are no priors."""
        noise = np.sqrt(1 / (self.noise.n_samples * precision))[:, None]
        priors = self.shrinker.first(b, noise) if priors is None else priors
        shrunk = self.shrinker.shrink(b, noise, priors, slopes)
        residual = np.maximum(self.diagonal + shrunk.fit, 0.0)
        new = self.noise.precision(residual)
        value = self.noise.value(new, residual) + shrunk.objective
        return States(b, noise, shrunk, new, value, coordinates)

    def nearest(self, directions: Array) -> Array:
        """Return coordinates of the scores ``X directions'``, which are not orthonormal yet."""
        return np.asarray(directions @ self.factor.T)

    def start(self, coordinates: Array, priors: Any = None) -> States:
        """Do the first iteration, with the precision of what the scores leave unexplained."""
        coordinates = nearest_orthonormal(coordinates)
        b = coordinates @ self.factor
        signs = self.shrinker.oriented(b)
        coordinates, b = signs * coordinates, signs * b
        unexplained = np.maximum(self.diagonal - (b * b).sum(axis=1), 0.0)
        return self.shrink(coordinates, b, self.noise.precision(unexplained), priors)


def _times(rows: Array, factor: Array) -> Array:
    """Multiply rows of states by the factor, by one product if all share it."""
    if factor.ndim == 3:
        return np.asarray(rows @ factor)
    m, k = rows.shape[:2]
    return (rows.reshape(m * k, -1) @ factor).reshape(m, k, -1)


def together(parts: list[States], places: Array | None = None) -> States:
    """Join states, the best first, or in the order of their `places`."""
    joined = States.together(parts)
    if len(joined) == 1:
        return joined
    return joined.take(np.argsort(-joined.value if places is None else places, kind="stable"))


def nearest_orthonormal(coordinates: Array) -> Array:
    """Return the orthonormal rows nearest to given ones (polar factor)."""
    gram = coordinates @ coordinates.swapaxes(-1, -2)
    return np.asarray(inverse_root(gram) @ coordinates)
