"""How far a pass over the data has come, for people who wait."""

from __future__ import annotations

import time
from collections.abc import Callable

_INTERVAL = 2.0  # seconds between lines


class Progress:
    """Print how many rows a pass has read, and how long it will still take.

    Parameters
    ----------
    verbose : bool
        Whether to print at all.
    clock : callable
        Seconds; replaced in tests.
    """

    def __init__(self, verbose: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._verbose, self._clock = verbose, clock
        self._passes = 0

    def begin(self, n_rows: int | None, done: int = 0) -> None:
        """Begin a pass over so many rows, if the number is known, some of which are done."""
        self._n_rows, self._passes, self._done = n_rows, self._passes + 1, done
        self._began = self._last = self._clock()

    def read(self, rows: int) -> None:
        """Say that so many rows have been read in this pass."""
        now = self._clock()
        if not self._verbose or now - self._last < _INTERVAL:
            return
        self._last = now
        seconds, share, left = now - self._began, "", ""
        if self._n_rows:
            share = f" of {self._n_rows:,} ({100 * rows / self._n_rows:.0f}%)"
            left = f", {seconds * (self._n_rows - rows) / (rows - self._done):.0f} s left"
        print(  # noqa: T201 - asked for by verbose
            f"pass {self._passes}: {rows:,} rows{share} in {seconds:.0f} s{left}"
        )
