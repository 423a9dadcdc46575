"""The last stretch where products with the data are dear: a fit in a growing subspace.

Let ``F F'`` be an approximation of ``S`` from below that is exact for some directions ``D``, that
is ``S D = F F' D``. Any scores that it allows are scores of the data themselves, so that a fit to
``F F'`` climbs the criterion of the data, without a product with them. A plain iteration from where
it ends, at the price of one product, climbs further, and its directions make the approximation
better (Nystrom's method, as a Schur complement):

    (1)  E = S D - F F' D,   F <- (F, E (D' E)^(-1/2)).

When the plain iteration gains nothing any more, nothing is left to gain.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._loop import Fit, Problem, Progress, State, alternate
from ebcd.fitting._rotation import weighted

_NEW = 1e-12  # variance of a direction, as a share of the trace, from which it is a new one
_INNER = 0.3  # of the tolerance: where the fit in the subspace stops
_IN_STEP = 0.003  # of what the plain iteration gained
_MOST_DIRECTIONS = 300


class Subspace(AbstractCovariance):
    """``F F'``, with ``F'`` in rows, and the diagonal of the whole covariance."""

    def __init__(self, covariance: AbstractCovariance, factor: Array) -> None:
        self.n_samples, self.n_features = covariance.n_samples, covariance.n_features
        self.unit, self._factor = covariance.unit, factor
        self._diagonal = covariance.diagonal()

    @property
    def factor(self) -> Array:
        """``F'``."""
        return self._factor

    def matmul(self, v: Array) -> Array:
        """``F F' v``."""
        return self.rows_product(v.T).T

    def rows_product(self, rows: Array) -> Array:
        """Multiply rows by it."""
        return np.asarray((rows @ self._factor.T) @ self._factor)

    def diagonal(self) -> Array:
        """Diagonal of the whole covariance."""
        return self._diagonal

    def grown(self, directions: Array, product: Array) -> Subspace:
        """Give one that is exact for further directions (rows) as well, whose product is known."""
        error = product - self.rows_product(directions)
        inner = directions @ error.T
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
        size = np.vdot(directions, directions) * self.trace()
        new = values > _NEW * size
        if not new.any() or len(self._factor) >= _MOST_DIRECTIONS:
            return self
        rows = (vectors[:, new] / np.sqrt(values[new])).T @ error
        return Subspace(self, np.vstack([self._factor, rows]))


def polish(
    problem: Problem,
    state: State,
    factor: Array,
    *,
    tol: float,
    max_iter: int,
    progress: Progress | None = None,
) -> Fit:
    """Iterate until a plain iteration gains less than `tol`."""
    small = Subspace(problem.covariance, factor)
    path, n_iter, began = [state.value], 1, time.monotonic()
    slot = problem.keeper.slot("subspace")
    if slot.saved is not None:
        state, factor, path, n_iter = slot.saved
        small = Subspace(problem.covariance, factor)
    while state.components and n_iter < max_iter and not problem.keeper.out_of_time():
        slot.offer(_kept, state, small.factor, path, n_iter)
        directions = weighted(state.mean, state.precision)
        product = problem.covariance.rows_product(directions)
        new = problem.again(state, directions, product)
        n_iter += 1
        gain, state = new.value - state.value, new
        path.append(new.value)
        if progress is not None:
            progress(n_iter, state, time.monotonic() - began)
        if gain < tol:
            return Fit(state, path, n_iter, True)
        small = small.grown(directions, product)
        within = Problem(small, problem.shrinker, problem.noise, problem.keeper)
        scores, _ = within.scores.nearest(directions)
        inner = alternate(
            within,
            replace(state, scores=scores),
            tol=max(_INNER * tol, _IN_STEP * gain),
            max_iter=max_iter - n_iter,
            look_around=False,
        )
        n_iter += inner.n_iter
        state = inner.state
    return Fit(state, path, n_iter, not state.components)


def _kept(state: State, factor: Array, path: list[float], n_iter: int) -> tuple[Any, ...]:
    return state, factor, list(path), n_iter
