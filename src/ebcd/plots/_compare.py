"""Several estimators side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ebcd._numerics import Array
from ebcd.plots._components import bar_colours
from ebcd.plots._style import (
    INK,
    UNSURE,
    check_components,
    check_count,
    check_model,
    few_ticks,
    longest,
    nothing,
    panels,
    say,
    short,
    tidy,
)

_SIMILAR = 0.05  # cosine from which a sign can be compared
_VISIBLE = 0.01  # of the largest loading in a row


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

    A row is a component of the first estimator, a column an estimator. Components of the others
    are put beside those of the first to which they are most similar (so that the sum of absolute
    cosines is largest), and turned to the same sign. Scores have mean square one in all methods,
    so that loadings can be compared.

    Parameters
    ----------
    models : sequence of estimators, or dict of names and estimators
        Fitted estimators of this package, all with the same features.
    components : sequence of int, optional
        Which components of the first estimator; by default all.
    n : int, default 15
        Largest number of features in a row of panels: those that are largest in any of them, in
        the order of the first estimator.
    level : float, default 0.05
        Local false sign rate above which a bar is grey.
    feature_names : array-like of length p, optional
        Names of the features; by default those of the first estimator, or x0, x1 and so on.
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
    check_count("n", n)
    first = next(iter(named.values()))
    which = range(first.n_components_) if components is None else components
    which = check_components(first, list(which))
    names = first._feature_names(feature_names)
    matches = [_matched(first, model) for model in named.values()]
    features = [_features(matches, k, n) for k in which]
    heights = [0.9 + 0.22 * max(chosen.size, 3) for chosen in features] or [2.0]
    shape = max(len(which), 1), len(named)
    space = 0.09 * longest(names[j] for chosen in features for j in chosen)
    width = 2.3 + space / len(named)
    grid = {"height_ratios": heights, "sharex": "row", "sharey": "row"}
    axes = np.asarray(panels(ax, shape, width, float(np.mean(heights)), **grid))
    if not which:
        for panel in axes.ravel():
            say(panel, nothing(first))
    for k, row, chosen in zip(which, axes, features, strict=False):
        for model, match, panel in zip(named.values(), matches, row, strict=True):
            _draw(panel, model, match[k], chosen, level)
        row[0].set_yticks(range(chosen.size), [short(names[j]) for j in chosen], parse_math=False)
        row[0].set_ylim(chosen.size - 0.4, -0.6)
        row[0].set_ylabel(f"component {k}")
    for name, panel in zip(named, axes[0], strict=True):
        panel.set_title(f"{short(name)}\n{panel.get_title()}", fontsize="medium", parse_math=False)
    for panel in axes[-1]:
        panel.set_xlabel("loading", fontsize="small")
    return axes


class _Match:
    """A component of an estimator, turned to the sign of the one that it is compared with."""

    def __init__(self, number: int, loadings: Array, cosine: float) -> None:
        self.number, self.loadings, self.cosine = number, loadings, cosine


def _named(models: Any) -> dict[str, Any]:
    if isinstance(models, Mapping):
        named = {str(name): model for name, model in models.items()}
    else:
        if not isinstance(models, Sequence):
            raise TypeError(
                "models must be a list of fitted estimators, or a dict with their names"
            )
        named = {}
        for model in models:
            name = base = type(model).__name__
            count = 1
            while name in named:
                count += 1
                name = f"{base} {count}"
            named[name] = model
    if not named:
        raise ValueError("models is empty; give at least one fitted estimator")
    for model in named.values():
        check_model(model)
    sizes = {name: model.n_features_in_ for name, model in named.items()}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"models must have the same features, but {said}")
    return named


def _matched(first: Any, model: Any) -> dict[int, _Match | None]:
    """Give the component that belongs to each one of the first estimator, None if there is none."""
    ours, theirs = _directions(first.components_), _directions(model.components_)
    cosines = ours @ theirs.T
    found: dict[int, _Match | None] = dict.fromkeys(range(len(ours)))
    for k, i in zip(*linear_sum_assignment(-np.abs(cosines)), strict=True):
        sign = -1.0 if cosines[k, i] < -_SIMILAR else 1.0
        found[int(k)] = _Match(int(i), sign * model.components_[i], abs(float(cosines[k, i])))
    return found


def _directions(components: Array) -> Array:
    size = np.linalg.norm(components, axis=1, keepdims=True)
    return np.asarray(components / np.where(size > 0, size, 1.0))


def _features(matches: list[dict[int, _Match | None]], k: int, n: int) -> NDArray[np.intp]:
    loadings = [found.loadings for match in matches if (found := match[k]) is not None]
    size = np.abs(loadings).max(axis=0)
    visible = np.count_nonzero(size > _VISIBLE * size.max())
    chosen = np.argsort(-size, kind="stable")[: min(n, visible)]
    return chosen[np.argsort(-loadings[0][chosen], kind="stable")]


def _draw(
    ax: Axes, model: Any, match: _Match | None, which: NDArray[np.intp], level: float
) -> None:
    few_ticks(ax)
    tidy(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.axvline(0, color=INK, linewidth=0.8)
    if match is None:
        ax.text(0.5, 0.5, "none", transform=ax.transAxes, ha="center", color=UNSURE)
        return
    loadings = match.loadings[which]
    colours = bar_colours(model, match.number, which, level, loadings)
    ax.barh(np.arange(which.size), loadings, color=colours, height=0.72)
    ax.set_title(f"component {match.number}, cosine {match.cosine:.2f}", fontsize="small")
