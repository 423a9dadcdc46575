"""The transcripts in the guide to the command line are what the commands print."""

import doctest
import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("typer")
import shlex

from typer.testing import CliRunner

from ebcd import datasets
from ebcd.cli import _progress
from ebcd.cli._app import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "command_line.md"
CONSOLE = re.compile(r"^```console\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
ITERATIONS = re.compile(r"\d+ iterations")  # differ between processors
STAFF = "name,team,height,weight,age\nAnn,blue,1.7,60,30\nBen,red,1.8,,41\n"
STAFF += "Cid,red,1.6,55,29\nDee,blue,1.75,72,50\nEve,red,1.65,58,38\n"


def transcripts():
    """Commands of the guide, each with what it prints."""
    for block in CONSOLE.findall(PAGE.read_text(encoding="utf-8")):
        for part in block.split("$ ")[1:]:
            command, _, output = part.partition("\n")
            yield command.removeprefix("ebcd "), output


def test_transcripts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 1e9)  # as on a fast machine
    shutil.copy(Path(datasets.__file__).with_name("us_employment.csv"), "employment.csv")
    Path("staff.csv").write_text(STAFF, encoding="utf-8")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    commands = 0
    for command, expected in transcripts():
        if "|" in command:  # what needs a shell and other programs
            command = command.split(" 2>")[0]
            result = CliRunner().invoke(app, shlex.split(command))
            assert f'"n_components": {expected.strip()},' in result.stdout
        else:
            result = CliRunner().invoke(app, shlex.split(command))
            texts = (ITERATIONS.sub("some iterations", text) for text in (expected, result.output))
            right = doctest.OutputChecker().check_output(*texts, flags)
            assert right, f"{command}:\n{result.output}"
        commands += 1
    assert commands == 5


def test_all_commands_and_options_are_in_the_guide():
    page = PAGE.read_text(encoding="utf-8")
    for command in ("fit", "demo", "report", "compare", "transform"):
        assert f"`ebcd {command}" in page
    shown = CliRunner().invoke(app, ["fit", "--help"], env={"COLUMNS": "200"}).stdout
    options = set(re.findall(r"--[a-z][a-z-]+", shown)) - {"--help"}
    short = {"--n-components": "-k", "--output": "-o", "--center": "--no-center"}
    missing = {option for option in options if short.get(option, option) not in page}
    assert not missing
