"""Steps of Newton's method in few coordinates, compiled by numba.

What `FactorScores` does with some forty operations on small arrays for every product with ``F``.
Only `ebcd.priors._fused` imports this. numba keeps what it compiled until this file changes: it has
to be touched if a constant of `_newton` does.
"""

from __future__ import annotations

import math

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting._newton import SMALLEST_CURVATURE
from ebcd.priors._jit import compiled, kept, summing

_ROWS = 4  # of a factor that are added up in one go


@summing
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            total += a[i, j] * b[i, j]
    return total


@summing
def _times(a: Array, b: Array, out: Array) -> None:
    """Multiply."""
    inner = b.shape[0]
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            out[i, j] = 0.0
    for row in range(0, inner - inner % _ROWS, _ROWS):
        for i in range(a.shape[0]):
            a0, a1, a2, a3 = a[i, row], a[i, row + 1], a[i, row + 2], a[i, row + 3]
            for j in range(b.shape[1]):
                out[i, j] += (a0 * b[row, j] + a1 * b[row + 1, j]) + (
                    a2 * b[row + 2, j] + a3 * b[row + 3, j]
                )
    for row in range(inner - inner % _ROWS, inner):
        for i in range(a.shape[0]):
            for j in range(b.shape[1]):
                out[i, j] += a[i, row] * b[row, j]


@summing
def _times_transposed(a: Array, b: Array, out: Array) -> None:
    """Multiply by the transposed."""
    for row in range(b.shape[0]):
        for i in range(a.shape[0]):
            total = 0.0
            for j in range(b.shape[1]):
                total += a[i, j] * b[row, j]
            out[i, row] = total


@compiled
def _precondition(d: Array, own: Array, safe: Array, along: Array, both: Array, out: Array) -> None:
    """Divide by the curvature that the plain iteration assumes, as in `FactorScores`."""
    k = len(safe)
    _times_transposed(d, own, along)
    for i in range(k):
        for j in range(k):
            pair = (along[i, j] - along[j, i]) / (safe[i] + safe[j])
            both[i, j] = pair - along[i, j] / safe[i]
    _times(both, own, out)
    for i in range(k):
        for j in range(d.shape[1]):
            out[i, j] += d[i, j] / safe[i]


@compiled
def _curve(
    direction: Array,
    factor: Array,
    bend: Array,
    own: Array,
    axes: Array,
    values: Array,
    along: Array,
    both: Array,
    images: Array,
    turned: Array,
    image: Array,
) -> None:
    """Apply the second derivative."""
    k, r = own.shape
    _times(axes, direction, turned)
    _times(turned, factor, images)
    for i in range(k):
        for j in range(factor.shape[1]):
            images[i, j] *= bend[i, j]
    _times_transposed(images, factor, turned)
    for i in range(k):
        for j in range(r):
            image[i, j] = values[i] * direction[i, j]
            for part in range(k):
                image[i, j] -= axes[part, i] * turned[part, j]
    _times_transposed(own, image, along)
    for i in range(k):
        for j in range(k):
            both[i, j] = 0.5 * (along[i, j] + along[j, i])
    _times(both, own, turned)
    for i in range(k):
        for j in range(r):
            image[i, j] -= turned[i, j]


@kept
def newton(
    factor: Array,
    bend: Array,
    own: Array,
    axes: Array,
    values: Array,
    safe: Array,
    residual: Array,
    reach: float,
    accuracy: float,
    most: int,
    flat: float,
    step: Array,
    plain: Array,
    direction: Array,
    image: Array,
    turned: Array,
    along: Array,
    both: Array,
    images: Array,
) -> bool:
    """Conjugate gradients in `step`; tell whether there is anything to do.

    Coordinates, residual and step are turned to the axes; the bend is not. The residual is used up,
    and the last seven arrays are working memory.
    """
    k, r = own.shape
    first = slope = share = 0.0
    old = border = np.inf
    for product in range(most + 1):
        _precondition(residual, own, safe, along, both, plain)
        if share >= border:
            break
        old, slope = slope, _dot(residual, plain)
        if product == 0:
            first = slope
            if not slope > flat:
                return False
        elif slope <= accuracy * accuracy * first or product == most:
            break
        straight = 0.0
        for i in range(k):
            for j in range(r):
                before = slope / old * direction[i, j] if product else 0.0
                direction[i, j] = plain[i, j] + before
                straight += direction[i, j] * values[i] * direction[i, j]
        _curve(direction, factor, bend, own, axes, values, along, both, images, turned, image)
        size, linear, squared, curved = 1e-300, 0.0, 0.0, 0.0
        for i in range(k):
            for j in range(r):
                size += direction[i, j] * direction[i, j]
                linear += step[i, j] * direction[i, j]
                squared += step[i, j] * step[i, j]
                curved += direction[i, j] * image[i, j]
        share = slope / curved if curved > 0 else np.inf
        if curved < SMALLEST_CURVATURE * straight:
            share = np.inf
        constant = min(squared - reach * reach, 0.0)
        border = (-linear + math.sqrt(linear * linear - size * constant)) / size
        length = min(share, border)
        for i in range(k):
            for j in range(r):
                step[i, j] += length * direction[i, j]
                residual[i, j] -= length * image[i, j]
    for i in range(k):
        for j in range(r):
            step[i, j] += plain[i, j]
    return True
