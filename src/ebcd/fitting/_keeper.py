"""What a fit asks on its way: whether something has been done before, and whether time is left.

A fit is a deterministic sequence of stages, some within others. If the results of finished stages
are known, a fit that was interrupted is simply run again: finished stages give their results at
once (`once`), loops go on where they were (`slot`), and the rest follows as if nothing had
happened. Stages are told apart by the order in which a fit comes to them; what comes after a slot
in the same stage belongs to the turn of the loop that began with the last `offer`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from ebcd.data import AbstractCovariance, AbstractSlot, NoSlot
from ebcd.fitting._clock import Deadline
from ebcd.fitting._description import Description
from ebcd.fitting._progress import Watch

Result = TypeVar("Result")


class AbstractKeeper(ABC):
    """Knows what was done before and when time is up; a context in which a fit runs."""

    def __init__(self, deadline: Deadline | None = None) -> None:
        self._deadline = Deadline() if deadline is None else deadline
        self.watch = Watch()  # whom to tell how far the fit is; nobody by default
        self.cut_short = False  # whether the fit has been told to stop
        self.finished = False  # whether there is nothing left to go on with

    def out_of_time(self) -> bool:
        """Tell whether the fit should stop with what it has."""
        self.cut_short = self.cut_short or self._deadline.passed()
        return self.cut_short

    @abstractmethod
    def once(
        self, name: str, compute: Callable[..., Result], *arguments: Any, **options: Any
    ) -> Result:
        """Give ``compute(*arguments, **options)``, without computing it if it is known."""

    @abstractmethod
    def slot(self, name: str) -> AbstractSlot:
        """Give the place of a loop."""

    @abstractmethod
    def pass_slot(self, stamp: list[Any] | None) -> AbstractSlot:
        """Give the place of the first pass over data, if they can be known again by a stamp.

        Other slots want states of which nothing is changed later; this one does not.
        """

    @abstractmethod
    def of(
        self,
        covariance: AbstractCovariance,
        describe: Callable[[AbstractCovariance], Description],
    ) -> Self:
        """Say what is fitted, to see whether what is known belongs to it; give the context.

        `describe` does one product with the covariance, or with one that behaves like it.
        """

    @abstractmethod
    def watched(self, covariance: AbstractCovariance) -> AbstractCovariance:
        """Give the same covariance, whose products are kept if they take long."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave behind what a later fit needs to go on, if that is anything."""


class NoKeeper(AbstractKeeper):
    """Remembers nothing."""

    def once(
        self, name: str, compute: Callable[..., Result], *arguments: Any, **options: Any
    ) -> Result:
        """Compute."""
        return compute(*arguments, **options)

    def slot(self, name: str) -> AbstractSlot:
        """Give a place that keeps nothing."""
        return NoSlot()

    def pass_slot(self, stamp: list[Any] | None) -> AbstractSlot:
        """Give a place that keeps nothing."""
        return NoSlot()

    def of(
        self,
        covariance: AbstractCovariance,
        describe: Callable[[AbstractCovariance], Description],
    ) -> Self:
        """Do nothing."""
        return self

    def watched(self, covariance: AbstractCovariance) -> AbstractCovariance:
        """Give the covariance itself."""
        return covariance

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing."""
