"""Measure how often `compare_priors` finds the family that loadings were drawn from.

Run with ``python -m benchmarks.bench_priors [--draws 20] [--seed 0] [--ratio 2] [--features 200]
[--scores orthogonal] [family ...]``. With ``--times`` the price of fits with slow families on the
paper's simulations (50 x 500, k = 3), with ``--even`` how well they find loadings of -1, 0 and 1.
"""

import argparse
import time
import warnings
from collections import Counter

import numpy as np

import ebcd
from ebcd.datasets import make_simulation
from ebcd.metrics import component_angles

SLOW = [
    "generalized_binary",
    "normal_scale_mixture",
    "deconvolver",
    "unimodal_nonnegative",
    "npmle",
    "horseshoe",
    "unimodal",
    "unimodal_symmetric",
]


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


def fit(X, family, **options):
    """Fit three components; return processor time, on which other work has little effect."""
    began = time.process_time()
    model = ebcd.EBCD(3, prior=family, **options).fit(X)
    return time.process_time() - began, model


def measure_times(families, seeds):
    """Print times of fits as multiples of those with the default family, and their ELBOs."""
    draws = [(setting, seed) for setting in (1, 2) for seed in seeds]
    found = {family: [] for family in families}
    for setting, seed in draws:
        X, *_ = make_simulation(setting, random_state=seed)
        unit = min(fit(X, "point_laplace")[0] for _ in range(4))
        for family in families:
            seconds, model = min((fit(X, family) for _ in range(2)), key=lambda one: one[0])
            found[family].append((seconds / unit, model.elbo_))
    print("multiples of point_laplace: least, median, most; ELBOs of simulations and seeds", draws)
    for family, rows in found.items():
        multiples, elbos = zip(*rows, strict=True)
        least, middle, most = np.quantile(multiples, [0, 0.5, 1])
        values = " ".join(f"{elbo:.2f}" for elbo in elbos)
        print(f"{family:22} {least:4.0f} {middle:4.0f} {most:4.0f}   {values}", flush=True)


def measure_even(families, seeds):
    """Print cosines with true loadings of -1, 0 and 1, and the ELBO above a start at the truth."""
    for family in families:
        cosines, ahead = [], []
        for seed in seeds:
            rng = np.random.default_rng([40, seed])
            loadings = rng.integers(-1, 2, size=(3, 200)).astype(float)
            X = rng.normal(size=(50, 3)) @ loadings + rng.normal(size=(50, 200))
            model, at_truth = fit(X, family)[1], fit(X, family, start=loadings.T)[1]
            angles = component_angles(loadings.T, model.components_.T) * np.pi / 2
            cosines.append(np.cos(angles).mean())
            ahead.append(model.elbo_ - at_truth.elbo_)
        print(
            f"{family:22} mean cosine {np.mean(cosines):.3f}, least {min(cosines):.3f}; ELBO above "
            f"a start at the truth: least {min(ahead):+.2f}, most {max(ahead):+.2f}",
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
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--even", action="store_true")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.draws)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.times:
            measure_times(options.families or SLOW, seeds)
        elif options.even:
            measure_even(options.families or ["deconvolver", "npmle"], seeds)
        else:
            for family in options.families or FAMILIES:
                measure(family, seeds, options.scores, options.features, options.ratio)


if __name__ == "__main__":
    main()
