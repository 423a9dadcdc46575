"""Several estimators side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ebcd._numerics import Array
from ebcd._parameters import COUNT
from ebcd.plots import _style as style
from ebcd.plots._components import draw_bars, tidy_bars, unclear

_VISIBLE = 0.01  # shortest bar, as a share of the longest one in a row of panels


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
    comparable.

    Parameters
    ----------
    models : sequence of estimators, or dict of names and estimators
        Fitted estimators of this package, all with the same features.
    components : sequence of int, optional
        Components of the first estimator; by default all.
    n : int, default 15
        Largest number of features in a row of panels: those with the largest loadings in any
        panel, in the order of the first estimator.
    level : float, default 0.05
        Local false sign rate above which a bar is grey.
    feature_names : array-like of length p, optional
        Names of the features; by default those seen by the first estimator, or x0, x1 and so on.
    ax : array of Axes, optional
        Where to draw: one for each component and estimator.

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
    matches = [_matches(first, model) for model in named.values()]
    features = [_features([match[k] for match in matches], n) for k in which]
    axes = _grid(ax, names, features, len(named))
    for panel in axes.ravel() if not which else ():
        style.say(panel, "no component")
    for k, row, chosen in zip(which, axes, features, strict=False):
        for model, match, panel in zip(named.values(), matches, row, strict=True):
            _draw(panel, model, match[k], chosen, level)
        style.name_features(row[0], names, chosen)
        row[0].set_ylim(chosen.size - 0.4, -0.6)
        row[0].set_ylabel(f"component {k}")
    for name, panel in zip(named, axes[0], strict=True):
        title = f"{style.short(name)}\n{panel.get_title()}"
        panel.set_title(title, fontsize="medium", parse_math=False)
    for panel in axes[-1]:
        panel.set_xlabel("loading", fontsize="small")
    return axes


class _Match(NamedTuple):
    """The component of an estimator that matches one of the first, with the same sign."""

    number: int
    loadings: Array
    cosine: float


def _named(models: Any) -> dict[str, Any]:
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    elif isinstance(models, Sequence):
        named, seen = {}, Counter[str]()
        for model in models:
            name = type(model).__name__
            seen[name] += 1
            named[name if seen[name] == 1 else f"{name} {seen[name]}"] = model
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


def _matches(first: Any, model: Any) -> list[_Match | None]:
    """Return the match of each component of the first estimator; None where there is none."""
    cosines = _directions(first.components_) @ _directions(model.components_).T
    found: list[_Match | None] = [None] * first.n_components_
    for k, i in zip(*linear_sum_assignment(-np.abs(cosines)), strict=True):
        sign = -1.0 if cosines[k, i] < 0 else 1.0
        found[k] = _Match(int(i), sign * model.components_[i], abs(float(cosines[k, i])))
    return found


def _directions(components: Array) -> Array:
    size = np.linalg.norm(components, axis=1, keepdims=True)
    return np.asarray(components / np.where(size > 0, size, 1.0))


def _features(matches: list[_Match | None], n: int) -> NDArray[np.intp]:
    """Return the features of a row of panels, in the order of the first estimator."""
    loadings = [match.loadings for match in matches if match is not None]
    size = np.abs(loadings).max(axis=0)
    visible = np.count_nonzero(size > _VISIBLE * size.max())
    chosen = np.argsort(-size, kind="stable")[: min(n, visible)]
    return chosen[np.argsort(-loadings[0][chosen], kind="stable")]


def _grid(ax: Any, names: Any, features: list[NDArray[np.intp]], columns: int) -> NDArray[Any]:
    heights = [0.9 + 0.22 * max(chosen.size, 3) for chosen in features] or [2.0]
    space = 0.09 * style.longest(names[j] for chosen in features for j in chosen)
    size = 2.3 + space / columns, float(np.mean(heights))
    shape = len(heights), columns
    return style.panels(ax, shape, *size, height_ratios=heights, sharex="row", sharey="row")


def _draw(
    ax: Any, model: Any, match: _Match | None, features: NDArray[np.intp], level: float
) -> None:
    if match is None:
        tidy_bars(ax)
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", color=style.GREY)
        return
    draw_bars(ax, match.loadings, features, unclear(model, match.number, level))
    ax.set_title(f"component {match.number}, cosine {match.cosine:.2f}", fontsize="small")
