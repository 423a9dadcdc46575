"""Save fitted estimators to a file and load them again."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

from ebcd import _store, estimators, peers
from ebcd._version import __version__
from ebcd.io._objects import describe, restore

_FORMAT = "ebcd model"
_VERSION = 2  # format 1 wrote all dictionaries as lists of keys and items; it is still read
_CLASSES: dict[str, type[Any]] = {
    name: getattr(module, name) for module in (estimators, peers) for name in module.__all__
}


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file, which `load` reads without executing code.

    Parameters
    ----------
    estimator : EBCD, PenalizedPCA, PenalizedPCACV or one of ebcd.peers
        With its parameters and everything it has learned.
    path : str or path
        Where to write, used as it is: no suffix is added (".npz" is a good one). An existing file
        is replaced once the new one is complete.

    Raises
    ------
    TypeError
        If a parameter cannot be written, such as a penalty class of your own.

    Notes
    -----
    The file is a zip archive of arrays in NumPy's format and a text, ``header.json``, so that
    ``numpy.load(path)["components_"]`` and programs in other languages can read it.

    See Also
    --------
    load : Read the file.

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
    tree = {
        "format": _FORMAT,
        "format_version": _VERSION,
        "ebcd_version": __version__,
        "class": name,
        "parameters": estimator.get_params(deep=False),
        "fitted": _fitted(estimator),
    }
    try:
        _store.write(path, tree, default=describe, root="fitted")
    except _store.NotStorableError as error:
        raise TypeError(_not_saved(error.path[0], error.path[1], type(error.value))) from None


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that `save` wrote.

    Nothing in the file is executed, whoever made it: it holds text and numbers, and only
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
    save : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> import ebcd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ebcd.save(ebcd.EBCD(3, prior="normal"), f"{folder}/model.npz")
    ...     ebcd.load(f"{folder}/model.npz")
    EBCD(n_components=3, prior='normal')
    """
    try:
        header = _store.read_header(path)
    except ValueError as error:
        raise ValueError(f"{error}, or is not a model; write it again with ebcd.save") from error
    _check_header(header, path)
    try:
        return _estimator(_store.read(path, object_hook=restore))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}, written by ebcd {header.get('ebcd_version')}, is damaged or cannot be read "
            f"by ebcd {__version__}: {next(iter(str(error).splitlines()), type(error).__name__)}"
        ) from error


def _check_header(header: Any, path: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a model: ebcd.save did not write it")
    version = header.get("format_version")
    if not isinstance(version, int) or version > _VERSION:
        raise ValueError(
            f"{path} was written by ebcd {header.get('ebcd_version')} in format {version}; ebcd "
            f"{__version__} reads formats up to {_VERSION}: pip install --upgrade ebcd"
        )
    if header.get("class") not in _CLASSES:
        raise ValueError(
            f"{path} holds a {header.get('class')}, which is none of {', '.join(_CLASSES)}"
        )


def _estimator(tree: dict[str, Any]) -> Any:
    made = _CLASSES[tree["class"]]
    estimator = made(**tree["parameters"])
    lazy = _lazy(made)
    for name, value in tree["fitted"].items():
        if (hasattr(made, name) and name not in lazy) or not name.isidentifier():
            raise ValueError(f"{name} cannot be an attribute")
        setattr(estimator, name, value)
    return estimator


def _not_saved(branch: str, name: str, kind: type[Any]) -> str:
    """Return a message that says what cannot be saved and what to do about it."""
    what = "parameter" if branch == "parameters" else "attribute"
    message = (
        f"the {what} {name} cannot be saved: it holds a {kind.__name__} of {kind.__module__}. "
    )
    if what == "attribute":
        return message + f"Delete it before saving: del model.{name}"
    advice = {
        "random_state": "a whole number or None",
        "penalty": "a penalty of ebcd.penalties, or its name",
        "cv": "a number, or a list of pairs (train, test) of arrays",
        "start": "a name or a NumPy array",
    }
    allowed = advice.get(name, "a name, numbers, a NumPy array, or a family or prior of ebcd")
    return message + (
        f"A file can hold {allowed}. A fitted model no longer needs the parameter, so that "
        f"model.set_params({name}=...) before saving changes no result"
    )


def _lazy(kind: type[Any]) -> list[str]:
    """Return the names of results that are computed on first access."""
    return [name for name in dir(kind) if isinstance(getattr(kind, name), cached_property)]


def _fitted(estimator: Any) -> dict[str, Any]:
    for name in _lazy(type(estimator)):
        getattr(estimator, name, None)
    parameters = estimator.get_params(deep=False)
    return {key: value for key, value in vars(estimator).items() if key not in parameters}
