"""Components one by one: the greedy start of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import linalg

from ebcd._numerics import Array
from ebcd.fitting._lanczos import leading_pair
from ebcd.fitting._loop import Problem, State
from ebcd.fitting._rotation import weighted

_NOTHING_LEFT = 1e-13  # of the variance
_GREEDY_STEPS = 500
_ROUGH = 1e-9  # accuracy of a leading singular value, so that all kinds of input start alike
_LARGEST_RHO = 0.8
_FEW_ROWS = 100  # of a factor, so that all its singular vectors cost little


class Greedy:
    """Components one by one, as in the paper's Algorithm 1.

    Each begins as the leading singular vector of the residual; its scores stay orthogonal to those
    of the components before it. All that is needed of the data are products with ``S``: the
    residual covariance is ``D = S - B L' - L B' + L L'``, and the new rotation is
    ``b = M l / sqrt(l' M l)`` with ``M = S - B B'``. If ``S = F'F`` with few rows ``F``, ``D`` has
    the factor ``F - C L'`` with the coordinates ``C`` of the scores (`AbstractScores`).
    """

    def __init__(
        self,
        problem: Problem,
        tol: float,
        steps: int = _GREEDY_STEPS,
        leading: Array | None = None,
    ) -> None:
        self._problem = problem
        self._leading = leading  # of the data, if it is known
        self._steps = steps
        self._covariance = problem.covariance
        self._tol = tol
        self._accuracy = min(tol, _ROUGH)
        p = self._covariance.n_features
        self.loadings = np.empty((0, p))
        self.fitted: list[Any] = []
        self._factor = self._covariance.factor
        self._scores, self._b = np.empty((0, p)), np.empty((0, p))
        if self._factor is not None:
            self._scores = np.empty((0, len(self._factor)))
        noise = problem.noise
        self.precision = noise.precision(noise.variances)

    def add(self) -> bool:
        """Add a component; tell whether it has any loadings."""
        keeper = self._problem.keeper
        if len(self.loadings) and keeper.out_of_time():
            return False
        found = keeper.once("component", self._next)
        if found is None:
            return False
        mean, fitted, self.precision = found
        self.loadings = np.vstack([self.loadings, mean])
        self.fitted += list(fitted)
        return True

    def _next(self) -> tuple[Array, Sequence[Any], Array] | None:
        """Find loadings of a component, its prior and the precision; None if there are none."""
        problem, n = self._problem, self._covariance.n_samples
        number = self.loadings.shape[0]
        if number:
            self._scores, self._b = problem.scores.nearest(weighted(self.loadings, self.precision))
        residual = problem.residual(self._b, self.loadings)
        slot = problem.keeper.slot("steps")
        if slot.saved is None:
            loading = problem.shrinker.oriented(self._residual_vector()[None], number)[0]
            begin, precision, fitted, value = 0, self.precision, None, -np.inf
        else:
            begin, loading, precision, fitted, value = slot.saved
        for step in range(begin, self._steps):
            b = self._rotated(loading, precision)
            noise = np.sqrt(1 / (n * precision))
            shrunk = problem.shrinker.shrink(b[None], noise, (number,), fitted)
            mean, variance, fitted = shrunk.mean[0], shrunk.variance[0], shrunk.fitted
            left = np.maximum(residual + mean * (mean - 2 * b) + variance, 0.0)
            precision = problem.noise.precision(left)
            old, value = value, problem.noise.value(precision, left) + shrunk.objective
            if not mean.any():
                return None
            if value - old < self._tol or step + 1 == self._steps:
                break
            rho = min(float(variance.sum() / max(b @ mean, 1e-300)), _LARGEST_RHO)
            relaxed = loading + (mean - loading) / (1 - rho)
            loading = relaxed if value - old < 1.0 else mean
            problem.keeper.watch.step(step + 1, number + 1)
            slot.offer(lambda *now: now, step + 1, loading, precision, fitted, value)
            if problem.keeper.out_of_time():
                break
        return mean, shrunk.fitted, precision

    def state(self) -> State | None:
        """First iteration from the components so far; None if there are none."""
        if self.loadings.shape[0] == 0:
            return None
        return self._problem.start(self.loadings, self.fitted)

    def _rotated(self, loading: Array, precision: Array) -> Array:
        direction = weighted(loading, precision)
        if self._factor is None:
            product = self._covariance.matmul(direction[:, None])[:, 0]
            product = product - self._b.T @ (self._b @ direction)
            energy = float(direction @ product)
        else:
            scores = self._factor @ direction
            scores -= (self._scores @ scores) @ self._scores
            energy, product = float(scores @ scores), scores @ self._factor
        if energy <= _NOTHING_LEFT * float(direction @ direction) * self._covariance.trace():
            return np.zeros_like(direction)  # the components so far explain all there is
        return np.asarray(product / np.sqrt(energy))

    def _residual_vector(self) -> Array:
        """Leading singular vector of the residual, times its singular value over sqrt(n)."""
        if self._leading is not None and not len(self.loadings):
            return self._leading
        p = self._covariance.n_features
        scale = np.sqrt(self.precision)  # one for all, or the noise is divided out
        keeper = self._problem.keeper
        if self._factor is not None:
            left = (self._factor - self._scores.T @ self.loadings) * scale
            if len(left) <= _FEW_ROWS:
                last = [len(left) - 1] * 2
                u = linalg.eigh(left @ left.T, subset_by_index=last, check_finite=False)[1][:, 0]
            else:
                _, u = leading_pair(lambda u: left @ (u @ left), len(left), self._accuracy, keeper)
            return np.asarray((u @ left) / scale)

        def product(v: Array) -> Array:
            return np.asarray(scale * self._residual_product(scale * v))

        value, v = leading_pair(product, p, self._accuracy, keeper)
        return np.asarray(np.sqrt(max(value, 0.0)) * v / scale)

    def _residual_product(self, v: Array) -> Array:
        product = self._covariance.matmul(v[:, None])[:, 0]
        along_l, along_b = self.loadings @ v, self._b @ v
        return np.asarray(product - self._b.T @ along_l + self.loadings.T @ (along_l - along_b))


def greedy_start(
    problem: Problem,
    k: int,
    tol: float = 1e-6,
    steps: int = _GREEDY_STEPS,
    leading: Array | None = None,
) -> State | None:
    """Add up to `k` components one by one, in `steps` each; None if there is not one."""
    greedy = Greedy(problem, tol, steps, leading)
    while greedy.loadings.shape[0] < k and greedy.add():
        pass
    return greedy.state()
