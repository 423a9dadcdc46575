"""`ebnm` against fits of R ebnm 1.1-42; formulas and quadrature decide where R is wrong."""

import gzip
import itertools
import json
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
import pytest
from brute_force import CONVEX
from closed_forms import posterior as posterior_in_closed_form
from scipy import special, stats

from ebcd import ebnm
from ebcd.priors import PRIORS, make_family, make_prior

REFERENCE = json.loads(
    gzip.decompress((Path(__file__).parent / "ebnm" / "fits.json.gz").read_bytes())
)
DATA = list(REFERENCE["data"])
FITS = {f"{fit['family']}-{fit['data']}-{fit['mode']}": fit for fit in REFERENCE["fits"]}

TWO_GROUPS = ["point_normal", "point_laplace", "point_exponential"]
ONE_SCALE = ["normal", "laplace", "exponential", "horseshoe"]
PARAMETRIC = [*TWO_GROUPS, *ONE_SCALE, "generalized_binary", "point_mass"]
# R describes wide data by normals about a grid here, which are not in the family
NOT_IN_FAMILY = {"npmle-strong_n500-0"}
# estimating the mode of these takes seconds: two of R's three data sets each
SLOW_MODE = {
    "unimodal-hetero_n1000-estimate",
    "unimodal_symmetric-hetero_n1000-estimate",
    "unimodal_nonnegative-hetero_n1000-estimate",
    "unimodal_nonpositive-sparse_n500-estimate",
}


def data(name):
    stored = REFERENCE["data"][name]
    return np.array(stored["x"]), np.array(stored["s"], dtype=float)


def data_of(fit):
    x, s = data(fit["data"])
    return (-x, s) if fit.get("x_negated") else (x, s)


@cache
def cold(family, name, mode=0.0, sign=1.0):
    x, s = data(name)
    return ebnm(sign * x, s, family, mode=mode)


class TestStoredFits:
    def test_every_family_and_data_set(self):
        found = {(fit["family"], fit["data"]) for fit in REFERENCE["fits"]}
        failed_in_r = {
            ("deconvolver", "hetero_n1000"),
            ("deconvolver", "ebcdlike_n500"),
            ("horseshoe", "hetero_n1000"),
            ("horseshoe", "null_n500"),
        }
        families = {f for f in PRIORS if PRIORS[f].exchangeable} - {"flat", "exponential"}
        assert found | failed_in_r == {(family, name) for family in families for name in DATA}


# ---- the prior that R fitted, as ours


def prior_of(fit):
    """The prior that R fitted."""
    family, g = fit["family"], fit["prior"]
    if family == "horseshoe":
        return make_prior(family, scale=g["scale"])
    weights = np.array(g["pi"]) / np.sum(g["pi"])
    if family == "normal":
        return make_prior(family, scale=g["sd"][0], mode=g["mean"][0])
    if family == "point_mass":
        return make_prior(family, mode=g["mean"][0])
    if family == "normal_scale_mixture":
        return make_prior(family, weights=weights, scales=g["sd"], mode=g["mean"][0])
    if family in ("npmle", "deconvolver"):
        return make_prior(family, weights=weights, locations=g["mean"])
    if family.startswith("unimodal"):
        return make_prior(family, weights=weights, lower=g["a"], upper=g["b"], mode=mode_of(g))
    slab = int(np.argmax(g["sd" if "sd" in g else "scale"]))
    weight = weights[slab] if len(weights) == 2 else 1.0
    if family == "generalized_binary":
        return make_prior(family, weight=weight, mean=g["mean"][slab], spread=0.1)
    if family == "point_normal":
        scale, mode = g["sd"][slab], g["mean"][0]
    elif family == "point_exponential":
        scale, mode = g["scale"][slab], g["shift"][0]
    else:  # R's Laplace family has a spike
        family, scale, mode = "point_laplace", g["scale"][slab], g["mean"][0]
    return make_prior(family, weight=weight if scale > 0 else 0.0, scale=scale, mode=mode)


