"""How good the search for the best optimum is, and whether results change between versions.

Run from the root of the project, with ``PYTHONPATH`` naming the ``src`` of the version to measure
(only the public interface is used, so any version will do):

``python -m benchmarks.bench_search problems``
    List the problems: 130 varied ones, 60 fresh ones of the same design, 30 large ones.
``python -m benchmarks.bench_search best``
    Find the best known ELBO of every problem: the best of 30 random rotations of the principal
    components and all named starts. Values are only ever raised. Takes about ten minutes.
``python -m benchmarks.bench_search check``
    Compare default fits with the best known ELBOs, and see whether the ELBO depends on the signs
    or the order of the columns. ``--update-best`` raises best known values that were exceeded.
``python -m benchmarks.bench_search many``
    Compare default fits of 8 to 50 components with those that start from varimax and the truth.
``python -m benchmarks.bench_search table``
    Fit reference data and many kinds of input; ``--compare`` prints differences from the stored
    table in ELBO, loadings and time, ``--store`` writes a new one.

Results are in ``benchmarks/results``: ``search_best.json``, ``net_before.json`` and
``net_before.npz``. Times are processor time of one thread, which other processes on the machine
still stretch, by up to 1.7 times when it is crowded: compare two versions in turns on an idle one.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import warnings
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

import ebcd
from ebcd.metrics import component_angles

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BEST = RESULTS / "search_best.json"
TABLE = RESULTS / "net_before.json"
LOADINGS = RESULTS / "net_before.npz"

NAMED_STARTS = ("auto", "greedy", "svd", "varimax")
RANDOM_ROTATIONS = 30
LOW = 0.1  # nats: a fit this far below the best known counts as a miss
SAME = 1e-6  # nats: fits to the same data with columns mirrored or permuted may differ by this
SYMMETRY_PROBLEMS = 50

# --- problems

KINDS = ("sparse", "dense", "mixed", "overlapping", "equal")
# name of a set: seed, number of problems, numbers of features, of samples
SETS = {
    "varied": (20, 130, (8, 12, 20, 30, 50, 80, 120, 200, 300), (20, 50, 100, 200, 500)),
    "fresh": (21, 60, (8, 12, 20, 30, 50, 80, 120, 200, 300), (20, 50, 100, 200, 500)),
    "large": (22, 30, (500, 1000), (50, 200, 500)),
}
# n, p, k and the share of loadings that are not zero, for fits of many components
MANY = (
    (100, 300, 8, 0.1),
    (300, 300, 12, 0.1),
    (300, 400, 20, 0.1),
    (1000, 400, 30, 0.2),
    (1000, 1000, 20, 0.1),
    (2000, 5000, 50, 0.02),
)
STRENGTHS = (1.5, 3.0, 8.0, 30.0)  # ||l||^2 in units of what PCA can just detect


class Problem(NamedTuple):
    """Data to decompose, and what they were made from."""

    name: str
    kind: str
    X: np.ndarray
    k: int
    strength: float


def problems(which: str) -> Iterator[Problem]:
    """Draw the problems of a set, always the same."""
    seed, number, all_p, all_n = SETS[which]
    for i in range(number):
        rng = np.random.default_rng([seed, i])
        p, n, k = int(rng.choice(all_p)), int(rng.choice(all_n)), int(rng.integers(2, 7))
        kind, strength = KINDS[i % len(KINDS)], float(rng.choice(STRENGTHS))
        L = loadings(kind, p, k, rng)
        L *= np.sqrt(strength * detectable(n, p)) / np.linalg.norm(L, axis=0)
        if kind != "equal":
            L *= np.sqrt(np.geomspace(1.0, 3.0, k))[::-1]
        X = rng.normal(size=(n, k)) @ L.T + rng.normal(size=(n, p))
        yield Problem(f"{which}-{i:03d}", kind, X, k, strength)


def loadings(kind: str, p: int, k: int, rng: np.random.Generator) -> np.ndarray:
    """Draw loadings of a kind, p x k."""
    L = rng.laplace(size=(p, k))
    if kind == "dense":
        return rng.normal(size=(p, k))
    if kind == "overlapping":  # runs of features of one sign, half of each shared with the next
        width = max(3, 2 * p // (k + 1))
        begin = np.linspace(0, p - width, k).astype(int)
        at = np.arange(p)[:, None]
        return np.where((at >= begin) & (at < begin + width), 0.5 + rng.random((p, k)), 0.0)
    shares = {"sparse": [0.1], "equal": [0.3], "mixed": [0.1, 1.0, 0.4]}[kind]
    keep = rng.random((p, k)) < np.resize(shares, k)
    keep[np.arange(2 * k) % p, np.arange(2 * k) % k] = True  # two features each at least
    return L * keep


def detectable(n: int, p: int) -> float:
    """Return the squared length at which a component stands out from noise of variance one."""
    return float(np.sqrt(p / n))


def principal_loadings(X: np.ndarray, k: int) -> np.ndarray:
    """Return loadings of the leading principal components in the units of the data, p x k."""
    _, d, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return right[:k].T * d[:k] / np.sqrt(len(X))


def list_problems(options: argparse.Namespace) -> None:
    """Print the size and kind of every problem."""
    for which in options.sets:
        for problem in problems(which):
            n, p = problem.X.shape
            print(f"{problem.name}  {problem.kind:12} n={n:<4} p={p:<5} k={problem.k} ", end="")
            print(f"strength={problem.strength}")


# --- best and check


def elbo(X: np.ndarray, k: int, **options: Any) -> float:
    """Return the ELBO of a fit; not having converged is no reason to leave it out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return float(ebcd.EBCD(k, **options).fit(X).elbo_)


