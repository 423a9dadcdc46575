"""What a fit tells on its way, against the fit itself."""

import re

import numpy as np
import pytest

from ebcd import EBCD
from ebcd.fitting import _progress
from ebcd.fitting._progress import AbstractDisplay, Monitor, Printer


class Recorder(AbstractDisplay):
    """Stages, each with the iterations in it."""

    def __init__(self):
        self.stages = []

    def stage(self, words, tol=None):
        self.stages.append(((words, tol), []))

    def iteration(self, number, elbo, n_components):
        self.stages[-1][1].append((number, elbo, n_components))


def draw(n=60, p=25, k=4, seed=0):
    rng = np.random.default_rng(seed)
    L = rng.normal(size=(k, p)) * (rng.random((k, p)) < 0.4) * np.linspace(3, 2, k)[:, None]
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))


def recorded(X, *args, **options):
    model = EBCD(*args, **options)
    model._display = Recorder()
    model.fit(X)
    return model, model._display.stages


@pytest.mark.parametrize("options", [{}, {"scale": True}, {"noise": "per_feature"}])
def test_every_iteration_is_told(options):
    X = draw() * np.geomspace(0.1, 100, 25)  # so that units matter
    model, stages = recorded(X, **options)
    words = [stage[0] for stage, _ in stages]
    assert words == ["counting components", "looking for a start", "fitting"]
    assert [stage[1] is None for stage, _ in stages] == [True, True, False]
    for _, told in stages:
        assert [number for number, *_ in told] == list(range(1, len(told) + 1)), told
    told = stages[-1][1]
    # priors go to their optimum after the last iteration
    np.testing.assert_allclose([e for _, e, _ in told][:-1], model.elbo_path_[:-1], rtol=1e-12)
    assert told[-1][1] == pytest.approx(model.elbo_, abs=0.01)
    assert len(told) == model.n_iter_
    assert told[-1][2] == model.n_components_
    # where the search ended is where the fit begins
    ends = [elbo for _, elbo, _ in stages[1][1]]
    assert max(ends) == pytest.approx(model.elbo_path_[0], abs=1e-6)


def test_a_search_on_some_features_is_told():
    _, stages = recorded(draw(600, 2000, 2), 2)
    words = [stage[0] for stage, _ in stages]
    assert "looking for leading directions of the data" in words
    assert "looking for a start among 1,000 of 2,000 features" in words
    assert words[-2:] == ["best start, on all features", "fitting"]


def test_greedy_components_are_told_without_a_bound():
    _, stages = recorded(draw(), 3, start="greedy")
    told = {stage[0]: told for stage, told in stages}["looking for a start"]
    assert {elbo for _, elbo, _ in told} == {None}
    assert sorted({k for *_, k in told}) == [1, 2, 3]


def test_the_fit_is_the_same_when_watched():
    model, _ = recorded(draw())
    np.testing.assert_array_equal(EBCD().fit(draw()).components_, model.components_)


class TestTime:
    def test_is_up_after_so_many_seconds(self, monkeypatch):
        time = 100.0
        monkeypatch.setattr(_progress, "now", lambda: time)
        monitor, endless = Monitor(seconds=3.0), Monitor()
        time = 102.9
        assert not monitor.out_of_time()
        time = 103.0
        assert monitor.out_of_time()
        assert monitor.component(1, 1)
        time = 1e9
        assert not endless.out_of_time()


def test_lines_for_the_verbose(capsys, monkeypatch):
    time = 0.0
    monkeypatch.setattr(_progress, "now", lambda: time)
    printer = Printer()
    printer.stage("reading")  # nothing to tell of it
    printer.stage("start 1 of 2")
    printer.iteration(2, -9.0, 3)
    time = 1.0
    printer.iteration(3, -8.0, 3)
    printer.stage("start 2 of 2")
    time = 4.0  # long ago
    printer.iteration(1, None, 1)
    printer.iteration(2, None, 1)
    printer.stage("fitting", tol=1e-3)
    printer.iteration(1, -8.0, 3)
    printer.iteration(2, -7.5, 3)
    lines = [re.sub(" +", " ", line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "iteration 3 ELBO -8.0000 change 1.00e+00 3 components 1.00 s start 1 of 2",
        "iteration 1 1 components 4.00 s start 2 of 2",
        "iteration 2 1 components 4.00 s start 2 of 2",
        "iteration 1 ELBO -8.0000 3 components 4.00 s",
        "iteration 2 ELBO -7.5000 change 5.00e-01 3 components 4.00 s",
    ]
