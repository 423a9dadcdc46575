"""Penalised PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ebcd._numerics import Array
from ebcd._parameters import LOADINGS, NON_NEGATIVE, Parsed, check_length, choice, or_list
from ebcd._warnings import warn_user
from ebcd.data import AbstractCovariance, DataMatrix, Input
from ebcd.estimators._readable import Readable
from ebcd.estimators._shrinkage import Shrinkage
from ebcd.fitting._loop import Fit, Problem, State
from ebcd.fitting._penalized import fit_penalized, penalized_problem
from ebcd.fitting._penalty_shrinker import Strength
from ebcd.fitting._rotation import score_map
from ebcd.fitting._starts import svd_start, varimax_start
from ebcd.penalties import AbstractPenalty, as_penalty


class PenalizedDecomposition(Readable):
    """What penalised PCA with a given strength and with a chosen one share."""

    _declared: ClassVar = Readable._declared | {
        "penalty": Parsed(as_penalty),
        "start": choice("auto", "svd", "varimax") | LOADINGS,
    }
    _criterion = "penalised squared error, to be small"

    def _fit_strength(self, data: Input, penalty: AbstractPenalty, alpha: Any) -> Self:
        """Fit with a strength, or one for each component."""
        covariance = data.covariance
        k = int(self.n_components) if covariance.trace() > 0 else 0
        if isinstance(covariance, DataMatrix):
            covariance = covariance.best_route(max(k, 1))
        problem = penalized_problem(covariance, penalty, np.atleast_1d(alpha))
        fit = _nothing(problem)
        if k > 0:
            progress = _Printer(covariance.unit) if self.verbose else None
            fit = fit_penalized(
                problem,
                self._start_loadings(covariance, data, k),
                tol=self.tol,
                max_iter=self.max_iter,
                progress=progress,
            )
        self._store(fit, problem, data, penalty, np.asarray(alpha))
        self._warn(fit, k)
        return self

    def _given_start(self, n_features: int) -> Array:
        """Give the loadings of `start`, one a row, in the units of the data."""
        loadings = np.asarray(self.start, dtype=np.float64)
        shape = (n_features, int(self.n_components))
        if loadings.shape != shape or not np.isfinite(loadings).all():
            raise ValueError(
                f"start must hold finite loadings of shape (n_features, n_components) = {shape}, "
                f"got shape {loadings.shape}"
            )
        return loadings.T

    def _start_loadings(self, covariance: AbstractCovariance, data: Input, k: int) -> list[Array]:
        if not isinstance(self.start, str):
            return [self._given_start(covariance.n_features) / data.scale / covariance.unit]
        principal = svd_start(covariance, k)
        if self.start == "svd" or k == 1:
            return [principal]
        rotated = varimax_start(principal)
        return [rotated] if self.start == "varimax" else [principal, rotated]

    def _store(
        self, fit: Fit, problem: Problem, data: Input, penalty: AbstractPenalty, alpha: Array
    ) -> None:
        covariance = problem.covariance
        state = _ordered(fit.state, data.scale, penalty, keep_order=alpha.ndim > 0)
        self._strengths = alpha[list(state.components)] if alpha.ndim else alpha
        self._observed = state.b * covariance.unit
        back = data.scale * covariance.unit
        maps, _ = score_map(covariance, state.mean, state.precision)
        self._score_map = maps / back[:, None]
        self.components_ = state.mean * back
        residual = float(problem.residual(state.b, state.mean).mean())
        variance = back**2 * max(residual, float(problem.noise.floor))
        self.noise_variance_ = variance if self.scale else float(variance[0])
        self.explained_variance_ = (self.components_**2).sum(axis=1)
        total = float(data.variances.sum())
        self.explained_variance_ratio_ = self.explained_variance_ / (total or 1.0)
        self.objective_path_ = -np.array(fit.path) * covariance.unit**2
        self.objective_ = float(self.objective_path_[-1])
        self.n_iter_, self.converged_ = fit.n_iter, fit.converged
        self.n_components_ = len(state.components)
        self.n_samples_ = covariance.n_samples
        self.scale_ = data.scale
        if data.mean is not None:
            self.mean_ = data.mean
        elif hasattr(self, "mean_"):
            del self.mean_
        positive = data.variances[data.variances > 0]
        self._uneven = bool(
            not self.scale and positive.size and positive.max() > 100 * positive.min()
        )

    def _shrinkage(self, k: int) -> Shrinkage:
        """Give the proximal map of the penalty."""
        root = float(np.sqrt(self.n_samples_))
        alpha = np.reshape(self._strengths[k] if self._strengths.ndim else self._strengths, (1, 1))
        strength = Strength(as_penalty(self.penalty), alpha, 1.0)

        def shrink(observed: Array) -> Array:
            return np.asarray(strength.prox(root * observed[None])[0] / root)

        return Shrinkage(self._observed[k], shrink)

    def _warn(self, fit: Fit, k: int) -> None:
        lost = k - self.n_components_
        if k == 0:
            warn_user(
                "all features are constant, so that there is no component",
            )
        elif lost:
            warn_user(
                f"the penalty emptied {lost} of {k} components, which were dropped; lower alpha to "
                "keep them",
            )
        if not fit.converged:
            warn_user(
                f"the fit stopped after max_iter={self.max_iter} iterations while the criterion "
                f"still fell by more than tol={self.tol:g} of the sum of squares; raise max_iter "
                "or tol",
                ConvergenceWarning,
            )


class PenalizedPCA(PenalizedDecomposition):
    r"""Principal components with a penalty on the loadings.

    Minimises ``||X - Z L'||^2 / 2 + sum_k P(l_k; alpha_k)`` over loadings ``L`` and orthonormal
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
        is the amount by which entries of ``X'Z`` are moved towards zero.
    center : bool, default True
        Whether to subtract the mean of every feature.
    scale : bool, default False
        Whether to divide every feature by its standard deviation. The penalty and the criterion
        are then those of the scaled data; ``components_`` are in the units of the data.
    start : "auto", "svd", "varimax" or array of shape (p, k), default "auto"
        Where to start: principal components, as they are, rotated, or whichever of both ends
        lower; or loadings in the units of the data.
    tol : float, default 1e-9
        Gain in an iteration, as a share of half the sum of squares of the data, below which the
        fit stops.
    max_iter : int, default 2000
        Largest number of iterations from a start.
    max_memory : int, str or None, default None
        Most memory for the fit, in bytes or as a text such as "500MB", beside the data it is given
        and the libraries: sets how much of data in chunks is read at once, and whether their
        covariance matrix is kept. By default some 16 MB are read at once.
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
        The criterion, to be minimised; ``objective_path_`` has it at the start and
        after every recorded step.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the fit converged.
    mean_, scale_ : ndarray of shape (p,)
        What was subtracted from the features, and what they were divided by.
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
    >>> import numpy as np
    >>> from ebcd import PenalizedPCA
    >>> rng = np.random.default_rng(0)
    >>> loadings = np.zeros((2, 30))
    >>> loadings[0, :5], loadings[1, 20:] = 2.0, 1.0
    >>> X = rng.normal(size=(100, 2)) @ loadings + rng.normal(size=(100, 30))
    >>> model = PenalizedPCA(2, penalty="l1", alpha=4.0).fit(X)
    >>> model.components_[0].nonzero()[0]
    array([0, 1, 2, 3, 4])
    """

    _declared: ClassVar = PenalizedDecomposition._declared | {"alpha": or_list(NON_NEGATIVE)}

    def __init__(
        self,
        n_components: int,
        *,
        penalty: Any = "l1",
        alpha: Any = 1.0,
        center: bool = True,
        scale: bool = False,
        start: Any = "auto",
        tol: float = 1e-9,
        max_iter: int = 2000,
        max_memory: int | str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.alpha = alpha
        self.center = center
        self.scale = scale
        self.start = start
        self.tol = tol
        self.max_iter = max_iter
        self.max_memory = max_memory
        self.random_state = random_state
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_length("alpha", self.alpha, self.n_components)

    def _fit_input(self, data: Input, X: Any) -> Self:
        alpha = np.asarray(self.alpha, dtype=np.float64)
        return self._fit_strength(data, as_penalty(self.penalty), alpha)


def _nothing(problem: Problem) -> Fit:
    """Fit without components."""
    empty = np.empty((0, problem.covariance.n_features))
    residual = problem.covariance.diagonal()
    one = np.asarray(1.0)
    value = problem.noise.value(one, residual)
    return Fit(State(empty, empty, empty, empty, one, one, [], (), value), [value], 0, True)


def _ordered(state: State, scale: Array, penalty: AbstractPenalty, keep_order: bool) -> State:
    """Sort by explained variance and make the largest loading positive where that is allowed."""
    loadings = state.mean * scale
    order = np.argsort(-(loadings**2).sum(axis=1), kind="stable")
    if keep_order:
        order = np.arange(len(order))
    signs = np.ones((len(order), 1))
    for i, k in enumerate(order):
        largest = loadings[k, np.abs(loadings[k]).argmax()]
        if largest < 0 and np.array_equal(
            penalty.value(-state.mean[k]), penalty.value(state.mean[k])
        ):
            signs[i] = -1.0
    return replace(
        state,
        scores=state.scores[order] * signs,
        b=state.b[order] * signs,
        mean=state.mean[order] * signs,
        variance=state.variance[order],
        curvature=None,
        components=tuple(state.components[k] for k in order),
    )


class _Printer:
    """Print a line for every iteration, with the criterion in the units of the data."""

    def __init__(self, unit: float) -> None:
        self._square = unit**2

    def __call__(self, iteration: int, state: State, seconds: float) -> None:
        print(  # noqa: T201 - asked for by verbose
            f"iteration {iteration:5d}   criterion {-state.value * self._square:16.8g}   "
            f"{len(state.components)} components   {seconds:7.2f} s"
        )
