"""Empirical Bayes matrix factorization as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd._parameters import Parsed, choice
from ebcd._warnings import warn_user
from ebcd.data import Input, as_dense, check_finite
from ebcd.data._observed import has_entries
from ebcd.estimators._base import with_parameters
from ebcd.estimators._readable import Readable
from ebcd.fitting._progress import Monitor
from ebcd.fitting._shrinkers import side_of
from ebcd.peers._ebmf_model import (
    NOISE_SIDES,
    Model,
    Noise,
    observe,
    working_priors,
)
from ebcd.peers._ebmf_search import Search, improve_scores, remember, scores_of
from ebcd.priors._family import as_priors
from ebcd.priors._fitted import FittedPrior


@with_parameters
class EBMF(Readable):
    """Empirical Bayes matrix factorization (Wang and Stephens 2021).

    Decomposes data as ``X = mean + F L' + noise``, with priors on the scores ``F`` as well as on
    the loadings ``L``, both learned from the data. Factors are added one by one while the evidence
    lower bound (ELBO) rises, then fitted together, and dropped if the ELBO is higher without them.
    Unlike in `EBCD`, the scores may be correlated. Entries may be missing (NaN): only observed
    entries enter the likelihood.

    Parameters
    ----------
    n_components : int
        Maximum number of components; ``n_components_`` says how many were kept.
    loadings_prior, scores_prior : str, family, fitted prior, or a list of those
        Priors of loadings and scores, by default "point_laplace" and "normal", see
        `ebcd.priors.PRIORS`. A list has one for each component, in the order in which they are
        added. A fitted prior keeps its shape. Its scale is kept only if the priors of both sides
        are fitted ones; otherwise it has no effect, because one side can be scaled up while the
        other is scaled down. "flat" has no scale and needs a fitted prior on the other side.
    noise : "constant", "per_sample" or "per_feature", default "constant"
        Which entries share a noise variance: all of them, those of a sample, or those of a feature.
    center : bool, default True
        Whether to subtract the mean of every feature, over the observed entries.
    tol : float, default 1e-4
        Gain of the ELBO in an iteration, in nats, below which a fit stops.
    max_iter : int, default 2000
        Maximum number of iterations of each fit: of a new component, of all together, or of the
        scores of samples.
    random_state : int, Generator or None, default None
        Not used: every start is deterministic.
    verbose : int, default 0
        Whether to print progress.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Posterior means of the loadings, scaled so that the scores have mean square one.
    components_sd_, lfsr_ : ndarray of shape (k, p)
        Their posterior standard deviations and local false sign rates.
    scores_ : ndarray of shape (n, k)
        Posterior means of the scores of the training data.
    priors_, scores_priors_ : list of FittedPrior
        The fitted priors of loadings and scores, on their scales.
    noise_variance_ : float or ndarray of shape (n,) or (p,)
        Variance of the noise.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (k,)
        Squared length of each component, and its share of the total variance. Scores may be
        correlated, so shares need not add up to that of all components together.
    elbo_ : float
        Evidence lower bound; ``elbo_path_`` has its values after every iteration, which never
        decrease. With a flat prior ``elbo_`` is NaN and ``elbo_path_`` lacks a constant.
    n_iter_ : int
        Number of iterations in total.
    converged_ : bool
        Whether every fit converged.

    Notes
    -----
    Other attributes are those of `EBCD`.

    `transform` takes loadings, priors and noise as they were fitted (with ``noise="per_sample"``
    the noise of the new samples is estimated along with their scores). With the normal prior on the
    scores, it is linear in the sample and equals ``scores_`` on the training data. With other
    priors, iterations start from there, and the result equals ``scores_`` unless a posterior has
    several modes.

    References
    ----------
    Wang and Stephens (2021), Empirical Bayes matrix factorization, Journal of Machine Learning
    Research 22(120), 1-40.

    Examples
    --------
    >>> from ebcd.datasets import make_simulation
    >>> from ebcd.peers import EBMF
    >>> X, V, Sigma = make_simulation(random_state=0)
    >>> X[::7, ::3] = float("nan")
    >>> model = EBMF(10).fit(X)
    >>> model.n_components_
    2
    >>> model.sparsify()[0].nonzero()[0]
    array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """

    _declared: ClassVar = Readable._declared | {
        "loadings_prior": Parsed(lambda given: _exchangeable(given)),
        "scores_prior": Parsed(lambda given: _exchangeable(given)),
        "noise": choice(*NOISE_SIDES),
    }
    _takes_holes = True
    _needs_rows = "the scores have a prior, so the data themselves are needed; use EBCD"
    scale: ClassVar[bool] = False  # not a parameter: noise may differ instead

    n_components: int
    _: KW_ONLY
    loadings_prior: Any = "point_laplace"
    scores_prior: Any = "normal"
    noise: str = "constant"
    center: bool = True
    tol: float = 1e-4
    max_iter: int = 2000
    random_state: Any = None
    verbose: int = 0

    def _fit_data(self, data: Input, monitor: Monitor) -> Self:
        x, unit = data.matrix.astype(np.float64, copy=False), data.covariance.unit
        mean = np.asarray(data.mean)  # zero if it is not subtracted
        if data.observed is not None:
            x, unit = as_dense(x)[has_entries(x)], data.observed.unit
        seen = observe(x, mean, unit)
        noise = Noise(seen, NOISE_SIDES[self.noise])
        priors = as_priors(self.scores_prior), as_priors(self.loadings_prior)
        shift = seen.counts[0].sum() * np.log(unit)
        search = Search(
            seen,
            noise,
            working_priors(*priors, unit),
            tol=self.tol,
            max_iter=self.max_iter,
            shift=shift if self.verbose else None,
        )
        if seen.squares[0].any():
            search.run(self.n_components)
        self._store(search, mean, unit, shift)
        self._warn(search)
        return self

    def _store(self, search: Search, mean: Array, unit: float, shift: float) -> None:
        model = self._ordered(search.model)
        model.sides[0].family = model.sides[0].prior  # fixed from now on
        improve_scores(model, self.max_iter)
        model.multiply()
        model.settle(keep_precision=True)
        self._fitted, self._unit, self.mean_ = remember(model), unit, mean
        scores, loadings = model.sides
        self._size = np.sqrt(np.mean(scores.mean**2, axis=1))
        back = (self._size * unit)[:, None]
        self.scores_ = scores.mean.T / self._size
        self.components_ = loadings.mean * back
        self.components_sd_ = np.sqrt(loadings.variance) * back
        problems = zip(loadings.prior, loadings.b, loadings.s, strict=True)
        rates = [prior.posterior(b, s).lfsr for prior, b, s in problems]
        self.lfsr_ = np.reshape(rates, loadings.mean.shape)
        self.priors_ = _rescaled(loadings.prior, back[:, 0])
        self.scores_priors_ = _rescaled(scores.prior, 1 / self._size)
        variance = unit**2 / model.precision
        self.noise_variance_ = variance if variance.ndim else float(variance)
        self._store_shares(unit**2 * float((model.data.squares[1] / model.data.counts[1]).sum()))
        # the last step of the scores may be lost in rounding
        path = np.maximum.accumulate([*search.path, model.value])
        self.elbo_path_ = path - shift
        proper = all(prior.proper for prior in [*self.priors_, *self.scores_priors_])
        self.elbo_ = float(self.elbo_path_[-1]) if proper else np.nan
        self.n_iter_, self.converged_ = search.n_iter, search.converged
        self.n_samples_ = model.data.shape[0]

    def _ordered(self, model: Model) -> Model:
        """Sort by explained variance and make the largest loading positive."""
        model = model.copy()
        scores, loadings = model.sides
        for k, row in enumerate(loadings.mean):
            one_sided = any(side_of(side.prior[k]) for side in model.sides)
            if row[np.abs(row).argmax()] <= 0 and not one_sided:
                for side in model.sides:
                    side.mirror(k)
        given = self.loadings_prior, self.scores_prior
        if any(isinstance(priors, list | tuple) for priors in given):
            return model
        sizes = np.mean(scores.mean**2, axis=1) * np.sum(loadings.mean**2, axis=1)
        return model.copy(np.argsort(-sizes, kind="stable"))

    def _warn(self, search: Search) -> None:
        if self.n_components_ and search.model.noise.at_floor(search.model.precision):
            self.converged_ = False
            warn_user(
                f"the {self.n_components_} components fit some data exactly, so no noise is left "
                "and the ELBO has no maximum; use fewer components or "
                'noise="constant"',
                ConvergenceWarning,
            )
        elif self.n_components_ == 0:
            why = "the ELBO is highest with none" if self._varies else self._why_nothing()
            warn_user(f"no component was found: {why}")
        elif not self.converged_:
            warn_user(
                f"a fit stopped after max_iter={self.max_iter} iterations while the ELBO still "
                f"rose by more than tol={self.tol:g}; raise max_iter or tol",
                ConvergenceWarning,
            )

    def transform(self, X: Any) -> Any:
        """Posterior means of the scores, with loadings, priors and noise as they were fitted.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, memory map, Chunks, chunks or Dask
            Data of n rows and p columns. In matrices and data frames NaN is a missing entry.

        Returns
        -------
        ndarray of shape (n, k)
            Scores; on the training data their mean square is one.
        """
        check_is_fitted(self)
        rows = self._rows(X)
        if not self._has_holes(rows):
            return rows.map(self._scores, self._size.shape)
        matrix = as_dense(rows.matrix)
        check_finite(np.where(np.isnan(matrix), 0.0, matrix), rows.names)
        return self._scores(matrix)

    def _scores(self, x: Any) -> Array:
        seen = observe(x.astype(np.float64, copy=False), self.mean_, self._unit)
        scores = scores_of(self._fitted, seen, self.max_iter).T / self._size
        return np.asarray(scores.astype(x.dtype, copy=False))

    def _normal_means(self, k: int) -> tuple[FittedPrior, Array, Array, Array]:
        factor = self._fitted.factors[k]
        b, s = factor.observed[1]
        return factor.prior[1], b, np.broadcast_to(s, b.shape), self._size[k] * self._unit

    def _feature_noise(self) -> Array:
        """Return that of a new sample, which is the mean one if samples differ."""
        noise = self.noise_variance_ if self._fitted.side else np.mean(self.noise_variance_)
        return np.broadcast_to(noise, self.n_features_in_)


def _rescaled(priors: Iterable[FittedPrior], factors: Array) -> list[FittedPrior]:
    return [prior.rescaled(float(c)) for prior, c in zip(priors, factors, strict=True)]


def _exchangeable(given: Any) -> Any:
    """Parse priors, of which none may depend on the order of the entries."""
    priors = as_priors(given)
    for prior in priors:
        if not prior.exchangeable:
            raise ValueError(f"EBMF has no priors for ordered features, got {prior!r}; use EBCD")
    return priors
