"""Stock sectors: three components of uncentered log returns, and the Fama-French plane."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ebcd import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.peers import SPC
from experiments.methods import PAPER_GRID, pca
from experiments.records import read_rows

N_COMPONENTS = 3
INDUSTRIES = {
    "NoDur": "non-durables",
    "Durbl": "durables",
    "Manuf": "manufacturing",
    "Enrgy": "energy",
    "Chems": "chemicals",
    "BusEq": "business equipment",
    "Telcm": "telecoms",
    "Utils": "utilities",
    "Shops": "shops",
    "Hlth": "health care",
    "Money": "finance",
    "Other": "other",
}
FACTORS = ("Mkt-RF", "SMB", "HML")


class Returns(NamedTuple):
    """Log returns (n x p) of named sectors, and the returns of three factors (n x 3)."""

    X: np.ndarray
    names: list[str]
    factors: np.ndarray
    source: str


def load_french() -> Returns:
    """Monthly returns of twelve industries, from the installed package `linearmodels`."""
    try:
        from linearmodels.datasets import french
    except ImportError as error:
        raise ImportError(
            "the Fama-French data come with the package linearmodels; install it "
            "(pip install 'ebcd[paper]') or pass --returns and --factors"
        ) from error
    data = french.load()
    X = np.log1p(data[list(INDUSTRIES)].to_numpy(dtype=float))
    factors = data[["MktRF", "SMB", "HML"]].to_numpy(dtype=float)
    months = [str(date)[:7] for date in (data["dates"].iloc[0], data["dates"].iloc[-1])]
    source = f"Fama-French 12 industries, monthly, {months[0]} to {months[1]} (linearmodels)"
    return Returns(X, list(INDUSTRIES.values()), factors, source)


def load_csv(returns: Path, factors: Path) -> Returns:
    """Read the user's files: first a column of dates, then numbers; dates in both are used.

    The first file has log returns of sectors; the second has the columns Mkt-RF, SMB and HML.
    """
    names, sectors = _by_date("--returns", returns)
    factor_names, known = _by_date("--factors", factors)
    missing = [name for name in FACTORS if name not in factor_names]
    if missing:
        raise ValueError(f"--factors: {factors} has no column {missing[0]!r}; it needs {FACTORS}")
    columns = [factor_names.index(name) for name in FACTORS]
    dates = sorted(set(sectors) & set(known))
    if len(dates) <= N_COMPONENTS:
        raise ValueError(
            f"--factors: only {len(dates)} dates of {factors} are in {returns}; write dates in "
            "both files in the same way, e.g. 2020-01-02"
        )
    X = np.array([sectors[date] for date in dates])
    F = np.array([known[date] for date in dates])[:, columns]
    return Returns(X, names, F, f"{returns.name}, {len(dates)} rows")


def _by_date(option: str, path: Path) -> tuple[list[str], dict[str, list[float]]]:
    rows = read_rows(path)
    if not rows or len(rows[0]) < 2:
        raise ValueError(f"{option}: {path} needs a line of names, a column of dates and numbers")
    date, *names = rows[0]
    values = {}
    for line, row in enumerate(rows, 2):
        try:
            values[re.sub(r"\D", "", row[date])] = [float(row[name]) for name in names]
        except (TypeError, ValueError):
            raise ValueError(
                f"{option}: line {line} of {path} has an entry that is no number"
            ) from None
    return [name.strip() for name in names], values


def fit_data(X: np.ndarray) -> dict[str, dict[str, Any]]:
    """Fit all methods of the paper to data that are not centered."""
    k = N_COMPONENTS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # empty components and ends of grids are in the results
        # Without a penalty every rotation fits as well; the start decides, as in the paper's code.
        l1_paper = PenalizedPCACV(k, alphas=PAPER_GRID, start="svd", center=False).fit(X)
        l1_own = PenalizedPCACV(k, start="svd", center=False).fit(X)
        models = {
            "SPC (CV)": SPC(k, sumabs="cv", center=False).fit(X),
            "L1, the paper's grid": l1_paper,
            "L1, data-driven grid": l1_own,
            "EBCD-l": EBCD(k, prior="laplace", center=False).fit(X),
            "EBCD-pl": EBCD(k, center=False).fit(X),
        }
    total = float((X**2).mean(axis=0).sum())
    found = {"PCA": _described(pca(X, k).loadings.T, total)}
    found |= {name: _described(model.components_, total) for name, model in models.items()}
    for name, model in (("L1, the paper's grid", l1_paper), ("L1, data-driven grid", l1_own)):
        found[name]["alpha"] = float(model.alpha_)
        found[name]["alphas"] = model.alphas_.tolist()
        found[name]["cv_errors"] = model.mean_cv_error_.tolist()
        strengths = model.alphas_[model.alphas_ > 0]
        found[name]["kept"] = kept_along(X, len(X), strengths)
    return found


def kept_along(X: np.ndarray, n_samples: int, alphas: np.ndarray) -> list[dict[str, Any]]:
    """Say what L1-penalized PCA keeps at each strength, fitted to rows and to their covariance.

    There may be fewer rows than samples, if their cross-products are those of the samples.
    """
    S = X.T @ X / n_samples
    total = float(np.trace(S))
    lines = []
    for alpha in alphas:
        model = PenalizedPCA(N_COMPONENTS, alpha=float(alpha), center=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # empty components are what this is about
            rows = _described(model.fit(X, n_samples=n_samples).components_, total)
            again = _described(model.fit_covariance(S, n_samples).components_, total)
        line = {"alpha": float(alpha), "pve": rows["pve"], "zeros": rows["zeros"]}
        lines.append({**line, "pve_from_covariance": again["pve"]})
    return lines


def fit_covariance(S: np.ndarray, n_samples: int) -> dict[str, Any]:
    """Fit EBCD-pl to a covariance; no data are needed."""
    model = EBCD(N_COMPONENTS).fit_covariance(S, n_samples)
    values = np.linalg.eigvalsh(S)[::-1][:N_COMPONENTS]
    found = _described(model.components_, float(np.trace(S)))
    return {
        **found,
        "elbo": float(model.elbo_),
        "pca_pve": (100 * values / np.trace(S)).tolist(),
    }


def kept_of_covariance(S: np.ndarray, n_samples: int) -> list[dict[str, Any]]:
    """Say what the paper's grid keeps; rows with the same cross-products stand for the data."""
    values, vectors = np.linalg.eigh(S)
    rows = (vectors * np.sqrt(n_samples * np.maximum(values, 0.0))).T
    return kept_along(rows, n_samples, PAPER_GRID[1:])


