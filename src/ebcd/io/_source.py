"""Open a data file: undo its compression and tell from its first bytes what it holds."""

from __future__ import annotations

import bz2
import contextlib
import difflib
import gzip
import importlib
import io
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_START = 4096  # bytes that are looked at

_COMPRESSIONS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": lambda stream: _open_zstd(stream),
}
_FORMATS = {
    b"PAR1": "Parquet",
    b"\x93NUMPY": "NPY",
    b"\x89HDF\r\n\x1a\n": "HDF5",
    b"%%MatrixMarket": "Matrix Market",
}
_FOREIGN = {
    b"\xd0\xcf\x11\xe0": "an Excel workbook; save the sheet as CSV",
    b"RDX": "an R data file; write it with write.csv in R",
    b"X\n\x00\x00": "an R data file; write it with write.csv in R",
    b"\x80\x04": "a pickle, which could run any code; save it as NPY, CSV or Parquet",
    b"\x80\x05": "a pickle, which could run any code; save it as NPY, CSV or Parquet",
    b"%PDF": "a PDF document; a table of numbers is needed",
    b"<!DOCTYPE": "a web page; download the file that it links to",
    b"<html": "a web page; download the file that it links to",
    b"{": "JSON; save it as CSV, with a row for each sample",
}
_SUFFIXES = {
    ".csv": "text",
    ".tsv": "text",
    ".txt": "text",
    ".parquet": "Parquet",
    ".npy": "NPY",
    ".npz": "NPZ",
    ".mtx": "Matrix Market",
    ".h5ad": "HDF5",
}
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError, zipfile.BadZipFile)


@dataclass
class Source:
    """An open data file.

    Attributes
    ----------
    name : str
        What messages call it.
    path : Path
        Where it is, for the files beside it.
    kind : str
        "text", "Parquet", "NPY", "NPZ", "HDF5" or "Matrix Market", by its content.
    stream : binary file
        The content without compression, from its beginning.
    plain : bool
        Whether `path` holds the content just as it is.
    notes : list of str
        What a person should know about how the file was read.
    """

    name: str
    path: Path
    kind: str
    stream: IO[bytes]
    plain: bool
    notes: list[str] = field(default_factory=list)


@contextlib.contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open a data file; a mistake is a ValueError of one line."""
    name = "standard input" if str(path) == "-" else str(path)
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(_open(path))
            start = _peek(stream)
            if not start:
                raise ValueError(f"{name} is empty")
            plain = isinstance(stream, io.BufferedReader) and name == str(path)
            while (opener := _decompressor(start)) is not None:
                stream = stack.enter_context(opener(stream))
                start, plain = _peek(stream), False
            kind, stream = _kind(name, start, stream)
            if kind == "member":
                stream, plain = stack.enter_context(stream), False
                kind, stream = _kind(name, _peek(stream), stream)
            yield Source(name, path, kind, stream, plain, _wrong_suffix(path, kind))
        except FileNotFoundError:
            raise ValueError(_not_found(path)) from None
        except PermissionError:
            raise ValueError(f"{name} cannot be read: permission denied") from None
        except _BROKEN as error:
            raise ValueError(
                f"{name} is damaged or cut short ({error}); download or copy it again"
            ) from None
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error.strerror or error}") from None


def _open(path: Path) -> IO[bytes]:
    if str(path) == "-":
        return io.BytesIO(sys.stdin.buffer.read())
    if path.is_dir():
        raise ValueError(f"{path} is a directory; give a file{_file_inside(path)}")
    stream = path.open("rb")
    if stream.seekable():
        return stream
    with stream:  # a pipe, such as <(command) of a shell
        return io.BytesIO(stream.read())


def _file_inside(folder: Path) -> str:
    with contextlib.suppress(OSError):
        for file in sorted(folder.iterdir()):
            if any(suffix in _SUFFIXES for suffix in file.suffixes):
                return f", such as {file}"
    return ""


def _not_found(path: Path) -> str:
    siblings: list[str] = []
    with contextlib.suppress(OSError):
        siblings = [file.name for file in path.parent.iterdir()]
    near = difflib.get_close_matches(path.name, siblings, n=1)
    hint = f"; did you mean {path.with_name(near[0])}?" if near else "; check the path"
    return f"there is no file {path}{hint}"


def _peek(stream: IO[bytes]) -> bytes:
    start = stream.read(_START)
    stream.seek(0)
    return start


def _decompressor(start: bytes) -> Callable[..., Any] | None:
    for magic, opener in _COMPRESSIONS.items():
        if start.startswith(magic):
            return opener
    return None


def _open_zstd(stream: IO[bytes]) -> IO[bytes]:
    with contextlib.suppress(ImportError):
        opened: IO[bytes] = importlib.import_module("compression.zstd").open(stream)  # Python 3.14
        return opened
    try:
        import pyarrow as pa
    except ImportError:
        raise ImportError('reading zstd files needs pyarrow: pip install "ebcd[io]"') from None
    with pa.input_stream(stream, compression="zstd") as whole:
        return io.BytesIO(whole.read())


def _kind(name: str, start: bytes, stream: IO[bytes]) -> tuple[str, IO[bytes]]:
    for magic, kind in _FORMATS.items():
        if start.startswith(magic):
            return kind, stream
    if start.startswith(b"PK\x03\x04"):
        return _inside_zip(name, stream)
    for magic, what in _FOREIGN.items():
        if start.lstrip().startswith(magic):
            raise ValueError(f"{name} is {what}")
    if b"\x00" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(
            f"{name} is not a table: give a CSV, TSV, Parquet, NPY, NPZ, Matrix Market or h5ad file"
        )
    return "text", stream


def _inside_zip(name: str, stream: IO[bytes]) -> tuple[str, IO[bytes]]:
    archive = zipfile.ZipFile(stream)
    members = [member for member in archive.namelist() if not member.endswith("/")]
    if any(member.endswith(".npy") for member in members):
        stream.seek(0)
        return "NPZ", stream
    if "xl/workbook.xml" in members:
        raise ValueError(f"{name} is {_FOREIGN[bytes.fromhex('d0cf11e0')]}")
    if len(members) != 1:
        raise ValueError(f"{name} is a zip archive of {len(members)} files; unpack it and give one")
    return "member", archive.open(members[0])


def _wrong_suffix(path: Path, kind: str) -> list[str]:
    named = next((_SUFFIXES[s] for s in reversed(path.suffixes) if s in _SUFFIXES), kind)
    if named == kind:
        return []
    what = "a text table" if kind == "text" else f"a file of the format {kind}"
    return [f"{path.name} is in truth {what}, and was read as such"]
