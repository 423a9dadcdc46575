"""Cross-validation of penalised PCA: every strength on the training rows of every fold, at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance, from_matrix, is_sparse
from ebcd.fitting._alternate import Index, alternate
from ebcd.fitting._methods import METHODS
from ebcd.fitting._penalized import SETTINGS
from ebcd.fitting._rotation import inverse_root, multiply, polar_product
from ebcd.fitting._starts import svd_start
from ebcd.penalties import AbstractPenalty


class Fold(NamedTuple):
    """One split of the data.

    Attributes
    ----------
    covariance : AbstractCovariance
        Of the training rows.
    test : array
        Test rows, centred and scaled by the training rows, in working units of the covariance.
    divisor : array of length p
        What the features were divided by.
    principal : array, k x p
        Principal components of the training rows.
    """

    covariance: AbstractCovariance
    test: Array
    divisor: Array
    principal: Array


def make_fold(
    x: Any, train: Index, test: Index, *, center: bool, scale: bool, k: int, n_fits: int
) -> Fold:
    """Centre and scale training rows by themselves, test rows by the training rows."""
    data = from_matrix(x[train], center, scale, None)
    covariance = data.covariance.best_route(k * n_fits)
    divisor = data.scale * covariance.unit
    rows = x[test].toarray() if is_sparse(x) else x[test]
    left_out = (
        np.asarray(rows, dtype=np.float64) - (0.0 if data.mean is None else data.mean)
    ) / divisor
    found = svd_start(covariance, min(k, covariance.n_samples, covariance.n_features))
    principal = np.vstack([found, np.zeros((k - len(found), x.shape[1]))])
    return Fold(covariance, left_out, divisor, principal)


def held_out_errors(
    folds: list[Fold],
    starts: Array,
    penalty: AbstractPenalty,
    alphas: Array,
    *,
    tol: float,
    max_iter: int,
    warm_path: bool = False,
) -> Array:
    """Compute squared errors of test rows projected on the loadings, in units of the data.

    Parameters
    ----------
    folds : list of Fold
    starts : array, folds x k x p
        Loadings to start from, in working units of each fold.
    penalty : AbstractPenalty
    alphas : array
        Strengths of the penalty, each of which is tried on every fold; increasing.
    tol : float
        Gain of an iteration, as a share of half the sum of squares, below which a fit stops.
    max_iter : int
        Largest number of iterations.
    warm_path : bool
        Whether a strength starts where the one before it ended.

    Returns
    -------
    array, folds x alphas
    """
    errors = np.empty((len(folds), alphas.size))
    tasks = np.array([(f, a) for f in range(len(folds)) for a in range(alphas.size)])
    size = max(1, SETTINGS.largest_stack // max(starts[0].size, 1))
    parts = [tasks[i : i + size] for i in range(0, len(tasks), size)]
    if warm_path:
        parts = [tasks[tasks[:, 1] == a] for a in range(alphas.size)]
    for part in parts:
        which, strength = part[:, 0], alphas[part[:, 1]]
        loadings = _fit_together(folds, starts[which], penalty, which, strength, tol, max_iter)
        if warm_path:
            starts = loadings
        for f in np.unique(which):
            error = _left_over(folds[f].test, loadings[which == f])
            errors[f, part[which == f, 1]] = error * folds[f].covariance.unit ** 2
    return errors


def _fit_together(
    folds: list[Fold],
    starts: Array,
    penalty: AbstractPenalty,
    which: Index,
    alpha: Array,
    tol: float,
    max_iter: int,
) -> Array:
    """Fit a stack: each fit has a fold, given by its number in increasing order, and a strength."""
    covariances = [fold.covariance for fold in folds]
    n = np.array([covariances[f].n_samples for f in which])
    length = np.sqrt(n) * np.array([covariances[f].unit for f in which])
    total = n * np.array([covariances[f].trace() for f in which])

    def rotate(loadings: Array, fits: Index) -> Array:
        product = np.empty_like(loadings)
        ends = np.searchsorted(which[fits], np.arange(len(folds) + 1))
        for covariance, begin, end in zip(covariances, ends, ends[1:], strict=False):
            if begin < end:
                multiply(covariance, loadings[begin:end], out=product[begin:end])
        return polar_product(loadings, product)

    shrinkage = METHODS["PenalizedPCA"].shrinkage(
        penalty, alpha[:, None, None], length[:, None, None], n
    )
    size = 0.5 * np.where(total > 0, total, 1.0)
    fits = alternate(
        rotate, shrinkage, starts, tol=tol, max_iter=max_iter, size=size, momentum=True
    )
    return np.array([fit.loadings for fit in fits])


def _left_over(test: Array, loadings: Array) -> Array:
    """Compute the squared distance of test rows from the space that each set of loadings spans."""
    size = np.sqrt(np.vecdot(loadings, loadings))
    unit = loadings / np.where(size > 0, size, 1.0)[:, :, None]
    _, k, p = unit.shape
    scores = (unit.reshape(-1, p) @ test.T).reshape(-1, k, len(test))
    basis = inverse_root(unit @ unit.swapaxes(1, 2)) @ scores
    return np.asarray(np.vecdot(test, test).sum() - (basis**2).sum(axis=(1, 2)))
