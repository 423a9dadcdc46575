"""Non-negative and binary loadings: how close to the truth, beside other priors and methods.

    python -m benchmarks.bench_binary [--seeds 20] [--seed 0] [parts clusters cells splits counts]

``parts``: non-negative loadings, mean cosine with the truth. ``clusters``: binary loadings that
overlap, share of right memberships. ``cells``: the same for clusters of samples with a baseline, by
`ebcd.gbcd`; ``splits`` also begins with more components than there are. ``counts``: gene programs
in counts of single cells, mean correlation with the truth.
"""

import argparse
import time
import warnings
from collections import defaultdict

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.decomposition import NMF, PCA
from threadpoolctl import threadpool_limits

import ebcd
from benchmarks.bench_starts import half_dense, nmf, overlapping, topics


def matched(table):
    """Return the mean entry of the best matching of rows with columns; missing ones are zero."""
    return table[linear_sum_assignment(-table)].sum() / len(table)


def cosine(truth, found):
    """Return the mean cosine between true and found components."""
    sizes = np.linalg.norm(truth, axis=1)[:, None] * np.linalg.norm(found, axis=1)
    return matched(np.abs(truth @ found.T) / np.maximum(sizes, 1e-300))


def share_right(truth, found):
    """Return the share of right memberships."""
    return matched(np.array([[(t == f).mean() for f in found] for t in truth]))


def measure(name, seeds, one):
    """Print means, and the smallest value, of what `one` returns for each seed."""
    values, seconds = defaultdict(list), time.process_time()
    for seed in seeds:
        for method, value in one(seed).items():
            values[method].append(value)
    seconds = (time.process_time() - seconds) / len(seeds)
    print(f"{name} ({len(seeds)} draws, {seconds:.1f} s each)")
    for method, found in values.items():
        print(f"    {method:20} mean {np.mean(found):.4f}  least {np.min(found):.4f}", flush=True)


def counted_topics(rng):
    """Draw counts of words in texts on a few topics."""
    shares, words = rng.dirichlet(np.full(6, 0.3), 200), rng.dirichlet(np.full(200, 0.1), 6)
    return rng.poisson(500 * shares @ words).astype(float), words


def parts(seeds):
    """Compare families, and scikit-learn's NMF, on non-negative loadings."""
    designs = {"sparse, overlapping": overlapping, "half dense": half_dense}
    designs |= {f"NMF-like, noise {noise:g}": noise for noise in (1.0, 1.5, 2.0)}
    designs |= {"topics, counts": counted_topics, "topics, logarithms, not centered": topics}
    for name, design in designs.items():

        def one(seed, name=name, design=design):
            rng = np.random.default_rng([80, seed])
            noise = design if isinstance(design, float) else 1.0
            X, truth = (nmf if isinstance(design, float) else design)(rng)
            X = X + np.sqrt(noise**2 - 1) * rng.normal(size=X.shape)
            k, center = len(truth), not name.endswith("not centered")
            fits = {
                prior: ebcd.EBCD(k, prior=prior, center=center).fit(X)
                for prior in ("point_exponential", "point_laplace")
            }
            fits["NMF"] = NMF(k, init="nndsvda", max_iter=2000).fit(np.maximum(X, 0))
            return {method: cosine(truth, fit.components_) for method, fit in fits.items()}

        measure(name, seeds, one)


