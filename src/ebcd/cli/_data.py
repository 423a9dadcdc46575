"""Data as the commands use them: read, checked, and prepared as asked for."""

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
        """Do all but the last."""
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
    """Sort rows by date: a change from one day to the day before has no meaning."""
    labels = table.row_names or []
    days = days_of(labels)
    if days is None or (np.diff(days) >= 0).all():
        return table
    order = np.argsort(days, kind="stable")
    names = [labels[i] for i in order]
    note = f"rows were sorted by date for {option}: {names[0]} to {names[-1]}"
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


def standardized(table: Table) -> tuple[Table, Any]:
    """Divide columns by their standard deviations, which are returned as well (1 for constants)."""
    values = table.values
    if is_sparse(values):
        mean = np.asarray(values.mean(axis=0)).ravel()
        square = np.asarray(values.multiply(values).mean(axis=0)).ravel()
        sd = np.sqrt(np.maximum(square - mean**2, 0.0))
    else:
        sd = np.std(values, axis=0, dtype=np.float64)
    sd = np.where(sd > 0, sd, 1.0)
    return replace(table, values=_divided(values, sd)), sd


def _divided(values: Any, sd: Any) -> Any:
    if is_sparse(values):  # whose zeros stay zeros
        return (values @ sparse.diags_array(1 / sd)).tocsr()
    return values / sd


def load_data(
    path: Path, steps: Steps, *, center: bool, **reading: Any
) -> tuple[Table, Any | None]:
    """Read data with one sample per row; also return the sd if columns were divided by it."""
    table = steps.apply(read_table(path, **reading))
    values = table.values
    rows, columns = values.shape
    if rows < 2:
        raise ValueError(f"{path}: {_count(rows, 'row')} of data, at least two are needed")
    if columns < 2:
        raise ValueError(
            f"{path}: {_count(columns, 'column')} of numbers ({', '.join(table.column_names)}), at "
            "least two are needed; if there are more, give the separator with --separator"
        )
    if center and _is_constant(values):
        raise ValueError(f"{path}: every column is constant, so there is nothing to decompose")
    if rows == columns and not is_sparse(values) and np.allclose(values, values.T):
        note = "the table is square and symmetric; if it is a covariance matrix, add --covariance"
        table = replace(table, notes=[*table.notes, f"{note} --n-samples N"])
    return standardized(table) if steps.standardize else (table, None)


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
    S = table.values.toarray() if is_sparse(table.values) else table.values
    if not np.any(S):
        raise ValueError(f"{path}: every variance is zero, so there is nothing to decompose")
    if not steps.standardize:
        return replace(table, values=S), None
    variances = np.diagonal(S)
    sd = np.sqrt(np.where(variances > 0, variances, 1.0))
    return replace(table, values=S / sd / sd[:, None]), sd


def _count(number: int, what: str) -> str:
    return f"one {what}" if number == 1 else f"{number or 'no'} {what}s"


def _is_constant(values: Any) -> bool:
    if is_sparse(values):
        return bool((values.max(axis=0) - values.min(axis=0)).nnz == 0)
    return all(np.array_equal(row, values[0]) for row in values)


def scores_of(model: Any, summary: dict[str, Any], path: Path, **reading: Any) -> tuple[Any, Table]:
    """Read new data, prepare them as those of the fit were, and return their scores.

    Columns are matched with the features of the model by their names.
    """
    steps = Steps(**summary.get("steps", {}))
    features = [str(name) for name in model._feature_names()]
    if not steps.transpose:  # other columns need not even be numbers
        reading["only"] = features
    table = _matched(steps.apply(read_table(path, **reading)), features, path)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the data are an array here, in the right order
    if not hasattr(model, "mean_"):
        note = "the model was fitted to a covariance, without means: data should be centred"
        table = replace(table, notes=[*table.notes, note])
    values = table.values
    if steps.standardize:
        values = _divided(values, np.array(summary["standard_deviations"]))
    return model.transform(values), table


def _matched(table: Table, features: list[str], path: Path) -> Table:
    places = {name: j for j, name in enumerate(table.column_names)}
    if table.column_names == features:
        return table
    nameless = table.column_names == [f"x{j}" for j in range(len(features))]
    if nameless and not any(name in places for name in features):
        note = "the columns have no names; they were taken in the order of the fit"
        return replace(table, notes=[*table.notes, note])
    missing = [name for name in features if name not in places]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise ValueError(
            f"{path}: {len(missing)} of the {len(features)} features of the model are missing: "
            f"{shown}; columns are matched by their names"
        )
    order = np.array([places[name] for name in features])
    return replace(table, values=table.values[:, order], column_names=features)
