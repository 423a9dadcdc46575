"""Fits to data with missing entries, against brute force, one row and one feature at a time."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse, stats

from ebcd.data import Observed, Reading, as_input
from ebcd.fitting._components import count_in_rows
from ebcd.fitting._decompose import Problem, decompose
from ebcd.fitting._missing import (
    IncompleteRows,
    _model,
    count_observed,
    decompose_observed,
    principal_point,
)
from ebcd.fitting._noise import NOISES, ConstantNoise
from ebcd.fitting._progress import Monitor
from ebcd.fitting._scores import (
    SCORES,
    IntegratedScores,
    OrthogonalScores,
    Point,
    RelaxedScores,
    iterate,
)
from ebcd.fitting._shrinkers import NormalMeansShrinker
from ebcd.metrics import component_angles
from ebcd.priors import make_family

N, P, K = 30, 8, 2
MODELS = [OrthogonalScores(), RelaxedScores(), IntegratedScores()]


def observed_data(n=N, p=P, k=K, seed=0, share=0.25, center=True, noise=1.0):
    rng = np.random.default_rng(seed)
    loadings = 2 * rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.7)
    X = rng.normal(size=(n, k)) @ loadings + noise * rng.normal(size=(n, p)) + 1
    holes = rng.random((n, p)) < share
    holes[np.arange(n), rng.integers(p, size=n)] = False
    holes[:2] = False  # so that every feature varies
    holes[5] = np.arange(p) != 3  # a row of which hardly anything is known
    X[holes] = np.nan
    return as_input(X, center, False, reading=Reading(holes=True)).observed


def some_point(observed, seed=1, precision=(1.3,)):
    """Loadings, variances, precisions and shifts as they come."""
    rng = np.random.default_rng(seed)
    p = observed.counts.size
    shift = 0.1 * rng.normal(size=p) * observed.center
    return Point(
        rng.normal(size=(1, K, p)),
        0.05 * rng.random((1, K, p)),
        np.broadcast_to(precision, (1, len(precision))),
        np.full((1, K), None, dtype=object),
        shift[None],
    )


def seen_rows(observed):
    return ~observed.missing.toarray().astype(bool)


def posterior_of_rows(observed, point):
    """Means and covariances of normal scores by Bayes' theorem, one row after the other."""
    loadings, variances, shift = point.loadings[0], point.spread[0], point.shift[0]
    tau = np.broadcast_to(point.precision[0], shift.shape)
    means, covariances = [], []
    for x, seen in zip(observed.values, seen_rows(observed), strict=True):
        inner = np.eye(len(loadings))
        along = np.zeros(len(loadings))
        for j in np.flatnonzero(seen):
            second = np.outer(loadings[:, j], loadings[:, j]) + np.diag(variances[:, j])
            inner += tau[j] * second
            along += tau[j] * loadings[:, j] * (x[j] - shift[j])
        covariances.append(np.linalg.inv(inner))
        means.append(covariances[-1] @ along)
    return np.array(means), np.array(covariances)


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("precision", [(1.3,), tuple(np.linspace(0.5, 2, P))])
def test_integrated_scores_are_those_of_bayes_theorem(center, precision):
    observed = observed_data(center=center)
    point = some_point(observed, precision=precision)
    moments, rotated = IncompleteRows(observed).scores_given(IntegratedScores(), point)
    means, covariances = posterior_of_rows(observed, point)
    if center:  # which at the optimum it is anyway
        means -= means.mean(axis=0)
    divergence = 0.0
    for m, v in zip(means, covariances, strict=True):
        divergence += 0.5 * (np.trace(v) + m @ m - K - np.linalg.slogdet(v)[1])
    np.testing.assert_allclose(moments.term, -divergence, rtol=1e-10)
    for j, seen in enumerate(seen_rows(observed).T):
        z, n = means[seen], seen.sum()
        second = (z.T @ z + covariances[seen].sum(axis=0)) / n
        centre = z.mean(axis=0) if center else np.zeros(K)
        np.testing.assert_allclose(moments.seen.centre[0, :, j], centre, atol=1e-10)
        np.testing.assert_allclose(
            moments.seen.second[0, :, :, j], second - np.outer(centre, centre), atol=1e-10
        )
        np.testing.assert_allclose(rotated[0, :, j], z.T @ observed.values[seen, j] / n, atol=1e-10)


