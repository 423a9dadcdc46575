"""Fits that are killed, interrupted or run out of time go on, and end in the same optimum."""

import json
import pickle
import signal
import zipfile

import numpy as np
import pytest
from interruptions import Interruptions, same_optimum, write_always
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ebcd import EBCD, Gram, _store
from ebcd.estimators._resume import unfinished
from ebcd.fitting import _checkpoint, _decompose, _progress
from ebcd.fitting._checkpoint import CheckpointSettings
from ebcd.fitting._decompose import Fit, SizeSettings
from ebcd.fitting._states import Model
from ebcd.priors import make_family, make_prior


def draw(seed=0, n=30, p=24, k=3):
    rng = np.random.default_rng(seed)
    L = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.4) * np.linspace(3, 1.5, k)[:, None]
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p))


X = draw()
SLOW = pytest.mark.slow


@pytest.fixture
def interruptions(monkeypatch, tmp_path):
    return Interruptions(monkeypatch, tmp_path)


class Clock:
    seconds = 0.0


@pytest.fixture
def clock(monkeypatch):
    """A clock on which every shrinkage of a joint fit takes a second, and nothing else any time."""
    clock, shrink = Clock(), Model.shrink

    def slow(self, *args):
        clock.seconds += 1
        return shrink(self, *args)

    monkeypatch.setattr(Model, "shrink", slow)
    monkeypatch.setattr(_progress, "now", lambda: clock.seconds)
    return clock


class TestKilled:
    def check(self, interruptions, fit, **parameters):
        whole = fit(EBCD(**parameters))
        resumed = interruptions.finish(lambda **more: EBCD(**parameters, **more), fit)
        assert interruptions.kills > 0
        assert same_optimum(whole, resumed)
        assert interruptions.leftovers() == []

    @pytest.mark.parametrize("prior", ["point_exponential", "horseshoe", "normal"])
    def test_families(self, interruptions, prior):
        data = X[:, :12]
        self.check(interruptions, lambda m: m.fit(data), n_components=2, prior=prior, start="svd")

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    @pytest.mark.parametrize("start", ["auto", "greedy", "svd", "array"])
    def test_every_start(self, interruptions, noise, start):
        if start == "array":
            start = np.linalg.svd(X)[2][:3].T
        self.check(interruptions, lambda m: m.fit(X), n_components=3, start=start, noise=noise)

    @pytest.mark.parametrize("number", ["auto", 4, pytest.param("paper", marks=SLOW)])
    def test_every_number_of_components(self, interruptions, number):
        data = X[:, :8] if number == "paper" else X
        self.check(interruptions, lambda m: m.fit(data), n_components=number, scale=True)

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
        self.check(interruptions, fit, n_components=2, random_state=3)

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    def test_in_a_growing_factor(self, interruptions, monkeypatch, noise):
        small = SizeSettings(exact_rows=5, extra_directions=2, features=15)
        monkeypatch.setattr(_decompose, "SIZES", small)
        data = draw(0, 40, 60)
        self.check(interruptions, lambda m: m.fit(data), n_components=3, noise=noise)

    def test_fixed_priors_and_lists(self, interruptions):
        priors = [make_prior("point_laplace", weight=0.3, scale=2.0), "normal", "laplace"]
        self.check(interruptions, lambda m: m.fit(X), n_components=3, prior=priors, start="svd")

    @pytest.mark.parametrize(
        "seed", [np.random.default_rng, np.random.RandomState, np.random.SeedSequence]
    )
    def test_random_states(self, interruptions, seed):
        def make(**more):
            return EBCD(3, random_state=seed(5), **more)

        resumed = interruptions.finish(make, lambda m: m.fit(X[:, :8]))
        assert same_optimum(make().fit(X[:, :8]), resumed)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this system")
@pytest.mark.slow
def test_kill_9(tmp_path, run_process):
    """A process that kills itself after a few writes, and once half-way through one."""
    script = f"""
import os, signal, sys
from functools import partial
import numpy as np
from ebcd import EBCD, _store
from ebcd.estimators import _resume
from ebcd.fitting._checkpoint import CheckpointSettings

run = int(sys.argv[1])
always = CheckpointSettings(first=0.0, interval=0.0, patience=0.0)
_resume.Checkpoint = partial(_resume.Checkpoint, timing=always)
write, left = _store.write, run + 2

def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

def write_and_die(*args):
    global left
    left -= 1
    if run == 1 and left == 0:
        os.replace = os.rename = die
    write(*args)
    if run < 2 and left == 0:
        die()

_store.write = write_and_die
X = np.load({str(tmp_path / "X.npy")!r})
np.save({str(tmp_path / "elbo.npy")!r}, EBCD(3, checkpoint={str(tmp_path / "fit")!r}).fit(X).elbo_)
"""
    np.save(tmp_path / "X.npy", X)
    for number in range(3):
        done = run_process(script, number, folder=tmp_path)
        assert done.returncode == (-signal.SIGKILL if number < 2 else 0), done.stderr
        assert (tmp_path / "fit").exists() == (number < 2)
    assert abs(np.load(tmp_path / "elbo.npy") - EBCD(3).fit(X).elbo_) <= 1e-4


