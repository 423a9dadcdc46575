"""What is checked of a covariance, and what each kind of input leads back to."""

import numpy as np
import pytest

from ebcd import EBCD, Gram
from ebcd.data import (
    AbstractRows,
    _inputs,
    as_input,
    check_covariance,
    from_covariance,
    from_matrix,
)
from ebcd.data._moments import block_moments, merge_moments
from ebcd.data._rows import block_product


def draw(n=20, p=5):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, p)) * np.arange(1, p + 1) + 3.0


class TestCheckCovariance:
    def test_gives_a_symmetric_float_matrix(self):
        S = np.array([[2, 1], [1, 3]])
        checked = check_covariance(S.tolist())
        assert checked.dtype == np.float64
        np.testing.assert_array_equal(checked, S)

    def test_rounding_is_forgiven(self):
        S = np.cov(draw().T, bias=True)
        noisy = S + 1e-9 * np.random.default_rng(1).normal(size=S.shape)
        checked = check_covariance(noisy)
        np.testing.assert_array_equal(checked, checked.T)
        np.testing.assert_allclose(checked, S, atol=1e-7)

    def test_single_precision_of_low_rank_is_forgiven(self):
        X = np.random.default_rng(0).normal(size=(5, 60)).astype(np.float32)
        check_covariance(X.T @ X / np.float32(5))

    @pytest.mark.parametrize("shape", [(2, 3), (4,), (0, 0), (2, 2, 2)])
    def test_not_square(self, shape):
        with pytest.raises(ValueError, match="must be a square matrix, got shape"):
            check_covariance(np.zeros(shape))

    def test_not_symmetric(self):
        S = np.eye(4)
        S[1, 3] = 0.25
        match = r"not symmetric: entries \[1, 3\] and \[3, 1\] differ by 0.25; use \(S \+ S.T\) / 2"
        with pytest.raises(ValueError, match=match):
            check_covariance(S)

    def test_not_positive_semi_definite(self):
        match = (
            "not positive semi-definite: its smallest eigenvalue is -1; was it computed pairwise"
        )
        with pytest.raises(ValueError, match=match):
            check_covariance([[1.0, 2.0], [2.0, 1.0]])

    @pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
    def test_how_far_below_zero_eigenvalues_may_be(self, size):
        rng = np.random.default_rng(0)
        axes = np.linalg.qr(rng.standard_normal((60, 60)))[0]
        values = np.r_[rng.uniform(0, 1, 59), 0.0]
        S = (axes * values) @ axes.T
        S = 0.5 * (S + S.T) / np.abs(S).max()
        direction = np.outer(axes[:, -1], axes[:, -1])
        allowed = 1e-6 * 60**0.5
        check_covariance(size * (S - 0.8 * allowed * direction))
        with pytest.raises(ValueError, match="not positive semi-definite: its smallest eigenvalue"):
            check_covariance(size * (S - 1.2 * allowed * direction))

    @pytest.mark.parametrize("bad", [np.nan, np.inf])
    def test_not_finite(self, bad):
        S = np.eye(4)
        S[1, 2] = S[2, 1] = bad
        with pytest.raises(ValueError, match=r"2 NaN or infinite entries, the first at \[1, 2\]"):
            check_covariance(S)

    @pytest.mark.parametrize("bad", [np.array([["a"]]), np.eye(2) * 1j, np.array([[None]])])
    def test_not_numbers(self, bad):
        with pytest.raises(TypeError, match="real numbers, got dtype"):
            check_covariance(bad)

    @pytest.mark.parametrize("size", [1e-300, 1e300])
    def test_any_size(self, size):
        np.testing.assert_array_equal(check_covariance(size * np.eye(3)), size * np.eye(3))

    def test_zero(self):
        np.testing.assert_array_equal(check_covariance(np.zeros((2, 2))), np.zeros((2, 2)))

    def test_input_is_left_alone(self):
        S = np.array([[2.0, 1.0], [1.0 + 1e-9, 3.0]])
        before = S.copy()
        check_covariance(S)
        np.testing.assert_array_equal(S, before)


