"""Data as the commands use them: read, checked and prepared."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ebcd._parameters import printable
from ebcd.cli._progress import Display
from ebcd.data import Input, Reading, as_dense, as_input, is_sparse
from ebcd.data._moments import bad_places
from ebcd.data._rows import is_mapped
from ebcd.data._settings import SETTINGS
from ebcd.data.files._columns import ReadOptions
from ebcd.data.files._table import Table, missing_features, read_table
from ebcd.estimators._readable import UNEVEN, spread
from ebcd.report._dates import days_of
from ebcd.report._words import count, listed


@dataclass(frozen=True)
class Steps:
    """What is done to a table before a fit, in this order."""

    transpose: bool = False
    log_returns: bool = False
    difference: bool = False
    standardize: bool = False

    def __post_init__(self) -> None:
        if self.log_returns and self.difference:
            raise ValueError("--log-returns already takes differences; leave out --difference")

    def words(self) -> list[str]:
        """Say what was done, for the report."""
        said = {
            "transpose": "rows and columns were swapped (--transpose)",
            "log_returns": "values are differences of logarithms from row to row (--log-returns)",
            "difference": "values are differences from row to row (--difference)",
            "standardize": "columns were divided by their standard deviations (--standardize), so "
            "loadings are in standard deviations",
        }
        return [words for step, words in said.items() if getattr(self, step)]

    def apply(self, table: Table) -> Table:
        """Do everything but standardize."""
        if self.transpose:
            if table.groups:
                raise ValueError("--color-by needs a column, but --transpose makes it a row")
            table = table.transposed()
        if not (self.log_returns or self.difference):
            return table
        option = "--log-returns" if self.log_returns else "--difference"
        if is_sparse(table.values):
            raise ValueError(f"{option} requires dense data, but the data are sparse")
        if table.values.shape[0] < 2:
            raise ValueError(f"{option} needs at least two rows, got {table.values.shape[0]}")
        table = _in_time(table, option)
        values = _logarithms(table) if self.log_returns else table.values
        numbers = range(len(values))
        return replace(
            table.taking(numbers[1:]),  # a change belongs to its later row
            values=np.diff(values, axis=0),
            row_numbers=(table.row_numbers or numbers)[1:],
        )


@dataclass(frozen=True)
class Prepared:
    """Data for a fit, or with `n_samples` the covariance matrix of that many samples."""

    table: Table
    steps: Steps
    n_samples: int | None = None
    sd: Any = None  # what the columns were divided by, if anything
    warnings: Sequence[str] = ()  # about what may mislead, shown before the results

    def fit(self, model: Any) -> Any:
        """Fit a model to the data or the covariance."""
        if self.n_samples is None:
            return model.fit(self.table.values)
        if not hasattr(model, "fit_covariance"):
            raise ValueError("needs the data; a covariance matrix is not enough")
        return model.fit_covariance(self.table.values, self.n_samples)

    @property
    def rows(self) -> Any:
        """The data as a matrix whose rows can be chosen, even if it stays on disk."""
        return self.table.values if is_sparse(self.table.values) else np.asarray(self.table.values)

    @property
    def halves(self) -> str:
        """How to draw halves of the rows: random ones of a time series have the same trends."""
        return "random" if order_in_time(self.table) is None else "blocks"

    def record(self) -> dict[str, Any]:
        """Return what `scores_of` needs to prepare new data in the same way."""
        known = {} if self.sd is None else {"standard_deviations": self.sd}
        return {"steps": asdict(self.steps), **known}


def remarks(warned: Iterable[str], steps: Iterable[str], notes: Iterable[str]) -> list[str]:
    """Return warnings, steps of preparation and notes as sentences for a report."""
    lines = [*(f"warning: {words}" for words in warned), *steps, *notes]
    return [printable(f"{line[:1].upper()}{line[1:].rstrip('.')}.") for line in lines]


def picked(given: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values that were given for some options."""
    return {name: given[name] for name in names if given.get(name) is not None}


def read(path: Path, given: dict[str, Any], **also: Any) -> Table:
    """Read a table with those of the options `given` that say how."""
    return read_table(path, **picked(given, (one.name for one in fields(ReadOptions))), **also)


