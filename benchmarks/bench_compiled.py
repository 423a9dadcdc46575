"""Compiled loops (numba, the extra ``fast``) beside array operations: normal means and whole fits.

Run from the root of the project with ``python -m benchmarks.bench_compiled``, or choose tables:
start, means, columns, fits. It takes some five minutes.

Two processes solve the same problems, one of them with ``EBCD_NUMBA=0``, and take turns, so that
other work on the machine slows both. One thread, processor times, the smallest of ``--repeats``
turns; calls too short for the clock are repeated within a turn. Fits of several data sets: medians.
What numba keeps goes to a folder that is empty at first and removed in the end, so that everything
is compiled once. The covariance of stock sectors may not be redistributed: its rows need
``--sectors FILE``, or EBCD_SECTORS in the environment.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr
from threadpoolctl import threadpool_limits

import ebcd
from benchmarks.bench_curves import ONE_THREAD, ROOT, where
from benchmarks.bench_ebcd import SECTOR_DAYS, Table, read_covariance
from benchmarks.bench_ebnm import large_problems, nearby, three_columns
from benchmarks.bench_scale import planted, randomized
from ebcd.datasets import make_simulation
from ebcd.priors import make_family
from ebcd.priors._fused import fused_kernels
from ebcd.priors._solve import solve_columns

SLABS = ("laplace", "exponential", "normal")
FAMILIES = (*(f"point_{slab}" for slab in SLABS), *SLABS)
NOISE = {"common": "common noise", "vector": "one noise per entry"}
LONG_ENOUGH = 0.02  # seconds of a turn

Call = Callable[[], object]
Pairs = list[tuple[Call, Call | None]]  # what is timed, and what takes one unit, if not ms


class Row(NamedTuple):
    """What is timed, in which unit, and calls for every data set, made when it is their turn."""

    name: str
    unit: str
    pairs: Callable[[], Pairs]


class Times(NamedTuple):
    """Seconds of every data set, without and with numba, and of the unit."""

    without: np.ndarray
    compiled: np.ndarray
    unit: np.ndarray | None

    @property
    def values(self) -> tuple[float, float]:
        """Say how long it takes without and with numba, in units or in milliseconds."""
        unit = 1e-3 if self.unit is None else self.unit
        return float(np.median(self.without / unit)), float(np.median(self.compiled / unit))

    @property
    def cells(self) -> list[str]:
        """Write the same."""
        return [number(value) for value in self.values]


def number(x: float) -> str:
    """Write a number with three digits."""
    return f"{x:.0f}" if x >= 100 else f"{x:#.3g}"


def one_column(which: str, warm: bool) -> Pairs:
    """Solve 100,000 normal means, beside one pass of `log_ndtr` through as many."""
    x, s, noise = large_problems()[which]
    start = nearby(ebcd.ebnm(x, s).prior) if warm else None
    return [(lambda: ebcd.ebnm(x, s, start=start), lambda: log_ndtr(noise))]


def columns(x: np.ndarray, s: np.ndarray, family: str, warm: bool) -> Pairs:
    """Solve several columns at once, as a fit does."""
    priors = [make_family(family)] * len(x)
    starts = [nearby(prior) for prior in solve_columns(x, s, priors).priors] if warm else None
    return [(lambda: solve_columns(x, s, priors, starts), None)]


def observed(noise: str, n: int, positive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Give five columns of normal means, a tenth of them not zero, and their noise."""
    rng = np.random.default_rng(0)
    theta = np.where(rng.random((5, n)) < 0.1, 3 * rng.laplace(size=(5, n)), 0)
    s = np.array(1.0) if noise == "common" else np.exp(0.3 * rng.normal(size=n))
    theta = np.abs(theta) if positive else theta
    return theta + s * rng.normal(size=theta.shape), s


def large_columns(family: str, noise: str) -> Pairs:
    """Solve five columns of a million entries."""
    positive = family.endswith("exponential")
    return columns(*observed(noise, 1_000_000, positive), family, True)


def simulations(setting: int, k: int) -> Pairs:
    """Fit twenty draws of a simulation of the paper, beside their SVD."""
    draws = [make_simulation(setting, 50, random_state=seed)[0] for seed in range(20)]
    return [
        (
            lambda x=x: ebcd.EBCD(k, center=False).fit(x),
            lambda x=x: np.linalg.svd(x, full_matrices=False),
        )
        for x in draws
    ]


def medium() -> Pairs:
    """Fit three draws with five sparse components, beside a randomised PCA."""
    draws = [planted(500, 10_000, 5, 0.02, seed) for seed in range(3)]
    return [(lambda x=x: ebcd.EBCD(5).fit(x), lambda x=x: randomized(5)(x)) for x in draws]


