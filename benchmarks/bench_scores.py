"""Compare the three score models with each other and with EBMF: accuracy, objective, time.

``python -m benchmarks.bench_scores [simulations] [varied] [correlated] [time]`` (by default all).

simulations
    The paper's two simulations: 50 new draws, or with ``--reference FOLDER`` the data sets in
    ``sim1.npz`` and ``sim2.npz`` of that folder. Mean angles (over a right angle) of every true
    component, distance of covariances, with standard errors.
varied
    The 130 problems of `bench_search` (or another of its sets, ``--set fresh``): other scores
    against orthogonal ones, over all and by kind of loadings. Dense loadings are normal, so they
    are fitted with a normal prior, too.
correlated
    True scores that are correlated 0.3 and 0.6.
time
    Time of fits, as multiples of a fit with orthogonal scores, and of 50 bootstrap fits, as
    multiples of one fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_search import problems
from ebcd import EBCD
from ebcd.datasets import make_simulation
from ebcd.metrics import component_angles, covariance_distance
from ebcd.peers import EBMF

SCORES = ("orthogonal", "relaxed", "integrated")
SIMULATIONS = {1: 2, 2: 3}  # numbers of components
DRAWS = 50
FIRST_SEED = 1_000  # of draws that nothing was chosen on


def fit(name: str, k: int, X: np.ndarray, **options: Any) -> Any:
    """Fit one of the score models, or EBMF."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "EBMF":
            return EBMF(k, **options).fit(X)
        return EBCD(k, scores=name, **options).fit(X)


def data_sets(setting: int, folder: Path | None) -> list[np.ndarray]:
    """Return the data sets of a simulation."""
    if folder is not None:
        return list(np.load(folder / f"sim{setting}.npz")["X"])
    seeds = range(FIRST_SEED, FIRST_SEED + DRAWS)
    return [make_simulation(setting, n_samples=50, random_state=seed)[0] for seed in seeds]


def simulations(folder: Path | None) -> None:
    """Print accuracy on the paper's simulations."""
    for setting, k in SIMULATIONS.items():
        _, V, Sigma = make_simulation(setting, n_samples=50, random_state=0)
        sets = data_sets(setting, folder)
        print(f"\nSimulation {setting}, {len(sets)} data sets: mean (standard error)")
        labels = [f"d{i + 1}" for i in range(k)] + ["d_cov", "components"]
        print(f"{'':12}" + "".join(f"{label:>18}" for label in labels))
        elbos = {}
        for name in (*SCORES, "EBMF"):
            models = [fit(name, k, X, center=False) for X in sets]
            elbos[name] = np.array([model.elbo_ for model in models])
            measures = np.array([_measures(model, V, Sigma) for model in models])
            means = measures.mean(axis=0)
            errors = measures.std(axis=0, ddof=1) / np.sqrt(len(sets))
            cells = (f"{m:.4f} ({e:.4f})" for m, e in zip(means, errors, strict=True))
            print(f"{name:12}" + "".join(f"{cell:>18}" for cell in cells), flush=True)
            kept = np.array([model.n_components_ for model in models])
            elbos[f"{name} k"] = kept
        alike = elbos["integrated k"] == elbos["EBMF k"]
        gap = (elbos["integrated"] - elbos["EBMF"])[alike]
        if gap.size:
            print(
                f"objective of integrated - ELBO of EBMF where both keep as many components "
                f"({gap.size}): {gap.min():.4f} to {gap.max():.4f}"
            )


def _measures(model: Any, V: np.ndarray, Sigma: np.ndarray) -> list[float]:
    L = model.components_.T
    return [*component_angles(V, L), covariance_distance(Sigma, L), model.n_components_]


def varied(which: str) -> None:
    """Print how angles change with the score model on varied problems."""
    change: dict[tuple[str, str], list[float]] = defaultdict(list)
    for problem in problems(which):
        cases = {"": "point_laplace"} | ({" normal": "normal"} if problem.kind == "dense" else {})
        truth = _truth(problem.name)
        for label, prior in cases.items():
            angles = {
                name: component_angles(
                    truth, fit(name, problem.k, problem.X, prior=prior).components_.T
                )
                for name in SCORES
            }
            for name in SCORES[1:]:
                found = float((angles[name] - angles["orthogonal"]).mean())
                for kind in ("all", problem.kind) if not label else (problem.kind + label,):
                    change[name, kind].append(found)
    print(f"\nVaried problems ({which}): change of the mean angle against orthogonal scores")
    for (name, kind), values in sorted(change.items()):
        found = np.array(values)
        print(
            f"{name:12} {kind:14} {found.mean():+.4f} ({_error(found):.4f}), better by more than "
            f"0.01 in {(found < -0.01).sum()}, worse in {(found > 0.01).sum()} of {found.size}",
            flush=True,
        )


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(values.size))


