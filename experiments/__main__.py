"""Run the experiments: ``python -m experiments``, or `make paper`.

Results are written as they are found; what is there already is not done again, so a run that was
interrupted goes on where it stopped. Steps: simulations, optima, reference (with ``--data``),
shrinkage, sectors, tables (of the fits that are there, without new ones), page.
"""

from __future__ import annotations

import argparse
import datetime as dt
import platform
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

import ebcd
from experiments import optima, sectors, shrinkage
from experiments.methods import METHODS, SPARSE_PCA_DEFAULT
from experiments.records import finished, read_json, read_rows, write, write_json, write_rows
from experiments.reference_results import reference_elbo, reference_measures
from experiments.simulations import Source, reference_source, row, run, tasks
from experiments.tables import flat, parse, reduce_grids, summary, versus_reference

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("simulations", "optima", "reference", "shrinkage", "sectors", "tables", "page")
QUICK_GRIDS = {
    "gpower": tuple(round(0.1 * step, 2) for step in range(1, 10)),
    "sparse_pca": (SPARSE_PCA_DEFAULT, 2.0, 4.0),
}


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; or all")
    parser.add_argument("--output", type=Path, default=ROOT / "experiments" / "results")
    parser.add_argument("--page", type=Path, help="page to write; default: OUTPUT/paper.md")
    parser.add_argument("--seeds", type=int, default=50, help="data sets of each simulation")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=METHODS,
        default=list(METHODS),
        help="methods to run; in tables of the simulations the others keep the lines they have",
    )
    parser.add_argument("--quick", action="store_true", help="two data sets, coarse grids")
    parser.add_argument(
        "--data", type=Path, help="folder with sim1.npz and sim2.npz of the reference"
    )
    parser.add_argument("--returns", type=Path, help="CSV of dates and log returns of sectors")
    parser.add_argument("--factors", type=Path, help="CSV of dates, Mkt-RF, SMB and HML")
    parser.add_argument("--covariance", type=Path, help="CSV of a covariance X'X/n of sectors")
    parser.add_argument("--rows", type=int, help="number of rows n behind --covariance")
    options = parser.parse_args(arguments)
    unknown = [step for step in options.steps if step not in STEPS]
    if unknown:
        parser.error(f"there is no step {unknown[0]!r}; choose from {', '.join(STEPS)}")
    if (options.returns is None) != (options.factors is None):
        parser.error("--returns and --factors go together: give both, or none for the default data")
    if (options.covariance is None) != (options.rows is None):
        parser.error("--covariance and --rows go together: the fit needs the number of rows")
    if options.seeds < 1:
        parser.error("--seeds must be at least 1")
    if options.quick:
        options.seeds = min(options.seeds, 2)
    options.grids = QUICK_GRIDS if options.quick else {}
    options.steps = options.steps or list(STEPS)
    return options


