"""Distances of estimated loadings and covariances from the truth, or from one another.

Loadings are p x k: one column per component, as `components_.T` of an estimator.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import orth, subspace_angles

from ebcd._numerics import Array

__all__ = ["bures_wasserstein", "component_angles", "covariance_distance", "subspace_distance"]

# Allows for rounding of matrices computed in single precision, relative to their largest entry.
_TOLERANCE = 10 * float(np.finfo(np.float32).eps)


def component_angles(V: ArrayLike, L: ArrayLike) -> Array:
    """Compute the angle between each true component and its estimate, over a right angle.

    Each column of `V`, in order, is matched to the remaining column of `L` at the smallest angle.
    Signs and lengths of columns do not matter.

    Parameters
    ----------
    V : array-like of shape (p, k)
        True components, one per column; none may be zero.
    L : array-like of shape (p, m)
        Estimated loadings. Columns of zeros count as missing, and m may be any number.

    Returns
    -------
    ndarray of shape (k,)
        0 where directions agree, 1 where they are orthogonal or no estimate is left.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd.metrics import component_angles
    >>> V = np.eye(3)[:, :2]
    >>> L = np.array([[0.0, -1.0], [5.0, 0.0], [0.0, 1.0]])
    >>> component_angles(V, L).round(6)
    array([0.5, 0. ])
    """
    truth, estimate = _unit_truth_and_estimate(V, L)
    angles = np.ones(truth.shape[1])
    for k, v in enumerate(truth.T[: estimate.shape[1]]):
        cosines = v @ estimate
        best = int(np.argmax(np.abs(cosines)))
        u = np.copysign(1.0, cosines[best]) * estimate[:, best]
        # unlike the arc cosine, accurate for small angles
        angle = 2 * np.arctan2(np.linalg.norm(v - u), np.linalg.norm(v + u))
        angles[k] = angle / (np.pi / 2)
        estimate = np.delete(estimate, best, axis=1)
    return angles


def subspace_distance(V: ArrayLike, L: ArrayLike) -> float:
    """Compute the distance between the spans of true and estimated components.

    It is ``min_R ||Q R - W||_F``, with `Q` and `W` orthonormal bases of the spans of `L` and `V`
    and `R` with orthonormal columns. In terms of the principal angles between the two spans it is
    ``sqrt(2 sum_k (1 - cos theta_k))``.

    Parameters
    ----------
    V : array-like of shape (p, k)
        True components, one per column; they must be linearly independent.
    L : array-like of shape (p, m)
        Estimated loadings. Directions missing (because m < k, or columns are zero or
        dependent) count as orthogonal to `V`; with m > k the nearest k directions count.

    Returns
    -------
    float
        Between 0 (the span of `L` contains that of `V`) and ``sqrt(2 k)`` (orthogonal).

    Notes
    -----
    This is ``d_or`` of the EBCD paper where `V` is orthonormal and `L` has rank k.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd.metrics import subspace_distance
    >>> V = np.eye(4)[:, :2]
    >>> round(subspace_distance(V, V @ [[3.0, 1.0], [0.0, 2.0]]), 6)
    0.0
    >>> round(subspace_distance(V, np.eye(4)[:, 2:]), 6)
    2.0
    """
    truth, estimate = _unit_truth_and_estimate(V, L)
    k, rank = truth.shape[1], orth(truth).shape[1]
    if rank < k:
        raise ValueError(
            f"V has {k} columns that span only {rank} dimensions; drop the columns that "
            "are linear combinations of the others"
        )
    angles = subspace_angles(truth, estimate) if estimate.size else np.empty(0)
    # 4 sin^2 of half the angle, not 2 - 2 cos: that would lose half the digits near 0
    return float(np.sqrt(4 * (np.sin(angles / 2) ** 2).sum() + 2 * (k - angles.size)))


def covariance_distance(Sigma: ArrayLike, L: ArrayLike) -> float:
    """Compute the Frobenius distance ``||Sigma - L L'||_F`` of loadings from a covariance.

    Parameters
    ----------
    Sigma : array-like of shape (p, p)
        Symmetric covariance; the paper uses that of the population, noise included.
    L : array-like of shape (p, k)
        Loadings in the units of the data, so that ``L L'`` estimates the signal's covariance.

    Returns
    -------
    float
        The distance, ``d_cov`` of the EBCD paper (where `L` is ``sqrt(n)`` times ours).

    Examples
    --------
    >>> from ebcd.metrics import covariance_distance
    >>> covariance_distance([[4.0, 0.0], [0.0, 3.0]], [[2.0], [0.0]])
    3.0
    """
    covariance = _symmetric("Sigma", Sigma)
    loadings = _matrix("L", L)
    if len(loadings) != len(covariance):
        raise ValueError(
            f"L has {len(loadings)} rows, but Sigma is {_shape(covariance)}; pass loadings with "
            "one row per feature (components_.T of an estimator)"
        )
    if np.abs(loadings).max(initial=0.0) > 1e75:
        raise ValueError("L has entries beyond 1e75, which are too large; change the units")
    return float(np.linalg.norm(covariance - loadings @ loadings.T))


def bures_wasserstein(A: ArrayLike, B: ArrayLike) -> float:
    """Compute the Bures-Wasserstein distance between two positive semi-definite matrices.

    ``(tr A + tr B - 2 tr (A^(1/2) B A^(1/2))^(1/2))^(1/2)``: the distance, not its square. It
    is the least ``||F - G R||_F`` over orthonormal `R` with ``A = F F'`` and ``B = G G'``, and
    the 2-Wasserstein distance between ``N(0, A)`` and ``N(0, B)``.

    Parameters
    ----------
    A, B : array-like of shape (p, p)
        Symmetric positive semi-definite, of any rank.

    Returns
    -------
    float
        The distance, in the units of the square root of the matrices.

    Notes
    -----
    Eigenvalues of `A` and `B` below rounding (``p`` times the machine epsilon, relative to the
    largest) are taken as zero, so matrices that differ only in such eigenvalues have distance
    zero: the distance cannot be known better from matrices stored in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd.metrics import bures_wasserstein
    >>> round(bures_wasserstein(np.diag([4.0, 0.0]), np.diag([1.0, 0.0])), 6)
    1.0
    """
    first, second = _symmetric("A", A), _symmetric("B", B)
    if first.shape != second.shape:
        raise ValueError(
            f"B is {_shape(second)}, but A is {_shape(first)}; pass two matrices over the same "
            "features"
        )
    F, G = _factor("A", first), _factor("B", second)
    # The norm itself at the best rotation, not the traces: their difference cancels near 0.
    left, _, right = np.linalg.svd(G.T @ F)
    return float(np.linalg.norm(F - G @ (left @ right)))


def _unit_truth_and_estimate(V: ArrayLike, L: ArrayLike) -> tuple[Array, Array]:
    """Check both and scale their columns to unit norm, without the zero columns of L."""
    truth, estimate = _matrix("V", V), _matrix("L", L)
    if truth.shape[1] == 0:
        raise ValueError("V has no columns; pass a p x k array of true components with k >= 1")
    if len(truth) != len(estimate):
        raise ValueError(
            f"L has {len(estimate)} rows, but V has {len(truth)}; pass both with one row per "
            "feature (components_.T of an estimator)"
        )
    zero = np.flatnonzero(~truth.any(axis=0))
    if zero.size:
        raise ValueError(
            f"V has only zeros in column {zero[0]}, which has no direction; drop that column"
        )
    return _unit_columns(truth), _unit_columns(estimate[:, estimate.any(axis=0)])


def _unit_columns(M: Array) -> Array:
    # First by the largest entry, so that squares of huge or tiny entries stay in range.
    scaled = M / np.abs(M).max(axis=0, initial=0.0)
    return np.asarray(scaled / np.linalg.norm(scaled, axis=0))


def _factor(name: str, M: Array) -> Array:
    """Return F with ``F F' = M``; raise if M is not positive semi-definite."""
    values, vectors = np.linalg.eigh(M)
    largest = np.abs(values).max()
    if values[0] < -_TOLERANCE * largest:
        raise ValueError(
            f"{name} is not positive semi-definite: its smallest eigenvalue is {values[0]:.3g} "
            f"(the largest is {values[-1]:.3g}); pass a covariance, or set negative eigenvalues "
            "to zero first"
        )
    rounding = len(M) * np.finfo(float).eps * largest
    return np.asarray(vectors * np.sqrt(np.where(values > rounding, values, 0.0)))


