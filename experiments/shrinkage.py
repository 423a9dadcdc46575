"""Shrinkage operators of priors (the paper's first figure) and the penalties they induce."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from ebcd.priors import make_prior

# The paper: the weight of the slab acts near zero, its scale further away.
POINT_LAPLACE = [
    (f"π = {weight:g}, b = {scale:g}", make_prior("point_laplace", weight=weight, scale=scale))
    for scale in (1.0, 5.0)
    for weight in (0.05, 0.5, 1.0)
]
FAMILIES = [
    ("normal", make_prior("normal", scale=2.0)),
    ("Laplace", make_prior("laplace", scale=2.0)),
    ("point-normal", make_prior("point_normal", weight=0.2, scale=3.0)),
    ("point-Laplace", make_prior("point_laplace", weight=0.2, scale=3.0)),
    ("horseshoe", make_prior("horseshoe", scale=0.2)),
    ("point-exponential", make_prior("point_exponential", weight=0.2, scale=3.0)),
]
GROUPS = {"point-Laplace priors": POINT_LAPLACE, "families of priors": FAMILIES}
X_RANGE = np.linspace(-8.0, 8.0, 321)


def curves(prior: Any) -> dict[str, np.ndarray]:
    """Posterior means of observations with unit noise, and the induced penalty at these means.

    The penalty is drawn where the operator takes its values, less its value at zero.
    """
    shrunk = prior.shrink(X_RANGE, 1.0)
    shown = np.linspace(shrunk[0], shrunk[-1], 201) if shrunk[0] < 0 else shrunk[shrunk > 1e-6]
    penalty = prior.penalty(shown, 1.0)
    return {"x": X_RANGE, "shrunk": shrunk, "l": shown, "penalty": penalty - penalty.min()}


def proposition_gap(prior: Any, points: np.ndarray) -> float:
    """Largest distance between the operator and the minimizer that Proposition 2 says it is."""
    shrunk = prior.shrink(points, 1.0)
    minimisers = np.array([_minimiser(prior, x) for x in points])
    return float(np.abs(minimisers - shrunk).max())


def _minimiser(prior: Any, x: float) -> float:
    def criterion(value: float) -> float:
        return 0.5 * (x - value) ** 2 + float(np.squeeze(prior.penalty(value, 1.0)))

    # between zero and x, where a shrinkage toward zero has its values
    return float(
        minimize_scalar(criterion, bounds=(0.0, x), method="bounded", options={"xatol": 1e-9}).x
    )


def check() -> list[dict[str, Any]]:
    """Check Proposition 2 by minimizing its criterion, for every prior of the figure."""
    points = np.array([1.0, 3.0, 6.0])
    return [
        {"group": group, "prior": label, "largest_difference": proposition_gap(prior, points)}
        for group, priors in GROUPS.items()
        for label, prior in priors
    ]
