"""The folder of results: claimed when a run starts, then complete or not there at all."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

FILES = frozenset(
    (
        *("components.csv", "scores.csv", "summary.json", "report.html", "report.md"),
        *("model.npz", "background.npz"),
    )
)


@contextlib.contextmanager
def claimed(folder: Path, force: bool) -> Iterator[Path]:
    """Claim a folder for the results of one run; yield a hidden one beside it to write to.

    Only one run can create the hidden folder, so no two runs share one. A new folder is created
    right away, so that nobody else creates it in the meantime. With `force` an existing folder of
    results is replaced once the new ones are complete. Nothing else is ever deleted: if somebody
    has put other files into the folder in the meantime, the results stay beside it.
    """
    target = folder.resolve()
    part = target.with_name(f".{target.name}.part")
    created: list[Path] = []  # by this run
    try:
        _check_free(folder, force)
        _create(part, folder, created)
        if not target.exists():
            _create(target, folder, created)
        yield part
        created.remove(part)  # from here on another run may claim the name
        _publish(part, target, folder, frozenset() if target in created else FILES)
    finally:
        if part in created:
            shutil.rmtree(part, ignore_errors=True)
        for path in reversed(created):
            with contextlib.suppress(OSError):  # of those that are not empty
                path.rmdir()


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


def _content(folder: Path) -> frozenset[str]:
    return frozenset(file.name for file in folder.iterdir())


def _create(path: Path, folder: Path, created: list[Path]) -> None:
    """Create a folder and those above it; it must not exist yet."""
    try:
        above = [parent for parent in reversed(path.parents) if not parent.exists()]
        for parent in (*above, path):
            parent.mkdir()
            created.append(parent)
    except FileExistsError:
        raise ValueError(
            f"another run is writing to {folder}; if that run was killed, delete {path}"
        ) from None
    except OSError as error:
        raise ValueError(f"{folder} cannot be created: {error.strerror}") from None


def _publish(part: Path, target: Path, folder: Path, replaceable: frozenset[str]) -> None:
    """Put the results in place, unless that would delete what somebody else wrote."""
    try:
        if target.exists():
            if _content(target) - replaceable:
                raise FileExistsError
            for name in replaceable:
                (target / name).unlink(missing_ok=True)
            target.rmdir()
        part.rename(target)
    except OSError:
        number = 1
        while (beside := target.with_name(f"{target.name}-{number}")).exists():
            number += 1
        part.rename(beside)
        raise ValueError(
            f"somebody else changed {folder} during the run, so it was left alone; the results are "
            f"in {beside}"
        ) from None
