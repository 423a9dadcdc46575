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
from ebcd.fitting._rotation import inverse_root, rotate

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
        self._factor = factor
        width = max(1, _BLOCK // max(1, len(factor)))
        self._parts = [slice(i, i + width) for i in range(0, factor.shape[1], width)]

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
        """Give a step from coordinates."""
        reach, accuracy, most, enough = limits
        residual = gradient @ self._factor.T
        curvature = symmetric(own @ residual.T)
        values, axes = np.linalg.eigh(curvature)
        safe = np.maximum(values, SMALLEST_CURVATURE * values[-1])
        inverse = (axes / safe) @ axes.T
        pairs = 2 / (safe[:, None] + safe)

        def precondition(d: Array) -> Array:
            """Divide by the curvature that the plain iteration assumes, as in `newton_step`."""
            along = d @ own.T
            turn = axes @ (axes.T @ (0.5 * (along - along.T)) @ axes * pairs) @ axes.T
            return np.asarray(inverse @ d + (turn - inverse @ along) @ own)

        residual -= curvature @ own
        plain = precondition(residual)
        first = slope = float(np.vdot(residual, plain))
        step = np.zeros(own.shape)
        if not slope > max(FLAT**2 * values.sum(), enough):
            return Step(step, step, 0.0)
        direction = plain
        for _ in range(most):
            straight = curvature @ direction
            image = straight - self._bent(direction, bend)
            image -= symmetric(own @ image.T) @ own
            curved = float(np.vdot(direction, image))
            share = slope / curved if curved else np.inf
            flat = SMALLEST_CURVATURE * float(np.vdot(direction, straight))
            if not 0 < share < np.inf or curved < flat:
                share = np.inf
            border = to_border(step, step, direction, direction, reach)
            step = step + min(share, border) * direction
            residual = residual - min(share, border) * image
            plain = precondition(residual)
            if share >= border:
                break
            old, slope = slope, float(np.vdot(residual, plain))
            if slope <= accuracy**2 * first:
                break
            direction = plain + slope / old * direction
        step += plain  # a plain step from here costs nothing
        length = math.sqrt(np.vdot(step, step))
        if length > reach:
            step *= reach / length
        return Step(step, step, min(length, reach))

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
