"""Fits that are killed with SIGKILL at random moments and go on from their checkpoint.

Run ``python benchmarks/bench_checkpoint.py`` on one thread. Each data set is fitted once without an
interruption and once by processes that are killed at random moments, each going on from the
checkpoint of the one before. Reported are the largest difference between the loadings of both
fits, how much work a kill lost (the age of the checkpoint at that moment, in intervals after which
the next was due), the share of the time that writing took, and files that were left behind. The
interval is half a second here, so that there are many, or twenty times what the last write took; an
iteration that is under way when a write is due is finished first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ebcd import EBCD
from ebcd.fitting import _checkpoint

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
    _checkpoint._FIRST = _checkpoint._INTERVAL = INTERVAL
    spent, write = [0.0], _checkpoint.write_archive

    def timed(*arguments: object) -> None:
        began = time.perf_counter()
        write(*arguments)
        took = time.perf_counter() - began
        spent[0] += took
        waits = max(INTERVAL, _checkpoint._PATIENCE * took)
        told = folder.parent / "told"
        told.write_text(str(waits), encoding="utf-8")
        told.replace(folder.parent / "interval")

    _checkpoint.write_archive = timed
    print("begin", flush=True)
    began = time.perf_counter()
    model = EBCD(**parameters, checkpoint=folder / "checkpoint").fit(X)
    share = spent[0] / (time.perf_counter() - began)
    np.savez(folder.parent / "result.npz", components=model.components_, share=share)
    print("end", flush=True)


def run(case: str, folder: Path, life: float | None = None) -> tuple[float, float | None]:
    """Fit in another process and kill it after `life` seconds.

    Returns how long it ran, and how old its checkpoint was when it was killed, in units of the
    interval after which the next one was due; None if it was not killed.
    """
    command = [sys.executable, __file__, "--fit", case, "--folder", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        began = time.time()
        try:
            process.wait(life)
        except subprocess.TimeoutExpired:
            process.kill()
            killed = time.time()
        else:
            assert process.returncode == 0
            return time.time() - began, None
    written, interval = folder / "checkpoint", INTERVAL
    last = written.stat().st_mtime if written.exists() else 0.0
    if last > began:
        interval = float((folder.parent / "interval").read_text(encoding="utf-8"))
    return killed - began, (killed - max(began, last)) / interval


def measure(case: str, kills: int, rng: np.random.Generator) -> None:
    """Print a line for one data set."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "fit"
        folder.mkdir()
        seconds, _ = run(case, folder)
        with np.load(folder.parent / "result.npz") as result:
            whole, share = result["components"], float(result["share"])
        ages: list[float] = []
        worst, left = 0.0, 0
        while len(ages) < kills:
            _, age = run(case, folder, float(rng.uniform(0, seconds / 2)))
            ages += [] if age is None else [age]
            if age is not None and len(ages) == kills:
                run(case, folder)
            if age is None or len(ages) == kills:
                with np.load(folder.parent / "result.npz") as result:
                    worst = max(worst, float(np.abs(result["components"] - whole).max()))
                left += len(list(folder.iterdir()))
    print(
        f"{case:25s} {seconds:6.1f} s   {len(ages)} kills   loadings differ by {worst:.0e}   "
        f"lost {np.median(ages):.2f} intervals (at most {max(ages):.2f})   "
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
