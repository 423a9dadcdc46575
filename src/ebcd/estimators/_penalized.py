"""Penalized PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np

from ebcd._numerics import Array
from ebcd._parameters import LOADINGS, NON_NEGATIVE, Parsed, choice, or_list
from ebcd.data import AbstractCovariance, Input
from ebcd.estimators._base import with_parameters
from ebcd.estimators._readable import Shrinkage
from ebcd.estimators._sparse import SparseDecomposition
from ebcd.fitting._alternate import Progress
from ebcd.fitting._methods import Components, Strength
from ebcd.fitting._penalized import fit_penalized, oriented
from ebcd.fitting._starts import varimax_start
from ebcd.penalties import as_penalty


class PenalizedDecomposition(SparseDecomposition):
    """What penalized PCA with a given strength and with a chosen one share."""

    _declared: ClassVar = SparseDecomposition._declared | {
        "penalty": Parsed(as_penalty),
        "start": choice("auto", "svd", "varimax") | LOADINGS,
    }
    _criterion = "penalized squared error, to be small"
    _remedy = "lower alpha"
    _detail = "_strengths"

    def _find(self, covariance: AbstractCovariance, principal: Array, data: Input) -> Components:
        penalty = as_penalty(self.penalty)
        starts = self._starts(principal, data.scale * covariance.unit)
        return fit_penalized(
            covariance,
            penalty,
            self._alpha()[: starts.shape[1]],
            oriented(penalty, starts),
            tol=self.tol,
            max_iter=self.max_iter,
            progress=self._progress(covariance),
        )

    def _alpha(self) -> Array:
        """Return the strength, or one for each component."""
        return np.atleast_1d(self.alpha)

    def _starts(self, principal: Array, unit: Array) -> Array:
        """Return loadings to start from, the first of which serve the folds as well."""
        if not isinstance(self.start, str):
            return self._given_start(unit)[None]
        if self.start == "svd" or len(principal) == 1:
            return principal[None]
        rotated = varimax_start(principal)
        return rotated[None] if self.start == "varimax" else np.array([principal, rotated])

    def _sign(self, loadings: Array, component: Array) -> float:
        value = as_penalty(self.penalty).value  # which may not be the same for the other sign
        symmetric = np.array_equal(value(-loadings), value(loadings))
        return super()._sign(loadings, component) if symmetric else 1.0

    def _store_path(self, path: Array, covariance: AbstractCovariance) -> None:
        self.objective_path_ = _criterion(path, covariance)
        self.objective_ = float(self.objective_path_[-1])

    def _progress(self, covariance: AbstractCovariance) -> Progress | None:
        """Print a line for every iteration, with the criterion in the units of the data."""
        if not self.verbose:
            return None

        def show(iteration: int, falls: Array, loadings: Array) -> None:
            best = int(falls.argmax())
            print(  # noqa: T201 - asked for by verbose
                f"iteration {iteration:5d}   criterion {_criterion(falls[best], covariance):16.8g}"
                f"   {np.count_nonzero(loadings[best].any(axis=1))} components"
            )

        return show

    def _shrinkage(self, k: int) -> Shrinkage:
        """Return the proximal map of the penalty."""
        root = float(np.sqrt(self.n_samples_))
        alpha = np.broadcast_to(self._strengths, self.n_components_)[k]
        strength = Strength(as_penalty(self.penalty), np.full((1, 1), alpha), root)
        return Shrinkage(self._observed[k], lambda x: strength.prox(x[None])[0])


def _criterion(fall: Array, covariance: AbstractCovariance) -> Array:
    """Return the criterion, in units of the data, from what it falls by with components."""
    whole = 0.5 * covariance.n_samples * covariance.trace()
    return (whole - fall) * covariance.unit**2


@with_parameters
class PenalizedPCA(PenalizedDecomposition):
    r"""Principal components with a penalty on the loadings.

    Minimizes ``||X - Z L'||^2 / 2 + sum_k P(l_k; alpha_k)`` over loadings ``L`` and orthonormal
    scores, ``Z'Z = I`` (Kang and Stephens, equation 1). Only the covariance of the data matters.
    As everywhere in this package, ``components_`` are for scores of mean square one: they are
    ``L' / sqrt(n)``.

    Parameters
    ----------
    n_components : int
        Number of components. Those that the penalty empties are dropped.
    penalty : str or penalty, default "l1"
        One of `ebcd.penalties.PENALTIES`, or any object with methods ``value(v)`` and
        ``prox(v, step)``.
    alpha : float or sequence of float, default 1.0
        Strength of the penalty, on the scale ``Z'Z = I`` and in the units of the data; or one for
        each component, in the order in which the start finds them, which is then kept. For "l1" it
        is the amount by which entries of ``X'Z`` are moved toward zero.
    center : bool, default True
        Whether to subtract the mean of every feature.
    scale : bool, default False
        Whether to divide every feature by its standard deviation. The penalty and the criterion
        are then those of the scaled data; ``components_`` are in the units of the data.
    start : "auto", "svd", "varimax" or array of shape (p, k), default "auto"
        Where to start: principal components ("svd"), their varimax rotation ("varimax"), whichever
        of the two ends lower ("auto"), or loadings in the units of the data.
    tol : float, default 1e-9
        Gain in an iteration, as a share of half the sum of squares of the data, below which the
        fit stops.
    max_iter : int, default 2000
        Maximum number of iterations from a start.
    max_memory : int, str or None, default None
        Limit on the memory of the fit, in bytes or as a string such as "500MB", not counting data
        in memory and libraries. It determines how much of data in chunks is read at once, and
        whether their covariance matrix is kept. By default about 16 MB are read at once.
    random_state : int, Generator or None, default None
        Not used: every start is deterministic.
    verbose : int, default 0
        Whether to print progress.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Loadings, ``L'``, for scores of mean square one.
    noise_variance_ : float or ndarray of shape (p,)
        Mean squared residual.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (k,)
        Squared length of each component, and its share of the total variance.
    objective_ : float
        The criterion, which is minimized; ``objective_path_`` has its values at the start and after
        every recorded step.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged.
    mean_, scale_ : ndarray of shape (p,)
        The values subtracted from the features, and those they were divided by.
    n_samples_, n_components_, n_features_in_ : int
        Numbers of samples, components and features.
    feature_names_in_ : ndarray of shape (p,)
        Names of the features, if the data had any.

    See Also
    --------
    PenalizedPCACV : Chooses ``alpha`` by cross-validation.
    EBCD : Needs no ``alpha``.

    Examples
    --------
    >>> from ebcd import PenalizedPCA
    >>> from ebcd.datasets import make_simulation
    >>> X, V, Sigma = make_simulation(random_state=0)
    >>> model = PenalizedPCA(2, penalty="l1", alpha=20.0).fit(X)
    >>> model.components_[0].nonzero()[0]
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    _declared: ClassVar = PenalizedDecomposition._declared | {"alpha": or_list(NON_NEGATIVE)}
    _lists = ("alpha",)

    n_components: int
    _: KW_ONLY
    penalty: Any = "l1"
    alpha: Any = 1.0
    center: bool = True
    scale: bool = False
    start: Any = "auto"
    tol: float = 1e-9
    max_iter: int = 2000
    max_memory: int | str | None = None
    random_state: Any = None
    verbose: int = 0
