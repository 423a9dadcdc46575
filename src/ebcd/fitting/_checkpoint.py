"""A fit that survives its process: how far it has come, in a file from which it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ebcd import _store
from ebcd._numerics import Array
from ebcd._version import __version__
from ebcd._warnings import warn_user
from ebcd.data import AbstractCovariance
from ebcd.fitting import _progress


@dataclass(frozen=True)
class CheckpointSettings:
    """How often the file is written."""

    first: float = 1.0  # seconds until the first time: shorter fits write nothing
    interval: float = 5.0  # seconds between two times,
    patience: float = 20.0  # or so many times what writing took, so that it costs 5 % at most
    double: float = 1e-8  # relative accuracy of products, which depend on the number of threads
    single: float = 1e-5
    digits: float = 1e-14  # share of the largest variance that is rounding


class Checkpoint:
    """The file of one fit.

    It holds what the fit is about, to refuse others, and parts of what it has found so far: the
    moments of data that were read in pieces, the number of components, and the state.

    Parameters
    ----------
    path : Path
        The file. If there is one, the fit goes on from it.
    settings : dict of str to str
        Settings on which the result depends, in words.
    max_iter : int
        Most iterations, which may have become more.
    """

    def __init__(
        self,
        path: Path,
        settings: dict[str, str],
        max_iter: int,
        timing: CheckpointSettings = CheckpointSettings(),
    ) -> None:
        self._path, self._timing = path, timing
        self._fit: dict[str, Any] = {"settings": settings, "max_iter": max_iter, "data": None}
        self.found: dict[str, Any] = {}
        self._newer: dict[str, Callable[[], Any]] = {}  # than the file
        self._due, self._failed = _progress.now() + timing.first, False
        if path.exists():
            self._read()

    def _read(self) -> None:
        why: Any = "parts are missing"
        try:
            content = _store.read(self._path)
        except ValueError as error:
            content, why = None, error
        match content:
            case {
                "ebcd": str(version),
                "fit": {
                    "settings": dict(settings),
                    "max_iter": int() | np.integer() as most,
                    "data": data,
                },
                "found": dict(found),
            } if all(isinstance(words, str) for words in settings.values()):
                differences = _differences(settings, int(most), self._fit)
            case _:
                raise ValueError(
                    f"checkpoint: {str(self._path)!r} exists but is not a checkpoint of ebcd, or "
                    f"is damaged ({why}); it was left unchanged. Move or delete it, or pass "
                    "another path"
                )
        if version != __version__:
            differences = [f"ebcd is {version} there and {__version__} here"]
        self.refuse(differences)
        self._fit["data"], self.found = data, found

    def refuse(self, differences: list[str]) -> None:
        """Raise if the file belongs to another fit; say what differs."""
        if differences:
            raise ValueError(
                f"checkpoint: {str(self._path)!r} belongs to another fit: "
                f"{'; '.join(differences)}. Use the same data and settings to resume it; "
                "delete it or pass another path to start over"
            )

    def check_data(self, covariance: AbstractCovariance, variances: Array, single: bool) -> None:
        """Refuse data other than those of the file; they are seen through one product."""
        here = _described(covariance, variances, single, self._timing)
        there = self._fit["data"]
        if there is not None:
            self.refuse(_data_differences(there, here, self._timing))
        self._fit["data"] = here

    def note(self, name: str, part: Callable[[], Any]) -> None:
        """Note that a part has changed; it is asked for, and written, when it is time."""
        self._newer[name] = part
        if _progress.now() >= self._due:
            self.write()

    def write(self) -> None:
        """Write the file now, whole or not at all."""
        if not self._newer:
            return
        began = _progress.now()
        self.found |= {name: part() for name, part in self._newer.items()}
        self._newer = {}
        try:
            tree = {"ebcd": __version__, "fit": self._fit, "found": self.found}
            _store.write(self._path, tree)
        except OSError as error:
            if not self._failed:
                warn_user(
                    f"the checkpoint {str(self._path)!r} could not be written "
                    f"({error.strerror or error}); the fit continues without it",
                    RuntimeWarning,
                )
            self._failed = True
        took = _progress.now() - began
        wait = max(self._timing.interval, self._timing.patience * took)
        self._due = _progress.now() + wait

    def remove(self) -> None:
        """Remove the file: the fit is finished."""
        self._path.unlink(missing_ok=True)


def _described(
    covariance: AbstractCovariance, variances: Array, single: bool, timing: CheckpointSettings
) -> dict[str, Any]:
    """Describe data by variances, and correlations with a fixed random combination of features."""
    probe = np.random.default_rng(0).standard_normal(covariance.n_features)
    product = covariance.matmul(probe[:, None])[:, 0]
    largest = np.sqrt(np.maximum(covariance.diagonal() * (probe @ product), 0.0))
    return {
        "n_samples": covariance.n_samples,
        "n_features": covariance.n_features,
        "variances": np.asarray(variances),
        "correlations": np.where(largest > 0, product / np.where(largest > 0, largest, 1.0), 0.0),
        "accuracy": timing.single if single else timing.double,
    }


def _differences(old: dict[str, str], max_iter: int, here: dict[str, Any]) -> list[str]:
    """Say which settings differ between the fit in the file and this one."""
    new = here["settings"]
    found = [
        f"{name} is {old.get(name)} there and {new.get(name)} here"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if here["max_iter"] < max_iter:
        found.append(f"max_iter is {max_iter} there and smaller here, {here['max_iter']}")
    return found


def _data_differences(
    there: dict[str, Any], here: dict[str, Any], timing: CheckpointSettings
) -> list[str]:
    """Say in which way the data differ, up to rounding."""
    found = [
        f"{name} is {there[name]} there and {here[name]} here"
        for name in ("n_samples", "n_features")
        if there[name] != here[name]
    ]
    if there["n_features"] != here["n_features"]:
        return found
    floor = timing.digits * float(here["variances"].max(initial=0.0))
    alike = np.allclose(there["variances"], here["variances"], rtol=timing.double, atol=floor)
    accuracy = max(there["accuracy"], here["accuracy"])
    if not alike or np.abs(there["correlations"] - here["correlations"]).max() > accuracy:
        found.append("the data differ")
    return found
