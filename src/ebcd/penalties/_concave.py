"""Penalties that leave large entries alone; not convex, so that proximal maps may jump.

SCAD and MCP are written for thresholds of one. A penalty of strength ``alpha`` is the usual one
with ``lambda = alpha``, which is ``alpha**2 value(v / alpha)``: slope ``alpha`` at zero, constant
from ``gamma alpha`` on.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array
from ebcd.penalties._penalty import AbstractPenalty


@dataclass(frozen=True)
class L0(AbstractPenalty):
    """Number of entries that are not zero: ``value(v) = 1 if v != 0 else 0``; hard thresholding.

    Examples
    --------
    >>> from ebcd.penalties import L0
    >>> L0().prox([-3.0, 0.5, 2.0], 0.5)
    array([-3.,  0.,  2.])
    """

    name: ClassVar[str] = "l0"

    def value(self, v: ArrayLike) -> Array:
        """Return one for every entry that is not zero."""
        return np.asarray(np.asarray(v) != 0, dtype=np.float64)

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Keep entries whose square is above twice the step."""
        v = np.asarray(v, dtype=np.float64)
        return np.where(np.abs(v) > np.sqrt(2 * np.asarray(step, dtype=np.float64)), v, 0.0)


class _Flattening(AbstractPenalty):
    """A penalty of slope one at zero that bends to a constant at `gamma`.

    Where the step is large the criterion of the proximal map has several minima in an entry. It is
    piecewise quadratic, so the best of the minima of the pieces is the global one.
    """

    gamma: float

    @abstractmethod
    def _minima(self, size: Array, step: Array) -> list[Array]:
        """Return the minimum of each piece for non-negative arguments, in increasing order."""

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Choose the best of the minima of the pieces."""
        v, step = np.broadcast_arrays(
            np.asarray(v, dtype=np.float64), np.asarray(step, dtype=np.float64)
        )
        size = np.abs(v)
        best, lowest = np.zeros_like(size), np.full_like(size, np.inf)
        for u in self._minima(size, step):
            with np.errstate(over="ignore"):  # to minus infinity, which is the right order
                excess = u * (0.5 * u - size) + step * self.value(u)  # over that of u = 0
            better = excess < lowest
            best, lowest = np.where(better, u, best), np.where(better, excess, lowest)
        return np.asarray(np.copysign(best, v) + 0.0)  # no negative zeros

    def threshold(self, alpha: ArrayLike) -> Array:
        """Return the strength, with which thresholds grow."""
        alpha = np.asarray(alpha, dtype=np.float64)
        return np.where(alpha > 0, alpha, 1.0)


@dataclass(frozen=True)
class SCAD(_Flattening):
    """Smoothly clipped absolute deviation (Fan and Li 2001).

    ``value(v)`` is ``|v|`` up to 1, ``(2 gamma |v| - v**2 - 1) / (2 (gamma - 1))`` up to `gamma`,
    and ``(gamma + 1) / 2`` beyond.

    Parameters
    ----------
    gamma : float, default 3.7
        Where the penalty becomes constant, in units of the threshold; above 1.

    Examples
    --------
    >>> from ebcd.penalties import SCAD
    >>> SCAD().value([0.5, 1.0, 3.7, 10.0])
    array([0.5 , 1.  , 2.35, 2.35])
    """

    gamma: float = 3.7
    name: ClassVar[str] = "scad"

    def __post_init__(self) -> None:
        if not 1 < self.gamma < np.inf:
            raise ValueError(f"gamma of scad must be above 1 and finite, got {self.gamma}")

    def value(self, v: ArrayLike) -> Array:
        """Compute the penalty of each entry."""
        size = np.abs(np.asarray(v, dtype=np.float64))
        bent = np.clip(size, 1.0, self.gamma) - 1.0
        return np.asarray(np.minimum(size, 1.0) + bent - 0.5 * bent**2 / (self.gamma - 1))

    def _minima(self, size: Array, step: Array) -> list[Array]:
        width = self.gamma - 1
        convex = step < width
        divisor = np.where(convex, width - step, 1.0)
        middle = np.clip((width * size - step * self.gamma) / divisor, 1.0, self.gamma)
        return [
            np.clip(size - step, 0.0, 1.0),
            np.where(convex, middle, self.gamma),
            np.maximum(size, self.gamma),
        ]


@dataclass(frozen=True)
class MCP(_Flattening):
    """Minimax concave penalty (Zhang 2010).

    ``value(v)`` is ``|v| - v**2 / (2 gamma)`` up to `gamma`, and ``gamma / 2`` beyond.

    Parameters
    ----------
    gamma : float, default 3.0
        Where the penalty becomes constant, in units of the threshold; above 0.

    Examples
    --------
    >>> from ebcd.penalties import MCP
    >>> MCP().value([0.0, 3.0, 10.0])
    array([0. , 1.5, 1.5])
    """

    gamma: float = 3.0
    name: ClassVar[str] = "mcp"

    def __post_init__(self) -> None:
        if not 0 < self.gamma < np.inf:
            raise ValueError(f"gamma of mcp must be positive and finite, got {self.gamma}")

    def value(self, v: ArrayLike) -> Array:
        """Compute the penalty of each entry."""
        size = np.minimum(np.abs(np.asarray(v, dtype=np.float64)), self.gamma)
        return np.asarray(size * (1 - 0.5 * size / self.gamma))

    def _minima(self, size: Array, step: Array) -> list[Array]:
        convex = step < self.gamma
        divisor = np.where(convex, 1 - step / self.gamma, 1.0)
        inner = np.clip((size - step) / divisor, 0.0, self.gamma)
        return [np.where(convex, inner, 0.0), np.maximum(size, self.gamma)]
