"""Interrupted fits to data in chunks."""

from dataclasses import replace

import numpy as np
import pytest
from interruptions import Interruptions, same_optimum

from ebcd import EBCD, Chunks
from ebcd.data import _settings
from ebcd.data._streamed import ChunkRows
from ebcd.fitting import _progress


def draw(n=400, p=12, seed=0):
    rng = np.random.default_rng(seed)
    loadings = rng.laplace(size=(2, p)) * (rng.random((2, p)) < 0.5) * 2
    return rng.normal(size=(n, 2)) @ loadings + rng.normal(size=(n, p)) + 3.0


X = draw()


def mapped(folder, data):
    np.save(folder / "x.npy", data)
    return Chunks.from_npy(folder / "x.npy", rows_per_chunk=90)


@pytest.fixture(params=["gathered", "streamed"])
def route(request, monkeypatch):
    sizes = {"gathered": {"small": 0}, "streamed": {"small": 0, "moderate": 0}}[request.param]
    monkeypatch.setattr(_settings, "SETTINGS", replace(_settings.SETTINGS, **sizes))
    return request.param


@pytest.fixture
def interruptions(monkeypatch, tmp_path):
    (tmp_path / "kept").mkdir()
    return Interruptions(monkeypatch, tmp_path / "kept")


@pytest.mark.parametrize("kind", ["files", "functions"])
def test_go_on(interruptions, tmp_path, route, kind):
    chunks = mapped(tmp_path, X) if kind == "files" else Chunks(lambda: np.array_split(X, 8))
    whole = EBCD(2).fit(chunks)
    resumed = interruptions.finish(lambda **more: EBCD(2, **more), lambda m: m.fit(chunks))
    assert interruptions.kills > 0
    assert interruptions.leftovers() == []
    assert same_optimum(whole, resumed)


def test_numbers_count_not_files(interruptions, tmp_path, route):
    """A copy of a file is as good; other data are refused, and the checkpoint is left alone."""
    chunks = mapped(tmp_path, X)
    whole = EBCD(2).fit(chunks)
    interruptions.kill_once(lambda **more: EBCD(2, **more), lambda m: m.fit(chunks))
    content = interruptions.path.read_bytes()
    np.save(tmp_path / "other.npy", draw(seed=1))
    with pytest.raises(ValueError, match="belongs to another fit: the data differ"):
        EBCD(2, checkpoint=interruptions.path).fit(Chunks.from_npy(tmp_path / "other.npy"))
    assert interruptions.path.read_bytes() == content
    np.save(tmp_path / "copy.npy", X)
    copied = Chunks.from_npy(tmp_path / "copy.npy", rows_per_chunk=90)
    assert same_optimum(whole, EBCD(2, checkpoint=interruptions.path).fit(copied))


def test_time_of_the_first_pass_counts(monkeypatch, tmp_path):
    """A deadline is one of the whole fit."""
    monkeypatch.setattr(_settings, "SETTINGS", replace(_settings.SETTINGS, small=0, fewest_rows=1))
    seconds, checked = [0.0], ChunkRows._checked

    def slow(self, chunk, number):
        seconds[0] += 1
        return checked(self, chunk, number)

    monkeypatch.setattr(ChunkRows, "_checked", slow)
    monkeypatch.setattr(_progress, "now", lambda: seconds[0])
    with pytest.warns(UserWarning, match="stopped after max_time=3 seconds"):
        EBCD(2, max_time=3).fit(mapped(tmp_path, X))
