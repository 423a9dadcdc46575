"""Priors with known parameters against quadrature of densities that are written out here."""

import json
from dataclasses import dataclass, field

import mpmath as mp
import numpy as np
import pytest
from brute_force import moments, panels, posterior_of_points
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

from ebcd.priors import PRIORS, FittedPrior, make_family, make_prior

X = np.array([-6.0, -2.2, -1.0, -0.3, 0.0, 0.4, 1.0, 1.7, 3.0, 7.5])
MIXED_NOISE = np.array([0.5, 2.0, 1.0, 0.3, 1.0, 0.7, 3.0, 1.0, 0.4, 1.5])


@dataclass
class Piece:
    """Part of a prior with a density; `kinks` are where it is not smooth, or has its middle."""

    weight: float
    density: object
    kinks: list
    length: float
    support: tuple = (-np.inf, np.inf)


@dataclass
class Case:
    """A prior and the same thing as atoms (weight, place) and pieces."""

    family: str
    parameters: dict
    atoms: list = field(default_factory=list)
    pieces: list = field(default_factory=list)

    @property
    def prior(self):
        return make_prior(self.family, **self.parameters)

    @property
    def hull(self):
        lows = [at for _, at in self.atoms] + [piece.support[0] for piece in self.pieces]
        highs = [at for _, at in self.atoms] + [piece.support[1] for piece in self.pieces]
        return min(lows), max(highs)

    def mass_at(self, point):
        return sum(weight for weight, at in self.atoms if at == point)


def normal(weight, mode, scale):
    return Piece(weight, stats.norm(mode, scale).pdf, [mode], scale)


def laplace(weight, mode, scale):
    return Piece(weight, stats.laplace(mode, scale).pdf, [mode], scale)


def exponential(weight, mode, scale):
    return Piece(weight, stats.expon(mode, scale).pdf, [mode], scale, (mode, np.inf))


def uniform(weight, lower, upper):
    density = stats.uniform(lower, upper - lower).pdf
    return Piece(weight, density, [lower, upper], upper - lower, (lower, upper))


def bump(weight, mode, mean, sd):
    whole = stats.norm(mode + mean, sd)
    return Piece(
        weight,
        lambda theta: np.where(theta >= mode, whole.pdf(theta), 0) / whole.sf(mode),
        [mode, mode + mean],
        sd,
        (mode, np.inf),
    )


def horseshoe(mode, scale):
    def density(theta):
        u = ((theta - mode) / scale) ** 2 / 2
        near = np.minimum(u, 300)
        far = np.maximum(u, 300)
        tail = sum((-1) ** k * special.factorial(k) / far ** (k + 1) for k in range(9))
        value = np.where(u < 300, np.exp(near) * special.exp1(near), tail)
        return value / (np.sqrt(2 * np.pi**3) * scale)

    # the density has a logarithmic pole at the mode, so panels shrink towards it
    steps = scale * 2.0 ** -np.arange(30)
    return Piece(1.0, density, [mode, *(mode + steps), *(mode - steps)], scale)


def two_groups(family, slab, weight, scale, mode):
    parameters = {"weight": weight, "scale": scale, "mode": mode}
    return Case(family, parameters, [(1 - weight, mode)], [slab(weight, mode, scale)])


def one_group(family, slab, scale, mode):
    return Case(family, {"scale": scale, "mode": mode}, [], [slab(1.0, mode, scale)])


def unimodal(family, weights, lower, upper, mode=0.0):
    parameters = {"weights": weights, "lower": lower, "upper": upper, "mode": mode}
    parts = list(zip(weights, lower, upper, strict=True))
    atoms = [(w, a) for w, a, b in parts if a == b]
    return Case(family, parameters, atoms, [uniform(w, a, b) for w, a, b in parts if a < b])


def scale_mixture(weights, scales, mode=0.0):
    parameters = {"weights": weights, "scales": scales, "mode": mode}
    parts = list(zip(weights, scales, strict=True))
    atoms = [(w, mode) for w, b in parts if b == 0]
    pieces = [normal(w, mode, b) for w, b in parts if b > 0]
    return Case("normal_scale_mixture", parameters, atoms, pieces)


def discrete(family, weights, locations):
    parameters = {"weights": weights, "locations": locations}
    return Case(family, parameters, list(zip(weights, locations, strict=True)))


def binary(weight, mean, spread, mode):
    parameters = {"weight": weight, "mean": mean, "spread": spread, "mode": mode}
    pieces = [bump(weight, mode, mean, spread * mean)]
    return Case("generalized_binary", parameters, [(1 - weight, mode)], pieces)


