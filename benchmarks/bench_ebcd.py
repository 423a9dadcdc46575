"""`ebcd.EBCD`: ELBO beside R's, speed beside an SVD and PCA, numbers of components, noise.

Run with ``make bench``, or choose sections, as in ``python benchmarks/bench_ebcd.py number noise``.
One thread, default settings, medians; times are compared within one run. The
sections:

a  reference  simulated data sets with R's results, against ``numpy.linalg.svd``
b  large      500 x 10,000 with five sparse components, against scikit-learn's randomized PCA
c  sectors    covariance of 11 stock sectors; it may not be redistributed: give its CSV file
d  number     how many components are found in data with a known number of them
e  noise      precisions and components with ``noise="per_feature"``
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

import ebcd
from ebcd.data import from_matrix
from ebcd.datasets import make_simulation
from ebcd.fitting._components import count_components
from ebcd.metrics import component_angles

REFERENCE = Path(__file__).resolve().parents[1] / "tests" / "reference" / "sim"
# R ebcd on the sectors: number of components -> ELBO, share of the variance together, seconds
SECTORS_IN_R = {3: (29965.58, 90.46, 21.2), 4: (31103.38, 92.86, 38.2), 5: (32150.88, 94.53, 51.6)}
SECTOR_DAYS = 734

Draw = Callable[[np.random.Generator], np.ndarray]


def seconds(function: Callable[[], object], repeats: int) -> float:
    """Median time of a call, after one to warm up."""
    function()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


class Table:
    """Rows to print, aligned or as Markdown."""

    def __init__(self, *heads: str) -> None:
        self._rows = [heads]

    def add(self, *cells: object) -> None:
        """Add a row."""
        self._rows.append(tuple(str(cell) for cell in cells))

    def print(self, title: str, markdown: bool) -> None:
        """Print all rows under a title."""
        print(f"\n{title}\n")
        widths = [max(map(len, column)) for column in zip(*self._rows, strict=True)]
        for number, row in enumerate(self._rows):
            if markdown:
                print(f"| {' | '.join(row)} |")
                if number == 0:
                    print("|" + "---|" * len(row))
            else:
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                print("  " + "   ".join(cells).rstrip())


def simulated(setting: int, folder: Path | None) -> list[tuple[np.ndarray, float]]:
    """Give data of a design and R's ELBO on them: all in a folder, or the hardest of them."""
    if folder is None:
        with (REFERENCE / "elbo.csv").open(newline="") as file:
            of_r = {
                row["seed"]: row for row in csv.DictReader(file) if row["setting"] == f"{setting}"
            }
        with np.load(REFERENCE / f"sim{setting}.npz") as archive:
            return [(archive[f"X_{s}"].astype(float), float(r["elbo"])) for s, r in of_r.items()]
    with (folder / f"ebcd_sim{setting}.csv").open(newline="") as file:
        of_r = {row["seed"]: row for row in csv.DictReader(file) if row["method"] == "ebcd_pl"}
    with np.load(folder / f"sim{setting}.npz") as archive:
        pairs = zip(archive["X"], archive["seeds"].astype(str), strict=True)
        return [(X, float(of_r[seed]["elbo"])) for X, seed in pairs]


def reference(options: argparse.Namespace) -> None:
    """Compare ELBOs with R's, times with those of an SVD of the same data."""
    table = Table("design", "data sets", "time / SVD", "ELBO - R's: min", "median", "max", "below")
    for setting, k in ((1, 2), (2, 3)):
        gains, ratios = [], []
        for X, of_r in simulated(setting, options.simulations)[: options.seeds]:
            model = ebcd.EBCD(k, center=False)
            svd = seconds(lambda X=X: np.linalg.svd(X, full_matrices=False), options.repeats)
            ratios.append(seconds(lambda m=model, X=X: m.fit(X), options.repeats) / svd)
            gains.append(model.elbo_ - of_r)
        low, middle, high = (f"{x:.3g}" for x in np.quantile(gains, [0, 0.5, 1]))
        below = sum(gain < -0.01 for gain in gains)
        name = f"Simulation {setting}, k = {k}"
        table.add(name, len(gains), f"{np.median(ratios):.1f}", low, middle, high, below)
    table.print("(a) 50 x 500 data sets of the paper's designs, against R ebcd", options.markdown)


