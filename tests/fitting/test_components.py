"""How many components are found in data with a known number of them."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from ebcd import EBCD
from ebcd.data import CovarianceMatrix, from_matrix
from ebcd.data._settings import SETTINGS
from ebcd.datasets import make_simulation
from ebcd.fitting._components import (
    Standardized,
    correlation_edge,
    count_components,
    count_in_rows,
    distinct_rows,
    even_edge,
    ratio_edge,
    uneven_edge,
)
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
    return count_components(covariance, centred, per_feature)


class TestPureNoise:
    @pytest.mark.parametrize(
        ("shape", "per_feature"), [((50, 500), True), ((200, 200), False), ((500, 50), True)]
    )
    def test_nothing_is_found(self, shape, per_feature):
        draws = [np.random.default_rng(seed).normal(size=shape) for seed in SEEDS]
        counts = [count(X, per_feature=per_feature) for X in draws]
        assert counts.count(0) >= 19

    @pytest.mark.parametrize(
        ("shape", "per_feature"), [((50, 500), False), ((200, 200), True), ((500, 50), False)]
    )
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

    @pytest.mark.parametrize(
        ("k", "shape", "per_feature"),
        [
            (2, (400, 80), True),
            (2, (100, 300), False),
            (3, (400, 80), False),
            (3, (100, 300), True),
        ],
    )
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
        assert count_components(S, False) == count(X, centred=False)

    def test_no_noise_at_all_with_noise_per_feature(self):
        rng = np.random.default_rng(0)
        assert count(rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20)), per_feature=True) == 2


def planted(rng, n, p, k, size):
    """Components that are normal on a fifth of the features, at least three, in unit noise."""
    L = np.zeros((k, p))
    for row in L:
        chosen = rng.choice(p, max(3, p // 5), replace=False)
        row[chosen] = rng.normal(size=chosen.size)
        row *= np.sqrt(size) / np.linalg.norm(row)
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))


def strong(rng, n, p, k=3):
    return planted(rng, n, p, k, 5 * np.sqrt(p / n))


class TestFewFeatures:
    def test_one_of_six(self):
        draws = [planted(np.random.default_rng(seed), 30, 6, 1, 4.0) for seed in range(60)]
        assert np.mean([count(X) > 0 for X in draws]) >= 0.5

    def test_weak_components_of_many_samples(self):
        draws = [planted(np.random.default_rng(seed), 5000, 20, 3, 0.3) for seed in range(10)]
        assert np.mean([count(X) for X in draws]) >= 2.6

    def test_two_correlated_features_among_many(self):
        L = np.r_[2.0, 2.0, np.zeros(98)]
        for seed in range(5):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(200, 1)) * L + rng.normal(size=(200, 100))
            assert 1 <= count(X / X.std(axis=0), per_feature=True) <= 2

    @pytest.mark.parametrize("per_feature", [False, True])
    def test_noise(self, per_feature):
        draws = [np.random.default_rng(seed).normal(size=(30, 6)) for seed in range(200)]
        counts = [count(X, per_feature=per_feature) for X in draws]
        assert counts.count(0) >= 194

    def test_noise_with_one_larger_variance(self):
        sd = np.r_[1.5, np.ones(5)]
        draws = [np.random.default_rng(seed).normal(size=(30, 6)) * sd for seed in range(200)]
        assert [count(X) for X in draws].count(0) >= 192


@pytest.mark.parametrize(
    ("shape", "parameters"), [((1000, 50), {"noise": "per_feature"}), ((300, 60), {"scale": True})]
)
def test_features_that_are_mostly_signal_keep_their_noise(shape, parameters):
    """A feature that dominates a component lost its noise to it: 6 to 12 were found."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        loadings = rng.laplace(size=(4, shape[1])) * (rng.random((4, shape[1])) < 0.2)
        X = rng.normal(size=(shape[0], 4)) @ loadings + rng.normal(size=shape)
        assert 3 <= found(X, max_iter=50, tol=1.0, **parameters) <= 4


