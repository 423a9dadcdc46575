"""Numbers as decimals with few digits, packed so that a page with a million of them stays small.

A number is a whole number of a few digits and a power of ten, so what the page shows and downloads
is exactly the number rounded to that many significant digits. The bytes of equal rank lie
together, which lets deflate pack the leading ones and the powers of ten.
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
_LOWEST = -290  # power of ten below which a number is taken for 0


class Block:
    """Numbers and texts packed one behind the other, with a table of contents."""

    def __init__(self) -> None:
        self.contents: dict[str, dict[str, Any]] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add_numbers(self, name: str, values: Array, digits: int) -> None:
        """Add an array of any shape, rounded to 4 or 7 significant digits."""
        whole, power = split_decimals(values, digits)
        width = _WIDTHS[digits]
        start = self._add(_planes(whole.astype(width)) + _planes(power.astype(_POWER)))
        self.contents[name] = {
            "start": start,
            "shape": list(values.shape),
            "width": width.itemsize,
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
        """Give everything as text: deflated, base 64."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 9)).decode("ascii")


def _planes(numbers: np.ndarray) -> bytes:
    """Give all lowest bytes, then all second ones, and so on."""
    return numbers.ravel().view(np.uint8).reshape(-1, numbers.itemsize).T.tobytes()


def split_decimals(values: Array, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """Give whole numbers of so many digits and powers of ten, so that their product is `values`.

    Values that are not finite become the whole number ``10**digits``, which the page shows as
    missing.

    Examples
    --------
    >>> import numpy as np
    >>> from ebcd.report._encode import split_decimals
    >>> split_decimals(np.array([0.0, -0.00123456, 99999.0]), 4)
    (array([    0, -1235,  1000]), array([ 0, -6,  2]))
    """
    values = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(values)
    size = np.abs(np.where(finite, values, 0.0))
    tiny = size < 10.0**_LOWEST
    power = np.floor(np.log10(np.where(tiny, 1.0, size))) - (digits - 1)
    # a power of ten is exact up to 22, so that this rounds once
    up, down = 10.0 ** np.maximum(-power, 0.0), 10.0 ** np.maximum(power, 0.0)
    whole = np.round(np.where(tiny, 0.0, size) * up / down)
    carried = whole >= 10.0**digits
    whole, power = np.where(carried, 10.0 ** (digits - 1), whole), power + carried
    signed = np.where(finite, np.copysign(whole, values), 10.0**digits)
    return signed.astype(np.int64), np.where(tiny, 0, power).astype(np.int64)
