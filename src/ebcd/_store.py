"""Keep a tree of plain values and NumPy arrays in one file, without pickle.

The file is a zip archive as `numpy.savez` writes it, with one more member, ``header.json``: the
tree, in which ``{"kind": "array", "name": ...}`` stands for an array. So other programs can read
the arrays (``numpy.load(path)["components_"]``), and people the header.

A tree consists of None, bool, int, float, str, NumPy arrays and scalars, and of lists, tuples and
dictionaries (with text as keys) of these. Other objects pass through two hooks, as in `json`.
"""

from __future__ import annotations

import json
import math
import os
import re
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

StrPath = str | os.PathLike[str]
Arrays = dict[str, np.ndarray]
Default = Callable[[Any], dict[str, Any] | None]
ObjectHook = Callable[[dict[str, Any]], Any]

_HEADER = "header.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # a fixed date: the same tree gives the same file
_OWN_KINDS = frozenset({"float", "scalar", "array", "objects", "tuple", "dict"})


class NotStorableError(TypeError):
    """A value that the file cannot hold, and the path to it in the tree."""

    def __init__(self, path: tuple[str, ...], value: Any) -> None:
        made = type(value)
        super().__init__(f"{'/'.join(path)} holds a {made.__name__} of {made.__module__}")
        self.path, self.value = path, value


def write(path: StrPath, tree: Any, *, default: Default | None = None, root: str = "") -> None:
    """Write a tree to a file, which is replaced in one step once the new one is complete.

    Parameters
    ----------
    path : path
    tree : object
    default : callable, optional
        Turns any other object into a dictionary, itself a tree, whose ``"kind"`` says what it is;
        None if it cannot.
    root : str
        Branch whose arrays are named without it, for whoever reads them with `numpy.load`.

    Raises
    ------
    NotStorableError
        If the tree holds anything else; then nothing is written.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from ebcd import _store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _store.write(f"{folder}/a.npz", {"name": "x", "values": (1.5, np.arange(3))})
    ...     _store.read(f"{folder}/a.npz")
    {'name': 'x', 'values': (1.5, array([0, 1, 2]))}
    """
    arrays: Arrays = {}
    header = json.dumps(_Encoder(arrays, default, root).encode(tree, ()), indent=1, allow_nan=False)
    with replacing(path) as handle, zipfile.ZipFile(handle, "w") as archive:
        with _member(archive, _HEADER) as member:
            member.write(header.encode())
        for name, array in arrays.items():
            with _member(archive, f"{name}.npy") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read(path: StrPath, *, object_hook: ObjectHook | None = None) -> Any:
    """Read a tree that `write` wrote. Nothing in the file is executed, whoever made it.

    Parameters
    ----------
    path : path
    object_hook : callable, optional
        Turns the dictionaries that `default` made back into objects.

    Raises
    ------
    ValueError
        If the file is damaged or of another kind; the message names it and says why.
    """
    with _opened(path) as archive:
        header = json.loads(archive.read(_HEADER))
        names = [name for name in archive.namelist() if name != _HEADER]
        arrays = {name.removesuffix(".npy"): _read_array(archive, name) for name in names}
        return _decode(header, arrays, object_hook)


def read_header(path: StrPath) -> Any:
    """Read only the JSON text of a file, in which arrays are references."""
    with _opened(path) as archive:
        return json.loads(archive.read(_HEADER))


@contextmanager
def replacing(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` once it is complete and on disk."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return archive.open(zipfile.ZipInfo(name, _EPOCH), "w", force_zip64=True)


@contextmanager
def _opened(path: StrPath) -> Iterator[zipfile.ZipFile]:
    """Open an archive; whatever is wrong inside is one ValueError."""
    with Path(path).open("rb") as handle:
        try:
            with zipfile.ZipFile(handle) as archive:
                # so no member is compressed, and none claims memory that its bytes do not fill
                claimed = sum(member.file_size for member in archive.infolist())
                if claimed > Path(path).stat().st_size:
                    raise ValueError("its members are larger than the file")
                yield archive
        except MemoryError:  # the bytes are there, but they are too many
            raise
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise ValueError(f"{path} is damaged or incomplete ({reason})") from error


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as member:
        version = np.lib.format.read_magic(member)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}
        shape, _, dtype = read[version[0]](member)
        if math.prod(shape) * dtype.itemsize != archive.getinfo(name).file_size - member.tell():
            raise ValueError(f"{name} is not as long as it claims")
        member.seek(0)
        array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
        return array


class _Encoder:
    """Turns a tree into JSON and collects its arrays."""

    def __init__(self, arrays: Arrays, default: Default | None, root: str) -> None:
        self._arrays, self._default, self._root = arrays, default, root

    def encode(self, value: Any, path: tuple[str, ...]) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if type(value) is list:
            return self._items(value, path)
        if type(value) is tuple:
            return {"kind": "tuple", "items": self._items(value, path)}
        if type(value) is dict and all(type(key) is str for key in value):
            items = self._fields(value, path)
            if "kind" in items:  # not to be taken for one of ours
                return {"kind": "dict", "keys": list(items), "items": list(items.values())}
            return items
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            return {"kind": "scalar", "name": self._add(np.asarray(value), path)}
        if type(value) in (np.ndarray, np.memmap):
            return self._array(value, path)
        fields = self._default(value) if self._default else None
        if fields is None:
            raise NotStorableError(path, value)
        return self._fields(fields, path)

    def _array(self, array: np.ndarray, path: tuple[str, ...]) -> dict[str, Any]:
        if array.dtype.hasobject:
            items = self._items(array.ravel().tolist(), path)
            return {"kind": "objects", "shape": list(array.shape), "items": items}
        return {"kind": "array", "name": self._add(np.asarray(array), path)}

    def _add(self, array: np.ndarray, path: tuple[str, ...]) -> str:
        parts = path[1:] if self._root and path[:1] == (self._root,) else path
        name = "/".join(re.sub(r"[^\w.-]", "_", part, flags=re.ASCII) for part in parts) or "array"
        while name in self._arrays:
            name += "_"
        self._arrays[name] = array
        return name

    def _items(self, values: Any, path: tuple[str, ...]) -> list[Any]:
        return [self.encode(value, (*path, str(i))) for i, value in enumerate(values)]

    def _fields(self, values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        return {key: self.encode(value, (*path, key)) for key, value in values.items()}


def _decode(value: Any, arrays: Arrays, hook: ObjectHook | None) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays, hook) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("kind")
    if kind not in _OWN_KINDS:
        fields = {key: _decode(item, arrays, hook) for key, item in value.items()}
        return hook(fields) if hook and kind is not None else fields
    if kind == "float":
        return float(value["value"])
    if kind == "array":
        return arrays[value["name"]]
    if kind == "scalar":
        return arrays[value["name"]][()]
    items = _decode(value["items"], arrays, hook)
    if kind == "tuple":
        return tuple(items)
    if kind == "dict":
        return dict(zip(value["keys"], items, strict=True))
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # one by one: an item may be a sequence
        array[i] = item
    return array.reshape(value["shape"])
