"""Checks of normal-means input, with messages that say what, where and what to do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ebcd._numerics import Array
from ebcd._parameters import shown

# Beyond this ratio fourth powers overflow; no measurement is that precise.
_LARGEST_RATIO = 1e70
# Noise whose square is a number, and sums of ten thousand of them.
_LARGEST = 0.01 * math.sqrt(np.finfo(float).max)


def _as_floats(value: Any, name: str) -> Array:
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"{name} must hold real numbers, got {shown(value)}") from None
    if array.dtype.kind not in "iuf":
        kind = {"b": "booleans", "c": "complex numbers", "O": "objects", "U": "strings"}
        found = kind.get(array.dtype.kind, f"dtype {array.dtype}")
        raise TypeError(f"{name} must hold real numbers, got {found}; convert it to float first")
    if isinstance(value, np.ma.MaskedArray):
        array = np.where(np.ma.getmaskarray(value), np.nan, array)
    return array.astype(np.float64, copy=False)


def _where(bad: np.ndarray) -> str:
    positions = np.flatnonzero(bad)
    return f"{positions.size} of {bad.size}, the first at position {positions[0]}"


def as_vector(x: Any, name: str = "x") -> Array:
    """Check a one-dimensional array of finite numbers that is not empty."""
    array = _as_floats(x, name)
    if array.ndim != 1:
        raise ValueError(
            f"{name} must be one-dimensional, got shape {array.shape}; pass {name}.ravel()"
        )
    if array.size == 0:
        raise ValueError(f"{name} is empty; at least one observation is needed")
    _check_finite(array, name)
    return array


def _check_finite(array: Array, name: str) -> None:
    if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        bad = ~np.isfinite(array)
        raise ValueError(
            f"{name} has NaN, masked or infinite entries ({_where(bad)}); leave those entries "
            "out, or give any finite value with s = inf to mark them as not observed"
        )


def as_noise(s: Any, size: int) -> Array:
    """Check noise standard deviations; the result is 0-d or has one entry per observation."""
    array = _as_floats(s, "s")
    if array.ndim > 1 or (array.ndim == 1 and array.size != size):
        raise ValueError(
            f"s must be one number or have one entry per entry of x: x has {size}, "
            f"s has shape {array.shape}"
        )
    bad = ~(array > 0)
    if bad.any():
        first = float(array.ravel()[np.flatnonzero(bad)[0]])
        if array.ndim == 0:
            raise ValueError(f"s must be positive, got {first:g}{_advice(first)}")
        raise ValueError(f"s must be positive; not so in {_where(bad)} ({first:g}){_advice(first)}")
    if array[np.isfinite(array)].max(initial=0.0) > _LARGEST:
        raise ValueError(
            f"s must be at most {_LARGEST:.2g}, or infinite; divide x and s by some unit"
        )
    return array


def _advice(value: float) -> str:
    if value == 0:
        return (
            "; with s = 0 the value is known exactly and there is nothing to estimate: leave it out"
        )
    return "; s holds standard deviations (use inf for entries that were not observed)"


def as_observations(x: ArrayLike, s: ArrayLike) -> tuple[Array, Array]:
    """Check observations for a fitted prior: 1-d or scalar `x`, `s` broadcast to it."""
    values = _as_floats(x, "x")
    values = as_vector(np.atleast_1d(values))
    noise = np.broadcast_to(as_noise(s, values.size), values.shape)
    check_ratio(values, noise)
    return values, noise


def check_ratio(x: Array, s: Array, what: str = "x") -> None:
    """Refuse observations so many standard deviations from zero that squares overflow."""
    if x.size and max(x.max(), -x.min()) <= _LARGEST_RATIO * s.min():
        return
    with np.errstate(over="ignore", under="ignore"):
        bad = ~(np.abs(x) / s <= _LARGEST_RATIO)
    if bad.any():
        raise ValueError(
            f"|{what}| / s exceeds {_LARGEST_RATIO:g} in {_where(np.atleast_1d(bad))}; check the "
            "units of both"
        )


def check_lengths(places: Array, scales: Array, s: Array) -> None:
    """Refuse a prior beside which the noise, or which beside the noise, is nothing."""
    seen, sizes = s[np.isfinite(s)], scales[scales > 0]
    if not seen.size:
        return
    largest, smallest = np.max([*places, *scales]), sizes.min(initial=np.inf)
    if largest > _LARGEST_RATIO * seen.min() or smallest * _LARGEST_RATIO < seen.max():
        raise ValueError(
            f"s is {seen.min():.3g}, and the prior has lengths of {smallest:.3g} or {largest:.3g}, "
            f"a ratio beyond {_LARGEST_RATIO:g}; check the units of s and the prior"
        )


def as_values(values: ArrayLike, s: Any) -> tuple[Array, float]:
    """Check arguments of a penalty: finite values of any shape and one noise level."""
    array = _as_floats(values, "values")
    _check_finite(array, "values")
    noise = as_noise(s, -1)
    if noise.ndim or not np.isfinite(noise):
        raise ValueError("s must be one finite number here; call penalty once for each noise level")
    return array, float(noise)


def as_weights(value: Any, size: int) -> Array:
    """Check mixture weights: non-negative, one per component, sum to one."""
    array = np.atleast_1d(_as_floats(value, "weights"))
    if array.shape != (size,):
        raise ValueError(f"weights must have one entry per component: {size}, got {array.shape}")
    if not (array >= 0).all() or not abs(array.sum() - 1) <= 1e-8:
        raise ValueError(
            f"weights must be non-negative and sum to one, their sum is {array.sum():g}"
        )
    return array


def as_grid(value: Any, positive: bool, name: str = "grid") -> Array:
    """Check grid points: finite, positive where they are lengths."""
    array = np.atleast_1d(as_vector(np.atleast_1d(_as_floats(value, name)), name))
    if positive and (array <= 0).any():
        first = int(np.flatnonzero(array <= 0)[0])
        raise ValueError(
            f"{name} must hold positive lengths, got {array[first]:g} at position {first}; "
            "the spike at the mode is always included"
        )
    return array
