"""What methods do to loadings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebcd.estimators._shrinkage import Shrinkage
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
# Beyond so many standard deviations of the noise, or times what is set to zero, little happens.
_NOISES, _THRESHOLDS = 7.0, 4.0
_POINTS = 1001


def shrinkage(model: Any, *, components: Sequence[int] | None = None, ax: Any = None) -> Axes:
    """Draw what the method makes of a loading of each component, as in its last iteration.

    An observed loading is the mean product of a feature with the scores, ``X'z / n``. On the
    diagonal it is kept as it is. With ``scale=True`` loadings are those of the scaled data.

    Curves of `EBCD` and `EBMF` are posterior means under the fitted priors, for noise as it is in
    the fit (its median if it differs between features); those of `EBPCA` are what the
    priors make of one component alone, while it denoises all loadings of a feature at once.
    Penalised PCA has the proximal map of its penalty. The other peers have thresholds: `SPC` and
    `GPower` then make the component as long as the data ask for, so that large loadings may rise
    above the diagonal; `USLPCA` keeps a number of loadings, drawn as a threshold at the smallest
    of these; `ITSPCA` makes components orthogonal afterwards, which is not drawn.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
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
    which = range(model.n_components_) if components is None else components
    which = check_components(model, list(which))
    axes = one_axes(ax, 5.4, 4.2)
    if not which:
        say(axes, nothing(model))
        return axes
    shrinkages = [model._shrinkage(k) for k in which]
    reach = max(map(_reach, shrinkages))
    x = np.linspace(-reach, reach, _POINTS)
    axes.axline((0, 0), slope=1, color=UNSURE, linewidth=1, label="no shrinkage")
    for i, (k, one) in enumerate(zip(which, shrinkages, strict=True)):
        style = _STYLES[i // len(PALETTE) % len(_STYLES)]
        colour = PALETTE[i % len(PALETTE)]
        axes.plot(x, one.shrink(x), style, color=colour, linewidth=1.6, label=f"component {k}")
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach))
    axes.set_xlabel("observed loading" + (" (scaled data)" if getattr(model, "scale", 0) else ""))
    axes.set_ylabel(shrinkages[0].result)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    tidy(axes)
    return axes


def _reach(shrinkage: Shrinkage) -> float:
    """Give how far to draw: all observed loadings, or as far as something happens to them."""
    size = np.abs(shrinkage.observed)
    if shrinkage.noise is not None:
        return min(1.05 * float(size.max()), _NOISES * shrinkage.noise)
    gone = size[shrinkage.shrink(shrinkage.observed) == 0]
    return min(1.05 * float(size.max()), _THRESHOLDS * float(gone.max(initial=0.0)) or np.inf)
