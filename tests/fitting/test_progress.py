"""What a fit tells on its way, against the fit itself."""

import re

import numpy as np
import pytest
from ebcd.fitting._keeper import NoKeeper

from ebcd import EBCD
from ebcd.fitting import _clock
from ebcd.fitting._progress import AbstractDisplay, Printer


class Recorder(AbstractDisplay):
    """Stages, each with the iterations in it."""

    def __init__(self):
        self.stages = []

    def stage(self, words, number=1, of=1, tol=None):
        self.stages.append(((words, number, of, tol), []))

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
def test_every_start_and_iteration_is_told(options):
    X = draw() * np.geomspace(0.1, 100, 25)  # so that units matter
    model, stages = recorded(X, **options)
    words = [stage[0] for stage, _ in stages]
    assert words[:2] == ["counting components", "looking for a start"]
    first = [s for s in stages if s[0][0].startswith("round 1, ")]
    number = first[0][0][2]
    assert [(s[0][1], s[0][2]) for s in first] == [(i, number) for i in range(1, number + 1)]
    assert first[0][0][0] == f"round 1, start 1 of {number}: varimax"
    assert [i for i, *_ in first[0][1]] == sorted({i for i, *_ in first[0][1]})
    assert all(s[0][3] is None for s in stages[:-1])
    (last, *_, tol), told = stages[-1]
    assert last == "fitting"
    assert tol > 0
    np.testing.assert_allclose([elbo for _, elbo, _ in told], model.elbo_path_, rtol=1e-12)
    assert told[-1][2] == model.n_components_
    # where the search ended is where the fit begins
    ends = [s[1][-1][1] for s in stages[:-1] if s[1]]
    assert max(ends) == pytest.approx(model.elbo_path_[0], rel=1e-12)


def test_a_search_on_some_features_has_the_bound_of_those():
    X = draw(1100, 2000, 2)
    (_, one), (_, other) = recorded(X, 2), recorded(10 * X, 2)
    part = [(s, t) for s, t in zip(one, other, strict=True) if "(1,000 of 2,000" in s[0][0]]
    assert any(told for (_, told), _ in part)
    for here, there in part:
        values = [
            np.array([elbo for _, elbo, _ in told if elbo is not None]) for _, told in (here, there)
        ]
        # densities in other units
        np.testing.assert_allclose(values[0] - values[1], 1100 * 1000 * np.log(10), rtol=1e-6)
    words = [stage[0] for stage, _ in one]
    assert "looking for leading directions of the data" in words
    assert words[-2:] == ["best start, on more features", "fitting"]


def test_greedy_components_are_told_without_a_bound():
    _, stages = recorded(draw(), 3, start="greedy")
    told = {stage[0]: told for stage, told in stages}["looking for a start"]
    assert {elbo for _, elbo, _ in told} == {None}
    assert sorted({k for *_, k in told}) == [1, 2, 3]


def test_the_fit_is_the_same_when_watched():
    model, _ = recorded(draw())
    np.testing.assert_array_equal(EBCD().fit(draw()).components_, model.components_)


def test_nobody_is_told_by_default():
    watch = NoKeeper().watch
    assert watch.progress is None  # so that loops need not even call
    watch.stage("anything")
    watch.tell(1, None)
    watch.step(1, 1)


def test_lines_for_the_verbose(capsys, monkeypatch):
    time = 0.0
    monkeypatch.setattr(_clock, "now", lambda: time)
    printer = Printer()
    printer.stage("reading")  # nothing to tell of it
    printer.stage("start 1 of 2", 1, 2)
    printer.iteration(2, -9.0, 3)
    time = 1.0
    printer.iteration(3, -8.0, 3)
    printer.stage("start 2 of 2", 2, 2)
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
