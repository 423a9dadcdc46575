"""Where many rising functions cross zero, all at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ebcd._numerics import Array

_STEPS = 100
_CLOSE = 1e-12  # width of a bracket, beside the place, at which the search ends


def rising_root(function: Callable[[Array, np.ndarray], Array], low: Array, high: Array) -> Array:
    """Find where rising functions cross zero, each between its own bounds.

    Inverse quadratic interpolation where it can be trusted, halving where not (Chandrupatla, 1997,
    Advances in Engineering Software 28, 145-149).

    Parameters
    ----------
    function : callable
        Takes places and the numbers of the functions, gives their values.
    low, high : ndarray
        Bounds; a function that does not cross zero between them ends at the nearer one.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd.priors._rising_root import rising_root
    >>> power = np.array([1.0, 3.0])
    >>> rising_root(lambda t, i: t ** power[i] - 8, np.zeros(2), np.full(2, 10.0)).round(9)
    array([8., 2.])
    """
    rows = np.arange(low.size)
    root = np.empty_like(low)
    # `a` is the newest place, `b` lies across the root from it, `c` is the place before
    a, b = low.copy(), high.copy()
    fa, fb = function(a, rows), function(b, rows)
    step = np.full_like(low, 0.5)
    c, fc = a.copy(), fa.copy()
    for _ in range(_STEPS):
        best = np.where(np.abs(fa) < np.abs(fb), a, b)
        room = _CLOSE * (1 + np.abs(best)) / np.maximum(np.abs(b - a), 1e-300)
        done = (room > 0.5) | (fa == 0) | (fb == 0) | (np.sign(fa) == np.sign(fb))
        root[rows[done]] = best[done]
        if done.all():
            break
        a, b, c, fa, fb, fc, step, room, rows = (
            values[~done] for values in (a, b, c, fa, fb, fc, step, room, rows)
        )
        place = a + np.clip(step, room, 1 - room) * (b - a)
        value = function(place, rows)
        same = np.sign(value) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = place, value
        step = _next_step(a, b, c, fa, fb, fc)
    else:
        root[rows] = np.where(np.abs(fa) < np.abs(fb), a, b)
    return root


def _next_step(a: Array, b: Array, c: Array, fa: Array, fb: Array, fc: Array) -> Array:
    """Share of the way from `a` to `b`: by interpolation, or half of it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        place, value = (a - b) / (c - b), (fa - fb) / (fc - fb)
        trusted = (value**2 < place) & ((1 - value) ** 2 < 1 - place)
        step = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return np.where(trusted & np.isfinite(step), step, 0.5)
