"""Colors, axes, labels and checks that all plots share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ebcd._axes import BLUE, COLORS, GRAY, INK, one_axes, pyplot, tidy
from ebcd._numerics import Array
from ebcd.estimators._html import LABELED, short
from ebcd.estimators._readable import Readable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["BLUE", "GRAY", "INK", "LABELED", "one_axes", "short", "tidy"]  # from elsewhere

POSITIVE, NEGATIVE = COLORS["positive"], COLORS["negative"]
PALETTE = tuple(COLORS[f"g{i}"] for i in range(9))
NAMED = 60  # features or samples up to which each has its name; more would cover each other


def color_map(*names: str) -> Any:
    """Return colors between those with the given names."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("-".join(names), [COLORS[name] for name in names])


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


def loadings(model: Any) -> Array:
    """Return the loadings to draw, in units in which features can be compared."""
    return np.asarray(model.components_ / model._units)


def share(model: Any, k: int) -> str:
    """Return the title of a component: its number and its share of the variance."""
    return f"component {k} ({100 * model.explained_variance_ratio_[k]:.1f}% of variance)"


def longest(names: Iterable[Any]) -> int:
    """Return the length of the longest label."""
    return max((len(short(name)) for name in names), default=20)


def name_features(ax: Axes, names: Any, which: NDArray[np.intp]) -> None:
    """Write the names of features beside their rows."""
    ax.set_yticks(range(which.size), [short(names[j]) for j in which], parse_math=False)


def number_components(ax: Axes, count: int, labels: list[str] | None = None) -> None:
    """Write the numbers of components below them, or longer labels if they are few."""
    ax.set_xlabel("component")
    if count <= LABELED:
        ax.set_xticks(range(count), labels)
    else:
        locate_ticks(ax, integer=True)


def legend_beside(ax: Axes) -> Any:
    """Draw a legend to the right of the axes, in as many columns as entries need."""
    count = len(ax.get_legend_handles_labels()[1])
    place: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    return ax.legend(frameon=False, fontsize="small", ncols=-(-count // LABELED), **place)


def say(ax: Axes, text: str) -> Axes:
    """Write a message in place of the plot."""
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color=INK)
    ax.set_axis_off()
    return ax


def say_nothing_found(ax: Axes, model: Any) -> Axes:
    """Explain why there is no component to draw."""
    return say(ax, f"no component: {model._why_nothing()}")


def locate_ticks(ax: Axes, **options: Any) -> None:
    """Place the ticks of the horizontal axis; options are those of `MaxNLocator`."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(**options))


class Room:
    """The room that axes have for texts which must not cover each other, in pixels."""

    def __init__(self, ax: Axes) -> None:
        canvas: Any = ax.figure.canvas
        canvas.figure.draw_without_rendering()  # so that everything has its final size
        self._ax, self._inside, self._taken = ax, ax.get_window_extent(), list[Any]()

    def write(
        self, name: str, point: Array, offsets: Array, lines: Sequence[Any] = (), **look: Any
    ) -> Any:
        """Write a text near a point and return its box, None if there is no free place.

        Offsets from the point are in multiples of half the text's size, the best first. Lines
        (paths) are crossed only if other places are much farther away.
        """
        from matplotlib.transforms import Bbox

        look = {"color": INK, "ha": "center", "va": "center", "parse_math": False, **look}
        text = self._ax.text(point[0], point[1], name, **look)
        at = self._ax.transData.transform(point)
        size = np.asarray(text.get_window_extent().padded(2.0).size)
        low, high = self._inside.min + size / 2, self._inside.max - size / 2
        best, least = None, np.inf
        for i, offset in enumerate(offsets):
            center = np.clip(at + offset * size / 2, low, high)
            box = Bbox([center - size / 2, center + size / 2])
            if i >= least or box.count_overlaps(self._taken):
                continue
            crossed = sum(line.intersects_bbox(box, filled=False) for line in lines)
            cost = i + 24 * crossed  # 24 steps up and down are three lines of text
            if cost < least:
                best, least = box, cost
        if best is None:
            text.remove()
            return None
        x, y = self._ax.transData.inverted().transform(best.min + size / 2)
        text.set_position((x, y))
        self._taken.append(best)
        return best
