"""Scores of samples, given a fitted factorisation: loadings, priors and noise stay as they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ebcd._numerics import Array
from ebcd.peers._ebmf_data import AbstractObservations
from ebcd.peers._ebmf_fit import Factor, Model, Noise
from ebcd.priors._fitted import FittedPrior, FlatPrior

_MAX_SWEEPS = 1000
_SETTLED = 1e-11  # relative change in a sweep
_NARROWEST = 1e-15


@dataclass(frozen=True)
class Fitted:
    """What is left of a model when the training data are gone: enough for other samples."""

    factors: list[Factor]
    precision: Array
    side: int | None
    floor: float


def remember(model: Model) -> Fitted:
    """Forget everything about single samples."""
    none: Array = np.empty(0)
    factors = [
        replace(
            factor,
            mean=(none, factor.mean[1]),
            second=(none, factor.second[1]),
            observed=((none, none), factor.observed[1]),
            product=None,
        )
        for factor in model.factors
    ]
    return Fitted(factors, model.precision, model.noise.side, model.noise.floor)


def with_fixed_priors(model: Model) -> Model:
    """Give the model with the priors that were found, kept fixed from now on."""
    scores, loadings = (
        [prior for factor in model.factors if (prior := factor.prior[side]) is not None]
        for side in (0, 1)
    )
    factors = [replace(factor, number=k) for k, factor in enumerate(model.factors)]
    return replace(model, priors=(scores, loadings), factors=factors)


def improve_scores(model: Model) -> None:
    """Update the scores, in place, until they no longer change; each step raises the ELBO.

    Noise of single samples belongs to the samples and is updated with their scores.
    """
    for _ in range(_MAX_SWEEPS if model.factors else 0):
        before, precision = model.stacked(0), model.precision
        model.update(0, range(len(model.factors)))
        if model.noise.side == 0:
            model.settle()
        after = model.stacked(0)
        change = np.abs(after - before).max() / np.abs(after).max(initial=1e-300)
        if max(change, np.abs(model.precision / precision - 1).max()) <= _SETTLED:
            break
    model.settle(keep_precision=True)


def scores_of(fitted: Fitted, data: AbstractObservations) -> Array:
    """Posterior mean of the scores of samples, k x n."""
    noise = Noise(data, fitted.side)
    noise.floor = fitted.floor
    precision = fitted.precision
    if fitted.side == 0:  # start from the typical noise: that of the samples is not known
        precision = np.full(data.shape[0], 1 / np.mean(1 / fitted.precision))
    model = Model(data, noise, ([], []), list(fitted.factors), precision)
    model = with_fixed_priors(model)
    scores = _gaussian_scores(model)
    for k, factor in enumerate(model.factors):
        model.factors[k] = replace(
            factor,
            mean=(scores[k], factor.mean[1]),
            second=(scores[k] ** 2, factor.second[1]),
            evidence=(-np.inf, factor.evidence[1]),
        )
    improve_scores(model)
    return model.stacked(0)


def _gaussian_scores(model: Model) -> Array:
    """Scores as they were if the priors were normal, with their means and variances.

    That is where to start, and the answer if the priors are normal.
    """
    k = len(model.factors)
    loadings = model.stacked(1)
    one = np.asarray(1.0)
    own, there = (one, model.precision) if model.noise.side == 1 else (model.precision, one)
    moments = [_centre_and_information(factor.prior[0]) for factor in model.factors]
    centre, information = np.array(moments).reshape(k, 2).T[:, :, None]
    wanted = own * model.data.product(0, loadings * there) + information * centre
    # one matrix for all samples if nothing tells them apart
    count = np.broadcast(own, model.data.total(0, np.zeros(loadings.shape[1]))).size
    matrices = np.empty((count, k, k))
    for i, factor in enumerate(model.factors):
        for j in range(k):
            row = factor.second[1] if i == j else loadings[i] * loadings[j]
            matrices[:, i, j] = own * model.data.total(0, there * row)
        matrices[:, i, i] += information[i]
    return np.ascontiguousarray(np.linalg.solve(matrices, wanted.T[:, :, None])[:, :, 0].T)


def _centre_and_information(prior: FittedPrior | None) -> tuple[float, float]:
    """Mean and inverse variance of a prior."""
    if prior is None or isinstance(prior, FlatPrior):
        return 0.0, 0.0
    moments = prior.posterior(np.zeros(1), np.inf)
    return float(moments.mean[0]), 1 / max(float(moments.sd[0]), _NARROWEST) ** 2
