"""What methods do to loadings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ebcd.estimators._shrinkage import Shrinkage
from ebcd.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LINES = ("-", "--", ":", "-.")
# Beyond so many noise standard deviations, or so many thresholds, curves hardly change.
_NOISES, _THRESHOLDS = 7.0, 4.0


def shrinkage(model: Any, *, components: Sequence[int] | None = None, ax: Any = None) -> Axes:
    """Draw how the last iteration of a fit shrank the loadings of each component.

    An observed loading is the mean product of a feature with the scores, ``X'z / n``; on the
    diagonal it is left unchanged. With ``scale=True`` loadings are those of the scaled data.

    Curves of `EBCD` and `EBMF` are posterior means under the fitted priors, at the noise level of
    the fit (its median if it differs between features); those of `EBPCA` show its priors for one
    component alone, while the method denoises all loadings of a feature together. Penalised PCA
    has the proximal map of its penalty. The other peers have thresholds: `SPC` and `GPower`
    rescale the component afterwards, so that large loadings may rise above the diagonal; `USLPCA`
    keeps a number of loadings, drawn as a threshold at the smallest of these; `ITSPCA`
    orthogonalises components afterwards, which is not drawn.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    components : sequence of int, optional
        Components to draw; by default all.
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
    style.check_model(model)
    which = style.checked_components(model, components)
    axes = style.one_axes(ax, 5.4, 4.2)
    if not which:
        style.say_nothing_found(axes, model)
        return axes
    shrinkages = [model._shrinkage(k) for k in which]
    limit = max(map(_limit, shrinkages))
    x = np.linspace(-limit, limit, 1001)
    axes.axline((0, 0), slope=1, color=style.GREY, linewidth=1, label="no shrinkage")
    for i, (k, one) in enumerate(zip(which, shrinkages, strict=True)):
        line = _LINES[i // len(style.PALETTE) % len(_LINES)]
        colour = style.PALETTE[i % len(style.PALETTE)]
        axes.plot(x, one.shrink(x), line, color=colour, linewidth=1.6, label=f"component {k}")
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
    axes.set_xlabel("observed loading" + (" (scaled data)" if getattr(model, "scale", 0) else ""))
    axes.set_ylabel(shrinkages[0].result)
    axes.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    style.tidy(axes)
    return axes


def _limit(shrinkage: Shrinkage) -> float:
    """Return the end of the axes: all observed loadings, or where curves stop changing."""
    size = np.abs(shrinkage.observed)
    if shrinkage.noise is not None:
        return min(1.05 * float(size.max()), _NOISES * shrinkage.noise)
    removed = size[shrinkage.shrink(shrinkage.observed) == 0]
    return min(1.05 * float(size.max()), _THRESHOLDS * float(removed.max(initial=0.0)) or np.inf)
