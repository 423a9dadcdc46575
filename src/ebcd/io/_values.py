"""Values of estimators as JSON and arrays, and back; nothing but what is listed here.

Plain numbers, strings, None and lists are themselves. Everything else is a JSON object whose
"kind" says what it is; arrays are kept apart, under a name that says where they belong.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from ebcd.peers._ebmf_fit import Factor
from ebcd.peers._ebmf_scores import Fitted
from ebcd.peers._ebpca_amp import JointPrior
from ebcd.penalties import L0, L1, MCP, SCAD, AbstractPenalty, ElasticNet, NonNegative, NoPenalty
from ebcd.priors import PRIORS, AbstractPriorFamily, FittedPrior, make_family, make_prior

Arrays = Mapping[str, np.ndarray]

_PENALTIES: dict[str, type[AbstractPenalty]] = {
    made.name: made for made in (NoPenalty, L1, L0, ElasticNet, SCAD, MCP, NonNegative)
}
_RECORDS: dict[str, type[Any]] = {made.__name__: made for made in (Factor, Fitted, JointPrior)}
_SPLITTERS = ("KFold", "LeaveOneOut", "ShuffleSplit", "TimeSeriesSplit")


class Encoder:
    """Turn values into JSON, and collect their arrays in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

    def encode(self, value: Any, name: str) -> Any:
        """Give what JSON holds of a value; `name` says where the value belongs."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"kind": "float", "value": str(value)}
        if type(value) is list:
            return self._items(value, name)
        tagged = self._tagged(value, name)
        if tagged is None:
            raise Unsaveable(name, value)
        return tagged

    def _tagged(self, value: Any, name: str) -> dict[str, Any] | None:
        if isinstance(value, np.generic) and value.dtype.kind != "O":
            return self._array("scalar", np.asarray(value), name)
        if type(value) in (np.ndarray, np.memmap):
            if value.dtype.hasobject:
                items = self._items(value.ravel().tolist(), name)
                return {"kind": "objects", "shape": list(value.shape), "items": items}
            return self._array("array", np.asarray(value), name)
        if type(value) is tuple:
            return {"kind": "tuple", "items": self._items(value, name)}
        if type(value) is range:
            return {"kind": "range", "items": [value.start, value.stop, value.step]}
        if type(value) is dict and all(type(key) is str for key in value):
            items = self._items(value.values(), name)
            return {"kind": "dict", "keys": list(value), "items": items}
        if isinstance(value, PurePath):
            return {"kind": "path", "value": str(value)}
        return self._object(value, name)

    def _object(self, value: Any, name: str) -> dict[str, Any] | None:
        made = type(value)
        if made.__module__.startswith("ebcd.priors.") and isinstance(value, FittedPrior):
            return self._fields("prior", value.family, value.parameters, name)
        if isinstance(value, AbstractPriorFamily) and PRIORS.get(value.name) is made:
            return self._fields("family", value.name, _options(value), name)
        if isinstance(value, type) and issubclass(value, AbstractPriorFamily):
            known = PRIORS.get(value.name) is value
            return {"kind": "family class", "type": value.name} if known else None
        if isinstance(value, AbstractPenalty) and _PENALTIES.get(value.name) is made:
            return self._fields("penalty", value.name, _options(value), name)
        if _RECORDS.get(made.__name__) is made:
            return self._fields("record", made.__name__, _options(value), name)
        if made.__name__ in _SPLITTERS and made.__module__.startswith("sklearn."):
            names = inspect.signature(made).parameters
            options = {key: item for key, item in vars(value).items() if key in names}
            return self._fields("splitter", made.__name__, options, name)
        return None

    def _array(self, kind: str, array: np.ndarray, name: str) -> dict[str, Any]:
        self.arrays[name] = array
        return {"kind": kind, "name": name}

    def _items(self, values: Any, name: str) -> list[Any]:
        return [self.encode(value, f"{name}/{i}") for i, value in enumerate(values)]

    def _fields(
        self, kind: str, type_name: str, values: Mapping[str, Any], name: str
    ) -> dict[str, Any]:
        fields = {key: self.encode(value, f"{name}/{key}") for key, value in values.items()}
        return {"kind": kind, "type": type_name, "fields": fields}


class Unsaveable(TypeError):
    """A value of a kind that no file holds."""

    def __init__(self, name: str, value: Any) -> None:
        super().__init__(name, value)
        self.name, self.value = name, value


def decode(value: Any, arrays: Arrays) -> Any:
    """Give the value back that was encoded; makes nothing but the kinds of this module."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if isinstance(value, dict):
        return _DECODERS[value["kind"]](value, arrays)
    return value


def _decode_objects(value: dict[str, Any], arrays: Arrays) -> np.ndarray:
    items = decode(value["items"], arrays)
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # item by item: an item may be a sequence
        array[i] = item
    return array.reshape(value["shape"])


def _decode_splitter(value: dict[str, Any], arrays: Arrays) -> Any:
    from sklearn import model_selection  # heavy, and rarely needed

    if value["type"] not in _SPLITTERS:
        raise KeyError(value["type"])
    return getattr(model_selection, value["type"])(**_fields_of(value, arrays))


def _fields_of(value: dict[str, Any], arrays: Arrays) -> dict[str, Any]:
    return {key: decode(item, arrays) for key, item in value["fields"].items()}


_DECODERS: dict[str, Callable[[dict[str, Any], Arrays], Any]] = {
    "float": lambda value, _: float(value["value"]),
    "scalar": lambda value, arrays: arrays[value["name"]][()],
    "array": lambda value, arrays: arrays[value["name"]],
    "objects": _decode_objects,
    "tuple": lambda value, arrays: tuple(decode(value["items"], arrays)),
    "range": lambda value, _: range(*value["items"]),
    "dict": lambda value, arrays: dict(
        zip(value["keys"], decode(value["items"], arrays), strict=True)
    ),
    "path": lambda value, _: Path(value["value"]),
    "prior": lambda value, arrays: make_prior(value["type"], **_fields_of(value, arrays)),
    "family": lambda value, arrays: make_family(value["type"], **_fields_of(value, arrays)),
    "family class": lambda value, _: PRIORS[value["type"]],
    "penalty": lambda value, arrays: _PENALTIES[value["type"]](**_fields_of(value, arrays)),
    "record": lambda value, arrays: _RECORDS[value["type"]](**_fields_of(value, arrays)),
    "splitter": _decode_splitter,
}


def _options(value: Any) -> dict[str, Any]:
    """Fields of a dataclass or named tuple, not copied."""
    named = getattr(value, "_fields", None)
    names = named or [field.name for field in dataclasses.fields(value)]
    return {name: getattr(value, name) for name in names}
