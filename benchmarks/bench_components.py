"""Measure how many components ``n_components="auto"`` finds in data with a known number of them.

Run with ``python -m benchmarks.bench_components [--draws 100] [--seed 0] [design ...]``.
"""

import argparse
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ebcd import EBCD
from ebcd.datasets import make_simulation

Draw = Callable[[np.random.Generator], np.ndarray]


class Design(NamedTuple):
    """Data, their number of components, what is counted on, and how they are fitted."""

    draw: Draw
    true: int
    bar: str
    parameters: Mapping[str, Any] = MappingProxyType({})


def signal(rng, n, p, k, size):
    """Draw components that are normal on a fifth of the features, at least three."""
    loadings = np.zeros((k, p))
    for row in loadings:
        chosen = rng.choice(p, max(3, p // 5), replace=False)
        row[chosen] = rng.normal(size=chosen.size)
        row *= np.sqrt(size) / np.linalg.norm(row)
    return rng.normal(size=(n, k)) @ loadings


def planted(n, p, k, size, sd_rows=0.0, sd_features=0.0):
    """Return a function that draws components in noise, perhaps of unequal variances."""

    def draw(rng):
        x = signal(rng, n, p, k, size) + rng.normal(size=(n, p)) * np.exp(
            sd_features * rng.normal(size=p)
        )
        return x * np.exp(sd_rows * rng.normal(size=(n, 1)))

    return draw


def noise(n, p, **spread):
    """Return a function that draws noise."""
    return planted(n, p, 0, 0.0, **spread)


def strong(n, p, k=3, **spread):
    """Return a function that draws components well above what eigenvalues can reveal."""
    return planted(n, p, k, 5 * np.sqrt(p / n), **spread)


def heavy(rng):
    """Draw noise of Student's t distribution with 5 degrees of freedom."""
    return rng.standard_t(5, size=(200, 20))


def with_outliers(rng):
    """Draw three components and multiply three rows by four."""
    x = strong(100, 50)(rng)
    x[:3] *= 4
    return x


def two_features(rng):
    """Draw a component of two features among a hundred."""
    loadings = np.zeros((1, 100))
    loadings[0, :2] = 2.0
    return rng.normal(size=(200, 1)) @ loadings + rng.normal(size=(200, 100))


def doubled(rng):
    """Draw three components, every row twice."""
    return np.repeat(strong(49, 65)(rng), 2, axis=0)


def resampled(rng):
    """Draw three components, and rows of those with replacement."""
    x = strong(100, 50)(rng)
    return x[rng.integers(len(x), size=len(x))]


def sparse(n, p, k):
    """Return a function that draws components that are Laplace on a fifth of the features."""

    def draw(rng):
        loadings = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.2)
        return rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))

    return draw


def counts(n, p, depth):
    """Return a function that draws logarithms of counts of like cells, of unequal depths."""

    def draw(rng):
        means = np.exp(rng.normal(-1.5, 1.0, p))
        cells = rng.poisson(np.exp(rng.normal(0, depth, (n, 1))) * means)
        totals = np.maximum(cells.sum(axis=1, keepdims=True), 1)
        return np.log1p(cells * (np.median(totals) / totals))

    return draw


def with_holes(n, p, k, share):
    """Return a function that draws sparse components, a share of whose entries is missing."""

    def draw(rng):
        x = sparse(n, p, k)(rng)
        x[rng.random(x.shape) < share] = np.nan
        return x

    return draw


def first_simulation(rng):
    """Draw Simulation 1 of the paper."""
    return make_simulation(1, random_state=int(rng.integers(2**31)))[0]


UNEVEN = {"sd_rows": 0.5}
DESIGNS = {
    "noise, 50 x 500": Design(noise(50, 500), 0, "0: 97 %"),
    "noise, 100 x 50": Design(noise(100, 50), 0, "0: 97 %"),
    "noise, 30 x 6": Design(noise(30, 6), 0, "0: 97 %"),
    "noise, 500 x 100": Design(noise(500, 100), 0, "0: 97 %"),
    "heavy-tailed noise, 200 x 20": Design(heavy, 0, "0: 97 %"),
    "scaled noise, 100 x 50": Design(noise(100, 50), 0, "0: 97 %", {"scale": True}),
    "scaled noise, 30 x 6": Design(noise(30, 6), 0, "0: 97 %", {"scale": True}),
    "Simulation 1, 50 x 500": Design(first_simulation, 2, "2: 95 %"),
    "strong, 100 x 50": Design(strong(100, 50), 3, ""),
    "uneven rows, noise, 100 x 50": Design(noise(100, 50, **UNEVEN), 0, "mean 0.3"),
    "uneven rows, noise, 60 x 300": Design(noise(60, 300, **UNEVEN), 0, "mean 0.3"),
    "uneven rows, 100 x 50": Design(strong(100, 50, **UNEVEN), 3, "mean 2.3 to 3.3"),
    "uneven rows, 60 x 300": Design(strong(60, 300, **UNEVEN), 3, "mean 2.3 to 3.3"),
    "three rows times four, 100 x 50": Design(with_outliers, 3, "mean 2 to 6"),
    "uneven features, noise, 100 x 50": Design(noise(100, 50, sd_features=0.5), 0, ""),
    "uneven features, noise, 30 x 6": Design(noise(30, 6, sd_features=0.5), 0, ""),
    "uneven features, 100 x 50": Design(strong(100, 50, sd_features=0.5), 3, ""),
    "few features, 30 x 6": Design(planted(30, 6, 1, 4.0), 1, "1: 60 %"),
    "weak, 5,000 x 20": Design(planted(5000, 20, 3, 0.3), 3, "mean 2.7"),
    "two features, scaled, 200 x 100": Design(two_features, 1, "1: 80 %", {"scale": True}),
    "sparse, scaled, 1,000 x 50": Design(sparse(1000, 50, 4), 4, "", {"scale": True}),
    "sparse, scaled, 1,000 x 20": Design(sparse(1000, 20, 2), 2, "", {"scale": True}),
    "sparse, scaled, 300 x 60": Design(sparse(300, 60, 4), 4, "", {"scale": True}),
    "sparse, per feature, 1,000 x 50": Design(sparse(1000, 50, 4), 4, "", {"noise": "per_feature"}),
    "logarithms of counts, 600 x 500": Design(counts(600, 500, 0.6), 0, ""),
    "logarithms of counts, 1,000 x 1,500": Design(counts(1000, 1500, 0.3), 0, ""),
    "a tenth missing, 1,000 x 200": Design(with_holes(1000, 200, 5, 0.1), 5, ""),
    "rows doubled, 98 x 65": Design(doubled, 3, ""),
    "rows resampled, 100 x 50": Design(resampled, 3, ""),
}


def count(X, **parameters):
    """Fit with default settings and return the number of components."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return EBCD(**parameters).fit(X).n_components_


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("designs", nargs="*", help="parts of names; by default all")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| data | true | at least | found | mean |\n|---|---|---|---|---|")
    for name, design in DESIGNS.items():
        if options.designs and not any(part in name for part in options.designs):
            continue
        seeds = np.random.SeedSequence(options.seed).spawn(options.draws)
        draws = (design.draw(np.random.default_rng(seed)) for seed in seeds)
        counts = [count(X, **design.parameters) for X in draws]
        table = ", ".join(f"{k}: {times}" for k, times in sorted(Counter(counts).items()))
        print(f"| {name} | {design.true} | {design.bar} | {table} | {np.mean(counts):.2f} |")


if __name__ == "__main__":
    main()
