"""Mutated files: those that once went wrong, and some new ones for every reader."""

import gzip

import pytest

fuzz = pytest.importorskip("benchmarks.fuzz", exc_type=ImportError)
for package in ("h5py", "pandas", "pyarrow", "python_calamine"):
    pytest.importorskip(package)

KEPT = sorted(fuzz.CORPUS.glob("*-*"))
# which are read in a process
CHILDREN = ("matrix market", "xlsx", "xls", "ods", "h5ad", "sparse h5ad", "chunks h5ad")


@pytest.fixture(scope="module", autouse=True)
def _libraries(tmp_path_factory):
    """Read a file in a process first, whose memory no other file is to blame for."""
    path = tmp_path_factory.mktemp("right") / "file"
    path.write_bytes(fuzz.READERS["chunks h5ad"][0]())
    fuzz.READERS["chunks h5ad"][1](path)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_files_that_were_kept(path, monkeypatch):
    monkeypatch.setattr("ebcd.data.files._formats._PATIENCE", 1)  # a library never ends on one
    assert fuzz.attempt(path.name.rpartition("-")[0].replace("_", " "), path) == ""


@pytest.mark.parametrize("reader", fuzz.READERS)
def test_mutated_files(reader):
    seeds = range(2 if reader in CHILDREN else 40)
    assert not list(fuzz.run_here(reader, seeds))


@pytest.mark.parametrize("reader", fuzz.READERS)
def test_files_that_are_right(reader, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(fuzz.READERS[reader][0]())
    values = fuzz.READERS[reader][1](path)
    assert values.size > 0


def test_cells_below_a_longer_empty_row_are_not_lost(tmp_path):
    path = tmp_path / "table.csv"
    rows = [f"{i},{i % 7}" for i in range(70)]
    path.write_text("\n".join(["a,b", ",,,", *rows, "1,2,3"]))
    with pytest.raises(ValueError, match="line 73: 3 cells where 2 were expected"):
        fuzz.read_table(path)
    path.write_text("\n".join(["a,b", ",,,", *rows]))
    assert fuzz.read_table(path).values.shape == (70, 2)


def test_compressed_files_are_looked_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr("ebcd.data.files._formats._PATIENCE", 1)
    path = tmp_path / "cells.h5ad.gz"
    path.write_bytes(gzip.compress((fuzz.CORPUS / "chunks_h5ad-4").read_bytes()))
    with pytest.raises(ValueError, match="its reader did not finish within 1 s"):
        fuzz.read_table(path)
