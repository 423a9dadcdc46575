"""The benchmark on other people's tables: what it does without their packages, and its page."""

import pytest

from benchmarks import bench_datasets
from benchmarks.bench_datasets import Package, Run, advice, main

pd = pytest.importorskip("pandas")
pytest.importorskip("typer")


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("error: x: text; leave out with --drop a, or with --numeric-only", "--numeric-only"),
        (
            "error: leave out the 2 of 9 rows with --numeric-only --drop-missing rows, or columns",
            "--numeric-only --drop-missing rows",
        ),
        ("warning: variances differ; add --standardize to give", "--standardize"),
        ("note: the column 'year' is data (--index year, or left out with --drop year)", ""),
        ("error: x: every column is constant", ""),
    ],
)
def test_advice(line, options):
    assert advice(Run((), 2, [line], 1.0, None)) == options.split()


def gone(name):
    raise ModuleNotFoundError("No module named 'gone'")


@pytest.mark.slow
def test_page(tmp_path, monkeypatch, capsys, run_process):
    """One table is refused without advice being followed, one is fitted, one is not there."""

    def run(command, cwd, **_):
        return run_process("from ebcd.cli import main; main()", *command[3:], folder=cwd)

    monkeypatch.setattr(bench_datasets.subprocess, "run", run)
    values = [[i, (7 * i) % 11, i + (3 * i) % 5, "ab"[i % 2]] for i in range(30)]
    frame = pd.DataFrame(values, columns=["x", "y", "z", "group|s"])
    packages = (Package("pandas", lambda name: frame, ("mine",)), Package("gone", gone, ("other",)))
    monkeypatch.setattr(bench_datasets, "PACKAGES", packages)
    main(["--page", str(tmp_path / "page.md")])
    assert "gone is not installed, so there is no other" in capsys.readouterr().out
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert f"pandas {pd.__version__}" in page
    assert "| mine<br>pandas, 30 x 4 |" in page
    assert "see the message below" in page
    assert r"error: mine.csv: 1 column holds text: 'group\|s'" in page
    assert "| mine | `--numeric-only` |" in page
    assert "component" in page.rpartition("`--numeric-only`")[2]
    assert "Not installed, and skipped: other (gone)." in page
