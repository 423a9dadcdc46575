"""Progress: the predicted end, live lines on a terminal, few lines elsewhere."""

import io
import re
from types import SimpleNamespace

import numpy as np
import pytest

import ebcd

pytest.importorskip("typer")
from rich.console import Console

from ebcd.cli import _progress
from ebcd.cli._data import Prepared, Steps
from ebcd.cli._progress import Display, display, seconds_left
from ebcd.cli._results import fit_model
from ebcd.data.files._table import Table


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, monkeypatch):
        self.time = 1000.0
        monkeypatch.setattr(_progress, "monotonic", lambda: self.time)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def follow(shown, elbos, clock, tol=1e-3):
    """Report iterations to a display that take a second each."""
    shown.stage("fitting", tol=tol)
    for i, elbo in enumerate(elbos, start=1):
        shown.iteration(i, elbo, 2)
        clock.time += 1.0


def test_parts_of_a_stage(clock, capsys):
    with display(quiet=False) as shown:
        shown.stage("bootstrap fits")
        clock.time += 4.0
        shown.part(20, 50)
        clock.time += 6.0
        shown.part(50, 50)
    assert capsys.readouterr().err.splitlines() == [
        "bootstrap fits",
        "bootstrap fits: 20 of 50, about 6 s left",
        "bootstrap fits: 50 of 50",
    ]


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
def test_the_end_of_geometric_gains_is_predicted(rate):
    gains = [5.0 * rate**i for i in range(8)]
    iterations, gain = 0, gains[-1]
    while gain > 1e-3:
        gain *= rate
        iterations += 1
    left = seconds_left(gains, 1e-3, 2.0)
    assert 2 * iterations <= left <= 2 * (iterations + 1)


def test_nothing_is_predicted_without_grounds():
    assert seconds_left([1.0, 0.5], 1e-3, 1.0) is None  # too few
    assert seconds_left([1.0, 2.0, 4.0], 1e-3, 1.0) is None  # a plateau that ends
    assert seconds_left([1.0, 0.5, -0.1], 1e-3, 1.0) is None
    assert seconds_left([1.0, 0.5, 0.2], 0.0, 1.0) is None  # until rounding
    assert seconds_left([1.0, 0.5, 1e-9], 1e-3, 3.0) == 3.0  # the last one


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 s"), (59.0, "59 s"), (61.0, "2 min"), (7300.0, "2 h 2 min")]
)
def test_durations(seconds, words):
    assert _progress._duration(seconds) == words


def test_lines_are_few_and_plain(capsys, clock):
    with display(quiet=False) as shown:
        shown.stage("reading")
        shown.note("note: a note")
        follow(shown, [-100.0, -92.0, -88.0, -86.0, -85.0, -84.5], clock)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        *("reading", "note: a note", "fitting: iteration 1, ELBO -100.0"),
        "fitting: iteration 3, ELBO -88.0",
        "fitting: iteration 5, ELBO -85.0, about 11 s left",
    ]


def left(shown, *iteration):
    """Return what is said about the time left after an iteration."""
    said = []
    shown._show = lambda words, detail="", brief=False: said.append(detail)
    shown.iteration(*iteration)
    return said[0].partition(", ELBO -5.0")[2]


def test_time_left_is_at_most_what_the_user_allowed(clock):
    shown = Display()
    shown.limit(50.0)
    shown.stage("looking for a start")
    clock.time += 10.0
    assert left(shown, 2, -5.0, 3) == ", at most 40 s left"
    shown.limit(None)
    assert left(shown, 2, -5.0, 3) == ""


def test_iterations_without_an_elbo(capsys, clock):
    with display(quiet=False) as shown:
        shown.stage("looking for a start")
        clock.time += 5.0
        shown.iteration(7, None, 3)
    assert "looking for a start: component 3, iteration 7" in capsys.readouterr().err


def test_quiet_says_nothing(capsys, clock):
    with display(quiet=True) as shown:
        shown.stage("reading")
        shown.note("note: a note")
        follow(shown, [0.0, 8.0, 12.0, 14.0], clock)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_lines_that_go_away(monkeypatch, clock):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(_progress, "Console", lambda **options: console)
    monkeypatch.setattr(_progress.sys, "stderr", SimpleNamespace(isatty=lambda: True))
    with display(quiet=False) as shown:
        shown.note("note: [stays] on the screen")
        shown.stage("looking for a start (1,000 of 20,000 features)")
        shown.iteration(3, -86.0, 2)
        shown._progress.refresh()
    text = screen.getvalue()
    assert "note: [stays] on the screen" in text
    assert "looking for a start (1,000 of 20,000 features)" in text
    assert "iteration 3, ELBO -86.0" in text
    assert text.rstrip("\x1b[?25h\r").endswith("\x1b[2K")  # the lines are erased


def test_a_fit_is_followed_from_the_search_on(capsys, clock, monkeypatch):
    """The search among starts is most of a fit, and was silent once."""
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) @ rng.normal(size=(2, 8)) + rng.normal(size=(60, 8))
    table = Table(X, list("abcdefgh"))
    model = ebcd.EBCD(2, max_time=500.0)
    with display(quiet=False) as shown:
        fit_model(model, Prepared(table, Steps()), shown)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "looking for a start"
    searched = [line for line in lines[1:] if line.startswith("looking for a start: ")]
    assert searched
    assert all(re.search(r"iteration \d+, ELBO -?[\d,.]+, at most ", line) for line in searched)
    assert re.match(rf"fitting: iteration \d+, ELBO {model.elbo_:,.1f}, at most ", lines[-1])
    assert "_display" not in vars(model)
