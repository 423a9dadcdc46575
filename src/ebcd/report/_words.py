"""What was found, in plain words: the same sentences on the page and in the Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.priors import FittedPrior
from ebcd.report._facts import LISTED, Facts

_FEW = 3  # rows that a sentence names at either end; so few do not make a period

_UNITS, _STANDARD_UNITS = "its own units", "standard deviations of that feature"
_LOADINGS = (
    "A loading is the change in a feature, in {units}, when the score of the component rises "
    "by one. Features whose loadings have the same sign move together, those with opposite signs "
    "move in opposite directions."
)
_SCORES = (
    "A score measures how strongly a component acts in a row: 1 is a typical size, and values "
    "beyond 2 in either direction are rare."
)
_EXPECTED_SCORES = (
    "A score measures how strongly a component acts in a row. It is the expected value given the "
    "row, so typical sizes are below 1 where a row says little about the component."
)
_GREY = (
    "Grey loadings have no clear sign and may well be zero: the probability that their sign is "
    "wrong (the local false sign rate, lfsr) is above 0.05, or above the level you choose."
)
_INTERVALS = "Lines in charts, and lower and upper in tables, are {interval}s{about}"
_CREDIBLE = ". Where an interval ends at zero, the loading may be exactly zero."
_BOOTSTRAP = ": they say how much fits to data drawn from the fitted model differ from it."
_LONGER = " The components of the population are shorter than these, which fit their noise as well."
_MEASURED = (
    "In simulations, 90% intervals covered {covered} of clearly non-zero loadings ({between}, "
    "depending on the data), and {wrong} of the signs with lfsr < 0.01 were wrong (at most {most})."
)
_BOOTSTRAP_COVERED = {"covered": "87% to 89%", "between": "82% to 96%"}  # as `Bootstrap` says


def opening(facts: Facts) -> str:
    """Write one paragraph about what was fitted."""
    parts = [_task(facts), _result(facts), _weak(facts), _method(facts), _end(facts)]
    return " ".join(filter(None, parts))


def _task(facts: Facts) -> str:
    period = ""
    if facts.days is not None and facts.rows:
        first, last = np.argmin(facts.days), np.argmax(facts.days)
        period = f" ({facts.rows[first]} to {facts.rows[last]})"
    return (
        f"{facts.method} looked for groups of features that rise and fall together in "
        f"{count(facts.model.n_samples_, 'row')}{period} of {count(len(facts.names), 'feature')}."
    )


def _result(facts: Facts) -> str:
    k = facts.n_components
    if k == 0:
        return f"It found none: {facts.model._why_nothing()}."
    how_many = _how_many(facts)
    groups, verb = "one such group, called a component", "explains"
    if k > 1:
        groups, verb = f"{k} such groups, called components", "explain"
    share = percent(facts.model.explained_variance_ratio_.sum())
    text = f"It found {groups}{how_many}, which {verb} {share} of the variance"
    if facts.pca_ratio is not None and len(facts.pca_ratio) >= k:
        best = percent(facts.pca_ratio[:k].sum())
        what = "which may use every feature"
        if getattr(facts.model, "scores", "orthogonal") != "orthogonal":
            what += " and count noise along their directions"
        text += f"; ordinary principal components, {what}, explain {best}"
    return text + "."


def _weak(facts: Facts) -> str:
    """Name the components that do not stand out from noise."""
    weak = facts.weak
    if not weak:
        return ""
    noun, verb = ("component", "does") if len(weak) == 1 else ("components", "do")
    return f"Caution: {noun} {listed([str(k) for k in weak])} {verb} not stand out from noise."


def _how_many(facts: Facts) -> str:
    """Say where the number of components comes from, if that is known."""
    k = facts.n_components
    wanted: Any = getattr(facts.model, "n_components", None)
    if wanted == "auto":
        return " (a number it chose itself)"
    if wanted == k:
        return " (as many as requested)"
    if not facts.model._dropped():
        return ""
    verb = "was" if wanted - k == 1 else "were"
    return f" ({wanted - k} of the {wanted} requested {verb} too weak)"


def _method(facts: Facts) -> str:
    prior = getattr(facts.model, "prior", getattr(facts.model, "loadings_prior", None))
    priors = prior if isinstance(prior, list | tuple) else [prior]
    if all(isinstance(one, FittedPrior) for one in priors):
        return "Loadings were shrunk towards zero by a fixed prior, not one learned from the data."
    if prior is not None or facts.curves:
        family = "" if prior is None else f" (prior family: {prior})"
        learned = "The amount of shrinkage towards zero was learned from the data"
        return f"{learned}{family}; nothing was tuned by hand."
    names = {"penalty": "penalty", "alpha": "strength"}
    said = [f"{name} {facts.settings[key]}" for key, name in names.items() if key in facts.settings]
    return f"It was fitted with {', '.join(said)}." if said else ""


def _end(facts: Facts) -> str:
    iterations = count(facts.model.n_iter_, "iteration")
    if not hasattr(facts.model, "converged_"):
        return f"The fit took {iterations}."
    if facts.model.converged_:
        return f"The fit converged after {iterations}."
    stopped = f"Caution: the fit stopped after {iterations}, before it converged"
    return f"{stopped}; the results may still change."


def findings(facts: Facts) -> Iterator[tuple[str, list[str]]]:
    """Describe each component, in a heading and sentences: which features it moves, and when."""
    for k, share in enumerate(facts.model.explained_variance_ratio_):
        weak = ["It does not stand out from noise."] if k in facts.weak else []
        yield (
            f"Component {k}: {percent(share)} of the variance",
            weak + _features(facts, k) + _rows(facts, k),
        )


def _features(facts: Facts, k: int) -> list[str]:
    loadings = np.where(facts.model._used(k)[0], facts.tables["loading"][k], 0.0)
    order = np.argsort(-np.abs(loadings), kind="stable")[: np.count_nonzero(loadings)]
    if order.size == 0:
        none = "is different from zero" if "lfsr" not in facts.tables else "has a clear sign"
        return [f"None of its loadings {none}."]
    if order.size == 1:
        return [f"Only {facts.names[order[0]]} belongs to it."]
    up = [facts.names[j] for j in order if loadings[j] > 0]
    down = [facts.names[j] for j in order if loadings[j] < 0]
    share = f"{order.size:,} of {count(len(facts.names), 'feature')}"
    if not (up and down):
        return [f"{share} move together: {listed(up or down)}."]
    return [
        f"{share} belong to it. These move together: {listed(up)}.",
        f"These move in the opposite direction: {listed(down)}.",
    ]


def _rows(facts: Facts, k: int) -> list[str]:
    if facts.scores is None or facts.rows is None or len(facts.rows) < 2 * _FEW:
        return []
    scores, names = facts.scores[:, k], facts.rows
    order = np.argsort(scores, kind="stable")
    lowest, highest = (
        ", ".join(f"{names[i]} ({signed(scores[i])})" for i in rows)
        for rows in (order[:_FEW], order[::-1][:_FEW])
    )
    periods = [
        f"From {names[period.first]} to {names[period.last]} {_moved(facts, k, period.mean)}."
        for period in clear_periods(facts, k)
    ]
    return [*periods, f"Lowest scores: {lowest}; highest scores: {highest}."]


def _moved(facts: Facts, k: int, mean: float) -> str:
    """Describe what a low or high mean score meant for the features of a component."""
    moved = np.sign(mean * facts.tables["loading"][k][facts.model._used(k)[0]])
    average = f"(average score {signed(mean)})"
    if moved.size == 0:
        return f"the score was {'low' if mean < 0 else 'high'} {average}"
    where = "below" if moved[0] < 0 else "above"
    if moved.size == 1:
        return f"it was {where} its usual level {average}"
    if (moved == moved[0]).all():
        return f"they were jointly {where} their usual level {average}"
    first, second = ("below", "above") if mean < 0 else ("above", "below")
    return f"the former were {first} their usual level and the latter {second} {average}"


class Period(NamedTuple):
    """A time in which a score was clearly low or high: first row, last row and mean score."""

    first: int
    last: int
    mean: float


def clear_periods(facts: Facts, k: int) -> list[Period]:
    """Find when a score was clearly low and when it was clearly high, if rows are dates."""
    if facts.scores is None or facts.days is None:
        return []
    order = np.argsort(facts.days, kind="stable")
    scores = facts.scores[order, k]
    typical = float(np.sqrt(np.mean(scores**2))) or 1.0
    found = []
    for side in (-1.0, 1.0):
        first, last = clearest_run(side * scores / typical)
        if last - first > _FEW:
            mean = float(scores[first:last].mean())
            found.append(Period(int(order[first]), int(order[last - 1]), mean))
    return sorted(found, key=lambda period: -abs(period.mean))


def clearest_run(scores: Array) -> tuple[int, int]:
    """Return the start and end (exclusive) of the run of rows with the largest total above 1.

    If scores have mean square one, 1 is a typical size. A row below 1 does not end a run at once,
    but counts against it.
    """
    sums = np.concatenate([[0.0], np.cumsum(scores - 1.0)])
    last = int(np.argmax(sums - np.minimum.accumulate(sums)))
    return int(np.argmin(sums[: last + 1])), last


def reading(facts: Facts) -> list[str]:
    """Explain how to read loadings and scores, and what grey means."""
    if facts.n_components == 0:
        return []
    integrated = getattr(facts.model, "scores", "") == "integrated"
    units = _STANDARD_UNITS if facts.standardized else _UNITS
    lines = [_LOADINGS.format(units=units), _EXPECTED_SCORES if integrated else _SCORES]
    return lines if "lfsr" not in facts.tables else [*lines, _GREY, *_uncertainty(facts)]


def _uncertainty(facts: Facts) -> list[str]:
    """Explain intervals, and how far to trust them."""
    scope = facts.model._scope
    text = _INTERVALS.format(interval=facts.interval, about=facts.about)
    text += _BOOTSTRAP if facts.bootstrapped else _CREDIBLE
    if facts.bootstrapped and facts.model.scores == "orthogonal":
        text += _LONGER
    if scope is None:
        return [text]
    covered = _BOOTSTRAP_COVERED if facts.bootstrapped else {}
    return [text, _MEASURED.format(**scope._asdict() | covered)]


def left_out(facts: Facts) -> list[str]:
    """List what the report leaves out, and why."""
    missing = []
    if "lfsr" not in facts.tables:
        missing.append(
            f"{facts.method} has no uncertainties of loadings, so there are no intervals."
        )
    if facts.n_components and not facts.curves:
        missing.append(f"{facts.method} fits no priors.")
    if facts.path is None:
        missing.append(f"{facts.method} does not optimise a criterion that could be plotted.")
    if facts.scores is None:
        missing.append("There are no scores: they require the data, not just the fitted model.")
    if facts.pca_ratio is None:
        missing.append("PCA's explained variance is not shown: it requires the data as well.")
    return missing


def percent(share: float) -> str:
    """Write a share: 47.7%, or 0.04% with one digit if it is small."""
    return f"{100 * share:.1f}%" if share >= 0.0095 or share == 0 else f"{100 * share:.1g}%"


def count(number: int, noun: str) -> str:
    """Write a number and its noun: 1 row, 2 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def signed(value: float) -> str:
    """Write a number with one decimal and a real minus sign."""
    return f"{value:+.1f}".replace("-", "−")


def listed(names: list[str], most: int = LISTED) -> str:
    """Write a list of names; of a long one, half of the limit and the number of the others."""
    between = "; " if any("," in name for name in names) else ", "
    if len(names) > most:
        kept = most // 2
        names = [*names[:kept], f"and {len(names) - kept:,} more"]
    return between.join(names)
