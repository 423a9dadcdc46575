"""The folder of results: one run at a time, complete or not at all, and nothing else deleted."""

import pytest

from ebcd import _store
from ebcd.cli._folder import claimed, recover


def write(folder, text="new"):
    (folder / "summary.json").write_text(text)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def run(out, force=False, meanwhile=lambda: None):
    with claimed(out, force) as part:
        write(part)
        meanwhile()


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


def test_a_new_folder_appears_as_a_whole(out, tmp_path):
    with claimed(out, force=False) as part:
        write(part)
        assert names(out) == []  # the claim
        assert part.parent == tmp_path
    assert (out / "summary.json").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_folders_above_are_made_and_removed_again(tmp_path):
    with claimed(tmp_path / "deep" / "er" / "out", force=False) as part:
        write(part)
    assert names(tmp_path / "deep" / "er" / "out") == ["summary.json"]
    with pytest.raises(OSError, match="full"), claimed(tmp_path / "b" / "out", force=False):
        raise OSError("full")
    assert names(tmp_path) == ["deep"]


@pytest.mark.parametrize("force", [False, True])
def test_two_runs_never_share_a_folder(out, force):
    with claimed(out, force=False) as part:
        write(part)
        second = pytest.raises(ValueError, match=r"another run is writing|exists; choose")
        with second, claimed(out, force=force):
            raise AssertionError
    assert (out / "summary.json").read_text() == "new"


def test_what_a_killed_run_has_left_is_cleared_away(out, tmp_path):
    (tmp_path / ".out.lock").touch()
    (tmp_path / ".out.part").mkdir()
    write(tmp_path / ".out.part")
    out.mkdir()  # its claim
    run(out)
    assert names(tmp_path) == ["out"]
    assert (out / "summary.json").read_text() == "new"


def test_without_locks_a_killed_run_says_what_to_delete(out, tmp_path, monkeypatch):
    monkeypatch.setattr(_store, "fcntl", None)
    run(out)
    (tmp_path / ".out.lock").touch()
    with pytest.raises(ValueError, match=r"killed, delete .*\.out\.lock"), claimed(out, True):
        raise AssertionError
    assert names(tmp_path) == [".out.lock", "out"]


def test_results_that_were_being_replaced_come_back(out, tmp_path):
    old = tmp_path / ".out.old"
    old.mkdir()
    write(old, "old")
    recover(out)
    assert names(tmp_path) == ["out"]
    assert (out / "summary.json").read_text() == "old"
    recover(out)
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("name", ["thesis.tex", "summary.json"])
def test_what_others_write_meanwhile_is_never_deleted(out, tmp_path, name):
    with pytest.raises(ValueError, match=r"out was changed .* during the run.* are in .*out-1"):
        run(out, meanwhile=lambda: (out / name).write_text("years of work"))
    assert (out / name).read_text() == "years of work"
    assert (tmp_path / "out-1" / "summary.json").read_text() == "new"
    assert names(tmp_path) == ["out", "out-1"]


def test_force_deletes_nothing_that_others_write_meanwhile(out, tmp_path):
    out.mkdir()
    write(out, "old")
    with pytest.raises(ValueError, match="out-1"):
        run(out, True, meanwhile=lambda: (out / "thesis.tex").write_text("years of work"))
    assert names(out) == ["summary.json", "thesis.tex"]
    assert (out / "summary.json").read_text() == "old"
    assert names(tmp_path) == ["out", "out-1"]


def test_a_folder_that_was_removed_meanwhile(out, tmp_path):
    run(out, meanwhile=out.rmdir)
    assert (out / "summary.json").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_force_replaces_results(out, tmp_path):
    out.mkdir()
    write(out, "old")
    (out / "scores.csv").write_text("old")
    with claimed(out, force=True) as part:
        write(part)
        assert (out / "summary.json").read_text() == "old"
    assert names(out) == ["summary.json"]
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("existing", [False, True])
def test_failure_leaves_everything_as_it_was(out, tmp_path, existing):
    if existing:
        out.mkdir()
        write(out, "old")

    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(out, True, meanwhile=interrupt)
    assert names(tmp_path) == ["out"] * existing
    if existing:
        assert (out / "summary.json").read_text() == "old"
