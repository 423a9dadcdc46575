"""Loadings as bars, of one estimator or several; all of them, or memberships, as colors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ebcd._numerics import Array
from ebcd._parameters import COUNT, PROBABILITY
from ebcd.estimators._binary import memberships as membership_probabilities
from ebcd.fitting._methods import unit_rows
from ebcd.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_VISIBLE = 0.01  # shortest bar of `compare`, as a share of the longest one in a row of panels


def components(
    model: Any,
    component: Any = None,
    *,
    n: int = 20,
    level: float = 0.05,
    probability: float = 0.95,
    feature_names: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the largest loadings of components as bars, with credible intervals.

    Bars are sorted from the most positive to the most negative; gray ones have no clear sign.
    Loadings that are exactly zero are omitted. With ``scale=True`` loadings are those of the scaled
    data; otherwise features with large units would hide the others. Methods without uncertainties
    (penalized PCA and most peers) have neither intervals nor gray bars.

    Parameters
    ----------
    model : estimator
    component : int, sequence of int or None, default None
        The component to draw; several, one per panel; or None for all.
    n : int, default 20
        Maximum number of features in a panel.
    level : float, default 0.05
        Local false sign rate above which a bar is gray.
    probability : float, default 0.95
        Posterior probability of the intervals.
    feature_names : array-like of length p, optional
    ax : Axes or array of Axes, optional
        Axes to draw on, one for each component.

    Returns
    -------
    Axes, or ndarray of Axes
        Axes if `component` is a number, otherwise a one-dimensional array.

    Examples
    --------
    >>> import ebcd
    >>> import numpy as np
    >>> jobs = ebcd.datasets.load_us_employment()
    >>> growth = np.diff(np.log(jobs.data), axis=0)
    >>> model = ebcd.EBCD(3, scale=True).fit(growth)
    >>> axes = ebcd.plots.components(model, feature_names=jobs.feature_names)
    >>> len(axes)
    3
    """
    style.check_model(model)
    COUNT.check("n", n)
    PROBABILITY.check("probability", probability)
    names = model._feature_names(feature_names)
    several = component is None or bool(np.ndim(component))
    which = style.checked_components(model, component if several else [component])
    loadings = style.loadings(model)
    chosen = [_largest(np.abs(row), row, n) for row in loadings[which]]
    height = 1.1 + 0.23 * max([6, *(features.size for features in chosen)])
    width = 3.3 + 0.09 * style.longest(names[j] for features in chosen for j in features)
    if several:
        axes: Any = style.row_of_panels(ax, max(len(which), 1), width, height)
    else:
        axes = style.one_axes(ax, width, height)
    if not which:
        style.say_nothing_found(axes[0], model)
    for k, features, panel in zip(which, chosen, np.ravel(axes), strict=False):
        if hasattr(model, "lfsr_"):
            units = np.broadcast_to(model._units, loadings[k].shape)[features]
            _draw_intervals(panel, *np.divide(model._intervals(k, features, probability), units))
        _draw_bars(panel, loadings[k], features, _unclear(model, k, level))
        style.name_features(panel, names, features)
        panel.set_ylim(features.size - 0.4, -0.6)
        panel.set_title(style.share(model, k), fontsize="medium")
        panel.set_xlabel(_caption(model, k, features, n, level, probability), fontsize="small")
    return axes


def _largest(size: Array, loadings: Array, n: int) -> NDArray[np.intp]:
    """Return the features with the largest non-zero sizes, in order of decreasing loadings."""
    largest = np.argsort(-size, kind="stable")[: min(n, np.count_nonzero(size))]
    return largest[np.argsort(-loadings[largest], kind="stable")]


def _caption(
    model: Any, k: int, features: NDArray[np.intp], n: int, level: float, probability: float
) -> str:
    notes = []
    if features.size < model.n_features_in_:
        kind = "largest" if features.size == n else "not zero"
        notes.append(f"{features.size:,} {kind} of {model.n_features_in_:,}")
    if hasattr(model, "lfsr_"):
        given = model._scope is not None and model._scope.words == "given the scores"
        about = ", given the scores" if given else ""
        notes.append(f"{100 * probability:g}% credible intervals{about}")
    if _unclear(model, k, level)[features].any():
        notes.append(f"gray: lfsr > {level:g}")
    lines = ";\n".join(notes)  # narrow panels have no room for one line
    return f"loading{model._of_scaled()}" + (f"\n({lines})" if notes else "")


