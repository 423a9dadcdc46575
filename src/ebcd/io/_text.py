"""Read tables of text: find out separator, decimal mark, header and encoding, then the numbers."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from typing import Any

import numpy as np

from ebcd.io._columns import (
    MISSING,
    Raw,
    Selection,
    is_text,
    looks_like_labels,
    unique_names,
)
from ebcd.io._source import Source

_SEPARATORS = ("\t", ";", ",", "|", " ")
_SAMPLE_ROWS = 60
_SAMPLE_LETTERS = 4_000_000  # a row of 50,000 columns has half a million
_COMMA_DECIMAL = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+)?,\d+([eE][+-]?\d+)?")
_POINT_DECIMAL = re.compile(r"[+-]?(\d+|\d{1,3}(,\d{3})+)?\.\d*([eE][+-]?\d+)?")
_COMMA_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
_POINT_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")

Row = tuple[int, list[str]]  # number of the line, cells


@dataclass(frozen=True)
class TextOptions:
    """How a text table is written; None means find out."""

    separator: str | None = None
    decimal: str | None = None
    header: bool | None = None
    skip_lines: int = 0


def read_text(source: Source, selection: Selection, options: TextOptions) -> Raw:
    """Read a table of text."""
    for encoding in _encodings(source):
        source.stream.seek(0)
        text = io.TextIOWrapper(source.stream, encoding=encoding, newline="")
        try:
            raw = _read_lines(source.name, text, selection, options)
        except UnicodeDecodeError:
            continue
        finally:
            text.detach()
        if encoding in ("cp1252", "latin-1"):
            raw.notes.append("the file is not in UTF-8; it was read as Latin-1 (Windows-1252)")
        return raw
    raise ValueError(f"{source.name} is not text in a known encoding; save it as UTF-8")


def _encodings(source: Source) -> tuple[str, ...]:
    source.stream.seek(0)
    if source.stream.read(2) in (b"\xff\xfe", b"\xfe\xff"):
        return ("utf-16",)
    return ("utf-8-sig", "cp1252", "latin-1")


def _read_lines(name: str, text: Iterable[str], selection: Selection, options: TextOptions) -> Raw:
    lines = islice(text, options.skip_lines, None)
    sample = list(_sample(lines))
    comments = 0
    while len(sample) > comments and sample[comments].startswith("#"):
        comments += 1
    comments -= _is_header(sample, comments)
    sample = sample[comments:]
    separator = options.separator or _find_separator(sample)
    first_line = 1 + options.skip_lines + comments
    rows = _split(name, chain(sample, lines), separator, first_line)
    head = list(islice(rows, _SAMPLE_ROWS))
    if not head:
        raise ValueError(f"{name} has no rows")
    notes: list[str] = []
    header, head = _take_header(name, head, options.header, notes)
    decimal = options.decimal or _find_decimal(head, separator, notes)
    return _read_rows(name, header, head, rows, decimal, selection, notes)


def _sample(lines: Iterator[str]) -> Iterator[str]:
    letters = 0
    for line in islice(lines, _SAMPLE_ROWS):
        letters += len(line)
        yield line
        if letters > _SAMPLE_LETTERS:
            return


def _is_header(sample: Sequence[str], comments: int) -> bool:
    """Tell whether the last line that starts with # has the names of the columns."""
    if comments == 0 or comments == len(sample):
        return False
    separator = _find_separator(sample[comments:])
    last, first = (len(next(_cells([sample[i]], separator))) for i in (comments - 1, comments))
    return last == first > 1


def _cells(lines: Iterable[str], separator: str) -> Iterator[list[str]]:
    if separator == " ":
        return (line.split() for line in lines)
    return csv.reader(lines, delimiter=separator, skipinitialspace=True)


def _split(name: str, lines: Iterable[str], separator: str, first_line: int) -> Iterator[Row]:
    """Cells of every row that is not blank, with the number of its line."""
    reader = _cells(lines, separator)
    line = first_line - 1
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise ValueError(
                f"{name}, line {line + 1}: {error}; is a quotation mark opened and not closed?"
            ) from None
        if cells is None:
            return
        line = first_line + getattr(reader, "line_num", line - first_line + 2) - 1
        if any(cells):
            yield line, cells