def objective_of_scores(observed, point, scores, z):
    """Log-likelihood of what was observed and density of the scores, entry by entry."""
    loadings, variances, shift = point.loadings[0], point.spread[0], point.shift[0]
    tau = float(point.precision[0, 0])
    seen = seen_rows(observed)
    rest = observed.values - shift - z @ loadings
    value = -0.5 * tau * ((rest**2 + z**2 @ variances) * seen).sum()
    shares = seen.mean(axis=1)
    n = shares.sum()
    value -= 0.5 * ((1 - shares) * ((z**2).sum(axis=1) - K)).sum()
    second = (z.T * shares) @ z / n
    if isinstance(scores, RelaxedScores):
        value += 0.5 * (len(z) - K - 1) * np.linalg.slogdet(second)[1]
        value -= 0.5 * n * (np.trace(second) - K)
    return value, second


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("scores", MODELS[:2], ids=["orthogonal", "relaxed"])
def test_estimated_scores_maximise_the_objective(scores, center):
    """No other scores that the model allows are better."""
    observed = observed_data(center=center)
    point = some_point(observed)
    shares = seen_rows(observed).mean(axis=1)
    _, found, z = IncompleteRows(observed)._solved(scores, point)
    reached, second = objective_of_scores(observed, point, scores, z)
    if isinstance(scores, OrthogonalScores):
        np.testing.assert_allclose(second, np.eye(K), atol=1e-9)
    np.testing.assert_allclose(found.second[0], second, atol=1e-8)
    if center:
        np.testing.assert_allclose(shares @ z, 0, atol=1e-8)

    def feasible(flat):
        z = flat.reshape(-1, K)
        z = z - shares @ z / shares.sum() * center
        if isinstance(scores, OrthogonalScores):
            values, vectors = np.linalg.eigh((z.T * shares) @ z / shares.sum())
            z = z @ (vectors / np.sqrt(values)) @ vectors.T
        return z

    best = optimize.minimize(
        lambda flat: -objective_of_scores(observed, point, scores, feasible(flat))[0],
        z.ravel(),
        method="L-BFGS-B",
        options={"maxiter": 300, "maxfun": 40_000},
    )
    assert -best.fun <= reached + 1e-5


@pytest.mark.parametrize("scores", MODELS)
@pytest.mark.parametrize("noise", sorted(NOISES))
def test_objective_is_the_bound_of_what_was_observed(scores, noise):
    """Entry by entry: likelihood, scores and loadings."""
    observed = observed_data()
    model = _model(
        observed,
        NOISES[noise](observed.counts, observed.variances),
        NormalMeansShrinker([make_family("normal")] * K),
    )
    precision = (1.3,) if noise == "constant" else tuple(np.linspace(0.5, 2, P))
    point = some_point(observed, precision=precision)
    states = iterate(model, scores, point, one_by_one=True)
    mean, variance = states.shrunk.mean[0], states.shrunk.variance[0]
    tau = np.broadcast_to(states.precision[0], P)
    shift = -(states.moments.seen.centre[0] * mean).sum(axis=0)
    if scores.uncertain:
        z, covariances = posterior_of_rows(observed, point)
        z -= z.mean(axis=0)
    else:
        z = IncompleteRows(observed)._solved(scores, point)[2]
        covariances = np.zeros((N, K, K))
    expected = 0.0
    for i, j in np.argwhere(seen_rows(observed)):
        second = np.outer(z[i], z[i]) + covariances[i]
        square = (observed.values[i, j] - shift[j] - mean[:, j] @ z[i]) ** 2
        square += mean[:, j] @ covariances[i] @ mean[:, j] + np.diag(second) @ variance[:, j]
        expected += 0.5 * np.log(tau[j] / (2 * np.pi)) - 0.5 * tau[j] * square
    for k in range(K):
        scale = states.shrunk.priors[0, k].parameters["scale"]
        ratio = variance[k] / scale**2
        expected -= 0.5 * (ratio + mean[k] ** 2 / scale**2 - 1 - np.log(ratio)).sum()
    if noise == "per_feature":
        ratio = tau * observed.variances
        expected += 0.1 * (observed.counts * (np.log(ratio) - ratio)).sum()
    np.testing.assert_allclose(states.value[0], expected + states.moments.term[0], rtol=1e-9)


def problem_of(observed, scores=None, noise="constant", prior="point_laplace", k=K, tol=1e-6):
    model = NOISES[noise](observed.counts, observed.variances)
    priors = [make_family(prior)] * k
    return Problem(observed.covariance(), model, priors, tol, 500, Monitor(), SCORES[scores])


