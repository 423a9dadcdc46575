"""What a report says: a fitted model, and what was passed along with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ebcd._numerics import Array
from ebcd._parameters import choice, printable
from ebcd.estimators._html import AT_ONCE
from ebcd.estimators._readable import Readable
from ebcd.plots._fit import OFTEN, checked_shares
from ebcd.report._background import Background
from ebcd.report._dates import as_text, days_of

LISTED = 2 * AT_ONCE  # features that a sentence or a table lists
DRAWN = {  # by methods of `EBCD.bootstrap`
    "parametric": "data drawn from the fitted model",
    "rows": "rows of the data, drawn with replacement,",
}
HALVES = {  # by methods of `stability`
    "random": "random halves of the rows",
    "blocks": "blocks of consecutive rows, half as long as the data",
}
CARRIED = 0.9  # share of a component after which its features stop mattering


@dataclass(frozen=True)
class Curve:
    """The fitted prior of a component: its density, and how it shrinks an estimated loading."""

    words: str
    estimate: Array
    shrunk: Array
    density: Array  # slightly smoothed, without point masses; NaN if improper
    atoms: list[list[float]]  # places of point masses and their probabilities


class Facts:
    """Everything a report says; None where the method or the input does not provide it."""

    def __init__(
        self,
        model: Readable,
        *,
        scores: Any = None,
        row_names: Any = None,
        feature_names: Any = None,
        title: str | None = None,
        source: str | None = None,
        intervals: Any = None,
        drawn: str = "parametric",
        notes: Iterable[str] = (),
        standardized: bool = False,
        background: Background | None = None,
        stability: Any = None,
        halves: str = "random",
    ) -> None:
        """Check and complete what was passed to `write_report`."""
        choice(*DRAWN).check("bootstrap_method", drawn)
        choice(*HALVES).check("stability_method", halves)
        self.model, self.background = model, background or Background()
        self.method, self.n_components = type(model).__name__, int(model.n_components_)
        self.title = printable(title or "Components of the data")
        self.source = None if source is None else printable(source)
        self.notes = [printable(str(note)) for note in notes]  # on the data and the fit
        self.names = [printable(str(name)) for name in model._feature_names(feature_names)]
        self.scores: Array | None = None  # n x k
        if scores is not None:
            shape: tuple[int, ...] = (*np.shape(scores)[:1], self.n_components)
            words = f"a row for each sample and a column for each of the {shape[-1]} components"
            self.scores = _checked("scores", scores, shape, words)
        self.rows = _checked_rows(row_names, self.scores)
        self.days = None if self.rows is None else days_of(self.rows)  # since 1970, if dates
        self.tables = {"loading": model.components_ / model._units}  # k x p each
        if hasattr(model, "lfsr_"):
            shape = (2, *model.components_.shape)
            ends = model.credible_intervals() if intervals is None else intervals
            ends = _checked("bootstrap_intervals", ends, shape, f"shape (2, k, p) = {shape}")
            self.tables |= dict(zip(("lower", "upper"), ends / model._units, strict=True))
            self.tables |= {"sd": model.components_sd_ / model._units, "lfsr": model.lfsr_}
        self.drawn = None if intervals is None else drawn  # how data of a bootstrap were drawn
        self.interval = f"95% {'bootstrap' if self.drawn else 'credible'} interval"
        self._scaled = bool(getattr(model, "scale", False))
        self.pca_ratio = self.background.pca_ratio(model._units, self._total)
        # whether features were divided by their standard deviations, before the fit or in it
        self.standardized = standardized or self._scaled
        self.stability: Array | None = None  # how often components are found in half of the rows
        if stability is not None:
            self.stability = checked_shares("stability", stability, model.n_components_)
        self.halves = halves  # how these were drawn
        # the criterion of the fit at the start and after each step
        path = getattr(model, "elbo_path_", getattr(model, "objective_path_", None))
        self.path = None if path is None else np.asarray(path, dtype=np.float64)
        self.path_name = "ELBO" if hasattr(model, "elbo_path_") else "criterion"

    @property
    def ratio(self) -> Array:
        """Share of the variance of each component."""
        if not self._scaled:
            return np.asarray(self.model.explained_variance_ratio_)
        return np.asarray((self.tables["loading"] ** 2).sum(axis=1) / (self._total or 1.0))

    @property
    def _total(self) -> float:
        """The variance of all features, in the units of the loadings in the report."""
        if self._scaled:  # one for each feature but for constant ones
            return len(self.names) - float(np.isnan(self.background.skewness).sum())
        shares = self.model.explained_variance_ratio_.sum()
        return float(self.model.explained_variance_.sum() / (shares or 1.0))

    @property
    def first(self) -> list[int]:
        """Components to look at first, if there are more than a person can look at."""
        everything = list(range(self.n_components))
        if self.n_components <= AT_ONCE:
            return everything
        clear = [k for k in everything if k not in self.model._weak]
        if self.stability is not None:
            clear = [k for k in everything if self.stability[k] >= OFTEN]
        return (clear or everything)[:AT_ONCE]

    def relative(self, k: int) -> Array:
        """Return the loadings of a component relative to its length."""
        loadings = self.tables["loading"][k]
        loadings = loadings / (np.abs(loadings).max(initial=0.0) or 1.0)
        return np.asarray(loadings / (np.linalg.norm(loadings) or 1.0))

    def carriers(self, k: int) -> NDArray[np.intp]:
        """Return the features that carry most of a component, or all whose sign is clear if few."""
        loadings = self.relative(k)
        used = np.where(self.model._used(k)[0], loadings, 0.0)
        order = np.argsort(-np.abs(used), kind="stable")[: np.count_nonzero(used)]
        return order[: 1 + int(np.searchsorted(np.cumsum(loadings[order] ** 2), CARRIED))]

    @property
    def about(self) -> str:
        """What intervals are about, if the model says so, to follow their name."""
        scope = self.model._scope
        if scope is None:
            return ""
        population = self.drawn or scope.words == "about the population"
        return " for the population" if population else ", given the scores"

    @property
    def settings(self) -> dict[str, str]:
        """The parameters as text; arrays, which can be long, by their shape."""
        before_fit = self.standardized and not self._scaled
        before = {"scale": "True, before the fit"} if before_fit else {}
        return {
            key: f"array of shape {value.shape}" if isinstance(value, np.ndarray) else str(value)
            for key, value in self.model.get_params(deep=False).items()
            if key not in ("verbose", "random_state")
        } | before

    @property
    def results(self) -> dict[str, str]:
        """The settings of the fit and its main results."""
        noise = float(np.mean(self.model.noise_variance_))
        rows = {**self.settings, "noise variance": f"{noise:.4g}"}
        if self.path is not None:
            rows[self.path_name] = f"{self.path[-1]:.8g}".replace("-", "−")
        return rows

    @property
    def standard_error(self) -> float | None:
        """A typical standard error of a loading, in the units of the fitted priors."""
        noise = np.asarray(self.model.noise_variance_)
        scale = np.asarray(getattr(self.model, "scale_", 1.0))
        if np.size(noise) == len(self.names):  # one for each feature, maybe of scaled data
            noise = noise / scale**2
        error = float(np.sqrt(np.median(noise) / self.model.n_samples_))
        return error if error > 0 and hasattr(self.model, "priors_") else None

    @cached_property
    def curves(self) -> list[Curve]:
        """The fitted priors, if there are any."""
        error = self.standard_error
        if error is None:
            return []
        scale = np.asarray(getattr(self.model, "scale_", 1.0))
        largest = np.abs(self.model.components_ / scale).max(axis=1, initial=0.0)
        ends = np.maximum(1.15 * largest, 6 * error)
        priors = zip(self.model.priors_, ends, strict=True)
        return [_curve(prior, error, end) for prior, end in priors]


def _curve(prior: Any, error: float, end: float) -> Curve:
    estimate = np.linspace(-end, end, 201)  # odd, so that zero is among them
    density = np.full_like(estimate, np.nan)
    if not prior.exchangeable:  # what is shrunk to what depends on the neighbors
        return Curve(prior.describe(), estimate, estimate, density, [])
    atoms: list[list[float]] = []
    if prior.proper:
        width = np.full_like(estimate, end / 60)
        density = np.exp(prior.log_marginal(estimate, width))
        for place, weight in prior.atoms():
            density -= weight * np.exp(norm.logpdf(estimate, place, width))
            if weight > 0 and abs(place) <= end:
                atoms.append([place, weight])
        density = np.maximum(density, 0.0)
    return Curve(prior.describe(), estimate, prior.shrink(estimate, error), density, atoms)


def _checked(name: str, values: Any, shape: tuple[int, ...], words: str) -> Array:
    """Return values as an array of a shape, which errors describe in words."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} must have {words}, got shape {array.shape}")
    return array


def _checked_rows(row_names: Any, scores: Array | None) -> list[str] | None:
    if row_names is None:
        return None
    if scores is None:
        raise ValueError("row_names need the scores of those rows; pass X or scores as well")
    labels = [printable(as_text(label)) for label in row_names]
    if len(labels) != len(scores):
        raise ValueError(
            f"row_names must have one name for each of the {len(scores)} rows, got {len(labels)}"
        )
    return labels
