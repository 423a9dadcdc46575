"""Extreme arguments: far tails, tiny and huge units, hardly any data and a million entries."""

from functools import cache

import closed_forms
import mpmath as mp
import numpy as np
import pytest
from scipy import special

import ebcd
from ebcd.priors import PRIORS, make_prior

RATIOS = [0.0, 1e-8, 1.0, 10.0, 37.0, 45.0, 1e2, 1e3, 1e5, 1e8]
SIGNED = np.array(sorted({sign * ratio for ratio in RATIOS for sign in (-1, 1)}))
NOISE = [1e-150, 1.0, 1e150]

PARAMETERS = {
    "point_normal": {"weight": 0.3, "scale": 2.0, "mode": 0.0},
    "point_laplace": {"weight": 0.2, "scale": 1.5, "mode": 0.0},
    "point_exponential": {"weight": 0.4, "scale": 3.0, "mode": 0.0},
    "normal": {"scale": 0.7, "mode": 1.0},
    "laplace": {"scale": 2.0, "mode": -0.5},
    "exponential": {"scale": 0.5, "mode": -1.0},
    "normal_scale_mixture": {"weights": [0.5, 0.3, 0.2], "scales": [0.0, 0.5, 30.0], "mode": 0.0},
    "unimodal": {
        "weights": [0.4, 0.3, 0.2, 0.1],
        "lower": [0.0, 0.0, -1.0, -40.0],
        "upper": [0.0, 2.0, 0.0, 0.0],
        "mode": 0.0,
    },
    "unimodal_symmetric": {
        "weights": [0.6, 0.3, 0.1],
        "lower": [-0.1, -2.0, -50.0],
        "upper": [0.1, 2.0, 50.0],
        "mode": 0.0,
    },
    "unimodal_nonnegative": {
        "weights": [0.7, 0.2, 0.1],
        "lower": [0.0, 0.0, 0.0],
        "upper": [0.0, 3.0, 1e8],
        "mode": 0.0,
    },
    "unimodal_nonpositive": {
        "weights": [0.6, 0.4],
        "lower": [0.0, -5.0],
        "upper": [0.0, 0.0],
        "mode": 0.0,
    },
    "npmle": {"weights": [0.1, 0.5, 0.15, 0.25], "locations": [-40.0, 0.0, 1.0, 90.0]},
    "deconvolver": {"weights": [0.2, 0.5, 0.3], "locations": [-1.0, 0.0, 1.0]},
    "horseshoe": {"scale": 0.3, "mode": 0.0},
    "generalized_binary": {"weight": 0.3, "mean": 5.0, "spread": 0.1, "mode": 0.0},
    "point_mass": {"mode": 0.5},
}


@cache
def truth(family, x, s=1.0, unit=1.0):
    """Log marginal, mean, sd and sign rate, for the prior of `PARAMETERS` times `unit`."""
    if family == "horseshoe":
        return horseshoe(unit * PARAMETERS[family]["scale"], x, s)
    # as if the prior were fixed and the data moved
    z, noise = (mp.fdiv(value, unit, dps=150) for value in (x, s))
    log_marginal, mean, sd, lfsr = closed_forms.posterior(family, PARAMETERS[family], z, noise)
    return log_marginal - np.log(unit), unit * mean, unit * sd, lfsr