def _unclear(model: Any, k: int, level: float) -> NDArray[np.bool_]:
    """Mark the loadings of a component without a clear sign; none without uncertainties."""
    if hasattr(model, "lfsr_"):
        return np.asarray(model.lfsr_[k] > level)
    return np.zeros(model.n_features_in_, dtype=bool)


def _draw_bars(
    ax: Axes, loadings: Array, features: NDArray[np.intp], gray: NDArray[np.bool_]
) -> None:
    """Draw a bar for each of the features, colored by sign."""
    lengths = loadings[features]
    colors = np.where(lengths > 0, style.POSITIVE, style.NEGATIVE)
    colors = np.where(gray[features], style.GRAY, colors)
    ax.barh(np.arange(features.size), lengths, color=colors, height=0.72)
    _tidy_bars(ax)


def _draw_intervals(ax: Axes, lower: Array, upper: Array) -> None:
    """Draw lines with a pale rim, so that they stand out from the bars below."""
    from matplotlib.patheffects import withStroke

    rim = withStroke(linewidth=3.2, foreground="white", alpha=0.55)
    lines = ax.hlines(range(lower.size), lower, upper, color=style.INK, linewidth=1.2)
    lines.set_path_effects([rim])


def _tidy_bars(ax: Axes) -> None:
    """Draw the line at zero, and remove what bars do not need."""
    ax.axvline(0, color=style.INK, linewidth=0.8)
    style.locate_ticks(ax, nbins=4, steps=[1, 2, 5, 10])  # with space between long numbers
    style.tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)


def compare(
    models: Any,
    *,
    components: Sequence[int] | None = None,
    n: int = 15,
    level: float = 0.05,
    feature_names: Any = None,
    ax: Any = None,
) -> NDArray[Any]:
    """Draw the components of several estimators side by side, matched to those of the first.

    Each row is a component of the first estimator, each column an estimator. Components of the
    others are matched to those of the first so that the sum of absolute cosines is largest, and
    take the same sign. All methods scale scores to a mean square of one, so that loadings are
    comparable. If the first estimator has ``scale=True``, loadings of all are those of the data
    that it scaled.

    Parameters
    ----------
    models : sequence of estimators, or dict of names and estimators
        Fitted estimators of this package, all with the same features.
    components : sequence of int, optional
        Components of the first estimator; by default all.
    n : int, default 15
        Maximum number of features in a row of panels: those with the largest loadings in any
        panel, in the order of the first estimator.
    level : float, default 0.05
        Local false sign rate above which a bar is gray.
    feature_names : array-like of length p, optional
    ax : array of Axes, optional
        Axes to draw on, one for each component and estimator.

    Returns
    -------
    ndarray of Axes
        Of shape (components, estimators).

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> models = [ebcd.EBCD(2).fit(sea.data), ebcd.peers.SPC(2).fit(sea.data)]
    >>> ebcd.plots.compare(models, feature_names=sea.feature_names).shape
    (2, 2)
    """
    named = _named(models)
    COUNT.check("n", n)
    first = next(iter(named.values()))
    which = style.checked_components(first, components)
    names = first._feature_names(feature_names)
    matches = [_matched(first, model) for model in named.values()]
    rows = [[match.get(k) for match in matches] for k in which]
    features = [_features([part[1] for part in row if part], n) for row in rows]
    axes = _grid(ax, names, features, len(named))
    for panel in axes.ravel() if not which else ():
        style.say(panel, "no component")
    for k, row, panels, chosen in zip(which, rows, axes, features, strict=False):
        for model, match, panel in zip(named.values(), row, panels, strict=True):
            if match is None:
                _tidy_bars(panel)
                say = {"transform": panel.transAxes, "ha": "center", "color": style.GRAY}
                panel.text(0.5, 0.5, "none", **say)
                continue
            number, loadings, cosine = match
            _draw_bars(panel, loadings, chosen, _unclear(model, number, level))
            panel.set_title(f"component {number}, cosine {cosine:.2f}", fontsize="small")
        style.name_features(panels[0], names, chosen)
        panels[0].set_ylim(chosen.size - 0.4, -0.6)
        panels[0].set_ylabel(f"component {k}")
    for name, panel in zip(named, axes[0], strict=True):
        title = f"{fill(style.short(name), 24)}\n{panel.get_title()}"
        panel.set_title(title, fontsize="medium", parse_math=False)
    for panel in axes[-1]:
        panel.set_xlabel(f"loading{first._of_scaled()}", fontsize="small")
    return axes


