"""Estimated modes against brute force: the best of many fits with the mode fixed."""

import numpy as np
import pytest

from ebcd import ebnm
from ebcd.priors import PRIORS, make_family, make_prior

CENTRED = [name for name in PRIORS if PRIORS[name].has_mode]
GRIDS = [
    "normal_scale_mixture",
    "unimodal",
    "unimodal_symmetric",
    "unimodal_nonnegative",
    "unimodal_nonpositive",
]
PARAMETRIC = [name for name in CENTRED if name not in GRIDS]
SLOW = ["horseshoe", "generalized_binary"]  # a hundredth of a second for every mode
QUICK = [name for name in PARAMETRIC if name not in SLOW]


def example(kind, n=24):
    rng = np.random.default_rng(7)
    theta = {
        "right": lambda: 3.0 + np.where(rng.random(n) < 0.4, rng.exponential(4.0, n), 0.0),
        "left": lambda: -2.0 - np.where(rng.random(n) < 0.4, rng.exponential(4.0, n), 0.0),
        "null": lambda: np.full(n, 0.7),
        "groups": lambda: np.repeat([-6.0, 0.0, 5.0], [n // 4, n // 2, n - n // 4 - n // 2]),
    }[kind]()
    s = rng.uniform(0.5, 1.5, n) if kind == "right" else np.full(n, 1.0)
    return theta + s * rng.normal(size=n), s


def profile(x, s, family, n_places):
    places = np.linspace(x.min() - 1.0, x.max() + 1.0, n_places)
    return max(ebnm(x, s, family, mode=place).log_likelihood for place in places)


class TestBruteForce:
    @pytest.mark.parametrize(
        ("family", "kind"),
        [
            (family, kind)
            for i, family in enumerate(QUICK)
            for kind in (["right", "left"] if i % 2 else ["null", "groups"])
        ],
    )
    def test_parametric(self, family, kind):
        x, s = example(kind)
        found = ebnm(x, s, family, mode="estimate")
        assert found.log_likelihood >= profile(x, s, family, 120) - 1e-6

    @pytest.mark.parametrize("kind", ["right", "groups"])
    @pytest.mark.parametrize("family", SLOW)
    def test_searched(self, family, kind):
        x, s = example(kind)
        found = ebnm(x, s, family, mode="estimate")
        assert found.log_likelihood >= profile(x, s, family, 40) - 1e-6

    @pytest.mark.parametrize("family", GRIDS)
    def test_mixtures(self, family):
        x, s = example("right" if family == "unimodal_nonnegative" else "groups")
        found = ebnm(x, s, family, mode="estimate")
        assert found.log_likelihood >= profile(x, s, family, 40) - 0.01

    @pytest.mark.parametrize("family", CENTRED)
    def test_point_mass_is_always_a_candidate(self, family):
        # a prior without width, at the mean, belongs to every family
        x, s = example("null")
        found = ebnm(x, s, family, mode="estimate")
        without_width = ebnm(x, s, "point_mass", mode="estimate")
        allowed = 1e-6 if family in PARAMETRIC else 0.01
        assert found.log_likelihood >= without_width.log_likelihood - allowed

    @pytest.mark.parametrize("family", PARAMETRIC)
    def test_derivative_vanishes(self, family):
        # moving the prior changes the log-likelihood by the sum of (x - posterior mean) / s^2
        x, s = example("right")
        found = ebnm(x, s, family, mode="estimate")
        slope = np.sum((x - found.mean) / s**2)
        assert abs(slope) <= 1e-3 * np.sqrt(np.sum(s**-2.0))


class TestKnownAnswers:
    def test_point_mass(self):
        x, s = example("right")
        found = ebnm(x, s, "point_mass", mode="estimate")
        np.testing.assert_allclose(
            found.prior.parameters["mode"], np.average(x, weights=s**-2.0), rtol=1e-12
        )

    def test_normal_with_common_noise(self):
        x, s = example("groups")
        found = ebnm(x, s, "normal", mode="estimate").prior.parameters
        np.testing.assert_allclose(found["mode"], x.mean(), rtol=0, atol=1e-6)
        np.testing.assert_allclose(found["scale"] ** 2, x.var() - 1.0, rtol=1e-4)

    @pytest.mark.parametrize("family", CENTRED)
    def test_spike_far_from_zero(self, family):
        if family == "exponential":
            pytest.skip("has no spike: its mode is below the data")
        rng = np.random.default_rng(0)
        x = 1000.0 + np.where(rng.random(60) < 0.2, rng.exponential(9.0, 60), 0.0)
        sign = -1.0 if family == "unimodal_nonpositive" else 1.0
        x = sign * (x + rng.normal(size=60))
        found = ebnm(x, 1.0, family, mode="estimate").prior.parameters["mode"]
        assert abs(found - sign * 1000.0) < 4.0


class TestInvariance:
    @pytest.mark.parametrize("family", QUICK)
    def test_moving_the_data_moves_the_mode(self, family):
        x, s = example("right")
        plain = ebnm(x, s, family, mode="estimate")
        moved = ebnm(x + 64.0, s, family, mode="estimate")
        np.testing.assert_allclose(moved.log_likelihood, plain.log_likelihood, rtol=0, atol=1e-6)
        np.testing.assert_allclose(moved.mean - 64.0, plain.mean, rtol=0, atol=1e-3)

    @pytest.mark.parametrize("family", ["point_laplace", "normal", "point_mass"])
    def test_entries_that_were_not_observed(self, family):
        x, s = example("right")
        plain = ebnm(x, s, family, mode="estimate")
        more = ebnm(np.append(x, 1e6), np.append(s, np.inf), family, mode="estimate")
        assert more.log_likelihood == plain.log_likelihood
        assert more.prior.parameters == plain.prior.parameters


class TestStarts:
    def test_start_with_another_mode(self):
        # the mode of the start is not taken over when the mode is fixed
        x, s = example("right")
        start = make_prior("point_normal", weight=0.3, scale=4.0, mode=-50.0)
        found = ebnm(x, s, "point_normal", mode=3.0, start=start)
        assert found.prior.parameters["mode"] == 3.0
        cold = ebnm(x, s, "point_normal", mode=3.0)
        np.testing.assert_allclose(found.log_likelihood, cold.log_likelihood, rtol=0, atol=1e-6)
        at_zero = ebnm(x, s, "point_normal", start=start)
        assert at_zero.prior.parameters["mode"] == 0.0

    @pytest.mark.parametrize("family", GRIDS)
    def test_mixture_start_with_another_mode(self, family):
        x, s = example("right")
        start = ebnm(x - 50.0, s, family, mode=-47.0).prior
        found = ebnm(x, s, family, start=start)
        assert found.prior.parameters["mode"] == 0.0
        cold = ebnm(x, s, family)
        np.testing.assert_allclose(found.log_likelihood, cold.log_likelihood, rtol=0, atol=0.01)

    def test_options_are_kept(self):
        x, s = example("right")
        family = make_family("generalized_binary", spread=0.3)
        assert ebnm(x, s, family, mode="estimate").prior.parameters["spread"] == 0.3
        family = make_family("normal_scale_mixture", grid=[1.0, 3.0])
        found = ebnm(x, s, family, mode="estimate").prior.parameters
        assert set(np.round(found["scales"], 12)) <= {0.0, 1.0, 3.0}
