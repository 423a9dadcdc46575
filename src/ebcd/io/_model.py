"""Estimators in a file: arrays in the format of NumPy, and a JSON header that says what they are.

The file is a zip archive, as `numpy.savez` writes them, with one more member, ``header.json``. So
other programs can read the arrays (``numpy.load(path)["components_"]``) and people the header.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np

from ebcd import estimators, peers
from ebcd.io._values import Encoder, Unsaveable, decode

_FORMAT = "ebcd model"
_VERSION = 1
_HEADER = "header.json"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same model gives the same file
_CLASSES: dict[str, type[Any]] = {
    name: getattr(module, name) for module in (estimators, peers) for name in module.__all__
}


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file, which `load` reads without executing code.

    Parameters
    ----------
    estimator : EBCD, PenalizedPCA, PenalizedPCACV or one of ebcd.peers
        With its parameters and all that it learnt.
    path : str or path
        Where to write, used as it is: no suffix is added (".npz" is a good one). A file that
        exists is replaced, when the new one is complete.

    Raises
    ------
    TypeError
        If a parameter cannot be written, such as a penalty of your own.

    Notes
    -----
    The file is a zip archive of plain arrays in the format of NumPy and a text, ``header.json``.
    ``numpy.load(path)["components_"]`` and programs in other languages read it.

    See Also
    --------
    load : Reads the file.

    Examples
    --------
    >>> import tempfile
    >>> import ebcd
    >>> model = ebcd.EBCD(2).fit(ebcd.datasets.load_us_employment().data)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ebcd.save(model, f"{folder}/employment.npz")
    ...     again = ebcd.load(f"{folder}/employment.npz")
    >>> (again.components_ == model.components_).all()
    np.True_
    """
    name = type(estimator).__name__
    if _CLASSES.get(name) is not type(estimator):
        raise TypeError(
            f"save takes one of {', '.join(_CLASSES)}, got {name}; save the step of a pipeline or "
            "the best_estimator_ of a search, or use joblib.dump"
        )
    encoder = Encoder()
    header = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "ebcd_version": _own_version(),
        "class": name,
        "parameters": _encoded(encoder, estimator.get_params(deep=False), "parameter"),
        "fitted": _encoded(encoder, _fitted(estimator), "attribute"),
    }
    with _replaced(path) as handle, zipfile.ZipFile(handle, "w") as archive:
        with _member(archive, _HEADER) as member:
            member.write(json.dumps(header, indent=1, allow_nan=False).encode())
        for key, array in encoder.arrays.items():
            with _member(archive, f"{key}.npy") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that `save` wrote.

    Nothing in the file is executed, whoever made it: it is text and numbers, and only the
    estimators, priors and penalties of this package come out of it.

    Parameters
    ----------
    path : str or path
        The file, used as it is: no suffix is added.

    Returns
    -------
    object
        The estimator, with equal parameters and results.

    Raises
    ------
    ValueError
        If the file is damaged, is not a model, or was written by a newer version.

    See Also
    --------
    save : Writes the file.

    Examples
    --------
    >>> import tempfile
    >>> import ebcd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ebcd.save(ebcd.EBCD(3, prior="normal"), f"{folder}/model.npz")
    ...     ebcd.load(f"{folder}/model.npz")
    EBCD(n_components=3, prior='normal')
    """
    path = Path(path)
    with path.open("rb") as handle:
        header, arrays = _read(handle, path)
    _check_header(header, path)
    try:
        made = _CLASSES[header["class"]]
        estimator = made(**{k: decode(v, arrays) for k, v in header["parameters"].items()})
        lazy = _lazy(made)
        for name, value in header["fitted"].items():
            if (hasattr(made, name) and name not in lazy) or not name.isidentifier():
                raise ValueError(f"{name} cannot be an attribute")
            setattr(estimator, name, decode(value, arrays))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}, written by ebcd {header.get('ebcd_version')}, is damaged or cannot be read "
            f"by ebcd {_own_version()}: {_first_line(error)}"
        ) from error
    return estimator


def _read(handle: IO[bytes], path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Read the header and all arrays."""
    try:
        with zipfile.ZipFile(handle) as archive:
            header = json.loads(archive.read(_HEADER)) if _HEADER in archive.namelist() else None
        handle.seek(0)
        with np.load(handle, allow_pickle=False) as members:
            names = members.files if header else []
            return header, {name: members[name] for name in names if name != _HEADER}
    except (zipfile.BadZipFile, EOFError, RecursionError, ValueError) as error:
        raise ValueError(
            f"{path} is not a model, or is damaged or incomplete ({_first_line(error)}); write it "
            "again with ebcd.save"
        ) from error


def _check_header(header: Any, path: Path) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a model: ebcd.save did not write it")
    version = header.get("format_version")
    if not isinstance(version, int) or version > _VERSION:
        raise ValueError(
            f"{path} was written by ebcd {header.get('ebcd_version')} in format {version}; ebcd "
            f"{_own_version()} reads formats up to {_VERSION}: pip install --upgrade ebcd"
        )
    if header.get("class") not in _CLASSES:
        raise ValueError(
            f"{path} holds a {header.get('class')}, which is none of {', '.join(_CLASSES)}"
        )


def _encoded(encoder: Encoder, values: dict[str, Any], what: str) -> dict[str, Any]:
    prefix = "parameters/" if what == "parameter" else ""
    try:
        return {key: encoder.encode(value, prefix + key) for key, value in values.items()}
    except Unsaveable as error:
        name = error.name.removeprefix(prefix)
        raise TypeError(
            f"the {what} {name.split('/')[0]} cannot be saved: it holds {_what_is(error.value)}. "
            f"{_remedy(name.split('/')[0], what)}"
        ) from None


def _what_is(value: Any) -> str:
    made = type(value)
    return f"a {made.__name__} of {made.__module__}"


def _remedy(name: str, what: str) -> str:
    if what == "attribute":
        return f"Delete it before: del model.{name}"
    advice = {
        "random_state": "a whole number or None",
        "penalty": "a penalty of ebcd.penalties, or its name",
        "cv": "a number, or a list of pairs (train, test) of arrays",
        "start": "a name or a NumPy array",
    }
    allowed = advice.get(name, "a name, numbers, a NumPy array, or a family or prior of ebcd")
    return (
        f"What a file can hold is {allowed}. The parameter is no longer needed once the model is "
        f"fitted: model.set_params({name}=...) before saving changes no result"
    )


def _lazy(kind: type[Any]) -> list[str]:
    """Names of results that are computed when they are first looked at."""
    return [name for name in dir(kind) if isinstance(getattr(kind, name), cached_property)]


def _fitted(estimator: Any) -> dict[str, Any]:
    parameters = estimator.get_params(deep=False)
    for name in _lazy(type(estimator)):
        getattr(estimator, name, None)  # computed when it is looked at
    return {key: value for key, value in vars(estimator).items() if key not in parameters}


@contextmanager
def _replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` once it is complete."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file in it")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} does not exist; make it first")
    part = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        with part.open("xb") as handle:
            yield handle
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    return archive.open(zipfile.ZipInfo(name, _LONG_AGO), "w", force_zip64=True)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _own_version() -> str:
    return str(sys.modules["ebcd"].__version__)  # the package lies above this layer
