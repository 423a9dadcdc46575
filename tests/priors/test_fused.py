"""Compiled loops against array operations, and their special functions against mpmath."""

import math
import sys

import numpy as np
import pytest

import ebcd
from ebcd.priors import _posterior as posterior
from ebcd.priors import _scale_search as search
from ebcd.priors import _two_group as two_group
from ebcd.priors import make_family, make_prior
from ebcd.priors._columns import Binned, Columns
from ebcd.priors._fused import fused_kernels
from ebcd.priors._slabs import ExponentialSlab, LaplaceSlab, NormalSlab
from ebcd.priors._solve import solve_columns

numba = pytest.importorskip("numba")

slabs = pytest.importorskip("ebcd.priors._fused_slabs")
grids = pytest.importorskip("ebcd.priors._fused_grids")

# inner functions can be called from compiled ones only
mills = numba.njit(lambda t: slabs.mills(t))
exponentials = numba.njit(lambda n, row, *work: slabs.exponentials(n, row, *work))
sum_of_logarithms = numba.njit(lambda n, row, *work: slabs.sum_of_logarithms(n, row, *work))

KINDS = {"laplace": LaplaceSlab(), "exponential": ExponentialSlab(), "normal": NormalSlab()}
WEIGHTS, LOG_SCALES = [0.1, 1.0, 1e-4], [0.7, -0.4, 2.5]


@pytest.fixture
def switch(monkeypatch):
    """Turn the compiled loops on or off."""

    def turn(on):
        monkeypatch.setenv("EBCD_NUMBA", "1" if on else "0")
        fused_kernels.cache_clear()

    yield turn
    monkeypatch.undo()
    fused_kernels.cache_clear()


@pytest.fixture(params=["compiled", "interpreted"])
def way(request, switch, monkeypatch):
    """Loops as numba compiles them, and the same lines as Python reads them."""
    switch(True)
    if request.param == "interpreted":
        for module in (slabs, grids):
            for name, function in list(vars(module).items()):
                if hasattr(function, "py_func"):
                    monkeypatch.setattr(module, name, function.py_func)
    return request.param


