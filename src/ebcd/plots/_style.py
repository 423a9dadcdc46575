"""Colours, axes, labels and checks that all plots share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ebcd._axes import BLUE, GREY, INK, one_axes, pyplot, tidy
from ebcd.estimators._html import _NAME_LENGTH, one_line
from ebcd.estimators._readable import Readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUE", "GREY", "INK", "one_axes", "tidy"]  # from below

POSITIVE, NEGATIVE = "#56B4E9", "#E69F00"  # light, so that intervals are visible on top of them
PALETTE = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
LABELLED = 16  # components up to which each has a label of its own


def check_model(model: Any) -> None:
    """Raise unless `model` is a fitted estimator of this package."""
    if not isinstance(model, Readable):
        raise TypeError(
            f"model must be a fitted estimator of ebcd, such as EBCD, got {type(model).__name__}"
        )
    check_is_fitted(model)


def checked_components(model: Any, components: Sequence[Any] | None) -> list[int]:
    """Return the components to draw; None means all of them."""
    if components is None:
        return list(range(model.n_components_))
    for k in components:
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise TypeError(f"components must be whole numbers, got {k!r}")
        if not 0 <= k < model.n_components_:
            raise ValueError(f"component {k} does not exist; there are {model.n_components_}")
    return [int(k) for k in components]


def panels(
    ax: Any, shape: tuple[int, int], width: float, height: float, **options: Any
) -> NDArray[Any]:
    """Return the user's axes, or a new grid of panels, with a size in inches for each."""
    plt = pyplot()
    rows, columns = shape
    if ax is None:
        size = (width * columns, height * rows)
        figure = plt.figure(figsize=size, layout="constrained")
        return np.asarray(figure.subplots(rows, columns, squeeze=False, **options))
    given = np.atleast_1d(np.asarray(ax, dtype=object))
    if given.size != rows * columns or not all(isinstance(a, plt.Axes) for a in given.ravel()):
        raise ValueError(f"ax must contain {rows * columns} matplotlib Axes, got {given.size}")
    return given.reshape(shape)


def row_of_panels(ax: Any, count: int, width: float, height: float) -> NDArray[Any]:
    """Return `count` axes; on a new figure, at most three side by side."""
    columns = min(count, 3) if ax is None else count
    axes = panels(ax, (-(-count // columns), columns), width, height).ravel()
    for unused in axes[count:]:
        unused.remove()
    return axes[:count]


def share(model: Any, k: int) -> str:
    """Return the title of a component: its number and its share of the variance."""
    return f"component {k} ({100 * model.explained_variance_ratio_[k]:.1f}% of variance)"


def short(name: Any) -> str:
    """Return a label on one line, cut off where it would leave no room for the plot."""
    text = one_line(str(name))
    return text if len(text) <= _NAME_LENGTH else text[: _NAME_LENGTH - 1] + "…"


def longest(names: Iterable[Any]) -> int:
    """Return the length of the longest label."""
    return max((len(short(name)) for name in names), default=20)


def name_features(ax: Axes, names: Any, which: NDArray[np.intp]) -> None:
    """Write the names of features beside their rows."""
    ax.set_yticks(range(which.size), [short(names[j]) for j in which], parse_math=False)


def say(ax: Axes, text: str) -> None:
    """Write a message in place of the plot."""
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color=INK)
    ax.set_axis_off()


def say_nothing_found(ax: Axes, model: Any) -> None:
    """Explain why there is no component to draw."""
    say(ax, f"no component: {model._why_nothing()}")


def locate_ticks(ax: Axes, **options: Any) -> None:
    """Place the ticks of the horizontal axis; options are those of `MaxNLocator`."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(**options))
