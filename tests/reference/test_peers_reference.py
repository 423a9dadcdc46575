"""Sparse PCA methods beside R PMA, and beside exact optima of a small problem."""

import csv
from pathlib import Path

import numpy as np
import pytest

from ebcd.datasets import load_pitprops, make_simulation
from ebcd.metrics import component_angles, covariance_distance, subspace_distance
from ebcd.peers import SPC, USLPCA, GPower

HERE = Path(__file__).parent
COMPONENTS = {1: 2, 2: 3}


def pma_fits(setting):
    """Return pairs of data and PMA's loadings in the units of the data."""
    with (
        np.load(HERE / "sim" / f"sim{setting}.npz") as data,
        np.load(HERE / "peers" / "spc.npz") as loadings,
    ):
        return [
            (data[name].astype(np.float64), loadings[f"sim{setting}_{name[2:]}"] / np.sqrt(50))
            for name in data.files
        ]


def sums(loadings):
    ratio = np.abs(loadings).sum(axis=0) / np.linalg.norm(loadings, axis=0)
    return np.maximum(ratio, 1.0)  # rounding


class TestSPC:
    @pytest.mark.parametrize("setting", [1, 2])
    def test_same_components_for_the_same_sums(self, setting):
        same = 0
        for X, theirs in pma_fits(setting):
            model = SPC(COMPONENTS[setting], sumabs=sums(theirs), center=False).fit(X)
            ours = model.components_.T
            first = theirs[:, 0] / np.linalg.norm(theirs[:, 0])
            criterion = np.linalg.norm(X @ first)
            # PMA stops after 20 iterations; what we reach is never less
            v = ours[:, 0] / np.linalg.norm(ours[:, 0])
            assert np.linalg.norm(X @ v) > criterion * (1 - 1e-6)
            angles = component_angles(theirs, ours)
            if angles.max() < 1e-3:
                same += 1
                np.testing.assert_allclose(
                    np.linalg.norm(ours, axis=0), np.linalg.norm(theirs, axis=0), rtol=1e-3
                )
        assert same >= len(pma_fits(setting)) - 1

    @pytest.mark.parametrize("setting", [1, 2])
    def test_cross_validation_is_as_good(self, setting):
        _, V, Sigma = make_simulation(setting, random_state=0)

        def measures(L):
            angles = component_angles(V, L)
            return [*angles, subspace_distance(V, L), covariance_distance(Sigma, L)]

        fits = pma_fits(setting)
        theirs = np.mean([measures(L) for _, L in fits], axis=0)
        models = [SPC(COMPONENTS[setting], center=False).fit(X) for X, _ in fits]
        ours = np.mean([measures(model.components_.T) for model in models], axis=0)
        assert (ours < 1.15 * theirs).all()

    def test_cross_validation_chooses_as_pma_does(self):
        grid = np.linspace(1, np.sqrt(500), 25)
        steps = []
        for X, theirs in pma_fits(1):
            ours = SPC(2, center=False).fit(X).sumabs_
            steps.append((ours - sums(theirs)) / (grid[1] - grid[0]))
        assert np.abs(steps).max() < 2 + 1e-6  # folds are random
        assert np.mean(np.abs(steps) < 1e-3) >= 0.6


def exact_optima():
    with (HERE / "peers" / "pitprops_exact.csv").open(encoding="utf-8") as file:
        return {int(row["k"]): float(row["max_variance"]) for row in csv.DictReader(file)}


def direction_variance(model, S):
    v = model.components_[0] / np.linalg.norm(model.components_[0])
    return v @ S @ v


class TestPitprops:
    """The first sparse component: the variance ``v'Sv`` of a direction with k entries."""

    @pytest.mark.parametrize("number", range(1, 14))
    def test_uslpca_finds_the_exact_optimum(self, number):
        S = load_pitprops().correlation
        model = USLPCA(1, n_nonzero=number).fit_covariance(S, 180)
        assert np.count_nonzero(model.components_) == number
        assert direction_variance(model, S) > exact_optima()[number] - 2e-6
        # and with scores of mean square one that is the squared length of the component
        np.testing.assert_allclose(model.explained_variance_[0], direction_variance(model, S))

    def test_gpower_finds_exact_optima_along_its_path(self):
        S, exact = load_pitprops().correlation, exact_optima()
        best = {}
        for gamma in np.linspace(0, 0.99, 500):
            model = GPower(1, penalty="l0", gamma=gamma, block=False).fit_covariance(S, 180)
            number = np.count_nonzero(model.components_)
            share = direction_variance(model, S) / exact[number]
            best[number] = max(best.get(number, 0.0), share)
        assert {5, 6, 7, 8, 9, 11, 12, 13} <= set(best)
        assert min(best.values()) > 1 - 1e-5
