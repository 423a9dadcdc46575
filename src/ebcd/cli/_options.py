"""Options that several commands share, with their defaults and help."""

from __future__ import annotations

import dataclasses
import enum
from functools import partial
from typing import Any

import typer

from ebcd.cli._compare import METHODS, SLOW_FAMILIES
from ebcd.data.files._columns import ReadOptions
from ebcd.estimators._compare_priors import FAMILIES as USUAL_PRIORS
from ebcd.priors import PRIORS

_MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}

Missing = enum.StrEnum("Missing", ["rows", "columns"])
Decimal = enum.StrEnum("Decimal", {"point": ".", "comma": ","})
Noise = enum.StrEnum("Noise", ["constant", "per_feature"])
Scores = enum.StrEnum("Scores", ["integrated", "relaxed", "orthogonal"])
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


def _option(panel: str, help_text: str, *names: str, default: Any = None, **settings: Any) -> Any:
    settings = {"show_default": panel == "The model", **settings}
    return typer.Option(default, *names, help=help_text, rich_help_panel=panel, **settings)


_read, _prepare, _model, _result = (
    partial(_option, panel)
    for panel in ("Reading the file", "Preparing the data", "The model", "Results")
)

# Files and folders are checked when they are opened, with one-line errors.
_argument = partial(typer.Argument, show_default=False, readable=False)

INPUT = _argument(
    metavar="INPUT",
    help="CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or h5ad file, plain or compressed, "
    "with a row per sample and a column per feature; - is standard input.",
)
RESULTS = _argument(metavar="OUT", help="Folder written by ebcd fit.")
MODEL = _argument(metavar="MODEL", help="Folder written by ebcd fit, or the model.npz in it.")
INDEX = _read(
    'Column of row names or dates, or "none". By default the first, if it looks like one.',
    metavar="NAME",
)
COLUMNS = _read(
    "Columns to use, separated by commas, with wildcards * and ?; repeatable. By default all.",
    *("--columns", "--features"),
    metavar="NAMES",
)
DROP = _read("Columns to leave out, in the same form.", metavar="NAMES")
NUMERIC_ONLY = _read("Leave out columns of text.", "--numeric-only", default=False)
DROP_MISSING = _read(
    "Drop the rows (or columns) with missing cells; by default a fit uses the other cells."
)
SEPARATOR = _read(
    "Separator: a character, or tab, comma, semicolon, space or pipe. Detected by default.",
    callback=_separator_mark,
    metavar="MARK",
)
DECIMAL = _read("Decimal mark of a text table. Detected by default.")
HEADER = _read(
    "Whether the first row contains the column names. Detected by default.", "--header/--no-header"
)
SKIP_LINES = _read("Number of lines to skip above a table.", min=0, metavar="N", default=0)
SHEET = _read("Sheet of an Excel or OpenDocument file; by default the first.", metavar="NAME")
KEY = _read("Array of an NPZ file.", metavar="NAME")
LAYER = _read("Layer of an h5ad file; by default X.", metavar="NAME")
TRANSPOSE = _prepare(
    "Swap rows and columns, for files with a row per feature.", "--transpose", default=False
)
LOG_RETURNS = _prepare(
    "Take log differences between successive rows, as for prices.", "--log-returns", default=False
)
DIFFERENCE = _prepare("Take differences between successive rows.", "--difference", default=False)
CENTER = _prepare(
    "Subtract the mean of every column.", "--center/--no-center", show_default=True, default=True
)
SCALE = _prepare(
    "Divide columns by their standard deviations for the fit; results keep the original units.",
    "--scale",
    default=False,
    hidden=True,  # nearly the same as --standardize, which is the one to offer
)
STANDARDIZE = _prepare(
    "Divide columns by their standard deviations first, so that loadings are comparable.",
    "--standardize",
    default=False,
)
COVARIANCE = _prepare(
    "INPUT is a covariance matrix (divided by n); requires --n-samples.",
    "--covariance",
    default=False,
)
N_SAMPLES = _prepare(
    "Number of samples that the covariance matrix was computed from.", min=1, metavar="N"
)
N_COMPONENTS = _model(
    "Number of components: as many as stand out from noise (auto), the paper's rule, or a number.",
    *("-k", "--n-components"),
    metavar="auto|paper|N",
    callback=_number_or_rule,
    default="auto",
)
PRIOR = _model(
    "Prior family, or a comma-separated list with one for each component.",
    callback=_one_or_several,
    autocompletion=lambda incomplete: [name for name in PRIORS if name.startswith(incomplete)],
    metavar="NAME",
    default="point_laplace",
)
NOISE = _model("Whether all columns share one noise variance.", default=Noise.constant)
SCORES = _model(
    "Model of the scores: with integrated or relaxed, uncertainties are about the population; with "
    "orthogonal (the paper, and the default in Python), they are given the scores.",
    default=Scores.integrated,
)
START = _model(
    "Starting point: the best of several (auto), the paper's algorithm (greedy), or principal "
    "components, as they are (svd) or rotated (varimax).",
    default=Start.auto,
)
TOL = _model(
    "Stop when an iteration increases the ELBO by less than this.",
    min=0.0,
    metavar="X",
    show_default="depends on the size of the data",
)
MAX_ITER = _model("Maximum number of iterations.", min=1, metavar="N", default=2000)
MAX_TIME = _model("Stop after this many seconds, with the best result so far.", metavar="SECONDS")
CHECKPOINT = _model(
    "Save the state of the fit here; the same command resumes from it.", metavar="FILE"
)
SEED = _model("Seed of the random starts.", min=0, metavar="N", default=0)
BOOTSTRAP = _model(
    "Also fit this many data sets drawn from the fitted model, and report the intervals of these "
    "fits instead of credible intervals; 50 are enough.",
    min=2,
    metavar="N",
)
STABILITY = _model(
    "Also fit this many random halves of the rows, each from scratch, and report how often each "
    "component is found again; 20 are enough.",
    min=1,
    metavar="N",
)
METHOD = _model(
    f"Method or prior family to fit; repeatable. By default {', '.join(METHODS)}.",
    autocompletion=lambda incomplete: [name for name in METHODS if name.startswith(incomplete)],
    metavar="NAME",
    show_default=False,
)
ALL_METHODS = _model(
    f"Also fit the slow families: {', '.join(SLOW_FAMILIES)}.",
    "--all",
    show_default=False,
    default=False,
)
PRIORS_COMPARED = _model(
    "Compare only prior families and mark the best: names separated by commas; without a value, "
    f"{', '.join(USUAL_PRIORS)}.",
    "--priors",
    metavar="[NAMES]",
    show_default=False,
)
OUTPUT, DEMO_OUTPUT = (
    _result("Folder for the results.", *("-o", "--output"), metavar="FOLDER", default=default)
    for default in (..., "ebcd-demo")
)
SCORES_FILE = _result(
    "CSV file to write the scores to; by default they are printed.", *("-o", "--output")
)
PAGE = _result(
    "Page (.html) to write the comparison to, or a folder for compare.html.", *("-o", "--output")
)
COLOR_BY = _result(
    "Column to colour the points of the report's biplot by, categories or numbers; it is not "
    "fitted. Repeatable.",
    metavar="NAME",
)
FORCE = _result("Replace existing results.", "--force", default=False)
JSON = _result("Print a machine-readable summary (JSON) instead of text.", "--json", default=False)
QUIET = _result("Print neither progress nor a summary.", *("-q", "--quiet"), default=False)
