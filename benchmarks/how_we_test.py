"""Print how much is tested: tests, hostile calls, mutated files, injected faults, versions.

``python -m benchmarks.how_we_test`` counts what there is; with ``--run`` it also makes the hostile
calls and reads mutated files, and says how many went wrong.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import fuzz, hostile, kinds

ROOT = Path(__file__).parents[1]


def count_tests() -> int:
    """Count the test cases that pytest collects."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    last = next(line for line in reversed(found.stdout.splitlines()) if "collected" in line)
    return int(last.split()[0].split("/")[0])


def count_faults() -> int:
    """Count the faults that the tests inject: an error and a kill at each call, and full disks."""
    from tests import test_faults

    with tempfile.TemporaryDirectory() as name:
        made, copy = Path(name) / "made", Path(name)
        made.mkdir()
        test_faults.write_everything(made)
        actions = test_faults.ACTIONS.values()
        calls = sum(len(test_faults.calls_of(made, copy, action)) for action in actions)
    return 2 * calls + len(test_faults.ROOM) * len(test_faults.ACTIONS)


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--seconds", type=int, default=150, help="for each reader of files")
    options = parser.parse_args()
    parameters = sum(len(call.parameters) for call in hostile.calls())
    print(f"{count_tests():8,} test cases")
    print(f"{parameters * len(hostile.VALUES):8,} hostile calls: {parameters} parameters", end=" ")
    print(f"of {len(hostile.calls())} classes, functions and methods, {len(hostile.VALUES)} values")
    ways = len(kinds.WAYS) * len(kinds.kinds())
    print(f"{ways:8,} ways in for {len(kinds.kinds())} kinds of data")
    print(f"{count_faults():8,} injected faults")
    kept = list(fuzz.CORPUS.glob("*-*"))
    print(f"{len(fuzz.READERS):8,} readers for mutated files, {len(kept)} files kept")
    if options.run:
        count, wrong = hostile.run(1.0, 0)
        print(f"hostile calls made: {count:,}, wrong: {len(wrong)}")
        count, wrong = kinds.run()
        print(f"kinds of data tried: {count:,}, wrong: {len(wrong)}")
        files = [fuzz.run(reader, options.seconds) for reader in fuzz.READERS]
        count, odd = np.sum(files, axis=0)
        print(f"mutated files read: {count:,}, wrong: {odd}")


if __name__ == "__main__":
    main()
