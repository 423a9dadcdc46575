"""The paper's theorems, lemmas and propositions as properties of fits to random data.

Kang and Stephens, "Empirical Bayes Covariance Decomposition, and a Solution to the Multiple Tuning
Problem in Sparse PCA". Its main text has ``Z'Z = I``; loadings are then ``sqrt(n)`` times ours.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebcd import EBCD, PenalizedPCA, ebnm
from ebcd.metrics import bures_wasserstein
from ebcd.penalties import make_penalty

SEEDS = st.integers(0, 2**32 - 1)
NOISES = st.sampled_from(["constant", "per_feature"])
PENALTIES = ["l1", "l0", "scad", "mcp", "elastic_net", "nonnegative_l1"]
FAMILIES = ["point_laplace", "point_normal", "normal", "point_exponential"]


def draw(seed, n=30, p=7, k=2):
    """Centred data with sparse components."""
    rng = np.random.default_rng(seed)
    L = rng.laplace(size=(p, k)) * (rng.random((p, k)) < 0.6) * np.linspace(3, 2, k)
    X = rng.normal(size=(n, k)) @ np.abs(L).T + rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def polar(A):
    left, _, right = np.linalg.svd(A, full_matrices=False)
    return left @ right


def orthonormal(rng, n, k):
    return np.linalg.qr(rng.normal(size=(n, k)))[0]


def penalized(X, penalty, alpha=1.5, n_samples=None):
    model = PenalizedPCA(2, penalty=penalty, alpha=alpha, tol=1e-12, max_iter=5000, center=False)
    return model.fit(X, n_samples=n_samples)


def strength(penalty, alpha, v):
    """Penalty of loadings on the scale of the main text."""
    of_one = make_penalty(penalty)
    if penalty in ("scad", "mcp"):  # their kinks are at multiples of lambda
        return alpha**2 * of_one.value(v / alpha).sum()
    return alpha * of_one.value(v).sum()


class TestLemmas:
    @given(SEEDS, st.sampled_from([(12, 5, 3), (4, 9, 2), (6, 6, 6)]))
    def test_nuclear_norms(self, seed, shape):
        """Lemma 1: the distance of covariances is one of factors, less a nuclear norm."""
        rng = np.random.default_rng(seed)
        n, p, k = shape
        X, L = rng.normal(size=(n, p)), rng.normal(size=(p, k))
        nuclear = np.linalg.norm(X @ L, "nuc")
        assert np.trace((X @ L).T @ polar(X @ L)) == pytest.approx(nuclear)
        squared = (X**2).sum() + (L**2).sum() - 2 * nuclear
        assert bures_wasserstein(X.T @ X, L @ L.T) ** 2 == pytest.approx(squared, rel=1e-7)

    @given(SEEDS, st.sampled_from(PENALTIES))
    @settings(max_examples=20)
    def test_least_residual(self, seed, penalty):
        """Lemma 2: scores that fit best leave the distance as residual, and no others do."""
        X, rng = draw(seed), np.random.default_rng(seed)
        n, root = len(X), np.sqrt(len(X))
        model = penalized(X, penalty)
        L = root * model.components_.T
        residual = np.linalg.norm(X - model.transform(X) / root @ L.T)
        assert bures_wasserstein(X.T @ X, L @ L.T) == pytest.approx(residual, rel=1e-7)
        others = (orthonormal(rng, n, L.shape[1]) for _ in range(20))
        assert min(np.linalg.norm(X - Z @ L.T) for Z in others) > residual


class TestTheorems:
    @given(SEEDS, st.sampled_from(PENALTIES))
    @settings(max_examples=20)
    def test_penalized_covariance_criterion(self, seed, penalty):
        """Theorem 1: penalised PCA minimises the penalised distance of covariances."""
        X, rng, alpha = draw(seed), np.random.default_rng(seed), 1.5
        S = X.T @ X
        model = penalized(X, penalty, alpha)
        L = np.sqrt(len(X)) * model.components_.T

        def criterion(L):
            return 0.5 * bures_wasserstein(S, L @ L.T) ** 2 + strength(penalty, alpha, L)

        Z = model.transform(X) / np.sqrt(len(X))
        residual = 0.5 * ((X - Z @ L.T) ** 2).sum()
        least = criterion(L)
        assert least == pytest.approx(residual + strength(penalty, alpha, L), rel=1e-7)
        entries = np.eye(L.size).reshape(L.size, *L.shape)
        directions = [*entries, *(-entries), *rng.normal(size=(10, *L.shape))]
        nearby = [L + size * d for size in (1e-3, 1e-2, 0.1) for d in directions]
        assert min(criterion(other) for other in nearby) >= least * (1 - 1e-7)

    @given(SEEDS, st.sampled_from(PENALTIES))
    @settings(max_examples=20)
    def test_equivalent_problems(self, seed, penalty):
        """Theorem 2: the data, any C with C'C = X'X and the covariance give the same loadings."""
        X = draw(seed)
        n = len(X)
        left, d, right = np.linalg.svd(X, full_matrices=False)
        C = right.T * d @ right
        of_data, of_square = penalized(X, penalty), penalized(C, penalty, n_samples=n)
        np.testing.assert_allclose(of_square.components_, of_data.components_, atol=1e-6)
        scores = of_data.transform(X)
        back = left @ right @ of_square.transform(C)
        np.testing.assert_allclose(back, scores, atol=1e-5)

    @given(SEEDS, st.sampled_from(FAMILIES), NOISES)
    @settings(max_examples=12)
    def test_equivalent_problems_of_empirical_bayes(self, seed, family, noise):
        """The same with priors in place of penalties."""
        X = draw(seed)
        _, d, right = np.linalg.svd(X, full_matrices=False)
        options = {"prior": family, "noise": noise, "tol": 1e-9, "center": False}
        models = [
            EBCD(2, **options).fit(X),
            EBCD(2, **options).fit(d[:, None] * right, n_samples=len(X)),
            EBCD(2, **options).fit_covariance(X.T @ X / len(X), len(X)),
        ]
        for model in models[1:]:
            assert model.elbo_ == pytest.approx(models[0].elbo_, abs=1e-6)
            np.testing.assert_allclose(model.components_, models[0].components_, atol=1e-4)


def bound(X, Z, tau, mean, variance, divergence):
    """The evidence lower bound, of scores with Z'Z = n I and precisions (p,)."""
    squares = ((X - Z @ mean.T) ** 2).sum(axis=0) + len(X) * variance.sum(axis=1)
    return 0.5 * (len(X) * np.log(tau / (2 * np.pi)) - tau * squares).sum() - divergence


