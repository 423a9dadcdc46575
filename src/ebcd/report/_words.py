"""What was found, in plain words: the same sentences in the page and in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.report._facts import PROBABILITY, Facts

_NAMED = 12  # features that a sentence names at most
_EXTREME = 3  # rows that a sentence names
_SHORTEST = 4  # rows that make a stretch of time

_LOADINGS = (
    "A loading says by how much a feature moves, in its own units, when the score of the component "
    "rises by one. Features with loadings of the same sign move together, those with opposite "
    "signs in opposite directions."
)
_SCORES = (
    "A score says how strongly a component acts in a row: 1 is its typical size, above 2 in either "
    "direction is rare."
)
_GREY = (
    "Grey loadings may as well be zero: the probability that their sign is wrong (the local false "
    "sign rate, lfsr) is above 0.05, or the level that you choose."
)
_INTERVALS = (
    f"Lines, and lower and upper in tables, are credible intervals: a loading lies within with a "
    f"probability of {100 * PROBABILITY:g}%, given the scores. Where one ends at zero, the loading "
    "may be exactly zero."
)


@dataclass(frozen=True)
class Found:
    """One component in words."""

    heading: str
    sentences: list[str]


def opening(facts: Facts) -> str:
    """Say in one paragraph what was fitted."""
    return " ".join([_task(facts), _result(facts), _method(facts), _end(facts)])


def _task(facts: Facts) -> str:
    period = ""
    if facts.days is not None and facts.rows:
        first, last = np.argmin(facts.days), np.argmax(facts.days)
        period = f" ({facts.rows[first]} to {facts.rows[last]})"
    return (
        f"{facts.method} looked for groups of features that rise and fall together, in "
        f"{count(facts.n_samples, 'row')}{period} of {count(len(facts.names), 'feature')}."
    )


def _result(facts: Facts) -> str:
    k = facts.n_components
    if k == 0:
        why = (
            "every loading was set to zero"
            if facts.lfsr is None
            else "nothing stands out from noise"
        )
        return f"It found none: {why}."
    asked = facts.settings.get("n_components", "")
    told = {"auto": " (it chose the number itself)", str(k): " (as many as were asked for)"}
    chosen = told.get(str(asked), "")
    groups = (
        "one such group, called a component" if k == 1 else f"{k} such groups, called components"
    )
    text = f"It found {groups}{chosen}, with {percent(facts.ratio.sum())} of the variance"
    if facts.pca_ratio is not None and len(facts.pca_ratio) >= k:
        best = percent(facts.pca_ratio[:k].sum())
        text += f"; ordinary principal components, which may use every feature, reach {best}"
    return text + "."


def _method(facts: Facts) -> str:
    family = facts.settings.get("prior", facts.settings.get("loadings_prior"))
    if facts.prior_given:
        return "Loadings are drawn to zero by a prior that was given, not learnt."
    if family or facts.curves:
        named = f" (family of priors: {family})" if family else ""
        return (
            f"How strongly loadings are drawn to zero was learnt from the data{named}; nothing was "
            "tuned by hand."
        )
    told = {"penalty": "penalty", "alpha": "strength"}
    said = [f"{word} {facts.settings[key]}" for key, word in told.items() if key in facts.settings]
    return f"It was fitted with {', '.join(said)}." if said else ""


def _end(facts: Facts) -> str:
    iterations = count(facts.n_iter, "iteration")
    if facts.converged is None:
        return f"The fit took {iterations}."
    if facts.converged:
        return f"The fit converged after {iterations}."
    return (
        f"Careful: the fit stopped after {iterations} before it converged, so the results may "
        "still change."
    )


def findings(facts: Facts) -> list[Found]:
    """Say of each component which features it moves, and when."""
    return [_finding(facts, k) for k in range(facts.n_components)]


def _finding(facts: Facts, k: int) -> Found:
    heading = f"Component {k}: {percent(facts.ratio[k])} of the variance"
    return Found(heading, _features(facts, k) + _rows(facts, k))


def _features(facts: Facts, k: int) -> list[str]:
    """Say which features belong to a component."""
    loadings, sure = facts.components[k], facts.sure()[k]
    order = np.argsort(-np.abs(loadings), kind="stable")
    order = order[sure[order] & (loadings[order] != 0)]
    what = "not zero" if facts.lfsr is None else "sure of sign"
    if order.size == 0:
        return [f"None of its loadings is {what}."]
    if order.size == 1:
        return [f"Only {facts.names[order[0]]} belongs to it."]
    up = [facts.names[j] for j in order if loadings[j] > 0]
    down = [facts.names[j] for j in order if loadings[j] < 0]
    share = f"{order.size:,} of {count(len(facts.names), 'feature')}"
    if not (up and down):
        return [f"{share} move together: {listed(up or down)}."]
    return [
        f"{share} belong to it. These move together: {listed(up)}.",
        f"These move the opposite way: {listed(down)}.",
    ]


def _rows(facts: Facts, k: int) -> list[str]:
    if facts.scores is None or facts.rows is None or len(facts.rows) < 2 * _EXTREME:
        return []
    sentences = [_period(facts, stretch, k) for stretch in stretches(facts, k)]
    scores = facts.scores[:, k]
    order = np.argsort(scores, kind="stable")
    ends = {"Lowest": order[:_EXTREME], "highest": order[::-1][:_EXTREME]}
    said = [
        f"{word} scores: {', '.join(f'{facts.rows[i]} ({signed(scores[i])})' for i in rows)}"
        for word, rows in ends.items()
    ]
    return [*sentences, f"{'; '.join(said)}."]


def _period(facts: Facts, stretch: Stretch, k: int) -> str:
    """Say what a time in which the score was low or high means for the features."""
    assert facts.rows is not None
    when = f"From {facts.rows[stretch.first]} to {facts.rows[stretch.last]}"
    mean = f"{signed(stretch.mean)} on average"
    moved = np.sign(stretch.mean * facts.components[k][facts.sure()[k]])
    if moved.size == 0:
        return f"{when} the score was {'low' if stretch.mean < 0 else 'high'} ({mean})."
    where = "below" if moved[0] < 0 else "above"
    if moved.size == 1:
        return f"{when} it was {where} its usual level (score {mean})."
    if (moved == moved[0]).all():
        return f"{when} they were together {where} their usual level (score {mean})."
    first, second = ("below", "above") if stretch.mean < 0 else ("above", "below")
    return (
        f"{when} the former were {first} their usual level and the latter {second} (score {mean})."
    )


class Stretch(NamedTuple):
    """A time in which a score was clearly low or high: its first and last row, and the mean."""

    first: int
    last: int
    mean: float


def stretches(facts: Facts, k: int) -> list[Stretch]:
    """Find when a score was clearly low and when it was clearly high, if rows are dates."""
    if facts.scores is None or facts.days is None:
        return []
    order = np.argsort(facts.days, kind="stable")
    scores = facts.scores[order, k]
    found = []
    for side in (-1.0, 1.0):
        first, last = clearest_stretch(side * scores)
        if last - first >= _SHORTEST:
            mean = float(scores[first:last].mean())
            found.append(Stretch(int(order[first]), int(order[last - 1]), mean))
    return sorted(found, key=lambda stretch: -abs(stretch.mean))


def clearest_stretch(scores: Array) -> tuple[int, int]:
    """Give first and one past last of the run of rows that is highest above 1 in total.

    Scores have mean square one, so that 1 is a typical size. A row below 1 does not end a run at
    once, but counts against it.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd.report._words import clearest_stretch
    >>> clearest_stretch(np.array([0.0, 2.0, 0.5, 3.0, -1.0, 2.0]))
    (1, 4)
    """
    sums = np.concatenate([[0.0], np.cumsum(scores - 1.0)])
    lowest = np.minimum.accumulate(sums)
    last = int(np.argmax(sums - lowest))
    return int(np.argmin(sums[: last + 1])), last


def reading(facts: Facts) -> list[str]:
    """Say how to read loadings and scores, and what the grey ones are."""
    if facts.n_components == 0:
        return []
    lines = [_LOADINGS, _SCORES]
    return lines if facts.lfsr is None else [*lines, _GREY, _INTERVALS]


def left_out(facts: Facts) -> list[str]:
    """Say which parts the report does not have, and why."""
    missing = []
    if facts.sd is None or facts.lfsr is None:
        missing.append(
            f"{facts.method} gives no uncertainties of its loadings, hence no intervals."
        )
    if facts.n_components and not facts.curves:
        missing.append(f"{facts.method} fits no priors.")
    if facts.path is None:
        missing.append(f"{facts.method} has no criterion that its steps raise or lower.")
    if facts.scores is None:
        missing.append("There are no scores: they need the data, not only the fitted model.")
    if facts.pca_ratio is None:
        missing.append("PCA's explained variance is not shown: it needs the data as well.")
    return missing


def percent(share: float) -> str:
    """Write a share: 47.7%.

    Examples
    --------
    >>> from ebcd.report._words import percent
    >>> percent(0.4768), percent(0.0004)
    ('47.7%', '0.04%')
    """
    return f"{100 * share:.1f}%" if share >= 0.0095 or share == 0 else f"{100 * share:.1g}%"


def count(number: int, noun: str) -> str:
    """Write a number and its noun: 1 row, 2 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def signed(value: float) -> str:
    """Write a number with one digit after the point and a real minus sign."""
    return f"{value:+.1f}".replace("-", "−")


def listed(names: list[str], most: int = _NAMED) -> str:
    """Write a list of names; a long one ends in a number.

    Examples
    --------
    >>> from ebcd.report._words import listed
    >>> listed(["a", "b and c"]), listed(list("abcdefgh"), most=6)
    ('a, b and c', 'a, b, c, and 5 more')
    """
    between = "; " if any("," in name for name in names) else ", "
    if len(names) > most:
        kept = most // 2  # few stand for many
        names = [*names[:kept], f"and {len(names) - kept:,} more"]
    return between.join(names)
