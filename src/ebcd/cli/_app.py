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
    check_priors,
    compare,
    compare_families,
    print_outcomes,
    write_outcomes,
)
from ebcd.cli._data import Steps, check_covariance_options, load, scores_of, standardized
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
def fit(
    path: Path = o.INPUT,
    output: Path = o.OUTPUT,
    index: str | None = o.INDEX,
    columns: list[str] | None = o.COLUMNS,
    drop: list[str] | None = o.DROP,
    numeric_only: bool = o.NUMERIC_ONLY,
    drop_missing: o.Missing | None = o.DROP_MISSING,
    separator: str | None = o.SEPARATOR,
    decimal: o.Decimal | None = o.DECIMAL,
    header: bool | None = o.HEADER,
    skip_lines: int = o.SKIP_LINES,
    sheet: str | None = o.SHEET,
    key: str | None = o.KEY,
    layer: str | None = o.LAYER,
    transpose: bool = o.TRANSPOSE,
    log_returns: bool = o.LOG_RETURNS,
    difference: bool = o.DIFFERENCE,
    center: bool = o.CENTER,
    scale: bool = o.SCALE,
    standardize: bool = o.STANDARDIZE,
    covariance: bool = o.COVARIANCE,
    n_samples: int | None = o.N_SAMPLES,
    n_components: str = o.N_COMPONENTS,
    prior: str = o.PRIOR,
    noise: o.Noise = o.NOISE,
    scores: o.Scores = o.SCORES,
    start: o.Start = o.START,
    tol: float | None = o.TOL,
    max_iter: int = o.MAX_ITER,
    max_time: float | None = o.MAX_TIME,
    checkpoint: Path | None = o.CHECKPOINT,
    seed: int = o.SEED,
    bootstrap: int | None = o.BOOTSTRAP,
    stability: int | None = o.STABILITY,
    color_by: list[str] | None = o.COLOR_BY,
    force: bool = o.FORCE,
    json: bool = o.JSON,
    quiet: bool = o.QUIET,
) -> None:
    """Find the components of a table; write them, the scores and a report to a folder."""
    reading = o.reading(locals())
    with one_line_errors(checkpoint):
        model = ebcd.EBCD(
            n_components,
            prior=prior,
            noise=noise.value,
            scores=scores.value,
            center=center,
            scale=scale,
            start=start.value,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            checkpoint=None if checkpoint is None else str(checkpoint),
            random_state=seed,
        )
        model._check_parameters()  # before a large file is read
        steps = Steps(transpose, log_returns, difference, standardize)
        check_covariance_options(covariance, n_samples, steps)
        if covariance and stability is not None:
            raise ValueError("--stability takes halves of the rows, which a covariance has not")
        reading["keep_missing"] = not covariance
        title = f"Components of {path.name if str(path) != '-' else 'standard input'}"
        about = {"title": title, "source": str(path), "output": str(output)}
        with claimed(output, force) as part, display(quiet) as shown:
            data = load(path, steps, n_samples, center, reading, shown, n_components, scale)
            summary = fit_and_write(part, model, data, shown, bootstrap, stability, **about)
        _print_summary(model, summary, output, json, quiet)


def _print_summary(
    model: ebcd.EBCD, summary: dict[str, Any], output: Path, json: bool, quiet: bool
) -> None:
    if json:
        summary.pop("standard_deviations", None)  # one for each feature; they are in the file
        echo(as_json(summary))
    elif not quiet:
        echo(model.summary().replace(f"\n  hint: {HINT}", ""))  # a warning came first
        if n_boot := summary["intervals"].get("n_boot"):
            echo(f"  intervals in the files are those of {n_boot} bootstrap fits")
        if again := [one["found_again"] for one in summary["components"] if "found_again" in one]:
            shares = ", ".join(f"component {k} in {share:.0%}" for k, share in enumerate(again))
            echo(f"  found again in random halves of the rows: {shares}")
        echo(f"\nresults: {output}\nreport:  {output / 'report.html'}")


@app.command()
def demo(
    output: Path = o.DEMO_OUTPUT,
    scores: o.Scores = o.SCORES,
    force: bool = o.FORCE,
    json: bool = o.JSON,
    quiet: bool = o.QUIET,
) -> None:
    """Try it on built-in data: what moved US employment in 15 sectors, 2006 to 2015."""
    with one_line_errors():
        jobs = load_us_employment()
        names = [name.replace("_", " ") for name in jobs.feature_names]
        steps = Steps(log_returns=True, standardize=True)
        data = standardized(steps.apply(Table(jobs.data, names, jobs.dates, "month")), steps)
        model = ebcd.EBCD(3, scores=scores.value)
        about = {
            "title": "What moved US employment, 2006 to 2015?",
            "source": "monthly growth of employment, standardised; US Bureau of Labor Statistics",
            "output": str(output),
        }
        with claimed(output, force) as part, display(quiet) as shown:
            shown.note(
                "US employment in 15 sectors, January 2006 to December 2015: monthly growth, "
                "standardised"
            )
            summary = fit_and_write(part, model, data, shown, None, None, **about)
        _print_summary(model, summary, output, json, quiet)