def entries(strongest, n=300, seed=0):
    """Three columns that reach from nothing to `strongest`."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(3, n))
    some = rng.random(z.shape) < 0.1
    size = 10 ** rng.uniform(-2, math.log10(strongest), int(some.sum()))
    z[some] += size * rng.choice([-1.0, 1.0], size.size)
    z[:, 0], z[:, 1] = 0.0, strongest
    return z


def columns(strongest, noise="unit", counted=False, positive=False):
    x = entries(strongest)
    if positive:
        x = np.abs(x)
    s = np.ones((1, 1))
    if noise == "vector":
        s = np.random.default_rng(1).uniform(0.3, 2.0, (1, x.shape[1]))
    if counted:  # one row of entries for all columns; interpolation weights may be negative
        counts = np.random.default_rng(2).uniform(-0.2, 5.0, x.shape)
        return Columns(x[:1] * s, s, counts)
    return Columns(x * s, s)


def case(function):
    function = pytest.mark.parametrize("strongest", [5.0, 100.0, 1e4, 1e8])(function)
    function = pytest.mark.parametrize("counted", [False, True])(function)
    function = pytest.mark.parametrize("noise", ["unit", "vector"])(function)
    return pytest.mark.parametrize("name", list(KINDS))(function)


@case
def test_sums_are_those_of_array_operations(way, name, noise, counted, strongest):
    data = columns(strongest, noise, counted, positive=name == "exponential")
    found = posterior.fused_sums(data, KINDS[name], WEIGHTS, LOG_SCALES)
    weight = np.array(WEIGHTS)[:, None]
    expected = two_group._block_sums(data, KINDS[name], weight, LOG_SCALES)
    # terms of the sums are up to this large; those of the second derivative are differences of
    # squares, of which as many digits are lost in either way
    tilt = data.size * data.s * np.exp(-np.array(LOG_SCALES))[:, None]
    counts = 1.0 if data.counts is None else np.abs(data.counts)
    size = (counts * tilt**2).sum(axis=1)
    rounding = np.full_like(expected, 1e-13 * data.x.shape[1])
    rounding[4] += 1e-15 * size
    rounding += 1e-13 * np.abs(expected)
    assert np.all(np.abs(found - expected) <= rounding)


@case
def test_posterior_is_that_of_array_operations(
    way, switch, monkeypatch, name, noise, counted, strongest
):
    data = columns(strongest, noise, counted, positive=name == "exponential")
    found = posterior.posterior(data, KINDS[name], WEIGHTS, LOG_SCALES)
    switch(False)
    expected = posterior.posterior(data, KINDS[name], WEIGHTS, LOG_SCALES)
    for ours, theirs, scale in zip(found, expected, [data.x.shape[1], 1.0, 1.0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-11 * scale)


@pytest.mark.parametrize("name", list(KINDS))
def test_one_entry_may_stand_for_many(switch, name):
    switch(True)
    single = Columns(np.full((1, 1), 1.5), np.ones((1, 1)), np.full((1, 1), 700.0))
    many = Columns(np.full((1, 700), 1.5), np.ones((1, 1)))
    found, expected = (
        posterior.fused_sums(data, KINDS[name], [0.3], [0.2]) for data in (single, many)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_mills_ratio_and_exponential_have_all_digits():
    mpmath = pytest.importorskip("mpmath")
    rng = np.random.default_rng(0)
    at = np.concatenate([np.linspace(0, 12, 200), 10 ** rng.uniform(-3, 3, 100)])
    with mpmath.workdps(40):
        root, half = mpmath.sqrt(mpmath.pi / 2), mpmath.sqrt(0.5)

        def expected(t):
            t = mpmath.mpf(float(t))
            if t > 100:
                return mpmath.gammainc(0.5, t * t / 2) * mpmath.exp(t * t / 2) * half
            return root * mpmath.exp(t * t / 2) * mpmath.erfc(t * half)

        errors = [float(mills(t) / expected(t) - 1) for t in at]
        assert np.abs(errors).max() < 1e-15
        exponents = rng.uniform(-690, 690, slabs.BLOCK)
        work = np.empty(slabs.WORK)
        row = 5 * slabs.BLOCK
        work[row : row + slabs.BLOCK] = exponents
        exponentials(slabs.BLOCK, row, work, work.view(np.int64))
        found = work[row : row + slabs.BLOCK]
        errors = [
            float(a / mpmath.exp(mpmath.mpf(float(b))) - 1)
            for a, b in zip(found, exponents, strict=True)
        ]
        assert np.abs(errors).max() < 1e-15
    assert mills(1e8) == pytest.approx(1e-8, rel=1e-15)


def test_logarithm_of_a_product_is_that_of_every_entry():
    values = 10 ** np.random.default_rng(0).uniform(-280, 280, slabs.BLOCK)
    work = np.concatenate([values, np.empty(slabs.WORK - slabs.BLOCK)])
    found = sum_of_logarithms(slabs.BLOCK, 0, work, work.view(np.int64), False)
    assert found == pytest.approx(math.fsum(np.log(values)), abs=1e-11)


@pytest.mark.parametrize("even", [True, False])
def test_binning_is_that_of_array_operations(way, switch, even):
    z = entries(60.0, n=3_000)
    z[:, 2], z[0, 3] = -1.0, z.max()  # on the grid, and at its end
    fused = Binned(z, even)
    tables = np.stack([np.tanh(fused.nodes / 3), np.cos(fused.nodes)])[:, None].repeat(3, axis=1)
    values, stencils = fused.interpolate(tables), fused.stencils(1, 7)
    switch(False)
    plain = Binned(z, even)
    np.testing.assert_allclose(fused.columns.counts, plain.columns.counts, rtol=0, atol=1e-9)
    np.testing.assert_allclose(values, plain.interpolate(tables), rtol=0, atol=1e-12)
    nodes, weights = plain.stencils(1, 7)
    values = (stencils[1] * np.tanh(stencils[0] / 3)).sum(axis=1)
    np.testing.assert_allclose(values, (weights * np.tanh(nodes / 3)).sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(fused.columns.totals, 3_000, rtol=1e-12)


@pytest.mark.parametrize("counted", [False, True])
def test_best_weights_are_those_of_array_operations(way, switch, counted):
    rng = np.random.default_rng(3)
    odds = np.exp(rng.normal(size=(6, 80)) * [[0.1], [1], [2], [5], [1], [1]])
    odds[4] = 0.5  # nothing comes from the slab
    odds[5] += 1  # everything does
    counts = rng.uniform(0.0, 4.0, (2, 1, 80)) if counted else None
    totals = np.full((1, 1), 80.0) if counts is None else counts.sum(axis=2)
    found = search.best_weight(odds, counts, totals)
    switch(False)
    expected = search.best_weight(odds, counts, totals)
    assert found.shape == (len(totals), 6)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-9)
    assert (found[:, 4] == 0).all()
    assert (found[:, 5] == 1).all()


@pytest.mark.parametrize("noise", ["common", "vector"])
@pytest.mark.parametrize("n", [200, 20_000])
@pytest.mark.parametrize(
    "family",
    ["point_laplace", "laplace", "point_exponential", "exponential", "point_normal", "normal"],
)
def test_fits_agree(switch, family, n, noise):
    rng = np.random.default_rng(4)
    theta = np.where(rng.random((3, n)) < [[0.1], [0.5], [0.02]], rng.exponential(4.0, (3, n)), 0)
    if n == 200:
        theta[2, :2] = 1e6
    s = np.array(0.7) if noise == "common" else rng.uniform(0.3, 1.5, n)
    x = theta + s * rng.normal(size=theta.shape)
    fits = []
    for on in (True, False):
        switch(on)
        cold = solve_columns(x, s, [make_family(family)] * 3)
        warm = solve_columns(x, s, [make_family(family)] * 3, cold.priors)
        fits.append((cold, warm))
    for ours, theirs in zip(*fits, strict=True):
        # a climb ends where the rest is below 1e-8 nats
        np.testing.assert_allclose(
            ours.log_likelihood, theirs.log_likelihood, rtol=1e-12, atol=2e-8
        )
        np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ours.variance, theirs.variance, rtol=1e-6, atol=1e-6)


def test_narrow_slabs_and_arguments_far_out_are_left_to_array_operations(switch):
    switch(True)
    laplace, exponential = KINDS["laplace"], KINDS["exponential"]
    assert posterior.fused_sums(columns(5.0), laplace, WEIGHTS, [0.0, 0.0, -4.0]) is None
    near, far = (
        Columns(-np.abs(entries(strongest)), np.ones((1, 1))) for strongest in (30.0, 100.0)
    )
    assert posterior.fused_sums(near, exponential, WEIGHTS, LOG_SCALES) is not None
    assert posterior.fused_sums(far, exponential, WEIGHTS, LOG_SCALES) is None


def test_nothing_is_compiled_anew_for_arrays_that_are_stored_otherwise(switch):
    switch(True)
    x, s = entries(5.0), np.array(1.0)
    family = [make_family("point_laplace")] * 3
    first = solve_columns(x, s, family)
    known = len(slabs.run.signatures)
    locked = x.copy()
    locked.flags.writeable = False
    for other in (locked, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
        again = solve_columns(other, s, family)
        np.testing.assert_array_equal(again.mean, first.mean)
    assert len(slabs.run.signatures) == known


def test_the_variable_turns_compiled_loops_off(switch):
    switch(True)
    assert fused_kernels("slabs") is slabs
    switch(False)
    assert fused_kernels("slabs") is None


def test_all_works_without_numba(switch, monkeypatch):
    switch(True)
    with_numba = ebcd.ebnm(entries(8.0)[0])
    monkeypatch.setitem(sys.modules, "ebcd.priors._fused_slabs", None)  # as if it did not import
    monkeypatch.setitem(sys.modules, "ebcd.priors._fused_grids", None)
    fused_kernels.cache_clear()
    assert fused_kernels("slabs") is None
    without = ebcd.ebnm(entries(8.0)[0])
    assert without.log_likelihood == pytest.approx(with_numba.log_likelihood, abs=1e-8)


def test_a_start_is_used_in_either_way(switch):
    x = entries(8.0, n=2_000)
    start = [make_prior("point_laplace", weight=0.2, scale=2.0)] * 3
    values = []
    for on in (True, False):
        switch(on)
        fit = solve_columns(x, np.array(1.0), [make_family("point_laplace")] * 3, start)
        values.append(fit.log_likelihood)
    np.testing.assert_allclose(*values, atol=2e-8)


@case
def test_climbs_are_those_of_array_operations(way, switch, name, noise, counted, strongest):
    data = columns(strongest, noise, counted, positive=name == "exponential")
    if counted:  # a likelihood that is bounded needs counts of entries
        data = Columns(data.x, data.s, np.abs(data.counts))
    start = [0.3, 0.3, 0.3], [0.5, 0.5, 0.5]
    found = two_group._climb(data, KINDS[name], *start, False, with_moments=True)
    switch(False)
    expected = two_group._climb(data, KINDS[name], *start, False, with_moments=True)
    assert expected.moments is None
    np.testing.assert_allclose(found.weight, expected.weight, rtol=1e-5)
    np.testing.assert_allclose(found.log_scale, expected.log_scale, atol=1e-5)
    # where it ends, not what the last step promises
    ratio, *_ = posterior.posterior(data, KINDS[name], expected.weight, expected.log_scale)
    np.testing.assert_allclose(found.ratio, ratio, rtol=1e-11, atol=2e-8)
    np.testing.assert_allclose(found.gained, expected.gained, rtol=1e-6, atol=1e-6)
    ratio, *moments = posterior.posterior(data, KINDS[name], found.weight, found.log_scale)
    np.testing.assert_allclose(found.ratio, ratio, rtol=1e-12, atol=1e-9)
    for ours, theirs in zip(found.moments, moments, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("start", [-5.0, 0.0])  # too narrow, or it becomes so
def test_climbs_into_narrow_slabs_are_left_to_array_operations(switch, start):
    switch(True)
    rng = np.random.default_rng(0)
    data = Columns(0.01 * rng.normal(size=(1, 200)), np.ones((1, 1)))
    bounds = data.totals, math.log(1e-4), np.array([3.0])
    laplace = KINDS["laplace"]
    begin = [0.5], [start]
    way, _, arrived = posterior.fused_climb(data, laplace, begin, bounds, True, False)
    assert not arrived
    assert way[1][0] <= start  # as far as it came
    state = two_group._climb(data, laplace, *begin, True)
    assert state.log_scale[0] < start
    assert state.ratio[0] > -1e-6
    switch(False)
    expected = two_group._climb(data, laplace, *begin, True)
    assert state.ratio[0] == pytest.approx(expected.ratio[0], abs=1e-6)
    assert state.gained[0] == pytest.approx(expected.gained[0], abs=1e-6)


def test_a_column_that_no_slab_improves_has_no_moments(switch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2, 400))
    x[0, :40] *= 6
    x[1] *= 0.3
    starts = [make_prior("point_laplace", weight=0.1, scale=4.0)] * 2
    for on in (True, False):
        switch(on)
        fit = solve_columns(x, np.array(1.0), [make_family("point_laplace")] * 2, starts)
        assert fit.mean[0].any()
        assert not fit.mean[1].any()
        assert not fit.variance[1].any()