@pytest.mark.parametrize("scores", sorted(SCORES))
@pytest.mark.parametrize("noise", sorted(NOISES))
def test_without_holes_it_is_the_fit_of_complete_data(scores, noise):
    rng = np.random.default_rng(3)
    loadings = np.zeros((K, P))
    loadings[0, :4], loadings[1, 4:] = [3, 2, -2, 1], [2, 1.5, -1, 1]
    X = rng.normal(size=(60, K)) @ loadings + rng.normal(size=(60, P))
    X -= X.mean(axis=0)
    none = sparse.csr_array((60, P))
    observed = Observed(X, none, (X**2).mean(axis=0), True, 1.0)
    given = problem_of(observed, scores, noise, tol=1e-9)
    found = decompose_observed(given, observed, "auto", np.random.default_rng(0)).state
    counts = NOISES[noise](60, observed.variances)
    given = replace(given, noise=counts, monitor=Monitor())
    expected = decompose(given, "auto", np.random.default_rng(0)).state
    assert abs(found.value - expected.value) < 1e-5
    order = np.argmax(np.abs(found.mean @ expected.mean.T), axis=0)
    signs = np.sign((found.mean[order] * expected.mean).sum(axis=1))[:, None]
    np.testing.assert_allclose(signs * found.mean[order], expected.mean, atol=2e-4)
    np.testing.assert_allclose(found.variance[order], expected.variance, atol=2e-4)
    np.testing.assert_allclose(found.precision, expected.precision, rtol=1e-4)


@pytest.mark.slow
@settings(deadline=None, max_examples=6)
@given(
    seed=st.integers(0, 10_000),
    share=st.floats(0.02, 0.6),
    scores=st.sampled_from(sorted(SCORES)),
    noise=st.sampled_from(sorted(NOISES)),
    center=st.booleans(),
    prior=st.sampled_from(["point_laplace", "point_exponential", "normal_scale_mixture"]),
)
def test_objective_never_falls(seed, share, scores, noise, center, prior):
    observed = observed_data(seed=seed, share=share, center=center)
    fit = decompose_observed(
        problem_of(observed, scores, noise, prior), observed, "auto", np.random.default_rng(0)
    )
    path = np.array(fit.path)
    assert np.isfinite(path).all()
    assert (np.diff(path) >= -1e-7 * np.abs(path[1:])).all()
    assert np.isfinite(fit.state.mean).all()


def test_expectations_are_those_of_the_gaussian():
    observed = observed_data(share=0.4)
    point = some_point(observed)._replace(spread=np.zeros((1, K, P)))
    loadings, tau, shift = point.loadings[0], float(point.precision[0, 0]), point.shift[0]
    covariance = loadings.T @ loadings + np.eye(P) / tau
    filled = observed.filled(IncompleteRows(observed).entries(point))
    for i in observed.holed:
        seen = seen_rows(observed)[i]
        slope = np.linalg.solve(covariance[np.ix_(seen, seen)], (observed.values[i] - shift)[seen])
        mean = shift[~seen] + covariance[np.ix_(~seen, seen)] @ slope
        np.testing.assert_allclose(filled[i, ~seen], mean, rtol=1e-9)


