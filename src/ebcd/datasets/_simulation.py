"""The two simulation designs of the EBCD paper: a spiked covariance with sparse components."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ebcd._parameters import MAX_ITER, integer


class _Design(NamedTuple):
    """Spikes above the unit noise variance, and how many features each component occupies."""

    spikes: tuple[float, ...]
    sizes: tuple[int, ...]
    n_features: int = 500


_DESIGNS = {
    1: _Design(spikes=(399.0, 299.0), sizes=(10, 10)),
    2: _Design(spikes=(9.0, 7.0, 4.0), sizes=(10, 40, 100)),
}


def make_simulation(
    setting: int = 1,
    n_samples: int = 50,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Draw a data set from one of the paper's two simulation designs.

    The rows of `X` are independent draws from ``N(0, Sigma)`` with
    ``Sigma = sum_k spike_k v_k v_k' + I`` and 500 features. The components ``v_k`` are constant
    on blocks of features that do not overlap, zero elsewhere, and have unit norm.

    Parameters
    ----------
    setting : {1, 2}, default=1
        1: spikes 399 and 299 on features 0-9 and 10-19 (strong, equally sparse components).
        2: spikes 9, 7 and 4 on features 0-9, 10-49 and 50-149 (weak, unequally sparse).
    n_samples : int, default=50
        Number of rows; the paper uses 50.
    random_state : int, RandomState instance or None, default=None
        Seed or generator of the draws. Pass an int for reproducible data.

    Returns
    -------
    X : ndarray of shape (n_samples, 500)
        The data. Their population mean is zero.
    V : ndarray of shape (500, k)
        The true components as unit-norm columns, strongest first; k is 2 or 3.
    Sigma : ndarray of shape (500, 500)
        The population covariance.

    Examples
    --------
    >>> from ebcd.datasets import make_simulation
    >>> X, V, Sigma = make_simulation(setting=2, random_state=0)
    >>> X.shape, V.shape, Sigma.shape
    ((50, 500), (500, 3), (500, 500))
    >>> [int(size) for size in (V != 0).sum(axis=0)]
    [10, 40, 100]
    """
    integer(1, len(_DESIGNS)).check("setting", setting)
    MAX_ITER.check("n_samples", n_samples)
    try:
        rng = check_random_state(random_state)
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from None
    design = _DESIGNS[setting]
    V = _block_components(design)
    spikes = np.array(design.spikes)
    scores = rng.standard_normal((n_samples, len(spikes)))
    noise = rng.standard_normal((n_samples, design.n_features))
    X = (scores * np.sqrt(spikes)) @ V.T + noise
    Sigma = (V * spikes) @ V.T + np.eye(design.n_features)
    return X, V, Sigma


def _block_components(design: _Design) -> NDArray[np.float64]:
    V = np.zeros((design.n_features, len(design.sizes)))
    first = 0
    for k, size in enumerate(design.sizes):
        V[first : first + size, k] = 1.0 / np.sqrt(size)
        first += size
    return V
