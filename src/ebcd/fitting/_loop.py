"""The one alternating loop: rotation, shrinkage, precision, until the criterion stops rising.

One iteration turns scores into rotated data, loadings, priors and noise. The plain iteration then
takes the scores that fit the loadings best, which is exact and slow: with priors and noise fixed
the criterion is smooth in the scores, and the loop takes a step of Newton's method in them
(`newton_step`) in its place. If the criterion would fall, the plain iteration is done after all, so
that it never does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._keeper import AbstractKeeper, NoKeeper
from ebcd.fitting._noise import AbstractNoise
from ebcd.fitting._rotation import score_map, weighted
from ebcd.fitting._scores import Limits, Step, scores_of
from ebcd.fitting._shrinkers import AbstractShrinker

_LARGEST_ANGLE = 0.5
_FAITHFUL_ANGLE = 0.03  # radians: steps that do not change which optimum is reached
_ACCURACY = 0.1  # of the step of Newton's method
_ROUGH_ACCURACY = 0.3  # where products are dear
_MOST_PRODUCTS = 10
_TINY_ANGLE = 1e-6
_SMALL_ANGLE = 0.1  # below which a step may be lengthened
_ALIGNED = 0.9  # cosine
_LONGEST_STRETCH = 5.0
_OVERLAP = 0.05  # angle between components from which the mirrored optimum is tried
_WORTH_MOVING = 1e-3  # nats
_ROUNDING = 4e-15  # of the criterion
_NOT_A_FALL = 1e-13  # of the criterion: a step that seems to lower it by less is kept
_QUIET = 2  # iterations with a gain below the tolerance before the loop stops, unless
_STEEP = 0.25  # the gain is this share of that of a step of the same kind before it,
_VERY_QUIET = 0.1  # or of the tolerance
_MODEST = 0.25  # of the tolerance: gain of a plain step below which the scores stay as they are


@dataclass(frozen=True)
class State:
    """Where a fit stands, after shrinkage.

    Attributes
    ----------
    scores : array, k x r
        Coordinates of the scores: weights, or fewer numbers (`AbstractScores`).
    b : array, k x p
        The data rotated to them.
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

    scores: Array
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
        self,
        covariance: AbstractCovariance,
        shrinker: AbstractShrinker,
        noise: AbstractNoise,
        keeper: AbstractKeeper | None = None,
    ) -> None:
        self.covariance, self.shrinker, self.noise = covariance, shrinker, noise
        self.keeper = NoKeeper() if keeper is None else keeper
        self.scores = scores_of(covariance)

    def iterate(
        self,
        directions: Array,
        precision: Array,
        components: tuple[int, ...],
        fitted: Sequence[Any] | None,
        product: Array | None = None,
    ) -> State:
        """Rotate to the scores next to ``X directions'``, shrink, update the precision.

        `product` is ``directions S``, if it is known.
        """
        return self.at(self.scores.nearest(directions, product), precision, components, fitted)

    def at(
        self,
        place: tuple[Array, Array],
        precision: Array,
        components: tuple[int, ...],
        fitted: Sequence[Any] | None,
    ) -> State:
        """Shrink at coordinates of scores and their ``B``, update the precision."""
        scores, b = place
        noise = np.sqrt(1 / (self.covariance.n_samples * precision))
        shrunk = self.shrinker.shrink(b, noise, components, fitted)
        residual = self.residual(b, shrunk.mean) + shrunk.variance.sum(axis=0)
        new = self.noise.precision(residual)
        value = self.noise.value(new, residual) + shrunk.objective
        mean, variance, fitted = shrunk.mean, shrunk.variance, shrunk.fitted
        return State(
            scores, b, mean, variance, noise, new, fitted, components, value, shrunk.curvature
        )

    def residual(self, b: Array, mean: Array) -> Array:
        """Mean squared residual of every feature."""
        twice = -2 * b
        twice += mean
        fitted = np.einsum("ij,ij->j", mean, twice)
        fitted += self.covariance.diagonal()
        return np.asarray(np.maximum(fitted, 0.0, out=fitted))

    def again(self, state: State, directions: Array, product: Array | None = None) -> State:
        """Iterate from other scores, the rest as in `state`."""
        return self.iterate(directions, state.precision, state.components, state.fitted, product)

    def plain(self, state: State, loadings: Array) -> State:
        """Iterate from the scores that fit `loadings` best."""
        return self.again(state, weighted(loadings, state.precision))

    def start(self, loadings: Array, fitted: Sequence[Any] | None = None) -> State:
        """First iteration, with the precision that the residuals of the loadings have."""
        loadings = self.shrinker.oriented(loadings)
        guess = np.asarray(1.0)
        if self.noise.differs:
            guess = 1 / np.maximum(self.noise.variances, self.noise.floor)
        _, b = score_map(self.covariance, loadings, guess)
        precision = self.noise.precision(self.residual(b, loadings))
        components = tuple(range(loadings.shape[0]))
        return self.iterate(weighted(loadings, precision), precision, components, fitted)


