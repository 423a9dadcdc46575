"""Roots are those of the functions, with few evaluations."""

import numpy as np

from ebcd._numerics import rising_root


def test_roots_of_many_functions_at_once():
    wanted = np.linspace(-3, 3, 101)
    asked = []

    def function(place, rows):
        asked.append(place.size)
        return np.sinh(place) - np.sinh(wanted[rows])

    found = rising_root(function, np.full(101, -5.0), np.full(101, 7.0))
    np.testing.assert_allclose(found, wanted, atol=1e-11)
    assert sum(asked) < 15 * 101  # halving alone takes more than forty


def test_jumps_and_flat_pieces():
    steps = np.array([0.3, -1.0, 2.0])
    found = rising_root(
        lambda place, rows: np.where(place < steps[rows], -1.0, 5.0),
        -np.ones(3) * 4,
        np.ones(3) * 4,
    )
    np.testing.assert_allclose(found, steps, atol=1e-11)
    flat = rising_root(lambda place, rows: np.clip(place, -1, 0) + 0.0, -np.ones(1), np.ones(1))
    assert 0 <= flat[0] <= 1


def test_bounds():
    def function(place, rows):
        return place - np.array([-2.0, 2.0, -1.0, 1.0])[rows]

    found = rising_root(function, -np.ones(4), np.ones(4))
    np.testing.assert_array_equal(found, [-1.0, 1.0, -1.0, 1.0])