@app.command()
def report(folder: Path = o.RESULTS) -> None:
    """Write the report of a finished fit again."""
    with one_line_errors():
        echo(rewrite_report(folder))


@app.command("compare", cls=CompareCommand)
def compare_methods(
    path: Path = o.INPUT,
    index: str | None = o.INDEX,
    columns: list[str] | None = o.COLUMNS,
    drop: list[str] | None = o.DROP,
    numeric_only: bool = o.NUMERIC_ONLY,
    drop_missing: o.Missing | None = o.DROP_MISSING,
    separator: str | None = o.SEPARATOR,
    decimal: o.Decimal | None = o.DECIMAL,
    header: bool | None = o.HEADER,
    skip_lines: int = o.SKIP_LINES,
    sheet: str | None = o.SHEET,
    key: str | None = o.KEY,
    layer: str | None = o.LAYER,
    transpose: bool = o.TRANSPOSE,
    log_returns: bool = o.LOG_RETURNS,
    difference: bool = o.DIFFERENCE,
    center: bool = o.CENTER,
    standardize: bool = o.STANDARDIZE,
    covariance: bool = o.COVARIANCE,
    n_samples: int | None = o.N_SAMPLES,
    n_components: str = o.N_COMPONENTS,
    method: list[str] | None = o.METHOD,
    every: bool = o.ALL_METHODS,
    priors: str | None = o.PRIORS_COMPARED,
    output: Path | None = o.PAGE,
    force: bool = o.FORCE,
    json: bool = o.JSON,
    quiet: bool = o.QUIET,
) -> None:
    """Fit several prior families and other methods to the same table, side by side."""
    reading = o.reading(locals())
    with one_line_errors():
        methods = check_methods(method or [], every)
        families = check_priors(priors.split(","), bool(method) or every) if priors else []
        steps = Steps(transpose, log_returns, difference, standardize)
        check_covariance_options(covariance, n_samples, steps)
        reading["keep_missing"] = not covariance
        if output is not None:
            output = output if output.suffix == ".html" else output / "compare.html"
            _check_file(output, force)
        with display(quiet) as shown:
            data = load(path, steps, n_samples, center, reading, shown, n_components)
            if families:
                outcomes = compare_families(data, n_components, center, families, shown)
            else:
                outcomes = list(compare(data, n_components, center, methods, shown))
        if output is not None:
            write_outcomes(outcomes, data, path.name, output)
        if json:
            echo(as_json([dataclasses.asdict(outcome) for outcome in outcomes]))
        else:
            print_outcomes(outcomes)
            if output is not None:
                echo(f"\npage: {output}")


@app.command()
def transform(
    model: Path = o.MODEL,
    path: Path = o.INPUT,
    output: Path | None = o.SCORES_FILE,
    index: str | None = o.INDEX,
    drop_missing: o.Missing | None = o.DROP_MISSING,
    separator: str | None = o.SEPARATOR,
    decimal: o.Decimal | None = o.DECIMAL,
    header: bool | None = o.HEADER,
    skip_lines: int = o.SKIP_LINES,
    sheet: str | None = o.SHEET,
    key: str | None = o.KEY,
    layer: str | None = o.LAYER,
    force: bool = o.FORCE,
    quiet: bool = o.QUIET,
) -> None:
    """Compute the scores of new data, prepared as for the fit; columns match by name."""
    reading = o.reading(locals())
    with one_line_errors():
        if output is not None:
            _check_file(output, force)
        fitted, summary = read_results(model)
        with display(quiet) as shown:
            scores, table = scores_of(fitted, summary, path, reading, shown)
        frame = scores_frame(scores, table)
        if output is None:
            if sys.stdout is None:
                raise ValueError("standard output is closed; give a file with -o")
            frame.to_csv(sys.stdout, **CSV)
            return
        output.parent.mkdir(parents=True, exist_ok=True)
        with _store.replacing(output) as file:
            frame.to_csv(file, **CSV)
        if not quiet:
            echo(f"scores of {len(scores)} rows: {output}")


def _check_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; add a file name")
    if path.exists() and not force:
        raise ValueError(f"{path} exists; choose another name, or replace it with --force")
