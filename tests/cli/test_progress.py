"""Progress: what is foretold, one line on a terminal, few lines elsewhere."""

import io
from types import SimpleNamespace

import pytest

pytest.importorskip("typer")
from rich.console import Console

from ebcd.cli import _progress
from ebcd.cli._progress import seconds_left, watch


def follow(watcher, values, tol=1e-3):
    """Tell a watcher of iterations that take a second each."""
    progress = watcher.follow(values[0], 100.0, tol)
    for i, value in enumerate(values[1:], start=1):
        progress(i, SimpleNamespace(value=value), float(i))


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.9])
def test_geometric_gains_are_foretold(rate):
    gains = [5.0 * rate**i for i in range(8)]
    iterations, gain = 0, gains[-1]
    while gain > 1e-3:
        gain *= rate
        iterations += 1
    left = seconds_left(gains, 1e-3, 2.0)
    assert 2 * iterations <= left <= 2 * (iterations + 1)


def test_nothing_is_foretold_where_nothing_can_be():
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


def test_lines_are_few_and_plain(capsys, monkeypatch):
    clock = iter([10.0, 10.5, 11.0, 12.5, 13.0])
    monkeypatch.setattr(_progress.time, "monotonic", lambda: next(clock))
    with watch(quiet=False) as watcher:
        watcher.stage("reading")
        watcher.note("note: a note")
        follow(watcher, [0.0, 8.0, 12.0, 14.0, 15.0, 15.5])
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[:3] == ["reading", "note: a note", "fitting: iteration 1, ELBO -92"]
    assert lines[3] == "fitting: iteration 4, ELBO -85, about 11 s left"
    assert len(lines) == 4


def test_quiet_says_nothing(capsys):
    with watch(quiet=True) as watcher:
        watcher.stage("reading")
        watcher.note("note: a note")
        follow(watcher, [0.0, 8.0, 12.0, 14.0])
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_one_line_that_goes_away(monkeypatch):
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    monkeypatch.setattr(_progress, "Console", lambda **options: console)
    monkeypatch.setattr(_progress.sys, "stderr", SimpleNamespace(isatty=lambda: True))
    with watch(quiet=False) as watcher:
        watcher.note("note: [stays] on the screen")
        follow(watcher, [0.0, 8.0, 12.0, 14.0])
        console.file.flush()
        watcher._progress.refresh()
    text = screen.getvalue()
    assert "note: [stays] on the screen" in text
    assert "fitting: iteration 3, ELBO -86" in text
    assert text.rstrip("\x1b[?25h\r").endswith("\x1b[2K")  # the line is erased