def _find_separator(sample: Sequence[str]) -> str:
    lines = [line for line in sample if line.strip()]
    if lines and not set(lines[0]) & set(_SEPARATORS[:4]) and not any(map(is_text, lines[1:])):
        return ";"  # one column; its commas are decimal marks
    scores = {separator: _score(lines, separator) for separator in _SEPARATORS}
    return max(_SEPARATORS, key=lambda separator: scores[separator])


def _score(lines: Sequence[str], separator: str) -> tuple[Any, ...]:
    """Rank a separator: rows of equal length first, then numbers between the separators."""
    try:
        rows = list(_cells(lines, separator))
    except csv.Error:
        return (False, False, 0.0)
    counts = [len(row) for row in rows]
    if max(counts, default=0) < 2:
        return (False, False, 0.0)
    end = counts[-1]
    # tables of R have no name above the names of the rows
    regular = all(count == end for count in counts[1:]) and end > 1
    regular = regular and (counts[0] == end or counts[0] == end - 1 > 1)
    cells = [cell for row in rows[1:] or rows for cell in row[1:1000]]
    return (True, regular, 1 - sum(map(is_text, cells)) / max(len(cells), 1))


def _take_header(
    name: str, head: list[Row], wanted: bool | None, notes: list[str]
) -> tuple[list[str] | None, list[Row]]:
    (_, first), rest = head[0], head[1:]
    width = max((len(cells) for _, cells in rest), default=len(first))
    if wanted is False or (wanted is None and not _is_names(first, rest)):
        if wanted is None:
            notes.append(
                f"no header found: the columns are called x0 to x{width - 1} (--header if the "
                "first row has their names)"
            )
        return None, head
    if not rest:
        raise ValueError(f"{name} has a header but no rows of numbers")
    if wanted is None and not any(map(is_text, first)):
        notes.append(
            f"the first row was read as names: {', '.join(first[:3])}... (--no-header if not)"
        )
    if len(first) == len(rest[0][1]) - 1 > 1:
        first = ["", *first]
    return [cell.strip() for cell in first], rest


def _is_names(first: list[str], rest: list[Row]) -> bool:
    """Tell whether the first row has names of columns: text, or numbers that only count."""
    named = first[1:] if len(first) > 1 else first
    if any(map(is_text, named)):
        return True
    if not rest:
        return False
    if not first[0].strip() or len(first) == len(rest[0][1]) - 1:
        return not any(cell.strip().lower() in MISSING for cell in named)
    if not all(cell.strip().isdigit() for cell in named) or len(named) < 3:
        return False
    steps = set(np.diff([int(cell) for cell in named]).tolist())
    return len(steps) == 1 and min(steps) > 0 and any("." in c or "," in c for c in rest[0][1])


def _find_decimal(head: list[Row], separator: str, notes: list[str]) -> str:
    cells = [cell.strip() for _, row in head for cell in row[:1000] if "," in cell or "." in cell]
    commas = [cell for cell in cells if _COMMA_DECIMAL.fullmatch(cell)]
    points = any(_POINT_DECIMAL.fullmatch(c) and not _POINT_GROUPS.fullmatch(c) for c in cells)
    if separator == ",":  # only quoted cells have commas then; "1,234" is a thousand
        commas = [cell for cell in commas if not _COMMA_GROUPS.fullmatch(cell)]
    if not commas or points:
        return "."
    notes.append(f"decimal commas: {commas[0]} was read as {_number(commas[0], ','):g}")
    return ","


