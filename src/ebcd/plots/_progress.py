"""How a fit went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def elbo(model: Any, *, ax: Any = None) -> Axes:
    """Draw the ELBO, or the criterion of another method, at the start and after each step.

    The label says which criterion it is. Where components are found one by one (`SPC`, and `GPower`
    with ``block=False``), it is the sum over those found so far.

    `ITSPCA` and `EBPCA` do not maximise a criterion. For these the plot shows the change in each
    iteration (``change_path_``) on a logarithmic axis: the smaller, the closer to a fixed point.
    Iterations that such an axis cannot show are marked at its foot: those without any change, and
    those of `ITSPCA` in which a component was dropped, so that there is nothing to compare.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ebcd
    >>> X = ebcd.datasets.load_elnino().data
    >>> ax = ebcd.plots.elbo(ebcd.EBCD(2).fit(X))
    >>> ax.get_ylabel()
    'ELBO (nats)'
    >>> ax = ebcd.plots.elbo(ebcd.peers.EBPCA(2).fit(X))
    >>> ax.get_ylabel()
    'relative change of the loadings'
    """
    style.check_model(model)
    axes = style.one_axes(ax, 5.6, 3.6)
    path = getattr(model, "elbo_path_", getattr(model, "objective_path_", None))
    if path is None:
        _draw_changes(axes, model.change_path_, _step(model))
    else:
        _draw_line(axes, np.arange(path.size), path)
        axes.set_xlabel("recorded step")
        axes.ticklabel_format(axis="y", useOffset=False)
    axes.set_ylabel(model._criterion)
    axes.set_title(_end(model), fontsize="medium")
    style.tidy(axes)
    return axes


def _draw_changes(axes: Axes, path: Array, step: str) -> None:
    if path.size == 0:
        style.say(axes, f"no {step} was done")
        return
    steps = np.arange(1, path.size + 1)
    axes.set_yscale("log")
    _draw_line(axes, steps, np.where(path > 0, path, np.nan))
    axes.set_xlabel(step)
    if not (path > 0).any():  # numbers on the axis would mean nothing
        axes.tick_params(axis="y", which="both", left=False, labelleft=False)
    for which, marker, meaning in (
        (path == 0, "v", "no change"),
        (np.isnan(path), "x", "a component was dropped"),
    ):
        if which.any():
            foot, place = np.full(which.sum(), 0.03), axes.get_xaxis_transform()
            axes.plot(steps[which], foot, marker, color=style.INK, label=meaning, transform=place)
            axes.legend(frameon=False)


def _draw_line(axes: Axes, steps: NDArray[Any], path: Array) -> None:
    axes.plot(steps, path, color=style.BLUE, marker="o", markersize=3.5, linewidth=1.4)
    style.whole_number_ticks(axes)
    axes.set_xlim(steps[0] - 0.4, max(steps[-1], steps[0] + 1) + 0.4)


def _end(model: Any) -> str:
    name = type(model).__name__
    if not hasattr(model, "converged_"):
        return f"{name}: {model.n_iter_} {_step(model)}{'s' if model.n_iter_ != 1 else ''}"
    return f"{name} {'converged' if model.converged_ else 'did NOT converge'}"


def _step(model: Any) -> str:
    """Return the word for what is repeated until convergence, or a given number of times."""
    return "iteration" if hasattr(model, "converged_") else "round"
