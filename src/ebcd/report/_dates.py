"""Row names that are dates."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np

from ebcd._numerics import Array

_ISO = re.compile(r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?)?)?")
_QUARTER = re.compile(r"(\d{4})-?Q([1-4])")
_LOCAL = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4})")
_DIGITS = re.compile(r"(1[6-9]|20|21)\d\d((0[1-9]|1[0-2])([0-3]\d)?)?")


def as_text(label: Any) -> str:
    """Return the name of a row as text; dates omit midnight."""
    if isinstance(label, dt.datetime | dt.date | np.datetime64):
        text = str(label).replace("T", " ")
        return re.sub(r" 00:00(:00(\.0+)?)?$", "", text)
    return str(label)


def days_of(labels: list[str]) -> Array | None:
    """Return days since 1970 if every label is a date, otherwise None.

    Dates are ISO (2009-03, 2009-03-31 12:00), with slashes instead of dashes, quarters (2009Q1),
    digits (2009, 200903, 20090331), or end with the year (3/31/2009, 31.03.2009). Since digits may
    be plain numbers, they count as dates only if they are strictly increasing or decreasing. Day
    and month are distinguished by which order makes every label a date or, if both do, sorts them.
    """
    texts = [label.strip() for label in labels]
    local = [_LOCAL.fullmatch(text) for text in texts]
    if texts and all(local):
        return _days_of_local([match.groups() for match in local if match])
    days = _days([_iso(text.replace("/", "-")) for text in texts])
    return days if days is None or not texts[0].isdigit() or _in_order(days) else None


def _days_of_local(parts: list[tuple[str | Any, ...]]) -> Array | None:
    day_first = _days([f"{year}-{month:0>2}-{day:0>2}" for day, _, month, year in parts])
    month_first = _days([f"{year}-{month:0>2}-{day:0>2}" for month, _, day, year in parts])
    found = [days for days in (day_first, month_first) if days is not None]
    if len(found) == 2:
        found = [days for days in found if _in_order(days)]
    return found[0] if len(found) == 1 else None


def _days(forms: list[str | None]) -> Array | None:
    if not forms or any(form is None for form in forms):
        return None
    try:
        moments = np.array(forms, dtype="datetime64[s]")
    except ValueError:  # 2009-13
        return None
    return np.asarray(moments.astype(np.int64) / 86400.0)


def _in_order(days: Array) -> bool:
    steps = np.diff(days)
    return bool((steps > 0).all() or (steps < 0).all())


def _iso(label: str) -> str | None:
    if _ISO.fullmatch(label):
        return label
    quarter = _QUARTER.fullmatch(label)
    if quarter:
        return f"{quarter[1]}-{3 * int(quarter[2]) - 2:02d}"
    if _DIGITS.fullmatch(label):
        return "-".join(part for part in (label[:4], label[4:6], label[6:]) if part)
    return None