@pytest.mark.parametrize("precision", [(1.3,), tuple(np.linspace(0.5, 2, P))])
def test_scoring_steps_follow_the_slope_of_the_likelihood(precision):
    observed = observed_data(center=False)
    point = some_point(observed, precision=precision)
    point = point._replace(spread=0 * point.spread)
    tau = np.broadcast_to(precision, P)

    def log_likelihood(flat):
        loadings, total = flat.reshape(K, P), 0.0
        for x, seen in zip(observed.values, seen_rows(observed), strict=True):
            law = loadings[:, seen].T @ loadings[:, seen] + np.diag(1 / tau[seen])
            total += stats.multivariate_normal(cov=law).logpdf(x[seen])
        return total

    x, noise, _ = IncompleteRows(observed)._scored(point)
    slope = optimize.approx_fprime(point.loadings.ravel(), log_likelihood, 1e-6).reshape(K, P)
    np.testing.assert_allclose((x - point.loadings[0]) / noise, slope, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("precision", [(1.3,), tuple(np.linspace(0.5, 2, P))])
def test_noise_of_scoring_steps_is_that_of_a_regression_on_the_scores(precision):
    """Of what is known of them in the rows of a feature, other loadings being uncertain."""
    observed = observed_data(center=False)
    point = some_point(observed, precision=precision)
    tau, loadings, variances = np.broadcast_to(precision, P), point.loadings[0], point.spread[0]
    _, noise, _ = IncompleteRows(observed)._scored(point)
    means, covariances = posterior_of_rows(observed, point)
    for j, seen in enumerate(seen_rows(observed).T):
        z, error, n = means[seen], covariances[seen].mean(axis=0), seen.sum()
        residual = 1 / tau[j] + loadings[:, j] @ error @ loadings[:, j]
        for k in range(K):  # residuals tell of a loading by their size, too
            own = z[:, k] @ z[:, k] / n
            own += 2 * (error @ loadings[:, j])[k] ** 2 / residual
            rest = sum((z[:, k] @ z[:, i] / n / own) ** 2 * variances[i, j] for i in {0, 1} - {k})
            assert noise[k, j] == pytest.approx(residual / own / n + rest, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCORES)
def test_loadings_of_the_population_are_closer_to_the_truth(name):
    """With half of the entries missing; estimates lie about as far off as their noise says.

    Those of integrated scores hardly gain in problems as easy as these.
    """
    errors, z = np.zeros(2), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = np.where(rng.random((K, 40)) < 0.4, rng.laplace(size=(K, 40)), 0.0)
        X = rng.normal(size=(120, K)) @ truth + rng.normal(size=(120, 40))
        X[rng.random(X.shape) < 0.5] = np.nan
        data = as_input(X, True, False, reading=Reading(holes=True))
        noise = ConstantNoise(data.observed.counts, data.observed.variances)
        prior = make_family("point_laplace")
        problem = Problem(data.covariance, noise, [prior] * K, 1e-4, 500, Monitor(), SCORES[name])
        fitted = decompose_observed(problem, data.observed, "svd", np.random.default_rng(0)).state
        state = IncompleteRows(data.observed).population(SCORES[name], fitted)
        unit = data.observed.unit
        for i, found in enumerate((fitted.mean, state.mean)):
            errors[i] += (component_angles(truth.T, found.T) ** 2).sum()
        for row in truth:
            k = np.abs(state.mean @ row).argmax()
            z.append((np.sign(state.mean[k] @ row) * state.b[k] - row / unit) / state.noise[k])
    assert errors[1] < (1.02 if name == "integrated" else 0.9) * errors[0]
    assert 0.85 < np.sqrt(np.mean(np.square(z))) < 1.25


@pytest.mark.slow
def test_noise_of_features_that_are_hardly_ever_observed():
    """With 95 % missing, the few rows at hand are not what rows are on average."""
    z, truth = [], np.zeros((2, 20))
    truth[0, :8], truth[1, 10:18] = 2.0, 1.5
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(200, 2)) @ truth + rng.normal(size=(200, 20))
        for j in (3, 15):
            X[rng.random(200) < 0.95, j] = np.nan
        data = as_input(X, True, False, reading=Reading(holes=True))
        problem = problem_of(data.observed, "integrated", tol=1e-4)
        fitted = decompose_observed(problem, data.observed, "svd", rng).state
        state = IncompleteRows(data.observed).population(problem.scores, fitted)
        for row, j in zip(truth, (3, 15), strict=True):
            k = np.abs(state.mean @ row).argmax()
            error = np.sign(state.mean[k] @ row) * state.b[k, j] - row[j] / data.observed.unit
            z.append(error / state.noise[k, j])
    assert 0.8 < np.sqrt(np.mean(np.square(z))) < 1.2


def test_principal_components_of_noise_free_data_fill_holes():
    observed = observed_data(n=60, noise=1e-3, share=0.2)
    rows, columns = observed.missing.nonzero()
    noise = ConstantNoise(observed.counts, observed.variances)
    point = principal_point(observed, noise, K, Monitor())
    rest = observed.values - observed.filled(0.0)
    assert not rest.any()
    found = IncompleteRows(observed).entries(point)
    rng = np.random.default_rng(0)
    loadings = 2 * rng.laplace(size=(K, P)) * (rng.random((K, P)) < 0.7)
    z = rng.normal(size=(60, K)) @ loadings
    truth = (z + 1 + 1e-3 * rng.normal(size=(60, P))) / observed.unit
    means = truth - observed.filled(0.0)
    means = np.where(seen_rows(observed), means, np.nan)
    truth -= np.nanmean(means, axis=0)
    known = rows != 5  # one entry does not tell two scores
    np.testing.assert_allclose(found[known], truth[rows, columns][known], atol=0.1)


@pytest.mark.parametrize("strengths", [[], [3.0, 2.0, 1.5]])
def test_number_of_components(strengths):
    """None of noise; all of three that stand out."""
    wrong = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 30))
        for j, strength in enumerate(strengths):
            X[:, 8 * j : 8 * j + 8] += strength * rng.normal(size=(80, 1))
        X[rng.random(X.shape) < 0.2] = np.nan
        observed = as_input(X, True, False, reading=Reading(holes=True)).observed
        found = count_observed(observed, lambda rows: count_in_rows(rows, True), Monitor(), 30)
        wrong += found != len(strengths)
    assert wrong <= 1


def test_number_of_components_when_a_step_goes_too_far():
    """A component that is not filled in yet may look like two."""
    X = np.random.default_rng(0).normal(size=(60, 12))
    X[0, 0] = np.nan
    observed = as_input(X, True, False, reading=Reading(holes=True)).observed
    counts = iter([4, 4, 4, 6, 6, 6, 5])  # with 0, 1, 2, 3, 4, 6 and then 5 of them in place
    assert count_observed(observed, lambda rows: next(counts), Monitor(), 10) == 5
