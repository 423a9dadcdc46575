"""Read a data file into a matrix with names: formats, columns, text and missing cells."""

from __future__ import annotations

import fnmatch
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ebcd.data._moments import as_dense, bad_places, checked_sparse, is_sparse
from ebcd.data.files import _formats
from ebcd.data.files._columns import (
    ReadOptions,
    as_number,
    cell_text,
    look_like_groups,
    parse_number,
    split_names,
    split_sign,
    unique_names,
)
from ebcd.data.files._open import DataFile, FileError, check_expanded, open_file
from ebcd.data.files._text import Cells, read_text

READERS: dict[str, Callable[[DataFile, ReadOptions], Cells]] = {
    "NPY": _formats.read_npy,
    "NPZ": _formats.read_npz,
    "HDF5": _formats.read_h5ad,
    "Matrix Market": _formats.read_matrix_market,
    "Parquet": _formats.read_parquet,
    "Excel": _formats.read_excel,
    "text": read_text,
}
_MIDNIGHT = " 00:00:00"
_WHOLE = re.compile(r"[+-]?\d+\.0*")  # 1959.0
_AXES = ("rows", "columns")
_OPTIONS_OF = {"key": "NPZ", "layer": "HDF5", "sheet": "Excel"}


class Text(NamedTuple):
    """Cells of a column that are no numbers: how many, the first one, and how many kinds."""

    cells: int
    first: str
    kinds: int


@dataclass(frozen=True)
class Table:
    """A matrix, dense or sparse, of finite numbers with names."""

    values: Any
    column_names: list[str]  # no two alike
    row_names: list[str] | None = None
    index_name: str = ""  # of the column with the names of the rows
    notes: list[str] = field(default_factory=list)  # on how the file was read, for people
    row_numbers: Sequence[int] | None = None  # in the file, from 0, if some rows were left out
    groups: dict[str, list[Any]] = field(default_factory=dict)  # numbers or texts beside the data

    @property
    def labels(self) -> list[str] | None:
        """Names of the rows, or their numbers in the file if those have gaps."""
        if self.row_names is not None or self.row_numbers is None:
            return self.row_names
        return [str(number) for number in self.row_numbers]

    def taking(self, rows: Sequence[int]) -> Table:
        """Return some rows, in the order of their numbers here."""
        return replace(
            self,
            values=self.values[rows],
            row_names=self.row_names and [self.row_names[i] for i in rows],
            groups={name: [column[i] for i in rows] for name, column in self.groups.items()},
        )

    def transposed(self) -> Table:
        """Exchange rows and columns."""
        numbers = self.row_numbers or range(self.values.shape[0])
        return replace(
            self,
            values=self.values.T.tocsr() if is_sparse(self.values) else self.values.T,
            column_names=self.row_names or [f"x{i}" for i in numbers],
            row_names=self.column_names,
            index_name="",
            row_numbers=None,
        )


def read_table(path: Path, **options: Any) -> Table:
    """Read a CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or h5ad file; - is standard input.

    It may be compressed. Its format is recognized by its content, not by its name. The options are
    those of `ReadOptions`.
    """
    asked = ReadOptions(**options)
    with open_file(path) as file:
        for option, kind in _OPTIONS_OF.items():
            if getattr(asked, option) is not None and file.kind != kind:
                files = "h5ad" if kind == "HDF5" else kind
                raise FileError(f"--{option} is for {files} files, but {file.name} is not; omit it")
        table = _without_total(_chosen(file, READERS[file.kind](file, asked), asked))
        return _without_missing(file.name, table, asked)


def _chosen(file: DataFile, cells: Cells, options: ReadOptions) -> Table:
    """Choose columns and turn their cells into numbers; a column of text is an error."""
    name, is_frame = file.name, hasattr(cells.values, "iloc")
    if not is_frame:
        cells.values = _checked_matrix(file, cells.values)
    if cells.header:
        names, again = unique_names([given or f"x{j}" for j, given in enumerate(cells.header)])
        if again:
            cells.notes.append(f"columns with the same name were numbered: {', '.join(again[:5])}")
    else:
        names = [f"x{j}" for j in range(cells.values.shape[1])]
    if cells.header and options.only is not None and set(names).isdisjoint(options.only):
        raise FileError(missing_features(name, list(options.only), options.only))
    if not is_frame:
        return _from_matrix(cells, names, options)
    labels = _row_names(cells)
    label_name = cells.header[cells.label] if cells.header and cells.label is not None else ""
    keep = options.keep(names, cells.label)
    values, text = _as_numbers(cells, keep)
    found = {names[keep[j]]: what for j, what in text.items()}
    numeric = [j for j in range(len(keep)) if j not in text]
    columns = [names[keep[j]] for j in numeric]
    if text:
        values = np.ascontiguousarray(values[:, numeric])
    groups = {
        names[j]: _as_group(cells.values.iloc[:, j].tolist(), cells.decimal or ".")
        for j in options.beside(names)
    }
    table = Table(values, columns, labels, label_name, cells.notes, groups=groups)
    if found and not options.numeric_only:
        raise FileError(_problems(name, table, found, options))
    if options.drop:
        dropped = sorted(set(range(len(names))) - {*keep, cells.label, *options.beside(names)})
        cells.notes.append(f"columns left out: {_some([names[j] for j in dropped])}")
    if found:
        cells.notes.append(f"columns of text left out: {_some(list(found))} (--numeric-only)")
    first = names[0]
    if cells.guessed and labels is None and first in columns:
        cells.notes.append(
            f"the column {first!r} was read as data, because its values repeat (to use it as row "
            f"names: --index {_quoted(first)}; to leave it out: --drop {_quoted(first)})"
        )
    if label_name and options.index is None:
        cells.notes.append(f"rows are named by the column {label_name!r}")
    return table


