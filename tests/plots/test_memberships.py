"""Memberships as a picture."""

import numpy as np
import pytest
from pictures import assert_readable

from ebcd import EBCD, memberships

plots = pytest.importorskip("ebcd.plots")
pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    clusters = rng.random((2, 30)) < 0.4
    X = rng.normal(size=(80, 2)) @ clusters + rng.normal(size=(80, 30))
    return EBCD(2, prior="generalized_binary").fit(X)


def test_shows_probabilities_in_order(model):
    ax = plots.memberships(model, sort=False, feature_names=range(30))
    np.testing.assert_array_equal(ax.images[0].get_array(), memberships(model))
    assert [label.get_text() for label in ax.get_xticklabels()] == [str(j) for j in range(30)]


def test_long_names_find_room():
    X = np.random.default_rng(0).normal(size=(80, 60))
    model = EBCD(2, prior="generalized_binary", start="svd").fit(X)
    ax = plots.memberships(
        model, feature_names=[f"feature with a long name {j}" for j in range(60)]
    )
    assert_readable(ax.figure)
    assert ax.get_window_extent().height > 60


def test_brings_members_together(model):
    drawn = np.asarray(plots.memberships(model).images[0].get_array()) > 0.5
    first = int(drawn[0].sum())
    assert drawn[0, :first].all()  # members of the first component come first,
    for part in (drawn[1, :first], drawn[1, first:]):  # and in each half those of the second
        assert not np.diff(part.astype(int)).max(initial=0) > 0
    np.testing.assert_array_equal(drawn.sum(axis=1), (memberships(model) > 0.5).sum(axis=1))
