"""`EBCD` and its loop against fits of R ebcd."""

import csv
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from ebcd import EBCD
from ebcd.fitting._climb import climb
from ebcd.fitting._decompose import factor_of
from ebcd.fitting._noise import ConstantNoise
from ebcd.fitting._shrinkers import NormalMeansShrinker, SpikeSlabShrinker
from ebcd.fitting._states import Model
from ebcd.priors import make_family

HERE = Path(__file__).parent
FITS = {fit["id"]: fit for fit in json.loads((HERE / "ebcd" / "fits.json").read_text())}
PARAMETRIC = ["point_laplace", "laplace", "point_normal", "normal"]
ON_A_GRID = ["normal_scale_mixture", "unimodal_symmetric", "unimodal_nonnegative", "npmle"]

# A column of R's greedy start was zero here. R's polar step gave it an arbitrary direction, so that
# it came back to life; ours stays dead. The estimator itself must find as good a fit.
DEAD_START = {"c_point_exponential"}
# R's normal-means solver stops short of the maximum, so that the gain fell below 1e-6 on a plateau
# which exact iterations cross 600 iterations later: compared after R's number of iterations.
STOPPED_EARLY = {"d_K6_pn"}
# R stopped at its limit of iterations, long before convergence: compared after as many.
AT_LIMIT = {"b_K8"}

SLOW = {"d_K4"}  # hundreds of plain iterations, as in b_l and b_pl
BY_RULE = [
    name
    for name, fit in FITS.items()
    if fit["prior"] in PARAMETRIC and name not in DEAD_START | STOPPED_EARLY | AT_LIMIT
]


@cache
def arrays():
    with np.load(HERE / "ebcd" / "fits.npz") as stored:
        return {name: stored[name] for name in stored.files}


class Result(NamedTuple):
    loadings: np.ndarray
    tau: float
    elbo: float
    path: np.ndarray


class Comparison:
    """One of R's fits, and our loop on the same data from the same start."""

    def __init__(self, name):
        self.fit = FITS[name]
        self.X = arrays()[f"X_{self.fit['data']}"]
        self.start, self.loadings = arrays()[f"start_{name}"], arrays()[f"loadings_{name}"]
        n, p = self.X.shape
        k = self.loadings.shape[1]
        self.elbo = self.fit["elbo"]
        if self.fit["prior"] == "generalized_binary":
            self.elbo -= k * p * np.log(2) / 2
        factor, variances = self.X / np.sqrt(n), (self.X**2).mean(axis=0)
        if self.fit["covariance"]:
            factor = factor_of(factor.T @ factor, variances)
        family = make_family(self.fit["prior"])
        exact = NormalMeansShrinker([family] * k)
        self.stepwise = SpikeSlabShrinker(family) if hasattr(family, "slab") else exact
        self.model = Model(factor, variances, ConstantNoise(n, variances), exact)

    def first(self, model):
        precision = np.array([[self.fit["tau_start"]]])
        return model.at(model.nearest(self.start.T)[None], precision)

    def plain(self, stop):
        """Iterate as the paper does until ``stop(number of iterations, gain)``."""
        states, gain = self.first(self.model), np.inf
        path = [float(states.value[0])]
        while not stop(len(path), gain):
            nearest = self.model.nearest(states.shrunk.mean)
            states = self.model.at(nearest, states.precision, states.shrunk.priors)
            gain = float(states.value[0]) - path[-1]
            path.append(float(states.value[0]))
        return result(states, path)

    def accelerated(self, max_iter=3000):
        """Climb, with priors that take steps where the family allows it."""
        model = replace(self.model, shrinker=self.stepwise)
        path = []
        climbed = climb(
            model,
            self.first(model),
            lambda states: path.append(float(states.value[0])),
            tol=1e-5,
            max_iter=max_iter,
        )
        return result(climbed.states, path)

    def error(self, loadings):
        return np.linalg.norm(matched(loadings, self.loadings) - self.loadings) / np.linalg.norm(
            self.loadings
        )


def result(states, path):
    mean, tau = states.shrunk.mean[0].T, float(states.precision[0, 0])
    return Result(mean, tau, path[-1], np.array(path))


def matched(loadings, reference):
    """Columns in the order and with the signs of the reference."""
    assert loadings.shape == reference.shape
    products = loadings.T @ reference
    columns, order = linear_sum_assignment(-np.abs(products))
    result = np.empty_like(reference)
    result[:, order] = loadings[:, columns] * np.sign(products[columns, order])
    return result


def rule(iterations, gain):
    return iterations >= 10 and gain < 1e-6