def _row_names(cells: Cells) -> list[str] | None:
    """Return the names of the rows; a guess is taken back if names repeat."""
    if cells.label is None:
        return None
    labels = _labels(cells.values.iloc[:, cells.label])
    if cells.guessed and look_like_groups(labels):
        cells.label = None
        return None
    return labels


def _checked_matrix(file: DataFile, values: Any) -> Any:
    """Return a matrix of real numbers, with rows first if it is sparse."""
    name = file.name
    if values.ndim != 2:
        raise FileError(
            f"{name} holds an array of shape {values.shape}; a matrix with samples as rows is "
            "needed"
        )
    if 0 in values.shape:
        raise FileError(f"{name} holds a matrix of shape {values.shape}, which is empty")
    if values.dtype.kind not in "biuf":
        raise FileError(f"{name} holds values of type {values.dtype}; real numbers are needed")
    if is_sparse(values):
        rows, columns = values.shape  # whose ends, and names, are not in the file
        check_expanded(8 * rows + (8 + sys.getsizeof(f"x{columns}")) * columns, 0)
        with file.guarded():
            values = sparse.csr_array(checked_sparse(values))
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _from_matrix(cells: Cells, names: list[str], options: ReadOptions) -> Table:
    asked = split_names(options.color_by or (), [*cells.beside, *names])
    others = [name for name in asked if not fnmatch.filter(cells.beside, name)]
    options = replace(options, color_by=others)
    values, rows, label = cells.values, cells.rows, options.label(names)
    keep = options.keep(names, label)
    if label is not None:
        rows = [cell_text(cell) for cell in as_dense(values[:, [label]]).ravel()]
    beside = {names[j]: as_dense(values[:, [j]]).ravel() for j in options.beside(names)}
    groups = {name: _as_group(column, None) for name, column in cells.beside.items()}
    groups |= {name: column.astype(np.float64).tolist() for name, column in beside.items()}
    if len(keep) < len(names):
        values = values[:, keep]
        names = [names[j] for j in keep]
    return Table(values, names, rows, notes=cells.notes, groups=groups)


def _without_total(table: Table) -> Table:
    """Leave out a last row that adds up the others, as spreadsheets have one."""
    if is_sparse(table.values) or len(table.values) < 5:  # of so few, one may be that by chance
        return table
    above, total = table.values[:-1], table.values[-1]
    with np.errstate(invalid="ignore", over="ignore"):  # infinite cells are refused later
        # rounding of the cells adds up, too
        near = np.abs(np.nansum(above, axis=0) - total) <= 1e-4 * np.nansum(np.abs(above), axis=0)
    if not near.all() or np.count_nonzero(total) < 2:
        return table
    note = "the last row is the sum of the others and was left out"
    return replace(table.taking(range(len(above))), notes=[*table.notes, note])


def _as_group(entries: list[Any], decimal: str | None) -> list[Any]:
    """Return cells as numbers or, if any of them is none, as texts."""
    found = [as_number(cell, decimal) for cell in entries]
    texts = [cell_text(cell).strip() for cell in entries]
    return texts if any(number is None for number in found) else found


