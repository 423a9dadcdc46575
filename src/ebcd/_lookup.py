"""Errors for unknown names and options, with suggestions."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Mapping
from typing import Any


def unknown_name(kind: str, name: Any, known: Collection[str]) -> ValueError:
    """Make an error that suggests the closest known name and lists all of them."""
    lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(str(name).lower(), lower, n=1, cutoff=0.4)
    hint = f"; did you mean {lower[near[0]]!r}?" if near else "."
    return ValueError(f"unknown {kind} {name!r}{hint} Available: {', '.join(known)}")


def check_options(kind: str, name: str, made: type[Any], options: Mapping[str, Any]) -> None:
    """Refuse options that are not fields of the dataclass `made`."""
    known = [field.name for field in dataclasses.fields(made)]
    for option in options:
        if option not in known:
            has = f"its options are {', '.join(known)}" if known else "it has no options"
            raise ValueError(f"{kind} {name!r} has no option {option!r}; {has}")
