"""How a fit went: its criterion, what it did to loadings, and the variance it explains."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import as_input
from ebcd.estimators._readable import Shrinkage
from ebcd.plots import _style as style
from ebcd.priors import EBNMResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OFTEN = 0.8  # share of halves from which a component counts as found again, as is usual
_LINES = ("-", "--", ":", "-.")
_REACH = 7.0  # noise standard deviations, or thresholds, beyond which curves hardly change


def elbo(model: Any, *, ax: Any = None) -> Axes:
    """Draw the ELBO, or the criterion of another method, at the start and after each step.

    If components are found one by one (`SPC`, and `GPower` with ``block=False``), the criterion is
    the sum over those found so far. `ITSPCA` and `EBPCA` do not maximize a criterion; for these the
    plot shows the change in each iteration (``change_path_``) on a logarithmic axis, with gaps
    where nothing changed, or where `ITSPCA` dropped a component.

    Parameters
    ----------
    model : estimator
    ax : Axes, optional

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
    step, first = "recorded step", 0
    if path is None:
        change, step, first = model.change_path_, _step(model), 1
        path = np.where(change > 0, change, np.nan)
        if np.isnan(path).all():
            return style.say(axes, f"no {step} changed anything")
        axes.set_yscale("log")
    else:
        axes.ticklabel_format(axis="y", useOffset=False)
    steps = first + np.arange(path.size)
    axes.plot(steps, path, color=style.BLUE, marker="o", markersize=3.5, linewidth=1.4)
    style.locate_ticks(axes, integer=True)
    axes.set_xlim(steps[0] - 0.4, max(steps[-1], steps[0] + 1) + 0.4)
    axes.set(xlabel=step, ylabel=model._criterion)
    axes.set_title(_end(model), fontsize="medium")
    style.tidy(axes)
    return axes


def _end(model: Any) -> str:
    name = type(model).__name__
    if not hasattr(model, "converged_"):
        return f"{name}: {model.n_iter_} {_step(model)}{'s' if model.n_iter_ != 1 else ''}"
    return f"{name} {'converged' if model.converged_ else 'did NOT converge'}"


def _step(model: Any) -> str:
    """Return the word for what is repeated until convergence, or a given number of times."""
    return "iteration" if hasattr(model, "converged_") else "round"


