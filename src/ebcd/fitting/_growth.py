"""Large data: a factor of few rows that grows where the fit needs it.

Let ``F'F`` be an approximation of ``S`` from below that is exact for some directions ``D``, that is
``D S = D F'F``. Any scores that it allows are scores of the data themselves, so that a fit to
``F'F`` climbs the ELBO of the data without a product with them. A plain iteration from where it
ends, at the price of one product, climbs further, and its directions make the approximation better
(Nystrom's method, as a Schur complement):

    (1)  E = D S - D F'F,   F <- (F, (E D')^(-1/2) E).

When the plain iteration gains nothing any more, nothing is left to gain.

What rounding has left of ``R = S - F'F`` below zero, an iteration magnifies: it turns ``R`` into
``P'R P`` with the oblique projection ``P = I - D'(E D')^(-1) E``, whose norm is large where the
directions are nearly those of the last iteration, for which ``R`` is zero. Ten iterations can make
a rounding error as large as ``S``. So before that the factor begins anew, from its first rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._climb import Climbed
from ebcd.fitting._rotation import orthonormal_rows
from ebcd.fitting._states import Model


@dataclass(frozen=True)
class GrowthSettings:
    """How a factor grows."""

    most: int = 300  # rows
    roundings: float = 100.0  # of a product: what is less may be nothing else
    magnified: float = 1e6  # error in R, about 1e-11 at first, from which on it would matter
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
    first, basis, magnified = model.factor, np.empty((0, model.factor.shape[1])), 1.0
    while left > 0 and not ended:
        states = states.take(slice(1))
        directions = states.shrunk.mean[0] * states.precision[0]
        if not directions.any():
            return Climbed(states, True, max_iter - left), model
        sizes = np.linalg.norm(directions, axis=1, keepdims=True)
        units = directions / np.where(sizes > 0, sizes, 1.0)
        # what is new of them, as the factor is exact for those before
        along = units @ basis.T
        news = units - along @ basis
        image = np.ascontiguousarray(covariance.matmul(news.T).T)
        product = sizes * (image + (along @ (basis @ model.factor.T)) @ model.factor)
        before, last = states, reached
        states = route.iterated(model, states, directions, product)
        reached = float(states.value[0])
        gain = float(reached - before.value[0])
        ended = route.callback(states)
        if ended:
            break
        if gain < tol or reached - last < tol:  # the factor is exact but for rounding
            return Climbed(states, True, max_iter - left), model
        factor, times = grown(model.factor, news, image, covariance.rounding)
        magnified *= times
        basis = np.vstack([basis, orthonormal_rows(news)])
        if magnified > SETTINGS.magnified or len(factor) > SETTINGS.most:
            factor, magnified = grown(first, directions, product, covariance.rounding)
            basis = orthonormal_rows(units)
        model = replace(model, factor=factor)
        left -= 1
        inner = max(SETTINGS.inner_tol * tol, SETTINGS.inner_gain * gain)
        states, _, n_iter, ended = route.within(model, states, directions, inner, left)
        left -= n_iter
    return Climbed(states, False, max_iter - left, ended), model


def grown(factor: Array, directions: Array, product: Array, rounding: float) -> tuple[Array, float]:
    """Return a factor that is exact for further directions (rows), whose products are known.

    Beside it, how many times larger errors of the old factor may be in the new one.
    """
    sizes = np.linalg.norm(directions, axis=1, keepdims=True)
    directions, product = (part / np.where(sizes > 0, sizes, 1.0) for part in (directions, product))
    error = product - (directions @ factor.T) @ factor
    inner = directions @ error.T
    values, vectors = np.linalg.eigh(0.5 * (inner + inner.T))
    new = values > SETTINGS.roundings * rounding * np.vdot(factor, factor)
    if not new.any():
        return factor, 1.0
    weights = (vectors[:, new] / np.sqrt(values[new])).T
    rows = weights @ error
    along = weights @ directions
    norms = [float(np.linalg.norm(part @ part.T, 2)) for part in (along, rows)]
    return np.vstack([factor, rows]), max(norms[0] * norms[1], 1.0)
