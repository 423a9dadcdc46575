"""The one alternating loop: rotation, shrinkage, precision, until the criterion stops rising.

One iteration maps loadings to loadings. It is exact, slow in two directions, and each has its cure:

(1) rotations of the components among each other: Newton's angle in place of the polar one;
(2) directions of pure noise, which contract by ``rho_k = sum V_k / <B_k, L_k>`` an iteration:
    over-relaxation of each component by ``1 / (1 - rho_k)``, and Anderson's mixing of the last
    few iterations on top where progress is slow.

Whatever is proposed, the loadings that the plain iteration gave are used in its place if the
criterion would fall, so that it never does.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._noise import AbstractNoise
from ebcd.fitting._rotation import newton_rotation, score_map
from ebcd.fitting._shrinkers import AbstractShrinker

_LARGEST_ANGLE = 0.5
_SMALL_ANGLE = 0.02  # below which mixing may begin
_MEMORY = 6
_SLOW = 0.5  # a gain above this share of the gain before is slow progress
_PAUSE = 3  # iterations without mixing after it failed
_LARGEST_RHO = 0.8
_OVERLAP = 0.05  # angle between components from which the mirrored optimum is tried
_WORTH_MOVING = 1e-3  # nats
_QUIET = 3  # iterations with a gain below the tolerance before the loop stops


@dataclass(frozen=True)
class State:
    """Where a fit stands, after shrinkage.

    Attributes
    ----------
    start : array, k x p
        Loadings that the iteration began with; ``b`` are the rotated data for them.
    mean, variance : array, k x p
        Posterior moments of the loadings.
    noise : array
        Noise standard deviation of ``b`` that the shrinkage assumed.
    precision : array
        Precision that fits the residuals, 0-d or one per feature.
    fitted : sequence
        What the shrinker found for each component.
    components : tuple of int
        Number of each component in the start: those that vanish are dropped.
    value : float
        The criterion.
    curvature : array, k x p, optional
        Slope of the shrinkage times the noise variance; the posterior variance if there is one.
    """

    start: Array
    b: Array
    mean: Array
    variance: Array
    noise: Array
    precision: Array
    fitted: Sequence[Any]
    components: tuple[int, ...]
    value: float
    curvature: Array | None = None

    @property
    def bend(self) -> Array:
        """What Newton's method needs to know of the shrinkage."""
        return self.variance if self.curvature is None else self.curvature


@dataclass(frozen=True)
class Fit:
    """A finished loop."""

    state: State
    path: list[float]
    n_iter: int
    converged: bool


Progress = Callable[[int, State, float], None]


class Problem:
    """Everything that stays the same while a fit runs."""

    def __init__(
        self, covariance: AbstractCovariance, shrinker: AbstractShrinker, noise: AbstractNoise
    ) -> None:
        self.covariance, self.shrinker, self.noise = covariance, shrinker, noise

    def iterate(
        self,
        loadings: Array,
        precision: Array,
        components: tuple[int, ...],
        fitted: Sequence[Any] | None,
    ) -> State:
        """Rotate, shrink, update the precision."""
        _, b = score_map(self.covariance, loadings, precision)
        noise = np.sqrt(1 / (self.covariance.n_samples * precision))
        shrunk = self.shrinker.shrink(b, noise, components, fitted)
        residual = self.residual(b, shrunk.mean) + shrunk.variance.sum(axis=0)
        new = self.noise.precision(residual)
        value = self.noise.value(new, residual) + shrunk.objective
        mean, variance, fitted = shrunk.mean, shrunk.variance, shrunk.fitted
        return State(
            loadings, b, mean, variance, noise, new, fitted, components, value, shrunk.curvature
        )

    def residual(self, b: Array, mean: Array) -> Array:
        """Mean squared residual of every feature."""
        fitted = (mean * (mean - 2 * b)).sum(axis=0)
        return np.asarray(np.maximum(self.covariance.diagonal() + fitted, 0.0))

    def again(self, state: State, loadings: Array) -> State:
        """Iterate from `loadings`, the rest as in `state`."""
        return self.iterate(loadings, state.precision, state.components, state.fitted)

    def start(self, loadings: Array, fitted: Sequence[Any] | None = None) -> State:
        """First iteration, with the precision that the residuals of the loadings have."""
        loadings = self.shrinker.oriented(loadings)
        whole = np.asarray(1 / np.maximum(self.noise.variances, self.noise.floor))
        guess = whole if self.noise.precision(self.noise.variances).ndim else np.asarray(1.0)
        _, b = score_map(self.covariance, loadings, guess)
        precision = self.noise.precision(self.residual(b, loadings))
        return self.iterate(loadings, precision, tuple(range(loadings.shape[0])), fitted)


def alternate(
    problem: Problem,
    state: State,
    *,
    tol: float,
    max_iter: int,
    quiet_for: int = _QUIET,
    progress: Progress | None = None,
) -> Fit:
    """Iterate until the criterion rises by less than `tol` for several iterations."""
    walk = _Walk(problem, state)
    path = [state.value]
    quiet = 0
    began = time.monotonic()
    while walk.n_iter < max_iter and walk.state.components:
        gain = walk.advance()
        path.append(walk.state.value)
        if progress is not None:
            progress(walk.n_iter, walk.state, time.monotonic() - began)
        quiet = quiet + 1 if gain < tol else 0
        if quiet >= quiet_for:
            if not walk.leave_plateau():
                return Fit(walk.state, path, walk.n_iter, True)
            quiet = 0
    return Fit(walk.state, path, walk.n_iter, not walk.state.components)


