"""Read a data file into a matrix with names: formats, columns, text and missing cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ebcd.data import is_sparse
from ebcd.io._binary import read_h5ad, read_matrix_market, read_npy, read_npz, read_parquet
from ebcd.io._columns import Raw, Selection
from ebcd.io._source import Source, open_source
from ebcd.io._text import TextOptions, read_text


@dataclass(frozen=True)
class Table:
    """A matrix with names.

    Attributes
    ----------
    values : ndarray or sparse array
        The numbers, all finite.
    column_names : list of str
        Names of the columns, no two alike.
    row_names : list of str or None
        Names of the rows, if there are any.
    index_name : str
        Name of the column with the names of the rows.
    notes : list of str
        What a person should know about how the file was read.
    """

    values: Any
    column_names: list[str]
    row_names: list[str] | None = None
    index_name: str = ""
    notes: list[str] = field(default_factory=list)

    def transposed(self) -> Table:
        """Exchange rows and columns."""
        rows = self.row_names or [f"x{i}" for i in range(self.values.shape[0])]
        return replace(
            self,
            values=self.values.T.tocsr() if is_sparse(self.values) else self.values.T,
            column_names=rows,
            row_names=self.column_names,
            index_name="",
        )


def read_table(
    path: Path,
    *,
    index: str | None = None,
    columns: Sequence[str] = (),
    drop: Sequence[str] = (),
    only: Sequence[str] | None = None,
    drop_missing: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    skip_lines: int = 0,
    key: str | None = None,
    layer: str | None = None,
) -> Table:
    r"""Read a CSV, TSV, Parquet, NPY, NPZ, Matrix Market or h5ad file, plain or compressed.

    The format is told by the content of the file, not by its name. Errors name the options of the
    command line.

    Parameters
    ----------
    path : Path
        The file; ``-`` is standard input.
    index : str, optional
        Column with the names of the rows, or "none"; by default the first column, if it looks like
        names or dates.
    columns, drop : sequence of str
        Columns to read, all by default, and columns to leave out.
    only : sequence of str, optional
        Columns to read if they are there, as far as they are there.
    drop_missing : "rows" or "columns", optional
        What to leave out where cells are missing; by default they are an error.
    separator, decimal : str, optional
        How a table of text is written.
    header : bool, optional
        Whether the first row of a text table has the names of the columns.
    skip_lines : int
        Lines above a text table.
    key, layer : str, optional
        Array of an NPZ file, layer of an h5ad file.

    Returns
    -------
    Table

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ebcd.io._tables import read_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "jobs.csv"
    ...     _ = path.write_text("month;mining;trade\n2006-01;1,5;2\n2006-02;1,75;2,5\n")
    ...     table = read_table(path)
    >>> table.row_names, table.column_names
    (['2006-01', '2006-02'], ['mining', 'trade'])
    >>> table.values
    array([[1.5 , 2.  ],
           [1.75, 2.5 ]])
    """
    wanted = None if only is None else frozenset(only)
    selection = Selection(index, tuple(columns), tuple(drop), wanted)
    with open_source(path) as source:
        raw = _read(
            source, selection, TextOptions(separator, decimal, header, skip_lines), key, layer
        )
        notes = source.notes + raw.notes
    if raw.text:
        raise ValueError(_text_message(path, raw))
    if raw.labels is not None and raw.label_name and index is None:
        notes.append(f"rows are named by the column {raw.label_name!r}")
    index_name = raw.label_name if raw.labels is not None else ""
    table = Table(raw.values, raw.names, raw.labels, index_name, notes)
    return _without_missing(path, table, drop_missing)


def _read(
    source: Source, selection: Selection, options: TextOptions, key: str | None, layer: str | None
) -> Raw:
    for option, given, kind in (("--key", key, "NPZ"), ("--layer", layer, "HDF5")):
        if given is not None and source.kind != kind:
            files = "h5ad" if kind == "HDF5" else kind
            raise ValueError(
                f"{option} is for {files} files, and {source.name} is none; leave it out"
            )
    match source.kind:
        case "Parquet":
            return read_parquet(source, selection)
        case "NPY":
            return read_npy(source, selection)
        case "NPZ":
            return read_npz(source, selection, key)
        case "HDF5":
            return read_h5ad(source, selection, layer)
        case "Matrix Market":
            return read_matrix_market(source, selection)
    return read_text(source, selection, options)


def _text_message(path: Path, raw: Raw) -> str:
    """Say which columns hold text and how to go on without them."""
    rows = raw.values.shape[0]
    parts = [
        f"{name!r} ({cell!r}{'' if count == rows else f' in {count} of {rows} rows'})"
        for name, (count, cell) in list(raw.text.items())[:5]
    ]
    more = f" and {len(raw.text) - 5} more" if len(raw.text) > 5 else ""
    names = list(raw.text)
    plural = "columns hold" if len(names) > 1 else "column holds"
    if all(cell.strip().endswith("%") for _, cell in raw.text.values()):
        advice = "take away the % signs"
    elif len(names) > 5:
        advice = "choose the columns of numbers with --columns"
    elif any(count < rows for count, _ in raw.text.values()):
        advice = f"correct the cells, or leave out columns with --drop {_quoted(','.join(names))}"
    else:
        advice = f"leave out with --drop {_quoted(','.join(names))}"
    if raw.labels is None:
        advice += f", or name the rows by one with --index {_quoted(names[0])}"
    where = "standard input" if str(path) == "-" else path
    return f"{where}: {len(names)} {plural} text: {', '.join(parts)}{more}; {advice}"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _without_missing(path: Path, table: Table, drop: str | None) -> Table:
    values = table.values
    bad = ~np.isfinite(values.data if is_sparse(values) else values)
    if not bad.any():
        return table
    if is_sparse(values):
        places = values.tocoo()
        rows, columns = places.row[bad], places.col[bad]
    else:
        rows, columns = np.nonzero(bad)
    if drop is None:
        raise ValueError(_missing_message(path, table, rows, columns))
    axis, gone = (0, np.unique(rows)) if drop == "rows" else (1, np.unique(columns))
    kept = np.setdiff1d(np.arange(values.shape[axis]), gone)
    if kept.size == 0:
        other = "columns" if drop == "rows" else "rows"
        raise ValueError(
            f"{path}: all {drop} have missing cells; --drop-missing {other} may leave some, or "
            "drop the columns with most of them by --drop"
        )
    notes = [*table.notes, f"{gone.size} {drop} with missing cells left out, {kept.size} are left"]
    if drop == "rows":
        names = table.row_names and [table.row_names[i] for i in kept]
        return replace(table, values=values[kept], row_names=names, notes=notes)
    names = [table.column_names[j] for j in kept]
    return replace(table, values=values[:, kept], column_names=names, notes=notes)


def _missing_message(path: Path, table: Table, rows: Any, columns: Any) -> str:
    order = np.lexsort((columns, rows))
    row, column = int(rows[order[0]]), int(columns[order[0]])
    label = f" ({table.row_names[row]!r})" if table.row_names else ""
    n_rows, n_columns = len(np.unique(rows)), len(np.unique(columns))
    infinite = np.isinf(table.values.data if is_sparse(table.values) else table.values).sum()
    what = "missing" if infinite == 0 else f"missing or infinite ({infinite} infinite)"
    cells = "1 cell is" if len(rows) == 1 else f"{len(rows)} cells are"
    return (
        f"{path}: {cells} {what}, the first in row {row + 1}{label}, column "
        f"{table.column_names[column]!r}; leave out the {n_rows} of {table.values.shape[0]} rows "
        f"with --drop-missing rows, or the {n_columns} of {table.values.shape[1]} columns with "
        "--drop-missing columns"
    )
