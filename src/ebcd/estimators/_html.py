"""Fitted components as a table for notebooks: HTML without scripts, colors or outside files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ebcd._parameters import printable

AT_ONCE = 6  # features, or components, that a person can take in at a glance
LABELED = 20  # components up to which each has a row of its own, or a label in a plot
_NAME_LENGTH = 40
_CELL = "text-align:left;vertical-align:top;padding:.2em .8em .2em 0"


def components_table(model: Any, title: str, notes: Sequence[str]) -> str:
    """Return an HTML table of the components of a fitted estimator, with lines above and below."""
    count = model.n_components_
    counted = "lfsr &lt; 0.05" if hasattr(model, "lfsr_") else "not zero"
    head = ["", "variance", f"loadings,<br>{counted}", "largest"]
    head += ["prior"] if hasattr(model, "priors_") else []
    rows = [_row(model, k) for k in range(min(count, LABELED))]
    body = "".join(f"<tr>{row}</tr>" for row in [_cells("th", head), *rows])
    table = f'<table style="border-collapse:collapse">{body}</table>' if rows else ""
    lines = [] if count else [model._why_nothing()]
    lines += [*notes, *([f"{count - LABELED} more components"] if count > LABELED else [])]
    return (
        '<div style="font-size:90%">'
        f"<p><strong>{escape(title)}</strong></p>"
        f"{table}{''.join(f'<p>{escape(line)}</p>' for line in lines)}"
        f"<details><summary>parameters</summary><pre>{escape(repr(model))}</pre></details></div>"
    )


def one_line(name: str) -> str:
    """Return a name without line breaks and control characters."""
    return " ".join(printable(name).split())


def short(name: Any) -> str:
    """Return a name on one line, cut off where it would leave no room for anything else."""
    text = one_line(str(name))
    return text if len(text) <= _NAME_LENGTH else text[: _NAME_LENGTH - 1] + "…"


def _row(model: Any, k: int) -> str:
    used, _ = model._used(k)
    cells = [
        f"<strong>{k}</strong>",
        f"{100 * model.explained_variance_ratio_[k]:.1f}%",
        f"{used.sum()} of {used.size}",
        "<br>".join(_feature(feature) for feature in model._largest_used(k, AT_ONCE)),
    ]
    if hasattr(model, "priors_"):
        cells.append(escape(model.priors_[k].describe() + model._of_scaled()))
    return _cells("td", cells)


def _feature(feature: Any) -> str:
    error = "" if feature.sd is None else f" &plusmn; {feature.sd:.2g}"
    title, name = escape(one_line(feature.name)), escape(short(feature.name))
    return f'{feature.loading:+.3g}{error} <span title="{title}">{name}</span>'


def _cells(tag: str, contents: Sequence[str]) -> str:
    # the description of a prior, in the fifth column, may take several lines
    styles = [_CELL + ";white-space:nowrap"] * 4 + [_CELL]
    return "".join(
        f'<{tag} style="{style}">{content}</{tag}>'
        for content, style in zip(contents, styles, strict=False)
    )
