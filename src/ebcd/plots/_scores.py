"""Scores of samples, against each other or over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd._parameters import COUNT
from ebcd.data.files._columns import cell_text
from ebcd.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = ("o", "s", "^")
_CATEGORIES = len(style.PALETTE) * len(_MARKERS)


def scores(
    model: Any,
    X: Any,
    components: Any = (0, 1),
    *,
    index: Any = None,
    color: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the scores of samples: two components against each other, or any number over time.

    Two components are drawn against each other, unless `index` is given or `X` is a data frame
    whose index holds dates. Otherwise each component has its own panel: a line over the index, or
    points in the order of the samples.

    Parameters
    ----------
    model : estimator
    X : array-like, sparse matrix or data frame of shape (n, p)
        The data, one sample per row.
    components : int or sequence of int, default (0, 1)
        Components to draw.
    index : array-like of length n, optional
        Dates (or text such as "2006-01") or numbers for the horizontal axis of lines.
    color : array-like of length n, optional
        A number or category for each sample, by which points are colored.
    ax : Axes or array of Axes, optional
        Axes to draw on: one for two components against each other, otherwise one per component.

    Returns
    -------
    Axes, or ndarray of Axes
        Axes for two components against each other and if `components` is a number, otherwise a
        one-dimensional array.

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2).fit(sea.data)
    >>> ax = ebcd.plots.scores(model, sea.data)
    >>> axes = ebcd.plots.scores(model, sea.data, index=sea.years)
    >>> len(axes)
    2
    """
    style.check_model(model)
    several = bool(np.ndim(components))
    wanted = list(components) if several else [components]
    if several and wanted == [0, 1]:  # the default must not fail where there are fewer
        wanted = wanted[: model.n_components_]
    which = style.checked_components(model, wanted)
    if not which:
        return np.array([style.say_nothing_found(style.one_axes(ax), model)])
    values = _scores(model, X)[:, which]
    index = _dates_of(X) if index is None else _as_index(index, len(values))
    if index is None and len(which) == 2:
        return _scatter(style.one_axes(ax, 6.0, 4.6), model, which, values, color)
    if color is not None:
        raise ValueError("color needs two components plotted against each other, without an index")
    height = 1.2 + 1.1 * min(2.0, 4 / len(which))
    axes = style.panels(ax, (len(which), 1), 7.0, height, sharex=True).ravel()
    _lines(axes, model, which, values, index)
    return axes if several else axes[0]


def biplot(
    model: Any,
    X: Any,
    components: Any = (0, 1),
    *,
    color_by: Any = None,
    labels: Any = None,
    n: int = 10,
    feature_names: Any = None,
    ax: Any = None,
) -> Axes:
    """Draw the scores of two components as points, and the loadings of features as arrows.

    A sample lies far in the direction of an arrow if its value of that feature is large, as far as
    these components explain it. Arrows have their own scale, chosen to fit the picture.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package, with at least two components.
    X : array-like, sparse matrix or data frame of shape (n, p)
        The data, one sample per row.
    components : pair of int, default (0, 1)
        Components across and up.
    color_by : array-like of length n, optional
        A number or category for each sample, by which points are colored; for example a column
        of a data frame that was not fitted.
    labels : array-like of length n, optional
        Names of the samples; the 60 outermost are written beside their points if there is room.
    n : int, default 10
        Maximum number of arrows: the features with the largest loadings of the two. With
        ``scale=True`` these are loadings of the scaled data. There is room for about 20 names.
    feature_names : array-like of length p, optional
    ax : Axes, optional

    Examples
    --------
    >>> import ebcd
    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine()
    >>> model = ebcd.EBCD(3, scale=True).fit(wine.data)
    >>> kinds = wine.target_names[wine.target]
    >>> ax = ebcd.plots.biplot(
    ...     model, wine.data, color_by=kinds, feature_names=wine.feature_names
    ... )
    >>> len(ax.get_legend().get_texts())
    3
    """
    style.check_model(model)
    COUNT.check("n", n)
    which = style.checked_components(model, components)
    if len(which) != 2:
        raise ValueError(f"components must be two, across and up, got {len(which)}")
    names = model._feature_names(feature_names)
    values = _scores(model, X)[:, which]
    axes = _scatter(style.one_axes(ax, 7.0, 5.4), model, which, values, color_by, "color_by")
    arrows = style.loadings(model)[which].T
    size = np.linalg.norm(arrows, axis=1)
    longest = np.argsort(-size, kind="stable")[: min(n, np.count_nonzero(size))]
    most = np.abs(arrows).max(axis=0, initial=1e-300)
    ends = arrows[longest] * np.min(0.85 * np.abs(values).max(axis=0, initial=0.0) / most)
    _draw_arrows(axes, ends)
    room = style.Room(axes)
    _name_arrows(axes, room, ends, [style.short(names[j]) for j in longest])
    if labels is not None:
        _label(room, values, labels)
    return axes


def _draw_arrows(ax: Axes, ends: Array) -> None:
    ax.margins(x=0.2, y=0.12)  # for the names
    ax.update_datalim(ends)
    ax.autoscale_view()
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": style.INK, "shrinkA": 0, "shrinkB": 0}
    for end in ends:
        ax.annotate("", tuple(end), (0, 0), arrowprops=arrow)


