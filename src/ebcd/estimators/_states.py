"""Finished states of EBCD: one without components, and one in the order in which it is shown."""

from __future__ import annotations

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting._loop import Fit, Problem, State
from ebcd.priors._registry import PRIORS


def nothing(problem: Problem) -> Fit:
    """Fit without components."""
    p = problem.covariance.n_features
    empty = np.empty((0, p))
    residual = problem.covariance.diagonal()
    precision = problem.noise.precision(residual)
    noise = np.sqrt(1 / (problem.covariance.n_samples * precision))
    value = problem.noise.value(precision, residual)
    state = State(empty, empty, empty, empty, noise, precision, [], (), value)
    return Fit(state, [value], 0, True)


def ordered(state: State, scale: Array, keep_order: bool) -> State:
    """Sort by explained variance and make the largest loading positive."""
    order = np.argsort(-((state.mean * scale) ** 2).sum(axis=1), kind="stable")
    if keep_order:
        order = np.arange(len(state.components))
    signs, priors = np.ones(len(order)), [state.fitted[k] for k in order]
    for i, k in enumerate(order):
        largest = state.mean[k, np.abs(state.mean[k] * scale).argmax()]
        if largest < 0 and not PRIORS[priors[i].family].side:
            signs[i], priors[i] = -1.0, priors[i].mirrored()
    sign = signs[:, None]
    return State(
        scores=state.scores[order] * sign,
        b=state.b[order] * sign,
        mean=state.mean[order] * sign,
        variance=state.variance[order],
        noise=state.noise,
        precision=state.precision,
        fitted=priors,
        components=tuple(state.components[k] for k in order),
        value=state.value,
    )