def horseshoe(scale, x, s):
    """Integrate over the log of the local scale, by Gauss's rule on panels."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    edges = np.arange(-90, 90, 0.5)
    v = (edges[:, None] + 0.25 * (1 + nodes)).ravel()
    variance = (scale * np.exp(v)) ** 2
    total = variance + s**2
    density = np.exp(-(x**2) / (2 * total)) / np.sqrt(2 * np.pi * total)
    mass = np.tile(0.25 * weights, edges.size) / (np.pi * np.cosh(v)) * density
    share = mass / mass.sum()
    rest = s**2 / total  # what is taken off the observation
    taken = share @ rest
    square = share @ (s**2 * variance / total + (x * (rest - taken)) ** 2)
    below = share @ special.ndtr(-(x / s) * np.sqrt(variance / total))
    return np.log(mass.sum()), x - x * taken, np.sqrt(square), min(below, 1 - below)


def log_marginals(prior, x, s):
    return np.array([prior.log_likelihood([v], s) for v in x])


@pytest.fixture(params=PARAMETERS, ids=str)
def family(request):
    return request.param


def test_table_is_complete():
    assert {*PARAMETERS, "flat"} == {f for f in PRIORS if PRIORS[f].exchangeable}


class TestKnownPrior:
    @pytest.mark.parametrize("s", NOISE)
    def test_far_from_the_prior(self, family, s):
        """Observations up to 1e8 standard deviations from a prior as wide as the noise."""
        prior = make_prior(family, **PARAMETERS[family]).rescaled(s)
        expected = np.array([truth(family, float(z)) for z in SIGNED])
        posterior = prior.posterior(s * SIGNED, s)
        np.testing.assert_allclose(
            log_marginals(prior, s * SIGNED, s), expected[:, 0] - np.log(s), rtol=1e-8
        )
        result = ebcd.ebnm(s * SIGNED, s, prior)
        for found in (posterior, result):
            assert (np.abs(found.mean / s - expected[:, 1]) <= 1e-6).all()
            assert (np.abs(found.sd / s - expected[:, 2]) <= 1e-6).all()
            assert (np.abs(found.lfsr - expected[:, 3]) <= 1e-6).all()
            assert ((found.lfsr >= 0) & (found.lfsr <= 1)).all()
        total = expected[:, 0].sum() - SIGNED.size * np.log(s)
        assert prior.log_likelihood(s * SIGNED, s) == pytest.approx(total, rel=1e-8)
        assert result.log_likelihood == pytest.approx(total, rel=1e-8)

    @pytest.mark.parametrize("unit", [1e-8, 1e-3, 1e3, 1e8])
    def test_widths_of_prior_and_noise_differ(self, family, unit):
        """The prior much narrower or much wider than the noise."""
        prior = make_prior(family, **PARAMETERS[family]).rescaled(unit)
        z = np.array([-1e3, -10.0, -1.0, 0.0, 1e-8, 1.0, 10.0, 45.0, 1e5])
        expected = np.array([truth(family, float(v), unit=unit) for v in z])
        posterior = prior.posterior(z, 1.0)
        np.testing.assert_allclose(log_marginals(prior, z, 1.0), expected[:, 0], rtol=1e-8)
        assert (np.abs(posterior.mean - expected[:, 1]) <= 1e-6).all()
        assert (np.abs(posterior.sd - expected[:, 2]) <= 1e-6).all()

    @pytest.mark.parametrize("unit", [1e-20, 1e20])
    def test_widths_differ_beyond_measure(self, family, unit):
        """A point for all that the noise can tell, or flat for all that the data can."""
        parameters = PARAMETERS[family]
        if parameters.get("mode", 0.0) != 0 or family in ("npmle", "deconvolver", "horseshoe"):
            pytest.skip("no place that is near at every scale")
        prior = make_prior(family, **parameters).rescaled(unit)
        z = np.array([-3.0, 0.0, 1.0, 4.0])
        posterior = prior.posterior(z, 1.0)
        expected = np.array([truth(family, float(v), unit=unit) for v in z])
        np.testing.assert_allclose(log_marginals(prior, z, 1.0), expected[:, 0], rtol=1e-8)
        assert (np.abs(posterior.mean - expected[:, 1]) <= 1e-6).all()
        assert (np.abs(posterior.sd - expected[:, 2]) <= 1e-6).all()
        assert ((posterior.lfsr >= 0) & (posterior.lfsr <= 1)).all()

    def test_noise_levels_far_apart(self, family):
        """Very precise and very vague entries in one call."""
        prior = make_prior(family, **PARAMETERS[family])
        s = np.array([1e-15, 1e-6, 1.0, 1e6, 1e15])
        x = np.array([0.4, 0.7, 3.0, 1e7, -1e16])
        expected = np.array([truth(family, *pair) for pair in zip(x, s, strict=True)])
        posterior = prior.posterior(x, s)
        assert prior.log_likelihood(x, s) == pytest.approx(expected[:, 0].sum(), rel=1e-8)
        width = np.clip(s, 1e-9, None)
        assert (np.abs(posterior.mean - expected[:, 1]) <= 1e-6 * width).all()
        assert (np.abs(posterior.sd - expected[:, 2]) <= 1e-6 * width).all()

    @pytest.mark.parametrize("s", [1e-150, 1e150])
    def test_draws(self, family, s):
        """Finite, and where the posterior is."""
        prior = make_prior(family, **PARAMETERS[family]).rescaled(s)
        draws = prior.sample_posterior(s * SIGNED, s, n=20, random_state=0)
        posterior = prior.posterior(s * SIGNED, s)
        assert np.isfinite(draws).all()
        # a single draw may be from a part that hardly ever occurs, but is between mode and data
        middle = np.median(draws, axis=0)
        assert (np.abs(middle - posterior.mean) <= 12 * posterior.sd + 1e-7 * s).all()
        low, high = s * np.minimum(SIGNED, 0.0), s * np.maximum(SIGNED, 0.0)
        assert ((draws >= low - 12 * s) & (draws <= high + 12 * s)).all()


def check_finite(result, n):
    for values in (result.mean, result.sd, result.lfsr):
        assert values.shape == (n,)
        assert np.isfinite(values).all()
    assert (result.sd >= 0).all()
    assert (result.lfsr >= 0).all()
    assert (result.lfsr <= 1 + 1e-12).all()
    assert np.isfinite(result.log_likelihood) == result.prior.proper
    assert np.isfinite(result.sample(2, random_state=0)).all()
    assert result.prior.family in repr(result)


def check_consistent(result, x, s):
    """What the solver reports is what its prior gives."""
    scale = np.broadcast_to(s, x.shape)
    posterior = result.prior.posterior(x, s)
    assert (np.abs(result.mean - posterior.mean) <= 1e-6 * scale).all()
    assert (np.abs(result.sd - posterior.sd) <= 1e-5 * scale).all()
    assert result.log_likelihood == pytest.approx(
        result.prior.log_likelihood(x, s), rel=1e-9, abs=1e-8, nan_ok=True
    )


@pytest.fixture(params=[f for f in PRIORS if PRIORS[f].exchangeable], ids=str)
def any_family(request):
    return request.param


class TestFit:
    noise = np.random.default_rng(5).normal(size=40)

    @pytest.mark.parametrize(
        ("s", "kind"), [(1e-150, "vector"), (1.0, "scalar"), (1.0, "vector"), (1e150, "scalar")]
    )
    def test_extreme_entries(self, any_family, s, kind):
        z = np.concatenate([SIGNED, self.noise])
        scale = np.ones(z.size)
        if kind == "vector":
            scale = np.geomspace(0.1, 10, z.size)
        x, noise = s * scale * z, s * scale if kind == "vector" else s
        result = ebcd.ebnm(x, noise, any_family)
        check_finite(result, z.size)
        check_consistent(result, x, noise)

    @pytest.mark.parametrize("s", NOISE)
    def test_entries_not_observed(self, any_family, s):
        """Beside an outlier, so that squares of the prior's width overflow."""
        if any_family in ("flat", "horseshoe"):
            pytest.skip("no prior moments")
        x = s * np.append(self.noise, [1e8, 0.0])
        noise = s * np.append(np.ones(41), np.inf)
        result = ebcd.ebnm(x, noise, any_family)
        check_finite(result, 42)
        without = ebcd.ebnm(x[:-1], noise[:-1], any_family)
        np.testing.assert_allclose(result.mean[:-1] / s, without.mean / s, atol=1e-9)

    def test_noise_levels_far_apart(self, any_family):
        s = np.geomspace(1e-8, 1e8, 40)
        x = s * self.noise
        result = ebcd.ebnm(x, s, any_family)
        check_finite(result, 40)
        check_consistent(result, x, s)

    @pytest.mark.parametrize("size", [1e3, 1e6, 1e8])
    @pytest.mark.parametrize("kind", ["scalar", "vector"])
    @pytest.mark.parametrize(
        "family",
        ["point_normal", "point_laplace", "point_exponential", "normal", "laplace", "exponential"],
    )
    def test_is_at_the_maximum(self, family, kind, size):
        """However large the outlier, no other weight or scale nearby does better."""
        x = np.concatenate([self.noise, [6.0, 8.0, size]])
        s = 1.0 if kind == "scalar" else np.geomspace(0.3, 3, x.size)
        result = ebcd.ebnm(x, s, family)
        found, best = result.prior.parameters, result.prior.log_likelihood(x, s)
        for key in set(found) - {"mode"}:
            for factor in (0.7, 0.98, 1.02, 1.4):
                other = make_prior(family, **{**found, key: min(found[key] * factor, size)})
                assert other.log_likelihood(x, s) <= best + 1e-6

    @pytest.mark.parametrize("ratio", [1e20, 1e60])
    def test_beyond_all_reason(self, any_family, ratio):
        """Legal, so it must not break."""
        x = np.append(self.noise, ratio)
        result = ebcd.ebnm(x, 1.0, any_family)
        assert np.isfinite(result.mean).all()
        assert np.isfinite(result.log_likelihood) == result.prior.proper

    @pytest.mark.parametrize("family", ["point_laplace", "generalized_binary", "unimodal"])
    def test_scale_equivariance_with_a_mode(self, family):
        rng = np.random.default_rng(12)
        x = 3 + np.abs(rng.laplace(scale=2, size=60)) + rng.normal(size=60)
        for mode in (3.0, "estimate"):
            base = ebcd.ebnm(x, 1.0, family, mode=mode)
            for c in (1e-100, 1e100):
                scaled_mode = mode if mode == "estimate" else c * mode
                result = ebcd.ebnm(c * x, c, family, mode=scaled_mode)
                np.testing.assert_allclose(result.mean / c, base.mean, rtol=1e-7)
                expected = base.log_likelihood - 60 * np.log(c)
                assert result.log_likelihood == pytest.approx(expected, rel=1e-8)

    @pytest.mark.parametrize("n", [4_000, 6_500])
    def test_scale_equivariance_when_binned(self, any_family, n):
        """Enough entries for the fast paths of the solvers."""
        if any_family in ("npmle", "unimodal", "deconvolver") and n > 4_000:
            pytest.skip("slow, and the same path")
        rng = np.random.default_rng(13)
        x = np.where(rng.random(n) < 0.2, rng.normal(0, 3, n), 0) + rng.normal(size=n)
        base, result = ebcd.ebnm(x, 1.0, any_family), ebcd.ebnm(1e-90 * x, 1e-90, any_family)
        np.testing.assert_allclose(result.mean / 1e-90, base.mean, rtol=1e-6, atol=1e-6)
        if any_family != "flat":
            expected = base.log_likelihood - n * np.log(1e-90)
            assert result.log_likelihood == pytest.approx(expected, rel=1e-8)


