"""Options of the commands, with their defaults and help, in groups that several of them share."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

import typer

from ebcd.cli._compare import METHODS, SLOW_FAMILIES
from ebcd.estimators._compare_priors import FAMILIES as USUAL_PRIORS
from ebcd.priors import PRIORS

_METAVARS: dict[Any, str] = {
    **dict.fromkeys((str, str | None, list[str] | None), "NAME"),
    **dict.fromkeys((int, int | None), "N"),
}
_MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}

Command = Callable[..., None]

Missing = enum.StrEnum("Missing", ["rows", "columns"])
Decimal = enum.StrEnum("Decimal", {"point": ".", "comma": ","})
Noise = enum.StrEnum("Noise", ["constant", "per_feature"])
Scores = enum.StrEnum("Scores", ["integrated", "relaxed", "orthogonal"])
Start = enum.StrEnum("Start", ["auto", "greedy", "svd", "varimax"])
Draws = enum.StrEnum("Draws", ["parametric", "rows"])


def takes(*names: str) -> Callable[[Command], Command]:
    """Add options to a command, which is given their values as keyword arguments."""

    def add(command: Command) -> Command:
        @functools.wraps(command)
        def run(**given: Any) -> None:
            command(**{name: getattr(value, "value", value) for name, value in given.items()})

        signature = inspect.signature(command, eval_str=True)
        *own, last = signature.parameters.values()
        more = [
            last.replace(name=name, kind=last.KEYWORD_ONLY, default=option, annotation=kind)
            for name, kind, option in map(_option_called, names)
        ]
        run.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        return run

    return add


def _option_called(name: str) -> tuple[str, Any, Any]:
    """Return the name, type and option; flags are off unless they say otherwise."""
    kind, option = get_type_hints(Options)[name], getattr(Options, name)
    if kind is bool:
        option.default = bool(option.default)
        option.param_decls = option.param_decls or (f"--{name.replace('_', '-')}",)
    option.metavar = option.metavar or _METAVARS.get(kind)
    return name, kind, option


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
FOLDER = _argument(metavar="OUT", help="Folder written by ebcd fit.")
MODEL_FILE = _argument(metavar="MODEL", help="Folder written by ebcd fit, or the model.npz in it.")


class Options:
    """All options of all commands, by their names there."""

    index: str | None = _read(
        'Column of row names or dates, or "none". By default the first, if it looks like one.'
    )
    drop_missing: Missing | None = _read(
        "Drop the rows (or columns) with missing cells; by default a fit uses the other cells."
    )
    separator: str | None = _read(
        "Separator: a character, or tab, comma, semicolon, space or pipe. Detected by default.",
        callback=_separator_mark,
        metavar="MARK",
    )
    decimal: Decimal | None = _read("Decimal mark of a text table. Detected by default.")
    header: bool | None = _read(
        "Whether the first row contains the column names. Detected by default.",
        "--header/--no-header",
    )
    skip_lines: int = _read("Number of lines to skip above a table.", min=0, default=0)
    sheet: str | None = _read("Sheet of an Excel or OpenDocument file; by default the first.")
    key: str | None = _read("Array of an NPZ file.")
    layer: str | None = _read("Layer of an h5ad file; by default X.")
    columns: list[str] | None = _read(
        "Columns to use, separated by commas, with wildcards * and ?; repeatable. By default all.",
        *("--columns", "--features"),
        metavar="NAMES",
    )
    drop: list[str] | None = _read("Columns to leave out, in the same form.", metavar="NAMES")
    numeric_only: bool = _read("Leave out columns of text.")
    transpose: bool = _prepare("Swap rows and columns, for files with a row per feature.")
    log_returns: bool = _prepare("Take log differences between successive rows, as for prices.")
    difference: bool = _prepare("Take differences between successive rows.")
    standardize: bool = _prepare(
        "Divide columns by their standard deviations first, so that loadings are comparable."
    )
    center: bool = _prepare(
        "Subtract the mean of every column.",
        "--center/--no-center",
        show_default=True,
        default=True,
    )
    covariance: bool = _prepare(
        "INPUT is a covariance matrix (divided by n); requires --n-samples."
    )
    n_samples: int | None = _prepare(
        "Number of samples that the covariance matrix was computed from.", min=1
    )
    n_components: str = _model(
        "Number of components: as many as stand out from noise (auto), the paper's rule, or N.",
        *("-k", "--n-components"),
        metavar="auto|paper|N",
        callback=_number_or_rule,
        default="auto",
    )
    scores: Scores = _model(
        "Model of the scores: with integrated or relaxed, uncertainties are about the population; "
        "with orthogonal (the paper, and the default in Python), they are given the scores.",
        default=Scores.integrated,
    )
    prior: str = _model(
        "Prior family, or a comma-separated list with one for each component.",
        callback=_one_or_several,
        autocompletion=lambda incomplete: [name for name in PRIORS if name.startswith(incomplete)],
        default="point_laplace",
    )
    noise: Noise = _model("Whether all columns share one noise variance.", default=Noise.constant)
    start: Start = _model(
        "Starting point: the best of several (auto), the paper's algorithm (greedy), or principal "
        "components, as they are (svd) or rotated (varimax).",
        default=Start.auto,
    )
    tol: float | None = _model(
        "Stop when an iteration increases the ELBO by less than this.",
        min=0.0,
        metavar="X",
        show_default="depends on the size of the data",
    )
    max_iter: int = _model("Maximum number of iterations.", min=1, default=2000)
    max_time: float | None = _model(
        "Stop after this many seconds, with the best result so far.", metavar="SECONDS"
    )
    checkpoint: str | None = _model(
        "Save the state of the fit here; the same command resumes from it.", metavar="FILE"
    )
    random_state: int = _model("Seed of the random starts.", "--seed", min=0, default=0)
    bootstrap: int | None = _model(
        "Also fit this many newly drawn data sets, and give intervals of these fits in place "
        "of credible intervals; 50 are enough.",
        min=2,
    )
    bootstrap_method: Draws | None = _model(
        "Draw these data sets from the fitted model (parametric, the default), or draw rows of the "
        "data with replacement (rows), as for scores with heavy tails.",
    )
    stability: int | None = _model(
        "Fit to this many halves of the rows as well, each from scratch, and say how often each "
        "component is found again; 20 are enough. They are random or, if rows have dates, blocks.",
        min=1,
    )
    output: Path = _result(
        "Folder for the results.", *("-o", "--output"), metavar="FOLDER", default=...
    )
    color_by: list[str] | None = _result(
        "Column to color the points of the report's biplot by, categories or numbers; it is not "
        "fitted. Repeatable."
    )
    method: list[str] | None = _model(
        f"Method or prior family to fit; repeatable. By default {', '.join(METHODS)}.",
        autocompletion=lambda incomplete: [name for name in METHODS if name.startswith(incomplete)],
    )
    every: bool = _model(
        f"Also fit the slow families: {', '.join(SLOW_FAMILIES)}.", "--all", show_default=False
    )
    priors: str | None = _model(
        "Compare prior families only, and say which is best: names separated by commas, or without "
        f"a value {', '.join(USUAL_PRIORS)}.",
        "--priors",
        metavar="[NAMES]",
    )
    page: Path | None = _result(
        "Page (.html) to write the comparison to, or a folder for compare.html.",
        *("-o", "--output"),
    )
    demo_output: Path = _result(
        "Folder for the results.", *("-o", "--output"), metavar="FOLDER", default="ebcd-demo"
    )
    scores_file: Path | None = _result(
        "CSV file to write the scores to; by default they are printed.", *("-o", "--output")
    )
    force: bool = _result("Replace existing results.")
    quiet: bool = _result("Print neither progress nor a summary.", *("-q", "--quiet"))
    json: bool = _result("Print a machine-readable summary (JSON) instead of text.")


# What commands have in common.
TABLE = ["index", "drop_missing", "separator", "decimal", "header", "skip_lines"]
TABLE += ["sheet", "key", "layer"]
COLUMNS = ["columns", "drop", "numeric_only", *TABLE]
STEPS = ["transpose", "log_returns", "difference", "standardize"]
DATA = [*COLUMNS, *STEPS, "center", "covariance", "n_samples", "n_components"]
MODEL = ["prior", "noise", "scores", "start", "tol", "max_iter", "max_time"]
MODEL += ["checkpoint", "random_state"]
RESULTS = ["force", "json", "quiet"]
