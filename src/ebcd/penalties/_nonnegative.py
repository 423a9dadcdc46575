"""Loadings that may not be negative, with any penalty on top."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array
from ebcd.penalties._convex import NoPenalty
from ebcd.penalties._penalty import AbstractPenalty


@dataclass(frozen=True)
class NonNegative(AbstractPenalty):
    """No negative entries: ``value(v)`` is infinite for ``v < 0``, else that of another penalty.

    Parameters
    ----------
    penalty : AbstractPenalty, default no penalty
        Penalty of the entries that are not negative; it must not fall between zero and infinity
        and be the same for ``v`` and ``-v``.

    Examples
    --------
    >>> from ebcd.penalties import L1, NonNegative
    >>> NonNegative(L1()).prox([-3.0, 0.5, 2.0], 1.0)
    array([0., 0., 1.])
    """

    penalty: AbstractPenalty = field(default_factory=NoPenalty)
    name: ClassVar[str] = "nonnegative"
    one_sided: ClassVar[bool] = True

    @property
    def homogeneous(self) -> bool:
        """Whether the other penalty is."""
        return self.penalty.homogeneous

    def value(self, v: ArrayLike) -> Array:
        """Infinite for negative entries."""
        v = np.asarray(v, dtype=np.float64)
        return np.where(v < 0, np.inf, self.penalty.value(v))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Proximal map of the other penalty; zero for negative entries."""
        return self.penalty.prox(np.maximum(np.asarray(v, dtype=np.float64), 0.0), step)

    def slope(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Slope of the other penalty; zero for negative entries."""
        v = np.asarray(v, dtype=np.float64)
        return np.where(v > 0, self.penalty.slope(v, step), 0.0)

    def reach(self, alpha: ArrayLike) -> Array:
        """Reach of the other penalty."""
        return self.penalty.reach(alpha)
