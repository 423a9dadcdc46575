"""How much memory a fit may take, and what it needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ebcd._parameters import NONE, Constraint, real
from ebcd.data import _settings

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)(I?)B?\s*")
# What fits were seen to take: arrays that are p long, small ones, and matrices that are p x p.
_COLUMNS = 200
_COLUMNS_PER_COMPONENT = 36
_FIXED = 12_000_000
_MATRICES = 3
_AUTOMATIC = 20  # components that are looked at first if their number is not given
_COPIES = 3  # of a chunk: as it was read, as numbers, and what a product makes of it


@dataclass(frozen=True)
class Memory:
    """Memory that a fit may take beside the data that it was given.

    Attributes
    ----------
    limit : int or None
        In bytes; None if nothing was said.
    n_components : int or None
        Number of components, if it is known.
    """

    limit: int | None = None
    n_components: int | None = None

    def needed(self, n_features: int, matrix: bool) -> int:
        """Bytes that a fit takes with chunks of one row, with a covariance matrix or without."""
        k = min(self.n_components or _AUTOMATIC, n_features)
        columns = _COPIES + min(_COLUMNS + _COLUMNS_PER_COMPONENT * k, 12 * n_features)
        return _FIXED + 8 * n_features * (columns + (_MATRICES * n_features if matrix else 0))

    def has_room_for_matrix(self, n_features: int) -> bool:
        """Whether a covariance matrix fits in."""
        return self.limit is None or self.needed(n_features, True) <= self.limit

    def chunk_bytes(self, n_features: int, matrix: bool) -> int:
        """Bytes of data to read at once, beside a covariance matrix or without one.

        Raises
        ------
        ValueError
            If not even a row fits in.
        """
        row = 8 * n_features
        # what is p x p or p x k is passed over for every chunk, so that a few rows are not enough
        settings = _settings.SETTINGS
        wanted = max(settings.read, row * (n_features // 4 if matrix else settings.fewest_rows))
        if self.limit is None:
            return wanted
        needed = self.needed(n_features, matrix)
        if needed > self.limit:
            raise ValueError(
                f"max_memory is {readable(self.limit)}, but a fit of {n_features} features "
                f"needs at least {readable(needed)}, however small the chunks; raise max_memory, "
                "or use fewer components or features"
            )
        return min(wanted, row + (self.limit - needed) // _COPIES)


def check_memory(value: Any) -> int | None:
    """Return a number of bytes for a number or a text such as "500MB"; None stays None."""
    _MEMORY.check("max_memory", value)
    return None if value is None else _bytes(value)


def _bytes(value: Any) -> int:
    if not isinstance(value, str):
        return int(value)
    match = _SIZE.fullmatch(value.upper())
    if match is None:
        return 0
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _UNITS[unit])


_MEMORY = (
    real("a number of bytes above 0", lambda value: value > 0)
    | Constraint(
        ('a text such as "500MB"',),
        lambda value: isinstance(value, str),
        lambda value: _bytes(value) > 0,
    )
    | NONE
)


def readable(size: float) -> str:
    """Write a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
