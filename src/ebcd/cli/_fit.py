"""Fit, and write all results to a folder."""

from __future__ import annotations

import contextlib
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

import ebcd
from ebcd.cli._output import (
    as_json,
    read_scores,
    whole_folder,
    write_components,
    write_scores,
)
from ebcd.cli._progress import Watcher
from ebcd.data.files._table import Table
from ebcd.io import load, save
from ebcd.report import pca_variance_ratio, write_report

_TOP = 10  # features of each component in the summary


def make_model(n_components: str, prior: str, **parameters: Any) -> ebcd.EBCD:
    """Make an estimator from what was typed, and check that before a large file is read."""
    k = int(n_components) if n_components.isdigit() else n_components
    priors = prior.split(",") if "," in prior else prior
    model = ebcd.EBCD(k, prior=priors, **parameters)
    model._check_parameters()
    return model


def fit_model(
    model: ebcd.EBCD, table: Table, n_samples: int | None, watcher: Watcher
) -> tuple[Any, list[str], float]:
    """Fit and give the scores, what was warned of, and the seconds it took.

    With `n_samples` the table is a covariance matrix, and there are no scores.
    """
    began = time.monotonic()
    watcher.limit(model.max_time)
    model._display = watcher
    try:
        with gathered_warnings() as warned:
            if n_samples is None:
                scores: Any = model.fit_transform(table.values)
            else:
                model.fit_covariance(table.values, n_samples)
                scores = None
    finally:
        del model._display
        watcher.limit(None)
    model.feature_names_in_ = np.array(table.column_names, dtype=object)
    return scores, warned, time.monotonic() - began


@contextlib.contextmanager
def gathered_warnings() -> Iterator[list[str]]:
    """Gather what is warned of, instead of printing it with a line of code."""
    messages: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield messages
    messages += dict.fromkeys(" ".join(str(warning.message).split()) for warning in caught)


def pca_shares(model: ebcd.EBCD, table: Table, n_samples: int | None) -> list[float]:
    """Share of the variance of as many principal components, to compare with."""
    k = model.n_components_
    if n_samples is None:
        names = model.feature_names_in_
        del model.feature_names_in_  # the data are an array here
        shares = pca_variance_ratio(model, table.values)
        model.feature_names_in_ = names
        return [float(share) for share in shares]
    values = np.linalg.eigvalsh(table.values)[::-1][:k]
    return [float(value) for value in values / np.trace(table.values)]


def summarise(
    model: ebcd.EBCD, source: str, title: str, steps: dict[str, bool], **more: Any
) -> dict[str, Any]:
    """Summary for scripts."""
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
        "steps": steps,
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
    """Write everything to a folder, or nothing."""
    with whole_folder(folder) as part:
        with _new_text(part / "components.csv") as file:
            write_components(file, model, table.column_names)
        if scores is not None:
            with _new_text(part / "scores.csv") as file:
                write_scores(file, scores, table.row_names, table.index_name)
        with _new_text(part / "summary.json") as file:
            file.write(as_json(summary) + "\n")
        save(model, part / "model.npz")
        _write_report(part, model, summary, scores, table.row_names)


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
    """Make the report of a folder of results again."""
    if folder.is_file():
        raise ValueError(f"{folder} is a file; give the folder that ebcd fit wrote")
    model, summary = read_results(folder)
    if not summary:
        raise ValueError(f"{folder} has no summary.json that can be read; run ebcd fit again")
    scores, rows = None, None
    if (folder / "scores.csv").exists():
        index_name, rows, scores = read_scores(folder / "scores.csv")
        rows = None if index_name == "row" else rows
    _write_report(folder, model, summary, scores, rows)
    return folder / "report.html"
