"""Nonparametric families: mixtures over a grid of scales or locations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ebcd._numerics import Array
from ebcd.priors import _kernels as kernels
from ebcd.priors._columns import Columns
from ebcd.priors._family import AbstractPriorFamily, Parameters
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._grid_mixture import (
    GridMixture,
    location_grid,
    most_points,
    scale_grid,
    thinned,
)
from ebcd.priors._kernels import AbstractKernel
from ebcd.priors._mixture_prior import MixturePrior
from ebcd.priors._validation import as_grid, as_mode, as_weights


def _mixture(
    family: type[AbstractPriorFamily],
    parameters: Parameters,
    weights: Array,
    parts: Sequence[AbstractKernel],
) -> MixturePrior:
    """Make a prior of those parts that have components."""
    return MixturePrior(family, parameters, weights, [part for part in parts if part.size])


@dataclass(frozen=True)
class NormalScaleMixture(GridMixture):
    """Any scale mixture of normals around `mode`, with a spike there.

    Parameters
    ----------
    grid : array-like, optional
        Standard deviations to mix, kept as they are. By default a geometric grid that adapts.
    """

    name: ClassVar[str] = "normal_scale_mixture"
    lengths: ClassVar[tuple[str, ...]] = ("scales",)
    smooth_tails: ClassVar[bool] = True

    def _components(self, grid: Array) -> AbstractKernel:
        return kernels.Normal(np.zeros_like(grid), grid)

    def _default_grid(self, column: Columns) -> Array:
        return scale_grid(column)

    def _parameters(self, weights: Array, grid: Array, spike: float) -> Parameters:
        order = np.argsort(grid)
        return {
            "weights": np.append(spike, weights[0, order]),
            "scales": np.append(0.0, grid[order]),
            "mode": 0.0,
        }

    def _grid_of(self, prior: FittedPrior) -> Array:
        scales = np.asarray(prior.parameters["scales"])
        return scales[scales > 0]

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `weights`, `scales` (0 for the spike) and `mode`."""
        scales = as_grid(parameters["scales"], positive=False)
        if (scales < 0).any():
            raise ValueError("scales must not be negative")
        weights = as_weights(parameters["weights"], scales.size)
        mode = as_mode(parameters)
        kept = {"weights": weights, "scales": scales, "mode": mode}
        spike = scales == 0
        parts = [
            kernels.PointMass(np.full(int(spike.sum()), mode)),
            kernels.Normal(np.full(int((~spike).sum()), mode), scales[~spike]),
        ]
        return _mixture(cls, kept, np.append(weights[spike], weights[~spike]), parts)


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

    def _components(self, grid: Array) -> AbstractKernel:
        lower, upper = (
            np.concatenate([end * grid for end in ends]) for ends in zip(*self.sides, strict=True)
        )
        return kernels.Uniform(lower, upper)

    def _default_grid(self, column: Columns) -> Array:
        most = most_points(column) // 2
        edges = np.abs(column.x if column.counts is None else column.x[:, column.counts[0] > 0])
        far = edges[edges > 2 * column.s.min()]
        return np.union1d(scale_grid(column)[:most], thinned(far, 0.25 * column.s.min(), most))

    def _parameters(self, weights: Array, grid: Array, spike: float) -> Parameters:
        lower = np.concatenate([side[0] * grid for side in self.sides])
        upper = np.concatenate([side[1] * grid for side in self.sides])
        flat = weights.ravel()
        used = flat > 0
        order = np.lexsort((upper[used], lower[used]))
        return {
            "weights": np.append(spike, flat[used][order]),
            "lower": np.append(0.0, lower[used][order]),
            "upper": np.append(0.0, upper[used][order]),
            "mode": 0.0,
        }

    def _grid_of(self, prior: FittedPrior) -> Array:
        mode = prior.parameters["mode"]
        ends = np.append(prior.parameters["lower"], prior.parameters["upper"])
        widths = np.unique(np.abs(ends - mode))
        return widths[widths > 0]

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `weights`, `lower`, `upper` (equal for the spike) and `mode`."""
        lower = as_grid(parameters["lower"], positive=False)
        upper = as_grid(parameters["upper"], positive=False)
        if lower.shape != upper.shape or (lower > upper).any():
            raise ValueError("lower and upper must have one entry per component, lower <= upper")
        weights = as_weights(parameters["weights"], lower.size)
        mode = as_mode(parameters)
        cls._check_sides(lower - mode, upper - mode)
        kept = {"weights": weights, "lower": lower, "upper": upper, "mode": mode}
        spike = lower == upper
        parts = [
            kernels.PointMass(lower[spike]),
            kernels.Uniform(lower[~spike], upper[~spike]),
        ]
        return _mixture(cls, kept, np.append(weights[spike], weights[~spike]), parts)

    @classmethod
    def _check_sides(cls, below: Array, above: Array) -> None:
        """Refuse components whose ends, given from the mode, are not of this family."""
        slack = 1e-9 * (above - below)
        if (below > slack).any() or (above < -slack).any():
            raise ValueError("every component must reach the mode: lower <= mode <= upper")
        allowed = {
            0: np.abs(above + below) <= slack if len(cls.sides) == 1 else np.ones_like(slack, bool),
            1: np.abs(below) <= slack,
            -1: np.abs(above) <= slack,
        }[cls.side]
        if not allowed.all():
            k = int(np.flatnonzero(~allowed)[0])
            rule = {0: "mode - lower = upper - mode", 1: "lower = mode", -1: "upper = mode"}
            raise ValueError(
                f"component {k} reaches from {below[k]:g} to {above[k]:+g} about the mode; those "
                f"of {cls.name} have {rule[cls.side]}"
            )

    @classmethod
    def mirror(cls, parameters: Parameters) -> Parameters:
        """Parameters of the prior of ``-theta``."""
        return {
            **super().mirror(parameters),
            "lower": -parameters["upper"],
            "upper": -parameters["lower"],
        }


@dataclass(frozen=True)
class UnimodalSymmetric(Unimodal):
    """Any distribution with a single mode that is symmetric about it."""

    name: ClassVar[str] = "unimodal_symmetric"
    sides: ClassVar[tuple[tuple[float, float], ...]] = ((-1.0, 1.0),)


@dataclass(frozen=True)
class UnimodalNonnegative(Unimodal):
    """Any distribution that is zero below `mode` and decreasing above it."""

    name: ClassVar[str] = "unimodal_nonnegative"
    side: ClassVar[int] = 1
    sides: ClassVar[tuple[tuple[float, float], ...]] = ((0.0, 1.0),)


@dataclass(frozen=True)
class UnimodalNonpositive(Unimodal):
    """Any distribution that is zero above `mode` and increasing below it."""

    name: ClassVar[str] = "unimodal_nonpositive"
    side: ClassVar[int] = -1
    sides: ClassVar[tuple[tuple[float, float], ...]] = ((-1.0, 0.0),)


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
    positions: ClassVar[tuple[str, ...]] = ("locations",)
    has_mode: ClassVar[bool] = False
    has_spike: ClassVar[bool] = False

    @classmethod
    def _positive(cls) -> bool:
        return False

    def _components(self, grid: Array) -> AbstractKernel:
        return kernels.PointMass(grid)

    def _default_grid(self, column: Columns) -> Array:
        return location_grid(column, most_points(column))

    def _parameters(self, weights: Array, grid: Array, spike: float) -> Parameters:
        order = np.argsort(grid)
        return {"weights": weights[0, order], "locations": grid[order]}

    def _grid_of(self, prior: FittedPrior) -> Array:
        return np.asarray(prior.parameters["locations"])

    @classmethod
    def build(cls, **parameters: Any) -> FittedPrior:
        """Make the prior from `weights` and `locations`."""
        locations = as_grid(parameters["locations"], positive=False)
        weights = as_weights(parameters["weights"], locations.size)
        kept = {"weights": weights, "locations": locations}
        return MixturePrior(cls, kept, weights, [kernels.PointMass(locations)])

    @classmethod
    def mirror(cls, parameters: Parameters) -> Parameters:
        """Parameters of the prior of ``-theta``."""
        return {
            "weights": parameters["weights"][::-1],
            "locations": 0.0 - parameters["locations"][::-1],  # no minus zero
        }
