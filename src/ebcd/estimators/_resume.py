"""Fits that may be stopped and go on later: the parameters ``max_time`` and ``checkpoint``."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ebcd.data import AbstractRows
from ebcd.data._moments import Moments
from ebcd.fitting._checkpoint import Checkpoint
from ebcd.fitting._decompose import Fit
from ebcd.fitting._progress import Monitor
from ebcd.priors._family import as_prior
from ebcd.priors._fitted import FittedPrior

# Parameters on which the result does not depend; `max_iter` may grow.
_FREE = ("checkpoint", "max_iter", "max_memory", "max_time", "verbose")
_MOMENTS = ("count", "mean", "scatter", "unit")


def checkpoint_of(model: BaseEstimator) -> Checkpoint:
    """Return the file of a fit, which goes on from it if there is one."""
    parameters = model.get_params(deep=False)
    settings = {name: _said(name, value) for name, value in parameters.items() if name not in _FREE}
    return Checkpoint(Path(model.checkpoint), settings, model.max_iter)


def gather(monitor: Monitor, rows: AbstractRows) -> Moments:
    """Compute cross-products of rows that are read in pieces, unless the checkpoint has them."""
    checkpoint, stamp = monitor.checkpoint, rows.stamp
    if checkpoint is None or stamp is None:
        return rows.moments(cross=True)
    known = checkpoint.found.get("moments")
    if known is not None and known["stamp"] == stamp:  # otherwise maybe a copy: the numbers decide
        return Moments(**{name: known[name] for name in _MOMENTS})
    found = rows.moments(cross=True)
    stored = {"stamp": stamp} | {name: getattr(found, name) for name in _MOMENTS}
    if known is None:
        monitor.note("moments", lambda: stored)
    return found


def _said(name: str, value: Any) -> str:
    """Say what a parameter is; the same value in the same words."""
    if name == "prior":
        given = value if isinstance(value, list | tuple) else [value]
        said = ", ".join(_said_prior(as_prior(prior)) for prior in given)
        return f"[{said}]" if isinstance(value, list | tuple) else said
    if isinstance(value, np.random.Generator):
        value = value.bit_generator.state
    elif isinstance(value, np.random.RandomState):
        value = value.get_state(legacy=False)
    if isinstance(value, dict | np.random.SeedSequence):
        return f"a random state (digest {_digest(repr(value).encode())})"
    if isinstance(value, str | int | float | np.generic | None):
        return repr(value.item() if isinstance(value, np.generic) else value)
    array = np.ascontiguousarray(value, dtype=np.float64)
    return f"an array of shape {array.shape} (digest {_digest(array)})"


def _digest(content: Any) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


def _said_prior(prior: Any) -> str:
    if isinstance(prior, FittedPrior):
        return f"the fitted prior {prior.to_dict()}"
    options = {
        field.name: getattr(prior, field.name)
        for field in dataclasses.fields(prior)
        if getattr(prior, field.name) != field.default
    }
    return repr(prior.name) if not options else f"{prior.name!r} with {options}"


def unfinished(model: BaseEstimator, fit: Fit, tol: float) -> str:
    """Say why a fit has not converged and what to do."""
    rose = f"while the ELBO still rose by more than tol={tol:.3g}"
    if fit.n_iter >= model.max_iter:
        limit, said = "max_iter", f"after max_iter={model.max_iter} iterations {rose}"
    else:
        limit, said = "max_time", f"after max_time={model.max_time:g} seconds {rose}"
    if model.checkpoint is None or not Path(model.checkpoint).exists():  # it could not be written
        return f"the fit stopped {said}; raise {limit} or tol"
    more = "again" if limit == "max_time" else f"with a larger {limit}"
    return (
        f"the fit stopped {said}; the checkpoint {str(model.checkpoint)!r} is kept, so the fit "
        f"resumes if you fit {more}"
    )
