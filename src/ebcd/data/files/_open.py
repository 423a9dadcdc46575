"""Open a data file: undo its compression and recognize its format by its first bytes."""

from __future__ import annotations

import bz2
import contextlib
import difflib
import gzip
import io
import lzma
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from ebcd.data import _settings
from ebcd.data._rows import check_memory, readable

_FORMATS = {
    b"PAR1": "Parquet",
    b"\x93NUMPY": "NPY",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"%%MatrixMarket": "Matrix Market",
    b"\xd0\xcf\x11\xe0": "Excel",
}
_FOREIGN = {
    (b"RDX", b"X\n\x00\x00"): "an R data file; write it with write.csv in R",
    (b"\x80\x04", b"\x80\x05"): (
        "a pickle, which could run any code; save it as NPY, CSV or Parquet"
    ),
    (b"%PDF",): "a PDF document; a table of numbers is needed",
    (b"<!DOCTYPE", b"<html"): "a web page; download the file that it links to",
    (b"{",): "JSON; save it as CSV, with a row for each sample",
}
# What a file may unpack to: so much if it is small, and otherwise so many times its size. Tables
# rarely shrink by more; files that are made to fill the memory shrink by a thousand.
_EXPANDED, _RATIO = "1GB", 20
_LAYERS = 3  # of compression that somebody may have put around a table
_WORKBOOKS = ("xl/workbook.xml", "xl/workbook.bin", "content.xml")  # members of Excel and ODS files


# A child may take so many bytes, and so many times what its file unpacks to: cells are objects
# there, and then text again. Elsewhere than on Linux memory has no limits.
_CHILD = 150_000_000
_WITHIN = """
import contextlib
with contextlib.suppress(ImportError, OSError, IndexError, ValueError):
    import resource
    taken = 1024 * int(open("/proc/self/status").read().split("VmData:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_DATA, (taken + {0}, taken + {0}))
"""


class FileError(ValueError):
    """A file that cannot be used; the message names it and says why."""


@contextlib.contextmanager
def needs(package: str, what: str, extra: str = "io") -> Iterator[None]:
    """Import a library, or say which extra brings it."""
    try:
        yield
    except ImportError:
        raise ImportError(f'reading {what} needs {package}: pip install "ebcd[{extra}]"') from None


@contextlib.contextmanager
def named(name: Any) -> Iterator[None]:
    """Let errors about a file, or for want of memory, say which file it is."""
    try:
        yield
    except FileError as error:
        if str(name) in str(error):
            raise
        raise FileError(f"{name}: {error}") from None
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        raise FileError(f"{name} does not fit into memory{detail}") from error


@contextlib.contextmanager
def guarded(name: Any, kind: str, *others: type[Exception]) -> Iterator[None]:
    """Turn whatever a library raises on a damaged file into one error that names the file.

    All but these `others`. Only calls of libraries belong in here, so that no bug of this package
    is told as a damaged file.
    """
    try:
        with named(name):
            yield
    except Exception as error:
        clear = FileError, ImportError, FileNotFoundError, PermissionError, IsADirectoryError
        if isinstance(error, clear + others):
            raise
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        if "Object arrays" in reason or "Python objects" in reason:  # which could run any code
            message = f"{name} holds Python objects; write it again as numbers: X.astype(float)"
            raise FileError(message) from None
        raise FileError(
            f"{name} is not a complete {kind} file ({reason}); download or write it again"
        ) from error


def check_expanded(expanded: int, size: int) -> None:
    """Refuse a file of a size that claims to hold, or unpacks to, so many bytes."""
    asked = os.environ.get("EBCD_MAX_EXPANDED", _EXPANDED)
    limit = max(check_memory(asked, "EBCD_MAX_EXPANDED") or 0, _RATIO * size)
    if expanded > limit:
        raise FileError(
            f"its {readable(size)} unpack to {readable(expanded)} or more, beyond the limit of "
            f"{readable(limit)}; if you trust it, set the environment variable EBCD_MAX_EXPANDED"
        )


def unpacked(stream: Any, size: int) -> Any:
    """Return what a decompressor makes of a file of a size, once all of it is within the limit."""
    while stream.read(_settings.SETTINGS.read):
        check_expanded(stream.tell(), size)
    stream.seek(0)
    return stream


def in_child(
    script: str, content: bytes, *arguments: str, size: int = 0, seconds: float | None = None
) -> bytes:
    """Run a Python script that turns its input into output in a process of its own.

    For libraries that crash on damaged files, take all memory, or never end: then only the child
    does, after so many seconds if that is said. `size` is what the file unpacks to.
    """
    most = _CHILD + _RATIO * max(size, len(content))
    command = [sys.executable, "-c", _WITHIN.format(most) + script, *arguments]
    lean = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # threads take memory
    try:
        child = subprocess.run(
            command, input=content, capture_output=True, check=False, timeout=seconds, env=lean
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"its reader did not finish within {seconds:g} s") from None
    if child.returncode == 0:
        return child.stdout
    last = child.stderr.decode(errors="replace").strip().splitlines()[-1:]
    raise ValueError(last[0] if child.returncode == 1 and last else "its reader crashed")


