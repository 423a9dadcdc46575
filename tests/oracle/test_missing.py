"""Fits to tiny data with holes, against quadrature, brute force and identities."""

import numpy as np
import pytest
from decomposition import climb
from scipy import stats

from ebcd import EBCD

# Sums over evenly spaced nodes are exact to rounding: densities of scores are at least 0.1 wide.
NODES = np.linspace(-12, 12, 2_001)
WEIGHTS = stats.norm.pdf(NODES) * (NODES[1] - NODES[0])
SCORES = ["orthogonal", "relaxed", "integrated"]
L = np.array([1.5, -1.0, 0.8, 0.4])


def tiny(seed, n=8, p=4):
    """One component in little noise; no row and no feature without entries."""
    rng = np.random.default_rng([50, seed])
    X = 1.5 * rng.normal(size=(n, 1)) * L[:p] + 0.5 * rng.normal(size=(n, p))
    holes = rng.random((n, p)) < 0.25
    holes[:2] = False
    holes[np.arange(n), rng.integers(p, size=n)] = False
    return np.where(holes, np.nan, X)


def fit(X, scores="integrated", **options):
    return EBCD(1, prior="normal", scores=scores, tol=1e-10, max_iter=3000, **options).fit(X)


def bound_by_quadrature(X, mean, variance, scale, tau):
    """Integrate the score of each row out, given the posterior of the loadings."""
    rest = X[:, :, None] - mean[:, None] * NODES
    square = rest**2 + variance[:, None] * NODES**2
    logs = np.nansum(0.5 * np.log(tau / (2 * np.pi)) - 0.5 * tau * square, axis=1)
    most = logs.max(axis=1, keepdims=True)
    value = (most[:, 0] + np.log(np.exp(logs - most) @ WEIGHTS)).sum()
    ratio = variance / scale**2
    return value - 0.5 * (ratio + mean**2 / scale**2 - 1 - np.log(ratio)).sum()


def bound_by_formula(X, mean, variance, scale, tau):
    """Do the same by the moments of normal distributions, for one or many posteriors."""
    seen = ~np.isnan(X)
    filled = np.where(seen, X, 0.0)
    precision = 1 + tau * ((mean**2 + variance) @ seen.T)
    rows = (tau * (mean @ filled.T)) ** 2 / precision - np.log(precision)
    rows += seen.sum(axis=1) * np.log(tau / (2 * np.pi)) - tau * (filled**2).sum(axis=1)
    ratio = variance / scale**2
    divergence = (ratio + mean**2 / scale**2 - 1 - np.log(ratio)).sum(axis=-1)
    return 0.5 * (rows.sum(axis=-1) - divergence)


def bound_of_scores(X, mean, variance, scale, tau, z, scores):
    """Return the objective of many scores that are estimated, entry by entry."""
    shares = (~np.isnan(X)).mean(axis=1)
    n = shares.sum()
    if scores == "orthogonal":
        z = z / np.sqrt((z**2 @ shares)[:, None] / n)
    square = (X - z[:, :, None] * mean[:, None]) ** 2 + variance[:, None] * z[:, :, None] ** 2
    entries = 0.5 * np.log(tau / (2 * np.pi))[:, None] - 0.5 * tau[:, None] * square
    value = np.nansum(entries, axis=(1, 2)) - 0.5 * (z**2 - 1) @ (1 - shares)
    if scores == "relaxed":
        second = z**2 @ shares / n
        value += 0.5 * (len(X) - 2) * np.log(second) - 0.5 * n * (second - 1)
    ratio = variance / scale**2
    return value - 0.5 * (ratio + mean**2 / scale**2 - 1 - np.log(ratio)).sum(axis=1)


def brute_force(X, scores, seed, climbs=6):
    """Search over loadings, their variances, the prior, the noise, and scores."""
    n, p = X.shape
    rng = np.random.default_rng(seed)

    def objective(at):
        mean, logs, log_scale, log_tau, z = np.split(at, np.cumsum([p, p, 1, 1]), axis=1)
        posterior = X, mean, np.exp(logs), np.exp(log_scale), np.exp(log_tau)
        if scores == "integrated":
            return bound_by_formula(*posterior)
        return bound_of_scores(*posterior, z, scores)

    best = -np.inf
    for _ in range(climbs):
        z = rng.normal(size=n * (scores != "integrated"))
        start = np.r_[rng.normal(size=p), np.full(p, -3.0), 0.0, 0.5, z]
        best = max(best, climb(objective, start, [(-12, 12)] * start.size))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_bound_of_integrated_scores_is_that_of_quadrature(seed):
    X = tiny(seed)
    model = fit(X, center=False)
    mean, variance = (part[0] for part in model._filling)
    scale, tau = model.priors_[0].parameters["scale"], 1 / model.noise_variance_
    at = (X, mean, variance, scale, tau)
    assert bound_by_formula(*at) == pytest.approx(bound_by_quadrature(*at), abs=1e-8)
    assert model.elbo_ == pytest.approx(bound_by_formula(*at), abs=1e-6)


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("seed", range(4))
def test_brute_force_finds_nothing_better(seed, scores):
    X = tiny(seed)
    found = brute_force(X, scores, seed)
    assert fit(X, scores, center=False).elbo_ >= found - 1e-4


