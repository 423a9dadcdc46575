"""Normal arithmetic against mpmath, far into both tails."""

from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from ebcd import _numerics as num

DIGITS = 120  # differences of nearly equal numbers cancel up to 60 of them
SIZES = [0.0, 1e-8, 1e-3, 0.5, 1.0, 3.0, 8.0, 15.9, 16.1, 30.0, 36.5, 45.0, 1e2, 1e3, 1e5, 1e8]
POINTS = np.unique([sign * size for size in SIZES for sign in (-1, 1)])
WIDTHS = [1e-9, 1e-6, 1e-3, 0.009, 0.011, 0.3, 2.0, 9.0, 40.0, 1e3, 1e6]
REALS = st.floats(-1e8, 1e8)


def upper_tail(t):
    """P(Z > t)."""
    return mp.erfc(t / mp.sqrt(2)) / 2


def density(t):
    return mp.exp(-t * t / 2) / mp.sqrt(2 * mp.pi)


def probability(lower, upper):
    """P(lower < Z < upper), as a difference of the smaller tails."""
    if lower + upper < 0:
        lower, upper = -upper, -lower
    return upper_tail(lower) - upper_tail(upper)


@cache
def interval_truth(lower, upper):
    """Log probability, mean, variance of a standard normal between two bounds."""
    with mp.workdps(DIGITS):
        a, b = mp.mpf(lower), mp.mpf(upper)
        mass = probability(a, b)
        mean = (density(a) - density(b)) / mass
        variance = 1 + (a * density(a) - b * density(b)) / mass - mean**2
        return float(mp.log(mass)), float(mean), float(variance)


@cache
def half_line_truth(t):
    """Log Mills ratio; mean and variance of N(-t, 1) above zero."""
    with mp.workdps(DIGITS):
        t = mp.mpf(t)
        hazard = density(t) / upper_tail(t)
        mean = hazard - t
        return float(-mp.log(hazard)), float(mean), float(1 - hazard * mean)


def survival_truth(t, c):
    with mp.workdps(DIGITS):
        return float(upper_tail(mp.mpf(t) + mp.mpf(c)) / upper_tail(mp.mpf(t)))


def intervals():
    pairs = [(point, point + width) for point in POINTS for width in WIDTHS]
    pairs += [(-upper, -lower) for lower, upper in pairs]
    pairs += [(-1e8, 1e8), (-1e8, 2.0), (-1.0, 1e8), (20.0, 1e8), (-3.0, 3.0), (-0.5, 0.5)]
    return np.array([pair for pair in dict.fromkeys(pairs) if pair[0] < pair[1]]).T