CASES = {
    "point_normal": two_groups("point_normal", normal, 0.3, 2.0, 0.0),
    "point_normal, mode": two_groups("point_normal", normal, 0.6, 0.5, -1.5),
    "point_laplace": two_groups("point_laplace", laplace, 0.2, 2.0, 0.0),
    "point_laplace, mode": two_groups("point_laplace", laplace, 0.7, 0.4, 1.0),
    "point_exponential": two_groups("point_exponential", exponential, 0.4, 1.5, 0.0),
    "point_exponential, mode": two_groups("point_exponential", exponential, 0.5, 0.8, -1.0),
    "normal": one_group("normal", normal, 1.3, 0.0),
    "normal, mode": one_group("normal", normal, 0.4, 2.0),
    "laplace": one_group("laplace", laplace, 0.9, 0.0),
    "laplace, mode": one_group("laplace", laplace, 3.0, -0.7),
    "exponential": one_group("exponential", exponential, 1.1, 0.0),
    "exponential, mode": one_group("exponential", exponential, 2.0, -2.0),
    "normal_scale_mixture": scale_mixture([0.5, 0.3, 0.2], [0.0, 0.5, 3.0]),
    "normal_scale_mixture, mode": scale_mixture([0.25, 0.75], [0.3, 2.0], 1.2),
    "unimodal": unimodal(
        "unimodal", [0.4, 0.3, 0.2, 0.1], [0.0, 0.0, -1.0, -3.0], [0.0, 2.0, 0.0, 0.0]
    ),
    "unimodal, mode": unimodal("unimodal", [0.5, 0.5], [-1.0, 0.5], [0.5, 4.0], 0.5),
    "unimodal_symmetric": unimodal(
        "unimodal_symmetric", [0.5, 0.3, 0.2], [0.0, -1.0, -4.0], [0.0, 1.0, 4.0]
    ),
    "unimodal_symmetric, mode": unimodal("unimodal_symmetric", [1.0], [-2.0], [1.0], -0.5),
    "unimodal_nonnegative": unimodal(
        "unimodal_nonnegative", [0.6, 0.3, 0.1], [0.0, 0.0, 0.0], [0.0, 1.0, 6.0]
    ),
    "unimodal_nonpositive": unimodal("unimodal_nonpositive", [0.6, 0.4], [0.0, -2.0], [0.0, 0.0]),
    "unimodal_nonpositive, mode": unimodal(
        "unimodal_nonpositive", [0.2, 0.8], [1.0, -2.0], [1.0, 1.0], 1.0
    ),
    "npmle": discrete("npmle", [0.1, 0.5, 0.15, 0.25], [-2.5, 0.0, 0.5, 3.0]),
    "npmle, no atom at 0": discrete("npmle", [0.5, 0.5], [-1.0, 2.0]),
    "deconvolver": discrete("deconvolver", [0.1, 0.2, 0.4, 0.2, 0.1], [-2.0, -1.0, 0.0, 1.0, 2.0]),
    "horseshoe": Case("horseshoe", {"scale": 0.5, "mode": 0.0}, [], [horseshoe(0.0, 0.5)]),
    "horseshoe, mode": Case("horseshoe", {"scale": 2.0, "mode": 1.0}, [], [horseshoe(1.0, 2.0)]),
    "generalized_binary": binary(0.3, 2.0, 0.1, 0.0),
    "generalized_binary, mode": binary(0.6, 1.5, 0.8, -1.0),
    "point_mass": Case("point_mass", {"mode": 0.0}, [(1.0, 0.0)]),
    "point_mass, mode": Case("point_mass", {"mode": 1.5}, [(1.0, 1.5)]),
}
FLAT = make_prior("flat")
SYMMETRIC = [
    "point_normal",
    "point_laplace",
    "normal",
    "laplace",
    "normal_scale_mixture",
    "unimodal_symmetric",
    "deconvolver",
    "horseshoe",
    "point_mass",
]
ONE_SIDED = {
    "point_exponential",
    "exponential",
    "unimodal_nonnegative",
    "unimodal_nonpositive",
    "generalized_binary",
}
HEAVY = {"horseshoe", "horseshoe, mode"}  # no mean, no variance


def as_points(case, x=None, s=None):
    """The prior as weighted points, dense where the likelihood of `x` is not negligible."""
    theta, weight = [np.array([at for _, at in case.atoms])], [[w for w, _ in case.atoms]]
    for piece in case.pieces:
        margin = 45 * piece.length if s is None else 12 * s
        seen = piece.kinks if x is None else [x, *piece.kinks]
        low, high = min(seen) - margin, max(seen) + margin
        low, high = max(low, piece.support[0]), min(high, piece.support[1])
        step = piece.length if s is None else min(s, piece.length)
        nodes, weights = panels(low, high, [0.0, *seen], step)
        theta.append(nodes)
        weight.append(piece.weight * weights * piece.density(nodes))
    return np.concatenate(theta), np.concatenate(weight)


def summary(log_mass, mean, variance, below, above):
    """Log mass, mean, sd and local false sign rate."""
    return log_mass, mean, np.sqrt(variance), min(below, above)


def posterior_truth(case, x, s):
    return summary(*posterior_of_points(*as_points(case, x, s), x, s))


def posterior_table(case, s):
    noise = np.broadcast_to(s, X.shape)
    return np.array([posterior_truth(case, x, b) for x, b in zip(X, noise, strict=True)])


@pytest.fixture(scope="module", params=CASES, ids=str)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def case(name):
    return CASES[name]


def test_table_is_complete():
    assert {case.family for case in CASES.values()} | {"flat"} == {
        name for name in PRIORS if PRIORS[name].exchangeable
    }
    for case in CASES.values():
        total = sum(w for w, _ in case.atoms) + sum(piece.weight for piece in case.pieces)
        assert total == pytest.approx(1)


