"""EBCD on tiny problems against brute force over scores, precisions and priors."""

import json
from pathlib import Path

import numpy as np
import pytest
from decomposition import Search, objective, tiny_problems

from ebcd import EBCD

# The best values of the objective that brute force finds, climbing from 24 to 60 of many starts.
OPTIMA = json.loads(Path(__file__).with_name("optima.json").read_text())
PROBLEMS = {problem.name: problem for problem in tiny_problems()}


@pytest.fixture(params=PROBLEMS)
def problem(request):
    return PROBLEMS[request.param]


def fit(problem, **options):
    return EBCD(problem.k, prior=problem.family, noise=problem.noise, **options).fit(problem.X)


def test_reaches_the_optimum(problem):
    assert fit(problem).elbo_ >= OPTIMA[problem.name] - 1e-3


@pytest.mark.parametrize("name", list(PROBLEMS)[::4])
def test_elbo_is_the_objective(name):
    problem = PROBLEMS[name]
    model = fit(problem, tol=1e-9)
    tau = np.broadcast_to(1 / np.asarray(model.noise_variance_), problem.X.shape[1])
    weight = np.array([prior.parameters.get("weight", 1.0) for prior in model.priors_])
    scale = np.array([prior.parameters["scale"] for prior in model.priors_])
    own = objective(problem, model.transform(problem.X), tau, weight, scale)
    assert model.elbo_ == pytest.approx(own, abs=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(PROBLEMS)[1::4])
def test_brute_force_finds_nothing_better(name):
    """The stored optima are what they are said to be."""
    problem = PROBLEMS[name]
    found = Search(problem, seed=1).best(draws=2000, climbs=8)
    assert found <= OPTIMA[problem.name] + 1e-4
