"""Save fitted estimators to a file, and load them without executing anything in it."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

from ebcd import _store, estimators, peers
from ebcd._version import __version__
from ebcd.peers._ebmf_search import Factor, Fitted
from ebcd.peers._ebpca_amp import JointPrior
from ebcd.penalties import PENALTIES, AbstractPenalty
from ebcd.priors import PRIORS, AbstractPriorFamily, FittedPrior, make_family, make_prior

# Format 1 wrote all dictionaries as lists of keys and items; it is still read.
_FORMAT: dict[str, Any] = {"format": "ebcd model", "format_version": 2}
_CLASSES: dict[str, type[Any]] = {
    name: getattr(module, name) for module in (estimators, peers) for name in module.__all__
}
_RECORDS: dict[str, type[Any]] = {made.__name__: made for made in (Factor, Fitted, JointPrior)}
_SPLITTERS = ("KFold", "LeaveOneOut", "ShuffleSplit", "TimeSeriesSplit")  # of scikit-learn


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write an estimator to a file that `load` reads without executing code.

    Parameters
    ----------
    estimator : EBCD, PenalizedPCA, PenalizedPCACV or one of ebcd.peers
        The estimator; its parameters and fitted attributes are stored.
    path : str or path
        File to write; no suffix is added (".npz" is a good choice). An existing file is replaced
        once the new one is complete.

    Raises
    ------
    TypeError
        If a parameter cannot be stored, such as a penalty class of your own.

    Notes
    -----
    The file is a zip archive of arrays in NumPy's format and a text file, ``header.json``, so that
    ``numpy.load(path)["components_"]`` and programs in other languages can read it.

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
        **_FORMAT,
        "ebcd_version": __version__,
        "class": name,
        "parameters": estimator.get_params(deep=False),
        "fitted": _fitted(estimator),
    }
    try:
        _store.write(path, tree, default=_describe, root="fitted")
    except _store.NotStorableError as error:
        raise TypeError(_not_saved(error.path[0], error.path[1], type(error.value))) from None


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator written by `save`.

    Nothing in the file is executed, whoever wrote it: it holds text and numbers, and only
    estimators, priors and penalties of this package are created from it.

    Parameters
    ----------
    path : str or path
        File to read; no suffix is added.

    Returns
    -------
    object
        The estimator, with the same parameters and results.

    Raises
    ------
    ValueError
        If the file is damaged, is not a model, or was written by a newer version.

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
        return _estimator(_store.read(path, object_hook=_restore))
    except ValueError as error:
        raise ValueError(
            f"{path}, written by ebcd {header.get('ebcd_version')}, is damaged or cannot be read "
            f"by ebcd {__version__}: {next(iter(str(error).splitlines()), type(error).__name__)}"
        ) from error


def _check_header(header: Any, path: Any) -> None:
    if not isinstance(header, dict) or header.get("format") != _FORMAT["format"]:
        raise ValueError(f"{path} is not a model: ebcd.save did not write it")
    version, newest = header.get("format_version"), _FORMAT["format_version"]
    if not isinstance(version, int) or version > newest:
        raise ValueError(
            f"{path} was written by ebcd {header.get('ebcd_version')} in format {version}; ebcd "
            f"{__version__} reads formats up to {newest}: pip install --upgrade ebcd"
        )
    if header.get("class") not in list(_CLASSES):  # it may be anything
        raise ValueError(
            f"{path} holds a {header.get('class')}, which is not one of {', '.join(_CLASSES)}"
        )


def _estimator(tree: dict[str, Any]) -> Any:
    made = _CLASSES[tree["class"]]
    match tree:
        case {"parameters": dict(parameters), "fitted": dict(fitted)}:
            estimator = _called(made, **parameters)
        case _:
            raise ValueError("it has no parameters or no attributes")
    for name, value in fitted.items():
        if (hasattr(made, name) and name not in _lazy(made)) or not name.isidentifier():
            raise ValueError(f"{name} cannot be an attribute")
        setattr(estimator, name, value)
    return estimator


def _not_saved(branch: str, name: str, kind: type[Any]) -> str:
    """Say what cannot be saved and what to do about it."""
    reason = f"{name} cannot be saved: it holds a {kind.__name__} of {kind.__module__}."
    if branch != "parameters":
        return f"the attribute {reason} Delete it before saving: del model.{name}"
    advice = {
        "random_state": "an integer or None",
        "penalty": "a penalty of ebcd.penalties, or its name",
        "cv": "a number, or a list of pairs (train, test) of arrays",
        "start": "a name or a NumPy array",
    }
    allowed = advice.get(name, "a name, numbers, a NumPy array, or a family or prior of ebcd")
    return (
        f"the parameter {reason} A file can hold {allowed}. A fitted model no longer needs the "
        f"parameter, so model.set_params({name}=...) before saving does not change any result"
    )


def _lazy(kind: type[Any]) -> list[str]:
    """Return the names of results that are computed on first access."""
    return [name for name in dir(kind) if isinstance(getattr(kind, name), cached_property)]


def _fitted(estimator: Any) -> dict[str, Any]:
    for name in _lazy(type(estimator)):
        getattr(estimator, name, None)
    parameters = estimator.get_params(deep=False)
    return {key: value for key, value in vars(estimator).items() if key not in parameters}


def _describe(value: Any) -> dict[str, Any] | None:
    """Describe one of the objects that a file may hold; None for any other."""
    made = type(value)
    if made is range:
        return {"kind": "range", "items": [value.start, value.stop, value.step]}
    if isinstance(value, PurePath):
        return {"kind": "path", "value": str(value)}
    if isinstance(value, type):
        known = next((name for name, family in PRIORS.items() if family is value), None)
        return {"kind": "family class", "type": known} if known else None
    if isinstance(value, FittedPrior) and made.__module__.startswith("ebcd.priors."):
        return {"kind": "prior", "type": value.family, "fields": dict(value.parameters)}
    if isinstance(value, AbstractPriorFamily) and PRIORS.get(value.name) is made:
        return {"kind": "family", "type": value.name, "fields": _options(value)}
    if isinstance(value, AbstractPenalty) and PENALTIES.get(value.name) is made:
        return {"kind": "penalty", "type": value.name, "fields": _options(value)}
    if _RECORDS.get(made.__name__) is made:
        return {"kind": "record", "type": made.__name__, "fields": _options(value)}
    if made.__name__ in _SPLITTERS and made.__module__.startswith("sklearn."):
        names = inspect.signature(made).parameters
        options = {key: item for key, item in vars(value).items() if key in names}
        return {"kind": "splitter", "type": made.__name__, "fields": options}
    return None


def _called(make: Callable[..., Any], /, *name: str, **fields: Any) -> Any:
    """Make an object with what a file says; it may say anything."""
    try:
        return make(*name, **fields)
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _restore(described: dict[str, Any]) -> Any:
    """Make the object that was described; no other kind of object is ever made."""
    match described:
        case {"kind": "range", "items": [int(start), int(stop), int(step)]}:
            return range(start, stop, step)
        case {"kind": "path", "value": str(path)}:
            return Path(path)
        case {"kind": "family class", "type": str(name)} if name in PRIORS:
            return PRIORS[name]
        case {"kind": "prior", "type": str(name), "fields": dict(fields)}:
            return _called(make_prior, name, **fields)
        case {"kind": "family", "type": str(name), "fields": dict(fields)}:
            return _called(make_family, name, **fields)
        case {"kind": "penalty", "type": str(name), "fields": dict(fields)} if name in PENALTIES:
            return _called(PENALTIES[name], **fields)
        case {"kind": "record", "type": str(name), "fields": dict(fields)} if name in _RECORDS:
            return _called(_RECORDS[name], **fields)
        case {"kind": "splitter", "type": str(name), "fields": dict(fields)} if name in _SPLITTERS:
            from sklearn import model_selection  # heavy, and rarely needed

            return _called(getattr(model_selection, name), **fields)
    raise ValueError(f"unknown kind of object: {described['kind']} {described.get('type', '')}")


def _options(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, not copied."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
