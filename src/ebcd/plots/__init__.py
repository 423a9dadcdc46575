"""Plots of fitted estimators (need matplotlib: ``pip install "ebcd[plots]"``).

Every function takes a fitted estimator of this package, draws on the axes given as ``ax`` or on a
new figure, and returns the axes. Matplotlib is imported when the first plot is drawn.
"""

from ebcd.plots._compare import compare
from ebcd.plots._components import components
from ebcd.plots._heatmap import heatmap
from ebcd.plots._progress import elbo
from ebcd.plots._scores import scores
from ebcd.plots._shrinkage import shrinkage
from ebcd.plots._variance import explained_variance

__all__ = [
    "compare",
    "components",
    "elbo",
    "explained_variance",
    "heatmap",
    "scores",
    "shrinkage",
]
