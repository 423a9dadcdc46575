"""States on disk: an npz file with a JSON header. Nothing in it is executed when it is read.

The header is a tree of plain values. Arrays are entries of the file to which the tree refers by
number, so that they come back bit by bit with their memory layout; priors are in it as the
dictionaries of `FittedPrior.to_dict`. JSON keeps every digit of floating-point numbers.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from ebcd._numerics import Array
from ebcd.fitting._loop import State
from ebcd.priors._fitted import FittedPrior

_FORMAT = "ebcd checkpoint 1"
_DAMAGED = (
    AttributeError,
    EOFError,
    KeyError,
    NotImplementedError,
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def write_archive(path: Path, temporary: Path, content: Any) -> None:
    """Write under a temporary name in the same folder, then put it in place in one step."""
    arrays: list[Array] = []
    header = json.dumps({"format": _FORMAT, "content": _encoded(content, arrays)})
    entries = {f"array_{i}": array for i, array in enumerate(arrays)}
    entries["header"] = np.frombuffer(header.encode(), dtype=np.uint8)
    try:
        with temporary.open("wb") as file:
            np.savez(file, **entries)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_archive(path: Path) -> Any:
    """Read what `write_archive` wrote; a ValueError says what is wrong with any other file."""
    if not zipfile.is_zipfile(path):
        raise ValueError("it is not a complete npz file")
    try:
        with np.load(path, allow_pickle=False) as stored:
            if "header" not in stored:
                raise ValueError("it has no header")
            header = json.loads(stored["header"].tobytes())
            if header["format"] != _FORMAT:
                raise ValueError(f"its format is {header['format']!r}, not {_FORMAT!r}")
            return _decoded(header["content"], stored)
    except _DAMAGED as error:
        raise ValueError(str(error)) from error


def _encoded(value: Any, arrays: list[Array]) -> Any:
    """Turn a value into plain ones, and append its arrays to the list."""
    if isinstance(value, np.ndarray | np.generic):
        arrays.append(np.asarray(value))
        return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, FittedPrior):
        return {"prior": value.to_dict()}
    if isinstance(value, State):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"state": _encoded(parts, arrays)}
    if isinstance(value, dict):
        return {"dict": {key: _encoded(part, arrays) for key, part in value.items()}}
    if isinstance(value, tuple | list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encoded(part, arrays) for part in value]}
    raise TypeError(f"no way to store a {type(value).__name__}")


def _decoded(tree: Any, stored: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        return stored[f"array_{content}"]
    if kind == "scalar":
        return stored[f"array_{content}"][()]
    if kind == "prior":
        return FittedPrior.from_dict(content)
    if kind == "state":
        return State(**_decoded(content, stored))
    if kind == "dict":
        return {key: _decoded(part, stored) for key, part in content.items()}
    parts = [_decoded(part, stored) for part in content]
    return tuple(parts) if kind == "tuple" else parts
