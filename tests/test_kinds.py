"""Some of the data of every kind for every way in of `benchmarks/kinds.py`."""

import pytest

from benchmarks import kinds


@pytest.mark.slow
def test_some_kinds():
    count, wrong = kinds.run(step=5)
    assert count > 300
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["dense", "csr", "list"])
def test_samples_that_are_too_far_for_a_likelihood(kind):
    assert kinds.attempt("score_samples", f"huge {kind}", None) == ""


def test_there_are_enough_kinds():
    assert len(kinds.kinds()) >= 150
