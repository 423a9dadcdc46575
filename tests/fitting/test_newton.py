"""Newton's method for the scores: what it does with its arguments."""

import numpy as np
import pytest

from ebcd.data import from_matrix
from ebcd.fitting._newton import newton_step
from ebcd.fitting._rotation import rotate


@pytest.mark.parametrize("k", [1, 3])
def test_order_in_memory_makes_no_difference_and_arguments_stay_as_they_are(k):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ (3 * rng.laplace(size=(2, 40))) + rng.normal(size=(60, 40))
    covariance = from_matrix(X, True, False, None).covariance
    weights, b = rotate(covariance, rng.normal(size=(k, 40)))
    given = weights, b, 0.9 * b, 0.01 * np.abs(b)
    steps = []
    for order in ("C", "F"):
        arrays = [np.array(array, order=order) for array in given]
        for array in arrays:
            array.flags.writeable = False
        step, s_step, length = newton_step(covariance, *arrays, reach=0.5, accuracy=0.1, most=10)
        assert 0 < length <= 0.5
        np.testing.assert_allclose(s_step, covariance.matmul(step.T).T, atol=1e-10)
        steps.append(step)
    np.testing.assert_allclose(steps[1], steps[0], atol=1e-10)
