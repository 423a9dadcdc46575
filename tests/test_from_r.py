"""The code on the page for people from R, in R, prints what the page says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "guide" / "from_r.md"
# Only code with output is run: the rest needs R packages that are not there.
LINES = r"((?:(?!```).*\n)*)"
RUN = re.compile(rf"^```r\n{LINES}```\n\n```text\n{LINES}```$", flags=re.MULTILINE)
VERSIONS = "R 4.2.2"  # the block that prints them differs elsewhere


@pytest.mark.slow
def test_page(tmp_path):
    program = shutil.which("Rscript")
    if program is None:
        pytest.skip("R is not installed")
    environment = {
        **os.environ,
        "RETICULATE_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    options = {"capture_output": True, "text": True, "cwd": ROOT, "env": environment}
    # An old reticulate cannot load every Python: that of Debian 12 (1.28) fails with Python 3.12.
    probe = 'reticulate::import("numpy", convert = FALSE)$ones(2L)'
    found = subprocess.run([program, "-e", probe], **options)
    if found.returncode:
        pytest.skip(f"R cannot load {sys.executable}: {' '.join(found.stderr.split())}")
    blocks = RUN.findall(PAGE.read_text(encoding="utf-8"))
    assert len(blocks) == 6
    script = tmp_path / "page.R"
    script.write_text('cat("@@@\\n")\n'.join(code for code, _ in blocks), encoding="utf-8")
    done = subprocess.run([program, str(script)], **options)
    assert done.returncode == 0, done.stderr
    printed = done.stdout.split("@@@\n")
    for (_, expected), output in zip(blocks, printed, strict=True):
        if not expected.startswith(VERSIONS):
            assert [line.rstrip() for line in output.rstrip().splitlines()] == [
                line.rstrip() for line in expected.rstrip().splitlines()
            ]
