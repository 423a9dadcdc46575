"""The rotation step: scores that fit given loadings best, without forming the scores.

Loadings are stored as rows, k x p, so that one component is contiguous.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance


def eigenpairs(matrix: Array) -> tuple[Array, Array]:
    """Give eigenvalues, increasing, and eigenvectors of one symmetric matrix.

    `numpy.linalg.eigh` takes four times as long for a small one.
    """
    values, vectors, failed = lapack.dsyevd(matrix)
    if failed:
        raise np.linalg.LinAlgError("eigenvalues did not converge")
    return values, np.ascontiguousarray(vectors)


def inverse_root(gram: Array) -> Array:
    """Inverse square root of positive semi-definite matrices; zero where they are singular."""
    if gram.ndim == 2 and gram.size:
        values, vectors = eigenpairs(gram)
        if values[0] > values[-1] * values.size * 1e-15:
            return np.asarray((vectors / np.sqrt(values)) @ vectors.T)
    values, vectors = np.linalg.eigh(gram)
    kept = values > values[..., -1:] * values.shape[-1] * 1e-15
    scale = np.where(kept, 1 / np.sqrt(np.where(kept, values, 1.0)), 0.0)
    return np.asarray((vectors * scale[..., None, :]) @ vectors.swapaxes(-1, -2))


def score_map(
    covariance: AbstractCovariance, loadings: Array, precision: Array
) -> tuple[Array, Array]:
    """Give ``W`` (p x k, scores are ``X W``) and ``B = S W`` as rows (k x p).

    ``B = S T L (L' T S T L)^(-1/2)`` with the precisions ``T``, which cancel if they are equal.
    """
    weights, b = rotate(covariance, weighted(loadings, precision))
    return weights.T, b


def weighted(loadings: Array, precision: Array) -> Array:
    """Multiply loadings by precisions, which matter only if they differ."""
    return loadings * precision if precision.ndim else loadings


def rotate(
    covariance: AbstractCovariance, directions: Array, product: Array | None = None
) -> tuple[Array, Array]:
    """Give ``W = (D S D')^(-1/2) D`` and ``B = W S``: ``X W'`` are the scores next to ``X D'``."""
    if product is None:
        product = covariance.matmul(directions.T).T
    root = inverse_root(directions @ product.T)
    return root @ directions, root @ product
