"""Every penalty by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ebcd._lookup import check_options, unknown_name
from ebcd._parameters import shown
from ebcd.penalties._concave import L0, MCP, SCAD
from ebcd.penalties._convex import L1, ElasticNet, NonNegative, NoPenalty
from ebcd.penalties._penalty import AbstractPenalty, CustomPenalty

_PREFIX = "nonnegative_"


def _nonnegative(made: type[AbstractPenalty], **options: Any) -> AbstractPenalty:
    return NonNegative(made(**options))


PENALTIES: dict[str, Callable[..., AbstractPenalty]] = {
    made.name: made for made in (NoPenalty, L1, L0, ElasticNet, SCAD, MCP, NonNegative)
} | {_PREFIX + made.name: partial(_nonnegative, made) for made in (L1, L0, ElasticNet, SCAD, MCP)}


def make_penalty(name: str, **options: Any) -> AbstractPenalty:
    """Make a penalty by its name.

    Parameters
    ----------
    name : str
        One of `PENALTIES`.
    **options
        Options of that penalty, for example ``gamma`` of ``scad``.

    Examples
    --------
    >>> from ebcd.penalties import make_penalty
    >>> make_penalty("scad", gamma=4.0)
    SCAD(gamma=4.0)
    >>> make_penalty("nonnegative_l1")
    NonNegative(penalty=L1())
    """
    if name not in PENALTIES:
        raise unknown_name("penalty", name, PENALTIES)
    made: Any = PENALTIES[name.removeprefix(_PREFIX)]
    check_options("penalty", name, made, options)
    return PENALTIES[name](**options)


def as_penalty(penalty: Any) -> AbstractPenalty:
    """Return a penalty, from its name, itself, or any object with `value` and `prox`."""
    if isinstance(penalty, str):
        return make_penalty(penalty)
    if isinstance(penalty, AbstractPenalty):
        return penalty
    if isinstance(penalty, type):
        raise TypeError(
            f"penalty must be an object, not a class; use {penalty.__name__}() in place of "
            f"{penalty.__name__}"
        )
    if not (callable(getattr(penalty, "value", None)) and callable(getattr(penalty, "prox", None))):
        raise TypeError(
            "penalty must be a name or an object with methods value(v) and prox(v, step), got "
            f"{shown(penalty)}; names are {', '.join(PENALTIES)}"
        )
    return CustomPenalty(penalty)
