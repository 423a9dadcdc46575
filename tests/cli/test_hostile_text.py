"""Names that terminals, spreadsheets and pictures would obey, and outputs that cannot be used."""

import csv
import json
import os
import re
import sys
from html import escape
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("pandas")
import pandas as pd
from typer.testing import CliRunner

import ebcd
from ebcd._parameters import printable
from ebcd.cli._app import app
from ebcd.report import write_report

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6)) + 3 * RNG.standard_normal((40, 1)) * (np.arange(6) < 5)
ESCAPE = "a\x1b[31mred\x9b0m\x07"
FORMULAS = ["=cmd|' /C calc'!A0", "@SUM(A1)", "+1+1", "-2+3", "'=already"]
NAMES = [ESCAPE, *FORMULAS]
ROWS = ["=HYPERLINK(1)", "-5", "+7.5", "''@twice", *(f"r{i}" for i in range(36))]


def run(*arguments, **options):
    return CliRunner().invoke(app, prog_name="ebcd", args=[str(a) for a in arguments], **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile")
    frame = pd.DataFrame(X, columns=NAMES, index=pd.Index(ROWS, name="@id"))
    frame.to_csv(path / "x.csv")
    result = run("fit", path / "x.csv", "-o", path / "out", "-k", 1, "--start", "svd")
    assert result.exit_code == 0, result.output
    assert "red" in result.stdout
    assert not set(result.output) & {"\x1b", "\x9b", "\x07"}
    return path


def test_errors_and_notes_have_no_escapes(tmp_path):
    frame = pd.DataFrame(X, columns=NAMES)
    frame[ESCAPE] = f"text {ESCAPE}"
    frame.to_csv(tmp_path / "x.csv", index=False)
    for more in ((), ("--numeric-only",), ("--drop", f"x{ESCAPE}")):
        result = run("fit", tmp_path / "x.csv", "-o", tmp_path / "out", *more)
        assert not set(result.output) & {"\x1b", "\x9b", "\x07"}


def test_json_on_a_terminal(folder):
    result = run("fit", folder / "x.csv", "-o", folder / "out2", "-k", 1, "--json", "-q")
    assert not set(result.output) & {"\x1b", "\x9b", "\x07"}
    top = json.loads(result.stdout)["components"][0]["top_features"]
    assert {feature["name"] for feature in top} == set(NAMES)


def test_spreadsheets_find_no_formula(folder):
    for name in ("components.csv", "scores.csv"):
        with (folder / "out" / name).open(newline="", encoding="utf-8") as file:
            for row in csv.reader(file):
                for cell in row:
                    assert cell[:1] not in "=+-@\t\r" or cell == "" or np.isfinite(float(cell))


def _as_the_guide_says(name):
    """Remove one apostrophe from a name that begins with some before a sign of a formula."""
    return name[1:] if re.match(r"'+[=+\-@]", name) else name


def test_what_reads_the_files_again_finds_the_names(folder, monkeypatch):
    from ebcd.cli import _results

    found = {}
    monkeypatch.setattr(_results, "write_report", lambda *args, **options: found.update(options))
    _results.rewrite_report(folder / "out")
    assert found["row_names"] == ROWS
    names = pd.read_csv(folder / "out" / "components.csv", index_col=0).index
    assert [_as_the_guide_says(name) for name in names] == NAMES
    result = run("transform", folder / "out", folder / "x.csv")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("'=HYPERLINK")


@pytest.mark.parametrize("name", ["=1", "'=1", "''=1", "1", "-1.5", "-", "'", "a", "", "'a", "+x"])
def test_apostrophes_are_undone(name):
    from ebcd.cli import _results

    assert _as_the_guide_says(_results._harmless(name)) == name


def test_a_lone_surrogate_in_a_name(tmp_path):
    model = ebcd.EBCD(1).fit(pd.DataFrame(X, columns=["\ud800", *"bcdef"]))
    model.summary().encode()
    model._repr_html_inner().encode()
    path = write_report(
        model, tmp_path / "r.html", title="\udcff", source="\udcff", notes=["\ud800"]
    )
    assert path.exists()
    ebcd.save(model, tmp_path / "m.npz")
    assert ebcd.load(tmp_path / "m.npz").feature_names_in_[0] == "\ud800"


def test_a_file_whose_name_is_not_text(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.csv"
    try:
        Path(os.fsdecode(path)).write_text("a,b\n" + "\n".join(f"{a},{b}" for a, b in X[:, :2]))
    except OSError:
        pytest.skip("the file system has only names that are text")
    result = run("fit", os.fsdecode(path), "-o", tmp_path / "out", "-k", 1)
    assert result.exit_code == 0, result.output
    source = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))["source"]
    assert os.fsencode(source) == path
    page = run("compare", os.fsdecode(path), "-o", tmp_path / "c.html", "-k", 1, "--method", "PCA")
    assert page.exit_code == 0, page.output


