"""Sparse PCA by the generalized power method (GPower)."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from ebcd._numerics import Array
from ebcd._parameters import FLAG, N_TRIALS, NONE, as_generator, choice, or_list, real
from ebcd.data import AbstractCovariance, Input
from ebcd.estimators._base import with_parameters
from ebcd.estimators._sparse import SparseDecomposition
from ebcd.fitting._deflation import Deflated
from ebcd.fitting._methods import METHODS, Components, threshold, unit_rows
from ebcd.fitting._rotation import rotate
from ebcd.fitting._starts import svd_start
from ebcd.peers._starts import joint_starts, single_starts

# Only ratios matter, and beyond these the smaller components would drown in rounding.
_WEIGHT = real("a number from 1e-6 to 1e6", lambda value: 1e-6 <= value <= 1e6)


@with_parameters
class GPower(SparseDecomposition):
    """Generalized power method of Journée, Nesterov, Richtárik and Sepulchre (2010).

    Alternates a threshold of ``b_k = X'z_k / n`` with the polar rotation of the scores ``Z``, all
    components together (``block=True``) or one after the other, each on what the loadings before it
    leave of the data.

    Parameters
    ----------
    n_components : int
        Number of components.
    penalty : "l1" or "l0", default "l1"
        Soft or hard threshold.
    gamma : float or list of float, default 0.1
        How sparse, from 0 to just below 1, for all components or for each. It is relative to
        the value that empties the component whatever its scores: with ``s`` the largest standard
        deviation of a feature, soft thresholds are ``gamma s``, and hard thresholds keep loadings
        whose squares are above ``gamma s**2``.
    mu : float, list of float or None, default None
        Weights of the components if ``block=True``, from 1e-6 to 1e6; only their ratios matter.
        None stands for 1, 1/2, 1/3, ...; equal weights leave rotations undetermined where
        thresholds do not fix them.
    block : bool, default True
        Whether to find all components together.
    n_starts : int or "auto", default "auto"
        Number of starts, of which the best is kept: 50 for up to 100 features and 8 for more if
        "auto". The first is that of the authors, the features of largest variance; others are
        principal components, also rotated, further features, and random ones.
    center, scale : bool
        As in `ebcd.PenalizedPCA`.
    tol : float, default 1e-8
        Relative gain of the criterion in an iteration at which the search stops.
    max_iter : int, default 1000
        Maximum number of iterations.
    random_state : int, Generator or None, default None
        Seed of random starts; None stands for a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Loadings, in the units of the data: the directions that were found, at the length that fits
        the data best with their scores, which have mean square one.
    objective_ : float
        The criterion below, to be maximized, in the units of the (scaled) data; the sum over
        components if ``block=False``. ``objective_path_`` has its values after every iteration, for
        the components found so far.

    Notes
    -----
    Other attributes are those of `ebcd.PenalizedPCA`.

    With ``Z'Z = n I`` and ``b_k = X'z_k / n``, "l1" maximizes
    ``sum_k mu_k ||soft(b_k, gamma_k s)||``, which is the largest
    ``tr(X'Z L') / n - sum_k gamma_k s ||l_k||_1`` over loadings with ``||l_k|| = mu_k``: the inner
    maximum of PCA with an elastic-net penalty. "l0" maximizes
    ``sum_k mu_k**2 sum_j max(b_jk**2 - gamma_k s**2, 0)``. Both rise in every iteration. With one
    component, these are the authors' criteria up to scale.

    References
    ----------
    Journée, M., Nesterov, Y., Richtárik, P. and Sepulchre, R. (2010). Generalized power method for
    sparse principal component analysis. Journal of Machine Learning Research 11, 517-553.

    Examples
    --------
    >>> from ebcd.datasets import load_pitprops
    >>> from ebcd.peers import GPower
    >>> props = load_pitprops()
    >>> model = GPower(1, penalty="l0", gamma=0.3)
    >>> model = model.fit_covariance(props.correlation, props.n_samples)
    >>> [props.feature_names[j] for j in model.components_[0].nonzero()[0]]
    ['topdiam', 'length', 'ringbut', 'bowmax', 'bowdist', 'whorls']
    """

    _declared: ClassVar = SparseDecomposition._declared | {
        "penalty": choice("l1", "l0"),
        "gamma": or_list(real("a number of at least 0 and below 1", lambda value: 0 <= value < 1)),
        "mu": or_list(_WEIGHT) | NONE,
        "block": FLAG,
        "n_starts": N_TRIALS | choice("auto"),
    }
    _lists = ("gamma", "mu")
    _remedy = "lower gamma"
    _criterion = "criterion of GPower, to be large"

    n_components: int
    _: KW_ONLY
    penalty: str = "l1"
    gamma: Any = 0.1
    mu: Any = None
    block: bool = True
    n_starts: int | str = "auto"
    center: bool = True
    scale: bool = False
    tol: float = 1e-8
    max_iter: int = 1000
    random_state: Any = None

    def _find(self, covariance: AbstractCovariance, principal: Array, data: Input) -> Components:
        return (self._together if self.block else self._one_by_one)(covariance, principal)

    def _together(self, covariance: AbstractCovariance, principal: Array) -> Components:
        method, k = METHODS["GPower"], len(principal)
        levels = self._levels_of(covariance, slice(k))
        mu = 1.0 / np.arange(1, k + 1) if self.mu is None else self._per_component("mu")[:k]
        parameters = self.penalty, levels, mu
        rng = as_generator(self.random_state, default=0)
        starts = joint_starts(covariance, principal, self.n_starts, rng)
        fit = method.fit(covariance, parameters, starts, tol=self.tol, max_iter=self.max_iter)
        weights, b = rotate(covariance, fit.loadings)
        v = unit_rows(fit.loadings)
        loadings = v * np.vecdot(v, b)[:, None]
        path = np.append(fit.path, method.shrinkage(b[None], *parameters)[1])
        n_iter = fit.path.size
        return Components(loadings, weights, fit.observed, path, n_iter, fit.converged, levels)

    def _one_by_one(self, covariance: AbstractCovariance, principal: Array) -> Components:
        method, levels = METHODS["GPower, one by one"], np.zeros(len(principal))

        def prepare(k: int, left: Deflated) -> tuple[tuple[Any, ...], Array]:
            levels[k : k + 1] = self._levels_of(left, slice(k, k + 1))
            first = svd_start(left, 1) if k else principal[:1]
            starts = single_starts(left, first, self.n_starts)
            return (self.penalty, levels[k : k + 1], np.ones(1)), starts

        found = method.fit_one_by_one(
            covariance, len(principal), prepare, tol=self.tol, max_iter=self.max_iter
        )
        return found._replace(levels=levels)

    def _levels_of(self, covariance: AbstractCovariance, which: slice) -> Array:
        """Compute thresholds, relative to the one that empties a component whatever its scores."""
        gamma, largest = self._per_component("gamma")[which], float(covariance.diagonal().max())
        return np.asarray(np.sqrt(largest) * gamma ** (1 / self._degree))

    @property
    def _degree(self) -> int:  # type: ignore[override]
        return 1 if self.penalty == "l1" else 2

    def _threshold(self, observed: Array, level: float) -> Array:
        return threshold("soft" if self.penalty == "l1" else "hard", observed, np.asarray(level))