def _number(cell: str, decimal: str) -> float | None:
    """Value of a cell, NaN if it is missing, None if it is text."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return float("nan")
    other = "." if decimal == "," else ","
    if other in cell:
        groups = _POINT_GROUPS if decimal == "," else _COMMA_GROUPS
        if groups.fullmatch(cell) is None:
            return None
        cell = cell.replace(other, "")
    try:
        return None if "_" in cell else float(cell.replace(",", "."))
    except ValueError:
        return None


class _Numbers:
    """Collect the numbers of row after row, and remember cells that are text."""

    def __init__(self, decimal: str) -> None:
        self.buffer = array("d")
        self.text: dict[int, tuple[int, str]] = {}
        self.grouped: str | None = None  # first number whose thousands are parted
        self._decimal = decimal

    def add(self, cells: Sequence[str]) -> None:
        """Take a row, fast if all its cells are plain numbers."""
        whole = "".join(cells)
        if "_" in whole or (self._decimal == "," and "." in whole):  # float("1_2") is 12
            return self._add_carefully(cells)
        size = len(self.buffer)
        plain = cells if self._decimal == "." else [cell.replace(",", ".") for cell in cells]
        try:
            self.buffer.extend(map(float, plain))
        except ValueError:
            del self.buffer[size:]
            self._add_carefully(cells)
        return None

    def _add_carefully(self, cells: Sequence[str]) -> None:
        for j, cell in enumerate(cells):
            value = _number(cell, self._decimal)
            if value is None:
                count, first = self.text.get(j, (0, cell.strip()))
                self.text[j] = (count + 1, first)
                value = float("nan")
            elif self.grouped is None and self._decimal == "." and "," in cell:
                self.grouped = cell.strip()
            self.buffer.append(value)


def _read_rows(
    name: str,
    header: list[str] | None,
    head: list[Row],
    rows: Iterator[Row],
    decimal: str,
    selection: Selection,
    notes: list[str],
) -> Raw:
    width = len(header or head[0][1])
    names, again = unique_names(_full_names(header, width))
    if again:
        notes.append(f"columns with the same name were numbered: {', '.join(again[:5])}")
    label, guessed = _find_label(names, header, head, selection)
    if header is not None and header[-1] == "" and width > 1 and not _cell_in_last(head, width):
        names, header = names[:-1], header[:-1]  # every line ends with a separator
    keep = selection.keep(names, label)
    pick = _picker(keep, width)
    numbers, labels = _Numbers(decimal), []
    for line, cells in chain(head, rows):
        if len(cells) != width:
            cells = _mended(name, line, cells, width)
        if label is not None:
            labels.append(cells[label].strip())
        numbers.add(pick(cells))
    if numbers.grouped is not None:
        notes.append(
            f"commas between thousands were left out: {numbers.grouped} is "
            f"{_number(numbers.grouped, decimal):.15g} (--decimal , if they are decimal marks)"
        )
    raw = Raw(
        np.frombuffer(numbers.buffer, dtype=np.float64).reshape(-1, len(keep)),
        [names[j] for j in keep],
        text={names[keep[j]]: found for j, found in sorted(numbers.text.items())},
        notes=notes,
    )
    if label is not None:
        raw.label_name = header[label] if header is not None else ""
        selection.add_labels(raw, names[label], labels, guessed)
    return raw


def _full_names(header: list[str] | None, width: int) -> list[str]:
    if header is None:
        return [f"x{j}" for j in range(width)]
    return [cell or f"x{j}" for j, cell in enumerate(header)]


def _find_label(
    names: list[str], header: list[str] | None, head: list[Row], selection: Selection
) -> tuple[int | None, bool]:
    """Column with the names of the rows, and whether that is a guess."""
    label = selection.label(names)
    if label is not None or len(names) == 1 or not selection.may_guess(names):
        return label, False
    cells = [cells[0] for _, cells in head if cells]
    return (0, True) if looks_like_labels(header[0] if header else None, cells) else (None, False)


def _cell_in_last(head: list[Row], width: int) -> bool:
    return any(len(cells) >= width and cells[width - 1].strip() for _, cells in head)


def _picker(keep: list[int], width: int) -> Any:
    if keep == list(range(width)):
        return lambda cells: cells
    if keep == list(range(keep[0], keep[0] + len(keep))):
        return itemgetter(slice(keep[0], keep[0] + len(keep)))
    return itemgetter(*keep)


def _mended(name: str, line: int, cells: list[str], width: int) -> list[str]:
    """Cells without separators at the end of the line, or an error if others are too many."""
    if len(cells) > width and not any(cell.strip() for cell in cells[width:]):
        return cells[:width]
    raise ValueError(
        f"{name}, line {line}: {len(cells)} cells where {width} were expected; is the file cut "
        "short, are there lines above the table (--skip-lines), or is the separator another one "
        "(--separator)?"
    )