class TestGram:
    @pytest.mark.parametrize("center", [True, False])
    @pytest.mark.parametrize("scale", [True, False])
    def test_equals_the_data(self, center, scale):
        X = draw()
        gram = as_input(Gram().update(X[:7]) + Gram().update(X[7:]), center, scale)
        data = from_matrix(X, center, scale, None)
        np.testing.assert_allclose(gram.mean, data.mean, rtol=1e-12)
        np.testing.assert_allclose(gram.scale, data.scale, rtol=1e-12)
        np.testing.assert_allclose(gram.variances, data.variances, rtol=1e-12)
        ours, theirs = (
            part.covariance.matmul(np.eye(5)) * part.covariance.unit**2 for part in (gram, data)
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)


class TestScale:
    def test_constant_features_are_not_divided(self):
        X = draw()
        X[:, 2] = 0.5
        np.testing.assert_array_equal(from_matrix(X, True, True, None).scale[2], 1.0)
        S = np.diag([4.0, 0.0])
        np.testing.assert_array_equal(from_covariance(S, 10, True).scale, [2.0, 1.0])


class TestTallData:
    """Large data with few columns are gathered in one pass."""

    def draw(self):
        rng = np.random.default_rng(0)
        return rng.normal(size=(60_000, 20)) + 3.0

    @pytest.mark.parametrize("size", [1e-152, 1e152])
    def test_squares_whose_sum_is_out_of_range(self, size):
        X = self.draw()
        whole, scaled = (from_matrix(size * Y, True, False, None) for Y in (X / size, X))
        np.testing.assert_allclose(scaled.mean / size, whole.mean, rtol=1e-12)
        v = np.random.default_rng(1).normal(size=(20, 2))
        unit, own = whole.covariance.unit, scaled.covariance.unit / size
        products = [
            data.covariance.best_route(2).matmul(v) * u**2
            for data, u in ((whole, unit), (scaled, own))
        ]
        np.testing.assert_allclose(products[1], products[0], rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("scale", [False, True])
    def test_constant_features_have_no_covariance(self, scale):
        X = self.draw()
        X[:, [3, 8]] = 3.3, 1e9
        covariance = from_matrix(X, True, scale, None).covariance.best_route(2)
        assert not covariance.matmul(np.eye(20))[[3, 8]].any()


class Generated:
    """A kind of input that the package does not know: rows that are made when they are needed."""

    def __init__(self, n_rows, n_features):
        self.shape = n_rows, n_features

    def row(self, i):
        return np.random.default_rng(i).normal(size=self.shape[1]) * np.arange(1, 1 + self.shape[1])


class GeneratedRows(AbstractRows):
    def __init__(self, x):
        self._x, (self.n_rows, self.n_features) = x, x.shape

    def _rows(self):
        return (self._x.row(i)[None] for i in range(self.n_rows))

    def moments(self, cross):
        return merge_moments([block_moments(row, cross) for row in self._rows()])

    def product(self, v, mean, far, weight):
        return weight * sum(block_product(row, v, mean, far) for row in self._rows())

    def map(self, work, shape, dtype=None):
        return np.vstack([work(row) for row in self._rows()])


@pytest.mark.parametrize("scale", [True, False])
def test_a_new_kind_of_input_is_a_class_and_a_line(monkeypatch, scale):
    kind = (lambda x, _: isinstance(x, Generated), lambda x, _: GeneratedRows(x))
    monkeypatch.setattr(_inputs, "KINDS", [kind, *_inputs.KINDS])
    data = Generated(60, 8)
    X = np.array([data.row(i) for i in range(60)])
    ours, theirs = EBCD(2, scale=scale).fit(data), EBCD(2, scale=scale).fit(X)
    assert ours.elbo_ == pytest.approx(theirs.elbo_, abs=1e-3)
    scores = theirs.transform(X)
    np.testing.assert_allclose(theirs.transform(data), scores, rtol=1e-12, atol=1e-12)