def _named(models: Any) -> dict[str, Any]:
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif isinstance(models, Sequence):
        names = [type(model).__name__ for model in models]
        numbers = [names[: i + 1].count(name) for i, name in enumerate(names)]
        names = [f"{name} {i}" if i > 1 else name for name, i in zip(names, numbers, strict=True)]
        named = dict(zip(names, models, strict=True))
    else:
        raise TypeError("models must be a list of fitted estimators, or a dict with their names")
    if not named:
        raise ValueError("models is empty; pass at least one fitted estimator")
    for model in named.values():
        style.check_model(model)
    sizes = {name: model.n_features_in_ for name, model in named.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"models must have the same features, but {said}")
    return named


def _matched(first: Any, model: Any) -> dict[int, tuple[int, Array, float]]:
    """Return number, loadings with the same sign, and cosine of what matches each component."""
    ours, found = (one.components_ / first._units for one in (first, model))
    cosines = unit_rows(ours) @ unit_rows(found).T
    pairs = np.transpose(linear_sum_assignment(-np.abs(cosines))).tolist()
    return {
        i: (j, np.copysign(1.0, cosines[i, j]) * found[j], abs(cosines[i, j])) for i, j in pairs
    }


def _features(loadings: list[Array], n: int) -> NDArray[np.intp]:
    """Return the features of a row of panels, in the order of the first estimator."""
    size = np.abs(loadings).max(axis=0)
    return _largest(np.where(size > _VISIBLE * size.max(), size, 0.0), loadings[0], n)


def _grid(ax: Any, names: Any, features: list[NDArray[np.intp]], columns: int) -> NDArray[Any]:
    heights = [0.9 + 0.22 * max(chosen.size, 3) for chosen in features] or [2.0]
    space = 0.09 * style.longest(names[j] for chosen in features for j in chosen)
    size = 2.3 + space / columns, float(np.mean(heights))
    shape = len(heights), columns
    return style.panels(ax, shape, *size, height_ratios=heights, sharex="row", sharey="row")


def heatmap(
    model: Any,
    *,
    sort: bool = True,
    level: float = 0.05,
    feature_names: Any = None,
    ax: Any = None,
) -> Axes:
    """Draw the loadings of all components as a heat map, one feature per row.

    With ``scale=True`` loadings are those of the scaled data.

    Up to 60 features are all drawn, with their names. If there are more, only those used by some
    component are drawn (local false sign rate at most `level`, or not zero if a method has no such
    rate). If they outnumber the pixels, neighbors share a row, which shows the largest of their
    loadings.

    Parameters
    ----------
    model : estimator
    sort : bool, default True
        Whether to sort the features by the component in which they are largest, and by their
        loading there. Otherwise they keep the order of the data.
    level : float, default 0.05
        Local false sign rate up to which a feature counts as used, if there are more than 60.
    feature_names : array-like of length p, optional
    ax : Axes, optional

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2).fit(sea.data)
    >>> ax = ebcd.plots.heatmap(model, feature_names=sea.feature_names, sort=False)
    >>> [label.get_text() for label in ax.get_yticklabels()][:3]
    ['Jan', 'Feb', 'Mar']
    """
    style.check_model(model)
    names = model._feature_names(feature_names)
    loadings = style.loadings(model)
    rows = _heatmap_rows(model, loadings, sort, level)
    labeled = model.n_features_in_ <= style.NAMED
    width = 2.6 + 0.45 * min(model.n_components_, 20) + 1.4 * labeled
    axes = style.one_axes(ax, width, max(1.2 + 0.22 * rows.size, 3.0) if labeled else 6.0)
    if model.n_components_ == 0:
        return style.say_nothing_found(axes, model)
    if rows.size == 0:
        return style.say(axes, f"no loading with lfsr <= {level:g}")
    image, together = _strongest(loadings.T[rows], axes.get_window_extent().height)
    # a few loadings of many features may be beyond the end of the colors
    limit = np.quantile(np.abs(image[image != 0]), 1.0 if labeled else 0.98)
    label, colors = f"loading{model._of_scaled()}", ("negative", "middle", "positive")
    _draw_image(axes, image, -limit, limit, colors, label, labeled)
    if labeled:
        style.name_features(axes, names, rows)
    else:
        axes.set_yticks([])
        axes.set_ylabel(_which_features(model, rows.size, together, level, sort))
    shares = 100 * model.explained_variance_ratio_
    under = [f"{share:.3g}%" if share >= 0.1 else "< 0.1%" for share in shares]
    style.number_components(axes, shares.size, [f"{k}\n{text}" for k, text in enumerate(under)])
    axes.tick_params(axis="x", labelsize="small")
    return axes


