"""Loadings to start from, one component a row."""

from __future__ import annotations

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._rotation import NEGLIGIBLE

_VARIMAX_STEPS = 200  # far more than it takes
_VARIMAX_ACCURACY = 1e-3  # of the rotation's entries: a climb follows


def given_start(loadings: Array, unit: Array) -> Array:
    """Return given loadings (p x k) as a start; only their directions matter, so of size one."""
    loadings = loadings.T
    for divisor in (np.ones_like(unit), unit):  # both may be at the end of the range
        loadings = loadings / divisor
        largest = np.abs(loadings).max(initial=0.0)
        loadings = np.ldexp(loadings, -int(np.frexp(largest)[1]))  # which rounds nothing
    return np.asarray(loadings)


def svd_start(covariance: AbstractCovariance, k: int) -> Array:
    """Return loadings of the first k principal components."""
    values, vectors = covariance.leading(k)
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
    return np.asarray((vectors * np.copysign(np.sqrt(values), largest)).T)


def varimax_start(loadings: Array) -> Array:
    """Rotate loadings so that each has few large entries."""
    return np.asarray(varimax(loadings) @ loadings)


def varimax(loadings: Array, *, even: bool = False) -> Array:
    """Return the rotation of loadings after which each has few large entries.

    With `even`, the criterion is minimized: entries are as even in size as can be. Three times the
    largest square that a rotation can lead to makes what is then maximized convex, so that it
    grows in every step, too.
    """
    whole = np.eye(loadings.shape[0])
    sizes = np.linalg.norm(loadings, axis=1)
    some = sizes >= NEGLIGIBLE * sizes.max()  # mixed with nothing, components would be alike
    loadings = loadings[some]
    rotation = np.eye(len(loadings))
    largest = (loadings**2).sum(axis=0).max()
    for _ in range(_VARIMAX_STEPS):
        rotated = rotation @ loadings
        square = rotated**2
        target = rotated * (square - square.mean(axis=1, keepdims=True))
        if even:
            target = 3 * largest * rotated - target
        left, _, right = np.linalg.svd(target @ loadings.T)
        last, rotation = rotation, left @ right
        if np.abs(last - rotation).max() < _VARIMAX_ACCURACY:
            break
    whole[np.ix_(some, some)] = rotation
    return whole


def promax(loadings: Array) -> Array:
    """Return loadings of correlated scores that are closer to having few large entries.

    Those that varimax has found are fitted to their own fourth powers (Hendrickson and White 1964),
    by a transformation after which scores still have mean square one. If the loadings depend on
    each other, there is no such transformation, and they stay as they are.
    """
    gram = loadings @ loadings.T
    if np.linalg.matrix_rank(gram, rtol=1e-12, hermitian=True) < len(gram):
        return loadings
    target = np.copysign(np.square(loadings * loadings), loadings)
    transform = np.linalg.solve(gram, loadings @ target.T)
    transform /= np.maximum(np.linalg.norm(transform, axis=0), 1e-300)
    scores = np.linalg.pinv(transform)
    sizes = np.sqrt((scores**2).sum(axis=1))
    return np.asarray((transform * sizes).T @ loadings)


def plane_rotations(m: int) -> Array:
    """Return rotations of two components by m angles, evenly spread over a quarter turn."""
    angles = np.arange(m) * (np.pi / (2 * m))
    cos, sin = np.cos(angles), np.sin(angles)
    return np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], axis=1)


def random_rotations(m: int, k: int, rng: np.random.Generator) -> Array:
    """Return m rotations of k components, uniformly distributed."""
    q, r = np.linalg.qr(rng.standard_normal((m, k, k)))
    return np.asarray(q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :])


def random_rotation(loadings: Array, rng: np.random.Generator) -> Array:
    """Rotate loadings at random."""
    return np.asarray(random_rotations(1, loadings.shape[0], rng)[0].T @ loadings)
