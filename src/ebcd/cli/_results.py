"""Fit a model, and write and read the files of results."""

from __future__ import annotations

import json
import math
import re
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import ebcd
from ebcd import _store
from ebcd._numerics import Array
from ebcd.cli._data import Prepared, order_in_time, remarks
from ebcd.cli._folder import recover
from ebcd.cli._progress import Display
from ebcd.data._inputs import from_covariance
from ebcd.data.files._columns import parse_number
from ebcd.data.files._table import Table
from ebcd.io import load, save
from ebcd.report import write_report
from ebcd.report._background import Background

if TYPE_CHECKING:
    import pandas as pd

# The same on every system; numbers have all their digits by default.
CSV: dict[str, Any] = {
    "lineterminator": "\n",
    "encoding": "utf-8",
    "errors": "backslashreplace",
    "na_rep": "nan",
}
_NOT_TEXT = re.compile("[\x7f-\x9f\ud800-\udfff]")  # not to be printed, or not in UTF-8
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # what a spreadsheet would run when it opens a file
_NOT_CENTRED = "means were not subtracted (--no-center)"


def fit_model(model: ebcd.EBCD, data: Prepared, shown: Display) -> tuple[list[str], float]:
    """Fit, and return the warnings and the seconds it took."""
    began = time.monotonic()
    shown.limit(model.max_time)
    model._display = shown
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            data.fit(model)
    finally:
        del model._display
        shown.limit(None)
    warned = dict.fromkeys(_to_type(" ".join(str(one.message).split())) for one in caught)
    return list(warned), time.monotonic() - began


def _to_type(advice: str) -> str:
    """Return advice with options of the command for the parameters of the model."""

    def option(found: re.Match[str]) -> str:
        name, value, alone = found.groups()
        flag = f"--{(name or alone).replace('_', '-')}".replace("--n-components", "-k")
        return f"{flag} {value}" if value else flag

    return re.sub(r'\b(\w+)="(\w+)"|\b(n_components|max_iter|max_time|tol)\b', option, advice)


def bootstrap_intervals(
    model: ebcd.EBCD, X: Any, n_boot: int, method: str, shown: Display
) -> Array:
    """Return 95% intervals of bootstrap fits, made in parts to show the progress."""
    shown.stage("bootstrap fits")
    rng = np.random.default_rng(model.random_state)
    parts: list[Any] = [
        model.bootstrap(X, n_boot=size, method=method, random_state=rng)
        for size in _in_parts(n_boot, 2, shown)
    ]
    components = np.concatenate([part.components for part in parts])
    return np.asarray(replace(parts[0], components=components).intervals())


def shares_found_again(model: ebcd.EBCD, data: Prepared, n_splits: int, shown: Display) -> Array:
    """Return how often components are found again in half of the rows."""
    shown.stage("fits to halves of the rows")
    rng, X, order = np.random.default_rng(model.random_state), data.rows, order_in_time(data.table)
    X = X if order is None else X[order]
    sizes = _in_parts(n_splits, 1, shown)
    found = sum(
        size * model.stability(X, size, method=data.halves, random_state=rng) for size in sizes
    )
    return np.asarray(found / n_splits)


