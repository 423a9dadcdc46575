"""The commands."""

from __future__ import annotations

import dataclasses
import io
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import ebcd
from ebcd import _store
from ebcd.cli import _options as o
from ebcd.cli._compare import METHODS, SLOW_FAMILIES, check_methods, compare, print_outcomes
from ebcd.cli._data import Steps, load_covariance, load_data, scores_of, standardized
from ebcd.cli._errors import Commands, one_line_errors
from ebcd.cli._folder import claimed
from ebcd.cli._progress import Display, display
from ebcd.cli._results import (
    as_json,
    fit_model,
    make_model,
    pca_shares,
    read_results,
    report_again,
    summarise,
    write_results,
    write_scores,
)
from ebcd.data.files._table import Table
from ebcd.datasets import load_us_employment

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


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
def fit(
    path: o.InputFile,
    output: o.OutputFolder,
    index: o.Index = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    drop_missing: o.DropMissing = None,
    separator: o.Separator = None,
    decimal: o.DecimalMark = None,
    header: o.Header = None,
    skip_lines: o.SkipLines = 0,
    sheet: o.Sheet = None,
    key: o.Key = None,
    layer: o.Layer = None,
    transpose: o.Transpose = False,
    log_returns: o.LogReturns = False,
    difference: o.Difference = False,
    center: o.Center = True,
    scale: o.Scale = False,
    standardize: o.Standardize = False,
    covariance: o.Covariance = False,
    n_samples: o.NSamples = None,
    n_components: o.NComponents = "auto",
    prior: o.Prior = "point_laplace",
    noise: o.NoiseModel = o.Noise.constant,
    start: o.StartFrom = o.Start.auto,
    tol: o.Tol = None,
    max_iter: o.MaxIter = 2000,
    max_time: o.MaxTime = None,
    checkpoint: o.Checkpoint = None,
    seed: o.Seed = 0,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Find the components of a table and write them, the scores and a report to a folder."""
    reading = o.reading(locals())
    with one_line_errors():
        model = make_model(
            n_components,
            prior,
            noise=noise.value,
            center=center,
            scale=scale,
            start=start.value,
            tol=tol,
            max_iter=max_iter,
            max_time=max_time,
            checkpoint=None if checkpoint is None else str(checkpoint),
            random_state=seed,
        )
        steps = Steps(transpose, log_returns, difference, standardize)
        _check_covariance(covariance, n_samples)
        title = f"Components of {path.name if str(path) != '-' else 'standard input'}"
        with claimed(output, force) as part, display(quiet) as shown:
            table, sd = _read(path, steps, shown, center, n_samples, reading)
            about = {"source": str(path), "title": title, "output": str(output)}
            summary = _fit(model, table, n_samples, part, shown, steps, sd, **about)
        _print_summary(model, summary, output, json, quiet)


def _check_covariance(covariance: bool, n_samples: int | None) -> None:
    if covariance and n_samples is None:
        raise ValueError("--covariance needs the number of samples behind it: --n-samples N")
    if n_samples is not None and not covariance:
        raise ValueError("--n-samples goes with --covariance; data have as many as they have rows")


def _read(
    path: Path,
    steps: Steps,
    shown: Display,
    center: bool,
    n_samples: int | None,
    reading: dict[str, Any],
) -> tuple[Table, Any | None]:
    """Read and prepare data, or with `n_samples` a covariance matrix."""
    shown.stage(f"reading {path}")
    if n_samples is None:
        table, sd = load_data(path, steps, center=center, **reading)
    else:
        table, sd = load_covariance(path, steps, **reading)
    for note in table.notes:
        shown.note(f"note: {note}")
    rows, size = table.values.shape
    what = "covariance of" if n_samples is not None else f"{rows:,} samples of"
    shown.note(f"{what} {size:,} features")
    return table, sd


def _fit(
    model: ebcd.EBCD,
    table: Table,
    n_samples: int | None,
    folder: Path,
    shown: Display,
    steps: Steps,
    sd: Any | None,
    **about: str,
) -> dict[str, Any]:
    """Fit, write the results to a folder and return the summary."""
    scores, warned, seconds = fit_model(model, table, n_samples, shown)
    for warning in warned:
        shown.note(f"warning: {warning}")
    shown.stage("writing the results")
    summary = summarise(
        model,
        **about,
        steps=dataclasses.asdict(steps),
        pca_explained_variance_ratio=pca_shares(model, table, n_samples),
        seconds=round(seconds, 3),
        notes=table.notes,
        warnings=warned,
        **({} if sd is None else {"standard_deviations": sd}),
    )
    write_results(folder, model, summary, scores, table)
    return summary


def _print_summary(
    model: ebcd.EBCD, summary: dict[str, Any], output: Path, json: bool, quiet: bool
) -> None:
    if json:
        summary.pop("standard_deviations", None)  # one for each feature; they are in the file
        typer.echo(as_json(summary))
    elif not quiet:
        typer.echo(model.summary())
        typer.echo(f"\nresults: {output}\nreport:  {output / 'report.html'}")


@app.command()
def demo(
    output: o.OutputFolder = Path("ebcd-demo"),
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Try it on packaged data: what moved US employment in 15 sectors, 2006 to 2015."""
    with one_line_errors():
        jobs = load_us_employment()
        names = [name.replace("_", " ") for name in jobs.feature_names]
        steps = Steps(log_returns=True, standardize=True)
        table, sd = standardized(steps.apply(Table(jobs.data, names, jobs.dates, "month")))
        model = ebcd.EBCD(3)
        about = {
            "source": "monthly growth of employment, standardised; US Bureau of Labor Statistics",
            "title": "What moved US employment, 2006 to 2015?",
            "output": str(output),
        }
        with claimed(output, force) as part, display(quiet) as shown:
            shown.note(
                "US employment in 15 sectors, January 2006 to December 2015: monthly growth, "
                "standardised"
            )
            summary = _fit(model, table, None, part, shown, steps, sd, **about)
        _print_summary(model, summary, output, json, quiet)


@app.command()
def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="Folder that ebcd fit wrote.", show_default=False),
    ],
) -> None:
    """Write the report of a finished fit again."""
    with one_line_errors():
        typer.echo(report_again(folder))