def machine() -> dict[str, Any]:
    """Where and with what the results were found."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [x for x in info.read_text(encoding="utf-8").splitlines() if "model name" in x]
        cpu = models[0].split(":", 1)[1].strip() if models else cpu
    return {
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "cpu": cpu,
        "system": platform.system(),
        "python": platform.python_version(),
        "ebcd": ebcd.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def do_simulations(options: argparse.Namespace) -> None:
    """Fit all methods to our own data sets."""
    source = Source(tuple(range(1, options.seeds + 1)))
    records = options.output / "records" / "simulations"
    new = run(source, records, options.methods, options.grids, options.jobs)
    path = options.output / "machine.json"
    if new or not path.exists():  # it is where the fits were made, not where the page was written
        write_json(path, machine() | kept_dates(options, read_json(path) if path.exists() else {}))


def left_out(options: argparse.Namespace) -> list[str]:
    """Return the methods that are not run; their rows in the tables stay as they are."""
    return [name for name in METHODS if name not in options.methods]


def kept_dates(options: argparse.Namespace, before: dict[str, Any]) -> dict[str, Any]:
    """Return the dates of the results of methods that are not run, as far as there are any."""
    dates = dict.fromkeys(left_out(options), before.get("date")) | before.get("kept", {})
    kept = {name: dates[name] for name in left_out(options) if dates[name]}
    return {"kept": kept} if kept else {}


def more_draws(options: argparse.Namespace) -> Source:
    """Return four times as many data sets of Simulation 1, for the comparison of its optima."""
    return Source(tuple(range(optima.FIRST_SEED, optima.FIRST_SEED + 4 * options.seeds)))


def do_optima(options: argparse.Namespace) -> None:
    """Fit EBCD from two starts to further data sets of Simulation 1."""
    names = [name for name in optima.METHODS if name in options.methods]
    records = options.output / "records" / "optima"
    run(more_draws(options), records, names, {}, options.jobs, (optima.SETTING,))


def do_reference(options: argparse.Namespace) -> None:
    """Fit all methods but SparsePCA, which the reference has not, to its data sets."""
    if options.data is None:
        return
    source = reference_source(options.data, 2 if options.quick else None)
    records = options.output / "records" / "reference"
    names = [name for name in options.methods if name != "sparse_pca"]
    run(source, records, names, options.grids, options.jobs)


def do_tables(options: argparse.Namespace) -> None:
    """Gather the fits that are there into tables, and draw the box plots."""
    from experiments.figures import draw_boxes

    source = Source(tuple(range(1, options.seeds + 1)))
    rows, grids = reduce_grids(gathered(options, source, "simulations"))
    rows += parse(kept_rows(options, "simulations.csv"))
    grids += kept_rows(options, "grids.csv")
    if rows:
        write_rows(options.output / "simulations.csv", rows)
        write_rows(options.output / "summary.csv", flat(summary(rows)))
        draw_boxes(rows, options.output / "figures" / "simulations.png")
    if grids:
        write_rows(options.output / "grids.csv", grids)
    pairs = optima.paired(gathered(options, more_draws(options), "optima"), None)
    if pairs:
        write_rows(options.output / "optima.csv", pairs)
    if options.data is not None:
        tabulate_reference(options)


def kept_rows(options: argparse.Namespace, file: str) -> list[dict[str, str]]:
    """Return the rows of a table that belong to methods that are not run."""
    path, names = options.output / file, left_out(options)
    rows = read_rows(path) if path.exists() else []
    return [
        row
        for row in rows
        if row["method"].removesuffix("_default").removesuffix("_oracle") in names
    ]


def tabulate_reference(options: argparse.Namespace) -> None:
    """Put our fits to the reference data sets beside the reference's own."""
    source = reference_source(options.data, 2 if options.quick else None)
    rows, _ = reduce_grids(gathered(options, source, "reference"))
    rows = [row for row in rows if not row["method"].startswith("sparse_pca")]
    lines = versus_reference(rows, reference_measures(options.data))
    if lines:
        write_rows(options.output / "reference.csv", lines)
    pairs = optima.paired(rows, source.folder)
    if pairs:
        write_rows(options.output / "reference_optima.csv", pairs)
    write_rows(options.output / "reference_seconds.csv", [_only(row, "seconds") for row in rows])
    known = reference_elbo(options.data)
    elbo = [
        {**_only(row, "elbo"), "theirs": known.get(_reference_key(row))}
        for row in rows
        if row["method"].startswith("ebcd")
    ]
    if elbo:
        write_rows(options.output / "reference_elbo.csv", elbo)


def _only(row: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: row[key] for key in ("setting", "seed", "method", name)}


def _reference_key(row: dict[str, Any]) -> tuple[int, str, int]:
    return row["setting"], row["method"].removesuffix("_greedy"), row["seed"]


def gathered(options: argparse.Namespace, source: Source, kind: str) -> list[dict[str, Any]]:
    """Return the completed fits."""
    listed = tasks(source, options.output / "records" / kind, options.methods, options.grids)
    return [row(task, read_json(path)["result"]) for path, task in listed if finished(path, task)]


def do_shrinkage(options: argparse.Namespace) -> None:
    """Draw operators and penalties, and check that they belong together."""
    from experiments.figures import draw_shrinkage

    write_rows(options.output / "shrinkage.csv", shrinkage.check())
    draw_shrinkage(options.output / "figures" / "shrinkage.png")
    print("shrinkage operators: done", flush=True)


def do_sectors(options: argparse.Namespace) -> None:
    """Fit the sectors: the user's returns or those of `linearmodels`; and a covariance."""
    from experiments.figures import draw_loadings, draw_plane

    if options.returns is not None:
        data = sectors.load_csv(options.returns, options.factors)
    else:
        data = sectors.load_french()
    found = sectors.run(data)
    write_json(options.output / "sectors.json", found)
    draw_loadings(found, options.output / "figures" / "sectors_loadings.png")
    draw_plane(found, options.output / "figures" / "sectors_plane.png")
    if options.covariance is not None:
        S, names = sectors.load_covariance(options.covariance)
        write_json(
            options.output / "covariance.json",
            {"names": names, "n_samples": options.rows}
            | sectors.fit_covariance(S, options.rows)
            | {"kept": sectors.kept_of_covariance(S, options.rows)},
        )
    print("sectors: done", flush=True)


def do_page(options: argparse.Namespace) -> None:
    """Write the page from the results, and put its figures beside it."""
    from experiments.page import make_page

    page = options.page or options.output / "paper.md"
    pictures = page.parent / "_static" / "paper"
    pictures.mkdir(parents=True, exist_ok=True)
    for figure in sorted((options.output / "figures").glob("*.png")):
        (pictures / figure.name).write_bytes(figure.read_bytes())
    write(page, make_page(options.output))
    print(f"page: {page}", flush=True)


def main(arguments: list[str] | None = None) -> None:
    """Do the steps, in their order."""
    options = parsed(arguments)
    actions = {
        "simulations": do_simulations,
        "optima": do_optima,
        "reference": do_reference,
        "shrinkage": do_shrinkage,
        "sectors": do_sectors,
        "tables": do_tables,
        "page": do_page,
    }
    for step in STEPS:
        if step in options.steps:
            actions[step](options)


if __name__ == "__main__":
    main()
