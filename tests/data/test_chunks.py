"""Sources of chunks: memory maps, files, and what people hand over in their place."""

import gzip
import pickle
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from ebcd import Chunks
from ebcd.data import _streamed, as_input, as_rows, comes_in_chunks
from ebcd.data._rows import is_mapped
from ebcd.data._streamed import release_pages

NAMES = ["a", "b", "c d", "e"]


def draw(n=50, p=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, p))


def whole(chunks):
    parts = list(chunks)
    return np.vstack([part.toarray() if sparse.issparse(part) else part for part in parts])


def saved(path, X):
    np.save(path, X)
    return np.load(path, mmap_mode="r")


class TestSources:
    def test_rows_per_chunk(self):
        X = draw(10)
        assert [len(chunk) for chunk in Chunks(X, rows_per_chunk=4)] == [4, 4, 2]
        assert [len(chunk) for chunk in Chunks(X)] == [10]

    def test_may_be_read_again(self):
        X = draw()

        class Anew:
            def __iter__(self):
                return iter([X[:20], X[20:]])

        for source in ([X[:20], X[20:]], Anew(), lambda: iter([X[:20], X[20:]]), X):
            chunks = Chunks(source)
            for _ in range(2):
                np.testing.assert_array_equal(whole(chunks), X)

    def test_first_chunk_of_an_iterator_is_not_lost(self):
        X = draw()
        np.testing.assert_array_equal(whole(Chunks(iter([X[:20], X[20:]]))), X)

    def test_same_iterator_again(self):
        X = draw()
        once, mapped = iter([X[:20], X[20:]]), map(np.asarray, [X[:20], X[20:]])
        generated = (part for part in [X[:20], X[20:]])

        class Used:
            def __iter__(self):
                return generated

        for source in (lambda: once, lambda: mapped, Used()):
            chunks = Chunks(source)
            np.testing.assert_array_equal(whole(chunks), X)
            with pytest.raises(ValueError, match=r"no rows: .* must make a new iterator"):
                whole(chunks)

    def test_truth_values(self):
        X = draw() > 0
        for part in (X, sparse.csr_array(X), X.astype(object)):
            np.testing.assert_array_equal(whole(Chunks([part, part])), np.vstack([X, X]))

    def test_frames_with_truth_values(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [1.5, 2.5], "b": [True, False]})
        np.testing.assert_array_equal(whole(Chunks([frame])), [[1.5, 1.0], [2.5, 0.0]])
        frame["who"] = ["me", "you"]
        with pytest.raises(TypeError, match=r"chunk 0 must .* in column 'who': .* drop or encode"):
            whole(Chunks([frame]))
        with pytest.raises(TypeError, match="chunk 0 must hold real numbers: could not convert"):
            whole(Chunks([frame.to_numpy()]))

    def test_says_how_large_it_is(self):
        X = draw()
        assert repr(Chunks(X)) == repr(Chunks([X])) == "Chunks(50 rows, 4 columns)"
        assert repr(Chunks(iter([X]))) == "Chunks(4 columns)"

    @pytest.mark.parametrize("bad", [3, None, 1.5])
    def test_nothing_to_read(self, bad):
        with pytest.raises(TypeError, match="Chunks needs a list of chunks, an iterable, a func"):
            Chunks(bad)

    def test_path(self, tmp_path):
        for path in (tmp_path, str(tmp_path)):
            with pytest.raises(TypeError, match=r"not the path '.*'; use Chunks.from_npy\(path\)"):
                Chunks(path)

    def test_function_that_returns_no_iterator(self):
        with pytest.raises(TypeError, match="must return an iterator over chunks, it returned int"):
            Chunks(lambda: 3)

    def test_array_of_one_dimension(self):
        with pytest.raises(ValueError, match=r"must have rows and columns, got shape \(5,\)"):
            Chunks(np.zeros(5))

    @pytest.mark.parametrize(
        ("bad", "error"), [(0, ValueError), (2.5, TypeError), (True, TypeError)]
    )
    def test_rows_per_chunk_is_a_count(self, bad, error):
        with pytest.raises(error, match="rows_per_chunk must be"):
            Chunks(draw(), rows_per_chunk=bad)

    def test_columns_as_in_fit(self):
        with pytest.raises(ValueError, match=r"X has 4 features, but .* is expecting 5"):
            as_rows(Chunks(draw())).check_columns(SimpleNamespace(n_features_in_=5), reset=False)


