"""The two simulation designs of the EBCD paper: a spiked covariance with sparse components."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from ebcd._parameters import MAX_ITER, integer


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
    integer(1, 2).check("setting", setting)
    MAX_ITER.check("n_samples", n_samples)
    try:
        rng = check_random_state(random_state)
    except ValueError as error:
        raise ValueError(f"random_state: {error}") from None
    # above the unit noise variance, and how many features each component occupies
    spikes = np.array([399.0, 299.0] if setting == 1 else [9.0, 7.0, 4.0])
    sizes = np.array([10, 10] if setting == 1 else [10, 40, 100])
    V = np.zeros((500, sizes.size))
    V[np.arange(sizes.sum()), np.repeat(np.arange(sizes.size), sizes)] = 1.0
    V /= np.sqrt(sizes)
    scores = rng.standard_normal((n_samples, spikes.size))
    noise = rng.standard_normal((n_samples, len(V)))
    X = (scores * np.sqrt(spikes)) @ V.T + noise
    return X, V, (V * spikes) @ V.T + np.eye(len(V))
