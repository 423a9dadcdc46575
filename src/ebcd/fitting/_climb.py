"""States climb together: Newton steps in the scores, with which priors and precisions move along.

With priors and noise fixed the ELBO is ``sum_jk h_jk(B_jk)`` with ``h' = mean / s^2`` and
``h'' = variance / s^4``. In directions ``E`` of the coordinates with ``sym(C E') = 0``, which keep
them orthonormal to first order, its second-order model is, since ``B = C F``,

    (1)  <G F', E> - 1/2 <E, A E>,   A E = P(Lambda E - (H o (E F)) F'),   Lambda = sym(G F' C'),
    (2)  G = mean / s^2,   H = variance / s^4,   P(E) = E - sym(E C') C.

The plain iteration of the paper ignores ``H``. If the priors are pairs ``t`` that take Newton steps
of their own, with ``K`` the inverse of minus the Hessian in ``t`` and ``Q`` the derivative of
``G F'`` in ``t``, they follow the scores by ``K Q E``, and with them profiled out

    (3)  G F' <- G F' + Q' (step of t),   A <- A - Q' K Q.

Conjugate gradients, preconditioned by ``Lambda``, maximize (1) within a trust radius; where the
model curves upward they go to its border.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting._rotation import inverse_root
from ebcd.fitting._states import Model, States, together

_NO_CURVATURE = 1e-30  # of a state all of whose components are empty: not to divide by zero
Callback = Callable[[Any], bool]
# from states at rest and those that climb to others that join in
More = Callable[[list[Any], Any], Any]


@dataclass(frozen=True)
class ClimbSettings:
    """How states climb."""

    radius: float = 0.5  # longest step of the scores, as an angle in radians
    accuracy: float = 0.3  # share of the gradient at which conjugate gradients stop
    steps: int = 10  # of conjugate gradients, at most
    least_curvature: float = 1e-3  # share of the plain iteration's below which there is none
    settled: float = 5.0  # gain in nats below which (3) is used: earlier it misleads
    flat: float = 1e-8  # angle of a step that is nothing but rounding
    rounding: float = 1e-13  # share of the ELBO by which it may seem to fall
    same: float = 0.9996  # cosine between the scores of two starts that are one
    looks: int = 2  # iterations between looks for such starts: each costs a tenth of one
    behind: float = np.inf  # nats: a start that is behind the best by more than this,
    hope: float = 5.0  # and so many times what it gained last, is given up


class Climbed(NamedTuple):
    """States after a climb, the best first; whether all came to rest; after how many iterations.

    `ended` is whether the callback ended it.
    """

    states: Any
    converged: bool
    n_iter: int
    ended: bool = False


def climb(
    model: Model,
    states: States,
    callback: Callback,
    *,
    tol: float,
    max_iter: int,
    settings: ClimbSettings = ClimbSettings(),
    more: More | None = None,
) -> Climbed:
    """Let states climb until each gains less than `tol` in an iteration.

    A start whose scores have become those of a better one is dropped, and `more` may let others
    join in. The `callback` is given the states after every iteration; if it returns True, the climb
    ends there. The best states come first, but fits to different data, whose model has a factor for
    each, stay apart and in their order.
    """
    apart = model.factor.ndim == 3
    places, at_rest = np.arange(len(states)), list[Any]()
    radii = np.full(len(states), settings.radius)
    # of the last steps that did not fall; states with slopes come from a climb that was settled
    first = settings.settled if states.shrunk.slopes is None else 0.0
    gains = np.full(len(states), first)
    resting = list[States]()
    iteration, best = -1, -np.inf
    for iteration in range(max_iter):
        settled = gains < settings.settled
        step, change = _newton_step(model, states, radii, settled, settings)
        priors = model.shrinker.next_priors(states, change, radii)
        new = model.at(states.coordinates + step, states.precision, priors, slopes=True)
        gain = new.value - states.value
        fell = ~(gain >= -settings.rounding * np.abs(states.value))  # NaN counts as a fall
        if fell.any():
            new.put(fell, states)
        shorter = np.minimum(radii, np.sqrt(_inner(step, step))) / 4
        radii = np.where(fell, shorter, np.minimum(2 * radii, settings.radius))
        gains = np.where(fell, gains, gain)
        rests = (~fell & (gain < tol)) | (radii < settings.flat)
        states, stops, best = new, callback(new), max(best, new.value.max())
        looks = iteration > 1 and iteration % settings.looks == 0 and not apart
        leaves = rests | (looks and _repeats(states, resting, settings.same))
        leaves |= ~fell & (best - states.value > settings.behind + settings.hope * gain)
        if leaves.any():
            if rests.any():
                resting.append(states.take(rests))
            states, radii, gains = states.take(~leaves), radii[~leaves], gains[~leaves]
            if apart:
                at_rest.append(places[rests])
                places = places[~leaves]
                model = model.of(~leaves) if places.size else model
            joining = None if more is None else more(resting, states)
            if joining is not None:
                states = States.together([states, joining])
                radii = np.append(radii, np.full(len(joining), settings.radius))
                gains = np.append(gains, np.full(len(joining), settings.settled))
        if stops or not len(states):
            break
    climbing = [states] if len(states) else []
    found = together(resting + climbing, np.concatenate([*at_rest, places]) if apart else None)
    return Climbed(found, not climbing, iteration + 1)


class Climber:
    """How fits with the paper's scores go on; see `_growth`."""

    def __init__(self, callback: Callback, settings: ClimbSettings = ClimbSettings()) -> None:
        self.callback, self.settings = callback, settings

    def iterated(self, model: Model, states: States, directions: Array, product: Array) -> States:
        """Do a plain iteration, given ``L T`` and ``L T S``."""
        b = inverse_root(directions @ product.T) @ product
        priors = states.shrunk.priors
        return model.shrink(states.coordinates, b[None], states.precision, priors)

    def within(
        self, model: Model, states: States, directions: Array, tol: float, max_iter: int
    ) -> Climbed:
        """Climb in a factor that is exact for the directions that an iteration began with."""
        # directions that were left out as rounding cost a little, which a climb could not make up
        # for in steps that must not fall, so it starts from the value within the factor
        begun = model.at(model.nearest(directions[None]), states.precision, states.shrunk.priors)
        found = climb(
            model, begun, self.callback, tol=tol, max_iter=max_iter, settings=self.settings
        )
        if found.states.value[0] >= states.value[0]:
            return found
        return found._replace(states=replace(states, coordinates=begun.coordinates))


