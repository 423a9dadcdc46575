"""The rotation step: scores that fit given loadings best, without forming the scores.

Loadings are stored as rows, k x p, so that one component is contiguous.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

NEGLIGIBLE = 1e-12  # of a size or a variance: what is left of it by rounding


def eigenpairs(matrices: Array) -> tuple[Array, Array]:
    """Return eigenvalues, increasing, and eigenvectors of symmetric matrices."""
    if matrices.ndim > 2 or not matrices.size:
        return np.linalg.eigh(matrices)
    # which takes four times as long for one small matrix
    values, vectors, failed = lapack.dsyevd(matrices)
    if failed:
        raise np.linalg.LinAlgError("eigenvalues did not converge")
    return values, np.ascontiguousarray(vectors)


def inverse_root(gram: Array) -> Array:
    """Inverse square root of positive semi-definite matrices; zero where they are singular."""
    values, vectors = eigenpairs(gram)
    kept = values > values[..., -1:] * values.shape[-1] * 1e-15
    scale = kept / np.sqrt(values if kept.all() else np.where(kept, values, 1.0))
    return np.asarray((vectors * scale[..., None, :]) @ vectors.swapaxes(-1, -2))


def rotate(covariance: AbstractCovariance, directions: Array) -> tuple[Array, Array]:
    """Return ``W = (D S D')^(-1/2) D`` and ``W S``: the scores ``X W'`` are nearest ``X D'``."""
    product = multiply(covariance, directions)
    root = inverse_root(directions @ product.T)
    return root @ directions, root @ product


def polar(covariance: AbstractCovariance, loadings: Array) -> Array:
    """Return ``B = (L S L')^(-1/2) L S`` for a matrix of loadings (rows), or a stack of those.

    The scores nearest to ``X L'`` are those that leave the smallest residual.
    """
    product = multiply(covariance, loadings)
    # as inner products of rows: small matrices of a stack would be multiplied without BLAS
    gram = np.vecdot(loadings[..., :, None, :], product[..., None, :, :])
    return np.asarray(inverse_root(gram) @ product)


def multiply(covariance: AbstractCovariance, rows: Array) -> Array:
    """Multiply the rows of a matrix, or of a stack of matrices, by ``S``."""
    flat = rows.reshape(-1, rows.shape[-1])
    return np.ascontiguousarray(covariance.matmul(flat.T).T).reshape(rows.shape)


def orthonormal_rows(rows: Array) -> Array:
    """Orthonormalize rows by a QR decomposition; those that depend on others before become zero."""
    found = np.zeros_like(rows)
    kept = np.asarray(rows.any(axis=1))
    while kept.any():
        q, r = np.linalg.qr(rows[kept].T)
        diagonal = np.diagonal(r)
        thin = np.abs(diagonal) <= NEGLIGIBLE * np.linalg.norm(rows[kept], axis=1)
        if not thin.any():
            found[kept] = (q * np.where(diagonal < 0, -1.0, 1.0)).T
            break
        # one at a time: those after it lost a direction to it
        kept[np.flatnonzero(kept)[thin.argmax()]] = False
    return found
