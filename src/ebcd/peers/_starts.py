"""Where the searches of sparse PCA begin: several starts at once, each k x p."""

from __future__ import annotations

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting._starts import random_rotation, varimax_start


def _how_many(n_starts: int | str, covariance: AbstractCovariance) -> int:
    """Many starts where an iteration is cheap, unless a number was asked for."""
    if isinstance(n_starts, str):
        return 50 if covariance.n_features <= 100 else 8
    return int(n_starts)


def single_starts(covariance: AbstractCovariance, principal: Array, n_starts: int | str) -> Array:
    """Features of largest variance, each on its own, and then the first principal component."""
    number = _how_many(n_starts, covariance)
    order = np.argsort(-covariance.diagonal(), kind="stable")[:number]
    starts = np.zeros((order.size, 1, covariance.n_features))
    starts[np.arange(order.size), 0, order] = 1.0
    if number == 1:
        return starts
    return np.concatenate([starts, principal[None]])


def joint_starts(
    covariance: AbstractCovariance,
    principal: Array,
    n_starts: int | str,
    rng: np.random.Generator,
) -> Array:
    """Features, principal components as they are and after varimax, and random starts.

    The features are those of largest variance, each after the ones before it were regressed out.
    Random starts are, in turn, rotated principal components, varimax components in another order,
    features, and directions. One component starts from features and the first principal component.
    """
    k, number = len(principal), _how_many(n_starts, covariance)
    if k == 1:
        return single_starts(covariance, principal, number)
    simple = varimax_start(principal)
    starts = [separate_features(covariance, k), simple, principal]
    for turn in range(number - 3):
        if turn % 4 == 0:
            starts.append(random_rotation(principal, rng))
        elif turn % 4 == 1:
            starts.append(rng.permutation(simple))
        elif turn % 4 == 2:
            features = rng.choice(covariance.n_features, k, replace=False)
            starts.append((np.arange(covariance.n_features) == features[:, None]) * 1.0)
        else:
            starts.append(rng.standard_normal(principal.shape))
    return np.array(starts[:number])


def separate_features(covariance: AbstractCovariance, k: int) -> Array:
    """Features of largest variance beside those before them: k steps of a pivoted Cholesky."""
    p = covariance.n_features
    chosen, rows = np.zeros((k, p)), np.zeros((k, p))
    left = covariance.diagonal().copy()
    for step in range(k):
        at = int(left.argmax())
        chosen[step, at] = 1.0
        column = covariance.matmul(chosen[step][:, None])[:, 0] - rows[:step, at] @ rows[:step]
        rows[step] = column / np.sqrt(max(left[at], 1e-300))
        left = left - rows[step] ** 2
        left[at] = -np.inf
    return chosen
