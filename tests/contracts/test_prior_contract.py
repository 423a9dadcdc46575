"""What every family of priors promises; a family entered in `PRIORS` is tested here."""

import dataclasses
import json
from functools import cache

import numpy as np
import pytest
from brute_force import CONVEX
from families import NEEDED, ebnm, make_family

import ebcd
from ebcd.priors import PRIORS, AbstractPriorFamily, FittedPrior, Posterior, make_prior

FAMILIES = list(PRIORS)
EXCHANGEABLE = [name for name in PRIORS if PRIORS[name].exchangeable]
PROPER = [name for name in EXCHANGEABLE if name != "flat"]
CENTRED = [name for name in PRIORS if PRIORS[name].has_mode]
# One of each way to fit; input is converted before any of them sees it.
EXAMPLES = ["point_laplace", "normal_scale_mixture", "spatial", "gmrf"]
LENGTHS = {"spatial": 40}  # which iterates over the wavelets of unequal noise
UNCENTRED = [name for name in PRIORS if not PRIORS[name].has_mode]


def example(n=120, seed=0, spread="common"):
    """Observations with a quarter of signals of either sign, and their noise."""
    rng = np.random.default_rng(seed)
    theta = np.where(rng.random(n) < 0.25, rng.laplace(scale=3.0, size=n), 0.0)
    s = np.full(n, 0.8) if spread == "common" else rng.uniform(0.5, 2.0, n)
    return theta + s * rng.normal(size=n), s


@cache
def fit(family, spread="common"):
    """The example, its noise and a fit, which the tests of a family share."""
    x, s = example(LENGTHS.get(family, 120), spread=spread)
    result = ebnm(x, s, family)
    for values in (x, s, result.mean, result.sd, result.lfsr):
        values.flags.writeable = False
    return x, s, result


def assert_priors_equal(a, b, rtol=1e-12):
    assert a.family == b.family
    assert a.parameters.keys() == b.parameters.keys()
    if a.family == "spatial":  # whose parameters are priors of parts
        return
    for key in set(a.parameters) - {"adjacency"}:
        np.testing.assert_allclose(a.parameters[key], b.parameters[key], rtol=rtol, atol=0)


@pytest.fixture(params=["common", "varying"])
def spread(request):
    return request.param


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


class TestRegistry:
    def test_names(self):
        assert set(PRIORS) >= {
            "point_normal",
            "point_laplace",
            "point_exponential",
            "normal",
            "laplace",
            "exponential",
            "normal_scale_mixture",
            "unimodal",
            "unimodal_symmetric",
            "unimodal_nonnegative",
            "unimodal_nonpositive",
            "npmle",
            "deconvolver",
            "horseshoe",
            "generalized_binary",
            "flat",
            "point_mass",
            "spatial",
            "gmrf",
        }

    def test_entry(self, family):
        kind = PRIORS[family]
        assert issubclass(kind, AbstractPriorFamily)
        assert kind.name == family
        assert kind.__doc__.strip()
        made = make_family(family)
        assert isinstance(made, kind)
        assert made == make_family(family)
        assert hash(made) == hash(make_family(family))
        assert repr(made).startswith(kind.__name__)

    def test_registry_is_read_only(self):
        with pytest.raises(TypeError):
            PRIORS["mine"] = PRIORS["normal"]

    def test_ways_to_name_a_family(self, family):
        x, s = example(40)
        by_name = ebnm(x, s, family)
        for same in [make_family(family)] + [PRIORS[family]] * (family not in NEEDED):
            result = ebnm(x, s, same)
            np.testing.assert_array_equal(result.mean, by_name.mean)
            np.testing.assert_equal(result.log_likelihood, by_name.log_likelihood)

    def test_default_is_point_laplace(self):
        x, _ = example(40)
        assert ebnm(x).prior.family == "point_laplace"
        assert ebnm(x).log_likelihood == ebnm(x, 1.0, "point_laplace").log_likelihood


