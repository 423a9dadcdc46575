"""Where a fit begins: starts, and the search for the best of several."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance, CovarianceMatrix, LowRank
from ebcd.fitting._components import Standardized
from ebcd.fitting._greedy import greedy_start
from ebcd.fitting._loop import Problem, State, alternate

_VARIMAX_STEPS = 200
_VARIMAX_ACCURACY = 1e-3
_FEW_GREEDY_STEPS = 6  # of each component in a search
# Rounds of the search: gain an iteration at which to stop, most iterations, how far behind in nats
# a state may be to go on, how many go on.
_ROUNDS = ((0.05, 5, 300.0, 7), (0.05, 5, 100.0, 4), (0.05, 60, 10.0, 3), (1e-3, 60, 0.0, 1))
_CAREFUL = 0.01  # nats: where to look for other optima near by
_COARSE = 3.0  # nats: where the fit to all data takes over
_HOPELESS = 5.0  # times what the first start gained in the first round
_SAME = 0.99  # cosine
_GREEDY_TOL = 1.0  # nats: how rough the start is hardly matters to where it leads
_ROUGH_GREEDY_TOL = 5.0
# Random rotations are tried as well where an iteration is cheap, and components are many.
_ROTATIONS = 8
_FEW_ROTATIONS = 3
_ENOUGH_FEATURES = 1_000
_MANY_FEATURES = 100_000
_CHEAP_FEATURES = 100
_DEAR = 2_000_000  # entries of the data, or of the covariance if that is known
_EXTRA_DIRECTIONS = 10


def svd_start(covariance: AbstractCovariance, k: int) -> Array:
    """Give loadings of the first `k` principal components, one a row."""
    values, vectors = covariance.leading(k)
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.asarray((vectors * np.copysign(np.sqrt(values), largest)).T)


def principal_start(problem: Problem, k: int) -> Array:
    """Give loadings of the first `k` principal components, in units of the noise.

    If the noise has a variance for each feature, those are unknown at first; the variances of the
    features take their place.
    """
    covariance = problem.covariance
    if not problem.noise.differs:
        return svd_start(covariance, k)
    return svd_start(Standardized(covariance), k) * np.sqrt(problem.noise.variances)


def _compressed(problem: Problem, rank: int) -> AbstractCovariance:
    """Give the leading directions of the covariance, in units of the noise as above."""
    covariance, variances = problem.covariance, problem.noise.variances
    if problem.noise.differs:
        covariance = Standardized(covariance)
    problem.keeper.watch.stage("looking for leading directions of the data")
    parts = problem.keeper.once("directions", LowRank.find, covariance, rank)
    small = LowRank(covariance, rank, parts)
    if not problem.noise.differs:
        return small
    inverse = np.where(variances > 0, 1 / np.where(variances > 0, variances, 1.0), 1.0)
    return Standardized(small, inverse)


def varimax_start(loadings: Array) -> Array:
    """Rotate loadings (rows) so that each has few large entries."""
    rotation = np.eye(loadings.shape[0])
    for _ in range(_VARIMAX_STEPS):
        rotated = rotation @ loadings
        square = rotated**2
        target = rotated * (square - square.mean(axis=1, keepdims=True))
        left, _, right = np.linalg.svd(target @ loadings.T)
        new = left @ right
        if np.abs(new - rotation).max() < _VARIMAX_ACCURACY:
            break
        rotation = new
    return rotation @ loadings


def random_rotation(loadings: Array, rng: np.random.Generator) -> Array:
    """Rotate loadings (rows) at random."""
    q, r = np.linalg.qr(rng.standard_normal((loadings.shape[0],) * 2))
    return (q * np.sign(np.diag(r))).T @ loadings


Starts = dict[str, Callable[[], State | None]]


class Start(NamedTuple):
    """Where a fit begins.

    Attributes
    ----------
    state : State, optional
        None if there is nothing to fit.
    looked_around : bool
        Whether other optima near by have been looked for.
    factor : array, optional
        If the state is one of an approximation of the covariance: rows with its cross-products.
    """

    state: State | None
    looked_around: bool = False
    factor: Array | None = None


def best_start(problem: Problem, k: int, rng: np.random.Generator) -> Start:
    """Run several starts a little way and return the best state.

    Where a product with the data is dear, the search runs on their leading directions only, and
    on some of the features first if there are many; then it also looks for other optima near by.

    Returns
    -------
    Start
    """
    covariance, p = problem.covariance, problem.covariance.n_features
    rank = k + _EXTRA_DIRECTIONS
    rows = p if isinstance(covariance, CovarianceMatrix) else covariance.n_samples
    if rows * p <= _DEAR or rank >= p:
        return Start(_search(problem, principal_start(problem, k), rng, careful=False), False)
    small = _compressed(problem, rank)
    compressed = Problem(small, problem.shrinker, problem.noise, problem.keeper)
    principal = principal_start(compressed, k)
    if not isinstance(small, LowRank):
        state = _search(compressed, principal, rng, careful=True)
        return Start(problem.plain(state, state.mean), True)
    if p < 2 * _ENOUGH_FEATURES:
        return Start(_search(compressed, principal, rng, careful=True), True, small.factor)
    watch = problem.keeper.watch
    watch.features = features = _telling(principal, rng)
    among = _part(problem, small, features)
    state = _search(among, principal[:, features], rng, careful=True)
    watch.features = None
    if len(state.components) < len(principal):  # these features do not tell them all from noise
        return Start(_search(compressed, principal, rng, careful=True), True, small.factor)
    if p > 2 * _MANY_FEATURES:  # not all at once: an iteration is dear there
        watch.features = features = np.sort(rng.choice(p, _MANY_FEATURES, replace=False))
        state = _moved(_part(problem, small, features), state)
        watch.features = None
    return Start(_moved(compressed, state), True, small.factor)


def _part(problem: Problem, covariance: LowRank, features: np.ndarray) -> Problem:
    """Give the problem of some of the features."""
    some = covariance.among(features)
    return Problem(some, problem.shrinker, type(problem.noise)(some), problem.keeper)


def _moved(problem: Problem, state: State) -> State:
    """Go on from scores of a part of the features, which have the same coordinates."""
    problem.keeper.watch.stage("best start, on more features")
    place = problem.scores.at(state.scores)
    state = problem.at(place, state.precision, state.components, state.fitted)
    return problem.keeper.once(
        "refinement", _ended, problem, state, tol=_COARSE, max_iter=60, look_around=False
    )


def _telling(principal: Array, rng: np.random.Generator) -> np.ndarray:
    """Choose features to search on: those with the largest loadings, and others at random."""
    by_size = np.argsort(-(principal**2).sum(axis=0), kind="stable")
    half = _ENOUGH_FEATURES // 2
    others = rng.choice(by_size[half:], _ENOUGH_FEATURES - half, replace=False)
    return np.sort(np.concatenate([by_size[:half], others]))


def _search(problem: Problem, principal: Array, rng: np.random.Generator, careful: bool) -> State:
    """Run starts in rounds; to the end if `careful`, otherwise until one is left."""
    k, small = len(principal), _is_small(problem)
    starts: Starts = {"varimax": lambda: problem.start(varimax_start(principal))}
    if k > 1:
        leading = None if problem.noise.differs else principal[0]
        tol = _GREEDY_TOL if small else _ROUGH_GREEDY_TOL
        starts["greedy"] = partial(greedy_start, problem, k, tol, _FEW_GREEDY_STEPS, leading)
    if k > 3 or (k > 2 and small):
        n_rotations = _ROTATIONS if small else _FEW_ROTATIONS
        starts["principal components"] = partial(problem.start, principal)
        for i in range(n_rotations):
            rotated = random_rotation(principal, rng)
            starts[f"random rotation {i + 1}"] = partial(problem.start, rotated)
    return _after_rounds(problem, starts, len(_ROUNDS), careful)[0]


def _is_small(problem: Problem) -> bool:
    """Tell whether an iteration costs next to nothing."""
    return problem.covariance.n_features <= _CHEAP_FEATURES


def _after_rounds(problem: Problem, starts: Starts, number: int, careful: bool) -> list[State]:
    """Give the states that are left after so many rounds.

    A round calls for the one before it, so that what that left need not be kept any longer when
    the round is over.
    """
    tol, max_iter, behind, most = _ROUNDS[number - 1]
    watch = problem.keeper.watch
    run = partial(_ended, problem, tol=tol, max_iter=max_iter, rough=tol > _CAREFUL)

    def contest() -> list[State]:
        if number == 1:
            return _contenders(_first_round(problem, starts, run, behind), behind, most)
        states = _after_rounds(problem, starts, number - 1, careful)
        if len(states) == 1 and not careful:
            return states  # what is left to do costs the same later
        ended = []
        for i, state in enumerate(states, 1):
            watch.stage(f"round {number}, start {i} of {len(states)}", i, len(states))
            ended.append(problem.keeper.once("run", run, state))
        return _contenders(ended, behind, most)

    return problem.keeper.once("round", contest)


def _first_round(
    problem: Problem, starts: Starts, run: Callable[..., State], behind: float
) -> list[State]:
    """Run the starts, but for those that are hopelessly behind the first from the beginning."""
    states: list[State] = []
    hopeless = -np.inf
    for i, (name, start) in enumerate(starts.items(), 1):
        if states and problem.keeper.out_of_time():
            break
        words = f"round 1, start {i} of {len(starts)}: {name}"
        problem.keeper.watch.stage(words, i, len(starts))
        begin = problem.keeper.once("begin", start)
        no_news = _no_news(problem, states)
        if begin is None or begin.value < hopeless or no_news(begin):
            continue
        states.append(problem.keeper.once("run", partial(run, enough=no_news), begin))
        if len(states) == 1:
            gain = states[0].value - begin.value
            hopeless = states[0].value - behind - _HOPELESS * gain
    return states


def _ended(problem: Problem, state: State, **options: Any) -> State:
    """Where a loop ends."""
    return alternate(problem, state, progress=problem.keeper.watch.progress, **options).state


def _no_news(problem: Problem, known: list[State]) -> Callable[[State], bool]:
    """Give a function that tells whether a state is like one that is known and no worse.

    Such a one rarely ends elsewhere; where it is cheap to find out, it goes on.
    """
    known = [] if _is_small(problem) else list(known)
    return lambda state: any(k.value >= state.value and _alike(state, k) for k in known)


def _contenders(states: list[State], reach: float, most: int) -> list[State]:
    """Keep the best states that differ from each other and could still win."""
    ranked = sorted(states, key=lambda state: -state.value)
    kept: list[State] = []
    for state in ranked:
        if state.value >= ranked[0].value - reach and not any(_alike(state, k) for k in kept):
            kept.append(state)
    return kept[:most]


def _alike(one: State, other: State) -> bool:
    """Tell whether two states have nearly the same components."""
    if one.mean.shape != other.mean.shape:
        return False
    if one.mean.size == 0:
        return True
    sizes = [np.linalg.norm(state.mean, axis=1) for state in (one, other)]
    cosines = np.abs(one.mean @ other.mean.T)  # times the sizes, which are zero if one has vanished
    return bool((cosines > _SAME * np.outer(*sizes)).any(axis=1).all())
