"""Fits that are killed with SIGKILL at random moments and go on from their checkpoint.

Run ``python benchmarks/bench_checkpoint.py`` on one thread. Each data set is fitted once without an
interruption and once by processes that are killed at random moments, each going on from the
checkpoint of the one before. Reported are the largest difference between the loadings of both
fits, how much work a kill lost (all of it while the fit still searches for a start), the share of
the time that writing took, and files that were left behind.

Work is processor time, by which the interval is counted here, too: a busy machine makes losses
neither larger nor smaller, and starting Python and loading libraries does not count. What a kill
lost is the time since the state was taken that is in the file: the kernel tells how long the
process had computed when it died, the process leaves how long it had when it took the state. It is
given in intervals, half a second here so that there are many, or 22 times what the last write took.
As a check that depends on none of this, the processor time of all fits together is compared with
that of the one without interruptions: what a kill cost, going on included.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ebcd import EBCD, _store
from ebcd.estimators import _resume
from ebcd.fitting import _progress
from ebcd.fitting._checkpoint import Checkpoint, CheckpointSettings

INTERVAL = 0.5
CASES = {
    "search among starts": ((100, 60, 4), {"n_components": 4, "prior": "horseshoe"}),
    "components one by one": ((200, 1500, 8), {"n_components": 8, "start": "greedy", "tol": 1e-7}),
    "large, one noise": ((400, 20_000, 6), {"n_components": "auto"}),
    "large, noise per feature": ((300, 8_000, 5), {"n_components": 5, "noise": "per_feature"}),
}


def draw(n: int, p: int, k: int) -> np.ndarray:
    """Make data with sparse loadings."""
    rng = np.random.default_rng(0)
    loadings = (
        rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.1) * np.linspace(1.5, 1, k)[:, None]
    )
    return rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))


def fit_here(case: str, folder: Path) -> None:
    """Fit in this process, which somebody may kill."""
    shape, parameters = CASES[case]
    X = draw(*shape)
    EBCD(1).fit(draw(20, 5_000, 1))  # loads libraries, which is no work of the fit
    often = CheckpointSettings(first=INTERVAL, interval=INTERVAL)
    _resume.Checkpoint = partial(Checkpoint, timing=often)
    _progress.now = time.process_time
    spent, write = [0.0], _store.write

    def timed(*arguments: object) -> None:
        taken, began = time.process_time(), time.perf_counter()
        write(*arguments)
        took = time.process_time() - taken
        spent[0] += time.perf_counter() - began
        told = folder.parent / "told"
        told.write_text(f"{taken} {took}", encoding="utf-8")
        told.replace(folder.parent / "taken")

    _store.write = timed
    print(time.process_time(), flush=True)
    began = time.perf_counter()
    model = EBCD(**parameters, checkpoint=folder / "checkpoint").fit(X)
    print("done", flush=True)  # nothing can be lost any more
    share = spent[0] / (time.perf_counter() - began)
    np.savez(folder.parent / "result.npz", components=model.components_, share=share)


class Life(NamedTuple):
    """How a process fared: seconds by the clock, work in seconds, and intervals of it lost."""

    seconds: float
    work: float
    lost: float | None  # None if it was not killed


def run(case: str, folder: Path, seconds: float | None = None) -> Life:
    """Fit in another process and kill it after so many seconds."""
    command = [sys.executable, __file__, "--fit", case, "--folder", str(folder)]
    taken = folder.parent / "taken"
    taken.unlink(missing_ok=True)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first, began = float(process.stdout.readline()), time.perf_counter()
        if seconds is not None:
            ended, _, _ = select.select([process.stdout], [], [], seconds)
            if not ended:
                process.kill()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    lived, work = time.perf_counter() - began, usage.ru_utime + usage.ru_stime - first
    if process.returncode == 0:
        return Life(lived, work, None)
    assert process.returncode == -signal.SIGKILL
    state, took = 0.0, 0.0
    if taken.exists():
        at, took = (float(part) for part in taken.read_text(encoding="utf-8").split())
        state = at - first
    return Life(lived, work, (work - state) / max(INTERVAL, 22 * took))


def measure(case: str, kills: int, rng: np.random.Generator) -> None:
    """Print a line for one data set."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "fit"
        folder.mkdir()
        whole = run(case, folder)
        with np.load(folder.parent / "result.npz") as result:
            components, share = result["components"], float(result["share"])
        lost: list[float] = []
        worst, left, fits, work = 0.0, 0, 0, 0.0
        life: Life | None = None
        while life is None or life.lost is not None or len(lost) < kills:
            more = len(lost) < kills
            life = run(case, folder, float(rng.uniform(0, whole.seconds / 2)) if more else None)
            work += life.work
            if life.lost is not None:
                lost.append(life.lost)
                continue
            fits += 1
            with np.load(folder.parent / "result.npz") as result:
                worst = max(worst, float(np.abs(result["components"] - components).max()))
            left += len(list(folder.iterdir()))
    print(
        f"{case:25s} {whole.work:6.1f} s   {len(lost)} kills   loadings differ by {worst:.0e}   "
        f"lost {np.median(lost):.2f} intervals (at most {max(lost):.2f})   "
        f"{(work - fits * whole.work) / kills:.2f} s a kill in all   "
        f"writing {100 * share:.1f} %   {left} files left",
        flush=True,
    )


def main() -> None:
    """Measure every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="for each data set")
    parser.add_argument("--fit", choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.fit is not None:
        fit_here(options.fit, options.folder)
        return
    rng = np.random.default_rng(0)
    for case in CASES:
        measure(case, options.kills, rng)


if __name__ == "__main__":
    main()