def best_of_many(problem: Problem) -> float:
    """Return the best ELBO that random rotations and named starts lead to."""
    X, k = problem.X, problem.k
    principal = principal_loadings(X, k)
    rng = np.random.default_rng(zlib.crc32(problem.name.encode()))
    rotations = (np.linalg.qr(rng.normal(size=(k, k)))[0] for _ in range(RANDOM_ROTATIONS))
    starts = [*NAMED_STARTS, *(principal @ rotation for rotation in rotations)]
    return max(elbo(X, k, start=start) for start in starts)


def find_best(options: argparse.Namespace) -> None:
    """Store the best known ELBOs."""
    known = read_best()
    for which in options.sets:
        for problem in problems(which):
            entry = known.setdefault(problem.name, {"trace": float((problem.X**2).sum())})
            if "best" in entry and not options.again:
                continue
            entry["best"] = max(entry.get("best", -np.inf), best_of_many(problem))
            write_best(known)
            print(f"{problem.name} {problem.kind:12} {entry['best']:.3f}", flush=True)


def read_best() -> dict[str, dict[str, float]]:
    """Read what is known about the problems."""
    return json.loads(BEST.read_text()) if BEST.exists() else {}


def write_best(known: dict[str, dict[str, float]]) -> None:
    """Write what is known, one line a problem."""
    lines = (f"{json.dumps(name)}: {json.dumps(known[name])}" for name in sorted(known))
    BEST.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def check_many(options: argparse.Namespace) -> None:
    """Compare default fits of many components with those from varimax and from the truth."""
    print(f"{'n':>5} {'p':>5} {'k':>3}  nats above the truth: auto, varimax; seconds (means)")
    for n, p, k, share in MANY:
        found = []
        for seed in range(options.draws):
            rng = np.random.default_rng([23, seed])
            L = 2 * rng.laplace(size=(p, k)) * (rng.random((p, k)) < share)
            X = rng.normal(size=(n, k)) @ L.T + rng.normal(size=(n, p))
            begin = time.process_time()
            auto = elbo(X, k)
            seconds = time.process_time() - begin
            truth = elbo(X, k, start=L)
            found.append((auto - truth, elbo(X, k, start="varimax") - truth, seconds))
        auto, varimax, seconds = np.mean(found, axis=0)
        least = min(row[0] for row in found)
        print(f"{n:5} {p:5} {k:3}  {auto:+.0f} (least {least:+.0f}), {varimax:+.0f}; {seconds:.2f}")


class Outcome(NamedTuple):
    """How a default fit compares with what is known."""

    problem: Problem
    elbo: float
    shortfall: float  # nats below the best known
    seconds: float
    entry: dict[str, float]


def check(options: argparse.Namespace) -> None:
    """Compare default fits with the best known ELBOs, and fits of mirrored or permuted columns."""
    known = read_best()
    elbo(np.random.default_rng(0).normal(size=(30, 10)), 2)  # imports are not what is timed
    for which in options.sets:
        outcomes = [outcome(problem, known) for problem in problems(which)]
        report(which, outcomes)
        for one in outcomes:
            if options.update_best:
                one.entry["best"] = max(one.entry["best"], one.elbo)
            if options.store_before:
                one.entry.update(before=one.elbo, before_seconds=round(one.seconds, 4))
        write_best(known)
        if which == "varied" and not options.no_symmetry:
            report_symmetry(outcomes[:SYMMETRY_PROBLEMS])


