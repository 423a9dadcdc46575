"""Options that several commands have, with their help."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import Annotated, Any

import typer

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
    return {
        name: given[name].value if isinstance(given[name], enum.Enum) else given[name]
        for name in names
        if given.get(name) is not None
    }


def _number_or_rule(value: str) -> str:
    if value in ("auto", "paper") or (value.isdigit() and int(value) > 0):
        return value
    raise typer.BadParameter(f'{value!r} is neither a number from 1 on, nor "auto" or "paper"')


def _separator_mark(value: str | None) -> str | None:
    mark = None if value is None else _MARKS.get(value.lower(), value)
    if mark is not None and len(mark) != 1:
        raise typer.BadParameter(f"{value!r} is not one letter, nor one of {', '.join(_MARKS)}")
    return mark


def _option(panel: str, help_text: str, *names: str, **settings: Any) -> Any:
    settings = {"show_default": False, **settings}
    return typer.Option(*names, help=help_text, rich_help_panel=panel, **settings)


def _read(help_text: str, *names: str, **settings: Any) -> Any:
    return _option("Reading the file", help_text, *names, **settings)


def _prepare(help_text: str, *names: str, **settings: Any) -> Any:
    return _option("Preparing the data", help_text, *names, **settings)


def _model(help_text: str, *names: str, **settings: Any) -> Any:
    return _option("The model", help_text, *names, **{"show_default": True, **settings})


def _result(help_text: str, *names: str, **settings: Any) -> Any:
    return _option("Results", help_text, *names, **settings)


InputFile = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        readable=False,  # reading it finds out, and says in one line what is wrong
        help="CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or h5ad file, plain or compressed; "
        "rows are samples, columns are features. - reads standard input.",
        show_default=False,
    ),
]
Index = Annotated[
    str | None,
    _read(
        'Column with the names or dates of the rows; "none" if there is none. By default the first '
        "column, if it looks like names or dates.",
        metavar="NAME",
    ),
]
Columns = Annotated[
    list[str] | None,
    _read(
        "Columns to use, all by default: names separated by commas; * and ? are wildcards. May be "
        "given several times.",
        *("--columns", "--features"),
        metavar="NAMES",
    ),
]
Drop = Annotated[list[str] | None, _read("Columns to leave out, given likewise.", metavar="NAMES")]
DropMissing = Annotated[
    Missing | None,
    _read("Leave out rows (or columns) with missing cells, which otherwise are an error."),
]
Separator = Annotated[
    str | None,
    _read(
        "Separator of a text table: a character, or tab, comma, semicolon, space, pipe. Detected "
        "by default.",
        callback=_separator_mark,
        metavar="MARK",
    ),
]
DecimalMark = Annotated[
    Decimal | None, _read("Decimal mark of a text table. Detected by default.", "--decimal")
]
Header = Annotated[
    bool | None,
    _read(
        "Whether the first row of a table has the names of the columns. Detected by default.",
        "--header/--no-header",
    ),
]
SkipLines = Annotated[int, _read("Lines above a table to skip.", min=0, metavar="N")]
Sheet = Annotated[
    str | None,
    _read("Sheet of an Excel or OpenDocument file; the first by default.", metavar="NAME"),
]
Key = Annotated[str | None, _read("Array of an NPZ file.", metavar="NAME")]
Layer = Annotated[str | None, _read("Layer of an h5ad file; X by default.", metavar="NAME")]
Transpose = Annotated[
    bool, _prepare("Exchange rows and columns, for files with one feature per row.", "--transpose")
]
LogReturns = Annotated[
    bool,
    _prepare("Take differences of logarithms from row to row, as for prices.", "--log-returns"),
]
Difference = Annotated[bool, _prepare("Take differences from row to row.", "--difference")]
Center = Annotated[
    bool,
    _prepare("Subtract the mean of every column.", "--center/--no-center", show_default=True),
]
Scale = Annotated[
    bool,
    _prepare(
        "Divide every column by its standard deviation for the fit only; results are in the units "
        "of the data.",
        "--scale",
    ),
]
Standardize = Annotated[
    bool,
    _prepare(
        "Divide every column by its standard deviation before anything else, so that loadings of "
        "columns in different units can be compared.",
        "--standardize",
    ),
]
Covariance = Annotated[
    bool,
    _prepare("INPUT is a covariance matrix (divided by n); needs --n-samples.", "--covariance"),
]
NSamples = Annotated[
    int | None, _prepare("Number of samples behind the covariance matrix.", min=1, metavar="N")
]
NComponents = Annotated[
    str,
    _model(
        "Number of components: as many as stand out from noise, as many as the paper's rule finds, "
        "or a number.",
        *("-k", "--n-components"),
        metavar="auto|paper|N",
        callback=_number_or_rule,
    ),
]
Prior = Annotated[
    str,
    _model(
        "Prior family, or several separated by commas, one for each component.",
        autocompletion=lambda incomplete: [n for n in PRIORS if n.startswith(incomplete)],
        metavar="NAME",
    ),
]
NoiseModel = Annotated[
    Noise, _model("Whether all columns have the same noise variance.", "--noise")
]
StartFrom = Annotated[
    Start,
    _model(
        "Where to start: the best of several starts, as in the paper, or principal components.",
        "--start",
    ),
]
Tol = Annotated[
    float | None,
    _model(
        "Gain of the ELBO in an iteration below which the fit stops.",
        min=0.0,
        metavar="X",
        show_default="by the size of the data",
    ),
]
MaxIter = Annotated[int, _model("Largest number of iterations.", min=1, metavar="N")]
MaxTime = Annotated[
    float | None,
    _model("Stop after so many seconds, with the best found so far.", metavar="SECONDS"),
]
Checkpoint = Annotated[
    Path | None,
    _model("Save the state of the fit here; the same command goes on from it.", metavar="FILE"),
]
Seed = Annotated[int, _model("Seed of the random starts.", min=0, metavar="N")]
OutputFolder = Annotated[
    Path,
    _result(
        "Folder to write the results to.", *("-o", "--output"), readable=False, metavar="FOLDER"
    ),
]
Force = Annotated[bool, _result("Replace existing results.", "--force")]
Json = Annotated[
    bool, _result("Print the summary as JSON, for scripts, instead of words.", "--json")
]
Quiet = Annotated[bool, _result("Print no progress and no summary.", *("-q", "--quiet"))]
