"""Posterior under a spike at zero plus a slab with one scale, many columns at once.

With ``R`` the ratio of slab to spike marginal and ``w`` the weight of the slab, an entry comes from
the slab with probability ``q = w R / (1 + w (R - 1))``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Columns, plain
from ebcd.priors._fused import ONCE, fused_kernels
from ebcd.priors._slabs import AbstractSlabKind, Ratio, relative_noise

# Parameters of the columns are plain numbers: array operations on a few of them cost more than the
# arithmetic.
Numbers = Sequence[float]
Moments = tuple[Array, Array]
_NOTHING = np.empty((0, 0))


def densities(ratio: Ratio, w: Array) -> tuple[Array, Array, Array]:
    """Log of ``1 + w (R - 1)``, ``R`` over that and one over that; `ratio` is used up."""
    inverse = w * ratio.odds
    inverse += 1 - w  # not 1 + w (odds - 1), which loses tiny odds
    log_density = np.log(inverse)
    if ratio.excess is not None:
        log_density += ratio.excess
    np.divide(1, inverse, out=inverse)
    return log_density, np.multiply(ratio.odds, inverse, out=ratio.odds), inverse


def posterior(
    columns: Columns, kind: AbstractSlabKind, weight: Numbers, log_scale: Numbers
) -> tuple[Array, Array, Array]:
    """Log-likelihood ratio to the null, posterior mean and variance of every entry."""
    fused = _fused_posterior(columns, kind, weight, log_scale)
    if fused is not None:
        return fused
    w = np.array(weight)[:, None]
    blocks = []
    for part in columns.blocks:
        noise = relative_noise(part, log_scale)
        ratio = kind.ratio(part, noise)
        mean, variance = kind.moments(part, noise, ratio)
        log_density, q, inverse = densities(ratio, w)
        q *= w
        shrunk = q * mean
        variance *= q
        mean *= shrunk  # times 1 - q: the variance between spike and slab
        mean *= inverse
        mean *= 1 - w
        variance += mean
        if not part.unit_noise:
            shrunk *= part.s
            variance *= part.s * part.s
        blocks.append((part.sum(log_density), shrunk, variance))
    if len(blocks) == 1:
        return blocks[0]
    ratios, means, variances = zip(*blocks, strict=True)
    return np.sum(ratios, axis=0), np.concatenate(means, axis=1), np.concatenate(variances, axis=1)


def fused_sums(
    columns: Columns, kind: AbstractSlabKind, weight: Numbers, log_scale: Numbers
) -> Array | None:
    """Add up what `_two_group` needs, seven sums for each column; None if not to be had."""
    sums = np.empty((7, len(weight)))
    run = _fused(columns, kind, (weight, log_scale), sums)
    return sums if run is not None and run[1] else None


def _fused_posterior(
    columns: Columns, kind: AbstractSlabKind, weight: Numbers, log_scale: Numbers
) -> tuple[Array, Array, Array] | None:
    """Log-likelihood ratio to the null, posterior mean and variance; None if not to be had."""
    mean, variance = np.empty((2, len(weight), columns.x.shape[1]))
    run = _fused(columns, kind, (weight, log_scale), moments=(mean, variance))
    return (run[0][2], mean, variance) if run is not None and run[1] else None


def fused_climb(
    columns: Columns,
    kind: AbstractSlabKind,
    start: tuple[Numbers, Numbers],
    bounds: tuple[Array, float, Array],
    fixed_weight: bool,
    with_moments: bool,
) -> tuple[list[list[float]], Moments | None, bool] | None:
    """Climb from weights and log scales; `bounds` are totals and those of the latter.

    Returns
    -------
    list of list of float
        Weights and log scales at a local maximum, log-likelihood ratios, what was gained.
    Moments
        Posterior mean and variance there, if asked for.
    bool
        Whether all columns are there; if not, the rest of the way needs other formulas. None
        instead of all if there are no compiled loops.
    """
    limits = np.empty((4, columns.n_columns))
    limits[0], limits[1], limits[2] = bounds
    limits[3] = kind.em_power
    moments = None
    if with_moments:
        mean, variance = np.empty((2, columns.n_columns, columns.x.shape[1]))
        moments = mean, variance
    room = moments or (_NOTHING, _NOTHING)
    run = _fused(columns, kind, start, None, limits, fixed_weight, room)
    return None if run is None else (run[0].tolist(), moments, run[1])


def _fused(
    columns: Columns,
    kind: AbstractSlabKind,
    start: tuple[Numbers, Numbers],
    sums: Array | None = None,
    bounds: Array = _NOTHING,
    fixed_weight: bool = False,
    moments: Moments = (_NOTHING, _NOTHING),
) -> tuple[Array, bool] | None:
    """Run the compiled loop, if there is one; tell whether no other formulas are needed."""
    kernels = fused_kernels("slabs")
    if kernels is None:
        return None
    state, work = np.zeros((4, columns.n_columns)), np.empty(kernels.WORK)
    state[0], state[1] = start
    there = kernels.run(
        *kernels.KINDS[kind.name],
        plain(columns.z),
        columns.s,
        ONCE if columns.counts is None else columns.counts,
        bounds,
        fixed_weight,
        kind.largest_rate(columns),
        work,
        work.view(np.int64),
        np.empty((7, columns.n_columns)) if sums is None else sums,
        state,
        *moments,
        _NOTHING,
    )
    return state, there


def sign_rates(column: Columns, kind: AbstractSlabKind, weight: float, scale: float) -> Array:
    """Local false sign rates of the only column, under a prior with the spike at zero."""
    found = []
    w = np.array([[weight]])
    for part in column.blocks:
        noise = relative_noise(part, [math.log(scale)])
        ratio = kind.ratio(part, noise)
        rates = kind.rarer_sign(part, noise, ratio)
        _, p, inverse = densities(ratio, w)
        rates *= p
        rates *= weight
        if ratio.excess is not None:
            inverse *= np.exp(-ratio.excess)
        inverse *= 1 - weight
        rates += inverse
        found.append(rates[0])
    return np.concatenate(found)