def interrupt(monkeypatch, when, error):
    """Raise an error in an iteration, once."""
    at = Model.at

    def interrupted(self, *args, **options):
        if when():
            monkeypatch.setattr(Model, "at", at)
            raise error
        return at(self, *args, **options)

    monkeypatch.setattr(Model, "at", interrupted)


class TestInterrupted:
    def test_ctrl_c_leaves_the_newest_state(self, monkeypatch, tmp_path, clock):
        """No write is due before the interrupt: the state is written because of it."""
        monkeypatch.setattr(_progress, "now", lambda: 0.0)
        whole = EBCD(4, start="svd").fit(X)
        path, total, clock.seconds = tmp_path / "fit", clock.seconds, 0
        assert total > 8
        interrupt(monkeypatch, lambda: clock.seconds >= 6, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            EBCD(4, start="svd", checkpoint=path).fit(X)
        saved = _store.read(path)["found"]["state"]
        gains = np.diff(whole.elbo_path_[:6])
        np.testing.assert_allclose(np.diff(saved["path"]), gains, atol=1e-9)
        assert same_optimum(whole, EBCD(4, start="svd", checkpoint=path).fit(X))
        assert list(tmp_path.iterdir()) == []

    def test_a_search_is_repeated(self, monkeypatch, tmp_path, clock):
        path = tmp_path / "fit"
        interrupt(monkeypatch, lambda: clock.seconds >= 3, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            EBCD(checkpoint=path).fit(X)
        assert list(_store.read(path)["found"]) == ["n_components"]
        assert same_optimum(EBCD().fit(X), EBCD(checkpoint=path).fit(X))

    def test_errors_leave_the_last_checkpoint(self, monkeypatch, tmp_path, clock):
        write_always(monkeypatch)
        interrupt(monkeypatch, lambda: clock.seconds >= 6, MemoryError)
        with pytest.raises(MemoryError):
            EBCD(3, start="svd", checkpoint=tmp_path / "fit").fit(X)
        resumed = EBCD(3, start="svd", checkpoint=tmp_path / "fit").fit(X)
        assert same_optimum(resumed, EBCD(3, start="svd").fit(X))


class TestHowOften:
    timing = CheckpointSettings()

    def times(self, monkeypatch, clock, seconds):
        """Collect when checkpoints are written, which takes some seconds."""
        times, write = [], _store.write

        def slow(*args):
            times.append(clock.seconds)
            clock.seconds += seconds
            write(*args)

        monkeypatch.setattr(_store, "write", slow)
        return times

    def test_every_few_seconds(self, monkeypatch, tmp_path, clock):
        times = self.times(monkeypatch, clock, 0)
        EBCD(4, start="svd", tol=1e-9, checkpoint=tmp_path / "fit").fit(X)
        assert times[0] == self.timing.first
        assert len(times) > 2
        assert set(np.diff(times)) == {self.timing.interval}

    def test_writing_takes_a_small_share_of_the_time(self, monkeypatch, tmp_path, clock):
        times = self.times(monkeypatch, clock, 0.5)
        EBCD(4, start="svd", tol=1e-9, checkpoint=tmp_path / "fit").fit(X)
        assert len(times) >= 2
        assert np.diff(times).min() >= 0.5 * (1 + self.timing.patience)

    def test_a_short_fit_writes_nothing(self, monkeypatch, tmp_path):
        monkeypatch.setattr(_progress, "now", lambda: 0.0)
        monkeypatch.setattr(_store, "write", lambda *args: pytest.fail("written"))
        EBCD(3, checkpoint=str(tmp_path / "fit")).fit(X)

    def test_a_full_disk_does_not_end_the_fit(self, monkeypatch, tmp_path):
        def fail(*args):
            raise OSError(28, "No space left on device")

        write_always(monkeypatch)
        monkeypatch.setattr(_store, "write", fail)
        with pytest.warns(RuntimeWarning, match="could not be written .*No space left") as caught:
            model = EBCD(3, checkpoint=tmp_path / "fit").fit(X)
        assert len(caught) == 1
        assert same_optimum(model, EBCD(3).fit(X))


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
        interruptions.kill_once(lambda **more: EBCD(3, **more), lambda m: m.fit(X))
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

    def test_a_bug_of_ours_is_no_damage(self, path, monkeypatch):
        def bug(*given):
            raise TypeError("a bug")

        monkeypatch.setattr(_checkpoint, "_differences", bug)
        with pytest.raises(TypeError, match="a bug"):
            EBCD(3, checkpoint=path).fit(X)

    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"n_components": 2}, "n_components is 3 there and 2 here"),
            ({"prior": "normal"}, "prior is 'point_laplace' there and 'normal' here"),
            ({"prior": ["normal", "npmle"]}, r"and \['normal', 'npmle'\] here"),
            ({"prior": make_family("npmle", grid=[0.0, 1.0])}, "npmle' with .*grid.* here"),
            ({"prior": make_prior("normal", scale=2.0)}, "the fitted prior .*2.0.* here"),
            ({"noise": "per_feature"}, "noise is 'constant' there"),
            ({"center": False}, "center is True there and False here"),
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
        monkeypatch.setattr("ebcd.fitting._checkpoint.__version__", "99.0")
        with pytest.raises(ValueError, match=r"ebcd is .* there and 99.0 here"):
            EBCD(3, checkpoint=path).fit(X)

    def test_same_settings_in_other_words(self, path):
        prior = make_family("point_laplace")
        model = EBCD(np.int64(3), prior=prior, checkpoint=str(path), verbose=0, max_time=1e6)
        assert same_optimum(model.fit(X), EBCD(3).fit(X))

    def test_folders_that_cannot_be_written_to(self, monkeypatch, tmp_path):
        """Before time is spent; faked, since the superuser can write anywhere."""
        monkeypatch.setattr("os.access", lambda path, mode: False)
        with pytest.raises(ValueError, match=r"the folder .* is not writable; .*another"):
            EBCD(2, checkpoint=tmp_path / "fit").fit(X)

    @pytest.mark.parametrize(
        ("parameters", "error", "said"),
        [
            ({"checkpoint": "no/such/folder/fit"}, ValueError, "'no/such/folder' does not exist"),
            ({"checkpoint": "."}, ValueError, "'.' is a folder"),
            ({"checkpoint": "/dev/null"}, ValueError, "'/dev/null' is not a regular file"),
            ({"max_time": 0}, ValueError, "max_time must be a number of seconds above 0"),
        ],
    )
    def test_bad_parameters(self, parameters, error, said):
        with pytest.raises(error, match=said):
            EBCD(2, **parameters).fit(X)


