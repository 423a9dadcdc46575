"""The leading eigenvector of a matrix that is known by its products only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting._keeper import AbstractKeeper

_LANCZOS_STEPS = 20
_RESTARTS = 50


def leading_pair(
    product: Callable[[Array], Array], size: int, accuracy: float, keeper: AbstractKeeper
) -> tuple[float, Array]:
    """Leading eigenvalue and vector of a symmetric matrix, by the method of Lanczos."""
    allowed = min(np.sqrt(accuracy), 30 * accuracy)  # residual, as a share of the eigenvalue
    v = np.random.default_rng(0).standard_normal(size)
    v /= np.linalg.norm(v)
    slot = keeper.slot("vector")
    begin, v, value = slot.saved or (0, v, 0.0)
    for restart in range(begin, _RESTARTS):
        basis, inner = np.empty((0, size)), np.zeros((_LANCZOS_STEPS, _LANCZOS_STEPS))
        for m in range(min(_LANCZOS_STEPS, size)):
            basis = np.vstack([basis, v])
            v = product(v)
            inner[m, m] = v @ basis[m]
            for _ in range(2):  # twice, against rounding
                v = v - (basis @ v) @ basis
            length = float(np.linalg.norm(v))
            values, vectors = np.linalg.eigh(inner[: m + 1, : m + 1])
            value, residual = float(values[-1]), length * abs(float(vectors[-1, -1]))
            if residual <= max(allowed * abs(value), 1e-300):
                return value, vectors[:, -1] @ basis
            v /= length
            if m + 1 < _LANCZOS_STEPS:
                inner[m, m + 1] = inner[m + 1, m] = length
        v = vectors[:, -1] @ basis
        slot.offer(lambda *now: now, restart + 1, v, value)
    return value, v
