"""Estimators to draw, and pictures that are closed after each test."""

import methods
import numpy as np
import pytest

from ebcd import EBCD

P = 15
ESTIMATORS = [*methods.ESTIMATORS, EBCD(2, scale=True, noise="per_feature")]


def draw(n=80, p=P, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, :5], L[0, 5:8], L[1, 9:12] = 3.0, -2.0, 2.0
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p))


@pytest.fixture(autouse=True)
def _pictures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    yield
    plt.close("all")


@pytest.fixture(scope="session")
def data():
    return draw()


@pytest.fixture(scope="session", params=ESTIMATORS, ids=repr)
def model(request, data):
    return request.param.fit(data)


@pytest.fixture(scope="session")
def ebcd_model(data):
    return EBCD(2).fit(data)


@pytest.fixture(scope="session")
def empty_model():
    with pytest.warns(UserWarning, match="no component"):
        return EBCD().fit(np.random.default_rng(0).normal(size=(40, 8)))
