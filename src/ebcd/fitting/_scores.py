"""How a loop keeps the scores ``Z``, and Newton's method in them.

In general scores are known by their weights only, ``Z = X W``. If ``S = F'F`` with few rows ``F``
in memory, coordinates ``C`` with ``B = F'C`` say the same in far fewer numbers: they are
orthonormal, ``C'C = I``, and the model (1) of `newton_step` becomes, with ``E`` for ``F D``,

    (1)  <F G, E> - 1/2 <E, A E>,   A E = P(E Lambda - F (H o F'E)),   Lambda = sym(C' F G),
    (2)  P(E) = E - C sym(C' E),

so that all but the products with ``F`` costs next to nothing.

Matrices are stored as rows, k x r and k x p.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._newton import FLAT, SMALLEST_CURVATURE, newton_step, symmetric, to_border
from ebcd.fitting._rotation import eigenpairs, inverse_root, rotate

_BLOCK = 65_536  # numbers of F that are worked on at once


class Limits(NamedTuple):
    """How far a step may go, and how well it is found; see `newton_step`."""

    reach: float
    accuracy: float
    most: int
    enough: float = 0.0


class Step(NamedTuple):
    """A step of the scores, in coordinates.

    The inner product with ``dual`` is that of the changes of the scores.
    """

    own: Array
    dual: Array
    length: float

    def inner(self, other: Step) -> float:
        """Inner product of the changes of the scores."""
        return float(np.vdot(self.dual, other.own))


class _Model(NamedTuple):
    """What (1) is made of, with `own` turned to the axes of ``Lambda``."""

    factor: Array
    bend: Array
    own: Array
    axes: Array
    values: Array
    safe: Array


class AbstractScores(ABC):
    """Scores in coordinates of some kind."""

    @abstractmethod
    def nearest(self, directions: Array, product: Array | None = None) -> tuple[Array, Array]:
        """Give coordinates of the scores next to ``X directions'``, and ``B``.

        `product` is ``directions S``, if it is known.
        """

    @abstractmethod
    def at(self, own: Array) -> tuple[Array, Array]:
        """Give coordinates of the scores next to those with coordinates `own`, and ``B``."""

    @abstractmethod
    def newton(self, own: Array, b: Array, gradient: Array, bend: Array, limits: Limits) -> Step:
        """Give a step from coordinates `own`; see `newton_step` for the rest."""

    @abstractmethod
    def moved(self, own: Array, b: Array, step: Step, factor: float) -> tuple[Array, Array]:
        """Give coordinates and ``B`` after a multiple of a step."""


class WeightScores(AbstractScores):
    """Scores by their weights."""

    def __init__(self, covariance: AbstractCovariance) -> None:
        self._covariance = covariance

    def nearest(self, directions: Array, product: Array | None = None) -> tuple[Array, Array]:
        """Give weights of the scores next to ``X directions'``, and ``B``."""
        return rotate(self._covariance, directions, product)

    def at(self, own: Array) -> tuple[Array, Array]:
        """Give weights of the scores next to those with weights `own`, and ``B``."""
        return rotate(self._covariance, own)

    def newton(self, own: Array, b: Array, gradient: Array, bend: Array, limits: Limits) -> Step:
        """Give a step from weights."""
        step = newton_step(self._covariance, own, b, gradient, bend, **limits._asdict())
        return Step(*step)

    def moved(self, own: Array, b: Array, step: Step, factor: float) -> tuple[Array, Array]:
        """Give weights and ``B`` after a multiple of a step."""
        return rotate(self._covariance, own + factor * step.own, b + factor * step.dual)


