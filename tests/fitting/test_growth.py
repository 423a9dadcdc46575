"""Factors that grow: approximations from below, and the same end as with all of the data."""

from dataclasses import replace

import numpy as np
import pytest

from ebcd import EBCD
from ebcd.data import CovarianceMatrix
from ebcd.fitting import _decompose
from ebcd.fitting._climb import Climber, climb
from ebcd.fitting._decompose import SizeSettings, factor_of
from ebcd.fitting._growth import climb_growing, grown
from ebcd.fitting._noise import NOISES
from ebcd.fitting._shrinkers import SpikeSlabShrinker
from ebcd.fitting._states import Model
from ebcd.priors import make_family

EPS = float(np.finfo(float).eps)


def draw(seed=0, n=60, p=40, k=3):
    rng = np.random.default_rng(seed)
    loadings = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.3)
    X = rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def leading(S, rank):
    values, vectors = np.linalg.eigh(S)
    return (vectors[:, -rank:] * np.sqrt(values[-rank:])).T


@pytest.mark.parametrize("seed", range(3))
def test_from_below_and_exact_for_the_directions(seed):
    X = draw(seed)
    S, rng = X.T @ X / len(X), np.random.default_rng(seed)
    factor, directions = leading(S, 4), []
    for _ in range(5):
        directions.append(rng.normal(size=(3, len(S))))
        new, _ = grown(factor, directions[-1], directions[-1] @ S, EPS)
        assert len(new) == len(factor) + 3
        factor = new
        assert np.linalg.eigvalsh(S - factor.T @ factor).min() > -1e-10 * np.trace(S)
        for d in directions:
            np.testing.assert_allclose(d @ factor.T @ factor, d @ S, atol=1e-9)


def test_nothing_new_adds_nothing():
    X = draw()
    S = X.T @ X / len(X)
    factor, _ = grown(leading(S, 4), np.eye(len(S))[:2], S[:2], EPS)
    assert grown(factor, np.eye(len(S))[1::-1], S[1::-1], EPS)[0] is factor


def test_how_much_errors_are_magnified():
    """What was too large in a few directions is at most so many times too large afterwards."""
    rng = np.random.default_rng(0)
    X = draw()
    S = X.T @ X / len(X)
    error = 1e-6 * rng.standard_normal((2, len(S)))
    before = np.linalg.norm(error @ error.T, 2)
    factor = np.vstack([leading(S, 4), error])
    new, times = grown(factor, directions := rng.normal(size=(3, len(S))), directions @ S, EPS)
    lowest = np.linalg.eigvalsh(S - new.T @ new).min()
    assert times > 1
    assert -times * before - 1e-12 <= lowest < -1e-13


@pytest.mark.parametrize(
    ("seed", "scores", "dtype"),
    [
        (0, "orthogonal", np.float64),
        (1, "relaxed", np.float64),
        (2, "orthogonal", np.float64),
        (0, "relaxed", np.float32),
    ],
)
def test_components_hardly_above_noise(seed, scores, dtype):
    """Which take so many iterations that rounding errors of the factor might grow large."""
    n, p, k = 420, 2500, 3
    rng = np.random.default_rng(seed)
    loadings = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.3)
    sizes = np.sqrt(1.2 * np.sqrt(p / n) * np.linspace(2, 0.8, k))
    loadings *= (sizes / np.linalg.norm(loadings, axis=1))[:, None]
    X = rng.standard_normal((n, k)) @ loadings + rng.standard_normal((n, p))
    model = EBCD(k, scores=scores).fit(X.astype(dtype))
    assert model.converged_
    rounding = 1e-12 if dtype == np.float64 else 5e-7  # of products with the data
    assert (np.diff(model.elbo_path_) >= -rounding * abs(model.elbo_)).all()
    largest = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)[0] ** 2 / n
    assert model.explained_variance_[0] <= largest


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("seed", range(3))
def test_ends_where_the_whole_covariance_leads(noise, seed):
    X = draw(seed)
    S, n, tol = X.T @ X / len(X), len(X), 1e-6
    covariance = CovarianceMatrix(S, n)
    S = S / covariance.unit**2
    shrinker = SpikeSlabShrinker(make_family("point_laplace"))
    whole = Model(factor_of(S, np.diag(S)), np.diag(S), NOISES[noise](n, np.diag(S)), shrinker)
    part = replace(whole, factor=leading(S, 5))
    path = []
    begin = part.start(np.eye(3, 5)[None])
    found, _ = climb_growing(
        covariance,
        part,
        begin,
        Climber(lambda states: path.append(states.value[0])),
        tol=tol,
        max_iter=500,
    )
    assert found.converged
    assert found.n_iter == len(path) - 1  # the last one only looks whether there is more
    assert (np.diff(path) >= -1e-9 * abs(path[-1])).all()
    # from there the whole covariance has nothing to gain
    states = whole.at(
        whole.nearest(found.states.shrunk.mean * found.states.precision[:, None]),
        found.states.precision,
        found.states.shrunk.priors,
    )
    more = climb(whole, states, lambda states: False, tol=1e-9, max_iter=200)
    assert more.states.value[0] <= found.states.value[0] + 10 * tol


@pytest.mark.parametrize("options", [{}, {"noise": "per_feature"}, {"prior": "laplace"}])
def test_large_fits_end_as_exact_ones(monkeypatch, options):
    """As if the data were large: the same optimum, within ten times the tolerance."""
    X = draw(3, 80, 60, 2)
    start = np.linalg.svd(X, full_matrices=False)[2][:2].T
    exact = EBCD(2, start=start, **options).fit(X)
    small = SizeSettings(exact_rows=5, extra_directions=2)
    monkeypatch.setattr(_decompose, "SIZES", small)
    grown_fit = EBCD(2, start=start, **options).fit(X)
    assert grown_fit.converged_
    assert grown_fit.elbo_ == pytest.approx(exact.elbo_, abs=1e-4)
    np.testing.assert_allclose(grown_fit.components_, exact.components_, atol=2e-3)


def test_no_more_iterations_than_asked_for(monkeypatch):
    monkeypatch.setattr(_decompose, "SIZES", SizeSettings(exact_rows=5, extra_directions=2))
    X = draw(3, 80, 60, 2)
    for max_iter in (1, 2, 5):
        with pytest.warns(UserWarning, match="max_iter"):
            model = EBCD(2, start="svd", max_iter=max_iter).fit(X)
        assert model.n_iter_ <= max_iter


def test_other_optima_are_looked_for_on_a_grown_factor(monkeypatch):
    """From given loadings that overlap; the factor has other rows than at the start by then."""
    monkeypatch.setattr("ebcd.fitting._decompose.SIZES", SizeSettings(exact_rows=20))
    rng = np.random.default_rng(0)
    loadings = rng.laplace(size=(6, 120)) * (rng.random((6, 120)) < 0.5)
    X = rng.standard_normal((100, 6)) @ loadings + rng.standard_normal((100, 120))
    model = EBCD(6, start=rng.standard_normal((120, 6))).fit(X)
    assert model.converged_
    assert (np.diff(model.elbo_path_) >= -1e-9 * abs(model.elbo_)).all()
