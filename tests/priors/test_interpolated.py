"""Interpolated values are those of the function, corners included."""

import numpy as np
import pytest

from ebcd.priors._intervals import TOLERANCE, interpolated


@pytest.mark.parametrize(
    "function",
    [np.sin, lambda z: np.maximum(z - 0.123, 0.0), lambda z: np.sign(z - 0.5), np.cbrt],
    ids=["smooth", "corner", "jump", "steep"],
)
def test_values(function):
    points = np.random.default_rng(0).normal(size=20_000) * 3
    asked = []

    def counted(z):
        asked.append(z.size)
        return function(z)

    found = interpolated(counted, points, 2.0)
    expected = function(points)
    assert (np.abs(found - expected) <= TOLERANCE * (1 + np.abs(expected))).all()
    assert sum(asked) < 2000


@pytest.mark.parametrize("points", [np.full(100, 2.0), np.array([1.0]), np.repeat([1.0, 3.0], 50)])
def test_few_different_points(points):
    np.testing.assert_allclose(interpolated(np.exp, points, 0.7), np.exp(points), rtol=1e-9)


def test_far_points():
    """Seen from the far ones the function is a straight line."""
    points = np.r_[np.random.default_rng(0).normal(size=5000), -1e8, 1e8, 3e5]
    found = interpolated(lambda z: z + 1 / (1 + z * z), points, 2.0)
    np.testing.assert_allclose(found, points + 1 / (1 + points**2), rtol=1e-9, atol=1e-9)
