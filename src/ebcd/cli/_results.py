"""Fit a model, and write and read what a fit leaves behind."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

import ebcd
from ebcd.cli._progress import Display
from ebcd.data.files._table import Table
from ebcd.io import load, save
from ebcd.report import pca_variance_ratio, write_report

_TOP = 10  # features of each component in the summary


def make_model(n_components: str, prior: str, **parameters: Any) -> ebcd.EBCD:
    """Make an estimator from what was typed, and check it before a large file is read."""
    k = int(n_components) if n_components.isdigit() else n_components
    priors = prior.split(",") if "," in prior else prior
    model = ebcd.EBCD(k, prior=priors, **parameters)
    model._check_parameters()
    return model


def fit_model(
    model: ebcd.EBCD, table: Table, n_samples: int | None, shown: Display
) -> tuple[Any, list[str], float]:
    """Fit, and return the scores, the warnings and the seconds it took.

    With `n_samples` the table is a covariance matrix, and there are no scores.
    """
    began = time.monotonic()
    shown.limit(model.max_time)
    model._display = shown
    try:
        with _gathered_warnings() as warned:
            if n_samples is None:
                scores: Any = model.fit_transform(table.values)
            else:
                model.fit_covariance(table.values, n_samples)
                scores = None
    finally:
        del model._display
        shown.limit(None)
    model.feature_names_in_ = np.array(table.column_names, dtype=object)
    return scores, warned, time.monotonic() - began


@contextlib.contextmanager
def _gathered_warnings() -> Iterator[list[str]]:
    """Gather warnings, instead of printing them with a line of code."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


def pca_shares(model: ebcd.EBCD, table: Table, n_samples: int | None) -> list[float]:
    """Return the share of the variance of as many principal components, to compare with."""
    if n_samples is not None:
        values = np.linalg.eigvalsh(table.values)[::-1][: model.n_components_]
        return [float(value) for value in values / np.trace(table.values)]
    names = model.feature_names_in_
    del model.feature_names_in_  # the data are an array here
    shares = pca_variance_ratio(model, table.values)
    model.feature_names_in_ = names
    return [float(share) for share in shares]


def summarise(model: ebcd.EBCD, source: str, title: str, **more: Any) -> dict[str, Any]:
    """Return the summary for scripts."""
    parameters = model.get_params(deep=False)
    parameters.pop("verbose")
    return {
        "ebcd_version": ebcd.__version__,
        "title": title,
        "source": source,
        "n_samples": model.n_samples_,
        "n_features": model.n_features_in_,
        "n_components": model.n_components_,
        "explained_variance_ratio": model.explained_variance_ratio_,
        "noise_variance": np.mean(model.noise_variance_),
        "elbo": model.elbo_,
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "parameters": parameters,
        **more,
        "components": [_component(model, k) for k in range(model.n_components_)],
    }


def _component(model: ebcd.EBCD, k: int) -> dict[str, Any]:
    return {
        "component": k,
        "explained_variance_ratio": model.explained_variance_ratio_[k],
        "n_sure": int((model.lfsr_[k] < 0.05).sum()),
        "prior": model.priors_[k].describe(),
        "top_features": [feature._asdict() for feature in model.top_features(k, _TOP)],
    }


def write_results(
    folder: Path, model: ebcd.EBCD, summary: dict[str, Any], scores: Any, table: Table
) -> None:
    """Write all files of results to an empty folder."""
    with _new_text(folder / "components.csv") as file:
        _write_components(file, model, table.column_names)
    if scores is not None:
        with _new_text(folder / "scores.csv") as file:
            write_scores(file, scores, table)
    with _new_text(folder / "summary.json") as file:
        file.write(as_json(summary) + "\n")
    save(model, folder / "model.npz")
    _write_report(folder, model, summary, scores, table.row_names)


def _new_text(path: Path) -> IO[str]:
    return path.open("w", encoding="utf-8", newline="")


def _write_report(
    folder: Path, model: ebcd.EBCD, summary: dict[str, Any], scores: Any, rows: list[str] | None
) -> None:
    write_report(
        model,
        folder / "report.html",
        scores=scores,
        row_names=None if scores is None else rows,
        title=summary["title"],
        source=summary["source"],
        pca_variance_ratio=summary["pca_explained_variance_ratio"],
    )


def _write_components(file: IO[str], model: ebcd.EBCD, names: Sequence[str]) -> None:
    """Write one row per feature: every component's loading, sd, lfsr and credible interval."""
    header, columns = ["feature"], []
    lower, upper = model.credible_intervals()
    for k in range(model.n_components_):
        header += [f"component_{k}{of}" for of in ("", "_sd", "_lfsr", "_lower", "_upper")]
        columns += [model.components_[k], model.components_sd_[k], model.lfsr_[k]]
        columns += [lower[k], upper[k]]
    _write_rows(file, header, names, np.array(columns).reshape(len(columns), len(names)).T)


def write_scores(file: IO[str], scores: Any, table: Table) -> None:
    """Write one row per sample: its name, or its number from 0, and its scores."""
    labels = table.row_names
    header = [table.index_name or ("name" if labels else "row")]
    header += [f"component_{k}" for k in range(scores.shape[1])]
    _write_rows(file, header, labels or [str(i) for i in range(len(scores))], scores)


def _write_rows(file: IO[str], header: list[str], labels: Sequence[str], values: Any) -> None:
    """Write CSV from which every number can be read back exactly."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    for label, row in zip(labels, values, strict=True):
        writer.writerow([label, *row.tolist()])


def _read_scores(path: Path) -> tuple[list[str] | None, Any]:
    """Read the names of the samples, if they have any, and their scores."""
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    scores = np.array([[float(cell) for cell in row[1:]] for row in rows])
    labels = None if header[0] == "row" else [row[0] for row in rows]
    return labels, scores.reshape(len(rows), len(header) - 1)


def read_results(folder: Path) -> tuple[Any, dict[str, Any]]:
    """Read the model and the summary of a folder of results, or of a model file in one."""
    if not folder.exists():
        raise ValueError(f"there is no {folder}; give the folder that ebcd fit wrote")
    place = folder / "model.npz" if folder.is_dir() else folder
    if not place.exists():
        raise ValueError(f"{folder} has no model.npz; give the folder that ebcd fit wrote")
    model = load(place)
    try:
        summary = json.loads(place.with_name("summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        summary = {}
    return model, summary


def report_again(folder: Path) -> Path:
    """Write the report of a folder of results again."""
    if folder.is_file():
        raise ValueError(f"{folder} is a file; give the folder that ebcd fit wrote")
    model, summary = read_results(folder)
    if not summary:
        raise ValueError(f"{folder} has no summary.json that can be read; run ebcd fit again")
    has_scores = (folder / "scores.csv").exists()
    rows, scores = _read_scores(folder / "scores.csv") if has_scores else (None, None)
    _write_report(folder, model, summary, scores, rows)
    return folder / "report.html"


def as_json(summary: Any) -> str:
    """Return JSON of plain values, with null for what is not finite."""
    return json.dumps(_plain(summary), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