class TestPosterior:
    @pytest.mark.parametrize("s", [0.2, 4.0, MIXED_NOISE], ids=["0.2", "4", "mixed"])
    def test_against_quadrature(self, case, s):
        truth = posterior_table(case, s)
        found = case.prior.posterior(X, s)
        assert case.prior.log_likelihood(X, s) == pytest.approx(truth[:, 0].sum(), rel=1e-10)
        for x, b, expected in zip(X, np.broadcast_to(s, X.shape), truth[:, 0], strict=True):
            assert case.prior.log_likelihood([x], b) == pytest.approx(expected, rel=1e-9)
        unit = np.asarray(s)
        assert (np.abs(found.mean - truth[:, 1]) <= 1e-9 * unit).all()
        assert (np.abs(found.sd - truth[:, 2]) <= 1e-8 * unit).all()
        np.testing.assert_allclose(found.lfsr, truth[:, 3], rtol=1e-7, atol=1e-10)

    @pytest.mark.parametrize(
        ("prior", "n"),
        [
            (CASES["point_laplace"].prior, 300_001),
            (make_prior("npmle", weights=np.full(100, 0.01), locations=np.arange(100.0)), 7001),
        ],
        ids=["few components", "many components"],
    )
    def test_many_observations(self, prior, n):
        """More entries than are worked on at once."""
        many, few = prior.posterior(np.resize(X, n), 0.8), prior.posterior(X, 0.8)
        np.testing.assert_array_equal(many.mean, np.resize(few.mean, n))
        np.testing.assert_array_equal(many.lfsr, np.resize(few.lfsr, n))
        total = prior.log_likelihood(np.resize(X, n - 1), 0.8)
        assert total == pytest.approx(prior.log_likelihood(X, 0.8) * ((n - 1) / X.size))

    def test_flat(self):
        posterior = FLAT.posterior(X, MIXED_NOISE)
        np.testing.assert_array_equal(posterior.mean, X)
        np.testing.assert_array_equal(posterior.sd, MIXED_NOISE)
        np.testing.assert_allclose(posterior.lfsr, stats.norm.sf(np.abs(X) / MIXED_NOISE))
        np.testing.assert_array_equal(FLAT.shrink(X, 2.0), X)
        assert np.isnan(FLAT.log_likelihood(X, 2.0))


