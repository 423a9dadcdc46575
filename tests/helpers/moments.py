"""Data of all sizes, and their moments in one line each."""

import numpy as np


def draw(shape, seed=0):
    """Data with many zeros, means far from zero and features of different sizes."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) * rng.uniform(0.3, 5, shape[1]) + 2.0
    return np.where(rng.random(shape) < 0.4, 0.0, values)


def truth(X, center, scale):
    """Mean, divisor and ``S = X'X/n`` of the data after both."""
    mean = X.mean(axis=0) if center else np.zeros(X.shape[1])
    centred = X - mean
    size = np.sqrt((centred**2).mean(axis=0))
    divisor = np.where(size > 0, size, 1.0) if scale else np.ones(X.shape[1])
    standard = centred / divisor
    return mean, divisor, standard.T @ standard / len(X)
