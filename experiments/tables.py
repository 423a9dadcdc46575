"""From single fits to tables: grids reduced to one value, means, medians and standard errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from experiments.methods import METHODS, SPARSE_PCA_DEFAULT
from experiments.simulations import MEASURES

Row = dict[str, Any]
NUMBERS = ("parameter", "d1", "d2", "d3", "d_or", "d_cov", "elbo", "seconds")
LABELS = {name: method.label for name, method in METHODS.items() if name != "sparse_pca"} | {
    "sparse_pca_default": "SparsePCA (default)",
    "sparse_pca_oracle": "SparsePCA (oracle)",
}


def parse(rows: Iterable[dict[str, str]]) -> list[Row]:
    """Turn a table that was read from a file into numbers."""
    parsed = []
    for row in rows:
        numbers = {key: float(row[key]) if row[key] else None for key in NUMBERS if key in row}
        counts = {key: int(row[key]) for key in ("setting", "seed", "n_components") if key in row}
        parsed.append({**row, **numbers, **counts})
    return parsed


def reduce_grids(rows: list[Row]) -> tuple[list[Row], list[Row]]:
    """Return one row per method and data set, and what was found along the grids."""
    plain = [row for row in rows if row["parameter"] is None]
    grids: list[Row] = []
    for setting in sorted({row["setting"] for row in rows}):
        here = [row for row in rows if row["setting"] == setting]
        gpower = _complete([row for row in here if row["method"] == "gpower"])
        sparse = _complete([row for row in here if row["method"] == "sparse_pca"])
        default = [row for row in sparse if row["parameter"] == SPARSE_PCA_DEFAULT]
        plain += [{**row, "method": "sparse_pca_default"} for row in default]
        if gpower:
            along = _along(gpower)
            grids += along
            plain += _best(gpower, along, lambda line: line["d_cov"])
        if sparse:
            along = _along(sparse)
            grids += along
            best = _best(sparse, along, lambda line: line["angle"])
            plain += [{**row, "method": "sparse_pca_oracle"} for row in best]
    return plain, grids


def _complete(rows: list[Row]) -> list[Row]:
    """Leave out data sets on which only a part of the grid has been fitted."""
    count = len({row["parameter"] for row in rows})
    seeds = [row["seed"] for row in rows]
    return [row for row in rows if seeds.count(row["seed"]) == count]


def _along(rows: list[Row]) -> list[Row]:
    lines = []
    for value in sorted({row["parameter"] for row in rows}):
        at = [row for row in rows if row["parameter"] == value]
        angles = [name for name in MEASURES[at[0]["setting"]] if name[1:].isdigit()]
        lines.append(
            {
                "setting": at[0]["setting"],
                "method": at[0]["method"],
                "parameter": value,
                "n": len(at),
                "angle": float(np.mean([[row[name] for name in angles] for row in at])),
                "d_cov": float(np.mean([row["d_cov"] for row in at])),
                "seconds": float(np.mean([row["seconds"] for row in at])),
            }
        )
    return lines


def _best(rows: list[Row], along: list[Row], key: Callable[[Row], float]) -> list[Row]:
    """Return the rows of the best value; their time is that of the whole grid."""
    value = min(along, key=key)["parameter"]
    seconds: dict[int, float] = {}
    for row in rows:
        seconds[row["seed"]] = seconds.get(row["seed"], 0.0) + row["seconds"]
    return [{**row, "seconds": seconds[row["seed"]]} for row in rows if row["parameter"] == value]


def summary(rows: list[Row]) -> list[Row]:
    """Mean, median and standard error of every measure, by simulation and method."""
    lines = []
    for setting, measures in MEASURES.items():
        for name in LABELS:
            here = [r for r in rows if r["setting"] == setting and r["method"] == name]
            if here:
                line: Row = {"setting": setting, "method": name, "n": len(here)}
                for measure in (*measures, "seconds"):
                    line[measure] = _statistics([row[measure] for row in here])
                lines.append(line)
    return lines


def _statistics(values: list[float]) -> dict[str, float]:
    spread = np.std(values, ddof=1) if len(values) > 1 else np.nan
    return {
        "mean": float(np.mean(values)),
        "median": float(np.median(values)),
        "se": float(spread / np.sqrt(len(values))),
    }


def flat(lines: list[Row]) -> list[Row]:
    """Return a summary as a table with one line per measure."""
    return [
        {"setting": line["setting"], "method": line["method"], "n": line["n"], "measure": name}
        | line[name]
        for line in lines
        for name in (*MEASURES[line["setting"]], "seconds")
    ]


def versus_reference(
    rows: list[Row], reference: dict[tuple[int, str, int, str], float]
) -> list[Row]:
    """Put the measures of the reference implementations beside ours, data set by data set."""
    lines = []
    for row in rows:
        theirs = "ebcd_pl" if row["method"] == "ebcd_pl_greedy" else row["method"]
        for measure in MEASURES[row["setting"]]:
            value = reference.get((row["setting"], theirs, row["seed"], measure))
            if value is not None:
                first = {key: row[key] for key in ("setting", "seed", "method")}
                lines.append({**first, "measure": measure, "ours": row[measure], "theirs": value})
    return lines
