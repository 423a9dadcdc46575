"""What a result of `ebnm` says about every entry, against quadrature, draws and definitions."""

import sys

import numpy as np
import pytest
from families import ebnm
from scipy import integrate, stats

from ebcd import plots
from ebcd.priors import PRIORS, make_prior

RNG = np.random.default_rng(0)
X = np.r_[np.zeros(60), RNG.exponential(4.0, size=40)] + RNG.normal(size=100)
S = np.linspace(0.5, 2.0, X.size)
PROPER = [name for name in PRIORS if name != "flat"]


def with_unseen(prior):
    """A result in which the last two entries were not observed."""
    return ebnm(np.append(X, [3.0, 0.0]), np.append(S, [np.inf, np.inf]), prior)


class TestFalseDiscoveryRate:
    @pytest.mark.parametrize("mode", [0.0, 1.5])
    def test_against_quadrature(self, mode):
        prior = make_prior("point_laplace", weight=0.3, scale=2.0, mode=mode)

        def slab(x, s):
            def joint(theta):
                height = np.exp(-abs(theta - mode) / 2.0 - 0.5 * ((x - theta) / s) ** 2)
                return height / (4.0 * s * np.sqrt(2 * np.pi))

            return integrate.quad(joint, x - 12 * s, x + 12 * s, points=[mode, x], epsabs=0)[0]

        spikes = 0.7 * stats.norm.pdf(X, mode, S)
        slabs = 0.3 * np.array([slab(x, s) for x, s in zip(X, S, strict=True)])
        found = ebnm(X, S, prior).lfdr
        np.testing.assert_allclose(found, spikes / (spikes + slabs), rtol=1e-6)

    @pytest.mark.parametrize("family", PRIORS)
    def test_is_how_often_draws_are_the_mode(self, family):
        result = ebnm(X, S, family)
        mode = result.prior.parameters.get("mode", 0.0)
        share = (result.sample(4_000, random_state=1) == mode).mean(axis=0)
        assert np.abs(share - result.lfdr).max() <= 5 * 0.5 / np.sqrt(4_000)
        assert (result.lfdr <= result.lfsr + 1e-9).all()

    @pytest.mark.parametrize("family", ["normal", "laplace", "horseshoe", "flat"])
    def test_is_zero_without_a_spike(self, family):
        assert not ebnm(X, S, family).lfdr.any()

    def test_no_slab(self):
        assert (ebnm(np.full(5, 0.1), 1.0, "normal").lfdr == 1).all()

    def test_units_and_unseen_entries(self):
        result = with_unseen(make_prior("point_normal", weight=0.2, scale=3.0))
        np.testing.assert_allclose(result.lfdr[-2:], 0.8, rtol=1e-15)
        tiny = make_prior("point_normal", weight=0.2, scale=3e-200)
        np.testing.assert_allclose(ebnm(1e-200 * X, 1e-200 * S, tiny).lfdr, result.lfdr[:-2])


def test_svalue_is_a_mean_of_sign_rates():
    x = np.append(X, X[:10])  # ties
    result = ebnm(x, 1.0)
    expected = [result.lfsr[result.lfsr <= rate].mean() for rate in result.lfsr]
    np.testing.assert_allclose(result.svalue, expected, rtol=1e-12)


class TestIntervals:
    def test_against_quantiles_in_closed_form(self):
        result = ebnm(X, S, make_prior("normal", scale=2.0, mode=1.0))
        variance = 1 / (1 / S**2 + 1 / 4)
        centre = variance * (X / S**2 + 1 / 4)
        expected = stats.norm.interval(0.8, centre, np.sqrt(variance))
        np.testing.assert_allclose(result.intervals(0.8), expected, rtol=1e-7)

    @pytest.mark.parametrize("family", [f for f in PROPER if PRIORS[f].exchangeable])
    def test_unseen_entries_have_quantiles_of_the_prior(self, family):
        result = with_unseen(family)
        ends = result.intervals(0.5)
        np.testing.assert_array_equal(ends[:, -1], ends[:, -2])
        draws, slack = result.prior.sample(40_000, random_state=0), 1e-9 * np.abs(ends[:, -1])
        for end, level, room in zip(ends[:, -1], (0.25, 0.75), slack, strict=True):
            assert (draws <= end + room).mean() >= level - 0.011
            assert (draws < end - room).mean() <= level + 0.011
        np.testing.assert_array_equal(ends[:, :-2], ebnm(X, S, result.prior).intervals(0.5))

    @pytest.mark.parametrize("unit", [1e-100, 1.0, 1e100])
    def test_quantiles_of_the_prior_in_closed_form(self, unit):
        prior = make_prior("laplace", scale=2 * unit, mode=50 * unit)
        result = ebnm([unit, 0.0], [unit, np.inf], prior)
        expected = stats.laplace.interval(0.9, 50, 2)
        np.testing.assert_allclose(result.intervals(0.9)[:, 1] / unit, expected, rtol=1e-12)

    def test_default_and_wrong_levels(self):
        result = ebnm(X)
        assert result.intervals().shape == (2, X.size)
        np.testing.assert_array_equal(result.intervals(), result.intervals(0.95))
        with pytest.raises(ValueError, match="level must"):
            result.intervals(95)


class TestPlots:
    @pytest.fixture(autouse=True)
    def _pictures(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        yield
        plt.close("all")

    def test_means_and_intervals_are_drawn(self):
        from matplotlib import pyplot as plt

        result = with_unseen("point_laplace")
        _, ax = plt.subplots()
        assert result.plot(ax) is ax
        np.testing.assert_array_equal(ax.lines[-1].get_data(), [X, result.mean[:-2]])
        segments = np.array(ax.collections[0].get_segments())
        np.testing.assert_allclose(segments[:, :, 0].T, [X, X])
        np.testing.assert_allclose(segments[:, :, 1].T, result.intervals()[:, :-2])

    def test_without_matplotlib(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(ImportError, match=r'need matplotlib: pip install "ebcd\[plots\]"'):
            ebnm(X).plot()

    @pytest.mark.parametrize("s", [0.7, S], ids=["scalar", "vector"])
    def test_shrinkage_passes_through_the_means(self, s):
        result = ebnm(50 + X, s, "point_laplace", mode=50.0)
        ax = plots.shrinkage(result)
        x, y = ax.lines[1].get_data()
        np.testing.assert_allclose(y, result.prior.shrink(x, np.median(s)), rtol=1e-12)
        assert x[0] < result.mean.min()
        assert x[-1] > (50 + X).max()
        if np.ndim(s) == 0:
            on_curve = np.interp(50 + X, x, y)
            np.testing.assert_allclose(on_curve, result.mean, atol=1e-3)
        assert ax.get_xlabel() == "observation"

    def test_shrinkage_of_unseen_entries_and_components(self):
        assert len(plots.shrinkage(with_unseen("normal")).lines) == 2
        with pytest.raises(ValueError, match="leave components out"):
            plots.shrinkage(ebnm(X), components=[0])
