"""Which columns to read, which one names the rows, and what a cell holds."""

from __future__ import annotations

import fnmatch
import numbers
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ebcd._parameters import unknown_name
from ebcd.data.files._open import FileError

MISSING = {"", "na", "n/a", "nan", "null", "none", "nil", "<na>", "#n/a", "#na", "n.a."}
MISSING |= {"-", "--", ".", "..", "?", "#n/a n/a", "#div/0!"}
_LABEL_NAME = re.compile(
    "barcode|case|cell|cell_?id|code|date|datetime|day|gene_id|id|index|key|labels?|month|names?|"
    "obs|observation|period|quarter|row|row_?id|row_?names?|samples?|sample_?id|subject|subject_id|"
    "symbol|ticker|time|timestamp|unnamed:.*|week|year"
)
_SIGNS = "$€£¥₹%"
_WITH_SIGN = re.compile(  # $48.25, -€5, 5 €, 12.5 %
    r"(?P<minus>[+-]?)(?P<before>[$€£¥₹]?)\s*(?P<number>[+-]?[\d.,]+)\s*(?P<after>[$€£¥₹%]?)"
)
COMMA_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")  # 1,234,567.8
POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")
_GAPS = frozenset("'\N{RIGHT SINGLE QUOTATION MARK}\xa0\u202f")  # Swiss and French thousands
_GAPPED = re.compile(rf"(?<!\d)[1-9]\d{{0,2}}([{''.join(_GAPS)}]\d{{3}})+(?!\d)")
_COMPACT_DATE = re.compile(r"(18|19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])?")
_DATE = re.compile(
    r"\d{4}[-/.]?(\d{1,2}([-/.]\d{1,2})?|[qQwW]\d{1,2})([T ].*)?"
    r"|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}( .*)?"
    r"|(\d{1,2}[- ])?(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[-. ,]+\d.*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a file; each is an option of the command line, which errors name."""

    # Column with the names of the rows, or "none"; by default the first if it looks like that.
    index: str | None = None
    columns: Sequence[str] = ()  # to read, all by default
    drop: Sequence[str] = ()  # columns to leave out
    # Columns that are no data, but kept beside them; None if a command has no use for them.
    color_by: Sequence[str] | None = None
    numeric_only: bool = False  # whether columns of text are left out rather than an error
    drop_missing: str | None = None  # "rows" or "columns"; missing cells are an error by default,
    keep_missing: bool = False  # unless they are kept, as NaN
    # How a table of text is written; found out by default.
    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    skip_lines: int = 0  # above a table
    sheet: str | None = None  # of an Excel file
    key: str | None = None  # of an array in an NPZ file
    layer: str | None = None  # of an h5ad file
    only: Collection[str] | None = None  # columns to read if they are there; others are ignored

    def keep(self, names: Sequence[str], label: int | None) -> Sequence[int]:
        """Return the numbers of the columns to read as data, in the order of the file."""
        kept: Sequence[int] = range(len(names))  # of which a million take no memory
        if self.columns:
            kept = sorted(set(_matching(names, self.columns, "--columns")))
        if self.only is not None and not set(names).isdisjoint(self.only):
            kept = [j for j in kept if names[j] in self.only]
        dropped = {*_matching(names, self.drop, "--drop"), *self.beside(names)}
        dropped |= set() if label is None else {label}
        kept = [j for j in kept if j not in dropped] if dropped else kept
        if not kept:
            raise FileError("no columns are left to fit; check --columns and --drop")
        return kept

    def beside(self, names: Sequence[str]) -> list[int]:
        """Return the numbers of the columns to keep beside the data."""
        return _matching(names, self.color_by or (), "--color-by")

    def label(self, names: Sequence[str]) -> int | None:
        """Return the number of the column that names the rows, if it was asked for."""
        if self.index is None or self.index == "none":
            return None
        return _matching(names, (self.index,), "--index")[0]

    def find_label(
        self, header: list[str] | None, cells: Sequence[str], width: int
    ) -> tuple[int | None, bool]:
        """Return the column that names the rows, and whether that is a guess from first cells."""
        names = [name or f"x{j}" for j, name in enumerate(header or [""] * width)]
        label = self.label(names)
        if label is not None or len(names) == 1 or not self._may_guess(names):
            return label, False
        guess = _look_like_labels(header[0] if header else None, cells)
        return (0, True) if guess else (None, False)

    def _may_guess(self, names: Sequence[str]) -> bool:
        """Whether the first column may turn out to name the rows."""
        if self.index is not None or (self.only is not None and names[0] in self.only):
            return False
        asked = {"--drop": self.drop, "--columns": self.columns}
        asked_for = [_matching(names, some, option) for option, some in asked.items()]
        return not any(0 in columns for columns in (*asked_for, self.beside(names)))


def _matching(names: Sequence[str], patterns: Sequence[str], option: str) -> list[int]:
    """Return the numbers of the columns with these names, separated by commas; * is a wildcard."""
    if not patterns:
        return []
    places = {name: j for j, name in reversed(list(enumerate(names)))}
    found: list[int] = []
    for part in split_names(patterns, places):
        if part in places:
            found.append(places[part])
            continue
        some = [j for j, name in enumerate(names) if fnmatch.fnmatchcase(name, part)]
        if not some:
            message = str(unknown_name("column", part, list(names)))
            if len(names) > 20:  # too many to list
                message = message.split(" Available: ")[0]
                message += f" There are {len(names)} columns, the first {names[0]!r}"
            raise FileError(f"{option}: {message}")
        found += some
    return found


def split_names(patterns: Sequence[str], known: Collection[str]) -> list[str]:
    """Split names at commas, unless a whole one is known."""
    parts = ([one] if one in known else one.split(",") for one in patterns)
    return [part for some in parts for part in some]


def unique_names(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Make names unique by a number at the end; also return those that occur more than once."""
    taken, copies, unique = set(names), dict[str, int](), []
    for name in names:
        new = name
        while name in copies and new in taken:
            copies[name] += 1
            new = f"{name}.{copies[name]}"
        copies.setdefault(name, 0)
        taken.add(new)
        unique.append(new)
    return unique, sorted(name for name, number in copies.items() if number)


def split_sign(cell: str) -> tuple[str, str]:
    """Return a number without its currency or percent sign, and that sign, if there is one.

    Apostrophes and narrow spaces between thousands are left out as well.
    """
    cell = cell.strip()
    if not _GAPS.isdisjoint(cell):
        cell = _GAPPED.sub(lambda number: re.sub(r"\D", "", number[0]), cell)
    found = _WITH_SIGN.fullmatch(cell) if any(sign in cell for sign in _SIGNS) else None
    if found is None or bool(found["before"]) == bool(found["after"]):
        return cell, ""
    return found["minus"] + found["number"], found["before"] or found["after"]


def parse_number(cell: str, decimal: str) -> float | None:
    """Return the value of a cell, NaN if it is missing, None if it is text.

    Currency and percent signs are left out, and True and False are 1 and 0.
    """
    cell, _ = split_sign(cell)
    if cell.lower() in MISSING:
        return float("nan")
    if cell.lower() in ("true", "false"):
        return float(cell.lower() == "true")
    other = "." if decimal == "," else ","
    if other in cell:
        groups = POINT_GROUPS if decimal == "," else COMMA_GROUPS
        if groups.fullmatch(cell) is None:
            return None
        cell = cell.replace(other, "")
    try:
        return None if "_" in cell else float(cell.replace(",", "."))
    except ValueError:
        return None


def is_text(cell: str) -> bool:
    """Whether a cell holds neither a number nor a sign for a missing one."""
    return parse_number(cell, ".") is None and parse_number(cell, ",") is None


def as_number(cell: Any, decimal: str | None) -> float | None:
    """Return the value of a cell of any type, NaN if it is missing, None if it is no number."""
    if isinstance(cell, str):
        return None if decimal is None else parse_number(cell, decimal)
    if isinstance(cell, numbers.Real | Decimal):
        return float(cell)
    return float("nan") if _is_missing(cell) else None


def cell_text(cell: Any) -> str:
    """Return a cell as text, empty if it is missing."""
    if _is_missing(cell) or (isinstance(cell, numbers.Number) and cell != cell):
        return ""
    return f"{cell:.15g}" if isinstance(cell, float) else str(cell)


def _is_missing(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NaTType", "NAType")


def _look_like_labels(name: str | None, cells: Sequence[str]) -> bool:
    """Whether the first column seems to name the rows; `name` is None without a header."""
    if name is not None:
        plain = name.strip().strip("#").lower().replace(" ", "_")
        if not name.strip() or _LABEL_NAME.fullmatch(plain):
            return True
    cells = [cell.strip() for cell in cells]
    if not cells:
        return False
    if 2 * sum(map(is_text, cells)) >= len(cells):
        return True
    if len(cells) < 3 or len(set(cells)) < len(cells):
        return False
    if all(_COMPACT_DATE.fullmatch(cell) for cell in cells):
        return True
    first = cells[0]
    counted = first in ("0", "1") and cells == [str(int(first) + i) for i in range(len(cells))]
    return name is None and counted


def look_like_groups(cells: Sequence[str]) -> bool:
    """Whether cells are no names of rows: some are equal, and not days that several rows share."""
    if len(set(cells)) == len(cells):
        return False
    return not all(_DATE.fullmatch(cell.strip()) and is_text(cell) for cell in cells)
