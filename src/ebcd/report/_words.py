"""What was found, in plain words: the same sentences on the page and in the Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.estimators._html import AT_ONCE
from ebcd.plots._fit import OFTEN
from ebcd.priors import FittedPrior
from ebcd.report._facts import CARRIED, DRAWN, HALVES, LISTED, Facts

_FEW = AT_ONCE // 2  # rows that a sentence names at either end; so few do not make a period

_UNITS, _STANDARD_UNITS = "its own units", "standard deviations of that feature"
_LOADINGS = (
    "A loading is the change in a feature, in {units}, when the score of the component rises "
    "by one. Features whose loadings have the same sign move together, those with opposite signs "
    "move in opposite directions."
)
_SCORES = (
    "A score measures how strongly a component is present in a row: 1 is a typical size, and "
    "values beyond 2 in either direction are rare."
)
_EXPECTED_SCORES = (
    "A score measures how strongly a component is present in a row. It is the expected value "
    "given the row, so typical sizes are below 1 if a row says little about the component."
)
_GRAY = (
    "Loadings without a clear sign, gray in charts, may well be zero: the probability that their "
    "sign is wrong (the local false sign rate, lfsr) is above 0.05, or above the level you choose."
)
_INTERVALS = "The lines in charts, and lower and upper in tables, are {interval}s{about}"
_CREDIBLE = ". If an interval ends at zero, the loading may be exactly zero."
_BOOTSTRAP = ". They show how much fits to {data} differ from this one."
_DRAWN_ROWS = " They can be relied on if there are many more rows than features."
_LONGER = " The components of the population are shorter than these, which also fit some noise."
_COVERED = (
    "90% intervals covered {covered} of clearly non-zero loadings ({between}, depending on the "
    "data), and "
)
_COVERED_BY_DRAWS = {  # as `Bootstrap` says; with drawn rows, this depends more on the data
    "parametric": _COVERED.format(covered="87% to 89%", between="74% to 96%"),
    "rows": "",
}
_WRONG = "{wrong} of the signs with lfsr < 0.01 were wrong (at most {most})."
_STABILITY = (
    "The model was fitted again to {halves}, each time from scratch. A component "
    "is found again if such a fit has a component whose absolute cosine with it is above 0.8. One "
    "that is rarely found may be part of something real, but should not be interpreted on its own."
)
_NUMBERS = (
    "Components are counted from 1 here but from 0 in Python and in the other files: component 1 "
    "is component_0."
)


def opening(facts: Facts) -> str:
    """Write one paragraph about what was fitted."""
    parts = [_task(facts), _result(facts), _where_to_begin(facts), _weak(facts)]
    if facts.n_components:
        parts += [_method(facts), _end(facts)]
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
    share = percent(facts.ratio.sum())
    text = f"It found {groups}{how_many}, which {verb} {share} of the variance"
    if facts.pca_ratio is not None and len(facts.pca_ratio) >= k:
        best = percent(facts.pca_ratio[:k].sum())
        what = "which may use every feature"
        if getattr(facts.model, "scores", "orthogonal") != "orthogonal":
            what += " and include the noise along their directions"
        text += f"; ordinary principal components, {what}, explain {best}"
    return text + "."


def _weak(facts: Facts) -> str:
    """Name the components that do not stand out from noise."""
    weak = facts.model._weak
    if not weak:
        return ""
    noun, verb = ("component", "does") if len(weak) == 1 else ("components", "do")
    return f"Caution: {noun} {numbered(weak)} {verb} not stand out from noise."


def _where_to_begin(facts: Facts) -> str:
    """Name the components to look at first, if there are many."""
    if len(facts.first) == facts.n_components:
        return ""
    all_weak = len(facts.model._weak) == facts.n_components
    why = f"the largest{'' if all_weak else ' that stand out from noise'}"
    if facts.stability is not None:
        why = "none is found again often, so these are the largest"
        if facts.stability.max() >= OFTEN:
            why = f"found again in at least {OFTEN:.0%} of {HALVES[facts.halves]}"
    return f"Look first at component{'s'[: len(facts.first) > 1]} {numbered(facts.first)} ({why})."


def _how_many(facts: Facts) -> str:
    """Say where the number of components comes from, if that is known."""
    k = facts.n_components
    wanted: Any = getattr(facts.model, "n_components", None)
    if wanted == "auto":
        return " (a number chosen automatically)"
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
        return "Loadings were shrunk toward zero by a fixed prior, not one learned from the data."
    if prior is not None or facts.curves:
        family = "" if prior is None else f" (prior family: {prior})"
        learned = "The amount of shrinkage toward zero was learned from the data"
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


def data(facts: Facts) -> list[str]:
    """Describe the data: their size, and columns that stand out."""
    known, names = facts.background, facts.names
    both = f"{count(facts.model.n_samples_, 'row')} of {count(len(names), 'feature')}"
    lines = [f"{both}{_missing(known.missing, facts.model.n_samples_, names)}."]
    if facts.model.center and hasattr(facts.model, "mean_"):
        scaled = getattr(facts.model, "scale", False)
        also = ", and features were divided by their standard deviations" if scaled else ""
        lines.append(f"The mean of every feature was subtracted{also}.")
    if known.skewness.size:
        constant = [names[j] for j in np.flatnonzero(np.isnan(known.skewness))]
        if constant:
            lines.append(f"Constant, so not part of any component: {listed(constant)}.")
        size = np.abs(np.nan_to_num(known.skewness))
        # more than an exponential distribution, whose skewness is 2
        skewed = np.argsort(-size, kind="stable")[: np.count_nonzero(size > 2)]
        if skewed.size:
            few = listed([f"{names[j]} ({signed(known.skewness[j])})" for j in skewed])
            advice = " If all values are positive, taking logarithms may help."
            lines.append(
                f"Skewed, so a few extreme values have a large influence: {few}."
                f"{advice if known.skewness[skewed].max() > 0 else ''}"
            )
    return [*lines, *_correlated(facts)]


def _missing(missing: Array, rows: int, names: list[str]) -> str:
    if not missing.size:
        return ""
    if not missing.any():
        return "; no cell is missing"
    most = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
    cells = count(int(missing.sum()), "cell")
    verb = "is" if missing.sum() == 1 else "are"
    share = percent(missing.sum() / (rows * len(names)))
    few = listed([f"{names[j]} ({int(missing[j]):,})" for j in most])
    return f"; {cells} ({share}) {verb} missing: {few}"


def _correlated(facts: Facts) -> list[str]:
    """Name the pairs of features with the largest correlations."""
    known = facts.background
    pairs = np.argwhere(np.triu(np.ones_like(known.correlations), 1))
    if not len(pairs):
        return []
    size = np.abs(known.correlations[pairs[:, 0], pairs[:, 1]])
    said = []
    for i, j in pairs[np.argsort(-size, kind="stable")[:_FEW]]:
        value = f"{known.correlations[i, j]:.2f}".replace("-", "−")
        said.append(f"{facts.names[known.chosen[i]]} and {facts.names[known.chosen[j]]} ({value})")
    among = ""
    if len(known.chosen) < len(facts.names):
        among = f" of the {len(known.chosen)} features with the largest loadings"
    return [f"Largest correlations{among}: {'; '.join(said)}."]


def findings(facts: Facts) -> Iterator[tuple[str, list[str]]]:
    """Describe each component, in a heading and sentences: which features it moves, and when."""
    for k, share in enumerate(facts.ratio):
        sure = ["It does not stand out from noise."] if k in facts.model._weak else []
        if facts.stability is not None:
            again = percent(facts.stability[k], 0)
            sure.append(f"Found again in {again} of {HALVES[facts.halves]}.")
        yield (
            f"Component {k + 1}: {percent(share)} of the variance",
            sure + _features(facts, k) + _rows(facts, k),
        )


def _features(facts: Facts, k: int) -> list[str]:
    order, loadings = facts.carriers(k), facts.relative(k)
    if order.size == 0:
        none = "is different from zero" if "lfsr" not in facts.tables else "has a clear sign"
        return [f"None of its loadings {none}."]
    names, others = facts.names, int(facts.model._used(k)[0].sum()) - order.size
    share = percent(np.sum(loadings[order] ** 2), 0)
    what = "that are not zero" if "lfsr" not in facts.tables else "with a clear sign"
    more = [f"There {'is' if others == 1 else 'are'} {count(others, 'smaller loading')} {what}."]
    more = more if others > 0 else []
    if order.size == 1:
        if np.sum(loadings[order] ** 2) < CARRIED:  # others may be as large, with unclear signs
            return [f"Only {names[order[0]]} has a clear sign; it carries {share} of it."]
        return [f"{names[order[0]]} alone carries {share} of it.", *more]
    up = [names[j] for j in order if loadings[j] > 0]
    down = [names[j] for j in order if loadings[j] < 0]
    carry = f"{order.size:,} of {count(len(names), 'feature')} carry {share} of it"
    if not (up and down):
        return [f"{carry} and move together: {listed(up or down)}.", *more]
    one = f"These move together: {listed(up)}."
    other = f"These move in the opposite direction: {listed(down)}."
    if len(up) == 1:
        one = f"{up[0]} moves in one direction."
    if len(down) == 1:
        other = f"{down[0]} moves in the opposite direction."
    return [f"{carry}. {one}", other, *more]


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
    moved = np.sign(mean * facts.tables["loading"][k][facts.carriers(k)])
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
    """Explain how to read loadings and scores, and what gray means."""
    if facts.n_components == 0:
        return []
    integrated = getattr(facts.model, "scores", "") == "integrated"
    units = _STANDARD_UNITS if facts.standardized else _UNITS
    lines = [_LOADINGS.format(units=units), _EXPECTED_SCORES if integrated else _SCORES]
    lines = lines if "lfsr" not in facts.tables else [*lines, _GRAY, *_uncertainty(facts)]
    if facts.stability is not None:
        lines.append(_STABILITY.format(halves=HALVES[facts.halves]))
    return [*lines, _NUMBERS]


def _uncertainty(facts: Facts) -> list[str]:
    """Explain intervals, and how far to trust them."""
    scope = facts.model._scope
    text = _INTERVALS.format(interval=facts.interval, about=facts.about)
    text += _BOOTSTRAP.format(data=DRAWN[facts.drawn]) if facts.drawn else _CREDIBLE
    text += _DRAWN_ROWS if facts.drawn == "rows" else ""
    if facts.drawn and facts.model.scores == "orthogonal":
        text += _LONGER
    if scope is None:
        return [text]
    covered = _COVERED_BY_DRAWS[facts.drawn] if facts.drawn else _COVERED
    return [text, f"In simulations, {covered}{_WRONG}".format(**scope._asdict())]


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
        missing.append(f"{facts.method} does not optimize a criterion that could be plotted.")
    if facts.scores is None:
        missing.append("There are no scores: they require the data, not just the fitted model.")
    if facts.pca_ratio is None:
        missing.append("PCA's explained variance is not shown: it requires the data as well.")
    return missing


def numbered(components: Iterable[int]) -> str:
    """Write the numbers of components, which count from 1 for people."""
    return listed([str(k + 1) for k in components])


def percent(share: float, decimals: int = 1) -> str:
    """Write a share: 47.7%, 0.04% with one digit if it is small, and over 99.9% if not quite 1."""
    if 0 < share < 0.0095:
        return f"{100 * share:.1g}%"
    step = 10.0**-decimals  # the last digit
    almost = share < 1 - 1e-9 and 100 * (1 - share) <= step / 2
    return f"over {100 - step:g}%" if almost else f"{100 * share:.{decimals}f}%"


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