def null_log_likelihood(x, s):
    return float(np.sum(-0.5 * (x / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi)))


SYMMETRIC = {
    "point_normal",
    "point_laplace",
    "normal",
    "laplace",
    "normal_scale_mixture",
    "unimodal_symmetric",
    "horseshoe",
    "point_mass",
}
NEVER_POSITIVE = {"point_mass", "unimodal_nonpositive"}


class TestLittleData:
    """Sensible: never below the null in likelihood, between zero and the data, no wilder."""

    @staticmethod
    def check(result, x, s, family):
        check_finite(result, x.size)
        check_consistent(result, x, s)
        if family == "flat":
            np.testing.assert_array_equal(result.mean, x)
            return
        if family != "deconvolver":  # which maximises something else
            null = null_log_likelihood(x, s)
            assert result.log_likelihood >= null - 1e-6 - 1e-13 * abs(null)
        if family in SYMMETRIC:
            assert (np.abs(result.mean) <= np.abs(x) * (1 + 1e-9) + 1e-9 * s).all()
            assert (result.mean * np.sign(x) >= -1e-12 * s).all()

    @pytest.mark.parametrize(
        ("value", "s"), [(-6.0, 1.0), (0.0, 1.0), (0.3, 1.0), (6.0, 1e-100), (1e6, 1e-100)]
    )
    def test_one_entry(self, any_family, value, s):
        x = s * np.array([value])
        result = ebcd.ebnm(x, s, any_family)
        self.check(result, x, s, any_family)
        if any_family == "npmle":  # the best prior of all: everything at x
            assert result.mean[0] == pytest.approx(x[0], abs=1e-6 * s)
            best = null_log_likelihood(np.zeros(1), s)
            assert result.log_likelihood == pytest.approx(best, abs=1e-6)
        if abs(value) < 1 and any_family in SYMMETRIC:  # less than the noise: no sign of a slab
            assert result.mean[0] == 0
        if any_family in NEVER_POSITIVE:
            assert result.mean[0] <= 0

    def test_normal_with_one_entry(self):
        """In closed form: the variance is x^2 - s^2 if that is positive."""
        result = ebcd.ebnm([3.0], 1.0, "normal")
        assert result.prior.parameters["scale"] ** 2 == pytest.approx(8.0)
        assert result.mean[0] == pytest.approx(3 * 8 / 9)
        assert ebcd.ebnm([0.9], 1.0, "normal").prior.parameters["scale"] == 0

    @pytest.mark.parametrize("x", [[0.0, 0.0], [5.0, -5.0], [0.1, 9.0], [4.0, 4.0]])
    def test_two_entries(self, any_family, x):
        x = np.array(x)
        result = ebcd.ebnm(x, 1.0, any_family)
        self.check(result, x, 1.0, any_family)
        order = np.argsort(x)
        assert (np.diff(result.mean[order]) >= -1e-9).all()

    @pytest.mark.parametrize(("n", "s"), [(1, 1.0), (2, 1e-100), (50, 1.0), (5_000, 1e-100)])
    def test_all_zeros(self, any_family, n, s):
        """The best prior is a point at zero, wherever a family has it."""
        result = ebcd.ebnm(np.zeros(n), s, any_family)
        check_finite(result, n)
        np.testing.assert_allclose(result.mean, 0, atol=1e-6 * s)
        if any_family == "flat":
            return
        assert result.log_likelihood == pytest.approx(null_log_likelihood(np.zeros(n), s), rel=1e-9)
        if any_family != "flat":
            assert (result.sd <= 0.01 * s).all()
            np.testing.assert_allclose(result.lfsr, 1, atol=1e-6)

    @pytest.mark.parametrize("n", [3, 5_000])
    def test_null_is_exact(self, any_family, n):
        """Where the prior found is a point at zero, so is the posterior, to the last digit."""
        result = ebcd.ebnm(np.full(n, 0.5), 1.0, any_family)
        if result.prior.describe() != "100% exactly 0":
            assert any_family not in {*NEVER_POSITIVE, "point_normal", "normal"}
            return
        np.testing.assert_array_equal(result.mean, 0)
        np.testing.assert_array_equal(result.sd, 0)
        np.testing.assert_array_equal(result.lfsr, 1)

    @pytest.mark.parametrize(
        ("n", "value"), [(3, 0.5), (3, 5.0), (3, 1e5), (5_000, 0.5), (5_000, 5.0)]
    )
    def test_all_equal(self, any_family, n, value):
        """Equal entries have equal answers, near the common value once it is significant."""
        x = np.full(n, value)
        result = ebcd.ebnm(x, 1.0, any_family)
        self.check(result, x, 1.0, any_family)
        np.testing.assert_allclose(result.mean, result.mean[0], rtol=1e-12)
        if any_family in NEVER_POSITIVE:
            np.testing.assert_allclose(result.mean, 0, atol=1e-6)
        elif value >= 5 and any_family != "unimodal_symmetric":
            assert abs(result.mean[0] - value) < 1.0
        if any_family == "npmle":
            assert result.mean[0] == pytest.approx(value, abs=1e-6)

    @pytest.mark.parametrize("size", [1e3, 1e6, 1e8])
    def test_one_huge_outlier(self, any_family, size):
        """It is believed, and the others are no further from zero than without any shrinkage."""
        rng = np.random.default_rng(21)
        x = np.append(rng.normal(size=60), size)
        result = ebcd.ebnm(x, 1.0, any_family)
        check_finite(result, 61)
        check_consistent(result, x, 1.0)
        if any_family in NEVER_POSITIVE:
            assert result.mean[-1] <= 1e-6
        else:
            assert abs(result.mean[-1] - size) < 1.0
            assert result.sd[-1] < 1.1
            assert result.lfsr[-1] < 1e-6
        if any_family not in ("flat", "deconvolver", "exponential"):
            assert np.mean(result.mean[:-1] ** 2) <= np.mean(x[:-1] ** 2)


