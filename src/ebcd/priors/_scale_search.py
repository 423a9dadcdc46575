"""Global search of the scale of a slab, where the likelihood may have several maxima.

For every scale of a grid the best weight is found, a concave problem. With common noise the entries
of all columns are first spread over one coarse grid of observations: the slab is then evaluated on
that grid only, once for all columns.
"""

from __future__ import annotations

import math

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Columns
from ebcd.priors._slabs import AbstractSlabKind, relative_noise

_ACCURACY = 0.1  # of the weights before the last step, which squares it
_FIRST_WEIGHT = 0.1
_MOST_PEAKS = 3
_NARROWEST = 0.1  # slab, in units of the smallest noise


def search_scales(
    columns: Columns, kind: AbstractSlabKind, fixed_weight: bool
) -> tuple[list[int], list[float], list[float]]:
    """Best weights on a grid of scales; return column, weight and log scale of promising ones."""
    common = columns.s.size == 1
    typical = float(columns.log_s[0, 0] if common else np.median(columns.log_s))
    top = math.log(max(float(columns.reach.max()), 1e-300)) - typical
    low = math.log(_NARROWEST * columns.smallest_s) - typical
    scales = (np.arange(low, max(top, 0.0) + 1.0, math.log(2.0)) + typical).tolist()
    if common:
        weight, value = _profiles(columns.spread(kind.symmetric), kind, scales, fixed_weight)
    else:
        parts = [_profiles(column, kind, scales, fixed_weight) for column in columns.each()]
        weight, value = (np.concatenate(part) for part in zip(*parts, strict=True))
    found = [
        (column, weights[at], scales[at])
        for column, (weights, values) in enumerate(
            zip(weight.tolist(), value.tolist(), strict=True)
        )
        for at in _promising(values)
    ]
    rows, best_weights, log_scales = zip(*found, strict=True)
    return list(rows), list(best_weights), list(log_scales)


def _promising(values: list[float]) -> list[int]:
    """Find the largest values, and other peaks that could still win between grid points."""
    # plain numbers: on a dozen of them array operations take ten times as long
    ends = [-math.inf, *values, -math.inf]
    best = max(values)
    least = best - max(10.0, 0.2 * best)
    peaks = [
        i
        for i, value in enumerate(values)
        if value >= least and ends[i] < value and ends[i + 2] <= value
    ]
    return sorted(sorted(peaks, key=lambda i: -values[i])[:_MOST_PEAKS])


def _profiles(
    columns: Columns, kind: AbstractSlabKind, scales: list[float], fixed_weight: bool
) -> tuple[Array, Array]:
    """Best weight and log-likelihood ratio to the null: columns of equal entries x scales."""
    odds, excess, _ = kind.ratio(columns, relative_noise(columns, scales))
    counts = None if columns.counts is None else columns.counts[:, None]
    shape = columns.n_columns, len(scales)
    weight = np.ones(shape)
    if not fixed_weight:
        weight = np.broadcast_to(
            best_weight(odds, counts, columns.totals[:, None], _ACCURACY), shape
        )
    w = weight[..., None]
    value = np.log(w * odds + (1 - w))
    if excess is not None:
        value += np.where(w > 0, excess, 0.0)
    return weight, np.broadcast_to(_total(value, counts), shape)


def _total(values: Array, counts: Array | None) -> Array:
    return np.asarray(values.sum(axis=-1) if counts is None else np.vecdot(counts, values))


def best_weight(odds: Array, counts: Array | None, totals: Array, accuracy: float = 1e-12) -> Array:
    """Maximise ``sum log(1 + w (odds - 1))`` over the weight ``w`` of each row.

    The derivative falls from one pole to another, nearly as ``a / w - b / (1 - w)`` if the entries
    are easy to tell apart. Every step fits ``a`` and ``b`` to the derivative and to its slope, and
    goes where that vanishes; bracketed.
    """
    surplus = odds - 1
    full = _total(surplus / odds, counts) >= 0
    empty = _total(surplus, counts) <= 0
    high = np.ones(np.broadcast_shapes(full.shape, totals.shape))
    low, weight = high * (1e-3 / totals), high * _FIRST_WEIGHT
    for _ in range(60):
        gradient = surplus / (1 + weight[..., None] * surplus)
        slope, square = _total(gradient, counts), _total(gradient * gradient, counts)
        rising = slope > 0
        low, high = np.where(rising, weight, low), np.where(rising, high, weight)
        rest = 1 - weight
        up = weight * weight * (rest * square + slope)
        down = rest * rest * (weight * square - slope)
        with np.errstate(divide="ignore", invalid="ignore"):
            model = up / (up + down)
        near = np.abs(model - weight) <= accuracy * weight
        weight = np.where(near | ((model > low) & (model < high)), model, np.sqrt(low * high))
        if (near | full | empty).all():
            break
    return np.where(empty, 0.0, np.where(full, 1.0, np.clip(weight, 0.0, 1.0)))


def peaks(values: Array, most: int) -> np.ndarray:
    """Mark the best `most` local maxima of every row; of a run of ties only the first counts."""
    peak = np.ones(values.shape, dtype=bool)
    np.greater(values[:, 1:], values[:, :-1], out=peak[:, 1:])
    peak[:, :-1] &= values[:, :-1] >= values[:, 1:]
    ranked = np.sort(np.where(peak, values, -np.inf), axis=1)[:, ::-1]
    return peak & (values >= ranked[:, [min(most, values.shape[1]) - 1]])
