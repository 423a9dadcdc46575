"""Penalised PCA against R's L1-penalised PCA and against exact sparse components."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ebcd import PenalizedPCA, PenalizedPCACV
from ebcd.datasets import load_pitprops

HERE = Path(__file__).parent
GRID = np.linspace(0, 10, 25)


def table(name):
    with (HERE / "penalized" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def data_sets():
    """Simulation, seed, data, R's strength and R's criterion."""
    found = []
    for row in table("l1.csv"):
        with np.load(HERE / "sim" / f"sim{row['simulation']}.npz") as stored:
            if f"X_{row['seed']}" in stored.files:
                X = stored[f"X_{row['seed']}"].astype(np.float64)
                numbers = float(row["lambda"]), float(row["objective"])
                found.append((int(row["simulation"]), int(row["seed"]), X, *numbers))
    return found


def folds():
    tests = [np.array(row["rows"].split(), dtype=int) for row in table("folds.csv")]
    return [(np.setdiff1d(np.arange(50), test), test) for test in tests]


def criterion(X, loadings, alpha):
    """Criterion of loadings (p x k, Z'Z = I) with the best scores, by the SVD of X L."""
    left, _, right = np.linalg.svd(X @ loadings, full_matrices=False)
    return 0.5 * ((X - left @ right @ loadings.T) ** 2).sum() + alpha * np.abs(loadings).sum()


every_data_set = pytest.mark.parametrize(
    "data", data_sets(), ids=lambda data: f"sim{data[0]}-seed{data[1]}"
)


@every_data_set
@pytest.mark.parametrize("start", ["auto", "svd"])
def test_criterion_is_not_above_that_of_r(data, start):
    simulation, _, X, alpha, objective = data
    model = PenalizedPCA(simulation + 1, alpha=alpha, center=False, start=start).fit(X)
    assert model.objective_ <= objective * (1 + 1e-6)
    mine = criterion(X, model.components_.T * np.sqrt(50), alpha)
    assert mine == pytest.approx(model.objective_, rel=1e-8)


@every_data_set
def test_cross_validation_chooses_the_strength_that_r_chose(data):
    simulation, _, X, alpha, _ = data
    model = PenalizedPCACV(simulation + 1, alphas=GRID, cv=folds(), center=False).fit(X)
    assert model.alpha_ == pytest.approx(alpha)
    assert model.cv_errors_.shape == (25, 5)


def test_l0_finds_the_best_supports_of_pitprops():
    correlation = load_pitprops().correlation
    exact = {int(row["k"]): float(row["max_variance"]) for row in table("pitprops_exact.csv")}
    reached = {}
    for alpha in np.geomspace(0.01, 60, 150):
        model = PenalizedPCA(1, penalty="l0", alpha=alpha).fit_covariance(correlation, 180)
        direction = model.components_[0] / np.linalg.norm(model.components_[0])
        variance = float(direction @ correlation @ direction)
        count = np.count_nonzero(direction)
        reached[count] = max(variance, reached.get(count, 0.0))
        assert variance <= exact[count] * (1 + 1e-6)
    for count in (5, 6, 7, 8, 9, 11, 12, 13):
        assert reached[count] >= 0.99 * exact[count]
