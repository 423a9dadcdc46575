"""Nonparametric families: mixtures over a grid of scales or locations.

The grid adapts: after the weights have been found, the spaces beside components that carry weight
are halved and the weights found anew, until that gains nothing. In a search spaces are twice as
wide, as marginals change on the scale of the noise.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from scipy import interpolate

from ebcd._numerics import Array
from ebcd._parameters import FLAG, integer, real
from ebcd.priors import _kernels as kernels
from ebcd.priors._family import (
    NEGLIGIBLE,
    AbstractPriorFamily,
    Columns,
    Parameters,
    as_mode,
    log_likelihood,
    register,
)
from ebcd.priors._fitted import CELLS, FittedPrior, MixturePrior
from ebcd.priors._kernels import AbstractKernel
from ebcd.priors._two_group import SHORTEST
from ebcd.priors._validation import as_grid, as_weights, check_ratio
from ebcd.priors._weights import WeightFit, fit_weights


@dataclass(frozen=True)
class _Settings:
    most_points: int = 400  # of a grid
    # Spaces this wide, in units of the noise over the root of the number of observations, which is
    # how well the place of a component can be known, cost less than 1e-4 nats; five times
    # wider ones make the likelihood of an estimated mode jump.
    finest: float = 0.02
    location_gap: float = 0.3  # in units of the noise


SETTINGS = _Settings()


@dataclass(frozen=True)
class GridMixture(AbstractPriorFamily):
    """Components indexed by a grid: of positive lengths, with a spike besides, or of locations."""

    has_spike: ClassVar[bool] = True
    indexed_by: ClassVar[str]  # the parameter that holds grid points

    grid: Any = None
    adapts: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        FLAG.check("adapts", self.adapts)
        if self.grid is not None:
            object.__setattr__(self, "grid", tuple(as_grid(self.grid, positive=self.has_spike)))

    @abstractmethod
    def _components(self, grid: Array) -> list[AbstractKernel]:
        """Components for grid points: one kernel for each kind of them."""

    @abstractmethod
    def _default_grid(self, column: Columns) -> Array:
        """Grid to begin with."""

    def _parameters(self, weights: Array, points: Array, kinds: np.ndarray) -> Parameters:
        """Parameters of the prior with components of these kinds, the spike first at point 0."""
        return {"weights": weights, self.indexed_by: points}

    def _known(self, prior: FittedPrior) -> tuple[Array, np.ndarray]:
        """Grid points and kinds of the components of a fitted prior, in the order of weights."""
        points = np.asarray(prior.parameters[self.indexed_by])
        return points, np.zeros(points.shape, dtype=np.intp)

    def in_units(self, unit: float) -> Self:
        if self.grid is None:
            return self
        grid = np.asarray(self.grid)
        check_ratio(grid, np.asarray(unit), "grid")
        return replace(self, grid=tuple(grid / unit))

    def for_search(self) -> Self:
        """Return the same family on a coarse grid, which adapts a little from fit to fit."""
        return replace(self, adapts=False)

    def fit_column(self, column: Columns, start: FittedPrior | None) -> FittedPrior:
        problem = _Problem(column, self)
        known = np.empty(0) if start is None else np.unique(self._known(start)[0])
        known = known[known > 0] if self.has_spike else known
        if self.grid is not None:
            fit = problem.solve(np.asarray(self.grid))
        elif self.adapts:
            fit = problem.solve(self._default_grid(column))
            while (finer := problem.halved()).size:
                fit = problem.solve(finer)
            # The problem is convex, so that a start only matters where it has a better grid.
            if start is not None and log_likelihood(start, column) > fit.log_likelihood + 1e-7:
                fit = problem.solve(np.setdiff1d(known, problem.points))
        elif start is None:
            problem.solve(replace(self, adapts=True)._default_grid(column))
            fit = problem.solve(problem.halved())
        else:  # spaces are halved once, so that a sequence of fits adapts the grid
            grid = np.union1d(self._default_grid(column), known)
            fit = problem.solve(np.union1d(grid, problem.halves(grid, known)), start)
        used = fit.weights > 0
        used[0] |= self.has_spike
        parameters = self._parameters(fit.weights[used], problem.points[used], problem.kinds[used])
        return self.build(**parameters)


class _Problem:
    """Components on a growing grid, ordered by kind and grid point, and their weights."""

    def __init__(self, column: Columns, family: GridMixture) -> None:
        self._column, self._family = column, family
        self.points = np.zeros(int(family.has_spike))  # the spike, at grid point zero
        self.kinds = self.points.astype(np.intp)
        self._rows = self._log_marginal(kernels.PointMass(self.points))
        self._fit = WeightFit(self.points, -np.inf, np.inf)

    def _log_marginal(self, kernel: AbstractKernel) -> Array:
        """Log marginals, one row per component."""
        return kernel.take((slice(None), None)).log_marginal(self._column.x, self._column.s)

    def solve(self, added: Array, start: FittedPrior | None = None) -> WeightFit:
        """Add grid points and find the weights, from those of a prior on these points if given."""
        if not added.size:
            return self._fit
        parts = self._family._components(added)
        points = np.concatenate([self.points, *[added] * len(parts)])
        kinds = np.concatenate([self.kinds, np.repeat(np.arange(len(parts)), added.size)])
        weights = np.concatenate([self._fit.weights, np.zeros(points.size - self.points.size)])
        rows = np.concatenate([self._rows, *map(self._log_marginal, parts)])
        order = np.lexsort((points, kinds))  # neighbors are adjacent, so that maxima can be seen
        self.points, self.kinds, self._rows = points[order], kinds[order], rows[order]
        counts, weights, goal = self._column.weights[0], weights[order], 0.0
        if start is not None:
            known, kinds = self._family._known(start)
            match = (self.points[:, None] == known) & (self.kinds[:, None] == kinds)
            weights, goal = match @ start.parameters["weights"], NEGLIGIBLE
        self._fit = fit_weights(self._rows, counts, weights if weights.any() else None, goal)
        return self._fit

    def halved(self) -> Array:
        """Midpoints of the spaces beside grid points that carry weight."""
        inner = slice(int(self._family.has_spike), None)
        points = self.points[inner]
        return self.halves(np.unique(points), points[self._fit.weights[inner] > 0])

    def halves(self, grid: Array, used: Array) -> Array:
        """Midpoints of the spaces of a grid beside points that are used, but for tiny ones."""
        matters = np.zeros(grid.size, dtype=bool)
        matters[np.searchsorted(grid, used)] = True
        beside = matters[1:] | matters[:-1]
        middle, gap = 0.5 * (grid[1:] + grid[:-1])[beside], np.diff(grid)[beside]
        # a long scale is known in proportion to itself
        unit = float(self._column.s.min()) + self._family.has_spike * np.abs(middle)
        finest = SETTINGS.finest / np.sqrt(self._column.totals[0])
        return np.asarray(middle[gap > np.maximum(finest * unit, 1e-4 * np.abs(middle))])


def _scale_grid(column: Columns, fine: bool) -> Array:
    """Geometric grid from a fraction of the noise to beyond the data."""
    bottom = SHORTEST * float(column.s.min())
    top = max(2 * float(column.largest.max()), 20 * bottom)
    step = math.log(2.0) * (0.5 if fine else 1.0)
    size = math.ceil(math.log(top / bottom) / step) + 1
    return bottom * (top / bottom) ** np.linspace(0, 1, min(size, _most_points(column)))


def _most_points(column: Columns) -> int:
    """Grid points that fit in memory beside the data."""
    n_entries: int = column.x.shape[1]
    return min(max(CELLS // n_entries, 20), SETTINGS.most_points)


def _thinned(values: Array, gap: float, most: int) -> Array:
    """Means of runs of values within about `gap`, at most `most` of them."""
    ordered = np.unique(values)
    while True:
        place = np.round(ordered / gap)
        cell = np.cumsum(np.diff(place, prepend=place[:1]) > 0)
        kept = np.bincount(cell, weights=ordered) / np.bincount(cell)
        if kept.size <= most:
            return np.asarray(kept)
        gap *= 1.3


def _noise(column: Columns, share: float) -> float:
    """Noise that is larger than this share of all."""
    return float(np.quantile(column.s, share) if column.s.size > 1 else column.s[0, 0])


def _location_grid(column: Columns, most: int, gap: float) -> Array:
    """Places where values may be: the observations, thinned, and zero."""
    x = column.x[0, column.weights[0] > 1e-9]
    gap *= _noise(column, 0.1)
    return np.union1d(_thinned(x, gap, most - 1), 0.0 if x.min() < 0 < x.max() else x.min())


@register
@dataclass(frozen=True)
class NormalScaleMixture(GridMixture):
    """Any scale mixture of normals around `mode`, with a spike there.

    Parameters
    ----------
    grid : array-like, optional
        Standard deviations to mix, kept as they are. By default a geometric grid that adapts.
    """

    name: ClassVar[str] = "normal_scale_mixture"
    indexed_by: ClassVar[str] = "scales"
    lengths: ClassVar[tuple[str, ...]] = ("scales",)
    smooth_tails: ClassVar[bool] = True

    def _components(self, grid: Array) -> list[AbstractKernel]:
        return [kernels.Normal(np.zeros_like(grid), grid)]

    def _default_grid(self, column: Columns) -> Array:
        return _scale_grid(column, self.adapts)

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `weights`, `scales` (0 for the spike) and `mode`."""
        scales = as_grid(parameters["scales"], False, "scales")
        if (scales < 0).any():
            raise ValueError("scales must not be negative")
        weights, mode = as_weights(parameters["weights"], scales.size), as_mode(parameters)
        at, spike = np.full(scales.size, mode), scales == 0
        slabs = kernels.Normal(at[~spike], scales[~spike])
        kept = {"weights": weights, "scales": scales, "mode": mode}
        return _mixture(cls, kept, spike, kernels.PointMass(at[spike]), slabs)


