"""Axes to draw on, and colors: what everything that draws has in common.

Only this module imports matplotlib, and only when something is drawn: `import ebcd` stays light.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# By the names that they have in the report, which takes those of its light theme from here. Groups,
# g0 and so on, begin with colors that can be told apart with any kind of color vision.
COLORS = {
    "text": "#1c2127",
    "positive": "#2b66b1",
    "negative": "#c2570c",
    "unclear": "#b9c0c8",
    "middle": "#f4f5f7",
    "low": "#e8b93a",
    "high": "#1d3f7f",
    "g0": "#0072b2",
    "g1": "#d55e00",
    "g2": "#009e73",
    "g3": "#cc79a7",
    "g4": "#b8860b",
    "g5": "#56b4e9",
    "g6": "#7d4fa8",
    "g7": "#333333",
    "g8": "#8a5a3c",
}
BLUE, INK, GRAY = COLORS["positive"], COLORS["text"], COLORS["unclear"]


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