def large(options: argparse.Namespace) -> None:
    """Compare times with scikit-learn's randomized PCA."""
    table = Table("seed", "PCA, s", "EBCD, s", "ratio", "mean angle PCA", "mean angle EBCD")
    for seed in range(min(options.seeds, 3)):
        rng = np.random.default_rng(seed)
        L = 2 * rng.laplace(size=(10_000, 5)) * (rng.random((10_000, 5)) < 0.02)
        X = rng.normal(size=(500, 5)) @ L.T + rng.normal(size=(500, 10_000))
        pca = PCA(5, svd_solver="randomized", random_state=0)
        model = ebcd.EBCD(5)
        theirs = seconds(lambda m=pca, X=X: m.fit(X), options.repeats)
        ours = seconds(lambda m=model, X=X: m.fit(X), options.repeats)
        angles = (component_angles(L, m.components_.T).mean() for m in (pca, model))
        times = (f"{theirs:.3f}", f"{ours:.3f}", f"{ours / theirs:.2f}")
        table.add(seed, *times, *(f"{angle:.3f}" for angle in angles))
    table.print("(b) 500 x 10,000, five sparse components", options.markdown)


def sectors(options: argparse.Namespace) -> None:
    """Compare with R on the covariance of stock sectors."""
    if options.sectors is None:
        print("\n(c) left out: give the covariance with --sectors S.csv or EBCD_SECTORS")
        return
    S = read_covariance(options.sectors)
    table = Table("k", "ms", "R, s", "ELBO - R's", "variance, %", "R's, %")
    for k, (elbo, share, r_seconds) in SECTORS_IN_R.items():
        model = ebcd.EBCD(k)
        ours = seconds(lambda m=model: m.fit_covariance(S, SECTOR_DAYS), options.repeats)
        found = 100 * model.explained_variance_ratio_.sum()
        gain = f"{model.elbo_ - elbo:+.2f}"
        table.add(k, f"{1e3 * ours:.0f}", r_seconds, gain, f"{found:.2f}", share)
    table.print("(c) 11 stock sectors, 734 days, against R ebcd", options.markdown)


def read_covariance(path: Path) -> np.ndarray:
    """Read a square matrix from a CSV file, with or without names."""
    with path.open(newline="") as file:
        rows = list(csv.reader(file))
    size = len(rows[-1]) - (not is_number(rows[-1][0]))
    return np.array([row[-size:] for row in rows[-size:]], dtype=float)


def is_number(text: str) -> bool:
    """Tell whether a cell of a table is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def noise_only(*shape: int) -> Draw:
    """Pure noise."""
    return lambda rng: rng.normal(size=shape)


def simulation(setting: int, n: int = 50) -> Draw:
    """Draw from the paper's designs."""
    return lambda rng: make_simulation(setting, n, random_state=int(rng.integers(2**31)))[0]


def dense(rng: np.random.Generator) -> np.ndarray:
    """Three dense components."""
    L = rng.normal(size=(50, 3)) * np.array([2.0, 1.5, 1.2])
    return rng.normal(size=(200, 3)) @ L.T + rng.normal(size=(200, 50))


def wide(rng: np.random.Generator) -> np.ndarray:
    """Four sparse components of many features."""
    L = 2 * rng.laplace(size=(2000, 4)) * (rng.random((2000, 4)) < 0.05)
    return rng.normal(size=(60, 4)) @ L.T + rng.normal(size=(60, 2000))


def block(rng: np.random.Generator) -> np.ndarray:
    """One component of ten features."""
    L = np.where(np.arange(100) < 10, 1.5, 0.0)
    return np.outer(rng.normal(size=100), L) + rng.normal(size=(100, 100))


def uneven(n: int, p: int, k: int) -> Draw:
    """Noise whose precisions are spread tenfold, and sparse components."""
    return lambda rng: uneven_data(rng, n, p, k)[0]


