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
from ebcd.priors._family import NEGLIGIBLE, AbstractPriorFamily, Columns, Fits, evaluate
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
    begin = [start and start.rescaled(1 / unit) for start in starts or [None] * len(priors)]
    first = priors[0]
    together = not isinstance(first, FittedPrior) and all(prior == first for prior in priors)
    fits = []
    for rows in chunks(len(priors), len(priors) if together else 1):
        columns = Columns(x[rows] if unit == 1 else x[rows] / unit, noise)
        fits.append(_solve_alike(columns, unit, priors[rows.start], begin[rows]))
    return _in_units(fits, unit, x.shape[1])


def _solve_alike(
    columns: Columns, unit: float, prior: Prior, starts: Sequence[FittedPrior | None]
) -> Fits:
    """Solve problems in units of the noise with one family, or one with a known prior."""
    if isinstance(prior, FittedPrior):
        fit = evaluate([prior.rescaled(1 / unit)], columns)
        return fit._replace(priors=[prior])
    family = prior.in_units(unit)
    binned = _bin(columns, family)
    if binned is not None:
        fit = family.fit(binned.columns, starts)
    if binned is None or not _representable(fit.priors, columns, binned):
        fit = family.fit(columns, starts)
    else:
        tables = np.stack([binned.nodes - fit.mean, fit.variance])
        shrinkage, variance = binned.interpolate(tables)
        mean = np.subtract(columns.x, shrinkage, out=shrinkage)
        mean[~fit.mean.any(axis=1)] = 0.0
        fit = fit._replace(mean=mean, variance=np.maximum(variance, 0.0, out=variance))
    return fit._replace(priors=[found.rescaled(unit) for found in fit.priors])


def _in_units(fits: list[Fits], unit: float, n: int) -> Fits:
    """Put problems below each other, and go back to the units of the data."""
    fit = fits[0] if len(fits) == 1 else Fits.joined(fits)
    if unit == 1:
        return fit
    # a density that is no distribution is one in any units
    proper = np.array([prior.proper for prior in fit.priors])
    value = fit.log_likelihood - proper * (n * math.log(unit))
    mean = np.multiply(fit.mean, unit, out=fit.mean)
    variance = np.multiply(fit.variance, unit**2, out=fit.variance)
    return fit._replace(log_likelihood=value, mean=mean, variance=variance)


def _bin(columns: Columns, family: AbstractPriorFamily) -> Binned | None:
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
    if even:
        return np.asarray(SETTINGS.density * z)
    places: Array = z / SETTINGS.bend
    np.arcsinh(places, out=places)
    places *= SETTINGS.density * SETTINGS.bend
    return places


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