def _in_parts(count: int, least: int, shown: Display) -> Iterator[int]:
    """Split work into parts of at least this size, and show the progress after each."""
    done = 0
    # as many parts as the root of the work, because every part has a cost of its own
    for numbers in np.array_split(range(count), min(max(count // least, 1), math.isqrt(count))):
        yield len(numbers)
        done += len(numbers)
        shown.part(done, count)


def fit_and_write(
    folder: Path,
    model: ebcd.EBCD,
    data: Prepared,
    shown: Display,
    about: dict[str, str],
    n_boot: int | None = None,
    method: str = "parametric",
    n_splits: int | None = None,
) -> dict[str, Any]:
    """Fit, write all files of results to an empty folder, and return the summary."""
    warned, seconds = fit_model(model, data, shown)
    for warning in warned:
        shown.note(f"warning: {warning}")
    warned = [*data.warnings, *warned]
    table = data.table
    ends = again = None
    if n_boot is not None:
        ends = bootstrap_intervals(model, data.rows, n_boot, method, shown)
    if n_splits is not None:
        again = shares_found_again(model, data, n_splits, shown)
    shown.stage("writing the results")
    background = _background(model, data)
    scores = None if data.n_samples is not None else model.transform(table.values)
    total = model.explained_variance_.sum() / (model.explained_variance_ratio_.sum() or 1.0)
    pca_shares = background.pca_ratio(1.0, total)
    model.feature_names_in_ = np.array(table.column_names, dtype=object)
    intervals = model.credible_intervals() if ends is None else ends
    summary = {
        "ebcd_version": ebcd.__version__,
        **about,
        "preparation": data.steps.words() + ([] if model.center else [_NOT_CENTRED]),
        "notes": table.notes,
        "warnings": warned,
        **_summary(model),
        **data.record(),
        "pca_explained_variance_ratio": [] if pca_shares is None else pca_shares,
        "seconds": round(seconds, 3),
        "intervals": _about_intervals(model, n_boot, method),
        "components": [_component(model, k, intervals) for k in range(model.n_components_)],
    }
    if again is not None:
        summary["halves"] = data.halves
        for one, share in zip(summary["components"], again, strict=True):
            one["found_again"] = share
    _components_frame(model, intervals).to_csv(folder / "components.csv", **CSV)
    if scores is not None:
        scores_frame(scores, table).to_csv(folder / "scores.csv", **CSV)
    (folder / "summary.json").write_bytes(f"{as_json(summary)}\n".encode())
    save(model, folder / "model.npz")
    parts: dict[str, Any] = {
        "scores": scores,
        "row_names": None if scores is None else table.labels,
        "title": about["title"],
        "source": about["source"],
        "bootstrap_intervals": ends,
        "bootstrap_method": method,
        "notes": remarks(warned, summary["preparation"], table.notes),
        "standardized": data.steps.standardize,
        "stability": again,
        "stability_method": data.halves,
        "background": background,
    }
    _store.write(folder / "report.npz", parts | {"background": vars(background)})
    write_report(model, folder / "report.html", **parts)
    return summary


def _background(model: ebcd.EBCD, data: Prepared) -> Background:
    """Describe the data for the report, before the model knows names of features."""
    values, n_samples = data.table.values, data.n_samples
    if n_samples is None:
        return Background.of(model, values, groups=data.table.groups)
    return Background.of(model, None, from_covariance(values, n_samples, scale=False))


def _summary(model: ebcd.EBCD) -> dict[str, Any]:
    parameters = model.get_params(deep=False)
    parameters.pop("verbose")
    return {
        "n_samples": model.n_samples_,
        "n_features": model.n_features_in_,
        "n_missing": model.n_missing_,
        "n_components": model.n_components_,
        "explained_variance_ratio": model.explained_variance_ratio_,
        "noise_variance": np.mean(model.noise_variance_),
        "elbo": model.elbo_,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "parameters": parameters,
    }


def _about_intervals(model: ebcd.EBCD, n_boot: int | None, method: str) -> dict[str, Any]:
    if n_boot is not None:
        draws = {"n_boot": n_boot, "method": method}
        return {"kind": "bootstrap", "level": 0.95, "about": "population", **draws}
    about = "given the scores" if model.scores == "orthogonal" else "population"
    return {"kind": "credible", "level": 0.95, "about": about}


def _component(model: ebcd.EBCD, k: int, intervals: Array) -> dict[str, Any]:
    listed = model._largest(k, 10)
    top = zip(model._features(k, listed, None), intervals[:, k, listed].T, strict=True)
    return {
        "component": k,
        "explained_variance_ratio": model.explained_variance_ratio_[k],
        "n_sure": model._used(k)[0].sum(),
        "prior": model.priors_[k].describe(),
        "top_features": [
            {**feature._asdict(), "lower": lower, "upper": upper} for feature, (lower, upper) in top
        ],
    }


def _components_frame(model: ebcd.EBCD, intervals: Array) -> pd.DataFrame:
    """Return one row per feature: each component's loading, sd, lfsr and interval."""
    import pandas as pd

    lower, upper = intervals
    tables = {"": model.components_, "_sd": model.components_sd_, "_lfsr": model.lfsr_}
    tables |= {"_lower": lower, "_upper": upper}
    components = range(model.n_components_)
    columns = {f"component_{k}{of}": table[k] for k in components for of, table in tables.items()}
    return pd.DataFrame(columns, index=_index(model.feature_names_in_, "feature"))


def scores_frame(scores: Any, table: Table) -> pd.DataFrame:
    """Return one row per sample, labeled by its name, or by its number in the file from 0."""
    import pandas as pd

    index = pd.Index(table.row_numbers or range(len(scores)), name="row")
    if table.row_names:
        index = _index(table.row_names, table.index_name or "name")
    return pd.DataFrame(scores, index=index).add_prefix("component_")


def _index(names: Any, title: str) -> pd.Index:
    """Return names for a CSV file, with an apostrophe before those that look like formulas."""
    import pandas as pd

    safe = [_harmless(str(name)) for name in (title, *names)]
    return pd.Index(safe[1:], dtype=object, name=safe[0])


def _harmless(name: str) -> str:
    return f"'{name}" if _FORMULA.match(name) and parse_number(name, ".") is None else name


def read_results(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Read the model and the summary of a folder of results, or of a model file in one."""
    hint = "pass the folder that ebcd fit wrote"
    recover(folder)
    if not folder.exists():
        raise ValueError(f"{folder} does not exist; {hint}")
    place = folder / "model.npz" if folder.is_dir() else folder
    if not place.exists():
        raise ValueError(f"{folder} has no model.npz; {hint}")
    model = load(place)
    try:
        summary = json.loads(place.with_name("summary.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        summary = {}
    except ValueError:
        summary = None
    if not isinstance(summary, dict):  # without it data would be prepared in another way
        raise ValueError(f"{folder} has no readable summary.json; run ebcd fit again")
    return model, summary


def rewrite_report(folder: Path) -> Path:
    """Write the report of a folder of results again."""
    if folder.is_file():
        raise ValueError(f"{folder} is a file; pass the folder that ebcd fit wrote")
    model, _ = read_results(folder)
    if not (folder / "report.npz").exists():
        raise ValueError(f"{folder} has no report.npz; run ebcd fit again")
    parts = _store.read(folder / "report.npz")
    parts["background"] = Background(**parts["background"])
    return write_report(model, folder / "report.html", **parts)


def as_json(summary: Any) -> str:
    """Return JSON of plain values, with null for what is not finite."""
    text = json.dumps(summary, default=lambda value: value.tolist())
    plain = json.loads(text, parse_constant=lambda name: None)
    text = json.dumps(plain, indent=2, ensure_ascii=False)
    return _NOT_TEXT.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
