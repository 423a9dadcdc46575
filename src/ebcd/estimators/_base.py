"""What every estimator of a decomposition ``X ~ mean + Z components_`` shares."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
from scipy.special import ndtri
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from ebcd._numerics import Array
from ebcd._parameters import (
    COUNT,
    FLAG,
    MAX_ITER,
    NON_NEGATIVE,
    RANDOM_STATE,
    VERBOSE,
    Constraint,
    Parsed,
    check_n_components,
    check_parameters,
)
from ebcd._warnings import warn_user
from ebcd.data import (
    AbstractRows,
    Gram,
    Input,
    Memory,
    PassPrinter,
    Reading,
    as_dense,
    as_input,
    as_rows,
    check_covariance,
    check_memory,
    from_covariance,
    has_holes,
    is_dask,
    times,
)
from ebcd.estimators._incomplete import log_likelihoods, scores_of
from ebcd.fitting._progress import AbstractDisplay, Monitor
from ebcd.fitting._starts import given_start
from ebcd.fitting._threads import threads_for
from ebcd.priors._fitted import FittedPrior
from ebcd.priors._solve import Prior

Kind = TypeVar("Kind", bound=type)


@dataclass_transform(eq_default=False)
def with_parameters(kind: Kind) -> Kind:
    """Write the `__init__` of an estimator whose parameters are declared as fields.

    It is no dataclass afterward: to Dask, the fields of those are all there is, so that it takes
    all fits with the same parameters for the same one, and rebuilds them without what was fitted.
    """
    dataclass(eq=False, repr=False, match_args=False)(kind)
    for name in ("__dataclass_fields__", "__dataclass_params__", "__replace__"):
        if name in vars(kind):  # the last since Python 3.13
            delattr(kind, name)
    return kind


if TYPE_CHECKING:  # scikit-learn has no types; with unknown bases any parameter would be right

    class Transformer:
        """What type checkers see of scikit-learn: any attribute, and what we extend."""

        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...
        def __repr__(self, N_CHAR_MAX: int = ...) -> str: ...
        def __sklearn_tags__(self) -> Any: ...
        def _repr_html_inner(self) -> str: ...
        def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]: ...

else:

    class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
        """A transformer of scikit-learn."""


class Decomposition(Transformer, ABC):
    """Base of the estimators: input, scores and the covariance that the components imply.

    A subclass has the parameters ``center`` and ``scale``, declares what its other parameters may
    be in ``_declared``, and sets ``components_`` (k x p), ``noise_variance_`` and ``_score_map``
    (p x k) in `_fit_data`.
    """

    _declared: ClassVar[dict[str, Constraint | Parsed]] = {
        "n_components": COUNT,
        "center": FLAG,
        "scale": FLAG,
        "tol": NON_NEGATIVE,
        "max_iter": MAX_ITER,
        "max_memory": Parsed(check_memory),
        "random_state": RANDOM_STATE,
        "verbose": VERBOSE,
    }
    _takes_holes: ClassVar = False  # whether entries may be missing
    _needs_rows: str = ""  # why a stand-in for the data will not do, if so
    _display: AbstractDisplay | None = None  # of progress, in place of what `verbose` prints

    def fit(self, X: Any, y: Any = None, n_samples: int | None = None) -> Self:
        """Fit to data.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, memory map, Chunks, chunks, Dask or Gram
            Data with one sample per row; chunks of rows, as `Chunks`, a list, or an iterator if
            there are at most 5,000 features; a Dask array or data frame; or their sufficient
            statistics.
        y : None
            Ignored.
        n_samples : int, optional
            Makes `X` a compact stand-in: a matrix with ``X.T @ X`` equal to that of uncentered
            data with this many rows.

        Returns
        -------
        object
            The fitted estimator.
        """
        self._check_parameters()  # before time is spent on the data
        self._refuse(_stand_in(X, n_samples))
        monitor = self._monitor()  # whose clock runs while data are read
        reading = self._reading(monitor)
        data = as_input(X, self.center, self.scale, n_samples=n_samples, reading=reading)
        if data.rows is None:  # statistics
            self._set_names(X.feature_names, data.covariance.n_features)
        else:
            data.rows.check_columns(self, reset=True)
        self._check_input(data)
        with threads_for(data.covariance):
            return self._fit_data(data, monitor)

    def fit_covariance(self, S: Any, n_samples: int) -> Self:
        """Fit to a covariance matrix.

        Parameters
        ----------
        S : array-like of shape (p, p)
            ``X.T @ X / n`` (divided by n, not by n - 1), of data that are already centered if they
            should be.
        n_samples : int
            Number n of rows of the data.

        Returns
        -------
        object
            The fitted estimator; it has no ``mean_``, so that `transform` and `score` expect data
            from which the means have been subtracted.
        """
        self._check_parameters()
        self._refuse("a covariance")
        monitor = self._monitor()
        matrix = check_covariance(S)
        self._set_names(getattr(S, "columns", None), len(matrix))
        COUNT.check("n_samples", n_samples)
        data = from_covariance(matrix, int(n_samples), self.scale)
        self._check_input(data)
        with threads_for(data.covariance):
            return self._fit_data(data, monitor)

    def _refuse(self, stand_in: str) -> None:
        if stand_in and self._needs_rows:
            name = type(self).__name__
            raise TypeError(f"{name} cannot be fitted to {stand_in}: {self._needs_rows}")

    def _check_input(self, data: Input) -> None:
        check_n_components(self.n_components, data.covariance.n_samples, data.covariance.n_features)
        if data.observed is not None and (empty := list(data.observed.empty)):
            first = ", ".join(map(str, empty[:5])) + (", ..." if len(empty) > 5 else "")
            rows = "row has" if len(empty) == 1 else "rows have"
            warn_user(f"left out: {len(empty)} {rows} only missing entries ({first})")

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        with np.printoptions(threshold=8, edgeitems=1, precision=3):  # a start may be large
            return super().__repr__(N_CHAR_MAX)

    def _set_names(self, names: Any, n_features: int) -> None:
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = n_features
        if names is not None and all(isinstance(name, str) for name in names):
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _check_parameters(self) -> None:
        """Check the parameters, as far as that is possible without data."""
        declared = self._declared  # a subclass of a user may have others
        check_parameters({k: v for k, v in vars(self).items() if k in declared}, declared)

    def _given_start(self, unit: Array) -> Array:
        """Return the loadings given as ``start`` in units of the features, a row per component."""
        loadings = np.asarray(self.start, dtype=np.float64)
        k = loadings.shape[1] if isinstance(self.n_components, str) else self.n_components
        if loadings.shape != (unit.size, k):
            raise ValueError(
                f"start must be an array of finite loadings of shape (n_features, n_components) = "
                f"({unit.size}, {k}), got shape {loadings.shape}"
            )
        return given_start(loadings, unit)

    def _reading(self, monitor: Monitor) -> Reading:
        """Return how data are to be read."""
        known = None if isinstance(self.n_components, str) else int(self.n_components)
        memory = Memory(check_memory(getattr(self, "max_memory", None)), known)
        progress = PassPrinter() if getattr(self, "verbose", 0) else None
        return Reading(memory, progress, whole=bool(self._needs_rows), holes=self._takes_holes)

    def _monitor(self) -> Monitor:
        """Return what follows a fit."""
        return Monitor()

    def _fit_data(self, data: Input, monitor: Monitor) -> Self:
        """Fit to checked input, and be followed by a monitor."""
        raise NotImplementedError  # pragma: no cover - subclasses that can be fitted have it

    def transform(self, X: Any) -> Any:
        """Return the scores of data: a linear map, equal to the fitted scores on training data.

        `ebcd.EBCD` with ``scores="integrated"`` returns their posterior means, whose mean square is
        below one, because uncertain scores are shrunk toward zero. It also accepts missing values
        (NaN): the scores of such a row are their expectations given its observed entries. After
        `fit_covariance` the means are unknown, and `X` must be centered as those data were; a
        warning says so if data in memory do not appear to be.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, memory map, Chunks, chunks or Dask
            Data of n rows and p columns.

        Returns
        -------
        ndarray of shape (n, k)
            Scores; on the training data their mean square is one, unlike those of PCA. For a Dask
            array or data frame, a Dask array that is not computed yet.
        """
        check_is_fitted(self)
        rows = self._rows(X)
        self._warn_of_means(rows)
        if self._has_holes(rows):
            return scores_of(self, rows)
        if rows.lazy:
            self._check_output()
        work = partial(_mapped, self._score_map, -(self._mean() @ self._score_map))
        return rows.map(work, self._score_map.shape[1:])

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit and return the scores of the training data."""
        if is_dask(X):
            self._check_output()  # before the work is done
        if isinstance(X, Iterator):
            raise ValueError(
                "X is an iterator, which can be read only once, but the data are needed for the "
                "fit and for the scores; pass a list of chunks, or Chunks(function) with a "
                "function that returns a new iterator"
            )
        return self.fit(X, y, **fit_params).transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Return the data that scores represent: ``scores @ components_ + mean_``.

        Parameters
        ----------
        X : array-like or Dask array of shape (n, k)
            Scores.

        Returns
        -------
        ndarray or Dask array of shape (n, p)
        """
        check_is_fitted(self)
        wanted = (
            f"X must have a column of scores for each of the {len(self.components_)} components"
        )
        if is_dask(X):
            rows = as_rows(X)
            if rows.n_features != len(self.components_):
                raise ValueError(f"{wanted}, got {rows.n_features}")
            work = partial(_mapped, self.components_, self._mean())
            return rows.map(work, self.components_.shape[1:], np.float64)
        scores = np.asarray(X)
        if scores.dtype.kind not in "biuf" or scores.shape[-1:] != (len(self.components_),):
            raise ValueError(f"{wanted}, got {scores.dtype} of shape {scores.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            data = np.asarray(scores @ self.components_ + self._mean())
        if not np.isfinite(data).all():
            raise ValueError("X must hold scores: finite numbers of a size that transform returns")
        return data

    def _mean(self) -> Array:
        """Return the mean of the data; zero if only their covariance is known."""
        return np.asarray(getattr(self, "mean_", np.zeros(self.components_.shape[1])))

    def _warn_of_means(self, rows: AbstractRows) -> None:
        """Warn if only a covariance is known of centered data, and these data are not centered.

        If they came from the same population, their means would differ from those that were
        subtracted by a standard error of variance ``C_jj (1/n + 1/n_samples_)``.
        """
        if hasattr(self, "mean_") or not self.center or rows.matrix is None:
            return
        with np.errstate(over="ignore", invalid="ignore"):  # entries are checked later
            means = np.asarray(rows.matrix.mean(axis=0, dtype=np.float64)).ravel()
        variances = (self.components_**2).sum(axis=0) + self._feature_noise()
        errors = np.sqrt(variances * (1 / rows.matrix.shape[0] + 1 / self.n_samples_))
        largest = -ndtri(0.5e-6 / means.size)  # one in a million centered data sets goes beyond
        far = np.flatnonzero(np.abs(means) > largest * errors)
        if far.size:
            warn_user(
                f"the model was fitted to a covariance, without means, but {far.size} of "
                f"{means.size} columns of X have means far from zero; subtract from X the means "
                "that were subtracted before the covariance was computed"
            )

    def get_covariance(self) -> Array:
        """Return the implied covariance: ``components_.T @ components_`` plus noise."""
        check_is_fitted(self)
        covariance = self.components_.T @ self.components_
        covariance[np.diag_indices_from(covariance)] += self._feature_noise()
        return np.asarray(covariance)

    def get_precision(self) -> Array:
        """Return the inverse of the covariance that the fit implies."""
        check_is_fitted(self)
        noise, weighted, inner = self._woodbury()
        precision = -weighted.T @ np.linalg.solve(inner, weighted)
        precision[np.diag_indices_from(precision)] += 1 / noise
        return np.asarray(precision)

    def score_samples(self, X: Any) -> Any:
        """Return the log-likelihood of each sample under the Gaussian that the fit implies.

        If entries are missing (NaN; `EBCD` and `EBMF` only), it is that of the observed entries.
        After `fit_covariance`, `X` must be centered, as for `transform`.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, memory map, Chunks, chunks or Dask

        Returns
        -------
        ndarray of shape (n,)
            For a Dask array or data frame, a Dask array that is not computed yet.
        """
        check_is_fitted(self)
        rows = self._rows(X)
        self._warn_of_means(rows)
        if self._has_holes(rows):
            return log_likelihoods(self, rows)
        noise, weighted, inner = self._woodbury()
        constant = np.log(noise).sum() + np.linalg.slogdet(inner)[1]
        constant += noise.size * np.log(2 * np.pi)
        work = partial(_log_likelihood, self._mean(), weighted, noise, inner, float(constant))
        return rows.map(work, (), np.float64)

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean log-likelihood of the samples, so that cross-validation works."""
        return float(self.score_samples(X).mean())

    def _woodbury(self) -> tuple[Array, Array, Array]:
        """Return the noise N (p), ``L'/N`` (k x p) and ``I + L'L/N`` (k x k).

        By the Woodbury identity the inverse covariance is ``1/N - L/N (I + L'L/N)^-1 L'/N``.
        """
        noise = self._feature_noise()
        weighted = self.components_ / noise
        return noise, weighted, np.eye(len(weighted)) + weighted @ self.components_.T

    def _feature_noise(self) -> Array:
        """Return the noise variance of each feature of a new sample."""
        return np.broadcast_to(self.noise_variance_, self.components_.shape[1])

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _rows(self, X: Any) -> AbstractRows:
        """Take data with the columns that the estimator was fitted to."""
        progress = PassPrinter() if getattr(self, "verbose", 0) else None
        rows = as_rows(X, Reading(progress=progress))
        rows.check_columns(self, reset=False)
        return rows

    def _has_holes(self, rows: AbstractRows) -> bool:
        """Whether some entries are missing, and the estimator can do without them."""
        return self._takes_holes and rows.matrix is not None and has_holes(rows.matrix)

    def _check_output(self) -> None:
        """Complain if scores of a Dask collection were to be loaded into memory by set_output."""
        wanted = get_config()["transform_output"]
        wanted = getattr(self, "_sklearn_output_config", {}).get("transform", wanted)
        if wanted != "default":
            raise ValueError(
                f'set_output(transform="{wanted}") would load the scores of all rows into memory; '
                'use set_output(transform="default") and, for a lazy data frame, '
                "dask.dataframe.from_dask_array(scores, columns=model.get_feature_names_out())"
            )

    def _feature_names(self, given: Any = None) -> Array:
        """Return names that were given, those of the data, or x0, x1 and so on."""
        names = getattr(self, "feature_names_in_", None) if given is None else given
        if names is None:
            names = [f"x{j}" for j in range(self.n_features_in_)]
        names = np.asarray(names, dtype=object)
        if names.shape != (self.n_features_in_,):
            raise ValueError(
                f"feature_names must have one name for each of the {self.n_features_in_} "
                f"features, got shape {names.shape}"
            )
        return names

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = True, self._takes_holes
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def family_of(prior: Prior) -> str:
    """Return the name of the family of a prior."""
    return prior.family if isinstance(prior, FittedPrior) else prior.name


def _stand_in(X: Any, n_samples: int | None) -> str:
    """Say what is given in place of rows in memory, if anything."""
    if n_samples is not None:
        return "a compact matrix (n_samples given)"
    if isinstance(X, Gram):
        return "a Gram"
    return "a Dask collection" if is_dask(X) else ""


def _mapped(matrix: Array, shift: Array, rows: Any) -> Array:
    """Return ``rows matrix + shift`` in the precision of the rows."""
    product = times(matrix, rows)
    return np.asarray(product + shift.astype(product.dtype, copy=False))


def _log_likelihood(
    mean: Array, weighted: Array, noise: Array, inner: Array, constant: float, rows: Any
) -> Array:
    dense = np.asarray(as_dense(rows), dtype=np.float64) - mean
    with np.errstate(over="ignore", invalid="ignore"):
        along = dense @ weighted.T
        distance = np.einsum("ij,ij->i", dense / noise, dense)
        distance -= (along * np.linalg.solve(inner, along.T).T).sum(axis=1)
    if not np.isfinite(distance).all():
        raise ValueError("X is so far from the fitted data that squares overflow; check its units")
    return np.asarray(-0.5 * (distance + constant))
