"""Penalties against their formulas written out here, proximal maps against a fine grid."""

import numpy as np
import pytest

from ebcd.penalties import PENALTIES, make_penalty


def elastic_net(t, l1_ratio=0.5):
    return l1_ratio * t + (1 - l1_ratio) * t**2 / 2


def scad(t, gamma=3.7):
    """Fan and Li's penalty with lambda = 1."""
    middle = (2 * gamma * t - t**2 - 1) / (2 * (gamma - 1))
    return np.where(t <= 1, t, np.where(t <= gamma, middle, (gamma + 1) / 2))


def mcp(t, gamma=3.0):
    """Zhang's penalty with lambda = 1."""
    return np.where(t <= gamma, t - t**2 / (2 * gamma), gamma / 2)


# of magnitudes
FORMULAS = {
    "none": np.zeros_like,
    "l1": lambda t: t,
    "l0": lambda t: np.where(t > 0, 1.0, 0.0),
    "elastic_net": elastic_net,
    "scad": scad,
    "mcp": mcp,
}
OPTIONS = {
    "elastic_net": [{"l1_ratio": 0.0}, {"l1_ratio": 0.3}, {"l1_ratio": 1.0}],
    "scad": [{"gamma": 1.2}, {"gamma": 2.5}, {"gamma": 10.0}],
    "mcp": [{"gamma": 0.5}, {"gamma": 1.0}, {"gamma": 8.0}],
}
CASES = [
    (prefix + name, options)
    for name in FORMULAS
    for options in [{}, *OPTIONS.get(name, [])]
    for prefix in ("", "nonnegative_")
    if prefix + name != "nonnegative_none"
] + [("nonnegative", {})]
GRID = np.linspace(-12.0, 12.0, 24001)  # has 0, and the kinks at 1 and gamma


def value(name, options, v):
    """The penalty of each entry."""
    inner = name.removeprefix("nonnegative").removeprefix("_") or "none"
    cost = FORMULAS[inner](np.abs(v), **options)
    return np.where(v < 0, np.inf, cost) if name.startswith("nonnegative") else cost


def test_every_penalty_is_here():
    assert {name for name, _ in CASES} == set(PENALTIES)


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_value(name, options):
    found = make_penalty(name, **options).value(GRID)
    np.testing.assert_allclose(found, value(name, options, GRID), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("step", [0.01, 0.4, 1.0, 2.7, 3.0, 50.0])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_prox(name, options, step):
    """No point of the grid has a lower criterion than the proximal map."""
    v = np.linspace(-9.0, 9.0, 37) + 0.0132
    u = make_penalty(name, **options).prox(v, step)
    reached = 0.5 * (u - v) ** 2 + step * value(name, options, u)
    cost = step * value(name, options, GRID)
    lowest = np.array([(0.5 * (GRID - one) ** 2 + cost).min() for one in v])
    assert (reached <= lowest + 1e-12 * (1 + lowest)).all()