def sectors(path: Path, k: int) -> Pairs:
    """Fit the covariance of stock sectors."""
    s = read_covariance(path)
    return [(lambda: ebcd.EBCD(k).fit_covariance(s, SECTOR_DAYS), None)]


def rows(sector_file: Path | None) -> dict[str, list[Row]]:
    """List what is timed, by table."""
    starts = ("cold", "warm")
    means = [
        Row(
            f"100,000 entries, {NOISE[noise]}, {data}, {start}",
            "passes of log_ndtr",
            functools.partial(one_column, which, start == "warm"),
        )
        for which in large_problems()
        for noise, data in [which.split(" s, ")]
        for start in starts
    ] + [
        Row(
            f"3 columns of 500, common noise, {start}",
            "ms",
            functools.partial(
                columns, three_columns(), np.array(1.0), "point_laplace", start == "warm"
            ),
        )
        for start in starts
    ]
    large = [
        Row(f"{family}, {noise}", "ms", functools.partial(large_columns, family, noise))
        for family in FAMILIES
        for noise in NOISE
    ]
    fits = [
        Row("simulation 1, 50 x 500, k = 2", "SVDs", functools.partial(simulations, 1, 2)),
        Row("simulation 2, 50 x 500, k = 3", "SVDs", functools.partial(simulations, 2, 3)),
        Row("500 x 10,000, k = 5", "randomised PCAs", medium),
    ]
    if sector_file:
        fits += [
            Row(f"sectors, k = {k}", "ms", functools.partial(sectors, sector_file, k))
            for k in (3, 4, 5)
        ]
    return {"means": means, "columns": large, "fits": fits}


def processor_seconds(call: Call, times: int = 1) -> float:
    """Processor time of a call, from several."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - begin) / times


def enough(call: Call) -> int:
    """Call twice, the first time to warm up, and say how many calls the clock needs."""
    call()
    return math.ceil(LONG_ENOUGH / max(processor_seconds(call), 1e-6))


def serve(sector_file: Path | None) -> None:
    """Time what is asked for: a row to be made ready, or one of its data sets to be timed."""
    known = rows(sector_file)
    timed: list[list[tuple[Call, int]]] = []
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, int):
            answer: Any = [processor_seconds(call, times) for call, times in timed[request]]
        else:
            timed.clear()  # the old data first
            pairs = known[request[0]][request[1]].pairs()
            timed += [[(call, enough(call)) for call in pair if call] for pair in pairs]
            answer = len(timed)
        print(json.dumps(answer), flush=True)


def begin_to_use() -> None:
    """Do all that fits by default need compiled loops for, and say how long it took."""
    problems = [observed(noise, n) for noise in NOISE for n in (100, 10_000)]
    data = make_simulation(2, 50, random_state=0)[0]

    def solve() -> None:
        for x, s in problems:
            solve_columns(x, s, [make_family("point_laplace")] * 5)
        ebcd.EBCD(3).fit(data)

    print(json.dumps([processor_seconds(solve), fused_kernels("slabs") is not None]))


def environment(numba: bool, cache: Path) -> dict[str, str]:
    """Give that of a process: one thread, with or without numba, and where its code is kept."""
    chosen = {"EBCD_NUMBA": str(int(numba)), "NUMBA_CACHE_DIR": str(cache)}
    return {**os.environ, **ONE_THREAD, **chosen}


def command(*options: object) -> list[str]:
    """Give that of a process."""
    return [sys.executable, "-m", "benchmarks.bench_compiled", *map(str, options)]


class Side:
    """A process that times what it is asked to, with or without numba."""

    def __init__(self, numba: bool, cache: Path, options: argparse.Namespace) -> None:
        chosen = ["--sectors", options.sectors.resolve()] if options.sectors else []
        self._process = subprocess.Popen(
            command("--serve", *chosen),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(numba, cache),
        )

    def ask(self, request: object) -> Any:
        """Send a request and wait for the answer."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the process that was asked for {request} ended, see above")
        return json.loads(answer)

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()


def measured(sides: tuple[Side, Side], where: list[Any], repeats: int) -> Times:
    """Time a row on both sides, in turns."""
    count, _ = (side.ask(where) for side in sides)
    found = np.array(
        [[[side.ask(i) for side in sides] for i in range(count)] for _ in range(repeats)]
    ).min(axis=0)  # data sets x sides x (call, its unit)
    unit = found[:, :, 1].min(axis=1) if found.shape[2] > 1 else None
    return Times(found[:, 0, 0], found[:, 1, 0], unit)


