"""The methods that are compared, each with the settings of the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import SparsePCA

from ebcd import EBCD, PenalizedPCACV
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, GPower

PAPER_GRID = np.linspace(0.0, 10.0, 25)  # strengths of the L1 penalty
GAMMAS = tuple(round(0.01 * step, 2) for step in range(1, 100))
SPARSE_PCA_DEFAULT = 1.0
SPARSE_PCA_ALPHAS = (SPARSE_PCA_DEFAULT, 1.5, 2.0, 3.0, 4.0, 6.0)
MU = (1.0, 0.5)


class Fitted(NamedTuple):
    """Loadings in the units of the data (p x k), and the ELBO where there is one."""

    loadings: np.ndarray
    elbo: float | None = None


class Method(NamedTuple):
    """A method; with a grid it is fitted at every value of its parameter."""

    label: str
    fit: Callable[..., Fitted]
    grid: tuple[float, ...] | None = None
    settings: tuple[int, ...] = (1, 2)


def _result(model: Any) -> Fitted:
    return Fitted(model.components_.T, getattr(model, "elbo_", None))


def _ebcd(**options: Any) -> Callable[..., Fitted]:
    return lambda X, k, folds: _result(EBCD(k, center=False, **options).fit(X))


def _ebmf(prior: str) -> Callable[..., Fitted]:
    return lambda X, k, folds: _result(EBMF(k, loadings_prior=prior, center=False).fit(X))


def _l1(X: np.ndarray, k: int, folds: Any) -> Fitted:
    return _result(PenalizedPCACV(k, alphas=PAPER_GRID, cv=folds, center=False).fit(X))


def _spc(X: np.ndarray, k: int, folds: Any) -> Fitted:
    return _result(SPC(k, sumabs="cv", center=False).fit(X))


def _gpower(X: np.ndarray, k: int, folds: Any, gamma: float) -> Fitted:
    return _result(GPower(k, gamma=gamma, mu=MU, center=False).fit(X))


def _ebpca(X: np.ndarray, k: int, folds: Any) -> Fitted:
    return _result(EBPCA(k, center=False).fit(X))


def _itspca(X: np.ndarray, k: int, folds: Any) -> Fitted:
    return _result(ITSPCA(k, center=False).fit(X))


def pca(X: np.ndarray, k: int, folds: Any = None) -> Fitted:
    """Principal components of data that are not centered, for scores of mean square one."""
    _, lengths, directions = np.linalg.svd(X, full_matrices=False)
    return Fitted(directions[:k].T * (lengths[:k] / np.sqrt(len(X))))


def _sparse_pca(X: np.ndarray, k: int, folds: Any, alpha: float) -> Fitted:
    # Unlike the others it cannot do without centering.
    model = SparsePCA(k, alpha=alpha, random_state=0).fit(X)
    return Fitted(rescaled(X - model.mean_, model.components_.T))


def rescaled(X: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Scale directions by the root mean square of their least-squares scores."""
    scores = np.linalg.lstsq(directions, X.T, rcond=None)[0].T
    return directions * np.sqrt((scores**2).mean(axis=0))


METHODS = {
    "ebcd_pl": Method("EBCD-pl", _ebcd()),
    "ebcd_pl_greedy": Method("EBCD-pl, greedy start", _ebcd(start="greedy")),
    "ebcd_pl_relaxed": Method("EBCD-pl, relaxed scores", _ebcd(scores="relaxed")),
    "ebcd_pl_integrated": Method("EBCD-pl, integrated scores", _ebcd(scores="integrated")),
    "ebcd_l": Method("EBCD-l", _ebcd(prior="laplace")),
    "ebmf_pl": Method("EBMF-n/pl", _ebmf("point_laplace")),
    "ebmf_l": Method("EBMF-n/l", _ebmf("laplace")),
    "l1ppca": Method("L1-penalized PCA (CV)", _l1),
    "spc": Method("SPC (CV)", _spc),
    "gpower": Method("GPower (oracle)", _gpower, GAMMAS, settings=(1,)),
    "ebpca": Method("EB-PCA", _ebpca),
    "itspca": Method("ITSPCA", _itspca),
    "pca": Method("PCA", pca),
    "sparse_pca": Method("scikit-learn SparsePCA", _sparse_pca, SPARSE_PCA_ALPHAS),
}
