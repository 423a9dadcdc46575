"""The prior ``spatial``: denoising, time, and functional principal components.

Run from the root of the project with ``python -m benchmarks.bench_spatial``, or choose parts:
denoising, time, components. It takes about four minutes.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.linalg import subspace_angles
from sklearn.decomposition import PCA

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


def curves(p: int, seed: int, n: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Draw samples of two smooth components in noise, and the components."""
    rng, t = np.random.default_rng(seed), np.arange(p) / p
    truth = np.array([np.sin(2 * np.pi * t), 1.5 * np.exp(-0.5 * ((t - 0.6) / 0.08) ** 2)])
    return rng.normal(size=(n, 2)) @ truth + rng.normal(size=(n, p)), truth


def components(seeds: int = 10) -> None:
    """Mean sine of the principal angles between found and true subspaces."""
    print("| p | PCA | spatial | ratio, median and largest | seconds, median |")
    for p in (64, 200, 1000):
        rows = []
        for seed in range(seeds):
            X, truth = curves(p, seed)
            begin = time.perf_counter()
            model = ebcd.EBCD(2, prior="spatial", tol=0.01).fit(X)
            taken = time.perf_counter() - begin
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


PARTS = {"denoising": denoising, "time": seconds, "components": components}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