def alternate(
    problem: Problem,
    state: State,
    *,
    tol: float,
    max_iter: int,
    rough: bool = False,
    faithful: bool = False,
    look_around: bool = True,
    progress: Progress | None = None,
    enough: Callable[[State], bool] | None = None,
) -> Fit:
    """Iterate until the criterion rises by less than `tol`, or a state is `enough`.

    That alone does not mean convergence: it must do so again, and if one is to `look_around` no
    other optimum may be found near by. If `rough`, neither is asked. If `faithful`, steps are so
    small that they end in the optimum to which plain iterations lead, and it is not left for a
    better one. If time is up, it ends where it is.
    """
    # where the search has looked around, what is left is to polish: each product counts
    polish = not (look_around or rough or faithful)
    walk = _Walk(problem, state, max_iter + rough, faithful, _MODEST * tol if polish else 0.0)
    path = [state.value]
    quiet, enough_quiet = 0, 1 if polish else _QUIET
    began = time.monotonic()
    slot = problem.keeper.slot("loop")
    if slot.saved is not None:
        path, quiet = walk.go_on(slot.saved)

    def keep() -> None:
        if not (walk.ends or problem.keeper.cut_short):
            slot.offer(walk.kept, path, quiet)

    while walk.n_iter < max_iter and walk.state.components and not problem.keeper.out_of_time():
        if quiet < enough_quiet:
            gain = walk.advance()
            path.append(walk.state.value)
            if progress is not None:
                progress(walk.n_iter, walk.state, time.monotonic() - began)
            rounding = _ROUNDING * abs(walk.state.value)
            if gain >= max(tol, rounding):
                quiet = 0
            elif not walk.undone:
                quiet += enough_quiet if walk.steep or gain <= _VERY_QUIET * tol else 1
            if (quiet and rough) or (enough is not None and enough(walk.state)):
                break
        if quiet >= enough_quiet:
            if not (look_around and walk.leave_plateau(keep)):
                return Fit(walk.state, path, walk.n_iter, True)
            quiet = 0
        keep()
    empty = not (walk.state.components or problem.keeper.cut_short)
    return Fit(walk.state, path, walk.n_iter, empty)