def clusters(seeds):
    """Compare methods on features that belong to several clusters, each an on or off."""
    for k, density in ((4, 0.3), (6, 0.4)):
        for noise in (1.0, 1.5):

            def one(seed, k=k, density=density, noise=noise):
                rng = np.random.default_rng([81, seed])
                truth = rng.random((k, 200)) < density
                X = rng.normal(size=(100, k)) @ truth + noise * rng.normal(size=(100, 200))
                found = {}
                for prior in ("generalized_binary", "point_exponential", "point_laplace"):
                    model = ebcd.EBCD(k, prior=prior).fit(X)
                    found[prior] = ebcd.memberships(model) > 0.5
                labels = KMeans(k, n_init=10, random_state=0).fit(X.T).labels_
                found["k-means"] = labels == np.arange(k)[:, None]
                sizes = np.abs(PCA(k).fit(X).components_)
                found["thresholded PCA"] = sizes > 0.5 * np.quantile(sizes, 0.95, axis=1)[:, None]
                return {method: share_right(truth, f) for method, f in found.items()}

            measure(f"{k} clusters, density {density}, noise {noise:g}", seeds, one)


def draw_cells(seed, counts, up, n_cells=300, n_genes=1000):
    """Draw cells with a baseline and two programs that overlap, as logarithms."""
    rng = np.random.default_rng([82, seed])
    truth = rng.random((2, n_cells)) < [[0.3], [0.4]]
    baseline = rng.normal(size=n_genes)
    effects = rng.normal(size=(2, n_genes)) * (rng.random((2, n_genes)) < 0.1)
    signal = truth.T @ (np.abs(effects) if up else effects)
    if not counts:
        return baseline + 1 + signal + rng.normal(size=signal.shape), truth
    depth = rng.lognormal(sigma=0.3, size=(n_cells, 1))
    found = rng.poisson(depth * np.exp(baseline - 1 + signal))
    size = found.sum(axis=1, keepdims=True)
    return np.log1p(found / (size / size.mean())), truth


def cells(seeds, splits=False):
    """Count right memberships of `gbcd`; with `splits`, from too many components, too."""
    for counts in (False, True):
        for up in (False, True):
            kind = f"{'counts' if counts else 'normal'}, {'up' if up else 'up and down'}"

            def one(seed, counts=counts, up=up):
                X, truth = draw_cells(seed, counts, up)
                found = {}
                for k in (3, 6) if splits else (3,):
                    model = ebcd.gbcd(X, k)
                    right = share_right(truth, ebcd.memberships(model)[model.clusters_] > 0.5)
                    found |= {f"k = {k}": right, f"k = {k}, clusters": model.n_components_ - 1}
                labels = KMeans(2, n_init=10, random_state=0).fit(X).labels_
                return found | {"k-means": share_right(truth, labels == np.arange(2)[:, None])}

            measure(f"cells, {kind}", seeds, one)


def splits(seeds):
    """Count right memberships of `gbcd` from about as many components as there are, and more."""
    cells(seeds, splits=True)


def counts(seeds):
    """Compare families on gene programs in counts of single cells."""
    for strength in (1.0, 2.0):

        def one(seed, strength=strength):
            rng = np.random.default_rng([83, seed])
            truth = rng.exponential(size=(4, 300)) * (rng.random((4, 300)) < 0.15)
            use = rng.gamma(0.5, 1.0, size=(400, 4))
            rate = np.exp(0.5 * rng.normal(size=300)) * (0.5 + strength * use @ truth)
            found = rng.poisson(rate * rng.lognormal(sigma=0.3, size=(400, 1)))
            size = found.sum(axis=1, keepdims=True)
            X = np.log1p(found / (size / size.mean()))
            right = {}
            for prior in ("point_exponential", "point_laplace"):
                for center in (True, False):
                    k = 4 if center else 5
                    model = ebcd.EBCD(k, prior=prior, scores="integrated", center=center).fit(X)
                    correlation = np.corrcoef(truth, model.components_)[:4, 4:]
                    label = prior if center else f"{prior}, raw"
                    right[label] = matched(np.abs(correlation))
            return right

        measure(f"counts, strength {strength:g}", seeds, one)


def main():
    """Run what is named, or everything."""
    known = {f.__name__: f for f in (parts, clusters, cells, splits, counts)}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", choices=[*known, []], default=[])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in options.what or known:
            known[name](range(options.seed, options.seed + options.seeds))


if __name__ == "__main__":
    main()
