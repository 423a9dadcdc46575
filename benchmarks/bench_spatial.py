"""The priors ``spatial`` and ``gmrf``: denoising, time, and smooth principal components.

Run from the root of the project with ``python -m benchmarks.bench_spatial``, or choose parts:
denoising, time, components, functional, images, unequal, graphs. It takes about half an hour. Where
scikit-fda is installed, too, ``functional`` has a column with its FPCA.
"""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold

import ebcd
from ebcd.priors import make_family
from ebcd.priors._wavelets import FILTERS, Basis

PLACES = np.array([0.1, 0.13, 0.15, 0.23, 0.25, 0.40, 0.44, 0.65, 0.76, 0.78, 0.81])
WIDTHS = np.array([0.005, 0.005, 0.006, 0.01, 0.01, 0.03, 0.01, 0.01, 0.005, 0.008, 0.005])
PEAKS = np.array([4, 5, 3, 4, 5, 4.2, 2.1, 4.3, 3.1, 5.1, 4.2])
JUMPS = np.array([4, -5, 3, -4, 5, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2])


def signals(n: int) -> dict[str, np.ndarray]:
    """Test signals of Donoho and Johnstone (1994), Biometrika 81, 425-455."""
    t = np.arange(1, n + 1) / n
    away = t[:, None] - PLACES
    return {
        "bumps": (PEAKS * (1 + np.abs(away / WIDTHS)) ** -4).sum(axis=1),
        "blocks": (JUMPS * (away >= 0)).sum(axis=1),
        "doppler": np.sqrt(t * (1 - t)) * np.sin(2.1 * np.pi / (t + 0.05)),
        "heavisine": 4 * np.sin(4 * np.pi * t) - np.sign(t - 0.3) - np.sign(0.72 - t),
    }


def soft_threshold(x: np.ndarray, wavelet: str) -> np.ndarray:
    """Denoise by the universal threshold, for unit noise."""
    base = Basis(wavelet, x.size)
    coefficients = base.analyse(x)
    details = slice(0, base.levels[-1].start)
    size = np.abs(coefficients[details]) - np.sqrt(2 * np.log(x.size))
    coefficients[details] = np.sign(coefficients[details]) * np.maximum(size, 0)
    return base.synthesise(coefficients)


def denoising(seeds: int = 5) -> None:
    """Mean squared errors in units of the noise."""
    print("| signal | n | SNR | soft, best | haar | sym8 | db3 | auto |")
    for n in (512, 1000):
        for ratio in (3, 7):
            for name, signal in signals(n).items():
                truth = signal * ratio / signal.std()
                found: dict[str, list[float]] = {}
                for seed in range(seeds):
                    x = truth + np.random.default_rng(seed).normal(size=n)
                    for wavelet in ("haar", "sym8", "db3", "auto"):
                        family = make_family("spatial", wavelet=wavelet)
                        mean = ebcd.ebnm(x, 1.0, family).mean
                        found.setdefault(wavelet, []).append(np.mean((mean - truth) ** 2))
                    for wavelet in FILTERS:
                        error = np.mean((soft_threshold(x, wavelet) - truth) ** 2)
                        found.setdefault(f"soft {wavelet}", []).append(error)
                at = {key: float(np.mean(values)) for key, values in found.items()}
                soft = min(at[f"soft {wavelet}"] for wavelet in FILTERS)
                errors = [soft, *(at[key] for key in ("haar", "sym8", "db3", "auto"))]
                print(f"| {name} | {n} | {ratio} |", " | ".join(f"{e:.3f}" for e in errors), "|")


