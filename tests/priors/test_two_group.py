"""The spike-and-slab evaluation against closed forms and finite differences."""

import numpy as np
import pytest
from closed_forms import posterior
from scipy import stats

from ebcd.priors import PRIORS, make_family
from ebcd.priors._kernels import Bump, PointMass, TruncatedNormal
from ebcd.priors._two_group import evaluate_two_groups

FAMILIES = [
    name for name, family in PRIORS.items() if "scale" in family.lengths and hasattr(family, "slab")
]
PLACES = [-40.0, -6.0, -1.3, -1e-3, 0.0, 0.4, 2.5, 7.0, 31.0]


def evaluate(name, x, s, weight, scale):
    family, x = PRIORS[name], np.atleast_2d(x)
    w, b = (np.full(len(x), np.log(value)) for value in (weight, scale))
    return evaluate_two_groups(family.slab, x, s, w, b, family.has_spike)


def exact(name, x, s, weight, scale):
    """Log-likelihood ratio to the null, posterior mean and variance of one entry."""
    parameters = {"weight": weight if PRIORS[name].has_spike else 1.0, "scale": scale}
    log_marginal, mean, sd, _ = posterior(name, parameters, x, s, digits=40)
    return log_marginal - stats.norm.logpdf(x, scale=s), mean, sd**2


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("weight", "scale", "s"),
    [(0.1, 2.0, 1.0), (0.7, 30.0, 0.5), (0.5, 0.2, 3.0), (0.02, 0.01, 1.0)],
)
def test_values_and_moments_are_right(name, weight, scale, s):
    x = s * np.array(PLACES)
    found = evaluate(name, x[:, None], s, weight, scale)
    expected = np.array([exact(name, one, s, weight, scale) for one in x])
    for values, wanted in zip((found.value, found.mean, found.variance), expected.T, strict=True):
        np.testing.assert_allclose(values.ravel(), wanted, rtol=2e-9, atol=1e-12)


@pytest.mark.parametrize("spread", [0.1, 0.5])
@pytest.mark.parametrize("mean", [0.05, 1.0, 6.0, 40.0])
def test_the_bump_is_a_truncated_normal(spread, mean):
    z, rate = np.array(PLACES)[None], np.array([[1 / mean]])
    kernel = TruncatedNormal(*(np.array([value]) for value in (0.0, mean, spread * mean)))
    spike = PointMass(np.zeros(1)).log_marginal(z, np.ones(1))
    bump = Bump(spread)
    ratio = bump.ratio(z, rate)
    log_ratio = np.log(ratio.odds) + (0.0 if ratio.excess is None else ratio.excess)
    expected = kernel.log_marginal(z, np.ones(1)) - spike
    np.testing.assert_allclose(log_ratio, expected, rtol=1e-10, atol=1e-10)
    found, wanted = bump.details(z, rate, ratio), kernel.moments(z, np.ones(1))
    np.testing.assert_allclose(found.mean, wanted[0], rtol=1e-9)
    np.testing.assert_allclose(found.variance, wanted[1], rtol=1e-9)


@pytest.mark.parametrize("name", [*FAMILIES, "generalized_binary"])
@pytest.mark.parametrize("uneven", [False, True])
def test_derivatives_are_those_of_the_value(name, uneven):
    rng = np.random.default_rng(3)
    family = make_family(name)
    x = rng.normal(size=(4, 60)) * np.array([1.0, 2.0, 5.0, 0.3])[:, None]
    s = rng.uniform(0.5, 2.0, 60) if uneven else np.array(0.8)
    w, b = np.log([0.1, 0.5, 0.9, 0.01]), np.log([2.0, 0.3, 10.0, 0.05])

    def at(dw, db):
        return evaluate_two_groups(family.slab, x, s, w + dw, b + db, family.has_spike, slopes=True)

    found, h = at(0, 0), 1e-5
    for i, (dw, db) in enumerate([(h, 0), (0, h)]):
        up, down = at(dw, db), at(-dw, -db)
        slope = (up.value - down.value) / (2 * h)
        np.testing.assert_allclose(found.gradient[:, i], slope, rtol=1e-6, atol=1e-6)
        curvature = (up.gradient - down.gradient) / (2 * h)
        np.testing.assert_allclose(found.hessian[:, i], curvature, rtol=1e-5, atol=1e-6)
        if family.has_spike or i:
            slope = (up.mean - down.mean) / (2 * h)
            np.testing.assert_allclose(found.slopes[:, i], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_columns_do_not_depend_on_each_other(name):
    """Neither in the number of columns, nor by one that needs other formulas."""
    rng = np.random.default_rng(5)
    family = PRIORS[name]
    x = rng.normal(size=(70, 400)) * np.geomspace(0.1, 1e3, 70)[:, None]
    w, b = np.log(rng.uniform(0.1, 0.9, 70)), np.log(np.geomspace(1e-3, 1e3, 70))
    together = evaluate_two_groups(family.slab, x, 1.0, w, b, family.has_spike)
    for k in (0, 20, 69):
        row = slice(k, k + 1)
        alone = evaluate_two_groups(family.slab, x[row], 1.0, w[row], b[row], family.has_spike)
        for part, whole in zip(alone[:5], together[:5], strict=True):
            np.testing.assert_allclose(part[0], whole[k], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_noise_may_differ_between_columns(name):
    rng = np.random.default_rng(8)
    family, x, s = PRIORS[name], rng.normal(size=(2, 30)), rng.uniform(1, 2, (2, 30))
    w, b = np.log([0.2, 0.6]), np.log([1.0, 3.0])
    for noise in (s, s[:, :1]):
        found = evaluate_two_groups(family.slab, x, noise, w, b, family.has_spike, slopes=True)
        for k in range(2):
            one = slice(k, k + 1)
            level = noise[k, 0] if noise.shape[1] == 1 else noise[k]
            alone = evaluate_two_groups(
                family.slab, x[one], level, w[one], b[one], family.has_spike, slopes=True
            )
            for part, whole in zip(alone, found, strict=True):
                np.testing.assert_allclose(part[0], whole[k], rtol=1e-10, atol=1e-12)