def test_pictures_are_valid_xml(tmp_path):
    pytest.importorskip("matplotlib")
    names = ["\x1b", "\x00--", "\ud800", "\x0b", "\ufffe", "b<&>"]
    model = ebcd.EBCD(1).fit(X)
    for text in ("none", "path"):
        import matplotlib as mpl

        with mpl.rc_context({"svg.fonttype": text, "font.family": "sans-serif"}):
            axes = ebcd.plots.heatmap(model, feature_names=names)
            axes.figure.savefig(tmp_path / "x.svg")
            mpl.pyplot.close(axes.figure)
        ET.parse(tmp_path / "x.svg")


def test_the_page_has_no_control_characters():
    from ebcd.report._facts import Facts

    model = ebcd.EBCD(1).fit(X)
    facts = Facts(model, feature_names=NAMES)
    assert facts.names[0] == "a�[31mred�0m�"
    every = escape("".join(map(chr, range(0x11000))))
    assert ET.fromstring(f"<svg>{printable(every)}</svg>").text


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("command", "output", "code"),
    [
        ("fit x.csv -o new -k 1", "/dev/full", 2),
        ("fit x.csv -o new -k 1 --json", "/dev/full", 2),
        ("transform out x.csv", "/dev/full", 2),
        ("--version", "/dev/full", 2),
        ("fit x.csv -o new -k 1", None, 0),
        ("report out", None, 0),
        ("transform out x.csv", None, 2),
        ("--version", None, 0),
    ],
)
def test_output_that_cannot_be_written(folder, tmp_path, run_process, command, output, code):
    words = [str(folder / w) if w in ("x.csv", "out") else w for w in command.split()]
    main = "from ebcd.cli import main; main()"
    process = run_process(main, *words, folder=tmp_path, stdout=output)
    assert process.returncode == code, process.stderr
    assert "Traceback" not in process.stderr
    if code:
        last = process.stderr.splitlines()[-1]
        assert last.startswith("error: "), last
        assert "space" in last or "closed" in last


def test_standard_input_that_is_closed(monkeypatch, tmp_path):
    from ebcd.data.files import _table

    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        _table.read_table(Path("-"))


def test_an_interrupted_fit_tells_of_its_checkpoint(folder, tmp_path, monkeypatch):
    checkpoint = tmp_path / "fit.checkpoint"

    def interrupt(*args, **options):
        checkpoint.write_bytes(b"")
        raise KeyboardInterrupt

    from ebcd.cli import _app

    monkeypatch.setattr(_app, "fit_and_write", interrupt)
    command = ("fit", folder / "x.csv", "-o", tmp_path / "out")
    result = run(*command, "--checkpoint", checkpoint)
    assert result.exit_code == 130
    assert f"resumes from the checkpoint {checkpoint}" in result.stderr
    monkeypatch.setattr(_app, "fit_and_write", lambda *a, **o: 1 / 0)
    result = run(*command)
    assert result.exit_code == 2
    assert "this should not happen" in result.stderr
