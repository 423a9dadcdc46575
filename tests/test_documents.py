"""The examples in the README and the guide do what they say, and their pictures are there."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import ebcd
from ebcd.estimators._readable import SCOPES

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_examples(path):
    if path.name == "dask.md":
        pytest.importorskip("dask.array")
    examples = "\n".join(BLOCK.findall(path.read_text(encoding="utf-8")))
    test = doctest.DocTestParser().get_doctest(examples, {}, path.name, str(path), 0)
    assert test.examples, f"{path.name} has no example"
    report = []
    failed, _ = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert failed == 0, "".join(report)


@pytest.mark.parametrize(
    "path",
    [*DOCUMENTS, *(ROOT / "docs" / name for name in ("index.md", "paper.md", "scale.md"))],
    ids=lambda path: path.name,
)
def test_pictures(path):
    for name in PICTURE.findall(path.read_text(encoding="utf-8")):
        picture = path.parent / name
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size < 150_000


def test_citation_has_the_version():
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {ebcd.__version__}" in lines


def test_architecture_names_what_exists():
    """Every file that the map of the code names exists, and has the function named beside it."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    source = ROOT / "src" / "ebcd"
    files = re.findall(r"`([a-z_/]+\.py)`", text)
    missing = [name for name in files if not ((source / name).exists() or (ROOT / name).exists())]
    assert not missing
    steps = re.findall(r"\| `(\w+)` \| `([a-z_/]+\.py)` \|$", text, flags=re.MULTILINE)
    assert len(steps) > 8
    for name, path in steps:
        code = (source / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b", code, flags=re.MULTILINE), (name, path)


@pytest.mark.parametrize("scores", ["orthogonal", "relaxed", "integrated"])
def test_uncertainties_are_as_far_from_the_truth_as_people_are_told(scores):
    lines = (ROOT / "docs" / "guide" / "uncertainty.md").read_text(encoding="utf-8").splitlines()
    [head] = [
        i for i, line in enumerate(lines) if line.startswith("| n | p | share | strength | cov")
    ]
    rows = [re.split(r" *\| *", line.strip("| ")) for line in lines[head + 2 : head + 22]]
    place = ["orthogonal", "relaxed", "integrated"].index(scores)
    covered = [int(row[5 + place]) for row in rows]
    wrong = [float(row[9 + place]) for row in rows]
    told = SCOPES[scores]
    assert told.between == f"{min(covered)}% to {max(covered)}%"
    assert abs(float(told.covered[:-1]) - np.mean(covered)) < 1
    assert float(told.most[:-1]) == max(wrong)