class TestRows:
    """Rows that are not alike, or not distinct."""

    def test_centred_rows_are_not_copied(self):
        rows = np.random.default_rng(0).standard_normal((8, 200_000))
        rows -= rows.mean(axis=0)
        tracemalloc.start()
        assert count_in_rows(rows, True) == 0
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2.5 * rows.nbytes

    @pytest.mark.parametrize("shape", [(100, 50), (60, 300)])
    def test_unequal_variances(self, shape):
        counts = {0: [], 3: []}
        for seed in range(10):
            for k, values in counts.items():
                rng = np.random.default_rng(seed)
                size = np.exp(0.5 * rng.normal(size=(shape[0], 1)))
                values.append(count_in_rows(strong(rng, *shape, k) * size, True))
        assert np.mean(counts[0]) <= 0.3
        assert 2.3 <= np.mean(counts[3]) <= 3.3

    @pytest.mark.parametrize("factor", [4.0, 100.0])
    def test_outlying_rows(self, factor):
        counts = []
        for seed in range(10):
            X = strong(np.random.default_rng(seed), 100, 50)
            X[:3] *= factor
            counts.append(count_in_rows(X, True))
        assert 2 <= np.mean(counts) <= 4

    def test_strong_signal_does_not_count_as_unequal_variances(self):
        for seed in range(5):
            rng = np.random.default_rng(seed)
            X = rng.standard_t(3, size=(50, 2)) @ rng.normal(size=(2, 400)) * 5
            assert count_in_rows(X + rng.normal(size=X.shape), True) == 2

    def test_heavy_tailed_scores_of_few_features(self):
        rng = np.random.default_rng(1)
        rates = np.exp(rng.normal(size=(50, 1)) * np.repeat([1.0, 0.0], 4))
        X = rng.poisson(rates, size=(50, 8)).astype(float)
        assert count_in_rows((X - X.mean(axis=0)) / X.std(axis=0), True) == 1

    def test_gaussian_rows_are_counted_as_they_are(self):
        X = strong(np.random.default_rng(0), 100, 50)
        assert count_in_rows(X, True) == count(X)

    @pytest.mark.parametrize("limit", [0, 1, 2])
    def test_limit(self, limit):
        rng = np.random.default_rng(0)
        X = strong(rng, 100, 50)
        assert count_in_rows(X, True, limit=limit) == limit
        assert (
            count_in_rows(X * np.exp(0.5 * rng.normal(size=(100, 1))), True, limit=limit) == limit
        )

    def test_no_noise_at_all(self):
        rng = np.random.default_rng(0)
        assert count_in_rows(rng.normal(size=(30, 2)) @ rng.normal(size=(2, 20)), False) == 2

    def test_empty_rows_are_copies(self):
        X = np.zeros((60, 20))
        X[:20] = np.random.default_rng(0).normal(size=(20, 20))
        assert count_in_rows(distinct_rows(X), True) == 0

    def test_copies(self):
        rng = np.random.default_rng(0)
        X = strong(rng, 49, 65)
        resampled = X[rng.integers(49, size=49)]
        for rows in (np.repeat(X, 2, axis=0), resampled):
            with pytest.warns(UserWarning, match="rows are duplicates"):
                assert 2 <= found(rows, max_iter=5, tol=1.0) <= 3

    def test_rows_that_are_alike_by_chance(self):
        rng = np.random.default_rng(0)
        few_values = rng.integers(2, size=(100, 5)).astype(float)
        assert len(distinct_rows(few_values)) == 100
        copies = rng.normal(size=(50, 5))[rng.integers(50, size=100)]
        assert len(distinct_rows(copies)) == len(np.unique(copies, axis=0)) < 50

    def test_large_data(self):
        """Logarithms of counts of like cells, whose depths differ: more than one is spurious."""
        rng = np.random.default_rng(0)
        cells = rng.poisson(np.exp(rng.normal(0, 0.6, (600, 1)) + rng.normal(-1.5, 1.0, 500)))
        totals = cells.sum(axis=1, keepdims=True)
        assert found(np.log1p(cells * np.median(totals) / totals), tol=1.0) <= 1

    def test_data_too_large_to_compare_rows(self, monkeypatch):
        settings = replace(SETTINGS, compared=10_000, piece=2_000)
        monkeypatch.setattr("ebcd.estimators._ebcd.SETTINGS", settings)
        rng = np.random.default_rng(0)
        X = strong(rng, 300, 50)
        assert found(X, tol=1.0) == 3  # and no warning
        with pytest.warns(UserWarning, match="the rows have unequal variances"):
            found(X * np.exp(0.5 * rng.normal(size=(300, 1))), tol=1.0)

    @pytest.mark.filterwarnings("ignore:no component was found")
    def test_the_estimator_looks_at_rows_of_any_kind_in_memory(self):
        rng = np.random.default_rng(1)
        X = rng.normal(size=(60, 300)) * np.exp(0.5 * rng.normal(size=(60, 1)))
        kinds = X, sparse.csr_array(X), [X[:30], X[30:]], X.astype(np.float32)
        assert [found(kind) for kind in kinds] == [0] * 4
        assert found(X, scale=True) == found(X, noise="per_feature") == 0


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

    @pytest.mark.parametrize("shape", [(29, 3), (29, 6), (99, 4), (60, 60)])
    def test_ratio(self, shape):
        """With the noise estimated from the same data, for all features or for each."""
        n, p = shape
        draws = np.random.default_rng(6).normal(size=(2000, *shape))
        alike = draws / np.sqrt((draws**2).mean(axis=(1, 2), keepdims=True))
        apart = draws / np.sqrt((draws**2).mean(axis=1, keepdims=True))
        for scaled, known in ((alike, 1 / p), (apart, 2 / (p + 1))):
            largest = np.linalg.norm(scaled, ord=2, axis=(1, 2)) ** 2
            rate = (largest > ratio_edge(n - 0.5, p - 0.5, 2 / n * known)).mean()
            assert 0.0005 <= rate <= 0.017

    def test_largest_correlation(self):
        draws = np.random.default_rng(7).normal(size=(2000, 30, 6))
        largest = [np.abs(np.corrcoef(X.T) - np.eye(6)).max() for X in draws]
        assert 0.004 <= (np.array(largest) > correlation_edge(29, 6)).mean() <= 0.016

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


