"""Large data: a factor of few rows that grows where the fit needs it.

Let ``F'F`` be an approximation of ``S`` from below that is exact for some directions ``D``, that is
``D S = D F'F``. Any scores that it allows are scores of the data themselves, so that a fit to
``F'F`` climbs the ELBO of the data without a product with them. A plain iteration from where it
ends, at the price of one product, climbs further, and its directions make the approximation better
(Nystrom's method, as a Schur complement):

    (1)  E = D S - D F'F,   F <- (F, (E D')^(-1/2) E).

When the plain iteration gains nothing any more, nothing is left to gain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._climb import Callback, Climbed, ClimbSettings, climb
from ebcd.fitting._rotation import NEGLIGIBLE, inverse_root
from ebcd.fitting._states import Model, States


@dataclass(frozen=True)
class GrowthSettings:
    """How a factor grows."""

    most: int = 300  # rows
    inner_tol: float = 0.3  # of the tolerance: where a climb within the factor stops,
    inner_gain: float = 0.003  # or of what the plain iteration gained


SETTINGS = GrowthSettings()


def climb_growing(
    covariance: AbstractCovariance,
    model: Model,
    states: States,
    callback: Callback,
    *,
    tol: float,
    max_iter: int,
    climb_settings: ClimbSettings = ClimbSettings(),
) -> tuple[Climbed, Model]:
    """Climb until a plain iteration with the whole covariance gains less than `tol`.

    Returned beside the states is the model in whose factor their coordinates are.
    """
    left = max_iter
    while left > 0:
        directions = states.shrunk.mean[0] * states.precision[0]
        if not directions.any():
            return Climbed(states, True, max_iter - left), model
        product = np.ascontiguousarray(covariance.matmul(directions.T).T)
        b = inverse_root(directions @ product.T) @ product
        new = model.shrink(states.coordinates, b[None], states.precision, states.shrunk.priors)
        gain = float(new.value[0] - states.value[0])
        states = new
        if callback(states):
            break
        if gain < tol:
            return Climbed(states, True, max_iter - left), model
        model = replace(model, factor=grown(model.factor, directions, product))
        # directions that were left out as rounding cost a little, which a climb could not make up
        # for in steps that must not fall, so it starts from the value within the factor
        begun = model.at(model.nearest(directions[None]), states.precision, states.shrunk.priors)
        inner = max(SETTINGS.inner_tol * tol, SETTINGS.inner_gain * gain)
        left -= 1
        climbed, _, n_iter, _ = climb(
            model, begun, callback, tol=inner, max_iter=left, settings=climb_settings
        )
        left -= n_iter
        if climbed.value[0] >= states.value[0]:
            states = climbed
        else:
            states = replace(states, coordinates=begun.coordinates)
    return Climbed(states, False, max_iter - left), model


def grown(factor: Array, directions: Array, product: Array) -> Array:
    """Return a factor that is exact for further directions (rows), whose products are known."""
    error = product - (directions @ factor.T) @ factor
    inner = directions @ error.T
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    size = np.vdot(directions, directions) * np.vdot(factor, factor)
    new = values > NEGLIGIBLE * size
    if not new.any() or len(factor) >= SETTINGS.most:
        return factor
    rows = (vectors[:, new] / np.sqrt(values[new])).T @ error
    return np.vstack([factor, rows])
