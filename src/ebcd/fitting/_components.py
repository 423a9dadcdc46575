"""How many components the data have: compare eigenvalues with those of pure noise."""

from __future__ import annotations

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

# 99 % quantile of the Tracy-Widom distribution of order one (Johnstone 2001; Bejan 2005).
_TRACY_WIDOM_99 = 2.0234
_FIRST_LOOK = 10


class Standardized(AbstractCovariance):
    """The correlation matrix of a covariance."""

    def __init__(self, covariance: AbstractCovariance) -> None:
        self._covariance = covariance
        self.n_samples, self.n_features = covariance.n_samples, covariance.n_features
        self.unit = 1.0
        variances = covariance.diagonal()
        self._inverse = np.where(variances > 0, 1 / np.sqrt(np.maximum(variances, 1e-300)), 0.0)

    def matmul(self, v: Array) -> Array:
        """Product with the correlation matrix."""
        return self._inverse[:, None] * self._covariance.matmul(self._inverse[:, None] * v)

    def diagonal(self) -> Array:
        """Ones, zeros for constant features."""
        return (self._inverse > 0).astype(np.float64)


def count_components(covariance: AbstractCovariance, degrees_of_freedom: int) -> int:
    """Count the eigenvalues that pure noise would exceed with a probability below 1 %.

    The components are taken away one by one. The largest eigenvalue that is left is compared with
    the 99 % quantile of the largest eigenvalue of white noise of the size that is left, whose
    variance is estimated from the eigenvalues that are left (Kritchman and Nadler 2008, with the
    centring and scaling of Ma 2012).

    Parameters
    ----------
    covariance : AbstractCovariance
    degrees_of_freedom : int
        Number of samples, less one if the data are centred.
    """
    n, p = degrees_of_freedom, int((covariance.diagonal() > 0).sum())
    most = min(n, p) - 1
    trace = covariance.trace()
    size = min(_FIRST_LOOK, most)
    values: Array = np.empty(0)
    k = 0
    while k < most:
        if k >= values.size - 1:
            size = min(2 * size, most)
            values = covariance.leading(size)[0]
        if not _stands_out(values, k, trace, covariance.n_samples, n, p):
            break
        k += 1
    return k


def _stands_out(values: Array, k: int, trace: float, n_samples: int, n: int, p: int) -> bool:
    rows, columns = n - k, p - k
    left = trace - float(values[:k].sum())
    variance = n_samples * left / (rows * columns)
    if variance <= 1e-12 * trace:  # nothing but rounding is left
        return False
    root_rows, root_columns = np.sqrt(rows - 0.5), np.sqrt(columns - 0.5)
    centre = (root_rows + root_columns) ** 2
    spread = (root_rows + root_columns) * (1 / root_rows + 1 / root_columns) ** (1 / 3)
    return bool(n_samples * values[k] / variance > centre + _TRACY_WIDOM_99 * spread)
