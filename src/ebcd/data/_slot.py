"""Where something that takes long leaves what it has so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any


class AbstractSlot(ABC):
    """Where a loop leaves its state at the beginning of every turn.

    Attributes
    ----------
    saved : object
        What was left here last when the loop was interrupted; None if it did not come here.
    """

    saved: Any = None

    @abstractmethod
    def offer(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Leave ``make(*arguments)``."""

    def finish(self, result: Any) -> None:  # noqa: B027 - most loops go on to something else
        """Leave what a pass over the data ended with; by default nobody needs it."""


class NoSlot(AbstractSlot):
    """Keeps nothing."""

    def offer(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Do nothing."""
