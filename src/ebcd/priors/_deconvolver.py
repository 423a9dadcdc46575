"""Efron's deconvolution: a prior whose log density is a smooth curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import optimize, special

from ebcd._numerics import Array
from ebcd.priors import _kernels as kernels
from ebcd.priors._columns import Columns
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._grid_mixture import SETTINGS, location_grid
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
        fits = [self._fit_on(grid, column, start) for grid in self._grids(column, start)]
        _, prior = max(fits, key=lambda fit: fit[0])
        return prior, np.nan

    def cost(self, prior: FittedPrior) -> float:
        """Penalty of a prior of this family, ``c0 ||alpha||``."""
        return self.c0 * float(np.std(_log(prior.parameters["weights"])))

    def _grids(self, column: Columns, start: FittedPrior | None) -> list[Array]:
        """Return the grid of the start, and a new one if that may serve better.

        A new grid changes what is maximised, so that the old one stays in the race: then the
        maximum never falls from one fit to the next.
        """
        if self.grid is not None:
            return [as_grid(self.grid, positive=False)]
        grid = location_grid(column, SETTINGS.most_points // 2)
        known = np.asarray([] if start is None else start.parameters["locations"])
        if known.size < 2:  # a single place is no curve
            return [grid]
        noise = float(np.median(column.s))
        beyond = max(known[0] - grid[0], grid[-1] - known[-1])
        return [known, grid] if beyond > noise or grid.size > 2 * known.size else [known]

    def _fit_on(
        self, grid: Array, column: Columns, start: FittedPrior | None
    ) -> tuple[float, FittedPrior]:
        """Maximise the penalised likelihood on a grid; give the maximum and the prior."""
        basis = _basis(grid, self.degrees_of_freedom)
        x, s = column.x[0], np.broadcast_to(column.s, column.x.shape)[0]
        log_likelihood = kernels.PointMass(grid).log_marginal(x[:, None], s[:, None])
        counts = np.ones(x.size) if column.counts is None else column.counts[0]
        alpha = np.full(basis.shape[1], 1e-3)
        if start is not None and np.array_equal(start.parameters["locations"], grid):
            # the columns of the basis are orthogonal, with mean square one
            alpha = basis.T @ _log(start.parameters["weights"]) / grid.size
        alpha, value = _maximise(log_likelihood, counts, basis, self.c0, alpha)
        return value, self.build(weights=special.softmax(basis @ alpha), locations=grid)


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


def _log(weights: Array) -> Array:
    """Logarithms of weights that may have underflowed."""
    return np.asarray(np.log(np.maximum(weights, np.finfo(float).tiny)))


def _maximise(
    log_likelihood: Array, counts: Array, basis: Array, c0: float, start: Array
) -> tuple[Array, float]:
    """Maximise the penalised log-likelihood over ``alpha``; give its place and the maximum."""
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

    def gradient(alpha: Array) -> Array:
        return objective(alpha)[1]

    candidates = [start]
    if start.size > 0:
        found = optimize.minimize(
            objective, start, jac=True, method="BFGS", options={"gtol": 1e-7, "maxiter": 1000}
        ).x
        candidates += [found, optimize.root(gradient, found, tol=1e-14).x]
    values = np.array([-objective(alpha)[0] for alpha in candidates])
    # values that agree to rounding do not tell places apart, slopes do
    near = np.flatnonzero(values >= values.max() - 1e-12 * (1 + total))
    best = min(near, key=lambda i: float(np.linalg.norm(gradient(candidates[i]))))
    return candidates[best], float(values[best] + counts @ top)
