"""How many components are found in data with a known number of them."""

import numpy as np
import pytest

from ebcd import EBCD
from ebcd.data import CovarianceMatrix, from_matrix
from ebcd.datasets import make_simulation
from ebcd.fitting._components import Standardized, count_components, even_edge, uneven_edge
from ebcd.metrics import component_angles

SEEDS = range(20)


def found(X, **parameters):
    return EBCD(**parameters).fit(X).n_components_


def dense(rng):
    L = rng.normal(size=(50, 3)) * np.array([2.0, 1.5, 1.2])
    return rng.normal(size=(200, 3)) @ L.T + rng.normal(size=(200, 50))


def sparse_and_wide(rng):
    L = 2 * rng.laplace(size=(2000, 4)) * (rng.random((2000, 4)) < 0.05)
    return rng.normal(size=(60, 4)) @ L.T + rng.normal(size=(60, 2000))


def one_block(rng):
    L = np.zeros((100, 1))
    L[:10] = 1.5
    return rng.normal(size=(100, 1)) @ L.T + rng.normal(size=(100, 100))


PLANTED = {
    "dense": (dense, 3),
    "sparse and wide": (sparse_and_wide, 4),
    "one block": (one_block, 1),
}


def uneven(rng, shape, k, decades=1.0):
    """Components of a third of the features, in noise of unequal variances."""
    n, p = shape
    L = rng.laplace(size=(p, k)) * (rng.random((p, k)) < 0.3)
    sd = 10 ** rng.uniform(-decades / 4, decades / 4, p)
    return rng.normal(size=(n, k)) @ L.T + rng.normal(size=shape) * sd


def count(X, centred=True, per_feature=False):
    """Count as the estimator does, without the fit."""
    covariance = from_matrix(X, centred, False, None).covariance
    return count_components(covariance, len(X) - centred, per_feature)


class TestPureNoise:
    @pytest.mark.parametrize("per_feature", [False, True])
    @pytest.mark.parametrize("shape", [(50, 500), (200, 200), (500, 50)])
    def test_nothing_is_found(self, shape, per_feature):
        draws = [np.random.default_rng(seed).normal(size=shape) for seed in SEEDS]
        counts = [count(X, per_feature=per_feature) for X in draws]
        assert counts.count(0) >= 19

    @pytest.mark.parametrize("per_feature", [False, True])
    @pytest.mark.parametrize("shape", [(50, 500), (200, 200), (500, 50)])
    def test_nothing_is_found_in_uneven_noise(self, shape, per_feature):
        draws = [uneven(np.random.default_rng(seed), shape, 0) for seed in SEEDS]
        counts = [count(X, per_feature=per_feature) for X in draws]
        assert counts.count(0) >= 19

    @pytest.mark.filterwarnings("ignore:no component was found")
    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    def test_the_estimator_counts_the_same(self, noise):
        assert found(np.random.default_rng(0).normal(size=(50, 100)), noise=noise) == 0

    @pytest.mark.filterwarnings("ignore:no component was found")
    @pytest.mark.parametrize("offset", [0.0, 100.0])
    def test_the_mean_is_no_component(self, offset):
        X = np.random.default_rng(0).normal(size=(60, 40)) + offset
        assert found(X) == 0
        assert found(X, center=False) == (1 if offset else 0)


class TestSignal:
    def test_first_simulation(self):
        counts = [count(make_simulation(1, random_state=seed)[0]) for seed in SEEDS]
        assert counts.count(2) >= 19
        assert found(make_simulation(1, random_state=0)[0]) == 2

    @pytest.mark.parametrize("design", PLANTED)
    def test_planted_components(self, design):
        draw, k = PLANTED[design]
        counts = [count(draw(np.random.default_rng(seed))) for seed in SEEDS]
        assert counts.count(k) >= 19
        assert found(draw(np.random.default_rng(0))) == k

    def test_second_simulation_finds_no_more_than_there_are(self):
        # with 50 samples the weak components are mostly undetectable
        counts = [count(make_simulation(2, random_state=seed)[0]) for seed in range(5)]
        assert all(1 <= found <= 3 for found in counts)
        assert count(make_simulation(2, n_samples=500, random_state=0)[0]) == 3

    @pytest.mark.parametrize("per_feature", [False, True])
    @pytest.mark.parametrize("shape", [(400, 80), (100, 300)])
    @pytest.mark.parametrize("k", [2, 3])
    def test_components_in_uneven_noise(self, k, shape, per_feature):
        draws = [uneven(np.random.default_rng(seed), shape, k) for seed in SEEDS]
        counts = [count(X, per_feature=per_feature) for X in draws]
        assert counts.count(k) >= 19

    @pytest.mark.parametrize("parameters", [{}, {"noise": "per_feature"}, {"scale": True}])
    def test_the_estimator_in_uneven_noise(self, parameters):
        X = uneven(np.random.default_rng(1), (400, 80), 2)
        assert found(X, **parameters) == 2
        assert found(X * 10.0 ** np.linspace(-3, 3, 80), **{"scale": True, **parameters}) == 2

    def test_covariances_count_as_data_do(self):
        X = uneven(np.random.default_rng(2), (400, 80), 3)
        S = np.cov(X.T, bias=True)
        for noise in ("constant", "per_feature"):
            model = EBCD(noise=noise, max_iter=20, tol=1.0).fit_covariance(S, n_samples=400)
            assert model.n_components_ == 3

    def test_does_not_depend_on_units(self):
        X = dense(np.random.default_rng(0))
        assert found(1e-30 * X) == found(1e30 * X) == 3


