"""The report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from ebcd.report import _words
from ebcd.report._facts import LISTED, Facts

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def as_markdown(facts: Facts) -> str:
    """Write the report as Markdown."""
    parts = [f"# {_plain(facts.title)}"]
    if facts.source:
        parts.append(f"Source: {_plain(facts.source)}")
    parts += ["## What was fitted", _plain(_words.opening(facts))]
    if facts.n_components:
        parts += ["## What was found", *(_plain(line) for line in _words.reading(facts))]
        for k, (heading, sentences) in enumerate(_words.findings(facts)):
            parts += [f"### {_plain(heading)}", _plain(" ".join(sentences))]
            parts.append(_top_features(facts, k))
        parts += ["## Explained variance", _variance(facts)]
    if facts.curves:
        parts += [
            "## Fitted priors",
            _list(f"component {k}: {curve.words}" for k, curve in enumerate(facts.curves)),
        ]
    rows = [[_plain(key), _plain(value)] for key, value in facts.results.items()]
    parts += ["## The fit", _table(["setting", "value"], rows)]
    if missing := _words.left_out(facts):
        parts += ["## Not in this report", _list(missing)]
    return "\n\n".join(parts) + "\n"


def _plain(text: str) -> str:
    """Escape what Markdown would take for markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_plain(line)}" for line in lines)


def _table(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _top_features(facts: Facts, k: int) -> str:
    order = np.argsort(-np.abs(facts.tables["loading"][k]), kind="stable")[:LISTED]
    rows = [
        [_plain(facts.names[j]), *(f"{values[k, j]:.4g}" for values in facts.tables.values())]
        for j in order
    ]
    return _table(["feature", *facts.tables], rows)


def _variance(facts: Facts) -> str:
    shares = {facts.method: facts.model.explained_variance_ratio_}
    if facts.pca_ratio is not None:
        shares["PCA"] = facts.pca_ratio
    rows = [
        [str(k), *map(_words.percent, row)]
        for k, row in enumerate(zip(*shares.values(), strict=False))
    ]
    return _table(["component", *shares], rows)
