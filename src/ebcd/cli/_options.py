"""Options that several commands have, with their help."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated, Any

import typer

from ebcd.priors import PRIORS

_READING = "Reading the file"
_PREPARING = "Preparing the data"
_MODEL = "The model"
_RESULTS = "Results"

_OF_READING = (
    *("index", "columns", "drop", "drop_missing", "separator", "decimal", "header"),
    *("skip_lines", "sheet", "key", "layer"),
)
_MARKS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


class Missing(enum.StrEnum):
    """What to leave out where cells are missing."""

    rows = "rows"
    columns = "columns"


class Decimal(enum.StrEnum):
    """Decimal mark."""

    point = "."
    comma = ","


class Noise(enum.StrEnum):
    """Model of the noise."""

    constant = "constant"
    per_feature = "per_feature"


class Start(enum.StrEnum):
    """Where to start."""

    auto = "auto"
    greedy = "greedy"
    svd = "svd"
    varimax = "varimax"


def number_or_rule(value: str) -> str:
    """Check a number of components as it was typed."""
    if value in ("auto", "paper") or (value.isdigit() and int(value) > 0):
        return value
    raise typer.BadParameter(f'{value!r} is neither a number from 1 on, nor "auto" or "paper"')


def separator_mark(value: str | None) -> str | None:
    """Give the letter that a name of a separator stands for."""
    if value is None:
        return None
    mark = _MARKS.get(value.lower(), value)
    if len(mark) != 1:
        raise typer.BadParameter(f"{value!r} is not one letter, nor one of {', '.join(_MARKS)}")
    return mark


def complete_prior(incomplete: str) -> list[str]:
    """Names of families that start like this."""
    return [name for name in PRIORS if name.startswith(incomplete)]


def reading(given: dict[str, Any]) -> dict[str, Any]:
    """Pick the options of the panel "Reading the file", as `read_table` takes them."""
    chosen = {name: given[name] for name in _OF_READING if name in given}
    return {
        name: value.value if isinstance(value, enum.Enum) else value
        for name, value in chosen.items()
        if value is not None
    }


InputFile = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        readable=False,  # whether it can be read is found out, and said in one line, by reading it
        help="CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or h5ad file, plain or compressed; "
        "rows are samples, columns are features. - reads standard input.",
        show_default=False,
    ),
]
Index = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help='Column with the names or dates of the rows; "none" if there is none. By default the '
        "first column, if it looks like that.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns",
        "--features",
        metavar="NAMES",
        help="Columns to use, all by default: names with commas between them, * and ? stand for "
        "letters. May be given several times.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Columns to leave out, in the same way.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
DropMissing = Annotated[
    Missing | None,
    typer.Option(
        help="Leave out rows (or columns) with missing cells; otherwise these are an error.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        callback=separator_mark,
        metavar="MARK",
        help="Separator of a text table: a letter, or tab, comma, semicolon, space, pipe. Found "
        "by default.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
DecimalMark = Annotated[
    Decimal | None,
    typer.Option(
        "--decimal",
        help="Decimal mark of a text table. Found by default.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first row of a text table has names. Found by default.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
SkipLines = Annotated[
    int,
    typer.Option(
        min=0, metavar="N", help="Lines above a text table to skip.", rich_help_panel=_READING
    ),
]
Sheet = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Sheet of an Excel or OpenDocument file; the first by default.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Array of an NPZ file.", rich_help_panel=_READING, show_default=False
    ),
]
Layer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Layer of an h5ad file; X by default.",
        rich_help_panel=_READING,
        show_default=False,
    ),
]
Transpose = Annotated[
    bool,
    typer.Option(
        "--transpose",
        help="Exchange rows and columns, for files with a feature in each row.",
        rich_help_panel=_PREPARING,
    ),
]
LogReturns = Annotated[
    bool,
    typer.Option(
        "--log-returns",
        help="Take differences of logarithms from row to row, as for prices.",
        rich_help_panel=_PREPARING,
    ),
]
Difference = Annotated[
    bool,
    typer.Option(
        "--difference", help="Take differences from row to row.", rich_help_panel=_PREPARING
    ),
]
Center = Annotated[
    bool,
    typer.Option(
        "--center/--no-center",
        help="Subtract the mean of every column.",
        rich_help_panel=_PREPARING,
    ),
]
Scale = Annotated[
    bool,
    typer.Option(
        "--scale",
        help="Divide every column by its standard deviation for the fit only; results are in the "
        "units of the data.",
        rich_help_panel=_PREPARING,
    ),
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize",
        help="Divide every column by its standard deviation before anything else, so that loadings "
        "of columns in different units can be compared.",
        rich_help_panel=_PREPARING,
    ),
]
Covariance = Annotated[
    bool,
    typer.Option(
        "--covariance",
        help="INPUT is a covariance matrix (divided by n); needs --n-samples.",
        rich_help_panel=_PREPARING,
    ),
]
NSamples = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of samples behind the covariance matrix.",
        rich_help_panel=_PREPARING,
        show_default=False,
    ),
]
NComponents = Annotated[
    str,
    typer.Option(
        "-k",
        "--n-components",
        metavar="auto|paper|N",
        callback=number_or_rule,
        help="Number of components: as many as stand out from noise, those of the paper's rule, "
        "or a number.",
        rich_help_panel=_MODEL,
    ),
]
Prior = Annotated[
    str,
    typer.Option(
        autocompletion=complete_prior,
        metavar="NAME",
        help="Family of priors, or several with commas between them, one for each component.",
        rich_help_panel=_MODEL,
    ),
]
NoiseModel = Annotated[
    Noise,
    typer.Option(
        "--noise",
        help="Whether all columns have the same noise variance.",
        rich_help_panel=_MODEL,
    ),
]
StartFrom = Annotated[
    Start,
    typer.Option(
        "--start",
        help="Where to start: the best of several, as in the paper, or principal components.",
        rich_help_panel=_MODEL,
    ),
]
Tol = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="X",
        help="Gain of the ELBO in an iteration below which the fit stops.",
        rich_help_panel=_MODEL,
        show_default="by the size of the data",
    ),
]
MaxIter = Annotated[
    int,
    typer.Option(min=1, metavar="N", help="Largest number of iterations.", rich_help_panel=_MODEL),
]
MaxTime = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Stop after so many seconds, with the best found so far.",
        rich_help_panel=_MODEL,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Keep the state of the fit here; the same command goes on from it.",
        rich_help_panel=_MODEL,
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Seed of the random starts.", rich_help_panel=_MODEL),
]
OutputFolder = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        readable=False,
        metavar="FOLDER",
        help="Folder to write the results to.",
        rich_help_panel=_RESULTS,
        show_default=False,
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace results that are already there.", rich_help_panel=_RESULTS
    ),
]
Json = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the summary as JSON, for scripts, instead of words.",
        rich_help_panel=_RESULTS,
    ),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "-q", "--quiet", help="Print no progress and no summary.", rich_help_panel=_RESULTS
    ),
]
