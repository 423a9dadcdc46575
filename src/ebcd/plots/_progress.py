"""How a fit went."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ebcd.plots._style import BLUE, check_model, one_axes, tidy


def elbo(model: Any, *, ax: Any = None) -> Axes:
    """Draw the ELBO at the start and after every recorded step, or the criterion of other methods.

    The label says what it is. Where components are found one by one (`SPC`, `GPower` with
    ``block=False``) it is the sum over those so far.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package but `ITSPCA` and `EBPCA`, which maximise nothing.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ebcd
    >>> model = ebcd.EBCD(2).fit(ebcd.datasets.load_elnino().data)
    >>> ax = ebcd.plots.elbo(model)
    >>> ax.get_ylabel()
    'ELBO (nats)'
    """
    check_model(model)
    path = getattr(model, "elbo_path_", getattr(model, "objective_path_", None))
    if path is None:
        raise TypeError(
            f"{type(model).__name__} has no criterion whose path could be drawn: {model._criterion}"
        )
    axes = one_axes(ax, 5.6, 3.6)
    axes.plot(np.arange(path.size), path, color=BLUE, marker="o", markersize=3.5, linewidth=1.4)
    axes.set_xlabel("recorded step")
    axes.set_ylabel(model._criterion)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(-0.4, max(path.size - 1, 1) + 0.4)
    axes.ticklabel_format(axis="y", useOffset=False)
    end = "converged" if model.converged_ else "did NOT converge"
    axes.set_title(f"{type(model).__name__} {end}", fontsize="medium")
    tidy(axes)
    return axes
