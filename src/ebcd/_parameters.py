"""Declared parameters: what each may be, checked before any work, with consistent messages.

For example ``{"n_components": integer(1) | choice("auto"), "scale": FLAG}``.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import reprlib
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Constraint:
    """Values that a parameter may have; ``a | b`` allows what either of the two allows.

    Attributes
    ----------
    allowed : tuple of str
        The alternatives, each as a phrase that follows "must be".
    has_type : callable
        Whether a value has a suitable type; if not, `check` raises a TypeError.
    in_range : callable
        Whether a value of a suitable type is allowed; if not, `check` raises a ValueError.
    """

    allowed: tuple[str, ...]
    has_type: Callable[[Any], bool]
    in_range: Callable[[Any], bool] = lambda value: True

    def accepts(self, value: Any) -> bool:
        """Whether a value is allowed."""
        return self.has_type(value) and self.in_range(value)

    def __or__(self, other: Constraint) -> Constraint:
        return Constraint(
            self.allowed + other.allowed,
            lambda value: self.has_type(value) or other.has_type(value),
            lambda value: self.accepts(value) or other.accepts(value),
        )

    def check(self, name: str, value: Any) -> None:
        """Raise an error that says what is allowed if the value is not."""
        if self.accepts(value):
            return
        *first, last = self.allowed
        message = f"{name} must be {', '.join(first)}{' or ' if first else ''}{last}, got "
        if self.has_type(value):
            raise ValueError(message + shown(value))
        raise TypeError(f"{message}{shown(value)} ({type(value).__name__})")


@dataclass(frozen=True)
class Parsed:
    """A parameter that is checked by the function that parses it, with errors of its own."""

    parse: Callable[[Any], Any]

    def check(self, name: str, value: Any) -> None:
        """Raise what the function raises, preceded by the name of the parameter."""
        try:
            self.parse(value)
        except (TypeError, ValueError) as error:
            if name in str(error).split()[:2]:  # as in "unknown prior 'x'"
                raise
            raise type(error)(f"{name}: {error}") from None


def check_parameters(
    values: Mapping[str, Any], declared: Mapping[str, Constraint | Parsed]
) -> None:
    """Check every value against what is declared for its parameter."""
    for name, value in values.items():
        declared[name].check(name, value)


# Characters that terminals obey, that turn text around, or that neither XML nor UTF-8 can hold.
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    """Return text with a question mark in place of control characters, to print and to draw."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def shown(value: Any) -> str:
    """Format any value so that it fits into a line of an error message."""
    if isinstance(value, np.ndarray) and value.size > 3:
        return f"an array of shape {value.shape}"
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    return " ".join(short.repr(value).split())


