"""Empirical Bayes covariance decomposition, and the normal-means solvers under it."""

from ebcd import datasets, metrics, priors
from ebcd.priors import EBNMResult, ebnm

__version__ = "0.1.0"

__all__ = ["EBNMResult", "__version__", "datasets", "ebnm", "metrics", "priors"]