class TestResult:
    def test_attributes(self, family, spread):
        x, _, result = fit(family, spread)
        assert isinstance(result, ebcd.priors.EBNMResult)
        assert isinstance(result.prior, FittedPrior)
        assert result.prior.family == family
        for values in (result.mean, result.sd, result.lfsr):
            assert values.shape == x.shape
            assert values.dtype == np.float64
            assert np.isfinite(values).all()
            assert not np.shares_memory(values, x)
        assert isinstance(result.log_likelihood, float)
        assert np.isfinite(result.log_likelihood) == result.prior.proper
        assert (result.sd >= 0).all()
        assert ((result.lfsr >= 0) & (result.lfsr <= 1)).all()

    def test_repr(self, family):
        x, _, result = fit(family)
        assert f"{x.size} entries" in repr(result)
        assert f"{result.log_likelihood:.6g}" in repr(result)
        assert repr(result.prior) in repr(result)
        assert family in repr(result.prior)
        assert result.prior.describe() in repr(result.prior)

    def test_result_is_frozen(self, family):
        result = ebnm(*example(20), family)
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.mean = 0

    def test_same_input_same_result(self, family, spread):
        x, s, one = fit(family, spread)
        two = ebnm(x, s, family)
        np.testing.assert_array_equal(one.mean, two.mean)
        np.testing.assert_array_equal(one.sd, two.sd)
        np.testing.assert_array_equal(one.lfsr, two.lfsr)
        np.testing.assert_equal(one.log_likelihood, two.log_likelihood)

    @pytest.mark.parametrize("family", EXAMPLES)
    @pytest.mark.parametrize("kind", [list, tuple, np.float32, np.int64])
    def test_kinds_of_input(self, family, kind):
        x = np.array([0.0, 1.0, -2.0, 0.0, 7.0, 0.0, -1.0, 3.0])
        given = kind(x) if kind in (list, tuple) else x.astype(kind)
        result = ebnm(given, 1, family)
        np.testing.assert_array_equal(result.mean, ebnm(x, 1.0, family).mean)

    def test_one_observation(self, family):
        for value in (0.0, 2.0, -30.0):
            result = ebnm([value], 1.0, family)
            assert np.isfinite([result.mean[0], result.sd[0]]).all()
            assert np.isfinite(result.log_likelihood) == result.prior.proper


