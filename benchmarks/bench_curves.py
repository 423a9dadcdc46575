"""Time and memory of a fit against rows, columns, components and density, beside PCA's.

Run from the root of the project with ``python -m benchmarks.bench_curves``, or choose curves: rows,
columns, components, density. It takes some five minutes on an idle machine and writes
``benchmarks/results/curves.json``, from which ``python -m benchmarks.scale_page`` makes the page on
scale; ``--quick`` does small sizes only.

Every point has a process of its own, with one thread of linear algebra. There the data are made,
the method is called once on small data, free memory is given back, and the kernel's count of the
peak is reset. Extra memory is that peak during the first fit less what was resident before it: what
the fit needs beside the data. Times are medians of fits in that process.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import ebcd
from benchmarks.bench_scale import counts, extra_memory, load, planted, randomized
from experiments.__main__ import machine
from experiments.records import read_json, write_json

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MOST_REPEATS, ENOUGH_SECONDS = 5, 3.0
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)

Point = dict[str, Any]


class Curve(NamedTuple):
    """A variable, its values, what is kept fixed, and the methods that are compared."""

    variable: str
    values: tuple[float, ...]
    quick: tuple[float, ...]
    fixed: dict[str, Any]
    methods: tuple[str, ...]


CURVES = {
    "rows": Curve(
        "n",
        (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000),
        (500, 2_000),
        {"p": 100, "k": 5, "density": 1.0},
        ("ebcd", "randomized", "default"),
    ),
    "columns": Curve(
        "p",
        (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
        (500, 2_000),
        {"n": 100, "k": 5, "density": 1.0},
        ("ebcd", "randomized"),
    ),
    "components": Curve(
        "k",
        (1, 2, 5, 10, 20, 50),
        (1, 4),
        {"n": 1_000, "p": 5_000, "density": 1.0},
        ("ebcd", "randomized"),
    ),
    "density": Curve(
        "density",
        (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
        (0.05, 0.2),
        {"n": 10_000, "p": 5_000, "k": 10},
        ("ebcd", "arpack"),
    ),
}
QUICK = {"n": 400, "p": 200, "k": 3}  # what is kept fixed in quick runs


def fitter(method: str, k: int) -> Callable[[Any], Any]:
    """Give a function that fits a method, with its defaults, to data."""
    if method == "ebcd":
        return lambda x: ebcd.EBCD(k).fit(x)
    if method == "randomized":
        return randomized(k)
    return PCA(k, svd_solver="auto" if method == "default" else method).fit


def points(curve: str, quick: bool = False) -> list[Point]:
    """List what is to be measured."""
    what = CURVES[curve]
    fixed = {name: QUICK.get(name, value) if quick else value for name, value in what.fixed.items()}
    return [
        {"curve": curve, "method": method, **fixed, what.variable: value}
        for value in (what.quick if quick else what.values)
        for method in what.methods
    ]


def data_for(point: Point, seed: int = 0) -> Any:
    """Make the data of a point: dense and planted, or sparse counts."""
    n, p, k = point["n"], point["p"], point["k"]
    if point["density"] < 1:
        return counts(n, p, k, point["density"], seed)
    return planted(n, p, k, 0.2 if p <= 100 else 0.02, seed)


def measured(point: Point) -> Point:
    """Measure one point in this process."""
    warnings.simplefilter("ignore")
    fit = fitter(point["method"], point["k"])
    with threadpool_limits(1):
        fitter(point["method"], 2)(data_for({**point, "n": 120, "p": 100, "k": 2}, seed=1))
        x = data_for(point)
        fitted: list[Any] = []
        times: list[tuple[float, float]] = []

        def once() -> None:
            begin = time.perf_counter(), time.process_time()
            fitted[:] = [fit(x)]
            times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))

        memory = extra_memory(once)
        while len(times) < MOST_REPEATS and sum(wall for wall, _ in times) < ENOUGH_SECONDS:
            once()
    seconds, processor = np.median(times, axis=0)
    found = {"seconds": seconds, "processor": processor, "repeats": len(times), "extra_mb": memory}
    if point["density"] < 1:  # as it turned out
        found["density"] = x.nnz / np.prod(x.shape)
    model = fitted[0]
    if point["method"] == "ebcd":
        found |= {"iterations": model.n_iter_, "converged": bool(model.converged_)}
    return {**point, **found}


def in_own_process(point: Point) -> Point:
    """Measure one point in a new process."""
    command = [sys.executable, "-m", "benchmarks.bench_curves", "--point", json.dumps(point)]
    environment = {**os.environ, **ONE_THREAD}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    return dict(json.loads(done.stdout))


def where() -> dict[str, Any]:
    """Say with what results were found, and how busy the machine was."""
    return {**machine(), "cores": os.cpu_count(), "load": load()}


def described(point: Point) -> str:
    """One line about a measured point."""
    memory = point["extra_mb"]
    return (
        f"{point['curve']:10s} {point['method']:10s} {point['n']:>9,} x {point['p']:<9,} "
        f"k={point['k']:<3d} density {point['density']:6.4f}  {point['seconds']:8.4f} s  "
        f"processor {point['processor']:8.4f} s  "
        + ("" if memory is None else f"extra {memory:7.1f} MB")
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure the curves that were asked for, and keep the others."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("curves", nargs="*", help=f"of {', '.join(CURVES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--results", type=Path, default=None, help="file to write")
    parser.add_argument("--point", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.point:
        print(json.dumps(measured(options.point)))
        return
    unknown = [name for name in options.curves if name not in CURVES]
    if unknown:
        parser.error(f"there is no curve {unknown[0]!r}; choose from {', '.join(CURVES)}")
    if options.quick and options.results is None:
        parser.error("--quick needs --results FILE: its figures are not those of the page")
    begin, file = where(), options.results or RESULTS / "curves.json"
    chosen = options.curves or list(CURVES)
    before = read_json(file)["points"] if file.exists() else []
    found = [point for point in before if point["curve"] not in chosen]
    for curve in chosen:
        for point in points(curve, options.quick):
            found.append(in_own_process(point))
            print(described(found[-1]), flush=True)
    write_json(file, {"machine": begin, "points": found})


if __name__ == "__main__":
    main()
