"""Axes to draw on, and colours: what everything that draws has in common.

Only this module imports matplotlib, and only when something is drawn: `import ebcd` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, which can be told apart with any kind of colour vision.
BLUE, INK, GREY = "#0072B2", "#333333", "#BBBBBB"


def pyplot() -> Any:
    """Import matplotlib."""
    try:
        from matplotlib import pyplot as plt
    except ImportError:
        raise ImportError('plots need matplotlib: pip install "ebcd[plots]"') from None
    return plt


def one_axes(ax: Any, width: float = 6.4, height: float = 4.2) -> Axes:
    """Return the user's axes, or those of a new figure, with a size in inches."""
    plt = pyplot()
    if ax is None:
        ax = plt.figure(figsize=(width, height), layout="constrained").add_subplot()
    if not isinstance(ax, plt.Axes):
        raise TypeError(f"ax must be a single matplotlib Axes, got {type(ax).__name__}")
    return ax  # type: ignore[no-any-return]


def tidy(ax: Axes) -> None:
    """Remove lines that carry no information."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(length=3)
