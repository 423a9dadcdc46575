"""Search of the scale, sign rates and warm starts of a spike and a slab, against slower ways."""

import itertools

import numpy as np
import pytest

from ebcd import ebnm
from ebcd.priors import _two_group, make_family, make_prior
from ebcd.priors._solve import solve_columns
from ebcd.priors._two_group import peaks

SPIKED = ["point_laplace", "point_normal", "point_exponential"]
TWO_GROUPS = [*SPIKED, "laplace", "normal", "exponential"]


def prior_of(family, weight, scale, **rest):
    return make_prior(
        family, scale=scale, **({"weight": weight} if family in SPIKED else {}), **rest
    )


def test_peaks():
    values = np.array([3.0, 1.0, 2.0, 2.0, 0.0, 5.0])
    assert peaks(values, 2).tolist() == [0, 5]
    assert peaks(values, 3).tolist() == [0, 2, 5]
    assert peaks(np.zeros(6), 2).tolist() == [0]


class TestGlobalMaximum:
    """The likelihood of these data has more than one maximum in the scale."""

    @pytest.mark.parametrize("s", ["scalar", "vector"])
    @pytest.mark.parametrize("family", SPIKED)
    def test_weak_and_strong_entries(self, family, s):
        rng = np.random.default_rng(2)
        theta = np.concatenate([rng.exponential(1.0, (2, 60)), np.zeros((2, 240))], axis=1)
        theta[0, :3], theta[1, :1] = [60.0, 200.0, 300.0], 1e4
        noise = np.array(1.0) if s == "scalar" else rng.uniform(0.7, 1.4, 300)
        x = theta + noise * rng.normal(size=theta.shape)
        fit = solve_columns(x, noise, [make_family(family)] * 2)
        for k, column in enumerate(x):
            tried = max(
                make_prior(family, weight=w, scale=b).log_likelihood(column, noise)
                for w, b in itertools.product(np.geomspace(1e-3, 1, 13), np.geomspace(0.2, 2e4, 30))
            )
            assert fit.log_likelihood[k] >= tried


class TestSignRates:
    @pytest.mark.parametrize("n", [200, 20_000])
    @pytest.mark.parametrize(
        ("weight", "scale"), [(0.1, 3.0), (1e-9, 20.0), (1.0, 0.5), (0.5, 1e-3), (0.3, 1e3)]
    )
    @pytest.mark.parametrize("family", TWO_GROUPS)
    def test_equal_those_of_the_mixture(self, family, weight, scale, n):
        rng = np.random.default_rng(1)
        s = np.exp(0.5 * rng.normal(size=n))
        x = 5 * s * rng.normal(size=n)
        x[:50] = s[:50] * np.linspace(-100, 100, 50)
        x[50:53] = [0.0, 1e3, -1e3]  # farther out the logarithms of the mixture cancel
        prior = prior_of(family, weight, scale)
        found, expected = ebnm(x, s, prior).lfsr, prior.posterior(x, s).lfsr
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-280)


class TestManyEntriesWithTheirOwnNoise:
    """Most of the way is gone on merged entries, which must not show in the result."""

    @pytest.mark.parametrize("decades", [0.3, 6.0])
    @pytest.mark.parametrize("family", ["point_laplace", "point_exponential", "normal"])
    def test_warm_equals_cold_and_gradient_vanishes(self, family, decades):
        rng = np.random.default_rng(4)
        s = 10 ** rng.uniform(-decades / 2, decades / 2, 7000)
        theta = np.where(rng.random((2, s.size)) < 0.2, rng.exponential(3.0, (2, s.size)), 0.0)
        x = theta + s * rng.normal(size=theta.shape)
        cold = solve_columns(x, s, [make_family(family)] * 2)
        far = [prior_of(family, 0.9, 30.0), prior_of(family, 0.02, 0.3)]
        warm = solve_columns(x, s, [make_family(family)] * 2, far)
        np.testing.assert_allclose(warm.log_likelihood, cold.log_likelihood, rtol=0, atol=1e-6)
        for k, prior in enumerate(cold.priors):
            found = prior.parameters
            for factor, length in itertools.product((0.999, 1.001), repeat=2):
                near = prior_of(
                    family, min(factor * found.get("weight", 1.0), 1.0), length * found["scale"]
                )
                assert near.log_likelihood(x[k], s) <= prior.log_likelihood(x[k], s) + 1e-7


def test_weights_of_nothing_fall_to_zero_at_once(monkeypatch):
    rng = np.random.default_rng(0)
    s = rng.uniform(0.5, 2.0, size=2000)
    evaluate, calls = _two_group.evaluate_two_groups, []

    def counted(*args, **options):
        calls.append(args)
        return evaluate(*args, **options)

    monkeypatch.setattr(_two_group, "evaluate_two_groups", counted)
    prior = ebnm(s * rng.normal(size=2000), s).prior
    assert prior.parameters["weight"] < 1e-6
    assert len(calls) < 8  # 15 if each step divides them by e


class TestNoiseLevelsFarApart:
    @pytest.mark.parametrize("family", ["laplace", "point_laplace"])
    def test_precise_entries_beside_imprecise_ones(self, family):
        """An entry with much noise makes the slab narrow beside it, not beside all others."""
        rng = np.random.default_rng(0)
        s = np.concatenate([[1e3], 10 ** rng.uniform(-9, -5, size=60)])
        x = rng.laplace(size=s.size) + s * rng.normal(size=s.size)
        fit = ebnm(x, s, family)
        exact = fit.prior.posterior(x, s)
        np.testing.assert_allclose(fit.sd, exact.sd, rtol=1e-6)
        np.testing.assert_allclose(fit.mean, exact.mean, rtol=1e-9)

    @pytest.mark.parametrize("family", SPIKED)
    def test_slab_narrower_than_all_noise_is_found(self, family):
        missed = []
        for seed in range(60):
            rng = np.random.default_rng(seed)
            s = np.exp(3 * rng.normal(size=20))
            x = s * rng.normal(size=20) * 1.05
            found = ebnm(x, s, family).log_likelihood
            narrow = (
                prior_of(family, 1.0, share * s.min()).log_likelihood(x, s)
                for share in (0.15, 0.3, 0.6)
            )
            missed.append(max(narrow) - found)
        assert max(missed) < 1e-6
