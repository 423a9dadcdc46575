"""What a billion rows would take: rates of one core, and fits that check what follows from them.

Run from the root of the project with ``python -m benchmarks.bench_billion`` on a machine with two
cores; some three minutes. It writes ``benchmarks/results/billion.json`` for the page on scale.

First come the rates in ``arithmetic.py``, from single blocks, and passes and the time between them
of one fit to few rows. From those the time of fits to more rows is predicted, in which only the
number of rows and of cores is new, and compared with the time that they take: read from a file for
every product, and on one and two worker processes of Dask. Columns and components are those of the
billion rows, 10,000 and 10, in single precision.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from distributed import Client, wait
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

import ebcd
from benchmarks.arithmetic import Rates, fit_seconds
from benchmarks.bench_curves import RESULTS, where
from benchmarks.bench_dask import draw, like, one_machine, seconds
from benchmarks.bench_scale import clock, forget_peak, resident
from ebcd.data._dask import DaskRows
from ebcd.data._moments import block_moments
from ebcd.data._rows import block_product
from ebcd.data._streamed import ChunkRows
from experiments.records import write_json

SINGLE = np.float32


class Design(NamedTuple):
    """Columns, components, rows to calibrate with, rows to predict, and rows of a block."""

    p: int = 10_000
    k: int = 10
    few: int = 1_000
    rows: tuple[int, ...] = (4_000, 16_000)
    block: int = 1_000
    repeats: int = 3


QUICK = Design(p=5_200, k=2, few=400, rows=(800,), block=100, repeats=1)


def rates_of_blocks(design: Design, path: Path) -> Rates:
    """Measure seconds for an entry of the data: in a product, the first pass, and reading."""
    p, k, repeats = design.p, design.k, design.repeats
    X = np.load(path)[: design.block]
    rng = np.random.default_rng(1)
    widths, times = (k, 2 * k, 4 * k), []
    for width in widths:
        V, mean = rng.normal(size=(width, p)), np.zeros(p)
        taken = seconds(lambda: block_product(X, V, mean, False), 3 * repeats)  # noqa: B023
        times.append(taken / X.size)
    (entry, column), _ = nnls(np.column_stack([np.ones(3), widths]), times)
    moments = seconds(lambda: block_moments(X, cross=False), repeats) / X.size
    read = seconds(lambda: read_and_centre(path), repeats) / np.load(path, mmap_mode="r").size
    return {
        "entry": float(entry),
        "column": float(column),
        "moments": moments,
        "read": read,
        "gflops": 4 * k / times[0] / 1e9,
        "read_gb": SINGLE().itemsize / read / 1e9,
    }


def read_and_centre(path: Path) -> None:
    """Read a file in pieces, as a streamed product does, and subtract means."""
    rows = np.load(path, mmap_mode="r")
    mean = np.ones(rows.shape[1])
    for i in range(0, len(rows), 64):
        np.subtract(rows[i : i + 64], mean, dtype=SINGLE, casting="same_kind")


def rates_of_tasks(design: Design, blocks: int) -> Rates:
    """Measure seconds for a block of one row: of the scheduler, and for a column of the answer."""
    k, taken = design.k, {}
    for p in (16, design.p):
        tiny = da.zeros((blocks, p), chunks=(1, p), dtype=SINGLE).persist()
        wait(tiny)
        V, mean = np.ones((k, p)), np.zeros(p)
        rows = DaskRows(tiny)
        taken[p] = seconds(lambda: rows.product(V, mean, False, 1.0), design.repeats) / blocks  # noqa: B023
    workers = 2  # deal with answers at the same time
    return {"task": taken[16], "answer": max(taken[design.p] - taken[16], 0.0) * workers / k}


@contextmanager
def watched() -> Iterator[list[tuple[int, float]]]:
    """List the passes of fits in the block: columns multiplied (0 in the first), and seconds."""
    passes: list[tuple[int, float]] = []
    places: list[tuple[Any, str]] = [
        (kind, name) for kind in (ChunkRows, DaskRows) for name in ("product", "moments")
    ]
    old = [(place, name, vars(place)[name]) for place, name in places]

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            begin = time.perf_counter()
            result = function(*args, **kwargs)
            width = 0 if name == "moments" else args[1].shape[0]
            passes.append((width, time.perf_counter() - begin))
            return result

        return wrapped

    for place, name, function in old:
        setattr(place, name, timed(name, function))
    try:
        yield passes
    finally:
        for place, name, function in old:
            setattr(place, name, function)


def fitted(design: Design, data: Any) -> dict[str, Any]:
    """Time a fit, and list its passes."""
    best: dict[str, Any] = {"seconds": np.inf}
    for _ in range(max(design.repeats - 1, 1)):
        with watched() as passes:
            taken = clock(lambda: ebcd.EBCD(design.k).fit(data))
        if taken < best["seconds"]:
            best = {
                "seconds": taken,
                "client": taken - sum(each for _, each in passes),
                "widths": [width for width, _ in passes],
            }
    return best


def write_rows(path: Path, design: Design, rows: int) -> None:
    """Write the rows that the workers draw to a file."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=SINGLE, shape=(rows, design.p))
    for seed, i in enumerate(range(0, rows, design.block)):
        part = array[i : i + design.block]
        part[:] = draw(*part.shape, seed=seed, k=design.k)
    array.flush()


