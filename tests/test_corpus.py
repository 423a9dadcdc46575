"""Mutated files: those that once went wrong, and some new ones for every reader."""

import pytest

fuzz = pytest.importorskip("benchmarks.fuzz", exc_type=ImportError)
for package in ("h5py", "pandas", "pyarrow"):
    pytest.importorskip(package)

KEPT = sorted(fuzz.CORPUS.glob("*-*"))
CHILDREN = ("matrix market", "h5ad", "sparse h5ad", "chunks h5ad")  # which are read in a process


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_files_that_were_kept(path, monkeypatch):
    monkeypatch.setattr("ebcd.data.files._formats._PATIENCE", 5)  # a library never ends on one
    assert fuzz.attempt(path.name.rpartition("-")[0].replace("_", " "), path) == ""


@pytest.mark.parametrize("reader", fuzz.READERS)
def test_mutated_files(reader):
    seeds = range(10_000_000, 10_000_002 if reader in CHILDREN else 10_000_040)
    assert not list(fuzz.run_here(reader, seeds))


@pytest.mark.parametrize("reader", fuzz.READERS)
def test_files_that_are_right(reader, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(fuzz.READERS[reader][0]())
    values = fuzz.READERS[reader][1](path)
    assert values.size > 0
