"""What all pictures share: colours, axes, labels and checks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ebcd.estimators._readable import Readable

# Okabe and Ito's colours, which people with any kind of colour vision tell apart.
BLUE, INK, UNSURE = "#0072B2", "#333333", "#BBBBBB"
POSITIVE, NEGATIVE = "#56B4E9", "#E69F00"  # light, so that intervals can be seen on them
PALETTE = (BLUE, "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
_LONGEST_LABEL = 40


def check_model(model: Any) -> None:
    """Refuse what is not a fitted estimator of this package."""
    if not isinstance(model, Readable):
        raise TypeError(
            f"plots take a fitted estimator of ebcd, such as EBCD, got {type(model).__name__}"
        )
    check_is_fitted(model)


def check_components(model: Any, components: Sequence[Any]) -> list[int]:
    """Give numbers of components that exist."""
    for k in components:
        if isinstance(k, bool) or not isinstance(k, int | np.integer):
            raise TypeError(f"components are whole numbers, got {k!r}")
        if not 0 <= k < model.n_components_:
            raise ValueError(f"component {k} does not exist; there are {model.n_components_}")
    return [int(k) for k in components]


def check_count(name: str, value: Any) -> int:
    """Check a number of things to draw."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)


def check_share(name: str, value: float) -> None:
    """Check a probability."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {value}")


def one_axes(ax: Any, width: float = 6.4, height: float = 4.2) -> Axes:
    """Give the axes that the user gave, or new ones."""
    if ax is None:
        ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be one matplotlib Axes here, got {type(ax).__name__}")
    return ax


def panels(ax: Any, shape: tuple[int, int], width: float, height: float, **kwargs: Any) -> Any:
    """Give the axes that the user gave, or a new grid of `shape`, each of a size in inches."""
    rows, columns = shape
    if ax is None:
        size = (width * columns, height * rows)
        options = {"figsize": size, "layout": "constrained", "squeeze": False, **kwargs}
        return plt.subplots(rows, columns, **options)[1]
    given = np.atleast_1d(np.asarray(ax, dtype=object))
    if given.size != rows * columns or not all(isinstance(a, Axes) for a in given.ravel()):
        raise ValueError(f"ax must hold {rows * columns} matplotlib Axes here, got {given.size}")
    return given.reshape(shape)


def row_of_panels(ax: Any, count: int, width: float, height: float) -> NDArray[Any]:
    """Give `count` axes, on a new figure up to three beside each other."""
    if ax is not None:
        return np.asarray(panels(ax, (1, count), width, height)).ravel()
    columns = min(count, 3)
    rows = -(-count // columns)
    axes = np.asarray(panels(None, (rows, columns), width, height)).ravel()
    for unused in axes[count:]:
        unused.remove()
    return axes[:count]


def figure_of(ax: Axes) -> Any:
    """Give the figure of axes; it is not typed as one that has colour bars."""
    return ax.figure


def share(model: Any, k: int) -> str:
    """Say which component it is, and its share of the variance."""
    return f"component {k} ({100 * model.explained_variance_ratio_[k]:.1f}% of variance)"


def short(name: Any) -> str:
    """Give a label of one line that is not too long."""
    text = " ".join(str(name).split())
    return text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"


def longest(names: Iterable[Any]) -> int:
    """Give the length of the longest label, to leave space for."""
    return max((len(short(name)) for name in names), default=20)


def say(ax: Axes, text: str) -> None:
    """Write a message where a picture would be."""
    ax.text(0.5, 0.5, text, ha="center", va="center", transform=ax.transAxes, color=INK)
    ax.set_axis_off()


def few_ticks(ax: Axes) -> None:
    """Leave space between the numbers below narrow axes, also if these have many digits."""
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))


def tidy(ax: Axes) -> None:
    """Take away lines that say nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)


def nothing(model: Any) -> str:
    """Say that there is no component to draw, and why."""
    return f"no component: {model._why_nothing()}"
