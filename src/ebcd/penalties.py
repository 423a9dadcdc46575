"""Penalties on loadings, by name: values and proximal maps, both entry by entry.

SCAD and MCP are written for thresholds of one. A penalty of strength ``alpha`` is the usual one
with ``lambda = alpha``, which is ``alpha**2 value(v / alpha)``: slope ``alpha`` at zero, constant
from ``gamma alpha`` on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array
from ebcd._parameters import check_options, instance, real, shown, unknown_name

__all__ = [
    "L0",
    "L1",
    "MCP",
    "PENALTIES",
    "SCAD",
    "AbstractPenalty",
    "ElasticNet",
    "NoPenalty",
    "NonNegative",
    "as_penalty",
    "make_penalty",
]


class AbstractPenalty(ABC):
    """A penalty on loadings, a sum over entries; any object with `value` and `prox` may be one."""

    name: ClassVar[str] = ""
    one_sided: ClassVar[bool] = False  # whether only non-negative entries are allowed

    @abstractmethod
    def value(self, v: ArrayLike) -> Array:
        """Compute the penalty of each entry of `v`."""

    @abstractmethod
    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Minimize ``(u - v)**2 / 2 + step * value(u)`` over ``u``, entry by entry.

        Parameters
        ----------
        v : array-like
        step : array-like
            Not negative; of a shape that broadcasts to that of `v`.

        Returns
        -------
        ndarray
            A global minimizer of each entry; where there are two, that of smaller magnitude.
        """

    def threshold(self, alpha: ArrayLike) -> Array:
        """Length ``t`` with which a penalty of strength `alpha` is ``alpha t value(v / t)``."""
        return np.ones_like(alpha, dtype=np.float64)


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

    def value(self, v: ArrayLike) -> Array:
        """Return zeros."""
        return np.zeros(np.shape(v))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Return a copy of `v`."""
        return np.asarray(v, dtype=np.float64) + np.zeros(np.shape(step))


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

    def value(self, v: ArrayLike) -> Array:
        """Return magnitudes."""
        return np.abs(np.asarray(v, dtype=np.float64))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Apply the soft threshold: move entries toward zero by the step, no further."""
        v, step = np.asarray(v, dtype=np.float64), np.asarray(step, dtype=np.float64)
        nearest = np.asarray(np.minimum(v, step))  # in place from here: large arrays cost time
        np.maximum(nearest, -step, out=nearest)
        return np.asarray(np.subtract(v, nearest, out=nearest))


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
        real("a number from 0 to 1", lambda a: 0 <= a <= 1).check("l1_ratio", self.l1_ratio)

    def value(self, v: ArrayLike) -> Array:
        """Return weighted magnitudes and squares."""
        size = np.abs(np.asarray(v, dtype=np.float64))
        return np.asarray(size * (self.l1_ratio + 0.5 * (1 - self.l1_ratio) * size))

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Apply the soft threshold, then divide."""
        step = np.asarray(step, dtype=np.float64)
        return L1().prox(v, step * self.l1_ratio) / (1 + step * (1 - self.l1_ratio))


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
    """A penalty of slope one at zero that bends to a constant at `gamma`; not convex.

    The criterion of its proximal map is piecewise quadratic and may have several minima in an
    entry: the best of the minima of the pieces is the global one.
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
        real("a number above 1 and at most 1e6", lambda a: 1 < a <= 1e6).check("gamma", self.gamma)

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
        real("a number from 1e-6 to 1e6", lambda a: 1e-6 <= a <= 1e6).check("gamma", self.gamma)

    def value(self, v: ArrayLike) -> Array:
        """Compute the penalty of each entry."""
        size = np.minimum(np.abs(np.asarray(v, dtype=np.float64)), self.gamma)
        return np.asarray(size * (1 - 0.5 * size / self.gamma))

    def _minima(self, size: Array, step: Array) -> list[Array]:
        convex = step < self.gamma
        divisor = np.where(convex, 1 - step / self.gamma, 1.0)
        inner = np.clip((size - step) / divisor, 0.0, self.gamma)
        return [np.where(convex, inner, 0.0), np.maximum(size, self.gamma)]


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

    def __post_init__(self) -> None:
        instance("a penalty of ebcd.penalties", AbstractPenalty).check("penalty", self.penalty)

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


