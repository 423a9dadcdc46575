"""Draw the pictures of the guide: `python docs/figures.py`.

The other pictures in `docs/_static` are drawn by `python examples/demo.py --output docs/_static`.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

import ebcd

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from demo import save

STATIC = Path(__file__).parent / "_static"
BLUE, ORANGE, GREY = "#3b6fb6", "#d1661f", "0.35"


def simulate():
    """The data of the guide: 60 samples, 40 features, 3 components, noise of variance 2.25."""
    rng = np.random.default_rng(0)
    L = np.zeros((40, 3))
    L[:20, 0] = 1.0
    L[15:25, 1] = [1.3, -1.3] * 5
    L[32:36, 2] = 1.5
    X = rng.normal(size=(60, 3)) @ L.T + 1.5 * rng.normal(size=(60, 40))
    return X, L


def facing(loadings, truth):
    """Turn every component to the side of the true one."""
    return loadings * np.sign((loadings * truth).sum(axis=1, keepdims=True))


def draw_stems(ax, loadings, colour, interval=None):
    features = np.arange(loadings.size)
    ax.vlines(features, 0, loadings, color=colour, linewidth=1.6)
    ax.plot(features, loadings, "o", color=colour, markersize=3)
    if interval is not None:
        ax.vlines(features, *interval, color="0.2", linewidth=0.8)
    ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)


def draw_comparison(path):
    X, L = simulate()
    pca = PCA(3).fit(X)
    model = ebcd.EBCD().fit(X)
    principal = pca.components_ * np.sqrt(pca.explained_variance_)[:, None]
    found = facing(model.components_, L.T)
    intervals = model.credible_intervals() * (found / model.components_)
    columns = (
        ("the truth", L.T, None, GREY),
        ("PCA", facing(principal, L.T), None, BLUE),
        ("EBCD, 95% intervals", found, intervals, ORANGE),
    )
    figure, axes = plt.subplots(
        3, 3, figsize=(9.0, 5.0), sharex=True, sharey=True, layout="constrained"
    )
    for j, (title, loadings, ends, colour) in enumerate(columns):
        axes[0, j].set_title(title)
        axes[2, j].set_xlabel("feature")
        for k in range(3):
            draw_stems(axes[k, j], loadings[k], colour, None if ends is None else ends[:, k])
            axes[k, j].spines[["top", "right"]].set_visible(False)
    for k in range(3):
        axes[k, 0].set_ylabel(f"component {k}")
    save(figure, path, dpi=130)


def correlated_by_chance():
    """The data of the page on scores: true scores have mean square 1 and correlation 0.25."""
    rng = np.random.default_rng(0)
    L = np.zeros((30, 2))
    L[:10, 0] = 1.0
    L[12:20, 1] = 1.0
    Z = rng.normal(size=(80, 2))
    Z = np.linalg.qr(Z - Z.mean(axis=0)).Q * np.sqrt(80) @ np.array([[1, 0.25], [0, 0.9375**0.5]])
    return Z @ L.T + 1.3 * rng.normal(size=(80, 30)), L


def draw_scores(path):
    X, L = correlated_by_chance()
    figure, axes = plt.subplots(
        2, 3, figsize=(9.0, 4.2), sharex=True, sharey=True, layout="constrained"
    )
    titles = {
        "orthogonal": "orthogonal: a faint copy, too long",
        "relaxed": "relaxed",
        "integrated": "integrated",
    }
    for j, (scores, title) in enumerate(titles.items()):
        model = ebcd.EBCD(2, scores=scores).fit(X)
        found, ends = model.components_, model.credible_intervals()
        order = np.abs(found @ L).argmax(axis=0)
        axes[0, j].set_title(title, fontsize=11)
        axes[1, j].set_xlabel("feature")
        for k in range(2):
            ax = axes[k, j]
            ax.bar(np.arange(30), L[:, k], width=1.0, color="0.87", zorder=-1)
            draw_stems(ax, found[order[k]], ORANGE, np.asarray(ends)[:, order[k]])
            length = model.explained_variance_[order[k]]
            words = f"squared length {length:.1f}, truth {(L[:, k] ** 2).sum():.0f}"
            ax.text(0.98, 0.95, words, transform=ax.transAxes, ha="right", va="top", fontsize=9)
            ax.spines[["top", "right"]].set_visible(False)
            axes[k, 0].set_ylabel(f"component {k}")
    axes[0, 0].set_ylim(-0.6, 2.1)
    axes[0, 0].plot([11.6, 11.6, 19.4, 19.4], [0.7, 0.8, 0.8, 0.7], color=GREY, linewidth=1)
    axes[0, 0].text(11.6, 0.9, "copy of component 1", fontsize=9)
    save(figure, path, dpi=130)


if __name__ == "__main__":
    plt.switch_backend("agg")
    draw_comparison(STATIC / "ebcd.png")
    draw_scores(STATIC / "scores.png")
