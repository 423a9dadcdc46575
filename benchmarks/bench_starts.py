"""Where fits with one-sided and with discrete priors end, compared with many random starts.

    python -m benchmarks.bench_starts            # all designs
    python -m benchmarks.bench_starts --designs nmf ternary --seeds 3

Shortfall is the best ELBO of random starts, or of the default if that is higher, minus that of the
default, in nats. Random starts are sparse non-negative loadings for one-sided priors, and rotations
of the principal components for others. ``--best FILE`` keeps the best ELBO ever seen of each
problem, so that versions of the package are compared with the same optimum.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

import ebcd
from ebcd.metrics import component_angles

N_RANDOM = 20
Design = tuple[np.ndarray, np.ndarray | None]  # data, and their loadings if known


def nmf(rng: np.random.Generator) -> Design:
    """Draw non-negative scores times non-negative sparse loadings."""
    loadings = rng.exponential(size=(5, 100)) * (rng.random((5, 100)) < 0.3)
    return rng.exponential(size=(200, 5)) @ loadings + rng.normal(size=(200, 100)), loadings


def overlapping(rng: np.random.Generator) -> Design:
    """Draw normal scores times sparse non-negative loadings that overlap."""
    loadings = np.abs(rng.normal(size=(5, 60))) * (rng.random((5, 60)) < 0.4)
    return rng.normal(size=(100, 5)) @ loadings + rng.normal(size=(100, 60)), loadings


def half_dense(rng: np.random.Generator) -> Design:
    """Draw normal scores times non-negative loadings, half of the components without zeros."""
    loadings = np.abs(rng.normal(size=(4, 60)))
    loadings[2:] *= rng.random((2, 60)) < 0.2
    return rng.normal(size=(100, 4)) @ loadings + rng.normal(size=(100, 60)), loadings


def topics(rng: np.random.Generator) -> Design:
    """Draw logarithms of counts of words in texts on a few topics."""
    shares, words = rng.dirichlet(np.full(6, 0.3), 200), rng.dirichlet(np.full(200, 0.1), 6)
    return np.log1p(rng.poisson(500 * shares @ words)), words


def ternary(rng: np.random.Generator) -> Design:
    """Draw normal scores times loadings of -1, 0 and 1."""
    loadings = rng.integers(-1, 2, size=(3, 200)).astype(float)
    return rng.normal(size=(50, 3)) @ loadings + rng.normal(size=(50, 200)), loadings


def digits(rng: np.random.Generator) -> Design:
    """Return images of handwritten digits."""
    return load_digits().data, None


ONE_SIDED = ["point_exponential", "unimodal_nonnegative"]
DESIGNS = {
    "nmf": (nmf, ONE_SIDED),
    "overlapping": (overlapping, ONE_SIDED),
    "half_dense": (half_dense, ONE_SIDED),
    "topics": (topics, ONE_SIDED[:1]),
    "digits": (digits, ONE_SIDED[:1]),
    "ternary": (ternary, ["npmle", "deconvolver", "unimodal"]),
}


def elbo_of_random(X: np.ndarray, k: int, prior: str, center: bool, number: int) -> float:
    """Fit from one random start."""
    rng = np.random.default_rng([41, number])
    if prior in ONE_SIDED:
        start = np.abs(rng.normal(size=(X.shape[1], k))) * (rng.random((X.shape[1], k)) < 0.5)
    else:
        centred = X - X.mean(axis=0)
        start = np.linalg.svd(centred)[2][:k].T @ np.linalg.qr(rng.normal(size=(k, k)))[0]
    return float(ebcd.EBCD(k, prior=prior, start=start, center=center).fit(X).elbo_)


def measure(name: str, prior: str, seeds: int, best: dict[str, float], n_random: int) -> None:
    """Print the shortfalls and times of one design and prior."""
    draw, center = DESIGNS[name][0], name != "topics"  # zero means absence in counts
    lows, times, cosines = [], [], []
    for seed in range(1 if name == "digits" else seeds):
        X, loadings = draw(np.random.default_rng([40, seed]))
        k, key = 10 if loadings is None else len(loadings), f"{name} {prior} {seed}"
        begin = time.process_time()
        model = ebcd.EBCD(k, prior=prior, center=center).fit(X)
        times.append(time.process_time() - begin)
        if key not in best:
            best[key] = max(elbo_of_random(X, k, prior, center, i) for i in range(n_random))
        lows.append(best[key] - model.elbo_)
        best[key] = max(best[key], float(model.elbo_))
        if loadings is not None and model.n_components_ == k:
            angles = component_angles(loadings.T, model.components_.T)
            cosines.append(np.cos(angles * np.pi / 2).mean())
    low = np.maximum(lows, 0.0)
    print(f"{name:12} {prior:21} low in {(low > 0.1).sum()} of {len(low)}, ", end="")
    print(f"shortfall mean {low.mean():7.2f} largest {low.max():7.2f} ", end="")
    print(f"(ahead by up to {max(0.0, -min(lows)):.2f}), ", end="")
    print(f"cosine {np.mean(cosines or [0]):.3f}, {np.median(times):.2f} s", flush=True)


def main() -> None:
    """Run the designs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS))
    parser.add_argument("--priors", nargs="+", help="those of the design unless told otherwise")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--random", type=int, default=N_RANDOM, help="random starts")
    parser.add_argument("--best", type=Path, help="file with the best ELBO of each problem")
    options = parser.parse_args()
    kept = options.best is not None and options.best.exists()
    best: dict[str, float] = json.loads(options.best.read_text()) if kept else {}
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in options.designs:
            for prior in options.priors or DESIGNS[name][1]:
                measure(name, prior, options.seeds, best, options.random)
                if options.best is not None:
                    options.best.write_text(json.dumps(best))


if __name__ == "__main__":
    main()
