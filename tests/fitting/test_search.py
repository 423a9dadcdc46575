"""The search: what it must not depend on, and that mirrored optima are found."""

import numpy as np
import pytest

from ebcd import EBCD
from ebcd.fitting._climb import climb
from ebcd.fitting._noise import ConstantNoise
from ebcd.fitting._search import look_around, principal_coordinates, search
from ebcd.fitting._shrinkers import SpikeSlabShrinker
from ebcd.fitting._starts import random_rotations, varimax
from ebcd.fitting._states import Model
from ebcd.metrics import component_angles
from ebcd.priors import make_family


def draw(seed, n=50, p=16, k=3):
    rng = np.random.default_rng([7, seed])
    loadings = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.5) * 1.5
    X = rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def model_of(X):
    variances = (X**2).mean(axis=0)
    shrinker = SpikeSlabShrinker(make_family("point_laplace"))
    return Model(X / np.sqrt(len(X)), variances, ConstantNoise(len(X), variances), shrinker)


def ignore(states):
    return False


@pytest.mark.parametrize(
    ("seed", "noise"), [(0, "constant"), (1, "per_feature"), (2, "constant"), (3, "per_feature")]
)
def test_signs_and_order_of_features_make_no_difference(seed, noise):
    X, rng = draw(seed), np.random.default_rng(seed)
    signs, order = rng.choice([-1.0, 1.0], X.shape[1]), rng.permutation(X.shape[1])
    one = EBCD(3, noise=noise, tol=1e-8).fit(X)
    other = EBCD(3, noise=noise, tol=1e-8).fit(signs * X[:, order])
    assert other.elbo_ == pytest.approx(one.elbo_, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_principal_components_turn_with_the_features(seed):
    X, rng = draw(seed), np.random.default_rng(seed)
    signs, order = rng.choice([-1.0, 1.0], X.shape[1]), rng.permutation(X.shape[1])
    one = principal_coordinates(model_of(X), 3) @ X
    other = principal_coordinates(model_of(signs * X[:, order]), 3) @ (signs * X[:, order])
    overall = np.sign((other * (signs * one[:, order])).sum())  # which no rotation depends on
    np.testing.assert_allclose(other, overall * signs * one[:, order], atol=1e-8)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_principal_components_are_those_of_an_svd(k):
    X = draw(0)
    c = principal_coordinates(model_of(X), k)
    left, _, _ = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(np.abs(c @ left[:, :k]), np.eye(k), atol=1e-9)


def test_random_states():
    X = draw(1)
    given = [None, 5, np.random.default_rng(5)]
    one, five, generator = (EBCD(3, random_state=state).fit(X) for state in given)
    np.testing.assert_array_equal(EBCD(3).fit(X).components_, one.components_)
    np.testing.assert_array_equal(EBCD(3, random_state=5).fit(X).components_, five.components_)
    np.testing.assert_array_equal(generator.components_, five.components_)


@pytest.mark.parametrize("noise", ["constant", "per_feature"])
@pytest.mark.parametrize("factor", [10.0, np.sqrt(50), 1e-6])
def test_the_scale_of_a_start_makes_no_difference(noise, factor):
    X = draw(2)
    start = np.random.default_rng(0).normal(size=(16, 3))
    one = EBCD(3, noise=noise, start=start).fit(X)
    other = EBCD(3, noise=noise, start=factor * start).fit(X)
    assert other.elbo_ == pytest.approx(one.elbo_, abs=1e-7)
    np.testing.assert_allclose(other.components_, one.components_, atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_is_not_below_named_starts_or_most_random_ones(seed):
    X = draw(seed)
    best = EBCD(3).fit(X).elbo_
    for start in ("svd", "varimax", "greedy"):
        assert EBCD(3, start=start).fit(X).elbo_ <= best + 1e-3
    model = model_of(X)
    rng = np.random.default_rng(seed)
    random = model.start(rng.normal(size=(30, 3, len(X))) @ model.factor @ model.factor.T)
    found = climb(model, random, ignore, tol=1e-6, max_iter=300).states.value[0]
    assert found <= EBCD(3, center=False).fit(X).elbo_ + 0.1


def test_mirrored_optima_are_followed():
    """Looking around never loses, and finds something in some of these."""
    gains = []
    for seed in range(8):
        model = model_of(draw(seed))
        begin = model.start(principal_coordinates(model, 3)[None])
        one = climb(model, begin, ignore, tol=0.01, max_iter=60).states
        gains.append(look_around(model, one, 1e-5, ignore).value[0] - one.value[0])
    assert min(gains) >= 0
    assert sum(gain > 0.1 for gain in gains) >= 2


@pytest.mark.parametrize("seed", range(5, 8))
def test_many_components_end_as_high_as_from_the_truth(seed):
    """Where a single start ends 70 to 330 nats lower."""
    rng = np.random.default_rng(seed)
    loadings = 2 * rng.laplace(size=(20, 400)) * (rng.random((20, 400)) < 0.1)
    X = rng.normal(size=(300, 400))
    X += rng.normal(size=(300, 20)) @ loadings
    found, truth = (EBCD(20, start=start).fit(X) for start in ("auto", loadings.T))
    assert found.elbo_ > truth.elbo_


def test_stops_when_told_to():
    calls = []

    def stop(states):
        calls.append(len(states))
        return True

    found, _ = search(model_of(draw(0)), 3, np.random.default_rng(0), 1e-5, stop)
    assert len(found) == 1
    assert len(calls) <= 2  # the starts, and the mirrored optima of the best


def draw_topics(seed):
    rng = np.random.default_rng([40, seed])
    shares, words = rng.dirichlet(np.full(6, 0.3), 200), rng.dirichlet(np.full(200, 0.1), 6)
    return np.log1p(rng.poisson(500 * shares @ words))


@pytest.mark.slow
def test_non_negative_loadings_are_not_below_random_ones():
    X, rng = draw_topics(5), np.random.default_rng(1)
    found = EBCD(6, prior="point_exponential", center=False).fit(X).elbo_
    for _ in range(3):
        start = np.abs(rng.normal(size=(200, 6))) * (rng.random((200, 6)) < 0.5)
        other = EBCD(6, prior="point_exponential", center=False, start=start).fit(X).elbo_
        assert other <= found + 1.0


def test_the_order_of_features_makes_no_difference_to_random_loadings():
    X = np.abs(draw(0))
    order = np.random.default_rng(0).permutation(X.shape[1])
    one = EBCD(3, prior="point_exponential", tol=1e-8).fit(X)
    other = EBCD(3, prior="point_exponential", tol=1e-8).fit(X[:, order])
    assert other.elbo_ == pytest.approx(one.elbo_, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 3])
def test_loadings_of_even_size_are_found(seed):
    rng = np.random.default_rng([40, seed])
    loadings = rng.integers(-1, 2, size=(3, 200)).astype(float)
    X = rng.normal(size=(50, 3)) @ loadings + rng.normal(size=(50, 200))
    model = EBCD(3, prior="deconvolver").fit(X)
    angles = component_angles(loadings.T, model.components_.T) * np.pi / 2
    assert np.cos(angles).min() > 0.95


def test_even_varimax_minimises_the_criterion():
    rng = np.random.default_rng(0)
    loadings = random_rotations(1, 3, rng)[0] @ rng.choice([-1.0, 1.0], (3, 300))

    def criterion(rotation):
        return ((rotation @ loadings) ** 2).var(axis=1).sum()

    least = criterion(varimax(loadings, even=True))
    assert least <= min(criterion(rotation) for rotation in random_rotations(500, 3, rng))
    assert least < 0.05
