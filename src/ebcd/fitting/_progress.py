"""What a fit tells on its way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting import _clock

_SECONDS_BETWEEN_LINES = 2.0


class AbstractDisplay(ABC):
    """Shows people how far a fit is."""

    @abstractmethod
    def stage(self, words: str, number: int = 1, of: int = 1, tol: float | None = None) -> None:
        """Begin a stage.

        Parameters
        ----------
        words : str
            What is done in it.
        number, of : int
            It is the first, second ... of so many that take about equally long.
        tol : float, optional
            Gain of the ELBO in an iteration at which the stage ends; only in the last one.
        """

    @abstractmethod
    def iteration(self, number: int, elbo: float | None, n_components: int) -> None:
        """Tell of an iteration, with the ELBO in the units of the data if that is known."""


class Watch:
    """Translates what a fit knows for a display; without one it does nothing.

    Attributes
    ----------
    shifts : array of length p
        What the units of each feature add to the criterion.
    features : array of int, optional
        Which features the fit is looking at; all of them by default.
    """

    def __init__(self, display: AbstractDisplay | None = None) -> None:
        self._display = display
        self.shifts: Array = np.zeros(0)
        self.features: Any = None

    def stage(self, words: str, number: int = 1, of: int = 1, tol: float | None = None) -> None:
        """Begin a stage, as in `AbstractDisplay`."""
        if self._display is None:
            return
        if self.features is not None:
            words += f" ({self.features.size:,} of {self.shifts.size:,} features)"
        self._display.stage(words, number, of, tol)

    @property
    def progress(self) -> Callable[..., None] | None:
        """What a loop calls after every iteration, if anything."""
        return None if self._display is None else self.tell

    def tell(self, iteration: int, state: Any, seconds: float = 0.0) -> None:
        """Tell of an iteration; displays have clocks of their own."""
        if self._display is None:
            return
        shifts = self.shifts if self.features is None else self.shifts[self.features]
        elbo = state.value - float(shifts.sum())
        self._display.iteration(iteration, elbo, len(state.components))

    def step(self, number: int, n_components: int) -> None:
        """Tell of an iteration that does not know the ELBO of all components."""
        if self._display is not None:
            self._display.iteration(number, None, n_components)


class Printer(AbstractDisplay):
    """Print a line for each stage; more of the last one, and of one that takes long."""

    def __init__(self) -> None:
        self._began = self._spoke = _clock.now()
        self._stage, self._last, self._elbo, self._line = "", False, np.nan, ""

    def stage(self, words: str, number: int = 1, of: int = 1, tol: float | None = None) -> None:
        """Print where the stage before this one ended."""
        self._print()
        self._stage, self._last, self._elbo = words, tol is not None, np.nan

    def iteration(self, number: int, elbo: float | None, n_components: int) -> None:
        """Print a line, or leave that to the end of the stage."""
        now = _clock.now()
        self._line = (
            f"iteration {number:5d}   {self._bound(elbo)}{n_components} components   "
            f"{now - self._began:7.2f} s"
        )
        if not self._last:
            self._line += f"   {self._stage}"
        if self._last or now - self._spoke >= _SECONDS_BETWEEN_LINES:
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
            self._line, self._spoke = "", _clock.now()
