"""Sparse PCA by iterative thresholding (ITSPCA)."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import ClassVar

import numpy as np

from ebcd._numerics import Array
from ebcd._parameters import MAX_ITER, NON_NEGATIVE, NONE, choice, real
from ebcd.data import AbstractCovariance, Input
from ebcd.estimators._base import with_parameters
from ebcd.estimators._readable import Shrinkage
from ebcd.estimators._sparse import SparseDecomposition
from ebcd.fitting._deflation import Selected
from ebcd.fitting._methods import METHODS, Components, threshold

_FACTOR = real("a number from 0 to 1e6", lambda value: 0 <= value <= 1e6)  # of a threshold


@with_parameters
class ITSPCA(SparseDecomposition):
    """Iterative thresholding of Ma (2013): orthogonal iteration with thresholds.

    Repeats ``Q <- QR(threshold(S Q))`` from the principal components of the features with large
    variances (diagonal thresholding). Thresholds follow from the data.

    Parameters
    ----------
    n_components : int
        Dimension of the subspace.
    thresholding : "hard", "soft" or "scad", default "hard"
        How entries are thresholded: those below the threshold are set to zero. Others are kept
        ("hard"), moved toward zero by the threshold ("soft"), or moved only if they are small
        ("scad", Fan and Li 2001).
    gamma : float, default 1.5
        Thresholds relative to the size of the noise: the entries of column j of ``S Q`` are
        compared with ``gamma * sqrt(sigma2 * l_j * log(max(n, p)) / n)``. Here ``sigma2`` is the
        variance of the noise, the median variance of the features, and ``l_j`` is the j-th
        eigenvalue of the covariance of the features chosen for the start, or ``sigma2`` if that is
        larger.
    alpha : float, default 3.0
        The start uses features with variances of at least
        ``sigma2 * (1 + alpha * sqrt(log(max(n, p)) / n))``. If there are fewer than `n_components`,
        it uses that many features of largest variance or, if all variances are equal, all features,
        which is ordinary PCA.
    center, scale : bool
        As in `ebcd.PenalizedPCA`. Scaled features all have the same variance, so the start is then
        ordinary PCA.
    tol : float or None, default None
        The iteration stops when the squared sine of the largest angle between successive subspaces
        is at most this; None stands for ``1 / n**2``.
    max_iter : int or None, default None
        Maximum number of iterations. None stands for ``1.1 l_1 / (l_k - l_(k+1)) ((1 + 1/log 2)
        log max(n, p) + max(0, log((l_1 - 1)^2 / l_1)))``, with ``l`` in units of ``sigma2``, which
        is enough for the theory; at most 5000.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Orthogonal loadings, in the units of the data, for scores of mean square one.
    thresholds_ : ndarray of shape (k,)
        Threshold of each component, in the units of the covariance (of scaled data if
        ``scale=True``).
    change_path_ : ndarray, one number an iteration
        How far each iteration rotated the subspace: the squared sine of the largest angle between
        successive subspaces, which is compared with `tol`. It is NaN if a component was dropped,
        since there is no such angle between subspaces of different dimensions.
    converged_ : bool
        Whether the subspace stopped moving. With thresholds, it may keep moving forever.

    Notes
    -----
    Other attributes are those of `ebcd.PenalizedPCA`. Since the QR step comes last, components are
    orthogonal, but all except the first are less sparse than after thresholding.

    References
    ----------
    Ma, Z. (2013). Sparse principal component analysis and iterative thresholding. Annals of
    Statistics 41, 772-801.

    Examples
    --------
    >>> from ebcd.datasets import make_simulation
    >>> from ebcd.peers import ITSPCA
    >>> X, V, Sigma = make_simulation(n_samples=100, random_state=0)
    >>> ITSPCA(2).fit(X).components_.any(axis=0).nonzero()[0]
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16,
           17, 18, 19])
    """

    _declared: ClassVar = SparseDecomposition._declared | {
        "thresholding": choice("hard", "soft", "scad"),
        "gamma": _FACTOR,
        "alpha": _FACTOR,
        "tol": NON_NEGATIVE | NONE,
        "max_iter": MAX_ITER | NONE,
    }
    _remedy = "lower gamma"
    _detail = "thresholds_"
    _criterion = "turn of the subspace (squared sine)"

    n_components: int
    _: KW_ONLY
    thresholding: str = "hard"
    gamma: float = 1.5
    alpha: float = 3.0
    center: bool = True
    scale: bool = False
    tol: float | None = None
    max_iter: int | None = None

    def _find(self, covariance: AbstractCovariance, principal: Array, data: Input) -> Components:
        n, k = covariance.n_samples, len(principal)
        variances = covariance.diagonal()
        noise = float(np.median(variances[variances > 0]))
        log_size = float(np.log(max(n, covariance.n_features)))
        values, q = diagonal_thresholding(
            covariance, k, noise * (1 + self.alpha * np.sqrt(log_size / n))
        )
        values = np.maximum(values, noise)
        levels = self.gamma * np.sqrt(noise * values[:k] * log_size / n)
        steps = self.max_iter or enough_steps(values / noise, k, log_size)
        method = METHODS["ITSPCA"]
        tol = 1 / n**2 if self.tol is None else self.tol
        parameters = self.thresholding, levels
        fit = method.fit(covariance, parameters, q[None], tol=tol, max_iter=steps)
        q, b = fit.loadings, method.rotation(covariance, fit.loadings)
        size = np.sqrt(np.maximum(np.vecdot(q, b), 0.0))[:, None]
        size = np.where(size > 0, size, 1.0)
        return Components(
            loadings=q * size,
            weights=q / size,
            observed=fit.observed / size,
            path=fit.path,
            n_iter=fit.path.size,
            converged=fit.converged,
            levels=levels / size[:, 0],
            detail=levels * covariance.unit**2,
        )

    def _store_path(self, path: Array, covariance: AbstractCovariance) -> None:
        self.change_path_ = path[: self.n_iter_]

    def _threshold(self, observed: Array, level: float) -> Array:
        return threshold(self.thresholding, observed, np.asarray(level))

    def _shrinkage(self, k: int) -> Shrinkage:
        """Return the threshold; the QR step comes after it."""
        observed, level = self._observed[k], float(self._levels[k])
        return Shrinkage(
            observed, lambda x: self._threshold(x, level), result="loading before the QR step"
        )


def diagonal_thresholding(
    covariance: AbstractCovariance, k: int, least: float
) -> tuple[Array, Array]:
    """Compute k + 1 eigenvalues and k eigenvectors (k x p) of the features with large variances.

    The last eigenvalue is zero if there are only k features.
    """
    variances = covariance.diagonal()
    chosen = np.flatnonzero(variances >= least)
    if chosen.size < k:
        equal = np.allclose(variances, variances[0])
        chosen = np.argsort(-variances, kind="stable")[: None if equal else k]
    values, vectors = Selected(covariance, chosen).leading(min(k + 1, chosen.size))
    q = np.zeros((k, covariance.n_features))
    q[:, chosen] = vectors[:, :k].T
    return np.append(values, np.zeros(k + 1 - values.size)), q


def enough_steps(values: Array, k: int, log_size: float) -> int:
    """Compute the number of iterations from eigenvalues in units of the noise."""
    gap = max(values[k - 1] - values[k], 1e-12)
    excess = (values[0] - 1) ** 2 / values[0]
    terms = (1 + 1 / np.log(2)) * log_size + max(0.0, float(np.log(max(excess, 1e-300))))
    return int(np.clip(np.ceil(1.1 * values[0] / gap * terms), 1, 5000))
