"""Progress of a command: live lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Iterator
from time import monotonic

import numpy as np
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ebcd._parameters import printable
from ebcd.cli._errors import echo
from ebcd.fitting._progress import SECONDS_BETWEEN_LINES, AbstractDisplay


class Display(AbstractDisplay):
    """Shows what a command is doing; this one is silent."""

    def __init__(self) -> None:
        self._end = math.inf
        self.stage("")

    def limit(self, seconds: float | None) -> None:
        """Set a limit of seconds from now, if there is one."""
        self._end = math.inf if seconds is None else monotonic() + seconds

    def stage(self, words: str, tol: float | None = None) -> None:
        """Show what is being done now."""
        self._words, self._tol, self._elbos = words, tol, list[float]()
        self._began = monotonic()
        if tol is None:  # the last stage of a fit is shown with its first iteration
            self._show(words)

    def iteration(self, number: int, elbo: float | None, n_components: int) -> None:
        """Show the progress of a fit and an estimate of the time left."""
        if elbo is None:
            detail = f"component {n_components}, iteration {number}"
        else:
            self._elbos.append(elbo)
            detail = f"iteration {number}, ELBO {elbo:,.1f}"
        first = self._tol is not None and len(self._elbos) == 1
        self._show(self._words, detail + self._left(number), brief=not first)

    def part(self, done: int, of: int) -> None:
        """Show how much of a stage is done, and an estimate of the time left."""
        seconds = (monotonic() - self._began) * (of - done) / done
        left = f", about {_duration(seconds)} left" if done < of else ""
        self._show(self._words, f"{done} of {of}{left}", brief=True)

    def _left(self, number: int) -> str:
        """Say how much time is left, as far as that is known."""
        now = monotonic()
        limit = max(self._end - now, 0.0)
        if self._tol is not None:
            each = (now - self._began) / max(number - 1, 1)
            left = seconds_left(np.diff(self._elbos[-4:]).tolist(), self._tol, each)
            if left is not None and left < limit:
                return f", about {_duration(left)} left"
        return "" if limit == math.inf else f", at most {_duration(limit)} left"

    def note(self, words: str) -> None:
        """Show something that stays on the screen."""

    def _show(self, words: str, detail: str = "", brief: bool = False) -> None:
        """Show what is being done and how far it is; `brief` messages may be skipped."""


class _Lines(Display):
    """Plain lines on standard error, one every few seconds."""

    def __init__(self) -> None:
        self._spoke = -math.inf
        super().__init__()

    def _show(self, words: str, detail: str = "", brief: bool = False) -> None:
        now = monotonic()
        if words and not (brief and now - self._spoke < SECONDS_BETWEEN_LINES):
            self._spoke = now
            echo(f"{words}: {detail}" if detail else words, err=True)

    def note(self, words: str) -> None:
        echo(words, err=True)


class _Live(Display):
    """Two lines on a terminal, updated in place; one would exceed 80 characters."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("")
        super().__init__()

    def _show(self, words: str, detail: str = "", brief: bool = False) -> None:
        self._progress.update(self._task, description=f"{printable(words)}\n{detail}")

    def note(self, words: str) -> None:
        console = self._progress.console
        console.print(printable(words), markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def display(quiet: bool) -> Iterator[Display]:
    """Show progress on standard error: live on a terminal, in plain lines elsewhere."""
    console = Console(stderr=True)
    if quiet:
        yield Display()
    elif not (console.is_terminal and sys.stderr.isatty()):
        yield _Lines()
    else:
        words = TextColumn("{task.description}", markup=False)
        columns = (SpinnerColumn(), TimeElapsedColumn(), words)
        with Progress(*columns, console=console, transient=True) as progress:
            yield _Live(progress)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{math.ceil(seconds)} s"
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def seconds_left(gains: list[float], tol: float, seconds_each: float) -> float | None:
    """Predict the end from gains that fall geometrically toward `tol`; None if they do not."""
    # of the last three, as few as show a trend: predictions from more lag behind
    if len(gains) < 3 or min(gains[-3], gains[-1], tol) <= 0:
        return None
    if gains[-1] <= tol:
        return seconds_each
    rate = math.log(gains[-1] / gains[-3]) / 2
    return None if rate >= 0 else seconds_each * (1 + math.log(tol / gains[-1]) / rate)
