"""The rotation step: scores that fit given loadings best, without forming the scores.

Loadings are stored as rows, k x p, so that one component is contiguous.
"""

from __future__ import annotations

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

_SMALLEST_CURVATURE = 1e-3  # of what the polar step assumes


def inverse_root(gram: Array) -> Array:
    """Inverse square root of positive semi-definite matrices; zero where they are singular."""
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
    weighted = (loadings * precision if precision.ndim else loadings).T
    product = covariance.matmul(weighted)
    root = inverse_root(weighted.T @ product)
    return weighted @ root, root @ product.T


def newton_rotation(
    b: Array, mean: Array, variance: Array, noise: Array, largest: float
) -> tuple[Array | None, float]:
    """Rotation of the components that Newton's method adds to the polar step.

    With priors and noise fixed the objective over rotations is convex in each component's scores,
    with slopes ``mean / s^2`` and curvatures ``variance / s^4``. The polar step ignores the
    curvatures; here the angle between each pair is corrected for them.

    Returns
    -------
    rotation : array, k x k, or None if there is nothing to correct
    size : float
        Largest angle, at most `largest`.
    """
    z, m, v = b / noise, mean / noise, variance / noise**2
    slope = m @ z.T
    bend = v @ (z * z).T
    assumed = np.diag(slope)[:, None] + np.diag(slope)
    true = np.abs(assumed - bend - bend.T)
    with np.errstate(divide="ignore", invalid="ignore"):
        angles = (slope - slope.T).T * (
            1 / np.maximum(true, _SMALLEST_CURVATURE * assumed) - 1 / assumed
        )
    angles = np.where(np.isfinite(angles), angles, 0.0)
    np.fill_diagonal(angles, 0.0)
    size = float(np.abs(angles).max(initial=0.0))
    if size < 1e-12:
        return None, 0.0
    if size > largest:
        angles *= largest / size
    half = 0.5 * angles
    one = np.eye(len(half))
    # Cayley transform: orthogonal whatever the size of the angles
    return np.asarray(np.linalg.solve(one - half, one + half).T, dtype=np.float64), min(
        size, largest
    )