def _as_numbers(cells: Cells, keep: Sequence[int]) -> tuple[np.ndarray, dict[int, Text]]:
    """Return numbers, and what is known of columns with text."""
    frame = cells.values.iloc[:, keep]
    if all(dtype.kind in "biuf" for dtype in frame.dtypes):
        return np.ascontiguousarray(frame.to_numpy(dtype=np.float64)), {}
    values, text, grouped, signed = np.empty(frame.shape), {}, None, None
    for j, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, j]
        if dtype.kind in "biuf":
            values[:, j] = column
            continue
        entries = column.tolist()
        found = [as_number(cell, cells.decimal) for cell in entries]
        values[:, j] = [np.nan if number is None else number for number in found]
        odd = [cell for cell, number in zip(entries, found, strict=True) if number is None]
        odd = odd or _differently_signed(entries, values[:, j])
        texts = [cell for cell in entries if isinstance(cell, str)]
        if odd:  # in all rows if only blanks are between them
            count = len(entries) if np.isnan(values[:, j]).all() else len(odd)
            text[j] = Text(count, cell_text(odd[0]).strip(), len(set(map(cell_text, odd))))
        elif cells.decimal == "." and grouped is None:
            grouped = next((cell for cell in texts if "," in cell), None)
        if not odd and signed is None:
            signed = next((cell.strip() for cell in texts if split_sign(cell)[1]), None)
    if signed is not None:
        cells.notes.append(
            f"currency and percent signs were ignored: {signed} is "
            f"{parse_number(signed, cells.decimal or '.'):.15g}"
        )
    if grouped is not None:
        cells.notes.append(
            f"commas between thousands were ignored: {grouped} is "
            f"{parse_number(grouped, '.'):.15g} (--decimal , if they are decimal marks)"
        )
    return values, text


def _differently_signed(entries: list[Any], values: np.ndarray) -> list[Any]:
    """Return the cells with another sign (%, $) than the first, if these cannot be compared."""
    known = [cell for cell, value in zip(entries, values, strict=True) if not np.isnan(value)]
    signs = [split_sign(cell)[1] if isinstance(cell, str) else "" for cell in known]
    if len(set(signs)) < 2 or ("%" not in signs and len(set(signs) - {""}) < 2):
        return []  # either $ or nothing; not 5 % and 0.05, or $ and €
    return [cell for cell, sign in zip(known, signs, strict=True) if sign != signs[0]]


def _labels(column: Any) -> list[str]:
    """Return cells as text; whole numbers have no decimals, and midnight everywhere is omitted."""
    cells = [cell_text(cell) for cell in column.tolist()]
    if cells and all(cell.endswith(_MIDNIGHT) for cell in cells):
        return [cell.removesuffix(_MIDNIGHT) for cell in cells]
    if all(_WHOLE.fullmatch(cell) for cell in cells):
        return [cell.partition(".")[0] for cell in cells]
    return cells


def _problems(name: str, table: Table, text: dict[str, Text], options: ReadOptions) -> str:
    """Say all that is wrong with cells at once, and with which options a fit would work.

    `table` has the columns of numbers, and `text` describes the others.
    """
    places = np.empty((0, 2), dtype=int)
    if options.drop_missing is None and table.column_names:
        places = _bad_places(table, options)
    said = [_text_words(text, len(table.values))] if text else []
    said += [_missing_words(table, places)] if len(places) else []
    if options.only is not None:
        advice = "the model needs these columns, so correct the cells"
        if not text:
            advice = "fill them in, or leave out the rows with --drop-missing rows"
    elif len(table.column_names) < 2:
        advice = (
            "fewer than two columns of numbers are left; write cells as plain numbers, or check "
            "the decimal mark (--decimal) and the separator (--separator)"
        )
        if text and all(2 * one.cells < len(table.values) for one in text.values()):
            advice = (
                "all other cells are numbers; leave out lines above the names of the columns with "
                "--skip-lines, delete a second row of names or units (of a text file: sed 2d "
                f"{_quoted(name)} | ebcd fit - -o OUT), or correct the cells (empty ones count as "
                "missing)"
            )
        elif text and table.column_names:
            advice += ", or reshape a table with one value in each row to a column per feature"
    elif not text:
        advice = _missing_advice(table, places)
    elif not len(places):
        advice = _text_advice(text, table, options)
    else:
        advice = _missing_advice(table, places, "text and ", "--numeric-only ")
    return f"{name}: {'; '.join(said)}; {advice}"


def _text_words(text: dict[str, Text], rows: int) -> str:
    parts = [
        f"{column!r} ({cell!r}{'' if count == rows else f' in {count} of {rows} rows'})"
        for column, (count, cell, _) in text.items()
    ]
    return f"{len(text)} {'columns hold' if len(text) > 1 else 'column holds'} text: {_some(parts)}"