class _Walk:
    """The state of a loop and what its accelerations remember."""

    def __init__(self, problem: Problem, state: State) -> None:
        self._problem = problem
        self.state = _without_dead(state)
        self.n_iter = 1
        self._reach = _LARGEST_ANGLE
        self._history: deque[tuple[Array, Array]] = deque(maxlen=_MEMORY + 1)
        self._slow, self._pause, self._gain = 0, 0, np.inf

    def advance(self) -> float:
        """Do one accelerated iteration; return what it gained."""
        state = self.state
        rotation, size = newton_rotation(state.b, state.mean, state.bend, state.noise, self._reach)
        proposal, mixed = state.mean, False
        if size < _SMALL_ANGLE:
            proposal, mixed = self._mixed(state)
        if rotation is not None:
            proposal = rotation @ proposal
        new = self._problem.again(state, proposal)
        self.n_iter += 1
        if new.value < state.value and proposal is not state.mean:
            if mixed:
                self._pause = self.n_iter + _PAUSE
            else:
                self._reach = size / 4 if size > 0 else self._reach
            self._history.clear()
            new = self._problem.again(state, state.mean)
            self.n_iter += 1
        elif rotation is not None:
            self._reach = min(_LARGEST_ANGLE, 2 * self._reach)
        gain = new.value - state.value
        self._slow = self._slow + 1 if gain > _SLOW * self._gain else 0
        self._gain = gain
        self._move_to(new)
        return gain

    def _move_to(self, state: State) -> None:
        self.state = _without_dead(state)
        if len(self.state.components) < len(state.components):
            self._history.clear()

    def _mixed(self, state: State) -> tuple[Array, bool]:
        """Over-relax, and mix the last iterations if progress is slow."""
        overlap = np.maximum(np.vecdot(state.b, state.mean), 1e-300)
        rho = np.minimum(state.variance.sum(axis=1) / overlap, _LARGEST_RHO)
        self._history.append((state.start.ravel(), (state.mean - state.start).ravel()))
        place, change = self._history[-1]
        mixed = len(self._history) > 2 and self._slow > 1 and self.n_iter >= self._pause
        if mixed:
            places, changes = (np.array(part) for part in zip(*self._history, strict=True))
            steps, turns = np.diff(places, axis=0), np.diff(changes, axis=0)
            gram = turns @ turns.T
            gram += np.eye(len(gram)) * (1e-12 * np.trace(gram) + 1e-300)
            share = np.linalg.solve(gram, turns @ change)
            place, change = place - share @ steps, change - share @ turns
        relaxed = change.reshape(state.mean.shape) / (1 - rho)[:, None]
        return place.reshape(state.mean.shape) + relaxed, mixed

    def leave_plateau(self) -> bool:
        """Try to leave a quiet point that is not the best nearby, by one iteration from others."""
        for rotation in [*_mirrors(self.state.mean), *_saddle(self.state)]:
            new = self._problem.again(self.state, rotation @ self.state.mean)
            self.n_iter += 1
            if new.value > self.state.value + _WORTH_MOVING:
                self._history.clear()
                self._reach = _LARGEST_ANGLE
                self._move_to(new)
                return True
        return False


def _pair_rotation(k: int, i: int, j: int, angle: float) -> Array:
    rotation = np.eye(k)
    c, s = np.cos(angle), np.sin(angle)
    rotation[[i, i, j, j], [i, j, i, j]] = c, -s, s, c
    return rotation


def _mirrors(mean: Array) -> list[Array]:
    """Rotations that hand the overlap of two components from one of them to the other.

    Scores are uncorrelated in the sample, true ones never quite, so that one of two sparse
    components must take up a little of the other. Either can, and both are optima.
    """
    k = mean.shape[0]
    gram = mean @ mean.T
    angles = np.arctan2(gram, np.diag(gram))
    np.fill_diagonal(angles, 0.0)
    pairs = zip(*np.nonzero(np.abs(angles) > _OVERLAP), strict=True)
    return [_pair_rotation(k, int(i), int(j), float(angles[i, j])) for i, j in pairs]


def _saddle(state: State) -> list[Array]:
    """Rotations of the two components whose objective curves upwards most, if any does."""
    z, m, v = state.b / state.noise, state.mean / state.noise, state.bend / state.noise**2
    slope, bend = np.vecdot(m, z), v @ (z * z).T
    curvature = slope[:, None] + slope - bend - bend.T
    np.fill_diagonal(curvature, np.inf)
    if curvature.size == 0 or not curvature.min() < 0:
        return []
    i, j = np.unravel_index(int(curvature.argmin()), curvature.shape)
    return [_pair_rotation(len(slope), int(i), int(j), angle) for angle in (0.3, -0.3)]


def _without_dead(state: State) -> State:
    """Drop components whose loadings have all become zero."""
    alive = state.mean.any(axis=1)
    if alive.all():
        return state
    index = np.flatnonzero(alive).tolist()
    return replace(
        state,
        start=state.start[index],
        b=state.b[index],
        mean=state.mean[index],
        variance=state.variance[index],
        curvature=None if state.curvature is None else state.curvature[index],
        fitted=[state.fitted[k] for k in index],
        components=tuple(state.components[k] for k in index),
    )