def mode_of(g):
    """The point that all uniform components end at, or are centred on."""
    lower, upper = np.array(g["a"]), np.array(g["b"])
    places = [lower[0], upper[0], 0.5 * (lower[0] + upper[0])]

    def misfit(m):
        ends = np.minimum(np.abs(lower - m), np.abs(upper - m))
        return min(ends.max(), np.abs(0.5 * (lower + upper) - m).max())

    return min(places, key=misfit)


def log_component(family, x, s, low, high):
    """Log marginal of normals of scale `high`, atoms at `high`, or uniforms on [low, high]."""
    x, s = x[:, None], np.broadcast_to(s, x.shape)[:, None]
    if family == "normal_scale_mixture":
        return stats.norm.logpdf(x, 0.0, np.sqrt(s**2 + high**2))
    if family == "npmle":
        return stats.norm.logpdf(x, high, s)
    a, b = (low - x) / s, (high - x) / s
    a, b = np.where(a > 0, -b, a), np.where(a > 0, -a, b)  # to the tail that keeps its digits
    upper, lower = special.log_ndtr(b), special.log_ndtr(a)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = upper + np.log(-np.expm1(lower - upper)) - np.log(high - low)
    return np.where(high - low > 1e-7 * s, inside, stats.norm.logpdf(x, 0.5 * (low + high), s))


def mixture(family, x, s, weights, low, high):
    """Log marginal of every entry under a mixture of such components."""
    with np.errstate(divide="ignore"):
        return special.logsumexp(log_component(family, x, s, low, high) + np.log(weights), axis=1)


def horseshoe(x, s, scale):
    """Log marginal, posterior mean and sd of every entry, by a fine rule in the log of lambda."""
    u = np.arange(-40.0, 50.0, 0.1)
    width, noise = (scale * np.exp(u)) ** 2, np.broadcast_to(s, x.shape)[:, None] ** 2
    share, rest = width / (width + noise), noise / (width + noise)
    log_weight = np.log(0.2 / np.pi) - np.logaddexp(u, -u)
    joint = log_weight - 0.5 * (x[:, None] ** 2 * rest / noise + np.log(2 * np.pi * noise / rest))
    posterior = special.softmax(joint, axis=1)
    mean = x * (posterior * share).sum(axis=1)
    second = (posterior * (share * noise + (share * x[:, None]) ** 2)).sum(axis=1)
    return special.logsumexp(joint, axis=1), mean, np.sqrt(second - mean**2)


def horseshoe_scan(x, s, scales):
    """Log-likelihood at several scales: only the weights of log(scale lambda) depend on them."""
    v = np.arange(-40.0, 25.0, 0.1)
    total = np.exp(2 * v) + np.broadcast_to(s, x.shape)[:, None] ** 2
    log_density = -0.5 * (x[:, None] ** 2 / total + np.log(2 * np.pi * total))
    top = log_density.max(axis=1, keepdims=True)
    weights = (0.1 / np.pi) / np.cosh(v[:, None] - np.log(scales))
    return (np.log(np.exp(log_density - top) @ weights) + top).sum(axis=0)


def test_quadrature_is_right_about_the_horseshoe():
    for x in (0.0, 30.0, 800.0):
        value = mpmath.quad(
            lambda u, x=x: (
                mpmath.npdf(x, 0, mpmath.sqrt(1 + 0.09 * mpmath.exp(2 * u)))
                / (mpmath.pi * mpmath.cosh(u))
            ),
            list(range(-40, 60, 4)),
        )
        log_marginal, _, _ = horseshoe(np.array([x]), 1.0, 0.3)
        np.testing.assert_allclose(log_marginal[0], float(mpmath.log(value)), rtol=1e-11)


