"""Every kind of covariance against the explicit matrix it stands for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import draw, truth
from scipy import sparse

from ebcd.data import (
    CovarianceMatrix,
    DataCovariance,
    column_moments,
    from_covariance,
    from_matrix,
    is_sparse,
)

SHAPES = {"tall": (40, 12), "wide": (9, 30), "one row": (1, 5)}


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


MATRICES = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": read_only,
    "csr_array": sparse.csr_array,
    "csc_array": sparse.csc_array,
    "csr_matrix": sparse.csr_matrix,
    "csc_matrix": sparse.csc_matrix,
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("center", "scale"), [(True, True), (True, False), (False, True)])
class TestDataCovariance:
    def test_is_the_covariance(self, kind, shape, center, scale):
        X = draw(SHAPES[shape])
        mean, divisor, S = truth(X, center, scale)
        data = from_matrix(MATRICES[kind](X), center, scale, None)
        covariance, unit = data.covariance, data.covariance.unit
        p = X.shape[1]
        V = np.random.default_rng(1).normal(size=(p, 3))
        size = np.abs(S).max() + 1e-300
        assert (covariance.n_samples, covariance.n_features) == X.shape
        np.testing.assert_allclose(data.mean, mean, rtol=1e-12)
        np.testing.assert_allclose(data.scale, divisor, rtol=1e-12)
        variances = np.diag(truth(X, center, False)[2])
        np.testing.assert_allclose(data.variances, variances, atol=1e-12)
        np.testing.assert_allclose(covariance.matmul(V) * unit**2, S @ V, atol=1e-12 * size)
        np.testing.assert_allclose(covariance.diagonal() * unit**2, np.diag(S), atol=1e-12 * size)
        assert covariance.trace() * unit**2 == pytest.approx(np.trace(S), abs=1e-12 * size)

    def test_leading_directions(self, kind, shape, center, scale):
        X = draw(SHAPES[shape])
        _, _, S = truth(X, center, scale)
        covariance = from_matrix(MATRICES[kind](X), center, scale, None).covariance
        check_leading(covariance, S, 3)

    def test_cheapest_route_is_the_same_covariance(self, kind, shape, center, scale):
        X = draw(SHAPES[shape])
        _, _, S = truth(X, center, scale)
        covariance = from_matrix(MATRICES[kind](X), center, scale, None).covariance.best_route(2)
        identity = np.eye(X.shape[1])
        np.testing.assert_allclose(
            covariance.matmul(identity) * covariance.unit**2, S, atol=1e-12 * np.abs(S).max()
        )
        assert covariance.n_samples == len(X)


def check_leading(covariance, S, k, accuracy=1e-7):
    values, vectors = covariance.leading(k)
    expected = np.linalg.eigvalsh(S)[::-1][:k]
    assert vectors.shape == (len(S), len(values))
    assert (np.diff(values) <= 0).all()
    assert (values >= 0).all()
    np.testing.assert_allclose(
        values * covariance.unit**2, expected[: len(values)], atol=accuracy * expected[0] + 1e-300
    )
    real = values * covariance.unit**2 > 1e-9 * expected[0]
    kept = vectors[:, real]
    np.testing.assert_allclose(kept.T @ kept, np.eye(real.sum()), atol=1e-7)
    image = covariance.matmul(kept)
    np.testing.assert_allclose(image, kept * values[real], atol=10 * accuracy**0.5 * values.max())


class TestRoute:
    def test_few_features_take_the_covariance(self):
        covariance = from_matrix(draw((300, 10)), True, False, None).covariance
        assert isinstance(covariance, DataCovariance)
        assert isinstance(covariance.best_route(2), CovarianceMatrix)

    def test_more_features_than_samples_never_do(self):
        covariance = from_matrix(draw((20, 30)), True, False, None).covariance
        assert covariance.best_route(10) is covariance


class TestLargeMatrices:
    """Beyond the sizes where eigenvalues are computed exactly."""

    @pytest.mark.parametrize("shape", [(600, 450), (500, 900)])
    def test_leading_directions_stand_out(self, shape):
        rng = np.random.default_rng(0)
        n, p = shape
        loadings = np.linalg.qr(rng.normal(size=(p, 3)))[0] * np.array([30.0, 20.0, 12.0])
        X = rng.normal(size=(n, 3)) @ loadings.T + rng.normal(size=(n, p))
        S = X.T @ X / n
        for covariance in (
            from_matrix(X, False, False, None).covariance,
            CovarianceMatrix(S, n),
        ):
            values, vectors = covariance.leading(3)
            expected, directions = np.linalg.eigh(S)
            cosines = np.abs(np.vecdot(vectors.T, directions[:, ::-1][:, :3].T))
            np.testing.assert_allclose(values * covariance.unit**2, expected[::-1][:3], rtol=1e-4)
            assert (cosines > 1 - 1e-5).all()


class TestCovarianceMatrix:
    def test_products_and_diagonal(self):
        _, _, S = truth(draw((40, 12)), True, False)
        covariance = CovarianceMatrix(S, 40)
        V = np.random.default_rng(0).normal(size=(12, 2))
        np.testing.assert_allclose(covariance.matmul(V) * covariance.unit**2, S @ V, rtol=1e-12)
        np.testing.assert_allclose(covariance.diagonal() * covariance.unit**2, np.diag(S))
        check_leading(covariance, S, 4, accuracy=1e-12)

    def test_scaling(self):
        X = draw((40, 12))
        _, divisor, S = truth(X, True, True)
        data = from_covariance(truth(X, True, False)[2], 40, True)
        np.testing.assert_allclose(data.scale, divisor, rtol=1e-12)
        unit = data.covariance.unit
        np.testing.assert_allclose(
            data.covariance.matmul(np.eye(12)) * unit**2, S, rtol=1e-10, atol=1e-12
        )
        assert data.mean is None

    def test_no_eigenvectors(self):
        values, vectors = CovarianceMatrix(np.eye(3), 5).leading(0)
        assert (values.shape, vectors.shape) == ((0,), (3, 0))


class TestUnits:
    @pytest.mark.parametrize("size", [1e-150, 1e-20, 1.0, 1e20, 1e150])
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_working_units_are_about_one_and_exact(self, size, make):
        X = draw((30, 8))
        data = from_matrix(make(X * size), True, False, None)
        unit = data.covariance.unit
        assert np.log2(unit) == np.round(np.log2(unit))
        assert 0.4 < data.covariance.trace() / 8 < 2.5
        np.testing.assert_allclose(
            data.covariance.diagonal() * (unit / size) ** 2, X.var(axis=0), rtol=1e-9
        )

    def test_zero_data(self):
        data = from_matrix(np.zeros((5, 3)), True, True, None)
        assert data.covariance.unit == 1.0
        assert data.covariance.trace() == 0.0
        np.testing.assert_array_equal(data.scale, 1.0)


class TestMoments:
    @given(st.integers(0, 1000), st.sampled_from([0.0, 1.0, -1e4, 1e8]), st.booleans())
    def test_far_from_zero(self, seed, offset, center):
        X = draw((20, 4), seed) + offset
        mean, variance = column_moments(X, center)
        expected = X.mean(axis=0) if center else np.zeros(4)
        np.testing.assert_allclose(mean, expected, rtol=1e-12)
        np.testing.assert_allclose(variance, ((X - expected) ** 2).mean(axis=0), rtol=1e-6)

    @given(st.integers(0, 1000), st.booleans())
    def test_sparse_equals_dense(self, seed, center):
        X = draw((20, 4), seed)
        for make in (sparse.csr_array, sparse.csc_array):
            for ours, dense in zip(
                column_moments(make(X), center), column_moments(X, center), strict=True
            ):
                np.testing.assert_allclose(ours, dense, rtol=1e-12, atol=1e-14)

    def test_single_precision_is_summed_in_double(self):
        X = np.full((100_000, 1), 0.1, dtype=np.float32)
        mean, variance = column_moments(X, True)
        assert mean[0] == pytest.approx(float(np.float32(0.1)), rel=1e-12)
        assert variance[0] < 1e-18

    def test_constant_column_has_no_variance(self):
        X = np.full((7, 2), 0.1)
        assert (column_moments(X, True)[1] < 1e-30).all()


class TestCompact:
    def test_stands_for_more_rows(self):
        X = draw((50, 6))
        C = np.linalg.cholesky(X.T @ X).T
        compact = from_matrix(C, False, False, 50)
        full = from_matrix(X, False, False, None)
        np.testing.assert_allclose(compact.variances, full.variances)
        np.testing.assert_allclose(
            compact.covariance.matmul(np.eye(6)), full.covariance.matmul(np.eye(6)), atol=1e-12
        )
        assert compact.covariance.n_samples == 50


def test_data_are_left_as_they_are():
    X = draw((20, 6))
    for make in MATRICES.values():
        given_data = make(X)
        before = given_data.copy()
        data = from_matrix(given_data, True, True, None)
        data.covariance.matmul(np.ones((6, 1)))
        data.covariance.leading(2)
        difference = given_data - before
        assert abs(difference).max() == 0


def test_is_sparse():
    assert is_sparse(sparse.csr_array((2, 2)))
    assert is_sparse(sparse.csr_matrix((2, 2)))
    assert not is_sparse(np.eye(2))


def test_variances_keep_their_digits_whatever_the_first_row_is():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    X[:, 1:3] += 5.0, 1e6
    X[:, 3] = 7.1
    for first in (0.0, 3.0, 1e5):
        X[0, :3] = first
        mean, variance = column_moments(X, True)
        assert (np.abs(mean - X.mean(axis=0)) <= 1e-14 * np.abs(X).max(axis=0)).all()
        np.testing.assert_allclose(variance, X.var(axis=0), rtol=1e-13, atol=1e-20)
        assert mean[3] == pytest.approx(7.1, rel=1e-15)
        assert variance[3] == 0.0


def test_a_factor_has_the_covariance_as_cross_products():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 40)) * np.geomspace(1e-6, 1e6, 40)
    X[:, 7] = 0.0
    covariance = from_matrix(X, False, False, None).covariance
    S = covariance.matmul(np.eye(40))
    size = np.sqrt(np.diag(S))  # small features are as exact as large ones
    error = np.abs(covariance.factor.T @ covariance.factor - S)
    assert (error <= 1e-13 * np.outer(size, size)).all()
    assert from_matrix(X.T, False, False, None).covariance.factor is None
    assert CovarianceMatrix(np.eye(300), 10).factor is None
