"""What a drawn figure looks like: where its texts are, and a small copy of it."""

import itertools

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.text import Text


def drawn(model):
    """Loadings of the scaled data: in its own units one feature may hide all the others."""
    scaled = "scale" in model.get_params() and model.scale
    return model.components_ / model.scale_ if scaled else model.components_


def texts(figure):
    """Return every text that is drawn, with its box in pixels."""
    figure.canvas.draw()
    outside = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            slack = 1e-6 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low - slack <= tick.get_loc() <= high + slack:
                    outside |= {tick.label1, tick.label2}
            if not ax.axison:
                outside |= set(axis.findobj(Text))
    return [
        (text.get_text(), text.get_window_extent())
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in outside
    ]


def assert_readable(figure):
    """Nothing lies outside of the figure, and no two texts on each other."""
    boxes = texts(figure)
    assert boxes
    width, height = figure.canvas.get_width_height()
    for name, box in boxes:
        assert box.x0 >= -1, name
        assert box.y0 >= -1, name
        assert box.x1 <= width + 1, name
        assert box.y1 <= height + 1, name
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        apart = a.x1 <= b.x0 + 1 or b.x1 <= a.x0 + 1 or a.y1 <= b.y0 + 1 or b.y1 <= a.y0 + 1
        assert apart, f"{one!r} and {other!r} overlap"


def bars(ax):
    """Return lengths and colours of horizontal bars, from top to bottom."""
    drawn = sorted(ax.patches, key=lambda bar: bar.get_y())
    return np.array([bar.get_width() for bar in drawn]), [to_hex(b.get_facecolor()) for b in drawn]


def labels(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def small_copy(figure, block=10):
    """Return the figure in grey levels, with squares of pixels averaged."""
    figure.set_dpi(100)
    figure.canvas.draw()
    grey = np.asarray(figure.canvas.buffer_rgba())[..., :3].mean(axis=2)
    height, width = (size // block * block for size in grey.shape)
    blocks = grey[:height, :width].reshape(height // block, block, width // block, block)
    return blocks.mean(axis=(1, 3))
