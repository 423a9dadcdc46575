"""Stability: how often components are found again in half of the rows."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from ebcd._numerics import Array
from ebcd._parameters import N_JOBS, N_TRIALS, as_generator, choice
from ebcd.estimators._bootstrap import in_parallel, rows_in_memory
from ebcd.fitting._methods import unit_rows

SAME = 0.8  # absolute cosine above which two components count as the same, as users are told
_METHOD = choice("random", "blocks")


def stability(
    model: Any, X: Any, n_splits: int, method: str, n_jobs: int | None, random_state: Any
) -> Array:
    """Fit a model to halves of the rows; see `Readable.stability`."""
    N_TRIALS.check("n_splits", n_splits)
    _METHOD.check("method", method)
    N_JOBS.check("n_jobs", n_jobs)
    matrix = rows_in_memory(model, X, "stability takes halves of the rows")
    if matrix.shape[0] < 4:
        raise ValueError(f"halves need at least two rows each, but X has {matrix.shape[0]} rows")
    shares = np.zeros(model.n_components_)
    if model.n_components_:
        seeds = as_generator(random_state, default=0).integers(2**63, size=n_splits).tolist()
        target = unit_rows(model.components_ / model._units)
        again = _unfitted(model, matrix)
        work = partial(_found_again, again, matrix, target, model._units, method == "blocks")
        words = "half of the rows" if getattr(model, "verbose", 0) else ""
        shares += sum(in_parallel(work, seeds, n_jobs, words))
    return shares / n_splits


def _unfitted(model: Any, matrix: Any) -> Any:
    """Return the estimator with the same settings and no memory of the fit."""
    wanted = model.n_components_ if isinstance(model.n_components, str) else model.n_components
    settings: dict[str, Any] = {"verbose": 0, "checkpoint": None}
    settings["n_components"] = min(wanted, matrix.shape[0] // 2)
    if np.ndim(getattr(model, "start", 0)):  # loadings, which may be those of all rows
        settings["start"] = "auto"
    known = model.get_params(deep=False)
    return clone(model).set_params(**{key: settings[key] for key in settings if key in known})


def _found_again(
    model: Any, matrix: Any, target: Array, units: Array, block: bool, seed: int
) -> Array:
    """Return which directions a fit to half of the rows finds again: the nearest pair first."""
    n, rng = matrix.shape[0], np.random.default_rng(seed)
    if block:
        half = rng.integers((n + 1) // 2 + 1) + np.arange(n // 2)
    else:
        half = np.sort(rng.permutation(n)[: n // 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what matters is what was found
        again = clone(model)
        again._is_passing = True
        found = again.fit(matrix[half]).components_
    cosines = np.abs(target @ unit_rows(found / units).T)
    seen = np.zeros(len(target))
    while cosines.max(initial=0.0) > SAME:
        mine, theirs = np.unravel_index(cosines.argmax(), cosines.shape)
        cosines[mine], cosines[:, theirs] = 0.0, 0.0
        seen[mine] = 1.0
    return seen
