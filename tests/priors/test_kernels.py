"""Every kernel against quadrature of its density, which is written out here again."""

import mpmath as mp
import numpy as np
import pytest
from brute_force import moments, panels, posterior_of_points
from scipy import special, stats

from ebcd.priors import _kernels as kernels

X = np.array([-7.0, -2.5, -1.0, -0.2, 0.0, 0.6, 1.0, 3.0, 8.0])
NOISE = [0.3, 1.0, 2.5]


class Case:
    """A kernel with one component, its density, support and a length it varies on."""

    def __init__(self, kernel, density, support, length, kinks):
        self.kernel, self.density, self.support = kernel, density, support
        self.length, self.kinks = length, kinks

    def prior_range(self):
        low, high = min(self.kinks) - 45 * self.length, max(self.kinks) + 45 * self.length
        return max(low, self.support[0]), min(high, self.support[1])


def one(kind, *parameters):
    return kind(*(np.array([value]) for value in parameters))


def unseen(kernel):
    """Observations that say nothing, one for each component."""
    return np.zeros(kernel.size), kernels.OVERWHELMING * np.where(kernel.sizes, kernel.sizes, 1.0)


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


def prior_rule(case):
    return panels(*case.prior_range(), [0.0, *case.kinks], case.length)


def posterior_rule(case, x, s):
    """Beyond the data and the kinks both factors of the integrand fall."""
    low, high = min(x, *case.kinks) - 12 * s, max(x, *case.kinks) + 12 * s
    low, high = max(low, case.support[0]), min(high, case.support[1])
    return panels(low, high, [0.0, x, *case.kinks], min(s, case.length))


def posterior_truth(case, x, s):
    theta, weights = posterior_rule(case, x, s)
    return posterior_of_points(theta, weights * case.density(theta), x, s)


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request):
    return CASES[request.param]


@pytest.fixture(scope="module")
def truth(case):
    """Truth for every noise level and observation."""
    return np.array([[posterior_truth(case, x, s) for x in X] for s in NOISE])


class TestPosterior:
    def test_log_marginal(self, case, truth):
        for s, expected in zip(NOISE, truth, strict=True):
            found = case.kernel.log_marginal(X, np.array(s))
            np.testing.assert_allclose(found, expected[:, 0], rtol=1e-10, atol=1e-11)

    def test_moments(self, case, truth):
        for s, expected in zip(NOISE, truth, strict=True):
            mean, variance = case.kernel.moments(X, np.array(s))
            np.testing.assert_allclose(mean, expected[:, 1], rtol=1e-9, atol=1e-10 * s)
            np.testing.assert_allclose(variance, expected[:, 2], rtol=1e-8)

    def test_tails(self, case, truth):
        for s, expected in zip(NOISE, truth, strict=True):
            below, above = case.kernel.tails(X, np.array(s))
            np.testing.assert_allclose(below, expected[:, 3], rtol=1e-8, atol=1e-11)
            np.testing.assert_allclose(above, expected[:, 4], rtol=1e-8, atol=1e-11)

    @pytest.mark.parametrize("s", NOISE)
    def test_marginal_integrates_to_one(self, case, s):
        low, high = case.prior_range()
        x, weights = panels(low - 12 * s, high + 12 * s, [0.0, *case.kinks], s)
        mass = weights @ np.exp(case.kernel.log_marginal(x, np.array(s)))
        assert mass == pytest.approx(1, abs=1e-11)

    def test_noise_of_every_entry(self, case):
        s = np.geomspace(0.2, 3, X.size)
        found = case.kernel.log_marginal(X, s)
        means = case.kernel.moments(X, s)[0]
        for i in range(X.size):
            expected = posterior_truth(case, X[i], s[i])
            assert found[i] == pytest.approx(expected[0], rel=1e-10, abs=1e-11)
            assert means[i] == pytest.approx(expected[1], rel=1e-9, abs=1e-10)

    @pytest.mark.parametrize("x", [-2.0, 0.4, 3.0])
    def test_draws(self, case, x):
        n = 40_000
        index = np.zeros(n, dtype=np.intp)
        draws = case.kernel.take(index).draw(
            np.full(n, x), np.full(n, 0.8), np.random.default_rng(0)
        )
        check_draws(draws, posterior_truth(case, x, 0.8), case.support)


