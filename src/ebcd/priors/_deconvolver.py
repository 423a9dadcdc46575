"""Efron's deconvolution: a prior whose log density is a smooth curve."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy import optimize, special

from ebcd._numerics import Array
from ebcd.priors import _kernels as kernels
from ebcd.priors._columns import Columns
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._grid_mixture import location_grid
from ebcd.priors._mixtures import NPMLE
from ebcd.priors._validation import as_grid


@dataclass(frozen=True)
class Deconvolver(NPMLE):
    """Smooth prior on a grid, ``exp(Q alpha)``, with a spike at zero (Efron, Biometrika 2016).

    The columns of ``Q`` span natural cubic splines with `degrees_of_freedom` and an indicator of
    zero; they are orthogonal with mean zero and mean square one (Efron: sum of squares one, which
    makes the penalty depend on how fine the grid is). The penalised log-likelihood
    ``l(alpha) - c0 ||alpha||`` is maximised; the log-likelihood reported is ``l``.

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
        if self.degrees_of_freedom < 1:
            raise ValueError(
                f"degrees_of_freedom must be at least 1, got {self.degrees_of_freedom}"
            )
        if not self.c0 >= 0:
            raise ValueError(f"c0 must not be negative, got {self.c0}")

    def fit_column(self, column: Columns, start: FittedPrior | None) -> tuple[FittedPrior, float]:
        """Fit the only column."""
        if self.grid is not None:
            grid = as_grid(self.grid, positive=False)
        else:
            grid = location_grid(column, _GRID_SIZE)
            if start is not None:  # a new grid would change what is maximised
                known = np.asarray(start.parameters["locations"])
                covers = known[0] <= grid[0] and grid[-1] <= known[-1]
                grid = known if covers else grid
        basis = _basis(grid, self.degrees_of_freedom)
        x, s = column.x[0], np.broadcast_to(column.s, column.x.shape)[0]
        log_likelihood = kernels.PointMass(grid).log_marginal(x[:, None], s[:, None])
        counts = np.ones(x.size) if column.counts is None else column.counts[0]
        alpha = _maximise(log_likelihood, counts, basis, self.c0)
        return self.build(weights=special.softmax(basis @ alpha), locations=grid), np.nan

    def in_units(self, unit: float) -> Self:
        """Give the same family for data divided by `unit`."""
        return (
            self if self.grid is None else replace(self, grid=tuple(np.asarray(self.grid) / unit))
        )


_GRID_SIZE = 200


def _basis(grid: Array, degrees_of_freedom: int) -> Array:
    """Natural cubic spline basis without intercept, and an indicator of zero, standardised."""
    knots = np.quantile(grid, np.linspace(0, 1, degrees_of_freedom + 1))
    knots = np.unique(knots)
    if knots.size < 2:
        return np.zeros((grid.size, 0))
    span = knots[-1] - knots[0]
    t, k = (grid - knots[0]) / span, (knots - knots[0]) / span
    cubes = np.maximum(t[:, None] - k, 0.0) ** 3
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes = (cubes[:, :-1] - cubes[:, [-1]]) / (k[-1] - k[:-1])
    columns = np.column_stack([t, slopes[:, :-1] - slopes[:, [-1]], grid == 0])
    columns = columns - columns.mean(axis=0)
    left, size, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, size > 1e-9 * size.max()] * np.sqrt(grid.size))


def _maximise(log_likelihood: Array, counts: Array, basis: Array, c0: float) -> Array:
    """Maximise the penalised log-likelihood over ``alpha``."""
    top = log_likelihood.max(axis=1)
    likelihood = np.exp(log_likelihood - top[:, None])
    total = counts.sum()

    def objective(alpha: Array) -> tuple[float, Array]:
        g = special.softmax(basis @ alpha)
        f = likelihood @ g
        pull = g * (likelihood.T @ (counts / f) - total)
        size = float(np.sqrt(alpha @ alpha + 1e-20))
        value = float(counts @ np.log(f)) - c0 * size
        return -value, -(basis.T @ pull - c0 * alpha / size)

    if basis.shape[1] == 0:
        return np.zeros(0)
    start = np.full(basis.shape[1], 1e-3)
    found = optimize.minimize(
        objective, start, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 1000}
    )

    def gradient(alpha: Array) -> Array:
        return objective(alpha)[1]

    polished = optimize.root(gradient, found.x, tol=1e-14).x
    better = np.linalg.norm(gradient(polished)) < np.linalg.norm(gradient(found.x))
    return np.asarray(polished if better else found.x)
