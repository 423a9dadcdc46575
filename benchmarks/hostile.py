"""Hostile calls: every public parameter with values that it cannot be, and data of every kind.

A call must end in a clear error that names the parameter, or in finite results; it must not change
its input, and must not warn of anything that is not documented. ``python -m benchmarks.hostile``
makes all calls, ``--share 0.1`` a tenth of them; `tests/test_hostile.py` makes some with every run
of the tests.
"""

from __future__ import annotations

import argparse
import copy
import datetime as dt
import decimal
import fractions
import inspect
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import ebcd
from ebcd import datasets, metrics, peers, penalties, priors
from ebcd.penalties import AbstractPenalty

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 6)) + 2 * RNG.standard_normal((24, 1)) * (np.arange(6) < 3)
S = X.T @ X / len(X)
SECONDS = 60  # after which a call counts as one that hangs
# Parameters that are data: a message need not call them by their name.
DATA = {"X", "x", "S", "A", "B", "V", "L", "Sigma", "chunk", "y", "source", "values", "v", "s"}
DOCUMENTED = ("UserWarning", "ConvergenceWarning", "FutureWarning")  # that a call may give


class Unprintable:
    """An object without a representation."""

    def __repr__(self) -> str:
        raise RuntimeError("no representation")


class Liar:
    """An object that claims to be an array and is none."""

    shape = (24, 6)
    dtype = np.dtype(float)
    ndim = 2


