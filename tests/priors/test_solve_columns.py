"""Many columns at once against one at a time, and binned data against every entry on its own."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from families import ebnm, make_family

from ebcd.priors import PRIORS, make_prior
from ebcd.priors import _solve as solve
from ebcd.priors._family import Columns
from ebcd.priors._solve import solve_columns

KINDS = ["null", "sparse", "dense", "positive"]
LENGTHS = {"spatial": 24}  # which iterates over the wavelets of unequal noise


def draw(kind, n, rng):
    theta = {
        "null": lambda: np.zeros(n),
        "sparse": lambda: np.where(rng.random(n) < 0.1, rng.laplace(scale=4.0, size=n), 0.0),
        "dense": lambda: 1.5 * rng.standard_t(5, size=n),
        "positive": lambda: np.where(rng.random(n) < 0.3, rng.exponential(4.0, n), 0.0),
        "strong": lambda: np.where(
            rng.random(n) < 0.2, rng.choice([-1, 1], n) * 10 ** rng.uniform(0, 5, n), 0.0
        ),
    }[kind]()
    return theta + rng.normal(size=n)


def table(n=250, kinds=KINDS, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([draw(kind, n, rng) for kind in kinds])


def noise(kind, n):
    if kind == "scalar":
        return np.array(0.7)
    return np.random.default_rng(5).uniform(0.4, 2.0, n)


def assert_same(many, k, one, tolerance=1e-8):
    """Equal log-likelihoods, and so means as nearly as a flat maximum allows."""
    assert many.priors[k].family == one.priors[0].family
    np.testing.assert_allclose(
        many.log_likelihood[k], one.log_likelihood[0], rtol=1e-14, atol=tolerance
    )
    np.testing.assert_allclose(many.mean[k], one.mean[0], rtol=0, atol=5e-5)
    np.testing.assert_allclose(many.variance[k], one.variance[0], rtol=0, atol=5e-5)


@cache
def solved(family, kind):
    """Return columns, their noise, and what they give together and one by one."""
    x = table(LENGTHS.get(family, 250))
    s, families = noise(kind, x.shape[1]), [make_family(family)] * len(x)
    alone = [solve_columns(x[k : k + 1], s, families[:1]) for k in range(len(x))]
    return x, s, solve_columns(x, s, families), alone


class TestManyColumns:
    @pytest.mark.parametrize("s", ["scalar", "vector"])
    @pytest.mark.parametrize("family", PRIORS)
    def test_equal_one_by_one(self, family, s):
        x, _, many, alone = solved(family, s)
        assert len(many.priors) == len(x)
        assert many.mean.shape == many.variance.shape == x.shape
        assert many.log_likelihood.shape == (len(x),)
        assert (many.variance >= 0).all()
        for k, one in enumerate(alone):
            assert_same(many, k, one)

    @pytest.mark.parametrize("s", ["scalar", "vector"])
    def test_mixed_families_and_fixed_priors(self, s):
        fixed = make_prior("point_laplace", weight=0.2, scale=3.0)
        other = make_prior("normal", scale=2.0, mode=0.5)
        priors = [
            make_family("point_laplace"),
            fixed,
            make_family("npmle"),
            make_family("point_laplace"),
            other,
            make_family("npmle", grid=[-2.0, 0.0, 2.0]),
            make_family("flat"),
            make_family("point_exponential"),
            fixed,
            make_family("point_normal"),
        ]
        x = table(kinds=(KINDS * 3)[: len(priors)])
        s = noise(s, x.shape[1])
        many = solve_columns(x, s, priors)
        for k, prior in enumerate(priors):
            assert_same(many, k, solve_columns(x[k : k + 1], s, [prior]))
        for k, prior in ((1, fixed), (4, other), (8, fixed)):
            found, wanted = many.priors[k].parameters, prior.parameters
            assert found.keys() == wanted.keys()
            for key in wanted:
                np.testing.assert_allclose(found[key], wanted[key], rtol=1e-14)
            np.testing.assert_allclose(
                many.log_likelihood[k], prior.log_likelihood(x[k], s), rtol=1e-12
            )
            np.testing.assert_allclose(many.mean[k], prior.posterior(x[k], s).mean, rtol=1e-9)
        assert many.log_likelihood[6] == 0

    @pytest.mark.parametrize("s", ["scalar", "vector"])
    @pytest.mark.parametrize("family", PRIORS)
    def test_a_start_for_some_columns(self, family, s):
        x, s, cold, alone = solved(family, s)
        priors = [make_family(family)] * len(x)
        starts = [cold.priors[0], None, cold.priors[2], None]
        some = solve_columns(x, s, priors, starts)
        for k, start in enumerate(starts):
            x_k = x[k : k + 1]
            one = alone[k] if start is None else solve_columns(x_k, s, priors[:1], [start])
            assert_same(some, k, one)

    @pytest.mark.parametrize("family", ["point_laplace", "point_normal", "point_exponential"])
    def test_starts_of_other_columns(self, family):
        # as when the columns have changed places since the last iteration
        x = table()
        priors = [make_family(family)] * len(x)
        cold = solve_columns(x, np.array(1.0), priors)
        warm = solve_columns(x, np.array(1.0), priors, cold.priors[::-1])
        # the null column has maxima at weights near 0 that are a few 1e-6 nats high
        np.testing.assert_allclose(warm.log_likelihood, cold.log_likelihood, rtol=0, atol=5e-6)


# ---- binned data

FITTED = [name for name in PRIORS if PRIORS[name].binned]
# kernels that are smooth on the scale of |x|, so that few points represent far tails
TWO_GROUPS = [
    "point_normal",
    "point_laplace",
    "point_exponential",
    "normal",
    "laplace",
    "exponential",
]
N = 6000
WIDE = 40_000


def both_paths(monkeypatch, x, s, family, start=None):
    """Solve with the data binned, if that is chosen, and without binning."""
    used = []
    original = solve.Binned

    class Spy(original):
        def __init__(self, *args, **kwargs):
            used.append(True)
            super().__init__(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(solve, "Binned", Spy)
        binned = ebnm(x, s, family, start=start)
        rates = binned.lfsr
    with monkeypatch.context() as patch:
        patch.setattr(solve, "SETTINGS", replace(solve.SETTINGS, entries_per_node=10**9))
        direct = ebnm(x, s, family, start=start)
    return bool(used), binned, rates, direct


def check_paths(x, s, binned, rates, direct):
    allowed = 1e-6 + 1e-14 * abs(direct.log_likelihood)
    assert abs(binned.log_likelihood - direct.log_likelihood) <= allowed
    np.testing.assert_allclose(binned.mean / s, direct.mean / s, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(binned.sd / s, direct.sd / s, rtol=1e-12, atol=1e-6)
    check_own_prior(x, s, binned, rates)


def check_own_prior(x, s, result, rates):
    """What was interpolated is what the fitted prior says of every entry."""
    exact = result.prior.posterior(x, s)
    np.testing.assert_allclose(
        result.log_likelihood, result.prior.log_likelihood(x, s), rtol=1e-14, atol=1e-6
    )
    np.testing.assert_allclose(result.mean / s, exact.mean / s, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(result.sd / s, exact.sd / s, rtol=1e-12, atol=1e-6)
    np.testing.assert_allclose(rates, exact.lfsr, rtol=0, atol=1e-6)


def fixed_grid(family, x, s):
    """Families whose grid adapts to the data, on one that does not: what binning does must show."""
    if family in ("npmle", "deconvolver"):
        return make_family(family, grid=np.linspace(x.min(), x.max(), 80))
    if make_family(family).__dict__.get("grid", "none") is None:
        return make_family(family, grid=np.geomspace(0.1 * s, 1.5 * np.abs(x).max(), 40))
    return family


class TestBinned:
    @pytest.mark.parametrize("kind", ["null", "sparse", "dense"])
    @pytest.mark.parametrize("family", FITTED)
    def test_equals_direct(self, monkeypatch, family, kind):
        x = 0.3 * draw(kind, N, np.random.default_rng(11))
        prior = fixed_grid(family, x, 0.3)
        used, binned, rates, direct = both_paths(monkeypatch, x, 0.3, prior)
        assert used or family not in TWO_GROUPS
        check_paths(x, 0.3, binned, rates, direct)

    @pytest.mark.parametrize("family", [*TWO_GROUPS, "normal_scale_mixture"])
    def test_strong(self, monkeypatch, family):
        x = 0.3 * draw("strong", WIDE, np.random.default_rng(11))  # to 1e5 times the noise
        prior = fixed_grid(family, x, 0.3)
        used, binned, rates, direct = both_paths(monkeypatch, x, 0.3, prior)
        assert used or family not in TWO_GROUPS
        check_paths(x, 0.3, binned, rates, direct)

    @pytest.mark.parametrize("family", ["point_laplace", "point_normal", "point_exponential"])
    def test_noise_that_differs_in_the_last_digit(self, family):
        x = draw("sparse", N, np.random.default_rng(2))
        s = np.ones(N)
        s[17] = np.nextafter(1.0, 2.0)
        binned, direct = ebnm(x, 1.0, family), ebnm(x, s, family)
        check_paths(x, 1.0, binned, binned.lfsr, direct)

    @pytest.mark.parametrize("distance", [10.0, 60.0])
    @pytest.mark.parametrize("family", FITTED)
    def test_entries_between_two_groups(self, family, distance):
        # posteriors change over from one group to the other within a fraction of the noise
        rng = np.random.default_rng(4)
        x = np.where(rng.random(N) < 0.5, 0.0, distance) + rng.normal(size=N)
        x[:200] = rng.uniform(0, distance, 200)
        result = ebnm(x, 1.0, family)
        check_own_prior(x, 1.0, result, result.lfsr)

    @pytest.mark.parametrize("family", FITTED)
    def test_two_groups_equal_direct(self, monkeypatch, family):
        rng = np.random.default_rng(4)
        x = np.where(rng.random(N) < 0.5, 0.0, 40.0) + rng.normal(size=N)
        _, binned, rates, direct = both_paths(monkeypatch, x, 1.0, fixed_grid(family, x, 1.0))
        check_paths(x, 1.0, binned, rates, direct)

    @pytest.mark.parametrize(
        "prior",
        [
            make_prior("npmle", weights=[0.5, 0.5], locations=[0.0, 60.0]),
            make_prior("npmle", weights=[0.5, 0.5], locations=[-30.0, 30.0]),
            make_prior("generalized_binary", weight=0.3, mean=60.0, spread=0.02),
            make_prior("unimodal", weights=[0.9, 0.1], lower=[0.0, 0.0], upper=[0.0, 60.0]),
            make_prior("point_normal", weight=1e-9, scale=50.0),
            make_prior("point_laplace", weight=1e-9, scale=20.0),
            make_prior("point_exponential", weight=1e-9, scale=20.0),
            make_prior("horseshoe", scale=1e-6),
        ],
        ids=lambda prior: prior.family,
    )
    def test_sign_rates_of_a_fixed_prior(self, prior):
        x = np.random.default_rng(1).uniform(-63.0, 63.0, 3 * N)
        result = ebnm(x, 1.0, prior)
        check_own_prior(x, 1.0, result, result.lfsr)

    @pytest.mark.parametrize("family", ["point_laplace", "point_normal", "point_exponential"])
    def test_one_entry_far_out(self, monkeypatch, family):
        x = draw("sparse", WIDE, np.random.default_rng(6))
        x[100] = 1e7
        used, binned, rates, direct = both_paths(monkeypatch, x, 1.0, family)
        assert used
        check_paths(x, 1.0, binned, rates, direct)

    def test_many_columns(self):
        x = table(N, [*KINDS, "strong"], seed=3)
        priors = [make_family("point_laplace")] * len(x)
        many = solve_columns(x, np.array(1.0), priors)
        for k in range(len(x)):
            one = solve_columns(x[k : k + 1], np.array(1.0), [priors[k]])
            assert_same(many, k, one, tolerance=1e-6)

    def test_lengths_around_the_change_of_path(self):
        x, family = draw("sparse", N, np.random.default_rng(9)), make_family("point_laplace")
        columns = (Columns(x[None, :n], np.ones((1, 1))) for n in range(1, N))
        change = 1 + next(i for i, c in enumerate(columns) if solve._bin(c, family) is not None)
        values = [
            ebnm(x[:n], 1.0, family).log_likelihood - np.sum(-0.5 * x[:n] ** 2)
            for n in range(change - 2, change + 2)
        ]
        steps = np.diff(values)
        assert np.abs(steps).max() < 10  # one more entry, not another optimum

    @pytest.mark.parametrize("family", ["npmle", "deconvolver"])
    def test_no_place_lies_just_beside_zero(self, family):
        # nodes about zero cancel up to rounding, and zero is a place as well
        x = draw("sparse", N, np.random.default_rng(4))
        places = ebnm(x, 2.0, family).prior.parameters["locations"]
        assert np.diff(places).min() > 1e-6
