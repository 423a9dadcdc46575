"""What fitted priors do to loadings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebcd._numerics import Array
from ebcd.plots._style import (
    PALETTE,
    UNSURE,
    check_components,
    check_model,
    nothing,
    one_axes,
    say,
    tidy,
)

_STYLES = ("-", "--", ":", "-.")
_REACH = 7.0  # standard deviations of the noise; beyond, little happens


def shrinkage(model: Any, *, components: Sequence[int] | None = None, ax: Any = None) -> Axes:
    """Draw what the fitted prior of each component makes of a loading that is observed with noise.

    The curves are posterior means for noise as it is in the fit (its median if it differs between
    features). On the diagonal a loading is kept as it is. With ``scale=True`` loadings are those of
    the scaled data.

    Parameters
    ----------
    model : EBCD or EBMF
        The other methods have no prior for each component.
    components : sequence of int, optional
        Which components; by default all.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ebcd
    >>> model = ebcd.EBCD(2).fit(ebcd.datasets.load_elnino().data)
    >>> ax = ebcd.plots.shrinkage(model)
    >>> ax.get_ylabel()
    'posterior mean'
    """
    check_model(model)
    if not hasattr(model, "_normal_means"):
        raise TypeError(
            f"{type(model).__name__} does not shrink each component by a prior of its own; EBCD "
            "and EBMF do"
        )
    which = range(model.n_components_) if components is None else components
    which = check_components(model, list(which))
    axes = one_axes(ax, 5.4, 4.2)
    if not which:
        say(axes, nothing(model))
        return axes
    curves = [_curve(model, k) for k in which]
    reach = max(float(x[-1]) for x, _ in curves)
    axes.axline((0, 0), slope=1, color=UNSURE, linewidth=1, label="no shrinkage")
    for i, (k, (x, y)) in enumerate(zip(which, curves, strict=True)):
        style = _STYLES[i // len(PALETTE) % len(_STYLES)]
        colour = PALETTE[i % len(PALETTE)]
        axes.plot(x, y, style, color=colour, linewidth=1.6, label=f"component {k}")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach))
    axes.set_xlabel("observed loading" + (" (scaled data)" if getattr(model, "scale", 0) else ""))
    axes.set_ylabel("posterior mean")
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    tidy(axes)
    return axes


def _curve(model: Any, k: int) -> tuple[Array, Array]:
    prior, x, s, back = model._normal_means(k)
    # one unit for all features: that of the data, or of the scaled data
    unit = float(np.ravel(back / getattr(model, "scale_", 1.0))[0])
    noise = float(np.median(s))
    reach = min(1.05 * float(np.abs(x).max()), _REACH * noise)
    grid = np.linspace(-reach, reach, 401)
    return unit * grid, unit * prior.shrink(grid, noise)
