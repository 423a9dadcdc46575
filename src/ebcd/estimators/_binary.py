"""Memberships of clusters that may overlap, and the decomposition of samples that finds them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance, Chunks, Gram, Reading, as_input
from ebcd.estimators._ebcd import EBCD
from ebcd.priors import GeneralizedBinary

_DECIDED = ("n_components", "prior", "scores", "center", "scale", "start", "checkpoint")


def gbcd(X: Any, n_components: int | str, *, spread: float = 0.1, **options: Any) -> EBCD:
    """Find overlapping clusters of samples: generalized binary covariance decomposition.

    A sample may belong to any number of clusters, or programs, each of which changes some of the
    features: ``X = 1 b' + L F' + noise`` with a baseline ``b`` and loadings ``L`` that are nearly
    zero or one, up to scale (Liu and others 2023). The covariance *between samples* is decomposed,
    so `X` is transposed first.

    Parameters
    ----------
    X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
        Data, for example cells by genes. Counts should be divided by the size of their sample and
        log-transformed; otherwise the first component is size. Do not center them: their mean is
        the baseline.
    n_components : int or "auto"
        Number of components before they are split, including the baseline: about the expected
        number of programs plus one. "auto" counts those that stand out from noise.
    spread : float, default 0.1
        Standard deviation of the memberships in a cluster, in units of their mean. Smaller values
        are closer to a membership that is either full or none.
    **options
        Other parameters of `EBCD`, for each of the fits: noise, tol, max_iter, max_time,
        max_memory, random_state, verbose.

    Returns
    -------
    EBCD
        Fitted to the transposed data: ``components_`` is k x n_samples. Component 0 is the
        baseline if all samples take part in it; there is none if the baseline is the same for all
        features. ``clusters_`` has the numbers of the clusters, larger ones mostly first.
        ``transform(X.T)`` returns the effect of each on the features, relative to their mean.

    See Also
    --------
    memberships : The probability that a sample belongs to a cluster.

    Notes
    -----
    1. Fit with point-Laplace priors.
    2. Split each component into its positive and its negative part, since a component with two
       signs is two clusters; leave out parts in which no loading has a clear sign.
    3. Fit again from all parts, with generalized binary priors. The largest is the baseline.
    4. Leave out each cluster without which another fit is at least as good, as measured by the ELBO
       plus the gain in log-likelihood if each sample has its own noise: samples that are noisier
       than others, such as cells with few counts, are not a cluster.
    5. Next to a baseline, a cluster and its complement fit almost equally well. Take the one with
       the higher ELBO or, within the standard error of the difference, the smaller one. Then try
       step 4 again.

    The mean over all features is subtracted from each sample, so the result does not depend on the
    origin of the data.

    Scores are integrated out, because those of two parts are correlated, and because only then can
    numbers of components be compared by the ELBO. The original recipe keeps a point-Laplace prior
    for the baseline, with which a cluster cannot be told from its complement. Step 4 replaces a
    rule for symmetric factorizations.

    References
    ----------
    Liu, Y. and others (2023). Dissecting tumor transcriptional heterogeneity from single-cell
    RNA-seq data by generalized binary covariance decomposition. bioRxiv 2023.08.15.553436.

    Examples
    --------
    >>> import numpy as np
    >>> import ebcd
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random((2, 100)) < 0.4
    >>> X = 2 + rng.normal(size=500) + truth.T @ rng.normal(size=(2, 500))
    >>> model = ebcd.gbcd(X + rng.normal(size=(100, 500)), 3)
    >>> model.components_.shape
    (3, 100)
    >>> found = ebcd.memberships(model)[model.clusters_] > 0.5
    >>> [bool((found == cluster).all(axis=1).any()) for cluster in truth]
    [True, True]
    """
    for name in _DECIDED:
        if name in options:
            raise TypeError(f"gbcd has no parameter {name}; it is fixed by the method")
    if isinstance(X, Chunks | Gram):
        raise TypeError(
            f"gbcd needs all samples as one array or data frame, got {type(X).__name__}"
        )
    across = X.T if hasattr(X, "T") else np.asarray(X).T
    binary = GeneralizedBinary(spread)

    def fit(parts: Array) -> EBCD:
        priors = [binary] * len(parts)  # a list keeps their order
        return EBCD(len(parts), prior=priors, start=parts.T, **options).fit(across)

    options |= {"center": True, "scores": "integrated"}
    model = EBCD(n_components, **options).fit(across)
    if model.n_components_:
        covariance = as_input(across, True, False, reading=Reading(holes=True)).covariance
        model = _supported(fit(_split(model)), fit, across, covariance)
    shared = (memberships(model)[:1] > 0.5).all(axis=1).any()
    model.clusters_ = np.arange(model.n_components_)[int(shared) :]
    return model


def _split(model: EBCD) -> Array:
    """Return positive and negative parts of components, the largest first."""
    signed = np.concatenate([model.components_, -model.components_])
    clear = np.concatenate([model.sparsify(), -model.sparsify()]) > 0
    parts = np.maximum(signed, 0.0)
    order = np.argsort(-(parts**2).sum(axis=1), kind="stable")
    kept = np.array(clear[order].any(axis=1))
    kept[0] = True  # the baseline
    return np.asarray(parts[order][kept])


def _supported(
    model: EBCD, fit: Callable[[Array], EBCD], across: Any, covariance: AbstractCovariance
) -> EBCD:
    """Leave out clusters, the largest first, and take complements, where that is as good.

    Of a cluster and its complement the larger is thus left out, if both are there.
    """

    def again(parts: Array) -> EBCD:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit before has warned of the same
            return fit(parts)

    def support(model: EBCD) -> float:
        own = _own_noise(model, covariance) if model.noise == "constant" else 0.0
        return model.elbo_ + own

    def left_out(model: EBCD) -> EBCD:
        tried = 0
        while tried < model.n_components_ - 1:
            k = 1 + int(np.argsort(-_shares(model)[1:], kind="stable")[tried])
            other = again(np.delete(model.components_, k, axis=0))
            if support(other) >= support(model):
                model = other
            else:
                tried += 1
        return model

    def complemented(model: EBCD) -> EBCD:
        for k in range(model.n_components_ - 1, 0, -1):
            complement = model.components_.copy()
            complement[k] = complement[k].max() - complement[k]
            other = again(complement)
            fewer = int((_shares(model) > 0.5).sum() - (_shares(other) > 0.5).sum())
            if other.elbo_ - model.elbo_ + np.sign(fewer) * _error(model, other, across) >= 0:
                model = other
        return model

    model = left_out(model)
    while (other := complemented(model)) is not model:
        model = left_out(other)  # the complement of nearly everyone may be no cluster
        if model is other:
            break
    return model


def _shares(model: EBCD) -> Array:
    """Return the share of the samples in each cluster."""
    return np.array([prior.parameters["weight"] for prior in model.priors_])


def _error(model: EBCD, other: EBCD, across: Any) -> float:
    """Return the standard error of a difference in log-likelihood (Vuong 1989).

    It is a sum over features. A few of them, which are highly expressed, may decide it.
    """
    gains = other.score_samples(across) - model.score_samples(across)
    return float(np.sqrt(gains.size) * gains.std())


def _own_noise(model: EBCD, covariance: AbstractCovariance) -> float:
    """Return what noise variances of every sample add to the log-likelihood, by EM."""
    L, total = model.components_ / covariance.unit, covariance.diagonal()
    noise = np.full(total.shape, np.mean(model.noise_variance_) / covariance.unit**2)
    unit = np.eye(len(L))
    values: list[float] = []
    while len(values) < 2 or 0.5 * covariance.n_samples * (values[-2] - values[-1]) > 1:
        weighted = L / noise
        precision = unit + weighted @ L.T  # of the scores
        to_scores = np.linalg.solve(precision, weighted)
        products = covariance.matmul(np.asarray(to_scores.T, dtype=float)).T
        squares = (total / noise).sum() - (products * weighted).sum()
        values.append(np.log(noise).sum() + np.linalg.slogdet(precision)[1] + squares)
        moments = unit - to_scores @ L.T + products @ to_scores.T
        left = total - 2 * (L * products).sum(axis=0) + (moments @ L * L).sum(axis=0)
        noise = np.maximum(left, np.finfo(float).eps)
    return 0.5 * covariance.n_samples * float(values[0] - values[-1])


def memberships(model: Any) -> Array:
    """Return the posterior probabilities that loadings are not exactly zero.

    With the prior ``generalized_binary`` this is the probability that a feature belongs to a
    cluster; `gbcd` finds clusters of samples. Loadings of families without a spike at zero, such as
    ``normal``, are never exactly zero.

    Parameters
    ----------
    model : EBCD
        A fitted estimator; `ebcd.peers.EBMF` works as well.

    Returns
    -------
    ndarray of shape (k, p)

    See Also
    --------
    memberships_frame : The same as a table.
    ebcd.plots.memberships : The same as a picture.

    Examples
    --------
    >>> import numpy as np
    >>> import ebcd
    >>> rng = np.random.default_rng(0)
    >>> clusters = np.array([[1, 1, 1, 0, 0, 0, 0, 0], [0, 0, 1, 1, 1, 0, 0, 0]])
    >>> X = rng.normal(size=(100, 2)) @ clusters + 0.5 * rng.normal(size=(100, 8))
    >>> model = ebcd.EBCD(2, prior="generalized_binary").fit(X)
    >>> ebcd.memberships(model).round(2)
    array([[0., 0., 1., 1., 1., 0., 0., 0.],
           [1., 1., 1., 0., 0., 0., 0., 0.]])
    """
    if not hasattr(model, "_normal_means"):
        raise TypeError(f"model must have fitted priors, as EBCD has, got {type(model).__name__}")
    check_is_fitted(model)
    return np.asarray(model._memberships())


def memberships_frame(model: Any, feature_names: Any = None) -> Any:
    """Return `memberships` as a pandas data frame: features in rows, components in columns.

    Parameters
    ----------
    model : EBCD
        A fitted estimator.
    feature_names : array-like of length p, optional
        Names of the features, which are samples after `gbcd`; by default those of the data, or x0,
        x1 and so on.

    Returns
    -------
    pandas.DataFrame

    Examples
    --------
    >>> import ebcd
    >>> sea = ebcd.datasets.load_elnino()
    >>> model = ebcd.EBCD(2, prior="generalized_binary").fit(sea.data)
    >>> found = ebcd.memberships_frame(model, sea.feature_names)
    >>> found.index[found["ebcd0"] < 0.5].tolist()
    ['Jan', 'Feb']
    """
    return model._as_frame(memberships(model), feature_names)