def seconds(p: int = 100_000) -> None:
    """Processor time of one column: first, again, and from a warm start."""
    rng = np.random.default_rng(0)
    x = np.repeat(3 * rng.normal(size=p // 100), 100) + rng.normal(size=p)
    result = None
    for what in ("first", "again", "warm"):
        begin = time.process_time()
        result = ebcd.ebnm(x, 1.0, "spatial", start=result if what == "warm" else None)
        print(f"{p:,} entries, {what}: {time.process_time() - begin:.2f} s")


def curves(
    p: int, seed: int, n: int = 60, kind: str = "sine, hill"
) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples of two components in noise, and the components."""
    rng, t = np.random.default_rng(seed), np.arange(p) / p
    shapes = {
        "sine": np.sin(2 * np.pi * t),
        "hill": 1.5 * np.exp(-0.5 * ((t - 0.6) / 0.08) ** 2),
        "step": np.where((t > 0.2) & (t < 0.5), 1.2, 0.0),
        "bumps": signals(p)["bumps"] / signals(p)["bumps"].std() / 1.5,
    }
    truth = np.array([shapes[name] for name in kind.split(", ")])
    return rng.normal(size=(n, 2)) @ truth + rng.normal(size=(n, p)), truth


def components(seeds: int = 20) -> None:
    """Mean sine of the principal angles between found and true subspaces."""
    print("| p | PCA | spatial | ratio, median and largest | seconds, median |")
    for p in (64, 200, 1000):
        rows = []
        for seed in range(seeds):
            X, truth = curves(p, seed)
            begin = time.process_time()
            model = ebcd.EBCD(2, prior="spatial", tol=0.01).fit(X)
            taken = time.process_time() - begin
            angles = [
                np.sin(subspace_angles(found.T, truth.T)).mean()
                for found in (PCA(2).fit(X).components_, model.components_)
            ]
            rows.append([*angles, angles[1] / angles[0], taken])
        pca, ours, ratio, taken = np.array(rows).T
        print(
            f"| {p} | {pca.mean():.3f} | {ours.mean():.3f} | {np.median(ratio):.2f}, "
            f"{ratio.max():.2f} | {np.median(taken):.1f} |",
            flush=True,
        )


def functional_pca(X: np.ndarray, k: int, periodic: bool) -> np.ndarray:
    """Find smooth components by a roughness penalty, whose strength is cross-validated.

    Silverman's (1996) functional PCA: ``v'Sv / v'(I + strength D'D)v`` is maximized, where D takes
    second differences. The best strength leaves the least of samples that were held out.
    """
    p = X.shape[1]
    D = np.roll(np.eye(p), 1, axis=0) + np.roll(np.eye(p), -1, axis=0) - 2 * np.eye(p)
    rough, directions = np.linalg.eigh(D.T @ D if periodic else D[1:-1].T @ D[1:-1])

    def components(rows: np.ndarray, strength: float) -> np.ndarray:
        half = directions / np.sqrt(1 + strength * np.maximum(rough, 0)) @ directions.T
        return np.linalg.qr(half @ np.linalg.eigh(half @ np.cov(rows.T) @ half)[1][:, -k:])[0]

    return cross_validated(components, X, np.geomspace(1e-3, 1e7, 41))


def cross_validated(components: Any, X: np.ndarray, strengths: np.ndarray) -> np.ndarray:
    """Return components of the strength that leaves the least of samples that were held out."""

    def left(strength: float) -> float:
        total = 0.0
        for train, test in KFold(5, shuffle=True, random_state=0).split(X):
            rest, V = X[test] - X[train].mean(axis=0), components(X[train], strength)
            total += float(((rest - rest @ V @ V.T) ** 2).sum())
        return total

    return components(X, min(strengths, key=left)).T


def scikit_fda(X: np.ndarray, k: int) -> np.ndarray:
    """Find smooth components by scikit-fda, with a penalty on second derivatives."""
    from skfda import FDataGrid
    from skfda.misc.operators import LinearDifferentialOperator
    from skfda.misc.regularization import L2Regularization
    from skfda.preprocessing.dim_reduction import FPCA

    def components(rows: np.ndarray, strength: float) -> np.ndarray:
        penalty = L2Regularization(LinearDifferentialOperator(2), regularization_parameter=strength)
        curves = FDataGrid(rows, np.arange(rows.shape[1]) / rows.shape[1])
        found = FPCA(n_components=k, regularization=penalty).fit(curves).components_
        return np.linalg.qr(found.data_matrix[..., 0].T)[0]

    return cross_validated(components, X, np.geomspace(1e-9, 1e-4, 21))


def functional(seeds: int = 20, p: int = 64) -> None:
    """Mean sine of the angles, beside functional PCA with a cross-validated penalty."""
    peers = {
        "PCA": lambda X: PCA(2).fit(X).components_,
        "FPCA, ends": lambda X: functional_pca(X, 2, periodic=False),
        "FPCA, circle": lambda X: functional_pca(X, 2, periodic=True),
    }
    if find_spec("skfda"):
        peers["scikit-fda"] = lambda X: scikit_fda(X, 2)
    priors = {"spatial": "spatial", "gmrf": make_family("gmrf", adjacency="chain")}
    print("| curves |", " | ".join([*peers, *priors]), "| spatial below each of the others |")
    for kind in ("sine, hill", "sine, step", "bumps, sine", "step, hill"):
        rows = []
        for seed in range(100, 100 + seeds):
            X, truth = curves(p, seed, kind=kind)
            found = [peer(X) for peer in peers.values()]
            fits = [ebcd.EBCD(2, prior=prior, tol=0.01).fit(X) for prior in priors.values()]
            found += [fit.components_ for fit in fits]
            rows.append([np.sin(subspace_angles(each.T, truth.T)).mean() for each in found])
        table = np.array(rows)
        below = (table[:, [len(peers)]] < np.delete(table, len(peers), axis=1)).sum(axis=0)
        angles = " | ".join(f"{angle:.3f}" for angle in table.mean(axis=0))
        print(f"| {kind} | {angles} | {', '.join(map(str, below))} of {seeds} |", flush=True)


def hill(side: int, row: float, column: float, width: float) -> np.ndarray:
    """Return an image of a Gaussian hill; place and width are shares of the side."""
    t = (np.arange(side) + 0.5) / side
    away = (t[:, None] - row) ** 2 + (t - column) ** 2
    return np.exp(-0.5 * away / width**2)


def square(side: int, row: float, column: float, width: float) -> np.ndarray:
    """Return an image of a square with sharp edges."""
    t = (np.arange(side) + 0.5) / side
    return np.outer(np.abs(t - row) < width, np.abs(t - column) < width).astype(float)


def images(seeds: int = 20, side: int = 16, n: int = 60) -> None:
    """Mean sine of the angles between found and true subspaces, for images in noise."""
    auto, first, second, third = (
        make_family("gmrf", adjacency=("grid", side, side), order=order)
        for order in ("auto", 1, 2, 3)
    )
    fits = {
        "gmrf": (auto, "constant"),
        "gmrf, noise per feature": (auto, "per_feature"),
        "gmrf, order 1": (first, "constant"),
        "gmrf, order 2": (second, "constant"),
        "gmrf, order 3": (third, "constant"),
        "spatial, row after row": ("spatial", "constant"),
    }
    print("| images | PCA |", " | ".join(fits), "| gmrf / PCA, median and largest | seconds |")
    for name, shape, width in (
        ("wide hills", hill, 0.3),
        ("narrow hills", hill, 0.15),
        ("squares", square, 0.2),
    ):
        pair = shape(side, 0.3, 0.3, width), shape(side, 0.7, 0.6, width)
        truth = np.array([16 * image.ravel() / np.linalg.norm(image) for image in pair]) / 2
        rows = []
        for seed in range(100, 100 + seeds):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(n, 2)) @ truth + rng.normal(size=(n, side**2))
            found, taken = [PCA(2).fit(X).components_], []
            for prior, noise in fits.values():
                begin = time.process_time()
                found.append(ebcd.EBCD(2, prior=prior, noise=noise, tol=0.01).fit(X).components_)
                taken.append(time.process_time() - begin)
            rows.append([np.sin(subspace_angles(f.T, truth.T)).mean() for f in found] + taken)
        table = np.array(rows)
        ratio = table[:, 1] / table[:, 0]
        print(
            f"| {name} |",
            " | ".join(f"{angle:.3f}" for angle in table[:, :7].mean(axis=0)),
            f"| {np.median(ratio):.2f}, {ratio.max():.2f} |",
            ", ".join(f"{seconds:.1f}" for seconds in np.median(table[:, 7:], axis=0)),
            "|",
            flush=True,
        )


def unequal(seeds: int = 100, p: int = 256) -> None:
    """Mean squared errors of curves whose noise differs tenfold, in units of the mean variance."""
    t = np.arange(p) / p
    curves = {
        "sine": 3 * np.sin(2 * np.pi * t),
        "line": 6 * (t - 0.5),
        "hill": 4 * np.exp(-0.5 * ((t - 0.6) / 0.08) ** 2),
        "heavisine": signals(p)["heavisine"],
        "blocks": signals(p)["blocks"] / 2,
    }
    fits = {
        "gmrf": make_family("gmrf", adjacency="chain"),
        "gmrf, order 1": make_family("gmrf", adjacency="chain", order=1),
        "gmrf, order 2": make_family("gmrf", adjacency="chain", order=2),
        "gmrf, order 3": make_family("gmrf", adjacency="chain", order=3),
        "gmrf on a ring": make_family("gmrf", adjacency="ring"),
        "spatial": "spatial",
    }
    print("| curve |", " | ".join(fits), "| gmrf below spatial; on a ring | seconds |")
    for name, truth in curves.items():
        rows = []
        for seed in range(100, 100 + seeds):
            rng = np.random.default_rng(seed)
            s = 10 ** rng.uniform(-0.5, 0.5, p)
            x, errors, taken = truth + s * rng.normal(size=p), [], []
            for prior in fits.values():
                begin = time.process_time()
                mean = ebcd.ebnm(x, s, prior).mean
                taken.append(time.process_time() - begin)
                errors.append(np.mean((mean - truth) ** 2) / np.mean(s**2))
            rows.append(errors + taken)
        table = np.array(rows)
        print(
            f"| {name} |",
            " | ".join(f"{error:.4f}" for error in table[:, :6].mean(axis=0)),
            f"| {(table[:, 0] < table[:, 5]).sum()}; {(table[:, 4] < table[:, 5]).sum()} |",
            ", ".join(f"{seconds:.3f}" for seconds in np.median(table[:, 6:], axis=0)),
            "|",
            flush=True,
        )


def graphs() -> None:
    """Processor time of one column on chains, grids and a graph, equal noise and unequal."""
    rng = np.random.default_rng(0)
    places = rng.random((1_000, 2))
    near = (((places[:, None] - places) ** 2).sum(axis=-1) < 0.003).astype(float)
    print("| neighbors | equal noise: first, again | unequal noise: first, again |")
    for name, adjacency, truth in (
        ("chain of 10,000", "chain", np.sin(np.arange(10_000) / 1_000)),
        ("chain of 100,000", "chain", np.sin(np.arange(100_000) / 10_000)),
        ("grid of 16 x 16", ("grid", 16, 16), hill(16, 0.4, 0.4, 0.2).ravel()),
        ("grid of 64 x 64", ("grid", 64, 64), hill(64, 0.4, 0.4, 0.2).ravel()),
        ("graph of 1,000 nodes", near, np.sin(6 * places[:, 0])),
    ):
        family, cells = make_family("gmrf", adjacency=adjacency), []
        for s in (np.ones(truth.size), rng.uniform(0.3, 3.0, truth.size)):
            x = 3 * truth + s * rng.normal(size=truth.size)
            for _ in range(2):
                begin = time.process_time()
                ebcd.ebnm(x, s, family)
                cells.append(time.process_time() - begin)
        print(f"| {name} | {cells[0]:.3f}, {cells[1]:.3f} | {cells[2]:.3f}, {cells[3]:.3f} |")


PARTS = {
    "denoising": denoising,
    "time": seconds,
    "components": components,
    "functional": functional,
    "images": images,
    "unequal": unequal,
    "graphs": graphs,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
