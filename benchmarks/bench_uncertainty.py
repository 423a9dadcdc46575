"""Measure what the uncertainties of loadings are worth: coverage of intervals, sign rates.

The data are those of the guide: 40 features, three components with 20, 10 and 4 loadings, noise of
standard deviation 1.5. Run it with ``python benchmarks/bench_uncertainty.py [data sets]``.
"""

import sys

import numpy as np
from scipy.optimize import linear_sum_assignment

import ebcd

Z95 = 1.959964
BOOTSTRAPS = 40


def true_loadings():
    """Give the loadings of the guide, 3 x 40."""
    loadings = np.zeros((3, 40))
    loadings[0, :20] = 1.0
    loadings[1, 15:25] = [1.3, -1.3] * 5
    loadings[2, 32:36] = 1.5
    return loadings


def draw(n_samples, rng):
    """Draw data."""
    signal = rng.normal(size=(n_samples, 3)) @ true_loadings()
    return signal + 1.5 * rng.normal(size=signal.shape)


def shortening(model):
    """Give what takes the noise along a component out of its length."""
    k, p = model.components_.shape
    noise = model.noise_variance_ * p / (p - k)
    return np.sqrt(np.maximum(1 - noise / model.explained_variance_, 0))[:, None]


def matched(components, target):
    """Order of the components, and their signs, that suit the target best."""
    cosines = components @ target.T / np.linalg.norm(components, axis=1)[:, None]
    rows, columns = linear_sum_assignment(-np.abs(cosines))
    order = rows[np.argsort(columns)]
    return order, np.sign(cosines[order, np.arange(len(order))])[:, None]


def one_data_set(n_samples, rng):
    """Coverage of the true loadings by intervals, as they are and shortened; wrong signs."""
    truth = true_loadings()
    model = ebcd.EBCD(3).fit(draw(n_samples, rng))
    order, sign = matched(model.components_, truth)
    mean, sd = sign * model.components_[order], model.components_sd_[order]
    factor = shortening(model)[order]
    inside = np.abs(mean - truth) <= Z95 * sd
    shortened = np.abs(factor * mean - truth) <= Z95 * factor * sd
    claimed = model.lfsr_[order] < 0.05
    return {
        "all": inside.mean(),
        "not zero": inside[truth != 0].mean(),
        "all, shortened": shortened.mean(),
        "not zero, shortened": shortened[truth != 0].mean(),
        "claimed signs": claimed.sum(),
        "wrong of those": (claimed & (np.sign(mean) != np.sign(truth))).sum(),
    }


def bootstrap(n_samples, rng):
    """Coverage of intervals whose standard deviation comes from fits to resampled rows."""
    truth = true_loadings()
    data = draw(n_samples, rng)
    model = ebcd.EBCD(3).fit(data)
    draws = []
    for _ in range(BOOTSTRAPS):
        rows = rng.integers(n_samples, size=n_samples)
        again = ebcd.EBCD(3, start=model.components_.T).fit(data[rows])
        if again.n_components_ == 3:
            order, sign = matched(again.components_, model.components_)
            draws.append(sign * (shortening(again) * again.components_)[order])
    order, sign = matched(model.components_, truth)
    mean = sign * (shortening(model) * model.components_)[order]
    inside = np.abs(mean - truth) <= Z95 * np.std(draws, axis=0)[order]
    return {"bootstrap, all": inside.mean(), "bootstrap, not zero": inside[truth != 0].mean()}


def main():
    """Print a table."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 120
    for n_samples in (60, 240, 960):
        rng = np.random.default_rng(n_samples)
        results = [one_data_set(n_samples, rng) for _ in range(repeats)]
        results = {key: np.array([r[key] for r in results]) for key in results[0]}
        share = results["wrong of those"].sum() / results["claimed signs"].sum()
        print(
            f"{n_samples} samples, {repeats} data sets: coverage of intervals of 95 %", flush=True
        )
        for key in ("all", "not zero", "all, shortened", "not zero, shortened"):
            print(f"  {key:24} {results[key].mean():.1%}")
        some = [bootstrap(n_samples, rng) for _ in range(max(1, repeats // 10))]
        for key in some[0]:
            print(f"  {key:24} {np.mean([r[key] for r in some]):.1%}")
        print(f"  wrong among signs with a rate below 0.05: {share:.1%}", flush=True)


if __name__ == "__main__":
    main()