class TestHalfLine:
    def test_mills(self):
        t = POINTS[POINTS > num.MILLS_LOWER]
        truth = np.exp([half_line_truth(float(v))[0] for v in t])
        np.testing.assert_allclose(num.mills(t), truth, rtol=1e-12)

    def test_mills_stays_finite(self):
        assert np.isfinite(num.mills(np.array([-1e300, -1e8, -40.0, 1e300]))).all()

    def test_log_mills(self):
        truth = [half_line_truth(float(t))[0] for t in POINTS]
        np.testing.assert_allclose(num.log_mills(POINTS), truth, rtol=1e-13, atol=1e-13)

    def test_log_normal_density(self):
        truth = [float(-(mp.mpf(float(t)) ** 2) / 2 - mp.log(2 * mp.pi) / 2) for t in POINTS]
        np.testing.assert_allclose(num.log_normal_density(POINTS), truth, rtol=1e-15)

    def test_moments(self):
        mean, variance = num.half_line_moments(POINTS)
        truth = np.array([half_line_truth(float(t)) for t in POINTS])
        np.testing.assert_allclose(mean, truth[:, 1], rtol=1e-12)
        np.testing.assert_allclose(variance, truth[:, 2], rtol=1e-10)

    def test_moments_of_scalars(self):
        mean, variance = num.half_line_moments(np.float64(0.0))
        assert mean == pytest.approx(np.sqrt(2 / np.pi))
        assert variance == pytest.approx(1 - 2 / np.pi)

    @pytest.mark.parametrize("t", POINTS)
    def test_survival(self, t):
        """Probabilities that matter; in the lower tail they are near one, so absolutely."""
        spread = np.sqrt(half_line_truth(float(t))[2])
        c = np.abs(half_line_truth(float(t))[1] + spread * np.array([-2.0, -0.3, 0, 0.5, 3, 8]))
        c = np.append(c, [0.0, 1e-12, 1e-3])
        truth = [survival_truth(float(t), float(v)) for v in c]
        found = num.half_line_survival(np.array([t]), c)
        np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-300)

    def test_survival_of_nothing(self):
        """A bound below the half line is exceeded for certain."""
        found = num.half_line_survival(np.array([-3.0, 5.0, 1e8]), np.array([-1.0, 0.0, -1e9]))
        np.testing.assert_array_equal(found, 1.0)

    @given(st.lists(REALS, min_size=2, max_size=8))
    @settings(max_examples=50)
    def test_moments_have_their_bounds(self, values):
        t = np.sort(values)
        mean, variance = num.half_line_moments(t)
        assert (variance > 0).all()
        assert (variance <= 1).all()
        assert (mean > 0).all()
        assert (mean >= -t).all()
        assert (np.diff(mean) <= 1e-12 * mean[:-1]).all()
        assert (mean <= 1 / np.maximum(t, 1e-300)).all()
        assert (variance <= mean**2 * (1 + 1e-12)).all()  # true of every log-concave half line