class Raises:
    """An object that cannot become an array."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("no array")


def _cyclic() -> list[Any]:
    inner: list[Any] = []
    inner.append(inner)
    return inner


# Made anew for every call, so that a change of one is seen and does no harm.
VALUES: dict[str, Callable[[], Any]] = {
    **{repr(value): (lambda value=value: value) for value in (None, True, False, 0, 1, 2, -1)},
    **{repr(v): (lambda v=v: v) for v in (10**18, 2**31, 10**400, -(10**400), 3.7, 0.5, 1.0, -0.5)},
    **{repr(v): (lambda v=v: v) for v in (0.0, -0.0, 1e308, 1e-308, 5e-324, 1e155, -1e308)},
    **{repr(v): (lambda v=v: v) for v in (np.nan, np.inf, -np.inf, 1j, "", "auto", "cv", "no")},
    **{repr(v): (lambda v=v: v) for v in ("\x00", "\ud800", "a" * 10_000, b"auto", (), {}, set())},
    "np.float32(0.5)": lambda: np.float32(0.5),
    "np.float16 inf": lambda: np.float16(np.inf),
    "np.int8(2)": lambda: np.int8(2),
    "np.uint64 max": lambda: np.uint64(2**64 - 1),
    "np.bool": lambda: np.bool_(True),
    "np.str": lambda: np.str_("auto"),
    "np.datetime64": lambda: np.datetime64("2026-01-01"),
    "np.longdouble": lambda: np.longdouble(0.5),
    "Fraction": lambda: fractions.Fraction(1, 2),
    "Decimal": lambda: decimal.Decimal("0.5"),
    "date": lambda: dt.date(2026, 1, 1),
    "Path": lambda: pathlib.Path("no such file"),
    "object": object,
    "class": lambda: dict,
    "function": lambda: len,
    "lambda": lambda: lambda *args, **options: None,
    "module": lambda: json,
    "generator": lambda: (i for i in range(3)),
    "iterator": lambda: iter([]),
    "range": lambda: range(3),
    "Unprintable": Unprintable,
    "Liar": Liar,
    "Raises": Raises,
    "empty list": list,
    "[1.0, 0.5]": lambda: [1.0, 0.5],
    "[0.5] * 6": lambda: [0.5] * 6,
    "[nan]": lambda: [np.nan],
    "['a', 'b']": lambda: ["a", "b"],
    "six names": lambda: list("abcdef"),
    "[None]": lambda: [None],
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "cyclic": _cyclic,
    "empty array": lambda: np.empty(0),
    "array of two": lambda: np.ones(2),
    "array of six": lambda: np.linspace(-1, 1, 6),
    "with nan": lambda: np.array([1.0, np.nan]),
    "with inf": lambda: np.array([1.0, np.inf]),
    "number in an array": lambda: np.array(1.0),
    "objects": lambda: np.array([object(), None], dtype=object),
    "texts": lambda: np.array(["a", "b"]),
    "records": lambda: np.zeros(3, dtype=[("a", float), ("b", int)]),
    "masked": lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
    "dates": lambda: np.array(["2026-01-01"], dtype="M8[D]"),
    "huge numbers": lambda: np.full((6, 2), 1e308),
    "tiny numbers": lambda: np.full((6, 2), 5e-324),
    "loadings": lambda: np.arange(12.0).reshape(6, 2),
    "zero loadings": lambda: np.zeros((6, 2)),
    "one column": lambda: np.ones((6, 1)),
    "matrix with inf": lambda: np.full((6, 2), np.inf),
    "no rows": lambda: np.empty((0, 6)),
    "no columns": lambda: np.empty((24, 0)),
    "cube": lambda: np.ones((2, 2, 2)),
    "sparse": lambda: sparse.csr_array(np.eye(6)),
    "coo": lambda: sparse.coo_array(np.eye(6)),
    "generator of NumPy": lambda: np.random.default_rng(1),
    "RandomState": lambda: np.random.RandomState(1),
    "SeedSequence": lambda: np.random.SeedSequence(1),
    "PCG64": lambda: np.random.PCG64(1),
    "family": priors.PointNormal,
    "family class": lambda: priors.PointNormal,
    "fitted prior": lambda: priors.make_prior("normal", scale=1.0),
    "far prior": lambda: priors.make_prior("point_mass", mode=1e100),
    "families": lambda: [priors.PointNormal(), "normal"],
    "penalty": penalties.L1,
    "estimator": lambda: ebcd.EBCD(2),
    "Gram": ebcd.Gram,
}


class Call(NamedTuple):
    """Something public that can be called: its name, a function, and arguments that are right."""

    name: str
    function: Callable[..., Any]
    right: dict[str, Any]
    parameters: list[str]


def _names(function: Any) -> list[str]:
    found = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [p.name for p in found if p.kind not in kinds and not p.name.startswith("_")]


def _methods(thing: Any, name: str, right: dict[str, dict[str, Any]]) -> Iterator[Call]:
    for method, arguments in right.items():
        function = getattr(thing, method)
        yield Call(f"{name}.{method}", function, arguments, _names(function))


def calls() -> list[Call]:
    """Return every public class, function and method that takes parameters."""
    found: list[Call] = []
    estimators = [ebcd.EBCD, ebcd.PenalizedPCA, ebcd.PenalizedPCACV]
    estimators += [getattr(peers, name) for name in peers.__all__]
    for made in estimators:
        right = {"n_components": 2}
        if made.__name__ == "USLPCA":
            right["n_nonzero"] = 6
        found.append(
            Call(made.__name__, lambda made=made, **o: made(**o).fit(X), right, _names(made))
        )
    for name in ("relaxed", "integrated"):
        fit = lambda name=name, **o: ebcd.EBCD(**{**o, "scores": name}).fit(X)  # noqa: E731
        names = [n for n in _names(ebcd.EBCD) if n != "scores"]
        found.append(Call(f"EBCD {name}", fit, {"n_components": 2}, names))
    model = ebcd.EBCD(2).fit(X)
    methods: dict[str, dict[str, Any]] = {
        "fit": {"X": X},
        "fit_covariance": {"S": S, "n_samples": 24},
        "fit_transform": {"X": X},
        "transform": {"X": X},
        "inverse_transform": {"X": X[:, :2]},
        "score": {"X": X},
        "score_samples": {"X": X},
        "bootstrap": {"n_boot": 2},
        "credible_intervals": {},
        "loadings_frame": {},
        "sample_components": {},
        "sparsify": {},
        "summary": {},
        "top_features": {},
    }
    for method, right in methods.items():

        def fresh(_method: str = method, **options: Any) -> Any:
            return getattr(copy.deepcopy(model), _method)(**options)

        found.append(Call(f"EBCD.{method}", fresh, right, _names(getattr(model, method))))
    x = X[:, 0]
    found.append(Call("ebnm", ebcd.ebnm, {"x": x}, _names(ebcd.ebnm)))
    result = ebcd.ebnm(x)
    found += _methods(result, "EBNMResult", {"intervals": {}, "sample": {}})
    prior = ["log_likelihood", "posterior", "shrink", "spike_probability", "sample_posterior"]
    found += _methods(result.prior, "FittedPrior", {name: {"x": x} for name in prior})
    others = {"penalty": {"values": x}, "rescaled": {"factor": 2.0}, "shifted": {"offset": 1.0}}
    found += _methods(result.prior, "FittedPrior", {**others, "sample": {"n": 3}})
    for name, family in priors.PRIORS.items():
        if _names(family) and name != "gmrf":
            function = lambda _made=family, **o: ebcd.ebnm(x, 1.0, _made(**o))  # noqa: E731
            found.append(Call(family.__name__, function, {}, _names(family)))
    for name, right in _PRIORS.items():
        function = lambda name=name, **o: priors.make_prior(name, **o).posterior(x)  # noqa: E731
        found.append(Call(f"make_prior {name}", function, right, list(right)))
    for made in penalties.PENALTIES.values():
        if _names(made):
            used = lambda made=made, **o: _used(made(**o))  # noqa: E731
            found.append(Call(made.__name__, used, {}, _names(made)))
    for name in metrics.__all__:
        function = getattr(metrics, name)
        right = dict.fromkeys(_names(function), X[:, :2])
        if name == "bures_wasserstein":
            right = {"A": S, "B": S}
        if name == "covariance_distance":
            right["Sigma"] = S
            right["L"] = X[:6, :2]
        found.append(Call(name, function, right, _names(function)))
    simulate = datasets.make_simulation
    found.append(Call("make_simulation", simulate, {}, _names(simulate)))
    chunks = lambda **o: ebcd.EBCD(1).fit(ebcd.Chunks(**o))  # noqa: E731
    found.append(Call("Chunks", chunks, {"source": [X[:12], X[12:]]}, _names(ebcd.Chunks)))
    found.append(Call("Gram.update", lambda **o: ebcd.Gram().update(**o), {"chunk": X}, ["chunk"]))
    merged = lambda **o: ebcd.Gram().update(X).merge(**o)  # noqa: E731
    found.append(Call("Gram.merge", merged, {"other": ebcd.Gram().update(X)}, ["other"]))
    compare = lambda **o: ebcd.compare_priors(**o).table  # noqa: E731
    right = {"X": X, "priors": ["normal", "point_laplace"], "n_components": 1}
    found.append(Call("compare_priors", compare, right, _names(ebcd.compare_priors)))
    return found


_PRIORS: dict[str, dict[str, Any]] = {
    "normal": {"scale": 1.0},
    "point_normal": {"weight": 0.5, "scale": 1.0},
    "point_laplace": {"weight": 0.5, "scale": 1.0},
    "point_exponential": {"weight": 0.5, "scale": 1.0},
    "point_mass": {"mode": 0.5},
    "npmle": {"weights": [0.5, 0.5], "locations": [0.0, 1.0]},
    "normal_scale_mixture": {"weights": [0.5, 0.5], "scales": [0.0, 1.0]},
}


def _used(penalty: AbstractPenalty) -> Any:
    return penalty.value(np.abs(X[:, 0])), penalty.prox(X[:, 0], 0.5)


def _numbers(value: Any, depth: int = 0) -> Iterator[np.ndarray]:
    """Yield all numbers in a result."""
    if depth > 4:
        return
    if isinstance(value, float | np.floating | np.ndarray):
        array = np.asarray(value)
        if array.dtype.kind == "f":
            yield array
    elif isinstance(value, dict):
        for item in value.values():
            yield from _numbers(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _numbers(item, depth + 1)
    elif hasattr(value, "components_"):
        for name in ("components_", "noise_variance_", "elbo_", "mean_", "explained_variance_"):
            yield from _numbers(getattr(value, name, None), depth + 1)
    elif isinstance(value, priors.Posterior | ebcd.EBNMResult):
        for name in ("mean", "sd", "lfsr", "log_likelihood"):
            yield from _numbers(getattr(value, name, None), depth + 1)


def _picture(value: Any) -> Any:
    """Return what is compared before and after a call."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.tobytes()
    if sparse.issparse(value):
        return value.toarray().tobytes()
    if isinstance(value, list) and all(type(item) in (float, str, int) for item in value):
        return repr(value)
    return None


