"""Numbers at the ends of their range: a right result or a clear error, never a wrong number."""

import warnings

import numpy as np
import pytest
from scipy import sparse

import ebcd
from ebcd.peers import EBPCA, GPower
from ebcd.priors import NPMLE, Deconvolver

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 12)) + 2 * RNG.standard_normal((60, 1)) * (np.arange(12) < 5)
ZEROS = np.where(RNG.random(X.shape) < 0.5, X, 0.0)
START = RNG.standard_normal((12, 2))


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("factor", [1.9e307, 1e155, 1e-200])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_data_that_cannot_be_squared_are_refused(kind, factor):
    with pytest.raises(ValueError, match="to square; change its units"):
        ebcd.EBCD(2).fit(kind(ZEROS * factor))


@pytest.mark.parametrize("factor", [1e140, 1e-140])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_units_do_not_matter(kind, factor):
    expected = ebcd.EBCD(2).fit(kind(ZEROS))
    found = ebcd.EBCD(2).fit(kind(ZEROS * factor))
    np.testing.assert_allclose(found.components_ / factor, expected.components_, atol=1e-5)
    np.testing.assert_allclose(found.noise_variance_ / factor / factor, expected.noise_variance_)


@pytest.mark.parametrize("factor", [1e-40, 1e-30, 1e30, 1e37])
@pytest.mark.parametrize("estimator", [ebcd.EBCD(2), EBPCA(2)])
def test_scores_of_single_precision(estimator, factor):
    single = (X * factor).astype(np.float32)
    double = single.astype(np.float64)
    found, expected = estimator.fit_transform(single), estimator.fit_transform(double)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("factor", [1e-30, 1e-20, 1e20])
def test_products_of_single_precision_in_chunks(factor):
    wide = np.repeat(X, 500, axis=1)[:, :5500] + RNG.standard_normal((60, 5500))
    data = (wide * factor).astype(np.float32)
    single, double = (
        ebcd.data.as_input(ebcd.data._rows.MatrixRows(x), True, False).covariance
        for x in (data, data.astype(np.float64))
    )
    chunked = ebcd.data._covariance.DataCovariance(
        ebcd.data._streamed.ChunkRows(ebcd.Chunks([data[:30], data[30:]])._source),
        np.zeros(5500),
        np.ones(5500),
        double.diagonal() * double.unit**2,
        60,
    )
    v = RNG.standard_normal((5500, 2))
    np.testing.assert_allclose(single.matmul(v), double.matmul(v), rtol=1e-3, atol=1e-2)
    x = data.astype(np.float64) / chunked.unit
    np.testing.assert_allclose(chunked.matmul(v), x.T @ (x @ v) / 60, rtol=1e-3, atol=1e-2)


def test_large_data_at_the_end_of_single_precision_are_refused():
    large = np.tile((X * 1e-40).astype(np.float32), (40, 500))
    with pytest.raises(ValueError, match=r"single precision.*double precision"):
        ebcd.EBCD(2).fit(large)


@pytest.mark.parametrize("size", [1e308, 1e-308, 5e-324])
@pytest.mark.parametrize("make", [ebcd.EBCD, ebcd.PenalizedPCA])
def test_only_the_directions_of_a_start_matter(make, size):
    start = np.sign(START) if size == 5e-324 else START / np.abs(START).max()
    expected = make(2, start=start).fit(X)
    found = make(2, start=start * size).fit(X)
    np.testing.assert_allclose(found.components_, expected.components_, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mu", [1e308, 1e-308, [1.0, 1e308]])
def test_weights_of_gpower(mu):
    with pytest.raises(ValueError, match="mu must be a number from 1e-6 to 1e6"):
        GPower(2, mu=mu).fit(X)
    assert np.isfinite(GPower(2, mu=[1e6, 1.0]).fit(X).components_).all()


@pytest.mark.parametrize("n", [3, 5, 12, 30])
def test_an_identity_matrix_as_data(n):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 2 components may fit 3 rows exactly
        model = ebcd.EBCD(2).fit(np.eye(n))
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("grid", [[1e155], [1e308], [-1e200, 1e300]])
@pytest.mark.parametrize("family", [NPMLE, Deconvolver])
def test_a_grid_beyond_all_observations(family, grid):
    with pytest.raises(ValueError, match="grid"):
        ebcd.ebnm(X[:, 0], 1.0, family(grid=grid))


@pytest.mark.parametrize("grid", [[1e69], [-1e69, 0.0]])
@pytest.mark.parametrize("family", [NPMLE, Deconvolver])
def test_a_grid_far_from_all_observations(family, grid):
    result = ebcd.ebnm(X[:, 0], 1.0, family(grid=grid))
    assert np.isfinite(result.log_likelihood)
    np.testing.assert_allclose(result.mean, grid[-1])