def compared(
    where_: str, n: int, found: dict[str, Any], rates: Rates, predicted: float
) -> dict[str, Any]:
    """Print and give one line of what was predicted and measured."""
    line = {"where": where_, "n": n, "passes": len(found["widths"]), "predicted": predicted}
    line["measured"] = found["seconds"]
    print(
        f"  {where_:12} {n:8,} rows  predicted {predicted:7.2f} s  measured "
        f"{found['seconds']:7.2f} s  {line['passes']} passes, between them {found['client']:.2f} s "
        f"({rates['client']:.2f} expected)",
        flush=True,
    )
    return line


def streamed(
    design: Design, folder: Path, rates: Rates, widths: list[int]
) -> Iterator[dict[str, Any]]:
    """Compare fits that read a file for every product."""
    for n in design.rows:
        path = folder / f"{n}.npy"
        write_rows(path, design, n)
        found = fitted(design, np.load(path, mmap_mode="r"))
        predicted = fit_seconds(rates, widths, n * design.p, read=rates["read"])
        yield compared("file", n, found, rates, predicted)
        path.unlink()


def on_workers(
    design: Design, workers: int, rates: Rates, widths: list[int]
) -> Iterator[dict[str, Any]]:
    """Compare fits on worker processes that have the data in memory."""
    for n in design.rows:
        shape, chunks = (n, design.p), (design.block, design.p)
        empty = da.empty(shape, chunks=chunks, dtype=SINGLE)
        data = empty.map_blocks(like, k=design.k, dtype=SINGLE).persist()
        wait(data)
        blocks = len(data.chunks[0])
        predicted = fit_seconds(rates, widths, n * design.p, cores=workers, blocks=blocks)
        found = fitted(design, data)
        yield compared(
            "1 worker" if workers == 1 else f"{workers} workers", n, found, rates, predicted
        )
        del data


def memory_of_workers(design: Design, client: Any) -> dict[str, float | None]:
    """Measure what a product takes on a worker, and the rest of the fit here, beside the data."""
    n = design.rows[-1]
    empty = da.empty((n, design.p), chunks=(design.block, design.p), dtype=SINGLE)
    data = empty.map_blocks(like, k=design.k, dtype=SINGLE).persist()
    wait(data)
    before, here = client.run(forget_peak), forget_peak()
    ebcd.EBCD(design.k).fit(data)
    after, there = client.run(resident, "VmHWM"), resident("VmHWM")
    if here is None or there is None:
        return {"worker_mb": None, "client_mb": None}
    return {
        "worker_mb": max(after[name] - before[name] for name in before),
        "client_mb": there - here,
    }


def run(design: Design, blocks: int) -> dict[str, Any]:
    """Measure rates, predict, and compare."""
    found: dict[str, Any] = {"machine": where(), "design": design._asdict(), "checks": []}
    with tempfile.TemporaryDirectory() as name, threadpool_limits(1):
        folder = Path(name)
        write_rows(folder / "few.npy", design, design.few)
        rates = rates_of_blocks(design, folder / "few.npy")
        few = fitted(design, np.load(folder / "few.npy", mmap_mode="r"))
        widths, rates["client"] = few["widths"], few["client"]
        with one_machine(2) as cluster, Client(cluster) as client:
            rates |= rates_of_tasks(design, blocks)
            print({name: f"{value:.3g}" for name, value in rates.items()}, "passes:", widths)
            found["checks"] += on_workers(design, 2, rates, widths)
            found |= memory_of_workers(design, client)
        with one_machine(1) as cluster, Client(cluster):
            found["checks"] += on_workers(design, 1, rates, widths)
        found["checks"] += streamed(design, folder, rates, widths)
    return {**found, "rates": rates, "widths": widths}


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few rows and columns")
    parser.add_argument("--results", type=Path, default=None, help="file to write")
    options = parser.parse_args(arguments)
    if options.quick and options.results is None:
        parser.error("--quick needs --results FILE: its figures are not those of the page")
    with dask.config.set({"distributed.comm.timeouts.connect": "60s"}):
        found = run(QUICK if options.quick else Design(), 20 if options.quick else 400)
    write_json(options.results or RESULTS / "billion.json", found)


if __name__ == "__main__":
    main()