class TestPlainIteration:
    @pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
            for name in BY_RULE
            if name not in ("b_l", "b_pl")
        ],
    )
    def test_with_the_stopping_rule_of_r(self, name):
        comparison = Comparison(name)
        found = comparison.plain(rule)
        assert comparison.error(found.loadings) < 1e-4
        assert found.tau == pytest.approx(comparison.fit["tau"], rel=1e-6)
        assert found.elbo == pytest.approx(comparison.elbo, abs=1e-4)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", sorted(STOPPED_EARLY | AT_LIMIT))
    def test_after_as_many_iterations(self, name):
        comparison = Comparison(name)
        found = comparison.plain(lambda count, _: count == comparison.fit["iterations"])
        assert comparison.error(found.loadings) < 1e-4
        assert found.tau == pytest.approx(comparison.fit["tau"], rel=1e-6)

    def test_generalized_binary(self):
        # R's solver stops a little short of the maximum, which moves loadings and precision
        comparison = Comparison("c_generalized_binary")
        found = comparison.plain(rule)
        assert comparison.elbo - 1e-5 < found.elbo < comparison.elbo + 1e-3
        assert comparison.error(found.loadings) < 3e-4
        assert found.tau == pytest.approx(comparison.fit["tau"], rel=1e-5)

    def test_never_loses(self):
        path = Comparison("d_K4").plain(lambda count, _: count == 100).path
        assert np.diff(path).min() > -1e-9 * abs(path[-1])


class TestConverged:
    @pytest.mark.parametrize("name", [*BY_RULE, *STOPPED_EARLY, *AT_LIMIT, "c_generalized_binary"])
    def test_at_least_the_elbo_of_r(self, name):
        comparison = Comparison(name)
        found = comparison.accelerated()
        assert found.elbo >= comparison.elbo - 1e-4
        assert np.diff(found.path).min(initial=0.0) >= -1e-9 * abs(found.elbo)
        if found.elbo <= comparison.elbo + 1e-3:
            assert comparison.error(found.loadings) < 3e-3
            assert found.tau == pytest.approx(comparison.fit["tau"], rel=1e-5)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "name", [name for name, fit in FITS.items() if fit["prior"] in ON_A_GRID]
    )
    def test_families_on_a_grid(self, name):
        # R's grids are coarser, and that of npmle moves between its iterations
        comparison = Comparison(name)
        assert comparison.accelerated(max_iter=25).elbo >= comparison.elbo - 0.05

    @pytest.mark.parametrize("name", sorted(DEAD_START))
    def test_from_its_own_start_where_that_of_r_died(self, name):
        comparison = Comparison(name)
        prior, k = comparison.fit["prior"], comparison.loadings.shape[1]
        model = EBCD(k, prior=prior, center=False).fit(comparison.X)
        assert model.elbo_ >= comparison.elbo - 1e-3
        assert comparison.error(model.components_.T) < 3e-3

    @pytest.mark.parametrize("name", ["a_fromX", "c_point_normal", "d_K3", "e_noise_K3"])
    @pytest.mark.parametrize("start", ["auto", "greedy"])
    def test_own_starts(self, name, start):
        comparison = Comparison(name)
        fit, k = comparison.fit, comparison.loadings.shape[1]
        model = EBCD(k, prior=fit["prior"], center=False, start=start).fit(comparison.X)
        assert model.elbo_ >= comparison.elbo - 1e-3

    def test_covariance_alone(self):
        comparison = Comparison("a2_fromS")
        X = comparison.X
        model = EBCD(2, center=False).fit_covariance(X.T @ X / len(X), len(X))
        assert model.elbo_ == pytest.approx(comparison.elbo, abs=1e-4)
        assert comparison.error(model.components_.T) < 3e-3


with (HERE / "sim" / "elbo.csv").open(newline="") as file:
    SIMULATIONS = [
        (int(row["setting"]), int(row["seed"]), float(row["elbo"])) for row in csv.DictReader(file)
    ]


@cache
def gain_over_r(setting, seed, elbo):
    with np.load(HERE / "sim" / f"sim{setting}.npz") as stored:
        X = stored[f"X_{seed}"].astype(np.float64)
    return EBCD(setting + 1, center=False).fit(X).elbo_ - elbo


class TestSimulations:
    @pytest.mark.parametrize(("setting", "seed", "elbo"), SIMULATIONS)
    def test_automatic_start_never_ends_lower(self, setting, seed, elbo):
        assert gain_over_r(setting, seed, elbo) >= -1e-3

    def test_automatic_start_often_ends_higher(self):
        gains = [gain_over_r(*case) for case in SIMULATIONS]
        assert sum(gain > 0.1 for gain in gains) >= 4

    @pytest.mark.parametrize(
        ("setting", "seed", "elbo"), [case for case in SIMULATIONS if case[0] == 1]
    )
    def test_greedy_start_ends_where_r_does(self, setting, seed, elbo):
        # on three of these the mirrored optimum is higher, by up to 7 nats
        with np.load(HERE / "sim" / "sim1.npz") as stored:
            X = stored[f"X_{seed}"].astype(np.float64)
        assert EBCD(2, center=False, start="greedy").fit(X).elbo_ == pytest.approx(elbo, abs=1e-3)

    @pytest.mark.parametrize(
        ("setting", "seed", "elbo"), [case for case in SIMULATIONS if case[0] == 2]
    )
    def test_greedy_start_is_not_lower_than_r(self, setting, seed, elbo):
        # R leaves the projection of Algorithm 1 out, so that ours may be higher
        with np.load(HERE / "sim" / "sim2.npz") as stored:
            X = stored[f"X_{seed}"].astype(np.float64)
        assert EBCD(3, center=False, start="greedy").fit(X).elbo_ >= elbo - 1e-3