def uneven_data(
    rng: np.random.Generator, n: int, p: int, k: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give data, loadings and precisions."""
    L = rng.laplace(size=(p, k)) * (rng.random((p, k)) < 0.3)
    tau = 10 ** rng.uniform(-0.5, 0.5, p)
    X = rng.normal(size=(n, k)) @ L.T + rng.normal(size=(n, p)) / np.sqrt(tau)
    return X, L, tau


# name, true number, draws
DESIGNS: tuple[tuple[str, int, Draw], ...] = (
    ("noise, 50 x 500", 0, noise_only(50, 500)),
    ("noise, 200 x 200", 0, noise_only(200, 200)),
    ("noise, 500 x 50", 0, noise_only(500, 50)),
    ("uneven noise, 50 x 500", 0, uneven(50, 500, 0)),
    ("uneven noise, 200 x 200", 0, uneven(200, 200, 0)),
    ("uneven noise, 500 x 50", 0, uneven(500, 50, 0)),
    ("Simulation 1, 50 x 500", 2, simulation(1)),
    ("dense, 200 x 50", 3, dense),
    ("sparse, 60 x 2,000", 4, wide),
    ("one block, 100 x 100", 1, block),
    ("uneven noise, 400 x 80", 2, uneven(400, 80, 2)),
    ("uneven noise, 100 x 300", 3, uneven(100, 300, 3)),
    ("Simulation 2, 50 x 500", 3, simulation(2)),
    ("Simulation 2, 500 x 500", 3, simulation(2, 500)),
)


def number(options: argparse.Namespace) -> None:
    """Count components, as `EBCD` does before it fits."""
    table = Table("data", "true", *(f'noise="{kind}"' for kind in ("constant", "per_feature")))
    for name, true, draw in DESIGNS:
        seeds = options.seeds * (1 if true else 2)
        found: list[Counter[int]] = [Counter(), Counter()]
        for seed in range(seeds):
            X = draw(np.random.default_rng(seed))
            covariance = from_matrix(X, True, False, None).covariance
            for counter, per_feature in zip(found, (False, True), strict=True):
                counter[count_components(covariance, True, per_feature)] += 1
        table.add(name, true, *(in_words(counter) for counter in found))
    table.print("(d) number of components found: how often", options.markdown)


def in_words(counter: Counter[int]) -> str:
    """Give numbers of components and how often they were found."""
    return ", ".join(f"{k}: {counter[k]}" for k in sorted(counter))


def noise(options: argparse.Namespace) -> None:
    """Compare estimated precisions with the truth, components with those of constant noise."""
    errors, angles = [], {"constant": [], "per_feature": []}
    seeds = min(options.seeds, 20)
    for seed in range(seeds):
        X, L, tau = uneven_data(np.random.default_rng(seed), 400, 80, 3)
        for kind, values in angles.items():
            model = ebcd.EBCD(3, noise=kind).fit(X)
            values.append(component_angles(L, model.components_.T).mean())
        errors.append(np.median(np.abs(np.log(model.noise_variance_ * tau))))
    table = Table("measure", "median", "largest")
    table.add("median of abs(log(tau_hat / tau))", f"{np.median(errors):.3f}", f"{max(errors):.3f}")
    for kind, values in angles.items():
        table.add(f"mean angle, {kind}", f"{np.median(values):.4f}", f"{max(values):.4f}")
    better = sum(a < b for a, b in zip(angles["per_feature"], angles["constant"], strict=True))
    title = f"(e) 400 x 80, k = 3, precisions spread tenfold, {seeds} data sets"
    table.print(title, options.markdown)
    means = {kind: f"{np.mean(values):.4f}" for kind, values in angles.items()}
    print(f"\nmean angles {means}; smaller with noise per feature in {better} of {seeds}")


SECTIONS = {
    "reference": reference,
    "large": large,
    "sectors": sectors,
    "number": number,
    "noise": noise,
}


def main() -> None:
    """Print the tables that were asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", help=f"any of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--repeats", type=int, default=3, help="calls that a time is the median of")
    parser.add_argument("--seeds", type=int, default=50, help="data sets a design, at most")
    given = os.environ.get("EBCD_SECTORS")
    parser.add_argument("--sectors", type=Path, default=given and Path(given), help="a CSV file")
    parser.add_argument(
        "--simulations", type=Path, help="a folder with simulated data and R's results on them"
    )
    parser.add_argument("--markdown", action="store_true", help="print tables to paste")
    options = parser.parse_args()
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"unknown sections: {', '.join(sorted(unknown))}")
    print(
        f"ebcd {ebcd.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"SciPy {scipy.__version__}, {platform.machine()}, {time.strftime('%Y-%m-%d')}"
    )
    with threadpool_limits(1):
        for name in options.sections or SECTIONS:
            SECTIONS[name](options)


if __name__ == "__main__":
    main()
