"""Keep a tree of plain values and NumPy arrays in one file, without pickle.

The file is a zip archive as `numpy.savez` writes it, with one more member, ``header.json``: the
tree, in which ``{"kind": "array", "name": ...}`` stands for an array. Other programs can read the
arrays (``numpy.load(path)["components_"]``), and people can read the header.

A tree consists of None, bool, int, float, str, NumPy arrays and scalars, and of lists, tuples and
dictionaries (with text as keys) of these. Other objects pass through two hooks, as in `json`.
"""

from __future__ import annotations

import glob
import json
import math
import os
import re
import uuid
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # pragma: no cover - elsewhere than on Unix
    fcntl = None  # type: ignore[assignment]

StrPath = str | os.PathLike[str]
Arrays = dict[str, np.ndarray]
Default = Callable[[Any], dict[str, Any] | None]
ObjectHook = Callable[[dict[str, Any]], Any]

_HEADER = "header.json"


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
        If it holds anything that cannot be stored, a `NotStorableError` is raised and nothing is
        written.
    default : callable, optional
        Turns any other object into a dictionary, itself a tree, whose ``"kind"`` says what it is,
        or into None if it cannot.
    root : str
        Branch whose arrays are named without it, for readers that use `numpy.load`.
    """
    arrays: Arrays = {}
    header = json.dumps(_Encoder(arrays, default, root).encode(tree, ()), indent=1, allow_nan=False)
    with replacing(path) as handle, zipfile.ZipFile(handle, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), header)
        for name, array in arrays.items():  # all dated 1980, so that equal trees make equal files
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def read(path: StrPath, *, object_hook: ObjectHook | None = None) -> Any:
    """Read a tree that `write` wrote; nothing in the file is executed, whoever made it.

    The hook turns the dictionaries that `default` made back into objects. A file that is damaged,
    or of another kind, is a ValueError that names it and says why.
    """
    with _opened(path) as archive:
        header = _read_json(archive, path)
        names = [name for name in archive.namelist() if name != _HEADER]
        arrays = {name.removesuffix(".npy"): _read_array(archive, name, path) for name in names}
    try:
        return _decode(header, arrays, object_hook)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, error) from error


def read_header(path: StrPath) -> Any:
    """Read only the JSON text of a file, in which arrays are references."""
    with _opened(path) as archive:
        return _read_json(archive, path)


@contextmanager
def replacing(path: StrPath) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` once it is complete and on disk."""
    target = Path(os.path.realpath(path))  # a link stays a link
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; add the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; create it first")
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(OSError), left.open("rb") as handle:
            if holds(handle):  # whoever wrote it was killed
                left.unlink()
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as handle:
            holds(handle)
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(target)
        sync(target.parent)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def holds(handle: IO[bytes]) -> bool | None:
    """Lock an open file until it is closed; return whether nobody else has, None if unknown."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (AttributeError, OSError):  # the system, or this file system, has no locks
        return None
    return True


def sync(path: Path) -> None:
    """Make sure that a file, or the names in a folder, survive if the machine loses power."""
    with suppress(OSError):  # folders cannot be opened everywhere
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextmanager
def _opened(path: StrPath) -> Iterator[zipfile.ZipFile]:
    with Path(path).open("rb") as handle:
        with _guarded(path):
            archive = zipfile.ZipFile(handle)
        with archive:
            # members are not compressed, so none may claim more memory than its bytes fill
            claimed = sum(member.file_size for member in archive.infolist())
            if claimed > Path(path).stat().st_size:
                raise _damaged(path, "its members are larger than the file")
            yield archive


@contextmanager
def _guarded(path: StrPath) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one ValueError."""
    try:
        yield
    except MemoryError:  # the bytes are there, but they are too many
        raise
    except Exception as error:
        raise _damaged(path, error) from error


def _damaged(path: StrPath, why: object) -> ValueError:
    reason = next(iter(str(why).splitlines()), type(why).__name__)
    return ValueError(f"{path} is damaged or incomplete ({reason})")


def _read_json(archive: zipfile.ZipFile, path: StrPath) -> Any:
    with _guarded(path):
        return json.loads(archive.read(_HEADER))


def _read_array(archive: zipfile.ZipFile, name: str, path: StrPath) -> np.ndarray:
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    with _guarded(path), archive.open(name) as member, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python, on what a damaged header looks like
        shape, _, dtype = read[np.lib.format.read_magic(member)](member)
        length = archive.getinfo(name).file_size - member.tell()
    size = sum(member.file_size for member in archive.infolist())
    if max(shape, default=0) > size:  # only if it is empty: otherwise the file is as long
        raise _damaged(path, f"{name} claims the shape {shape}, longer than all of the file")
    if math.prod(shape) * dtype.itemsize != length:
        raise _damaged(path, f"{name} is not as long as it claims")
    with _guarded(path), archive.open(name) as member:
        array: np.ndarray = np.lib.format.read_array(member, allow_pickle=False)
    return array


class _Encoder:
    """Turns a tree into JSON and collects its arrays."""

    def __init__(self, arrays: Arrays, default: Default | None, root: str) -> None:
        self._arrays, self._default, self._root = arrays, default, root

    def encode(self, value: Any, path: tuple[str, ...]) -> Any:
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if kind is list:
            return [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
        if kind is tuple:
            return {"kind": "tuple", "items": self.encode(list(value), path)}
        if kind is dict and all(type(key) is str for key in value):
            items = self._fields(value, path)
            if "kind" not in items:
                return items
            # not to be taken for one of ours
            return {"kind": "dict", "keys": list(items), "items": list(items.values())}
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            return {"kind": "scalar", "name": self._add(value, path)}
        if kind in (np.ndarray, np.memmap):
            if not value.dtype.hasobject:
                return {"kind": "array", "name": self._add(value, path)}
            items = self.encode(value.ravel().tolist(), path)
            return {"kind": "objects", "shape": list(value.shape), "items": items}
        fields = self._default(value) if self._default else None
        if fields is None:
            raise NotStorableError(path, value)
        return self._fields(fields, path)

    def _fields(self, values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        return {key: self.encode(item, (*path, key)) for key, item in values.items()}

    def _add(self, array: Any, path: tuple[str, ...]) -> str:
        parts = path[1:] if self._root and path[:1] == (self._root,) else path
        name = "/".join(re.sub(r"[^\w.-]", "_", part, flags=re.ASCII) for part in parts) or "array"
        while name in self._arrays:
            name += "_"
        self._arrays[name] = np.asarray(array)
        return name


def _decode(value: Any, arrays: Arrays, hook: ObjectHook | None) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays, hook) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _decode(item, arrays, hook) for key, item in value.items()}
    match fields:
        case {"kind": "float", "value": str(text)}:
            return float(text)
        case {"kind": "array", "name": str(name)} if name in arrays:
            return arrays[name]
        case {"kind": "scalar", "name": str(name)} if name in arrays:
            return arrays[name][()]
        case {"kind": "tuple", "items": list(items)}:
            return tuple(items)
        case {"kind": "dict", "keys": list(keys), "items": list(items)} if _all(str, keys):
            return dict(zip(keys, items, strict=True))
        case {"kind": "objects", "shape": list(shape), "items": list(items)} if _all(int, shape):
            array = np.empty(len(items), dtype=object)
            for i, item in enumerate(items):  # one by one: an item may be a sequence
                array[i] = item
            return array.reshape(shape)
        case {"kind": kind}:
            if hook is None:
                raise ValueError(f"unknown kind of value: {kind}")
            return hook(fields)
    return fields


def _all(kind: type, items: list[Any]) -> bool:
    return all(type(item) is kind for item in items)
