"""All loadings at a glance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELLED = 60  # features up to which each has its name beside it


def heatmap(
    model: Any,
    *,
    sort: bool = True,
    level: float = 0.05,
    feature_names: Any = None,
    ax: Any = None,
) -> Axes:
    """Draw the loadings of all components as a heat map, one feature per row.

    Up to 60 features are all drawn, with their names. Of more, only those used by some component
    are drawn (local false sign rate at most `level`, or not zero where a method has no such rate).
    If they outnumber the pixels, neighbours share a row, which shows the largest of their loadings.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    sort : bool, default True
        Whether to sort the features by the component in which they are largest, and by their
        loading there. Otherwise they keep the order of the data.
    level : float, default 0.05
        Local false sign rate up to which a feature counts as used, if there are more than 60.
    feature_names : array-like of length p, optional
        Names of the features; by default those seen in `fit`, or x0, x1 and so on.
    ax : Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2).fit(sea.data)
    >>> ax = ebcd.plots.heatmap(model, feature_names=sea.feature_names, sort=False)
    >>> [label.get_text() for label in ax.get_yticklabels()][:3]
    ['Jan', 'Feb', 'Mar']
    """
    style.check_model(model)
    names = model._feature_names(feature_names)
    rows = _rows(model, sort, level)
    labelled = model.n_features_in_ <= _LABELLED
    width = 2.6 + 0.45 * min(model.n_components_, 20) + 1.4 * labelled
    axes = style.one_axes(ax, width, max(1.2 + 0.22 * rows.size, 3.0) if labelled else 6.0)
    if model.n_components_ == 0:
        style.say_nothing_found(axes, model)
        return axes
    if rows.size == 0:
        style.say(axes, f"no loading with lfsr <= {level:g}")
        return axes
    image, together = _strongest(model.components_.T[rows], axes.get_window_extent().height)
    limit = _limit(image, labelled)
    colours: dict[str, Any] = {"cmap": "RdBu", "vmin": -limit, "vmax": limit}
    drawn = axes.imshow(image, aspect="auto", interpolation="nearest", **colours)
    extend = "neither" if labelled else "both"
    axes.figure.colorbar(drawn, ax=axes, label="loading", extend=extend, shrink=0.8)
    if labelled:
        style.name_features(axes, names, rows)
    else:
        axes.set_yticks([])
        axes.set_ylabel(_which_features(model, rows.size, together, level, sort))
    _label_components(axes, model)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def _rows(model: Any, sort: bool, level: float) -> NDArray[np.intp]:
    """Return the features to draw, in order."""
    rows = np.arange(model.n_features_in_)
    if model.n_components_ == 0:
        return rows[:0]
    if rows.size > _LABELLED:
        used = model.lfsr_ <= level if hasattr(model, "lfsr_") else model.components_ != 0
        rows = rows[used.any(axis=0)]
    if sort:
        home = np.abs(model.components_[:, rows]).argmax(axis=0)
        rows = rows[np.lexsort((-model.components_[home, rows], home))]
    return rows


def _strongest(loadings: Array, pixels: float) -> tuple[Array, int]:
    """Merge neighbouring rows by their largest entries, so that none of these is lost."""
    together = -(-len(loadings) // max(int(pixels), 1))
    padded = np.pad(loadings, ((0, -len(loadings) % together), (0, 0)))
    blocks = padded.reshape(-1, together, loadings.shape[1])
    largest = np.abs(blocks).argmax(axis=1, keepdims=True)
    return np.take_along_axis(blocks, largest, axis=1)[:, 0], together


def _limit(image: Array, labelled: bool) -> float:
    """Return the limit of the colour scale, which a few loadings of many features may exceed."""
    sizes = np.abs(image[image != 0])
    return float(sizes.max() if labelled else np.quantile(sizes, 0.98))


def _which_features(model: Any, count: int, together: int, level: float, sort: bool) -> str:
    kind = f"with lfsr ≤ {level:g}" if hasattr(model, "lfsr_") else "with loadings"
    text = f"{count:,} of {model.n_features_in_:,} features ({kind})"
    if sort:
        text += ", sorted"
    return text + (f"\n{together} per row, the strongest shown" if together > 1 else "")


def _label_components(ax: Axes, model: Any) -> None:
    count = model.n_components_
    ax.set_xlabel("component")
    if count <= style.LABELLED:
        shares = 100 * model.explained_variance_ratio_
        ax.set_xticks(range(count), [f"{k}\n{shares[k]:.3g}%" for k in range(count)])
        ax.tick_params(axis="x", labelsize="small")
    else:
        style.locate_ticks(ax, integer=True)