def load_covariance(path: Path) -> tuple[np.ndarray, list[str]]:
    """Read a square table with names in the first line and the first column."""
    rows = read_rows(path)
    names = list(rows[0])[1:]
    return np.array([[float(row[name]) for name in names] for row in rows]), names


def _described(components: np.ndarray, total: float) -> dict[str, Any]:
    padded = np.zeros((N_COMPONENTS, components.shape[1]))
    padded[: len(components)] = components
    padded *= np.where(padded.sum(axis=1) < 0, -1.0, 1.0)[:, None]
    return {
        "loadings": padded.tolist(),
        "pve": (100 * (padded**2).sum(axis=1) / total).tolist(),
        "zeros": int((padded == 0).sum()),
    }


def positions(data: Returns) -> np.ndarray:
    """Coefficients of SMB and HML (p x 2) in regressions on the three factors."""
    design = np.column_stack([np.ones(len(data.X)), data.factors])
    coefficients = np.linalg.lstsq(design, data.X, rcond=None)[0]
    return coefficients[2:].T


def run(data: Returns) -> dict[str, Any]:
    """Return everything that the tables and figures show, as plain values."""
    S = data.X.T @ data.X / len(data.X)
    return {
        "source": data.source,
        "n_samples": len(data.X),
        "names": data.names,
        "methods": fit_data(data.X),
        "from_covariance": fit_covariance(S, len(data.X)),
        "positions": positions(data).tolist(),
    }
