"""Passes over files that are interrupted go on where they were."""

import os
import warnings

import numpy as np
import pytest
from interruptions import Interruptions, same_fit
from scipy import sparse

from ebcd import EBCD, Chunks
from ebcd.data import _inputs, _matrix
from ebcd.data._chunks import Reader
from ebcd.fitting import _checkpoint, _clock

ROWS = 400


def draw(n=ROWS, p=12, seed=0):
    rng = np.random.default_rng(seed)
    loadings = rng.laplace(size=(2, p)) * (rng.random((2, p)) < 0.5) * 2
    return rng.normal(size=(n, 2)) @ loadings + rng.normal(size=(n, p)) + 3.0


X = draw()


def mapped(folder, data):
    np.save(folder / "x.npy", data)
    return Chunks.from_npy(folder / "x.npy", rows_per_chunk=90)


def columns_of_a_map(folder, data):
    np.save(folder / "x.npy", np.hstack([data, data]))
    return Chunks(np.load(folder / "x.npy", mmap_mode="r")[:, 12:], rows_per_chunk=90)


def hdf5(folder, data):
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file["x"] = data
    return Chunks.from_hdf5(folder / "x.h5", "x", rows_per_chunk=90)


def h5ad(folder, data):
    anndata = pytest.importorskip("anndata")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        anndata.AnnData(sparse.csr_matrix(np.where(data > 4, data, 0))).write_h5ad(
            folder / "x.h5ad"
        )
    return Chunks.from_h5ad(folder / "x.h5ad", rows_per_chunk=90)


def parquet(folder, data):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    paths = [folder / "a.parquet", folder / "b.parquet"]
    for path, rows in zip(paths, np.split(data, [130]), strict=True):
        parquet.write_table(arrow.table({f"x{j}": c for j, c in enumerate(rows.T)}), path)
    return Chunks.from_parquet(paths, rows_per_chunk=90)


FILES = {f.__name__: f for f in (mapped, columns_of_a_map, hdf5, h5ad, parquet)}


@pytest.fixture
def read(monkeypatch):
    """Rows that have been read so far."""
    rows, checked = [], Reader._checked

    def counted(self, chunk, number):
        rows.append(chunk.shape[0])
        return checked(self, chunk, number)

    monkeypatch.setattr(Reader, "_checked", counted)
    return rows


@pytest.fixture(params=["gathered", "streamed"])
def route(request, monkeypatch):
    monkeypatch.setattr(_inputs, "_SMALL", 0)
    if request.param == "streamed":
        monkeypatch.setattr(_inputs, "_MODERATE", 0)
    return request.param


@pytest.fixture
def interruptions(monkeypatch, tmp_path):
    (tmp_path / "kept").mkdir()
    return Interruptions(monkeypatch, tmp_path / "kept")