def is_integer(value: Any) -> bool:
    """Whether a value is an integer of Python or NumPy, and not a boolean."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond floating point
        return False


def _is_numeric_array(value: Any) -> bool:
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # ragged, or not an array at all
        return False
    return array.ndim > 0 and array.dtype.kind in "iuf"


def integer(low: int, high: int | None = None) -> Constraint:
    """Allow integers of at least `low` and at most `high`, but not booleans."""
    words = f"of at least {low}" if high is None else f"from {low} to {high}"
    most = sys.maxsize if high is None else high
    return Constraint((f"an integer {words}",), is_integer, lambda value: low <= value <= most)


def real(words: str, holds: Callable[[float], bool] = lambda value: True) -> Constraint:
    """Allow finite real numbers that meet a condition, which `words` describe."""
    return Constraint(
        (words,),
        lambda value: is_integer(value) or isinstance(value, float | np.float32 | np.float16),
        lambda value: _is_finite(value) and holds(float(value)),
    )


def list_of(words: str, one: Constraint) -> Constraint:
    """Allow a non-empty list or array of numbers that all satisfy a constraint."""

    def in_range(value: Any) -> bool:
        array = np.asarray(value)
        return array.ndim == 1 and array.size > 0 and all(map(one.accepts, array.tolist()))

    return Constraint((f"a list of {words}",), _is_numeric_array, in_range)


def or_list(one: Constraint) -> Constraint:
    """Allow a number that satisfies a constraint, or a list of such numbers."""
    return one | list_of("such numbers", one)


def choice(*names: str) -> Constraint:
    """Allow one of several names."""
    allowed = tuple(f'"{name}"' for name in names)
    return Constraint(allowed, lambda value: isinstance(value, str), lambda value: value in names)


def instance(words: str, *types: type) -> Constraint:
    """Allow objects of given types."""
    return Constraint((words,), lambda value: isinstance(value, types))


NONE = instance("None", type(None))
FLAG = Constraint(("True", "False"), lambda value: isinstance(value, bool | np.bool_))
COUNT = integer(1)
# More than this is a typing error, which would run forever or exhaust the memory.
_MOST, MOST_TRIALS = np.iinfo(np.int32).max, 10_000
MAX_ITER, N_DRAWS, N_TRIALS = integer(1, _MOST), integer(0, _MOST), integer(1, MOST_TRIALS)
NON_NEGATIVE = real("a number of at least 0", lambda value: value >= 0)
POSITIVE = real("a number above 0", lambda value: value > 0)
PROBABILITY = real("a number above 0 and below 1", lambda value: 0 < value < 1)
N_JOBS = (
    Constraint(
        ("an integer other than 0, up to 2147483647",),
        is_integer,
        lambda value: bool(value) and abs(int(value)) <= _MOST,
    )
    | NONE
)
VERBOSE = FLAG | integer(0)
LOADINGS = Constraint(
    ("an array of finite loadings of shape (n_features, n_components)",),
    _is_numeric_array,
    lambda value: np.ndim(value) == 2 and bool(np.isfinite(np.asarray(value)).all()),
)
RANDOM_STATE = (
    # of any size: NumPy recommends seeds of 128 bits
    Constraint(("an integer of at least 0",), is_integer, lambda value: value >= 0)
    | instance("a NumPy generator", np.random.Generator, np.random.RandomState)
    | instance("a SeedSequence", np.random.SeedSequence, np.random.BitGenerator)
    | NONE
)


def check_path(checkpoint: Any) -> None:
    """Refuse what is not the path of a file that can be written, or None."""
    (instance("the path of a file", str, os.PathLike) | NONE).check("checkpoint", checkpoint)
    if checkpoint is None:
        return
    path = Path(checkpoint)
    try:
        path.stat()
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:  # too long a name, or characters that none can have
        raise ValueError(f"{shown(str(path))} is not a path: {error}") from None
    folder = str(path.parent)
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; pass the path of a file in it")
    if path.exists() and not path.is_file():  # a device would be put out of its place
        raise ValueError(f"{str(path)!r} is not a regular file; pass another path")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {folder!r} does not exist; create it first")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"the folder {folder!r} is not writable; pass a path in another folder")


def as_generator(random_state: Any, default: int | None = None) -> np.random.Generator:
    """Return a random generator for a `random_state`; None means the seed `default`."""
    RANDOM_STATE.check("random_state", random_state)
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(2**31)
    return np.random.default_rng(default if random_state is None else random_state)


def check_length(name: str, value: Any, n_components: int) -> None:
    """Refuse a list that does not have one entry for each component."""
    if np.ndim(value) and len(value) != n_components:
        raise ValueError(
            f"{name} must be one number or a list with one for each component, got {len(value)} "
            f"numbers for n_components={n_components}"
        )


def check_n_components(n_components: int | str, n_samples: int, n_features: int) -> None:
    """Refuse more components than the data allow; names of rules that count them will do."""
    most = min(n_samples, n_features)
    if not isinstance(n_components, str) and n_components > most:
        raise ValueError(
            f"n_components must be at most {most}, the smaller of {n_samples} samples and "
            f"{n_features} features, got {n_components}"
        )


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
