"""The commands."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import typer

import ebcd
from ebcd import _store
from ebcd.cli import _options as o
from ebcd.cli._compare import (
    CompareCommand,
    check_methods,
    compare,
    print_outcomes,
    write_outcomes,
)
from ebcd.cli._data import Steps, load, picked, scores_of, standardized
from ebcd.cli._errors import Commands, echo, one_line_errors
from ebcd.cli._folder import claimed
from ebcd.cli._progress import display
from ebcd.cli._results import (
    CSV,
    as_json,
    fit_and_write,
    read_results,
    rewrite_report,
    scores_frame,
)
from ebcd.data.files._table import Table
from ebcd.datasets import load_us_employment
from ebcd.estimators._readable import HINT
from ebcd.report._facts import DRAWN, HALVES

app = typer.Typer(
    cls=Commands,
    help="Sparse PCA that tunes itself: empirical Bayes covariance decomposition.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ebcd {ebcd.__version__}")
        raise typer.Exit


_VERSION = typer.Option(
    False, "--version", help="Print the version.", callback=_version, is_eager=True
)


@app.callback(invoke_without_command=True)
def _main(context: typer.Context, version: bool = _VERSION) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
@o.takes(
    *o.DATA,
    *o.MODEL,
    "bootstrap",
    "bootstrap_method",
    "stability",
    "output",
    "color_by",
    *o.RESULTS,
)
def fit(path: Path = o.INPUT, **given: Any) -> None:
    """Find the components of a table; write them, the scores and a report to a folder."""
    with one_line_errors(given["checkpoint"]):
        model = ebcd.EBCD(**picked(given, [*o.MODEL, "n_components", "center"]))
        model._check_parameters()  # before a large file is read
        draws, steps, output = _checked_draws(given), _checked_steps(given), given["output"]
        given["color_by"] = given["color_by"] or ()
        title = f"Components of {path.name if str(path) != '-' else 'standard input'}"
        about = {"title": title, "source": str(path), "output": str(output)}
        with claimed(output, given["force"]) as part, display(given["quiet"]) as shown:
            data = load(path, steps, shown, given)
            summary = fit_and_write(part, model, data, shown, about, **draws)
        _print_summary(model, summary, output, given)


def _checked_draws(given: dict[str, Any]) -> dict[str, Any]:
    """Return what else to fit to: data of a bootstrap, and halves of the rows."""
    covariance, method = given["covariance"], given["bootstrap_method"]
    if method and not given["bootstrap"]:
        raise ValueError("--bootstrap-method needs the number of fits: --bootstrap 50")
    if method == "rows" and covariance:
        raise ValueError(
            "--bootstrap-method rows draws rows of the data, but a covariance matrix has no rows; "
            "leave it out to draw from the fitted model"
        )
    if covariance and given["stability"] is not None:
        raise ValueError("--stability fits halves of the rows; a covariance matrix has no rows")
    n_boot, n_splits = given["bootstrap"], given["stability"]
    return {"n_boot": n_boot, "method": method or "parametric", "n_splits": n_splits}


def _checked_steps(given: dict[str, Any]) -> Steps:
    """Refuse combinations of options that make no sense, before a file is read."""
    steps, covariance = Steps(**picked(given, o.STEPS)), given["covariance"]
    if covariance and given["n_samples"] is None:
        raise ValueError("--covariance also needs the number of samples: --n-samples N")
    if not covariance and given["n_samples"] is not None:
        raise ValueError("--n-samples is only for --covariance; data have a row for each sample")
    if covariance and dataclasses.replace(steps, standardize=False) != Steps():
        raise ValueError("a covariance matrix can be neither transposed nor differenced")
    return steps


def _print_summary(
    model: ebcd.EBCD, summary: dict[str, Any], output: Path, given: dict[str, Any]
) -> None:
    if given["json"]:
        summary.pop("standard_deviations", None)  # one for each feature; they are in the file
        echo(as_json(summary))
    elif not given["quiet"]:
        echo(model.summary().replace(f"\n  hint: {HINT}", ""))  # a warning came first
        if n_boot := (about := summary["intervals"]).get("n_boot"):
            draws = f"{n_boot} bootstrap fits to {DRAWN[about['method']].rstrip(',')}"
            echo(f"  intervals in the files are those of {draws}")
        if again := [one["found_again"] for one in summary["components"] if "found_again" in one]:
            shares = ", ".join(f"component {k} in {share:.0%}" for k, share in enumerate(again))
            echo(f"  found again in {HALVES[summary['halves']]}: {shares}")
        echo(f"\nresults: {output}\nreport:  {output / 'report.html'}")


@app.command()
@o.takes("scores", "demo_output", *o.RESULTS)
def demo(**given: Any) -> None:
    """Try it on built-in data: what moved US employment in 15 sectors, 2006 to 2015."""
    output = given["demo_output"]
    jobs = load_us_employment()
    names = [name.replace("_", " ") for name in jobs.feature_names]
    steps = Steps(log_returns=True, standardize=True)
    data = standardized(steps.apply(Table(jobs.data, names, jobs.dates, "month")), steps)
    model = ebcd.EBCD(3, scores=given["scores"])
    about = {
        "title": "What moved US employment, 2006 to 2015?",
        "source": "monthly growth of employment, standardized; US Bureau of Labor Statistics",
        "output": str(output),
    }
    with claimed(output, given["force"]) as part, display(given["quiet"]) as shown:
        shown.note(
            "US employment in 15 sectors, January 2006 to December 2015: monthly growth, "
            "standardized"
        )
        summary = fit_and_write(part, model, data, shown, about)
    _print_summary(model, summary, output, given)


@app.command()
def report(folder: Path = o.FOLDER) -> None:
    """Rewrite the report of a finished fit."""
    echo(rewrite_report(folder))


@app.command("compare", cls=CompareCommand)
@o.takes(*o.DATA, "method", "every", "priors", "page", *o.RESULTS)
def compare_methods(path: Path = o.INPUT, **given: Any) -> None:
    """Compare prior families and other methods on the same table."""
    priors, output = given["priors"], given["page"]
    methods = check_methods(given["method"] or [], given["every"], priors)
    steps = _checked_steps(given)
    if output is not None:
        output = output if output.suffix == ".html" else output / "compare.html"
        _check_file(output, given["force"])
    sizes = given["n_components"], given["center"]
    with display(given["quiet"]) as shown:
        data = load(path, steps, shown, given)
        outcomes = compare(data, *sizes, methods, shown, contest=priors is not None)
    if output is not None:
        write_outcomes(outcomes, data, path.name, output)
    if given["json"]:
        echo(as_json([dataclasses.asdict(outcome) for outcome in outcomes]))
    else:
        print_outcomes(outcomes)
        if output is not None:
            echo(f"\npage: {output}")


@app.command()
@o.takes(*o.TABLE, "scores_file", "force", "quiet")
def transform(model: Path = o.MODEL_FILE, path: Path = o.INPUT, **given: Any) -> None:
    """Compute the scores of new data, prepared as in the fit; columns are matched by name."""
    output = given["scores_file"]
    if output is not None:
        _check_file(output, given["force"])
    fitted, summary = read_results(model)
    with display(given["quiet"]) as shown:
        scores, table = scores_of(fitted, summary, path, given, shown)
    frame = scores_frame(scores, table)
    if output is None:
        if sys.stdout is None:
            raise ValueError("standard output is closed; give a file with -o")
        frame.to_csv(sys.stdout, **CSV)
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    with _store.replacing(output) as file:
        frame.to_csv(file, **CSV)
    if not given["quiet"]:
        echo(f"scores of {len(scores)} rows: {output}")


def _check_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; add a file name")
    if path.exists() and not force:
        raise ValueError(f"{path} exists; choose another name, or replace it with --force")
