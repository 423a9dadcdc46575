"""Simulations 1 and 2: fit every method to every data set and measure its errors."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ebcd.datasets import make_simulation
from ebcd.metrics import component_angles, covariance_distance, subspace_distance
from experiments.methods import METHODS, Fitted, Method
from experiments.records import read_rows, run_all

COMPONENTS = {1: 2, 2: 3}
MEASURES = {1: ("d1", "d2", "d_or", "d_cov"), 2: ("d1", "d2", "d3", "d_or", "d_cov")}
_warm: set[str] = set()


class Source(NamedTuple):
    """Where data sets come from: our generator, or a folder with those of the reference."""

    seeds: tuple[int, ...]
    folder: str | None = None


def reference_source(folder: Path, n: int | None = None) -> Source:
    """Return the data sets in a folder with ``sim1.npz`` and ``sim2.npz``."""
    for setting in COMPONENTS:
        if not (folder / f"sim{setting}.npz").exists():
            raise ValueError(f"--data: {folder} has no sim{setting}.npz; pass a folder that has it")
    with np.load(folder / "sim1.npz") as stored:
        seeds = tuple(int(seed) for seed in stored["seeds"])
    return Source(seeds[:n], str(folder.resolve()))


def tasks(
    source: Source,
    records: Path,
    names: list[str],
    grids: dict[str, tuple[float, ...]],
    settings: tuple[int, ...] = (1, 2),
) -> list[tuple[Path, dict[str, Any]]]:
    """Return the file and description of every fit, those of slow methods last."""
    listed = []
    for name in names:
        for setting in sorted({*METHODS[name].settings} & {*settings}):
            for seed in source.seeds:
                task = {"setting": setting, "seed": seed, "method": name, "folder": source.folder}
                for value in grids.get(name, METHODS[name].grid) or (None,):
                    file = f"{name}.json" if value is None else f"{name}-{value:g}.json"
                    path = records / f"sim{setting}" / f"seed-{seed:03d}" / file
                    listed.append((path, {**task, "parameter": value}))
    return sorted(listed, key=lambda pair: pair[1]["method"] == "sparse_pca")


def run(
    source: Source,
    records: Path,
    names: list[str],
    grids: dict[str, tuple[float, ...]],
    jobs: int,
    settings: tuple[int, ...] = (1, 2),
) -> int:
    """Run the fits that are missing, and return how many there were."""
    todo = tasks(source, records, names, grids, settings)
    return run_all(todo, measure, jobs, records.name)


def row(task: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Return a line of the table of results."""
    first = {key: task[key] for key in ("setting", "seed", "method", "parameter")}
    return {**first, "d3": None, **result}


def measure(task: dict[str, Any]) -> dict[str, Any]:
    """Fit a method to a data set: errors, number of components, CPU seconds of one thread."""
    X, V, Sigma, folds = data_set(task["folder"], task["setting"], task["seed"])
    method, k = METHODS[task["method"]], COMPONENTS[task["setting"]]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # such as: fewer components than asked for
        fitted, seconds = _timed(task["method"], method, X, k, folds, task["parameter"])
    return {**errors(task["setting"], V, Sigma, fitted.loadings), "elbo": fitted.elbo} | {
        "n_components": int(fitted.loadings.any(axis=0).sum()),
        "seconds": seconds,
    }


def _timed(
    name: str, method: Method, X: np.ndarray, k: int, folds: Any, parameter: float | None
) -> tuple[Fitted, float]:
    arguments = (folds,) if parameter is None else (folds, parameter)
    if name not in _warm and name != "sparse_pca":
        method.fit(X, k, *arguments)  # the first fit of a process also loads libraries
        _warm.add(name)
    begin = time.process_time()
    fitted = method.fit(X, k, *arguments)
    return fitted, time.process_time() - begin


def errors(
    setting: int, V: np.ndarray, Sigma: np.ndarray, loadings: np.ndarray
) -> dict[str, float]:
    """Measures of the paper by name."""
    values = [
        *component_angles(V, loadings),
        subspace_distance(V, loadings),
        covariance_distance(Sigma, loadings),
    ]
    return dict(zip(MEASURES[setting], map(float, values), strict=True))


def data_set(
    folder: str | None, setting: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """Return the data, true components and covariance, and the folds of cross-validation."""
    X, V, Sigma = make_simulation(setting, random_state=seed)
    if folder is None:
        return X, V, Sigma, 5
    with np.load(Path(folder) / f"sim{setting}.npz") as stored:
        X = stored["X"][stored["seeds"].tolist().index(seed)]
    return X, V, Sigma, _reference_folds(Path(folder), len(X))


def _reference_folds(folder: Path, n: int) -> Any:
    path = folder / "l1_folds.csv"
    if not path.exists():
        return 5
    tests = [np.array(line["rows (0-based)"].split(), dtype=int) for line in read_rows(path)]
    return [(np.setdiff1d(np.arange(n), test), test) for test in tests]
