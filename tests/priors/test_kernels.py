"""Every kernel against quadrature of its density, which is written out here again."""

import mpmath as mp
import numpy as np
import pytest
from brute_force import panels, posterior_of_points
from scipy import stats

from ebcd.priors import _kernels as kernels

X = np.array([-7.0, -2.5, -1.0, -0.2, 0.0, 0.6, 1.0, 3.0, 8.0])


class Case:
    """A kernel with one component, its density, support and a length it varies on."""

    def __init__(self, kernel, density, support, length, kinks):
        self.kernel, self.density, self.support = kernel, density, support
        self.length, self.kinks = length, kinks


def one(kind, *parameters):
    return kind(*(np.array([value]) for value in parameters))


def normal_case(location, scale):
    kernel = one(kernels.Normal, location, scale)
    density = stats.norm(location, scale).pdf
    return Case(kernel, density, (-np.inf, np.inf), scale, [location])


def exponential_case(location, scale):
    def density(theta):
        along = (theta - location) * np.sign(scale)
        return np.where(along >= 0, np.exp(-np.abs(along / scale)), 0.0) / abs(scale)

    support = (location, np.inf) if scale > 0 else (-np.inf, location)
    kernel = one(kernels.Exponential, location, scale)
    return Case(kernel, density, support, abs(scale), [location])


def laplace_case(location, scale):
    kernel = one(kernels.Laplace, location, scale)
    density = stats.laplace(location, scale).pdf
    return Case(kernel, density, (-np.inf, np.inf), scale, [location])


def uniform_case(lower, upper):
    kernel = one(kernels.Uniform, lower, upper)
    density = stats.uniform(lower, upper - lower).pdf
    return Case(kernel, density, (lower, upper), upper - lower, [lower, upper])


def truncated_case(location, mean, sd):
    def density(theta):
        along = (theta - location) * np.sign(mean)
        whole = stats.norm(abs(mean), sd)
        return np.where(along >= 0, whole.pdf(along) / whole.sf(0), 0.0)

    support = (location, np.inf) if mean > 0 else (-np.inf, location)
    kernel = one(kernels.TruncatedNormal, location, mean, sd)
    return Case(kernel, density, support, sd, [location, location + mean])


CASES = {
    "normal": normal_case(0.0, 1.5),
    "normal off zero": normal_case(-2.0, 0.4),
    "exponential": exponential_case(0.0, 1.3),
    "exponential off zero": exponential_case(-1.2, 0.5),
    "exponential above zero": exponential_case(0.8, 2.0),
    "exponential down": exponential_case(0.0, -0.7),
    "exponential down off zero": exponential_case(1.5, -2.0),
    "exponential below zero": exponential_case(-0.5, -1.0),
    "laplace": laplace_case(0.0, 1.0),
    "laplace off zero": laplace_case(0.9, 0.3),
    "laplace wide": laplace_case(-1.0, 6.0),
    "uniform": uniform_case(0.0, 2.0),
    "uniform around zero": uniform_case(-1.5, 0.7),
    "uniform above zero": uniform_case(1.0, 4.0),
    "uniform below zero": uniform_case(-3.0, -2.5),
    "uniform narrow": uniform_case(-1e-3, 2e-3),
    "uniform wide": uniform_case(-20.0, 30.0),
    "truncated": truncated_case(0.0, 2.0, 0.2),
    "truncated much": truncated_case(0.0, 0.4, 1.5),
    "truncated off zero": truncated_case(-1.0, 1.5, 0.8),
    "truncated down": truncated_case(0.0, -3.0, 0.9),
    "truncated down off zero": truncated_case(1.1, -0.8, 0.5),
}


def posterior_rule(case, x, s):
    """Beyond the data and the kinks both factors of the integrand fall."""
    low, high = min(x, *case.kinks) - 12 * s, max(x, *case.kinks) + 12 * s
    low, high = max(low, case.support[0]), min(high, case.support[1])
    return panels(low, high, [0.0, x, *case.kinks], min(s, case.length))


def posterior_truth(case, x, s):
    theta, weights = posterior_rule(case, x, s)
    return posterior_of_points(theta, weights * case.density(theta), x, s)