def _name_arrows(ax: Axes, room: style.Room, ends: Array, names: list[str]) -> None:
    """Write names beside the tips of arrows, above or below where others are in the way."""
    from matplotlib.path import Path

    pale = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.7}
    tips = ax.transData.transform(ends)
    arrows = [Path([ax.transData.transform((0.0, 0.0)), tip]) for tip in tips]
    steps = np.arange(1, 240) // 2 * np.resize([0.5, -0.5], 239)  # quarters of a line, up and down
    right = np.column_stack([np.full(steps.size, 1.1), steps])
    for end, tip, name in zip(ends, tips, names, strict=True):
        beside = right * (1 if end[0] >= 0 else -1)
        box = room.write(name, end, beside, arrows, fontsize="small", bbox=pale)
        if box is not None and abs(tip[1] - (box.y0 + box.y1) / 2) > box.height:
            near = ax.transData.inverted().transform(np.clip(tip, box.min, box.max))
            line = np.array([end, near]).T
            ax.plot(*line, color=style.GRAY, linewidth=0.8, scalex=False, scaley=False, zorder=1)


def _label(room: style.Room, values: Array, labels: Any) -> None:
    """Write names beside the outermost points, as far as there is room."""
    texts = _one_per_sample("labels", labels, len(values))
    around = np.array([(1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1)])
    for i in np.argsort(-(values**2).sum(axis=1), kind="stable")[: style.NAMED]:
        room.write(style.short(texts[i]), values[i], 1.2 * around, fontsize="x-small")


def _one_per_sample(name: str, values: Any, count: int) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != (count,):
        raise ValueError(f"{name} must have {count} entries, one per sample, got {array.shape}")
    return array


def _scores(model: Any, X: Any) -> Array:
    """Compute scores as an array, even if the model is set to return data frames."""
    found = model.transform(X)
    return np.asarray(found.to_numpy() if hasattr(found, "to_numpy") else found)


def _dates_of(X: Any) -> NDArray[Any] | None:
    """Return the index of a data frame if it holds dates."""
    index = _as_timestamps(getattr(X, "index", None))
    kind = getattr(getattr(index, "dtype", None), "kind", "")
    return np.asarray(index) if kind == "M" and np.ndim(index) == 1 else None


def _as_timestamps(index: Any) -> Any:
    """Turn the periods of pandas, such as quarters, into dates."""
    return index.to_timestamp() if hasattr(index, "to_timestamp") else index


def _as_index(index: Any, count: int) -> NDArray[Any]:
    values = np.asarray(_as_timestamps(index))
    if values.dtype.kind in "OUT":
        try:
            values = values.astype("datetime64[us]")
        except (TypeError, ValueError):
            raise ValueError(
                f"index must contain dates, such as 2006-01, or numbers, got {values.ravel()[0]!r}"
            ) from None
    _one_per_sample("index", values, count)
    if values.dtype.kind not in "Miuf":
        raise TypeError(f"index must contain dates or numbers, got {values.dtype}")
    return values


def _lines(axes: NDArray[Any], model: Any, which: list[int], values: Array, index: Any) -> None:
    at = np.arange(len(values)) if index is None else index
    # without an index, the order of samples need not mean anything
    look = {"ls": "", "marker": ".", "ms": 4} if index is None else {"lw": 1.2}
    order = np.argsort(at, kind="stable")
    for ax, k, column in zip(axes, which, values.T, strict=True):
        ax.axhline(0, color=style.GRAY, linewidth=0.8)
        ax.plot(at[order], column[order], color=style.BLUE, **look)
        ax.set_title(style.share(model, k), fontsize="medium", loc="left")
        ax.set_ylabel("score")
        ax.margins(x=0.01)
        style.tidy(ax)
    if index is None:
        axes[-1].set_xlabel("sample")


def _scatter(
    ax: Axes, model: Any, which: list[int], values: Array, color: Any, name: str = "color"
) -> Axes:
    look: dict[str, Any] = {
        "s": float(np.clip(20_000 / len(values), 4, 28)),
        "alpha": 0.8 if len(values) < 2000 else 0.4,
        "linewidths": 0,
        "rasterized": len(values) > 5000,
    }
    for line in (ax.axhline, ax.axvline):
        line(0, color=style.GRAY, linewidth=0.8, zorder=0)
    if color is None:
        ax.scatter(values[:, 0], values[:, 1], color=style.BLUE, **look)
    else:
        _colored(ax, values, color, look, name)
    ax.set_xlabel(f"score, {style.share(model, which[0])}")
    ax.set_ylabel(f"score, {style.share(model, which[1])}")
    style.tidy(ax)
    return ax


def _colored(ax: Axes, values: Array, color: Any, look: dict[str, Any], name: str) -> None:
    given = _one_per_sample(name, color, len(values))
    if given.dtype.kind == "O":
        given = np.array([cell_text(cell) or "missing" for cell in given.tolist()])
    categories, place = np.unique(given, return_inverse=True)
    if given.dtype.kind in "iuf" and categories.size > _CATEGORIES:
        look["cmap"] = style.color_map("low", "high")
        drawn = ax.scatter(values[:, 0], values[:, 1], c=given, **look)
        bar: Any = ax.figure.colorbar(drawn, ax=ax)
        bar.solids.set_alpha(1)
        return
    if categories.size > _CATEGORIES:
        raise ValueError(
            f"{name} has {categories.size} categories; at most {_CATEGORIES} can be distinguished"
        )
    for i, category in enumerate(categories):
        turn, number = divmod(i, len(style.PALETTE))
        look |= {"color": style.PALETTE[number], "marker": _MARKERS[turn]}
        label = style.short(category).replace("$", r"\$")
        ax.scatter(values[place == i, 0], values[place == i, 1], label=label, **look)
    legend = style.legend_beside(ax)
    for handle in filter(None, legend.legend_handles):
        handle.set(alpha=1, sizes=[28])
