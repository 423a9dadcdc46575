"""The simulation designs and the packaged tables, against facts written out here."""

import itertools
from importlib.resources import files

import numpy as np
import pytest

from ebcd import datasets
from ebcd.datasets import load_elnino, load_pitprops, load_us_employment, make_simulation

SPECTRUM = {1: [400, 300], 2: [10, 8, 5]}
SUPPORT = {1: [range(10), range(10, 20)], 2: [range(10), range(10, 50), range(50, 150)]}
LOADERS = [load_us_employment, load_elnino, load_pitprops]


@pytest.mark.parametrize("setting", [1, 2])
class TestSimulation:
    def test_components(self, setting):
        _, V, _ = make_simulation(setting, random_state=0)
        for v, support in zip(V.T, SUPPORT[setting], strict=True):
            np.testing.assert_array_equal(np.flatnonzero(v), support)
            np.testing.assert_allclose(v[support], len(support) ** -0.5)

    def test_spectrum(self, setting):
        _, V, Sigma = make_simulation(setting, random_state=0)
        values = np.sort(np.linalg.eigvalsh(Sigma))[::-1]
        k = V.shape[1]
        np.testing.assert_allclose(values[:k], SPECTRUM[setting])
        np.testing.assert_allclose(values[k:], 1.0)
        np.testing.assert_allclose(Sigma @ V, V * SPECTRUM[setting], atol=1e-10)

    def test_data_have_that_covariance(self, setting):
        n = 4000
        X, _, Sigma = make_simulation(setting, n, random_state=1)
        white = X @ np.linalg.inv(np.linalg.cholesky(Sigma)).T
        error = white.T @ white / n - np.eye(500)
        # 125,250 entries with standard deviations 1/sqrt(n) and, on the diagonal, sqrt(2/n)
        assert np.abs(error).max() < 6 * np.sqrt(2 / n)
        assert np.abs(white.mean(axis=0)).max() < 6 / np.sqrt(n)
        np.testing.assert_allclose(np.linalg.norm(error), 500 / np.sqrt(n), rtol=0.05)

    def test_random_state(self, setting):
        first, again, other = (make_simulation(setting, 3, seed)[0] for seed in (5, 5, 6))
        np.testing.assert_array_equal(first, again)
        assert np.abs(first - other).min() > 0
        rng = np.random.RandomState(5)
        np.testing.assert_array_equal(make_simulation(setting, 3, rng)[0], first)
        assert make_simulation(setting)[0].shape == (50, 500)


@pytest.mark.parametrize("setting", [0, 3, 1.0, True, "1", None, [1]])
def test_unknown_setting(setting):
    error = ValueError if setting in (0, 3) else TypeError
    with pytest.raises(error, match=r"setting must be an integer from 1 to 2, got"):
        make_simulation(setting)


@pytest.mark.parametrize("n_samples", [0, -1, 2.5, True, "50", None])
def test_bad_n_samples(n_samples):
    error = ValueError if n_samples in (0, -1) else TypeError
    with pytest.raises(error, match="n_samples must be an integer from 1 to"):
        make_simulation(1, n_samples)


def test_numpy_integers_are_integers():
    assert make_simulation(np.int64(2), np.int32(4))[0].shape == (4, 500)


def test_us_employment():
    jobs = load_us_employment()
    assert jobs.data.shape == (120, 15) == (len(jobs.dates), len(jobs.feature_names))
    assert jobs.dates == [f"{y}-{m:02d}" for y in range(2006, 2016) for m in range(1, 13)]
    assert jobs.data[0, jobs.feature_names.index("wholesale_trade")] == 5840.4
    # The sectors do not overlap: they add up to the published nonfarm totals.
    np.testing.assert_allclose(jobs.data[[0, -1]].sum(axis=1), [135450, 143093], atol=0.5)
    # February 2010 is the trough of nonfarm employment after the recession.
    assert jobs.dates[int(jobs.data.sum(axis=1).argmin())] == "2010-02"


def test_elnino():
    sea = load_elnino()
    assert sea.data.shape == (61, 12)
    assert sea.years == list(range(1950, 2011))
    assert " ".join(sea.feature_names) == "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec"
    assert sea.data[0, 0] == 23.11
    assert sea.data[-1, -1] == 22.07
    # Warmest in March, and the two strongest El Ninos of the period stand out in June.
    assert sea.feature_names[int(sea.data.mean(axis=0).argmax())] == "Mar"
    warmest = np.argsort(sea.data[:, sea.feature_names.index("Jun")])[-2:]
    assert {sea.years[i] for i in warmest} == {1983, 1997}


def test_pitprops():
    props = load_pitprops()
    R = props.correlation
    assert R.shape == (13, 13)
    assert len(props.feature_names) == 13
    assert props.n_samples == 180
    np.testing.assert_array_equal(R, R.T)
    np.testing.assert_array_equal(np.diag(R), 1.0)
    assert R[0, 1] == 0.954
    values = np.linalg.eigvalsh(R)
    assert values[0] > 0
    np.testing.assert_allclose(values[-1], 4.218633, atol=1e-6)


def test_pitprops_best_sparse_component():
    """The best component of three variables is known by enumeration."""
    props = load_pitprops()
    variance = {
        support: np.linalg.eigvalsh(props.correlation[np.ix_(support, support)])[-1]
        for support in itertools.combinations(range(13), 3)
    }
    best = max(variance, key=variance.__getitem__)
    assert [props.feature_names[i] for i in best] == ["topdiam", "length", "bowdist"]
    np.testing.assert_allclose(variance[best], 2.475331, atol=1e-6)


@pytest.mark.parametrize("load", LOADERS)
def test_bunch(load):
    bunch = load()
    table = bunch.correlation if "correlation" in bunch else bunch.data
    assert table.dtype == np.float64
    assert np.isfinite(table).all()
    assert len(set(bunch.feature_names)) == table.shape[1]
    assert "Source:" in bunch.DESCR
    assert "License:" in bunch.DESCR
    table[:] = 0.0  # each call returns its own copy
    again = load()
    assert (again.correlation if "correlation" in again else again.data).any()


def test_every_table_is_described_and_listed():
    folder = files(datasets)
    readme = folder.joinpath("README.md").read_text(encoding="utf-8")
    tables = [entry.name for entry in folder.iterdir() if entry.name.endswith(".csv")]
    assert len(tables) == len(LOADERS)
    for table in tables:
        assert table in readme
        assert folder.joinpath(table.replace(".csv", ".md")).is_file()