class TestPriorOfR:
    """With the prior fixed at R's, everything else follows without a choice."""

    @pytest.mark.parametrize("name", [key for key in FITS if key not in NOT_IN_FAMILY])
    def test_log_likelihood(self, name):
        fit = FITS[name]
        x, s = data_of(fit)
        ours = prior_of(fit).log_likelihood(x, s)
        if fit["family"] == "unimodal_nonpositive":
            g = fit["prior"]
            expected = mixture(
                fit["family"], x, s, g["pi"], np.array(g["a"]), np.array(g["b"])
            ).sum()
        elif fit["family"] == "horseshoe":
            expected = horseshoe(x, s, fit["prior"]["scale"])[0].sum()
            if fit["log_likelihood"] is not None:
                np.testing.assert_allclose(expected, fit["log_likelihood"], rtol=1e-6)
        else:
            expected = fit["log_likelihood"]
        np.testing.assert_allclose(ours, expected, rtol=1e-8)

    @pytest.mark.parametrize("name", [key for key in FITS if key not in NOT_IN_FAMILY])
    def test_posterior(self, name):
        fit = FITS[name]
        x, s = data_of(fit)
        prior = prior_of(fit)
        posterior = prior.posterior(x, s)
        far = np.abs(x) / s > 100  # R's standard deviations lose their digits there
        if fit["family"] == "horseshoe":
            self.check_horseshoe(fit, posterior, far)
            return
        if fit["family"] == "unimodal_nonpositive":
            far = np.zeros(x.size, dtype=bool)
            far[np.argsort(x)[:: max(1, x.size // 100)]] = True
        ours = {"mean": posterior.mean / s, "sd": posterior.sd / s, "lfsr": posterior.lfsr}
        for what in ours.keys() & fit.keys():
            expected = np.array(fit[what], dtype=float)
            np.testing.assert_allclose(ours[what][~far], expected[~far], rtol=0, atol=1e-6)
        for i in np.flatnonzero(far):
            noise = float(s if s.ndim == 0 else s[i])
            log_marginal, mean, sd, lfsr = posterior_in_closed_form(
                fit["family"], prior.parameters, x[i], noise, digits=40
            )
            ours = prior.log_likelihood(x[i : i + 1], noise)
            np.testing.assert_allclose(ours, log_marginal, rtol=1e-8)
            assert abs(posterior.mean[i] - mean) <= 1e-6 * noise
            assert abs(posterior.sd[i] - sd) <= 1e-6 * noise
            assert abs(posterior.lfsr[i] - lfsr) <= 1e-6

    def check_horseshoe(self, fit, posterior, far):
        x, s = data(fit["data"])
        _, mean, sd = horseshoe(x, s, fit["prior"]["scale"])
        np.testing.assert_allclose(posterior.mean / s, mean / s, rtol=0, atol=1e-6)
        np.testing.assert_allclose(posterior.sd / s, sd / s, rtol=0, atol=1e-6)
        if fit["log_likelihood"] is not None:  # else R's integral failed
            for ours, r in ((posterior.mean, fit["mean"]), (posterior.sd, fit["sd"])):
                np.testing.assert_allclose(ours[~far] / s, np.array(r)[~far], rtol=0, atol=1e-4)

    @pytest.mark.parametrize(
        "name", [key for key, fit in FITS.items() if fit["family"] in ("npmle", "deconvolver")]
    )
    def test_sign_rates_of_atoms(self, name):
        if name in NOT_IN_FAMILY:
            pytest.skip("R's fit is not a mixture of atoms")
        fit = FITS[name]
        x, s = data(fit["data"])
        atoms = np.array(fit["prior"]["mean"])
        log_prior = np.log(np.array(fit["prior"]["pi"]) / np.sum(fit["prior"]["pi"]))
        log_joint = log_prior - 0.5 * ((x[:, None] - atoms) / s[..., None]) ** 2
        share = special.softmax(log_joint, axis=1)
        below, above = share[:, atoms <= 0].sum(axis=1), share[:, atoms >= 0].sum(axis=1)
        ours = prior_of(fit).posterior(x, s).lfsr
        np.testing.assert_allclose(ours, np.minimum(below, above), rtol=0, atol=1e-10)

    @pytest.mark.parametrize("name", DATA)
    def test_flat(self, name):
        x, s = data(name)
        result = ebnm(x, s, "flat")
        np.testing.assert_allclose(result.mean, x, rtol=1e-14)
        np.testing.assert_allclose(result.sd, np.broadcast_to(s, x.shape), rtol=1e-14)
        np.testing.assert_allclose(result.lfsr, stats.norm.sf(np.abs(x) / s), rtol=1e-12)
        assert np.isnan(result.log_likelihood)


class TestOwnFit:
    @pytest.mark.parametrize("name", [key for key in FITS if key not in SLOW_MODE])
    def test_log_likelihood_reaches_r(self, name):
        fit = FITS[name]
        x, s = data_of(fit)
        sign = -1.0 if fit.get("x_negated") else 1.0
        ours = cold(fit["family"], fit["data"], fit["mode"], sign).log_likelihood
        best = fit.get("best_log_likelihood", fit["log_likelihood"])
        if fit["family"] == "unimodal_nonpositive":
            best = prior_of(fit).log_likelihood(x, s)
        elif best is None:  # R's horseshoe failed on these data
            best = horseshoe(x, s, fit["prior"]["scale"])[0].sum()
        allowed = 1e-4 if fit["family"] in PARAMETRIC else 0.01
        assert ours >= best - allowed

    @pytest.mark.parametrize("name", DATA)
    def test_horseshoe_against_a_scan(self, name):
        x, s = data(name)
        scan = horseshoe_scan(x, s, np.median(s) * np.geomspace(1e-3, 1e4, 200))
        assert cold("horseshoe", name).log_likelihood >= scan.max() - 1e-4

    @pytest.mark.parametrize("name", DATA)
    def test_exponential_against_a_scan(self, name):
        x, s = data(name)
        scales = np.median(s) * np.geomspace(1e-3, 1e4, 500)
        scan = [stats.exponnorm.logpdf(x, scale / s, 0.0, s).sum() for scale in scales]
        null = stats.norm.logpdf(x, 0.0, s).sum()
        assert cold("exponential", name).log_likelihood >= max(*scan, null) - 1e-4


class TestNesting:
    """A family that contains another one is at least as likely."""

    PAIRS = (
        ("point_normal", "normal"),
        ("point_laplace", "laplace"),
        ("point_exponential", "exponential"),
        ("normal_scale_mixture", "point_normal"),
        ("normal_scale_mixture", "point_laplace"),
        ("normal_scale_mixture", "horseshoe"),
        ("unimodal_symmetric", "normal_scale_mixture"),
        ("unimodal_nonnegative", "point_exponential"),
        ("unimodal", "unimodal_symmetric"),
        ("unimodal", "unimodal_nonnegative"),
        ("unimodal", "unimodal_nonpositive"),
        ("npmle", "unimodal"),
        ("npmle", "generalized_binary"),
        ("npmle", "deconvolver"),
        ("normal", "point_mass"),
    )

    @pytest.mark.parametrize("name", DATA)
    @pytest.mark.parametrize(("larger", "smaller"), PAIRS, ids="-".join)
    def test_larger_family(self, larger, smaller, name):
        allowed = 1e-6 if larger in PARAMETRIC else 0.01  # grids
        gain = cold(larger, name).log_likelihood - cold(smaller, name).log_likelihood
        assert gain >= -allowed


# ---- starts


def boundary_starts(family, s):
    """Priors at and beyond the edges of what can be fitted, in units of the noise."""
    unit = float(np.median(s))
    scales = [0.0, 1e-8, 1e-3, 1.0, 30.0, 1e8]
    if family in TWO_GROUPS:
        weights = [0.0, 1e-12, 1e-4, 1 - 1e-12, 1.0]
        return [
            make_prior(family, weight=w, scale=b * unit)
            for w in weights
            for b in (0.0, 1e-8, 1.0, 1e8)
        ]
    if family in ONE_SCALE:
        return [make_prior(family, scale=b * unit) for b in scales]
    if family == "generalized_binary":
        return [
            make_prior(family, weight=w, mean=b * unit)
            for w in (0.0, 1e-12, 0.5, 1 - 1e-12, 1.0)
            for b in (0.0, 1e-8, 3.0, 1e8)
        ]
    if family == "point_mass":
        return [make_prior(family, mode=5 * unit)]
    if family == "normal_scale_mixture":
        return [make_prior(family, weights=[1.0], scales=[b * unit]) for b in scales]
    if family in ("npmle", "deconvolver"):
        places = [0.0, 1e-8, 1.0, -30.0, 1e8]
        return [make_prior(family, weights=[1.0], locations=[b * unit]) for b in places]
    low = -1.0 if family in ("unimodal_symmetric", "unimodal_nonpositive") else 0.0
    high = 0.0 if family == "unimodal_nonpositive" else 1.0
    return [
        make_prior(family, weights=[1.0], lower=[low * b * unit], upper=[high * b * unit])
        for b in scales
    ]


def fitted_starts(family, name):
    """Solutions of this problem and of two others."""
    i = DATA.index(name)
    return [cold(family, DATA[j % len(DATA)]).prior for j in (i, i + 1, i + 4)]


class TestStarts:
    @pytest.mark.parametrize(
        ("family", "name"),
        [  # each family with every other data set
            (family, name)
            for i, family in enumerate([*PARAMETRIC, *CONVEX])
            for name in DATA[i % 2 :: 2]
        ],
    )
    def test_warm_equals_cold(self, family, name):
        x, s = data(name)
        expected = cold(family, name).log_likelihood
        for start in boundary_starts(family, s) + fitted_starts(family, name):
            found = ebnm(x, s, family, start=start).log_likelihood
            if family == "generalized_binary":  # several optima: a start may stay at a lower one
                assert found <= expected + 1e-6, start
            else:
                np.testing.assert_allclose(
                    found, expected, rtol=1e-14, atol=1e-6, err_msg=repr(start)
                )

    @pytest.mark.parametrize("name", DATA)
    def test_deconvolver_ignores_a_start_that_cannot_describe_the_data(self, name):
        x, s = data(name)
        expected = cold("deconvolver", name).log_likelihood
        own = ebnm(x, s, "deconvolver", start=cold("deconvolver", name)).log_likelihood
        np.testing.assert_allclose(own, expected, rtol=1e-14, atol=1e-6)
        for start in boundary_starts("deconvolver", s):
            found = ebnm(x, s, "deconvolver", start=start).log_likelihood
            np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-6, err_msg=repr(start))

    @pytest.mark.parametrize("family", TWO_GROUPS)
    def test_warm_equals_cold_with_almost_no_spike(self, family):
        # all entries but the smallest are far from the mode: the best weight is nearly one
        x, s = data("strong_n500")
        x = x - x.min()
        found = ebnm(x, s, family)
        for weight in (0.9, 0.999, 1.0):
            start = make_prior(family, weight=weight, scale=1000.0)
            warm = ebnm(x, s, family, start=start)
            np.testing.assert_allclose(warm.log_likelihood, found.log_likelihood, rtol=0, atol=1e-6)

    @pytest.mark.parametrize(
        ("family", "name"),
        [
            *itertools.product(TWO_GROUPS, ["sparse_n500", "null_n500"]),
            *itertools.product(ONE_SCALE[:3], ["mode3_n800", "tiny_n10"]),
        ],
    )
    def test_cold_is_never_lower_with_estimated_mode(self, family, name):
        self.check_estimated_mode(family, name, (0.0, 0.5, 0.9))

    @pytest.mark.parametrize(
        ("family", "name"),
        [
            ("generalized_binary", "tiny_n10"),
            ("generalized_binary", "null_n500"),
            ("horseshoe", "tiny_n10"),
            ("normal_scale_mixture", "sparse_n500"),
            ("unimodal_symmetric", "sparse_n500"),
        ],
    )
    def test_cold_is_never_lower_with_estimated_mode_slow(self, family, name):
        self.check_estimated_mode(family, name, (0.6,))

    def check_estimated_mode(self, family, name, quantiles):
        x, s = data(name)
        best = cold(family, name, "estimate")
        starts = [ebnm(x, s, family, mode=np.quantile(x, q)).prior for q in quantiles]
        for start in [best.prior, cold(family, name).prior, *starts]:
            found = ebnm(x, s, family, mode="estimate", start=start)
            assert found.log_likelihood <= best.log_likelihood + 1e-6, start
            assert start.log_likelihood(x, s) <= best.log_likelihood + 1e-6, start


# ---- certificates


def components(prior):
    """Weights and ends of the components of a fitted prior, as `log_component` wants them."""
    found = prior.parameters
    if prior.family == "normal_scale_mixture":
        return found["weights"], np.zeros_like(found["scales"]), found["scales"]
    if prior.family == "npmle":
        return found["weights"], found["locations"], found["locations"]
    return found["weights"], found["lower"], found["upper"]


def candidates(family, x, s):
    """Components all over the range of the data."""
    unit, reach = float(np.min(s)), float(np.abs(x).max())
    if family == "npmle":
        places = np.linspace(x.min(), x.max(), 501)
        return places, places
    widths = np.append(0.0, np.geomspace(0.1 * unit, 2 * reach, 200))
    zeros = np.zeros_like(widths)
    if family == "unimodal_symmetric":
        return -widths, widths
    if family == "unimodal_nonpositive":
        return -widths, zeros
    if family == "unimodal":
        return np.append(-widths, zeros), np.append(zeros, widths)
    return zeros, widths


class TestCertificates:
    @pytest.mark.parametrize("name", DATA)
    @pytest.mark.parametrize("family", CONVEX)
    def test_components_used(self, family, name):
        x, s = data(name)
        result = cold(family, name)
        weights, low, high = components(result.prior)
        log_density = mixture(family, x, s, weights, low, high)
        np.testing.assert_allclose(log_density.sum(), result.log_likelihood, rtol=1e-10)
        rows = log_component(family, x, s, low, high)
        derivative = np.exp(rows - log_density[:, None]).sum(axis=0)
        assert derivative.max() - x.size <= 1e-6 * x.size
        # where there is weight the derivative is n exactly, or moving weight would gain
        np.testing.assert_allclose(derivative[weights > 1e-4], x.size, rtol=1e-4)

    @pytest.mark.parametrize("name", DATA)
    @pytest.mark.parametrize("family", CONVEX)
    def test_a_given_grid(self, family, name):
        x, s = data(name)
        low, high = candidates(family, x, s)
        result = ebnm(x, s, make_family(family, grid=lengths(family, low, high)))
        log_density = mixture(family, x, s, *components(result.prior))
        np.testing.assert_allclose(log_density.sum(), result.log_likelihood, rtol=1e-10)
        rows = log_component(family, x, s, low, high)
        derivative = np.exp(rows - log_density[:, None]).sum(axis=0)
        assert derivative.max() - x.size <= 1e-6 * x.size

    @pytest.mark.parametrize("name", DATA)
    @pytest.mark.parametrize("family", CONVEX)
    def test_a_finer_grid_gains_little(self, family, name):
        x, s = data(name)
        result = cold(family, name)
        _, low, high = components(result.prior)
        more = candidates(family, x, s)
        grid = lengths(family, np.append(low, more[0]), np.append(high, more[1]))
        finer = ebnm(x, s, make_family(family, grid=grid))
        assert finer.log_likelihood >= result.log_likelihood - 1e-6 * x.size  # the certificate
        assert finer.log_likelihood <= result.log_likelihood + 0.02


def lengths(family, low, high):
    """Grid points of a family for components with these ends."""
    if family == "npmle":
        return np.unique(high)
    widths = np.unique(np.maximum(-low, high))
    return widths[widths > 0]
