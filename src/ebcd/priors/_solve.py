"""Many normal-means problems at once, in any units: what the decomposition calls in its loop.

With a common noise level the log-likelihood is a sum over entries of one smooth function of
``z = x / s``. Replacing every entry by interpolation weights on the six nearest points of a grid
turns n entries into a few hundred weighted ones, with an error far below rounding of the sum, and
posterior moments of all entries into a table look-up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array, chunks, typical
from ebcd.priors._family import NEGLIGIBLE, PRIORS, AbstractPriorFamily, Columns, Fits, evaluate
from ebcd.priors._fitted import FittedPrior

Prior = AbstractPriorFamily | FittedPrior


@dataclass(frozen=True)
class _Settings:
    # Binning pays from so many on: at 100,000 entries fits take a fifth of the time, with mixtures
    # on a grid at 3,000 a third.
    entries_per_node: int = 4
    checked: int = 50  # entries whose log marginals are compared with those on the grid
    # Points per unit of noise: the error is about 2e-3 (width of features * density)^-6.
    density: int = 40
    # z = bend sinh(u / bend): an even grid up to about `bend`, geometric beyond, where only kernels
    # that are smooth on the scale of z itself may be used.
    bend: float = 8.0


SETTINGS = _Settings()


def solve_columns(
    x: Array,
    s: Array,
    priors: Sequence[Prior],
    starts: Sequence[FittedPrior | None] | None = None,
) -> Fits:
    """Solve k independent normal-means problems of n entries each, the rows of `x`.

    The noise `s`, 0-d or of length n, is finite and the same for all problems. Fitted priors are
    kept fixed. Fits of families begin at starts, of the same families, that are not None.
    """
    s = np.asarray(s, dtype=np.float64)
    unit = float(s) if s.ndim == 0 else typical(s)
    noise = np.ones((1, 1)) if s.ndim == 0 else (s / unit)[None]
    if starts is None:
        starts = [None] * len(priors)
    groups = _groups(priors)
    fits = []
    for group in groups:
        some = x if len(groups) == 1 else x[group]
        columns = Columns(some if unit == 1 else some / unit, noise)
        fits.append(_solve_group(columns, unit, priors[group[0]], [starts[k] for k in group]))
    return _in_units(fits[0] if len(fits) == 1 else _together(fits, groups), unit, x.shape[1])


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


def _solve_group(
    columns: Columns, unit: float, prior: Prior, starts: Sequence[FittedPrior | None]
) -> Fits:
    if isinstance(prior, FittedPrior):
        fit = evaluate([prior.rescaled(1 / unit)], columns, np.array([np.nan]))
        return fit._replace(priors=[prior])
    family = prior.in_units(unit)
    binned = _bin(columns, family)
    if binned is None:
        return family.fit(columns, starts, unit)
    fit = family.fit(binned.columns, starts, unit)
    if not _representable([found.rescaled(1 / unit) for found in fit.priors], columns, binned):
        return family.fit(columns, starts, unit)
    shrinkage, variance = binned.interpolate(np.stack([binned.nodes - fit.mean, fit.variance]))
    mean = np.subtract(columns.x, shrinkage, out=shrinkage)
    mean[~fit.mean.any(axis=1)] = 0.0
    return fit._replace(mean=mean, variance=np.maximum(variance, 0.0, out=variance))


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
        if not prior.proper:  # its density is one in any units
            value[k] = 0.0
    mean = np.multiply(fit.mean, unit, out=fit.mean)
    variance = np.multiply(fit.variance, unit**2, out=fit.variance)
    return fit._replace(log_likelihood=value, mean=mean, variance=variance)


def sign_rates(x: Array, s: Array, prior: FittedPrior) -> Array:
    """Local false sign rates of observations with finite noise."""
    unit = float(s) if s.ndim == 0 else typical(s)
    standard, z = prior.rescaled(1 / unit), x / unit
    if s.ndim == 0 and PRIORS[prior.family].smooth_tails:
        columns = Columns(z[None], np.ones((1, 1)))
        binned = _bin(columns, PRIORS[prior.family])
        if binned is not None and _representable([standard], columns, binned):
            # tails span decades, and their minimum has a kink: interpolate both logarithms
            tails = np.array(standard.tails(binned.nodes, np.ones(binned.nodes.size)))
            below, above = binned.interpolate(np.log(np.maximum(tails, 1e-300))[:, None])
            return np.asarray(np.exp(np.minimum(np.minimum(below, above)[0], 0.0)))
    return np.minimum(*standard.tails(z, np.broadcast_to(s / unit, x.shape)))


def _bin(
    columns: Columns, family: AbstractPriorFamily | type[AbstractPriorFamily]
) -> Binned | None:
    """Bin the columns if that pays."""
    n = columns.x.shape[1]
    if columns.s.size > 1 or not family.binned:
        return None
    even = not family.smooth_tails
    ends = _place(np.array([columns.x.min(), columns.x.max()]), even)
    if (np.ptp(ends) + 6) * SETTINGS.entries_per_node > n:
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
        if np.abs((weights * table).sum(axis=1) - exact).max() > NEGLIGIBLE:
            return False
    return True


def _place(z: Array, even: bool) -> Array:
    """Return places on a grid that is even, or geometric in the tails, from those on the line."""
    bend = SETTINGS.bend
    return np.asarray(SETTINGS.density * (z if even else bend * np.arcsinh(z / bend)))


class Binned:
    """Columns with unit noise (k x n), represented by interpolation weights on a grid."""

    def __init__(self, z: Array, even: bool) -> None:
        self._places = _place(z, even)
        low, high = np.floor(self._places.min()), np.floor(self._places.max())
        n_nodes = int(high - low) + 6
        # an entry's cell has the number of its leftmost node, two to the left of it
        self._places -= low
        nodes = (np.arange(n_nodes) + low - 2) / SETTINGS.density
        self.nodes = nodes if even else SETTINGS.bend * np.sinh(nodes / SETTINGS.bend)
        counts = np.array([_node_weights(places, n_nodes) for places in self._places])
        self.columns = Columns(self.nodes[None, :], np.ones((1, 1)), counts)

    def interpolate(self, tables: Array) -> Array:
        """Values at the entries (q x k x n) of functions tabulated at the nodes (q x k x nodes)."""
        windows = np.lib.stride_tricks.sliding_window_view(tables, 6, axis=-1)
        coefficients = np.moveaxis(windows @ _LAGRANGE, -1, 0)
        out: Array = np.empty((len(tables), *self._places.shape))
        for column in range(out.shape[1]):
            powers = np.ascontiguousarray(coefficients[:, :, column])
            for part in chunks(out.shape[2]):
                cell, d = _cells(self._places[column, part])
                for table in range(len(out)):
                    value = powers[-1, table].take(cell)
                    for power in powers[-2::-1, table]:
                        value *= d
                        value += power.take(cell)
                    out[table, column, part] = value
        return out

    def stencils(self, column: int, step: int) -> tuple[Array, Array]:
        """Return the nodes near every `step`-th entry of a column, and their weights."""
        cell, d = _cells(self._places[column, ::step])
        weights = np.vander(d, 6, increasing=True) @ _LAGRANGE.T
        return self.nodes[cell[:, None] + np.arange(6)], weights


def _node_weights(places: Array, n_nodes: int) -> Array:
    """Sum the interpolation weights of the entries of one column at every node."""
    powers = np.zeros((6, n_nodes))  # sums of powers of the offset in each cell
    for part in chunks(places.size):
        cell, d = _cells(places[part])
        power = np.ones_like(d)
        for j in range(6):
            powers[j] += np.bincount(cell, weights=power, minlength=n_nodes)
            power *= d
    spread = _LAGRANGE @ powers
    return np.asarray(np.sum([np.pad(spread[j, : n_nodes - j], (j, 0)) for j in range(6)], axis=0))


def _cells(places: Array) -> tuple[NDArray[np.intp], Array]:
    """Cells in which places lie, and where in them."""
    floor = np.floor(places)
    return floor.astype(np.intp), places - floor


# C[i, j]: coefficient of d^j in the weight of node i - 2, for d in [0, 1).
_LAGRANGE = np.linalg.inv(np.vander(np.arange(-2.0, 4.0), increasing=True)).T
