"""Read tables of text: find out how one is written, then let pandas parse it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import IO, Any

import numpy as np

from ebcd.data import _settings
from ebcd.data.files._columns import (
    COMMA_GROUPS,
    MISSING,
    POINT_GROUPS,
    ReadOptions,
    is_text,
    parse_number,
    split_sign,
)
from ebcd.data.files._open import DataFile, FileError, needs

SAMPLE_ROWS = 60  # from which it is found out what a table looks like
_END = "\0"  # a line after the last one, unless that is within a cell
_WRITTEN = {" ": "\t"}  # separators for pandas that are others in the file
_SEPARATORS = ("\t", ";", ",", "|", " ")
_MISSING = sorted(MISSING | {mark.upper() for mark in MISSING} | {"NaN", "None", "Null", "Nil"})


@dataclass
class Cells:
    """A table as a library reads it, before its columns are chosen and made numbers.

    `values` are a matrix, or a data frame with columns that are called by their number. `label` is
    the column that names the rows, which may be `guessed`, unless the file has names of `rows`.
    `decimal` is the decimal mark of numbers written as text; None if text is never a number.
    `beside` are columns that were asked for and are stored apart from a matrix.
    """

    values: Any
    header: list[str] | None = None
    label: int | None = None
    guessed: bool = False
    decimal: str | None = None
    rows: list[str] | None = None
    notes: list[str] = field(default_factory=list)
    beside: dict[str, list[Any]] = field(default_factory=dict)


def read_text(file: DataFile, options: ReadOptions) -> Cells:
    """Read a table of text in any usual encoding."""
    utf_16 = file.stream.read(2) in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ("utf-16",) if utf_16 else ("utf-8-sig", "cp1252", "latin-1"):
        file.stream.seek(0)
        text = io.TextIOWrapper(file.stream, encoding=encoding)
        try:
            cells = _TextTable(file, text, options).read()
        except UnicodeDecodeError:
            continue
        except csv.Error as error:
            raise FileError(f"{file.name}: {error}; is a quotation mark not closed?") from None
        finally:
            text.detach()
        if encoding in ("cp1252", "latin-1"):
            cells.notes.append("the file is not in UTF-8; it was read as Latin-1 (Windows-1252)")
        return cells
    raise FileError(f"{file.name} is not text in a known encoding; save it as UTF-8")


class _TextTable:
    """A table of text whose encoding is known; its first rows show how it is written."""

    def __init__(self, file: DataFile, text: IO[str], options: ReadOptions) -> None:
        self._file, self._text, self._options = file, text, options
        self._notes: list[str] = []
        lines = list(_sample(islice(text, options.skip_lines, None)))
        comments = next((i for i, line in enumerate(lines) if line[:1] != "#"), len(lines))
        comments -= _has_names(lines, comments)
        self._above = options.skip_lines + comments
        self._separator = options.separator or _find_separator(lines[comments:])
        rows = list(_split(lines[comments:], self._separator))
        self._width = max(map(len, rows), default=0)
        head = [cells for cells in rows if any(cells)]
        if not head:
            raise FileError(f"{file.name} has no rows")
        self._header, self._rows = split_header(file.name, head, options.header, self._notes)
        self._decimal = options.decimal or _find_decimal(self._rows, self._separator, self._notes)

    def read(self) -> Cells:
        """Parse the whole file."""
        width = max(self._width, len(self._header or []))
        header = self._header and self._header + [""] * (width - len(self._header))
        first = [cells[0] for cells in self._rows]
        label, guessed = self._options.find_label(header, first, len(self._rows[0]))
        rows = _Regular(*self._from_the_top(), len(self._header or self._rows[0]), width)
        found = Cells(self._parse(rows, label), header, label, guessed, self._decimal)
        found.notes = self._notes
        _leave_out_empty(found)
        self._check_lengths(rows, found.values.shape[1])
        return found

    def _parse(self, rows: _Regular, label: int | None) -> Any:
        with needs("pandas", "tables of text", "cli"):
            import pandas as pd
        # before pandas 3.1 the default is off by one unit in the last place now and then
        old = tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1)
        exact: dict[str, Any] = {"float_precision": "round_trip"} if old else {}
        ours = AttributeError, LookupError, TypeError  # errors of `rows`, should there be one
        with self._file.guarded(UnicodeDecodeError, csv.Error, *ours):
            return pd.read_csv(
                rows,
                sep=_WRITTEN.get(self._separator, self._separator),
                header=None,
                names=range(rows.width),
                index_col=False,
                converters={} if label is None else {label: str.strip},
                decimal=self._decimal,
                na_values=_MISSING,
                keep_default_na=False,
                skipinitialspace=True,
                **exact,
                low_memory=False,
            )

    def _from_the_top(self) -> tuple[IO[str], int, str]:
        """Go back to the first row of cells; return the text, lines above, and the separator."""
        self._text.seek(0)
        for _ in range(self._above):
            self._text.readline()
        reader = _split(self._text, self._separator)
        if self._header is not None:
            next(filter(any, reader))
        return self._text, self._above + reader.line_num, self._separator

    def _check_lengths(self, rows: _Regular, width: int) -> None:
        """Refuse rows with too few cells, which were filled up, or with too many."""
        least = min(width, rows.expected)
        odd = [place for place in rows.short if place[1] < least] + rows.long
        if odd:
            line, cells = min(odd)
            count = "1 cell" if cells == 1 else f"{cells} cells"
            raise FileError(
                f"{self._file.name}, line {line}: {count} where {least} were expected; is the "
                "file cut short, are there lines above (--skip-lines) or below the table, or is "
                "the separator another one (--separator)?"
            )


class _Regular(io.TextIOBase):
    """Rows as text for pandas, all of the same width.

    Of rows that differ in length, pandas reads memory that is not theirs, or never ends. Noted are
    the line and the number of cells of rows with less or more cells than `expected`.
    """

    def __init__(
        self, lines: Iterable[str], above: int, separator: str, expected: int, width: int
    ) -> None:
        self._separator, self.expected, self.width = separator, expected, width
        self._rows = self._regular(iter(lines), above)
        self.short: list[tuple[int, int]] = []  # each shorter than those before
        self.long: list[tuple[int, int]] = []  # the first

    def read(self, size: int | None = -1) -> str:
        """Return some rows, about so many letters; none at the end."""
        return "".join(islice(self._rows, max((size or 0) // (8 * self.width), 1)))

    def _regular(self, lines: Iterator[str], above: int) -> Iterator[str]:
        separator = self._separator
        usual = self.expected - 1 if self.expected == self.width > 1 and separator != " " else -1
        for line in lines:
            if '"' in line or line.count(separator) != usual:
                break
            above += 1
            yield line
        else:
            return
        reader = _split(chain([line], lines, [_END]), separator)
        text = io.StringIO()
        writer = csv.writer(text, delimiter=_WRITTEN.get(separator, separator))
        for cells in reader:
            if cells == [_END]:
                if next(reader, None) is None:
                    return
                break
            if cells and cells != [""]:
                writer.writerow(self._filled(cells, above + reader.line_num))
                yield text.getvalue()
                text.seek(0)
                text.truncate()
        raise csv.Error("the last cell does not end")

    def _filled(self, cells: list[str], line: int) -> list[str]:
        count, least = len(cells), self.short[-1][1] if self.short else self.expected
        if any(map(str.strip, cells[self.expected :])):  # the row may have moved
            self.long = self.long or [(line, count)]
        elif count < least and any(cell.strip().lower() not in MISSING for cell in cells):
            self.short.append((line, count))
        return (cells + [""] * (self.width - count))[: self.width]


def _sample(lines: Iterable[str]) -> Iterator[str]:
    letters = 0
    for line in islice(lines, SAMPLE_ROWS):
        letters += len(line)
        yield line
        if letters > _settings.SETTINGS.read:  # rows of 50,000 columns have half a million
            return


def _split(lines: Iterable[str], separator: str) -> Any:
    if separator == " ":  # and tabs, as many as there are
        return csv.reader((" ".join(line.split()) for line in lines), delimiter=" ")
    return csv.reader(lines, delimiter=separator, skipinitialspace=True)


def _has_names(lines: Sequence[str], comments: int) -> bool:
    """Whether the last line that starts with # has the names of the columns."""
    if comments == 0 or comments == len(lines):
        return False
    separator = _find_separator(lines[comments:])
    last, first = (len(next(_split([lines[i]], separator))) for i in (comments - 1, comments))
    return last == first > 1


