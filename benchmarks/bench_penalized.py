"""Penalized PCA beside R's, on draws of the paper's simulations.

Run ``python benchmarks/bench_penalized.py`` on one thread. For each data set: the criterion at R's
strength relative to R's own, whether cross-validation with R's grid and folds chooses R's strength,
and the time of that cross-validation. R's times are means over 50 data sets of the same designs (R
4.2.2, one thread, another machine with two shared cores), so the ratio is rough. The data in
``tests/reference`` are some of the seeds; ``--all DIRECTORY`` reads all of them from files
``sim1.npz`` and ``sim2.npz`` with arrays ``seeds`` and ``X``.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ebcd import PenalizedPCA, PenalizedPCACV

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "reference"
GRID = np.linspace(0, 10, 25)
R_SECONDS = {1: (0.599, 0.470), 2: (2.262, 1.576)}  # wall clock, processor


def rows(name: str) -> list[dict[str, str]]:
    """Read a table of R's results."""
    with (REFERENCE / "penalized" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def data_sets(simulation: int, everything: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    """Give seeds and data."""
    if everything is not None:
        with np.load(everything / f"sim{simulation}.npz") as stored:
            yield from zip(stored["seeds"].astype(str), stored["X"], strict=True)
        return
    with np.load(REFERENCE / "sim" / f"sim{simulation}.npz") as stored:
        for name in stored.files:
            yield name.removeprefix("X_"), stored[name].astype(np.float64)


def measure(simulation: int, everything: Path | None, repeats: int) -> None:
    """Print a line for one simulation."""
    results = {row["seed"]: row for row in rows("l1.csv") if row["simulation"] == str(simulation)}
    tests = [np.array(row["rows"].split(), dtype=int) for row in rows("folds.csv")]
    folds = [(np.setdiff1d(np.arange(50), test), test) for test in tests]
    excess, same, wall, processor = [], [], [], []
    for seed, X in data_sets(simulation, everything):
        alpha, objective = (float(results[seed][name]) for name in ("lambda", "objective"))
        model = PenalizedPCA(simulation + 1, alpha=alpha, center=False).fit(X)
        excess.append(model.objective_ / objective - 1)
        times = []
        for _ in range(repeats):
            begin = time.perf_counter(), time.process_time()
            chosen = PenalizedPCACV(simulation + 1, alphas=GRID, cv=folds, center=False).fit(X)
            times.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
        same.append(bool(np.isclose(chosen.alpha_, alpha)))
        wall.append(min(one for one, _ in times))
        processor.append(min(one for _, one in times))
    print(
        f"Simulation {simulation}: criterion over R's {min(excess):+.1e} to {max(excess):+.1e}, "
        f"same strength on {sum(same)} of {len(same)}, {1e3 * np.mean(wall):.0f} ms "
        f"({1e3 * np.mean(processor):.0f} ms of processor), "
        f"{R_SECONDS[simulation][0] / np.mean(wall):.0f} times faster than R "
        f"({R_SECONDS[simulation][1] / np.mean(processor):.0f} times by processor)"
    )


def main() -> None:
    """Measure both simulations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, default=None, help="directory with all seeds")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    with threadpool_limits(1):
        for simulation in (1, 2):
            measure(simulation, options.all, options.repeats)


if __name__ == "__main__":
    main()
