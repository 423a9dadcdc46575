"""Mixture weights: optimality is checked by derivatives computed here, EM and other optimisers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats

from ebcd import ebnm
from ebcd.priors._weights import fit_weights

SEEDS = st.integers(0, 2**32 - 1)


def log_likelihood(rows, counts, weights):
    with np.errstate(divide="ignore"):
        return float(counts @ special.logsumexp(rows + np.log(weights)[:, None], axis=0))


def slack(rows, counts, weights):
    """Largest directional derivative less n: bounds what is missing to the maximum."""
    with np.errstate(divide="ignore"):
        log_density = special.logsumexp(rows + np.log(weights)[:, None], axis=0)
    return float((np.exp(rows - log_density) @ counts).max() - counts.sum())


def em(rows, counts, steps):
    likelihood = np.exp(rows - rows.max(axis=0))
    weights = np.full(rows.shape[0], 1 / rows.shape[0])
    for _ in range(steps):
        weights = weights * (likelihood @ (counts / (weights @ likelihood)))
        weights /= weights.sum()
    return weights


def random_problem(seed, kind, n_components, n):
    """Log-likelihoods of components (rows) at observations (columns)."""
    rng = np.random.default_rng(seed)
    if kind == "anything":
        return rng.normal(scale=rng.choice([0.01, 1.0, 30.0]), size=(n_components, n))
    x = rng.normal(size=n) * rng.choice([1.0, 4.0])
    if kind == "scales":
        scales = np.geomspace(0.1, 8.0, n_components)[:, None]
        return stats.norm.logpdf(x, 0.0, np.sqrt(1 + scales**2))
    places = np.linspace(-6.0, 6.0, n_components)[:, None]
    return stats.norm.logpdf(x, places, 1.0)


PROBLEMS = {
    "seed": SEEDS,
    "kind": st.sampled_from(["anything", "scales", "locations"]),
    "n_components": st.integers(1, 12),
    "n": st.integers(1, 60),
}


class TestOptimality:
    @given(**PROBLEMS, weighted=st.booleans())
    @settings(max_examples=50)
    def test_certificate(self, seed, kind, n_components, n, weighted):
        rows = random_problem(seed, kind, n_components, n)
        counts = np.random.default_rng(seed).integers(1, 9, n).astype(float) if weighted else None
        fit = fit_weights(rows, counts)
        counts = np.ones(n) if counts is None else counts
        assert fit.weights.shape == (n_components,)
        assert (fit.weights >= 0).all()
        np.testing.assert_allclose(fit.weights.sum(), 1.0, rtol=1e-12)
        value = log_likelihood(rows, counts, fit.weights)
        np.testing.assert_allclose(fit.log_likelihood, value, rtol=1e-11, atol=1e-11)
        missing = slack(rows, counts, fit.weights)
        assert missing <= 1e-6 * counts.sum()
        assert fit.certificate >= 0
        np.testing.assert_allclose(fit.certificate, max(missing / counts.sum(), 0), atol=1e-9)

    @given(**PROBLEMS)
    @settings(max_examples=25)
    def test_em_is_not_better(self, seed, kind, n_components, n):
        rows = random_problem(seed, kind, n_components, n)
        best = log_likelihood(rows, np.ones(n), em(rows, np.ones(n), 5000))
        assert fit_weights(rows).log_likelihood >= best - 1e-6 * n

    @given(seed=SEEDS, kind=PROBLEMS["kind"], n=st.integers(5, 40))
    @settings(max_examples=25)
    @pytest.mark.slow
    def test_another_optimiser_is_not_better(self, seed, kind, n):
        rows = random_problem(seed, kind, 4, n)
        found = optimize.minimize(
            lambda t: -log_likelihood(rows, np.ones(n), special.softmax(np.append(t, 0.0))),
            np.zeros(3),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
        )
        assert fit_weights(rows).log_likelihood >= -found.fun - 1e-7 * n

    def test_two_components_by_hand(self):
        # a observations that only the first component explains, b that only the second does
        rows = np.log(np.array([[1.0] * 3 + [1e-12] * 7, [1e-12] * 3 + [1.0] * 7]))
        fit = fit_weights(rows)
        np.testing.assert_allclose(fit.weights, [0.3, 0.7], atol=1e-9)
        np.testing.assert_allclose(fit.log_likelihood, 3 * np.log(0.3) + 7 * np.log(0.7), rtol=1e-9)


class TestInvariance:
    @given(**PROBLEMS)
    @settings(max_examples=25)
    def test_counts_are_repeats(self, seed, kind, n_components, n):
        rows = random_problem(seed, kind, n_components, n)
        counts = np.random.default_rng(seed).integers(1, 5, n)
        weighted = fit_weights(rows, counts.astype(float))
        repeated = fit_weights(np.repeat(rows, counts, axis=1))
        np.testing.assert_allclose(
            weighted.log_likelihood, repeated.log_likelihood, atol=1e-6, rtol=1e-12
        )

    @given(**PROBLEMS)
    @settings(max_examples=25)
    def test_order_of_observations_and_components(self, seed, kind, n_components, n):
        rng = np.random.default_rng(seed)
        rows = random_problem(seed, kind, n_components, n)
        mixed = rows[rng.permutation(n_components)][:, rng.permutation(n)]
        value = fit_weights(rows).log_likelihood
        np.testing.assert_allclose(fit_weights(mixed).log_likelihood, value, atol=1e-6, rtol=1e-12)

    @given(**PROBLEMS, offset=st.sampled_from([-1e6, -700.0, 5.0, 800.0]))
    @settings(max_examples=25)
    def test_scale_of_each_observation(self, seed, kind, n_components, n, offset):
        rows = random_problem(seed, kind, n_components, n)
        shifts = np.where(np.arange(n) % 2 == 0, offset, 0.0)
        plain = fit_weights(rows)
        moved = fit_weights(rows + shifts)
        np.testing.assert_allclose(
            moved.log_likelihood - shifts.sum(), plain.log_likelihood, atol=1e-6, rtol=1e-9
        )
        assert moved.certificate <= 1e-6

    @given(**PROBLEMS)
    @settings(max_examples=25)
    def test_repeated_components_change_nothing(self, seed, kind, n_components, n):
        rows = random_problem(seed, kind, n_components, n)
        once = fit_weights(rows)
        twice = fit_weights(np.concatenate([rows, rows]))
        np.testing.assert_allclose(twice.log_likelihood, once.log_likelihood, atol=1e-6, rtol=1e-12)


class TestStart:
    @given(**PROBLEMS, vertex=st.booleans())
    @settings(max_examples=50)
    def test_any_start_ends_at_the_maximum(self, seed, kind, n_components, n, vertex):
        rows = random_problem(seed, kind, n_components, n)
        if vertex:
            start = np.eye(n_components)[seed % n_components]
        else:
            start = np.random.default_rng(seed).dirichlet(np.full(n_components, 0.3))
        cold, warm = (
            fit_weights(rows),
            fit_weights(rows, start=start),
        )
        assert warm.log_likelihood >= log_likelihood(rows, np.ones(n), start) - 1e-9 * n
        np.testing.assert_allclose(
            warm.log_likelihood, cold.log_likelihood, atol=1e-6 * n, rtol=1e-12
        )
        assert slack(rows, np.ones(n), warm.weights) <= 1e-6 * n

    def test_weights_need_not_be_normalised(self):
        rows = random_problem(0, "scales", 5, 30)
        fit = fit_weights(rows, start=np.full(5, 7.0))
        np.testing.assert_allclose(fit.weights.sum(), 1.0, rtol=1e-12)
        assert fit.certificate <= 1e-6


class TestDegenerate:
    def test_one_component(self):
        rows = random_problem(1, "anything", 1, 9)
        fit = fit_weights(rows)
        np.testing.assert_array_equal(fit.weights, [1.0])
        np.testing.assert_allclose(fit.log_likelihood, rows.sum(), rtol=1e-12)
        assert fit.certificate <= 1e-12

    def test_one_observation_takes_its_best_component(self):
        rows = np.array([[-5.0], [-1.0], [-3.0]])
        fit = fit_weights(rows)
        np.testing.assert_allclose(fit.log_likelihood, -1.0, atol=1e-6)

    def test_equal_components(self):
        rows = np.tile(np.random.default_rng(0).normal(size=(1, 20)), (6, 1))
        fit = fit_weights(rows)
        np.testing.assert_allclose(fit.log_likelihood, rows[0].sum(), rtol=1e-12)
        assert fit.certificate <= 1e-6

    def test_component_that_cannot_have_made_the_data(self):
        rows = random_problem(2, "scales", 4, 25)
        impossible = np.concatenate([rows, np.full((1, 25), -np.inf)])
        fit = fit_weights(impossible)
        assert fit.weights[-1] <= 1e-9
        np.testing.assert_allclose(fit.log_likelihood, fit_weights(rows).log_likelihood, atol=1e-6)

    def test_observations_that_only_far_components_explain(self):
        # each component explains one observation and underflows at all others
        rows = np.where(np.eye(6, dtype=bool), 0.0, -1e5)
        fit = fit_weights(rows)
        np.testing.assert_allclose(fit.weights, 1 / 6, rtol=1e-6)
        np.testing.assert_allclose(fit.log_likelihood, -6 * np.log(6), rtol=1e-9)

    def test_start_that_excludes_an_observation(self):
        # weight only where the likelihood of one observation underflows
        rows = np.where(np.eye(3, dtype=bool), 0.0, -1e5)
        fit = fit_weights(rows, start=np.array([1.0, 0.0, 0.0]))
        np.testing.assert_allclose(fit.log_likelihood, -3 * np.log(3), rtol=1e-6)


@pytest.mark.parametrize("reach", [1e4, 1e8])
def test_observations_far_apart(reach):
    n = 300
    x = np.random.default_rng(0).uniform(-reach, reach, n)
    result = ebnm(x, 1.0, "npmle")
    assert np.isfinite(result.mean).all()
    # an atom at every observation is one of the candidates
    assert result.log_likelihood >= n * stats.norm.logpdf(0.0) - n * np.log(n) - 0.01
