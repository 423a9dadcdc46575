"""Posterior under a spike at zero plus a slab with one scale, many columns at once.

With ``R`` the ratio of slab to spike marginal and ``w`` the weight of the slab, an entry comes from
the slab with probability ``q = w R / (1 + w (R - 1))``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Columns
from ebcd.priors._slabs import AbstractSlabKind, Ratio, relative_noise

# Parameters of the columns are plain numbers: array operations on a few of them cost more than the
# arithmetic.
Numbers = Sequence[float]


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
