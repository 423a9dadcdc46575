"""Processes that start at once: forks of a Python that has loaded the command line."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import ebcd

# Each line that it reads is a job for a process of its own; it answers with the exit code.
SERVER = """
import contextlib, json, os, sys
import ebcd
with contextlib.suppress(ImportError):  # of extras
    import pandas, ebcd.report, ebcd.cli._app
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    os.chdir(job["folder"])
    for number, place in enumerate(job["files"]):
        if place is None:
            os.close(number)
            sys.stdout = None  # as in a Python that finds it closed
        else:
            opened = os.open(place, os.O_RDWR | os.O_CREAT)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)
    sys.argv = job["arguments"]
    exec(job["code"])
    break
"""


@contextmanager
def loaded_python(folder):
    """Yield a function that runs code in a process that need not import the package first."""
    plain = dict.fromkeys(("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"), "")
    place = {"PYTHONPATH": str(Path(ebcd.__file__).resolve().parents[1])}
    environment = {**os.environ, **plain, **place}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    ) as server:

        def run(code, *words, folder=folder, stdout="stdout"):
            kept = Path(folder) / "stderr"
            kept.write_text("")
            job = {
                "code": code,
                "arguments": ["ebcd", *map(str, words)],
                "folder": str(folder),
                "files": [os.devnull, stdout, str(kept)],
            }
            print(json.dumps(job), file=server.stdin, flush=True)
            returncode = int(server.stdout.readline())
            return SimpleNamespace(returncode=returncode, stderr=kept.read_text())

        yield run
        server.stdin.close()
