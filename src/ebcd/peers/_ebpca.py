"""Empirical Bayes PCA as a scikit-learn estimator."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd._parameters import as_generator
from ebcd._warnings import warn_user
from ebcd.data import DataCovariance, Input, times
from ebcd.estimators._base import with_parameters
from ebcd.estimators._readable import Readable, Shrinkage
from ebcd.fitting._progress import Monitor
from ebcd.peers._ebpca_amp import Denoised, JointPrior, pass_messages, spectrum
from ebcd.priors._family import make_prior
from ebcd.priors._fitted import FittedPrior


@with_parameters
class EBPCA(Readable):
    """Empirical Bayes PCA (Zhong, Su and Fan 2022).

    Corrects principal components for the effect of high dimension, and denoises their entries with
    distributions that are learned from the data: one of the scores of a sample and one of the
    loadings of a feature, each joint over the components and of any form. Denoising alternates
    between the two (approximate message passing). Use it for components that stand out from noise
    but are poorly estimated, because there are at least as many features as samples.

    Loadings are not shrunk to zero unless their distribution implies it, and components are not
    rotated toward sparse ones.

    Parameters
    ----------
    n_components : int
        Number of components. Those that do not stand out from noise (whose singular value is within
        the range of the Marchenko-Pastur law) carry no information and are dropped with a warning.
    max_iter : int, default 5
        Number of rounds of message passing.
    center : bool, default True
        Whether to subtract the mean of every feature.
    random_state : int, Generator or None, default None
        Seed for the samples of rows that the distributions of large data are fitted to; None stands
        for a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (k, p)
        Posterior means of the loadings, for scores that have mean square one.
    components_sd_, lfsr_ : ndarray of shape (k, p)
        Their posterior standard deviations and local false sign rates.
    scores_ : ndarray of shape (n, k)
        Posterior means of the scores of the training data; since they are shrunk, their mean square
        is slightly below one.
    priors_, scores_priors_ : list of FittedPrior
        Distributions of the loadings and of the scores of each component, taken from the joint
        ones.
    noise_variance_ : float
        Variance of the noise.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (k,)
        Squared length of each component, and its share of the total variance.
    n_iter_ : int
        Number of rounds of message passing.
    change_path_ : ndarray, one number a round
        How much each round changed ``components_``: the norm of the difference relative to that of
        the previous components. The first round is compared with the principal components, shrunk
        as if loadings were normal.

    Notes
    -----
    Other attributes are those of `EBMF`, except for ``elbo_``, because the iterations do not
    maximize a criterion. Several components may slowly become more alike. In that case
    ``change_path_`` levels off or grows, and many rounds can do harm.

    `transform` treats every sample as new: it returns the posterior mean of its scores, given its
    products with the loadings, under the fitted joint distribution of the scores. On the training
    data, from which the loadings were estimated, those products are slightly too large; ``scores_``
    are corrected for this, as they are during the iterations.

    References
    ----------
    Zhong, Su and Fan (2022), Empirical Bayes PCA in high dimensions, Journal of the Royal
    Statistical Society B 84(3), 853-878.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from ebcd.metrics import component_angles
    >>> from ebcd.peers import EBPCA
    >>> rng = np.random.default_rng(0)
    >>> loadings = rng.choice([0.0, 0.5], size=(1, 400))
    >>> X = rng.choice([-1.0, 1.0], size=(100, 1)) @ loadings + rng.normal(size=(100, 400))
    >>> model = EBPCA(1).fit(X)
    >>> pca = PCA(1).fit(X)
    >>> component_angles(loadings.T, pca.components_.T).round(2)
    array([0.17])
    >>> component_angles(loadings.T, model.components_.T).round(2)
    array([0.05])
    """

    _criterion = "relative change of the loadings"
    _needs_rows = "the scores have a prior, so the data themselves are needed; use EBCD"
    scale: ClassVar[bool] = False  # not a parameter: noise is taken to be the same everywhere

    n_components: int
    _: KW_ONLY
    max_iter: int = 5
    center: bool = True
    random_state: Any = None

    def _fit_data(self, data: Input, monitor: Monitor) -> Self:
        matrix = data.covariance
        n, p = matrix.n_samples, matrix.n_features
        assert isinstance(matrix, DataCovariance)  # not a stand-in
        for name, count in (("n_samples", n), ("n_features", p)):
            if count < 2:
                raise ValueError(f"EBPCA needs at least 2 samples and 2 features, got {name} = 1")
        # one dimension must be left to estimate the noise from
        most = min(self.n_components, n - 1, p - 1) if matrix.trace() > 0 else 0
        start = spectrum(matrix, most)
        rng = as_generator(self.random_state, default=0)
        scores, loadings, changes = pass_messages(matrix, start, self.max_iter, rng)
        self.mean_, self.n_samples_ = data.mean, n
        self.n_iter_, self.change_path_ = len(changes), np.array(changes)
        self.noise_variance_ = (start.noise * matrix.unit) ** 2
        self._store(scores, loadings, start.signals, float(data.variances.sum()))
        self._warn(start.exact and most > 0)
        return self

    def _store(self, scores: Denoised, loadings: Denoised, signals: Array, total: float) -> None:
        """Keep components and scores, and what `transform` needs: rows times a map are N(M u, C).

        Of loadings, in the units of the data, what was observed of them and its noise.
        """
        n = self.n_samples_
        sizes = signals * np.sqrt(self.noise_variance_ / n)
        order = np.argsort(-sizes * np.linalg.norm(loadings.mean, axis=0), kind="stable")
        means, sizes = loadings.mean[:, order], sizes[order]
        largest = means[np.abs(means).argmax(axis=0), np.arange(order.size)]
        signs = np.where(largest < 0, -1.0, 1.0)
        means, factors = means * signs, sizes * signs
        found = loadings.prior.posterior(*loadings.observed)
        self.components_ = (means * sizes).T
        self.components_sd_ = (found.sd[:, order] * sizes).T
        self.lfsr_ = found.lfsr[:, order].T
        self.scores_ = scores.mean[:, order] * signs
        self.priors_ = _marginals(loadings.prior, order, factors)
        self.scores_priors_ = _marginals(scores.prior, order, signs)
        self._store_shares(total)
        gram = means.T @ means / n
        self._score_prior = JointPrior(scores.prior.support[:, order] * signs, scores.prior.weights)
        self._score_map = means / np.sqrt(n * self.noise_variance_)
        self._score_law = gram * signals[order], gram
        x, map_, covariance = loadings.observed
        inverse = np.linalg.inv(map_[:, order] / factors)
        self._observed = inverse @ x.T, np.sqrt(np.vecdot(inverse @ covariance, inverse))

    def _shrinkage(self, k: int) -> Shrinkage:
        """Return the posterior mean if only this component is observed; it is one function then."""
        observed, noise = self._observed[0][k], float(self._observed[1][k])
        prior = self.priors_[k]
        return Shrinkage(observed, lambda x: prior.shrink(x, noise), noise, "posterior mean")

    def _warn(self, exact: bool) -> None:
        if not self._varies:
            warn_user(f"no component was found: {self._why_nothing()}")
        elif self.n_components_ < self.n_components:
            warn_user(
                f"{self.n_components_} of {self.n_components} components stand out from noise; the "
                "others were dropped, because their singular values are within the range of "
                "pure noise and nothing can be learned about them",
            )
        if exact:
            warn_user(
                f"the {self.n_components_} components fit the data exactly, so no noise is left "
                "to compare them with; use fewer components",
                ConvergenceWarning,
            )

    def transform(self, X: Any) -> Array:
        """Posterior means of the scores of samples, each taken as new.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, memory map, Chunks or chunks
            Data of n rows and p columns.

        Returns
        -------
        ndarray of shape (n, k)
            Scores; see the notes on how they differ from ``scores_`` on the training data.
        """
        check_is_fitted(self)
        return np.asarray(self._rows(X).map(self._denoised, ()))

    def _denoised(self, X: Any) -> Array:
        products = times(self._score_map, X).astype(np.float64)
        products -= self.mean_ @ self._score_map
        scores = self._score_prior.posterior(products, *self._score_law).mean
        return np.asarray(scores.astype(X.dtype, copy=False))


def _marginals(prior: JointPrior, order: np.ndarray, factors: Array) -> list[FittedPrior]:
    """Distribution of each column of a joint distribution, multiplied by a factor."""
    marginals = []
    for k, factor in zip(order, factors, strict=True):
        places, index = np.unique(factor * prior.support[:, k], return_inverse=True)
        weights = np.bincount(index, weights=prior.weights)
        marginals.append(make_prior("npmle", locations=places, weights=weights))
    return marginals