def outcome(problem: Problem, known: dict[str, dict[str, float]]) -> Outcome:
    """Fit a problem with default settings."""
    if problem.name not in known:
        raise SystemExit(f"nothing is known about {problem.name}: run `best` first")
    entry = known[problem.name]
    if not np.isclose(entry["trace"], (problem.X**2).sum(), rtol=1e-9):
        raise SystemExit(f"{problem.name} is not the problem that {BEST.name} knows")
    begin = time.process_time()
    value = elbo(problem.X, problem.k)
    seconds = time.process_time() - begin
    return Outcome(problem, value, entry["best"] - value, seconds, entry)


def report(which: str, outcomes: list[Outcome]) -> None:
    """Print how many fits are low, by kind and number of components, and the worst."""
    low = [one for one in outcomes if one.shortfall > LOW]
    before = sum(one.entry["best"] - one.entry.get("before", np.nan) > LOW for one in outcomes)
    share = len(low) / len(outcomes)
    print(
        f"\n{which}: {len(low)} of {len(outcomes)} ({share:.1%}) more than {LOW} nats below the ",
        end="",
    )
    print(f"best known; stored from before: {before}")
    if low:
        shortfalls = [one.shortfall for one in low]
        print(f"  those: median {np.median(shortfalls):.2f}, largest {max(shortfalls):.2f} nats")
    raised = [-one.shortfall for one in outcomes if one.shortfall < -LOW]
    print(f"  above the best known: {len(raised)}, largest {max(raised, default=0.0):.2f} nats")
    seconds = np.array([one.seconds for one in outcomes])
    earlier = np.array([one.entry.get("before_seconds", np.nan) for one in outcomes])
    print(f"  seconds: median {np.median(seconds):.3f}, sum {seconds.sum():.1f} ", end="")
    print(f"(before {np.median(earlier):.3f}, {earlier.sum():.1f})")
    print_counts("kind", outcomes, lambda one: one.problem.kind)
    print_counts("k", outcomes, lambda one: one.problem.k)
    print_counts("strength", outcomes, lambda one: one.problem.strength)
    for one in sorted(low, key=lambda one: -one.shortfall)[:15]:
        n, p = one.problem.X.shape
        print(
            f"  {one.problem.name} {one.problem.kind:12} n={n:<4} p={p:<5} k={one.problem.k} ",
            end="",
        )
        print(f"strength={one.problem.strength:<5} {one.shortfall:8.3f} nats")


def print_counts(head: str, outcomes: list[Outcome], group: Callable[[Outcome], Any]) -> None:
    """Print how many fits of every group are low."""
    groups: dict[Any, list[bool]] = defaultdict(list)
    for one in outcomes:
        groups[group(one)].append(one.shortfall > LOW)
    cells = (f"{name} {sum(groups[name])}/{len(groups[name])}" for name in sorted(groups))
    print(f"  low by {head}: {', '.join(cells)}")


def report_symmetry(outcomes: list[Outcome]) -> None:
    """Print how many ELBOs depend on the signs or the order of the columns."""
    changes: dict[str, list[float]] = {"mirrored": [], "permuted": []}
    for number, one in enumerate(outcomes):
        X, k = one.problem.X, one.problem.k
        rng = np.random.default_rng([7, number])
        signs = rng.choice([-1.0, 1.0], size=X.shape[1])
        changes["mirrored"].append(abs(elbo(X * signs, k) - one.elbo))
        changes["permuted"].append(abs(elbo(X[:, rng.permutation(X.shape[1])], k) - one.elbo))
    print()
    for name, values in changes.items():
        moved = [
            (f"{v:.2g}", o.problem.name) for v, o in zip(values, outcomes, strict=True) if v > SAME
        ]
        print(f"columns {name}: ELBO changes by more than {SAME:g} in {len(moved)} of ", end="")
        print(f"{len(values)}; {', '.join(f'{name} {value}' for value, name in moved)}")


# --- table

Fit = Callable[[], Any]
MOST_NUMBERS = 500  # loadings kept of a component; longer ones are hashed into that many sums


def planted(n: int, p: int, k: int, share: float, seed: int) -> np.ndarray:
    """Draw data with sparse components and noise of variance one."""
    rng = np.random.default_rng([23, seed])
    L = 2 * rng.laplace(size=(p, k)) * (rng.random((p, k)) < share) * np.linspace(1.5, 1.0, k)
    return rng.normal(size=(n, k)) @ L.T + rng.normal(size=(n, p))


def uneven(n: int, p: int, k: int) -> np.ndarray:
    """Draw data whose noise has another variance in every feature."""
    X = planted(n, p, k, 0.3, seed=90)
    return X * np.geomspace(0.5, 2.0, p)


