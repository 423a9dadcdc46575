"""Sparse principal components by a penalized matrix decomposition (SPC)."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from ebcd._numerics import Array
from ebcd._parameters import as_generator, choice, integer, or_list, real
from ebcd.data import AbstractCovariance, Input, as_dense
from ebcd.estimators._base import with_parameters
from ebcd.estimators._sparse import SparseDecomposition
from ebcd.fitting._deflation import Deflated
from ebcd.fitting._methods import METHODS, Components, threshold_for_sum, unit_rows
from ebcd.penalties import L1


@with_parameters
class SPC(SparseDecomposition):
    """Sparse principal components of Witten, Tibshirani and Hastie (2009), their Algorithm 2.

    Finds one component after another: scores ``u`` and loadings ``v`` that maximize ``u'Xv`` with
    ``||u|| = 1``, ``||v|| <= 1`` and ``||v||_1 <= sumabs``, where ``u`` is orthogonal to the
    previous scores. The shrinkage is a soft threshold whose level follows from `sumabs`; the
    deflation removes the scores found so far from the data.

    Parameters
    ----------
    n_components : int
        Number of components.
    sumabs : float, list of float or "cv", default "cv"
        Maximum sum of magnitudes of the loadings of a component of length one, between 1 (one
        loading) and ``sqrt(p)`` (no shrinkage), for all components or for each. "cv" chooses it for
        one component after another, from 25 values, by cross-validation over entries: each of `cv`
        fits leaves out a part of the entries and is judged by its error on them.
    cv : int, default 5
        Number of parts of the entries.
    center, scale : bool
        As in `ebcd.PenalizedPCA`.
    tol : float, default 1e-8
        Relative gain of the criterion in an iteration at which a component is done.
    max_iter : int, default 1000
        Maximum number of iterations for a component.
    random_state : int, Generator or None, default None
        Seed of the parts; None stands for a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Loadings, in the units of the data: ``v u'Xv / sqrt(n)``, for scores of mean square one.
    sumabs_ : ndarray of shape (k,)
        The sums of magnitudes that were given or chosen, in the order of the components.
    objective_ : float
        The sum of ``u'Xv / sqrt(n)`` over components, each of which was maximized, in the units of
        the (scaled) data. ``objective_path_`` has its values after every iteration, for the
        components found so far.

    Notes
    -----
    Other attributes are those of `ebcd.PenalizedPCA`. Only cross-validation needs the data
    themselves; `fit_covariance` works for a given `sumabs`.

    References
    ----------
    Witten, D. M., Tibshirani, R. and Hastie, T. (2009). A penalized matrix decomposition, with
    applications to sparse principal components and canonical correlation analysis. Biostatistics
    10, 515-534.

    Examples
    --------
    >>> from ebcd.datasets import make_simulation
    >>> from ebcd.peers import SPC
    >>> X, V, Sigma = make_simulation(random_state=0)
    >>> SPC(1, sumabs=3.0).fit(X).components_[0].nonzero()[0]
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    _declared: ClassVar = SparseDecomposition._declared | {
        "sumabs": choice("cv") | or_list(real("a number of at least 1", lambda value: value >= 1)),
        "cv": integer(2),
    }
    _lists = ("sumabs",)
    _remedy = "raise sumabs"
    _detail = "sumabs_"
    _degree = 1
    _criterion = "standard deviations of components, to be large"

    n_components: int
    _: KW_ONLY
    sumabs: Any = "cv"
    cv: int = 5
    center: bool = True
    scale: bool = False
    tol: float = 1e-8
    max_iter: int = 1000
    random_state: Any = None

    @property
    def _needs_rows(self) -> str:  # type: ignore[override]
        return (
            'sumabs="cv" holds out entries; pass a number' if isinstance(self.sumabs, str) else ""
        )

    def _check(self, data: Input) -> None:
        n, p = data.covariance.n_samples, data.covariance.n_features
        if isinstance(self.sumabs, str):
            integer(2, n * p).check("cv", self.cv)
            return
        most, largest = np.sqrt(p), np.max(self.sumabs)
        if largest > most and not np.isclose(largest, most):
            raise ValueError(
                "sumabs must lie between 1 and the square root of the number of features, "
                f"{most:.4g}, got {largest:g}"
            )

    def _find(self, covariance: AbstractCovariance, principal: Array, data: Input) -> Components:
        method, count = METHODS["SPC"], len(principal)
        choose = isinstance(self.sumabs, str)
        sums = np.zeros(count) if choose else self._per_component("sumabs")[:count]
        x = np.empty((0, 0))
        if choose:
            unit = data.scale * covariance.unit
            x = np.asarray((as_dense(data.matrix) - data.mean) / unit, dtype=np.float64)
        rng = as_generator(self.random_state, default=0)

        def prepare(k: int, left: Deflated) -> tuple[tuple[Any, ...], Array]:
            start = left.leading(1)[1].T if k else principal[:1]
            if choose:
                sums[k] = best_sumabs(left.deflate(x), start[0], self.cv, rng)
            return (sums[k],), start[None]

        found = method.fit_one_by_one(
            covariance, count, prepare, tol=self.tol, max_iter=self.max_iter
        )
        return found._replace(levels=threshold_for_sum(found.observed, sums), detail=sums)

    def _threshold(self, observed: Array, level: float) -> Array:
        return L1().prox(observed, np.asarray(level))


def best_sumabs(x: Array, start: Array, n_folds: int, rng: np.random.Generator) -> float:
    """Choose the sum of magnitudes of a first component by cross-validation over entries.

    All fits start from the first component of all data, so that they are about the same one.
    """
    candidates = np.unique(np.linspace(1.0, np.sqrt(x.shape[1]), 25))
    fold = rng.permutation(np.arange(x.size) % n_folds).reshape(x.shape)
    errors = [_held_out_error(x, fold == part, candidates, start) for part in range(n_folds)]
    return float(candidates[int(np.argmin(np.sum(errors, axis=0)))])


def _held_out_error(x: Array, held_out: Array, candidates: Array, start: Array) -> Array:
    """Squared error of the entries held out, but for a constant, for every candidate at once.

    The criterion ``u'Xv`` leaves out the entries held out; that is, they count as zero.
    """
    known, v = np.where(held_out, 0.0, x), np.tile(start, (len(candidates), 1))
    for _ in range(5):  # as the authors do
        b = unit_rows(v @ known.T) @ known
        v = unit_rows(L1().prox(b, threshold_for_sum(b, candidates)[:, None]))
    scores = v @ known.T
    u = unit_rows(scores)
    size = np.einsum("cn,cn->c", u, scores)
    cross = np.einsum("cn,cn->c", u, v @ (x - known).T)
    square = np.einsum("cn,cn->c", u**2, v**2 @ held_out.T.astype(np.float64))
    return np.asarray(size * (size * square - 2 * cross))
