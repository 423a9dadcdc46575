"""Fits that are interrupted again and again, without a clock: after every so many writes."""

from functools import partial
from pathlib import Path

from ebcd import _store
from ebcd.estimators import _resume
from ebcd.fitting._checkpoint import Checkpoint, CheckpointSettings


class Killed(BaseException):
    """Stands for kill -9: nothing handles it."""


def write_always(monkeypatch):
    """Write checkpoints whenever there is something new."""
    always = CheckpointSettings(first=0.0, interval=0.0, patience=0.0)
    monkeypatch.setattr(_resume, "Checkpoint", partial(Checkpoint, timing=always))


class Interruptions:
    """Fits with a checkpoint that is written at every turn, and killed after some of the writes."""

    def __init__(self, monkeypatch, folder):
        self.path = Path(folder) / "fit.checkpoint"
        self.kills = 0
        self._left = None
        write_always(monkeypatch)
        self._write = _store.write
        monkeypatch.setattr(_store, "write", self._write_and_die)

    def _write_and_die(self, *args):
        self._write(*args)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                raise Killed

    def finish(self, make, fit):
        """Fit until it is finished, each time as a new process would, which lives a bit longer."""
        while self.kills < 100:
            self._left = self.kills + 2
            try:
                return fit(make(checkpoint=self.path))
            except Killed:
                self.kills += 1
            finally:
                self._left = None
        raise AssertionError("killed a hundred times, and still not finished")

    def kill_once(self, make, fit):
        """Fit and be killed once the first state is written; leaves a checkpoint."""
        self._left = 2
        try:
            fit(make(checkpoint=self.path))
        except Killed:
            self.kills += 1
        finally:
            self._left = None
        assert self.path.exists()

    def leftovers(self):
        return sorted(path.name for path in self.path.parent.iterdir())


def same_optimum(one, other, tol=1e-5):
    """Whether two fits ended in the same optimum: nats apart at most ten times the tolerance."""
    return (
        one.converged_ == other.converged_
        and one.n_components_ == other.n_components_
        and abs(one.elbo_ - other.elbo_) <= 10 * tol
    )