class TestInterval:
    def test_log_probability(self):
        lower, upper = intervals()
        found = num.log_interval_probability(lower, upper)
        truth = [interval_truth(a, b)[0] for a, b in zip(lower, upper, strict=True)]
        np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9)

    def test_probability_near_one(self):
        """Where the log is nearly zero its absolute error counts."""
        lower, upper = np.array([-9.0, -7.0, -40.0]), np.array([9.0, 50.0, 6.0])
        found = num.log_interval_probability(lower, upper)
        truth = [interval_truth(a, b)[0] for a, b in zip(lower, upper, strict=True)]
        np.testing.assert_allclose(found, truth, atol=1e-15)

    @pytest.mark.parametrize("reach", [1e9, 1e12, 1e20, 1e150])
    def test_one_end_very_far(self, reach):
        """Only the near end matters, and its digits must survive."""
        ends = np.array([-2.0, -0.3, 0.7, 5.0, 30.0])
        found = num.log_interval_probability(ends, np.full(5, reach))
        np.testing.assert_allclose(found, special.log_ndtr(-ends), rtol=1e-9)
        mirrored = num.log_interval_probability(np.full(5, -reach), -ends)
        np.testing.assert_allclose(mirrored, special.log_ndtr(-ends), rtol=1e-9)
        mean, variance = num.interval_moments(ends, np.full(5, reach))
        truth = np.array([half_line_truth(float(t)) for t in ends])
        np.testing.assert_allclose(mean, truth[:, 1] + ends, rtol=1e-11)
        np.testing.assert_allclose(variance, truth[:, 2], rtol=1e-9)

    def test_moments(self):
        lower, upper = intervals()
        mean, variance = num.interval_moments(lower, upper)
        truth = np.array([interval_truth(a, b) for a, b in zip(lower, upper, strict=True)])
        sd = np.sqrt(truth[:, 2])
        assert (np.abs(mean - truth[:, 1]) <= 1e-11 * sd + 4e-16 * np.abs(truth[:, 1])).all()
        np.testing.assert_allclose(variance, truth[:, 2], rtol=1e-9)

    def test_empty_interval(self):
        at = np.array([-1e8, -3.0, 0.0, 3.0, 1e8])
        assert (num.log_interval_probability(at, at) == -np.inf).all()
        mean, variance = num.interval_moments(at, at)
        np.testing.assert_array_equal(mean, at)
        np.testing.assert_array_equal(variance, 0)

    def test_broadcasts(self):
        mean, variance = num.interval_moments(-1.0, [[1.0], [2.0]])
        assert mean.shape == variance.shape == (2, 1)
        assert mean[0, 0] == pytest.approx(0, abs=1e-15)

    @given(REALS, st.floats(-9, 6))
    @settings(max_examples=50)
    def test_symmetry(self, lower, log_width):
        upper = lower + 10**log_width
        a, b = np.array([lower]), np.array([upper])
        log_mass = num.log_interval_probability(a, b)
        np.testing.assert_allclose(num.log_interval_probability(-b, -a), log_mass, rtol=1e-14)
        mean, variance = num.interval_moments(a, b)
        mirrored_mean, mirrored_variance = num.interval_moments(-b, -a)
        np.testing.assert_allclose(mirrored_mean, -mean, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(mirrored_variance, variance, rtol=1e-12)


def check_moments(draws, mean, variance):
    """Mean and variance within five standard errors."""
    n, sd = draws.size, np.sqrt(variance)
    scaled = (draws - mean) / sd
    assert abs(scaled.mean()) < 5 / np.sqrt(n)
    fourth = max((scaled**4).mean(), 1.0)
    assert abs((scaled**2).mean() - 1) < 5 * np.sqrt(fourth / n)


class TestSamplers:
    n = 20_000

    @pytest.mark.parametrize("t", [-1e8, -1e3, -30.0, -2.0, 0.0, 1.5, 10.0, 40.0, 9e3, 2e4, 1e8])
    def test_half_line(self, t):
        draws = num.half_line_sample(np.full(self.n, t), np.random.default_rng(1))
        assert (draws >= 0).all()
        _, mean, variance = half_line_truth(t)
        check_moments(draws, mean, variance)

        def cdf(c):
            if t > 1e5:  # an exponential distribution, to far beyond what a sample can show
                return -np.expm1(-t * c)
            return -np.expm1(special.log_ndtr(-t - c) - special.log_ndtr(-t))

        assert stats.kstest(draws, cdf).pvalue > 1e-3

    @pytest.mark.parametrize(
        ("lower", "upper"),
        [
            (-1.0, 2.0),
            (-40.0, -38.0),
            (0.0, 1e-9),
            (5.0, 5.0 + 1e-6),
            (-1e6, 1e6),
            (-0.5, 1e8),
            (30.0, 30.01),
            (8e3, 9e3),
            (2e4, 2e4 + 1e-5),
            (-1e8, -1e8 + 1.0),
            (1e8, 2e8),
        ],
    )
    def test_interval(self, lower, upper):
        a, b = np.full(self.n, lower), np.full(self.n, upper)
        draws = num.interval_sample(a, b, np.random.default_rng(2))
        assert (draws >= lower).all()
        assert (draws <= upper).all()
        _, mean, variance = interval_truth(lower, upper)
        if np.sqrt(variance) > 10 * np.spacing(max(abs(lower), abs(upper))):
            check_moments(draws, mean, variance)

    @pytest.mark.parametrize(("lower", "upper"), [(-1.0, 2.0), (-6.0, -5.0), (3.0, 1e4)])
    def test_interval_distribution(self, lower, upper):
        a, b = np.full(self.n, lower), np.full(self.n, upper)
        draws = num.interval_sample(a, b, np.random.default_rng(3))
        truth = stats.truncnorm(lower, upper)
        assert stats.kstest(draws, truth.cdf).pvalue > 1e-3

    def test_one_draw_per_bound(self):
        lower = np.array([-5.0, 0.0, 1e6])
        draws = num.interval_sample(lower, np.float64(1e6 + 1) * np.ones(3), self.rng())
        assert draws.shape == (3,)
        np.testing.assert_array_equal(
            draws, num.interval_sample(lower, np.full(3, 1e6 + 1), self.rng())
        )

    @staticmethod
    def rng():
        return np.random.default_rng(4)
