"""Binning, interpolation and best weights in one pass each, compiled by numba.

Only `ebcd.priors._fused` imports this. numba keeps what it compiled until this file changes: it has
to be touched if `ORDER` does.
"""

from __future__ import annotations

import math

from ebcd._numerics import Array
from ebcd.priors._columns import ORDER
from ebcd.priors._jit import compiled, kept, summing

_BLOCK = 256  # entries


@summing
def _slope(
    surplus: Array, row: int, counts: Array, column: int, weight: float
) -> tuple[float, float]:
    """Sum the derivative in the weight, and minus its slope, from odds less one."""
    slope = square = 0.0
    counted = counts.size > 1 or counts[0, 0] != 1
    for j in range(surplus.shape[1]):
        gradient = surplus[row, j] / (1 + weight * surplus[row, j])
        counted_gradient = counts[column, j] * gradient if counted else gradient
        slope += counted_gradient
        square += counted_gradient * gradient
    return slope, square


@kept
def best_weights(
    surplus: Array, counts: Array, low: Array, first: float, accuracy: float, out: Array
) -> None:
    """Find the best weights, columns x scales, as `_scale_search.best_weight` does."""
    for column in range(out.shape[0]):
        for row in range(out.shape[1]):
            out[column, row] = _best_weight(
                surplus, row, counts, column, low[column, 0], first, accuracy
            )


@compiled
def _best_weight(
    surplus: Array,
    row: int,
    counts: Array,
    column: int,
    low: float,
    weight: float,
    accuracy: float,
) -> float:
    if _slope(surplus, row, counts, column, 0.0)[0] <= 0:
        return 0.0
    if _slope(surplus, row, counts, column, 1.0)[0] >= 0:
        return 1.0
    high = 1.0
    for _ in range(60):
        slope, square = _slope(surplus, row, counts, column, weight)
        if slope > 0:
            low = weight
        else:
            high = weight
        rest = 1 - weight
        up = weight * weight * (rest * square + slope)
        down = rest * rest * (weight * square - slope)
        model = up / (up + down)
        near = abs(model - weight) <= accuracy * weight
        weight = model if near or low < model < high else math.sqrt(low * high)
        if near:
            break
    return min(max(weight, 0.0), 1.0)


@kept
def place(
    z: Array, density: float, bend: float, base: float, top: float, places: Array, powers: Array
) -> None:
    """Put entries on a grid, bent unless `bend` is 0; add up powers of their offsets in each cell.

    `places`, up to `top`, are counted from `base` on; `powers` is cells x powers.
    """
    for start in range(0, z.size, _BLOCK):
        stop = min(start + _BLOCK, z.size)
        if bend == 0:
            for j in range(start, stop):
                places[j] = z[j] * density - base
        else:
            for j in range(start, stop):
                size = abs(z[j]) / bend
                bent = bend * math.log(size + math.sqrt(size * size + 1))
                places[j] = density * math.copysign(bent, z[j]) - base
        for j in range(start, stop):
            places[j] = min(max(places[j], 0.0), top)
            cell = int(places[j])
            offset = places[j] - cell
            power = 1.0
            for i in range(ORDER):
                powers[cell, i] += power
                power *= offset


@kept
def interpolate(places: Array, coefficients: Array, out: Array, column: int) -> None:
    """Evaluate the polynomials of an entry's cell, cells x functions x powers, at its offset."""
    for j in range(places.size):
        cell = int(places[j])
        offset = places[j] - cell
        for function in range(out.shape[0]):
            value = 0.0
            for i in range(ORDER):
                value = value * offset + coefficients[cell, function, ORDER - 1 - i]
            out[function, column, j] = value
