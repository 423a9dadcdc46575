"""Time, asked for in one place, so that tests can put a clock of their own here."""

from __future__ import annotations

import math
import time


def now() -> float:
    """Seconds since some moment; never runs backwards."""
    return time.monotonic()


class Deadline:
    """A moment some seconds from now, or none."""

    def __init__(self, seconds: float | None = None) -> None:
        self._end = math.inf if seconds is None else now() + seconds

    def passed(self) -> bool:
        """Tell whether the moment has come."""
        return self._end < math.inf and now() >= self._end