def _repeats(states: States, resting: list[States], same: float) -> Any:
    """Whether the scores of each state are those of a better one."""
    m = len(states)
    if m + len(resting) == 1:
        return np.zeros(1, dtype=bool)
    everyone = np.concatenate([states.coordinates, *(rest.coordinates for rest in resting)])
    values = np.concatenate([states.value, *(rest.value for rest in resting)])
    ahead = values > states.value[:, None]
    ahead |= (values == states.value[:, None]) & (np.arange(len(values)) < np.arange(m)[:, None])
    return np.asarray((alike(states.coordinates, everyone, same) & ahead).any(axis=1))


def alike(scores: Array, others: Array, same: float = ClimbSettings.same) -> Any:
    """Whether scores (m x k x r) are those of others, up to order and signs: m x their number."""
    m, k, r = scores.shape
    # few pairs share their first component, so that hardly any is compared as a whole
    first = np.abs(scores[:, 0] @ others.swapaxes(0, 1).reshape(-1, r).T)
    found = first.reshape(m, k, len(others)).max(axis=1) > same
    one, other = found.nonzero()
    cosines = np.abs(scores[one] @ others[other].swapaxes(1, 2))
    found[one, other] = (cosines.max(axis=2) > same).all(axis=1)
    return found


def _newton_step(
    model: Model, states: States, radii: Array, settled: Any, settings: ClimbSettings
) -> tuple[Array, Any]:
    """Return the step ``E`` of every start, within its radius, and what it adds to the priors."""
    c = states.coordinates
    shrunk: Any = states.shrunk
    m, k, r = c.shape
    inverse = 1 / states.noise**2
    residual = model.projected(shrunk.mean * inverse)
    curved = shrunk.variance * inverse**2
    coupled = False
    if shrunk.slopes is not None and settled.any():
        coupled = True
        slopes = shrunk.slopes * (inverse * settled[:, None, None])[:, :, None]
        q = model.projected(slopes.reshape(m, k * 2, -1)).reshape(m, k, 2, r)
        kq = shrunk.spread @ q
        residual += (shrunk.step[:, :, None] @ q)[:, :, 0]
    plain = c @ residual.swapaxes(1, 2)
    plain = 0.5 * (plain + plain.swapaxes(1, 2))
    values, axes = np.linalg.eigh(plain)
    safe = np.maximum(values, settings.least_curvature * np.maximum(values[:, -1:], _NO_CURVATURE))
    # components are turned to the axes of Lambda, on which the preconditioner is diagonal
    turned = axes.swapaxes(1, 2)
    residual, c = turned @ (residual - plain @ c), turned @ c
    c_t, values, safe = c.swapaxes(1, 2), values[:, :, None], safe[:, :, None]
    inverse, pairs = 1 / safe, 1 / (safe + safe.swapaxes(1, 2))
    others = pairs - inverse

    def precondition(d: Array) -> Array:
        """Divide ``P(d)`` by ``Lambda``; among themselves components turn in pairs."""
        along = d @ c_t
        turn = along * others - along.swapaxes(1, 2) * pairs
        return np.asarray(inverse * d + turn @ c)

    def image_of(d: Array) -> Array:
        """Return ``A E`` without the projection: directions and `precondition` take none of it."""
        e = axes @ d
        image = model.projected(model.rotated(e) * curved)
        if coupled:
            image += (np.vecdot(kq, e[:, :, None])[:, :, None] @ q)[:, :, 0]
        return np.asarray(values * d - turned @ image)

    step = np.zeros(c.shape)
    z = precondition(residual)
    first = slope = _inner(residual, z)
    moves = going = slope > settings.flat**2 * np.maximum(values.sum(axis=(1, 2)), 0.0)
    direction = z
    for _ in range(settings.steps):
        image = image_of(direction)
        # where the model curves upward the share is huge, and the step goes to the border
        share = slope / np.maximum(_inner(direction, image), _NO_CURVATURE)
        border = _to_border(step, direction, radii)
        length = (going * np.minimum(share, border))[:, None, None]
        step += length * direction
        residual = residual - length * image
        z = precondition(residual)
        old, slope = slope, _inner(residual, z)
        going = going & (share < border) & (slope > settings.accuracy**2 * first)
        if not going.any():
            break
        # none of the last direction where it has ended, perhaps as rounding left no slope
        share = going * slope / np.maximum(old, _NO_CURVATURE)
        direction = z + share[:, None, None] * direction
    step += z  # a plain step from here costs nothing
    size = np.sqrt(np.maximum(_inner(step, step), 1e-300))
    step *= (moves * np.minimum(1.0, radii / size))[:, None, None]
    step = axes @ step
    return step, np.vecdot(kq, step[:, :, None]) if coupled else 0.0


def _inner(a: Array, b: Array) -> Array:
    return np.asarray(np.vecdot(a.reshape(len(a), -1), b.reshape(len(b), -1)))


def _to_border(step: Array, direction: Array, radii: Array) -> Array:
    """Return the multiple of the direction at which the step reaches its radius."""
    size = np.maximum(_inner(direction, direction), 1e-300)
    linear = _inner(step, direction)
    constant = np.minimum(_inner(step, step) - radii**2, 0.0)
    return np.asarray((-linear + np.sqrt(linear**2 - size * constant)) / size)