@dataclass
class DataFile:
    """An open data file: what messages call it, its format, and its content.

    The `stream` is without compression; the content is `plain` if `path` holds it as it is. On
    disk, or on the way here, it had `size` bytes.
    """

    name: str
    path: Path
    kind: str
    stream: IO[bytes]
    plain: bool
    size: int

    def guarded(self, *others: type[Exception]) -> contextlib.AbstractContextManager[None]:
        """Guard calls of the library that reads the file."""
        return guarded(self.name, "h5ad" if self.kind == "HDF5" else self.kind, *others)

    def whole(self) -> Path | io.BytesIO:
        """Return what a library can open: the path, or the content in memory."""
        return self.path if self.plain else io.BytesIO(self.stream.read())


@contextlib.contextmanager
def open_file(path: Path) -> Iterator[DataFile]:
    """Open a data file; whatever is wrong with it is a ValueError of one line."""
    name = "standard input" if str(path) == "-" else str(path)
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(_open(path))
            plain = isinstance(stream, io.BufferedReader)
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            if size == 0:
                raise FileError(f"{name} is empty")
            with guarded(name, "compressed"):
                layers = 0
                while (opener := _decompressor(stream, size)) is not None:
                    layers += 1
                    if layers > _LAYERS:
                        raise FileError(f"it is compressed more than {_LAYERS} times; unpack it")
                    stream = unpacked(stack.enter_context(opener(stream)), size)
                    plain = False
            kind = _kind(name, _peek(stream))
            if kind == "zip":
                kind, stream, inside = _look_into_zip(name, stream, size)
                plain = plain and not inside
        except FileNotFoundError:
            raise FileError(_not_found(path)) from None
        except PermissionError:
            raise FileError(f"{name} cannot be read: permission denied") from None
        with named(name):
            yield DataFile(name, path, kind, stream, plain, size)


def _open(path: Path) -> IO[bytes]:
    if str(path) == "-":
        if sys.stdin is None:
            raise FileError("standard input is closed; give the path of a file")
        return io.BytesIO(sys.stdin.buffer.read())
    if path.is_dir():
        raise FileError(f"{path} is a directory; give a file")
    stream = path.open("rb")
    if stream.seekable():
        return stream
    with stream:  # a pipe, such as <(command) of a shell
        return io.BytesIO(stream.read())


def _not_found(path: Path) -> str:
    siblings: list[str] = []
    with contextlib.suppress(OSError):
        siblings = [file.name for file in path.parent.iterdir()]
    near = difflib.get_close_matches(path.name, siblings, n=1)
    hint = f"; did you mean {path.with_name(near[0])}?" if near else "; check the path"
    return f"there is no file {path}{hint}"


def _peek(stream: IO[bytes]) -> bytes:
    start = stream.read(io.DEFAULT_BUFFER_SIZE)
    stream.seek(0)
    return start


def _decompressor(stream: IO[bytes], size: int) -> Callable[..., Any] | None:
    openers: dict[bytes, Callable[..., Any]] = {
        b"\x1f\x8b": gzip.open,
        b"BZh": bz2.open,
        b"\xfd7zXZ\x00": lzma.open,
        b"\x28\xb5\x2f\xfd": partial(_open_zstd, size=size),
    }
    start = _peek(stream)
    return next((opener for magic, opener in openers.items() if start.startswith(magic)), None)


def _open_zstd(stream: IO[bytes], size: int) -> IO[bytes]:
    with needs("pyarrow", "zstd files"):
        import pyarrow as pa
    whole = io.BytesIO()  # for the library cannot go back in it
    with pa.input_stream(stream, compression="zstd") as packed:
        while part := packed.read(_settings.SETTINGS.read):
            whole.write(part)
            check_expanded(whole.tell(), size)
    whole.seek(0)
    return whole


def _kind(name: str, start: bytes) -> str:
    if start.startswith(b"PK\x03\x04"):
        return "zip"
    for magic, kind in _FORMATS.items():
        if start.startswith(magic):
            return kind
    for signatures, what in _FOREIGN.items():
        if start.lstrip().startswith(signatures):
            raise FileError(f"{name} is {what}")
    if b"\x00" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileError(
            f"{name} is not a table: give a CSV, TSV, Excel, Parquet, NPY, NPZ, Matrix Market or "
            "h5ad file"
        )
    return "text"


def _look_into_zip(name: str, stream: IO[bytes], size: int) -> tuple[str, IO[bytes], bool]:
    """Return the format, the stream, and whether that is of a file in the archive."""
    with guarded(name, "zip"):
        archive = zipfile.ZipFile(stream)
        check_expanded(sum(member.file_size for member in archive.infolist()), size)
    members = [member for member in archive.namelist() if not member.endswith("/")]
    is_npz = any(member.endswith(".npy") for member in members)
    if is_npz or any(member in _WORKBOOKS for member in members):
        stream.seek(0)
        return "NPZ" if is_npz else "Excel", stream, False
    if len(members) != 1:
        raise FileError(f"{name} is a zip archive of {len(members)} files; unpack it and give one")
    with guarded(name, "zip"):
        member = io.BytesIO(archive.read(members[0]))
    kind = _kind(name, _peek(member))
    if kind == "zip":
        raise FileError(f"{name} is a zip archive in a zip archive; unpack it")
    return kind, member, True