def _find_separator(lines: Sequence[str]) -> str:
    lines = [line for line in lines if line.strip()]
    if lines and not set(lines[0]) & set(_SEPARATORS[:4]) and not any(map(is_text, lines[1:])):
        return ";"  # one column; its commas are decimal marks
    scores = {separator: _score(lines, separator) for separator in _SEPARATORS}
    return max(_SEPARATORS, key=lambda separator: scores[separator])


def _score(lines: Sequence[str], separator: str) -> tuple[Any, ...]:
    """Rank a separator: rows of equal length first, then numbers between the separators."""
    try:
        rows = list(_split(lines, separator))
    except csv.Error:
        return (False, False, 0.0)
    counts = [len(row) for row in rows]
    if max(counts, default=0) < 2:
        return (False, False, 0.0)
    end = counts[-1]
    # tables written by R have no name above the names of the rows
    regular = all(count == end for count in counts[1:]) and end > 1
    regular = regular and (counts[0] == end or counts[0] == end - 1 > 1)
    cells = [cell for row in rows[1:] or rows for cell in row[1:1000]]
    return (True, regular, 1 - sum(map(is_text, cells)) / max(len(cells), 1))


def split_header(
    name: str, head: list[list[str]], wanted: bool | None, notes: list[str]
) -> tuple[list[str] | None, list[list[str]]]:
    """Return the names of the columns, if the first row has them, and the other rows."""
    first, rest = head[0], head[1:]
    if wanted is False or (wanted is None and not _is_names(first, rest)):
        if wanted is None:
            width = max(map(len, head))
            notes.append(
                f"no header found: the columns are called x0 to x{width - 1} (--header if the "
                "first row has their names)"
            )
        return None, head
    if not rest:
        raise FileError(f"{name} has a header but no rows of numbers")
    if wanted is None and not any(map(is_text, first)):
        notes.append(
            f"the first row was read as names: {', '.join(first[:3])}... (--no-header if not)"
        )
    if len(first) == len(rest[0]) - 1 > 1:
        first = ["", *first]
    return [cell.strip() for cell in first], rest


