"""Posteriors of every exchangeable family against adaptive quadrature."""

import mpmath as mp
import numpy as np
import pytest
from quadrature import posterior

from ebcd import ebnm
from ebcd.priors import PRIORS, make_prior

EXCHANGEABLE = [name for name in PRIORS if getattr(PRIORS[name], "exchangeable", True)]
PROPER = [name for name in EXCHANGEABLE if name != "flat"]

# Parameters that no fit to ordinary data leads to: narrow, wide, off zero, nearly no weight.
CHOSEN = {
    "point_normal": [{"weight": 1e-6, "scale": 30.0}, {"weight": 0.5, "scale": 0.01, "mode": -1.5}],
    "point_laplace": [
        {"weight": 1e-6, "scale": 30.0},
        {"weight": 0.5, "scale": 0.01},
        {"weight": 0.7, "scale": 0.4, "mode": 1.0},
    ],
    "point_exponential": [
        {"weight": 1e-6, "scale": 30.0},
        {"weight": 0.9, "scale": 0.02, "mode": -1.0},
    ],
    "normal": [{"scale": 0.01}, {"scale": 100.0, "mode": 2.0}],
    "laplace": [{"scale": 0.01}, {"scale": 100.0, "mode": -0.7}],
    "exponential": [{"scale": 0.01}, {"scale": 100.0, "mode": -2.0}],
    "horseshoe": [{"scale": 0.01}, {"scale": 2.0, "mode": 1.0}],
    "generalized_binary": [
        {"weight": 0.01, "mean": 20.0},
        {"weight": 0.6, "mean": 1.5, "spread": 0.8, "mode": -1.0},
    ],
    "point_mass": [{"mode": 1.5}],
    "unimodal": [
        {"weights": [0.5, 0.2, 0.3], "lower": [0.5, -1, 0.5], "upper": [0.5, 0.5, 40], "mode": 0.5}
    ],
    "unimodal_symmetric": [
        {"weights": [0.9, 0.1], "lower": [-1e-3, -50.0], "upper": [1e-3, 50.0]}
    ],
    "normal_scale_mixture": [{"weights": [0.99, 0.01], "scales": [1e-3, 50.0], "mode": 1.0}],
}  # fmt: skip
# The density of the horseshoe is infinite at its mode, which takes many panels.
SLOW = {"horseshoe": [pytest.mark.slow]}
# Observations in units of the noise: ordinary, at zero, and far out.
OBSERVATIONS = [(0.0, 1.0), (0.7, 1.0), (-2.4, 0.6), (5.0, 2.0), (-45.0, 1.0), (1e3, 1.0)]


def sample(seed=0, n=60):
    """Effects of either sign, a quarter of them not zero, seen with noise."""
    rng = np.random.default_rng(seed)
    effects = np.where(rng.random(n) < 0.25, rng.laplace(scale=3.0, size=n), 0.0)
    return effects + rng.normal(size=n)


def assert_matches(prior, family, observations):
    for x, s in observations:
        truth = posterior(family, prior.parameters, x, s)
        found = prior.posterior([x], s)
        value = prior.log_likelihood([x], s)
        where = f"{prior!r} at x = {x}, s = {s}"
        assert value == pytest.approx(truth.log_marginal, rel=1e-9, abs=1e-9), where
        assert found.mean[0] == pytest.approx(truth.mean, rel=1e-8, abs=1e-8 * s), where
        assert found.sd[0] == pytest.approx(truth.sd, rel=1e-6, abs=1e-8 * s), where
        assert found.lfsr[0] == pytest.approx(truth.lfsr, rel=1e-6, abs=1e-12), where


@pytest.fixture(autouse=True)
def many_digits():
    with mp.workdps(20):
        yield


@pytest.mark.parametrize(
    "family", [pytest.param(name, marks=SLOW.get(name, [])) for name in PROPER]
)
def test_fitted(family):
    x = sample()
    assert_matches(ebnm(x, 1.0, family).prior, family, [(x[0], 1.0), *OBSERVATIONS])


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        pytest.param(family, parameters, marks=SLOW.get(family, []))
        for family in CHOSEN
        for parameters in CHOSEN[family]
    ],
    ids=str,
)
def test_chosen(family, parameters):
    assert_matches(make_prior(family, **parameters), family, OBSERVATIONS)
