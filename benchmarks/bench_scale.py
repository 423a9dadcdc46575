"""Time of a whole fit against one PCA, from 50 x 500 to a million rows or columns.

Run with ``make bench``, or choose rows, as in ``python benchmarks/bench_scale.py wide tall``.
Default settings, one thread of linear algebra (``--threads 2`` for two), medians of repeated runs;
the two times of a ratio are taken in turns. ``--strict`` fits once more with a tolerance a thousand
times smaller, to see what was left to gain. Extra memory is the highest resident memory during a
fit less that before it, when the data are there; only Linux tells. ``--results FILE`` keeps the
rows for the page on scale.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime as dt
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import ebcd
from ebcd.data import AbstractCovariance
from ebcd.datasets import make_simulation
from ebcd.fitting import _decompose, _shrinkers

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "reference" / "ebcd"


class Case(NamedTuple):
    """Draws of data, what a fit is compared with, and how many times that it may take.

    The memory that it may take beside the data is a share of what they take when dense.
    """

    draws: list[Any]
    k: int
    reference: Callable[[Any], object]
    most: float
    most_memory: float | None = None


def planted(n: int, p: int, k: int, share: float, seed: int = 0) -> np.ndarray:
    """Noise and `k` components with Laplace loadings on a share of the features."""
    rng = np.random.default_rng(seed)
    loadings = 2 * rng.laplace(size=(k, p)) * (rng.random((k, p)) < share)
    x = rng.standard_normal((n, p))
    x += rng.standard_normal((n, k)) @ loadings
    return x


def counts(n: int, p: int, k: int, density: float, seed: int = 0) -> sparse.csr_array:
    """Poisson counts, mostly zero, whose rates `k` sparse programs raise in some of the rows."""
    rng = np.random.default_rng(seed)
    base = rng.gamma(0.5, size=p)
    base *= -np.log1p(-density) / base.mean()
    programs = np.zeros((k, p))
    for program in programs:
        program[rng.choice(p, p // 50, replace=False)] = rng.gamma(2.0, size=p // 50)
    activity = rng.gamma(0.5, size=(n, k))
    blocks = []
    for start in range(0, n, 1000):
        rate = base * (1 + activity[start : start + 1000] @ programs)
        blocks.append(sparse.csr_array(rng.poisson(rate).astype(np.float64)))
    return sparse.csr_array(sparse.vstack(blocks))


def randomized(k: int) -> Callable[[np.ndarray], object]:
    """Return scikit-learn's randomized PCA."""
    return lambda x: PCA(k, svd_solver="randomized", random_state=0).fit(x)


def simulated(setting: int) -> list[np.ndarray]:
    """Draw the paper's design several times: how long a fit takes differs a lot."""
    return [make_simulation(setting, 50, random_state=seed)[0] for seed in range(10)]


def cases() -> dict[str, Callable[[], Case]]:
    """Make the data of a row when it is its turn."""
    svd: Callable[[np.ndarray], object] = lambda x: np.linalg.svd(x, full_matrices=False)  # noqa: E731
    return {
        "simulation1": lambda: Case(simulated(1), 2, svd, 9),
        "simulation2": lambda: Case(simulated(2), 3, svd, 20),
        "medium": lambda: Case([planted(500, 10_000, 5, 0.02)], 5, randomized(5), 1.3),
        "large": lambda: Case([planted(2_000, 20_000, 10, 0.02)], 10, randomized(10), 0.9),
        "wide": lambda: Case([planted(100, 1_000_000, 5, 0.02)], 5, randomized(5), 1.1),
        "tall": lambda: Case([planted(1_000_000, 100, 5, 0.2)], 5, lambda x: x.T @ x, 1.4),
        "sparse": lambda: Case(
            [counts(20_000, 5_000, 10, 0.05)], 10, PCA(10, svd_solver="arpack").fit, 2, 0.25
        ),
        "square": lambda: Case([planted(1_000, 1_000, 10, 0.1)], 10, randomized(10), 6),
        "components": lambda: Case(
            [planted(2_000, 5_000, 50, 0.02, seed) for seed in range(3)], 50, randomized(50), 1.9
        ),
    }


class Phases:
    """Seconds spent in products, in normal-means problems and in the starts.

    Products are those with the data and those with compressions of them.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("start", "products", "normal means"), 0.0)
        self.products = 0
        self._inside: list[str] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block; what is inside of another phase but the start counts once."""
        begin = time.perf_counter()
        nested = name in self._inside
        self._inside.append(name)
        try:
            yield
        finally:
            self._inside.pop()
            if not nested:
                self.seconds[name] += time.perf_counter() - begin

    def watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that its time counts."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if name == "products" and name not in self._inside:
                self.products += 1
            with self.phase(name):
                return function(*args, **kwargs)

        return wrapped


@contextmanager
def watched() -> Iterator[Phases]:
    """Measure phases of the fits inside of the block."""
    phases = Phases()
    patches: list[tuple[Any, str, str]] = [
        (_decompose, "_searched", "start"),
        (_shrinkers, "solve_columns", "normal means"),
        (_shrinkers, "evaluate_two_groups", "normal means"),
    ]
    kinds = [AbstractCovariance]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        patches += [(kind, m, "products") for m in ("matmul", "leading") if m in vars(kind)]
    old = [(where, name, vars(where)[name]) for where, name, _ in patches]
    for where, name, phase in patches:
        setattr(where, name, phases.watched(phase, vars(where)[name]))
    try:
        yield phases
    finally:
        for where, name, function in old:
            setattr(where, name, function)