class Hung(BaseException):
    """A call that takes too long."""


def _alarm(number: int, frame: Any) -> None:
    raise Hung


def attempt(call: Call, parameter: str, value: Any) -> str:
    """Make a call with one value in place of the right one; return what is wrong, if anything."""
    arguments = {**call.right, parameter: value}
    before = {name: _picture(given) for name, given in arguments.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call.function(**arguments)
            wrong = _odd_result(result)
        except (ValueError, TypeError, ImportError, AttributeError) as error:
            wrong = _odd_error(error, [parameter, *call.right])
        except MemoryError as error:
            wrong = "" if "allocate" in str(error) else "MemoryError without a size"
        except Hung:
            wrong = f"takes more than {SECONDS} s"
        except BaseException as error:  # noqa: BLE001 - whatever it is, it should not be
            own = str(error) in ("no array", "no representation")  # of the object that was given
            wrong = "" if own else f"{type(error).__name__}: {str(error)[:100]}"
    odd = [w for w in caught if w.category.__name__ not in DOCUMENTED]
    if odd and not wrong and "checkpoint" not in str(odd[0].message):
        place = f"{pathlib.Path(odd[0].filename).name}:{odd[0].lineno}"
        wrong = f"warns {odd[0].category.__name__}: {str(odd[0].message)[:60]} ({place})"
    if {name: _picture(given) for name, given in arguments.items()} != before:
        wrong = "changes its input"
    return wrong


def _odd_result(result: Any) -> str:
    for array in _numbers(result):
        if not np.isfinite(array).all():
            return f"result is not finite ({array.shape})"
    return ""


def _odd_error(error: Exception, parameters: list[str]) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001
        return "message cannot be printed"
    if isinstance(error, AttributeError):
        return f"AttributeError: {text[:100]}"
    if "check the units" in text or "at most 1, the smaller of 1 samples" in text:
        return ""
    if parameters[0] in DATA or any(name.rstrip("s") in text for name in parameters):
        return ""
    return f"{type(error).__name__} does not name the parameter: {text[:100]}"


def sample(share: float, seed: int) -> Iterator[tuple[Call, str, str]]:
    """Choose some of all combinations of a call, a parameter and a value."""
    rng = random.Random(seed)
    for call in calls():
        for parameter in call.parameters:
            for kind in VALUES:
                if rng.random() < share:
                    yield call, parameter, kind


def run(share: float, seed: int, verbose: bool = False) -> tuple[int, list[str]]:
    """Make hostile calls; return how many, and what was wrong with which."""
    count, wrong = 0, []
    here = pathlib.Path.cwd()
    previous = signal.signal(signal.SIGALRM, _alarm)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # for checkpoints
        silent, sys.stdout = sys.stdout, pathlib.Path(os.devnull).open("w")  # noqa: SIM115 - verbose=1
        try:
            for call, parameter, kind in sample(share, seed):
                count += 1
                began = time.monotonic()
                signal.alarm(SECONDS)
                found = attempt(call, parameter, VALUES[kind]())
                signal.alarm(0)
                if verbose and time.monotonic() - began > 5:
                    print(f"slow: {call.name}({parameter}={kind})", file=sys.stderr)
                if found:
                    wrong.append(f"{call.name}({parameter}={kind[:40]}): {found}")
                    if verbose:
                        print(wrong[-1], file=sys.stderr, flush=True)
        finally:
            sys.stdout.close()
            sys.stdout = silent
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
            os.chdir(here)
    return count, wrong


def main() -> None:
    """Make the calls and say what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    count, wrong = run(options.share, options.seed, verbose=True)
    print(f"{count:,} hostile calls with {len(VALUES)} values: {len(wrong)} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
