"""Warnings point at the line of the user's code, whatever lies between."""

import warnings

import numpy as np
import pytest

from ebcd import EBCD, PenalizedPCA
from ebcd.peers import EBMF, SPC

X = np.random.default_rng(0).normal(size=(20, 5))


@pytest.mark.parametrize(
    "model",
    [
        EBCD(2, max_iter=1),
        PenalizedPCA(2, alpha=1e6),
        SPC(2, sumabs=1.5, max_iter=1),
        EBMF(2, max_iter=1),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_place(model, method):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(model, method)(X)
    assert caught
    assert {warning.filename for warning in caught} == {__file__}
