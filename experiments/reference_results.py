"""What the reference implementations found on the reference data sets."""

from __future__ import annotations

from pathlib import Path

from experiments.records import read_rows
from experiments.simulations import COMPONENTS

HERE = Path(__file__).parent
_NAMES = {"dOR_fixed": "d_or", "dcov": "d_cov"}  # as the paper's text defines d_or


def reference_measures(folder: Path) -> dict[tuple[int, str, int, str], float]:
    """Measures by simulation, method, seed and name, from ``measures_sim1.csv`` and ``2``."""
    found = {}
    for setting in COMPONENTS:
        path = folder / f"measures_sim{setting}.csv"
        for row in read_rows(path) if path.exists() else []:
            name = _NAMES.get(row["measure"], row["measure"])
            if (row["method"], name) == ("gpower", "d_cov"):
                continue  # of columns that were not rescaled: 500.5 whatever the fit
            found[setting, row["method"], int(row["seed"]), name] = float(row["value"])
    return found


def reference_elbo(folder: Path) -> dict[tuple[int, str, int], float]:
    """ELBO of EBCD by simulation, method and seed, from ``ebcd_sim1.csv`` and ``2``."""
    found = {}
    for setting in COMPONENTS:
        path = folder / f"ebcd_sim{setting}.csv"
        for row in read_rows(path) if path.exists() else []:
            found[setting, row["method"], int(row["seed"])] = float(row["elbo"])
    return found


def of_reference(setting: int, name: str, statistic: str) -> dict[str, str] | None:
    """Return what the reference found: means or medians over its 50 data sets."""
    for row in read_rows(HERE / "reference" / "r_simulations.csv"):
        if (row["setting"], row["method"], row["statistic"]) == (str(setting), name, statistic):
            return row
    return None
