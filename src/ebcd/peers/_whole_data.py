"""Methods with a prior on the scores, which need the data and not only their covariance."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from ebcd.data import Gram, is_dask
from ebcd.estimators._readable import Readable


class WholeDataDecomposition(Readable):
    """Base of the methods that no stand-in for the data will do for."""

    def fit(self, X: Any, y: Any = None, n_samples: int | None = None) -> Self:
        """Fit to data.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, p)
            Data with one sample a row. `EBMF` takes NaN in dense data for a missing entry.
        y : None
            Ignored.
        n_samples : None
            Not supported: a compact stand-in for the data will not do.

        Returns
        -------
        object
            The fitted estimator.
        """
        self._check_parameters()
        if isinstance(X, Gram):
            self._refuse("a Gram")
        if is_dask(X):
            self._refuse("a Dask collection")
        if n_samples is not None:
            self._refuse("a compact matrix (n_samples given)")
        return self._fit_whole(X)

    def _fit_whole(self, X: Any) -> Self:
        return super().fit(X)

    def fit_covariance(self, S: Any, n_samples: int) -> NoReturn:
        """Raise: the scores have a prior, so the data themselves are needed."""
        self._refuse("a covariance")

    def _refuse(self, given: str) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be fitted to {given}: the scores have a prior, so the "
            "data themselves are needed; call fit with the data, or use EBCD"
        )
