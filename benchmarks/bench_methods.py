"""Every method of the package on the same draws of the paper's two simulations.

Run with ``make bench``. Draws are those of `ebcd.datasets.make_simulation`, seeds 0 to 19, 50 x
500, not centered (scikit-learn centers), as in the paper. The number of components is given. What
else a method needs is left at its default, except that `USLPCA`, which has none, is told the true
number of loadings. One thread, processor seconds; scikit-learn's `SparsePCA` takes most of the
five minutes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, SparsePCA
from threadpoolctl import threadpool_limits

from ebcd import EBCD, PenalizedPCACV
from ebcd.datasets import make_simulation
from ebcd.metrics import component_angles, covariance_distance, subspace_distance
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower

NONZERO = {1: 20, 2: 150}
METHODS: dict[str, Callable[[int, int], Any]] = {
    "`EBCD`": lambda k, _: EBCD(k, center=False),
    '`EBCD(scores="relaxed")`': lambda k, _: EBCD(k, scores="relaxed", center=False),
    '`EBCD(scores="integrated")`': lambda k, _: EBCD(k, scores="integrated", center=False),
    '`EBCD(prior="laplace")`': lambda k, _: EBCD(k, prior="laplace", center=False),
    "`EBMF`": lambda k, _: EBMF(k, center=False),
    "`EBPCA`": lambda k, _: EBPCA(k, center=False),
    "`PenalizedPCACV`": lambda k, _: PenalizedPCACV(k, center=False),
    "`SPC`": lambda k, _: SPC(k, center=False),
    "`GPower`": lambda k, _: GPower(k, center=False),
    "`ITSPCA`": lambda k, _: ITSPCA(k, center=False),
    "`USLPCA`, true number": lambda k, nonzero: USLPCA(k, n_nonzero=nonzero, center=False),
    "scikit-learn `PCA`": lambda k, _: PCA(k),
    "scikit-learn `SparsePCA`": lambda k, _: SparsePCA(k, random_state=0),
}


def loadings(model: Any, X: np.ndarray) -> np.ndarray:
    """Components for scores of mean square one, as columns."""
    if isinstance(model, PCA | SparsePCA):
        scores = model.transform(X)
        return (model.components_ * np.sqrt(np.mean(scores**2, axis=0))[:, None]).T
    return model.components_.T


def with_columns(L: np.ndarray, k: int) -> np.ndarray:
    """Add columns of zeros for components that were dropped."""
    return np.hstack([L, np.zeros((len(L), k - L.shape[1]))])


def errors(L: np.ndarray, V: np.ndarray, Sigma: np.ndarray) -> list[float]:
    """Angles, distance of the spaces, distance of the covariances."""
    angles = component_angles(V, L)
    return [*angles, subspace_distance(V, L), covariance_distance(Sigma, L)]


def measure(name: str, setting: int, n_seeds: int) -> tuple[np.ndarray, float, float]:
    """Mean errors, mean number of components found, median processor seconds."""
    rows, numbers, times = [], [], []
    for seed in range(n_seeds):
        X, V, Sigma = make_simulation(setting, random_state=seed)
        model = METHODS[name](V.shape[1], NONZERO[setting])
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # components that are dropped
            model.fit(X)
        times.append(time.process_time() - begin)
        L = loadings(model, X)
        numbers.append(L.shape[1])
        rows.append(errors(with_columns(L, V.shape[1]), V, Sigma))
    return np.mean(rows, axis=0), float(np.mean(numbers)), float(np.median(times))


def main() -> None:
    """Print one Markdown table for each simulation."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="number of draws")
    options = parser.parse_args()
    with threadpool_limits(1):
        for setting in NONZERO:
            print(f"\nSimulation {setting}, mean of {options.seeds} draws\n")
            print("| method | angles | subspace | covariance | components | ms |")
            print("|---|---|---|---|---|---|")
            for name in METHODS:
                mean, number, seconds = measure(name, setting, options.seeds)
                angles = ", ".join(f"{value:.3f}" for value in mean[:-2])
                distances = f"{mean[-2]:.3f} | {mean[-1]:.1f}"
                cells = (name, angles, distances, f"{number:g}", f"{1000 * seconds:.0f}")
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
