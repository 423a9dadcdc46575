"""The report as a page: the templates of this package, filled in."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

import ebcd
from ebcd._axes import COLORS
from ebcd.fitting._methods import unit_rows
from ebcd.plots._style import PALETTE
from ebcd.report import _words
from ebcd.report._encode import Block
from ebcd.report._facts import LISTED, Facts


@dataclass(frozen=True)
class PageSettings:
    """How much a page holds, so that it stays below 5 MB and opens within seconds."""

    bytes: int = 4_950_000
    numbers: int = 400_000  # loadings, and as many scores
    precise: int = 100_000  # numbers up to which they have 7 digits; beyond, 4 digits


SETTINGS = PageSettings()
_SCRIPTS = (
    *("data", "draw", "explore", "export", "state"),
    *("bars", "heatmap", "heatmap_view", "scores", "biplot", "background", "curves", "search"),
    *("tables", "main"),
)
_UNBROKEN = re.compile(r"\b\d{4}-\d\d(-\d\d)?\b( \([+−][\d.]+\))?|--[a-z-]+")
_SLOT = re.compile(r"\{\{ (\w+) \}\}")


def as_page(facts: Facts) -> str:
    """Fill in the templates, with fewer features until the page is small enough."""
    n_features = min(len(facts.names), SETTINGS.numbers // max(facts.n_components, 1))
    page = _filled(facts, n_features)
    while len(page.encode()) > SETTINGS.bytes and n_features > 100:
        n_features = int(0.8 * n_features)
        page = _filled(facts, n_features)
    return page


def _filled(facts: Facts, n_features: int) -> str:
    header, packed = payload(facts, n_features)
    script = "".join(_template(f"{name}.js") for name in _SCRIPTS)
    script = f'(() => {{\n"use strict";\n{script}}})();\n'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    slots = {
        "title": html.escape(facts.title),
        "source": f"<p class=source>{html.escape(facts.source)}</p>" if facts.source else "",
        "digest": digest,
        "style": _style(),
        "script": script,
        "data": _items([*facts.notes, *_words.data(facts)], "notes"),
        "opening": _text(_words.opening(facts)),
        "findings": _findings(facts),
        "reading": _reading(facts),
        "settings": _settings(facts),
        "missing": _left_out(facts, header),
        "version": html.escape(ebcd.__version__),
        "header": json.dumps(header, allow_nan=False).replace("<", "\\u003c"),
        "packed": packed,
    }
    return _SLOT.sub(lambda slot: slots[slot[1]], _template("report.html"))


def table_page(title: str, notes: Iterable[str], rows: list[list[str]], legend: list[str]) -> str:
    """Return a page with a table, whose first row is its header, and what it means."""
    header, *others = ([html.escape(cell) for cell in row] for row in rows)
    lines = ["".join(f"<th scope=col>{cell}</th>" for cell in header)]
    lines += [
        f"<th scope=row>{first}</th>" + "".join(f"<td>{cell}</td>" for cell in rest)
        for first, *rest in others
    ]
    slots = {
        "title": html.escape(title),
        "style": _style(),
        "notes": _items(notes, "notes"),
        "table": "".join(f"<tr>{line}</tr>" for line in lines),
        "legend": _items(legend, "notes"),
        "version": html.escape(ebcd.__version__),
    }
    return _SLOT.sub(lambda slot: slots[slot[1]], _template("table.html"))


def _style() -> str:
    colors = " ".join(f"--{name}: {color};" for name, color in COLORS.items())
    return _template("report.css").replace("/* colors of ebcd.plots */", colors)


def _template(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def payload(facts: Facts, n_features: int) -> tuple[dict[str, Any], str]:
    """Return what the page needs to know: a header for JSON, and the packed numbers."""
    block = Block()
    loadings = facts.tables["loading"]
    kept = _largest(loadings, n_features)
    rows = _spread(facts.scores, facts.n_components)
    digits = 7 if len(kept) * max(facts.n_components, 1) <= SETTINGS.precise else 4
    block.add_texts("names", [facts.names[j] for j in kept])
    for name, table in facts.tables.items():
        block.add_numbers("loadings" if name == "loading" else name, table[:, kept], digits)
    if facts.scores is not None:
        scores = facts.scores[rows].T
        block.add_numbers("scores", scores, 7 if scores.size <= SETTINGS.precise else 4)
        longest = SETTINGS.bytes // max(len(rows), 1)  # names must not fill the page
        block.add_texts("rows", [facts.rows[i][:longest] for i in rows] if facts.rows else [])
    if facts.days is not None:
        block.add_numbers("days", facts.days[rows] - facts.days.min(), 7)
    small = {"ratio": facts.ratio, "pca": facts.pca_ratio}
    if facts.path is not None:  # the last steps would be lost in rounding
        small["path"] = facts.path - facts.path[-1]
    for name, values in small.items():
        if values is not None:
            block.add_numbers(name, values, 7)
    if facts.background.correlations.size:
        block.add_numbers("correlations", facts.background.correlations, 4)
        block.add_texts("correlated", [facts.names[j][:80] for j in facts.background.chosen])
    for name in ("estimate", "shrunk", "density") if facts.curves else ():
        block.add_numbers(name, np.array([getattr(curve, name) for curve in facts.curves]), 4)
    end = np.nan if facts.path is None else facts.path[-1]
    header = {
        "method": facts.method,
        "components": facts.n_components,
        "weak": facts.model._weak,
        "features": {"shown": len(kept), "all": len(facts.names)},
        "rows": {"shown": len(rows), "all": 0 if facts.scores is None else len(facts.scores)},
        "digits": digits,
        "firstDay": None if facts.days is None else float(facts.days.min()),
        "interval": facts.interval,
        "about": facts.about,
        "pathName": facts.path_name,
        "pathEnd": None if not np.isfinite(end) else float(end),
        "stretches": [_days_between(facts, k) for k in range(facts.n_components)],
        "priors": [curve.words for curve in facts.curves],
        "atoms": [curve.atoms for curve in facts.curves],
        "ordered": [not prior.exchangeable for prior in getattr(facts.model, "priors_", [])],
        "carriers": [len(facts.carriers(k)) for k in range(facts.n_components)],
        "first": facts.first,
        "stability": None if facts.stability is None else facts.stability.tolist(),
        "parts": "blocks" if facts.halves == "blocks" else "halves",
        "groups": _add_groups(block, facts, rows),
        "others": _add_others(block, facts, kept),
        "listed": LISTED,
        "standardError": facts.standard_error,
        "contents": block.contents,
    }
    packed = block.packed()
    # under which the page keeps the names that its reader gives to components
    header["id"] = hashlib.sha256(packed.encode()).hexdigest()[:16]
    return header, packed


def _add_groups(block: Block, facts: Facts, rows: np.ndarray) -> list[dict[str, Any]]:
    """Add columns to color points by: numbers, or numbers of categories, the rarest together."""
    described = []
    for i, (name, column) in enumerate(facts.background.groups.items()):
        kept = [column[row] for row in rows]
        categories = None
        if isinstance(kept[0] if kept else 0.0, str):
            common = [text for text, _ in Counter(filter(None, kept)).most_common()]
            few = len(common) <= len(PALETTE)
            named = sorted(common) if few else common[: len(PALETTE) - 1]
            places = {"": np.nan} | {text: k for k, text in enumerate(named)}
            kept = [places.get(text, len(named)) for text in kept]
            categories = named if few else [*named, "others"]
        block.add_numbers(f"group_{i}", np.asarray(kept, dtype=np.float64), 7)
        described.append({"name": name, "categories": categories})
    return described


def _add_others(block: Block, facts: Facts, kept: np.ndarray) -> list[dict[str, Any]]:
    """Add the loadings of other methods that a chart shows, and cosines with them."""
    mine = facts.tables["loading"]
    others = {name: found / facts.model._units for name, found in facts.background.others.items()}
    size = np.abs([mine, *others.values()]).max(axis=0)[:, kept]
    which = np.unique(np.argsort(-size, kind="stable")[:, :LISTED])
    described = []
    for name, found in others.items():
        block.add_numbers(f"other_{name}", found[:, kept[which]], 4)
        cosines = (unit_rows(mine) * unit_rows(found)).sum(axis=1)
        described.append({"name": name, "cosines": cosines.round(3).tolist()})
    if others:
        block.add_numbers("compared", which.astype(np.float64), 7)
    return described


def _days_between(facts: Facts, k: int) -> list[list[float]]:
    """Return first and last day of each period in which a score was clearly low or high."""
    if facts.days is None:
        return []
    days = facts.days - facts.days.min()
    periods = _words.clear_periods(facts, k)
    return [[float(days[period.first]), float(days[period.last])] for period in periods]


def _largest(components: np.ndarray, n_features: int) -> np.ndarray:
    """Return the features to keep, in order: those with the largest share of a component."""
    share = np.abs(unit_rows(components)).max(axis=0, initial=0.0)
    return np.sort(np.argsort(-share, kind="stable")[:n_features])


def _spread(scores: np.ndarray | None, n_components: int) -> np.ndarray:
    """Return the rows to keep: all, or as many as fit, evenly spread."""
    n = 0 if scores is None else len(scores)
    most = min(n, SETTINGS.numbers // max(n_components, 1))
    return np.linspace(0, n - 1, most).round().astype(int)


def _findings(facts: Facts) -> str:
    items = [
        f"<li{' class=weak' if k in facts.model._weak else ''}>{_heading(k, heading)}"
        f"{''.join(f'<p>{_text(line)}</p>' for line in sentences)}</li>"
        for k, (heading, sentences) in enumerate(_words.findings(facts))
    ]
    first = "".join(items[k] for k in facts.first)
    rest = "".join(item for k, item in enumerate(items) if k not in facts.first)
    text = f"<ol class=findings>{first}</ol>" if first else ""
    if rest:
        more = f"<summary>{len(items) - len(facts.first)} more components</summary>"
        text += f"<details class=more>{more}<ol class=findings>{rest}</ol></details>"
    return text


def _heading(k: int, heading: str) -> str:
    """Return the heading of a component, in which the page shows its name if it has one."""
    number, share = heading.split(":", 1)
    return f"<h3><span data-component={k}>{number}</span>:{html.escape(share)}</h3>"


def _text(words: str) -> str:
    """Escape a text, and keep each date and each option of a command on one line."""
    return _UNBROKEN.sub(r"<span class=unbroken>\g<0></span>", html.escape(words))


def _reading(facts: Facts) -> str:
    lines = "".join(f"<p>{_text(line)}</p>" for line in _words.reading(facts))
    summary = "<summary>How to read this report</summary>"
    return f"<details open>{summary}{lines}</details>" if lines else ""


def _settings(facts: Facts) -> str:
    return "".join(
        f"<tr><th scope=row>{html.escape(key)}</th><td>{html.escape(value)}</td></tr>"
        for key, value in facts.results.items()
    )


def _left_out(facts: Facts, header: dict[str, Any]) -> str:
    lines = _words.left_out(facts)
    kept = {"features": "those with the largest loadings", "rows": "evenly spread"}
    for what, which in kept.items():
        shown, total = header[what]["shown"], header[what]["all"]
        if shown < total:
            lines.append(f"To stay small, the page has {shown:,} of {total:,} {what}, {which}.")
    return f"<div class=missing><p>Not on this page:</p>{_items(lines)}</div>" if lines else ""


def _items(lines: Iterable[str], kind: str = "") -> str:
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f"<ul{f' class={kind}' if kind else ''}>{items}</ul>" if items else ""