def _draw_image(
    ax: Axes, image: Array, low: float, high: float, colors: Any, label: str, whole: bool = True
) -> None:
    """Draw numbers as colors, with a scale that says whether they are the whole range."""
    look: dict[str, Any] = {"cmap": style.color_map(*colors), "interpolation": "nearest"}
    drawn = ax.imshow(image, aspect="auto", vmin=low, vmax=high, **look)
    extend = "neither" if whole else "both"
    ax.figure.colorbar(drawn, ax=ax, label=label, extend=extend, shrink=0.8)
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _heatmap_rows(model: Any, loadings: Array, sort: bool, level: float) -> NDArray[np.intp]:
    """Return the features to draw, in order."""
    rows = np.arange(model.n_features_in_)
    if model.n_components_ == 0:
        return rows[:0]
    if rows.size > style.NAMED:
        used = model.lfsr_ <= level if hasattr(model, "lfsr_") else model.components_ != 0
        rows = rows[used.any(axis=0)]
    if sort:
        home = np.abs(loadings[:, rows]).argmax(axis=0)
        rows = rows[np.lexsort((-loadings[home, rows], home))]
    return rows


def _strongest(loadings: Array, pixels: float) -> tuple[Array, int]:
    """Merge neighboring rows by their largest entries, so that none of these is lost."""
    together = -(-len(loadings) // max(int(pixels), 1))
    padded = np.pad(loadings, ((0, -len(loadings) % together), (0, 0)))
    blocks = padded.reshape(-1, together, loadings.shape[1])
    largest = np.abs(blocks).argmax(axis=1, keepdims=True)
    return np.take_along_axis(blocks, largest, axis=1)[:, 0], together


def _which_features(model: Any, count: int, together: int, level: float, sort: bool) -> str:
    kind = f"with lfsr ≤ {level:g}" if hasattr(model, "lfsr_") else "with loadings"
    text = f"{count:,} of {model.n_features_in_:,} features ({kind})"
    if sort:
        text += ", sorted"
    return text + (f"\n{together} per row, the strongest shown" if together > 1 else "")


def memberships(
    model: Any, *, sort: bool = True, feature_names: Any = None, ax: Any = None
) -> Axes:
    """Draw the probability that each feature belongs to each component, one component per row.

    Parameters
    ----------
    model : EBCD
        A fitted estimator with priors, for example of `ebcd.gbcd`, whose features are samples.
    sort : bool, default True
        Whether to bring together features that belong to the same components. Otherwise they keep
        the order of the data.
    feature_names : array-like of length p, optional
        Names of the features, drawn if there are at most 60; by default those seen in `fit`, or x0,
        x1 and so on.
    ax : Axes, optional

    See Also
    --------
    ebcd.memberships : The probabilities.

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2, prior="generalized_binary").fit(sea.data)
    >>> ax = ebcd.plots.memberships(model, feature_names=sea.feature_names, sort=False)
    >>> [label.get_text() for label in ax.get_xticklabels()][:3]
    ['Jan', 'Feb', 'Mar']
    """
    style.check_model(model)
    found = membership_probabilities(model)
    names = model._feature_names(feature_names)
    k, p = found.shape
    named = p <= style.NAMED
    below = 0.08 * style.longest(names) if named else 0.0
    axes = style.one_axes(ax, max(7.0, 2.0 + 0.17 * p * named), 1.4 + 0.35 * max(k, 2) + below)
    if k == 0:
        return style.say_nothing_found(axes, model)
    order = np.arange(p)
    if sort:  # by the first component, among its members by the second, and so on
        order = np.lexsort([*-found[::-1], *-(found[::-1] > 0.5).astype(int)])
    _draw_image(axes, found[:, order], 0.0, 1.0, ("middle", "positive"), "membership")
    if named:
        labels = [style.short(names[j]) for j in order]
        axes.set_xticks(range(p), labels, rotation=90, parse_math=False)
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{p:,} features{', sorted' if sort else ''}")
    axes.set_yticks(range(k))
    axes.set_ylabel("component")
    return axes
