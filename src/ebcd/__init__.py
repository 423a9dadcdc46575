"""Empirical Bayes covariance decomposition, and the normal-means solvers under it."""

from ebcd import datasets, io, metrics, peers, penalties, plots, priors, report
from ebcd.data import Chunks, Gram
from ebcd.estimators import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.io import load, save
from ebcd.priors import EBNMResult, ebnm

__version__ = "0.1.0"

__all__ = [
    "EBCD",
    "Chunks",
    "EBNMResult",
    "Gram",
    "PenalizedPCA",
    "PenalizedPCACV",
    "__version__",
    "datasets",
    "ebnm",
    "io",
    "load",
    "metrics",
    "peers",
    "penalties",
    "plots",
    "priors",
    "report",
    "save",
]