class TestNotObserved:
    """Infinite noise: the posterior is the prior."""

    def test_prior_moments(self, name, case):
        if name in HEAVY:
            pytest.skip("has no moments")
        log_mass, mean, sd, lfsr = summary(*moments(*as_points(case)))
        assert log_mass == pytest.approx(0, abs=1e-12)
        posterior = case.prior.posterior([3.0, -1e200], np.inf)
        np.testing.assert_allclose(posterior.mean, mean, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(posterior.sd, sd, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(posterior.lfsr, lfsr, rtol=1e-9)

    @pytest.mark.parametrize(("scale", "mode"), [(0.5, 0.0), (2.0, 1.0)])
    def test_horseshoe(self, scale, mode):
        posterior = make_prior("horseshoe", scale=scale, mode=mode).posterior([3.0], np.inf)
        assert posterior.mean[0] == pytest.approx(mode, abs=1e-9)
        assert posterior.lfsr[0] == pytest.approx(horseshoe_cdf(0.0, scale, mode), rel=1e-9)

    def test_horseshoe_has_no_variance(self):
        assert make_prior("horseshoe", scale=0.5).posterior([3.0], np.inf).sd[0] == np.inf

    @pytest.mark.parametrize("size", [1e-158, 1e-150, 1e150, 1e158])
    @pytest.mark.parametrize(
        "name", ["normal", "laplace", "exponential", "unimodal", "npmle", "generalized_binary"]
    )
    def test_extreme_scales(self, name, size):
        """Squares of the prior's width that a float cannot hold."""
        case = CASES[name]
        posterior = case.prior.rescaled(size).posterior([0.0], np.inf)
        _, mean, sd, lfsr = summary(*moments(*as_points(case)))
        np.testing.assert_allclose(posterior.mean / size, mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(posterior.sd / size, sd, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(posterior.lfsr, lfsr, rtol=1e-9)


def horseshoe_cdf(theta, scale, mode):
    """Normal given the local scale, whose logarithm has the density sech / pi."""
    v, weight = panels(-45.0, 45.0, [0.0], 0.5)
    scales = scale * np.exp(v)
    return weight / (np.pi * np.cosh(v)) @ special.ndtr((theta - mode) / scales)


class TestHorseshoe:
    """The mixture of normals against the integrals that define the prior."""

    @pytest.mark.parametrize(
        ("x", "s", "scale"), [(0.0, 1.0, 0.5), (2.0, 1.0, 0.5), (12.0, 1.0, 0.1), (-1.0, 0.3, 20.0)]
    )
    def test_over_the_local_scale(self, x, s, scale):
        """One integral, over lambda = tan(angle), by mpmath."""
        prior = make_prior("horseshoe", scale=scale)

        def integral(function):
            def integrand(angle):
                variance = (mp.mpf(scale) * mp.tan(angle)) ** 2
                total = variance + mp.mpf(s) ** 2
                density = mp.exp(-(mp.mpf(x) ** 2) / (2 * total)) / mp.sqrt(2 * mp.pi * total)
                return 2 / mp.pi * density * function(variance / total)

            middle = mp.atan(max(abs(x), s) / scale)
            return mp.quad(integrand, [0, middle / 2, middle, (middle + mp.pi / 2) / 2, mp.pi / 2])

        with mp.workdps(20):
            mass = integral(lambda share: 1)
            mean = x * integral(lambda share: share) / mass
            square = integral(lambda share: s**2 * share + (share * x) ** 2) / mass
            truth = float(mp.log(mass)), float(mean), float(mp.sqrt(square - mean**2))
        posterior = prior.posterior([x], s)
        assert prior.log_likelihood([x], s) == pytest.approx(truth[0], rel=1e-8)
        assert posterior.mean[0] == pytest.approx(truth[1], rel=1e-8, abs=1e-12)
        assert posterior.sd[0] == pytest.approx(truth[2], rel=1e-8)

    def test_over_scale_and_value(self):
        """Both integrals, over lambda and theta, none of them in closed form."""
        x, s, scale = 1.5, 0.8, 0.7
        u, u_weight = panels(-10.0, 10.0, [], 0.5)
        total, first = 0.0, 0.0
        middle = np.arctan(s / scale)  # below it the prior is the narrower factor
        for low, high in ((0.0, middle), (middle, np.pi / 2)):
            angle, angle_weight = panels(low, high, [], 0.1)
            width = scale * np.tan(angle)[:, None]
            theta = width * u if low == 0 else x + s * u
            step = width if low == 0 else s
            weight = angle_weight[:, None] * u_weight * step * 2 / np.pi
            weight = weight * stats.norm.pdf(theta, 0, width) * stats.norm.pdf(x, theta, s)
            total, first = total + weight.sum(), first + (weight * theta).sum()
        prior = make_prior("horseshoe", scale=scale)
        assert prior.log_likelihood([x], s) == pytest.approx(np.log(total), rel=1e-9)
        assert prior.shrink([x], s)[0] == pytest.approx(first / total, rel=1e-9)


PENALISED = [name for name in CASES if not name.startswith("point_mass")]


class TestPenalty:
    @pytest.mark.parametrize("s", [0.5, 2.0])
    @pytest.mark.parametrize("name", PENALISED)
    def test_shrink_is_its_proximal_operator(self, name, s):
        """Brute force: over a fine grid nothing is better than the posterior mean."""
        case = CASES[name]
        low, high = (np.clip(end, -8.0, 8.0) for end in case.hull)
        n = 101 if name in HEAVY else 401
        grid = np.linspace(low, high, n)
        penalty = case.prior.penalty(grid, s)
        for x in (-5.0, -0.8, 0.3, 1.1, 3.5):
            best = posterior_truth(case, x, s)[1]
            near = np.clip(best + s * np.linspace(-0.01, 0.01, 41), *case.hull)
            places = np.concatenate([grid, near])
            values = np.concatenate([penalty, case.prior.penalty(near, s)])
            objective = (x - places) ** 2 / (2 * s**2) + values
            at_best = (x - best) ** 2 / (2 * s**2) + case.prior.penalty([best], s)[0]
            assert np.isfinite(at_best)
            assert (objective >= at_best - 1e-9).all()
            found = places[np.argmin(objective)]
            assert abs(found - best) <= max((high - low) / (n - 1), 1e-3 * s)

    @pytest.mark.parametrize("s", [0.5, 2.0])
    @pytest.mark.parametrize("name", PENALISED)
    def test_value(self, name, s):
        """At l = shrink(x) it is -log(marginal(x) / density at 0) - (x - l)^2 / (2 s^2)."""
        case = CASES[name]
        x = np.array([-4.0, -1.3, -0.2, 0.0, 0.9, 2.5, 5.0])
        truth = np.array([posterior_truth(case, v, s)[:2] for v in x])
        expected = -truth[:, 0] - np.log(np.sqrt(2 * np.pi) * s)
        expected -= (x - truth[:, 1]) ** 2 / (2 * s**2)
        found = case.prior.penalty(truth[:, 1], s)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)

    def test_ridge(self):
        """A normal prior of variance b^2 induces l^2 / (2 b^2) and a constant."""
        values = np.array([-1e4, -3.0, 0.0, 0.1, 2.0, 1e4])
        penalty = make_prior("normal", scale=2.0, mode=1.0).penalty(values, 0.5)
        expected = (values - 1) ** 2 / 8
        np.testing.assert_allclose(penalty - penalty[2], expected - expected[2], rtol=1e-9)

    def test_infinite_outside_the_hull(self, case):
        low, high = case.hull
        for end, side in ((low, -1), (high, 1)):
            if np.isfinite(end):
                outside = [end + side * 1e-9, end + side, end + side * 1e9]
                assert (case.prior.penalty(outside, 0.7) == np.inf).all()

    def test_ends_of_the_hull(self, case):
        """Finite only where there is an atom: then minus the log of its weight."""
        for end in case.hull:
            if np.isfinite(end):
                mass = case.mass_at(end)
                expected = -np.log(mass) if mass > 0 else np.inf
                assert case.prior.penalty([end], 0.7)[0] == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("name", "end", "inward"),
        [
            ("point_exponential", 0.0, [1e-8, 1e-12, 1e-16]),
            ("unimodal_nonnegative", 0.0, [1e-8, 1e-12, 1e-16]),
            ("unimodal_nonpositive, mode", 1.0, [-1e-8, -1e-12]),
            ("npmle", 3.0, [-1e-8, -1e-12]),
        ],
    )
    def test_continuous_at_an_atom(self, name, end, inward):
        prior = CASES[name].prior
        penalty = prior.penalty(end + np.array(inward), 1.0)
        np.testing.assert_allclose(penalty, prior.penalty([end], 1.0)[0], atol=5e-4)

    @pytest.mark.parametrize("place", [1e-1, 1e-3, 1e-5, 1e-7, 1e-9, 1e-12])
    def test_near_an_end_without_an_atom(self, place):
        """The exponential prior, whose marginal and its derivative mpmath has in closed form."""
        with mp.workdps(60):

            def log_marginal(x):
                return mp.mpf(1) / 2 - x + mp.log(mp.erfc((1 - x) / mp.sqrt(2)) / 2)

            def excess(x):  # of the posterior mean, by Tweedie's formula
                return x + mp.diff(log_marginal, x) - mp.mpf(place)

            x = mp.findroot(excess, (-1 / mp.mpf(place) - 2, -1 / mp.mpf(place) + 3), tol=1e-45)
            constant = mp.log(2 * mp.pi) / 2
            truth = float(-log_marginal(x) - constant - (x - mp.mpf(place)) ** 2 / 2)
        found = make_prior("exponential", scale=1.0).penalty([place], 1.0)[0]
        assert found == pytest.approx(truth, rel=1e-6)

    def test_point_mass(self):
        penalty = CASES["point_mass, mode"].prior.penalty([1.5, 1.4, 0.0, 1.6], 2.0)
        np.testing.assert_array_equal(penalty, [0, np.inf, np.inf, np.inf])

    def test_flat(self):
        np.testing.assert_array_equal(FLAT.penalty([-1e9, 0.0, 3.0], 2.0), 0)

    def test_units(self, case):
        """It has none: nats."""
        values = np.array([-0.6, 0.0, 0.7, 1.5])
        penalty = case.prior.penalty(values, 0.8)
        for factor in (1e-100, 3.0, 1e100):
            found = case.prior.rescaled(factor).penalty(factor * values, factor * 0.8)
            inside = np.abs(values[:, None] - np.array(case.hull)).min(axis=1) > 1e-6
            np.testing.assert_allclose(found[inside], penalty[inside], rtol=1e-8, atol=1e-8)

    def test_shapes(self):
        prior = CASES["laplace"].prior
        assert prior.penalty(0.5).shape == ()
        assert prior.penalty(np.zeros((2, 3))).shape == (2, 3)
        assert prior.penalty([]).shape == (0,)


POSITIVE = st.floats(-3, 3).map(lambda exponent: 10**exponent)


class TestShape:
    @given(
        name=st.sampled_from(SYMMETRIC), unit=POSITIVE, s=POSITIVE, x=st.lists(st.floats(-1e6, 1e6))
    )
    @settings(max_examples=50)
    def test_symmetric_priors_shrink(self, name, unit, s, x):
        prior = CASES[name].prior.rescaled(unit)
        x = np.array([0.0, *x])
        mean = prior.shrink(x, s)
        assert (np.abs(mean) <= np.abs(x) * (1 + 1e-13) + 1e-15 * s).all()
        assert mean[0] == pytest.approx(0, abs=1e-14 * s)
        np.testing.assert_allclose(prior.shrink(-x, s), -mean, rtol=1e-12, atol=1e-13 * s)

    @given(
        weight=st.floats(0, 1),
        scale=POSITIVE,
        family=st.sampled_from(["point_normal", "point_laplace"]),
        x=st.floats(-1e8, 1e8),
    )
    @settings(max_examples=50)
    def test_spike_and_slab_shrinks(self, weight, scale, family, x):
        prior = make_prior(family, weight=weight, scale=scale)
        posterior = prior.posterior([x], 1.0)
        assert 0 <= posterior.mean[0] * np.sign(x) <= abs(x) * (1 + 1e-14)
        assert 0 <= posterior.lfsr[0] <= 1
        assert np.isfinite(posterior.sd[0])

    @pytest.mark.parametrize("s", [0.01, 1.0, 30.0])
    def test_shrink_increases(self, case, s):
        x = np.sort(np.concatenate([np.linspace(-12, 12, 400), s * np.linspace(-60, 60, 400)]))
        mean = case.prior.shrink(x, s)
        assert (np.diff(mean) >= -1e-13 * (1 + np.abs(mean[1:]))).all()
        assert (mean >= case.hull[0] - 1e-14).all()
        assert (mean <= case.hull[1] + 1e-14).all()


class TestSample:
    n = 40_000

    def test_prior(self, name, case):
        draws = case.prior.sample(self.n, random_state=0)
        assert draws.shape == (self.n,)
        assert (draws >= case.hull[0]).all()
        assert (draws <= case.hull[1]).all()
        if name in HEAVY:
            places = np.array([-9.0, -1.0, -0.1, 0.0, 0.3, 1.0, 1.2, 4.0, 30.0])
            truth = np.array([horseshoe_cdf(at, **case.parameters) for at in places])
            error = (draws[:, None] <= places).mean(axis=0) - truth
            assert (np.abs(error) < 5 * np.sqrt(truth * (1 - truth) / self.n)).all()
        else:
            _, mean, sd, _ = summary(*moments(*as_points(case)))
            check_draws(draws, mean, sd)
        for weight, at in case.atoms:
            exact = sum(w for w, place in case.atoms if place == at)
            error = (draws == at).mean() - exact
            assert abs(error) <= 5 * np.sqrt(weight * (1 - weight) / self.n) + 1e-12

    def test_posterior(self, case):
        x, s, n = np.array([-1.5, 0.2, 2.4]), np.array([1.0, 0.5, 2.0]), self.n // 10
        draws = case.prior.sample_posterior(np.repeat(x, n), np.repeat(s, n), 3, random_state=1)
        assert draws.shape == (3, 3 * n)
        for i in range(3):
            _, mean, sd, _ = posterior_truth(case, x[i], s[i])
            check_draws(draws[:, i * n : (i + 1) * n].ravel(), mean, sd)

    def test_posterior_of_entries_not_observed(self, name, case):
        n = self.n // 10
        s = np.tile([np.inf, 1.0, np.inf], n)
        draws = case.prior.sample_posterior(np.tile([5.0, 1.0, 9.0], n), s, 2, random_state=2)
        draws = draws.reshape(-1, 3)
        if name not in HEAVY:
            _, mean, sd, _ = summary(*moments(*as_points(case)))
            check_draws(draws[:, 0], mean, sd)
            check_draws(draws[:, 2], mean, sd)
            if sd > 0:
                assert abs(np.corrcoef(draws[:, 0], draws[:, 2])[0, 1]) < 0.06
        _, mean, sd, _ = posterior_truth(case, 1.0, 1.0)
        check_draws(draws[:, 1], mean, sd)

    def test_flat(self):
        draws = FLAT.sample_posterior([1.0, -4.0], [0.5, 2.0], n=self.n, random_state=3)
        check_draws(draws[:, 0], 1.0, 0.5)
        check_draws(draws[:, 1], -4.0, 2.0)
        with pytest.raises(ValueError, match="improper"):
            FLAT.sample(3)

    def test_state_moves_on(self):
        prior, rng = CASES["laplace"].prior, np.random.default_rng(0)
        assert (prior.sample(3, rng) != prior.sample(3, rng)).all()
        legacy = np.random.RandomState(0)
        assert (prior.sample(3, legacy) != prior.sample(3, legacy)).all()

    def test_many_draws_come_in_blocks(self):
        """More draws x entries x components than are in memory at once."""
        prior, x = make_prior("point_normal", weight=0.5, scale=1.0), np.linspace(-4, 4, 300)
        draws = prior.sample_posterior(x, 1.0, n=2001, random_state=0)
        expected = prior.posterior(x, 1.0)
        errors = (draws.mean(axis=0) - expected.mean) / (expected.sd / np.sqrt(2001))
        assert np.abs(errors).max() < 5
        assert (
            np.unique(draws[:, -1]).size
            == np.count_nonzero(draws[:, -1]) + (draws[:, -1] == 0).any()
        )  # no block repeats another

    def test_nothing_to_draw(self):
        prior = CASES["point_laplace"].prior
        assert prior.sample(0).shape == (0,)
        assert prior.sample_posterior(X, n=0).shape == (0, X.size)


def check_draws(draws, mean, sd):
    """Mean and variance within five standard errors."""
    if sd == 0:
        np.testing.assert_allclose(draws, mean)
        return
    scaled = (draws - mean) / sd
    assert abs(scaled.mean()) < 5 / np.sqrt(draws.size)
    fourth = max((scaled**4).mean(), 3.0)
    assert abs((scaled**2).mean() - 1) < 5 * np.sqrt(fourth / draws.size)


class TestTransformations:
    @pytest.mark.parametrize("factor", [1e-100, 3.0, 1e100])
    def test_rescaled(self, case, factor):
        """The posterior of (c x, c s) is c times that of (x, s)."""
        prior, scaled = case.prior, case.prior.rescaled(factor)
        assert scaled.family == case.family
        before = prior.posterior(X, MIXED_NOISE)
        after = scaled.posterior(factor * X, factor * MIXED_NOISE)
        np.testing.assert_allclose(after.mean / factor, before.mean, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(after.sd / factor, before.sd, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(after.lfsr, before.lfsr, rtol=1e-9, atol=1e-12)
        assert scaled.log_likelihood(factor * X, factor * MIXED_NOISE) == pytest.approx(
            prior.log_likelihood(X, MIXED_NOISE) - X.size * np.log(factor), rel=1e-11
        )

    def test_mirrored(self, case):
        prior = case.prior
        if case.family in ONE_SIDED:
            with pytest.raises(ValueError, match="one-sided"):
                prior.mirrored()
            return
        mirrored = prior.mirrored()
        before, after = prior.posterior(X, 0.8), mirrored.posterior(-X, 0.8)
        np.testing.assert_allclose(after.mean, -before.mean, rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(after.sd, before.sd, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(after.lfsr, before.lfsr, rtol=1e-9, atol=1e-12)
        assert mirrored.log_likelihood(-X, 0.8) == pytest.approx(prior.log_likelihood(X, 0.8))
        assert mirrored.mirrored() == prior

    def test_shifted(self, case):
        prior, offset = case.prior, 2.25
        shifted = prior.shifted(offset)
        before, after = prior.posterior(X, 0.8), shifted.posterior(X + offset, 0.8)
        np.testing.assert_allclose(after.mean, before.mean + offset, rtol=1e-10)
        np.testing.assert_allclose(after.sd, before.sd, rtol=1e-9, atol=1e-12)
        assert shifted.log_likelihood(X + offset, 0.8) == pytest.approx(
            prior.log_likelihood(X, 0.8)
        )
        if "mode" in prior.parameters:
            assert shifted.parameters["mode"] == prior.parameters["mode"] + offset

    def test_flat(self):
        for same in (FLAT.rescaled(2.0), FLAT.mirrored(), FLAT.shifted(1.0)):
            assert same == FLAT


class TestDictionary:
    def test_through_json(self, case):
        prior = case.prior
        text = json.dumps(prior.to_dict())
        again = FittedPrior.from_dict(json.loads(text))
        assert again == prior
        assert json.dumps(again.to_dict()) == text
        assert repr(again) == repr(prior)
        first, second = prior.posterior(X, MIXED_NOISE), again.posterior(X, MIXED_NOISE)
        for name in ("mean", "sd", "lfsr"):
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))

    @pytest.mark.parametrize("value", [1 / 3, 0.1 + 0.2, 1e-300, 1.7976931348623157e308])
    def test_digits_survive(self, value):
        prior = make_prior("normal", scale=value)
        text = json.dumps(prior.to_dict())
        assert FittedPrior.from_dict(json.loads(text)).parameters["scale"] == value

    def test_equality(self, case):
        assert case.prior != FLAT
        assert case.prior != case.parameters
        assert case.prior.rescaled(2.0) != case.prior or case.family == "point_mass"

    def test_numpy_parameters(self):
        prior = make_prior("point_normal", weight=np.float32(0.25), scale=np.int64(2))
        assert json.loads(json.dumps(prior.to_dict()))["parameters"]["weight"] == 0.25
        mixture = make_prior("npmle", weights=np.array([0.5, 0.5]), locations=np.array([0, 1]))
        assert json.loads(json.dumps(mixture.to_dict()))["parameters"]["locations"] == [0, 1]


WORDS = {
    "point_normal": ["70% exactly 0", "30% N(0, 2^2)"],
    "point_laplace, mode": ["30% exactly 1", "70% 1 + Laplace(scale 0.4)"],
    "point_exponential": ["60% exactly 0", "40% Exponential(mean 1.5)"],
    "normal, mode": ["100% N(2, 0.4^2)"],
    "laplace": ["100% Laplace(scale 0.9)"],
    "normal_scale_mixture": ["50% exactly 0", "30% N(0, 0.5^2)", "20% N(0, 3^2)"],
    "unimodal": ["40% exactly 0", "30% Uniform(0, 2)", "10% Uniform(-3, 0)"],
    "npmle": ["50% exactly 0", "25% exactly 3", "10% exactly -2.5"],
    "horseshoe": ["scale 0.5"],
    "horseshoe, mode": ["scale 2", "mode 1"],
    "generalized_binary": ["70% exactly 0", "30% N(2, 0.2^2) above 0"],
    "point_mass, mode": ["100% exactly 1.5"],
}


class TestWords:
    @pytest.mark.parametrize("name", WORDS)
    def test_says_what_it_is(self, name):
        prior = CASES[name].prior
        for words in WORDS[name]:
            assert words in repr(prior)
        assert repr(prior) == f"<{prior.family} prior: {prior.describe()}>"

    def test_flat(self):
        assert repr(FLAT) == "<flat prior: no shrinkage>"

    def test_largest_first_and_not_too_many(self):
        weights = np.arange(1, 11) / 55
        words = make_prior("npmle", weights=weights, locations=np.arange(10.0)).describe()
        assert words.startswith("18.2% exactly 9, 16.4% exactly 8")
        assert words.endswith("4 more components")

    def test_rounding_of_zero_is_not_mentioned(self):
        words = make_prior("point_laplace", weight=1 - 1e-15, scale=2.0).describe()
        assert words == "100% Laplace(scale 2)"

    @pytest.mark.parametrize("parameters", [{"weight": 0.0, "scale": 2.0}, {"weight": 1.0}])
    def test_without_weight_is_not_mentioned(self, parameters):
        prior = make_prior("point_laplace", **{"scale": 2.0, **parameters})
        expected = "Laplace(scale 2)" if parameters["weight"] else "exactly 0"
        assert prior.describe() == f"100% {expected}"


class TestBoundaries:
    """Parameters at the end of their range make simpler priors."""

    @pytest.mark.parametrize("family", ["point_normal", "point_laplace", "point_exponential"])
    def test_no_slab(self, family):
        null = make_prior("point_mass", mode=1.0)
        for parameters in ({"weight": 0.0, "scale": 2.0}, {"weight": 0.5, "scale": 0.0}):
            prior = make_prior(family, **parameters, mode=1.0)
            np.testing.assert_array_equal(prior.shrink(X, 1.0), 1.0)
            assert prior.log_likelihood(X) == pytest.approx(null.log_likelihood(X))

    @pytest.mark.parametrize("family", ["normal", "laplace", "exponential"])
    def test_only_slab(self, family):
        alone = make_prior(family, scale=2.0)
        prior = make_prior(f"point_{family}", scale=2.0, weight=1.0)
        np.testing.assert_allclose(prior.shrink(X, 1.0), alone.shrink(X, 1.0))
        assert prior.log_likelihood(X) == pytest.approx(alone.log_likelihood(X))

    def test_binary_without_spike(self):
        prior = make_prior("generalized_binary", weight=1.0, mean=2.0)
        assert "exactly" not in prior.describe()
        assert prior.penalty([0.0])[0] == np.inf
        assert (prior.sample(100, 0) > 0).all()

    def test_binary_without_bump(self):
        for parameters in ({"weight": 0.0, "mean": 2.0}, {"weight": 0.5, "mean": 0.0}):
            prior = make_prior("generalized_binary", **parameters)
            np.testing.assert_array_equal(prior.shrink(X, 1.0), 0.0)

    def test_horseshoe_without_scale(self):
        np.testing.assert_array_equal(make_prior("horseshoe", scale=0.0).shrink(X, 1.0), 0.0)


BAD = [
    ("normal", {"scale": 1.0, "weight": 0.5}, "no parameter 'weight'"),
    ("normal", {}, "needs the parameter 'scale'"),
    ("point_laplace", {"scale": 1.0}, "needs the parameter 'weight'"),
    ("point_laplace", {"scale": 1.0, "weight": 0.5, "slab": 1}, "no parameter 'slab'"),
    ("flat", {"scale": 1.0}, "no parameter 'scale'"),
    ("point_mass", {"scale": 1.0}, "no parameter 'scale'"),
    ("npmle", {"weights": [1.0]}, "needs the parameter 'locations'"),
    ("npmle", {"weights": [0.5, 0.4], "locations": [0.0, 1.0]}, "sum to one"),
    ("npmle", {"weights": [1.5, -0.5], "locations": [0.0, 1.0]}, "non-negative"),
    ("npmle", {"weights": [np.nan, 1.0], "locations": [0.0, 1.0]}, "weights"),
    ("npmle", {"weights": [0.5, 0.5], "locations": [0.0]}, "one entry per component"),
    ("npmle", {"weights": [0.5, 0.5], "locations": [0.0, np.nan]}, "NaN, masked or infinite"),
    ("deconvolver", {"weights": [0.3, 0.3], "locations": [0.0, 1.0]}, "sum to one"),
    ("normal_scale_mixture", {"weights": [1.0], "scales": [1.0, 2.0]}, "one entry per component"),
    ("normal_scale_mixture", {"weights": [1.0], "scales": [-1.0]}, "negative"),
    ("unimodal", {"weights": [1.0], "lower": [0.0], "upper": [1.0, 2.0]}, "lower and upper"),
    ("unimodal", {"weights": [1.0], "lower": [1.0], "upper": [0.0]}, "lower <= upper"),
    ("unimodal", {"weights": [1.0], "lower": [1.0]}, "needs the parameter 'upper'"),
    ("normal", {"scale": -1.0}, "scale must be a number of at least 0"),
    ("laplace", {"scale": np.nan}, "scale must be a number of at least 0"),
    ("laplace", {"scale": np.inf}, "at least 0, got inf"),
    ("normal", {"scale": 1.0, "mode": np.inf}, "mode"),
    ("normal", {"scale": 1.0, "mode": np.nan}, "mode"),
    ("horseshoe", {"scale": -2.0}, "scale must be a number of at least 0"),
    ("point_normal", {"scale": 1.0, "weight": 1.2}, "from 0 to 1"),
    ("point_normal", {"scale": 1.0, "weight": -0.1}, "from 0 to 1"),
    ("point_normal", {"scale": 1.0, "weight": np.nan}, "from 0 to 1"),
    ("generalized_binary", {"weight": 2.0, "mean": 1.0}, "from 0 to 1"),
    ("generalized_binary", {"weight": 0.5, "mean": -1.0}, "at least 0"),
    ("generalized_binary", {"weight": 0.5, "mean": 1.0, "spread": 0.0}, "spread"),
    ("generalized_binary", {"weight": 0.5, "mean": 1.0, "spread": -1.0}, "spread"),
]


class TestErrors:
    @pytest.mark.parametrize(("family", "parameters", "message"), BAD, ids=str)
    def test_bad_parameters(self, family, parameters, message):
        with pytest.raises(ValueError, match=message):
            make_prior(family, **parameters)

    def test_unknown_option(self):
        with pytest.raises(ValueError, match="no option 'gird'; its options are"):
            make_family("npmle", gird=[1.0])
        with pytest.raises(ValueError, match="no options"):
            make_family("normal", grid=[1.0])


def test_mirrored_locations_have_no_minus_zero():
    prior = make_prior("npmle", weights=[0.2, 0.5, 0.3], locations=[-1.0, 0.0, 2.0])
    locations = prior.mirrored().parameters["locations"]
    np.testing.assert_array_equal(locations, [-2.0, 0.0, 1.0])
    assert not np.signbit(locations[1])
