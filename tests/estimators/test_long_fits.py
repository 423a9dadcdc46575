"""Fits that are killed, interrupted or run out of time go on to the same result, bit by bit."""

import dataclasses
import json
import pickle
import signal
import subprocess
import sys
import warnings
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest
from ebcd.fitting._archive import write_archive
from ebcd.fitting._loop import Fit, Problem
from ebcd.fitting._subspace import Subspace
from interruptions import Interruptions, Killed, same_fit
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ebcd import EBCD, Gram
from ebcd.data import AbstractCovariance, DataCovariance, _covariance, _settings
from ebcd.estimators._resume import unfinished
from ebcd.fitting import _checkpoint, _clock, _starts
from ebcd.fitting._shrinkers import EmpiricalBayesShrinker
from ebcd.priors import PRIORS, make_family, make_prior


def draw(seed=0, n=30, p=24, k=3):
    rng = np.random.default_rng(seed)
    L = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.4) * np.linspace(3, 1.5, k)[:, None]
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))


X = draw()


@pytest.fixture
def interruptions(monkeypatch, tmp_path):
    return Interruptions(monkeypatch, tmp_path)


@pytest.fixture
def clock(monkeypatch):
    """A clock on which every shrinkage takes a second, and nothing else any time."""
    clock = Clock()
    shrink = EmpiricalBayesShrinker.shrink

    def slow(self, *args):
        clock.seconds += 1
        return shrink(self, *args)

    monkeypatch.setattr(EmpiricalBayesShrinker, "shrink", slow)
    monkeypatch.setattr(_clock, "now", lambda: clock.seconds)
    return clock


class Clock:
    seconds = 0.0


@pytest.mark.slow
class TestKilled:
    def check(self, interruptions, fit, writes, **parameters):
        whole = fit(EBCD(**parameters))
        resumed = interruptions.finish(lambda **more: EBCD(**parameters, **more), fit, writes)
        assert interruptions.kills > 0
        assert same_fit(whole, resumed)
        assert interruptions.leftovers() == []

    @pytest.mark.parametrize("prior", sorted(PRIORS))
    def test_every_family(self, interruptions, prior):
        data = X[:, :16] if prior not in ("point_mass", "flat") else X
        empty = pytest.warns(UserWarning, match="no component was found")
        with empty if prior == "point_mass" else nullcontext():
            self.check(interruptions, lambda m: m.fit(data), 8, n_components=2, prior=prior)

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    @pytest.mark.parametrize("start", ["auto", "greedy", "svd", "varimax", "array"])
    def test_every_start(self, interruptions, noise, start):
        if start == "array":
            start = np.linalg.svd(X)[2][:3].T
        self.check(interruptions, lambda m: m.fit(X), 9, n_components=3, start=start, noise=noise)

    @pytest.mark.parametrize("number", ["auto", "paper", 4])
    @pytest.mark.parametrize("scale", [False, True])
    def test_every_number_of_components(self, interruptions, number, scale):
        data = X[:, :8] if number == "paper" else X
        self.check(interruptions, lambda m: m.fit(data), 9, n_components=number, scale=scale)

    @pytest.mark.parametrize(
        "fit",
        [
            lambda m: m.fit_covariance(X.T @ X / 30, 30),
            lambda m: m.fit(Gram().update(X)),
            lambda m: m.fit(sparse.csr_array(X * (X > 0.5))),
            lambda m: m.fit(X.astype(np.float32)),
            lambda m: m.set_params(center=False).fit(X, n_samples=60),
        ],
        ids=["covariance", "Gram", "sparse", "single", "compact"],
    )
    def test_every_input(self, interruptions, fit):
        self.check(interruptions, fit, 4, n_components=2, random_state=3)

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    def test_search_on_a_compression(self, interruptions, monkeypatch, noise):
        monkeypatch.setattr(_starts, "_DEAR", 100)
        monkeypatch.setattr(_starts, "_ENOUGH_FEATURES", 12)
        monkeypatch.setattr(_starts, "_EXTRA_DIRECTIONS", 5)
        self.check(interruptions, lambda m: m.fit(X), 9, n_components=3, noise=noise)

    @pytest.mark.parametrize("writes", [3, 9])
    def test_starts_that_are_not_followed_further(self, interruptions, monkeypatch, writes):
        monkeypatch.setattr(_starts, "_CHEAP_FEATURES", 0)
        left, no_news = [], _starts._no_news

        def counted(*args):
            tell = no_news(*args)
            return lambda state: tell(state) and not left.append(1)

        monkeypatch.setattr(_starts, "_no_news", counted)
        self.check(interruptions, lambda m: m.fit(X), writes, n_components=2)
        assert left

    @pytest.mark.parametrize("writes", [2, 5, 7])
    def test_in_a_growing_subspace(self, interruptions, monkeypatch, writes):
        """A loop within a loop: its turns are not taken for those of an earlier one."""
        monkeypatch.setattr(_starts, "_DEAR", 100)
        monkeypatch.setattr(_starts, "_ENOUGH_FEATURES", 12)
        monkeypatch.setattr(_starts, "_EXTRA_DIRECTIONS", 1)
        data, grown, grow = draw(0, 40, 60), [], Subspace.grown
        monkeypatch.setattr(Subspace, "grown", lambda *args: grown.append(1) or grow(*args))
        self.check(interruptions, lambda m: m.fit(data), writes, n_components=3, tol=1e-9)
        assert len(grown) > 4

    def test_fixed_priors_and_lists(self, interruptions):
        priors = [make_prior("point_laplace", weight=0.3, scale=2.0), "normal", "deconvolver"]
        self.check(interruptions, lambda m: m.fit(X), 20, n_components=3, prior=priors)

    @pytest.mark.parametrize(
        "seed", [np.random.default_rng, np.random.RandomState, np.random.SeedSequence]
    )
    def test_random_states(self, interruptions, seed):
        whole = EBCD(3, random_state=seed(5)).fit(X[:, :8])

        def make(**more):
            return EBCD(3, random_state=seed(5), **more)

        assert same_fit(whole, interruptions.finish(make, lambda m: m.fit(X[:, :8]), 20))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.slow
