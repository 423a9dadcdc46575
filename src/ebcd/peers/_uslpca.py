"""Sparse PCA with a given number of non-zero loadings (USLPCA)."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from ebcd._numerics import Array
from ebcd._parameters import COUNT, N_TRIALS, NONE, as_generator, choice
from ebcd.data import AbstractCovariance, Input
from ebcd.estimators._base import with_parameters
from ebcd.estimators._sparse import SparseDecomposition
from ebcd.fitting._methods import METHODS, Components
from ebcd.fitting._rotation import rotate
from ebcd.peers._starts import joint_starts


@with_parameters
class USLPCA(SparseDecomposition):
    """Unrestricted sparse loadings of Adachi and Trendafilov (2016), with a given cardinality.

    Fits ``X = Z L' + error`` by least squares, with uncorrelated scores ``Z`` of mean square one
    and a given number of loadings that are not zero, in all components together. The shrinkage
    keeps the largest entries of ``X'Z / n``; the rotation is the polar one.

    Parameters
    ----------
    n_components : int
        Number of components.
    n_nonzero : int or None, default None
        Total number of non-zero loadings: at least one for each component, at most all of them
        (None), which leads to the principal components.
    n_starts : int or "auto", default "auto"
        Number of starts, of which the best is kept: 50 for up to 100 features and 8 for more if
        "auto". They are features of large variance, principal components, also rotated, and random
        ones.
    center, scale : bool
        As in `ebcd.PenalizedPCA`; ``scale=True`` makes loadings comparable.
    tol : float, default 1e-8
        Relative gain of the explained variance in an iteration at which the search stops.
    max_iter : int, default 1000
        Maximum number of iterations.
    random_state : int, Generator or None, default None
        Seed of random starts; None stands for a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Loadings, in the units of the data, for scores of mean square one.
    objective_ : float
        Sum of squares of the loadings, to be maximized, in the units of the (scaled) data.
        ``objective_path_`` has it after every iteration.

    Notes
    -----
    Other attributes are those of `ebcd.PenalizedPCA`.

    References
    ----------
    Adachi, K. and Trendafilov, N. T. (2016). Sparse principal component analysis subject to
    prespecified cardinality of loadings. Computational Statistics 31, 1403-1427.

    Examples
    --------
    >>> from ebcd.datasets import load_pitprops
    >>> from ebcd.peers import USLPCA
    >>> props = load_pitprops()
    >>> model = USLPCA(1, n_nonzero=4).fit_covariance(props.correlation, props.n_samples)
    >>> [props.feature_names[j] for j in model.components_[0].nonzero()[0]]
    ['topdiam', 'length', 'bowdist', 'whorls']
    """

    _declared: ClassVar = SparseDecomposition._declared | {
        "n_nonzero": COUNT | NONE,
        "n_starts": N_TRIALS | choice("auto"),
    }
    _remedy = "raise n_nonzero or use fewer components"
    _criterion = "explained variance, to be large"
    _degree = 2

    n_components: int
    _: KW_ONLY
    n_nonzero: int | None = None
    n_starts: int | str = "auto"
    center: bool = True
    scale: bool = False
    tol: float = 1e-8
    max_iter: int = 1000
    random_state: Any = None

    def _check(self, data: Input) -> None:
        if self.n_nonzero is None:
            return
        p = data.covariance.n_features
        if self.n_nonzero > self.n_components * p:
            raise ValueError(
                f"n_nonzero is {self.n_nonzero}, but {self.n_components} components of {p} "
                f"features have only {self.n_components * p} loadings; ask for at most that many"
            )
        if self.n_nonzero < self.n_components:
            raise ValueError(
                f"n_nonzero is {self.n_nonzero}, fewer than one for each of {self.n_components} "
                "components; raise it or use fewer components"
            )

    def _find(self, covariance: AbstractCovariance, principal: Array, data: Input) -> Components:
        method = METHODS["USLPCA"]
        number = min(self.n_nonzero or principal.size, principal.size)
        rng = as_generator(self.random_state, default=0)
        starts = principal[None]  # the best without zeros, as are all of its rotations
        if number < principal.size:
            starts = joint_starts(covariance, principal, self.n_starts, rng)
        fit = method.fit(covariance, (number,), starts, tol=self.tol, max_iter=self.max_iter)
        weights, b = rotate(covariance, fit.loadings)
        loadings = np.where(fit.loadings != 0, b, 0.0)
        levels = np.full(len(b), np.abs(loadings[loadings != 0]).min(initial=np.inf))
        return Components(loadings, weights, b, fit.path, fit.path.size, fit.converged, levels)

    def _threshold(self, observed: Array, level: float) -> Array:
        # a number of entries is kept: those from the smallest of them on
        return np.where(np.abs(observed) >= level, observed, 0.0)
