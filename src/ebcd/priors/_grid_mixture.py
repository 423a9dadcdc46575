"""Nonparametric families: mixtures over a grid of scales or locations.

The grid adapts: after the weights have been found, the spaces beside components that carry weight
are halved and the weights found anew, until that gains nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from ebcd._numerics import Array
from ebcd.priors import _kernels as kernels
from ebcd.priors._columns import Columns
from ebcd.priors._family import AbstractPriorFamily, Parameters, log_likelihood
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._kernels import AbstractKernel
from ebcd.priors._validation import as_grid
from ebcd.priors._weights import Likelihoods, WeightFit, fit_weights


@dataclass(frozen=True)
class _Settings:
    most_points: int = 400  # of a grid
    most_cells: int = 40_000_000  # entries x components in memory
    refinements: int = 12
    worthwhile: float = 3e-5  # gain of a refinement, in nats
    scale_ratio: float = 2**0.25  # of neighbours on a grid of scales
    smallest_scale: float = 0.1  # in units of the smallest noise
    location_gap: float = 0.15  # in units of the noise


SETTINGS = _Settings()


@dataclass(frozen=True)
class GridMixture(AbstractPriorFamily):
    """Components indexed by a sorted grid of positive lengths or of locations."""

    grid: Any = None
    adapts: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        if self.grid is not None:
            object.__setattr__(self, "grid", tuple(as_grid(self.grid, self._positive())))

    @classmethod
    def _positive(cls) -> bool:
        return True

    @abstractmethod
    def _components(self, grid: Array) -> AbstractKernel:
        """Components for grid points, those of one point a fixed distance apart."""

    @abstractmethod
    def _default_grid(self, column: Columns) -> Array:
        """Grid to begin with."""

    @abstractmethod
    def _parameters(self, weights: Array, grid: Array, spike: float) -> Parameters:
        """Parameters of the prior with these weights of `_components(grid)`."""

    @abstractmethod
    def _grid_of(self, prior: FittedPrior) -> Array:
        """Grid points that a fitted prior uses."""

    has_spike: ClassVar[bool] = True

    def in_units(self, unit: float) -> Self:
        """Return the same family for data divided by `unit`."""
        if self.grid is None:
            return self
        return replace(self, grid=tuple(np.asarray(self.grid) / unit))

    def for_search(self) -> Self:
        """Return the same family on a grid that does not adapt."""
        return replace(self, adapts=False)

    def fit_column(self, column: Columns, start: FittedPrior | None) -> tuple[FittedPrior, float]:
        """Fit the only column, with the mode at zero; return the prior and its certificate."""
        grid = self._default_grid(column) if self.grid is None else np.asarray(self.grid)
        problem = _Problem(column, self)
        fit, small = problem.solve(grid), 0
        for _ in range(SETTINGS.refinements if self.grid is None and self.adapts else 0):
            finer = problem.halved()
            if finer.size == 0:
                break
            before, fit = fit.log_likelihood, problem.solve(finer)
            small = small + 1 if fit.log_likelihood - before < SETTINGS.worthwhile else 0
            if small >= 2:
                break
        # The problem is convex, so that a start only matters where it has a better grid.
        if start is not None and self.grid is None:
            already = float(log_likelihood([start], column)[0])
            if already > fit.log_likelihood + 1e-7:
                fit = problem.solve(np.setdiff1d(self._grid_of(start), problem.grid))
        weights, spike = problem.by_grid_point()
        used = (weights > 0).any(axis=0)
        parameters = self._parameters(weights[:, used], problem.grid[used], spike)
        return self.build(**parameters), fit.certificate


class _Problem:
    """Likelihoods and weights on a growing grid."""

    def __init__(self, column: Columns, family: GridMixture) -> None:
        self._column, self._family = column, family
        self.grid = np.empty(0)
        self._rows: Likelihoods | None = None
        self._weights = np.empty(0)
        self._point = np.empty(0, dtype=np.intp)  # grid point of each component
        self._part = np.empty(0, dtype=np.intp)  # which of the components of that point

    def solve(self, added: Array) -> WeightFit:
        """Add grid points and find the weights."""
        x, s = self._column.x[0], np.broadcast_to(self._column.s, self._column.x.shape)[0]
        parts = self._family._components(added)
        likelihood = parts.log_marginal(x[:, None], s[:, None]).T
        n_parts = parts.size // added.size
        index = np.tile(np.arange(added.size) + self.grid.size, n_parts)
        part = np.repeat(np.arange(n_parts), added.size)
        counts = None if self._column.counts is None else self._column.counts[0]
        if self._rows is None:
            if self._family.has_spike:
                spike = kernels.PointMass(np.zeros(1)).log_marginal(x[:, None], s[:, None]).T
                likelihood = np.concatenate([spike, likelihood])
                index, part = np.append(-1, index), np.append(0, part)
            self._rows = Likelihoods(likelihood, counts)
            start = None
        else:
            self._rows = self._rows.extended(likelihood)
            start = np.concatenate([self._weights, np.zeros(index.size)])
        self.grid = np.concatenate([self.grid, added])
        self._point, self._part = np.append(self._point, index), np.append(self._part, part)
        # neighbours must be adjacent for local maxima to be seen
        places = np.append(self.grid, -np.inf)[self._point]
        order = np.lexsort((places, self._part))
        self._rows.rows = self._rows.rows[order]
        self._point, self._part = self._point[order], self._part[order]
        fit = fit_weights(self._rows, None if start is None else start[order])
        self._weights = fit.weights
        return fit

    def halved(self) -> Array:
        """Midpoints of the spaces beside grid points that carry weight."""
        used = np.unique(self._point[(self._weights > 0) & (self._point >= 0)])
        order = np.argsort(self.grid)
        place = np.searchsorted(self.grid[order], self.grid[used])
        ordered = self.grid[order]
        left = place[place > 0]
        right = place[place < ordered.size - 1]
        middle = 0.5 * np.concatenate(
            [ordered[left] + ordered[left - 1], ordered[right] + ordered[right + 1]]
        )
        gap = np.concatenate(
            [ordered[left] - ordered[left - 1], ordered[right + 1] - ordered[right]]
        )
        return np.unique(middle[gap > 1e-3 * (1e-2 + np.abs(middle))])

    def by_grid_point(self) -> tuple[Array, float]:
        """Weights as parts x grid points, and the weight of the spike."""
        at_grid = self._point >= 0
        weights = np.zeros((int(self._part.max()) + 1, self.grid.size))
        weights[self._part[at_grid], self._point[at_grid]] = self._weights[at_grid]
        return weights, float(self._weights[~at_grid].sum())


def scale_grid(column: Columns) -> Array:
    """Geometric grid from a fraction of the noise to beyond the data."""
    bottom = SETTINGS.smallest_scale * float(column.s.min())
    top = max(2 * float(column.largest.max()), 20 * bottom)
    size = int(np.ceil(np.log(top / bottom) / np.log(SETTINGS.scale_ratio))) + 1
    return np.geomspace(bottom, top, min(size, most_points(column)))


def most_points(column: Columns) -> int:
    """Grid points that fit in memory beside the data."""
    return int(np.clip(SETTINGS.most_cells // column.x.shape[1], 20, SETTINGS.most_points))


def thinned(values: Array, gap: float, most: int) -> Array:
    """Means of runs of values within about `gap`, at most `most` of them."""
    ordered = np.unique(values)
    while True:
        _, cell = np.unique(np.round(ordered / gap), return_inverse=True)
        kept = np.bincount(cell, weights=ordered) / np.bincount(cell)
        if kept.size <= most:
            return np.asarray(kept)
        gap *= 1.3


def location_grid(column: Columns, most: int) -> Array:
    """Places where values may be: the observations, thinned, and zero."""
    x = column.x[0] if column.counts is None else column.x[0, column.counts[0] > 1e-9]
    gap = SETTINGS.location_gap * float(np.quantile(column.s, 0.1))
    return np.union1d(thinned(x, gap, most - 1), 0.0 if x.min() < 0 < x.max() else x.min())
