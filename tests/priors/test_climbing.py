"""Steps of the weight and the scale against the likelihood itself."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebcd.priors import _climbing as steps
from ebcd.priors import _two_group as two_group
from ebcd.priors import make_prior
from ebcd.priors._columns import Columns
from ebcd.priors._slabs import ExponentialSlab, LaplaceSlab, NormalSlab

KINDS = {"laplace": LaplaceSlab(), "exponential": ExponentialSlab(), "normal": NormalSlab()}
N = 150


def draw(seed, name):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=N) + np.where(rng.random(N) < 0.3, rng.exponential(3.0, N), 0)
    return x if name == "exponential" else x * rng.choice([-1.0, 1.0], N)


def at(x, name, w, b):
    """Sums at a weight and log scale."""
    return two_group._evaluate(Columns(x[None], np.ones((1, 1))), KINDS[name], [w], [b])[0]


def likelihood(x, name, w, b):
    return make_prior(f"point_{name}", weight=w, scale=math.exp(b)).log_likelihood(x)


CASES = pytest.mark.parametrize("name", list(KINDS))
WEIGHTS, LOG_SCALES = st.floats(0.01, 0.99), st.floats(-1.0, 3.0)


@CASES
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), w=WEIGHTS, b=LOG_SCALES)
def test_em_never_lowers_the_likelihood(name, seed, w, b):
    x = draw(seed, name)
    for fixed in (False, True):
        bounds = steps.Bounds(float(N), -9.0, 9.0, KINDS[name].em_power, fixed)
        to_w, to_b, gain = steps.em(at(x, name, w, b), w, b, bounds)
        assert (to_w == w) or not fixed
        rise = likelihood(x, name, to_w, to_b) - likelihood(x, name, w, b)
        assert rise >= -1e-9
        assert gain >= -1e-9  # to first order it goes uphill


@CASES
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), w=WEIGHTS, b=LOG_SCALES)
def test_short_steps_of_newtons_method_gain_what_they_predict(name, seed, w, b):
    x = draw(seed, name)
    to_w, to_b, gain = steps.newton(at(x, name, w, b), w, b, 1e-3, False)
    rise = likelihood(x, name, to_w, to_b) - likelihood(x, name, w, b)
    assert gain >= 0
    assert rise == pytest.approx(gain, abs=1e-6 * N)


@CASES
def test_em_ends_where_newtons_method_does(name):
    x = draw(3, name)
    columns = Columns(x[None], np.ones((1, 1)))
    expected = two_group._climb(columns, KINDS[name], [0.5], [0.5], False)
    bounds = steps.Bounds(float(N), -9.0, 9.0, KINDS[name].em_power, False)
    w, b = 0.5, 0.5
    for _ in range(3_000):
        w, b, _ = steps.em(at(x, name, w, b), w, b, bounds)
    assert at(x, name, w, b).ratio == pytest.approx(expected.ratio[0], abs=1e-6)
    assert w == pytest.approx(expected.weight[0], rel=1e-3)
    assert b == pytest.approx(expected.log_scale[0], abs=1e-3)


def test_what_is_done_with_a_step():
    bounds = steps.Bounds(100.0, -5.0, 5.0, 1.0, False)
    largest = steps.LARGEST_STEP
    tiny = (0.5 + 1e-6, 1e-6, 1e-9)
    assert steps.judged(0.5, 0.0, tiny, largest, bounds)[0] == steps.ARRIVE
    assert steps.judged(0.5, 0.0, tiny, 0.1, bounds)[0] == steps.MOVE  # after a fall: look first
    assert steps.judged(0.5, 0.0, (0.5, 0.0, 1.0), 0.1, bounds)[0] == steps.STAY
    assert steps.judged(0.5, 0.0, (0.6, 9.0, 1.0), largest, bounds) == (steps.MOVE, 0.6, 5.0)
    assert steps.judged(0.5, 0.0, (0.0, 0.5, 1.0), largest, bounds)[1] == 1e-8
    assert steps.longer(largest) == largest
    assert steps.shorter(largest, 0.5, 0.0, 0.5, 0.4) == pytest.approx(0.1)
