"""Objects that a model file may hold, as dictionaries of their options; no other is ever made."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path, PurePath
from typing import Any

from ebcd.peers._ebmf_model import Factor
from ebcd.peers._ebmf_search import Fitted
from ebcd.peers._ebpca_amp import JointPrior
from ebcd.penalties import PENALTIES, AbstractPenalty
from ebcd.priors import PRIORS, AbstractPriorFamily, FittedPrior, make_family, make_prior

_RECORDS: dict[str, type[Any]] = {made.__name__: made for made in (Factor, Fitted, JointPrior)}
_SPLITTERS = ("KFold", "LeaveOneOut", "ShuffleSplit", "TimeSeriesSplit")  # of scikit-learn


def describe(value: Any) -> dict[str, Any] | None:
    """Return what `restore` needs to make an equal object, or None if it cannot."""
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


def restore(described: dict[str, Any]) -> Any:
    """Make the object that `describe` described."""
    name, fields = described.get("type", ""), described.get("fields", {})
    match described["kind"]:
        case "range":
            return range(*described["items"])
        case "path":
            return Path(described["value"])
        case "family class":
            return PRIORS[name]
        case "prior":
            return make_prior(name, **fields)
        case "family":
            return make_family(name, **fields)
        case "penalty":
            return PENALTIES[name](**fields)
        case "record":
            return _RECORDS[name](**fields)
        case "splitter" if name in _SPLITTERS:
            from sklearn import model_selection  # heavy, and rarely needed

            return getattr(model_selection, name)(**fields)
    raise ValueError(f"unknown kind of object: {described['kind']} {name}")


def _options(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass or named tuple, not copied."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(value._asdict())
