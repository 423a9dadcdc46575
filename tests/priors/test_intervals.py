"""Credible intervals against quantiles of many draws, and in closed form."""

import numpy as np
import pytest
from scipy import optimize, stats

from ebcd import ebnm
from ebcd.priors import PRIORS, make_prior
from ebcd.priors._intervals import posterior_interval

X = np.array([-6.0, -1.5, 0.0, 0.3, 2.2, 3.0, 9.0])


def drawn():
    rng = np.random.default_rng(0)
    return np.r_[np.zeros(60), rng.exponential(4.0, size=40)] + rng.normal(size=100)


@pytest.mark.parametrize("family", [f for f in PRIORS if PRIORS[f].exchangeable])
def test_against_draws(family):
    prior = ebnm(drawn(), 1.0, prior=family).prior
    s = np.linspace(0.5, 2.0, X.size)
    draws = np.sort(prior.sample_posterior(X, s, n=40_000, random_state=1), axis=0)
    ends = [*posterior_interval(prior, X, s, 0.5), *posterior_interval(prior, X, s, 0.95)]
    for end, level in zip(ends, (0.25, 0.75, 0.025, 0.975), strict=True):
        slack = 1e-9 * (1 + np.abs(end))
        at_most = (draws <= end + slack).mean(axis=0)
        less = (draws < end - slack).mean(axis=0)
        error = 5 * np.sqrt(level * (1 - level) / 40_000)
        assert (at_most >= level - error).all()
        assert (less <= level + error).all()


@pytest.mark.parametrize("x", [0.0, 1.0, 2.5, 3.0, -8.0])
def test_spike_and_normal_slab_in_closed_form(x):
    weight, scale, s = 0.3, 2.0, 0.8
    prior = make_prior("point_normal", weight=weight, scale=scale)
    spike = (1 - weight) * stats.norm.pdf(x, scale=s)
    slab = weight * stats.norm.pdf(x, scale=np.hypot(s, scale))
    variance = 1 / (1 / s**2 + 1 / scale**2)
    posterior = stats.norm(variance * x / s**2, np.sqrt(variance))

    def cdf(t):
        return (slab * posterior.cdf(t) + spike * (t >= 0)) / (spike + slab)

    for end, level in zip(posterior_interval(prior, x, s, 0.95), (0.025, 0.975), strict=True):
        if cdf(-1e-12) < level <= cdf(0.0):
            assert end[0] == 0.0
        else:
            expected = optimize.brentq(lambda t, level=level: cdf(t) - level, -20, 20, xtol=1e-10)
            assert end[0] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("family", [f for f in PRIORS if PRIORS[f].exchangeable])
def test_many_entries_as_few(family):
    """With one noise level many entries are interpolated; one by one they are not."""
    prior = ebnm(drawn(), 1.0, prior=family).prior
    x = np.r_[np.linspace(-9, 9, 1500), 40.0, -300.0, -1e6, 3e6]
    many = np.array(posterior_interval(prior, x, np.full(x.size, 2.0)))
    picked = np.r_[np.arange(0, 1500, 70), 1500:1504]
    few = np.array(posterior_interval(prior, x[picked], np.full(picked.size, 2.0)))
    np.testing.assert_allclose(many[:, picked], few, rtol=3e-9, atol=3e-9)
    np.testing.assert_array_equal(many[:, picked] == 0, few == 0)
    assert (np.diff(many[:, :1500], axis=1) >= -1e-8).all()  # quantiles rise with the observation


@pytest.mark.parametrize(
    "prior",
    [
        make_prior("point_laplace", weight=0.2, scale=3.0),
        make_prior("laplace", scale=0.5),
        make_prior("point_exponential", weight=0.7, scale=3.0),
        make_prior("generalized_binary", weight=0.5, mean=4.0, spread=0.5),
        make_prior("point_normal", weight=0.5, scale=2.0, mode=1.0),
    ],
    ids=lambda prior: prior.family,
)
def test_one_slab_against_numerical_integration(prior):
    """Quantiles in closed form against the integral of prior density times likelihood."""
    grid = np.linspace(-40, 40, 800_001)
    density = prior_density(prior, grid)
    spikes = [
        (float(k.location[0]), prior.weights[i])
        for i, k in enumerate(prior.kernels)
        if type(k).__name__ == "PointMass"
    ]
    for x, s in ((-7.0, 1.0), (0.2, 0.5), (1.9, 1.0), (2.6, 0.9), (6.0, 2.0)):
        slab = density * stats.norm.pdf(x, grid, s)
        below = np.concatenate([[0.0], np.cumsum(0.5 * (slab[1:] + slab[:-1]))]) * (
            grid[1] - grid[0]
        )
        masses = [(at, weight * stats.norm.pdf(x, at, s)) for at, weight in spikes]
        for at, mass in masses:
            below = below + mass * (grid >= at - 1e-9)
        ends = posterior_interval(prior, x, s, 0.9)
        for end, level in zip(ends, (0.05, 0.95), strict=True):
            expected = grid[np.searchsorted(below, level * below[-1])]
            assert end[0] == pytest.approx(expected, abs=3e-4)


def prior_density(prior, grid):
    """Density of the slab, by way of scipy's distributions."""
    p = prior.parameters
    weight, mode = p.get("weight", 1.0), p.get("mode", 0.0)
    slab = {
        "point_laplace": lambda: stats.laplace(mode, p["scale"]),
        "laplace": lambda: stats.laplace(mode, p["scale"]),
        "point_exponential": lambda: stats.expon(mode, p["scale"]),
        "point_normal": lambda: stats.norm(mode, p["scale"]),
        "generalized_binary": lambda: stats.truncnorm(
            -1 / p["spread"], np.inf, loc=p["mean"], scale=p["mean"] * p["spread"]
        ),
    }[prior.family]()
    return weight * slab.pdf(grid)


def test_one_sided_priors_have_one_sided_intervals():
    prior = make_prior("point_exponential", weight=0.5, scale=2.0)
    lower, upper = posterior_interval(prior, X, np.ones(X.size))
    assert (lower >= 0).all()
    assert (lower[:4] == 0).all()
    assert (upper[-1] > lower[-1]).all()


def test_units():
    prior = make_prior("point_laplace", weight=0.5, scale=2.0)
    small = np.array(posterior_interval(prior, X, np.ones(X.size)))
    large = np.array(posterior_interval(prior.rescaled(1e9), 1e9 * X, np.full(X.size, 1e9)))
    np.testing.assert_allclose(large, 1e9 * small, rtol=1e-9, atol=1e-3)


def test_no_spread():
    prior = make_prior("point_mass")
    lower, upper = posterior_interval(prior, X, np.ones(X.size))
    assert (lower == 0).all()
    assert (upper == 0).all()


def test_unknown_prior():
    with pytest.raises(TypeError, match="no intervals"):
        posterior_interval(object(), X, np.ones(X.size))