def shrunk(X, Z, tau, family):
    """Posterior means, variances, and divergences from the priors of the normal-means step."""
    n = len(X)
    s, B = 1 / np.sqrt(n * tau), X.T @ Z / n
    fits = [ebnm(b, s, family) for b in B.T]
    mean, sd = (np.column_stack([getattr(fit, of) for fit in fits]) for of in ("mean", "sd"))
    expected = -0.5 * (((B - mean) ** 2 + sd**2) / s[:, None] ** 2).sum()
    expected -= B.shape[1] * (0.5 * np.log(2 * np.pi * s**2)).sum()
    return mean, sd**2, expected - sum(fit.log_likelihood for fit in fits)


class TestPropositions:
    @given(SEEDS, st.sampled_from(FAMILIES), st.booleans())
    @settings(max_examples=25)
    def test_every_step_raises_the_bound(self, seed, family, uneven):
        """Propositions 1 and 3: normal means, rotation, precision."""
        X, rng = draw(seed), np.random.default_rng(seed)
        n, p = X.shape
        Z = np.sqrt(n) * orthonormal(rng, n, 2)
        tau = rng.uniform(0.2, 2.0, p if uneven else 1) * np.ones(p)
        posterior = shrunk(X, Z, tau, family)
        values = [bound(X, Z, tau, *posterior)]
        for _ in range(3):
            mean, variance, _ = posterior
            Z = np.sqrt(n) * polar(X @ (tau[:, None] * mean))
            values.append(bound(X, Z, tau, *posterior))
            squares = ((X - Z @ mean.T) ** 2).sum(axis=0) + n * variance.sum(axis=1)
            tau = n / squares if uneven else np.full(p, n * p / squares.sum())
            values.append(bound(X, Z, tau, *posterior))
            posterior = shrunk(X, Z, tau, family)
            values.append(bound(X, Z, tau, *posterior))
        assert (np.diff(values) >= -1e-6).all()

    @given(SEEDS, st.sampled_from(FAMILIES))
    @settings(max_examples=25)
    def test_a_fit_is_a_fixed_point_of_the_steps(self, seed, family):
        """Proposition 1: no step changes a fit that has converged."""
        X = draw(seed)
        n, p = X.shape
        model = EBCD(2, prior=family, tol=1e-10).fit(X)
        Z, L = model.transform(X), model.components_.T
        tau = np.full(p, 1 / model.noise_variance_)
        np.testing.assert_allclose(np.sqrt(n) * polar(X @ L), Z, atol=1e-7)
        mean, variance, divergence = shrunk(X, Z, tau, family)
        np.testing.assert_allclose(mean, L, atol=1e-4)
        squares = ((X - Z @ L.T) ** 2).sum() + n * (model.components_sd_**2).sum()
        assert squares / X.size == pytest.approx(model.noise_variance_, rel=1e-5)
        assert model.elbo_ == pytest.approx(bound(X, Z, tau, mean, variance, divergence), abs=1e-5)
        assert (np.diff(model.elbo_path_) >= -1e-9 * np.abs(model.elbo_path_[1:])).all()

    @given(SEEDS, st.sampled_from(FAMILIES))
    @settings(max_examples=25)
    def test_empirical_bayes_is_penalized(self, seed, family):
        """Proposition 2: the bound is a residual and the penalty that the fitted prior induces."""
        X = draw(seed)
        n = len(X)
        model = EBCD(2, prior=family, tol=1e-10).fit(X)
        tau, L = 1 / model.noise_variance_, model.components_
        s = 1 / np.sqrt(n * tau)
        penalty = sum(
            prior.penalty(row, s).sum() for prior, row in zip(model.priors_, L, strict=True)
        )
        residual = ((X - model.transform(X) @ L) ** 2).sum()
        value = 0.5 * X.size * np.log(tau / (2 * np.pi)) - 0.5 * tau * residual - penalty
        assert value == pytest.approx(model.elbo_, abs=1e-4)

    @given(SEEDS)
    @settings(max_examples=15)
    def test_scores_fit_weighted_data_best(self, seed):
        """Fact 1: with precisions per feature the scores are the polar factor of X T L."""
        X, rng = draw(seed), np.random.default_rng(seed)
        n, root = len(X), np.sqrt(len(X))
        model = EBCD(2, noise="per_feature").fit(X * np.geomspace(0.3, 3.0, X.shape[1]))
        data = X * np.geomspace(0.3, 3.0, X.shape[1])
        L, tau = model.components_.T, 1 / model.noise_variance_
        Z = model.transform(data)
        np.testing.assert_allclose(Z, root * polar(data @ (tau[:, None] * L)), atol=1e-7)

        def squares(Z):
            return (tau * (data - Z @ L.T) ** 2).sum()

        turns = (orthonormal(rng, n, n) for _ in range(5))
        turned = [root * polar(Z / root + 1e-2 * turn[:, : Z.shape[1]]) for turn in turns]
        turned += [root * orthonormal(rng, n, Z.shape[1]) for _ in range(10)]
        assert min(squares(other) for other in turned) > squares(Z)
