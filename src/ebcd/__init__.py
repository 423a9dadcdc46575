"""Empirical Bayes covariance decomposition, and the normal-means solvers under it."""

from importlib import import_module
from typing import Any

from ebcd import datasets, io, metrics, peers, penalties, plots, priors, report
from ebcd._version import __version__
from ebcd.data import Chunks, Gram
from ebcd.estimators import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.estimators._binary import gbcd, memberships, memberships_frame
from ebcd.estimators._bootstrap import Bootstrap
from ebcd.estimators._compare_priors import PriorComparison, compare_priors
from ebcd.io import load, save
from ebcd.priors import EBNMResult, ebnm

__all__ = [
    "EBCD",
    "Bootstrap",
    "Chunks",
    "EBNMResult",
    "Gram",
    "PenalizedPCA",
    "PenalizedPCACV",
    "PriorComparison",
    "__version__",
    "compare_priors",
    "datasets",
    "ebnm",
    "gbcd",
    "io",
    "load",
    "memberships",
    "memberships_frame",
    "metrics",
    "peers",
    "penalties",
    "plots",
    "priors",
    "report",
    "save",
]

_OPTIONAL = ("anndata",)  # modules that need extras, imported when they are first used


def __getattr__(name: str) -> Any:
    if name in _OPTIONAL:
        return import_module(f"ebcd.{name}")
    raise AttributeError(f"module 'ebcd' has no attribute {name!r}")
