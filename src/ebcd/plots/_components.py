"""Loadings as bars, with credible intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ebcd.plots._style import (
    INK,
    NEGATIVE,
    POSITIVE,
    UNSURE,
    check_components,
    check_count,
    check_model,
    check_share,
    few_ticks,
    longest,
    nothing,
    one_axes,
    row_of_panels,
    say,
    share,
    short,
    tidy,
)


def components(
    model: Any,
    component: Any = None,
    *,
    n: int = 20,
    level: float = 0.05,
    probability: float = 0.95,
    feature_names: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the largest loadings of components as bars, with credible intervals.

    Bars are sorted from the most positive to the most negative. Grey ones are those whose sign is
    in doubt. Loadings that are exactly zero are left out. Methods without uncertainties (penalised
    PCA and most peers) have neither intervals nor grey bars.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    component : int, sequence of int or None, default None
        Which component to draw; several, one a panel; or all.
    n : int, default 20
        Largest number of features in a panel.
    level : float, default 0.05
        Local false sign rate above which a bar is grey.
    probability : float, default 0.95
        Posterior probability of the intervals.
    feature_names : array-like of length p, optional
        Names of the features; by default those of the data, or x0, x1 and so on.
    ax : Axes or array of Axes, optional
        Where to draw: one for each component.

    Returns
    -------
    Axes, or ndarray of Axes
        Axes if `component` is a number, else a one-dimensional array.

    Examples
    --------
    >>> import ebcd
    >>> import numpy as np
    >>> jobs = ebcd.datasets.load_us_employment()
    >>> growth = np.diff(np.log(jobs.data), axis=0)
    >>> model = ebcd.EBCD(3, scale=True).fit(growth)
    >>> axes = ebcd.plots.components(model, feature_names=jobs.feature_names)
    >>> len(axes)
    3
    """
    check_model(model)
    check_count("n", n)
    check_share("probability", probability)
    names = model._feature_names(feature_names)
    several = component is None or bool(np.ndim(component))
    wanted = range(model.n_components_) if component is None else component
    which = check_components(model, wanted if several else [component])
    chosen = {k: _chosen(model.components_[k], n) for k in which}
    rows = max((features.size for features in chosen.values()), default=0)
    height = 1.1 + 0.23 * max(rows, 6)
    width = 3.3 + 0.09 * longest(names[j] for features in chosen.values() for j in features)
    count = max(len(which), 1)
    size = width, height
    axes: Any = row_of_panels(ax, count, *size) if several else one_axes(ax, *size)
    if not which:
        say(axes[0], nothing(model))
    for k, panel in zip(which, np.ravel(axes), strict=False):
        _draw(panel, model, k, chosen[k], level, probability, names)
        _caption(panel, model, k, chosen[k], n, level, probability)
    return axes


def _chosen(loadings: NDArray[np.float64], n: int) -> NDArray[np.intp]:
    """Give the largest loadings that are not zero, the most positive first."""
    largest = np.argsort(-np.abs(loadings), kind="stable")[: min(n, np.count_nonzero(loadings))]
    return largest[np.argsort(-loadings[largest], kind="stable")]


def _draw(
    ax: Axes,
    model: Any,
    k: int,
    which: NDArray[np.intp],
    level: float,
    probability: float,
    names: Any,
) -> None:
    loadings, places = model.components_[k, which], np.arange(which.size)
    ax.barh(places, loadings, color=bar_colours(model, k, which, level, loadings), height=0.72)
    if hasattr(model, "lfsr_"):
        ax.hlines(places, *model._intervals(k, which, probability), color=INK, linewidth=1.2)
    ax.axvline(0, color=INK, linewidth=0.8)
    ax.set_yticks(places, [short(names[j]) for j in which], parse_math=False)
    ax.set_ylim(which.size - 0.4, -0.6)
    few_ticks(ax)
    tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def _caption(
    ax: Axes,
    model: Any,
    k: int,
    which: NDArray[np.intp],
    n: int,
    level: float,
    probability: float,
) -> None:
    """Say what is drawn below it, where nothing is in the way."""
    notes = []
    if which.size < model.n_features_in_:
        kind = "largest" if which.size == n else "not zero"
        notes.append(f"{which.size:,} {kind} of {model.n_features_in_:,}")
    if hasattr(model, "lfsr_"):
        notes.append(f"{100 * probability:g}% credible intervals")
        if (model.lfsr_[k, which] > level).any():
            notes.append(f"grey: lfsr > {level:g}")
    ax.set_title(share(model, k), fontsize="medium")
    ax.set_xlabel("loading" + (f"\n({'; '.join(notes)})" if notes else ""), fontsize="small")


def bar_colours(
    model: Any, k: int, which: NDArray[np.intp], level: float, signed: NDArray[np.float64]
) -> NDArray[np.str_]:
    """Colours by sign, grey where it is in doubt."""
    colours = np.where(signed > 0, POSITIVE, NEGATIVE)
    if hasattr(model, "lfsr_"):
        colours = np.where(model.lfsr_[k, which] > level, UNSURE, colours)
    return colours