def counts(n: int, p: int) -> scipy.sparse.csr_array:
    """Draw sparse counts with groups of rows."""
    rng = np.random.default_rng([23, 91])
    rates = 0.05 * np.exp(planted(n, p, 3, 0.1, seed=92) * 0.3)
    return scipy.sparse.csr_array(rng.poisson(rates).astype(float))


def fits_of_inputs(folder: Path) -> Iterator[tuple[str, Fit]]:
    """Yield fits to a dozen shapes and kinds of input, with names."""
    tall, wide = planted(2000, 50, 3, 0.2, seed=1), planted(60, 3000, 4, 0.03, seed=2)
    small, smaller = planted(150, 80, 3, 0.2, seed=3), planted(60, 40, 2, 0.2, seed=4)
    centred = small - small.mean(axis=0)
    S = centred.T @ centred / len(small)
    path = folder / "tall.npy"
    np.save(path, tall)
    sparse = counts(2000, 400)
    yield "dense tall 2000 x 50", lambda: ebcd.EBCD(3).fit(tall)
    yield "dense wide 60 x 3000", lambda: ebcd.EBCD(4).fit(wide)
    yield "float32 wide", lambda: ebcd.EBCD(4).fit(wide.astype(np.float32))
    yield "covariance p = 80", lambda: ebcd.EBCD(3).fit_covariance(S, len(small))
    yield "gram", lambda: ebcd.EBCD(3).fit(gram_of(tall))
    yield "chunks", lambda: ebcd.EBCD(3).fit(ebcd.Chunks(np.array_split(tall, 7)))
    yield "memory map", lambda: ebcd.EBCD(3).fit(np.load(path, mmap_mode="r"))
    yield "sparse counts 2000 x 400", lambda: ebcd.EBCD(3).fit(sparse)
    yield "scaled", lambda: ebcd.EBCD(3, scale=True).fit(small)
    yield "uncentred", lambda: ebcd.EBCD(3, center=False).fit(small)
    yield "one component", lambda: ebcd.EBCD(1).fit(small)
    yield "two components, k = 4", lambda: ebcd.EBCD(4).fit(planted(100, 60, 2, 0.2, seed=5))
    yield "automatic number", lambda: ebcd.EBCD().fit(small)
    yield "per feature 200 x 60", lambda: ebcd.EBCD(3, noise="per_feature").fit(uneven(200, 60, 3))
    for start in ("greedy", "svd", "varimax"):
        yield f"start {start}", partial(fit_with, small, start=start)
    for prior in ("point_normal", "point_exponential", "normal_scale_mixture", "unimodal", "npmle",
                  "generalized_binary", "horseshoe"):  # fmt: skip
        yield f"prior {prior}", partial(fit_with, smaller, k=2, prior=prior)
    yield "1000 x 1000, k = 10", partial(fit_with, planted(1000, 1000, 10, 0.05, seed=6), k=10)
    yield "500 x 10000, k = 5", partial(fit_with, planted(500, 10_000, 5, 0.02, seed=7), k=5)


def fit_with(X: Any, k: int = 3, **options: Any) -> Any:
    """Fit a model."""
    return ebcd.EBCD(k, **options).fit(X)


def gram_of(X: np.ndarray) -> Any:
    """Sum up the statistics of data that come in parts."""
    gram = ebcd.Gram()
    for part in np.array_split(X, 5):
        gram.update(part)
    return gram


def fits_of_simulations(folder: Path | None) -> Iterator[tuple[str, Fit]]:
    """Yield fits to the reference data sets: all in a folder, or those in the tests."""
    source = folder or ROOT / "tests" / "reference" / "sim"
    for setting, k in ((1, 2), (2, 3)):
        with np.load(source / f"sim{setting}.npz") as archive:
            if "X" in archive:
                data = dict(zip(archive["seeds"].astype(int), archive["X"], strict=True))
            else:
                keys = [key for key in archive if key.startswith("X_")]
                data = {int(key.removeprefix("X_")): archive[key].astype(float) for key in keys}
        for seed, X in data.items():
            yield f"simulation {setting}, seed {seed}", partial(fit_with, X, k, center=False)


def fits_of_sectors(path: Path | None) -> Iterator[tuple[str, Fit]]:
    """Yield fits to the covariance of stock sectors, which may not be redistributed."""
    if path is None:
        print("sectors left out: give their covariance with --sectors S.csv or EBCD_SECTORS")
        return
    S = np.genfromtxt(path, delimiter=",", skip_header=1)[:, 1:]
    for k in (3, 4, 5):
        yield f"sectors, k = {k}", lambda k=k: ebcd.EBCD(k).fit_covariance(S, 734)


