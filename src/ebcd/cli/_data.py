"""Data as the commands fit them: read, checked, turned into changes if asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ebcd.data import is_sparse
from ebcd.data.files._table import Table, read_table
from ebcd.report._dates import days_of


@dataclass(frozen=True)
class Steps:
    """What is done with a table before a fit, in this order."""

    transpose: bool = False
    log_returns: bool = False
    difference: bool = False
    standardize: bool = False

    def __post_init__(self) -> None:
        if self.log_returns and self.difference:
            raise ValueError("--log-returns takes differences already; leave out --difference")

    def apply(self, table: Table) -> Table:
        """Do all but the last; a mistake is a ValueError that names the option."""
        if self.transpose:
            table = table.transposed()
        if not (self.log_returns or self.difference):
            return table
        option = "--log-returns" if self.log_returns else "--difference"
        if is_sparse(table.values):
            raise ValueError(f"{option} is for dense data, and these are sparse")
        if table.values.shape[0] < 2:
            raise ValueError(f"{option} needs at least two rows, got {table.values.shape[0]}")
        table = _in_time(table, option)
        values = _logarithms(table) if self.log_returns else table.values
        names = table.row_names
        return replace(table, values=np.diff(values, axis=0), row_names=names and names[1:])


def _in_time(table: Table, option: str) -> Table:
    """Put rows that are dates in order: the change from a day to the day before has no meaning."""
    days = days_of(table.row_names or [])
    if days is None or (np.diff(days) >= 0).all():
        return table
    order = np.argsort(days, kind="stable")
    names = [(table.row_names or [])[i] for i in order]
    note = f"rows were put in the order of their dates for {option}: {names[0]} to {names[-1]}"
    notes = [*table.notes, note]
    return replace(table, values=table.values[order], row_names=names, notes=notes)


def _logarithms(table: Table) -> Any:
    bad = np.argwhere(~(np.asarray(table.values) > 0))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"--log-returns needs positive numbers, and {len(bad)} are not, the first in row "
            f"{row + 1}, column {table.column_names[column]!r}; use --difference, or --drop"
        )
    return np.log(table.values)


def standard_deviations(values: Any) -> Any:
    """Give the standard deviation of every column, 1 if it is constant."""
    if is_sparse(values):
        mean = np.asarray(values.mean(axis=0)).ravel()
        square = np.asarray(values.multiply(values).mean(axis=0)).ravel()
        sd = np.sqrt(np.maximum(square - mean**2, 0.0))
    else:
        sd = np.std(values, axis=0, dtype=np.float64)
    return np.where(sd > 0, sd, 1.0)


def divided(values: Any, sd: Any) -> Any:
    """Divide columns, without filling in the zeros of a sparse matrix."""
    if is_sparse(values):
        return (values @ sparse.diags_array(1 / sd)).tocsr()
    return values / sd


def load_data(
    path: Path, steps: Steps, *, center: bool, **reading: Any
) -> tuple[Table, Any | None]:
    """Read data with one sample a row, and check that there is something to decompose.

    Also gives the standard deviations by which columns were divided, if they were.
    """
    table = steps.apply(read_table(path, **reading))
    rows, columns = table.values.shape
    if rows < 2:
        raise ValueError(f"{path}: {_count(rows, 'row')} of data, at least two are needed")
    if columns < 2:
        raise ValueError(
            f"{path}: {_count(columns, 'column')} of numbers ({', '.join(table.column_names)}), at "
            "least two are needed; if there are more, give the separator with --separator"
        )
    if center and _is_constant(table.values):
        raise ValueError(f"{path}: every column is constant, so there is nothing to decompose")
    if (
        rows == columns
        and not is_sparse(table.values)
        and np.allclose(table.values, table.values.T)
    ):
        note = "the table is square and symmetric; if it is a covariance matrix, add --covariance"
        table = replace(table, notes=[*table.notes, f"{note} --n-samples N"])
    if not steps.standardize:
        return table, None
    sd = standard_deviations(table.values)
    return replace(table, values=divided(table.values, sd)), sd


def load_covariance(path: Path, steps: Steps, **reading: Any) -> tuple[Table, Any | None]:
    """Read a covariance matrix, with names of the features from its header."""
    if replace(steps, standardize=False) != Steps():
        raise ValueError("a covariance matrix cannot be transposed or differenced any more")
    table = read_table(path, **reading)
    rows, columns = table.values.shape
    if rows != columns:
        raise ValueError(
            f"{path}: a covariance matrix is square, this table has {rows} rows and {columns} "
            "columns of numbers; without --covariance it is read as data"
        )
    if columns < 2:
        raise ValueError(f"{path}: one column of numbers, at least two are needed")
    if is_sparse(table.values):
        table = replace(table, values=table.values.toarray())
    if not np.any(table.values):
        raise ValueError(f"{path}: every variance is zero, so there is nothing to decompose")
    if not steps.standardize:
        return table, None
    variances = np.diagonal(table.values)
    sd = np.sqrt(np.where(variances > 0, variances, 1.0))
    return replace(table, values=table.values / sd / sd[:, None]), sd


def _count(number: int, what: str) -> str:
    return f"one {what}" if number == 1 else f"{number or 'no'} {what}s"


def _is_constant(values: Any) -> bool:
    if is_sparse(values):
        return bool((values.max(axis=0) - values.min(axis=0)).nnz == 0)
    return all(np.array_equal(row, values[0]) for row in values)