class TestMaxTime:
    @pytest.mark.parametrize("start", ["auto", "greedy", "svd"])
    def test_stops_with_what_there_is(self, clock, start):
        model = EBCD(4, start=start)
        model.fit(X)
        total = clock.seconds
        for seconds in (1, 3):
            assert seconds + 3 < total
            clock.seconds = 0
            model.set_params(max_time=seconds)
            with pytest.warns(ConvergenceWarning, match=f"max_time={seconds} sec.*raise max_time"):
                model.fit(X)
            assert clock.seconds <= seconds + 5  # what was begun is finished
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

    @pytest.mark.parametrize("start", ["auto", "greedy", "svd"])
    def test_goes_on_from_the_checkpoint(self, clock, tmp_path, start):
        path = tmp_path / "fit"
        whole = EBCD(4, start=start, tol=1e-9).fit(X)
        with pytest.warns(ConvergenceWarning, match="is kept, so the fit resumes if you fit again"):
            EBCD(4, start=start, tol=1e-9, max_time=2, checkpoint=path).fit(X)
        model = EBCD(4, start=start, tol=1e-9, max_time=1e6, checkpoint=path)
        assert same_optimum(whole, model.fit(X), 1e-7)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("start", ["auto", "greedy"])
    def test_a_start_that_was_cut_short_is_none_to_go_on_from(self, monkeypatch, tmp_path, start):
        """Not even if it looks converged: here time is up from the very beginning."""
        path, times = tmp_path / "fit", iter(range(10**9))
        monkeypatch.setattr(_progress, "now", lambda: next(times))
        with pytest.warns(ConvergenceWarning, match="is kept"):
            model = EBCD(4, start=start, max_time=0.5, checkpoint=path).fit(X)
        assert not model.converged_
        assert "state" not in _store.read(path)["found"]
        monkeypatch.undo()
        assert same_optimum(
            EBCD(4, start=start, checkpoint=path).fit(X), EBCD(4, start=start).fit(X)
        )

    @pytest.mark.filterwarnings("ignore:the fit stopped after max_time")
    def test_short_runs_get_there_in_the_end(self, clock, tmp_path):
        path = tmp_path / "fit"
        # fewer iterations a run may all be spent on finding out how long a step may be
        model = EBCD(3, start="svd", max_time=6, checkpoint=path).fit(X)
        runs = 1
        while not model.converged_ and runs < 100:
            assert path.exists()
            model.fit(X)
            runs += 1
        assert 1 < runs < 100
        assert same_optimum(model, EBCD(3, start="svd").fit(X))
        assert list(tmp_path.iterdir()) == []

    def test_more_iterations_go_on_as_well(self, tmp_path):
        path = tmp_path / "fit"
        whole = EBCD(3, start="svd", max_iter=500).fit(X)
        for max_iter in range(2, 6):
            with pytest.warns(
                ConvergenceWarning, match="resumes if you fit with a larger max_iter"
            ):
                EBCD(3, start="svd", max_iter=max_iter, checkpoint=path).fit(X)
        assert same_optimum(whole, EBCD(3, start="svd", max_iter=500, checkpoint=path).fit(X))
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