def in_new_process(numba: bool, cache: Path) -> float:
    """Processor time until the default prior has been used for the first time."""
    done = subprocess.run(
        command("--begin"),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(numba, cache),
    )
    seconds, compiled = json.loads(done.stdout)
    if compiled != numba:
        raise SystemExit(f"compiled loops should{'' if numba else ' not'} have been used")
    return float(seconds)


def start(cache: Path, repeats: int) -> None:
    """Print what compiling and loading take."""
    times = []
    for turn in range(repeats):
        own = cache / f"turn{turn}"
        own.mkdir()
        times.append([in_new_process(*how) for how in ((True, own), (True, own), (False, own))])
        print(f"  turn {turn + 1}: {', '.join(f'{x:.2f} s' for x in times[-1])}", file=sys.stderr)
    empty, kept, without = np.min(times, axis=0)
    table = Table("once, or in every process", "seconds")
    table.add("to compile all that fits by default need, once", f"{empty - kept:.1f}")
    table.add("to load numba and what was compiled, in every process", f"{kept - without:.2f}")
    table.print("Before the first result", True)


def print_rows(title: str, what: list[Row], times: Iterator[Times]) -> None:
    """Print a table with one line for every row."""
    table = Table("", "in", "without", "with", "times faster")
    for row, found in zip(what, times, strict=True):
        one = "" if found.unit is None else f" ({number(1e3 * np.median(found.unit))} ms)"
        without, compiled = found.values
        table.add(row.name, row.unit + one, *found.cells, f"{without / compiled:.2f}")
    table.print(title, True)


def print_columns(times: Iterator[Times]) -> None:
    """Print a table with one line for every family."""
    heads = [f"{NOISE[noise]}, {side}" for noise in NOISE for side in ("without", "with")]
    table = Table("family", *heads)
    for family in FAMILIES:
        table.add(f"`{family}`", *(cell for _ in NOISE for cell in next(times).cells))
    table.print("5 columns of 1,000,000 entries, warm, ms", True)


def print_tables(options: argparse.Namespace, cache: Path) -> None:
    """Measure and print the tables that were asked for."""
    chosen = options.tables or TABLES
    known = rows(options.sectors)
    if "start" in chosen:
        start(cache, min(options.repeats, 3))
    with ExitStack() as stack:
        sides = tuple(stack.enter_context(Side(on, cache, options)) for on in (False, True))

        def times(name: str) -> Iterator[Times]:
            for i, row in enumerate(known[name]):
                found = measured(sides, [name, i], options.repeats)
                print(f"  {row.name}: {' and '.join(found.cells)}", file=sys.stderr)
                yield found

        if "means" in chosen:
            print_rows("Normal means, `point_laplace`", known["means"], times("means"))
        if "columns" in chosen:
            print_columns(times("columns"))
        if "fits" in chosen:
            print_rows("Whole fits", known["fits"], times("fits"))
            if not options.sectors:
                print("\nsectors left out: give their covariance with --sectors or EBCD_SECTORS")


TABLES = ("start", "means", "columns", "fits")


def main() -> None:
    """Print all tables, or be one of the two processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", help=f"any of {', '.join(TABLES)}; default: all")
    parser.add_argument("--repeats", type=int, default=7, help="turns, of which the fastest counts")
    given = os.environ.get("EBCD_SECTORS")
    parser.add_argument("--sectors", type=Path, default=given and Path(given), help="a CSV file")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--begin", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = set(options.tables) - set(TABLES)
    if unknown:
        parser.error(f"unknown tables: {', '.join(sorted(unknown))}")
    if options.sectors and not options.sectors.is_file():
        parser.error(f"there is no file {options.sectors}")
    if find_spec("numba") is None:
        parser.error('numba is not installed: pip install "ebcd[fast]"')
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if options.serve:
            serve(options.sectors)
        elif options.begin:
            begin_to_use()
        else:
            print_machine()
            with tempfile.TemporaryDirectory() as folder:
                print_tables(options, Path(folder))


def print_machine() -> None:
    """Say where and with what the figures are found, and how busy it is there."""
    packages = " ".join(f"{name} {version(name)}," for name in ("ebcd", "numpy", "scipy", "numba"))
    about = where()
    print(
        f"{about['cpu']}, {about['cores']} cores, load {about['load']:.1f}, Python "
        f"{about['python']}, {packages} one thread, {about['date']}",
        flush=True,
    )


if __name__ == "__main__":
    main()
