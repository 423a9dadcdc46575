"""What a command says while it works: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

_SECONDS_BETWEEN_LINES = 2.0
_GAINS = 8  # from which the remaining iterations are foretold


class Watcher:
    """Tell what goes on; this one says nothing."""

    def stage(self, words: str) -> None:
        """Say what is being done now."""

    def iteration(self, number: int, elbo: float, left: float | None) -> None:
        """Say how far the fit is, and how many seconds are probably left."""

    def note(self, words: str) -> None:
        """Say something that stays on the screen."""

    def follow(self, value: float, shift: float, tol: float) -> Callable[..., None]:
        """Give what a fit calls after every iteration, with its criterion at the start."""
        gains: list[float] = []
        last = value

        def progress(iteration: int, state: Any, seconds: float) -> None:
            nonlocal last
            gains.append(state.value - last)
            last = state.value
            left = seconds_left(gains[-_GAINS:], tol, seconds / max(iteration, 1))
            self.iteration(iteration, state.value - shift, left)

        return progress


class _Lines(Watcher):
    """Plain lines on standard error, not too many."""

    def __init__(self) -> None:
        self._spoke = -_SECONDS_BETWEEN_LINES

    def stage(self, words: str) -> None:
        typer.echo(words, err=True)

    def iteration(self, number: int, elbo: float, left: float | None) -> None:
        now = time.monotonic()
        if now - self._spoke >= _SECONDS_BETWEEN_LINES:
            self._spoke = now
            self.stage(_words(number, elbo, left))

    def note(self, words: str) -> None:
        self.stage(words)


class _Live(Watcher):
    """One line on a terminal that changes."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("")

    def stage(self, words: str) -> None:
        self._progress.update(self._task, description=words)

    def iteration(self, number: int, elbo: float, left: float | None) -> None:
        self.stage(_words(number, elbo, left))

    def note(self, words: str) -> None:
        self._progress.console.print(words, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def watch(quiet: bool) -> Iterator[Watcher]:
    """Show progress on standard error, in the way that suits it."""
    console = Console(stderr=True)
    if quiet:
        yield Watcher()
    elif not (console.is_terminal and sys.stderr.isatty()):
        yield _Lines()
    else:
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
        with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
            yield _Live(progress)


def _words(number: int, elbo: float, left: float | None) -> str:
    words = f"fitting: iteration {number}, ELBO {elbo:.6g}"
    return words if left is None else f"{words}, about {_duration(left)} left"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def seconds_left(gains: list[float], tol: float, seconds_each: float) -> float | None:
    """Foretell the end from gains that fall geometrically towards `tol`; None if they do not."""
    if len(gains) < 3 or min(gains[0], gains[-1], tol) <= 0:
        return None
    if gains[-1] <= tol:
        return seconds_each
    rate = math.log(gains[-1] / gains[0]) / (len(gains) - 1)
    return None if rate >= 0 else seconds_each * (1 + math.log(tol / gains[-1]) / rate)
