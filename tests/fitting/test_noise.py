"""Noise models: precisions that maximise the criterion, and how they are bounded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from ebcd.fitting._noise import NOISES, ConstantNoise, PerFeatureNoise

SEEDS = st.integers(0, 2**32 - 1)
PSEUDO = 0.2  # share of the samples that count as seen again as pure noise, with noise per feature


N = 25


def draw(seed, p=6):
    """Draw variances of features, and residuals that are a part of them."""
    rng = np.random.default_rng(seed)
    variances = rng.uniform(0.5, 3.0, p) ** 2
    return variances, variances * rng.uniform(0.05, 1.0, p)


@pytest.mark.parametrize("name", NOISES)
class TestEveryModel:
    @given(SEEDS)
    def test_precision_maximises_the_value(self, name, seed):
        variances, residual = draw(seed)
        noise = NOISES[name](N, variances)
        precision = noise.precision(residual)

        def loss(change):
            changed = precision * np.exp(change.reshape(precision.shape))
            return -noise.value(changed, residual)

        found = optimize.minimize(loss, np.zeros(precision.size), method="BFGS")
        assert -found.fun <= noise.value(precision, residual) + 1e-7
        np.testing.assert_allclose(found.x, 0.0, atol=1e-3)

    def test_a_stack_is_as_each_alone(self, name):
        variances, residual = draw(1)
        noise = NOISES[name](N, variances)
        stack = residual * np.array([0.3, 1.0, 0.0, 2.5])[:, None]
        precision = noise.precision(stack)
        alone = [noise.precision(row) for row in stack]
        np.testing.assert_array_equal(precision, alone)
        values = [noise.value(*pair) for pair in zip(alone, stack, strict=True)]
        np.testing.assert_allclose(noise.value(precision, stack), values, rtol=1e-14)

    def test_is_bounded_where_nothing_is_left(self, name):
        variances, residual = draw(0)
        noise = NOISES[name](N, variances)
        precision = noise.precision(0 * residual)
        assert np.isfinite(precision).all()
        assert np.isfinite(noise.value(precision, 0 * residual))
        assert (1 / precision >= noise.floor).all()

    def test_data_without_variance(self, name):
        noise = NOISES[name](5, np.zeros(3))
        precision = noise.precision(np.zeros(3))
        assert np.isfinite(precision).all()
        assert np.isfinite(noise.value(precision, np.zeros(3)))

    def test_floor_is_seen(self, name):
        variances, residual = draw(0)
        noise = NOISES[name](N, variances)
        assert not noise.at_floor(noise.precision(residual))
        assert noise.at_floor(np.asarray(1 / noise.floor))

    def test_constant_feature_is_not_an_exact_fit(self, name):
        # its noise is at the floor whatever the components are
        variances = np.array([1.0, 2.0, 0.0, 1.5])
        noise = NOISES[name](20, variances)
        assert not noise.at_floor(noise.precision(0.5 * noise.variances))


class TestConstant:
    @given(SEEDS)
    def test_value_is_the_log_likelihood_of_the_residuals(self, seed):
        rng = np.random.default_rng(seed)
        E = rng.normal(size=(12, 4)) * 2
        residual = (E**2).mean(axis=0)
        noise = ConstantNoise(12, residual)
        (precision,) = noise.precision(residual)
        expected = stats.norm.logpdf(E, scale=precision**-0.5).sum()
        assert noise.value(np.array([precision]), residual) == pytest.approx(expected, rel=1e-10)
        assert precision == pytest.approx(1 / (E**2).mean())


class TestPerFeature:
    def test_counts_further_samples_of_pure_noise(self):
        variances, residual = draw(3)
        precision = PerFeatureNoise(N, variances).precision(residual)
        expected = (residual + PSEUDO * variances) / (1 + PSEUDO)
        np.testing.assert_allclose(1 / precision, expected)

    def test_no_precision_exceeds_that_of_an_exact_fit(self):
        variances, residual = draw(4)
        smallest = PSEUDO / (1 + PSEUDO) * variances
        variance = 1 / PerFeatureNoise(N, variances).precision(0 * residual)
        assert (variance >= smallest * (1 - 1e-12)).all()

    @given(SEEDS)
    def test_does_not_depend_on_the_units_of_a_feature(self, seed):
        rng = np.random.default_rng(seed)
        units = np.exp(rng.normal(size=4))
        variances, residual = draw(seed, 4)
        one = PerFeatureNoise(N, variances).precision(residual)
        other = PerFeatureNoise(N, variances * units**2).precision(residual * units**2)
        np.testing.assert_allclose(one, other * units**2)
