"""Credible intervals: quantiles of the posterior, atoms included.

A posterior is a mixture of atoms and slabs: a quantile is an atom, or is searched between two. With
one noise level it is a function of the observation alone, and is interpolated if there are many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from ebcd._numerics import Array
from ebcd.priors._fitted import FittedPrior, FlatPrior
from ebcd.priors._interpolated import TOLERANCE, interpolated
from ebcd.priors._kernels import PointMass
from ebcd.priors._mixture_prior import MixturePrior
from ebcd.priors._rising_root import rising_root
from ebcd.priors._validation import as_observations

_MANY = 1000  # entries from which interpolation pays


def posterior_interval(
    prior: FittedPrior, x: Array, s: Array, probability: float = 0.95
) -> tuple[Array, Array]:
    """Return both ends of the equal-tailed credible interval of every entry.

    Parameters
    ----------
    prior : FittedPrior
    x, s : ndarray
        Observations, and standard deviations of their noise (finite).
    probability : float
        Posterior probability of the interval; an atom at an end belongs to it, so that it may
        hold more.

    Returns
    -------
    lower, upper : ndarray
        The smallest values that theta does not exceed with probability ``(1 - probability) / 2``
        and ``(1 + probability) / 2`` at the least.
    """
    x, s = as_observations(x, s)
    tail = 0.5 * (1 - probability)
    if isinstance(prior, FlatPrior):
        reach = special.ndtri(1 - tail) * s
        return x - reach, x + reach
    if not isinstance(prior, MixturePrior):
        raise TypeError(f"no intervals are known for a {type(prior).__name__}")
    unit = float(np.median(s))
    standard = prior.rescaled_mixture(1 / unit)
    levels = (tail, 1 - tail)
    if x.size > _MANY and (s == s[0]).all() and not _discrete(prior):
        lower, upper = _interpolated_quantiles(standard, x / unit, levels)
    else:
        lower, upper = _exact_quantiles(standard, x / unit, s / unit, levels)
    return unit * lower, unit * upper


def _exact_quantiles(
    prior: MixturePrior, x: Array, s: Array, levels: tuple[float, ...]
) -> tuple[Array, ...]:
    def block(x: Array, s: Array) -> tuple[Array, ...]:
        share = special.softmax(prior._joint(x, s), axis=-1)
        if _discrete(prior):
            return tuple(_discrete_quantile(prior, share, level) for level in levels)
        atoms = _atoms(prior, share, x, s)
        return tuple(_quantile(prior, share, atoms, x, s, level) for level in levels)

    return prior._blockwise(block, x, s)


def _interpolated_quantiles(
    prior: MixturePrior, x: Array, levels: tuple[float, ...]
) -> tuple[Array, ...]:
    """Quantiles for unit noise, atoms exactly."""
    found = []
    for level in levels:

        def quantile(z: Array, level: float = level) -> Array:
            return _exact_quantiles(prior, z, np.ones_like(z), (level,))[0]

        values = interpolated(quantile, x, width=2.0)  # noise blurs what is finer
        for kernel in prior.kernels:
            for place in kernel.location if isinstance(kernel, PointMass) else ():
                values[np.abs(values - place) <= TOLERANCE * (1 + abs(place))] = place
        found.append(values)
    return tuple(found)


def _discrete(prior: MixturePrior) -> bool:
    return all(isinstance(kernel, PointMass) for kernel in prior.kernels)


def _discrete_quantile(prior: MixturePrior, share: Array, probability: float) -> Array:
    places = np.concatenate([kernel.location for kernel in prior.kernels])
    order = np.argsort(places, kind="stable")
    below = share[:, order].cumsum(axis=1)
    below[:, -1] = 1.0
    return np.asarray(places[order][(below >= probability).argmax(axis=1)])


@dataclass(frozen=True)
class _Atoms:
    """Places of atoms; a row for each with its posterior masses, and those up to its place."""

    places: Array
    masses: list[Array]
    below: list[Array]


def _atoms(prior: MixturePrior, share: Array, x: Array, s: Array) -> _Atoms:
    parts = [
        (float(place), share[:, part.start + i])
        for kernel, part in zip(prior.kernels, prior._parts(), strict=True)
        if isinstance(kernel, PointMass)
        for i, place in enumerate(kernel.location)
    ]
    below = [_below(prior, share, x, s, np.full_like(x, place)) for place, _ in parts]
    return _Atoms(np.array([place for place, _ in parts]), [mass for _, mass in parts], below)


def _quantile(
    prior: MixturePrior, share: Array, atoms: _Atoms, x: Array, s: Array, probability: float
) -> Array:
    """Quantile of the posterior, in which the components have the probabilities `share`."""
    found, open_ = np.empty_like(x), np.ones(x.size, dtype=bool)
    low, high = np.full_like(x, -np.inf), np.full_like(x, np.inf)
    for place, mass, below in zip(atoms.places, atoms.masses, atoms.below, strict=True):
        here = (below >= probability) & (below - mass < probability)
        found[here] = place  # where most entries of a sparse component end
        open_ &= ~here
        beyond = below < probability
        low = np.where(beyond, np.maximum(low, place), low)
        high = np.where(beyond, high, np.minimum(high, place))
    rest = np.flatnonzero(open_)
    if rest.size == 0:
        return found
    share, x, s, low, high = (values[rest] for values in (share, x, s, low, high))
    found[rest] = _searched(prior, share, x, s, probability, low, high)
    return found


def _searched(
    prior: MixturePrior,
    share: Array,
    x: Array,
    s: Array,
    probability: float,
    low: Array,
    high: Array,
) -> Array:
    """Quantiles between `low` and `high`, with no atom between those."""
    mean, variance = prior._moments_block(x, s)
    # no distribution has more than this beyond so many standard deviations (Cantelli)
    odds = max(probability, 1 - probability) / min(probability, 1 - probability)
    reach = np.sqrt(odds * variance)

    def excess(point: Array, rows: np.ndarray) -> Array:
        below = _below(prior, share[rows], x[rows], s[rows], point)
        # on this scale a normal posterior is a straight line
        score = special.ndtri(np.clip(below, 1e-300, 1 - 1e-16))
        return np.asarray(score - special.ndtri(probability))

    return rising_root(excess, np.maximum(low, mean - reach), np.minimum(high, mean + reach))


def _below(prior: MixturePrior, share: Array, x: Array, s: Array, point: Array) -> Array:
    """Posterior probability of ``theta <= point``."""
    columns = [kernel.tails(x[:, None], s[:, None], point[:, None])[0] for kernel in prior.kernels]
    return np.asarray((share * np.concatenate(columns, axis=1)).sum(axis=-1))