@pytest.mark.parametrize("scores", SCORES)
def test_likelihoods_and_expectations_are_integrals_over_the_score(scores):
    X = tiny(1)
    model = fit(X, scores)
    sd = np.sqrt(model.noise_variance_)
    for x, filled, reached in zip(X, model.impute(X), model.score_samples(X), strict=True):
        seen = ~np.isnan(x)
        means = model.mean_[:, None] + model.components_[0][:, None] * NODES
        logs = stats.norm.logpdf(x[seen, None], means[seen], sd).sum(axis=0)
        density = np.exp(logs) * WEIGHTS
        assert reached == pytest.approx(np.log(density.sum()), abs=1e-8)
        expected = means[~seen] @ density / density.sum()
        np.testing.assert_allclose(filled[~seen], expected, atol=1e-8)


def test_halves_of_a_row_add_up():
    """Precisions of a score add up; the prior counts once."""
    X = tiny(2)
    model = fit(X)
    loadings, variances = (part[0] for part in model._filling)
    one, other = X.copy(), X.copy()
    one[:, :2], other[:, 2:] = np.nan, np.nan
    information = (loadings**2 + variances) / model.noise_variance_
    parts = []
    for part in (one, other):
        known = ~np.isnan(part).all(axis=1)
        precision = 1 + ~np.isnan(part) @ information
        scores = np.where(known, model.transform(np.where(known[:, None], part, 0))[:, 0], 0.0)
        parts.append((precision, precision * scores))
    precision = parts[0][0] + parts[1][0] - 1
    together = (parts[0][1] + parts[1][1]) / precision
    np.testing.assert_allclose(model.transform(X)[:, 0], together, atol=1e-8)


@pytest.mark.parametrize("scores", SCORES)
def test_identities(scores):
    """Units, the order of rows and columns, signs, and rows without entries change nothing."""
    X = tiny(3)
    model = fit(X, scores)
    seen = (~np.isnan(X)).sum()
    twice = fit(1024 * X, scores)
    np.testing.assert_allclose(twice.components_, 1024 * model.components_, rtol=1e-8)
    assert twice.elbo_ == pytest.approx(model.elbo_ - seen * np.log(1024), abs=1e-8)
    rows, columns = np.arange(8)[::-1], np.array([2, 0, 3, 1])
    signs = np.array([1, -1, -1, 1])
    others = [
        (X[rows], model.components_),
        (X[:, columns], model.components_[:, columns]),
        (signs * X, signs * model.components_),
        (X + 3.0, model.components_),
    ]
    for data, expected in others:
        found = fit(data, scores)
        assert found.elbo_ == pytest.approx(model.elbo_, abs=1e-8)
        sign = np.sign((found.components_ * expected).sum())
        np.testing.assert_allclose(sign * found.components_, expected, atol=1e-5)
    with pytest.warns(UserWarning, match="only missing entries"):
        more = fit(np.vstack([X, np.full(4, np.nan)]), scores)
    assert more.elbo_ == model.elbo_
    np.testing.assert_array_equal(more.components_, model.components_)


@pytest.mark.parametrize("scores", SCORES)
def test_uncertainty_of_one_hole_is_nearly_that_of_none(scores):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1)) * np.r_[np.full(5, 2.0), np.zeros(7)]
    X += rng.normal(size=X.shape)
    hole = X.copy()
    hole[0, 0] = np.nan
    before, after = (EBCD(1, scores=scores).fit(data) for data in (X, hole))
    np.testing.assert_allclose(after.components_, before.components_, rtol=0.02, atol=0.005)
    np.testing.assert_allclose(after.components_sd_, before.components_sd_, rtol=0.03)


@pytest.mark.parametrize("scores", SCORES)
def test_one_hole_hardly_moves_weak_components_that_overlap(scores):
    loadings = np.zeros((3, 40))
    loadings[0, :20], loadings[1, 15:25], loadings[2, 32:36] = 1.0, [1.3, -1.3] * 5, 1.5
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3)) @ loadings + 1.5 * rng.normal(size=(60, 40))
    hole = X.copy()
    hole[0, 0] = np.nan
    before, after = (EBCD(3, scores=scores).fit(data) for data in (X, hole))
    np.testing.assert_allclose(after.components_, before.components_, rtol=0, atol=0.04)
    np.testing.assert_allclose(after.explained_variance_, before.explained_variance_, rtol=0.01)
