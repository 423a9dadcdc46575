"""Measure how often `compare_priors` finds the family that loadings were drawn from.

Run with ``python -m benchmarks.bench_priors [--draws 20] [--seed 0] [--ratio 2] [--features 200]
[--scores orthogonal] [family ...]``.
"""

import argparse
import time
import warnings
from collections import Counter

import numpy as np

import ebcd


def sparse(rng, shape):
    """Draw Laplace loadings in a fifth of the places."""
    return np.where(rng.random(shape) < 0.2, rng.laplace(size=shape), 0.0)


def nonnegative(rng, shape):
    """Draw exponential loadings in a fifth of the places."""
    return np.where(rng.random(shape) < 0.2, rng.exponential(size=shape), 0.0)


def binary(rng, shape):
    """Draw loadings of one size in a fifth of the places."""
    return np.where(rng.random(shape) < 0.2, 1.0, 0.0)


def smooth(rng, shape):
    """Draw curves: a few waves of random size, and a step."""
    t = np.arange(shape[1]) / shape[1]
    waves = [f(2 * np.pi * i * t) / i for i in (1, 2, 3) for f in (np.sin, np.cos)]
    steps = t > rng.random((shape[0], 1))
    return rng.normal(size=(shape[0], 6)) @ np.array(waves) + rng.normal(size=(shape[0], 1)) * steps


FAMILIES = {
    "point_laplace": sparse,
    "normal": lambda rng, shape: rng.normal(size=shape),
    "point_exponential": nonnegative,
    "generalized_binary": binary,
    "spatial": smooth,
}
USUAL = [name for name in FAMILIES if name != "spatial"]  # which is for features in an order


def draw(family, seed, n=100, p=200, k=3, ratio=2.0):
    """Draw data whose components have `ratio` times the variance at which they can be seen.

    An eigenvalue leaves the noise where a component has the variance ``sqrt(p / n)``.
    """
    rng = np.random.default_rng(seed)
    loadings = FAMILIES[family](rng, (k, p))
    sizes = ratio * np.sqrt(p / n) * np.arange(k, 0, -1)
    loadings *= np.sqrt(sizes / (loadings**2).sum(axis=1))[:, None]
    return rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))


def measure(family, seeds, scores, p, ratio):
    """Print how often each family was the best, and by how much the true one leads or lags."""
    chosen, gaps, began = Counter(), [], time.perf_counter()
    for seed in seeds:
        X, priors = draw(family, seed, p=p, ratio=ratio), USUAL
        if family not in priors:
            priors = [*priors, family]
        found = ebcd.compare_priors(X, priors, n_components=3, scores=scores)
        chosen[found.best] += 1
        elbos = {name: model.elbo_ for name, model in found.models.items()}
        gaps.append(elbos.pop(family) - max(elbos.values()))
    others = ", ".join(f"{name} {count}" for name, count in chosen.most_common() if name != family)
    low, middle, high = np.quantile(gaps, [0, 0.5, 1])
    each = (time.perf_counter() - began) / len(seeds)
    print(
        f"{family:20} p {p}, ratio {ratio:g}, {scores} scores: "
        f"true family {chosen[family]:3} of {len(seeds)}; {others or 'no other'}; "
        f"ELBO over the next: {low:+.1f} {middle:+.1f} {high:+.1f} "
        f"(least, median, most); {each:.2f} s each",
        flush=True,
    )


def main():
    """Measure all families, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", metavar="family")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scores", default="orthogonal")
    parser.add_argument(
        "--ratio", type=float, default=2.0, help="strength of the weakest component"
    )
    parser.add_argument("--features", type=int, default=200)
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for family in options.families or FAMILIES:
            measure(family, seeds, options.scores, options.features, options.ratio)


if __name__ == "__main__":
    main()