@app.command("compare")
def compare_methods(
    path: o.InputFile,
    index: o.Index = None,
    columns: o.Columns = None,
    drop: o.Drop = None,
    drop_missing: o.DropMissing = None,
    separator: o.Separator = None,
    decimal: o.DecimalMark = None,
    header: o.Header = None,
    skip_lines: o.SkipLines = 0,
    sheet: o.Sheet = None,
    key: o.Key = None,
    layer: o.Layer = None,
    transpose: o.Transpose = False,
    log_returns: o.LogReturns = False,
    difference: o.Difference = False,
    center: o.Center = True,
    standardize: o.Standardize = False,
    covariance: o.Covariance = False,
    n_samples: o.NSamples = None,
    n_components: o.NComponents = "auto",
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Only this method or prior family; may be given several times. By default "
            f"{', '.join(METHODS)}.",
            autocompletion=lambda incomplete: [m for m in METHODS if m.startswith(incomplete)],
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--all", help=f"Also the slow families: {', '.join(SLOW_FAMILIES)}."),
    ] = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Fit several prior families and other methods to the same table, side by side."""
    reading = o.reading(locals())
    with one_line_errors():
        methods = check_methods(method or [], every)
        steps = Steps(transpose, log_returns, difference, standardize)
        _check_covariance(covariance, n_samples)
        with display(quiet) as shown:
            table, _ = _read(path, steps, shown, center, n_samples, reading)
            k = int(n_components) if n_components.isdigit() else n_components
            outcomes = list(compare(table, n_samples, k, center, methods, shown))
        if json:
            typer.echo(as_json([dataclasses.asdict(outcome) for outcome in outcomes]))
        else:
            print_outcomes(outcomes)


@app.command()
def transform(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="Folder that ebcd fit wrote, or the model.npz in it.",
            show_default=False,
        ),
    ],
    path: o.InputFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="CSV file to write the scores to; by default they are printed.",
            show_default=False,
        ),
    ] = None,
    index: o.Index = None,
    drop_missing: o.DropMissing = None,
    separator: o.Separator = None,
    decimal: o.DecimalMark = None,
    header: o.Header = None,
    skip_lines: o.SkipLines = 0,
    sheet: o.Sheet = None,
    key: o.Key = None,
    layer: o.Layer = None,
    force: o.Force = False,
    quiet: o.Quiet = False,
) -> None:
    """Compute the scores of new data, prepared as those of the fit; columns match by name."""
    reading = o.reading(locals())
    with one_line_errors():
        if output is not None:
            _check_file(output, force)
        fitted, summary = read_results(model)
        with display(quiet) as shown:
            shown.stage(f"reading {path}")
            scores, table = scores_of(fitted, summary, path, **reading)
            for note in table.notes:
                shown.note(f"note: {note}")
        if output is None:
            write_scores(sys.stdout, scores, table)
            return
        output.parent.mkdir(parents=True, exist_ok=True)
        text = io.StringIO(newline="")
        write_scores(text, scores, table)
        with _store.replacing(output) as file:
            file.write(text.getvalue().encode())
        if not quiet:
            typer.echo(f"scores of {len(scores)} rows: {output}")


def _check_file(path: Path, force: bool) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file")
    if path.exists() and not force:
        raise ValueError(f"{path} exists; choose another name, or replace it with --force")
