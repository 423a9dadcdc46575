"""Read a data file into a matrix with names: formats, columns, text and missing cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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
    unique_names,
)
from ebcd.data.files._open import DataFile, FileError, open_file
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
_OPTIONS_OF = {"key": "NPZ", "layer": "HDF5", "sheet": "Excel"}


@dataclass(frozen=True)
class Table:
    """A matrix, dense or sparse, of finite numbers with names."""

    values: Any
    column_names: list[str]  # no two alike
    row_names: list[str] | None = None
    index_name: str = ""  # of the column with the names of the rows
    notes: list[str] = field(default_factory=list)  # on how the file was read, for people
    row_numbers: Sequence[int] | None = None  # in the file, from 0, if some rows were left out

    @property
    def labels(self) -> list[str] | None:
        """Names of the rows, or their numbers in the file if those have gaps."""
        if self.row_names is not None or self.row_numbers is None:
            return self.row_names
        return [str(number) for number in self.row_numbers]

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

    It may be compressed. Its format is recognised by its content, not by its name. The options are
    those of `ReadOptions`.
    """
    asked = ReadOptions(**options)
    with open_file(path) as file:
        _check_options(file, asked)
        table = _chosen(file.name, READERS[file.kind](file, asked), asked)
        table = replace(table, notes=file.notes + table.notes)
        return _without_missing(file.name, table, asked.drop_missing)


def _check_options(file: DataFile, options: ReadOptions) -> None:
    for option, kind in _OPTIONS_OF.items():
        if getattr(options, option) is not None and file.kind != kind:
            files = "h5ad" if kind == "HDF5" else kind
            raise FileError(f"--{option} is for {files} files, and {file.name} is none; omit it")


def _chosen(name: str, cells: Cells, options: ReadOptions) -> Table:
    """Choose columns and turn their cells into numbers; a column of text is an error."""
    is_frame = hasattr(cells.values, "iloc")
    if not is_frame:
        cells.values = _checked_matrix(name, cells.values)
    header = cells.header or [""] * cells.values.shape[1]
    names, again = unique_names([given or f"x{j}" for j, given in enumerate(header)])
    if again:
        cells.notes.append(f"columns with the same name were numbered: {', '.join(again[:5])}")
    if not is_frame:
        return _from_matrix(cells, names, options)
    keep = options.keep(names, cells.label)
    values, text = _as_numbers(cells, keep)
    found = {names[keep[j]]: what for j, what in text.items()}
    labels, label_name = None, ""
    if cells.label is not None:
        labels = _labels(cells.values.iloc[:, cells.label])
        label_name = cells.header[cells.label] if cells.header else ""
        if cells.guessed and look_like_groups(labels):  # so they do not name the rows
            if not options.columns and options.only is None:
                found = {names[cells.label]: (len(labels), labels[0]), **found}
            labels, label_name = None, ""
    if found:
        raise FileError(_text_message(name, found, len(values), labels is None))
    if label_name and options.index is None:
        cells.notes.append(f"rows are named by the column {label_name!r}")
    return Table(values, [names[j] for j in keep], labels, label_name, cells.notes)


def _checked_matrix(name: str, values: Any) -> Any:
    """Return a matrix of real numbers, with rows first if it is sparse."""
    if values.ndim != 2:
        raise FileError(
            f"{name} holds an array of shape {values.shape}; a matrix with samples as rows is "
            "needed"
        )
    if values.dtype.kind not in "biuf":
        raise FileError(f"{name} holds values of type {values.dtype}; real numbers are needed")
    if is_sparse(values):
        values = sparse.csr_array(checked_sparse(values))
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _from_matrix(cells: Cells, names: list[str], options: ReadOptions) -> Table:
    values, rows, label = cells.values, cells.rows, options.label(names)
    keep = options.keep(names, label)
    if label is not None:
        rows = [cell_text(cell) for cell in as_dense(values[:, [label]]).ravel()]
    if len(keep) < len(names):
        values = values[:, keep]
    return Table(values, [names[j] for j in keep], rows, notes=cells.notes)


