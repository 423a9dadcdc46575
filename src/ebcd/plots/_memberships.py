"""Memberships of clusters that may overlap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebcd.estimators._binary import memberships as membership_probabilities
from ebcd.plots import _style as style
from ebcd.plots._loadings import _LABELLED

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def memberships(
    model: Any, *, sort: bool = True, feature_names: Any = None, ax: Any = None
) -> Axes:
    """Draw the probability of each feature to belong to each component, one component per row.

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
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    Axes

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
    axes = style.one_axes(ax, 7.0, 1.4 + 0.35 * max(k, 2))
    if k == 0:
        style.say_nothing_found(axes, model)
        return axes
    order = np.arange(p)
    if sort:  # by the first component, among its members by the second, and so on
        order = np.lexsort([*-found[::-1], *-(found[::-1] > 0.5).astype(int)])
    colours: dict[str, Any] = {
        "cmap": "Blues",
        "vmin": 0.0,
        "vmax": 1.0,
        "interpolation": "nearest",
    }
    drawn = axes.imshow(found[:, order], aspect="auto", **colours)
    axes.figure.colorbar(drawn, ax=axes, label="membership", shrink=0.9)
    if p <= _LABELLED:
        labels = [style.short(names[j]) for j in order]
        axes.set_xticks(range(p), labels, rotation=90, parse_math=False)
    else:
        axes.set_xticks([])
        axes.set_xlabel(f"{p:,} features{', sorted' if sort else ''}")
    axes.set_yticks(range(k))
    axes.set_ylabel("component")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return axes
