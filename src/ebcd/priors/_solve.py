"""Many normal-means problems at once, in any units: what the decomposition calls in its loop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ebcd._numerics import Array
from ebcd.priors._columns import Binned, Columns, typical
from ebcd.priors._family import AbstractPriorFamily, Fits, evaluate
from ebcd.priors._fitted import FittedPrior, FlatPrior
from ebcd.priors._registry import PRIORS


@dataclass(frozen=True)
class _Settings:
    # Binning pays from so many entries, if they are several times the nodes of the grid: at 100,000
    # entries it takes a fifth of the time.
    entries: int = 4_000
    entries_per_node: int = 4
    even_grid_from: int = 40  # entries per node from which places on a bent grid cost more
    # Entries whose log marginals are checked against the grid, and how well they must agree.
    checked: int = 50
    agreement: float = 1e-6


SETTINGS = _Settings()
Prior = AbstractPriorFamily | FittedPrior


def solve_columns(
    x: Array,
    s: Array,
    priors: Sequence[Prior],
    starts: Sequence[FittedPrior | None] | None = None,
) -> Fits:
    """Solve k independent normal-means problems of n entries each.

    Parameters
    ----------
    x : array, k x n
        Observations, one problem a row.
    s : array, 0-d or of length n
        Noise standard deviations, the same for all problems; finite.
    priors : sequence of families or fitted priors
        One for each problem. Fitted priors are kept fixed.
    starts : sequence of fitted priors or None, optional
        Where to start, of the same families.

    Returns
    -------
    Fits
    """
    s = np.asarray(s, dtype=np.float64)
    unit = float(s) if s.ndim == 0 else typical(s)
    noise = np.ones((1, 1)) if s.ndim == 0 else (s / unit)[None]
    if starts is None:
        starts = [None] * len(priors)
    groups = _groups(priors)
    fits = [
        _solve_group(x if len(groups) == 1 else x[group], noise, unit, priors[group[0]], begin)
        for group in groups
        for begin in [[starts[k] for k in group]]
    ]
    return _in_units(fits[0] if len(fits) == 1 else _together(fits, groups), unit, x.shape[1])


def _solve_group(
    x: Array, s: Array, unit: float, prior: Prior, starts: list[FittedPrior | None]
) -> Fits:
    columns = Columns(x if unit == 1 else x / unit, s)
    if isinstance(prior, FittedPrior):
        fit = evaluate([prior.rescaled(1 / unit)], columns, np.array([np.nan]))
        return fit._replace(priors=[prior])
    return _fit(prior.in_units(unit), columns, starts, unit)


def _groups(priors: Sequence[Prior]) -> list[list[int]]:
    """Problems that can be solved in one call: equal families."""
    groups: list[list[int]] = []
    for k, prior in enumerate(priors):
        for group in groups:
            if not isinstance(prior, FittedPrior) and prior == priors[group[0]]:
                group.append(k)
                break
        else:
            groups.append([k])
    return groups


def _together(fits: list[Fits], groups: list[list[int]]) -> Fits:
    """Put the columns of all groups back into their order."""
    order = np.argsort(np.concatenate(groups))
    priors = [prior for fit in fits for prior in fit.priors]
    values, mean, variance, certificates = (
        np.concatenate([np.asarray(fit[part]) for fit in fits])[order] for part in range(1, 5)
    )
    return Fits([priors[k] for k in order], values, mean, variance, certificates)


def _in_units(fit: Fits, unit: float, n: int) -> Fits:
    """Go back to the units of the data."""
    if unit == 1:
        return fit
    value = fit.log_likelihood - n * math.log(unit)
    for k, prior in enumerate(fit.priors):
        if isinstance(prior, FlatPrior):  # improper
            value[k] = 0.0
    mean = np.multiply(fit.mean, unit, out=fit.mean)
    variance = np.multiply(fit.variance, unit**2, out=fit.variance)
    return fit._replace(log_likelihood=value, mean=mean, variance=variance)


def _fit(
    family: AbstractPriorFamily,
    columns: Columns,
    starts: Sequence[FittedPrior | None],
    unit: float,
) -> Fits:
    binned = _bin(columns, family)
    if binned is None:
        return family.fit(columns, starts, unit)
    fit = family.fit(binned.columns, starts, unit)
    if not _representable([prior.rescaled(1 / unit) for prior in fit.priors], columns, binned):
        return family.fit(columns, starts, unit)
    shrinkage, variance = binned.interpolate(np.stack([binned.nodes - fit.mean, fit.variance]))
    mean = np.subtract(columns.x, shrinkage, out=shrinkage)
    mean[~fit.mean.any(axis=1)] = 0.0
    return fit._replace(mean=mean, variance=np.maximum(variance, 0.0, out=variance))


def sign_rates(x: Array, s: Array, prior: FittedPrior) -> Array:
    """Local false sign rates of observations with finite noise."""
    if s.ndim == 0 and PRIORS[prior.family].smooth_tails:
        unit = float(s)
        columns, standard = Columns(x[None] / unit, np.ones((1, 1))), prior.rescaled(1 / unit)
        binned = _bin(columns, PRIORS[prior.family])
        if binned is not None and _representable([standard], columns, binned):
            # tails span decades, and their minimum has a kink: interpolate both logarithms
            tails = np.array(standard.tails(binned.nodes, np.ones(binned.nodes.size)))
            below, above = binned.interpolate(np.log(np.maximum(tails, 1e-300))[:, None])
            smaller = np.minimum(below[0], above[0], out=below[0])
            return np.asarray(np.exp(np.minimum(smaller, 0.0, out=smaller), out=smaller))
    unit = float(s) if s.ndim == 0 else typical(s)
    noise = np.broadcast_to(s / unit, x.shape)
    return np.minimum(*prior.rescaled(1 / unit).tails(x / unit, noise))


def _bin(
    columns: Columns, family: AbstractPriorFamily | type[AbstractPriorFamily]
) -> Binned | None:
    """Bin the columns if that pays."""
    n = columns.x.shape[1]
    if columns.s.size > 1 or n < SETTINGS.entries or not family.binned:
        return None
    low, high = float(columns.x.min()), float(columns.x.max())
    even = (
        not family.smooth_tails
        or Binned.n_nodes(low, high, even=True) * SETTINGS.even_grid_from <= n
    )
    if Binned.n_nodes(low, high, even) * SETTINGS.entries_per_node > n:
        return None
    return Binned(columns.x, even)


def _representable(priors: list[FittedPrior], columns: Columns, binned: Binned) -> bool:
    """Whether interpolated log marginals agree with exact ones, on some entries."""
    step = max(1, columns.x.shape[1] // SETTINGS.checked)
    for k, prior in enumerate(priors):
        nodes, weights = binned.stencils(k, step)
        some = columns.x[k, ::step]
        places = np.concatenate([nodes.ravel(), some])
        values = prior.log_marginal(places, np.ones(places.size))
        table, exact = values[: nodes.size].reshape(nodes.shape), values[nodes.size :]
        if np.abs((weights * table).sum(axis=1) - exact).max() > SETTINGS.agreement:
            return False
    return True
