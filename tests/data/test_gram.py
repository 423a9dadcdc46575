"""Sufficient statistics gathered in pieces against those of the whole."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ebcd import EBCD, Gram
from ebcd.data import _settings


def draw(n=30, p=4, seed=0, offset=0.0):
    return np.random.default_rng(seed).normal(size=(n, p)) + offset


def check(gram, X, rtol=1e-10):
    assert gram.n_samples == len(X)
    centred = X - X.mean(axis=0)
    scatter = centred.T @ centred
    np.testing.assert_allclose(gram.mean, X.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(gram.scatter, scatter, atol=rtol * np.abs(scatter).max())


class TestNames:
    frame = pd.DataFrame(draw(), columns=["b", "c", "a", "d"])

    @pytest.mark.parametrize("combine", [Gram.merge, Gram.__add__])
    def test_columns_in_another_order(self, combine):
        other = self.frame[sorted(self.frame)]
        message = "has the column 'a' where 'b' is expected"
        with pytest.raises(ValueError, match=message):
            combine(Gram().update(self.frame), Gram().update(other))
        with pytest.raises(ValueError, match=message):
            Gram().update(self.frame).update(other)

    @pytest.mark.parametrize("named_first", [True, False])
    def test_a_fit_knows_them(self, named_first):
        parts = [Gram().update(self.frame), Gram().update(draw(seed=1))]
        model = EBCD(1).fit(sum(parts if named_first else parts[::-1]))
        assert model.feature_names_in_.tolist() == list(self.frame)
        with pytest.raises(ValueError, match="names should match"):
            model.transform(self.frame[sorted(self.frame)])
        assert not hasattr(model.fit(parts[1]), "feature_names_in_")

    def test_numbers_are_no_names(self):
        assert Gram().update(pd.DataFrame(draw())).feature_names is None

    def test_pickles_without_names(self):
        gram = Gram.__new__(Gram)
        gram.__dict__["_moments"] = Gram().update(draw())._moments
        assert EBCD(1).fit(gram).n_features_in_ == 4


class TestPieces:
    @given(st.lists(st.integers(0, 30), max_size=6), st.sampled_from([0.0, 100.0, 1e8]))
    def test_any_chunks(self, cuts, offset):
        X = draw(offset=offset)
        gram = Gram()
        for chunk in np.split(X, sorted(cuts)):
            gram.update(chunk)
        check(gram, X, rtol=1e-10 if offset < 1e6 else 1e-6)

    @pytest.mark.parametrize("layout", [np.asarray, np.asfortranarray, sparse.csr_array])
    def test_any_layout(self, layout, monkeypatch):
        settings = dataclasses.replace(_settings.SETTINGS, piece=80)
        monkeypatch.setattr(_settings, "SETTINGS", settings)
        X = draw(300)
        X[:100] *= (
            np.random.default_rng(1).random((100, 4)) < 0.04
        )  # sparse pieces, then dense ones
        check(Gram().update(layout(X)), X)

    def test_means_that_grow_large_in_the_last_rows(self, monkeypatch):
        settings = dataclasses.replace(_settings.SETTINGS, piece=80)
        monkeypatch.setattr(_settings, "SETTINGS", settings)
        X = draw(300)
        X[:, 1] += np.where(np.arange(300) < 20, 0, 1e8)
        check(Gram().update(X), X)

    def test_no_columns(self):
        assert repr(Gram().update(np.zeros((3, 0)))) == "Gram(3 samples, 0 features)"

    @given(st.permutations(range(5)))
    def test_any_order_of_merging(self, order):
        X = draw()
        parts = [Gram().update(chunk) for chunk in np.split(X, 5)]
        total = Gram()
        for k in order:
            total = total + parts[k]
        check(total, X)
        whole = Gram()
        for k in order:
            whole.merge(parts[k])
        check(whole, X)

    def test_sum_leaves_its_terms_alone(self):
        X = draw()
        first, second = Gram().update(X[:10]), Gram().update(X[10:])
        both = first + second
        both.update(X)
        check(first, X[:10])
        check(second, X[10:])

    def test_sum_of_a_list(self):
        X = draw()
        check(sum(Gram().update(chunk) for chunk in np.split(X, 5)), X)
        with pytest.raises(TypeError):
            1 + Gram()

    def test_merging_leaves_the_other_alone(self):
        X = draw()
        first, second = Gram(), Gram().update(X[10:])
        first.merge(second).update(X[:10])
        check(second, X[10:])
        assert first.n_samples == 30

    def test_empty_pieces_change_nothing(self):
        X = draw()
        gram = Gram().update(X).update(X[:0]).merge(Gram())
        check(gram + Gram(), X)
        check(Gram() + gram, X)

    def test_data_are_left_alone(self):
        X = draw()
        before = X.copy()
        X.flags.writeable = False
        gram = Gram().update(X)
        gram.update(X)
        np.testing.assert_array_equal(X, before)


class TestKinds:
    @pytest.mark.parametrize(
        "make",
        [
            sparse.csr_array,
            sparse.csc_matrix,
            np.asfortranarray,
            np.ndarray.tolist,
            lambda X: X.astype(np.float32),
            lambda X: X.astype(int),
        ],
    )
    def test_chunk(self, make):
        X = np.round(draw() * 4)
        check(Gram().update(make(X)), X)

    def test_single_precision_is_summed_in_double(self):
        X = np.full((100_000, 1), 0.1, dtype=np.float32)
        X[::2] += 1
        assert Gram().update(X).mean.dtype == np.float64
        check(Gram().update(X), X.astype(np.float64))

    def test_frame(self):
        pandas = pytest.importorskip("pandas")
        check(Gram().update(pandas.DataFrame(draw())), draw())

    def test_representation(self):
        assert repr(Gram().update(draw())) == "Gram(30 samples, 4 features)"


class TestBadInput:
    def test_number_of_columns(self):
        with pytest.raises(ValueError, match="chunk has 3 columns, but the chunks before had 4"):
            Gram().update(draw()).update(draw(p=3))
        with pytest.raises(ValueError, match="merge a Gram of 3 columns into one of 4"):
            Gram().update(draw()).merge(Gram().update(draw(p=3)))

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_not_finite(self, bad):
        X = draw()
        X[7, 2] = X[9, 0] = bad
        with pytest.raises(
            ValueError, match="2 entries are NaN or infinite, the first in row 7, column 2"
        ):
            Gram().update(X)

    @pytest.mark.parametrize("shape", [(4,), (2, 3, 4), ()])
    def test_shape(self, shape):
        with pytest.raises(ValueError, match="rows and columns, got shape"):
            Gram().update(np.zeros(shape))

    @pytest.mark.parametrize("chunk", [[["a", "b"]], [[1j, 2.0]], [[None, 1.0]], [[True, False]]])
    def test_kind_of_number(self, chunk):
        with pytest.raises(TypeError, match="real numbers, got dtype"):
            Gram().update(np.array(chunk))

    def test_sum_with_something_else(self):
        with pytest.raises(TypeError):
            Gram() + 1

    def test_failed_update_changes_nothing(self):
        gram = Gram().update(draw())
        with pytest.raises(ValueError, match="NaN"):
            gram.update(np.full((2, 4), np.nan))
        check(gram, draw())

    def test_empty_gram_cannot_be_fitted(self):
        with pytest.raises(ValueError, match="the Gram is empty; update it with data first"):
            EBCD(1).fit(Gram())