def _truth(name: str) -> np.ndarray:
    """Draw the loadings of a problem of `bench_search` again."""
    from benchmarks.bench_search import KINDS, SETS, STRENGTHS, detectable, loadings

    which, number = name.split("-")
    seed, _, all_p, all_n = SETS[which]
    i = int(number)
    rng = np.random.default_rng([seed, i])
    p, n, k = int(rng.choice(all_p)), int(rng.choice(all_n)), int(rng.integers(2, 7))
    kind, strength = KINDS[i % len(KINDS)], float(rng.choice(STRENGTHS))
    L = loadings(kind, p, k, rng)
    L *= np.sqrt(strength * detectable(n, p)) / np.linalg.norm(L, axis=0)
    return L if kind == "equal" else L * np.sqrt(np.geomspace(1.0, 3.0, k))[::-1]


def correlated() -> None:
    """Print angles where true scores are correlated."""
    k = 3
    for correlation in (0.3, 0.6):
        angles: dict[str, list[float]] = {name: [] for name in (*SCORES, "EBMF")}
        for seed in range(20):
            rng = np.random.default_rng([7, seed])
            L = 2 * rng.laplace(size=(k, 200)) * (rng.random((k, 200)) < 0.2)
            mixing = np.linalg.cholesky((1 - correlation) * np.eye(k) + correlation)
            X = rng.normal(size=(100, k)) @ mixing.T @ L + rng.normal(size=(100, 200))
            for name, found in angles.items():
                L_found = fit(name, k, X).components_.T
                found.append(float(component_angles(L.T, L_found).mean()))
        means = ", ".join(f"{name} {np.mean(found):.4f}" for name, found in angles.items())
        print(f"\nScores correlated {correlation}, 20 data sets of 100 x 200: {means}", flush=True)


def times() -> None:
    """Print processor times of fits, taken in turns, and of bootstrap fits: medians of rounds."""
    rng = np.random.default_rng(0)
    cases: dict[str, tuple[int, list[np.ndarray], int]] = {
        "Simulation 1, 50 x 500": (2, data_sets(1, None)[:10], 5),
        "Simulation 2, 50 x 500": (3, data_sets(2, None)[:10], 5),
        "500 x 10,000": (5, [_large(500, 10_000, rng)], 5),
        "2,000 x 20,000": (5, [_large(2_000, 20_000, rng)], 3),
    }
    print("\nTime over that of orthogonal scores (one thread: set OPENBLAS_NUM_THREADS=1)")
    for label, (k, sets, rounds) in cases.items():
        once: dict[str, list[float]] = defaultdict(list)
        draws: dict[str, list[float]] = defaultdict(list)
        for _, name in product(range(rounds), SCORES):
            began = time.process_time()
            models = [fit(name, k, X) for X in sets]
            once[name].append(time.process_time() - began)
            if len(sets) > 1:
                began = time.process_time()
                for model in models:
                    model.bootstrap(random_state=0)
                draws[name].append(time.process_time() - began)
        base = np.median(once["orthogonal"])
        ratios = ", ".join(f"{name} {np.median(once[name]) / base:.2f}" for name in SCORES[1:])
        print(f"{label:26} {1e3 * base / len(sets):7.1f} ms; {ratios}", flush=True)
        if draws:
            ratios = ", ".join(
                f"{name} {np.median(draws[name]) / np.median(once[name]):.1f}" for name in SCORES
            )
            print(f"{'':26} 50 bootstrap fits over one fit: {ratios}", flush=True)


def _large(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """Draw five sparse components, of which the weakest is three times what PCA can detect."""
    L = rng.laplace(size=(5, p)) * (rng.random((5, p)) < 0.1)
    sizes = np.sqrt(np.linspace(8, 3, 5) * max(1, np.sqrt(p / n)))
    L *= (sizes / np.linalg.norm(L, axis=1))[:, None]
    return rng.normal(size=(n, 5)) @ L + rng.normal(size=(n, p))


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    choices = ("simulations", "varied", "correlated", "time")
    parser.add_argument("parts", nargs="*", choices=[*choices, []], default=list(choices))
    parser.add_argument("--set", default="varied", help="of problems of bench_search")
    parser.add_argument("--reference", type=Path, help="folder with sim1.npz and sim2.npz")
    options = parser.parse_args()
    runs: dict[str, Callable[[], None]] = {
        "simulations": lambda: simulations(options.reference),
        "varied": lambda: varied(options.set),
        "correlated": correlated,
        "time": times,
    }
    for part in options.parts or choices:
        runs[part]()


if __name__ == "__main__":
    main()