def _mixture(
    family: type[GridMixture],
    parameters: Parameters,
    spike: np.ndarray,
    atoms: AbstractKernel,
    slabs: AbstractKernel,
) -> MixturePrior:
    """Make a prior of atoms and slabs, of which there may be none."""
    weights = np.append(parameters["weights"][spike], parameters["weights"][~spike])
    return MixturePrior(family, parameters, weights, [part for part in (atoms, slabs) if part.size])


@register
@dataclass(frozen=True)
class Unimodal(GridMixture):
    """Any distribution with a single mode: uniforms from `mode` outwards, on both sides.

    Parameters
    ----------
    grid : array-like, optional
        Widths of the uniform components, kept as they are. By default a grid that adapts.
    """

    name: ClassVar[str] = "unimodal"
    positions: ClassVar[tuple[str, ...]] = ("lower", "upper", "mode")
    # how far each kind of component reaches below and above the mode, in units of its grid point
    sides: ClassVar[tuple[tuple[float, float], ...]] = ((0.0, 1.0), (-1.0, 0.0))

    def _components(self, grid: Array) -> list[AbstractKernel]:
        return [kernels.Uniform(below * grid, above * grid) for below, above in self.sides]

    def _default_grid(self, column: Columns) -> Array:
        scales = _scale_grid(column, self.adapts)
        if not self.adapts:
            return scales
        most, noise = _most_points(column) // 2, float(column.s.min())
        edges = np.abs(column.x[0, column.weights[0] > 0])
        return np.union1d(scales[:most], _thinned(edges[edges > 2 * noise], 0.5 * noise, most))

    def _parameters(self, weights: Array, points: Array, kinds: np.ndarray) -> Parameters:
        lower, upper = np.asarray(self.sides)[kinds].T * points + 0.0  # no minus zero
        order = np.lexsort((upper, lower, points > 0))
        ends = {"lower": lower[order], "upper": upper[order]}
        return {"weights": weights[order], **ends}

    def _known(self, prior: FittedPrior) -> tuple[Array, np.ndarray]:
        below = prior.parameters["mode"] - prior.parameters["lower"]
        above = prior.parameters["upper"] - prior.parameters["mode"]
        return np.maximum(below, above), (below > 0) * (len(self.sides) - 1)

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `weights`, `lower`, `upper` (equal for the spike) and `mode`."""
        lower, upper = (as_grid(parameters[end], False, end) for end in ("lower", "upper"))
        if lower.shape != upper.shape or (lower > upper).any():
            raise ValueError("lower and upper must have one entry per component, lower <= upper")
        weights, mode = as_weights(parameters["weights"], lower.size), as_mode(parameters)
        cls._check_sides(lower - mode, upper - mode)
        spike = lower == upper
        slabs = kernels.Uniform(lower[~spike], upper[~spike])
        kept = {"weights": weights, "lower": lower, "upper": upper, "mode": mode}
        return _mixture(cls, kept, spike, kernels.PointMass(lower[spike]), slabs)

    @classmethod
    def _check_sides(cls, below: Array, above: Array) -> None:
        """Refuse components whose ends, given from the mode, are not of this family."""
        slack = 1e-9 * (above - below)
        if (below > slack).any() or (above < -slack).any():
            raise ValueError("every component must reach the mode: lower <= mode <= upper")
        if cls.side:
            end, rule = (below, "lower = mode") if cls.side > 0 else (above, "upper = mode")
        elif len(cls.sides) == 1:
            end, rule = above + below, "mode - lower = upper - mode"
        else:
            return
        wrong = np.flatnonzero(np.abs(end) > slack)
        if wrong.size:
            k = int(wrong[0])
            raise ValueError(
                f"component {k} reaches from {below[k]:g} to {above[k]:+g} about the mode; those "
                f"of {cls.name} have {rule}"
            )

    @classmethod
    def mirror(cls, parameters: Parameters) -> Parameters:
        ends = {"lower": -parameters["upper"], "upper": -parameters["lower"]}
        return {**super().mirror(parameters), **ends}


@register
@dataclass(frozen=True)
class UnimodalSymmetric(Unimodal):
    """Any distribution with a single mode that is symmetric about it."""

    name: ClassVar[str] = "unimodal_symmetric"
    sides: ClassVar[tuple[tuple[float, float], ...]] = ((-1.0, 1.0),)


@register
@dataclass(frozen=True)
class UnimodalNonnegative(Unimodal):
    """Any distribution that is zero below `mode` and decreasing above it."""

    name: ClassVar[str] = "unimodal_nonnegative"
    side: ClassVar[int] = 1
    sides: ClassVar[tuple[tuple[float, float], ...]] = ((0.0, 1.0),)


@register
@dataclass(frozen=True)
class UnimodalNonpositive(Unimodal):
    """Any distribution that is zero above `mode` and increasing below it."""

    name: ClassVar[str] = "unimodal_nonpositive"
    side: ClassVar[int] = -1
    sides: ClassVar[tuple[tuple[float, float], ...]] = ((-1.0, 0.0),)


@register
@dataclass(frozen=True)
class NPMLE(GridMixture):
    """Any distribution at all: the nonparametric maximum-likelihood estimate, a few atoms.

    Parameters
    ----------
    grid : array-like, optional
        Places for the atoms, kept as they are. By default the observations, thinned, and
        then refined where the atoms are.
    """

    name: ClassVar[str] = "npmle"
    indexed_by: ClassVar[str] = "locations"
    positions: ClassVar[tuple[str, ...]] = ("locations",)
    has_mode: ClassVar[bool] = False
    has_spike: ClassVar[bool] = False

    def _components(self, grid: Array) -> list[AbstractKernel]:
        return [kernels.PointMass(grid)]

    def _default_grid(self, column: Columns) -> Array:
        gap = SETTINGS.location_gap * (1.0 if self.adapts else 2.0)
        return _location_grid(column, _most_points(column), gap)

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `weights` and `locations`."""
        locations = as_grid(parameters["locations"], False, "locations")
        weights = as_weights(parameters["weights"], locations.size)
        kept = {"weights": weights, "locations": locations}
        return MixturePrior(cls, kept, weights, [kernels.PointMass(locations)])

    @classmethod
    def mirror(cls, parameters: Parameters) -> Parameters:
        mirrored = super().mirror(parameters)
        return {key: values[::-1] for key, values in mirrored.items()}


