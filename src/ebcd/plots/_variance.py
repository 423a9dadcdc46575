"""How much variance components explain."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ebcd._numerics import Array
from ebcd.estimators import PenalizedPCA
from ebcd.plots._style import BLUE, UNSURE, check_model, nothing, one_axes, say, tidy


def explained_variance(model: Any, X: Any = None, *, ax: Any = None) -> Axes:
    """Draw the share of the variance that each component explains, beside that of PCA.

    Parameters
    ----------
    model : estimator
        Any fitted estimator of this package.
    X : array-like, sparse matrix or data frame of shape (n, p), optional
        The training data. If given, the shares of as many principal components are drawn as well;
        no uncorrelated components explain more in total.
    ax : Axes, optional
        Where to draw.

    Returns
    -------
    Axes

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2).fit(sea.data)
    >>> ax = ebcd.plots.explained_variance(model, sea.data)
    >>> len(ax.patches)
    4
    """
    check_model(model)
    count = model.n_components_
    axes = one_axes(ax, 3.4 + 0.5 * min(max(count, 3), 16), 3.6)
    if count == 0:
        say(axes, nothing(model))
        return axes
    shares = {type(model).__name__: 100 * model.explained_variance_ratio_}
    if X is not None:
        shares["PCA"] = 100 * _principal_shares(model, X)
    width = 0.8 / len(shares)
    for i, (name, values) in enumerate(shares.items()):
        places = np.arange(values.size) + (i - 0.5 * (len(shares) - 1)) * width
        label = f"{name}: {values.sum():.1f}% in total"
        axes.bar(places, values, width=width, color=(BLUE, UNSURE)[i], label=label)
    axes.set_xlabel("component")
    axes.set_ylabel("% of the variance")
    if count <= 16:
        axes.set_xticks(range(count))
    # above the bars, where nothing can be in the way
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)
    tidy(axes)
    return axes


def _principal_shares(model: Any, X: Any) -> Array:
    """Shares of the principal components of data that are centred and scaled as in the fit."""
    pca = PenalizedPCA(
        model.n_components_,
        penalty="none",
        center=model.center,
        scale=getattr(model, "scale", False),
        start="svd",
        max_iter=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it starts at the solution
        return np.asarray(pca.fit(X).explained_variance_ratio_)
