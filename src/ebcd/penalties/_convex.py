"""Convex penalties."""

from __future__ import annotations

from dataclasses import dataclass
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
    """No penalty: ``value(v) = 0``."""

    name: ClassVar[str] = "none"

    @property
    def homogeneous(self) -> bool:
        """It is."""
        return True

    def value(self, v: ArrayLike) -> Array:
        """Zeros."""
        return np.zeros(np.shape(v))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Give `v` itself."""
        return np.array(np.broadcast_to(np.asarray(v, dtype=np.float64), _shape(v, step)))

    def slope(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Ones."""
        return np.ones(_shape(v, step))


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

    @property
    def homogeneous(self) -> bool:
        """It is."""
        return True

    def value(self, v: ArrayLike) -> Array:
        """Magnitudes."""
        return np.abs(np.asarray(v, dtype=np.float64))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Soft thresholding."""
        return soft_threshold(v, step)

    def slope(self, v: ArrayLike, step: ArrayLike) -> Array:
        """One beyond the threshold."""
        return (np.abs(v) > step).astype(np.float64)


@dataclass(frozen=True)
class ElasticNet(AbstractPenalty):
    """Magnitudes and squares: ``value(v) = r |v| + (1 - r) v**2 / 2`` (Zou and Hastie 2005).

    Parameters
    ----------
    l1_ratio : float, default 0.5
        The share ``r`` of the magnitudes, between 0 and 1, as in scikit-learn.
    """

    l1_ratio: float = 0.5
    name: ClassVar[str] = "elastic_net"

    def __post_init__(self) -> None:
        if not 0 <= self.l1_ratio <= 1:
            raise ValueError(f"l1_ratio must lie between 0 and 1, got {self.l1_ratio}")

    def value(self, v: ArrayLike) -> Array:
        """Weighted magnitudes and squares."""
        size = np.abs(np.asarray(v, dtype=np.float64))
        return np.asarray(size * (self.l1_ratio + 0.5 * (1 - self.l1_ratio) * size))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Soft thresholding, then division."""
        step = np.asarray(step, dtype=np.float64)
        return soft_threshold(v, step * self.l1_ratio) / (1 + step * (1 - self.l1_ratio))

    def slope(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Inverse of the divisor beyond the threshold."""
        step = np.asarray(step, dtype=np.float64)
        return (np.abs(v) > step * self.l1_ratio) / (1 + step * (1 - self.l1_ratio))


def _shape(v: ArrayLike, step: ArrayLike) -> tuple[int, ...]:
    return np.broadcast_shapes(np.shape(v), np.shape(step))
