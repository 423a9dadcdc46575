"""Sparse matrices whose indices lie are refused before anything is multiplied."""

import numpy as np
import pytest
from scipy import sparse

from ebcd import EBCD, Gram
from ebcd.data import checked_sparse
from ebcd.peers import EBMF

WAYS_IN = {
    "fit": lambda X: EBCD(1).fit(X),
    "transform": lambda X: EBCD(1).fit(draw().toarray()).transform(X),
    "chunks": lambda X: EBCD(1).fit([X]),
    "gram": lambda X: Gram().update(X),
    "ebmf": lambda X: EBMF(1).fit(X),
}


def draw(kind="csr"):
    return sparse.random_array((60, 20), density=0.3, random_state=0, format=kind)


def too_large(X):
    X.indices[3] = 1_000_000


def negative(X):
    X.indices[3] = -5


def decreasing(X):
    X.indptr[4] = X.indptr[5] + 3


def emptied(X):
    """SciPy looks at the ends of rows only if the last one says that there are entries."""
    X.indptr[4], X.indptr[-1] = 10_000_000, 0


def overflowing(X):
    """No difference of these is negative in 32 bits."""
    X.indptr[4:7] = 2**31 - 1, -(2**31), -(2**30)


def outside(X):
    X.coords[0][2] = 999


@pytest.mark.parametrize("way", WAYS_IN)
@pytest.mark.parametrize(
    ("kind", "damage"),
    [("csr", too_large), ("csc", too_large), ("csr", negative), ("csc", decreasing)]
    + [(kind, damage) for kind in ("csr", "csc") for damage in (emptied, overflowing)],
)
def test_refused(way, kind, damage):
    X = draw(kind)
    damage(X)
    with pytest.raises(ValueError, match=r"X is a damaged sparse matrix: .*ind"):
        WAYS_IN[way](X)


def test_coordinates():
    X = draw("coo")
    outside(X)
    with pytest.raises(ValueError, match="damaged sparse matrix"):
        EBCD(1).fit(X)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sound_matrices_are_left_alone(kind):
    X = draw(kind)
    np.testing.assert_array_equal(checked_sparse(X).toarray(), draw().toarray())


def test_entries_in_parts_are_added_up():
    X = sparse.csr_array(([1.0, 2.0, 3.0], [1, 1, 0], [0, 2, 3]), shape=(2, 2))
    checked = checked_sparse(X)
    np.testing.assert_array_equal(checked.data, [3.0, 3.0])
    np.testing.assert_array_equal(X.data, [1.0, 2.0, 3.0])
