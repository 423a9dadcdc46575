"""Same data, same results: in other processes, layouts, numbers of threads and orders of columns.

``python -m benchmarks.same`` prints the largest difference between components of fits that should
be one, as a share of the largest loading, and how much memory 2,000 fits take.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from ebcd import EBCD
from ebcd.datasets import make_simulation

SCORES = ("orthogonal", "relaxed", "integrated")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")}


def data() -> dict[str, np.ndarray]:
    """Return data sets whose columns have mean zero; the last one is fitted with all threads."""
    rng = np.random.default_rng(0)
    loadings = rng.laplace(size=(3, 40)) * (rng.random((3, 40)) < 0.4)
    long = 2 * rng.normal(size=(300, 3)) @ loadings + rng.normal(size=(300, 40))
    large = 2 * rng.normal(size=(2000, 2)) @ (rng.laplace(size=(2, 1200)) * [[1], [2]])
    return {
        "wide": make_simulation(1, random_state=0)[0],
        "long": long,
        "large": large + rng.normal(size=large.shape),
    }


def fit(X: Any, scores: str, tol: float | None = None) -> np.ndarray:
    """Return the components."""
    options = {} if tol is None else {"tol": tol}
    return np.asarray(EBCD(2, scores=scores, **options).fit(X).components_)


def strided(X: np.ndarray) -> np.ndarray:
    """Return a view of every second entry."""
    room = np.zeros((2 * X.shape[0], 3 * X.shape[1]))
    room[::2, ::3] = X
    return room[::2, ::3]


LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {
    "Fortran": np.asfortranarray,
    "strided": strided,
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "CSR": sparse.csr_array,
    "CSC": sparse.csc_array,
    "data frame": pd.DataFrame,
}


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference, as a share of the largest entry."""
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def layouts(X: np.ndarray, scores: str, tol: float | None = None) -> dict[str, float]:
    """Return differences between layouts."""
    plain = fit(X, scores, tol)
    return {name: difference(fit(made(X), scores, tol), plain) for name, made in LAYOUTS.items()}


def permuted(X: np.ndarray, scores: str, tol: float | None = None) -> float:
    """Return the largest difference between three orders of the columns."""
    plain, rng, found = fit(X, scores, tol), np.random.default_rng(1), []
    for _ in range(3):
        order = rng.permutation(X.shape[1])
        there = fit(X[:, order], scores, tol)
        signs = np.sign((there * plain[:, order]).sum(axis=1, keepdims=True))
        found.append(difference(signs * there, plain[:, order]))
    return max(found)


def elsewhere(name: str, scores: str, threads: int) -> bytes:
    """Return the bytes of the components that another process finds."""
    code = f"import sys; from benchmarks import same; X = same.data()[{name!r}]; "
    code += f"sys.stdout.buffer.write(same.fit(X, {scores!r}).tobytes())"
    there = os.environ | {key: str(threads) for key in ONE_THREAD}
    return subprocess.run([sys.executable, "-c", code], env=there, capture_output=True).stdout


def growth(fits: int, first: int = 200) -> float:
    """Return by how many megabytes fits make the process larger, after the first ones."""
    rng = np.random.default_rng(0)
    page = os.sysconf("SC_PAGE_SIZE") / 1e6
    loadings = 2 * rng.normal(size=(2, 10))
    for i in range(fits):
        X = rng.normal(size=(30, 2)) @ loadings + rng.normal(size=(30, 10))
        EBCD(2, scores=SCORES[i % 3]).fit(X)
        if i == first:
            before = int(Path("/proc/self/statm").read_text().split()[1])
    return page * (int(Path("/proc/self/statm").read_text().split()[1]) - before)


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=2000)
    options = parser.parse_args()
    for name, X in data().items():
        for scores in SCORES:
            one, again = (elsewhere(name, scores, 1) for _ in range(2))
            two = np.frombuffer(elsewhere(name, scores, 2)).reshape(2, -1)
            plain = np.frombuffer(one).reshape(2, -1)
            print(f"{name}, {scores}: same bits {one == again},", end=" ")
            print(f"two threads {difference(two, plain):.0e},", end=" ")
            print(f"layouts {max(layouts(X, scores).values()):.0e},", end=" ")
            print(f"order of columns {permuted(X, scores):.0e},", end=" ")
            print(f"with tol=1e-10 {permuted(X, scores, 1e-10):.0e}", flush=True)
    print(f"{options.fits:,} fits: {growth(options.fits):+.1f} MB")


if __name__ == "__main__":
    main()