def _as_numbers(cells: Cells, keep: list[int]) -> tuple[np.ndarray, dict[int, tuple[int, str]]]:
    """Return numbers, and for columns with text how many such cells there are, and the first."""
    frame = cells.values.iloc[:, keep]
    if all(dtype.kind in "biuf" for dtype in frame.dtypes):
        return np.ascontiguousarray(frame.to_numpy(dtype=np.float64)), {}
    values, text, grouped = np.empty(frame.shape), {}, None
    for j, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, j]
        if dtype.kind in "biuf":
            values[:, j] = column
            continue
        entries = column.tolist()
        found = [as_number(cell, cells.decimal) for cell in entries]
        values[:, j] = [np.nan if number is None else number for number in found]
        odd = [cell for cell, number in zip(entries, found, strict=True) if number is None]
        if odd:
            text[j] = (len(odd), cell_text(odd[0]).strip())
        elif cells.decimal == "." and grouped is None:
            grouped = next((c for c in entries if isinstance(c, str) and "," in c), None)
    if grouped is not None:
        cells.notes.append(
            f"commas between thousands were left out: {grouped} is "
            f"{parse_number(grouped, '.'):.15g} (--decimal , if they are decimal marks)"
        )
    return values, text


def _labels(column: Any) -> list[str]:
    """Return cells as text; a time of day that is midnight everywhere is left out."""
    cells = [cell_text(cell) for cell in column.tolist()]
    if cells and all(cell.endswith(_MIDNIGHT) for cell in cells):
        return [cell.removesuffix(_MIDNIGHT) for cell in cells]
    return cells


def _text_message(
    name: str, text: dict[str, tuple[int, str]], rows: int, without_labels: bool
) -> str:
    """Say which columns hold text and how to go on without them."""
    parts = [
        f"{column!r} ({cell!r}{'' if count == rows else f' in {count} of {rows} rows'})"
        for column, (count, cell) in list(text.items())[:5]
    ]
    more = f" and {len(text) - 5} more" if len(text) > 5 else ""
    names = list(text)
    plural = "columns hold" if len(names) > 1 else "column holds"
    if all(cell.endswith("%") for _, cell in text.values()):
        advice = "remove the % signs"
    elif len(names) > 5:
        advice = "choose the columns of numbers with --columns"
    elif any(count < rows for count, _ in text.values()):
        advice = f"correct the cells, or leave out columns with --drop {_quoted(','.join(names))}"
    else:
        advice = f"leave out with --drop {_quoted(','.join(names))}"
    if without_labels:
        advice += f", or name the rows by one with --index {_quoted(names[0])}"
    return f"{name}: {len(names)} {plural} text: {', '.join(parts)}{more}; {advice}"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _without_missing(name: str, table: Table, drop: str | None) -> Table:
    values = table.values
    places = bad_places(values)
    if not len(places):
        return table
    if drop is None:
        raise FileError(_missing_message(name, table, places))
    axis = 0 if drop == "rows" else 1
    gone = np.unique(places[:, axis])
    kept = np.setdiff1d(np.arange(values.shape[axis]), gone)
    if kept.size == 0:
        other = "columns" if drop == "rows" else "rows"
        raise FileError(
            f"{name}: all {drop} have missing cells; --drop-missing {other} may leave some, or "
            "drop the columns with most of them by --drop"
        )
    notes = [*table.notes, _left_out_note(table, drop, gone, kept.size)]
    if drop == "rows":
        labels = table.row_names and [table.row_names[i] for i in kept]
        return replace(
            table, values=values[kept], row_names=labels, row_numbers=kept.tolist(), notes=notes
        )
    names = [table.column_names[j] for j in kept]
    return replace(table, values=values[:, kept], column_names=names, notes=notes)


def _left_out_note(table: Table, drop: str, gone: np.ndarray, left: int) -> str:
    if gone.size == 1:
        drop = drop.removesuffix("s")
    verb = "was" if gone.size == 1 else "were"
    which = "" if drop.startswith("row") else f": {_some([table.column_names[j] for j in gone])}"
    return f"{gone.size} {drop} with missing cells {verb} left out, {left} are left{which}"


def _missing_message(name: str, table: Table, places: np.ndarray) -> str:
    row, column = places[0]
    label = f" ({table.row_names[row]!r})" if table.row_names else ""
    n_rows, n_columns = (len(np.unique(along)) for along in places.T)
    infinite = np.isinf(table.values.data if is_sparse(table.values) else table.values).sum()
    what = "missing" if infinite == 0 else f"missing or infinite ({infinite} infinite)"
    cells = "1 cell is" if len(places) == 1 else f"{len(places)} cells are"
    return (
        f"{name}: {cells} {what}, the first in row {row + 1}{label}, column "
        f"{table.column_names[column]!r}; leave out the {n_rows} of {table.values.shape[0]} rows "
        f"with --drop-missing rows, or the {n_columns} of {table.values.shape[1]} columns with "
        "--drop-missing columns"
    )


def _some(names: list[str]) -> str:
    """Write the first names of a list, and how many more there are."""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(names[:5]) + more