class TestMemoryMaps:
    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("dtype", ["f8", "f4", "f2", ">f8", "i4"])
    def test_any_layout(self, order, dtype, tmp_path):
        X = np.round(8 * draw()).astype(dtype, order=order)
        mapped = saved(tmp_path / "x.npy", X)
        assert is_mapped(mapped)
        assert comes_in_chunks(mapped)
        np.testing.assert_array_equal(whole(Chunks(mapped, rows_per_chunk=7)), X)
        data = as_input(mapped, True, False)
        np.testing.assert_allclose(data.variances, X.astype(float).var(axis=0), rtol=1e-12)

    def test_part_of_a_map(self, tmp_path):
        X = draw(20_000, 6)
        mapped = saved(tmp_path / "x.npy", X)
        for part in (np.s_[1000:9000], np.s_[::3, 1:], np.s_[5000:, ::2]):
            chunks = Chunks(mapped[part], rows_per_chunk=999)
            for _ in range(2):
                np.testing.assert_array_equal(whole(map(np.array, chunks)), X[part])

    def test_map_with_an_offset(self, tmp_path):
        X = draw(3000, 5)
        path = tmp_path / "x.dat"
        path.write_bytes(b"h" * 5000 + X.tobytes())
        mapped = np.memmap(path, dtype=np.float64, mode="r", offset=5000, shape=X.shape)
        np.testing.assert_array_equal(whole(map(np.array, Chunks(mapped, rows_per_chunk=100))), X)

    def test_what_was_written_stays(self, tmp_path):
        X = draw(3000, 5)
        np.save(tmp_path / "x.npy", X)
        for mode in ("c", "r+"):
            mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
            mapped[7, 3] = 99.0
            as_input(Chunks(mapped, rows_per_chunk=100), True, False)
            release_pages(mapped)
            assert mapped[7, 3] == 99.0

    def test_results_of_arithmetic_are_in_memory(self, tmp_path):
        mapped = saved(tmp_path / "x.npy", draw())
        for made in (mapped + 1, mapped[[3, 1]]):
            assert not is_mapped(made)
            assert not comes_in_chunks(made)

    def test_never_copied(self, tmp_path):
        np.save(tmp_path / "x.npy", draw(200_000, 20))
        mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
        tracemalloc.start()
        as_input(mapped, True, True)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < mapped.nbytes / 4

    def test_pages_are_given_back(self, tmp_path, monkeypatch):
        """Every byte of the map, and no page twice but at the seams."""
        mapped = saved(tmp_path / "x.npy", draw(20_000, 8))
        given_back = []
        monkeypatch.setattr(_streamed, "release_pages", lambda block: given_back.append(block.size))
        for _ in Chunks(mapped, rows_per_chunk=1000):
            pass
        assert given_back == [8000] * 20

    def test_resident_memory_falls(self, tmp_path):
        """What the kernel says of this mapping, where there is such a kernel."""
        if not sys.platform.startswith("linux"):
            pytest.skip("needs /proc/self/smaps")
        mapped = saved(tmp_path / "resident.npy", draw(50_000, 20))
        float(mapped.sum())
        assert resident("resident.npy") > mapped.nbytes / 2048
        for _ in Chunks(mapped):
            pass
        assert resident("resident.npy") < mapped.nbytes / 2048 / 10


def resident(name):
    """Resident kilobytes of the mappings of a file."""
    total, ours = 0, False
    with open("/proc/self/smaps", encoding="utf-8") as lines:  # noqa: PTH123
        for line in lines:
            if "-" in line.split()[0]:
                ours = line.rstrip().endswith(name)
            elif ours and line.startswith("Rss:"):
                total += int(line.split()[1])
    return total


