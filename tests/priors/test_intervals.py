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


@pytest.mark.parametrize("family", PRIORS)
@pytest.mark.parametrize("probability", [0.5, 0.95])
def test_against_draws(family, probability):
    prior = ebnm(drawn(), 1.0, prior=family).prior
    s = np.linspace(0.5, 2.0, X.size)
    lower, upper = posterior_interval(prior, X, s, probability)
    draws = np.sort(prior.sample_posterior(X, s, n=40_000, random_state=1), axis=0)
    for end, level in ((lower, 0.5 - probability / 2), (upper, 0.5 + probability / 2)):
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