@pytest.mark.parametrize("name", CASES)
def test_against_quadrature(name):
    """With noise of every entry; what priors make of kernels is in `test_fitted.py`."""
    case, s = CASES[name], np.array([0.3, 1.0, 2.5, 0.2, 3.0, 0.5, 1.0, 0.3, 2.5])
    truth = np.array([posterior_truth(case, *pair) for pair in zip(X, s, strict=True)])
    found = np.array([case.kernel.log_marginal(X, s), *case.kernel.moments(X, s)]).T
    np.testing.assert_allclose(found[:, 0], truth[:, 0], rtol=1e-10, atol=1e-11)
    assert (np.abs(found[:, 1] - truth[:, 1]) <= 1e-9 * np.abs(truth[:, 1]) + 1e-10 * s).all()
    np.testing.assert_allclose(found[:, 2], truth[:, 2], rtol=1e-8)
    np.testing.assert_allclose(
        np.transpose(case.kernel.tails(X, s)), truth[:, 3:], rtol=1e-8, atol=1e-11
    )
    assert case.kernel.hull() == case.support


SEVERAL = {
    "point mass": kernels.PointMass(np.array([0.0, -1.25])),
    "normal": kernels.Normal(np.array([0.0, 1.0]), np.array([2.0, 0.5])),
    "exponential": kernels.Exponential(np.array([0.0, 1.0]), np.array([2.0, -0.5])),
    "laplace": kernels.Laplace(np.array([0.0, 1.0]), np.array([2.0, 0.5])),
    "uniform": kernels.Uniform(np.array([-1.0, 0.0]), np.array([1.0, 3.0])),
    "truncated": kernels.TruncatedNormal(
        np.array([0.0, 1.0]), np.array([2.0, -0.5]), np.array([0.2, 1.0])
    ),
}
LABELS = {
    "point mass": ["exactly 0", "exactly -1.25"],
    "normal": ["N(0, 2^2)", "N(1, 0.5^2)"],
    "exponential": ["Exponential(mean 2)", "1 + -Exponential(mean 0.5)"],
    "laplace": ["Laplace(scale 2)", "1 + Laplace(scale 0.5)"],
    "uniform": ["Uniform(-1, 1)", "Uniform(0, 3)"],
    "truncated": ["N(2, 0.2^2) above 0", "1 + N(-0.5, 1^2) below 0"],
}


@pytest.mark.parametrize("name", SEVERAL)
class TestSeveralComponents:
    def test_one_column_each(self, name):
        kernel, s = SEVERAL[name], np.full((X.size, 1), 0.8)
        assert kernel.size == 2
        table = kernel.log_marginal(X[:, None], s)
        means, variances = kernel.moments(X[:, None], s)
        assert table.shape == means.shape == variances.shape == (X.size, 2)
        for j in range(2):
            alone = kernel.take(np.array([j]))
            assert alone.size == 1
            np.testing.assert_array_equal(alone.log_marginal(X, s[:, 0]), table[:, j])
            np.testing.assert_array_equal(alone.moments(X, s[:, 0])[0], means[:, j])
            np.testing.assert_array_equal(alone.moments(X, s[:, 0])[1], variances[:, j])

    def test_labels(self, name):
        assert SEVERAL[name].labels() == LABELS[name]

    def test_hull_holds_every_component(self, name):
        kernel = SEVERAL[name]
        ends = [kernel.take(np.array([j])).hull() for j in range(2)]
        assert kernel.hull() == (min(low for low, _ in ends), max(high for _, high in ends))


class TestNoiseFarFromTheScale:
    """Widths of prior and noise that differ by many orders of magnitude."""

    z = np.array([-30.0, -5.0, 0.0, 5.0, 30.0])

    @pytest.mark.parametrize("location", [-1e4, -1e6, -1e8])
    def test_tails_far_from_the_edge(self, location):
        """An edge so far away cannot be felt: the posterior is normal."""
        kernel, s, x = one(kernels.Exponential, location, 1e10), np.array(1.0), self.z / 10
        below, above = kernel.tails(x, s)
        np.testing.assert_allclose(below, stats.norm.sf(x), rtol=1e-6)
        np.testing.assert_allclose(above, stats.norm.cdf(x), rtol=1e-6)


@pytest.mark.parametrize("rate", [0.5, 10.9, 11.0, 11.9, 12.0, 13.0])
@pytest.mark.parametrize("z", [-31.0, 29.9, 30.0, 60.0])
def test_ratio_of_a_narrow_laplace_slab_and_strong_entries(z, rate):
    """The long and the short formulas, where they meet: against the marginal of the mixture."""
    ratio = kernels.Laplace.ratio(np.array([z]), np.array([rate]))
    found = np.log(ratio.odds[0]) + (0.0 if ratio.excess is None else ratio.excess[0])
    with mp.workdps(60):
        size, scaled = mp.mpf(abs(z)), mp.mpf(rate)
        sides = [mp.ncdf(-t) / mp.npdf(t) for t in (scaled - size, scaled + size)]
        expected = mp.log(scaled * sum(sides) / 2)
    assert found == pytest.approx(float(expected), rel=1e-10)
