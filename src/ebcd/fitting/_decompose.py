"""The decomposition, from a covariance to a fit: where it starts, and on how much of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._climb import Callback, Climbed, Climber, ClimbSettings, climb
from ebcd.fitting._components import Standardized
from ebcd.fitting._greedy import Begin, greedy_components
from ebcd.fitting._growth import climb_growing, grown
from ebcd.fitting._noise import AbstractNoise
from ebcd.fitting._progress import Monitor
from ebcd.fitting._rotation import NEGLIGIBLE
from ebcd.fitting._scores import (
    AbstractScores,
    Moments,
    Point,
    ScoredStates,
    UncorrelatedScores,
    point_of,
    settle,
    upwards,
    with_solved_priors,
    with_unit_scores,
)
from ebcd.fitting._search import SETTINGS as SEARCH
from ebcd.fitting._search import annealed, look_around, principal_coordinates, search
from ebcd.fitting._shrinkers import (
    AbstractShrinker,
    NormalMeansShrinker,
    SpikeSlabShrinker,
    rough_shrinker,
)
from ebcd.fitting._starts import promax, varimax
from ebcd.fitting._states import Model, States, together
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._solve import Prior


@dataclass(frozen=True)
class SizeSettings:
    """From which size on a fit works on parts of the data."""

    exact_rows: int = 400  # of a factor that holds the whole covariance
    extra_directions: int = 10  # beside one for each component, in a factor that grows
    products: int = 3  # with blocks of vectors, to find those directions
    features: int = 1_000  # to search on, half of them those with the largest loadings
    components: int = 15  # to search for on those; with more, varimax on all features ends higher
    stepwise_up_to: int = 30_000  # features: beyond, solved normal means cost less than one step
    coarse_tol: float = 3.0  # nats: where the fit to the whole covariance takes over
    worth_climbing: float = 0.01  # nats that exact priors may gain before states climb again


SIZES = SizeSettings()
# Steps so small that they end in the optimum to which the plain iterations of the paper lead.
SMALL_STEPS = ClimbSettings(radius=0.03, settled=0.0)


class State(NamedTuple):
    """A fit: rotated data, posterior moments of the loadings (k x p), noise and priors.

    ``noise`` (k or 1 x p or 1) is the standard deviation of ``b`` that the shrinkage assumed,
    ``precision`` (p or 1) that of the data. ``moments`` are those of the scores, None if they are
    the paper's.
    """

    b: Array
    mean: Array
    variance: Array
    noise: Array
    precision: Array
    fitted: list[FittedPrior]
    value: float
    moments: Moments | None = None


class Fit(NamedTuple):
    """A finished fit, the ELBO after every recorded iteration, and whether it converged.

    ``leading`` are eigenpairs of the covariance that were found on the way, if any; ``priors`` are
    those of the problem whose components are not empty, and ``scores`` its score model or `rival`.
    """

    state: State
    path: list[float]
    n_iter: int
    converged: bool
    leading: tuple[Array, Array] | None = None
    priors: Sequence[Prior] = ()
    scores: AbstractScores | None = None


@dataclass(frozen=True)
class Problem:
    """What to fit, and how far.

    Attributes
    ----------
    covariance : AbstractCovariance
    noise : AbstractNoise
        The noise model.
    priors : sequence of families or fitted priors
        One for each component.
    tol : float
        Gain of the ELBO in an iteration, in nats, at which to stop.
    max_iter : int
        Most iterations, not counting those of the search.
    monitor : Monitor
    scores : AbstractScores, optional
        The score model; None is the paper's.
    """

    covariance: AbstractCovariance
    noise: AbstractNoise
    priors: Sequence[Prior]
    tol: float
    max_iter: int
    monitor: Monitor
    scores: AbstractScores | None = None


def decompose(
    problem: Problem, start: Any, rng: np.random.Generator, saved: dict[str, Any] | None = None
) -> Fit:
    """Fit the components.

    Parameters
    ----------
    problem : Problem
    start : "auto", "svd", "varimax", "greedy" or array, k x p
        Where to start; of loadings only the directions matter.
    rng : Generator
        For random rotations.
    saved : dict, optional
        State of an earlier fit that was interrupted, as its monitor noted it.
    """
    noise, monitor = problem.noise, problem.monitor
    if saved is not None:
        monitor.path[:], monitor.started = saved["path"][:-1], True
        problem = resumed(problem, saved)
        fitted = [FittedPrior.from_dict(prior) for prior in saved["priors"]]
        begin = Begin(saved["loadings"], fitted, saved["precision"], saved["b"])
        return _fit_from(problem, begin, start, saved.get("spread"))
    monitor.stage("looking for a start")
    if not isinstance(start, str):
        begin = Begin(start, None, 1 / np.maximum(noise.variances, noise.floor))
        return _fit_from(problem, begin, start)
    if start == "greedy":
        begin = greedy_components(problem.covariance, problem.priors, noise, monitor.component)
        return _fit_from(problem, begin, start)
    model, exact = _model(problem)
    problem = replace(problem, priors=problem.priors[: len(model.factor)])
    if start == "auto":
        return finished(problem, model, exact, _searched(problem, model, rng), start)
    states = _principal(model, len(problem.priors), rotated=start == "varimax")
    return finished(problem, model, exact, states, start)


def resumed(problem: Problem, saved: dict[str, Any]) -> Problem:
    """Return the problem with the score model that an interrupted fit had come to."""
    if problem.scores is None or not saved.get("rival"):
        return problem
    return replace(problem, scores=problem.scores.rival)


def _principal(model: Model, k: int, rotated: bool) -> States:
    """Start from the principal components, as they are or rotated by varimax."""
    coordinates = principal_coordinates(model, k)
    if rotated:
        coordinates = varimax(coordinates @ model.factor) @ coordinates
    return model.start(coordinates[None])


def _fit_from(problem: Problem, begin: Begin, start: Any, spread: Array | None = None) -> Fit:
    """Fit from given loadings."""
    if not len(begin.loadings):
        return nothing(problem)
    problem = replace(problem, priors=problem.priors[: len(begin.loadings)])
    directions = begin.loadings * begin.precision
    model, exact = _model(problem, directions)
    problem = replace(problem, priors=problem.priors[: len(model.factor)])
    coordinates = model.nearest(directions)[None, : len(problem.priors)]
    if exact and begin.b is not None:  # the scores themselves, not those nearest to the loadings
        coordinates = np.asarray(np.linalg.lstsq(model.factor.T, begin.b.T)[0].T[None], float)
    if begin.fitted is None:
        states = model.start(coordinates)
        if problem.scores is None:
            return finished(problem, model, exact, states, start)
        given = begin.loadings[: len(problem.priors)]
        return finished(problem, model, exact, _with_oblique(states, given), start)
    model = replace(model, shrinker=NormalMeansShrinker(problem.priors))
    fitted = model.shrinker.begun(begin.fitted[: len(problem.priors)])
    if spread is not None:
        none = np.empty((1, 0))
        point = Point(begin.loadings[None], spread[None], begin.precision[None], fitted, none)
        return finished(problem, model, exact, point, start)
    states = model.at(coordinates, begin.precision[None], fitted)
    return finished(problem, model, exact, states, start)


def decompose_near(problems: Sequence[Problem], begins: Sequence[Begin]) -> Iterator[Fit]:
    """Fit each from given loadings, priors and precision, without a look at other optima.

    Fits to data of one shape are one stack; components that turn out to be empty stay, as zeros.
    """
    starts = [_near(problem, begin) for problem, begin in zip(problems, begins, strict=True)]
    problem, first = starts[0][:2]
    alike = all(exact and model.factor.shape == first.factor.shape for _, model, exact, _ in starts)
    if not alike or first.shrinker.cost > 1:
        for problem, model, exact, begun in starts:
            yield finished(problem, model, exact, model.at(*begun), None)
        return
    stack = Model(
        np.stack([model.factor for _, model, _, _ in starts]),
        np.stack([model.diagonal for _, model, _, _ in starts]),
        type(first.noise)(
            first.noise.n_samples, np.stack([model.noise.variances for _, model, _, _ in starts])
        ),
        first.shrinker,
    )
    parts = zip(*(begun for *_, begun in starts), strict=True)
    coordinates, precision, priors = (np.concatenate(part) for part in parts)
    joined = stack.at(coordinates, precision, priors)
    options: Any = {"tol": problem.tol, "max_iter": problem.max_iter}
    if problem.scores is None:
        settled, converged, *_ = climb(stack, joined, lambda _: False, **options)
    else:
        given = stack, problem.scores, point_of(joined), lambda _: False
        settled, converged, *_ = settle(*given, **options)
    states = _with_exact_priors(stack, settled, problem.priors)
    missed = converged & (states.value - settled.value >= SIZES.worth_climbing)
    for i, (problem, model, _, _) in enumerate(starts):
        if missed[i]:  # stepwise priors have missed something
            before = settled.take(slice(i, i + 1))
            before = before if problem.scores is None else point_of(before)
            yield finished(problem, model, True, before, None)
        else:
            state = _state_of(states.take(slice(i, i + 1)), problem.priors)
            yield Fit(state, [state.value], 1, converged, None, problem.priors)


def _near(problem: Problem, begin: Begin) -> tuple[Problem, Model, bool, tuple[Array, Array, Any]]:
    """Return what to fit, and coordinates, precision and priors to begin with."""
    assert begin.fitted is not None
    directions = begin.loadings * begin.precision
    model, exact = _model(problem, directions)
    k = min(len(problem.priors), len(model.factor))  # no more components than the data have rows
    problem.monitor.started = True
    priors = model.shrinker.begun(begin.fitted[:k])
    begun = (model.nearest(directions[:k])[None], begin.precision[None], priors)
    return replace(problem, priors=problem.priors[:k]), model, exact, begun


def nothing(problem: Problem) -> Fit:
    """Return the fit without components."""
    p, noise = problem.covariance.n_features, problem.noise
    empty = np.empty((0, p))
    precision = noise.precision(noise.variances)
    value = float(noise.value(precision, noise.variances))
    s = np.sqrt(1 / (noise.n_samples * precision))
    return Fit(State(empty, empty, empty, s[None], precision, [], value), [value], 0, True)


def _model(problem: Problem, directions: Array | None = None) -> tuple[Model, bool]:
    """Return the model, and whether its factor is all of the covariance.

    If not, it consists of the leading directions, in units of the noise, and is made exact for
    given ones.
    """
    covariance, noise = problem.covariance, problem.noise
    factor = covariance.factor
    if factor is None and covariance.n_features <= SIZES.exact_rows:
        matrix = covariance.matmul(np.eye(covariance.n_features))
        factor = factor_of(0.5 * (matrix + matrix.T), covariance.diagonal())
    exact, leading = factor is not None and len(factor) <= SIZES.exact_rows, None
    if factor is None or not exact:
        rank = min(len(problem.priors) + SIZES.extra_directions, covariance.n_features)
        problem.monitor.stage("looking for leading directions of the data")
        source = Standardized(covariance) if noise.differs else covariance
        values, vectors = source.leading(rank, SIZES.products, surplus=True)
        vectors *= np.sqrt(values)
        factor = np.ascontiguousarray(vectors.T)
        exact = rank >= covariance.most_rank
        if noise.differs:
            factor *= np.sqrt(noise.variances)
        else:
            leading = values
        if directions is not None and not exact:
            product = covariance.matmul(directions.T).T
            factor = grown(factor, directions, product, covariance.rounding)[0]
    shrinker = shrinker_for(problem.priors, covariance.n_features)
    return Model(factor, covariance.diagonal(), noise, shrinker, leading), exact


def factor_of(matrix: Array, variances: Array) -> Array:
    """Return rows whose cross-products are a covariance matrix, found in units of its features."""
    size = np.sqrt(variances)
    inverse = 1 / np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(matrix * inverse * inverse[:, None])
    kept = values > NEGLIGIBLE * max(values[-1], 0.0)
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T * size)


def shrinker_for(priors: Sequence[Prior], p: int) -> AbstractShrinker:
    """Return the shrinkage step for priors: stepwise where one family has a spike and a slab."""
    first = priors[0]
    alike = all(prior == first for prior in priors) and hasattr(first, "slab")
    if alike and p < SIZES.stepwise_up_to:
        return SpikeSlabShrinker(first)
    return rough_shrinker(priors)


def _searched(problem: Problem, model: Model, rng: np.random.Generator) -> States:
    """Search among many starts, on some of the features first if there are many.

    For other score models than the paper's there is a second start, varimax, which is better where
    scores are correlated.
    """
    p, k, monitor = model.factor.shape[1], len(problem.priors), problem.monitor
    exchangeable = all(getattr(prior, "exchangeable", True) for prior in problem.priors)

    def searched(model: Model) -> States:
        found, simple = search(model, k, rng, problem.tol, monitor)
        return found if problem.scores is None else together([found, simple])

    tol, most = SIZES.coarse_tol, problem.max_iter
    found: States
    if p < 2 * SIZES.features or not exchangeable:
        return searched(model)
    if k > SIZES.components and problem.scores is None:
        begin = next(annealed(model, _principal(model, k, rotated=True).coordinates[0], monitor))
        found = climb(model, model.start(begin), monitor, tol=tol, max_iter=most).states
        return found
    principal = principal_coordinates(model, k) @ model.factor
    by_size = np.argsort(-(principal**2).sum(axis=0), kind="stable")
    half = SIZES.features // 2
    del principal  # large, and there are larger arrays to come
    others = rng.choice(by_size[half:], SIZES.features - half, replace=False)
    features = np.sort(np.concatenate([by_size[:half], others]))
    monitor.stage(f"looking for a start among {features.size:,} of {p:,} features")
    part = Model(
        np.ascontiguousarray(model.factor[:, features]),
        model.diagonal[features],
        type(model.noise)(model.noise.n_samples, model.noise.variances[features]),
        shrinker_for(problem.priors, features.size),
    )
    starts = [searched(part)]
    if problem.scores is not None:  # these may not tell weak components of few features from noise
        starts = [_better(part, problem.scores, starts[0], monitor), starts[0].take(slice(1))]
    for best in starts:
        found = _with_exact_priors(part, best, problem.priors[: best.b.shape[1]])
        if found.shrunk.mean.any(axis=-1).sum() == k:
            break
    else:
        return searched(model)
    monitor.stage("best start, on all features")
    stepwise = isinstance(model.shrinker, SpikeSlabShrinker)
    coordinates, fitted = found.coordinates, (best if stepwise else found).shrunk.priors
    if problem.scores is not None:
        return model.start(coordinates, fitted)
    # no name for the start, which is large and would be kept
    found = climb(model, model.start(coordinates, fitted), monitor, tol=tol, max_iter=most).states
    return found


def _with_oblique(states: Any, given: Array | None = None) -> Point:
    """Return the points of states; of starts another one, whose scores may be correlated."""
    point = point_of(states)
    if not isinstance(states, States) or (given is None and len(states) == 1):
        return point
    last, b = point.take(slice(-1, None)), states.b[-1]
    if given is None:
        oblique = promax(b)
    else:  # of which only the directions matter, up to the signs that one-sided priors allow
        sizes = np.linalg.norm(b, axis=1) / np.maximum(np.linalg.norm(given, axis=1), 1e-300)
        oblique = np.copysign(sizes, np.vecdot(b, given))[:, None] * given
    last = last._replace(loadings=oblique[None])
    return Point(*(np.concatenate(parts) for parts in zip(point, last, strict=True)))


def _better(model: Model, scores: AbstractScores, states: States, callback: Callback) -> States:
    """Return the start that is the better one for a score model, a little further on."""
    settled = settle(
        model, scores, _with_oblique(states), callback, tol=SEARCH.tol, max_iter=SEARCH.max_iter
    )
    best: ScoredStates = settled.states.take(slice(1))
    directions = best.shrunk.mean * best.precision[:, None]
    coordinates = best.moments.weights @ model.nearest(directions)
    return model.start(np.asarray(coordinates), best.shrunk.priors)


def _with_exact_priors(model: Model, states: Any, priors: Sequence[Prior]) -> Any:
    """Solve the normal-means problems of the components to the end, unless they are already."""
    known = model.shrinker.priors if isinstance(model.shrinker, NormalMeansShrinker) else None
    if known == list(priors) and isinstance(states, States):
        return states
    exact = replace(model, shrinker=NormalMeansShrinker(priors))
    fitted = model.shrinker.fitted(states.shrunk.priors)
    found: Any
    if not isinstance(states, States):
        found = with_solved_priors(exact, states, fitted)
    else:
        found = exact.shrink(states.coordinates, states.b, states.precision, fitted)
    # with noise of every feature the bound of smooth priors is another one at every precision
    return states if known and not found.value[0] >= states.value[0] else found


class _Orthogonal(Climber):
    """How fits with the paper's scores go on.

    Whoever asks for the start of the paper wants to see where its algorithm ends, so that from
    there steps are small. From other given starts a better optimum near by is looked for; the
    search has done so already.
    """

    def __init__(self, problem: Problem, exact: bool, start: Any) -> None:
        greedy, auto = (isinstance(start, str) and start == name for name in ("greedy", "auto"))
        super().__init__(problem.monitor, SMALL_STEPS if greedy else ClimbSettings())
        self._problem, self._exact, self.scores = problem, exact, None
        self._looks = not (greedy or auto or start is None)

    def climb(self, model: Model, states: States, max_iter: int) -> tuple[Climbed, Model]:
        """Climb as far as the number of iterations allows; the factor may grow."""
        left: Any = {"tol": self._problem.tol, "max_iter": max_iter}
        if self._exact:
            return climb(model, states, self.callback, settings=self.settings, **left), model
        return climb_growing(self._problem.covariance, model, states, self, **left)

    def only(self, model: Model, states: States, alive: Array) -> States:
        """Go on with some of the components."""
        return model.shrink(
            states.coordinates[:, alive],
            states.b[:, alive],
            states.precision,
            states.shrunk.priors[:, alive],
        )

    def better(self, model: Model, states: States) -> States | None:
        """Look for a better optimum."""
        if not self._looks:
            return None
        monitor, tol = self._problem.monitor, self._problem.tol
        monitor.stage("looking for other optima nearby")
        near = look_around(model, states, tol, monitor)
        monitor(near)  # the last to climb need not have been the best
        monitor.stage("fitting", tol)
        return near if _gain(near, states) >= SIZES.worth_climbing else None

    def describe(self, states: Any) -> dict[str, Any]:
        """Return what to store of states beside loadings, precisions and priors."""
        return {"b": states.b[0]}


class _Scored:
    """How fits with other score models go on."""

    def __init__(self, problem: Problem, exact: bool, scores: AbstractScores, start: Any) -> None:
        self._problem, self._exact, self.scores = problem, exact, scores
        self.callback = problem.monitor
        self._compares, self._goal = start is not None, -np.inf

    def climb(self, model: Model, point: Point, max_iter: int) -> tuple[Climbed, Model]:
        """Iterate as far as the number of iterations allows; the factor may grow.

        The rival comes first, from the best start alone, since its optimum is where a search has
        ended, or near by; others are not looked for. Correlations are followed as long as they may
        become worth their while.
        """
        self._goal = -np.inf
        rival, k = self.scores.rival, point.loadings.shape[1]
        if rival is None or k == 1 or not self._compares or model.incomplete is not None:
            return self._climb(model, point, max_iter)
        problem, monitor = self._problem, self._problem.monitor
        monitor.stage("looking at uncorrelated scores")
        roughly = replace(problem, tol=max(problem.tol, SEARCH.tol))
        other = _Scored(roughly, self._exact, rival, None)
        plain, model = other.climb(model, point.take(slice(1)), max_iter)
        self._goal = float(plain.states.value[0] + rival.worth(k))
        monitor.stage("fitting", problem.tol)
        climbed, model = self._climb(model, point, max_iter)
        decided = climbed.converged or (climbed.ended and not monitor.out_of_time())
        if climbed.states.value[0] > self._goal or not decided:
            return climbed, model
        self.scores, self._goal = rival, -np.inf
        monitor.path.clear()  # it led to another objective
        return self._climb(model, point_of(plain.states), max_iter)

    def _climb(self, model: Model, point: Point, max_iter: int) -> tuple[Climbed, Model]:
        problem = self._problem
        limits: Any = {"tol": SIZES.coarse_tol, "patience": 1}
        if self._exact:
            limits = {"tol": problem.tol, "goal": self._goal}
        given = model, self.scores, point, self.callback
        climbed = settle(*given, max_iter=max_iter, **limits)
        if not self._exact:
            left = 0 if climbed.ended else max_iter - climbed.n_iter
            climbed, model = climb_growing(
                problem.covariance, model, climbed.states, self, tol=problem.tol, max_iter=left
            )
        return climbed._replace(states=climbed.states.take(slice(1))), model

    def iterated(self, model: Model, states: Any, directions: Array, product: Array) -> Any:
        """Do a plain iteration, given ``L T`` and ``L T S``, unless it loses."""
        new = upwards(model, self.scores, point_of(states), states.value, product[None])
        return new if new.value[0] >= states.value[0] else states

    def within(
        self, model: Model, states: Any, directions: Array, tol: float, max_iter: int
    ) -> Climbed:
        """Settle in a factor."""
        limits: Any = {"tol": tol, "max_iter": max_iter, "least": states.value, "goal": self._goal}
        return settle(model, self.scores, point_of(states), self.callback, patience=1, **limits)

    def only(self, model: Model, states: Any, alive: Array) -> Point:
        """Go on with some of the components."""
        return point_of(states).only(alive)

    def describe(self, states: Any) -> dict[str, Any]:
        """Return what to store of states beside loadings, precisions and priors."""
        point = point_of(states)
        parts = {"b": states.b[0], "spread": point.spread[0], "shift": point.shift[0]}
        return {**parts, "rival": isinstance(self.scores, UncorrelatedScores)}


def finished(problem: Problem, model: Model, exact: bool, states: Any, start: Any) -> Fit:
    """Climb to the end, with priors at their optimum and without empty components."""
    monitor, priors, shrinker = problem.monitor, list(problem.priors), model.shrinker
    route: Any = (
        _Orthogonal(problem, exact, start)
        if problem.scores is None
        else _Scored(problem, exact, problem.scores, start)
    )
    monitor.describe = lambda states: {
        **route.describe(states),
        "loadings": states.shrunk.mean[0],
        "precision": states.precision[0],
        "priors": [g.to_dict() for g in shrinker.fitted(states.shrunk.priors)[0]],
        "path": list(monitor.path),
    }
    monitor.started |= not monitor.out_of_time()
    monitor.stage("fitting", problem.tol)
    if problem.scores is None:
        monitor(states)
    elif not isinstance(states, Point):
        states = _with_oblique(states)  # the rest of them is large
    while True:
        climbed, model = route.climb(model, states, problem.max_iter - len(monitor.path))
        states, converged = climbed[:2]
        before, priors = states, priors[: states.b.shape[1]]  # all alike if some were left out
        states = _with_exact_priors(model, states, priors)
        alive = states.shrunk.mean[0].any(axis=-1)
        if not alive.any():
            return nothing(problem)._replace(converged=monitor.started)
        if alive.all() and (not converged or _gain(states, before) < SIZES.worth_climbing):
            looks = converged and problem.scores is None
            better = route.better(model, before) if looks else None
            if better is None:
                break
            states = better
            continue
        priors = [prior for prior, lives in zip(priors, alive, strict=True) if lives]
        stepwise = isinstance(model.shrinker, SpikeSlabShrinker)
        if stepwise and _gain(states, before) < SIZES.worth_climbing:  # the others are at rest
            states = route.only(model, before, alive)
        else:  # stepwise priors have missed something
            shrinker = rough_shrinker(priors)
            model = replace(model, shrinker=shrinker)
            states = route.only(model, states, alive)
    state = _state_of(states, priors)
    path = [*monitor.path[:-1], state.value]
    converged = converged and monitor.started
    leading = None
    if model.leading is not None:  # one more than components is enough to count them
        roots = np.sqrt(model.leading[: len(priors) + 1])
        roots = roots[roots > 0]
        leading = roots**2, (model.factor[: roots.size] / roots[:, None]).T
    return Fit(state, path, len(path), converged, leading, priors, route.scores)


def _state_of(states: Any, priors: Sequence[Prior]) -> State:
    """Return the first of states whose priors are fitted ones."""
    shrunk = states.shrunk
    state = State(
        states.b[0],
        shrunk.mean[0],
        shrunk.variance[0],
        states.noise[0],
        states.precision[0],
        list(shrunk.priors[0]),
        float(states.value[0]),
        None if isinstance(states, States) else states.moments.take(0),
    )
    given = [isinstance(prior, FittedPrior) for prior in priors]
    return state if state.moments is None else with_unit_scores(state, given)


def _gain(states: Any, before: Any) -> float:
    return float(states.value[0] - before.value[0])
