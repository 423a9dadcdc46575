"""Convex penalties, and non-negativity with any penalty on top."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array
from ebcd.penalties._penalty import AbstractPenalty


def soft_threshold(v: ArrayLike, threshold: ArrayLike) -> Array:
    """Move `v` towards zero by `threshold`, no further than zero."""
    v = np.asarray(v, dtype=np.float64)
    threshold = np.asarray(threshold, dtype=np.float64)
    nearest = np.asarray(np.minimum(v, threshold))  # in place from here: large arrays cost time
    np.maximum(nearest, -threshold, out=nearest)
    return np.asarray(np.subtract(v, nearest, out=nearest))


@dataclass(frozen=True)
class NoPenalty(AbstractPenalty):
    """No penalty: ``value(v) = 0``.

    Examples
    --------
    >>> from ebcd.penalties import NoPenalty
    >>> NoPenalty().prox([-3.0, 0.5, 2.0], 1.0)
    array([-3. ,  0.5,  2. ])
    """

    name: ClassVar[str] = "none"
    homogeneous: ClassVar[bool] = True

    def value(self, v: ArrayLike) -> Array:
        """Return zeros."""
        return np.zeros(np.shape(v))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Return a copy of `v`."""
        shape = np.broadcast_shapes(np.shape(v), np.shape(step))
        return np.array(np.broadcast_to(np.asarray(v, dtype=np.float64), shape))


@dataclass(frozen=True)
class L1(AbstractPenalty):
    """Sum of magnitudes: ``value(v) = |v|``; soft thresholding.

    Examples
    --------
    >>> from ebcd.penalties import L1
    >>> L1().prox([-3.0, 0.5, 2.0], 1.0)
    array([-2.,  0.,  1.])
    """

    name: ClassVar[str] = "l1"
    homogeneous: ClassVar[bool] = True

    def value(self, v: ArrayLike) -> Array:
        """Return magnitudes."""
        return np.abs(np.asarray(v, dtype=np.float64))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Apply the soft threshold."""
        return soft_threshold(v, step)


@dataclass(frozen=True)
class ElasticNet(AbstractPenalty):
    """Magnitudes and squares: ``value(v) = r |v| + (1 - r) v**2 / 2`` (Zou and Hastie 2005).

    Parameters
    ----------
    l1_ratio : float, default 0.5
        The share ``r`` of the magnitudes, between 0 and 1, as in scikit-learn.

    Examples
    --------
    >>> from ebcd.penalties import ElasticNet
    >>> ElasticNet(l1_ratio=0.5).prox([-3.0, 0.5, 2.0], 2.0)
    array([-1. ,  0. ,  0.5])
    """

    l1_ratio: float = 0.5
    name: ClassVar[str] = "elastic_net"

    def __post_init__(self) -> None:
        if not 0 <= self.l1_ratio <= 1:
            raise ValueError(f"l1_ratio must lie between 0 and 1, got {self.l1_ratio}")

    def value(self, v: ArrayLike) -> Array:
        """Return weighted magnitudes and squares."""
        size = np.abs(np.asarray(v, dtype=np.float64))
        return np.asarray(size * (self.l1_ratio + 0.5 * (1 - self.l1_ratio) * size))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Apply the soft threshold, then divide."""
        step = np.asarray(step, dtype=np.float64)
        return soft_threshold(v, step * self.l1_ratio) / (1 + step * (1 - self.l1_ratio))


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

    def value(self, v: ArrayLike) -> Array:
        """Return infinity for negative entries."""
        v = np.asarray(v, dtype=np.float64)
        return np.where(v < 0, np.inf, self.penalty.value(v))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Apply the other penalty's proximal map; negative entries become zero."""
        return self.penalty.prox(np.maximum(np.asarray(v, dtype=np.float64), 0.0), step)

    def threshold(self, alpha: ArrayLike) -> Array:
        """Return the threshold of the other penalty."""
        return self.penalty.threshold(alpha)
