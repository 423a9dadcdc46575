"""Fitted components as a table for notebooks: HTML without scripts, colours or outside files."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

_ROWS = 20
_FEATURES = 5
_LONGEST_NAME = 40
_CELL = "text-align:left;vertical-align:top;padding:.2em .8em .2em 0"
_NOWRAP = ";white-space:nowrap"


def components_table(model: Any, title: str, notes: Sequence[str]) -> str:
    """Give a table of the components of a fitted estimator, in HTML.

    Parameters
    ----------
    model : Readable
    title : str
        What was found, in a line.
    notes : sequence of str
        Lines below the table.
    """
    count = model.n_components_
    has_prior = hasattr(model, "priors_")
    kind = "lfsr &lt; 0.05" if hasattr(model, "lfsr_") else "not zero"
    head = ["", "variance", f"loadings,<br>{kind}", "largest", *(["prior"] if has_prior else [])]
    rows = [_row(model, k, has_prior) for k in range(min(count, _ROWS))]
    lines = [*notes, *([f"{count - _ROWS} more components"] if count > _ROWS else [])]
    if count == 0:
        lines.insert(0, model._why_nothing())
    body = _lines("tr", [_cells("th", head), *rows])
    table = f'<table style="border-collapse:collapse">{body}</table>' if rows else ""
    return (
        '<div style="font-size:90%">'
        f"<p><strong>{escape(title)}</strong></p>"
        f"{table}{_lines('p', [escape(line) for line in lines])}"
        f"<details><summary>parameters</summary><pre>{escape(repr(model))}</pre></details></div>"
    )


def _row(model: Any, k: int, has_prior: bool) -> str:
    used, _ = model._used(k)
    cells = [
        f"<strong>{k}</strong>",
        f"{100 * model.explained_variance_ratio_[k]:.1f}%",
        f"{used.sum()} of {used.size}",
        "<br>".join(_feature(feature) for feature in model._largest_used(k, _FEATURES)),
    ]
    if has_prior:
        cells.append(escape(model.priors_[k].describe() + model._of_scaled()))
    return _cells("td", cells)


def _feature(feature: Any) -> str:
    spread = "" if feature.sd is None else f" &plusmn; {feature.sd:.2g}"
    name = " ".join(feature.name.split())
    short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    return f'{feature.loading:+.3g}{spread} <span title="{escape(name)}">{escape(short)}</span>'


def _cells(tag: str, contents: Sequence[str]) -> str:
    styles = [_CELL + _NOWRAP] * 4 + [_CELL]  # words of a prior may take several lines
    return "".join(
        f'<{tag} style="{style}">{content}</{tag}>'
        for content, style in zip(contents, styles, strict=False)
    )


def _lines(tag: str, contents: Sequence[str]) -> str:
    return "".join(f"<{tag}>{content}</{tag}>" for content in contents)
