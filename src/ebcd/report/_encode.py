"""Numbers as decimals with few digits, packed so that a page with a million of them stays small.

A number is stored as a whole number of a few digits and a power of ten, so what the page shows and
exports is exactly the number rounded to that many significant digits. Bytes of equal rank are
stored together, which lets deflate compress the leading ones and the powers of ten.

Uncertainties are nearly functions of other numbers on the page: sorted by those, they hardly
change from one to the next. A table may be stored as such small steps; the page recovers the order
from the numbers that it has read before.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import numpy as np

from ebcd._numerics import Array

_WIDTHS: dict[int, np.dtype[Any]] = {4: np.dtype("<i2"), 7: np.dtype("<i4")}
_POWER = np.dtype("<i2")
_POWERS = np.array([float(f"1e{power}") for power in range(309)])  # the doubles that JavaScript has


class Block:
    """Numbers and texts packed one after another, with a table of contents."""

    def __init__(self) -> None:
        self.contents: dict[str, dict[str, Any]] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add_numbers(self, name: str, values: Array, digits: int) -> None:
        """Add an array of any shape, rounded to 4 or 7 significant digits."""
        self._add_table(name, _packed(*split_decimals(values, digits), digits), values, digits)

    def add_steps(self, name: str, values: Array, order: np.ndarray, by: list[str]) -> None:
        """Add rows of numbers with 4 digits as steps in `order`, the `order_of` the tables `by`.

        They are added without steps if that takes less room.
        """
        decimals = split_decimals(values, 4)
        steps = (_steps(np.take_along_axis(part, order, 1)) for part in decimals)
        data, plain = b"".join(map(_planes, steps)), _packed(*decimals, 4)
        pays = len(zlib.compress(data, 1)) < len(zlib.compress(plain, 1))
        self._add_table(name, data if pays else plain, values, 4)
        if pays:
            self.contents[name]["by"] = by

    def _add_table(self, name: str, data: bytes, values: Array, digits: int) -> None:
        self.contents[name] = {
            "start": self._add(data),
            "shape": list(values.shape),
            "width": _WIDTHS[digits].itemsize,
            "missing": 10**digits,
        }

    def add_texts(self, name: str, texts: list[str]) -> None:
        """Add a list of texts."""
        data = json.dumps(texts, ensure_ascii=False).encode("utf-8", errors="replace")
        self.contents[name] = {"start": self._add(data), "length": len(data)}

    def _add(self, data: bytes) -> int:
        start = self._size
        self._parts.append(data)
        self._size += len(data)
        return start

    def packed(self) -> str:
        """Return everything as text: deflated, in base 64."""
        data = zlib.compress(b"".join(self._parts), 7)  # 9 takes four times as long for 1 % less
        return base64.b64encode(data).decode("ascii")


def _packed(whole: np.ndarray, power: np.ndarray, digits: int) -> bytes:
    return _planes(whole.astype(_WIDTHS[digits])) + _planes(power.astype(_POWER))


def _planes(numbers: np.ndarray) -> bytes:
    """Return all lowest bytes, then all second ones, and so on."""
    return numbers.ravel().view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()


def _steps(rows: np.ndarray) -> np.ndarray:
    """Return the steps along each row; small ones of either sign become small whole numbers."""
    step = np.diff(rows, axis=1, prepend=0)
    return np.where(step < 0, -2 * step - 1, 2 * step).astype("<u2")


def order_of(values: Array, divisor: Array | None = None) -> np.ndarray:
    """Sort the numbers in each row, or their ratios, as the page reads them (with 4 digits).

    The page sorts again in JavaScript, so only operations that yield the same bits there are used.
    """
    ratio = _read(values)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if divisor is not None:
            ratio = ratio / _read(divisor)
        key = np.where(np.isnan(ratio) | (ratio == 0), 0.0, ratio).astype(np.float32)
    return np.argsort(key, axis=1, kind="stable")


def _read(values: Array) -> Array:
    whole, power = split_decimals(values, 4)
    size = _POWERS[np.abs(power)]
    return np.where(np.isfinite(values), np.where(power < 0, whole / size, whole * size), np.nan)


def split_decimals(values: Array, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Split `values` into integers with that many digits and powers of ten.

    Values that are not finite become the integer ``10**digits``, shown as missing.
    """
    values = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(values)
    size = np.abs(np.where(finite, values, 0.0))
    tiny = size < 1e-290  # counts as 0, so that powers of ten stay in range
    power = np.floor(np.log10(np.where(tiny, 1.0, size))) - (digits - 1)
    # a power of ten is exact up to 22, so that this rounds once
    up, down = 10.0 ** np.maximum(-power, 0.0), 10.0 ** np.maximum(power, 0.0)
    whole = np.round(np.where(tiny, 0.0, size) * up / down)
    carried = whole >= 10.0**digits
    whole, power = np.where(carried, 10.0 ** (digits - 1), whole), power + carried
    signed = np.where(finite, np.copysign(whole, values), 10.0**digits)
    return signed.astype(np.int64), np.where(tiny, 0, power).astype(np.int64)
