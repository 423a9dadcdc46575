"""Empirical Bayes covariance decomposition, and the normal-means solvers under it."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

from ebcd._version import __version__
from ebcd.data import Chunks, Gram
from ebcd.estimators import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.priors import EBNMResult, ebnm

if _TYPE_CHECKING:
    from ebcd import datasets, io, metrics, peers, penalties, plots, priors, report
    from ebcd.estimators._binary import gbcd, memberships, memberships_frame
    from ebcd.estimators._bootstrap import Bootstrap
    from ebcd.estimators._compare_priors import PriorComparison, compare_priors
    from ebcd.io import load, save

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

# What a fit does not need is imported when it is first used; the names in `_OPTIONAL` need extras.
_MODULES = {
    "Bootstrap": "estimators._bootstrap",
    "PriorComparison": "estimators._compare_priors",
    "compare_priors": "estimators._compare_priors",
    "gbcd": "estimators._binary",
    "load": "io",
    "memberships": "estimators._binary",
    "memberships_frame": "estimators._binary",
    "save": "io",
}
_OPTIONAL = ("anndata",)


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(_import_module(f"ebcd.{_MODULES[name]}"), name)
    if name in __all__ or name in _OPTIONAL:
        return _import_module(f"ebcd.{name}")
    raise AttributeError(f"module 'ebcd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_OPTIONAL])
