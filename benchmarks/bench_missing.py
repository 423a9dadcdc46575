"""Measure fits to data with missing values: accuracy, intervals, numbers of components, time.

``python -m benchmarks.bench_missing [angles] [intervals] [components] [time]`` (by default all,
``--sets 20 --first 5000 --shares 0.05 0.2 0.5``; ``--first`` is the first seed). Three components
with Laplace loadings of which 30 % are not zero, as in `bench_uncertainty`, strength 8, drawn with
seeds that nothing was chosen on.

angles
    Mean angles (over a right angle) of the true components with 5, 20 and 50 % of the entries
    missing at random: the fit, the same with the data before they lost entries, with means in
    place of missing values, and EBMF, which uses what was observed as well. Beside them the root
    mean squared error of imputed entries, of which the noise alone has 1.
intervals
    Share of the true loadings above three standard errors, those of what was observed, in their
    intervals of 90 %, with complete data and with holes, and wrong signs among loadings with a
    false sign rate below 0.01. Beside them an oracle that knows the true scores, and has only to
    regress on them and to fit the prior. What shrinkage alone loses is shown by exact posteriors:
    estimates are drawn about the true loadings with the noise that a fit claims, and the prior is
    that of the true loadings.
components
    Numbers of components that are found in noise, and where there are three.
time
    Processor seconds for 100 x 10,000 entries, of which 10 % are missing or none.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.bench_uncertainty import LEVEL, Claim, K, claims, draw, matched, tally
from ebcd import EBCD, ebnm
from ebcd.metrics import component_angles
from ebcd.peers import EBMF
from ebcd.priors._intervals import posterior_interval

SCORES = ("orthogonal", "relaxed", "integrated")
SHAPES = ((200, 40), (60, 200))
NON_ZERO, STRENGTH = 0.3, 8


def data_set(n: int, p: int, share: float, seed: int, first: int) -> tuple[np.ndarray, ...]:
    """Return data, the same with missing values, true scores and true loadings (k x p)."""
    X, Z, L = draw(n, p, NON_ZERO, STRENGTH, first + seed)
    rng = np.random.default_rng([n, p, round(100 * share), seed])
    return X, np.where(rng.random(X.shape) < share, np.nan, X), Z, L


def fit(model: Any, X: np.ndarray) -> Any:
    """Fit a model and keep its warnings to oneself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def _angle(model: Any, L: np.ndarray) -> float:
    return float(component_angles(L.T, model.components_.T).mean())


def angles(options: argparse.Namespace) -> None:
    """Print mean angles, and errors of imputed entries."""
    print(f"\nMean angles, {options.sets} data sets; error of imputed entries")
    print(f"{'':32}{'complete':>9}{'means':>9}{'fit':>9}{'EBMF':>9}{'imputed':>9}{'EBMF':>9}")
    for n, p in SHAPES:
        for share in options.shares:
            drawn = [data_set(n, p, share, seed, options.first) for seed in range(options.sets)]
            peers = [fit(EBMF(K), Y) for _, Y, *_ in drawn]
            peer = np.mean([_angle(m, L) for m, (*_, L) in zip(peers, drawn, strict=True)])
            peer_error = _error(
                [
                    m.inverse_transform(m.transform(Y))
                    for m, (_, Y, *_) in zip(peers, drawn, strict=True)
                ],
                drawn,
            )
            for scores in SCORES:
                found = np.empty((options.sets, 3))
                filled = []
                for i, (X, Y, _, L) in enumerate(drawn):
                    means = np.where(np.isnan(Y), np.nanmean(Y, axis=0), Y)
                    models = [fit(EBCD(K, scores=scores), data) for data in (X, means, Y)]
                    found[i] = [_angle(model, L) for model in models]
                    filled.append(models[-1].impute(Y))
                cells = [*found.mean(axis=0), peer, _error(filled, drawn), peer_error]
                label = f"{n} x {p}, {share:.0%} missing, {scores}"
                print(f"{label:36}" + "".join(f"{cell:9.4f}" for cell in cells), flush=True)


