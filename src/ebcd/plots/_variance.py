"""Variance explained by components, and by principal components of the same data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ebcd._numerics import Array
from ebcd.data import as_input
from ebcd.plots import _style as style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    style.check_model(model)
    count = model.n_components_
    axes = style.one_axes(ax, 3.4 + 0.5 * min(max(count, 3), style.LABELLED), 3.6)
    if count == 0:
        style.say_nothing_found(axes, model)
        return axes
    shares = {type(model).__name__: 100 * model.explained_variance_ratio_}
    if X is not None:
        shares["PCA"] = 100 * pca_variance_ratio(model, X)
    width = 0.8 / len(shares)
    for i, (name, values) in enumerate(shares.items()):
        places = np.arange(values.size) + (i - 0.5 * (len(shares) - 1)) * width
        label = f"{name}: {values.sum():.1f}% in total"
        axes.bar(places, values, width=width, color=(style.BLUE, style.GREY)[i], label=label)
    axes.set_xlabel("component")
    axes.set_ylabel("% of the variance")
    if count <= style.LABELLED:
        axes.set_xticks(range(count))
    # above the bars, where nothing can be in the way
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)
    style.tidy(axes)
    return axes


def pca_variance_ratio(model: Any, X: Any) -> Array:
    """Compute the variance shares of as many principal components as the model has components.

    The data are centred and scaled as in the fit of the model; shares are of the variance in the
    units of the data, like ``model.explained_variance_ratio_``.

    Parameters
    ----------
    model : estimator
        A fitted estimator of this package.
    X : array-like, sparse matrix, data frame or Gram
        The data, without missing entries.

    Returns
    -------
    ndarray of shape (k,)

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd import EBCD
    >>> from ebcd.report import pca_variance_ratio
    >>> X = np.outer([1.0, -1.0, 2.0, -2.0], [3.0, 0.0, 4.0])
    >>> X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    >>> model = EBCD(1).fit(X)
    >>> bool(pca_variance_ratio(model, X)[0] > model.explained_variance_ratio_[0])
    True
    """
    style.check_model(model)
    if model.n_components_ == 0:
        return np.empty(0)
    data = as_input(X, model.center, getattr(model, "scale", False))
    values, vectors = data.covariance.leading(model.n_components_)
    loadings = np.sqrt(values) * vectors * (data.scale * data.covariance.unit)[:, None]
    return np.sort((loadings**2).sum(axis=0) / data.variances.sum())[::-1]
