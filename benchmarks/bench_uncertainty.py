"""Measure what uncertainties of loadings are worth: coverage of intervals, and wrong signs.

Twenty designs: samples and features x share of loadings that are not zero x strength. Each has
three components with Laplace loadings, normal scores and unit noise; squared lengths are
``strength x max(1, sqrt(p / n)) x (1.6, 1, 0.7)``. Beside the score models of `EBCD` stands an
oracle that knows the true scores and has only to regress on them and to fit the prior.

``python -m benchmarks.bench_uncertainty [--sets 40] [--bootstrap 0] [--first 100]`` prints, by
design and pooled: the share of true loadings above three standard errors that lie in intervals of
90 %, the same for loadings that are zero, wrong signs among those with a local false sign rate
below 0.01 and 0.05, and the root mean squared error over that of orthogonal scores. With
``--bootstrap B`` intervals of B bootstrap fits are added, for integrated scores, and
``--design N P SHARE STRENGTH`` is for one design only. ``--freedom 4`` draws scores from Student's
t distribution with so many degrees of freedom, and ``--rows`` bootstraps by rows.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

import ebcd

SHAPES = ((30, 50), (100, 50), (300, 300), (1000, 50), (2000, 100))
SHARES, STRENGTHS = (0.1, 0.5), (4, 50)
LEVEL = 0.9
K = 3
SCORES = ("orthogonal", "relaxed", "integrated")


class Claim(NamedTuple):
    """What is said of the loadings of one component."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    lfsr: np.ndarray

    def flipped(self, sign: float) -> Claim:
        """Return the claims of the component times a sign."""
        if sign >= 0:
            return self
        return Claim(-self.mean, -self.upper, -self.lower, self.lfsr)


def draw(
    n: int, p: int, share: float, strength: float, seed: int, freedom: float = np.inf
) -> tuple[np.ndarray, ...]:
    """Draw data, true scores (of t distribution, with variance one) and true loadings (k x p)."""
    rng = np.random.default_rng([n, p, round(10 * share), round(strength), seed])
    L = rng.laplace(size=(K, p)) * (rng.random((K, p)) < share)
    for row in L:
        if np.count_nonzero(row) < 2:
            row[rng.choice(p, 2, replace=False)] = rng.laplace(size=2)
    lengths = strength * max(1.0, np.sqrt(p / n)) * np.array([1.6, 1.0, 0.7])
    L *= np.sqrt(lengths / (L**2).sum(axis=1))[:, None]
    Z = rng.normal(size=(n, K))
    if np.isfinite(freedom):
        Z *= np.sqrt((freedom - 2) / rng.chisquare(freedom, size=(n, K)))
    return Z @ L + rng.normal(size=(n, p)), Z, L


def matched(truth: np.ndarray, found: np.ndarray) -> Iterator[tuple[int, int, float]]:
    """Yield pairs of true and found components that suit each other best, and signs."""
    sizes = np.maximum(np.linalg.norm(found, axis=1), 1e-300)
    cosines = truth @ found.T / np.linalg.norm(truth, axis=1)[:, None] / sizes
    rows, columns = linear_sum_assignment(-np.abs(cosines))
    for i, j in zip(rows, columns, strict=True):
        yield i, j, np.sign(cosines[i, j])


def oracle(X: np.ndarray, Z: np.ndarray, L: np.ndarray) -> list[tuple[int, Claim]]:
    """Regress on the true scores, and shrink."""
    Z, X = Z - Z.mean(axis=0), X - X.mean(axis=0)
    inverse = np.linalg.inv(Z.T @ Z)
    claims = []
    for k, x in enumerate(inverse @ Z.T @ X):
        found = ebcd.ebnm(x, np.sqrt(inverse[k, k]))
        lower, upper = _interval(found.prior, x, np.sqrt(inverse[k, k]))
        claims.append((k, Claim(found.mean, lower, upper, found.lfsr)))
    return claims


def _interval(prior: Any, x: np.ndarray, s: float) -> Any:
    from ebcd.priors._intervals import posterior_interval

    return posterior_interval(prior, x, np.full(x.shape, s), LEVEL)


def claims(model: Any, L: np.ndarray, intervals: Any = None) -> list[tuple[int, Claim]]:
    """Return what a model claims of the true components."""
    lower, upper = model.credible_intervals(LEVEL) if intervals is None else intervals
    found = []
    for i, j, sign in matched(L, model.components_):
        claim = Claim(model.components_[j], lower[j], upper[j], model.lfsr_[j])
        found.append((i, claim.flipped(sign)))
    return found


