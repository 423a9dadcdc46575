"""Options that several commands share, with their defaults and help."""

from __future__ import annotations

import dataclasses
import enum
from functools import partial
from typing import Any

import typer

from ebcd.cli._compare import METHODS, SLOW_FAMILIES
from ebcd.data.files._columns import ReadOptions
from ebcd.priors import PRIORS

_MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}

Missing = enum.StrEnum("Missing", ["rows", "columns"])
Decimal = enum.StrEnum("Decimal", {"point": ".", "comma": ","})
Noise = enum.StrEnum("Noise", ["constant", "per_feature"])
Start = enum.StrEnum("Start", ["auto", "greedy", "svd", "varimax"])


def reading(given: dict[str, Any]) -> dict[str, Any]:
    """Pick the options of the panel "Reading the file" that were given."""
    names = [field.name for field in dataclasses.fields(ReadOptions)]
    return {name: given[name] for name in names if given.get(name) is not None}


def _number_or_rule(value: str) -> int | str:
    if value.isdigit() and int(value) > 0:
        return int(value)
    if value in ("auto", "paper"):
        return value
    raise typer.BadParameter(f'{value!r} is neither a positive integer nor "auto" or "paper"')


def _one_or_several(value: str) -> str | list[str]:
    return value.split(",") if "," in value else value


def _separator_mark(value: str | None) -> str | None:
    mark = None if value is None else _MARKS.get(value.lower(), value)
    if mark is not None and len(mark) != 1:
        raise typer.BadParameter(
            f"{value!r} is neither a single character nor one of {', '.join(_MARKS)}"
        )
    return mark


def _option(panel: str, default: Any, help_text: str, *names: str, **settings: Any) -> Any:
    settings = {"show_default": panel == "The model", **settings}
    return typer.Option(default, *names, help=help_text, rich_help_panel=panel, **settings)


_read, _prepare, _model, _result = (
    partial(_option, panel)
    for panel in ("Reading the file", "Preparing the data", "The model", "Results")
)

# The arguments are files and folders that are checked when they are opened.
_argument = partial(typer.Argument, show_default=False, readable=False)

INPUT = _argument(
    metavar="INPUT",
    help="CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or h5ad file, plain or compressed, "
    "with a row per sample and a column per feature; - is standard input.",
)
RESULTS = _argument(metavar="OUT", help="Folder that ebcd fit wrote.")
MODEL = _argument(metavar="MODEL", help="Folder that ebcd fit wrote, or the model.npz in it.")
INDEX = _read(
    None,
    'Column that holds row names or dates, or "none". By default the first column, if it looks '
    "like names or dates.",
    metavar="NAME",
)
COLUMNS = _read(
    None,
    "Columns to use: names separated by commas, with wildcards * and ?; repeatable. By default "
    "all columns.",
    *("--columns", "--features"),
    metavar="NAMES",
)
DROP = _read(None, "Columns to leave out, in the same form.", metavar="NAMES")
DROP_MISSING = _read(None, "Drop the rows (or columns) with missing cells; otherwise an error.")
SEPARATOR = _read(
    None,
    "Separator of a text table: a character, or tab, comma, semicolon, space, pipe. Detected by "
    "default.",
    callback=_separator_mark,
    metavar="MARK",
)
DECIMAL = _read(None, "Decimal mark of a text table. Detected by default.")
HEADER = _read(
    None,
    "Whether the first row of a table contains the column names. Detected by default.",
    "--header/--no-header",
)
SKIP_LINES = _read(0, "Number of lines to skip above a table.", min=0, metavar="N")
SHEET = _read(None, "Sheet of an Excel or OpenDocument file; by default the first.", metavar="NAME")
KEY = _read(None, "Array of an NPZ file.", metavar="NAME")
LAYER = _read(None, "Layer of an h5ad file; by default X.", metavar="NAME")

TRANSPOSE = _prepare(
    False, "Swap rows and columns, for files with a row per feature.", "--transpose"
)
LOG_RETURNS = _prepare(
    False, "Take log differences between successive rows, as for prices.", "--log-returns"
)
DIFFERENCE = _prepare(False, "Take differences between successive rows.", "--difference")
CENTER = _prepare(
    True, "Subtract the mean of every column.", "--center/--no-center", show_default=True
)
SCALE = _prepare(
    False,
    "Divide every column by its standard deviation during the fit only; results are in the units "
    "of the data.",
    "--scale",
)
STANDARDIZE = _prepare(
    False,
    "Divide every column by its standard deviation first, so that loadings of columns in different "
    "units are comparable.",
    "--standardize",
)
COVARIANCE = _prepare(
    False, "INPUT is a covariance matrix (divided by n); requires --n-samples.", "--covariance"
)
N_SAMPLES = _prepare(
    None, "Number of samples that the covariance matrix was computed from.", min=1, metavar="N"
)

N_COMPONENTS = _model(
    "auto",
    "Number of components: a number, as many as stand out from the noise (auto), or as many as the "
    "paper's rule finds (paper).",
    *("-k", "--n-components"),
    metavar="auto|paper|N",
    callback=_number_or_rule,
)
PRIOR = _model(
    "point_laplace",
    "Prior family, or a comma-separated list with one for each component.",
    callback=_one_or_several,
    autocompletion=lambda incomplete: [name for name in PRIORS if name.startswith(incomplete)],
    metavar="NAME",
)
NOISE = _model(Noise.constant, "Whether all columns share one noise variance.")
START = _model(
    Start.auto,
    "Starting point: the best of several (auto), the paper's algorithm (greedy), or principal "
    "components, as they are (svd) or rotated (varimax).",
)
TOL = _model(
    None,
    "Stop when an iteration increases the ELBO by less than this.",
    min=0.0,
    metavar="X",
    show_default="depends on the size of the data",
)
MAX_ITER = _model(2000, "Maximum number of iterations.", min=1, metavar="N")
MAX_TIME = _model(
    None, "Stop after this many seconds, with the best result so far.", metavar="SECONDS"
)
CHECKPOINT = _model(
    None, "Save the state of the fit here; the same command resumes from it.", metavar="FILE"
)
SEED = _model(0, "Seed of the random starts.", min=0, metavar="N")

METHOD = _model(
    None,
    f"Method or prior family to fit; repeatable. By default {', '.join(METHODS)}.",
    autocompletion=lambda incomplete: [name for name in METHODS if name.startswith(incomplete)],
    metavar="NAME",
    show_default=False,
)
ALL_METHODS = _model(
    False, f"Also fit the slow families: {', '.join(SLOW_FAMILIES)}.", "--all", show_default=False
)

OUTPUT, DEMO_OUTPUT = (
    _result(
        default,
        "Folder to write the results to.",
        *("-o", "--output"),
        readable=False,
        metavar="FOLDER",
    )
    for default in (..., "ebcd-demo")
)
SCORES = _result(
    None, "CSV file to write the scores to; by default they are printed.", *("-o", "--output")
)
FORCE = _result(False, "Replace existing results.", "--force")
JSON = _result(False, "Print a machine-readable summary (JSON) instead of text.", "--json")
QUIET = _result(False, "Print neither progress nor a summary.", *("-q", "--quiet"))