def _error(filled: list[np.ndarray], drawn: list[tuple[np.ndarray, ...]]) -> float:
    """Root mean squared error of missing entries."""
    errors = [(F - X)[np.isnan(Y)] for F, (X, Y, *_) in zip(filled, drawn, strict=True)]
    return float(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def regress(X: np.ndarray, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Regress each feature on the true scores of its rows; return estimates and noise (k x p)."""
    found, noise = np.empty((2, K, X.shape[1]))
    for j, x in enumerate(X.T):
        seen = ~np.isnan(x)
        z = Z[seen] - Z[seen].mean(axis=0)
        inverse = np.linalg.inv(z.T @ z)
        found[:, j], noise[:, j] = inverse @ z.T @ x[seen], np.sqrt(np.diagonal(inverse))
    return found, noise


def shrunk(x: np.ndarray, s: np.ndarray, prior: Any = "point_laplace") -> Claim:
    """Return what is claimed of loadings given estimates and their noise."""
    found = ebnm(x, s, prior)
    lower, upper = posterior_interval(found.prior, x, s, LEVEL)
    return Claim(found.mean, lower, upper, found.lfsr)


def exact(model: Any, L: np.ndarray, rng: np.random.Generator) -> list[tuple[int, Claim]]:
    """Return exact posteriors, in which nothing is wrong, given the noise that a fit claims."""
    _, noise, unit = model._posterior
    noise = np.broadcast_to(noise * unit, model.components_.shape)
    claimed = []
    for i, j, _ in matched(L, model.components_):
        prior = ebnm(L[i], np.full(L[i].shape, 1e-3 * L[i].std())).prior
        x = L[i] + noise[j] * rng.normal(size=L[i].size)
        claimed.append((i, shrunk(x, noise[j], prior)))
    return claimed


def intervals(options: argparse.Namespace) -> None:
    """Print the coverage of intervals, with and without missing values."""
    print(f"\nLoadings above three standard errors in intervals of 90 %, {options.sets} data sets")
    print("(complete -> with holes, wrong signs with holes; exact posteriors with the same noise)")
    for n, p in SHAPES:
        for share in options.shares:
            counts = {name: np.zeros((2, 2, 9)) for name in ("oracle", *SCORES)}
            for seed in range(options.sets):
                X, Y, Z, L = data_set(n, p, share, seed, options.first)
                rng = np.random.default_rng(seed)
                for i, data in enumerate((X, Y)):
                    rows = zip(*regress(data, Z), strict=True)
                    claimed = {"oracle": [[(k, shrunk(x, s)) for k, (x, s) in enumerate(rows)]]}
                    for scores in SCORES:
                        model = fit(EBCD(K, scores=scores), data)
                        claimed[scores] = [claims(model, L), exact(model, L, rng)]
                    for name, kinds in claimed.items():
                        for kind, pairs in enumerate(kinds):
                            counts[name][kind, i] += tally(L, round(n * (1 - share)), pairs)
            print(f"{n} x {p}, {share:.0%} missing:")
            for name, (found, ideal) in counts.items():
                cell = f"  {name:10} {_arrow(found)}, wrong {found[1, 5] / found[1, 4]:.2%}"
                print(cell + (f"; exact {_arrow(ideal)}" if ideal.any() else ""), flush=True)


def _arrow(counts: np.ndarray) -> str:
    """Return coverage with complete data and with holes, and the difference in points."""
    before, after = counts[:, 1] / counts[:, 0]
    return f"{before:.3f} -> {after:.3f} ({100 * (after - before):+.1f})"


def components(options: argparse.Namespace) -> None:
    """Print how many components "auto" finds."""
    print(f"\nComponents found, {5 * options.sets} data sets")
    for n, p in SHAPES:
        for share in options.shares:
            found: dict[str, list[int]] = {"noise": [], "three": []}
            for seed in range(5 * options.sets):
                _, Y, *_ = data_set(n, p, share, seed, options.first)
                rng = np.random.default_rng([n, p, seed])
                noise = np.where(np.isnan(Y), np.nan, rng.normal(size=Y.shape))
                found["noise"].append(fit(EBCD(start="svd", max_iter=1), noise).n_components_)
                found["three"].append(fit(EBCD(start="svd", max_iter=1), Y).n_components_)
            counts = {name: np.bincount(numbers).tolist() for name, numbers in found.items()}
            print(
                f"{n} x {p}, {share:.0%} missing: of noise {counts['noise']}, of three "
                f"components {counts['three']} (times 0, 1, ...)",
                flush=True,
            )


def times(options: argparse.Namespace) -> None:
    """Print seconds of processor time, medians of five fits."""
    X, _, _ = draw(100, 10_000, NON_ZERO, STRENGTH, options.first)
    Y = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    print("\nSeconds for 100 x 10,000, without and with 10 % missing")
    for scores in SCORES:
        seconds = []
        for data in (X, Y):
            taken = []
            for _ in range(5):
                began = time.process_time()
                fit(EBCD(K, scores=scores), data)
                taken.append(time.process_time() - began)
            seconds.append(float(np.median(taken)))
        print(
            f"{scores:12} {seconds[0]:.2f}, {seconds[1]:.2f}: {seconds[1] / seconds[0]:.1f} times"
        )


def main() -> None:
    """Run what was asked for."""
    runs: dict[str, Callable[[argparse.Namespace], None]] = {
        "angles": angles,
        "intervals": intervals,
        "components": components,
        "time": times,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*runs, []], default=list(runs))
    parser.add_argument("--sets", type=int, default=20, help="data sets of each kind")
    parser.add_argument("--first", type=int, default=5_000, help="first seed")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.2, 0.5])
    options = parser.parse_args()
    for part in options.parts or runs:
        runs[part](options)


if __name__ == "__main__":
    main()