class FactorScores(AbstractScores):
    """Scores by coordinates, where ``S = F'F``."""

    def __init__(self, factor: Array) -> None:
        width = max(1, _BLOCK // max(1, len(factor)))
        self._parts = [slice(i, i + width) for i in range(0, factor.shape[1], width)]
        self._factor = factor

    def nearest(self, directions: Array, product: Array | None = None) -> tuple[Array, Array]:
        """Give coordinates of the scores next to ``X directions'``, and ``B``."""
        return self.at(directions @ self._factor.T)

    def at(self, own: Array) -> tuple[Array, Array]:
        """Give coordinates next to `own` that are orthonormal, and ``B``."""
        own = inverse_root(own @ own.T) @ own
        return own, own @ self._factor

    def moved(self, own: Array, b: Array, step: Step, factor: float) -> tuple[Array, Array]:
        """Give coordinates and ``B`` after a multiple of a step.

        ``B`` is changed, not made anew: it may know a little more than the coordinates do.
        """
        change = factor * step.own
        own = own + change
        root = inverse_root(own @ own.T)
        change = change @ self._factor
        change += b
        return root @ own, root @ change

    def newton(self, own: Array, b: Array, gradient: Array, bend: Array, limits: Limits) -> Step:
        """Give a step from coordinates.

        Components are turned to the axes of the curvature that the plain iteration assumes.
        """
        residual = gradient @ self._factor.T
        curvature = symmetric(own @ residual.T)
        values, axes = eigenpairs(curvature)
        safe = np.maximum(values, SMALLEST_CURVATURE * values[-1])
        residual = axes.T @ (residual - curvature @ own)
        flat = max(FLAT**2 * float(values.sum()), limits.enough)
        step = np.zeros(own.shape)
        model = _Model(self._factor, bend, axes.T @ own, axes, values, safe)
        if not self._conjugate(model, residual, limits, flat, step):
            return Step(step, step, 0.0)
        step = axes @ step
        length = math.sqrt(np.vdot(step, step))
        if length > limits.reach:
            step *= limits.reach / length
        return Step(step, step, min(length, limits.reach))

    def _conjugate(
        self, model: _Model, residual: Array, limits: Limits, flat: float, step: Array
    ) -> bool:
        """Conjugate gradients in `step`; tell whether there is anything to do."""
        _, bend, own, axes, values, safe = model
        inverse, pairs, straight = 1 / safe[:, None], 1 / (safe[:, None] + safe), values[:, None]

        def precondition(d: Array) -> Array:
            """Divide by the curvature that the plain iteration assumes, as in `newton_step`."""
            along = d @ own.T
            return np.asarray(inverse * d + ((along - along.T) * pairs - inverse * along) @ own)

        plain = precondition(residual)
        first = slope = float(np.vdot(residual, plain))
        if not slope > flat:
            return False
        direction = plain
        for _ in range(limits.most):
            image = straight * direction
            least = SMALLEST_CURVATURE * float(np.vdot(direction, image))
            image -= axes.T @ self._bent(axes @ direction, bend)
            image -= symmetric(own @ image.T) @ own
            curved = float(np.vdot(direction, image))
            share = slope / curved if curved > 0 and curved >= least else np.inf
            border = to_border(step, step, direction, direction, limits.reach)
            step += min(share, border) * direction
            residual = residual - min(share, border) * image
            plain = precondition(residual)
            if share >= border:
                break
            old, slope = slope, float(np.vdot(residual, plain))
            if slope <= limits.accuracy**2 * first:
                break
            direction = plain + slope / old * direction
        step += plain  # a plain step from here costs nothing
        return True

    def _bent(self, direction: Array, bend: Array) -> Array:
        """``F (H o F'E)``, in parts that stay in fast memory."""
        total = np.zeros(direction.shape)
        for part in self._parts:
            factor = self._factor[:, part]
            images = direction @ factor
            images *= bend[:, part]
            total += images @ factor.T
        return total


def scores_of(covariance: AbstractCovariance) -> AbstractScores:
    """Choose how to keep scores."""
    factor = covariance.factor
    return WeightScores(covariance) if factor is None else FactorScores(factor)