class TestNpy:
    def test_reads(self, tmp_path):
        X = draw()
        np.save(tmp_path / "x.npy", X)
        chunks = Chunks.from_npy(tmp_path / "x.npy", rows_per_chunk=8)
        np.testing.assert_array_equal(whole(chunks), X)

    def test_archive(self, tmp_path):
        np.savez(tmp_path / "x.npz", X=draw())
        with pytest.raises(ValueError, match=r"x\.npz is not a complete NPY file"):
            Chunks.from_npy(tmp_path / "x.npz")

    def test_missing(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            Chunks.from_npy(tmp_path / "x.npy")

    def test_other_file(self, tmp_path):
        (tmp_path / "x.npy").write_text("a,b\n1,2\n")
        with pytest.raises(ValueError, match=r"x\.npy is not a complete NPY file"):
            Chunks.from_npy(tmp_path / "x.npy")


class TestStamps:
    """What tells whether files are the same in another process."""

    def test_maps_that_can_be_written_to_have_none(self, tmp_path):
        np.save(tmp_path / "x.npy", draw())
        for mode, known in (("r", True), ("r+", False), ("c", False)):
            array = np.load(tmp_path / "x.npy", mmap_mode=mode)
            assert (as_rows(array).stamp is not None) == known

    def test_parts_of_a_map_have_their_own(self, tmp_path):
        np.save(tmp_path / "x.npy", draw())
        array = np.load(tmp_path / "x.npy", mmap_mode="r")
        parts = (array, array[1:], array[:-1], array[::2], array[:, 1:], array[:, ::-1])
        assert len({str(as_rows(part).stamp) for part in parts}) == len(parts)


def write_csv(path, X, names=NAMES, delimiter=","):
    lines = [delimiter.join(names)] if names else []
    lines += [delimiter.join(map(repr, row)) for row in X.tolist()]
    text = "\n".join(lines) + "\n"
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text, encoding="utf-8")
    return path


