"""Every penalty by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ebcd._lookup import check_options, unknown_name
from ebcd._parameters import shown
from ebcd.penalties._concave import L0, MCP, SCAD
from ebcd.penalties._convex import L1, ElasticNet, NoPenalty
from ebcd.penalties._nonnegative import NonNegative
from ebcd.penalties._penalty import AbstractPenalty, OwnPenalty

_PLAIN: tuple[type[AbstractPenalty], ...] = (NoPenalty, L1, L0, ElasticNet, SCAD, MCP)


def _maker(name: str, made: type[AbstractPenalty]) -> Callable[..., AbstractPenalty]:
    def make(**options: Any) -> AbstractPenalty:
        check_options("penalty", name, made, options)
        return made(**options)

    return make


def _nonnegative_maker(name: str, made: type[AbstractPenalty]) -> Callable[..., AbstractPenalty]:
    plain = _maker(name, made)
    return lambda **options: NonNegative(plain(**options))


PENALTIES: Mapping[str, Callable[..., AbstractPenalty]] = MappingProxyType(
    {made.name: _maker(made.name, made) for made in _PLAIN}
    | {"nonnegative": _maker("nonnegative", NonNegative)}
    | {
        f"nonnegative_{made.name}": _nonnegative_maker(f"nonnegative_{made.name}", made)
        for made in _PLAIN[1:]
    }
)


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
    return PENALTIES[name](**options)


def as_penalty(penalty: Any) -> AbstractPenalty:
    """Take a name, a penalty, or any object with `value` and `prox`."""
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
    return OwnPenalty(penalty)
