"""A fault at every call of the file system: earlier files stay, the message says what happened.

Whatever writes is run once to count its calls, and then once for each of them, with an error or
the end of the process at that call; and with a disk that is full after so many bytes.
"""

import shutil
import signal
import warnings

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("pandas")
from typer.testing import CliRunner

import ebcd
from ebcd.cli._app import app
from ebcd.cli._folder import recover
from ebcd.fitting._checkpoint import Checkpoint, CheckpointSettings
from ebcd.report import write_report
from tests.helpers.faults import REMOVALS, Killed, faults, full_disk

RNG = np.random.default_rng(0)
X = RNG.standard_normal((20, 4)) + 3 * RNG.standard_normal((20, 1)) * (np.arange(4) < 3)
MODEL = ebcd.EBCD(1).fit(X)
ALWAYS = CheckpointSettings(first=0.0, interval=0.0, patience=0.0)


class Failed(Exception):
    """What a command, or a warning, says about an error."""


def command(*arguments):
    """Run a command in this process; its error line is an exception."""

    def run(folder):
        words = [str(folder / word[1:]) if word[:1] == "/" else word for word in arguments]
        result = CliRunner().invoke(app, words, prog_name="ebcd")
        if isinstance(result.exception, Killed):
            raise result.exception
        assert "Traceback" not in result.output
        if result.exit_code:
            assert result.exit_code == 2, result.output
            assert result.stderr.splitlines()[-1].startswith("error: ")
            raise Failed(result.stderr.splitlines()[-1])

    return run


def write_checkpoint(folder):
    checkpoint = Checkpoint(folder / "fit.checkpoint", {}, 10, ALWAYS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        checkpoint.note("state", lambda: np.arange(10.0))
    if caught:
        assert "the fit continues without it" in str(caught[0].message)
        raise Failed(str(caught[0].message))


FIT = ("fit", "/x.csv", "-o", "/out", "--force", "-k", "1", "--start", "svd", "--no-header")
ACTIONS = {
    "save": lambda folder: ebcd.save(MODEL, folder / "model.npz"),
    "checkpoint": write_checkpoint,
    "report": lambda folder: write_report(MODEL, folder / "report.html"),
    "ebcd transform": command("transform", "/out", "/x.csv", "-o", "/scores.csv", "--force"),
    "ebcd report": command("report", "/out"),
    "ebcd compare": command(
        *("compare", "/x.csv", "-o", "/page.html", "--force", "-k", "1", "--method", "PCA")
    ),
    "ebcd fit": command(*FIT),
}
ROOM = [0, 100, 1_000, 3_000]  # bytes left on a disk
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ACTIONS if name == "ebcd fit"]
CASES = [*(name for name in ACTIONS if name != "ebcd fit"), *SLOW]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder in which everything has been written once."""
    folder = tmp_path_factory.mktemp("made")
    write_everything(folder)
    return folder


def write_everything(folder):
    np.savetxt(folder / "x.csv", X, delimiter=",")
    for action in reversed(ACTIONS.values()):
        action(folder)


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def copied(made, tmp_path):
    folder = tmp_path / "files"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(made, folder)
    return folder


def complaint(action, folder):
    """Return what is said about an error, nothing if there is none."""
    try:
        action(folder)
    except (Failed, OSError) as error:
        return str(error)
    return ""


def calls_of(made, tmp_path, action):
    folder = copied(made, tmp_path)
    with faults(folder) as seen:
        action(folder)
    assert names(folder) == names(made)
    return seen.seen


def assert_old_or_new(folder, before):
    """Every file that was there is there, whole: as it was, or written anew."""
    now = contents(folder)
    for name, content in before.items():
        if now[name] == content:
            continue
        if name.endswith((".npz", "checkpoint")):
            assert np.load(folder / name).files
        else:
            assert len(now[name]) > 0.9 * len(content), name


@pytest.mark.parametrize("name", CASES)
def test_an_error_at_every_call(name, made, tmp_path):
    action = ACTIONS[name]
    for number, event in enumerate(calls_of(made, tmp_path, action)):
        folder = copied(made, tmp_path)
        before = contents(folder)
        with faults(folder, number):
            said = complaint(action, folder)
        assert not said or "No space left" in said or "cannot be read" in said
        if "the results are in" in said:  # nothing is lost
            assert contents(folder / "out-1")["model.npz"]
            shutil.rmtree(folder / "out-1")
        assert_old_or_new(folder, before)
        if event not in REMOVALS:
            assert names(folder) == names(made), (number, event)
        action(folder)
        assert names(folder) == names(made), (number, event)


@pytest.mark.parametrize("name", CASES)
def test_the_end_of_the_process_at_every_call(name, made, tmp_path):
    action = ACTIONS[name]
    for number, event in enumerate(calls_of(made, tmp_path, action)):
        folder = copied(made, tmp_path)
        before = contents(folder)
        with pytest.raises(Killed), faults(folder, number, kills=True):
            action(folder)
        recover(folder / "out")
        assert_old_or_new(folder, before)
        action(folder)
        assert names(folder) == names(made), (number, event)
        assert_old_or_new(folder, before)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("room", ROOM)
def test_a_full_disk(name, room, made, tmp_path):
    pytest.importorskip("resource")
    folder = copied(made, tmp_path)
    before = contents(folder)
    with full_disk(room):
        said = complaint(ACTIONS[name], folder)
    assert not said or "File too large" in said
    if said:
        assert contents(folder) == before
    assert_old_or_new(folder, before)
    assert names(folder) == names(made)


# Announces every call of the file system within a folder, and ends itself at one of them.
DIES = """
import os, signal, sys
folder, at = sys.argv.pop(1), sys.argv.pop(1)
seen = 0
def hook(event, args):
    global seen
    if event.startswith("os.") or event == "open":
        if args and str(args[0]).startswith(folder):
            seen += 1
            if seen == int(at):
                os.kill(os.getpid(), signal.SIGKILL)
from ebcd.cli import main
sys.addaudithook(hook)
try:
    main()
finally:
    print(seen, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs Unix")
def test_kill_9_during_force(made, tmp_path, run_process):
    """Processes that are killed for real: the next run finds the results, and nothing else."""
    folder = copied(made, tmp_path)
    words = [str(folder / word[1:]) if word[:1] == "/" else word for word in FIT]

    def run(at):
        return run_process(DIES, folder, at, *words)

    calls = int(run(0).stderr.splitlines()[-1])
    assert calls > 20
    for at in np.linspace(1, calls, 10).astype(int):
        folder = copied(made, tmp_path)
        before = contents(folder)
        assert run(at).returncode == -signal.SIGKILL
        recover(folder / "out")
        assert_old_or_new(folder, before)
        ACTIONS["ebcd fit"](folder)
        assert names(folder) == names(made)
