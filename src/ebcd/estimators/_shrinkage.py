"""What a method makes of loadings, in a form that all methods share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ebcd._numerics import Array


class Shrinkage(NamedTuple):
    """The shrinkage of one component, in the units of the data (of the scaled data if scaled)."""

    observed: Array  # what was shrunk last: loadings X'z / n for scores z of mean square one
    shrink: Callable[[Array], Array]  # from observed loadings to what the method makes of them
    noise: float | None = None  # standard deviation of that of observed loadings, if there is any
    result: str = "loading"  # what comes out
    alone: bool = True  # whether each is shrunk on its own; if not, all are given to `shrink`
