"""The folder of results: claimed when a run starts, then complete or as it was before."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ebcd._store import holds, sync

FILES = {"components.csv", "scores.csv", "summary.json", "report.html", "report.md"}
FILES |= {"model.npz", "report.npz"}


@contextlib.contextmanager
def claimed(folder: Path, force: bool) -> Iterator[Path]:
    """Claim a folder for the results of one run; yield a hidden one beside it to write to.

    Only one run can hold the lock beside the folder, so no two runs share one; what a run that was
    killed has left is cleared away by the next one. A new folder is created right away, so that
    nobody else creates it in the meantime. With `force` an existing folder of results is replaced
    once the new ones are complete. Nothing else is ever deleted: if somebody has put other files
    into the folder in the meantime, the results stay beside it.
    """
    target = folder.resolve()
    created: list[Path] = []  # by this run
    try:
        _create(target.parent, folder, created)
        with _locked(target, folder):
            _check_free(folder, force)
            part = _beside(target, "part")
            _create(part, folder, created)
            if not target.exists():
                _create(target, folder, created)
            yield part
            for path in (*part.iterdir(), part):
                sync(path)
            _publish(part, target, folder, set() if target in created else FILES)
    finally:
        for path in reversed(created):
            with contextlib.suppress(OSError):  # of those that are not empty
                path.rmdir()


@contextlib.contextmanager
def _locked(target: Path, folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, and put in order what a run that was killed has left there."""
    lock = _beside(target, "lock")
    try:
        new = not lock.exists()
        handle = lock.open("xb" if new else "r+b")
    except OSError as error:
        raise ValueError(f"{folder} cannot be created: {error.strerror}") from None
    with handle:
        held = holds(handle)
        if not (new if held is None else held) or not _is_open(handle, lock):
            raise ValueError(
                f"another run is writing to {folder}; if that run was killed, delete {lock}"
            )
        try:
            _restore(target)
            if not new and target.is_dir() and not _content(target):
                target.rmdir()  # the claim of that run
            yield
        finally:
            _restore(target)
            with contextlib.suppress(OSError):
                lock.unlink()


def _is_open(handle: IO[bytes], path: Path) -> bool:
    """Whether a path still leads to an open file, which a run that ended may have removed."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def recover(folder: Path) -> None:
    """Put earlier results back if a run was killed while it replaced them."""
    target = folder.resolve()
    if not target.exists() and _beside(target, "old").is_dir():
        with _locked(target, folder):
            pass


def _restore(target: Path) -> None:
    """Put earlier results back if there are no new ones, and clear the rest away."""
    old = _beside(target, "old")
    with contextlib.suppress(OSError):
        if old.is_dir() and not target.exists():
            old.rename(target)
        for name in FILES if old.is_dir() else ():  # and nothing else
            (old / name).unlink(missing_ok=True)
        if old.is_dir():
            old.rmdir()
    shutil.rmtree(_beside(target, "part"), ignore_errors=True)


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{kind}")


def _check_free(folder: Path, force: bool) -> None:
    """Refuse to destroy anything."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file; choose another name for the folder of results")
    if not force:
        raise ValueError(f"{folder} exists; choose another folder, or replace it with --force")
    others = _content(folder) - FILES
    if others:
        raise ValueError(
            f"{folder} contains files other than results ({', '.join(sorted(others)[:3])}) and "
            "will not be replaced; choose another folder"
        )


def _content(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def _create(path: Path, folder: Path, created: list[Path]) -> None:
    """Create a folder and those above it, as far as they are missing."""
    try:
        for parent in (*reversed(path.parents), path):
            if not parent.exists():
                parent.mkdir()
                created.append(parent)
    except OSError as error:
        raise ValueError(f"{folder} cannot be created: {error.strerror}") from None


def _publish(part: Path, target: Path, folder: Path, replaceable: set[str]) -> None:
    """Put the results in place, unless that would delete what somebody else wrote.

    Between two renames the earlier results are under a hidden name, from which `_restore` takes
    them; they are deleted only when the new ones are there.
    """
    old = _beside(target, "old")
    try:
        if target.exists():
            if _content(target) - replaceable:
                raise FileExistsError
            target.rename(old)
            if _content(old) - replaceable:  # put there at the last moment
                raise FileExistsError
        part.rename(target)
        sync(target.parent)
    except OSError as error:
        if old.exists() and not target.exists():
            old.rename(target)
        number = 1
        while (beside := target.with_name(f"{target.name}-{number}")).exists():
            number += 1
        part.rename(beside)
        if isinstance(error, FileExistsError) or error.errno == errno.ENOTEMPTY:
            what = f"{folder} was changed by another program during the run"
        else:
            what = f"{folder} cannot be replaced ({error.strerror})"
        raise ValueError(f"{what}, so it was left alone; the results are in {beside}") from None