class TestCount:
    def test_no_noise_at_all(self):
        rng = np.random.default_rng(0)
        assert count(rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20)), centred=False) == 2

    @pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2)])
    def test_too_little_to_tell(self, shape):
        assert count(np.random.default_rng(0).normal(size=shape)) == 0

    def test_constant_features_do_not_count(self):
        rng = np.random.default_rng(1)
        X = np.zeros((100, 300))
        X[:, :100] = one_block(rng)
        assert count(X) == count(X[:, :100]) == 1

    def test_many_components(self):
        rng = np.random.default_rng(2)
        X = rng.normal(size=(500, 30)) @ (2 * rng.normal(size=(30, 100)))
        assert count(X + rng.normal(size=X.shape)) == 30

    def test_nothing_else_matters_than_n_times_the_covariance(self):
        X = dense(np.random.default_rng(3))
        S = CovarianceMatrix(X.T @ X / len(X), len(X))
        assert count_components(S, len(X)) == count(X, centred=False)

    def test_no_noise_at_all_with_noise_per_feature(self):
        rng = np.random.default_rng(0)
        assert count(rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20)), per_feature=True) == 2


class TestEdge:
    """The largest eigenvalue of noise, against noise that is drawn."""

    MEDIAN = -1.2686  # of the Tracy-Widom distribution of order one

    @pytest.mark.parametrize("shape", [(30, 90), (60, 60), (120, 40)])
    @pytest.mark.parametrize("decades", [0.0, 0.5, 1.0])
    def test_median_and_quantile(self, shape, decades):
        rng = np.random.default_rng(5)
        variances = 10 ** np.linspace(-decades / 2, decades / 2, shape[1])
        draws = rng.normal(size=(400, *shape)) * np.sqrt(variances)
        largest = np.linalg.norm(draws, ord=2, axis=(1, 2)) ** 2
        assert uneven_edge(*shape, variances, self.MEDIAN) == pytest.approx(
            np.median(largest), rel=0.03
        )
        assert (largest > uneven_edge(*shape, variances)).mean() <= 0.025

    def test_even_variances_are_a_special_case(self):
        assert uneven_edge(50, 20, np.full(20, 3.0)) == pytest.approx(3 * even_edge(50, 20))


class TestStandardized:
    def test_is_the_correlation(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5)) * 10.0 ** np.arange(5)
        S = X.T @ X / 40
        correlation = Standardized(CovarianceMatrix(S, 40))
        size = np.sqrt(np.diag(S))
        np.testing.assert_allclose(correlation.matmul(np.eye(5)), S / size / size[:, None])
        np.testing.assert_array_equal(correlation.diagonal(), 1.0)

    def test_constant_features_stay_zero(self):
        correlation = Standardized(CovarianceMatrix(np.diag([2.0, 0.0]), 10))
        np.testing.assert_allclose(correlation.matmul(np.eye(2)), np.diag([1.0, 0.0]))
        np.testing.assert_array_equal(correlation.diagonal(), [1.0, 0.0])


class TestPerFeatureNoise:
    """Data whose precisions are spread tenfold."""

    @staticmethod
    def draw(seed):
        rng = np.random.default_rng(seed)
        L = rng.laplace(size=(80, 3)) * (rng.random((80, 3)) < 0.3)
        tau = 10 ** rng.uniform(-0.5, 0.5, 80)
        X = rng.normal(size=(400, 3)) @ L.T + rng.normal(size=(400, 80)) / np.sqrt(tau)
        return X, L, tau

    def test_precisions_and_components(self):
        errors, angles = [], {"constant": [], "per_feature": []}
        for seed in range(5):
            X, L, tau = self.draw(seed)
            for noise, values in angles.items():
                model = EBCD(3, noise=noise).fit(X)
                values.append(component_angles(L, model.components_.T).mean())
            errors.append(np.median(np.abs(np.log(model.noise_variance_ * tau))))
        assert max(errors) <= 0.15
        assert np.mean(angles["per_feature"]) < np.mean(angles["constant"])


def test_component_with_one_dominant_feature():
    """Most of it looks like one noisy feature, but others are correlated with that."""
    rng = np.random.default_rng(0)
    L = np.zeros((1, 20))
    L[0, :3] = 3.0, 0.5, 0.5
    X = rng.normal(size=(1000, 1)) @ L + rng.normal(size=(1000, 20))
    assert EBCD().fit(X).n_components_ == 1
