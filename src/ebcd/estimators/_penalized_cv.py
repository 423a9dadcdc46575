"""Penalized PCA whose strength is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
from joblib import Parallel, delayed

from ebcd._numerics import Array
from ebcd._parameters import (
    FLAG,
    MOST_TRIALS,
    N_JOBS,
    NON_NEGATIVE,
    NONE,
    Constraint,
    integer,
    list_of,
)
from ebcd._warnings import warn_user
from ebcd.data import Input, as_dense, from_matrix
from ebcd.estimators._base import with_parameters
from ebcd.estimators._penalized import PenalizedDecomposition
from ebcd.fitting._alternate import Index
from ebcd.fitting._penalized import emptying_strengths, held_out_errors, oriented
from ebcd.fitting._progress import Monitor
from ebcd.fitting._starts import svd_start
from ebcd.penalties import AbstractPenalty, as_penalty


def _gives_splits(cv: Any) -> bool:
    return not isinstance(cv, str | bytes) and (hasattr(cv, "split") or isinstance(cv, Iterable))


@with_parameters
class PenalizedPCACV(PenalizedDecomposition):
    """Principal components with a penalty whose strength is chosen by cross-validation.

    For each of several strengths ``alpha``, common to all components, the model is fitted to the
    training rows of each fold. The held-out rows, centered and scaled like the training rows, are
    projected onto the space that the loadings span; the strength with the smallest mean squared
    error is used to fit all rows. By default every strength is fitted from the start, so that its
    error does not depend on the rest of the grid.

    Parameters
    ----------
    n_components : int
        Number of components.
    penalty : str or penalty, default "l1"
        As in `PenalizedPCA`.
    alphas : int or array-like, default 25
        Strengths to try. A number n stands for zero and n - 1 strengths whose thresholds form a
        geometric progression, from a thousandth of the one that empties every component up to that
        one.
    cv : int, splitter or iterable of (train, test), default 5
        Folds. A number stands for that many contiguous blocks of rows, as in scikit-learn.
    center, scale : bool
        As in `PenalizedPCA`; means and standard deviations are those of the training rows.
    start : "auto", "svd", "varimax" or array of shape (p, k), default "auto"
        As in `PenalizedPCA`; with "auto" folds are fitted from their principal components.
    warm_path : bool, default False
        Whether the fit of a strength starts from that of the next smaller one in each fold. Fits on
        a warm path stay near each other, but may stay in optima that other starts would avoid.
    tol : float, default 1e-9
        As in `PenalizedPCA`; ten times as large in folds.
    max_iter : int, default 2000
        Maximum number of iterations from a start.
    n_jobs : int or None, default None
        Number of processes that share the folds.
    random_state : int, Generator or None, default None
        Not used: every start is deterministic.
    verbose : int, default 0
        Whether to print the progress of the last fit.

    Attributes
    ----------
    alpha_ : float
        The strength that was chosen, the smallest of equally good ones. A warning says if it is at
        either end of the grid, unless it is zero and no penalty is best.
    alphas_ : ndarray of shape (n_alphas,)
        Strengths that were tried, increasing.
    cv_errors_ : ndarray of shape (n_alphas, n_folds)
        Mean squared errors of the held-out entries.
    mean_cv_error_ : ndarray of shape (n_alphas,)
        Their mean over the folds.

    Notes
    -----
    All attributes of `PenalizedPCA` are available as well, for the fit with ``alpha_``.

    Examples
    --------
    >>> from ebcd import PenalizedPCACV
    >>> from ebcd.datasets import make_simulation
    >>> X, V, Sigma = make_simulation(random_state=0)
    >>> PenalizedPCACV(2, alphas=[0, 10, 20, 40, 80]).fit(X).alpha_
    10.0
    """

    _declared: ClassVar = PenalizedDecomposition._declared | {
        "alphas": integer(2, MOST_TRIALS) | list_of("numbers of at least 0", NON_NEGATIVE),
        "cv": integer(2)
        | Constraint(("a splitter", "an iterable of (train, test) pairs"), _gives_splits)
        | NONE,
        "warm_path": FLAG,
        "n_jobs": N_JOBS,
    }
    _needs_rows = "it holds out rows; choose alpha yourself and use PenalizedPCA"

    n_components: int
    _: KW_ONLY
    penalty: Any = "l1"
    alphas: Any = 25
    cv: Any = 5
    center: bool = True
    scale: bool = False
    start: Any = "auto"
    warm_path: bool = False
    tol: float = 1e-9
    max_iter: int = 2000
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def _fit_data(self, data: Input, monitor: Monitor) -> Self:
        penalty = as_penalty(self.penalty)
        self.alphas_ = self._grid(penalty, data)
        self.cv_errors_ = self._errors(data.matrix, penalty)
        self.mean_cv_error_ = self.cv_errors_.mean(axis=1)
        best = int(self.mean_cv_error_.argmin())
        self.alpha_ = float(self.alphas_[best])
        self._warn_at_edge(best)
        return super()._fit_data(data, monitor)

    def _alpha(self) -> Array:
        return np.atleast_1d(self.alpha_)

    def _grid(self, penalty: AbstractPenalty, data: Input) -> Array:
        if np.ndim(self.alphas) == 0:
            # no entry of X'Z is larger than the norm of a column of X
            norms = np.sqrt(data.covariance.n_samples * data.variances) / data.scale
            largest = float(norms.max()) or 1.0
            # what is smaller than a thousandth hardly differs from no penalty
            sizes = np.geomspace(largest / 1000, largest, int(self.alphas) - 1)
            return np.concatenate([[0.0], emptying_strengths(penalty, sizes)])
        return np.unique(np.asarray(self.alphas, dtype=np.float64))

    def _errors(self, X: Any, penalty: AbstractPenalty) -> Array:
        from sklearn.model_selection import check_cv  # heavy, and only needed here

        rows = np.arange(X.shape[0])
        try:
            pairs = [map(np.ravel, pair) for pair in check_cv(self.cv).split(X)]
            splits = [(rows[train], rows[test]) for train, test in pairs]
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(f"cv must give pairs (train, test) of row numbers: {error}") from None
        if any(train.size == 0 or test.size == 0 for train, test in splits) or not splits:
            raise ValueError("cv must give splits with training and test rows")
        tasks = (delayed(self._fold_errors)(X, train, test, penalty) for train, test in splits)
        errors = np.transpose(Parallel(n_jobs=self.n_jobs)(tasks))
        counts = np.array([test.size for _, test in splits])
        return np.asarray(errors / counts / X.shape[1])

    def _fold_errors(self, X: Any, train: Index, test: Index, penalty: AbstractPenalty) -> Array:
        data = from_matrix(X[train], self.center, self.scale)
        k = self.n_components
        covariance = data.covariance.best_route(k * len(self.alphas_))
        unit = data.scale * covariance.unit
        found = svd_start(covariance, min(k, covariance.n_samples, covariance.n_features))
        principal = np.vstack([found, np.zeros((k - len(found), X.shape[1]))])
        return held_out_errors(
            covariance,
            (as_dense(X[test]) - data.mean) / unit,
            oriented(penalty, self._starts(principal, unit)[0]),
            penalty,
            self.alphas_,
            warm_path=self.warm_path,
            tol=10 * float(self.tol),  # errors of held-out rows need fewer digits than loadings
            max_iter=self.max_iter,
        )

    def _warn_at_edge(self, best: int) -> None:
        lowest, count = best == 0 and self.alpha_ > 0, len(self.alphas_)
        if count == 1 or not (lowest or best == count - 1):
            return
        side, where = ("smallest", "below") if lowest else ("largest", "above")
        warn_user(
            f"the best alpha is the {side} of the grid, {self.alpha_:g}; pass alphas that extend "
            f"{where} it",
        )
