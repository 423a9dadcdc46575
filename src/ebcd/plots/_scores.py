"""Scores of samples, against each other or over time."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd.plots._style import (
    BLUE,
    PALETTE,
    UNSURE,
    check_components,
    check_model,
    figure_of,
    nothing,
    one_axes,
    panels,
    say,
    share,
    short,
    tidy,
)

_MARKERS = ("o", "s", "^")
_KINDS = len(PALETTE) * len(_MARKERS)


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
    whose index holds dates. Otherwise each component has a panel of its own: a line over the
    index, or points in the order of the samples.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    X : array-like, sparse matrix or data frame of shape (n, p)
        Data with one sample a row.
    components : int or sequence of int, default (0, 1)
        Which components.
    index : array-like of length n, optional
        Dates (also as text, such as "2006-01") or increasing numbers, to draw lines over.
    color : array-like of length n, optional
        A number or a kind for each sample, to colour the points of two components by.
    ax : Axes or array of Axes, optional
        Where to draw: one for two components against each other, else one for each component.

    Returns
    -------
    Axes, or ndarray of Axes
        Axes for two components against each other and if `components` is a number, else a
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
    check_model(model)
    several = bool(np.ndim(components))
    wanted = list(components) if several else [components]
    if several and wanted == [0, 1]:  # the default must not fail where there are fewer
        wanted = wanted[: model.n_components_]
    which = check_components(model, wanted)
    if not which:
        ax = np.asarray(one_axes(ax)) if several else one_axes(ax)
        say(ax.item() if several else ax, nothing(model))
        return np.atleast_1d(ax) if several else ax
    values = np.asarray(_scores(model, X))[:, which]
    index = _dates_of(X) if index is None else _as_index(index, len(values))
    if index is None and len(which) == 2:
        return _scatter(one_axes(ax, 6.0, 4.6), model, which, values, color)
    if color is not None:
        raise ValueError("color is for two components against each other, without an index")
    axes = np.asarray(
        panels(ax, (len(which), 1), 7.0, 1.2 + 1.1 * min(2.0, 4 / len(which)), sharex=True)
    ).ravel()
    _lines(axes, model, which, values, index)
    return axes if several else axes[0]


def _scores(model: Any, X: Any) -> Array:
    """Give scores as an array, whatever the model is set to give."""
    found = model.transform(X)
    return np.asarray(found.to_numpy() if hasattr(found, "to_numpy") else found)


def _dates_of(X: Any) -> NDArray[Any] | None:
    """Give the index of a data frame if it holds dates."""
    index: Any = getattr(X, "index", None)
    if hasattr(index, "to_timestamp"):
        index = index.to_timestamp()
    kind = getattr(getattr(index, "dtype", None), "kind", "")
    return np.asarray(index) if kind == "M" and np.ndim(index) == 1 else None


def _as_index(index: Any, count: int) -> NDArray[Any]:
    if hasattr(index, "to_timestamp"):
        index = index.to_timestamp()
    values = np.asarray(index)
    if values.dtype.kind in "OUT":
        try:
            values = values.astype("datetime64[us]")
        except (TypeError, ValueError):
            raise ValueError(
                f"index must hold dates, such as 2006-01-31, or numbers, got {values.ravel()[0]!r}"
            ) from None
    if values.shape != (count,):
        raise ValueError(f"index must have {count} entries, one a sample, got {values.shape}")
    if values.dtype.kind not in "Miuf":
        raise TypeError(f"index must hold dates or numbers, got {values.dtype}")
    return values


def _lines(axes: NDArray[Any], model: Any, which: list[int], values: Array, index: Any) -> None:
    at = np.arange(len(values)) if index is None else index
    # samples without an index need not be neighbours
    style = {"ls": "", "marker": ".", "ms": 4} if index is None else {"lw": 1.2}
    order = np.argsort(at, kind="stable")
    for ax, k, column in zip(axes, which, values.T, strict=True):
        ax.axhline(0, color=UNSURE, linewidth=0.8)
        ax.plot(at[order], column[order], color=BLUE, **style)
        ax.set_title(share(model, k), fontsize="medium", loc="left")
        ax.set_ylabel("score")
        ax.margins(x=0.01)
        tidy(ax)
    if index is None:
        axes[-1].set_xlabel("sample")


def _scatter(ax: Axes, model: Any, which: list[int], values: Array, color: Any) -> Axes:
    style: dict[str, Any] = {
        "s": float(np.clip(20_000 / len(values), 4, 28)),
        "alpha": 0.8 if len(values) < 2000 else 0.4,
        "linewidths": 0,
        "rasterized": len(values) > 5000,
    }
    for line in (ax.axhline, ax.axvline):
        line(0, color=UNSURE, linewidth=0.8, zorder=0)
    if color is None:
        ax.scatter(values[:, 0], values[:, 1], color=BLUE, **style)
    else:
        _coloured(ax, values, color, style)
    ax.set_xlabel(f"score, {share(model, which[0])}")
    ax.set_ylabel(f"score, {share(model, which[1])}")
    tidy(ax)
    return ax


def _coloured(ax: Axes, values: Array, color: Any, style: dict[str, Any]) -> None:
    given = np.asarray(color)
    if given.shape != (len(values),):
        raise ValueError(f"color must have {len(values)} entries, one a sample, got {given.shape}")
    if given.dtype.kind == "O":
        given = given.astype(str)
    kinds, place = np.unique(given, return_inverse=True)
    if given.dtype.kind in "iuf" and kinds.size > _KINDS:
        drawn = ax.scatter(values[:, 0], values[:, 1], c=given, cmap="viridis", **style)
        figure_of(ax).colorbar(drawn, ax=ax).solids.set_alpha(1)
        return
    if kinds.size > _KINDS:
        raise ValueError(f"color has {kinds.size} kinds; no more than {_KINDS} can be told apart")
    for i, kind in enumerate(kinds):
        ax.scatter(
            values[place == i, 0],
            values[place == i, 1],
            color=PALETTE[i % len(PALETTE)],
            marker=_MARKERS[i // len(PALETTE)],
            label=short(kind).replace("$", r"\$"),
            **style,
        )
    legend = ax.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for handle in filter(None, legend.legend_handles):
        handle.set(alpha=1, sizes=[28])