class TestFittedPrior:
    def test_result_is_what_the_prior_says(self, family, spread):
        x, s, result = fit(family, spread)
        posterior = result.prior.posterior(x, s)
        assert isinstance(posterior, Posterior)
        if family == "spatial" and spread == "varying":
            np.testing.assert_allclose(result.mean, posterior.mean, rtol=0, atol=0.02)
            return  # iterates from the mean that was found, to a tolerance
        np.testing.assert_allclose(result.mean, posterior.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(result.sd, posterior.sd, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(result.lfsr, posterior.lfsr, rtol=0, atol=1e-9)
        np.testing.assert_allclose(
            result.log_likelihood, result.prior.log_likelihood(x, s), rtol=1e-11
        )
        np.testing.assert_allclose(result.prior.shrink(x, s), posterior.mean, rtol=1e-12)

    def test_kept_on_other_data(self, family):
        prior = fit(family)[2].prior
        x, s = example(60, seed=9, spread="varying")
        result = ebnm(3 * x, s, prior)
        assert_priors_equal(result.prior, prior)
        np.testing.assert_allclose(
            result.log_likelihood, prior.log_likelihood(3 * x, s), rtol=1e-12
        )

    def test_dictionary(self, family, spread):
        x, s, result = fit(family, spread)
        prior = result.prior
        text = json.dumps(prior.to_dict())
        back = FittedPrior.from_dict(json.loads(text))
        assert type(back) is type(prior)
        assert_priors_equal(back, prior, rtol=0)
        np.testing.assert_equal(back.log_likelihood(x, s), prior.log_likelihood(x, s))
        np.testing.assert_array_equal(back.posterior(x, s).mean, prior.posterior(x, s).mean)
        assert repr(back) == repr(prior)

    def test_parameters_make_it_again(self, family):
        x, s, result = fit(family)
        prior = result.prior
        made = make_prior(family, **prior.parameters)
        np.testing.assert_equal(made.log_likelihood(x, s), prior.log_likelihood(x, s))

    def test_start_from_itself(self, family):
        x, s, first = fit(family)
        for start in (first, first.prior):
            again = ebnm(x, s, family, start=start)
            if first.prior.proper:
                assert again.log_likelihood >= first.log_likelihood - 1e-6


class TestSamples:
    def test_random_state(self, family):
        _, _, result = fit(family)
        draws = result.sample(5, random_state=3)
        np.testing.assert_array_equal(draws, result.sample(5, random_state=3))
        np.testing.assert_array_equal(draws, result.sample(5, np.random.default_rng(3)))
        old = result.sample(5, random_state=np.random.RandomState(3))
        np.testing.assert_array_equal(old, result.sample(5, random_state=np.random.RandomState(3)))
        assert np.isfinite(result.sample(5)).all()


class TestUnobserved:
    @pytest.mark.parametrize("name", PROPER)
    def test_posterior_is_the_prior(self, name):
        x, s = example(spread="varying")
        s[[3, 40]] = np.inf
        result = ebnm(x, s, name)
        prior = result.prior.posterior([1.0, -5.0], np.inf)
        np.testing.assert_array_equal(result.mean[[3, 40]], prior.mean)
        np.testing.assert_array_equal(result.sd[[3, 40]], prior.sd)
        np.testing.assert_array_equal(result.lfsr[[3, 40]], prior.lfsr)
        assert result.mean[3] == result.mean[40]
        draws = result.sample(6, random_state=0)
        assert np.isfinite(draws).all()

    @pytest.mark.parametrize("name", PROPER)
    def test_changes_nothing_else(self, name, spread):
        x, s, plain = fit(name, spread)
        for value in (0.0, 1e200):
            more = ebnm(np.insert(x, 17, value), np.insert(s, 17, np.inf), name)
            np.testing.assert_array_equal(np.delete(more.mean, 17), plain.mean)
            np.testing.assert_array_equal(np.delete(more.sd, 17), plain.sd)
            np.testing.assert_allclose(np.delete(more.lfsr, 17), plain.lfsr, rtol=1e-12, atol=1e-15)
            assert more.log_likelihood == plain.log_likelihood
            assert_priors_equal(more.prior, plain.prior, rtol=0)

    @pytest.mark.parametrize("name", PROPER)
    def test_likelihood_leaves_it_out(self, name):
        x, s, result = fit(name)
        prior = result.prior
        value = prior.log_likelihood(np.append(x, 9.0), np.append(s, np.inf))
        np.testing.assert_allclose(value, prior.log_likelihood(x, s), rtol=1e-14)


class TestInvariance:
    def test_equal_noise_given_as_vector(self, family):
        x, _, vector = fit(family)
        scalar = ebnm(x, 0.8, family)
        np.testing.assert_array_equal(scalar.mean, vector.mean)
        np.testing.assert_array_equal(scalar.sd, vector.sd)
        np.testing.assert_array_equal(scalar.lfsr, vector.lfsr)
        np.testing.assert_equal(scalar.log_likelihood, vector.log_likelihood)

    def test_nearly_equal_noise(self, family):
        # the general code, with noise that is equal for all practical purposes
        x, s = example(LENGTHS.get(family, 120))
        s[5] = np.nextafter(s[5], 1.0)
        scalar, vector = fit(family)[2], ebnm(x, s, family)
        np.testing.assert_allclose(scalar.log_likelihood, vector.log_likelihood, rtol=0, atol=1e-6)
        np.testing.assert_allclose(scalar.mean, vector.mean, rtol=0, atol=2e-5)

    @pytest.mark.parametrize("family", EXCHANGEABLE)
    def test_order_of_entries(self, family, spread):
        x, s, plain = fit(family, spread)
        order = np.random.default_rng(3).permutation(x.size)
        mixed = ebnm(x[order], s[order], family)
        np.testing.assert_allclose(mixed.log_likelihood, plain.log_likelihood, rtol=0, atol=1e-6)
        np.testing.assert_allclose(mixed.mean, plain.mean[order], rtol=0, atol=2e-5)
        np.testing.assert_allclose(mixed.sd, plain.sd[order], rtol=0, atol=2e-5)
        np.testing.assert_allclose(mixed.lfsr, plain.lfsr[order], rtol=0, atol=2e-5)

    @pytest.mark.parametrize(
        ("spread", "unit"),
        [("common", 1e-100), ("common", 7e30), ("varying", 3e-7), ("varying", 1e100)],
    )
    def test_units(self, family, spread, unit):
        x, s, plain = fit(family, spread)
        scaled = ebnm(unit * x, unit * s, family)
        np.testing.assert_allclose(scaled.mean / unit, plain.mean, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(scaled.sd / unit, plain.sd, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(scaled.lfsr, plain.lfsr, rtol=0, atol=1e-8)
        if family != "flat":
            expected = plain.log_likelihood - x.size * np.log(unit)
            np.testing.assert_allclose(scaled.log_likelihood, expected, rtol=1e-8)

    @pytest.mark.parametrize("name", [name for name in PRIORS if PRIORS[name].side == 0])
    def test_sign(self, name, spread):
        x, s, plain = fit(name, spread)
        mirrored = ebnm(-x, s, name)
        np.testing.assert_allclose(mirrored.log_likelihood, plain.log_likelihood, rtol=0, atol=1e-6)
        np.testing.assert_allclose(mirrored.mean, -plain.mean, rtol=0, atol=2e-5)
        np.testing.assert_allclose(mirrored.sd, plain.sd, rtol=0, atol=2e-5)

    @pytest.mark.parametrize("name", [name for name in PRIORS if PRIORS[name].side != 0])
    def test_one_sided_priors_stay_on_their_side(self, name):
        _, _, result = fit(name)
        assert (PRIORS[name].side * result.mean >= 0).all()
        with pytest.raises(ValueError, match="one-sided"):
            result.prior.mirrored()

    def test_nonpositive_mirrors_nonnegative(self, spread):
        x, s = example(spread=spread)
        up, down = ebnm(x, s, "unimodal_nonnegative"), ebnm(-x, s, "unimodal_nonpositive")
        np.testing.assert_allclose(down.log_likelihood, up.log_likelihood, rtol=1e-10)
        np.testing.assert_allclose(down.mean, -up.mean, rtol=0, atol=2e-5)


class TestMode:
    @pytest.mark.parametrize(("place", "spread"), [(2.5, "common"), (-1e3, "varying")])
    @pytest.mark.parametrize("name", CENTRED)
    def test_moving_the_data_moves_the_answer(self, name, place, spread):
        x, s, plain = fit(name, spread)
        moved = ebnm(x + place, s, name, mode=place)
        np.testing.assert_allclose(moved.log_likelihood, plain.log_likelihood, rtol=0, atol=1e-6)
        np.testing.assert_allclose(moved.mean - place, plain.mean, rtol=0, atol=2e-5)
        np.testing.assert_allclose(moved.sd, plain.sd, rtol=0, atol=2e-5)
        np.testing.assert_allclose(moved.prior.parameters["mode"], place, rtol=1e-12)
        np.testing.assert_allclose(
            moved.prior.log_likelihood(x + place, s), plain.log_likelihood, rtol=0, atol=1e-6
        )

    @pytest.mark.parametrize("mode", [1.0, "estimate"])
    @pytest.mark.parametrize("name", UNCENTRED)
    def test_families_without_one(self, name, mode):
        with pytest.raises(ValueError, match=f"{name!r} has no mode"):
            ebnm([1.0, 2.0], 1.0, name, mode=mode)
        assert ebnm([1.0, 2.0], 1.0, name, mode=0).prior.family == name


class TestOptions:
    def test_unknown(self, family):
        with pytest.raises(ValueError, match=f"{family!r} has no option 'colour'"):
            make_family(family, colour="red")

    @pytest.mark.parametrize("name", CONVEX)
    def test_grid(self, name):
        x, s, free = fit(name)
        grid = [0.5, 2.0, 4.0]
        result = ebnm(x, s, make_family(name, grid=grid))
        found = result.prior.parameters
        ends = [
            np.abs(found[key]) for key in ("locations", "scales", "lower", "upper") if key in found
        ]
        places = np.concatenate(ends)[:, None]
        assert np.isclose(places, [0.0, *grid], rtol=1e-12, atol=0).any(axis=1).all()
        assert result.prior.family == name
        assert result.log_likelihood <= free.log_likelihood + 1e-6

    def test_deconvolver(self):
        x, s = example()
        smooth = ebnm(x, s, make_family("deconvolver", c0=100.0))
        rough = ebnm(x, s, make_family("deconvolver", c0=0.01))
        assert rough.log_likelihood > smooth.log_likelihood
        few = ebnm(x, s, make_family("deconvolver", c0=0.01, degrees_of_freedom=2))
        assert few.log_likelihood < rough.log_likelihood
        grid = np.linspace(-12, 12, 49)
        given = ebnm(x, s, make_family("deconvolver", grid=grid))
        np.testing.assert_allclose(given.prior.parameters["locations"], grid, rtol=1e-12)

    def test_generalized_binary(self):
        x = np.concatenate([np.zeros(50), np.full(20, 6.0)])
        x = x + np.random.default_rng(0).normal(size=70)
        for spread in (0.01, 0.5):
            result = ebnm(x, 1.0, make_family("generalized_binary", spread=spread))
            assert result.prior.parameters["spread"] == spread
            assert abs(result.prior.parameters["mean"] - 6.0) < 1.5

    @pytest.mark.parametrize(
        ("name", "options", "message"),
        [
            ("generalized_binary", {"spread": 0.0}, "spread must be a number from 1e-4"),
            ("generalized_binary", {"spread": np.inf}, "spread must be a number from 1e-4"),
            (
                "deconvolver",
                {"degrees_of_freedom": 0},
                "degrees_of_freedom must be an integer from 1",
            ),
            ("deconvolver", {"c0": -1.0}, "c0 must be a number from 0"),
            ("normal_scale_mixture", {"grid": [1.0, 0.0]}, "grid must hold positive .* position 1"),
            ("unimodal", {"grid": [-1.0]}, "grid must hold positive .* position 0"),
            ("npmle", {"grid": []}, "grid is empty"),
            ("npmle", {"grid": [0.0, np.nan]}, "grid has NaN.* position 1"),
            ("unimodal_symmetric", {"grid": [[1.0, 2.0]]}, "grid must be one-dimensional"),
        ],
    )
    def test_bad_values(self, name, options, message):
        with pytest.raises(ValueError, match=message):
            make_family(name, **options)