class TestPrior:
    def test_moments(self, case):
        theta, weights = prior_rule(case)
        log_mass, mean, variance, _, _ = moments(theta, weights * case.density(theta))
        assert log_mass == pytest.approx(0, abs=1e-12)
        found_mean, found_variance = case.kernel.moments(*unseen(case.kernel))
        np.testing.assert_allclose(found_mean, mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found_variance, variance, rtol=1e-10)

    def test_tails(self, case):
        theta, weights = prior_rule(case)
        *_, below, above = moments(theta, weights * case.density(theta))
        found_below, found_above = case.kernel.tails(*unseen(case.kernel))
        np.testing.assert_allclose(found_below, below, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(found_above, above, rtol=1e-9, atol=1e-13)

    def test_draws(self, case):
        n = 40_000
        many = case.kernel.take(np.zeros(n, dtype=np.intp))
        theta, weights = prior_rule(case)
        truth = moments(theta, weights * case.density(theta))
        check_draws(many.draw(*unseen(many), np.random.default_rng(1)), truth, case.support)

    def test_hull(self, case):
        assert case.kernel.hull() == case.support


def check_draws(draws, truth, support):
    """Moments and tails within five standard errors, nothing outside the support."""
    _, mean, variance, below, _ = truth
    n, scaled = draws.size, (draws - mean) / np.sqrt(variance)
    assert (draws >= support[0]).all()
    assert (draws <= support[1]).all()
    assert abs(scaled.mean()) < 5 / np.sqrt(n)
    assert abs((scaled**2).mean() - 1) < 5 * np.sqrt((scaled**4).mean() / n)
    assert abs((draws <= 0).mean() - below) < 5 * np.sqrt(below * (1 - below) / n) + 1e-9


class TestTransformations:
    @pytest.mark.parametrize("factor", [1e-30, 0.25, 3.0, 1e30])
    def test_scaled(self, case, factor):
        scaled, s = case.kernel.scaled(factor), np.array(0.9)
        found = scaled.log_marginal(factor * X, factor * s)
        expected = case.kernel.log_marginal(X, s) - np.log(factor)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        mean, variance = scaled.moments(factor * X, factor * s)
        expected_mean, expected_variance = case.kernel.moments(X, s)
        np.testing.assert_allclose(mean / factor, expected_mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(variance / factor**2, expected_variance, rtol=1e-9)
        below, above = scaled.tails(factor * X, factor * s)
        np.testing.assert_allclose(below, case.kernel.tails(X, s)[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(above, case.kernel.tails(X, s)[1], rtol=1e-9, atol=1e-12)


class TestPointMass:
    at = kernels.PointMass(np.array([-1.5, 0.0, 2.0]))

    def test_posterior_is_the_prior(self):
        mean, variance = self.at.moments(X[:, None], np.ones((X.size, 1)))
        np.testing.assert_array_equal(mean, np.tile([-1.5, 0, 2], (X.size, 1)))
        np.testing.assert_array_equal(variance, 0)
        for below, above in (
            self.at.tails(X[:, None], np.ones((1, 1))),
            self.at.tails(*unseen(self.at)),
        ):
            np.testing.assert_array_equal(np.atleast_2d(below)[0], [1, 1, 0])
            np.testing.assert_array_equal(np.atleast_2d(above)[0], [0, 1, 1])
        np.testing.assert_array_equal(self.at.moments(*unseen(self.at))[0], [-1.5, 0, 2])
        np.testing.assert_array_equal(self.at.moments(*unseen(self.at))[1], 0)

    def test_log_marginal(self):
        found = self.at.log_marginal(X[:, None], np.array(0.7))
        expected = stats.norm.logpdf(X[:, None], [-1.5, 0, 2], 0.7)
        np.testing.assert_allclose(found, expected, rtol=1e-13)

    def test_draws(self):
        rng = np.random.default_rng(0)
        np.testing.assert_array_equal(self.at.draw(np.ones(3), np.ones(3), rng), [-1.5, 0, 2])
        np.testing.assert_array_equal(self.at.draw(*unseen(self.at), rng), [-1.5, 0, 2])

    def test_transformations(self):
        assert self.at.hull() == (-1.5, 2)
        np.testing.assert_array_equal(self.at.scaled(2.0).location, [-3, 0, 4])


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

    def test_one_component_per_entry(self, name):
        kernel, s = SEVERAL[name], np.full(X.size, 0.8)
        index = np.arange(X.size) % 2
        table = kernel.log_marginal(X[:, None], s[:, None])
        found = kernel.take(index).log_marginal(X, s)
        np.testing.assert_array_equal(found, table[np.arange(X.size), index])

    def test_labels(self, name):
        assert SEVERAL[name].labels() == LABELS[name]

    def test_hull_holds_every_component(self, name):
        kernel = SEVERAL[name]
        ends = [kernel.take(np.array([j])).hull() for j in range(2)]
        assert kernel.hull() == (min(low for low, _ in ends), max(high for _, high in ends))


class TestNoiseFarFromTheScale:
    """Widths of prior and noise that differ by many orders of magnitude."""

    z = np.array([-30.0, -5.0, 0.0, 5.0, 30.0])

    @pytest.mark.parametrize("ratio", [1e-150, 1e-20, 1e-9])
    @pytest.mark.parametrize("kind", [kernels.Normal, kernels.Exponential, kernels.Laplace])
    def test_narrow_prior_is_a_point(self, kind, ratio):
        """The marginal is that of the noise; the posterior is the prior."""
        kernel, s = one(kind, 0.0, ratio), np.array(1.0)
        prior_mean, prior_variance = (value[0] for value in kernel.moments(*unseen(kernel)))
        expected = stats.norm.logpdf(self.z) + self.z * prior_mean
        np.testing.assert_allclose(kernel.log_marginal(self.z, s), expected, rtol=1e-10)
        mean, variance = kernel.moments(self.z, s)
        np.testing.assert_allclose(
            mean, prior_mean + self.z * prior_variance, rtol=0, atol=1e-6 * ratio
        )
        np.testing.assert_allclose(variance, np.full(5, prior_variance), rtol=1e-6)

    @pytest.mark.parametrize("width", [1e9, 1e20, 1e120])
    def test_wide_uniform_is_flat(self, width):
        kernel, s = one(kernels.Uniform, 0.0, width), np.array(1.0)
        found = kernel.log_marginal(self.z, s)
        expected = special.log_ndtr(self.z) - np.log(width)
        np.testing.assert_allclose(found, expected, rtol=1e-8)
        below, above = kernel.tails(self.z, s)
        np.testing.assert_array_equal(below, 0)
        np.testing.assert_allclose(above, 1, rtol=1e-12)

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
