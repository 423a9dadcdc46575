"""What must be the same for a fit to go on from a checkpoint."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance


class Description(NamedTuple):
    """A fit: its data and its settings.

    Attributes
    ----------
    settings : dict of str to plain values
        Settings on which the result depends.
    max_iter : int
        Largest number of iterations, which may have become larger.
    n_samples, n_features : int
    variances : array of length p
        Variances of the features.
    correlations : array of length p
        Correlation of every feature with a fixed random combination of all.
    accuracy : float
        How accurate those are.
    """

    settings: dict[str, Any]
    max_iter: int
    n_samples: int
    n_features: int
    variances: Array
    correlations: Array
    accuracy: float


def describe(
    covariance: AbstractCovariance,
    variances: Array,
    accuracy: float,
    settings: dict[str, Any],
    max_iter: int,
) -> Description:
    """Describe a fit; the data are seen through one product."""
    n, p = covariance.n_samples, covariance.n_features
    probe = np.random.default_rng(0).standard_normal(p)
    product = covariance.matmul(probe[:, None])[:, 0]
    largest = np.sqrt(np.maximum(covariance.diagonal() * (probe @ product), 0.0))
    correlations = np.where(largest > 0, product / np.where(largest > 0, largest, 1.0), 0.0)
    return Description(settings, int(max_iter), n, p, variances, correlations, accuracy)


def differences(there: Description, here: Description) -> list[str]:
    """Say in words what differs between a stored fit and this one."""
    found = [
        f"{name} is {there.settings.get(name)} there and {here.settings.get(name)} here"
        for name in sorted(there.settings.keys() | here.settings.keys())
        if there.settings.get(name) != here.settings.get(name)
    ]
    if here.max_iter < there.max_iter:
        found.append(f"max_iter is {there.max_iter} there and smaller here, {here.max_iter}")
    found += [
        f"{name} is {getattr(there, name)} there and {getattr(here, name)} here"
        for name in ("n_samples", "n_features")
        if getattr(there, name) != getattr(here, name)
    ]
    if there.n_features == here.n_features and not _same_data(there, here):
        found.append("the data differ")
    return found


def _same_data(there: Description, here: Description) -> bool:
    """Compare up to rounding, which depends on the number of threads."""
    top = float(here.variances.max(initial=0.0))
    if not np.allclose(there.variances, here.variances, rtol=1e-8, atol=1e-14 * top):
        return False
    accuracy = max(there.accuracy, here.accuracy)
    return bool((np.abs(there.correlations - here.correlations) <= accuracy).all())
