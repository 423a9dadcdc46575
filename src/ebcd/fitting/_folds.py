"""Many penalised fits at once: every strength on the training rows of every fold.

The fits do not depend on each other, so the loadings of all are one stack of matrices and an
iteration is a few large products in place of many small ones. Scores stay on the side of the
samples, on the scale ``Z'Z = I``:

(1) ``A = X L``, and from it ``Z = E (E'E)^(-1/2)`` with ``E = A`` at first;
(2) ``L = prox(X'Z)``;
(3) once gains are small, ``E = A + m (A - A_before)``: momentum, which begins anew where the
    criterion falls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ebcd._numerics import Array
from ebcd.data import from_matrix, is_sparse
from ebcd.fitting._momentum import SMALL_GAIN, momentum
from ebcd.fitting._penalty_shrinker import Strength
from ebcd.fitting._starts import svd_start
from ebcd.penalties import AbstractPenalty

Index = NDArray[np.integer[Any]]

_LARGEST_STACK = 4_000_000  # entries of all loadings


class DenseRows:
    """Training rows in memory, centred and scaled; tall ones as their triangular factor."""

    def __init__(self, x: Array) -> None:
        tall = x.shape[0] > x.shape[1]
        self._x: Array = np.asarray(np.linalg.qr(x, mode="r")) if tall else x
        self._transposed = np.ascontiguousarray(self._x.T)
        self.n_rows = self._x.shape[0]

    def scores(self, loadings: Array, out: Array) -> None:
        """Product of rows of loadings with the transposed data."""
        np.matmul(loadings, self._transposed, out=out)

    def pull(self, scores: Array, out: Array) -> None:
        """Product of rows of scores with the data."""
        np.matmul(scores, self._x, out=out)


class SparseRows:
    """Sparse training rows, scaled; centred by centring the scores."""

    def __init__(self, x: Any, center: bool) -> None:
        self._x, self._center = x, center
        self.n_rows = x.shape[0]

    def scores(self, loadings: Array, out: Array) -> None:
        """Product of rows of loadings with the transposed data."""
        out[:] = (self._x @ loadings.T).T
        if self._center:
            out -= out.mean(axis=-1, keepdims=True)

    def pull(self, scores: Array, out: Array) -> None:
        """Product of rows of scores, which are centred, with the data."""
        out[:] = (self._x.T @ scores.T).T


class Fold(NamedTuple):
    """One split of the data, in working units of its training rows."""

    rows: DenseRows | SparseRows
    test: Array
    unit: float
    divisor: Array  # what the features were divided by, unit included
    n_samples: int
    total: float  # sum of squares of the training rows
    principal: Array  # k loadings of principal components, Z'Z = I


def make_fold(x: Any, train: Index, test: Index, center: bool, scale: bool, k: int) -> Fold:
    """Centre and scale training rows by themselves, test rows by the training rows."""
    data = from_matrix(x[train], center, scale, None)
    covariance = data.covariance
    divisor = data.scale * covariance.unit
    mean = np.zeros(x.shape[1]) if data.mean is None else data.mean
    left_out = (_dense(x[test]) - mean) / divisor
    rows: DenseRows | SparseRows
    if is_sparse(x):
        rows = SparseRows(x[train].multiply(1 / divisor).tocsr(), center)
    else:
        rows = DenseRows((_dense(x[train]) - mean) / divisor)
    n = covariance.n_samples
    found = svd_start(covariance, min(k, n, covariance.n_features)) * np.sqrt(n)
    principal = np.vstack([found, np.zeros((k - len(found), x.shape[1]))])
    total = n * covariance.trace()
    return Fold(rows, left_out, covariance.unit, divisor, n, total, principal)


def held_out_errors(
    folds: list[Fold],
    starts: list[Array],
    penalty: AbstractPenalty,
    alphas: Array,
    *,
    tol: float,
    max_iter: int,
    warm_path: bool = False,
) -> Array:
    """Squared errors of test rows projected on the loadings, one row a fold, in units of the data.

    Parameters
    ----------
    folds : list of Fold
    starts : list of array, k x p
        Loadings to start from, in working units of each fold, ``Z'Z = I``.
    penalty : AbstractPenalty
    alphas : array
        Strengths of the penalty, each of which is tried on every fold; increasing.
    tol : float
        Gain an iteration, as a share of the sum of squares, below which a fit stops.
    max_iter : int
        Largest number of iterations.
    warm_path : bool
        Whether a strength starts where the one before it ended.
    """
    if warm_path:
        return _errors_along_path(folds, starts, penalty, alphas, tol, max_iter)
    errors = np.empty((len(folds), alphas.size))
    size = max(1, _LARGEST_STACK // max(starts[0].size, 1))
    tasks = np.array([(f, a) for f in range(len(folds)) for a in range(alphas.size)])
    for first in range(0, len(tasks), size):
        part = tasks[first : first + size]
        stack = _Stack(folds, starts, penalty, part[:, 0], alphas[part[:, 1]])
        loadings = stack.run(tol, max_iter)
        for f in np.unique(part[:, 0]):
            mine = part[:, 0] == f
            left = _left_over(folds[f].test, loadings[mine])
            errors[f, part[mine, 1]] = left * folds[f].unit ** 2
    return errors


def _errors_along_path(
    folds: list[Fold],
    starts: list[Array],
    penalty: AbstractPenalty,
    alphas: Array,
    tol: float,
    max_iter: int,
) -> Array:
    errors = np.empty((len(folds), alphas.size))
    each = np.arange(len(folds))
    for a, alpha in enumerate(alphas):
        stack = _Stack(folds, starts, penalty, each, np.full(each.size, alpha))
        starts = list(stack.run(tol, max_iter))
        for f, fold in enumerate(folds):
            errors[f, a] = _left_over(fold.test, starts[f][None])[0] * fold.unit**2
    return errors


class _Stack:
    """Loadings of several fits, those of a fold next to each other."""

    def __init__(
        self,
        folds: list[Fold],
        starts: list[Array],
        penalty: AbstractPenalty,
        fold: Index,
        alpha: Array,
    ) -> None:
        self._folds, self._penalty = folds, penalty
        self._fold, self._alpha = fold, alpha
        self._total = 0.5 * np.array([folds[f].total or 1.0 for f in fold])
        self._units = np.array([folds[f].unit for f in fold])
        self._loadings = np.array([starts[f] for f in fold])
        self._buffer = np.empty_like(self._loadings)  # large arrays are slow to get
        self._n_rows = max(fold.rows.n_rows for fold in folds)

    def run(self, tol: float, max_iter: int) -> Array:
        """Iterate every fit to its end."""
        found = np.zeros_like(self._loadings)
        index = np.arange(len(found))
        loadings, before = self._loadings, None
        value, age = np.full(len(found), -np.inf), np.zeros(len(found))
        total, strength, parts = self._total, self._strength(index), self._parts(index)
        for _ in range(max_iter):
            scores = self._scores(loadings, parts)
            used = scores if before is None else _extrapolated(scores, before, age)
            b = self._pull(_orthonormal(used), parts)
            loadings = strength.prox(b)
            new = (np.vecdot(loadings, b) - 0.5 * np.vecdot(loadings, loadings)).sum(axis=1)
            new -= strength.value(loadings).sum(axis=1)
            gain, value, before = (new - value) / total, new, scores
            age = np.where((gain < 0) | (gain > SMALL_GAIN), 0.0, age + 1)
            going = np.abs(gain) >= tol
            if not going.all():
                found[index[~going]] = loadings[~going]
                index, loadings, before = index[going], loadings[going], before[going]
                value, age, total = value[going], age[going], total[going]
                if index.size == 0:
                    break
                strength, parts = self._strength(index), self._parts(index)
        found[index] = loadings
        return found

    def _strength(self, index: Index) -> Strength:
        shape = (-1, 1, 1)
        return Strength(
            self._penalty, self._alpha[index].reshape(shape), self._units[index].reshape(shape)
        )

    def _parts(self, index: Index) -> list[tuple[Fold, slice]]:
        """Folds that are still being fitted, and where their fits are."""
        ends = np.searchsorted(self._fold[index], np.arange(len(self._folds) + 1))
        return [
            (fold, slice(ends[f], ends[f + 1]))
            for f, fold in enumerate(self._folds)
            if ends[f] < ends[f + 1]
        ]

    def _scores(self, loadings: Array, parts: list[tuple[Fold, slice]]) -> Array:
        count, k, p = loadings.shape
        scores = np.zeros((count * k, self._n_rows))
        for fold, part in parts:
            mine = scores[part.start * k : part.stop * k, : fold.rows.n_rows]
            fold.rows.scores(loadings[part].reshape(-1, p), out=mine)
        return scores.reshape(count, k, -1)

    def _pull(self, scores: Array, parts: list[tuple[Fold, slice]]) -> Array:
        p = self._loadings.shape[2]
        b = self._buffer[: len(scores)]
        for fold, part in parts:
            rows = fold.rows.n_rows
            fold.rows.pull(scores[part, :, :rows].reshape(-1, rows), out=b[part].reshape(-1, p))
        return b


def _extrapolated(scores: Array, before: Array, age: Array) -> Array:
    step = momentum(age)[:, None] * scores.any(axis=2)  # what is empty stays so
    change = scores - before
    change *= step[:, :, None]
    change += scores
    return np.asarray(change)


def _orthonormal(scores: Array) -> Array:
    """Nearest orthonormal rows of each matrix; zero where rows are dependent."""
    return np.asarray(_inverse_roots(scores @ scores.swapaxes(1, 2)) @ scores)


def _inverse_roots(grams: Array) -> Array:
    values, vectors = np.linalg.eigh(grams)
    kept = values > np.maximum(values[:, -1:], 0.0) * values.shape[1] * 1e-15
    scale = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray((vectors * scale[:, None]) @ vectors.swapaxes(1, 2))


def _left_over(test: Array, loadings: Array) -> Array:
    """Squared distance of test rows from the space that each set of loadings spans."""
    size = np.sqrt(np.vecdot(loadings, loadings))
    unit = loadings / np.where(size > 0, size, 1.0)[:, :, None]
    _, k, p = unit.shape
    scores = (unit.reshape(-1, p) @ test.T).reshape(-1, k, len(test))
    basis = _inverse_roots(unit @ unit.swapaxes(1, 2)) @ scores
    return np.asarray(np.vecdot(test, test).sum() - (basis**2).sum(axis=(1, 2)))


def _dense(x: Any) -> Array:
    return np.asarray(x.toarray() if is_sparse(x) else x, dtype=np.float64)