def test_kill_9(tmp_path):
    """A process that kills itself after every few writes, and once half-way through one."""
    script = f"""
import os, signal, sys
import numpy as np
from ebcd import EBCD
from ebcd.fitting import _archive, _checkpoint

run = int(sys.argv[1])
_checkpoint._FIRST = _checkpoint._INTERVAL = _checkpoint._PATIENCE = 0
write, left = _checkpoint.write_archive, 6

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def write_and_die(path, temporary, content):
    global left
    left -= 1
    if run == 1 and left == 3:
        temporary.write_bytes(b"half a checkpoint")
        die()
    write(path, temporary, content)
    if run < 3 and left == 0:
        die()

_checkpoint.write_archive = write_and_die
X = np.load({str(tmp_path / "X.npy")!r})
model = EBCD(3, checkpoint={str(tmp_path / "fit")!r}).fit(X)
np.save({str(tmp_path / "components.npy")!r}, model.components_)
"""
    np.save(tmp_path / "X.npy", X)
    for number in range(4):
        done = subprocess.run(
            [sys.executable, "-c", script, str(number)],
            capture_output=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == (-signal.SIGKILL if number < 3 else 0), done.stderr.decode()
        assert (tmp_path / "fit").exists() == (number < 3)
    np.testing.assert_array_equal(np.load(tmp_path / "components.npy"), EBCD(3).fit(X).components_)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.npy", "components.npy"]


class TestInterrupted:
    def test_ctrl_c_leaves_the_newest_state(self, monkeypatch, tmp_path, clock):
        """No write is due before the interrupt: the state is written because of it."""
        monkeypatch.setattr(_checkpoint, "_FIRST", np.inf)
        path, iterate = tmp_path / "fit", Problem.iterate
        whole = EBCD(3).fit(X)
        n_shrinkages = clock.seconds

        def interrupted(self, *args):
            if clock.seconds >= 0.6 * n_shrinkages:
                raise KeyboardInterrupt
            return iterate(self, *args)

        clock.seconds = 0
        monkeypatch.setattr(Problem, "iterate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            EBCD(3, checkpoint=path).fit(X)
        assert path.exists()
        monkeypatch.setattr(Problem, "iterate", iterate)
        done, clock.seconds = clock.seconds, 0
        resumed = EBCD(3, checkpoint=path).fit(X)
        assert same_fit(whole, resumed)
        assert done + clock.seconds <= n_shrinkages + 3  # one turn of the loop is done again
        assert list(tmp_path.iterdir()) == []

    def test_errors_leave_the_last_checkpoint(self, monkeypatch, tmp_path):
        for name in ("_FIRST", "_INTERVAL", "_PATIENCE"):
            monkeypatch.setattr(_checkpoint, name, 0)
        calls, iterate = [], Problem.iterate

        def failing(self, *args):
            calls.append(1)
            if len(calls) == 8:
                raise MemoryError
            return iterate(self, *args)

        monkeypatch.setattr(Problem, "iterate", failing)
        with pytest.raises(MemoryError):
            EBCD(3, checkpoint=tmp_path / "fit").fit(X)
        assert same_fit(EBCD(3, checkpoint=tmp_path / "fit").fit(X), EBCD(3).fit(X))


@pytest.mark.slow
class TestHowOften:
    @pytest.mark.parametrize(
        "parameters",
        [
            {"n_components": 4, "random_state": 0},
            {"start": "greedy", "n_components": 3},
            {"noise": "per_feature"},
        ],
        ids=["search", "one by one", "count"],
    )
    def test_at_most_an_interval_is_lost(self, monkeypatch, tmp_path, clock, parameters):
        """Killed at any second, whatever it is doing; products with the data take their time."""
        exact = dataclasses.replace(_settings.SETTINGS, exact_operations=0)
        monkeypatch.setattr(_settings, "SETTINGS", exact)
        monkeypatch.setattr(_covariance, "_block_size", lambda k: k)
        data, product = draw(n=50, p=60), DataCovariance.rows_product
        end = [np.inf]

        def slow(self, v):
            if clock.seconds >= end[0]:
                raise Killed
            clock.seconds += 1
            return product(self, v.T).T

        monkeypatch.setattr(DataCovariance, "matmul", slow)
        monkeypatch.setattr(DataCovariance, "rows_product", AbstractCovariance.rows_product)
        times, write = [0.0], _checkpoint.write_archive
        monkeypatch.setattr(
            _checkpoint, "write_archive", lambda *args: times.append(clock.seconds) or write(*args)
        )
        whole = EBCD(**parameters, checkpoint=tmp_path / "fit").fit(data)
        total, checking = clock.seconds, 1  # product, to see whether the data are the same
        assert np.diff([*times, total]).max() <= _checkpoint._INTERVAL
        for second in (0.1 * total, 0.8 * total):
            end[0], clock.seconds = second, 0
            with pytest.raises(Killed):
                EBCD(**parameters, checkpoint=tmp_path / "fit").fit(data)
            done = clock.seconds
            end[0], clock.seconds = np.inf, 0
            assert same_fit(whole, EBCD(**parameters, checkpoint=tmp_path / "fit").fit(data))
            assert done + clock.seconds <= total + _checkpoint._INTERVAL + checking
            assert list(tmp_path.iterdir()) == []

    def test_writing_takes_a_small_share_of_the_time(self, monkeypatch, tmp_path, clock):
        times = []

        def slow(*args):
            times.append(clock.seconds)
            clock.seconds += 2
            write_archive(*args)

        monkeypatch.setattr(_checkpoint, "write_archive", slow)
        EBCD(4, checkpoint=tmp_path / "fit").fit(X)
        assert len(times) >= 2
        assert times[0] <= 5
        assert np.diff(times).min() >= 2 + 20 * 2

    def test_a_short_fit_writes_nothing(self, monkeypatch, tmp_path):
        monkeypatch.setattr(_clock, "now", lambda: 0.0)

        def write(*args):
            raise AssertionError

        monkeypatch.setattr(_checkpoint, "write_archive", write)
        EBCD(3, checkpoint=str(tmp_path / "fit")).fit(X)

    def test_a_full_disk_does_not_end_the_fit(self, monkeypatch, tmp_path, clock):
        def fail(*args):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(_checkpoint, "write_archive", fail)
        with pytest.warns(RuntimeWarning, match="could not be written .*No space left"):
            model = EBCD(3, checkpoint=tmp_path / "fit").fit(X)
        assert model.converged_


def text(path):
    path.write_text("my thesis", encoding="utf-8")


def table(path):
    with path.open("wb") as file:
        np.savez(file, x=np.arange(3))


def other_header(path):
    with path.open("wb") as file:
        header = json.dumps({"format": "something else"}).encode()
        np.savez(file, header=np.frombuffer(header, dtype=np.uint8))


def pickled(path):
    path.write_bytes(pickle.dumps({"a": 1}))


def truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flipped(path):
    """One byte of the largest array differs."""
    with zipfile.ZipFile(path) as stored:
        largest = max(stored.infolist(), key=lambda entry: entry.file_size)
    content = bytearray(path.read_bytes())
    content[largest.header_offset + 400] ^= 1
    path.write_bytes(bytes(content))


class TestRefused:
    @pytest.fixture
    def path(self, interruptions):
        interruptions.kill_once(lambda **more: EBCD(3, **more), lambda m: m.fit(X), 12)
        return interruptions.path

    @pytest.mark.parametrize(
        "damage", [text, table, other_header, pickled, truncated, flipped], ids=lambda f: f.__name__
    )
    def test_files_that_are_no_checkpoints(self, path, damage):
        damage(path)
        content = path.read_bytes()
        with pytest.raises(ValueError, match=r"not a checkpoint of ebcd, or is damaged.*Move or"):
            EBCD(3, checkpoint=path).fit(X)
        assert path.read_bytes() == content

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"n_components": 2}, "n_components is 3 there and 2 here"),
            ({"prior": "normal"}, "prior is 'point_laplace' there and 'normal' here"),
            ({"prior": ["normal", "npmle"]}, r"and \['normal', 'npmle'\] here"),
            ({"prior": make_family("npmle", grid=[0.0, 1.0])}, "npmle' with .*grid.* here"),
            ({"prior": make_prior("normal", scale=2.0)}, "the fitted prior .*2.0.* here"),
            ({"noise": "per_feature"}, "noise is 'constant' there"),
            ({"center": False}, "center is True there and False here; the data differ"),
            ({"scale": True}, "scale is False there and True here"),
            ({"start": "svd"}, "start is 'auto' there and 'svd' here"),
            ({"start": np.ones((24, 3))}, r"start is 'auto' there and an array of shape \(24, 3\)"),
            ({"tol": 1e-3}, "tol is None there and 0.001 here"),
            ({"random_state": 4}, "random_state is None there and 4 here"),
            ({"random_state": np.random.default_rng(4)}, "None there and a random state"),
            ({"max_iter": 100}, "max_iter is 2000 there and smaller here, 100"),
        ],
        ids=lambda value: next(iter(value)) if isinstance(value, dict) else "said",
    )
    def test_other_settings(self, path, settings, said):
        content = path.read_bytes()
        with pytest.raises(ValueError, match=f"belongs to another fit: .*{said}.*delete it or"):
            EBCD(**{"n_components": 3, "checkpoint": path, **settings}).fit(X)
        assert path.read_bytes() == content

    @pytest.mark.parametrize(
        ("other", "said"),
        [
            (X[:-1], "n_samples is 30 there and 29 here"),
            (X[:, :-1], "n_features is 24 there and 23 here"),
            (draw(1), "the data differ"),
            (X + 1e-6 * (np.arange(30)[:, None] == 3) * (np.arange(24) == 5), "the data differ"),
            (np.column_stack([X[:, :-1], X[::-1, -1]]), "the data differ"),  # same variances
            (X[:, ::-1], "the data differ"),
        ],
    )
    def test_other_data(self, path, other, said):
        with pytest.raises(ValueError, match=f"belongs to another fit: .*{said}"):
            EBCD(3, checkpoint=path).fit(other)
        assert path.exists()

    def test_rounding_is_not_other_data(self, path):
        """The sums of another number of threads: here, of another order of the samples."""
        EBCD(3, checkpoint=path).fit(X[::-1])
        assert not path.exists()

    def test_other_versions(self, path, monkeypatch):
        monkeypatch.setattr("ebcd.__version__", "99.0")
        with pytest.raises(ValueError, match=r"ebcd is .* there and 99.0 here"):
            EBCD(3, checkpoint=path).fit(X)

    def test_same_settings_in_other_words(self, path):
        prior = make_family("point_laplace")
        model = EBCD(np.int64(3), prior=prior, checkpoint=str(path), verbose=0, max_time=1e6)
        assert same_fit(model.fit(X), EBCD(3).fit(X))

    def test_folders_that_cannot_be_written_to(self, monkeypatch, tmp_path):
        """Before time is spent; faked, since the superuser can write anywhere."""
        monkeypatch.setattr("os.access", lambda path, mode: False)
        with pytest.raises(ValueError, match=r"nothing can be written to the folder .*another"):
            EBCD(2, checkpoint=tmp_path / "fit").fit(X)

    @pytest.mark.parametrize(
        ("parameters", "error", "said"),
        [
            ({"checkpoint": "no/such/folder/fit"}, ValueError, "no folder 'no/such/folder'"),
            ({"checkpoint": "."}, ValueError, "'.' is a folder"),
            ({"checkpoint": "/dev/null"}, ValueError, "'/dev/null' is no ordinary file"),
            ({"max_time": 0}, ValueError, "max_time must be a number of seconds above 0"),
        ],
    )
    def test_bad_parameters(self, parameters, error, said):
        with pytest.raises(error, match=said):
            EBCD(2, **parameters).fit(X)


