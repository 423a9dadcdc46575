"""A fit that survives its process: the state on disk, from which the same fit goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import copy, deepcopy
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from ebcd._numerics import Array
from ebcd._warnings import warn_user
from ebcd.data import AbstractCovariance, AbstractSlot, NoSlot
from ebcd.fitting import _clock
from ebcd.fitting._archive import read_archive, write_archive
from ebcd.fitting._description import Description, differences
from ebcd.fitting._keeper import AbstractKeeper, Result

# Seconds after which work is in the file, at first and later, and how many times longer than the
# last write took the next one waits at least.
_FIRST = 1.0
_INTERVAL = 5.0
_PATIENCE = 20
_SUFFIX = ".ebcd-writing"
_DEAR = 0.2  # seconds that a product takes from which it is kept
_AIM = 0.9  # of the time that is allowed: the next step may take longer than those before it
_FORGET = 0.9  # a long step is soon expected no more
_PROBE = "/0 product"  # the first thing a fit asks for, to be known again by


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
    deadline : Deadline, optional
        When to stop.
    """

    def __init__(self, path: Path, deadline: _clock.Deadline | None = None) -> None:
        super().__init__(deadline)
        self._path, self._temporary = path, path.with_name(path.name + _SUFFIX)
        self._description: Description | None = None
        self._records: dict[str, Any] = {}
        self._sums: dict[str, Any] | None = None  # of the first pass over the data, and their stamp
        if path.exists():
            self._read()
        self._temporary.unlink(missing_ok=True)  # of a process that was killed while it wrote
        self._stage = ""
        self._counts: dict[str, int] = {}
        self._newer = False  # than the file
        self._pace = 0.0  # longest of the last steps between two moments at which one can write
        self._took = 0.0  # by the last write
        self._last = _clock.now()
        self._earliest, self._due = self._last, self._last + _AIM * _FIRST

    def _read(self) -> None:
        try:
            content = read_archive(self._path)
            version, there = content["ebcd"], content["description"]
            self._records, self._sums = dict(content["records"]), content["sums"]
            self._description = None if there is None else Description(**there)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"checkpoint: {str(self._path)!r} exists but is not a checkpoint of ebcd, or is "
                f"damaged ({error}); it is left as it is. Move or delete it, or give another path"
            ) from error
        if version != _version():
            raise self._refusal([f"ebcd is {version} there and {_version()} here"])

    def _refusal(self, found: list[str]) -> ValueError:
        return ValueError(
            f"checkpoint: {str(self._path)!r} belongs to another fit: {'; '.join(found)}. Use the "
            "same data and settings to go on with it; delete it or give another path to start anew"
        )

    def pass_slot(self, stamp: list[Any] | None) -> AbstractSlot:
        """Give the place of the first pass over the data."""
        known, self._sums = self._sums, None
        if known is not None and known["stamp"] == stamp:
            self._sums = known
        elif self._description is not None:
            return NoSlot()  # whether these are the same data will be seen when they have been read
        elif known is not None:
            raise self._refusal(["it is about other files, or they have changed"])
        return NoSlot() if stamp is None else _PassSlot(self, stamp, self._sums)

    def keep_sums(self, stamp: list[Any], sums: Any, finished: bool) -> None:
        """Keep the sums of the first pass over the data."""
        self._sums = {"stamp": stamp, "sums": sums}
        if finished:
            self._write_if_due()
        else:
            self._write()
            self._sums = None  # they change from here on

    def of(
        self,
        covariance: AbstractCovariance,
        describe: Callable[[AbstractCovariance], Description],
    ) -> Self:
        """Compare with the fit in the file; say what differs."""
        there = self._description
        if there is None and self._sums is None:
            self._records = {}  # of data that cannot be known again
        if there is None or (self._sums is not None and _PROBE in self._records):
            self._description = describe(self.watched(covariance))
        else:  # these may be other data, so that what is known is no help, and nothing is kept yet
            self._key("product")
            self._description = describe(covariance)
        found = [] if there is None else differences(there, self._description)
        if found:
            raise self._refusal(found)
        return self

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
            method, whole = getattr(covariance, name), name not in covariance.divisible
            vars(watched)[name] = partial(self._product, method, whole)
        return watched

    def _product(self, compute: Callable[..., Array], whole: bool, *arguments: Array) -> Array:
        key = self._key("product")
        if key in self._records:
            return np.array(self._records[key])
        began, part = _clock.now(), f"{key} so far"
        result = (
            compute(*arguments)
            if whole
            else compute(*arguments, slot=_SumSlot(self, part, self._records.get(part)))
        )
        self._records.pop(part, None)
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
        self._newer = True
        if self.is_due():
            self._write()

    def is_due(self) -> bool:
        """Tell whether to write: there will be no time for it after the next step."""
        now = _clock.now()
        self._pace, self._last = max(now - self._last, _FORGET * self._pace), now
        return now >= self._earliest and now + self._pace + self._took >= self._due

    def _write(self) -> None:
        began = _clock.now()
        content = {
            "ebcd": _version(),
            "description": self._description and self._description._asdict(),
            "records": self._records,
            "sums": self._sums,
        }
        try:
            write_archive(self._path, self._temporary, content)
            self._newer = False
        except OSError as error:
            warn_user(
                f"the checkpoint {str(self._path)!r} could not be written ({error}); the fit goes "
                "on without and will try again",
                RuntimeWarning,
            )
        ended = _clock.now()
        self._took, self._last = ended - began, ended
        self._earliest, self._due = ended + _PATIENCE * self._took, began + _AIM * _INTERVAL

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


class _SumSlot(AbstractSlot):
    """For sums that change all the time, so that they are taken only when they are written."""

    def __init__(self, checkpoint: Checkpoint, key: str, saved: Any) -> None:
        self._checkpoint, self._key, self.saved = checkpoint, key, deepcopy(saved)

    def offer(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Leave the sums so far if it is time."""
        if self._checkpoint.is_due():
            self._checkpoint.keep(self._key, deepcopy(make(*arguments)))


class _PassSlot(AbstractSlot):
    """The same for the first pass."""

    def __init__(self, checkpoint: Checkpoint, stamp: list[Any], known: Any) -> None:
        self._checkpoint, self._stamp = checkpoint, stamp
        self.saved = deepcopy(known["sums"]) if known else None
        self._began = _clock.now()

    def offer(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Leave the sums so far if it is time."""
        if self._checkpoint.is_due():
            self._checkpoint.keep_sums(self._stamp, make(*arguments), finished=False)

    def finish(self, result: Any) -> None:
        """Leave the sums over all rows, if it took long to get them."""
        if self.saved or _clock.now() - self._began >= _FIRST:
            self._checkpoint.keep_sums(self._stamp, deepcopy(result), finished=True)
