"""Credible intervals: quantiles of the posterior, atoms included.

A posterior is a mixture of atoms and slabs: a quantile is an atom, or is searched between two. With
one noise level it is a function of the observation alone, which is interpolated.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.polynomial import chebyshev
from scipy import special

from ebcd._numerics import Array, rising_root
from ebcd.priors._fitted import AbstractJointPrior, FittedPrior, MixturePrior
from ebcd.priors._kernels import OVERWHELMING, AbstractKernel, PointMass
from ebcd.priors._validation import as_observations

TOLERANCE = 1e-9  # of an interpolated value v, times 1 + |v|
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
    to the interval, so that it may hold more. The noise `s` is finite.
    """
    x, s = as_observations(x, s)
    if isinstance(prior, AbstractJointPrior):
        return prior.interval(x, s, probability)
    mixture, unit = _mixture(prior), float(np.median(s))
    standard, z, noise = mixture.rescaled_mixture(1 / unit), x / unit, s / unit
    discrete, common = all(map(_is_discrete, mixture.kernels)), bool((s == s[0]).all())

    def quantile(level: float) -> Array:
        if common and not discrete:
            return _interpolated_quantiles(standard, level, z)
        method = _discrete if discrete else _continuous
        return standard.blockwise(partial(method, standard, level), z, noise)

    tail = 0.5 * (1 - probability)
    return unit * quantile(tail), unit * quantile(1 - tail)


def prior_interval(prior: FittedPrior, probability: float) -> tuple[float, float]:
    """Return the interval of a value that was not observed: quantiles of the prior."""
    mixture = _mixture(prior)
    # in units of the smallest component, as the search for quantiles has a smallest step, under
    # noise that drowns the largest
    noises = [kernel.unseen()[1] for kernel in mixture.kernels]
    slabs = [n for n, k in zip(noises, mixture.kernels, strict=True) if not _is_discrete(k)]
    unit = float(np.concatenate(slabs or noises).min()) / OVERWHELMING
    noise = np.concatenate(noises).max(keepdims=True) / unit
    method = _continuous if slabs else _discrete
    standard, x, tail = mixture.rescaled_mixture(1 / unit), np.zeros(1), 0.5 * (1 - probability)
    lower, upper = (float(method(standard, p, x, noise)[0]) for p in (tail, 1 - tail))
    return unit * lower, unit * upper


def _mixture(prior: FittedPrior) -> MixturePrior:
    if not isinstance(prior, MixturePrior):
        raise TypeError(f"no intervals are known for a {type(prior).__name__}")
    return prior


def _is_discrete(kernel: AbstractKernel) -> bool:
    return isinstance(kernel, PointMass)


def _interpolated_quantiles(prior: MixturePrior, level: float, x: Array) -> Array:
    """Quantiles for unit noise, atoms exactly."""

    def quantile(z: Array) -> Array:
        return prior.blockwise(partial(_continuous, prior, level), z, np.ones_like(z))

    values = interpolated(quantile, x, width=2.0)  # noise blurs what is finer
    for kernel in prior.kernels:
        for place in kernel.location if isinstance(kernel, PointMass) else ():
            values[np.abs(values - place) <= TOLERANCE * (1 + abs(place))] = place
    return values


def _discrete(prior: MixturePrior, level: float, x: Array, s: Array) -> Array:
    """Quantiles where there are atoms only."""
    places = np.concatenate([kernel.location for kernel in prior.kernels])
    order = np.argsort(places, kind="stable")
    below = prior.shares(x, s)[order].cumsum(axis=0)
    below[-1] = 1.0
    return np.asarray(places[order][(below >= level).argmax(axis=0)])


def _continuous(prior: MixturePrior, level: float, x: Array, s: Array) -> Array:
    """Quantiles of slabs and a few atoms."""
    share = prior.shares(x, s)
    found, searched = np.empty_like(x), np.ones(x.size, dtype=bool)
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    for kernel, part in prior.parts():
        if not isinstance(kernel, PointMass):
            continue
        for place, mass in zip(kernel.location, share[part], strict=True):
            below = _below(prior, share, x, s, np.full_like(x, place))
            here = (below >= level) & (below - mass < level)
            found[here] = place  # where most entries of a sparse component end
            searched &= ~here
            low = np.where(below < level, np.maximum(low, place), low)
            high = np.where(below < level, high, np.minimum(high, place))
    share, x, s, low, high = (values[..., searched] for values in (share, x, s, low, high))
    mean, variance = prior.posterior_moments(x, s)
    # no distribution has more than this beyond so many standard deviations (Cantelli)
    reach = np.sqrt(max(level, 1 - level) / min(level, 1 - level) * variance)

    def excess(point: Array, rows: np.ndarray) -> Array:
        below = _below(prior, share[:, rows], x[rows], s[rows], point)
        # on this scale a normal posterior is a straight line
        score = special.ndtri(np.clip(below, 1e-300, 1 - 1e-16))
        return np.asarray(score - special.ndtri(level))

    low, high = np.maximum(low, mean - reach), np.minimum(high, mean + reach)
    found[searched] = rising_root(excess, low, high)
    return found


def _below(prior: MixturePrior, share: Array, x: Array, s: Array, point: Array) -> Array:
    """Posterior probability of ``theta <= point``."""
    below = [kernel.tails(x, s, point)[0] for kernel in prior.rows]
    return np.asarray((share * np.concatenate(below)).sum(axis=0))


def interpolated(function: Callable[[Array], Array], points: Array, width: float) -> Array:
    """Return the values of a costly function at many points from few evaluations.

    Polynomials on pieces, first of a given width, which are halved until they agree with the
    function between their nodes. Where a piece has no more points than that costs, the function is
    evaluated at those, so that corners of it do no harm.
    """
    points, back = np.unique(points, return_inverse=True)
    values = np.empty_like(points)
    piece, first = np.unique(np.floor(points / width), return_index=True)
    left, right, last = width * piece, width * (piece + 1), np.append(first[1:], points.size)
    asked = np.concatenate([_NODES, _BETWEEN])
    while first.size:
        few = last - first <= asked.size
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
