"""Credible intervals: quantiles of the posterior, atoms included."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from scipy import special

from ebcd._numerics import Array
from ebcd.priors._fitted import FittedPrior, FlatPrior
from ebcd.priors._kernel import AbstractKernel
from ebcd.priors._kernels import PointMass
from ebcd.priors._mixture_prior import MixturePrior
from ebcd.priors._validation import as_observations

_HALVINGS = 40
_POSITIONS = ("location", "upper")  # parameters of kernels that move with them


def posterior_interval(
    prior: FittedPrior, x: Array, s: Array, probability: float = 0.95
) -> tuple[Array, Array]:
    """Give both ends of the equal-tailed credible interval of every entry.

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

    def block(z: Array, noise: Array) -> tuple[Array, Array]:
        share = special.softmax(standard._joint(z, noise), axis=-1)
        lower, upper = (_quantile(standard, share, z, noise, q) for q in (tail, 1 - tail))
        return lower, upper

    lower, upper = standard._blockwise(block, x / unit, s / unit)
    return unit * lower, unit * upper


def _quantile(prior: MixturePrior, share: Array, x: Array, s: Array, probability: float) -> Array:
    """Quantile of the posterior, in which the components have the probabilities `share`."""
    if all(isinstance(kernel, PointMass) for kernel in prior.kernels):
        return _discrete_quantile(prior, share, probability)
    found, rest = np.empty_like(x), np.arange(x.size)
    for atom, mass in zip(*_atoms(prior, share), strict=True):
        below = _below(prior, share[rest], x[rest], s[rest], np.full(rest.size, atom))
        here = (below >= probability) & (below - mass[rest] < probability)
        found[rest[here]] = atom  # where most entries of a sparse component end
        rest = rest[~here]
    found[rest] = _bisected(prior, share[rest], x[rest], s[rest], probability)
    return found


def _atoms(prior: MixturePrior, share: Array) -> tuple[Array, Array]:
    """Give the places of the atoms, and a row of posterior masses for each."""
    pairs = [
        (kernel.location, share[:, part].T)
        for kernel, part in zip(prior.kernels, prior._parts(), strict=True)
        if isinstance(kernel, PointMass)
    ]
    places, masses = zip(*pairs, strict=True) if pairs else ([np.empty(0)], [share[:, :0].T])
    return np.concatenate(places), np.concatenate(masses)


def _discrete_quantile(prior: MixturePrior, share: Array, probability: float) -> Array:
    places = np.concatenate([kernel.location for kernel in prior.kernels])
    order = np.argsort(places, kind="stable")
    below = share[:, order].cumsum(axis=1)
    below[:, -1] = 1.0
    return np.asarray(places[order][(below >= probability).argmax(axis=1)])


def _bisected(prior: MixturePrior, share: Array, x: Array, s: Array, probability: float) -> Array:
    mean, variance = prior._moments_block(x, s)
    # no distribution has more than this beyond so many standard deviations (Cantelli)
    odds = max(probability, 1 - probability) / min(probability, 1 - probability)
    reach = np.sqrt(odds * variance)
    low, high = mean - reach, mean + reach
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = _below(prior, share, x, s, middle) >= probability
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)


def _below(prior: MixturePrior, share: Array, x: Array, s: Array, point: Array) -> Array:
    """Posterior probability of ``theta <= point``."""
    columns = [
        _moved(kernel, point[:, None]).tails((x - point)[:, None], s[:, None])[0]
        for kernel in prior.kernels
    ]
    return np.asarray((share * np.concatenate(columns, axis=1)).sum(axis=-1))


def _moved(kernel: AbstractKernel, by: Array) -> AbstractKernel:
    """Give the kernels of ``theta - by``, one row for each entry of `by`."""
    rows = {f.name: getattr(kernel, f.name) + np.zeros_like(by) for f in fields(kernel)}
    return replace(kernel, **{k: v - by if k in _POSITIONS else v for k, v in rows.items()})
