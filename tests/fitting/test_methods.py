"""The table of methods: its rows are those of the paper's Table 1, and the estimators use them."""

import numpy as np
import pytest

from ebcd import PenalizedPCA
from ebcd.fitting import _methods
from ebcd.fitting._deflation import Deflated
from ebcd.fitting._rotation import multiply, polar
from ebcd.peers import ITSPCA, SPC, USLPCA, GPower

ESTIMATORS = {
    "PenalizedPCA": PenalizedPCA(2),
    "SPC": SPC(2, sumabs=2.0),
    "GPower": GPower(2),
    "GPower, one by one": GPower(2, block=False),
    "ITSPCA": ITSPCA(2, gamma=0.5),
    "USLPCA": USLPCA(2, n_nonzero=10),
}


def test_rows():
    table = {name: (row.rotation, row.deflation) for name, row in _methods.METHODS.items()}
    assert table == {
        "EBCD": (polar, None),
        "PenalizedPCA": (polar, None),
        "SPC": (polar, Deflated.without_scores),
        "GPower": (polar, None),
        "GPower, one by one": (polar, Deflated.without_direction),
        "ITSPCA": (multiply, None),
        "USLPCA": (polar, None),
    }


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_use_their_row(name, monkeypatch):
    """A method whose shrinkage is replaced fits something else."""

    def fail(*args, **kwargs):
        raise NotImplementedError(name)

    monkeypatch.setitem(_methods.METHODS, name, _methods.Method(fail, fail, fail))
    X = np.random.default_rng(0).normal(size=(30, 8)) @ np.diag(np.arange(1.0, 9.0))
    with pytest.raises(NotImplementedError, match=name):
        ESTIMATORS[name].fit(X)


def test_one_by_one_needs_a_deflation():
    with pytest.raises(ValueError, match="no deflation"):
        _methods.METHODS["USLPCA"].fit_one_by_one(None, 1, None, tol=0.0, max_iter=1)
