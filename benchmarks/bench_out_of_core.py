"""A fit to a memory map beside one pass of ``X.T @ X`` over the same file: time and memory.

``--full`` makes the file 8 GB (10,000,000 x 100). Every measurement has a process of its own with
one thread, whose peak resident memory is what the kernel reports: interpreter, libraries, and the
pages of the map that the process holds at that moment. Pages that the system keeps in its cache of
the file are nobody's and do not count; without ``--cold`` the file is there as a whole before each
measurement if memory allows, with it the file is taken out (on a virtual machine its host may
still have it), so that the disk is measured as well. All take turns, and ratios are within a turn:
to ``X.T @ X`` over slices of the map, which waits for its pages, and over blocks that are read.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FEATURES, BLOCK = 100, 50_000  # rows of a block: 40 MB


def make(path: Path, rows: int) -> None:
    """Write data with five sparse components, far from zero."""
    import numpy as np

    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(5, FEATURES)) * (rng.random((5, FEATURES)) < 0.2)
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(rows, FEATURES))
    for i in range(0, rows, BLOCK):
        block = rng.standard_normal((min(BLOCK, rows - i), FEATURES))
        array[i : i + BLOCK] = block + rng.standard_normal((len(block), 5)) @ loadings + 2.0
    array.flush()


def product_of_map(path: Path) -> dict[str, object]:
    """Sum ``X.T @ X`` over slices of the map, and nothing else."""
    import numpy as np

    X, total = np.load(path, mmap_mode="r"), 0.0
    for i in range(0, len(X), BLOCK):
        total = total + X[i : i + BLOCK].T @ X[i : i + BLOCK]
    return {}


def product_of_file(path: Path) -> dict[str, object]:
    """Do the same with blocks that are read from the file."""
    import numpy as np

    total = 0.0
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        shape, _, _ = np.lib.format.read_array_header_1_0(file)
        for i in range(0, shape[0], BLOCK):
            count = min(BLOCK, shape[0] - i) * shape[1]
            block = np.fromfile(file, count=count).reshape(-1, shape[1])
            total = total + block.T @ block
    return {}


def fit(path: Path, **settings: object) -> dict[str, object]:
    """Fit EBCD with its defaults."""
    import numpy as np

    import ebcd

    model = ebcd.EBCD(**settings).fit(np.load(path, mmap_mode="r"))
    assert model.converged_
    return {"components": model.n_components_, "iterations": model.n_iter_}


WORK = {
    "X.T @ X of the map": product_of_map,
    "X.T @ X of the file": product_of_file,
    "EBCD().fit(map)": fit,
    'EBCD(max_memory="100MB").fit(map)': lambda path: fit(path, max_memory="100MB"),
}


def measure_here(name: str, path: Path) -> None:
    """Measure in this process and print the result."""
    import ebcd  # noqa: F401 - importing is not what is measured

    begin = time.perf_counter(), time.process_time()
    found = WORK[name](path)
    found["seconds"] = time.perf_counter() - begin[0]
    found["processor"] = time.process_time() - begin[1]
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


def in_own_process(*arguments: str) -> str:
    """Run this script again."""
    command = [sys.executable, __file__, *arguments]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    run = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | threads
    )
    return run.stdout


def forget(path: Path) -> None:
    """Take a file out of the system's cache."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def compare(path: Path, repeats: int, cold: bool) -> None:
    """Print times, ratios and memory."""
    turns = []
    for _ in range(repeats):
        turn = {}
        for name in WORK:
            if cold:
                forget(path)
            turn[name] = json.loads(in_own_process("--measure", name, "--file", str(path)))
        turns.append(turn)
    bases = list(WORK)[:2]
    print(f"{'':36} seconds  processor  over {bases[0]}  over {bases[1]}  peak MB  components")
    for name in WORK:
        results = [turn[name] for turn in turns]
        ratios = [
            statistics.median(turn[name]["seconds"] / turn[base]["seconds"] for turn in turns)
            for base in bases
        ]
        print(
            f"{name:36} {statistics.median(r['seconds'] for r in results):7.2f}  "
            f"{statistics.median(r['processor'] for r in results):9.2f}  {ratios[0]:23.2f}  "
            f"{ratios[1]:24.2f}  {max(r['peak'] for r in results):7.0f}  "
            f"{results[0].get('components', '')}"
        )


def main() -> None:
    """Make the file, measure, and remove it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--full", action="store_true", help="10,000,000 rows, 8 GB")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="read from the disk, not the cache")
    parser.add_argument("--directory", default=None, help="where the file is made")
    parser.add_argument("--measure", choices=[*WORK, "make"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = 10_000_000 if options.full else options.rows
    if options.measure == "make":
        return make(options.file, rows)
    if options.measure:
        return measure_here(options.measure, options.file)
    with tempfile.TemporaryDirectory(dir=options.directory) as folder:
        path = Path(folder) / "data.npy"
        in_own_process("--measure", "make", "--file", str(path), "--rows", str(rows))
        size = path.stat().st_size / 1e9
        print(f"{rows:,} x {FEATURES} float64, {size:.2f} GB, {'cold' if options.cold else 'warm'}")
        compare(path, options.repeats, options.cold)
    return None


if __name__ == "__main__":
    main()
