"""Scores of new data under a model that was fitted before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ebcd.cli._data import Steps, divided
from ebcd.data.files._table import Table, read_table


def scores_of(model: Any, summary: dict[str, Any], path: Path, **reading: Any) -> tuple[Any, Table]:
    """Read data, match their columns with the features of the model, and give the scores.

    `summary` is that of the fit: the data are prepared in the same way.
    """
    steps = Steps(**summary.get("steps", {}))
    features = [str(name) for name in model._feature_names()]
    if not steps.transpose:  # other columns need not even be numbers
        reading["only"] = features
    table = _matched(steps.apply(read_table(path, **reading)), features, path)
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the data are an array here, in the right order
    if not hasattr(model, "mean_"):
        note = "the model was fitted to a covariance, without means: data should be centred"
        table = replace(table, notes=[*table.notes, note])
    values = table.values
    if steps.standardize:
        values = divided(values, np.array(summary["standard_deviations"]))
    return model.transform(values), table


def _matched(table: Table, features: list[str], path: Path) -> Table:
    places = {name: j for j, name in enumerate(table.column_names)}
    if table.column_names == features:
        return table
    nameless = table.column_names == [f"x{j}" for j in range(len(features))]
    if nameless and not any(name in places for name in features):
        note = "the columns have no names; they were taken in the order of the fit"
        return replace(table, notes=[*table.notes, note])
    missing = [name for name in features if name not in places]
    if missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise ValueError(
            f"{path}: {len(missing)} of the {len(features)} features of the model are missing: "
            f"{shown}; columns are matched by their names"
        )
    order = np.array([places[name] for name in features])
    return replace(table, values=table.values[:, order], column_names=features)