def _text_advice(text: dict[str, Text], table: Table, options: ReadOptions) -> str:
    names = list(text)
    which = "it" if len(names) == 1 else "one"
    if len(names) > 5:
        advice = "leave them out with --numeric-only"
    else:
        them = "it" if len(names) == 1 else "them"
        advice = f"leave {them} out with --drop {_quoted(','.join(names))}, or with --numeric-only"
    if any(count < len(table.values) for count, _, _ in text.values()):
        advice = f"correct the cells, or {advice}"
    elif options.color_by is not None:
        fewest = min(names, key=lambda name: text[name].kinds)
        advice += f", or color the biplot by {which} with --color-by {_quoted(fewest)}"
    most = max(names, key=lambda name: text[name].kinds)
    if table.row_names is None or text[most].kinds == len(table.values):
        advice += f", or use {which} as row names with --index {_quoted(most)}"
    return advice


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _without_missing(name: str, table: Table, options: ReadOptions) -> Table:
    values, drop = table.values, options.drop_missing
    places = _bad_places(table, options)
    if not len(places):
        _check_columns(name, table)
        return table
    if drop is None:
        raise FileError(_problems(name, table, {}, options))
    axis = 0 if drop == "rows" else 1
    gone = np.unique(places[:, axis])
    kept = np.setdiff1d(np.arange(values.shape[axis]), gone)
    if kept.size == 0:
        other = "columns" if drop == "rows" else "rows"
        raise FileError(
            f"{name}: all {drop} have missing cells; try --drop-missing {other}, or leave out "
            "the columns with the most missing cells with --drop"
        )
    what, verb = (drop[:-1], "was") if gone.size == 1 else (drop, "were")
    which = "" if drop == "rows" else f" ({_some([table.column_names[j] for j in gone])})"
    notes = [
        *table.notes,
        f"{gone.size} {what} with missing cells{which} {verb} left out, {kept.size} remain",
    ]
    if drop == "rows":
        left = table.taking(kept.tolist())
        return replace(left, row_numbers=kept.tolist(), notes=notes)
    names = [table.column_names[j] for j in kept]
    return replace(table, values=values[:, kept], column_names=names, notes=notes)


def _bad_places(table: Table, options: ReadOptions) -> np.ndarray:
    """Return row and column of cells that are missing or infinite; only those if some are kept."""
    places = bad_places(table.values)
    if not options.keep_missing or options.drop_missing is not None or not len(places):
        return places
    cells = np.asarray(table.values[places[:, 0], places[:, 1]]).ravel()
    return np.asarray(places[np.isinf(cells)])


def _check_columns(name: str, table: Table) -> None:
    """Refuse columns without any cell."""
    missing = bad_places(table.values)
    rows, columns = table.values.shape
    empty = np.flatnonzero(np.bincount(missing[:, 1], minlength=columns) == rows)
    if empty.size:
        names = [table.column_names[j] for j in empty]
        raise FileError(
            f"{name}: columns without any values cannot be used; leave them out with --drop "
            f"{_quoted(','.join(names))}"
        )


def describe_missing(table: Table) -> str:
    """Say which cells are missing, and how to go on without them."""
    places = bad_places(table.values)
    return f"{_missing_words(table, places)}; {_missing_advice(table, places)}"


def _missing_words(table: Table, places: np.ndarray) -> str:
    row, column = places[0]
    label = f" ({table.row_names[row]!r})" if table.row_names else ""
    infinite = np.isinf(table.values.data if is_sparse(table.values) else table.values).sum()
    what = "missing" if infinite == 0 else f"missing or infinite ({infinite} infinite)"
    cells = "1 cell is" if len(places) == 1 else f"{len(places)} cells are"
    first = f"the first in row {row + 1}{label}, column {table.column_names[column]!r}"
    return f"{cells} {what}, {first}"


def _missing_advice(table: Table, places: np.ndarray, what: str = "", by: str = "") -> str:
    """Say how to go on without rows or columns, and `what` else, by the option `by`."""
    gone = {way: len(np.unique(along)) for way, along in zip(_AXES, places.T, strict=True)}
    size = dict(zip(_AXES, table.values.shape, strict=True))
    possible = [way for way in _AXES if size[way] - gone[way] >= 2]
    possible.sort(key=lambda way: gone[way] / size[way])  # what leaves more cells first
    parts = [
        f"the {gone[way]} of {size[way]} {way} with {by}--drop-missing {way}" for way in possible
    ]
    if parts:
        return f"leave out {what}{', or '.join(parts)}"
    worst = table.column_names[int(np.bincount(places[:, 1]).argmax())]
    return (
        "every row or nearly every column has some; leave out the columns with the most, as in "
        f"{by}--drop {_quoted(worst)}"
    )


def _some(names: list[str]) -> str:
    """Write the first names of a list, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more


def missing_features(name: str, missing: list[str], features: Collection[str]) -> str:
    """Say which features of a model a file does not have."""
    return (
        f"{name}: {len(missing)} of the {len(features)} features of the model are missing: "
        f"{_some(missing)}; columns are matched by name"
    )