class TestCsv:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("pyarrow")

    @pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
    def test_reads(self, name, tmp_path):
        X = draw(5000)  # several blocks of text
        chunks = Chunks.from_csv(write_csv(tmp_path / name, X), rows_per_chunk=300)
        assert max(len(chunk) for chunk in chunks) == 300
        for _ in range(2):
            np.testing.assert_array_equal(whole(chunks), X)
        assert list(as_input(chunks, True, False).rows.names) == NAMES

    def test_delimiter_and_no_names(self, tmp_path):
        X = draw()
        path = write_csv(tmp_path / "x.tsv", X, names=None, delimiter="\t")
        chunks = Chunks.from_csv(path, delimiter="\t", header=False)
        np.testing.assert_array_equal(whole(chunks), X)
        assert as_input(chunks, True, False).rows.names is None

    def test_columns(self, tmp_path):
        X = draw()
        path = write_csv(tmp_path / "x.csv", X)
        np.testing.assert_array_equal(
            whole(Chunks.from_csv(path, columns=["e", "a"])), X[:, [3, 0]]
        )
        np.testing.assert_array_equal(whole(Chunks.from_csv(path, drop=["b"])), X[:, [0, 2, 3]])
        with pytest.raises(ValueError, match=r"columns has 'z', which .*x.csv does not have"):
            Chunks.from_csv(path, columns=["a", "z"])

    def test_column_without_a_name(self, tmp_path):
        """As pandas writes the labels of rows unless told not to."""
        path = tmp_path / "x.csv"
        path.write_text(",a\n0,1.5\n1,2.5\n", encoding="utf-8")
        with pytest.warns(UserWarning, match="column without a name.*drop=") as caught:
            Chunks.from_csv(path)
        assert caught[0].filename == __file__
        np.testing.assert_array_equal(whole(Chunks.from_csv(path, drop=[""])), [[1.5], [2.5]])

    def test_whole_numbers_before_others(self, tmp_path):
        """The types of the first lines are not those of all."""
        X = np.vstack([np.zeros((30_000, 2)), np.full((10, 2), 0.5)])
        path = tmp_path / "x.csv"
        path.write_text("a,b\n" + "0,0\n" * 30_000 + "0.5,0.5\n" * 10, encoding="utf-8")
        np.testing.assert_array_equal(whole(Chunks.from_csv(path)), X)

    def test_long_lines(self, tmp_path):
        """Names that fill more than a block."""
        names = [f"a_rather_long_name_of_a_column_{j}" for j in range(4000)]
        X = draw(3, 4000)
        chunks = Chunks.from_csv(write_csv(tmp_path / "x.csv", X, names))
        np.testing.assert_array_equal(whole(chunks), X)

    def test_text(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("id,a\nr1,1.5\nr2,2.5\n", encoding="utf-8")
        chunks = Chunks.from_csv(path)
        with pytest.raises(
            ValueError, match=r"cannot be read as numbers: .*r1.*columns of text with drop"
        ):
            whole(chunks)
        np.testing.assert_array_equal(whole(Chunks.from_csv(path, drop=["id"])), [[1.5], [2.5]])

    def test_missing_value(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("a,b\n1,2\n3,\n", encoding="utf-8")
        with pytest.raises(ValueError, match=r"NaN: .* in row 1, column 'b'"):
            as_input(Chunks.from_csv(path), True, False)

    def test_ragged(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("a,b\n1,2\n3\n", encoding="utf-8")
        with pytest.raises(
            ValueError, match=r"cannot be read as numbers: .*Expected 2 columns, got 1"
        ):
            whole(Chunks.from_csv(path))

    def test_names_twice(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("a,a\n1,2\n", encoding="utf-8")
        with pytest.raises(ValueError, match="several columns called 'a'"):
            Chunks.from_csv(path)

    def test_empty(self, tmp_path):
        path = tmp_path / "x.csv"
        path.write_text("", encoding="utf-8")
        with pytest.raises(ValueError, match=r"x.csv is empty"):
            Chunks.from_csv(path)


class TestParquet:
    @pytest.fixture(autouse=True)
    def library(self):
        self.arrow = pytest.importorskip("pyarrow")
        self.parquet = pytest.importorskip("pyarrow.parquet")

    def write(self, path, columns):
        self.parquet.write_table(self.arrow.table(columns), path, row_group_size=30)
        return path

    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
    def test_reads(self, dtype, tmp_path):
        X = np.round(9 * draw(100)).astype(dtype)
        path = self.write(tmp_path / "x.parquet", dict(zip(NAMES, X.T, strict=True)))
        chunks = Chunks.from_parquet(path, rows_per_chunk=17)
        assert max(len(chunk) for chunk in chunks) == 17
        np.testing.assert_array_equal(whole(chunks), X)
        assert whole(chunks).dtype == (np.float32 if dtype == np.float32 else np.float64)
        assert list(as_input(chunks, True, False).rows.names) == NAMES
        assert repr(chunks) == "Chunks(100 rows, 4 columns)"

    def test_several_files_and_columns(self, tmp_path):
        X = draw(100)
        paths = [
            self.write(tmp_path / "1.parquet", dict(zip(NAMES, X[:40].T, strict=True))),
            self.write(tmp_path / "2.parquet", dict(zip(NAMES[::-1], X[40:, ::-1].T, strict=True))),
        ]
        np.testing.assert_array_equal(whole(Chunks.from_parquet(paths)), X)
        some = Chunks.from_parquet(paths, columns=["e", "a"])
        np.testing.assert_array_equal(whole(some), X[:, [3, 0]])
        rest = Chunks.from_parquet(paths, drop=["e", "a"])
        np.testing.assert_array_equal(whole(rest), X[:, 1:3])

    def test_truth_values(self, tmp_path):
        path = self.write(tmp_path / "x.parquet", {"a": [1.5, 2.5], "b": [True, False]})
        np.testing.assert_array_equal(whole(Chunks.from_parquet(path)), [[1.5, 1.0], [2.5, 0.0]])

    def test_names_of_columns(self, tmp_path):
        path = self.write(tmp_path / "x.parquet", {"a": [1.0], "b": [2.0]})
        with pytest.raises(TypeError, match="columns must be a list of names, got the text 'ab'"):
            Chunks.from_parquet(path, columns="ab")
        with pytest.raises(ValueError, match="columns has 'a' more than once"):
            Chunks.from_parquet(path, columns=["a", "b", "a"])

    def test_other_columns_than_in_fit(self, tmp_path):
        path = self.write(tmp_path / "x.parquet", {"a": [1.0], "b": [2.0]})
        model = SimpleNamespace(n_features_in_=2, feature_names_in_=["b", "a"])
        with pytest.raises(ValueError, match="the column 'a' where 'b' is expected"):
            as_rows(Chunks.from_parquet(path)).check_columns(model, reset=False)

    def test_no_parquet(self, tmp_path):
        (tmp_path / "x.csv").write_text("a,b\n1,2\n")
        with pytest.raises(ValueError, match=r"x\.csv is not a complete Parquet file"):
            Chunks.from_parquet(tmp_path / "x.csv")
        with pytest.raises(IsADirectoryError, match=r"is a folder; give the files in it.*glob"):
            Chunks.from_parquet(tmp_path)

    def test_goes_to_other_processes(self, tmp_path):
        path = self.write(tmp_path / "x.parquet", {"a": [1.0], "b": [2.0]})
        chunks = pickle.loads(pickle.dumps(Chunks.from_parquet(path)))
        np.testing.assert_array_equal(whole(chunks), [[1.0, 2.0]])

    def test_no_files(self):
        with pytest.raises(ValueError, match="list of Parquet files is empty"):
            Chunks.from_parquet([])

    def test_file_with_other_columns(self, tmp_path):
        one = self.write(tmp_path / "1.parquet", {"a": [1.0], "b": [2.0]})
        other = self.write(tmp_path / "2.parquet", {"a": [1.0], "c": [2.0]})
        with pytest.raises(ValueError, match=r"2.parquet has no column 'b', which .*1.parquet has"):
            Chunks.from_parquet([one, other])

    def test_text(self, tmp_path):
        path = self.write(tmp_path / "x.parquet", {"a": [1.0], "who": ["me"]})
        with pytest.raises(ValueError, match=r"'who' of .* holds string, not numbers; leave"):
            Chunks.from_parquet(path)
        np.testing.assert_array_equal(whole(Chunks.from_parquet(path, drop=["who"])), [[1.0]])

    @pytest.mark.parametrize("kind", ["float64", "int32"])
    def test_missing_value(self, kind, tmp_path):
        values = self.arrow.array([1, 2, None, 4], getattr(self.arrow, kind)())
        path = self.write(tmp_path / "x.parquet", {"a": [1.0, 2.0, 3.0, 4.0], "b": values})
        with pytest.raises(ValueError, match=r"NaN: .* in row 2, column 'b'"):
            as_input(Chunks.from_parquet(path), True, False)


class TestHdf5:
    @pytest.fixture(autouse=True)
    def library(self):
        self.h5py = pytest.importorskip("h5py")

    @pytest.mark.parametrize("stored", [None, (16, 2)])
    def test_reads(self, stored, tmp_path):
        X = draw(100)
        with self.h5py.File(tmp_path / "x.h5", "w") as file:
            file.create_dataset("some/where", data=X, chunks=stored)
        chunks = Chunks.from_hdf5(tmp_path / "x.h5", "some/where", rows_per_chunk=40)
        assert max(len(chunk) for chunk in chunks) == (32 if stored else 40)
        np.testing.assert_array_equal(whole(chunks), X)

    def test_open_dataset(self, tmp_path):
        X = draw(100)
        with self.h5py.File(tmp_path / "x.h5", "w") as file:
            dataset = file.create_dataset("x", data=X)
            assert comes_in_chunks(dataset)
            data = as_input(dataset, True, False)
            np.testing.assert_allclose(data.variances, X.var(axis=0))

    def test_not_there(self, tmp_path):
        with self.h5py.File(tmp_path / "x.h5", "w") as file:
            file["vector"], file["empty"] = np.zeros(3), self.h5py.Empty("f8")
        for name in ("x", "vector", "empty"):
            with pytest.raises(ValueError, match=f"has no matrix called '{name}'"):
                Chunks.from_hdf5(tmp_path / "x.h5", name)

    def test_no_hdf5(self, tmp_path):
        (tmp_path / "x.csv").write_text("a,b\n1,2\n")
        with pytest.raises(ValueError, match=r"x\.csv is not a complete HDF5 file"):
            Chunks.from_hdf5(tmp_path / "x.csv", "x")
        with pytest.raises(FileNotFoundError, match=r"x\.h5 does not exist"):
            Chunks.from_h5ad(tmp_path / "x.h5")


class TestH5ad:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("h5py")
        self.anndata = pytest.importorskip("anndata")

    def write(self, path, X, **layers):
        data = self.anndata.AnnData(X, layers=layers)
        data.var_names = NAMES
        data.write_h5ad(path)
        return path

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
    def test_reads(self, make, tmp_path):
        X = np.maximum(draw(100), 0.0)
        path = self.write(tmp_path / "x.h5ad", make(X), doubled=make(2 * X))
        chunks = Chunks.from_h5ad(path, rows_per_chunk=30)
        assert [chunk.shape[0] for chunk in chunks] == [30, 30, 30, 10]
        np.testing.assert_array_equal(whole(chunks), X)
        np.testing.assert_array_equal(whole(Chunks.from_h5ad(path, layer="doubled")), 2 * X)
        assert list(as_input(chunks, True, False).rows.names) == NAMES

    def test_stored_by_columns(self, tmp_path):
        path = self.write(tmp_path / "x.h5ad", sparse.csc_matrix(draw()))
        with pytest.raises(ValueError, match=r"stored by columns.*write it in CSR format"):
            Chunks.from_h5ad(path)

    def test_no_layer(self, tmp_path):
        path = self.write(tmp_path / "x.h5ad", draw())
        with pytest.raises(ValueError, match="has no layers/raw; is it an AnnData file"):
            Chunks.from_h5ad(path, layer="raw")

    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix])
    def test_backed(self, make, tmp_path):
        X = np.maximum(draw(100), 0.0)
        path = self.write(tmp_path / "x.h5ad", make(X))
        backed = self.anndata.read_h5ad(path, backed="r")
        try:
            assert comes_in_chunks(backed.X)
            data = as_input(backed.X, True, False)
        finally:
            backed.file.close()
        np.testing.assert_allclose(data.variances, X.var(axis=0))


class TestZarr:
    @pytest.fixture(autouse=True)
    def library(self):
        self.zarr = pytest.importorskip("zarr")

    def test_reads(self, tmp_path):
        X = draw(100)
        array = self.zarr.open(
            str(tmp_path / "x.zarr"), mode="w", shape=X.shape, chunks=(16, 3), dtype=X.dtype
        )
        array[:] = X
        assert comes_in_chunks(array)
        chunks = Chunks.from_zarr(tmp_path / "x.zarr", rows_per_chunk=40)
        assert max(len(chunk) for chunk in chunks) == 32
        np.testing.assert_array_equal(whole(chunks), X)

    def test_group(self, tmp_path):
        X = draw(100)
        group = self.zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
        stored = group.create_array("inside", shape=X.shape, dtype=X.dtype)
        stored[:] = X
        np.testing.assert_array_equal(whole(Chunks.from_zarr(tmp_path / "x.zarr", "inside")), X)
        with pytest.raises(ValueError, match="is a group; say which array"):
            Chunks.from_zarr(tmp_path / "x.zarr")
        with pytest.raises(ValueError, match="has no array called 'outside'"):
            Chunks.from_zarr(tmp_path / "x.zarr", "outside")


@pytest.mark.parametrize(
    ("library", "read"),
    [
        ("pyarrow.csv", lambda path: Chunks.from_csv(path)),
        ("pyarrow.parquet", lambda path: Chunks.from_parquet(path)),
        ("h5py", lambda path: Chunks.from_hdf5(path, "x")),
        ("h5py", lambda path: Chunks.from_h5ad(path)),
        ("zarr", lambda path: Chunks.from_zarr(path)),
    ],
)
def test_missing_library(library, read, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, library, None)
    package = library.partition(".")[0]
    with pytest.raises(ImportError, match=rf'needs {package}: pip install "ebcd\[io\]"'):
        read(tmp_path / "x")
