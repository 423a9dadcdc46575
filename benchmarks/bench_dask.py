"""Fits to Dask arrays: overhead against memory, bytes sent, and the rates of one core.

Run with ``python benchmarks/bench_dask.py``, or choose sections: overhead, bytes, rates. One BLAS
thread everywhere, ratios within one run, the smallest of a few repeats.

a  overhead  200,000 x 500, five sparse components: in memory, threads, two worker processes
b  bytes     what workers send each other and the client in a product, beside p and k
c  rates     entries a second that one core passes in a product and in cross-products

What follows from such rates for a billion rows is measured and checked by bench_billion.py.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from threadpoolctl import threadpool_limits

import ebcd
from ebcd.data import _dask, as_input
from ebcd.data._moments import block_moments
from ebcd.data._rows import block_product


def draw(n: int, p: int, seed: int = 0, k: int = 5) -> np.ndarray:
    """Sparse components, the same for every seed, and noise."""
    rng = np.random.default_rng(0)
    loadings = 2 * rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.05)
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Smallest time of a call."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)


def passes(function: Callable[[], object]) -> int:
    """Count passes through the data."""
    original, count = _dask._computed, []

    def computed(tasks: list[Any]) -> list[Any]:
        count.append(1)
        return original(tasks)

    _dask._computed = computed
    try:
        function()
    finally:
        _dask._computed = original
    return len(count)


def one_machine(n_workers: int = 2) -> Any:
    """Worker processes with a thread each."""
    return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)


def overhead(options: argparse.Namespace) -> None:
    """Compare times with a fit in memory."""
    n, p = options.rows, 500
    X = draw(n, p)
    print(f"\n(a) {n:,} x {p}, k = 5, blocks of 20,000 rows\n")
    memory = seconds(lambda: ebcd.EBCD(5).fit(X), options.repeats)
    print(f"  in memory, one thread                  {memory:6.2f} s")
    array = da.from_array(X, chunks=(20_000, p))
    for name in ("synchronous", "threads"):
        with dask.config.set(scheduler=name):
            report(name, memory, array, options.repeats)
    with one_machine() as cluster, Client(cluster):
        made = da.empty((n, p), chunks=(20_000, p)).map_blocks(like, dtype=float)
        kept = made.persist()
        wait(kept)
        report("two processes, data persisted", memory, kept, options.repeats)


def like(block: np.ndarray, k: int = 5, block_info: Any = None) -> np.ndarray:
    """Draw a block on the worker: data sent through the client would be what is timed."""
    seed = block_info[0]["chunk-location"][0]
    return draw(*block.shape, seed=seed, k=k).astype(block.dtype, copy=False)


def report(name: str, memory: float, array: Any, repeats: int) -> None:
    """Print the time of a fit, its ratio to one in memory, and its passes."""
    count = passes(lambda: ebcd.EBCD(5).fit(array))
    taken = seconds(lambda: ebcd.EBCD(5).fit(array), repeats)
    print(f"  {name:38} {taken:6.2f} s   x {taken / memory:.2f}   {count} pass(es)")


def sent(client: Any) -> int:
    """Bytes that workers have sent so far."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def bytes_sent(options: argparse.Namespace) -> None:
    """Compare what a product sends with p times k."""
    print("\n(b) bytes that workers send in a product, 8 p k bytes = 1\n")
    with one_machine() as cluster, Client(cluster) as client:
        for p, k, blocks in ((5_000, 10, 8), (5_000, 10, 32), (20_000, 10, 8), (5_000, 40, 8)):
            array = da.random.random((blocks * 100, p), chunks=(100, p)).persist()
            covariance = as_input(array, True, False).covariance
            V = np.ones((p, k))
            before = sent(client)
            for _ in range(options.repeats):
                covariance.matmul(V)
            each = (sent(client) - before) / options.repeats / (8 * p * k)
            print(f"  p = {p:6,}   k = {k}   {blocks:2} blocks of 100 rows   {each:5.2f}")


def rates(options: argparse.Namespace) -> None:
    """Measure what one core does."""
    print("\n(c) rates of one core\n")
    p = 10_000
    print("  product, p = 10,000: entries a second")
    for k in (5, 10, 20):
        for dtype in (np.float64, np.float32):
            X = np.random.default_rng(0).normal(size=(1_500, p)).astype(dtype)
            V, mean = np.random.default_rng(1).normal(size=(k, p)), np.zeros(p)
            taken = seconds(lambda: block_product(X, V, mean, False), 2 * options.repeats)  # noqa: B023
            print(f"    k = {k:2}   {dtype.__name__}   {X.size / taken:.2e}")
    print("  cross-products: entries a second, and products of k = 10 that take as long")
    for width in (500, 1_000, 2_000, 4_000):
        X = np.random.default_rng(0).normal(size=(6_000_000 // width, width))
        V, mean = np.random.default_rng(1).normal(size=(10, width)), np.zeros(width)
        cross = seconds(lambda: block_moments(X, cross=True), options.repeats)  # noqa: B023
        once = seconds(lambda: block_product(X, V, mean, False), options.repeats)  # noqa: B023
        print(f"    p = {width:5,}   {X.size / cross:.2e}   {cross / once:.1f}")


SECTIONS = {"overhead": overhead, "bytes": bytes_sent, "rates": rates}


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", help=f"any of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--repeats", type=int, default=3, help="calls of which the fastest counts")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of the data in (a)")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}")
    with threadpool_limits(1):
        for name in options.sections or SECTIONS:
            SECTIONS[name](options)


if __name__ == "__main__":
    main()