class TestManyEntries:
    n = 1_000_000

    @pytest.mark.parametrize("family", ["point_laplace", "normal_scale_mixture"])
    def test_a_million(self, family):
        rng = np.random.default_rng(31)
        slab = rng.random(self.n) < 0.1
        draw = rng.laplace(scale=3, size=self.n)
        theta = np.where(slab, draw, 0)
        x = 1e-3 * (theta + rng.normal(size=self.n))
        result = ebcd.ebnm(x, 1e-3, family)
        some = slice(None, None, 997)
        exact = result.prior.posterior(x[some], 1e-3)
        np.testing.assert_allclose(result.mean[some], exact.mean, atol=1e-9)
        np.testing.assert_allclose(result.sd[some], exact.sd, atol=1e-9)
        np.testing.assert_allclose(result.lfsr[some], exact.lfsr, atol=1e-6)
        assert np.mean((result.mean / 1e-3 - theta) ** 2) < 0.35
        if family == "point_laplace":
            assert result.prior.parameters["weight"] == pytest.approx(0.1, abs=0.003)
            assert result.prior.parameters["scale"] == pytest.approx(3e-3, rel=0.02)
            direct = result.prior.log_likelihood(x, 1e-3)
            assert result.log_likelihood == pytest.approx(direct, rel=1e-9)


