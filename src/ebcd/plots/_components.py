"""Loadings as bars, with credible intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd._parameters import COUNT, PROBABILITY
from ebcd.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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

    Bars are sorted from the most positive to the most negative; grey ones have no clear sign.
    Loadings that are exactly zero are omitted. Methods without uncertainties (penalised PCA and
    most peers) have neither intervals nor grey bars.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    component : int, sequence of int or None, default None
        The component to draw; several, one per panel; or None for all.
    n : int, default 20
        Largest number of features in a panel.
    level : float, default 0.05
        Local false sign rate above which a bar is grey.
    probability : float, default 0.95
        Posterior probability of the intervals.
    feature_names : array-like of length p, optional
        Names of the features; by default those seen in `fit`, or x0, x1 and so on.
    ax : Axes or array of Axes, optional
        Where to draw: one for each component.

    Returns
    -------
    Axes, or ndarray of Axes
        Axes if `component` is a number, otherwise a one-dimensional array.

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
    style.check_model(model)
    COUNT.check("n", n)
    PROBABILITY.check("probability", probability)
    names = model._feature_names(feature_names)
    several = component is None or bool(np.ndim(component))
    which = style.checked_components(model, component if several else [component])
    chosen = [_largest(model.components_[k], n) for k in which]
    height = 1.1 + 0.23 * max([6, *(features.size for features in chosen)])
    width = 3.3 + 0.09 * style.longest(names[j] for features in chosen for j in features)
    if several:
        axes: Any = style.row_of_panels(ax, max(len(which), 1), width, height)
    else:
        axes = style.one_axes(ax, width, height)
    if not which:
        style.say_nothing_found(axes[0], model)
    for k, features, panel in zip(which, chosen, np.ravel(axes), strict=False):
        if hasattr(model, "lfsr_"):
            ends = model._intervals(k, features, probability)
            panel.hlines(range(features.size), *ends, color=style.INK, linewidth=1.2)
        draw_bars(panel, model.components_[k], features, unclear(model, k, level))
        style.name_features(panel, names, features)
        panel.set_ylim(features.size - 0.4, -0.6)
        panel.set_title(style.share(model, k), fontsize="medium")
        panel.set_xlabel(_caption(model, k, features, n, level, probability), fontsize="small")
    return axes


def _largest(loadings: Array, n: int) -> NDArray[np.intp]:
    """Return the features with the largest non-zero loadings, the most positive first."""
    largest = np.argsort(-np.abs(loadings), kind="stable")[: min(n, np.count_nonzero(loadings))]
    return largest[np.argsort(-loadings[largest], kind="stable")]


def _caption(
    model: Any, k: int, features: NDArray[np.intp], n: int, level: float, probability: float
) -> str:
    notes = []
    if features.size < model.n_features_in_:
        kind = "largest" if features.size == n else "not zero"
        notes.append(f"{features.size:,} {kind} of {model.n_features_in_:,}")
    if hasattr(model, "lfsr_"):
        notes.append(f"{100 * probability:g}% credible intervals")
    if unclear(model, k, level)[features].any():
        notes.append(f"grey: lfsr > {level:g}")
    return "loading" + (f"\n({'; '.join(notes)})" if notes else "")


def unclear(model: Any, k: int, level: float) -> NDArray[np.bool_]:
    """Mark the loadings of a component whose sign is not clear; none without uncertainties."""
    if hasattr(model, "lfsr_"):
        return np.asarray(model.lfsr_[k] > level)
    return np.zeros(model.n_features_in_, dtype=bool)


def draw_bars(
    ax: Axes, loadings: Array, features: NDArray[np.intp], grey: NDArray[np.bool_]
) -> None:
    """Draw a bar for each of the features, coloured by sign."""
    lengths = loadings[features]
    colours = np.where(lengths > 0, style.POSITIVE, style.NEGATIVE)
    colours = np.where(grey[features], style.GREY, colours)
    ax.barh(np.arange(features.size), lengths, color=colours, height=0.72)
    tidy_bars(ax)


def tidy_bars(ax: Axes) -> None:
    """Draw the line at zero, and remove what bars do not need."""
    ax.axvline(0, color=style.INK, linewidth=0.8)
    style.few_ticks(ax)
    style.tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
