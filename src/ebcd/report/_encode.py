"""Numbers as decimals with few digits, packed so that a page with a million of them stays small.

A number is stored as a whole number of a few digits and a power of ten, so what the page shows and
exports is exactly the number rounded to that many significant digits. Bytes of equal rank are
stored together, which lets deflate compress the leading ones and the powers of ten.
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


class Block:
    """Numbers and texts packed one after another, with a table of contents."""

    def __init__(self) -> None:
        self.contents: dict[str, dict[str, Any]] = {}
        self._bytes = bytearray()

    def add_numbers(self, name: str, values: Array, digits: int) -> None:
        """Add an array of any shape, rounded to 4 or 7 significant digits."""
        whole, power = split_decimals(values, digits)
        self.contents[name] = {
            "start": len(self._bytes),
            "shape": list(values.shape),
            "width": _WIDTHS[digits].itemsize,
            "missing": 10**digits,
        }
        self._bytes += _planes(whole.astype(_WIDTHS[digits])) + _planes(power.astype(_POWER))

    def add_texts(self, name: str, texts: list[str]) -> None:
        """Add a list of texts."""
        data = json.dumps(texts, ensure_ascii=False).encode("utf-8", errors="replace")
        self.contents[name] = {"start": len(self._bytes), "length": len(data)}
        self._bytes += data

    def packed(self) -> str:
        """Return everything as text: deflated, in base 64."""
        data = zlib.compress(self._bytes, 7)  # 9 takes four times as long for 1 % less
        return base64.b64encode(data).decode("ascii")


def _planes(numbers: np.ndarray) -> bytes:
    """Return all lowest bytes, then all second ones, and so on."""
    return numbers.ravel().view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()


def split_decimals(values: Array, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Split numbers into integers of that many digits, one more if missing, and powers of ten."""
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