class _Walk:
    """The state of a loop, and how far a step may go."""

    _SAME = ("_problem", "_max_iter")  # when a fit goes on, perhaps with more iterations

    def __init__(
        self, problem: Problem, state: State, max_iter: int, faithful: bool, enough: float
    ) -> None:
        self._problem, self._max_iter = problem, max_iter
        self._faithful, self._enough = faithful, enough
        self._largest = _FAITHFUL_ANGLE if faithful else _LARGEST_ANGLE
        self.state = _without_dead(state)
        self.n_iter = 1
        self._reach = self._largest
        self._last: Step | None = None
        self._tried = 0  # other points from which to leave a plateau
        self.undone = False  # whether the last step was, so that its small gain tells nothing
        self._gain = 0.0  # of the last step, if that of the next can be compared with it
        self.steep = False  # whether gains fall so steeply that little is left

    @property
    def ends(self) -> bool:
        """Whether no iteration would be left to undo another step."""
        return self.n_iter + 2 > self._max_iter

    def kept(self, path: list[float], quiet: int) -> dict[str, Any]:
        """All that the rest of the loop depends on."""
        own = {key: value for key, value in vars(self).items() if key not in self._SAME}
        return {"walk": own, "path": list(path), "quiet": quiet}

    def go_on(self, kept: dict[str, Any]) -> tuple[list[float], int]:
        """Return to where `kept` was called; give its arguments."""
        vars(self).update(kept["walk"])
        self._last = self._last and Step(*self._last)  # a plain tuple after a while on disk
        return list(kept["path"]), kept["quiet"]

    def advance(self) -> float:
        """Do one iteration; return what it gained."""
        state = self.state
        before, self._gain, self.steep = self._gain, 0.0, False
        if self.ends:
            self.n_iter += 1
            self._move_to(self._problem.plain(state, state.mean))
            return self.state.value - state.value
        step, scores = self._newton(), self._problem.scores
        size, factor = step.length, self._stretch(step)
        place = scores.moved(state.scores, state.b, step, factor)
        new = self._problem.at(place, state.precision, state.components, state.fitted)
        self.n_iter += 1
        fell = new.value < state.value - _NOT_A_FALL * abs(state.value)
        self.undone = fell and size > _TINY_ANGLE
        if fell:
            self._reach = max(size / 4, _TINY_ANGLE)
            self._last = None
            new = self._problem.plain(state, state.mean)
            self.n_iter += 1
        elif size >= 0.99 * self._reach:
            self._reach = min(self._largest, 2 * self._reach)
        self._move_to(new)
        gain = new.value - state.value
        if factor == 1 and not fell:  # what follows a lengthened step may be small by chance
            self._gain, self.steep = gain, gain <= _STEEP * before
        return gain

    def _newton(self) -> Step:
        """Step of Newton's method in the scores, in units of the typical noise."""
        state = self.state
        inverse = 1 / state.noise**2
        typical = float(inverse.mean())
        accuracy = _ROUGH_ACCURACY if self._enough else _ACCURACY
        limits = Limits(self._reach, accuracy, _MOST_PRODUCTS, self._enough / typical)
        return self._problem.scores.newton(
            state.scores,
            state.b,
            state.mean * (inverse / typical) if inverse.ndim else state.mean,
            state.bend * (inverse * inverse / typical),
            limits,
        )

    def _stretch(self, step: Step) -> float:
        """Factor by which to lengthen a step.

        Priors and noise follow the scores, so that steps may shrink slowly and all point the same
        way; then their sum is that of a geometric series.
        """
        last, self._last, size = self._last, step, step.length
        if last is None or not 0 < size < min(_SMALL_ANGLE, last.length):
            return 1.0
        aligned = last.inner(step) / (size * last.length)
        if aligned < _ALIGNED:
            return 1.0
        self._last = None
        return min(1 / (1 - size / last.length), _LONGEST_STRETCH)

    def _move_to(self, state: State) -> None:
        self.state = _without_dead(state)
        if len(self.state.components) < len(state.components):
            self._last = None

    def leave_plateau(self, keep: Callable[[], None]) -> bool:
        """Try to leave a quiet point that is not the best nearby, by one iteration from others.

        `keep` is called before each.
        """
        mirrors = [] if self._faithful else _mirrors(self.state.mean)
        for rotation in [*mirrors, *_saddle(self.state)][self._tried :]:
            keep()
            if self.n_iter >= self._max_iter or self._problem.keeper.out_of_time():
                return True  # not known to be the best nearby
            new = self._problem.plain(self.state, rotation @ self.state.mean)
            self.n_iter += 1
            self._tried += 1
            if new.value > self.state.value + _WORTH_MOVING:
                self._reach, self._last, self._tried = self._largest, None, 0
                self._gain = 0.0
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
        scores=state.scores[index],
        b=state.b[index],
        mean=state.mean[index],
        variance=state.variance[index],
        curvature=None if state.curvature is None else state.curvature[index],
        fitted=[state.fitted[k] for k in index],
        components=tuple(state.components[k] for k in index),
    )