def shrinkage(model: Any, *, components: Sequence[int] | None = None, ax: Any = None) -> Axes:
    """Draw how the last iteration of a fit shrank the loadings of each component.

    An observed loading is the mean product of a feature with the scores, ``X'z / n``; on the
    diagonal it is left unchanged. With ``scale=True`` loadings are those of the scaled data.

    Curves of `EBCD` and `EBMF` are posterior means under the fitted priors, at the noise level of
    the fit (its median if it differs between features), or points under priors for which
    neighbors count (``spatial``, ``gmrf``); those of `EBPCA` show its priors for one
    component alone, although the method denoises all loadings of a feature together. Penalized PCA
    has the proximal map of its penalty. The other peers have thresholds: `SPC` and `GPower`
    rescale components afterward, so that large loadings may rise above the diagonal; `USLPCA`
    keeps a number of loadings, drawn as a threshold at the smallest of these; `ITSPCA`
    orthogonalizes components afterward, which is not drawn.

    Parameters
    ----------
    model : estimator or EBNMResult
        Any fitted estimator of this package, or a result of `ebcd.ebnm`, whose prior is drawn at
        the median noise.
    components : sequence of int, optional
        Components to draw; by default all.
    ax : Axes, optional

    Examples
    --------
    >>> import ebcd
    >>> model = ebcd.EBCD(2).fit(ebcd.datasets.load_elnino().data)
    >>> ax = ebcd.plots.shrinkage(model)
    >>> ax.get_ylabel()
    'posterior mean'
    """
    if isinstance(model, EBNMResult):
        return _shrinkage_of_means(model, components, ax)
    style.check_model(model)
    which = style.checked_components(model, components)
    axes = style.one_axes(ax, 5.4 + 1.4 * (len(which) // style.LABELED), 4.2)
    if not which:
        return style.say_nothing_found(axes, model)
    curves = {f"component {k}": model._shrinkage(k) for k in which}
    limit = max(map(_limit, curves.values()))
    axes.set_xlabel(f"observed loading{model._of_scaled()}")
    _draw_curves(axes, curves, -limit, limit)
    return axes


def _shrinkage_of_means(result: EBNMResult, components: Any, ax: Any) -> Axes:
    """Draw the shrinkage of a normal-means problem wherever there are observations."""
    if components is not None:
        raise ValueError("a result of ebnm has one prior and no components; leave components out")
    axes = style.one_axes(ax, 5.4, 4.2)
    seen = np.broadcast_to(np.isfinite(result._s), result._x.shape)
    x, noise = result._x[seen], float(np.median(result._s[np.isfinite(result._s)]))
    alone = result.prior.exchangeable
    shrink = partial(result.prior.shrink, s=noise if alone else result._s)
    one = Shrinkage(x, shrink, noise, "posterior mean", alone)
    axes.set_xlabel("observation")
    _draw_curves(axes, {result.prior.family: one}, x.min() - noise, x.max() + noise)
    return axes


def _draw_curves(axes: Axes, curves: dict[str, Shrinkage], low: float, high: float) -> None:
    """Draw what becomes of observations between two ends."""
    x = np.linspace(low, high, 1001)
    axes.axline((low, low), slope=1, color=style.GRAY, linewidth=1, label="no shrinkage")
    for i, (name, one) in enumerate(curves.items()):
        line = _LINES[i // len(style.PALETTE) % len(_LINES)] if one.alone else "."
        color, at = style.PALETTE[i % len(style.PALETTE)], x if one.alone else one.observed
        axes.plot(at, one.shrink(at), line, color=color, linewidth=1.6, label=name)
        axes.set_ylabel(one.result)
    axes.set(xlim=(low, high), ylim=(low, high))
    style.locate_ticks(axes, nbins=5)  # a long legend leaves little room
    style.legend_beside(axes)
    style.tidy(axes)


def _limit(shrinkage: Shrinkage) -> float:
    """Return the end of the axes: all observed loadings, or where curves stop changing."""
    size = np.abs(shrinkage.observed)
    unit = shrinkage.noise
    if unit is None:  # the largest loading that was removed
        unit = size[shrinkage.shrink(shrinkage.observed) == 0].max(initial=0.0)
    return float(min(1.05 * size.max(), _REACH * unit or np.inf))


def explained_variance(model: Any, X: Any = None, *, ax: Any = None) -> Axes:
    """Draw the share of the variance that each component explains, next to that of PCA.

    Parameters
    ----------
    model : estimator
    X : array-like, sparse matrix or data frame of shape (n, p), optional
        The training data. If given, the shares of as many principal components are drawn as well;
        no uncorrelated components explain more in total.
    ax : Axes, optional

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2).fit(sea.data)
    >>> ax = ebcd.plots.explained_variance(model, sea.data)
    >>> len(ax.patches)
    4
    """
    style.check_model(model)
    count = model.n_components_
    axes = style.one_axes(ax, 3.4 + 0.5 * min(max(count, 3), style.LABELED), 3.6)
    if count == 0:
        return style.say_nothing_found(axes, model)
    shares = {type(model).__name__: 100 * model.explained_variance_ratio_}
    if X is not None:
        shares["PCA"] = 100 * _pca_shares(model, X)
    width = 0.8 / len(shares)
    for i, (name, values) in enumerate(shares.items()):
        places = np.arange(values.size) + (i - 0.5 * (len(shares) - 1)) * width
        label = f"{name}: {values.sum():.1f}% in total"
        axes.bar(places, values, width=width, color=(style.BLUE, style.GRAY)[i], label=label)
    axes.set(ylabel="% of the variance", xlim=(-0.6, max(count, 3) - 0.4))
    style.number_components(axes, count)
    # above the bars, where nothing can be in the way
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)
    style.tidy(axes)
    return axes


def stability(model: Any, shares: Any, *, ax: Any = None) -> Axes:
    """Draw how often each component is found again in half of the rows.

    Parameters
    ----------
    model : estimator
    shares : array-like of length k
        The result of ``model.stability(X)``.
    ax : Axes, optional

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2).fit(sea.data)
    >>> ax = ebcd.plots.stability(model, model.stability(sea.data, n_splits=5))
    >>> len(ax.patches)
    2
    """
    style.check_model(model)
    heights = checked_shares("shares", shares, model.n_components_)
    axes = style.one_axes(ax, 3.4 + 0.4 * min(max(heights.size, 3), 2 * style.LABELED), 3.4)
    if heights.size == 0:
        return style.say_nothing_found(axes, model)
    often = heights >= OFTEN
    axes.bar(range(heights.size), 100 * heights, color=np.where(often, style.BLUE, style.GRAY))
    axes.axhline(100 * OFTEN, color=style.INK, linewidth=0.8, linestyle=":")
    axes.set(ylabel="found again (% of halves)", ylim=(0, 102))
    axes.set_xlim(-0.6, max(heights.size, 3) - 0.4)
    axes.set_title(f"{often.sum()} of {heights.size} found again in {OFTEN:.0%} or more")
    axes.title.set_fontsize("medium")
    style.number_components(axes, heights.size)
    style.tidy(axes)
    return axes


def checked_shares(name: str, shares: Any, count: int) -> Array:
    """Return shares from 0 to 1, one for each of the components."""
    array = np.asarray(shares, dtype=np.float64)
    right = array.shape == (count,)
    if not (right and ((array >= 0) & (array <= 1 + 1e-9)).all()):  # shares may be rounded
        raise ValueError(
            f"{name} must be a share between 0 and 1 for each of the {count} components, "
            f"got {shares!r}"
        )
    return array


def _pca_shares(model: Any, X: Any) -> Array:
    """Compute the variance shares of as many principal components as the model has components.

    The data are centered and scaled as in the fit; shares are of the variance in their units.
    """
    X = model.impute(X) if getattr(model, "n_missing_", 0) else X
    data = as_input(X, model.center, getattr(model, "scale", False))
    values, vectors = data.covariance.leading(model.n_components_)
    loadings = np.sqrt(values) * vectors * (data.scale * data.covariance.unit)[:, None]
    return np.sort((loadings**2).sum(axis=0) / data.variances.sum())[::-1]