def digest(components: np.ndarray) -> np.ndarray:
    """Return components as they are, or hashed into fewer numbers with random signs."""
    k, p = components.shape
    if p <= MOST_NUMBERS:
        return components.T.astype(np.float16 if abs(components).max(initial=0) > 0.01 else float)
    rng = np.random.default_rng([24, p])
    bucket, sign = rng.integers(MOST_NUMBERS, size=p), rng.choice([-1.0, 1.0], size=p)
    sums = np.zeros((MOST_NUMBERS, k))
    np.add.at(sums, bucket, (components * sign).T)
    return sums.astype(np.float16)


def table(options: argparse.Namespace) -> None:
    """Fit everything; store or compare the results."""
    rows: dict[str, dict[str, Any]] = {}
    arrays: dict[str, np.ndarray] = {}
    before = json.loads(TABLE.read_text()) if options.compare else {}
    loadings_before = np.load(LOADINGS) if options.compare else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, fit in all_fits(options, Path(folder)):
            model, seconds = timed(fit, options.repeats)
            rows[name] = {"elbo": float(model.elbo_), "k": model.n_components_, "seconds": seconds}
            arrays[name] = digest(model.components_)
            print(
                f"{name:28} {model.elbo_:16.6f}  k={model.n_components_} {seconds:8.4f} s", end=""
            )
            if name in before:
                print(
                    difference(rows[name], arrays[name], before[name], loadings_before[name]),
                    end="",
                )
            print(flush=True)
    if options.store:
        lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
        TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        np.savez_compressed(LOADINGS, **arrays)
    if before:
        summarise(rows, before)


def all_fits(options: argparse.Namespace, folder: Path) -> Iterator[tuple[str, Fit]]:
    """Yield all fits of the table."""
    yield from fits_of_inputs(folder)
    yield from fits_of_sectors(options.sectors)
    yield from fits_of_simulations(options.simulations)


def timed(fit: Fit, repeats: int) -> tuple[Any, float]:
    """Return a fitted model and the median time of fits after a first one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model, times = fit(), []
        for _ in range(repeats):
            begin = time.process_time()
            fit()
            times.append(time.process_time() - begin)
    return model, float(np.median(times))


def difference(
    row: dict[str, Any], array: np.ndarray, before: dict[str, Any], array_before: np.ndarray
) -> str:
    """Say how a result differs from the one before."""
    old, new = array_before.astype(float), array.astype(float)
    angle = component_angles(old, new).max(initial=0.0) if old.size and new.size else np.nan
    gain, ratio = row["elbo"] - before["elbo"], row["seconds"] / before["seconds"]
    return f"  ELBO {gain:+.2e}  largest angle {angle:.4f}  time x {ratio:.2f}"


def summarise(rows: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    """Print how many results changed."""
    both = [name for name in rows if name in before]
    gains = {name: rows[name]["elbo"] - before[name]["elbo"] for name in both}
    ratios = [rows[name]["seconds"] / before[name]["seconds"] for name in both]
    lower = [f"{name} ({gains[name]:.3g})" for name in both if gains[name] < -1e-3]
    higher = sum(gain > 1e-3 for gain in gains.values())
    print(f"\n{len(both)} fits: ELBO higher by more than 0.001 in {higher}, lower in {len(lower)}")
    print(f"lower: {', '.join(lower) or 'none'}; median time x {np.median(ratios):.2f}")


# --- main


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, run in {"problems": list_problems, "best": find_best, "check": check}.items():
        command = commands.add_parser(name)
        command.set_defaults(run=run)
        command.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
        if name == "best":
            command.add_argument("--again", action="store_true", help="known ones, too")
        if name == "check":
            command.add_argument("--update-best", action="store_true")
            command.add_argument("--store-before", action="store_true", help="to compare with")
            command.add_argument("--no-symmetry", action="store_true")
    command = commands.add_parser("many")
    command.set_defaults(run=check_many)
    command.add_argument("--draws", type=int, default=5)
    command = commands.add_parser("table")
    command.set_defaults(run=table)
    given = os.environ.get("EBCD_SECTORS")
    command.add_argument("--sectors", type=Path, default=given and Path(given), help="a CSV file")
    given = os.environ.get("EBCD_SIMULATIONS")
    command.add_argument(
        "--simulations", type=Path, default=given and Path(given), help="a folder with all of them"
    )
    command.add_argument("--repeats", type=int, default=3, help="fits a time is the median of")
    command.add_argument("--compare", action="store_true")
    command.add_argument("--store", action="store_true")
    options = parser.parse_args()
    with threadpool_limits(1):
        options.run(options)


if __name__ == "__main__":
    main()