def clock(function: Callable[[], object]) -> float:
    """Seconds of one call."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def resident(field: str = "VmRSS") -> float | None:
    """Megabytes that are resident now, or were at most (``VmHWM``); None where nothing tells."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    return int(lines[field].split()[0]) * 1024 / 1e6


def forget_peak() -> float | None:
    """Give back what is free, begin to count the peak anew, and say how much is resident."""
    if sys.platform != "linux":
        return None
    getattr(ctypes.CDLL(None), "malloc_trim", lambda _: 0)(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return resident()


def extra_memory(function: Callable[[], object]) -> float | None:
    """Megabytes that a call takes at most, beside what is there before."""
    before = forget_peak()
    function()
    after = resident("VmHWM")
    return None if before is None or after is None else max(after - before, 0.0)


def measure(name: str, case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Time one row and print it."""
    model = ebcd.EBCD(case.k)
    shape, entries = case.draws[0].shape, float(np.prod(case.draws[0].shape))
    inner = 20 if entries < 1e5 else 1  # calls too short to be timed one by one
    pairs = []
    for x in case.draws * options.repeats:
        theirs = clock(lambda x=x: [case.reference(x) for _ in range(inner)]) / inner
        ours = clock(lambda x=x: model.fit(x))
        pairs.append((theirs, ours))
    theirs, ours = np.median(pairs, axis=0)
    ratio = float(np.median([b / a for a, b in pairs]))
    fitted: list[ebcd.EBCD] = []
    times: list[float] = []
    with watched() as phases:
        memory = extra_memory(
            lambda: times.append(
                clock(lambda: fitted.extend(ebcd.EBCD(case.k).fit(x) for x in case.draws))
            )
        )
    total = times[0]
    shares = {phase: seconds / total for phase, seconds in phases.seconds.items()}
    rest = 1 - shares["products"] - shares["normal means"]
    print(
        f"{name:12s} {shape[0]:>9,} x {shape[1]:<9,} k={case.k:<3d} reference {theirs:8.4f} s  "
        f"EBCD {ours:8.4f} s  ratio {ratio:6.2f} (bar {case.most})  converged "
        f"{sum(m.converged_ for m in fitted)} of {len(fitted)}\n{'':12s} start "
        f"{shares['start']:.0%}; of all: products {shares['products']:.0%} "
        f"({phases.products / len(fitted):.0f} a fit), normal means "
        f"{shares['normal means']:.0%}, rest {rest:.0%}",
        flush=True,
    )
    if memory is not None:
        share = memory * 1e6 / (8 * entries)
        bar = "" if case.most_memory is None else f" (bar {case.most_memory:.0%})"
        print(f"{'':12s} extra memory {memory:.0f} MB, {share:.1%} of the dense size{bar}")
    if options.strict:
        strict = ebcd.EBCD(case.k, tol=max(1e-5, 4e-10 * entries) / 1000, max_iter=20_000)
        left = max(strict.fit(x).elbo_ - m.elbo_ for x, m in zip(case.draws, fitted, strict=True))
        share = left / entries * 1e6
        print(f"{'':12s} left to gain {left:.2e} nats at most, {share:.1e} a million entries")
    return {
        "row": name,
        "n": shape[0],
        "p": shape[1],
        "k": case.k,
        "reference": theirs,
        "seconds": ours,
        "ratio": ratio,
        "bar": case.most,
        "extra_mb": memory,
        "memory_bar": case.most_memory,
        "converged": all(m.converged_ for m in fitted),
    }


def load() -> float | None:
    """Say how many processes wait for the cores."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def keep(path: Path, content: dict[str, Any]) -> None:
    """Write results to a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    part.replace(path)


def covariance(options: argparse.Namespace) -> None:
    """Time the covariance with three strong factors whose fit by R is stored with the tests."""
    fits = json.loads((REFERENCE / "fits.json").read_text(encoding="utf-8"))
    of_r = next(fit for fit in fits if fit["id"] == "b_pl")
    with np.load(REFERENCE / "fits.npz") as arrays:
        x = arrays[f"X_{of_r['data']}"].astype(float)
    s, n = x.T @ x / len(x), len(x)
    model = ebcd.EBCD(3)
    seconds = float(
        np.median([clock(lambda: model.fit_covariance(s, n)) for _ in range(options.repeats)])
    )
    print(
        f"covariance   {len(s)} x {len(s)}, n = {n}, k=3: {seconds:.3f} s (bar 0.1), "
        f"ELBO - R's {model.elbo_ - of_r['elbo']:+.4f}"
    )


def main() -> None:
    """Run the rows that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    rows = {**cases(), "covariance": None}
    parser.add_argument("rows", nargs="*", choices=[*rows, []], help="which rows; all by default")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--results", type=Path, help="JSON file that keeps the rows")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, ebcd "
          f"{ebcd.__version__}, numpy {np.__version__}, {options.threads} thread(s)")  # fmt: skip
    found: list[dict[str, Any]] = []
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    results = {"date": today, "load": load(), "threads": options.threads, "rows": found}
    with threadpool_limits(options.threads):
        for name in options.rows or rows:
            make = rows[name]
            if make is None:
                covariance(options)
            else:
                found.append(measure(name, make(), options))
    if options.results:
        keep(options.results, results)


if __name__ == "__main__":
    main()