@register
@dataclass(frozen=True)
class Deconvolver(NPMLE):
    """Smooth prior on a grid, ``exp(Q alpha)``, with a spike at zero (Efron, Biometrika 2016).

    The columns of ``Q`` span natural cubic splines with `degrees_of_freedom` and an indicator of
    zero; they are orthogonal with mean zero and mean square one (Efron: sum of squares one, which
    makes the penalty depend on how fine the grid is). The penalized log-likelihood
    ``l(alpha) - c0 ||alpha||`` is maximized; the log-likelihood reported is ``l``.

    Parameters
    ----------
    grid : array-like, optional
        Places where values may be. By default the observations, thinned, and zero.
    degrees_of_freedom : int, default 5
        Number of spline columns.
    c0 : float, default 1.0
        Strength of the penalty.
    """

    name: ClassVar[str] = "deconvolver"

    degrees_of_freedom: int = 5
    c0: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        integer(1, SETTINGS.most_points).check("degrees_of_freedom", self.degrees_of_freedom)
        real("a number from 0 to 1e6", lambda c0: 0 <= c0 <= 1e6).check("c0", self.c0)

    def fit_column(self, column: Columns, start: FittedPrior | None) -> FittedPrior:
        fits = [self._fit_on(grid, column, start) for grid in self._grids(column, start)]
        return max(fits, key=lambda fit: fit[0])[1]

    def cost(self, prior: FittedPrior) -> float:
        """Penalty of a prior of this family, ``c0 ||alpha||``."""
        return self.c0 * float(np.std(_log(prior.parameters["weights"])))

    def _grids(self, column: Columns, start: FittedPrior | None) -> list[Array]:
        """Return the grid of the start, and a new one; in a search only if that may serve better.

        A new grid changes what is maximized, so that the old one stays in the race: then the
        maximum never falls from one fit to the next.
        """
        if self.grid is not None:
            return [np.asarray(self.grid)]
        gap = SETTINGS.location_gap * (0.5 if self.adapts else 1.0)
        grid = _location_grid(column, SETTINGS.most_points // 2, gap)
        known = np.asarray([] if start is None else start.parameters["locations"])
        if known.size < 2:  # a single place is no curve
            return [grid]
        beyond = max(known[0] - grid[0], grid[-1] - known[-1])
        better = beyond > _noise(column, 0.5) or grid.size > 2 * known.size
        return [known, grid] if better or self.adapts else [known]

    def _fit_on(
        self, grid: Array, column: Columns, start: FittedPrior | None
    ) -> tuple[float, FittedPrior]:
        """Maximize the penalized likelihood on a grid; return the maximum and the prior."""
        basis = _basis(_relative(grid), self.degrees_of_freedom)
        log_likelihood = kernels.PointMass(grid[:, None]).log_marginal(column.x, column.s)
        alpha = np.full(basis.shape[1], 1e-3)
        if start is not None and np.array_equal(start.parameters["locations"], grid):
            # the columns of the basis are orthogonal, with mean square one
            alpha = basis.T @ _log(start.parameters["weights"]) / grid.size
        goal = 0.0 if self.adapts else NEGLIGIBLE
        alpha, value = _maximise(log_likelihood, column.weights[0], basis, self.c0, alpha, goal)
        return value, self.build(weights=_exponential_family(basis @ alpha), locations=grid)


def _relative(grid: Array) -> tuple[float, ...]:
    """Return grid points over the largest of them, where splines of tiny ones do not overflow.

    Rounded, so that they are the same in whatever units the grid was given.
    """
    fraction, exponent = np.frexp(grid / (np.abs(grid).max() or 1.0))
    return tuple(np.ldexp(np.round(fraction, 12), exponent).tolist())


@lru_cache(maxsize=64)  # the grids of a few columns, which stay for many fits
def _basis(places: tuple[float, ...], degrees_of_freedom: int) -> Array:
    """Natural cubic splines without intercept, and an indicator of zero, standardized."""
    grid = np.array(places)
    knots = np.unique(np.quantile(grid, np.linspace(0, 1, degrees_of_freedom + 1)))
    if knots.size < 2:
        return np.zeros((grid.size, 0))
    splines = interpolate.CubicSpline(knots, np.eye(knots.size), bc_type="natural")(grid)
    columns = np.column_stack([splines, grid == 0])
    left, size, _ = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
    return np.asarray(left[:, size > 1e-9 * size.max()] * np.sqrt(grid.size))


def _exponential_family(log_weights: Array) -> Array:
    """Return weights with these logarithms, up to a constant."""
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def _log(weights: Array) -> Array:
    """Logarithms of weights that may have underflowed."""
    return np.asarray(np.log(np.maximum(weights, np.finfo(float).tiny)))


def _maximise(
    log_likelihood: Array, counts: Array, basis: Array, c0: float, alpha: Array, goal: float
) -> tuple[Array, float]:
    """Maximize the penalized log-likelihood over ``alpha``; return its place and the maximum.

    Newton's method: with posterior probabilities ``W[i, j]`` of the places the derivatives in the
    logarithms of the weights ``g`` are ``sum_i W_i - n g``, and a difference of covariances of the
    columns of the basis, under ``W`` and under ``g``. Where it curves upward the step goes as far
    as that curvature says; it is halved until it climbs, and is the last, taken without a look, if
    it promises less than `goal`, or than is lost to rounding.
    """
    top = log_likelihood.max(axis=0)
    log_likelihood -= top
    likelihood = np.exp(log_likelihood, out=log_likelihood)
    total, value, step, length = counts.sum(), -np.inf, np.zeros(alpha.shape), 1.0
    for _ in range(500):  # tens are enough
        trial = alpha + length * step
        g = _exponential_family(basis @ trial)
        f = g @ likelihood
        size = float(np.sqrt(trial @ trial + 1e-20))
        # a step may be so long that it rules an observation out
        risen = float(counts @ np.log(f)) - c0 * size if f.all() else -np.inf
        if not risen > value:
            length *= 0.5
            if length < 1e-6:
                break
            continue
        alpha, value, length = trial, risen, 1.0
        weighted = basis.T * g
        share = counts / f
        means, whole = weighted @ likelihood, weighted.sum(axis=1)
        excess = likelihood @ share - total
        slope = weighted @ excess - c0 * alpha / size
        hessian = (weighted * excess) @ basis - (means * (share / f)) @ means.T
        hessian += np.outer(total * whole, whole) + np.outer(c0 / size**3 * alpha, alpha)
        hessian.flat[:: alpha.size + 1] -= c0 / size
        curvature, axes = np.linalg.eigh(hessian)
        step = axes @ ((slope @ axes) / np.maximum(np.abs(curvature), 1e-9 * total))
        if slope @ step < max(goal, np.finfo(float).eps * total):
            alpha = alpha + step
            break
    return alpha, float(value + counts @ top)
