"""States and shrinkers: the ELBO against the paper's formula, stacks against each start alone."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from ebcd.fitting._noise import NOISES
from ebcd.fitting._shrinkers import NormalMeansShrinker, SpikeSlabShrinker
from ebcd.fitting._states import Model, nearest_orthonormal, together
from ebcd.priors import make_family

N, P, K, M = 40, 15, 2, 3
SLABS = ["point_laplace", "point_normal", "point_exponential", "normal", "laplace"]


def draw(seed=0):
    rng = np.random.default_rng(seed)
    loadings = rng.laplace(size=(K, P)) * (rng.random((K, P)) < 0.5) * 2
    X = rng.normal(size=(N, K)) @ loadings + rng.normal(size=(N, P))
    return X - X.mean(axis=0)


def model_of(X, noise="constant", prior="point_laplace", stepwise=True):
    family, variances = make_family(prior), (X**2).mean(axis=0)
    shrinker = SpikeSlabShrinker(family) if stepwise else NormalMeansShrinker([family] * K)
    return Model(X / np.sqrt(N), variances, NOISES[noise](N, variances), shrinker)


def stack(model, m=M, seed=1):
    """Random scores in a stack."""
    rng = np.random.default_rng(seed)
    return model.start(rng.normal(size=(m, K, N)) @ model.factor @ model.factor.T)


def elbo(X, states, i, fitted, noise):
    """The ELBO written out for the i-th state: residuals of the data, and divergences."""
    b, s = states.b[i], np.broadcast_to(states.noise[i, 0], P)
    mean, variance = states.shrunk.mean[i], states.shrunk.variance[i]
    Z = np.sqrt(N) * states.coordinates[i].T
    tau = np.broadcast_to(states.precision[i], P)
    squares = ((X - Z @ mean) ** 2).sum(axis=0) + N * variance.sum(axis=0)
    value = 0.5 * (N * np.log(tau / (2 * np.pi)) - tau * squares).sum()
    if noise == "per_feature":  # a fifth of the samples seen again as pure noise
        ratio = tau * (X**2).mean(axis=0)
        value += 0.1 * N * (np.log(ratio) - ratio).sum()
    for k, prior in enumerate(fitted[i]):
        expected = stats.norm.logpdf(b[k], mean[k], s) - variance[k] / (2 * s**2)
        value += np.sum(prior.log_likelihood(b[k], s)) - expected.sum()
    return value


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", SLABS)
def test_elbo_is_that_of_the_paper(noise, prior):
    X = draw()
    model = model_of(X, noise, prior)
    states = stack(model)
    fitted = model.shrinker.fitted(states.shrunk.priors)
    expected = [elbo(X, states, i, fitted, noise) for i in range(M)]
    np.testing.assert_allclose(states.value, expected, rtol=1e-9)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", [*SLABS, "npmle", "generalized_binary"])
def test_elbo_with_solved_normal_means(noise, prior):
    X = draw()
    states = stack(model_of(X, noise, prior, stepwise=False), m=2)
    expected = [elbo(X, states, i, states.shrunk.priors, noise) for i in range(2)]
    np.testing.assert_allclose(states.value, expected, rtol=1e-9)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", SLABS)
def test_both_shrinkers_agree_at_the_same_priors(noise, prior):
    model = model_of(draw(), noise, prior)
    states = stack(model)
    fitted = model.shrinker.fitted(states.shrunk.priors)
    for i in range(M):
        kept = NormalMeansShrinker(list(fitted[i]))
        one = kept.shrink(states.b[[i]], states.noise[[i]], fitted[[i]])
        np.testing.assert_allclose(one.objective, states.shrunk.objective[i], rtol=1e-9)
        np.testing.assert_allclose(one.mean[0], states.shrunk.mean[i], atol=1e-9)
        np.testing.assert_allclose(one.variance[0], states.shrunk.variance[i], atol=1e-9)
        np.testing.assert_allclose(one.fit[0], states.shrunk.fit[i], atol=1e-9)


@pytest.mark.parametrize("prior", SLABS)
def test_steps_of_the_priors_lead_to_their_optimum(prior):
    """Newton's steps end where the solved normal-means problems are."""
    model = model_of(draw(), prior=prior)
    states = stack(model)
    at = states.shrunk
    for _ in range(60):
        here = replace(states, shrunk=at)
        priors = model.shrinker.next_priors(here, 0.0, np.full(M, 0.5))
        at = model.shrinker.shrink(states.b, states.noise, priors)
    exact = NormalMeansShrinker([make_family(prior)] * K)
    solved = exact.shrink(states.b, states.noise, exact.first(states.b, states.noise))
    np.testing.assert_allclose(at.objective, solved.objective, atol=1e-6)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("stepwise", [True, False])
def test_a_stack_is_as_each_alone(noise, stepwise):
    model = model_of(draw(), noise, stepwise=stepwise)
    states = stack(model)
    for i in range(M):
        alone = model.start(states.coordinates[[i]])
        np.testing.assert_allclose(alone.value, states.value[i], rtol=1e-12)
        np.testing.assert_allclose(alone.shrunk.mean[0], states.shrunk.mean[i], atol=1e-10)
        np.testing.assert_allclose(alone.precision[0], states.precision[i], rtol=1e-10)


def test_take_put_and_join():
    model = model_of(draw())
    states, others = stack(model), stack(model, seed=2)
    np.testing.assert_array_equal(states.take([2, 0]).value, states.value[[2, 0]])
    joined = together([states, others])
    assert len(joined) == 2 * M
    assert (np.diff(joined.value) <= 0).all()
    assert set(joined.value) == {*states.value, *others.value}
    chosen = np.array([True, False, True])
    kept = states.value[1]
    states.put(chosen, others)
    np.testing.assert_array_equal(states.value, [others.value[0], kept, others.value[2]])
    np.testing.assert_array_equal(states.shrunk.mean[2], others.shrunk.mean[2])


def test_scores_nearest_to_given_ones():
    """Orthonormal, and nearer than any others (Procrustes: the product is symmetric positive)."""
    given = np.random.default_rng(0).normal(size=(4, 3, 7))
    found = nearest_orthonormal(given)
    for rows, near in zip(given, found, strict=True):
        np.testing.assert_allclose(near @ near.T, np.eye(3), atol=1e-12)
        product = rows @ near.T
        np.testing.assert_allclose(product, product.T, atol=1e-12)
        assert np.linalg.eigvalsh(product).min() > 0


@pytest.mark.parametrize("prior", ["point_exponential", "unimodal_nonpositive"])
def test_one_sided_components_start_on_their_side(prior):
    X = np.abs(draw()) @ np.diag(np.linspace(1, 2, P))
    model = model_of(X, prior=prior, stepwise=prior == "point_exponential")
    side = make_family(prior).side
    states = stack(model)
    assert (side * (states.b**3).sum(axis=-1) >= 0).all()
