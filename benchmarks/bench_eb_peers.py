"""`EBMF` and `EBPCA` beside their reference implementations: ELBO, errors and speed.

Run with ``python benchmarks/bench_eb_peers.py``; one thread. Data and results of the references are
those stored with the tests (five and six draws of the paper's two simulations), or those in
a folder with ``sim1.npz``, ``ebmf_sim1.csv`` and ``measures_sim1.csv`` (twenty draws each) given
as ``--reference``. Seconds of the references were taken on another machine with two shared cores,
so the comparison is rough.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ebcd.datasets import make_simulation
from ebcd.metrics import component_angles, covariance_distance, subspace_distance
from ebcd.peers import EBMF, EBPCA

STORED = Path(__file__).resolve().parents[1] / "tests" / "reference"
COMPONENTS = {1: 2, 2: 3}
# mean seconds for a data set, R flashier 1.0.60 and Python EBPCA
SECONDS = {
    ("ebmf_pl", 1): 0.327,
    ("ebmf_l", 1): 0.358,
    ("ebpca", 1): 0.276,
    ("ebmf_pl", 2): 0.416,
    ("ebmf_l", 2): 0.265,
    ("ebpca", 2): 0.242,
}
LARGE_SECONDS = {(200, 2000): 4.9, (500, 10_000): 49.1}  # flashier
PRIORS = {"ebmf_pl": "point_laplace", "ebmf_l": "laplace"}


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load(folder: Path | None, setting: int) -> tuple[dict[int, np.ndarray], list, list]:
    """Draws by seed, fits of flashier, error measures of all methods."""
    if folder is None:
        with np.load(STORED / "sim" / f"sim{setting}.npz") as stored:
            draws = {int(name[2:]): stored[name].astype(np.float64) for name in stored.files}
        tables = (read(STORED / "eb_peers" / name) for name in ("ebmf.csv", "measures.csv"))
        fits, measures = ([r for r in t if r["setting"] == str(setting)] for t in tables)
        return draws, fits, measures
    with np.load(folder / f"sim{setting}.npz") as stored:
        draws = dict(zip(stored["seeds"].tolist(), stored["X"], strict=True))
    names = f"ebmf_sim{setting}.csv", f"measures_sim{setting}.csv"
    return draws, *(read(folder / name) for name in names)


def estimator(method: str, k: int) -> EBMF | EBPCA:
    """Estimator of a method with the settings of the reference."""
    if method == "ebpca":
        return EBPCA(k, center=False)
    return EBMF(k, loadings_prior=PRIORS[method], center=False)


def errors(setting: int, components: np.ndarray) -> list[float]:
    """Angles, distance of the subspaces and of the covariances."""
    _, V, Sigma = make_simulation(setting=setting, n_samples=2, random_state=0)
    L = np.zeros((V.shape[0], COMPONENTS[setting]))
    L[:, : len(components)] = components.T
    angles = component_angles(V, L).tolist()
    return [*angles, subspace_distance(V, L), covariance_distance(Sigma, L)]


def compare(method: str, setting: int, folder: Path | None) -> None:
    """Print one method on one simulation."""
    draws, fits, measures = load(folder, setting)
    k = COMPONENTS[setting]
    names = [*[f"d{i + 1}" for i in range(k)], "dOR_fixed", "dcov"]
    elbo = {int(r["seed"]): float(r["elbo"]) for r in fits if r["method"] == method}
    kept = {int(r["seed"]): int(r["n_factors"]) for r in fits if r["method"] == method}
    models, seconds = {}, []
    for seed, X in draws.items():
        begin = time.process_time()
        models[seed] = estimator(method, k).fit(X)
        seconds.append(time.process_time() - begin)
    ours = np.mean([errors(setting, models[seed].components_) for seed in draws], axis=0)
    print(f"\nSimulation {setting}, {method}, {len(draws)} data sets")
    for name, value in zip(names, ours, strict=True):
        theirs = [
            float(r["value"])
            for r in measures
            if r["method"] == method and r["measure"] == name and int(r["seed"]) in draws
        ]
        note = "  (R fills missing directions at random)" if name == "dOR_fixed" else ""
        print(f"  {name:10s} {value:10.4f}   reference {np.mean(theirs):10.4f}{note}")
    if elbo:
        same = [seed for seed in draws if models[seed].n_components_ == kept[seed]]
        gap = min(models[seed].elbo_ - elbo[seed] for seed in same)
        print(f"  same number of factors in {len(same)} of {len(draws)}")
        print(f"  ELBO less flashier's there: at least {gap:.5f}")
    mean, reference = float(np.mean(seconds)), SECONDS[method, setting]
    print(f"  {mean:.3f} s a data set, reference {reference:.3f} s: {reference / mean:.1f} times")


def large(n: int, p: int) -> None:
    """Print a larger fit: five disjoint sparse components."""
    rng = np.random.default_rng(1)
    sizes = np.array([100, 200, 400, 800, 1600]) * p // 10_000
    V = np.zeros((p, 5))
    for k, end in enumerate(np.cumsum(sizes)):
        V[end - sizes[k] : end, k] = 1 / np.sqrt(sizes[k])
    scores = rng.normal(size=(n, 5)) * np.sqrt([90, 70, 50, 40, 30])
    X = scores @ V.T + rng.normal(size=(n, p))
    for model in (EBMF(5), EBPCA(5)):
        begin = time.process_time()
        model.fit(X)
        seconds = time.process_time() - begin
        angles = component_angles(V, model.components_.T).round(3)
        print(f"\n{n} x {p}, {type(model).__name__}: {seconds:.2f} s, angles {angles}")
    print(f"  flashier took {LARGE_SECONDS[n, p]} s on data of this size")


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, default=None)
    folder = parser.parse_args().reference
    warnings.filterwarnings("ignore", "no component was found")
    with threadpool_limits(1):
        for method in ("ebmf_pl", "ebmf_l", "ebpca"):
            for setting in (1, 2):
                compare(method, setting, folder)
        for shape in LARGE_SECONDS:
            large(*shape)


if __name__ == "__main__":
    main()
