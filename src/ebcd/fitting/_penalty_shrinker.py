"""Penalised PCA as a shrinkage and a noise model of the one loop.

On the paper's scale (``Z'Z = I``) the criterion is ``||X - Z L'||^2 / 2 + sum_k P(l_k; alpha_k)``.
The loop has ``Z'Z = n I``, hence ``L / sqrt(n)``, and data in working units, hence ``L / unit``.
In those units the criterion, over the square of the unit, is

    n (tr S - 2 <B, L> + ||L||^2) / 2 + sum_k P(sqrt(n) unit l_k; alpha_k) / unit^2,

so that the noise precision is one, and the loadings are the proximal map of ``sqrt(n) unit B``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._noise import AbstractNoise
from ebcd.fitting._shrinkers import AbstractShrinker, Shrunk
from ebcd.penalties import AbstractPenalty


class Strength:
    """A penalty of given strengths, on arguments that are multiples of some length.

    Parameters
    ----------
    penalty : AbstractPenalty
    alpha : array
        Strengths; of a shape that broadcasts to that of the arguments, the last length being 1.
    length : array or float
        What an argument of one stands for.
    """

    def __init__(self, penalty: AbstractPenalty, alpha: Array, length: Array | float) -> None:
        # any reach serves a homogeneous penalty: one that saves multiplications
        reach = np.asarray(length) if penalty.homogeneous else penalty.reach(alpha)
        self._penalty = penalty
        self._step = alpha / reach
        self._factor = np.asarray(length / reach)
        self._plain = bool((self._factor == 1).all())
        self._weight = np.squeeze(self._step / self._factor**2, axis=-1)

    def prox(self, v: Array) -> Array:
        """Minimise ``(u - v)^2 / 2`` plus the penalty, both in units of the squared length."""
        if self._plain:
            return self._penalty.prox(v, self._step)
        return self._penalty.prox(v * self._factor, self._step) / self._factor

    def value(self, v: Array) -> Array:
        """Penalty of each row of `v`, which must be allowed, in units of the squared length."""
        values = self._penalty.value(v if self._plain else v * self._factor)
        return np.asarray(values.sum(axis=-1) * self._weight)

    def slope(self, v: Array) -> Array:
        """Differentiate the proximal map."""
        return self._penalty.slope(v if self._plain else v * self._factor, self._step)


class PenaltyShrinker(AbstractShrinker):
    """Proximal map of a penalty.

    Parameters
    ----------
    penalty : AbstractPenalty
    alpha : array
        Strength for each component of the start; the last serves all further ones.
    covariance : AbstractCovariance
        What is decomposed; its unit and number of samples matter here.
    """

    def __init__(
        self, penalty: AbstractPenalty, alpha: Array, covariance: AbstractCovariance
    ) -> None:
        self._penalty, self._alpha = penalty, alpha
        self._root = float(np.sqrt(covariance.n_samples))
        self._unit = covariance.unit
        self._strengths: dict[tuple[int, ...], Strength] = {}

    def _strength(self, components: Sequence[int]) -> Strength:
        key = tuple(min(k, len(self._alpha) - 1) for k in components)
        if key not in self._strengths:
            alpha = self._alpha[list(key)][:, None]
            self._strengths[key] = Strength(self._penalty, alpha, self._unit)
        return self._strengths[key]

    def oriented(self, loadings: Array, first: int = 0) -> Array:
        """Turn rows to the side that is allowed."""
        if not self._penalty.one_sided:
            return loadings
        leans = np.sign((loadings**3).sum(axis=1))
        return np.where((leans < 0)[:, None], -loadings, loadings)

    def shrink(
        self, b: Array, noise: Array, components: Sequence[int], previous: Sequence[Any] | None
    ) -> Shrunk:
        """Apply the proximal map to each row."""
        strength = self._strength(components)
        argument = self._root * b
        loadings = strength.prox(argument)
        objective = -float(strength.value(loadings).sum())
        curvature = strength.slope(argument) / self._root**2
        nothing = np.zeros_like(b)
        return Shrunk(loadings / self._root, nothing, objective, [None] * len(b), curvature)


class FixedNoise(AbstractNoise):
    """Noise of precision one: the criterion is that of least squares."""

    def precision(self, residual: Array) -> Array:
        """One."""
        return np.asarray(1.0)

    def value(self, precision: Array, residual: Array) -> float:
        """Minus half the sum of squared residuals."""
        return -0.5 * self.n_samples * float(residual.sum())

    def at_floor(self, precision: Array) -> bool:
        """Tell that it never is."""
        return False
