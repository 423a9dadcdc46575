"""The report as Markdown."""

from __future__ import annotations

import re

import numpy as np

from ebcd.report import _words
from ebcd.report._facts import Facts

_TOP = 10  # features that the table of a component has
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def as_markdown(facts: Facts) -> str:
    """Write the report as Markdown."""
    parts = [f"# {_plain(facts.title)}"]
    if facts.source:
        parts.append(f"Source: {_plain(facts.source)}")
    parts += ["## What was fitted", _plain(_words.opening(facts))]
    if facts.n_components:
        parts += ["## What was found", *(_plain(line) for line in _words.reading(facts))]
        for k, found in enumerate(_words.findings(facts)):
            parts += [f"### {_plain(found.heading)}", _plain(" ".join(found.sentences))]
            parts.append(_top_features(facts, k))
        parts += ["## Explained variance", _variance(facts)]
    if facts.curves:
        parts += ["## Fitted priors", _priors(facts)]
    parts += ["## The fit", _fit(facts)]
    if missing := _words.left_out(facts):
        parts += ["## Not in this report", "\n".join(f"- {_plain(line)}" for line in missing)]
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Keep Markdown from reading anything into a text."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _top_features(facts: Facts, k: int) -> str:
    order = np.argsort(-np.abs(facts.components[k]), kind="stable")[:_TOP]
    lower, upper = (None, None) if facts.intervals is None else facts.intervals
    tables = {
        "loading": facts.components,
        "lower": lower,
        "upper": upper,
        "sd": facts.sd,
        "lfsr": facts.lfsr,
    }
    known = {name: values for name, values in tables.items() if values is not None}
    rows = [
        [_plain(facts.names[j]), *(f"{values[k, j]:.4g}" for values in known.values())]
        for j in order
    ]
    return _table(["feature", *known], rows)


def _variance(facts: Facts) -> str:
    header = ["component", facts.method]
    rows = [[str(k), _words.percent(share)] for k, share in enumerate(facts.ratio)]
    if facts.pca_ratio is not None:
        header.append("PCA")
        shares = [_words.percent(share) for share in facts.pca_ratio]
        rows = [[*row, share] for row, share in zip(rows, shares, strict=False)]
    return _table(header, rows)


def _priors(facts: Facts) -> str:
    lines = [f"- component {k}: {_plain(curve.words)}" for k, curve in enumerate(facts.curves)]
    return "\n".join(lines)


def _fit(facts: Facts) -> str:
    rows = [[_plain(key), _plain(value)] for key, value in facts.settings.items()]
    rows.append(["noise variance", f"{facts.noise:.4g}"])
    if facts.path is not None:
        rows.append([facts.path_name, f"{facts.path[-1]:.8g}"])
    return _table(["setting", "value"], rows)
