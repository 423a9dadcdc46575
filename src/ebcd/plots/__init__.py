"""Plots of fitted estimators (need matplotlib: ``pip install "ebcd[plots]"``).

Every function takes a fitted estimator of this package, draws on the axes given as ``ax`` or on a
new figure, and returns the axes. Features have the names given as ``feature_names``, those seen in
`fit`, or x0, x1 and so on. Colors are those of the report. Matplotlib is imported when the first
plot is drawn.
"""

from ebcd.plots._fit import elbo, explained_variance, shrinkage, stability
from ebcd.plots._loadings import compare, components, heatmap, memberships
from ebcd.plots._scores import biplot, scores

__all__ = [
    "biplot",
    "compare",
    "components",
    "elbo",
    "explained_variance",
    "heatmap",
    "memberships",
    "scores",
    "shrinkage",
    "stability",
]
