"""`make demo` runs to its end: a table on the screen, a whole picture on disk."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"


def test_demo(tmp_path):
    pytest.importorskip("matplotlib")
    command = [sys.executable, "-W", "error", str(DEMO), "--output", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    table = run.stdout.split("lfsr\n")[1].split("\n\n")[0]
    assert len(table.splitlines()) == 10
    assert [path.name for path in tmp_path.iterdir()] == ["shrinkage.png"]
    assert (tmp_path / "shrinkage.png").read_bytes().startswith(b"\x89PNG")
