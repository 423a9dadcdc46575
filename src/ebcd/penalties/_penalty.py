"""What a penalty is: a value and a proximal map, both entry by entry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array


class AbstractPenalty(ABC):
    """A penalty on loadings, a sum over entries.

    A subclass has `value` and `prox`, which is all that a custom penalty needs: any object with
    these two methods may be given where a penalty is asked for.
    """

    name: ClassVar[str] = ""
    one_sided: ClassVar[bool] = False  # whether only non-negative entries are allowed
    homogeneous: ClassVar[bool] = False  # whether value(c v) = c value(v) for every c > 0

    @abstractmethod
    def value(self, v: ArrayLike) -> Array:
        """Compute the penalty of each entry of `v`."""

    @abstractmethod
    def prox(self, v: ArrayLike, step: ArrayLike) -> Array:
        """Minimise ``(u - v)**2 / 2 + step * value(u)`` over ``u``, entry by entry.

        Parameters
        ----------
        v : array-like
        step : array-like
            Not negative; of a shape that broadcasts to that of `v`.

        Returns
        -------
        ndarray
            A global minimiser of each entry; where there are two, that of smaller magnitude.
        """

    def threshold(self, alpha: ArrayLike) -> Array:
        """Length ``t`` with which a penalty of strength `alpha` is ``alpha t value(v / t)``.

        It is one where the strength simply multiplies the penalty.
        """
        return np.ones_like(alpha, dtype=np.float64)


class CustomPenalty(AbstractPenalty):
    """Any object with `value` and `prox` as a penalty.

    Parameters
    ----------
    penalty : object
        Its methods get one-dimensional arrays and a number as `step`.
    """

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
