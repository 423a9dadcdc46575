"""What a report says, gathered from a fitted model and what was passed along with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.estimators._readable import Readable
from ebcd.priors import FittedPrior
from ebcd.report._dates import as_text, days_of

PROBABILITY = 0.95  # of the credible intervals
LISTED = 12  # features that a sentence or a table lists, and components described at once


@dataclass(frozen=True)
class Curve:
    """The fitted prior of a component: its density, and how it shrinks an estimated loading."""

    words: str
    estimate: Array
    shrunk: Array
    density: Array  # slightly smoothed, so that a point mass is a peak; NaN if improper


@dataclass(frozen=True)
class Facts:
    """Everything a report says; None where the method or the input has no such thing."""

    title: str
    source: str | None
    method: str
    settings: dict[str, str]
    prior_given: bool  # with all its parameters, so that it was not learned
    n_samples: int
    names: list[str]
    components: Array  # k x p
    sd: Array | None
    lfsr: Array | None
    intervals: Array | None  # 2 x k x p: lower and upper ends
    ratio: Array
    pca_ratio: Array | None
    scores: Array | None  # n x k
    rows: list[str] | None
    days: Array | None  # since 1970, if the rows are dates
    curves: list[Curve]
    standard_error: float | None
    path: Array | None
    path_name: str
    noise: float
    n_iter: int
    converged: bool | None

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.components)

    @property
    def results(self) -> dict[str, str]:
        """The settings of the fit and what it arrived at."""
        rows = {**self.settings, "noise variance": f"{self.noise:.4g}"}
        if self.path is not None:
            rows[self.path_name] = f"{self.path[-1]:.8g}"
        return rows

    def clear(self, k: int) -> np.ndarray:
        """Mark loadings of a component with a clear sign; without sign rates, those not zero."""
        return np.asarray(self.components[k] != 0 if self.lfsr is None else self.lfsr[k] <= 0.05)


def gather(
    model: Readable,
    *,
    scores: Any,
    row_names: Any,
    feature_names: Any,
    title: str | None,
    source: str | None,
    pca_ratio: Any,
) -> Facts:
    """Gather what a report says; arguments as in `write_report`."""
    scores = _checked_scores(scores, model.n_components_)
    rows = _checked_rows(row_names, scores)
    error = _standard_error(model)
    path, path_name = _path(model)
    return Facts(
        title=title or "Components of the data",
        source=source,
        method=type(model).__name__,
        settings=_settings(model),
        prior_given=_prior_given(model),
        n_samples=int(model.n_samples_),
        names=[str(name) for name in model._feature_names(feature_names)],
        components=np.asarray(model.components_, dtype=np.float64),
        sd=getattr(model, "components_sd_", None),
        lfsr=getattr(model, "lfsr_", None),
        intervals=model.credible_intervals(PROBABILITY) if hasattr(model, "lfsr_") else None,
        ratio=np.asarray(model.explained_variance_ratio_, dtype=np.float64),
        pca_ratio=_checked_ratio(pca_ratio),
        scores=scores,
        rows=rows,
        days=None if rows is None else days_of(rows),
        curves=[] if error is None else _curves(model, error),
        standard_error=error,
        path=path,
        path_name=path_name,
        noise=float(np.mean(model.noise_variance_)),
        n_iter=int(model.n_iter_),
        converged=getattr(model, "converged_", None),
    )


def _checked_scores(scores: Any, n_components: int) -> Array | None:
    if scores is None:
        return None
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or scores.shape[1] != n_components:
        raise ValueError(
            f"scores must have a row for each sample and a column for each of the {n_components} "
            f"components, got shape {scores.shape}"
        )
    return np.asarray(scores)


def _checked_rows(row_names: Any, scores: Array | None) -> list[str] | None:
    if row_names is None:
        return None
    if scores is None:
        raise ValueError("row_names need the scores of those rows; pass X or scores as well")
    labels = [as_text(label) for label in row_names]
    if len(labels) != len(scores):
        raise ValueError(
            f"row_names must have one name for each of the {len(scores)} rows, got {len(labels)}"
        )
    return labels


def _checked_ratio(ratio: Any) -> Array | None:
    if ratio is None:
        return None
    array = np.asarray(ratio, dtype=np.float64)
    if array.ndim != 1 or not ((array >= 0) & (array <= 1 + 1e-9)).all():
        raise ValueError(
            "pca_variance_ratio must be a list of shares between 0 and 1, one for each principal "
            f"component, got {ratio!r}"
        )
    return array


def _settings(model: Readable) -> dict[str, str]:
    """Write the parameters as text; arrays, which can be long, by their shape."""
    return {
        key: f"array of shape {value.shape}" if isinstance(value, np.ndarray) else str(value)
        for key, value in model.get_params(deep=False).items()
        if key not in ("verbose", "random_state")
    }


def _prior_given(model: Readable) -> bool:
    prior = getattr(model, "prior", getattr(model, "loadings_prior", None))
    priors = prior if isinstance(prior, list | tuple) else [prior]
    return all(isinstance(prior, FittedPrior) for prior in priors)


def _standard_error(model: Readable) -> float | None:
    """Return a typical standard error of a loading, in the units of the fitted priors."""
    noise = np.asarray(model.noise_variance_)
    if np.size(noise) == model.n_features_in_:  # one for each feature, maybe of scaled data
        noise = noise / np.asarray(getattr(model, "scale_", 1.0)) ** 2
    error = float(np.sqrt(np.median(noise) / model.n_samples_))
    return error if error > 0 and hasattr(model, "priors_") else None


def _path(model: Readable) -> tuple[Array | None, str]:
    for name, attribute in (("ELBO", "elbo_path_"), ("criterion", "objective_path_")):
        if hasattr(model, attribute):
            return np.asarray(getattr(model, attribute), dtype=np.float64), name
    return None, ""


def _curves(model: Readable, error: float) -> list[Curve]:
    scale = np.asarray(getattr(model, "scale_", 1.0))
    largest = np.abs(model.components_ / scale).max(axis=1, initial=0.0)
    ends = np.maximum(1.15 * largest, 6 * error)
    return [_curve(prior, error, end) for prior, end in zip(model.priors_, ends, strict=True)]


def _curve(prior: FittedPrior, error: float, end: float) -> Curve:
    estimate = np.linspace(-end, end, 201)  # odd, so that zero is among them
    density = np.full_like(estimate, np.nan)
    if prior.family != "flat":
        density = np.exp(prior.log_marginal(estimate, np.full_like(estimate, end / 60)))
    return Curve(prior.describe(), estimate, prior.shrink(estimate, error), density)
