"""Fits that are interrupted again and again, without a clock: after every so many writes."""

from pathlib import Path

import numpy as np

from ebcd.fitting import _checkpoint


class Killed(BaseException):
    """Stands for kill -9: nothing handles it."""


class Interruptions:
    """Fits with a checkpoint that is written at every turn, and killed after some of the writes."""

    def __init__(self, monkeypatch, folder):
        self.path = Path(folder) / "fit.checkpoint"
        self.kills = 0
        self._left = None
        for name in ("_FIRST", "_INTERVAL", "_PATIENCE"):
            monkeypatch.setattr(_checkpoint, name, 0)
        self._write = _checkpoint.write_archive
        monkeypatch.setattr(_checkpoint, "write_archive", self._write_and_die)

    def _write_and_die(self, *args):
        self._write(*args)
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                raise Killed

    def finish(self, make, fit, writes):
        """Fit until it is finished, each time as a new process would."""
        while True:
            self._left = writes
            try:
                return fit(make(checkpoint=self.path))
            except Killed:
                self.kills += 1
            finally:
                self._left = None

    def kill_once(self, make, fit, writes):
        """Fit and be killed; leaves a checkpoint."""
        self._left = writes
        try:
            fit(make(checkpoint=self.path))
        except Killed:
            self.kills += 1
        finally:
            self._left = None
        assert self.path.exists()

    def leftovers(self):
        return sorted(path.name for path in self.path.parent.iterdir())


def same_fit(one, other):
    """Whether two fits agree to the last bit, on their whole way."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("components_", "components_sd_", "elbo_path_", "n_iter_", "noise_variance_")
    )
