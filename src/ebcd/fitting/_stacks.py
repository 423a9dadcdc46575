"""Many starts as one object: arrays whose first axis is the start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Stack:
    """Arrays with one entry for each start along the first axis; parts may be stacks, or None."""

    def take(self, index: Any) -> Self:
        """Return some of the starts."""
        return type(self)(*(_taken(part, index) for part in vars(self).values()))

    def put(self, index: Any, other: Self) -> None:
        """Overwrite some of the starts by those of another stack, in place."""
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            if isinstance(mine, Stack):
                mine.put(index, theirs)
            elif mine is not None and theirs is not None:
                mine[index] = theirs[index]

    @classmethod
    def together(cls, stacks: list[Self]) -> Self:
        """Join stacks of the same kind."""
        return cls(*map(_joined, zip(*(vars(stack).values() for stack in stacks), strict=True)))


def _taken(part: Any, index: Any) -> Any:
    if part is None:
        return None
    return part.take(index) if isinstance(part, Stack) else part[index]


def _joined(parts: tuple[Any, ...]) -> Any:
    if parts[0] is None:
        return None
    kind = type(parts[0])
    return kind.together(list(parts)) if issubclass(kind, Stack) else np.concatenate(parts)
