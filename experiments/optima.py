"""Mirrored optima of Simulation 1: where the default start and the greedy one end, and why.

True scores are correlated in the sample, fitted ones are not; so one of the two components must
take up a part of the other, and either can. The ELBO of the default start is never the lower one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.simulations import MEASURES, data_set

SETTING = 1
METHODS = ("ebcd_pl", "ebcd_pl_greedy")
FIRST_SEED = 1001  # far from those of the other tables
DIFFERENT = 0.01  # nats
MARGINS = (0.1, 1.0, 3.0, 6.0, 9.0)  # nats

Row = dict[str, Any]


def paired(rows: list[Row], folder: str | None) -> list[Row]:
    """Return a row for each data set: the fits from both starts, and the noise between them."""
    fits = {(r["seed"], r["method"]): r for r in rows if r["setting"] == SETTING}
    seeds = [seed for seed, name in fits if name == METHODS[0] and (seed, METHODS[1]) in fits]
    return [_pair(folder, seed, *(fits[seed, name] for name in METHODS)) for seed in sorted(seeds)]


def _pair(folder: str | None, seed: int, default: Row, greedy: Row) -> Row:
    X, V, *_ = data_set(folder, SETTING, seed)
    noise = [rejected_noise(X, V, _bearer(fit)) for fit in (default, greedy)]
    line = {
        "seed": seed,
        "gain": default["elbo"] - greedy["elbo"],
        "swapped": int(_bearer(default) != _bearer(greedy)),
        "noise": noise[1] - noise[0],
    }
    for name in MEASURES[SETTING]:
        line |= {name: default[name], f"{name}_greedy": greedy[name]}
    return line


def _bearer(fit: Row) -> int:
    """Which component takes up a part of the other: its angle to the truth is the larger one."""
    return int(fit["d2"] > fit["d1"])


def rejected_noise(X: np.ndarray, V: np.ndarray, bearer: int) -> float:
    """Return the cost of noise, in nats, in loadings that are zero in one of the two optima.

    They are those of the other component on the features of the `bearer`. The other component's
    scores are uncorrelated with those of the bearer; the noise has variance one.
    """
    scores = X @ V
    own, other = scores[:, bearer], scores[:, 1 - bearer]
    rest = other - own * (own @ other) / (own @ own)
    loadings = X[:, V[:, bearer] != 0].T @ rest / np.linalg.norm(rest)
    return float(loadings @ loadings) / 2


def excess(lines: list[Row], margin: float = 0.0) -> Row:
    """Compare with the greedy start, if that is kept unless the ELBO gains more than `margin`.

    Excess of mean errors in percent, with standard errors; `angle` is the mean of all angles.
    """
    taken = np.array([line["gain"] > max(margin, DIFFERENT) for line in lines])
    angles = [name for name in MEASURES[SETTING] if name[1:].isdigit()]
    groups = {"angle": angles, "d_or": ["d_or"], "d_cov": ["d_cov"]}
    found: Row = {"moved": int(taken.sum())}
    for name, members in groups.items():
        ours, greedy = (
            np.array([[line[member + end] for member in members] for line in lines]).mean(axis=1)
            for end in ("", "_greedy")
        )
        change = np.where(taken, ours - greedy, 0.0) * (100 / greedy.mean())
        error = change.std(ddof=1) / np.sqrt(len(lines)) if len(lines) > 1 else np.nan
        found[name] = (float(change.mean()), float(error))
    return found
