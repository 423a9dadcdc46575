"""Results on disk: one small file per task, written whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed

import ebcd


def write(path: Path, text: str) -> None:
    """Write under a temporary name and rename, so that an interruption leaves no half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Write plain values."""
    write(path, json.dumps(value, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Read plain values."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a table with the columns of the first row, numbers with ten digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(rows[0])
    writer.writerows([_cell(row[name]) for name in rows[0]] for row in rows)
    write(path, text.getvalue())


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def finished(path: Path, description: dict[str, Any]) -> bool:
    """Whether a task was done before, as it would be done now."""
    if not path.exists():
        return False
    try:
        return bool(read_json(path)["task"] == stamped(description))
    except (ValueError, KeyError):
        return False


def stamped(description: dict[str, Any]) -> dict[str, Any]:
    """Add the version of the package to the description of a task."""
    return {**description, "ebcd": ebcd.__version__}


def run_all(
    tasks: Iterable[tuple[Path, dict[str, Any]]],
    work: Callable[[dict[str, Any]], Any],
    jobs: int,
    name: str,
) -> int:
    """Run the tasks that have no results yet, show progress, and return how many were run."""
    everything = list(tasks)
    todo = [(path, task) for path, task in everything if not finished(path, task)]
    print(f"{name}: {len(everything)} tasks, {len(everything) - len(todo)} done before", flush=True)
    if not todo:
        return 0
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    done = parallel(delayed(_do)(path, task, work) for path, task in todo)
    for _ in _progress(done, len(todo), name):
        pass
    return len(todo)


def _do(path: Path, task: dict[str, Any], work: Callable[[dict[str, Any]], Any]) -> None:
    write_json(path, {"task": stamped(task), "result": work(task)})


def _progress(steps: Iterable[Any], total: int, name: str) -> Iterable[Any]:
    begin, shown = time.monotonic(), -1
    for count, step in enumerate(steps, 1):
        percent = 100 * count // total
        # On a terminal a line that moves; in a log file a line for every tenth.
        if sys.stdout.isatty():
            bar = "#" * (percent // 4)
            left = (time.monotonic() - begin) / count * (total - count)
            print(f"\r{name} |{bar:25s}| {count}/{total}, {left:.0f} s left ", end="", flush=True)
        elif percent // 10 > shown:
            shown = percent // 10
            print(f"{name}: {count}/{total}, {time.monotonic() - begin:.0f} s", flush=True)
        yield step
    if sys.stdout.isatty():
        print()