def _symmetric(name: str, value: ArrayLike) -> Array:
    M = _matrix(name, value)
    if M.shape[0] != M.shape[1] or M.size == 0:
        raise ValueError(f"{name} is {_shape(M)}; pass a square p x p matrix with p >= 1")
    asymmetry = np.abs(M - M.T).max()
    if asymmetry > _TOLERANCE * np.abs(M).max():
        raise ValueError(
            f"{name} is not symmetric: entries differ from their mirror images by up to "
            f"{asymmetry:.3g}; pass a symmetric matrix, e.g. ({name} + {name}.T) / 2"
        )
    return (M + M.T) / 2


def _matrix(name: str, value: ArrayLike) -> Array:
    try:
        raw = np.asarray(value)
        M = raw.real.astype(np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"{name} is not a numeric array ({error}); pass a dense array of numbers "
            "(toarray() of a sparse matrix)"
        ) from error
    if np.iscomplexobj(raw):
        raise ValueError(f"{name} is complex; pass real numbers")
    if M.ndim != 2:
        raise ValueError(
            f"{name} has {M.ndim} dimension(s); pass a two-dimensional array "
            "(a single component v as v[:, None])"
        )
    if not np.isfinite(M).all():
        raise ValueError(f"{name} contains NaN or infinity; remove or impute those entries")
    return M


def _shape(M: Array) -> str:
    return " x ".join(str(size) for size in M.shape)
