"""Sparse PCA methods beside the programs of their authors, and beside exact optima.

Run with ``make bench``. One thread, processor seconds. Reference times are those of R PMA 1.2-4 (R
4.2.2) and of the authors' GPower in Octave 7.3, one thread, another machine with two shared cores,
on data of the same design, so that the comparison is rough. The simulated data with R's loadings
are those of ``tests/reference``; ``--reference`` names a folder with ``sim1.npz`` and ``sim2.npz``
that hold more of them (``X`` and ``L_spc``).
"""

from __future__ import annotations

import argparse
import csv
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import ebcd
from ebcd.datasets import load_pitprops, make_simulation
from ebcd.metrics import component_angles, covariance_distance, subspace_distance
from ebcd.peers import ITSPCA, SPC, USLPCA, GPower

TESTS = Path(__file__).resolve().parents[1] / "tests" / "reference"
COMPONENTS = {1: 2, 2: 3}
NONZERO = {1: 20, 2: 150}
SECONDS_OF_PMA = {1: 1.36, 2: 2.60}
SECONDS_OF_GPOWER = 0.70  # 99 values of gamma


def simulations(setting: int, folder: Path | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of data and R's loadings in the units of the data."""
    if folder is not None:
        with np.load(folder / f"sim{setting}.npz") as stored:
            return list(zip(stored["X"], stored["L_spc"] / np.sqrt(50), strict=True))
    with (
        np.load(TESTS / "sim" / f"sim{setting}.npz") as data,
        np.load(TESTS / "peers" / "spc.npz") as loadings,
    ):
        return [
            (data[name].astype(float), loadings[f"sim{setting}_{name[2:]}"] / np.sqrt(50))
            for name in data.files
        ]


def exact_optima() -> dict[int, float]:
    """Largest variance of a direction with k loadings, for the pitprops."""
    with (TESTS / "peers" / "pitprops_exact.csv").open(encoding="utf-8") as file:
        return {int(row["k"]): float(row["max_variance"]) for row in csv.DictReader(file)}


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Shortest processor time of a call."""
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return min(times)


def measures(setting: int, fits: list[np.ndarray]) -> np.ndarray:
    """Mean angles, subspace distance and covariance distance of loadings (p x k)."""
    _, V, Sigma = make_simulation(setting, random_state=0)
    return np.mean(
        [
            [*component_angles(V, L), subspace_distance(V, L), covariance_distance(Sigma, L)]
            for L in fits
        ],
        axis=0,
    )


def row(name: str, values: np.ndarray) -> None:
    """Print a row of measures."""
    print(f"    {name:34s}" + "".join(f"{value:9.4f}" for value in values))


def spc(folder: Path | None, repeats: int) -> None:
    """Accuracy and speed of cross-validated SPC beside PMA."""
    print("\nSPC with cross-validation (bar: ratios below 1.15, PMA's time)")
    for setting, k in COMPONENTS.items():
        pairs = simulations(setting, folder)
        ours = measures(setting, [SPC(k, center=False).fit(X).components_.T for X, _ in pairs])
        theirs = measures(setting, [L for _, L in pairs])
        print(f"  Simulation {setting}, {len(pairs)} data sets: angles, subspace, covariance")
        row("SPC", ours)
        row("R PMA", theirs)
        row("ratio", ours / theirs)
        used = np.mean(
            [seconds(lambda X=X, k=k: SPC(k, center=False).fit(X), repeats) for X, _ in pairs]
        )
        print(f"    seconds {used:.3f}, PMA {SECONDS_OF_PMA[setting]:.2f}")


def gpower(folder: Path | None, repeats: int) -> None:
    """Speed of GPower along a path, and variance that it finds with few loadings."""
    X = simulations(1, folder)[0][0]
    gammas = np.linspace(0.01, 0.99, 99)

    def path() -> None:
        for gamma in gammas:
            GPower(2, gamma=gamma, center=False).fit(X)

    print(
        f"\nGPower, block, l1, 99 values of gamma: seconds {seconds(path, repeats):.3f}, "
        f"Octave {SECONDS_OF_GPOWER:.2f}"
    )
    S, exact, best = load_pitprops().correlation, exact_optima(), {}
    for gamma in np.linspace(0, 0.99, 500):
        model = GPower(1, penalty="l0", gamma=gamma, block=False).fit_covariance(S, 180)
        number = int(np.count_nonzero(model.components_))
        best[number] = max(best.get(number, 0.0), model.explained_variance_[0] / exact[number])
    print("  pitprops, l0, 500 values of gamma: share of the exact optimum (bar 0.99) by number")
    print("   " + "".join(f" {number}: {share:.4f}" for number, share in sorted(best.items())))


def uslpca(folder: Path | None, repeats: int) -> None:
    """Variance that USLPCA finds with a given number of loadings."""
    S, exact = load_pitprops().correlation, exact_optima()
    print("\nUSLPCA, pitprops: share of the exact optimum (bar 0.99) by number of loadings")
    shares = {
        number: USLPCA(1, n_nonzero=number).fit_covariance(S, 180).explained_variance_[0] / best
        for number, best in exact.items()
    }
    print("   " + "".join(f" {number}: {share:.4f}" for number, share in shares.items()))
    on_simulations("USLPCA", lambda s, k: USLPCA(k, n_nonzero=NONZERO[s], center=False), folder)


def itspca(folder: Path | None, repeats: int) -> None:
    """Accuracy and speed of the three kinds of thresholds."""
    print("\nITSPCA (no reference results)")
    for kind in ("hard", "soft", "scad"):
        on_simulations(
            f"ITSPCA, {kind}",
            lambda s, k, kind=kind: ITSPCA(k, thresholding=kind, center=False),
            folder,
        )


def on_simulations(name: str, make: Callable[[int, int], object], folder: Path | None) -> None:
    """Print measures and time of a method on both simulations."""
    for setting, k in COMPONENTS.items():
        data = [X for X, _ in simulations(setting, folder)]
        begin = time.process_time()
        fits = [make(setting, k).fit(X).components_.T for X in data]
        used = (time.process_time() - begin) / len(data)
        row(f"{name}, simulation {setting} ({used:.3f} s)", measures(setting, fits))


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(
        f"ebcd {ebcd.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{platform.machine()}, {time.strftime('%Y-%m-%d')}"
    )
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of components that thresholds empty
        for bench in (spc, gpower, itspca, uslpca):
            bench(options.reference, options.repeats)


if __name__ == "__main__":
    main()
