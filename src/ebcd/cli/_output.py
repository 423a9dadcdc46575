"""Results on disk: a folder that is there as a whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

FILES = ("components.csv", "scores.csv", "summary.json", "report.html", "report.md", "model.npz")


def check_folder(folder: Path, force: bool) -> None:
    """Refuse early what could not be written later, or would destroy something else."""
    if folder.is_dir():
        others = sorted(file.name for file in folder.iterdir() if file.name not in FILES)
        if not force:
            raise ValueError(f"{folder} exists; choose another folder, or replace it with --force")
        if others:
            raise ValueError(
                f"{folder} holds other things than results ({', '.join(others[:3])}), and is not "
                "replaced; choose another folder"
            )
    elif folder.exists():
        raise ValueError(f"{folder} is a file; choose another name for the folder of results")
    _check_writable(folder)


def check_file(path: Path, force: bool) -> None:
    """Refuse early a file that exists or could not be written."""
    if path.is_dir():
        raise ValueError(f"{path} is a directory; give the name of a file")
    if path.exists() and not force:
        raise ValueError(f"{path} exists; choose another name, or replace it with --force")
    _check_writable(path)


def _check_writable(path: Path) -> None:
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir():
        raise ValueError(f"{path} cannot be written: {above} is a file")
    if not os.access(above, os.W_OK):
        raise ValueError(f"{path} cannot be written: no permission to write in {above}")


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to write to, which becomes `folder` if all goes well."""
    target = folder.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.part")
    part.mkdir()
    try:
        yield part
        _exchange(part, target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _exchange(part: Path, target: Path) -> None:
    if not target.exists():
        part.replace(target)
        return
    old = part.with_suffix(".old")
    target.replace(old)
    try:
        part.replace(target)
    except BaseException:
        old.replace(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to, which becomes `path` if all goes well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_components(file: IO[str], model: Any, names: Sequence[str]) -> None:
    """Write one row per feature: every component's loading, sd, lfsr and credible interval."""
    header, columns = ["feature"], []
    lower, upper = model.credible_intervals()
    for k in range(model.n_components_):
        header += [f"component_{k}{of}" for of in ("", "_sd", "_lfsr", "_lower", "_upper")]
        columns += [model.components_[k], model.components_sd_[k], model.lfsr_[k]]
        columns += [lower[k], upper[k]]
    _write_table(file, header, names, np.array(columns).reshape(len(columns), len(names)).T)


def write_scores(file: IO[str], scores: Any, labels: Sequence[str] | None, index_name: str) -> None:
    """Write one row per sample: its name, or its number from 0, and its scores."""
    header = [index_name or ("name" if labels else "row")]
    header += [f"component_{k}" for k in range(scores.shape[1])]
    _write_table(file, header, labels or [str(i) for i in range(len(scores))], scores)


def _write_table(file: IO[str], header: list[str], labels: Sequence[str], values: Any) -> None:
    """Write CSV that gives back every number exactly."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for label, row in zip(labels, values, strict=True):
        writer.writerow([label, *row.tolist()])


def read_scores(path: Path) -> tuple[str, list[str], Any]:
    """Read what `write_scores` wrote: the name of the first column, its cells, the scores."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    scores = np.array([[float(cell) for cell in row[1:]] for row in rows])
    return header[0], [row[0] for row in rows], scores.reshape(len(rows), len(header) - 1)


def as_json(summary: Any) -> str:
    """JSON of plain values, with null for what is not finite."""
    return json.dumps(_plain(summary), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
