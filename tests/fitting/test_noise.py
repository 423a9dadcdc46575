"""Noise models: precisions that maximise the criterion, and how they are bounded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from ebcd.data import CovarianceMatrix
from ebcd.fitting._noise import NOISES, ConstantNoise, PerFeatureNoise

SEEDS = st.integers(0, 2**32 - 1)
PSEUDO = 0.2  # share of the samples that count as seen again as pure noise, with noise per feature


def draw(seed, n=25, p=6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * rng.uniform(0.5, 3.0, p)
    covariance = CovarianceMatrix(X.T @ X / n, n)
    return covariance, covariance.diagonal() * rng.uniform(0.05, 1.0, p)


@pytest.mark.parametrize("name", NOISES)
class TestEveryModel:
    @given(SEEDS)
    def test_precision_maximises_the_value(self, name, seed):
        covariance, residual = draw(seed)
        noise = NOISES[name](covariance)
        precision = noise.precision(residual)

        def loss(change):
            changed = precision * np.exp(change.reshape(precision.shape))
            return -noise.value(changed, residual)

        found = optimize.minimize(loss, np.zeros(precision.size), method="BFGS")
        assert -found.fun <= noise.value(precision, residual) + 1e-7
        np.testing.assert_allclose(found.x, 0.0, atol=1e-3)

    def test_is_bounded_where_nothing_is_left(self, name):
        covariance, residual = draw(0)
        noise = NOISES[name](covariance)
        precision = noise.precision(0 * residual)
        assert np.isfinite(precision).all()
        assert np.isfinite(noise.value(precision, 0 * residual))
        assert (1 / precision >= noise.floor).all()

    def test_data_without_variance(self, name):
        noise = NOISES[name](CovarianceMatrix(np.zeros((3, 3)), 5))
        precision = noise.precision(np.zeros(3))
        assert np.isfinite(precision).all()
        assert np.isfinite(noise.value(precision, np.zeros(3)))

    def test_floor_is_seen(self, name):
        covariance, residual = draw(0)
        noise = NOISES[name](covariance)
        assert not noise.at_floor(noise.precision(residual))
        assert noise.at_floor(np.asarray(1 / noise.floor))

    def test_constant_feature_is_not_an_exact_fit(self, name):
        # its noise is at the floor whatever the components are
        variances = np.array([1.0, 2.0, 0.0, 1.5])
        noise = NOISES[name](CovarianceMatrix(np.diag(variances), 20))
        assert not noise.at_floor(noise.precision(0.5 * noise.variances))


class TestConstant:
    @given(SEEDS)
    def test_value_is_the_log_likelihood_of_the_residuals(self, seed):
        rng = np.random.default_rng(seed)
        E = rng.normal(size=(12, 4)) * 2
        covariance = CovarianceMatrix(E.T @ E / 12, 12)
        noise = ConstantNoise(covariance)
        residual = covariance.diagonal()
        precision = noise.precision(residual)
        scaled = E / covariance.unit
        expected = stats.norm.logpdf(scaled, scale=float(precision) ** -0.5).sum()
        assert noise.value(precision, residual) == pytest.approx(expected, rel=1e-10)
        assert float(precision) == pytest.approx(1 / (scaled**2).mean())


class TestPerFeature:
    def test_counts_further_samples_of_pure_noise(self):
        covariance, residual = draw(3)
        precision = PerFeatureNoise(covariance).precision(residual)
        expected = (residual + PSEUDO * covariance.diagonal()) / (1 + PSEUDO)
        np.testing.assert_allclose(1 / precision, expected)

    def test_no_precision_exceeds_that_of_an_exact_fit(self):
        covariance, residual = draw(4)
        smallest = PSEUDO / (1 + PSEUDO) * covariance.diagonal()
        variance = 1 / PerFeatureNoise(covariance).precision(0 * residual)
        assert (variance >= smallest * (1 - 1e-12)).all()

    @given(SEEDS)
    def test_does_not_depend_on_the_units_of_a_feature(self, seed):
        rng = np.random.default_rng(seed)
        units = np.exp(rng.normal(size=4))
        X = rng.normal(size=(20, 4))
        share = rng.uniform(0.1, 1, 4)
        precisions = []
        for data in (X, X * units):
            covariance = CovarianceMatrix(data.T @ data / 20, 20)
            noise = PerFeatureNoise(covariance)
            precision = noise.precision(share * covariance.diagonal())
            precisions.append(precision / covariance.unit**2)
        np.testing.assert_allclose(precisions[0], precisions[1] * units**2)