class TestMaxTime:
    @pytest.mark.parametrize("start", ["auto", "greedy", "svd"])
    @pytest.mark.parametrize("number", [4, "paper"])
    def test_stops_with_what_there_is(self, clock, start, number):
        model = EBCD(number, start=start)
        model.fit(X)
        total = clock.seconds
        for seconds in (1, 3, 8):
            assert seconds + 3 < total
            clock.seconds = 0
            model.set_params(max_time=seconds)
            with pytest.warns(ConvergenceWarning, match=f"max_time={seconds} sec.*raise max_time"):
                model.fit(X)
            assert clock.seconds <= seconds + 3  # what was begun is finished
            assert not model.converged_
            assert model.n_components_ >= 1
            assert np.isfinite(model.transform(X)).all()
            assert model.elbo_ == model.elbo_path_[-1]

    def test_more_time_is_better(self, clock):
        elbos = []
        for seconds in (1, 3, 5, 7):
            with pytest.warns(ConvergenceWarning):
                elbos.append(EBCD(4, start="svd", max_time=seconds).fit(X).elbo_)
        elbos.append(EBCD(4, start="svd", max_time=1e6).fit(X).elbo_)
        assert (np.diff(elbos) >= 0).all()
        assert elbos[-1] > elbos[0]

    @pytest.mark.parametrize("start", ["auto", "greedy"])
    @pytest.mark.parametrize("seconds", [1, 9])
    def test_goes_on_from_the_checkpoint(self, clock, tmp_path, start, seconds):
        path = tmp_path / "fit"
        model = EBCD(2, start=start, max_time=seconds, checkpoint=path)
        runs, finished = 0, False
        while not finished and runs < 200:
            runs += 1
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                finished = model.fit(X).converged_
            said = [str(warning.message) for warning in caught]
            assert finished or "is kept, so that it goes on if fitted again" in said[0]
            assert path.exists() != finished
        assert 1 < runs < 200
        assert same_fit(model, EBCD(2, start=start).fit(X))
        assert list(tmp_path.iterdir()) == []

    def test_more_iterations_go_on_as_well(self, tmp_path):
        path = tmp_path / "fit"
        whole = EBCD(3, start="svd", max_iter=500).fit(X)
        for max_iter in range(2, whole.n_iter_):
            with pytest.warns(ConvergenceWarning, match="goes on if fitted with a larger max_iter"):
                EBCD(3, start="svd", max_iter=max_iter, checkpoint=path).fit(X)
        resumed = EBCD(3, start="svd", max_iter=500, checkpoint=path).fit(X)
        assert same_fit(whole, resumed)
        assert not path.exists()

    def test_nothing_found_in_time(self, clock, tmp_path):
        """Other starts might have found something."""
        model = EBCD(2, prior="point_mass", max_time=1, checkpoint=tmp_path / "fit")
        with pytest.warns(UserWarning, match="no component was found"):
            model.fit(X)
        assert not model.converged_
        assert (tmp_path / "fit").exists()

    def test_no_component(self, clock):
        noise = np.random.default_rng(0).normal(size=(30, 10))
        with pytest.warns(UserWarning, match="no component was found"):
            assert EBCD(max_time=0.5).fit(noise).converged_


def test_parameters_are_those_of_scikit_learn(tmp_path):
    model = clone(EBCD(2, max_time=3.0, checkpoint=tmp_path / "fit"))
    assert model.get_params()["max_time"] == 3.0
    assert model.get_params()["checkpoint"] == tmp_path / "fit"


def test_a_checkpoint_that_could_not_be_written_is_not_said_to_be_kept(tmp_path):
    fit = Fit(state=None, path=[0.0], n_iter=3, converged=False)
    path = tmp_path / "fit.ckpt"
    model = EBCD(checkpoint=path, max_time=2.0)
    assert "is kept" not in unfinished(model, fit, 1e-5)
    path.touch()
    assert "is kept" in unfinished(model, fit, 1e-5)
