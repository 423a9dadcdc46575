"""The figures: box plots, shrinkage operators and penalties, sectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from experiments.shrinkage import GROUPS, curves
from experiments.simulations import MEASURES
from experiments.tables import LABELS

BLUE, ORANGE, GREY = "#3b6fb6", "#d1661f", "0.6"
TITLES = {
    "d1": "angle $d_1$",
    "d2": "angle $d_2$",
    "d3": "angle $d_3$",
    "d_or": "subspace $d_{or}$",
    "d_cov": "covariance $d_{cov}$",
}
SHOWN_IN_SECTORS = ("PCA", "SPC (CV)", "L1, data-driven grid", "EBCD-l", "EBCD-pl")


def save(figure: Figure, path: Path) -> None:
    """Write a picture under a temporary name, then rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part.png")
    figure.savefig(temporary, dpi=80)  # documents are to stay small
    plt.close(figure)
    temporary.replace(path)


def draw_boxes(rows: list[dict[str, Any]], path: Path) -> None:
    """Box plots of every measure: one row of panels per simulation, one box per method."""
    figure, axes = plt.subplots(2, 5, figsize=(13.0, 8.0), layout="constrained")
    for line, setting in zip(axes, MEASURES, strict=True):
        here = [row for row in rows if row["setting"] == setting]
        names = [name for name in LABELS if any(row["method"] == name for row in here)]
        for panel in line[len(MEASURES[setting]) :]:
            panel.set_axis_off()
        for column, measure in enumerate(MEASURES[setting]):
            values = [[r[measure] for r in here if r["method"] == name] for name in names]
            _boxes(line[column], values, names)
            line[column].set_title(TITLES[measure])
            if column == 0:
                line[0].set_yticks(range(1, len(names) + 1), [LABELS[name] for name in names])
                line[0].set_ylabel(f"Simulation {setting}", fontsize=12)
            else:
                line[column].set_yticks([])
    save(figure, path)


def _boxes(panel: Any, values: list[list[float]], names: list[str]) -> None:
    drawn = panel.boxplot(values, orientation="horizontal", widths=0.65, patch_artist=True)
    for name, box, median in zip(names, drawn["boxes"], drawn["medians"], strict=True):
        box.set(facecolor=ORANGE if name.startswith("ebcd") else "0.85", alpha=0.8)
        median.set_color("black")
    for fliers in drawn["fliers"]:
        fliers.set(markersize=2.5, markeredgecolor="0.4")
    panel.invert_yaxis()
    panel.spines[["top", "right"]].set_visible(False)


def draw_shrinkage(path: Path) -> None:
    """Operators above, the penalties they induce below."""
    figure, axes = plt.subplots(2, 2, figsize=(10.0, 7.5), layout="constrained")
    for column, (group, priors) in zip(axes.T, GROUPS.items(), strict=True):
        above, below = column
        colours = plt.get_cmap("viridis")(np.linspace(0.0, 0.9, len(priors)))
        above.plot([-8, 8], [-8, 8], color="0.8", linewidth=0.8)
        for (label, prior), colour in zip(priors, colours, strict=True):
            drawn = curves(prior)
            above.plot(drawn["x"], drawn["shrunk"], color=colour, label=label)
            below.plot(drawn["l"], drawn["penalty"], color=colour, label=label)
        above.set(title=group, xlabel="observation", ylabel="posterior mean")
        below.set(xlabel="loading", ylabel="induced penalty, nats", xlim=(-8, 8))
        above.legend(frameon=False, fontsize=9)
        for panel in column:
            panel.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def _unit(loadings: list[list[float]]) -> np.ndarray:
    matrix = np.array(loadings)
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return matrix / np.where(lengths > 0, lengths, 1.0)


def draw_loadings(sectors: dict[str, Any], path: Path) -> None:
    """Draw loadings of three components, of unit length, one column of panels per method."""
    names = sectors["names"]
    figure, axes = plt.subplots(
        1, len(SHOWN_IN_SECTORS), figsize=(13.0, 5.0), sharey=True, layout="constrained"
    )
    places = np.arange(len(names))
    reference = _unit(sectors["methods"]["PCA"]["loadings"])
    for panel, method in zip(axes, SHOWN_IN_SECTORS, strict=True):
        loadings = facing(_unit(sectors["methods"][method]["loadings"]), reference)
        for k, colour in enumerate((GREY, BLUE, ORANGE)):
            panel.barh(
                places + 0.27 * (k - 1), loadings[k], 0.27, color=colour, label=f"PC {k + 1}"
            )
        panel.axvline(0, color="0.3", linewidth=0.8)
        panel.set(title=method, xlabel="loading")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(places, names)
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, ncols=3, loc="outside lower right")
    save(figure, path)


def facing(loadings: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Turn every component to the side of the reference's."""
    return loadings * np.where((loadings * reference).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)


def _sides(place: np.ndarray) -> np.ndarray:
    """Whether a label goes above (1) or below (-1): below where a neighbor is close above."""
    span = np.ptp(place, axis=0)
    apart = (place[None] - place[:, None]) / span
    close = (np.abs(apart[..., 0]) < 0.15) & (np.abs(apart[..., 1]) < 0.09) & (apart[..., 1] > 0)
    return np.where(close.any(axis=1), -1, 1)


def draw_plane(sectors: dict[str, Any], path: Path) -> None:
    """Sectors in the SMB-HML plane, colored by their loadings on components 2 and 3."""
    place = np.array(sectors["positions"])
    figure, axes = plt.subplots(
        2, 2, figsize=(10.5, 8.5), sharex=True, sharey=True, layout="constrained"
    )
    reference = _unit(sectors["methods"]["PCA"]["loadings"])
    for line, method in zip(axes, ("PCA", "EBCD-pl"), strict=True):
        loadings = facing(_unit(sectors["methods"][method]["loadings"]), reference)
        for panel, k in zip(line, (1, 2), strict=True):
            dots = panel.scatter(
                *place.T, c=loadings[k], cmap="RdBu", vmin=-0.8, vmax=0.8, s=90, edgecolors="0.3"
            )
            for (x, y), name, side in zip(place, sectors["names"], _sides(place), strict=True):
                panel.annotate(
                    name,
                    (x, y),
                    xytext=(0, 7 * side),
                    textcoords="offset points",
                    ha="center",
                    va="bottom" if side > 0 else "top",
                    fontsize=8,
                )
            panel.axhline(0, color="0.85", linewidth=0.8, zorder=0)
            panel.axvline(0, color="0.85", linewidth=0.8, zorder=0)
            panel.set_title(f"{method}, component {k + 1}")
            panel.margins(0.14)
    for panel in axes[1]:
        panel.set_xlabel("coefficient of SMB")
    for panel in axes[:, 0]:
        panel.set_ylabel("coefficient of HML")
    figure.colorbar(dots, ax=axes, shrink=0.6, label="loading (unit length)")
    save(figure, path)
