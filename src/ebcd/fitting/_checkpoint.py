"""A fit that survives its process: the state on disk, from which the same fit goes on."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ebcd._numerics import Array
from ebcd.data import AbstractCovariance
from ebcd.fitting import _clock
from ebcd.fitting._archive import read_archive, write_archive
from ebcd.fitting._keeper import AbstractKeeper, AbstractSlot, Result

# Seconds after which work is in the file, at first and later, and how many times longer than the
# last write took the next one waits at least.
_FIRST = 1.0
_INTERVAL = 5.0
_PATIENCE = 20
_SUFFIX = ".ebcd-writing"
_DEAR = 0.2  # seconds that a product takes from which it is kept
_FORGET = 0.9  # a long step is soon expected no more


class Description(NamedTuple):
    """What must be the same for a fit to go on from a checkpoint.

    Attributes
    ----------
    settings : dict of str to plain values
        Settings on which the result depends.
    max_iter : int
        Largest number of iterations, which may have become larger.
    n_samples, n_features : int
    variances : array of length p
        Variances of the features.
    correlations : array of length p
        Correlation of every feature with a fixed random combination of all.
    accuracy : float
        How accurate those are.
    """

    settings: dict[str, Any]
    max_iter: int
    n_samples: int
    n_features: int
    variances: Array
    correlations: Array
    accuracy: float


def describe(
    covariance: AbstractCovariance,
    variances: Array,
    accuracy: float,
    settings: dict[str, Any],
    max_iter: int,
) -> Description:
    """Describe a fit; the data are seen through one product."""
    n, p = covariance.n_samples, covariance.n_features
    probe = np.random.default_rng(0).standard_normal(p)
    product = covariance.matmul(probe[:, None])[:, 0]
    largest = np.sqrt(np.maximum(covariance.diagonal() * (probe @ product), 0.0))
    correlations = np.where(largest > 0, product / np.where(largest > 0, largest, 1.0), 0.0)
    return Description(settings, int(max_iter), n, p, variances, correlations, accuracy)


def _differences(there: Description, here: Description) -> list[str]:
    """Say in words what differs between a stored fit and this one."""
    found = [
        f"{name} is {there.settings.get(name)} there and {here.settings.get(name)} here"
        for name in sorted(there.settings.keys() | here.settings.keys())
        if there.settings.get(name) != here.settings.get(name)
    ]
    if here.max_iter < there.max_iter:
        found.append(f"max_iter is {there.max_iter} there and smaller here, {here.max_iter}")
    found += [
        f"{name} is {getattr(there, name)} there and {getattr(here, name)} here"
        for name in ("n_samples", "n_features")
        if getattr(there, name) != getattr(here, name)
    ]
    if there.n_features == here.n_features and not _same_data(there, here):
        found.append("the data differ")
    return found


def _same_data(there: Description, here: Description) -> bool:
    """Compare up to rounding, which depends on the number of threads."""
    top = float(here.variances.max(initial=0.0))
    if not np.allclose(there.variances, here.variances, rtol=1e-8, atol=1e-14 * top):
        return False
    accuracy = max(there.accuracy, here.accuracy)
    return bool((np.abs(there.correlations - here.correlations) <= accuracy).all())


def _version() -> str:
    return str(sys.modules["ebcd"].__version__)  # layers import downwards, and it is on top


class Checkpoint(AbstractKeeper):
    """Keeps the results of finished stages and the states of loops in a file.

    The file is written every few seconds, whole or not at all, and removed when the fit is
    finished. Results of stages within a stage are dropped when that is finished, and those of a
    turn of a loop when the next one begins.

    Parameters
    ----------
    path : Path
        The file. If there is one, the fit goes on from it; it must be of the same fit.
    description : Description
        What the same fit means.
    deadline : Deadline, optional
        When to stop.
    """

    def __init__(
        self, path: Path, description: Description, deadline: _clock.Deadline | None = None
    ) -> None:
        super().__init__(deadline)
        self._path, self._temporary = path, path.with_name(path.name + _SUFFIX)
        self._description = description
        self._records: dict[str, Any] = self._read() if path.exists() else {}
        self._temporary.unlink(missing_ok=True)  # of a process that was killed while it wrote
        self._stage = ""
        self._counts: dict[str, int] = {}
        self._newer = False  # than the file
        self._pace = 0.0  # longest of the last steps between two moments at which one can write
        self._took = 0.0  # by the last write
        self._last = _clock.now()
        self._earliest, self._due = self._last, self._last + _FIRST

    def _read(self) -> dict[str, Any]:
        try:
            content = read_archive(self._path)
            version, there, records = content["ebcd"], content["description"], content["records"]
            there = Description(**there)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint: {str(self._path)!r} exists but is not a checkpoint of ebcd, or is "
                f"damaged ({error}); it is left as it is. Move or delete it, or give another path"
            ) from error
        differences = _differences(there, self._description)
        if version != _version():
            differences.append(f"ebcd is {version} there and {_version()} here")
        if differences:
            raise ValueError(
                f"checkpoint: {str(self._path)!r} belongs to another fit: "
                f"{'; '.join(differences)}. Use the same data and settings to go on with it; "
                "delete it or give another path to start anew"
            )
        return dict(records)

    def once(
        self, name: str, compute: Callable[..., Result], *arguments: Any, **options: Any
    ) -> Result:
        """Give a result that is known, or compute it and keep it."""
        key = self._key(name)
        if key in self._records:
            known: Result = self._records[key]
            return known
        outer, self._stage = self._stage, key
        self._counts[key] = 0
        result = compute(*arguments, **options)
        self._stage = outer
        if not self.cut_short:
            self._records[key] = result
            self._drop((key + "/",))
            self._write_if_due()
        return result

    def slot(self, name: str) -> AbstractSlot:
        """Give the place of a loop."""
        key = self._key(name)
        return _Slot(self, key, self._records.get(key))

    def watched(self, covariance: AbstractCovariance) -> AbstractCovariance:
        """Give a copy that keeps its dear products: those of large data may take minutes."""
        watched = copy(covariance)
        for name in covariance.passes:  # where the other methods of the copy find them, too
            vars(watched)[name] = partial(self._product, getattr(covariance, name))
        return watched

    def _product(self, compute: Callable[..., Array], *arguments: Array) -> Array:
        key = self._key("product")
        if key in self._records:
            return np.array(self._records[key])
        began = _clock.now()
        result = compute(*arguments)
        if _clock.now() - began >= _DEAR:
            self._records[key] = result.copy(order="K")  # others may change it
            self._write_if_due()
        return result

    def _key(self, name: str) -> str:
        number = self._counts.get(self._stage, 0)
        self._counts[self._stage] = number + 1
        return f"{self._stage}/{number} {name}"

    def keep(self, key: str, value: Any) -> None:
        """Keep the state of a loop, whose next turn begins: the last one is not needed any more."""
        stage, _, own = key.rpartition("/")
        number = int(own.partition(" ")[0])
        later = range(number + 1, self._counts[stage])
        self._drop(tuple(f"{stage}/{i} " for i in later))
        self._counts[stage] = number + 1
        self._records[key] = value
        self._write_if_due()

    def _drop(self, beginnings: tuple[str, ...]) -> None:
        for key in [key for key in self._records if key.startswith(beginnings)]:
            del self._records[key]

    def _write_if_due(self) -> None:
        """Write unless there will be time for it after the next step, too."""
        now = _clock.now()
        self._newer = True
        self._pace = max(now - self._last, _FORGET * self._pace)
        if now >= self._earliest and now + self._pace + self._took >= self._due:
            self._write()
        self._last = _clock.now()

    def _write(self) -> None:
        began = _clock.now()
        content = {
            "ebcd": _version(),
            "description": self._description._asdict(),
            "records": self._records,
        }
        try:
            write_archive(self._path, self._temporary, content)
            self._newer = False
        except OSError as error:
            warnings.warn(
                f"the checkpoint {str(self._path)!r} could not be written ({error}); the fit goes "
                "on without and will try again",
                RuntimeWarning,
                stacklevel=2,
            )
        ended = _clock.now()
        self._took = ended - began
        self._earliest, self._due = ended + _PATIENCE * self._took, began + _INTERVAL

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the file if the fit is finished; bring it up to date if it was interrupted."""
        if self.finished:
            self._path.unlink(missing_ok=True)
        elif self._newer and (kind is None or issubclass(kind, KeyboardInterrupt)):
            self._write()


class _Slot(AbstractSlot):
    def __init__(self, checkpoint: Checkpoint, key: str, saved: Any) -> None:
        self._checkpoint, self._key, self.saved = checkpoint, key, saved

    def offer(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Leave the state of the loop."""
        self._checkpoint.keep(self._key, make(*arguments))