@pytest.mark.parametrize("ratio", [1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize(
    "family", ["laplace", "point_laplace", "point_exponential", "point_normal"]
)
def test_noise_of_very_different_sizes(family, ratio):
    """Half of the entries say next to nothing: what the others say must not be lost."""
    rng = np.random.default_rng(3)
    theta = 2 * np.abs(rng.laplace(size=200)) * (rng.random(200) < 0.5)
    s = np.repeat([1.0, ratio], 100)
    x = theta + s * rng.normal(size=200)
    both, informative = ebcd.ebnm(x, s, family), ebcd.ebnm(x[:100], 1.0, family)
    # each maximises its own likelihood, and they differ by what little the others say
    assert both.prior.parameters["scale"] == pytest.approx(
        informative.prior.parameters["scale"], rel=0.05
    )
    expected = both.prior.posterior(x, s)
    np.testing.assert_allclose(both.mean, expected.mean, atol=1e-6)
    np.testing.assert_allclose(both.sd, expected.sd, atol=1e-6)


def test_near_null_with_uneven_noise_is_climbed_to_the_top():
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2, 20_000)
    x = s * rng.normal(size=s.size)
    found = ebcd.ebnm(x, s, "point_laplace").log_likelihood
    grid = [
        make_prior("point_laplace", weight=w, scale=scale).log_likelihood(x, s)
        for w in np.geomspace(1e-6, 1, 9)
        for scale in np.geomspace(0.01, 10, 10)
    ]
    assert found >= max(grid) - 1e-6
