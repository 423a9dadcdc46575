"""The worked example runs to its end: components in words, whole pictures on disk."""

import re
import runpy
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.py"
# The words of the demonstration are about these components.
EXPECTED = {
    "the business cycle": (48, 12, "construction", "2009-04"),
    "outside the cycle": (9, 3, "education and health services, government, utilities", "2010-09"),
    "mining": (7, 3, "mining and logging, durable goods, wholesale trade", "2015-05"),
}


@pytest.mark.slow
def test_demo(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setattr(sys, "argv", ["demo.py", "--output", str(tmp_path)])
    runpy.run_path(str(DEMO), run_name="__main__")
    words = " ".join(capsys.readouterr().out.split("In words")[1].split())
    for name, (share, n_sectors, sectors, month) in EXPECTED.items():
        assert f"{name}, {share} % of the variance" in words
        found = re.search(rf"{name}, .*?Sectors: (.*?)\. Lowest scores: (.*?),", words)
        assert found is not None
        assert found[1].startswith(sectors)
        assert len(found[1].split(", ")) == n_sectors
        assert found[2] == month
    pictures = sorted(tmp_path.iterdir())
    assert [path.name for path in pictures] == ["employment.png", "shrinkage.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in pictures)