def load(path: Path, steps: Steps, shown: Display, given: dict[str, Any]) -> Prepared:
    """Read and prepare data, or a covariance matrix, for a fit with the options `given`."""
    n_samples, n_components, center = (given[n] for n in ("n_samples", "n_components", "center"))
    shown.stage(f"reading {path}")
    table = steps.apply(read(path, given, keep_missing=n_samples is None))
    if is_mapped(table.values) and table.values.size <= SETTINGS.compared:
        table = replace(table, values=np.array(table.values))  # like data from other formats
    rows, columns = table.values.shape
    samples = n_samples or rows
    most = min(samples, columns)
    if not isinstance(n_components, str) and n_components > most > 1:
        what = f"{samples:,} samples of {columns:,} features"
        raise ValueError(f"-k {n_components} is too many; {what} have at most {most} components")
    if n_samples is not None and table.groups:
        raise ValueError("--color-by needs data with a row for each sample, not a covariance")
    if n_samples is None:
        prepared = _as_data(path, table, steps, center)
    else:
        prepared = _as_covariance(path, table, steps, n_samples)
    _show_notes(prepared.table, shown)
    for warning in prepared.warnings:
        shown.note(f"warning: {warning}")
    what = f"{rows:,} samples" if n_samples is None else "covariance"
    shown.note(f"{what} of {columns:,} features")
    return prepared


def _show_notes(table: Table, shown: Display) -> None:
    for note in table.notes:
        shown.note(f"note: {note}")
    if missing := len(bad_places(table.values)):  # the report has it for every column
        cells = "1 cell is" if missing == 1 else f"{missing:,} cells are"
        share = missing / np.prod(table.values.shape)
        shown.note(f"note: {cells} missing ({share:.1%} of all); the others are used")


def _as_data(path: Path, table: Table, steps: Steps, center: bool) -> Prepared:
    values, names = table.values, table.column_names
    rows, columns = values.shape
    if rows < 2:
        raise ValueError(f"{path}: at least two rows of data are needed, got {rows}")
    if columns < 2:
        raise ValueError(
            f"{path}: at least two columns of numbers are needed, got {columns} "
            f"({', '.join(names)}); if there are more, use --separator"
        )
    seen = _scaled(values)
    constant = seen.variances == 0
    if center and constant.all():
        raise ValueError(f"{path}: every column is constant, so there is nothing to decompose")
    if center and constant.any():
        few = listed([names[j] for j in np.flatnonzero(constant)])
        table = _noted(table, f"constant columns are not in any component: {few}")
    if rows == columns and not is_sparse(values) and np.allclose(values, values.T):
        note = "the table is square and symmetric; if it is a covariance matrix, add --covariance"
        table = _noted(table, f"{note} --n-samples N")
    squares = 0.0 if center else np.asarray(seen.mean) ** 2
    uneven = "" if steps.standardize else _uneven(seen.variances + squares, names)
    warned = [warning for warning in (uneven, _alike(table, seen, steps)) if warning]
    if not steps.standardize:
        return Prepared(table, steps, warnings=warned)
    table = replace(table, values=values / seen.scale)
    return Prepared(table, steps, sd=seen.scale, warnings=warned)


def _uneven(variances: Any, names: list[str]) -> str:
    """Warn if the units of a few columns would decide the components."""
    if spread(variances) <= UNEVEN:
        return ""
    low, high = np.argmin(np.where(variances > 0, variances, np.inf)), np.argmax(variances)
    return (
        f"the variances of the columns differ more than a hundredfold ({names[low]!r}: "
        f"{variances[low]:.3g}, {names[high]!r}: {variances[high]:.3g}), so the columns that vary "
        "most dominate the components; add --standardize to give all columns the same weight"
    )


def _alike(table: Table, seen: Input, steps: Steps) -> str:
    """Warn about dated rows that change less than they vary: chance trends look like components."""
    order = order_in_time(table)
    if order is None or is_sparse(table.values):
        return ""
    varies = seen.variances > 0
    x = np.nan_to_num((table.values - seen.mean) / seen.scale)[order][:, varies]
    total = (x**2).sum()
    if (np.diff(x, axis=0) ** 2).sum() >= total:  # twice that if rows are independent
        return ""
    alike = (x[1:] * x[:-1]).sum() / total
    advice = "; add --difference, or --log-returns for prices, to analyze changes"
    return (
        f"successive dates are similar (mean correlation {alike:.2f}), so the rows are not "
        "independent, and trends that coincide by chance may appear as components with clear signs"
        f"{'' if steps.difference or steps.log_returns else advice}"
    )


