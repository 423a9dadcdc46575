"""All loadings at a glance."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from ebcd.plots._style import check_model, figure_of, nothing, one_axes, say, short

_LABELLED = 60  # features that can have their names beside them
_ROWS = 400  # more cannot be told apart
_COLUMNS = 12  # components that can have their shares below them


def heatmap(
    model: Any,
    *,
    sort: bool = True,
    level: float = 0.05,
    feature_names: Any = None,
    ax: Any = None,
) -> Axes:
    """Draw the loadings of all components as a heat map, one feature a row.

    Up to 60 features are all drawn, with their names. Of more, those are drawn that some component
    uses (local false sign rate at most `level`, or not zero where a method has none). If these are
    more than 400, neighbours share a row, which has the largest of their loadings.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    sort : bool, default True
        Whether to sort the features by the component in which they are largest, and by their
        loading there. Otherwise they are in the order of the data.
    level : float, default 0.05
        Local false sign rate up to which a feature counts as used, if there are more than 60.
    feature_names : array-like of length p, optional
        Names of the features; by default those of the data, or x0, x1 and so on.
    ax : Axes, optional
        Where to draw.

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
    check_model(model)
    names = model._feature_names(feature_names)
    rows = _rows(model, sort, level)
    labelled = model.n_features_in_ <= _LABELLED
    height = 1.2 + 0.22 * rows.size if labelled else 6.0
    axes = one_axes(
        ax, 2.6 + 0.45 * min(model.n_components_, 20) + 1.4 * labelled, max(height, 3.0)
    )
    if model.n_components_ == 0 or rows.size == 0:
        say(
            axes,
            nothing(model) if model.n_components_ == 0 else f"no loading with lfsr <= {level:g}",
        )
        return axes
    image, together = _strongest(model.components_.T[rows])
    limit = _limit(image, labelled)
    drawn = axes.imshow(
        image, aspect="auto", cmap="RdBu", vmin=-limit, vmax=limit, interpolation="nearest"
    )
    extend = "neither" if labelled else "both"
    figure_of(axes).colorbar(drawn, ax=axes, label="loading", extend=extend, shrink=0.8)
    if labelled:
        axes.set_yticks(range(rows.size), [short(names[j]) for j in rows], parse_math=False)
    else:
        axes.set_yticks([])
        axes.set_ylabel(_which_features(model, rows.size, together, level, sort))
    _label_components(axes, model)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes


def _rows(model: Any, sort: bool, level: float) -> NDArray[np.intp]:
    """Give the features to draw, in their order."""
    loadings = np.abs(model.components_)
    rows = np.arange(model.n_features_in_)
    if model.n_components_ == 0:
        return rows[:0]
    if rows.size > _LABELLED:
        used = model.lfsr_ <= level if hasattr(model, "lfsr_") else loadings > 0
        rows = rows[used.any(axis=0)]
    if sort:
        home = (loadings[:, rows]).argmax(axis=0)
        rows = rows[np.lexsort((-model.components_[home, rows], home))]
    return rows


def _strongest(loadings: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
    """Merge neighbouring rows by their largest entries, so that no entry is lost."""
    together = -(-len(loadings) // _ROWS)
    if together == 1:
        return loadings, 1
    missing = -len(loadings) % together
    padded = np.vstack([loadings, np.zeros((missing, loadings.shape[1]))])
    blocks = padded.reshape(-1, together, loadings.shape[1])
    largest = np.abs(blocks).argmax(axis=1, keepdims=True)
    return np.take_along_axis(blocks, largest, axis=1)[:, 0], together


def _limit(image: NDArray[np.float64], labelled: bool) -> float:
    """End of the colours; of many features a few may lie beyond it."""
    sizes = np.abs(image[image != 0])
    return float(sizes.max() if labelled else np.quantile(sizes, 0.98))


def _which_features(model: Any, count: int, together: int, level: float, sort: bool) -> str:
    kind = f"with lfsr ≤ {level:g}" if hasattr(model, "lfsr_") else "with loadings"
    text = f"{count:,} of {model.n_features_in_:,} features ({kind})"
    if sort:
        text += ", sorted"
    return text + (f"\n{together} a row, the strongest shown" if together > 1 else "")


def _label_components(ax: Axes, model: Any) -> None:
    count = model.n_components_
    ax.set_xlabel("component")
    if count <= _COLUMNS:
        shares = 100 * model.explained_variance_ratio_
        ax.set_xticks(range(count), [f"{k}\n{shares[k]:.3g}%" for k in range(count)])
        ax.tick_params(axis="x", labelsize="small")
    else:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