def tally(truth: np.ndarray, n: int, pairs: list[tuple[int, Claim]]) -> np.ndarray:
    """Count loadings, covered ones, claimed signs and wrong ones, and squared errors."""
    counts = np.zeros(9)
    for i, (mean, lower, upper, lfsr) in pairs:
        true = truth[i]
        large, zero = np.abs(true) > 3 / np.sqrt(n), true == 0
        inside = (lower <= true) & (true <= upper)
        wrong = np.sign(mean) != np.sign(true)
        counts += [
            large.sum(),
            (inside & large).sum(),
            zero.sum(),
            (inside & zero).sum(),
            (lfsr < 0.01).sum(),
            (wrong & (lfsr < 0.01)).sum(),
            (lfsr < 0.05).sum(),
            (wrong & (lfsr < 0.05)).sum(),
            ((mean - true) ** 2).sum(),
        ]
    found = {i for i, _ in pairs}
    counts[8] += sum((truth[i] ** 2).sum() for i in range(K) if i not in found)
    return counts


def measure(design: tuple[Any, ...], seeds: range, options: Any) -> dict[str, np.ndarray]:
    """Return the counts of every method in one design."""
    totals: dict[str, np.ndarray] = defaultdict(lambda: np.zeros(9))
    for seed in seeds:
        X, Z, L = draw(*design, seed, options.freedom)
        totals["oracle"] += tally(L, len(X), oracle(X, Z, L))
        for scores in SCORES:
            model = ebcd.EBCD(K, scores=scores).fit(X)
            totals[scores] += tally(L, len(X), claims(model, L))
        if options.bootstrap:
            method = "rows" if options.rows else "parametric"
            draws = model.bootstrap(X, options.bootstrap, method=method, random_state=seed)
            ends = draws.intervals(LEVEL)
            totals["bootstrap"] += tally(L, len(X), claims(model, L, ends))
    return totals


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=40, help="data sets of each design")
    parser.add_argument("--bootstrap", type=int, default=0, help="fits of each bootstrap")
    parser.add_argument("--freedom", type=float, default=np.inf, help="of the scores' t law")
    parser.add_argument("--rows", action="store_true", help="bootstrap by rows")
    parser.add_argument("--first", type=int, default=100, help="first seed")
    names = ("N", "P", "SHARE", "STRENGTH")
    parser.add_argument("--design", type=float, nargs=4, metavar=names, help="only this one")
    options = parser.parse_args()
    designs = [(*shape, *rest) for shape, *rest in product(SHAPES, SHARES, STRENGTHS)]
    if options.design:
        designs = [design for design in designs if design == tuple(options.design)]
    warnings.simplefilter("ignore")
    seeds = range(options.first, options.first + options.sets)
    results = {}
    print(f"n, p, share, strength: coverage of {LEVEL:.0%} intervals / wrong signs at lfsr < .01")
    for n, p, share, strength in designs:
        found = measure((n, p, share, strength), seeds, options)
        results[n, p, share, strength] = found
        cells = (f"{m} {c[1] / c[0]:.3f}/{_share(c[5], c[4]):.1%}" for m, c in found.items())
        print(f"{n:5} {p:4} {share:4} {strength:3}  " + "  ".join(cells), flush=True)
    print("\nover all designs")
    for name in next(iter(results.values())):
        print(f"{name:11} " + summary(name, results), flush=True)


def summary(name: str, results: dict[Any, dict[str, np.ndarray]]) -> str:
    """Return coverage against the oracle, wrong signs and errors over all designs."""
    total = sum(found[name] for found in results.values())
    gap = {d: f[name][1] / f[name][0] - f["oracle"][1] / f["oracle"][0] for d, f in results.items()}
    least = min((value for design, value in gap.items() if design[0] >= 100), default=np.nan)
    ratios = [np.sqrt(f[name][8] / f["orthogonal"][8]) for f in results.values()]
    worst = max(_share(found[name][5], found[name][4]) for found in results.values())
    return (
        f"coverage - oracle's: mean {np.mean(list(gap.values())):+.3f}, least with n >= 100 "
        f"{least:+.3f}; zeros {total[3] / total[2]:.2%}; wrong signs at .01 "
        f"{_share(total[5], total[4]):.2%} (worst {worst:.1%}), at .05 "
        f"{_share(total[7], total[6]):.2%}; error / orthogonal: mean {np.mean(ratios):.3f}, "
        f"largest {max(ratios):.3f}"
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


if __name__ == "__main__":
    main()