@pytest.mark.parametrize("kind", ["rows", "sparse rows", "matrix", "many columns"])
@pytest.mark.parametrize("shape", [(8, 30), (40, 12), (6, 1000)])
def test_standardized_eigenpairs(kind, shape):
    """They are exact, also where only products with a block of full rank tell them."""
    X = np.random.default_rng(0).normal(size=shape) * np.linspace(1, 5, shape[1])
    X[:, 3] = 0.0
    centred = X - X.mean(axis=0)
    if kind == "matrix":
        covariance = CovarianceMatrix(centred.T @ centred / len(X), len(X))
    else:
        covariance = from_matrix(sparse.csr_array(X) if kind == "sparse rows" else X, True, False)
        covariance = covariance.covariance
    standardized = Standardized(covariance)
    if kind == "many columns":
        standardized.exact_pairs = lambda *given: None
    k = min(4, *shape)
    values, vectors = standardized.leading(k)
    sd = centred.std(axis=0)
    R = np.divide(centred, sd, out=np.zeros(shape), where=sd > 0)
    R = R.T @ R / len(X)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(R)[::-1][:k], rtol=1e-6)
    np.testing.assert_allclose(R @ vectors, vectors * values, atol=1e-6 * values[0])
    np.testing.assert_allclose(vectors[3], 0.0, atol=1e-12)