def _is_names(first: list[str], rest: list[list[str]]) -> bool:
    """Whether the first row has names of columns: text, or numbers that only count."""
    named = first[1:] if len(first) > 1 else first
    if any(map(is_text, named)):
        return True
    if not rest:
        return False
    if not first[0].strip() or len(first) == len(rest[0]) - 1:
        return not any(cell.strip().lower() in MISSING for cell in named)
    if not all(cell.strip().isdecimal() for cell in named) or len(named) < 3:
        return False
    steps = {float(last) - float(first) for first, last in pairwise(named)}
    return len(steps) == 1 and min(steps) > 0 and any("." in c or "," in c for c in rest[0])


def _find_decimal(rows: list[list[str]], separator: str, notes: list[str]) -> str:
    """Return the decimal mark: a comma where some cells can be read so, and none with a point."""
    cells = [split_sign(cell)[0] for row in rows for cell in row[:1000]]
    cells = [cell for cell in cells if cell not in MISSING]
    commas = [cell for cell in cells if "," in cell and parse_number(cell, ",") is not None]
    if separator == ",":  # only quoted cells have commas then; "1,234" is a thousand
        commas = [cell for cell in commas if not COMMA_GROUPS.fullmatch(cell)]
    points = (cell for cell in cells if "." in cell and not POINT_GROUPS.fullmatch(cell))
    if not commas or any(parse_number(cell, ".") is not None for cell in points):
        return "."
    notes.append(f"decimal commas: {commas[0]} was read as {parse_number(commas[0], ','):g}")
    return ","


def _leave_out_empty(cells: Cells) -> None:
    """Drop rows without any cell, and columns at the end with neither a cell nor a name."""
    frame, header, label = cells.values, cells.header, cells.label
    empty = frame.isna().to_numpy()
    if label is not None:
        empty[:, label] = (frame.iloc[:, label] == "").to_numpy()
    rows, used = ~empty.all(axis=1), ~empty.all(axis=0)
    if header is not None:
        used |= np.array([name != "" for name in header])
    if not rows.all():
        cells.notes.append(f"empty rows were left out: {(~rows).sum()}")
    width = max(np.flatnonzero(used).max(initial=0), label or 0) + 1
    cells.values, cells.header = frame.loc[rows].iloc[:, :width], header and header[:width]
