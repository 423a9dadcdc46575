"""What a method makes of loadings, in a form that all methods share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ebcd._numerics import Array


class Shrinkage(NamedTuple):
    """The shrinkage of one component, in the units of the data (of the scaled data if scaled).

    Attributes
    ----------
    observed : array of length p
        What was shrunk last: loadings ``X'z / n`` for scores ``z`` of mean square one.
    shrink : callable
        From observed loadings (array) to what the method makes of them.
    noise : float, optional
        Standard deviation of the noise of observed loadings, if the method has one.
    result : str
        What comes out.
    alone : bool
        Whether each is shrunk on its own. If not, `shrink` takes all that were observed.
    """

    observed: Array
    shrink: Callable[[Array], Array]
    noise: float | None = None
    result: str = "loading"
    alone: bool = True
