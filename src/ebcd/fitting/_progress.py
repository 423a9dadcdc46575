"""What a fit tells on its way."""

from __future__ import annotations

from ebcd.fitting._loop import State


class Printer:
    """Print a line for every iteration, with the ELBO in the units of the data."""

    def __init__(self, value: float, shift: float) -> None:
        self._value, self._shift = value, shift

    def __call__(self, iteration: int, state: State, seconds: float) -> None:
        change, self._value = state.value - self._value, state.value
        print(  # noqa: T201 - asked for by verbose
            f"iteration {iteration:5d}   ELBO {state.value - self._shift:16.4f}   "
            f"change {change:10.2e}   {len(state.components)} components   {seconds:7.2f} s"
        )
