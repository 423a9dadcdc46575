"""Pieces of the page: tables and numbers."""

from __future__ import annotations

import numpy as np

HEADINGS = {
    "d1": "$d_1$",
    "d2": "$d_2$",
    "d3": "$d_3$",
    "d_or": r"$d_{\mathrm{or}}$",
    "d_cov": r"$d_{\mathrm{cov}}$",
}
Values = dict[str, str]


def table(head: list[str], lines: list[list[str]]) -> str:
    """Return a Markdown table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def number(value: float) -> str:
    """Four digits after the point for angles, two for larger numbers."""
    if not np.isfinite(value):
        return ""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.2f}"


def percents(values: list[float]) -> str:
    """Return percentages as a list in words."""
    return ", ".join(f"{value:.2f}" for value in values)
