"""Compiled steps of Newton's method against those by array operations."""

import numpy as np
import pytest

from ebcd.fitting import _scores
from ebcd.fitting._rotation import inverse_root
from ebcd.fitting._scores import FactorScores, Limits

pytest.importorskip("numba")

fused = pytest.importorskip("ebcd.fitting._fused_scores")


@pytest.fixture(params=["compiled", "interpreted"])
def way(request, monkeypatch):
    """Loops as numba compiles them, and the same lines as Python reads them."""
    monkeypatch.setattr(_scores, "fused_kernels", lambda *_: fused)
    if request.param == "interpreted":
        for name, function in list(vars(fused).items()):
            if hasattr(function, "py_func"):
                monkeypatch.setattr(fused, name, function.py_func)
    return request.param


def problem(k, rows, p, bend=1.0, seed=0):
    """Give scores, and what a step from them depends on."""
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(rows, p)) / np.sqrt(p)
    own = rng.normal(size=(k, rows))
    own = inverse_root(own @ own.T) @ own
    b = own @ factor
    gradient = b * rng.uniform(0.2, 1.0, b.shape)
    return FactorScores(factor), (own, b, gradient, bend * rng.random(b.shape))


# far from the border, at the border, curved upwards, one product only
@pytest.mark.parametrize(
    ("bend", "reach", "most"), [(0.1, 5.0, 10), (0.5, 0.05, 10), (30.0, 0.5, 10), (0.8, 5.0, 1)]
)
@pytest.mark.parametrize(("k", "rows", "p"), [(1, 6, 40), (2, 11, 30), (3, 50, 500), (5, 9, 70)])
def test_step_is_that_of_array_operations(way, monkeypatch, k, rows, p, bend, reach, most):
    scores, at = problem(k, rows, p, bend)
    limits = Limits(reach, 0.01, most)
    found = scores.newton(*at, limits)
    monkeypatch.setattr(_scores, "fused_kernels", lambda *_: None)
    expected = scores.newton(*at, limits)
    assert 0 < expected.length <= reach
    assert found.length == pytest.approx(expected.length, rel=1e-9)
    np.testing.assert_allclose(found.own, expected.own, atol=1e-9 * expected.length)


def test_nothing_to_do_is_no_step(way):
    scores, (own, b, _, bend) = problem(2, 8, 20)
    step = scores.newton(own, b, b, bend, Limits(0.5, 0.1, 10, enough=np.inf))
    assert step.length == 0
    assert not step.own.any()


def test_nothing_is_compiled_anew_for_arrays_that_are_stored_otherwise(monkeypatch):
    monkeypatch.setattr(_scores, "fused_kernels", lambda *_: fused)
    scores, at = problem(3, 12, 40)
    first = scores.newton(*at, Limits(0.5, 0.1, 10))
    known = len(fused.newton.signatures)
    factor = scores._factor.copy()
    locked = factor.copy()
    locked.flags.writeable = False
    for other in (np.asfortranarray(factor), locked, np.repeat(factor, 2, axis=1)[:, ::2]):
        again = FactorScores(other).newton(*at, Limits(0.5, 0.1, 10))
        np.testing.assert_array_equal(again.own, first.own)
    FactorScores(factor.astype(np.float32)).newton(*at, Limits(0.5, 0.1, 10))
    assert len(fused.newton.signatures) == known


def test_many_features_are_left_to_array_operations(monkeypatch):
    def kernels(*_):
        raise AssertionError("these would take longer")

    monkeypatch.setattr(_scores, "fused_kernels", kernels)
    scores, at = problem(2, 30, 4_000)
    assert scores.newton(*at, Limits(0.5, 0.1, 10)).length > 0
