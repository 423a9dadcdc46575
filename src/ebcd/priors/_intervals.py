"""Credible intervals: quantiles of the posterior, atoms included.

They are searched; one at an atom of the prior is that atom. With one noise level a quantile is a
function of the observation alone, which is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from ebcd._numerics import CHUNK, Array, rising_root, typical
from ebcd.priors._fitted import AbstractJointPrior, FittedPrior, MixturePrior
from ebcd.priors._kernels import PointMass
from ebcd.priors._validation import as_observations

TOLERANCE = 1e-9  # of an interpolated value v, times 1 + |v|
COST = 8  # of a search, which keeps 48 numbers for each entry
_NODES = chebyshev.chebpts2(8)
_BETWEEN = 0.5 * (_NODES[1:] + _NODES[:-1])  # where polynomials are tested
_TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(_NODES, 7)).T
_TO_TESTS = chebyshev.chebvander(_BETWEEN, 7).T


def posterior_interval(
    prior: FittedPrior, x: Array, s: Array, probability: float = 0.95
) -> tuple[Array, Array]:
    """Return both ends of the equal-tailed credible interval of every entry.

    They are the smallest values that theta does not exceed with probability
    ``(1 - probability) / 2`` and ``(1 + probability) / 2`` at the least. An atom at an end belongs
    to the interval, so that it may hold more.
    """
    x, s = as_observations(x, s)
    if isinstance(prior, AbstractJointPrior):
        return prior.interval(x, s, probability)
    if not isinstance(prior, MixturePrior):
        raise TypeError(f"no intervals are known for a {type(prior).__name__}")
    tail, ends = 0.5 * (1 - probability), np.empty((2, x.size))
    for rows in (np.isfinite(s), np.isinf(s)):
        if rows.any():
            levels = (tail, 1 - tail)
            ends[:, rows] = [_quantiles(prior, level, x[rows], s[rows]) for level in levels]
    return ends[0], ends[1]


def sign_rates(x: Array, s: Array, prior: FittedPrior) -> Array:
    """Local false sign rates of observations with finite noise."""
    unit = float(s) if s.ndim == 0 else typical(s)
    standard, z = prior.rescaled(1 / unit), x / unit
    cells = x.size * standard.weights.size if isinstance(standard, MixturePrior) else 0
    if s.ndim or cells <= CHUNK:
        return np.minimum(*standard.tails(z, np.broadcast_to(s / unit, x.shape)))

    def log_rate(z: Array) -> Array:  # rates span decades
        return np.log(np.maximum(np.minimum(*standard.tails(z, np.ones_like(z))), 1e-300))

    return np.asarray(np.exp(np.minimum(interpolated(log_rate, z, width=2.0), 0.0)))


def _quantiles(prior: MixturePrior, level: float, x: Array, s: Array) -> Array:
    """Quantiles of the posteriors."""
    x, s = prior.observed(x, s)
    # the smallest length there is, as the search has a smallest step
    unit = min(float(s.min()), float(prior.sizes[prior.sizes > 0].min(initial=np.inf)))
    standard, z, noise = prior.rescaled_mixture(1 / unit), x / unit, s / unit
    search = partial(_searched, standard, level)
    if (s == s[0]).all():

        def quantile(z: Array) -> Array:
            return standard.blockwise(search, z, np.full_like(z, noise[0]), COST)

        found = unit * interpolated(quantile, z, width=2 * noise[0])  # noise blurs what is finer
    else:
        found = unit * standard.blockwise(search, z, noise, COST)
    for kernel in prior.kernels:
        for place in kernel.location if isinstance(kernel, PointMass) else ():
            found[np.abs(found - place) <= TOLERANCE * (unit + abs(place))] = place
    return found


def _searched(prior: MixturePrior, level: float, x: Array, s: Array) -> Array:
    """Search the quantiles where the distribution function crosses the level, or jumps over it."""
    share = prior.shares(x, s)
    _, mean, variance = prior.evaluate(x, s)
    # no distribution has more than this beyond so many standard deviations (Cantelli)
    reach = np.sqrt(max(level, 1 - level) / min(level, 1 - level) * variance)

    def excess(point: Array, rows: np.ndarray) -> Array:
        below = _below(prior, share[:, rows], x[rows], s[rows], point)
        # on this scale a normal posterior is a straight line
        score = special.ndtri(np.clip(below, 1e-300, 1 - 1e-16)) - special.ndtri(level)
        return np.where(below < level, np.minimum(score, -1e-300), np.maximum(score, 1e-300))

    return rising_root(excess, mean - reach, mean + reach)


def _below(prior: MixturePrior, share: Array, x: Array, s: Array, point: Array) -> Array:
    """Posterior probability of ``theta <= point``."""
    below = [kernel.tails(x, s, point)[0] for kernel in prior.rows]
    return np.asarray((share * np.concatenate(below)).sum(axis=0))


def interpolated(function: Callable[[Array], Array], points: Array, width: float) -> Array:
    """Return the values of a costly function at many points from few evaluations.

    Polynomials on pieces, first of a given width, which are halved until they agree with the
    function between their nodes. Where a piece has few points, the function is evaluated at those,
    so that corners of it do no harm.
    """
    points, back = np.unique(points, return_inverse=True)
    values = np.empty_like(points)
    piece, first = np.unique(np.floor(points / width), return_index=True)
    left, right, last = width * piece, width * (piece + 1), np.append(first[1:], points.size)
    asked = np.concatenate([_NODES, _BETWEEN])
    while first.size:
        few = last - first <= 4 * asked.size  # it may be halved several times
        direct = _ranges(first[few], last[few])
        values[direct] = function(points[direct])
        left, right, first, last = left[~few], right[~few], first[~few], last[~few]
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        told = function((middle[:, None] + half[:, None] * asked).ravel()).reshape(-1, asked.size)
        coefficients, wanted = told[:, : _NODES.size] @ _TO_COEFFICIENTS, told[:, _NODES.size :]
        error = np.abs(coefficients @ _TO_TESTS - wanted)
        good = (error <= 0.1 * TOLERANCE * (1 + np.abs(wanted))).all(axis=1)
        rows = _ranges(first[good], last[good])
        piece = np.repeat(np.flatnonzero(good), (last - first)[good])
        place = (points[rows] - middle[piece]) / half[piece]
        values[rows] = chebyshev.chebval(place, coefficients[piece].T, tensor=False)
        left, middle, right = left[~good], middle[~good], right[~good]
        first, last = first[~good], last[~good]
        cut = np.searchsorted(points, middle)
        left, right = np.append(left, middle), np.append(middle, right)
        first, last = np.append(first, cut), np.append(cut, last)
    return np.asarray(values[back])


def _ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return the numbers from every `first` to before its `last`, one behind the other."""
    return np.concatenate([np.empty(0, dtype=np.intp), *map(np.arange, first, last)])
