"""What a fit tells on its way, and when it has to stop."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ebcd.fitting._states import States

SECONDS_BETWEEN_LINES = 2.0


class AbstractDisplay(ABC):
    """Shows people how far a fit is."""

    @abstractmethod
    def stage(self, words: str, tol: float | None = None) -> None:
        """Begin a stage; the last one has the gain of the ELBO in an iteration at which it ends."""

    @abstractmethod
    def iteration(self, number: int, elbo: float | None, n_components: int) -> None:
        """Report an iteration, with the ELBO in the units of the data if that is known."""


class Monitor:
    """Follows a fit: shows it, saves it, and stops it when time is up.

    Parameters
    ----------
    display : AbstractDisplay, optional
        Shows progress.
    seconds : float, optional
        Time from now after which to stop.
    checkpoint : object, optional
        Its ``note(name, part)`` is told of what the fit has found.

    Attributes
    ----------
    shift : float
        What the units of the features add to the ELBO.
    path : list of float
        ELBO of the best state after every iteration of the last stage.
    describe : callable
        From states of the last stage to what is stored of them.
    started : bool
        Whether a start was found in time. If the search for it was cut short, its best is a result,
        but nothing to go on from.
    """

    def __init__(
        self,
        display: AbstractDisplay | None = None,
        seconds: float | None = None,
        checkpoint: Any = None,
    ) -> None:
        self._display, self.checkpoint = display, checkpoint
        self._end = math.inf if seconds is None else now() + seconds
        self._number, self._searching = 0, True
        self.shift = 0.0
        self.path: list[float] = []
        self.describe: Callable[[States], Any] = lambda states: None
        self.started = False

    def stage(self, words: str, tol: float | None = None) -> None:
        """Begin a stage; the last one has a tolerance, and its path is kept."""
        self._searching = tol is None
        self._number = 0 if self._searching else len(self.path)
        if self._display is not None:
            self._display.stage(words, tol)

    def __call__(self, states: States) -> bool:
        """Note an iteration; return whether time is up."""
        self._number += 1
        best = float(states.value.max())
        if not self._searching:
            self.path.append(max([best, *self.path[-1:]]))
            if self.started:
                self.note("state", lambda: self.describe(states))
        if self._display is not None:
            self._display.iteration(self._number, best - self.shift, states.b.shape[1])
        return self.out_of_time()

    def component(self, number: int, n_components: int) -> bool:
        """Note an iteration that does not know the ELBO of all components, as a call does."""
        if self._display is not None:
            self._display.iteration(number, None, n_components)
        return self.out_of_time()

    def note(self, name: str, part: Callable[[], Any]) -> None:
        """Note what has been found, for the checkpoint if there is one."""
        if self.checkpoint is not None:
            self.checkpoint.note(name, part)

    def out_of_time(self) -> bool:
        """Whether time is up."""
        return self._end < math.inf and now() >= self._end


def now() -> float:
    """Return seconds since some moment; never runs backward."""
    return time.monotonic()


class Printer(AbstractDisplay):
    """Prints a line for each stage; more of the last one, and of one that takes long."""

    def __init__(self) -> None:
        self._began = self._spoke = now()
        self._stage, self._last, self._elbo, self._line = "", False, np.nan, ""

    def stage(self, words: str, tol: float | None = None) -> None:
        """Print where the stage before this one ended."""
        self._print()
        self._stage, self._last, self._elbo = words, tol is not None, np.nan

    def iteration(self, number: int, elbo: float | None, n_components: int) -> None:
        """Print a line, or leave that to the end of the stage."""
        moment = now()
        self._line = (
            f"iteration {number:5d}   {self._bound(elbo)}{n_components} components   "
            f"{moment - self._began:7.2f} s"
        )
        if not self._last:
            self._line += f"   {self._stage}"
        if self._last or moment - self._spoke >= SECONDS_BETWEEN_LINES:
            self._print()

    def _bound(self, elbo: float | None) -> str:
        if elbo is None:
            return ""
        change, self._elbo = elbo - self._elbo, elbo
        told = "" if np.isnan(change) else f"change {change:10.2e}"
        return f"ELBO {elbo:16.4f}   {told:17s}   "

    def _print(self) -> None:
        if self._line:
            print(self._line)  # noqa: T201 - asked for by verbose
            self._line, self._spoke = "", now()
