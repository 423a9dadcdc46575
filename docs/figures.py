"""Draw the picture of the guide: `python docs/figures.py`.

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


if __name__ == "__main__":
    plt.switch_backend("agg")
    draw_comparison(STATIC / "ebcd.png")
