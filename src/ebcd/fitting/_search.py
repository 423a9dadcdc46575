"""The search for the best of many starts, which climb together.

The ELBO has many optima, and no single start leads to the best one. Random rotations of the
principal components, varimax and the principal components themselves climb as one stack; random
loadings of one sign, too, if those of the priors have one. Mirrored optima of the best join in as
soon as there is room: scores are uncorrelated in the sample, true ones never quite, so that one of
two components must take up a little of the other. Either can, and both are optima; a rotation of
the pair that hands the overlap over leads from one to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from ebcd._numerics import Array
from ebcd.fitting._climb import Callback, ClimbSettings, alike, climb
from ebcd.fitting._shrinkers import SpikeSlabShrinker
from ebcd.fitting._starts import plane_rotations, random_rotations, varimax
from ebcd.fitting._states import Model, States, together
from ebcd.priors import make_family


@dataclass(frozen=True)
class SearchSettings:
    """How wide and how far to search; chosen on varied problems, see ``benchmarks/``."""

    entries: int = 8_000  # of all starts together: more would cost more than overhead
    fewest: int = 4  # starts
    most: int = 48
    angles: int = 2  # of two components, beside varimax
    tiny: int = 8  # dimensions of data that random directions of two components cover
    crowded: int = 6  # components: with more there are many poor optima, and varimax is annealed,
    fewer: tuple[float, ...] = (64.0, 8.0)  # as if there were so many times fewer samples
    one_sided: int = 8  # more starts, with random loadings on the side of their priors
    zeros: float = 0.5  # share of zeros among those loadings
    screened: int = 2  # times as many starts take one iteration if each costs much: the best go on
    tol: float = 0.01  # nats an iteration, or a round: where starts are compared,
    tol_ratio: float = 10.0  # or so many times the tolerance of the fit, if that is more
    max_iter: int = 60  # of a round
    rough_tol: float = 10.0  # nats an iteration with fewer samples: enough to see which way it goes
    patient_up_to: int = 1_000  # entries of a state: small ones are all followed to the end, since
    given_up: float = 2.0  # giving up those behind by so many nats misses a few best optima
    rounds: int = 4  # of mirrored optima,
    room: int = 8  # which begin when not more than one in so many starts still climbs
    parents: int = 4  # of a round
    behind: float = 5.0  # nats: a parent may be behind the best by so much
    overlap: float = 0.05  # radians between components whose mirrored optimum is tried


SETTINGS = SearchSettings()


def search(
    model: Model, k: int, rng: np.random.Generator, tol: float, callback: Callback
) -> tuple[States, States]:
    """Return the best state that many starts lead to, roughly converged, and varimax, a start."""
    if k > 1 and model.shrinker.stand_in is not None:
        # a search with a cheap family; starts turn to the side of their priors
        cheap = replace(model, shrinker=SpikeSlabShrinker(make_family(model.shrinker.stand_in)))
        found, simple = search(cheap, k, rng, tol, callback)
        starts, simple = found.coordinates, model.start(simple.coordinates)
        if not model.shrinker.sides.any():  # tails may be light, and loadings of even size
            principal = principal_coordinates(model, k)
            even = varimax(principal @ model.factor, even=True) @ principal
            starts = np.concatenate([starts, even[None], simple.coordinates, principal[None]])
        states = model.start(starts)
    else:
        starts = _starts(model, k, rng)
        if k > SETTINGS.crowded and isinstance(model.shrinker, SpikeSlabShrinker):
            starts = np.concatenate([starts, *annealed(model, starts[0], callback)])
        states = model.start(starts)
        simple = states.take(slice(1))
        if model.shrinker.light_tails:  # one iteration says which of them lead high
            order = np.argsort(-states.value, kind="stable")
            states = states.take(order[: _n_starts(model, k)])
    best = look_around(model, states, tol, callback)
    # of several parents only a few pairs were tried; with one sign, others lead on, too
    best = look_around(model, best, tol, callback) if _one_sign(model) else best
    return best, simple


def annealed(model: Model, start: Array, callback: Callback) -> Iterator[Array]:
    """Yield where a start (k x r) climbs to as if there were fewer samples, then a few more.

    With many samples a small rotation takes loadings across many times their noise, and there are
    as many poor optima. Where there is more noise, most of them do not exist.
    """
    states = None
    for times in SETTINGS.fewer:
        noise = type(model.noise)(model.noise.n_samples / times, model.noise.variances)
        rough = replace(model, noise=noise)
        if states is None:
            states = rough.start(start[None])
        else:
            states = rough.at(states.coordinates, states.precision, states.shrunk.priors)
        found = climb(rough, states, callback, tol=SETTINGS.rough_tol, max_iter=SETTINGS.max_iter)
        states = found.states
        yield states.coordinates


def _starts(model: Model, k: int, rng: np.random.Generator) -> Array:
    """Return coordinates of starts: rotations of principal components, varimax first.

    If k is 1, they are the principal components.
    """
    n_starts = _n_starts(model, k)
    if k == 1:
        return principal_coordinates(model, min(n_starts, len(model.factor)))[:, None]
    principal = principal_coordinates(model, k)
    loadings = principal @ model.factor
    starts = np.array(_rotations(model, loadings, n_starts, rng)) @ principal
    rank = len(model.factor)
    if k == 2 and rank <= SETTINGS.tiny:  # optima far from the plane of the two largest
        directions = rng.standard_normal((n_starts - len(starts), k, rank))
        starts = np.concatenate([starts, directions @ principal_coordinates(model, rank)])
    if not _one_sign(model):
        return starts
    return np.concatenate([starts, _one_sided(model, loadings, rng)])


def _rotations(
    model: Model, loadings: Array, n_starts: int, rng: np.random.Generator
) -> list[Array]:
    """Return rotations of principal components to start from."""
    k = len(loadings)
    found = varimax(loadings)
    if k == 2:  # all rotations are angles, of which a quarter turn only swaps the components
        return [found, *plane_rotations(min(n_starts - 1, SETTINGS.angles))]
    rotations = [found, np.eye(k)]
    if model.shrinker.light_tails:
        # where varimax turns loadings of even size the wrong way, the opposite is right
        rotations.append(varimax(loadings, even=True))
        n_starts *= SETTINGS.screened
    n_random = n_starts - len(rotations) - (SETTINGS.one_sided if _one_sign(model) else 0)
    return [*rotations, *random_rotations(max(n_random, 0), k, rng)]


def _one_sign(model: Model) -> bool:
    """Whether loadings have one sign, of priors that are cheap enough for more starts."""
    return model.shrinker.cost == 1 and bool(model.shrinker.sides.any())


def _one_sided(model: Model, loadings: Array, rng: np.random.Generator) -> Array:
    """Return coordinates of starts with random loadings on the side of their priors.

    Numbers are drawn for features in the order of their principal loadings, so that their own order
    makes no difference.
    """
    draws = np.abs(rng.standard_normal((SETTINGS.one_sided, *loadings.shape)))
    draws *= model.shrinker.sides[:, None] * (rng.random(draws.shape) >= SETTINGS.zeros)
    rows = _in_units_of_noise(model)
    by_size = np.argsort((loadings**2).sum(axis=0), kind="stable")
    return np.asarray(draws @ rows[:, by_size].T)


def look_around(model: Model, states: States, tol: float, callback: Callback) -> States:
    """Let states climb, and mirrored optima with them, as far as it takes to find the best."""
    large = states.b[0].size * model.shrinker.cost >= SETTINGS.patient_up_to
    large &= not _one_sign(model)  # whose starts overtake each other late: up to 85 nats are missed
    climbed = climb(
        model,
        states,
        callback,
        tol=max(SETTINGS.tol, SETTINGS.tol_ratio * tol),
        max_iter=SETTINGS.max_iter * SETTINGS.rounds,
        settings=ClimbSettings(behind=SETTINGS.given_up) if large else ClimbSettings(),
        more=_Mirrors(model),
    )
    best: States = climbed.states.take(slice(1))
    return best


class _Mirrors:
    """Lets mirrored optima of the best states join a climb, as long as better ones are found.

    That is when the best state is at rest and few others climb, which need not be waited for.
    """

    def __init__(self, model: Model) -> None:
        self._model, self._rounds = model, SETTINGS.rounds
        self._best, self._tried = -np.inf, list[Array]()

    def __call__(self, resting: list[States], climbing: States) -> States | None:
        """Return states that join in, if it is time for them."""
        best = max((rest.value.max() for rest in resting), default=-np.inf)
        room = _n_starts(self._model, climbing.b.shape[1]) // SETTINGS.room
        if self._rounds == 0 or best < self._best + SETTINGS.tol or len(climbing) > room:
            return None
        if climbing.value.max(initial=-np.inf) > best:
            return None
        self._best, self._rounds = best, self._rounds - 1
        states = together(resting)
        near = states.take(states.value > best - SETTINGS.behind)
        for tried in self._tried:
            near = near.take(~alike(near.coordinates, tried).any(axis=1))
        near = near.take(slice(SETTINGS.parents))
        self._tried.append(near.coordinates)
        return _mirrored(self._model, near)


def principal_coordinates(model: Model, k: int) -> Array:
    """Return coordinates of the k leading principal components, in units of the noise.

    Their signs are such that the same rotation leads to the same start whatever the signs and the
    order of the features.
    """
    rows = _in_units_of_noise(model)
    r = len(rows)
    leading = eigh(rows @ rows.T, subset_by_index=[r - k, r - 1], check_finite=False)[1]
    coordinates = leading[:, ::-1].T
    loadings = coordinates @ rows
    cubes = loadings * loadings * loadings  # a power takes forty times as long
    weights = cubes @ loadings.T / np.maximum(np.vecdot(cubes, loadings), 1e-300)[:, None]
    signs = np.ones(len(loadings))
    for b in range(1, len(loadings)):
        signs[b] = 1.0 if signs[:b] @ weights[:b, b] >= 0 else -1.0
    return np.asarray(signs[:, None] * coordinates)


def _in_units_of_noise(model: Model) -> Array:
    """Return the factor; variances stand for those of the noise, which are unknown at first."""
    if not model.noise.differs:
        return model.factor
    size = np.sqrt(np.maximum(model.noise.variances, model.noise.floor))
    return np.asarray(model.factor / size)


def _n_starts(model: Model, k: int) -> int:
    """Return how many states the size of the problem allows to climb together."""
    cost = k * model.factor.shape[1] * model.shrinker.cost
    allowed = int(min(max(SETTINGS.entries // cost, SETTINGS.fewest), SETTINGS.most))
    return allowed + SETTINGS.one_sided * _one_sign(model)


def _mirrored(model: Model, states: States) -> States | None:
    """Hand the overlap of pairs of components from one to the other, the largest overlaps first."""
    means = states.shrunk.mean
    gram = means @ means.swapaxes(1, 2)
    angles = np.arctan2(gram, np.diagonal(gram, axis1=1, axis2=2)[:, None, :])
    angles *= 1 - np.eye(means.shape[1])
    overlaps = int((np.abs(angles) > SETTINGS.overlap).sum())
    count = min(overlaps, _n_starts(model, means.shape[1]))
    if count == 0:
        return None
    largest = np.argsort(-np.abs(angles), axis=None, kind="stable")[:count]
    parents, first, second = np.unravel_index(largest, angles.shape)
    rows = np.arange(count)
    directions = means[parents]
    cos, sin = (f(angles[parents, first, second])[:, None] for f in (np.cos, np.sin))
    one, other = means[parents, first], means[parents, second]
    directions[rows, first] = cos * one - sin * other
    directions[rows, second] = sin * one + cos * other
    coordinates = model.nearest(directions * states.precision[parents][:, None])
    priors = states.shrunk.priors[parents]
    return model.at(coordinates, states.precision[parents], priors, slopes=True)
