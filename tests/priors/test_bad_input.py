"""Bad input: the message names the argument, where it is wrong, and what to do."""

import re

import numpy as np
import pytest
from families import ebnm

from ebcd.priors import PRIORS, FittedPrior, make_family, make_prior

X = np.array([0.3, -1.2, 4.0, 0.1, 2.5])
FAMILIES = list(PRIORS)
# One of each way to fit; input is converted before any of them sees it.
EXAMPLES = ["point_laplace", "spatial", "gmrf"]


def changed(array, position, value):
    array = np.array(array, dtype=float)
    array[position] = value
    return array


class TestObservations:
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("family", EXAMPLES)
    def test_not_finite(self, family, value):
        x = changed(X, [2, 4], value)
        message = (
            "x has NaN, masked or infinite entries (2 of 5, the first at position 2); leave those"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            ebnm(x, 1.0, family)
        with pytest.raises(ValueError, match="s = inf to mark them as not observed"):
            ebnm(x, 1.0, family)

    @pytest.mark.parametrize("dtype", [float, int])
    def test_masked(self, dtype):
        x = np.ma.array([5, 0, -1, 0, 50], dtype=dtype, mask=[0, 0, 0, 0, 1])
        with pytest.raises(ValueError, match=r"masked .* entries \(1 of 5, .* position 4\)"):
            ebnm(x)
        with pytest.raises(ValueError, match="s must be positive; not so in 1 of 5"):
            ebnm(X, np.ma.array(np.ones(5), mask=[0, 0, 0, 0, 1]))
        assert ebnm(x[:4]).mean.shape == (4,)

    def test_not_observed_needs_a_finite_value(self):
        with pytest.raises(ValueError, match=r"x has NaN.* position 1"):
            ebnm(changed(X, 1, np.nan), changed(np.ones(5), 1, np.inf))

    @pytest.mark.parametrize("empty", [[], np.empty(0), ()])
    def test_empty(self, empty):
        with pytest.raises(ValueError, match="x is empty; at least one observation is needed"):
            ebnm(empty, 1.0)
        with pytest.raises(ValueError, match="x is empty"):
            ebnm(empty, [])

    @pytest.mark.parametrize("x", [X[None], X[:, None], np.ones((2, 2, 2)), np.array(3.0), 3.0])
    def test_dimensions(self, x):
        shape = re.escape(str(np.shape(x)))
        with pytest.raises(ValueError, match=rf"x must be one-dimensional, got shape {shape}"):
            ebnm(x)
        with pytest.raises(ValueError, match=r"pass x\.ravel\(\)"):
            ebnm(x)

    @pytest.mark.parametrize(
        ("x", "found"),
        [
            (np.array([1.0, None, 2.0], dtype=object), "objects"),
            ([1.0, None], "objects"),
            (np.array([1, "a"], dtype=object), "objects"),
            (np.array([1j, 2.0]), "complex numbers"),
            (np.array([True, False]), "booleans"),
            (np.array(["1.0", "2.0"]), "strings"),
            (["a", "b"], "strings"),
            (np.array([b"1"]), r"dtype \|S1"),
            (np.array(["2020-01-01"], dtype="datetime64[D]"), r"dtype datetime64\[D\]"),
        ],
    )
    def test_kind_of_numbers(self, x, found):
        message = f"x must hold real numbers, got {found}; convert it to float first"
        with pytest.raises(TypeError, match=message):
            ebnm(x)

    def test_ragged(self):
        with pytest.raises((TypeError, ValueError)):
            ebnm([[1.0, 2.0], [3.0]])

    def test_beyond_what_can_be_squared(self):
        message = r"\|x\| / s exceeds 1e\+70 in 1 of 5, the first at position 3; check the units"
        for value in (1e71, -1e71):
            with pytest.raises(ValueError, match=message):
                ebnm(changed(X, 3, value), 1.0)
        with pytest.raises(ValueError, match=message):
            ebnm(X, changed(np.ones(5), 3, 1e-300))
        with pytest.raises(ValueError, match="check the units of both"):
            ebnm(X, 1e-200)


class TestNoise:
    @pytest.mark.parametrize(
        ("value", "shown", "advice"),
        [
            (0.0, "0", "with s = 0 the value is known exactly"),
            (-1.0, "-1", "s holds standard deviations"),
            (np.nan, "nan", "s holds standard deviations"),
            (-np.inf, "-inf", "use inf for entries that were not observed"),
        ],
    )
    def test_not_positive(self, value, shown, advice):
        with pytest.raises(ValueError, match=f"s must be positive, got {shown}; .*{advice}"):
            ebnm(X, value)
        message = rf"s must be positive; not so in 2 of 5, the first at position 1 \({shown}\); .*"
        with pytest.raises(ValueError, match=message + advice):
            ebnm(X, changed(np.ones(5), [1, 4], value))

    @pytest.mark.parametrize("s", [np.ones(4), np.ones(6), np.ones((5, 1)), np.ones((1, 5)), []])
    def test_length(self, s):
        shape = re.escape(str(np.shape(s)))
        message = (
            f"s must be one number or have one entry per entry of x: x has 5, s has shape {shape}"
        )
        with pytest.raises(ValueError, match=message):
            ebnm(X, s)

    def test_a_vector_of_one_for_one_observation(self):
        assert ebnm([2.0], [1.0]).mean.shape == (1,)
        with pytest.raises(ValueError, match="x has 5, s has shape"):
            ebnm(X, [1.0])

    @pytest.mark.parametrize(
        ("s", "found"),
        [
            (np.array([1.0, None, 1.0, 1.0, 1.0], dtype=object), "objects"),
            (None, "objects"),
            (1 + 1j, "complex numbers"),
            (True, "booleans"),
            (np.ones(5, dtype=bool), "booleans"),
            ("1.0", "strings"),
            (["a"] * 5, "strings"),
        ],
    )
    def test_kind_of_numbers(self, s, found):
        with pytest.raises(TypeError, match=f"s must hold real numbers, got {found}"):
            ebnm(X, s)

    @pytest.mark.parametrize("s", [np.inf, np.full(5, np.inf)])
    @pytest.mark.parametrize("family", EXAMPLES)
    def test_nothing_observed(self, family, s):
        with pytest.raises(ValueError, match="s is infinite everywhere: nothing was observed"):
            ebnm(X, s, family)

    def test_flat_prior_cannot_fill_in(self):
        s = changed(np.ones(5), 3, np.inf)
        message = "s is infinite at position 3: .* use a proper prior or leave the entry out"
        with pytest.raises(ValueError, match=message):
            ebnm(X, s, "flat")
        flat = ebnm(X, 1.0, "flat").prior
        for call in (flat.posterior, flat.shrink, flat.sample_posterior):
            with pytest.raises(ValueError, match=message):
                call(X, s)
        with pytest.raises(ValueError, match="flat prior is improper and cannot be sampled"):
            flat.sample(3)


class TestPrior:
    @pytest.mark.parametrize(
        ("name", "near"),
        [
            ("point_laplas", "point_laplace"),
            ("pointnormal", "point_normal"),
            ("Horseshoe", "horseshoe"),
            ("unimodal_positive", "unimodal_nonpositive"),
            ("npml", "npmle"),
            ("generalised_binary", "generalized_binary"),
            ("deconvolve", "deconvolver"),
        ],
    )
    def test_unknown_name_suggests_the_nearest(self, name, near):
        for call in (
            lambda: ebnm(X, 1.0, name),
            lambda: make_family(name),
            lambda: make_prior(name),
        ):
            with pytest.raises(ValueError, match=f"unknown prior '{name}'; did you mean '{near}'"):
                call()

    def test_unknown_name_lists_all(self):
        with pytest.raises(ValueError, match="unknown prior 'xyzzy'") as caught:
            ebnm(X, 1.0, "xyzzy")
        assert "did you mean" not in str(caught.value)
        assert all(name in str(caught.value) for name in PRIORS)

    @pytest.mark.parametrize("prior", [None, 3, 0.5, ["point_normal"], {"family": "normal"}, dict])
    def test_type(self, prior):
        kind = type(prior).__name__
        message = rf"prior must be the name of a family, a family from ebcd.priors, .* \({kind}\)"
        with pytest.raises(TypeError, match=message):
            ebnm(X, 1.0, prior)


class TestStart:
    def test_other_family(self):
        start = make_prior("normal", scale=1.0)
        message = "start is a 'normal' prior, but the family to fit is 'point_laplace'; leave start"
        with pytest.raises(ValueError, match=message):
            ebnm(X, 1.0, "point_laplace", start=start)
        with pytest.raises(ValueError, match="give one of the same family"):
            ebnm(X, 1.0, "point_laplace", start=ebnm(X, 1.0, "npmle"))
        with pytest.raises(ValueError, match="'normal' prior, but the family to fit is 'laplace'"):
            ebnm(X, 1.0, make_prior("laplace", scale=1.0), start=start)

    @pytest.mark.parametrize("start", [1.0, "cold", (0.5, 2.0), {"weight": 0.5}, PRIORS["normal"]])
    def test_type(self, start):
        kind = type(start).__name__
        message = rf"start must be a fitted prior, a result of ebnm or None, got .*\({kind}\)"
        with pytest.raises(TypeError, match=message):
            ebnm(X, 1.0, "point_laplace", start=start)

    def test_family_is_not_a_start(self):
        with pytest.raises(TypeError, match="start must be a fitted prior"):
            ebnm(X, 1.0, "normal", start=make_family("normal"))


class TestMode:
    @pytest.mark.parametrize("mode", ["zero", "Estimate", "estimated", "0", ""])
    def test_strings(self, mode):
        message = f'mode must be a finite number or "estimate", got {mode!r}'
        with pytest.raises(ValueError, match=message):
            ebnm(X, mode=mode)

    @pytest.mark.parametrize("mode", [1, np.int64(2), np.float64(0.5), np.float32(0.5), 0])
    def test_numbers(self, mode):
        assert ebnm(X, mode=mode).prior.parameters["mode"] == float(mode)

    @pytest.mark.parametrize("mode", [1.0, "estimate"])
    def test_fitted_prior_has_its_own(self, mode):
        prior = make_prior("normal", scale=1.0)
        with pytest.raises(ValueError, match="mode cannot be changed for a fitted prior"):
            ebnm(X, 1.0, prior, mode=mode)


class TestParameters:
    @pytest.mark.parametrize(
        ("description", "message"),
        [
            ({}, "lacks family, parameters"),
            ({"family": "normal"}, "lacks parameters"),
            ({"family": "norml", "parameters": {}}, "did you mean 'normal'"),
            ({"family": "normal", "parameters": {}}, "needs the parameter 'scale'"),
        ],
    )
    def test_description(self, description, message):
        with pytest.raises(ValueError, match=message):
            FittedPrior.from_dict(description)


class TestUnimodalBounds:
    """Components that the family cannot have."""

    @pytest.mark.parametrize(
        ("family", "lower", "upper", "message"),
        [
            ("unimodal_nonnegative", -1.0, 0.0, "lower = mode"),
            ("unimodal_nonnegative", -1.0, 1.0, "lower = mode"),
            ("unimodal_nonpositive", 0.0, 1.0, "upper = mode"),
            ("unimodal_symmetric", 0.0, 1.0, "mode - lower = upper - mode"),
            ("unimodal", 1.0, 2.0, "must reach the mode"),
            ("unimodal_nonnegative", 1.0, 2.0, "must reach the mode"),
        ],
    )
    @pytest.mark.parametrize("mode", [0.0, 5.0])
    def test_are_refused(self, family, lower, upper, message, mode):
        ends = {"lower": [mode, mode + lower], "upper": [mode, mode + upper]}
        with pytest.raises(ValueError, match=re.escape(message)):
            make_prior(family, weights=[0.5, 0.5], mode=mode, **ends)


class TestFittedPriorArguments:
    """A fitted prior checks its arguments as `ebnm` does."""

    @pytest.mark.parametrize("family", FAMILIES)
    def test_observations(self, family):
        prior = ebnm(X, 1.0, family).prior
        for call in (prior.log_likelihood, prior.posterior, prior.shrink, prior.sample_posterior):
            with pytest.raises(
                ValueError, match=r"x has NaN, masked or infinite entries .* position 2"
            ):
                call(changed(X, 2, np.nan), 1.0)
            with pytest.raises(ValueError, match="s must be positive, got 0"):
                call(X, 0.0)
            with pytest.raises(ValueError, match="x has 5, s has shape"):
                call(X, np.ones(3))
            with pytest.raises(TypeError, match="x must hold real numbers, got strings"):
                call(["a"], 1.0)
            with pytest.raises(ValueError, match="x must be one-dimensional"):
                call(X[None], 1.0)
            with pytest.raises(ValueError, match="x is empty"):
                call([], 1.0)

    @pytest.mark.parametrize("family", [f for f in FAMILIES if PRIORS[f].exchangeable])
    def test_penalty(self, family):
        prior = ebnm(X, 1.0, family).prior
        with pytest.raises(ValueError, match="values has NaN, masked or infinite entries"):
            prior.penalty([0.0, np.nan])
        with pytest.raises(TypeError, match="values must hold real numbers"):
            prior.penalty(["a"])
        with pytest.raises(ValueError, match="s must be positive"):
            prior.penalty([0.0], s=-1.0)
        with pytest.raises(ValueError, match="s must be one "):
            prior.penalty([0.0], s=[1.0, 2.0])
        with pytest.raises(ValueError, match="s must be one finite number"):
            prior.penalty([0.0], s=np.inf)


@pytest.mark.parametrize("family", [name for name in PRIORS if not PRIORS[name].exchangeable])
def test_degenerate_but_legal(family):
    """The other families are in `test_extremes.py`."""
    rng = np.random.default_rng(1)
    s = 10 ** rng.uniform(-6, 6, 60)
    examples = [
        (np.zeros(25), 1.0),
        (np.append(rng.normal(size=50), 1e6), 1.0),
        (changed(X, 3, 1e60), 1.0),
        (np.array([-1e4, 1e4]), 1.0),
        (s * rng.normal(size=60), s),
    ]
    for x, noise in examples:
        result = ebnm(x, noise, family)
        for values in (result.mean, result.sd, result.lfsr, result.log_likelihood):
            assert np.isfinite(values).all()
        if not x.any():
            np.testing.assert_allclose(result.mean, 0.0, atol=1e-6)
