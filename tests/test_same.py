"""The same data give the same results, whatever their layout and the order of their columns."""

import pytest

pytest.importorskip("pandas")
from benchmarks import same


@pytest.mark.parametrize("scores", same.SCORES)
@pytest.mark.parametrize("name", ["wide", "long", "large"])
def test_layouts_and_orders(name, scores):
    X = same.data()[name]
    assert max(same.layouts(X, scores).values()) < 1e-10
    assert same.permuted(X, scores) < 1e-10


@pytest.mark.slow
def test_memory_does_not_grow():
    assert same.growth(60, first=20) < 5
