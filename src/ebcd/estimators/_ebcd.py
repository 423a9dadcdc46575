"""Empirical Bayes covariance decomposition as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd._parameters import (
    COUNT,
    LOADINGS,
    NON_NEGATIVE,
    NONE,
    Parsed,
    as_generator,
    check_path,
    choice,
    real,
)
from ebcd._warnings import warn_user
from ebcd.data import AbstractCovariance, Input, Observed, Reading, from_matrix, is_sparse
from ebcd.data._settings import SETTINGS
from ebcd.estimators._base import family_of, with_parameters
from ebcd.estimators._bootstrap import Bootstrap, bootstrap
from ebcd.estimators._incomplete import imputed
from ebcd.estimators._readable import Readable
from ebcd.estimators._resume import checkpoint_of, gather, unfinished
from ebcd.fitting._components import (
    count_components,
    count_in_rows,
    distinct_rows,
    rows_look_alike,
)
from ebcd.fitting._decompose import Fit, Problem, State, decompose, nothing
from ebcd.fitting._missing import IncompleteRows, count_observed, decompose_observed, shift_of
from ebcd.fitting._noise import NOISES
from ebcd.fitting._progress import Monitor, Printer
from ebcd.fitting._rotation import rotate
from ebcd.fitting._scores import SCORES, UncorrelatedScores, population, score_weights
from ebcd.fitting._shrinkers import in_working_units, side_of
from ebcd.priors._family import as_priors
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._intervals import sign_rates

_TOLERANCE = 1e-5
_TOLERANCE_PER_ENTRY = 4e-10


@with_parameters
class EBCD(Readable):
    """Sparse PCA that tunes itself: empirical Bayes covariance decomposition.

    Decomposes data as ``X = mean + Z L' + noise`` with uncorrelated scores ``Z`` of mean square
    one. The columns of the loadings ``L`` have priors that are learned from the data by maximum
    likelihood (Kang and Stephens). Nothing is cross-validated, and loadings come with
    uncertainties.

    Parameters
    ----------
    n_components : int, "auto" or "paper", default "auto"
        Number of components: as many as stand out from noise ("auto"); a number, at most
        ``min(n, p)``, of which empty components are dropped; or the paper's rule, to add components
        until one is empty ("paper"), which in practice stops late. If the data are in memory and
        have up to ten million entries, "auto" allows for rows with unequal variances and counts
        duplicate rows once. For larger data, chunks, Dask collections and covariances, it assumes
        distinct rows with equal variances, and may otherwise find too many components.
    prior : str, family, fitted prior, or a list of those, default "point_laplace"
        Prior of the loadings, see `ebcd.priors.PRIORS`. A fitted prior is kept fixed. A list has
        one prior for each component, in the order in which the start finds the components; the last
        one is used for all further components.
    noise : "constant" or "per_feature", default "constant"
        Whether all features have the same noise variance. With "per_feature", each feature gets
        pseudo-observations of pure noise, a fifth as many as there are samples, which bounds its
        precision.
    scores : "orthogonal", "relaxed" or "integrated", default "orthogonal"
        Model of the scores. "orthogonal" is the paper's model: scores are estimated and exactly
        uncorrelated in the sample. Uncertainties are given the scores, and are too small if the
        scores are uncertain. "relaxed" estimates normally distributed scores. They may be
        correlated by chance, but stay uncorrelated if the data say next to nothing about that.
        "integrated" integrates normal scores out, and may drop the weakest components. With
        "relaxed" and "integrated", lengths of components and uncertainties are about the
        population.
    center : bool, default True
        Whether to subtract the mean of every feature.
    scale : bool, default False
        Whether to divide every feature by its standard deviation. Results are returned in the units
        of the data.
    start : "auto", "greedy", "svd", "varimax" or array of shape (p, k), default "auto"
        Where to start: the best of several starts ("auto"); components one by one, as in the paper
        ("greedy"); principal components, as they are ("svd") or rotated ("varimax"); or loadings in
        the units of the data. "greedy" ends in the optimum of the paper's algorithm; the others
        also look for better optima nearby.
    tol : float, optional
        Gain of the ELBO in an iteration, in nats, below which the fit stops. By default 1e-5, or
        4e-10 per entry if there are more than 25,000 entries.
    max_iter : int, default 2000
        Maximum number of iterations.
    max_time : float, optional
        Seconds after which to stop with the best state so far; checked between iterations and
        between starts.
    max_memory : int, str or None, default None
        Limit on the memory of the fit, in bytes or as a string such as "500MB", not counting data
        in memory and libraries. It determines how much of data in chunks is read at once, and
        whether their covariance matrix is kept. By default about 16 MB are read at once.
    checkpoint : str or Path, optional
        File in which the state of the fit is saved every few seconds. If it exists, a fit to the
        same data with the same settings resumes from it (`max_time` may differ, and `max_iter` may
        be larger). It is removed when the fit has converged.
    random_state : int, Generator or None, default None
        Seed of the random rotations among the automatic starts; None stands for a fixed seed.
    verbose : int, default 0
        Whether to print progress: a line for every start that is tried and for every later
        iteration.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Posterior means of the loadings, ``L'``.
    components_sd_ : ndarray of shape (k, p)
        Standard deviations of the loadings: given the scores with ``scores="orthogonal"``, about
        the population otherwise.
    lfsr_ : ndarray of shape (k, p)
        Local false sign rates of the loadings, likewise; computed on first access.
    priors_ : list of FittedPrior
        The fitted priors (of the scaled data if ``scale=True``). With "relaxed" and "integrated"
        scores, their scales are about the population, as are the lengths of the components; so
        those of priors that were given and kept fixed change, too.
    noise_variance_ : float or ndarray of shape (p,)
        Variance of the noise.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (k,)
        Squared length of each component, and its share of the total variance.
    elbo_ : float
        Evidence lower bound; ``elbo_path_`` has its values at the start and after every recorded
        step. It includes the prior of the precisions if there is one per feature, the penalty of
        the family "deconvolver" and, with relaxed scores, the density of their covariance. Values
        can be compared between numbers of components only if scores are integrated out, because
        estimated scores fit better with every component. With a flat prior, which is improper,
        ``elbo_`` is NaN and ``elbo_path_`` lacks a constant.
    n_iter_ : int
        Number of iterations, at most `max_iter`, not counting the search for a start. A step may
        take several iterations, some of which are undone or only look for another optimum nearby.
    converged_ : bool
        Whether the fit converged.
    mean_, scale_ : ndarray of shape (p,)
        The values subtracted from the features, and those they were divided by.
    n_samples_, n_components_, n_features_in_ : int
        Numbers of samples, components and features.
    n_missing_ : int
        Number of missing entries in these samples. Rows without any entries are left out.
    n_signal_ : int
        Number of components, the largest first, that stand out from noise by the rule of "auto".
    feature_names_in_ : ndarray of shape (p,)
        Names of the features, if the data had any.

    Examples
    --------
    >>> from ebcd import EBCD
    >>> from ebcd.datasets import make_simulation
    >>> X, V, Sigma = make_simulation(random_state=0)
    >>> model = EBCD().fit(X)
    >>> model.n_components_
    2
    >>> model.sparsify()[0].nonzero()[0]
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    _declared: ClassVar = Readable._declared | {
        "n_components": COUNT | choice("auto", "paper"),
        "prior": Parsed(as_priors),
        "noise": choice(*NOISES),
        "scores": choice(*SCORES),
        "start": choice("auto", "greedy", "svd", "varimax") | LOADINGS,
        "tol": NON_NEGATIVE | NONE,
        "max_time": real("a number of seconds above 0", lambda seconds: seconds > 0) | NONE,
        "checkpoint": Parsed(check_path),
    }
    _takes_holes = True
    _is_passing = False  # whether only the components of the fit will be looked at

    n_components: int | str = "auto"
    _: KW_ONLY
    prior: Any = "point_laplace"
    noise: str = "constant"
    scores: str = "orthogonal"
    center: bool = True
    scale: bool = False
    start: Any = "auto"
    tol: float | None = None
    max_iter: int = 2000
    max_time: float | None = None
    max_memory: int | str | None = None
    checkpoint: Any = None
    random_state: Any = None
    verbose: int = 0

    def _monitor(self) -> Monitor:
        display = self._display or (Printer() if self.verbose else None)
        checkpoint = None if self.checkpoint is None else checkpoint_of(self)
        return Monitor(display, self.max_time, checkpoint)

    def _reading(self, monitor: Monitor) -> Reading:
        return replace(super()._reading(monitor), gather=partial(gather, monitor))

    def _fit_data(self, data: Input, monitor: Monitor) -> Self:
        checkpoint = monitor.checkpoint
        if checkpoint is None:
            return self._fit_monitored(data, monitor, {})
        single = data.rows is not None and data.rows.dtype == np.float32
        checkpoint.check_data(data.covariance, data.variances, single)
        try:
            self._fit_monitored(data, monitor, checkpoint.found)
        except KeyboardInterrupt:
            checkpoint.write()
            raise
        return self

    def _fit_monitored(self, data: Input, monitor: Monitor, found: dict[str, Any]) -> Self:
        """Fit, and go on from what an earlier fit has found."""
        covariance = data.covariance
        k = found.get("n_components")
        if k is None:
            k = self._how_many(data, monitor)
        # relaxed scores have no density otherwise, and those of rows with holes are not determined
        if self.scores == "relaxed" or data.observed is not None:
            k = self._at_most(k, int(data.entries / covariance.n_features) - 2)
        if k and self.scores != "orthogonal":
            self._check_flat(int(data.entries / covariance.n_features), k, covariance.n_features)
        monitor.note("n_components", lambda: k)
        if data.observed is None:
            covariance = covariance.best_route(max(k, 1))
        monitor.shift = data.in_logarithms(covariance.unit)
        problem = self._problem(covariance, k, monitor, data.observed)
        saved = found.get("state")
        if k == 0:
            fit = self._stored(nothing(problem), problem, data)
        elif data.observed is None:
            fit = self._stored(decompose(problem, *self._start(data), saved), problem, data)
        else:
            fit = decompose_observed(problem, data.observed, *self._start(data), saved)
            fit = self._stored(fit, problem, data)
        counted = self.n_components == "auto" and isinstance(self.start, str)
        self._signal = k if counted else self._count_later(problem.covariance, data, fit.leading)
        if monitor.checkpoint is not None:
            if fit.converged or problem.noise.at_floor(fit.state.precision):
                monitor.checkpoint.remove()
            else:
                monitor.checkpoint.write()
        self._warn(fit, problem)
        return self

    def _at_most(self, k: int, most: int) -> int:
        if k > max(most, 0) and not isinstance(self.n_components, str):
            who, what = "data with missing values need", "the entries of "
            instead = "fewer components" if k > 1 else "more samples"
            if self.scores == "relaxed":
                who, what, instead = 'scores="relaxed" needs', "", f"{instead} or other scores"
            raise ValueError(
                f"{who} at least two more samples than components, got n_components={k} and {what}"
                f"{most + 2} samples; use {instead}"
            )
        return max(min(k, most), 0)

    def _check_flat(self, n: int, k: int, p: int) -> None:
        """Refuse a flat prior with fewer samples than features.

        Loadings that are longer by a factor, with scores that are shorter by it, add p of its
        logarithms to the objective, and the density of the scores takes n, or n - k - 1.
        """
        flat = "flat" in map(family_of, as_priors(self.prior))
        if flat and p >= n - (k + 1 if self.scores == "relaxed" else 0):
            raise ValueError(
                f'prior="flat" with scores="{self.scores}" needs more samples than features and '
                f"components, got {n} samples of {p} features: nothing else determines the lengths "
                'of the loadings; use prior="normal", which hardly shrinks, or scores="orthogonal"'
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        count = len(as_priors(self.prior))
        if not isinstance(self.n_components, str) and count > self.n_components:
            raise ValueError(f"prior has {count} entries, but n_components={self.n_components}")

    def _problem(
        self,
        covariance: AbstractCovariance,
        k: int,
        monitor: Monitor,
        observed: Observed | None = None,
    ) -> Problem:
        priors = [in_working_units(prior, covariance.unit) for prior in as_priors(self.prior)]
        seen: Any = (covariance.n_samples, covariance.diagonal())
        if observed is not None:
            seen = (observed.counts, observed.variances)
        noise = NOISES[self.noise](*seen)
        rows = [priors[min(i, len(priors) - 1)] for i in range(k)]
        entries = covariance.n_samples * covariance.n_features
        tol = max(_TOLERANCE, _TOLERANCE_PER_ENTRY * entries) if self.tol is None else self.tol
        scores = SCORES[self.scores]
        return Problem(covariance, noise, rows, tol, self.max_iter, monitor, scores)

    def _how_many(self, data: Input, monitor: Monitor) -> int:
        covariance = data.covariance
        if covariance.trace() == 0:
            return 0
        if not isinstance(self.start, str):
            return len(self._given_start(data.scale * covariance.unit))
        if self.n_components == "paper":
            return min(covariance.n_samples, covariance.n_features) - 1
        if self.n_components == "auto":
            monitor.stage("counting components")
            rows = data.copy_of_rows(SETTINGS.compared)
            found = self._counter(covariance, data, monitor, rows)()
            _warn_of_rows(data, rows, found)
            return found
        return int(self.n_components)

    def _count_later(self, covariance: AbstractCovariance, data: Input, known: Any) -> Any:
        """Return how many components stand out, or how to count them when somebody asks."""
        limit = self.n_components_
        if covariance.trace() == 0 or not limit or self._is_passing:
            return 0
        rows = data.copy_of_rows(SETTINGS.piece)  # few enough to be kept
        keep = rows is not None or data.observed is not None
        if not keep and not is_sparse(data.matrix) and not _seem_alike(data, limit):
            rows = data.copy_of_rows(SETTINGS.compared)
        count = self._counter(covariance, data, Monitor(), rows, limit, known)
        return count if keep else count()

    def _counter(
        self,
        covariance: AbstractCovariance,
        data: Input,
        monitor: Monitor,
        rows: Array | None,
        limit: int | None = None,
        known: Any = None,
    ) -> partial[int]:
        """Return what counts components that stand out from noise, in the rows if at hand."""
        centered = data.mean is not None and bool(self.center)
        unequal = self.noise == "per_feature" or bool(self.scale)  # shares that signal takes
        if data.observed is None:
            if rows is None:
                return partial(count_components, covariance, centered, unequal, limit, known)
            return partial(count_in_rows, rows, centered, unequal, limit)

        def count(completed: Array) -> int:
            if data.entries <= SETTINGS.compared:
                return count_in_rows(completed[:, data.variances > 0], centered, unequal, limit)
            found = from_matrix(completed, False, False).covariance
            return count_components(found, centered, unequal, limit)

        most = min(covariance.n_samples, covariance.n_features) if limit is None else limit
        return partial(count_observed, data.observed, count, monitor, most)

    def _start(self, data: Input) -> tuple[Any, np.random.Generator]:
        """Return where a fit starts, and what turns starts at random."""
        start = self.start
        if not isinstance(start, str):
            start = self._given_start(data.scale * data.covariance.unit)
        start = "greedy" if self.n_components == "paper" else start
        return start, as_generator(self.random_state, default=0)

    def _stored(self, fit: Fit, problem: Problem, data: Input) -> Fit:
        """Set the attributes; return the fit with its components in order."""
        covariance, fitted = problem.covariance, fit.state
        back = data.scale * covariance.unit
        incomplete = None if data.observed is None else IncompleteRows(data.observed)
        state = fitted
        if incomplete is not None and len(fitted.mean):
            state = incomplete.population(fit.scores, fitted)
        elif fit.scores is not None and len(fitted.mean):
            state = population(fit.scores, fitted, problem.noise.n_samples)
        order, signs = _order(state, data.scale, isinstance(self.prior, list | tuple))
        same, fitted = state is fitted, _ordered(fitted, order, signs)
        state = fitted if same else _ordered(state, order, signs)
        fit = fit._replace(state=fitted)  # large arrays are not kept twice
        if incomplete is not None and len(state.mean):
            maps = incomplete.score_map(fit.scores, fitted)
            assert data.mean is not None  # rows have one, if only zero
            data = replace(data, mean=data.mean + shift_of(fitted) * back)
        elif fit.scores is None or not len(state.mean):
            maps = rotate(covariance, fitted.mean * fitted.precision)[0].T
        else:
            maps = score_weights(covariance, fit.scores, fitted)
        self._uncorrelated = isinstance(fit.scores, UncorrelatedScores)
        self._score_map = maps / back[:, None]
        del maps
        self._filling = (fitted.mean * back, fitted.variance * back**2)
        self.n_missing_ = 0 if data.observed is None else int(data.observed.missing.nnz)
        self._posterior = (state.b, state.noise, back)
        self.components_ = state.mean * back
        for name in ("components_sd_", "lfsr_", "n_signal_"):
            self.__dict__.pop(name, None)
        self._working_priors = list(state.fitted)
        self.priors_ = [prior.rescaled(covariance.unit) for prior in state.fitted]
        variance = back**2 / state.precision
        equal = self.noise == "constant" and not self.scale
        self.noise_variance_ = float(variance[0]) if equal else variance
        self._store_common(data)
        self.elbo_path_ = np.array(fit.path) - data.in_logarithms(covariance.unit)
        proper = all(prior.proper for prior in self.priors_)
        self.elbo_ = float(self.elbo_path_[-1]) if proper else np.nan
        self.n_iter_, self.converged_ = fit.n_iter, fit.converged
        return fit

    def impute(self, X: Any) -> Any:
        """Return data with missing values replaced by their expectations.

        Expectations are given the observed entries of the same row, under the Gaussian distribution
        that the fit implies (`get_covariance`). Observed entries are unchanged.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, p)
            Data in memory; NaN (also ``pandas.NA`` or a mask) is missing.

        Returns
        -------
        ndarray, sparse matrix or data frame of shape (n, p)
            Of the same kind as `X`.

        Examples
        --------
        >>> import numpy as np
        >>> import ebcd
        >>> X = ebcd.datasets.load_us_employment().data
        >>> X[3, 5] = float("nan")
        >>> filled = ebcd.EBCD(2).fit(X).impute(X)
        >>> bool(np.isnan(filled).any())
        False
        """
        check_is_fitted(self)
        rows = self._rows(X)
        if rows.matrix is None:
            raise ValueError(
                f"impute needs all rows in memory, as one array, data frame or sparse matrix, got "
                f"{type(X).__name__}; give it one part of them after the other"
            )
        return imputed(self, X, rows)

    @cached_property
    def n_signal_(self) -> int:
        """How many components stand out from noise, counted when it is first looked at."""
        check_is_fitted(self)
        if callable(self._signal):
            self._signal = self._signal()
        return min(int(self._signal), self.n_components_)

    def __getstate__(self) -> Any:
        getattr(self, "n_signal_", None)  # of which only the number can be stored
        return super().__getstate__()

    @cached_property
    def components_sd_(self) -> Array:
        """Standard deviations of the loadings, computed when they are first looked at."""
        check_is_fitted(self)
        means = [self._normal_means(k) for k in range(self.n_components_)]
        sds = [prior.posterior(x, s).sd * back for prior, x, s, back in means]
        return np.reshape(sds, self.components_.shape)

    @cached_property
    def lfsr_(self) -> Array:
        """Local false sign rates of the loadings, computed when they are first looked at."""
        check_is_fitted(self)
        b, noise, _ = self._posterior
        noise = np.broadcast_to(noise, (len(b), noise.shape[-1]))
        rows = zip(self._working_priors, b, noise, strict=True)
        rates = [sign_rates(x, s[0] if s.size == 1 else s, g) for g, x, s in rows]
        return np.array(rates).reshape(b.shape)

    def bootstrap(
        self,
        X: Any = None,
        n_boot: int = 50,
        *,
        method: str = "parametric",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> Bootstrap:
        """Refit to newly drawn data, to see how components vary from sample to sample.

        The result is about the population, for any score model: another sample has other scores,
        and therefore other lengths and other faint copies of one component in another. Every fit
        starts from this one and has the same number of components; priors and noise are fitted
        again.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, p), optional
            The data that the model was fitted to; needed only for ``method="rows"``.
        n_boot : int, default 50
            Number of draws.
        method : "parametric" or "rows", default "parametric"
            Draw data from the Gaussian distribution that the fit implies, or rows of `X` with
            replacement. "rows" does not rely on the model but needs many rows: a row that is drawn
            repeatedly looks like a component unless there are many more rows than features. Its
            draws contain the noise of `X` itself, so loadings near zero keep their sign too often.
            Rows keep their missing entries; fits to such rows take longer.
        n_jobs : int or None, default None
            Number of fits at a time, as in scikit-learn; -1 for one on each processor.
        random_state : int, Generator or None, default None
            Seed of the draws. The result does not depend on `n_jobs`.

        Returns
        -------
        Bootstrap
            The components of all draws, their standard deviations, intervals and sign errors.

        Examples
        --------
        >>> import ebcd
        >>> model = ebcd.EBCD(2).fit(ebcd.datasets.load_us_employment().data)
        >>> draws = model.bootstrap(n_boot=10, random_state=0)
        >>> lower, upper = draws.intervals(0.9)
        >>> lower.shape == model.components_.shape
        True
        """
        return bootstrap(self, X, n_boot, method, n_jobs, random_state)

    def _warn(self, fit: Fit, problem: Problem) -> None:
        if self.n_components_ == 0:
            advice = f". {self._advice()} to look at the strongest directions anyway"
            why = f"{self._why_nothing()}{advice if self._varies else ''}"
            warn_user(f"no component was found: {why}")
        elif problem.noise.at_floor(fit.state.precision):
            self.converged_ = False
            warn_user(
                f"with {self._found()} the model can fit the data exactly, so no noise is left "
                "to compare with and the ELBO has no maximum"
                f"{'; use fewer components' if self.n_components_ > 1 else ''}",
                ConvergenceWarning,
            )
        elif not fit.converged:
            warn_user(unfinished(self, fit, problem.tol), ConvergenceWarning)

    def _advice(self) -> str:
        if isinstance(self.n_components, str):
            return "Pass n_components as a number"
        if self.scores != "orthogonal":
            return 'Use scores="orthogonal", which keeps weak components,'
        return "Use another prior"

    def _normal_means(self, k: int) -> tuple[FittedPrior, Array, Array, Array]:
        b, noise, back = self._posterior
        noise = np.broadcast_to(noise, b.shape)[k]
        return self._working_priors[k], b[k], noise, back


def _warn_of_rows(data: Input, rows: Array | None, found: int) -> None:
    """Say that rows are duplicates, or that they differ in variance but are too many to compare."""
    if data.observed is not None:
        return
    if rows is None:
        if found and not _seem_alike(data, found):
            warn_user(
                "the rows have unequal variances, which may add spurious components; "
                f'n_components="auto" corrects for that in data of up to {SETTINGS.compared:,} '
                "entries only; pass a number, or normalize the rows"
            )
    elif copies := len(rows) - (distinct := len(distinct_rows(rows))):
        what = "row is a duplicate" if copies == 1 else "rows are duplicates"
        warn_user(
            f"{copies:,} {what}; the number of components is based on the {distinct:,} distinct "
            "rows"
        )


def _seem_alike(data: Input, k: int) -> bool:
    """Whether some rows seem to have equal variances beside k components, as far as is known."""
    some = data.copy_of_rows(SETTINGS.piece, thinned=True)
    return some is None or rows_look_alike(some, k)


def _order(state: State, scale: Array, keep_order: bool) -> tuple[Any, Array]:
    """Return the order of decreasing variance, and signs that make the largest loading positive."""
    sizes = state.mean * scale
    order = (
        np.arange(len(sizes)) if keep_order else np.argsort(-(sizes**2).sum(axis=1), kind="stable")
    )
    largest = sizes[order, np.abs(sizes[order]).argmax(axis=1)]
    free = np.array([not side_of(state.fitted[k]) for k in order], dtype=bool)
    return order, np.where((largest < 0) & free, -1.0, 1.0)[:, None]


def _ordered(state: State, order: Any, signs: Array) -> State:
    """Return the components in another order, with other signs."""
    fitted = [
        state.fitted[k] if sign > 0 else state.fitted[k].mirrored()
        for k, sign in zip(order, signs[:, 0], strict=True)
    ]
    noise, moments = state.noise, state.moments
    if moments is not None:
        noise, moments = noise[order], moments.of(order, signs[:, 0])
    return state._replace(
        b=signs * state.b[order],
        mean=signs * state.mean[order],
        variance=state.variance[order],
        noise=noise,
        fitted=fitted,
        moments=moments,
    )
