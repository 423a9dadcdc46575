"""The only place that looks at what kind of data a fit was given."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data._covariance import AbstractCovariance, CovarianceMatrix
from ebcd.data._gram import Gram
from ebcd.data._matrix import DataMatrix, column_moments


class Input(NamedTuple):
    """Data as a fit sees them, and what leads back to their own units."""

    covariance: AbstractCovariance
    mean: Array | None
    scale: Array
    variances: Array  # of the features, in the units of the data


def from_matrix(x: Any, center: bool, scale: bool, n_samples: int | None) -> Input:
    """Take a validated data matrix, dense or sparse, or a compact one for `n_samples` rows."""
    mean, variances = column_moments(x, center)
    variances = np.where(_only_rounding(variances, mean), 0.0, variances)
    if n_samples is not None:
        variances = variances * (x.shape[0] / n_samples)
    divisor = _divisor(variances, scale)
    data = DataMatrix(x, mean, divisor, variances / divisor**2, n_samples)
    return Input(data, mean, divisor, variances)


def from_gram(gram: Gram, center: bool, scale: bool) -> Input:
    """Take sufficient statistics."""
    if gram.n_samples == 0:
        raise ValueError("the Gram is empty; update it with data first")
    matrix = gram.scatter / gram.n_samples
    mean = gram.mean
    constant = _only_rounding(np.diagonal(matrix), mean)
    matrix[constant] = matrix[:, constant] = 0.0
    if not center:
        matrix, mean = matrix + np.outer(mean, mean), np.zeros_like(mean)
    return from_covariance(matrix, gram.n_samples, scale)._replace(mean=mean)


def from_covariance(matrix: Array, n_samples: int, scale: bool) -> Input:
    """Take a validated covariance matrix."""
    variances = np.diagonal(matrix).copy()
    divisor = _divisor(variances, scale)
    scaled = matrix / divisor / divisor[:, None] if scale else matrix
    return Input(CovarianceMatrix(scaled, n_samples), None, divisor, variances)


def _only_rounding(variances: Array, mean: Array) -> np.ndarray:
    """Mark features that are constant but for the rounding of their mean."""
    return np.asarray(np.sqrt(variances) <= 1e-13 * np.abs(mean))


def _divisor(variances: Array, scale: bool) -> Array:
    if not scale:
        return np.ones_like(variances)
    return np.where(variances > 0, np.sqrt(variances), 1.0)


def check_covariance(matrix: Any) -> Array:
    """Check a covariance matrix: square, symmetric, positive semi-definite up to rounding."""
    array = np.asarray(matrix)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"the covariance must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise ValueError(f"the covariance must be a square matrix, got shape {array.shape}")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        bad = np.argwhere(~np.isfinite(array))
        raise ValueError(
            f"the covariance has {len(bad)} NaN or infinite entries, the first at "
            f"[{bad[0][0]}, {bad[0][1]}]; fill in or drop those features"
        )
    size = float(np.abs(array).max())
    asymmetry = np.abs(array - array.T)
    if asymmetry.max() > 1e-6 * size:
        i, j = np.unravel_index(int(asymmetry.argmax()), array.shape)
        raise ValueError(
            f"the covariance is not symmetric: entries [{i}, {j}] and [{j}, {i}] differ by "
            f"{asymmetry.max():.3g}; use (S + S.T) / 2 if that is rounding"
        )
    array = np.asarray(0.5 * (array + array.T))
    smallest = float(np.linalg.eigvalsh(array / size)[0]) if size > 0 else 0.0
    if smallest < -1e-6 * array.shape[0] ** 0.5:
        raise ValueError(
            "the covariance is not positive semi-definite: its smallest eigenvalue is "
            f"{smallest * size:.3g}; was it computed from incomplete pairs?"
        )
    return array
