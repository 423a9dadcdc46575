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
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._climb import Climbed
from ebcd.fitting._rotation import NEGLIGIBLE
from ebcd.fitting._states import Model


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
    states: Any,
    route: Any,
    *,
    tol: float,
    max_iter: int,
) -> tuple[Climbed, Model]:
    """Climb until a plain iteration with the whole covariance gains less than `tol`.

    The `route` is a `Climber`, or its like for other scores. Returned beside the states is the
    model whose factor has grown.
    """
    left, reached, ended = max_iter, -np.inf, False
    while left > 0 and not ended:
        states = states.take(slice(1))
        directions = states.shrunk.mean[0] * states.precision[0]
        if not directions.any():
            return Climbed(states, True, max_iter - left), model
        product = np.ascontiguousarray(covariance.matmul(directions.T).T)
        before, last = states, reached
        states = route.iterated(model, states, directions, product)
        reached = float(states.value[0])
        gain = float(reached - before.value[0])
        ended = route.callback(states)
        if ended:
            break
        if gain < tol or reached - last < tol:  # the factor is exact but for rounding
            return Climbed(states, True, max_iter - left), model
        model = replace(model, factor=grown(model.factor, directions, product))
        left -= 1
        inner = max(SETTINGS.inner_tol * tol, SETTINGS.inner_gain * gain)
        states, _, n_iter, ended = route.within(model, states, directions, inner, left)
        left -= n_iter
    return Climbed(states, False, max_iter - left, ended), model


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
