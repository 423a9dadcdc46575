"""Moves of a factorisation to another place, from which coordinate ascent goes on.

The posteriors that they give solve no normal means problem, so their divergences from the priors
are not known: the next iteration replaces them, whatever they are, and shows what they are worth.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting._starts import varimax_start
from ebcd.peers._ebmf_fit import Factor, Model
from ebcd.peers._ebmf_priors import UpToScale
from ebcd.priors._family import AbstractPriorFamily
from ebcd.priors._registry import PRIORS
from ebcd.priors._solve import Prior


def extrapolated(old: Model, new: Model, reach: float) -> Model:
    """Go on from `new` in the direction that led there, `reach` times as far.

    Scores are compared at equal size: that of scores and loadings means nothing by itself, and
    would run away.
    """
    model = new.copy()
    for k, (start, end) in enumerate(zip(old.factors, new.factors, strict=True)):
        if end is start or None in start.prior:
            continue
        size = np.linalg.norm(end.mean[0]) / np.linalg.norm(start.mean[0])
        scores = end.mean[0] + reach * (end.mean[0] - size * start.mean[0])
        loadings = end.mean[1] + reach * (end.mean[1] - start.mean[1] / size)
        spread = variances(end)
        model.factors[k] = replace(
            end,
            mean=(scores, loadings),
            second=(scores**2 + spread[0], loadings**2 + spread[1]),
            evidence=(-np.inf, -np.inf),
            product=None,
        )
    return model


def rotated(model: Model) -> Model:
    """Rotate scores and loadings by varimax of the loadings."""
    size = np.sqrt(np.mean(model.stacked(0) ** 2, axis=1, keepdims=True))
    scores, loadings = model.stacked(0) / size, model.stacked(1) * size
    turned = varimax_start(loadings)
    rotation = turned @ np.linalg.pinv(loadings)
    spread = [np.stack(rows) for rows in zip(*map(variances, model.factors), strict=True)]
    share = rotation**2
    means = rotation @ scores, turned
    second = (
        means[0] ** 2 + share @ (spread[0] / size**2),
        turned**2 + share @ (spread[1] * size**2),
    )
    new = model.copy()
    new.factors = [
        oriented(model, Factor((scores, loadings), (squares, others), factor.number))
        for factor, scores, loadings, squares, others in zip(
            model.factors, *means, *second, strict=True
        )
    ]
    return new


def variances(factor: Factor) -> tuple[Array, Array]:
    """Posterior variances of scores and loadings."""
    scores, loadings = (
        np.maximum(second - mean**2, 0.0)
        for second, mean in zip(factor.second, factor.mean, strict=True)
    )
    return scores, loadings


def oriented(model: Model, factor: Factor) -> Factor:
    """Give the sign under which most of a factor is on the sides where its priors are."""
    sides = [side_of(model.prior(t, factor.number)) for t in (0, 1)]

    def kept(sign: float) -> float:
        parts = [
            float(np.linalg.norm(np.maximum(side * sign * mean, 0.0))) if side else 1.0
            for mean, side in zip(factor.mean, sides, strict=True)
        ]
        return parts[0] * parts[1]

    if kept(1.0) >= kept(-1.0):
        return factor
    return replace(factor, mean=(-factor.mean[0], -factor.mean[1]))


def side_of(prior: Prior | UpToScale | None) -> int:
    """Side of zero on which a prior lies; 0 if on both."""
    if prior is None:
        return 0
    return PRIORS[prior.name if isinstance(prior, AbstractPriorFamily) else prior.family].side