class CustomPenalty(AbstractPenalty):
    """Any object with `value` and `prox`, which get one-dimensional arrays and a number as step."""

    name: ClassVar[str] = "custom"

    def __init__(self, penalty: Any) -> None:
        self._penalty = penalty

    def value(self, v: ArrayLike) -> Array:
        """Compute the penalty of each entry."""
        v = np.asarray(v, dtype=np.float64)
        return self._checked(self._penalty.value(v.ravel()), v.size, "value").reshape(v.shape)

    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Apply the proximal map, one call for each step."""
        v, steps = np.asarray(v, dtype=np.float64), np.asarray(step, dtype=np.float64)
        if steps.size == 1:
            flat = self._penalty.prox(v.ravel(), float(steps.reshape(-1)[0]))
            return self._checked(flat, v.size, "prox").reshape(v.shape)
        steps = np.broadcast_to(steps, (*v.shape[:-1], 1))
        rows = zip(v.reshape(-1, v.shape[-1]), steps.ravel(), strict=True)
        return np.array([self.prox(row, one) for row, one in rows]).reshape(v.shape)

    def _checked(self, result: Any, size: int, method: str) -> Array:
        array = np.asarray(result, dtype=np.float64)
        if array.shape != (size,):
            raise ValueError(
                f"{method} of the penalty {self._penalty!r} must return one number for each of "
                f"{size} entries, got shape {array.shape}"
            )
        if np.isnan(array).any():
            raise ValueError(f"{method} of the penalty {self._penalty!r} returned NaN")
        return array

    def __repr__(self) -> str:
        return repr(self._penalty)


def _nonnegative(made: type[AbstractPenalty], **options: Any) -> AbstractPenalty:
    return NonNegative(made(**options))


_PREFIX = "nonnegative_"
PENALTIES: dict[str, Callable[..., AbstractPenalty]] = {
    made.name: made for made in (NoPenalty, L1, L0, ElasticNet, SCAD, MCP, NonNegative)
} | {_PREFIX + made.name: partial(_nonnegative, made) for made in (L1, L0, ElasticNet, SCAD, MCP)}


def make_penalty(name: str, **options: Any) -> AbstractPenalty:
    """Make a penalty by its name.

    Parameters
    ----------
    name : str
        One of `PENALTIES`.
    **options
        Options of that penalty, for example ``gamma`` of ``scad``.

    Examples
    --------
    >>> from ebcd.penalties import make_penalty
    >>> make_penalty("scad", gamma=4.0)
    SCAD(gamma=4.0)
    >>> make_penalty("nonnegative_l1")
    NonNegative(penalty=L1())
    """
    if name not in PENALTIES:
        raise unknown_name("penalty", name, PENALTIES)
    made: Any = PENALTIES[name.removeprefix(_PREFIX)]
    check_options("penalty", name, made, options)
    return PENALTIES[name](**options)


def as_penalty(penalty: Any) -> AbstractPenalty:
    """Return a penalty, from its name, itself, or any object with `value` and `prox`."""
    if isinstance(penalty, str):
        return make_penalty(penalty)
    if isinstance(penalty, AbstractPenalty):
        return penalty
    if isinstance(penalty, type):
        raise TypeError(
            f"penalty must be an object, not a class; use {penalty.__name__}() in place of "
            f"{penalty.__name__}"
        )
    if not (callable(getattr(penalty, "value", None)) and callable(getattr(penalty, "prox", None))):
        raise TypeError(
            "penalty must be a name or an object with methods value(v) and prox(v, step), got "
            f"{shown(penalty)}; names are {', '.join(PENALTIES)}"
        )
    return CustomPenalty(penalty)
