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

_HALVINGS = 45
_SAME = 1e-9  # of a standard deviation
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
        return _quantile(standard, z, noise, tail), _quantile(standard, z, noise, 1 - tail)

    lower, upper = standard._blockwise(block, x / unit, s / unit)
    return unit * lower, unit * upper


def _quantile(prior: MixturePrior, x: Array, s: Array, probability: float) -> Array:
    share = special.softmax(prior._joint(x, s), axis=-1)
    mean, variance = prior._moments_block(x, s)
    sd = np.sqrt(variance)
    # no distribution has more than this beyond so many standard deviations (Cantelli)
    reach = np.sqrt(max(probability, 1 - probability) / min(probability, 1 - probability))
    low, high = mean - reach * sd, mean + reach * sd
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        enough = (share * _below(prior, x, s, middle)).sum(axis=-1) >= probability
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    for kernel in prior.kernels:
        if isinstance(kernel, PointMass):
            near = np.abs(kernel.location - high[:, None]).argmin(axis=1)
            atom = kernel.location[near]
            high = np.where(np.abs(atom - high) <= _SAME * sd, atom, high)
    return np.asarray(high)


def _below(prior: MixturePrior, x: Array, s: Array, point: Array) -> Array:
    """Posterior probabilities of ``theta <= point``, one column for each component."""
    columns = [
        _moved(kernel, point[:, None]).tails((x - point)[:, None], s[:, None])[0]
        for kernel in prior.kernels
    ]
    return np.concatenate(columns, axis=1)


def _moved(kernel: AbstractKernel, by: Array) -> AbstractKernel:
    """Give the kernels of ``theta - by``, one row for each entry of `by`."""
    rows = {f.name: getattr(kernel, f.name) + np.zeros_like(by) for f in fields(kernel)}
    return replace(kernel, **{k: v - by if k in _POSITIONS else v for k, v in rows.items()})
