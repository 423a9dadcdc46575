"""Data in chunks against the same data in memory: products, places of bad entries, memory."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from ebcd import Chunks, Gram
from ebcd.data import (
    CovarianceMatrix,
    DataCovariance,
    Memory,
    PassPrinter,
    Reading,
    _settings,
    as_input,
    as_rows,
    comes_in_chunks,
)

ROUTES = {
    "together": {},
    "gathered": {"small": 0, "fewest_rows": 1},
    "streamed": {"small": 0, "fewest_rows": 1, "moderate": 0},
}


def use(monkeypatch, **settings):
    monkeypatch.setattr(_settings, "SETTINGS", replace(_settings.SETTINGS, **settings))


@pytest.fixture(params=ROUTES)
def route(request, monkeypatch):
    """Make all data go one way, however small they are."""
    use(monkeypatch, **ROUTES[request.param])
    return request.param


@pytest.fixture
def streamed(monkeypatch):
    use(monkeypatch, **ROUTES["streamed"])


def is_streamed(data):
    return isinstance(data.covariance, DataCovariance) and data.matrix is None


def draw(n=60, p=7, seed=0):
    """Whole numbers, many of them zero, so that every type holds them exactly."""
    rng = np.random.default_rng(seed)
    values = np.round(4 * rng.normal(size=(n, p)) * rng.uniform(0.5, 5, p) + 3)
    return np.where(rng.random((n, p)) < 0.3, 0.0, values)


def truth(X, center, scale):
    """Mean, divisor and covariance, in as many digits as there are."""
    X = X.astype(np.longdouble)
    mean = X.mean(axis=0) if center else np.zeros(X.shape[1], np.longdouble)
    centred = X - mean
    size = np.sqrt((centred**2).mean(axis=0))
    divisor = np.where(size > 0, size, 1) if scale else np.ones(X.shape[1], np.longdouble)
    centred /= divisor
    return mean, divisor, centred.T @ centred / len(X)


def cut(X, *places):
    return np.split(X, places)


def frames(X):
    pandas = pytest.importorskip("pandas")
    names = [f"f{j}" for j in range(X.shape[1])]
    return [pandas.DataFrame(chunk, columns=names) for chunk in cut(X, 20)]


KINDS = {
    "list": lambda X: cut(X, 1, 25),
    "tuple with an empty chunk": lambda X: (X[:30], X[30:30], X[30:]),
    "Fortran order": lambda X: [np.asfortranarray(chunk) for chunk in cut(X, 33)],
    "strided": lambda X: [np.repeat(chunk, 2, axis=1)[:, ::2] for chunk in cut(X, 33)],
    "single precision": lambda X: [chunk.astype(np.float32) for chunk in cut(X, 11)],
    "half precision": lambda X: [chunk.astype(np.float16) for chunk in cut(X, 11)],
    "whole numbers": lambda X: [chunk.astype(np.int32) for chunk in cut(X, 11)],
    "other byte order": lambda X: [chunk.astype(">f8") for chunk in cut(X, 11)],
    "sparse rows": lambda X: [sparse.csr_array(chunk) for chunk in cut(X, 11)],
    "sparse columns": lambda X: [sparse.csc_matrix(chunk) for chunk in cut(X, 11)],
    "very sparse": lambda X: [sparse.csr_array(chunk) for chunk in cut(X, 11)],
    "mixed": lambda X: [sparse.csr_array(X[:9]), X[9:12].astype(np.float32), X[12:]],
    "frames": frames,
    "function": lambda X: Chunks(lambda: iter(cut(X, 44))),
    "array": lambda X: Chunks(X, rows_per_chunk=13),
    "sparse matrix": lambda X: Chunks(sparse.csc_array(X), rows_per_chunk=13),
}


class TestCovariance:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(("center", "scale"), [(True, False), (False, True)])
    def test_is_that_of_the_whole(self, kind, center, scale, route):
        X = draw()
        if kind == "very sparse":
            X[np.random.default_rng(1).random(X.shape) < 0.95] = 0.0
        mean, divisor, S = truth(X, center, scale)
        data = as_input(KINDS[kind](X), center, scale)
        covariance, unit = data.covariance, data.covariance.unit
        assert isinstance(covariance, CovarianceMatrix) == (route == "gathered")
        assert is_streamed(data) == (route == "streamed")
        assert (covariance.n_samples, covariance.n_features) == X.shape
        # single precision is kept in products, but not where sums are taken
        accuracy = 1e-5 if kind in ("single precision", "mixed") and route == "streamed" else 1e-12
        size = float(np.abs(S).max())
        V = np.random.default_rng(1).normal(size=(X.shape[1], 3))
        close = np.testing.assert_allclose
        close(data.mean, mean.astype(float), atol=1e-12)
        close(data.scale, divisor.astype(float), rtol=1e-12)
        close(data.variances, np.diag(truth(X, center, False)[2]).astype(float), rtol=1e-11)
        close(covariance.diagonal() * unit**2, np.diag(S).astype(float), atol=1e-12 * size)
        product = (S @ V).astype(float)
        close(covariance.matmul(V) * unit**2, product, atol=accuracy * np.abs(product).max())

    @given(
        cuts=st.lists(st.integers(0, 50), max_size=5),
        offset=st.sampled_from([0.0, 1.0, -1e4, 1e8]),
        jump=st.sampled_from([0.0, 1e3, 1e6]),
        streamed=st.booleans(),
        scale=st.booleans(),
    )
    def test_means_far_from_zero(self, cuts, offset, jump, streamed, scale):
        X = np.random.default_rng(len(cuts)).normal(size=(50, 4)) + offset
        X[25:, 0] += jump
        X[:, 3] = offset  # constant
        _, _, S = truth(X, True, scale)
        with pytest.MonkeyPatch.context() as patch:
            use(patch, small=0, fewest_rows=1, moderate=0 if streamed else 10)
            data = as_input(np.split(X, sorted(cuts)), True, scale)
        ours = data.covariance.matmul(np.eye(4)) * data.covariance.unit**2
        spread = np.sqrt(np.diag(S).astype(float))
        # what the rounding of the data themselves amounts to
        rounding = 1e-15 * (abs(offset) + jump) / min(float(np.sqrt(S[1, 1])), 1.0)
        limit = 1e-9 * np.outer(spread, spread) + 20 * rounding * (1 + spread.max())
        assert (np.abs(ours - S.astype(float)) <= limit).all()
        assert data.variances[3] == 0.0

    def test_chunks_of_moderate_size_equal_a_gram(self, monkeypatch):
        use(monkeypatch, small=0, fewest_rows=1)
        X = draw(500, 30)
        gram = as_input(Gram().update(X), True, True)
        data = as_input(cut(X, 100, 200), True, True)
        V = np.eye(30)
        np.testing.assert_allclose(data.covariance.matmul(V), gram.covariance.matmul(V), atol=1e-13)

    def test_fewer_rows_than_columns_are_not_gathered(self, monkeypatch):
        use(monkeypatch, small=0, fewest_rows=1)
        wide = draw(10, 30)
        assert is_streamed(as_input([wide], True, False))
        # an iterator must be
        once = as_input(iter([wide]), True, False)
        assert isinstance(once.covariance, CovarianceMatrix)

    def test_single_precision_is_centred_in_double(self, streamed):
        X = (np.random.default_rng(0).normal(size=(400, 3)) + 1e4).astype(np.float32)
        _, _, S = truth(X, True, False)
        covariance = as_input([X[:100], X[100:]], True, False).covariance
        ours = covariance.matmul(np.eye(3)) * covariance.unit**2
        np.testing.assert_allclose(ours, S.astype(float), atol=1e-6 * float(np.abs(S).max()))

    @pytest.mark.parametrize("size", [1e-120, 1e120])
    def test_units(self, size, route):
        X = draw() * size
        data = as_input(cut(X, 30), True, False)
        assert 0.4 < data.covariance.trace() / 7 < 2.5

    def test_too_large_to_square(self, route):
        X = draw()
        X[3, 2] = 1e200
        with pytest.raises(ValueError, match="too large to square; change its units"):
            as_input(cut(X, 30), True, False)

    def test_too_small_to_square(self, route):
        with pytest.raises(ValueError, match=r"above .*, too small to square; change its units"):
            as_input(cut(draw() * 1e-170, 30), True, False)

    def test_entries_in_parts(self, route):
        X = draw()
        coordinates = sparse.coo_array(X)
        place = np.tile(np.stack(coordinates.coords), 2)
        halves = np.repeat(coordinates.data / 2, 2).reshape(-1, 2).T.ravel()
        order = np.argsort(place[0], kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(place[0], minlength=60))])
        parts = sparse.csr_array((halves[order], place[1][order], starts), shape=(60, 7))
        assert not parts.has_canonical_format
        stored = parts.nnz
        data = as_input([parts[:30], parts[30:]], True, False)
        np.testing.assert_allclose(data.variances, X.var(axis=0), rtol=1e-12)
        as_input([parts], True, False)
        assert parts.nnz == stored  # left as it was


class TestWhatComesInChunks:
    def test_it_does(self):
        X = draw()
        for data in (
            [X],
            (X, X),
            iter([X]),
            Chunks([X]),
            (chunk for chunk in [X]),
            [sparse.csr_array(X)],
        ):
            assert comes_in_chunks(data)

        class Anew:
            def __iter__(self):
                return iter([X])

        assert comes_in_chunks(Anew())

    def test_it_does_not(self):
        X = draw()
        for data in (X, X.tolist(), sparse.csr_array(X), [], None, 3, {"a": X}, [X[0]]):
            assert not comes_in_chunks(data)

    def test_frames_do_not(self):
        pandas = pytest.importorskip("pandas")
        assert not comes_in_chunks(pandas.DataFrame(draw()))


class TestIterators:
    def test_one_pass_is_enough(self, monkeypatch):
        X = draw()
        for small in (0, 1000):
            use(monkeypatch, small=small)
            data = as_input((chunk for chunk in cut(X, 5, 40)), True, False)
            np.testing.assert_allclose(data.variances, X.var(axis=0))

    def test_too_many_features(self, streamed):
        with pytest.raises(
            ValueError, match=r"read only once.*7 features would be too large.*pass a list"
        ):
            as_input(iter(cut(draw(), 30)), True, False)

    def test_no_room(self, monkeypatch):
        use(monkeypatch, small=0, fewest_rows=1)
        memory = Memory(Memory(None, 2).needed(500, False) + 1000, 2)
        with pytest.raises(
            ValueError, match=r"read only once.* 500 features does not fit in max_memory"
        ):
            as_input(iter([draw(300, 500)]), True, False, reading=Reading(memory))

    def test_used_up(self):
        chunks = Chunks(iter([draw()]))
        as_input(chunks, True, False)
        with pytest.raises(ValueError, match="an iterator, which is exhausted after one pass"):
            as_input(chunks, True, False)


class TestBadChunks:
    @pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
    def test_masked_entries_are_missing(self, route, dtype):
        masked = np.ma.masked_array(draw().astype(dtype), np.arange(420).reshape(60, 7) == 100)
        for chunks in ([masked[:30], masked[30:]], Chunks(masked)):
            with pytest.raises(ValueError, match=r"contains NaN: 1 entry .* row 14, column 2"):
                as_input(chunks, True, False)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
    def test_place_of_what_is_not_finite(self, bad, make, route):
        X = draw()
        X[43, 5] = X[43, 6] = X[50, 0] = bad
        kind = "NaN" if np.isnan(bad) else "infinity"
        with pytest.raises(ValueError, match=f"contains {kind}: .* first in row 43, column 5"):
            as_input([make(chunk) for chunk in cut(X, 10, 40)], True, False)

    def test_place_in_a_large_chunk(self, monkeypatch):
        use(monkeypatch, small=0, fewest_rows=1)
        X = np.zeros((200_000, 3))
        X[150_001, 1] = np.nan
        for moderate in (0, 10):
            use(monkeypatch, moderate=moderate)
            with pytest.raises(ValueError, match="in row 150003, column 1"):
                as_input([np.zeros((2, 3)), X], True, False)

    def test_place_has_a_name(self, route):
        X = draw()
        X[30, 2] = np.nan
        with pytest.raises(ValueError, match="in row 30, column 'f2'"):
            as_input(frames(X), True, False)

    def test_width(self, route):
        with pytest.raises(ValueError, match=r"chunk 1 has shape \(20, 6\), but .* 7 columns"):
            as_input([draw(), draw(20, 6)], True, False)

    def test_kind_of_number(self):
        with pytest.raises(TypeError, match="chunk 1 must hold real numbers, got dtype complex"):
            as_input([draw(), draw().astype(complex)], True, False)

    def test_no_chunks(self):
        for nothing in (Chunks, lambda make: as_input(make, True, False)):
            with pytest.raises(
                ValueError, match=r"there are no chunks.* already been read has none"
            ):
                nothing(iter([]))
        with pytest.raises(ValueError, match="there are no chunks"):
            Chunks([])

    def test_path(self, tmp_path):
        for path in (tmp_path / "x.npy", str(tmp_path / "x.npy")):
            with pytest.raises(TypeError, match=r"X is the path '.*x.npy', not data; .*from_npy"):
                as_input(path, True, False)

    def test_only_empty_chunks(self, route):
        for make in (list, lambda chunks: Chunks(lambda: iter(chunks))):
            with pytest.raises(ValueError, match="no rows: every chunk is empty"):
                as_input(make([np.empty((0, 3)), np.empty((0, 3))]), True, False)

    def test_no_columns(self):
        with pytest.raises(ValueError, match="the data have no columns"):
            as_input([np.empty((3, 0))], True, False)

    def test_shape(self):
        with pytest.raises(ValueError, match=r"rows and columns, got shape \(7,\)"):
            as_input(iter([draw()[0]]), True, False)

    def test_names_differ(self):
        pandas = pytest.importorskip("pandas")
        one, other = (pandas.DataFrame(draw(9, 2), columns=list(names)) for names in ("ab", "ba"))
        match = "chunk 1 has the column 'b' where 'a' is expected; all chunks must have the same"
        with pytest.raises(ValueError, match=match):
            as_input([one, other], True, False)

    @pytest.mark.parametrize(
        ("later", "count"), [([1], "30"), ([], "0"), ([1, 1, 1], "at least 90")]
    )
    def test_rows_come_and_go(self, later, count, streamed):
        X, passes = draw(30), []

        def chunks():
            passes.append(1)
            return iter([X, X] if len(passes) < 2 else [X for _ in later])

        data = as_input(Chunks(chunks), True, False)
        with pytest.raises(
            ValueError, match=f"have changed: they had 60 rows at first and {count}"
        ):
            data.covariance.matmul(np.ones((7, 1)))

    def test_entries_become_bad(self, streamed):
        X = draw()
        data = as_input([X[:30], X[30:]], True, False)
        X[3, 3] = np.nan
        with pytest.raises(ValueError, match="have changed: entries that are NaN or infinite"):
            data.covariance.matmul(np.ones((7, 1)))


class Recorder:
    """An array that cannot be had whole: it notes how much of it was asked for at once."""

    def __init__(self, array):
        self._array, self.shape, self.dtype = array, array.shape, array.dtype
        self.largest, self.read = 0, 0

    def __getitem__(self, part):
        block = self._array[part]
        self.largest = max(self.largest, block.nbytes)
        self.read += block.shape[0]
        return block.copy()


def mapped(chunks, work):
    return as_rows(chunks).map(work, ())


class TestMemory:
    @pytest.mark.parametrize("p", [20, 300])
    def test_chunks_are_small(self, p, route):
        n = 3_000_000 // p
        source = Recorder(np.ones((n, p)) * np.arange(p) + np.arange(n)[:, None] % 5)
        memory = Memory(Memory(None, 2).needed(p, route != "streamed") + 3_000_000, 2)
        data = as_input(Chunks(source), True, False, reading=Reading(memory))
        assert data.covariance.n_samples == n
        assert 0 < source.largest <= 1_000_000 + 8 * p
        assert source.read == n
        data.covariance.matmul(np.ones((p, 2)))
        assert source.largest <= 1_000_000 + 8 * p
        assert source.read == n * (2 if is_streamed(data) else 1)

    def test_rows_per_chunk(self, route):
        source = Recorder(draw(100, 3))
        as_input(Chunks(source, rows_per_chunk=9), True, False)
        assert source.largest == 9 * 3 * 8

    def test_whole_chunks_of_a_file(self):
        source = Recorder(draw(100, 3))
        source.chunks = (8, 3)
        list(Chunks(source, rows_per_chunk=30))
        assert source.largest == 24 * 3 * 8

    def test_not_even_a_row(self):
        with pytest.raises(
            ValueError, match=r"max_memory is 20 MB, .* 9000 features needs at least"
        ):
            as_input([draw(3, 9000)], True, False, reading=Reading(Memory(20_000_000, 3)))

    @pytest.mark.slow
    @pytest.mark.parametrize("p", [50, 900])
    def test_gathering_stays_within_memory(self, p, monkeypatch):
        use(monkeypatch, small=0, fewest_rows=1)
        X = np.random.default_rng(0).normal(size=(3_000_000 // p, p))
        limit = Memory(None, 3).needed(p, True) + 1_000_000
        for center, scale in ((True, False), (False, True)):
            tracemalloc.start()
            data = as_input(Chunks(X), center, scale, reading=Reading(Memory(limit, 3)))
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert isinstance(data.covariance, CovarianceMatrix)
            assert peak < limit

    def test_results_are_not_held_twice(self):
        X = np.ones((400_000, 5))
        tracemalloc.start()
        result = mapped(Chunks(X), lambda rows: rows[:, :1] * 2)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert result.shape == (400_000, 1)
        assert peak < 2 * result.nbytes


class TestMapRows:
    def test_stacks(self):
        X = draw(500, 3)
        for chunks in (Chunks(cut(X, 100)), Chunks(lambda: iter(cut(X, 100)))):
            result = mapped(chunks, lambda rows: rows.sum(axis=1))
            np.testing.assert_array_equal(result, X.sum(axis=1))

    def test_double_precision_after_single(self):
        X = draw(50, 3)
        for chunks in ([X.astype(np.float32), X + 1e-9], [X + 1e-9, X.astype(np.float32)]):
            result = mapped(chunks, lambda rows: rows)
            np.testing.assert_array_equal(result, np.vstack(chunks))

    def test_what_is_not_filled_yet_is_not_converted(self, monkeypatch):
        """New memory may hold anything: here, numbers whose conversion is a warning."""
        empty = np.empty

        def signalling(shape, dtype=float):
            if dtype != np.float32:
                return empty(shape, dtype)
            return np.full(shape, 0x7F800001, dtype=np.uint32).view(dtype)

        X = draw(50, 3)
        chunks = [X.astype(np.float32), X + 1e-9]
        monkeypatch.setattr(np, "empty", signalling)
        np.testing.assert_array_equal(mapped(chunks, lambda rows: rows), np.vstack(chunks))

    def test_place_of_what_is_not_finite(self):
        X = draw()
        X[43, 5] = np.nan
        with pytest.raises(ValueError, match="in row 43, column 5"):
            mapped(cut(X, 40), lambda rows: rows)


class TestProgress:
    def test_lines(self, capsys):
        now = iter([0.0, 1.0, 10.0, 11.0, 100.0, 104.0])
        progress = PassPrinter(clock=lambda: next(now))
        progress(1, 0, 4000)
        progress(1, 100, 4000)  # too soon for a line
        progress(1, 1000, 4000)
        progress(1, 1500, 4000)
        progress(2, 0, None)
        progress(2, 2000, None)
        assert capsys.readouterr().out.splitlines() == [
            "pass 1: 1,000 rows of 4,000 (25%) in 10 s, 30 s left",
            "pass 2: 2,000 rows in 4 s",
        ]

    def test_every_pass_is_reported(self, streamed):
        calls = []
        reading = Reading(progress=lambda *call: calls.append(call))
        data = as_input(cut(draw(), 30), True, False, reading=reading)
        data.covariance.matmul(np.ones((7, 1)))
        assert calls == [(i, rows, 60) for i in (1, 2) for rows in (0, 30, 60)]