def _as_covariance(path: Path, table: Table, steps: Steps, n_samples: int) -> Prepared:
    S, sd = table.values, None
    rows, columns = S.shape
    if rows != columns:
        raise ValueError(
            f"{path}: a covariance matrix is square, but this table has {rows} rows and {columns} "
            "columns of numbers; without --covariance it is read as data"
        )
    if columns < 2:
        raise ValueError(f"{path}: at least two columns of numbers are needed, got {columns}")
    S = as_dense(S)
    if not np.any(S):
        raise ValueError(f"{path}: every variance is zero, so there is nothing to decompose")
    variances = np.diagonal(S)
    warning = "" if steps.standardize else _uneven(variances, table.column_names)
    if steps.standardize:
        sd = np.sqrt(np.where(variances > 0, variances, 1.0))
        S = S / sd / sd[:, None]
    return Prepared(replace(table, values=S), steps, n_samples, sd, [warning] if warning else [])


def standardized(table: Table, steps: Steps) -> Prepared:
    """Divide columns by their standard deviations; constant ones are left alone."""
    sd = _scaled(table.values).scale
    return Prepared(replace(table, values=table.values / sd), steps, sd=sd)


def _scaled(values: Any) -> Input:
    """Check data in which cells may be missing, and take their means and variances."""
    return as_input(values, center=True, scale=True, reading=Reading(holes=True))


def _in_time(table: Table, option: str) -> Table:
    """Sort rows by date, since changes are from the earlier to the later row."""
    order = order_in_time(table)
    if order is None:
        return table
    labels = table.row_names or []
    names = [labels[i] for i in order]
    if again := sum(one == other for one, other in itertools.pairwise(names)):
        rows = f"{count(again, 'row')} {'has' if again == 1 else 'have'}"
        table = _noted(
            table, f"{rows} the date of the row before, so not all changes are over time"
        )
    if (np.diff(order) > 0).all():
        return table
    note = f"rows were sorted by date for {option}: {names[0]} to {names[-1]}"
    return _noted(table.taking(order.tolist()), note)


def order_in_time(table: Table) -> NDArray[np.intp] | None:
    """Return the order of the rows in time, if they have dates."""
    days = days_of(table.row_names or [])
    return None if days is None else np.argsort(days, kind="stable")


def _noted(table: Table, note: str) -> Table:
    return replace(table, notes=[*table.notes, note])


def _logarithms(table: Table) -> Any:
    bad = np.argwhere(np.asarray(table.values) <= 0)
    if len(bad):
        row, names = bad[0, 0], [table.column_names[j] for j in np.unique(bad[:, 1])]
        them = "it" if len(names) == 1 else "them"
        advice = f', or leave {them} out with --drop "{",".join(names)}"' if len(names) <= 5 else ""
        raise ValueError(
            f"--log-returns needs positive numbers, but {count(len(bad), 'cell')} of "
            f"{listed(names)} {'is' if len(bad) == 1 else 'are'} not, the first in row {row + 1}; "
            f"use --difference{advice}"
        )
    return np.log(table.values)


def scores_of(
    model: Any, summary: dict[str, Any], path: Path, given: dict[str, Any], shown: Display
) -> tuple[Any, Table]:
    """Read new data, prepare them as for the fit, and return their scores."""
    steps = Steps(**summary.get("steps", {}))
    features = [str(name) for name in model._feature_names()]
    only = None if steps.transpose else features  # other columns need not even be numbers
    shown.stage(f"reading {path}")
    table = steps.apply(read(path, given, keep_missing=True, only=only))
    table = _matched(table, features, path)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the data are an array here, in the right order
    if not hasattr(model, "mean_"):
        table = _noted(
            table, "the model was fitted to a covariance and has no means; center the data"
        )
    _show_notes(table, shown)
    values = table.values
    if steps.standardize:
        values = values / np.array(summary["standard_deviations"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scores = model.transform(values)
    for warning in caught:
        shown.note(f"warning: {warning.message}")
    return scores, table


def _matched(table: Table, features: list[str], path: Path) -> Table:
    """Put the columns in the order of the features, which have the same names."""
    if table.column_names == features:
        return table
    places = {name: j for j, name in enumerate(table.column_names)}
    missing = [name for name in features if name not in places]
    if not missing:
        order = [places[name] for name in features]
        return replace(table, values=table.values[:, order], column_names=features)
    if table.column_names == [f"x{j}" for j in range(len(features))] and missing == features:
        return _noted(table, "the columns have no names; the order of the fit is assumed")
    raise ValueError(missing_features(str(path), missing, features))
