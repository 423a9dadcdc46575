"""Newton's method for the scores, with priors and noise fixed, by conjugate gradients.

Let ``Z = X W`` be the scores, ``W' S W = I``, and ``B = S W``. With priors and noise fixed the
criterion is ``sum_jk h_jk(B_jk)`` with ``h' = mean / s^2`` and ``h'' = variance / s^4``. In
directions ``D`` with ``Z + X D`` orthonormal to first order, ``sym(B' D) = 0``, its second-order
model is, with ``Lambda = sym(B' G)``,

    (1)  <G, D>_S - 1/2 <D, A D>_S,   A D = P(D Lambda - H o (S D)),   <C, D>_S = tr(C' S D),
    (2)  G = mean / s^2,   H = variance / s^4,   P(D) = D - W sym(B' D).

The plain iteration ignores ``H``. `A` is symmetric in the inner product ``<., .>_S``, so that
conjugate gradients find the maximum at one product with ``S`` a step. Where ``A`` is not positive
the criterion curves upwards, and the step goes as far as is allowed.

Matrices are stored as rows, k x p.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import daxpy

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance

# Curvatures below this share of those that the plain iteration assumes count as none.
SMALLEST_CURVATURE = 1e-3
FLAT = 1e-8  # radians: a shorter plain step is nothing but rounding


def newton_step(
    covariance: AbstractCovariance,
    weights: Array,
    b: Array,
    gradient: Array,
    bend: Array,
    *,
    reach: float,
    accuracy: float,
    most: int,
    enough: float = 0.0,
) -> tuple[Array, Array, float]:
    """Give ``D``, ``S D``, and the length of ``D``, which is at most `reach`, as an angle.

    Parameters
    ----------
    weights, b : array, k x p
        ``W`` and ``B``.
    gradient, bend : array, k x p
        ``G`` and ``H``, up to a common factor.
    reach : float
        Longest step, in radians of the scores.
    accuracy : float
        Share of the gradient at which to stop.
    most : int
        Most steps, that is products with ``S``.
    enough : float
        Gain of a plain step, in the units of (1), below which there is nothing to do.
    """
    curvature = symmetric(b @ gradient.T)
    own, axes = np.linalg.eigh(curvature)
    safe = np.maximum(own, SMALLEST_CURVATURE * own[-1])
    inverse = (axes / safe) @ axes.T
    pairs = 2 / (safe[:, None] + safe)
    spare, z, s_z = np.empty_like(b), np.empty_like(b), np.empty_like(b)

    def project(d: Array) -> Array:
        """Replace ``D`` by ``P(D)``; return the matrix by which ``W`` was multiplied."""
        away = symmetric(b @ d.T)
        d -= np.matmul(away, weights, out=spare)
        return away

    def precondition(d: Array, s_d: Array) -> None:
        """Divide by the curvature that the plain iteration assumes: `z`, `s_z`.

        Among themselves components turn in pairs, with the mean of their curvatures.
        """
        along = d @ b.T
        turn = axes @ (axes.T @ (0.5 * (along - along.T)) @ axes * pairs) @ axes.T
        turn -= inverse @ along
        np.add(np.matmul(inverse, d, out=z), np.matmul(turn, weights, out=spare), out=z)
        np.add(np.matmul(inverse, s_d, out=s_z), np.matmul(turn, b, out=spare), out=s_z)

    residual = gradient.copy()
    away = project(residual)
    s_residual = covariance.rows_product(gradient)
    s_residual -= np.matmul(away, b, out=spare)
    step, s_step = np.zeros(b.shape), np.zeros(b.shape)
    precondition(residual, s_residual)
    first = slope = float(np.vdot(s_residual, z))
    if not slope > max(FLAT**2 * own.sum(), enough):
        return step, s_step, 0.0
    direction, s_direction = z.copy(), s_z.copy()
    bent, image = np.empty_like(b), np.empty_like(b)
    for _ in range(most):
        np.multiply(bend, s_direction, out=bent)
        np.matmul(curvature, direction, out=image)
        straight = float(np.vdot(s_direction, image))
        image -= bent
        away = project(image)
        curved = float(np.vdot(s_direction, image))
        share = slope / curved if curved else np.inf
        if not 0 < share < np.inf or curved < SMALLEST_CURVATURE * straight:
            share = np.inf
        border = to_border(step, s_step, direction, s_direction, reach)
        inside = share < border
        share = min(share, border)
        _add(step, share, direction)
        _add(s_step, share, s_direction)
        _add(residual, -share, image)
        s_image = covariance.rows_product(bent)
        s_image += np.matmul(away, b, out=spare)
        s_image -= np.matmul(curvature, s_direction, out=spare)
        _add(s_residual, share, s_image)
        precondition(residual, s_residual)
        if not inside:
            break
        old, slope = slope, float(np.vdot(s_residual, z))
        if slope <= accuracy**2 * first:
            break
        for d, new in ((direction, z), (s_direction, s_z)):
            d *= slope / old
            d += new
    # A plain step from here. It removes what D has in the null space of S, of which the products
    # with S do not tell and which would grow from iteration to iteration.
    step += z
    s_step += s_z
    length = math.sqrt(max(float(np.vdot(s_step, step)), 0.0))
    if length > reach:
        step *= reach / length
        s_step *= reach / length
        length = reach
    return step, s_step, length


def _add(total: Array, factor: float, array: Array) -> None:
    """Add a multiple, in place."""
    daxpy(array.ravel(), total.ravel(), a=factor)


def symmetric(matrix: Array) -> Array:
    """Symmetric part."""
    return 0.5 * (matrix + matrix.T)


def to_border(
    step: Array, s_step: Array, direction: Array, s_direction: Array, reach: float
) -> float:
    """Multiple of the direction at which the step has length `reach`."""
    size = max(float(np.vdot(s_direction, direction)), 1e-300)
    linear = float(np.vdot(s_step, direction))
    constant = min(float(np.vdot(s_step, step)) - reach**2, 0.0)
    return float((-linear + np.sqrt(linear**2 - size * constant)) / size)