class TestFiles:
    @pytest.mark.parametrize("kind", FILES)
    def test_go_on_where_they_were(self, monkeypatch, interruptions, tmp_path, read, route, kind):
        monkeypatch.setattr(_checkpoint, "_DEAR", 0)
        chunks = FILES[kind](tmp_path, X)
        whole = EBCD(2).fit(chunks)
        once = sum(read)
        read.clear()
        resumed = interruptions.finish(lambda **more: EBCD(2, **more), lambda m: m.fit(chunks), 7)
        assert same_fit(whole, resumed)
        assert interruptions.kills >= 3
        assert interruptions.leftovers() == []
        assert sum(read) <= 1.05 * once + ROWS  # one product tells whether data are the same

    def test_changed_files_are_not_gone_on_with(self, interruptions, tmp_path, route):
        chunks = mapped(tmp_path, X)
        interruptions.kill_once(lambda **more: EBCD(2, **more), lambda m: m.fit(chunks), 2)
        content = interruptions.path.read_bytes()
        chunks = mapped(tmp_path, draw(seed=1))
        os.utime(tmp_path / "x.npy", (1, 1))
        with pytest.raises(ValueError, match="it is about other files, or they have changed"):
            EBCD(2, checkpoint=interruptions.path).fit(Chunks.from_npy(tmp_path / "x.npy"))
        assert interruptions.path.read_bytes() == content

    def test_once_they_are_read_their_numbers_count(self, interruptions, tmp_path, route):
        """A copy of a file is as good; other data are refused, and the file is left alone."""
        chunks = mapped(tmp_path, X)
        whole = EBCD(2).fit(chunks)
        interruptions.kill_once(lambda **more: EBCD(2, **more), lambda m: m.fit(chunks), 16)
        content = interruptions.path.read_bytes()
        np.save(tmp_path / "other.npy", draw(seed=1))
        with pytest.raises(ValueError, match="belongs to another fit: the data differ"):
            EBCD(2, checkpoint=interruptions.path).fit(Chunks.from_npy(tmp_path / "other.npy"))
        assert interruptions.path.read_bytes() == content
        with pytest.raises(ValueError, match="n_components is 2 there and 1 here"):
            EBCD(1, checkpoint=interruptions.path).fit(chunks)
        assert interruptions.path.read_bytes() == content
        np.save(tmp_path / "copy.npy", X)
        copied = Chunks.from_npy(tmp_path / "copy.npy", rows_per_chunk=90)
        assert same_fit(whole, EBCD(2, checkpoint=interruptions.path).fit(copied))

    def test_maps_that_can_be_written_to_have_no_stamp(self, tmp_path):
        np.save(tmp_path / "x.npy", X)
        for mode, known in (("r", True), ("r+", False), ("c", False)):
            array = np.load(tmp_path / "x.npy", mmap_mode=mode)
            assert (Reader(Chunks(array)).stamp is not None) == known

    def test_parts_of_a_map_have_stamps_of_their_own(self, tmp_path):
        np.save(tmp_path / "x.npy", X)
        array = np.load(tmp_path / "x.npy", mmap_mode="r")
        parts = (array, array[1:], array[:-1], array[::2], array[:, 1:], array[:, ::-1])
        stamps = [Reader(Chunks(part)).stamp for part in parts]
        assert len({str(stamp) for stamp in stamps}) == len(parts)

    def test_a_short_pass_is_not_kept(self, monkeypatch, tmp_path):
        monkeypatch.setattr(_inputs, "_SMALL", 0)
        monkeypatch.setattr(_clock, "now", lambda: 0.0)
        kept = []
        monkeypatch.setattr(_checkpoint.Checkpoint, "keep_sums", lambda *args: kept.append(1))
        EBCD(2, checkpoint=tmp_path / "fit").fit(mapped(tmp_path, X))
        assert kept == []


def test_what_can_be_read_only_from_the_beginning(interruptions, route, read):
    chunks = Chunks(lambda: iter(np.array_split(X, 8)))
    whole = EBCD(2).fit(chunks)
    resumed = interruptions.finish(lambda **more: EBCD(2, **more), lambda m: m.fit(chunks), 9)
    assert interruptions.kills > 0
    assert same_fit(whole, resumed)


def test_cross_products_of_data_in_memory(interruptions, monkeypatch):
    """They are added up in blocks, of which finished ones are not done again."""
    monkeypatch.setattr(_matrix, "_CHUNK", 30 * 12)
    monkeypatch.setattr(_checkpoint, "_DEAR", 0)
    begun, blocks = [], _matrix._row_blocks

    def counted(x, begin=0):
        begun.append(begin)
        return blocks(x, begin)

    whole = EBCD(2).fit(X)
    monkeypatch.setattr(_matrix, "_row_blocks", counted)
    resumed = interruptions.finish(lambda **more: EBCD(2, **more), lambda m: m.fit(X), 3)
    assert same_fit(whole, resumed)
    assert max(begun) > 300


def test_time_of_the_first_pass_counts(monkeypatch, tmp_path):
    """A deadline is one of the whole fit."""
    monkeypatch.setattr(_inputs, "_SMALL", 0)
    seconds, checked = [0.0], Reader._checked

    def slow(self, chunk, number):
        seconds[0] += 1
        return checked(self, chunk, number)

    monkeypatch.setattr(Reader, "_checked", slow)
    monkeypatch.setattr(_clock, "now", lambda: seconds[0])
    with pytest.warns(UserWarning, match="stopped after max_time=3 seconds"):
        EBCD(2, max_time=3).fit(mapped(tmp_path, X))
