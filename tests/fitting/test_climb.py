"""The climb: Newton's model against finite differences of the ELBO, and stacks of starts."""

import numpy as np
import pytest
from decomposition import laplace_ratio

from ebcd import EBCD
from ebcd.fitting._climb import ClimbSettings, _newton_step, climb
from ebcd.fitting._decompose import factor_of
from ebcd.fitting._noise import NOISES
from ebcd.fitting._shrinkers import NormalMeansShrinker, SpikeSlabShrinker
from ebcd.fitting._states import Model, nearest_orthonormal
from ebcd.priors import make_family

N, P, K = 60, 7, 2
NEVER_MERGE = ClimbSettings(same=2.0)


def draw(seed=0, n=N, p=P, k=K):
    rng = np.random.default_rng(seed)
    loadings = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.7) * 1.5
    X = rng.normal(size=(n, k)) @ loadings + rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def model_of(X, noise="constant", shrinker=None):
    n, variances = len(X), (X**2).mean(axis=0)
    shrinker = shrinker or SpikeSlabShrinker(make_family("point_laplace"))
    factor = factor_of(X.T @ X / n, variances)
    return Model(factor, variances, NOISES[noise](n, variances), shrinker)


def starts(model, m, k=K, seed=0):
    rng = np.random.default_rng(seed)
    return model.start(rng.normal(size=(m, k, len(model.factor))) @ model.factor @ model.factor.T)


def ignore(states):
    return False


def tangents(c):
    """Orthonormal basis of the directions E with sym(C E') = 0."""
    k, r = c.shape
    basis = np.eye(k * r).reshape(-1, k, r)
    symmetric = basis @ c.T
    constraints = (symmetric + symmetric.swapaxes(1, 2)).reshape(k * r, -1)
    left, values, _ = np.linalg.svd(constraints)
    return left[:, (values > 1e-9).sum() :].T.reshape(-1, k, r)


def differences(function, size, step=1e-3):
    """Gradient and Hessian at zero by central differences, one order better than plain ones."""

    def plain(h):
        shifts = h * np.eye(size)
        gradient = np.array([function(e) - function(-e) for e in shifts]) / (2 * h)
        hessian = np.array(
            [
                [function(a + b) - function(a - b) - function(b - a) + function(-a - b)]
                for a in shifts
                for b in shifts
            ]
        ).reshape(size, size) / (4 * h * h)
        return gradient, hessian

    (g1, h1), (g2, h2) = plain(step), plain(2 * step)
    return (4 * g1 - g2) / 3, (4 * h1 - h2) / 3


class TestNewton:
    # further on rounding takes over: what is normal to the manifold is left in the residual
    exact = ClimbSettings(steps=200, accuracy=1e-8)

    def near_optimum(self, noise):
        """A state a little away from an optimum, whose Hessian is negative definite.

        Only a little, since (3) takes ``Lambda`` at the priors to which their step leads.
        """
        model = model_of(draw(), noise)
        best = climb(model, starts(model, 1), ignore, tol=1e-9, max_iter=200).states
        change = 5e-4 * np.random.default_rng(3).normal(size=best.coordinates.shape)
        priors = best.shrunk.priors + np.array([-2e-3, 1e-3])
        return model, model.at(best.coordinates + change, best.precision, priors, slopes=True)

    def objective(self, model, states, basis, parameters):
        """The ELBO as a function of scores and priors, with noise and posterior at their best."""
        moves, priors = np.split(parameters, [len(basis)])
        c = nearest_orthonormal(states.coordinates[0] + np.tensordot(moves, basis, 1))
        s = states.noise[0]
        log_weight, log_scale = (states.shrunk.priors[0] + priors.reshape(K, 2)).T[:, :, None]
        ratios = laplace_ratio(c @ model.factor / s, np.exp(log_scale) / s)
        return np.logaddexp(np.log1p(-np.exp(log_weight)), log_weight + ratios).sum()

    def differences(self, noise):
        model, states = self.near_optimum(noise)
        basis = tangents(states.coordinates[0])
        size = len(basis) + 2 * K
        gradient, hessian = differences(
            lambda parameters: self.objective(model, states, basis, parameters), size
        )
        assert np.linalg.eigvalsh(hessian).max() < 0
        return model, states, basis, gradient, hessian

    @pytest.mark.parametrize("noise", NOISES)
    def test_scores_alone(self, noise):
        """Equations (1) and (2)."""
        model, states, basis, gradient, hessian = self.differences(noise)
        d = len(basis)
        expected = np.linalg.solve(-hessian[:d, :d], gradient[:d])
        step, change = _newton_step(model, states, np.full(1, 10.0), np.zeros(1, bool), self.exact)
        np.testing.assert_allclose(
            step[0], np.tensordot(expected, basis, 1), atol=1e-4 * np.linalg.norm(expected)
        )
        assert np.all(np.asarray(change) == 0.0)

    @pytest.mark.parametrize("noise", NOISES)
    def test_scores_with_priors(self, noise):
        """Equation (3): the same as Newton's step in both together."""
        model, states, basis, gradient, hessian = self.differences(noise)
        expected = np.linalg.solve(-hessian, gradient)
        moves, priors = np.split(expected, [len(basis)])
        step, change = _newton_step(model, states, np.full(1, 10.0), np.ones(1, bool), self.exact)
        accuracy = 1e-4 * np.linalg.norm(expected)
        np.testing.assert_allclose(step[0], np.tensordot(moves, basis, 1), atol=accuracy)
        together = (states.shrunk.step + change).reshape(-1)
        np.testing.assert_allclose(together, priors, atol=accuracy)

    @pytest.mark.parametrize("radius", [0.5, 0.01])
    def test_steps_keep_within_the_radius(self, radius):
        model = model_of(draw())
        states = starts(model, 5)
        step, _ = _newton_step(
            model, states, np.full(5, radius), np.zeros(5, bool), ClimbSettings()
        )
        assert (np.linalg.norm(step, axis=(1, 2)) <= radius * (1 + 1e-12)).all()
        inner = step @ states.coordinates.swapaxes(1, 2)
        np.testing.assert_allclose(inner, -inner.swapaxes(1, 2), atol=1e-10)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("seed", range(4))
def test_no_start_ever_loses(noise, seed):
    model = model_of(draw(seed, 40, 20, 3), noise)
    states = starts(model, 8, 3)
    path = [states.value.copy()]
    climb(
        model,
        states,
        lambda states: path.append(states.value.copy()),
        tol=-np.inf,  # nobody rests before steps are as short as rounding
        max_iter=12,
        settings=NEVER_MERGE,
    )
    lengths = [len(values) for values in path]
    path = np.array(path[: lengths.count(8)])
    assert len(path) >= 8
    assert (np.diff(path, axis=0) >= -1e-12 * np.abs(path[1:])).all()
    assert (path[-1] > path[0]).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", ["stepwise", "exact"])
def test_a_stack_gives_what_each_start_gives_alone(noise, kind):
    exact = NormalMeansShrinker([make_family("point_normal")] * 2)
    model = model_of(draw(5, 50, 12), noise, exact if kind == "exact" else None)
    states = starts(model, 4)
    options = {"tol": 1e-8, "max_iter": 200, "settings": NEVER_MERGE}
    found = climb(model, states, ignore, **options)
    assert found.converged
    assert (np.diff(found.states.value) <= 0).all()
    alone = [climb(model, states.take([i]), ignore, **options).states.value[0] for i in range(4)]
    np.testing.assert_allclose(found.states.value, sorted(alone, reverse=True), atol=1e-6)


@pytest.mark.filterwarnings("ignore:the fit stopped after max_iter")
def test_columns_of_very_different_sizes():
    """Rounding leaves no slope before a step ends; it stays finite and lowers nothing."""
    rng = np.random.default_rng(1)
    n, p = 80, 12
    trends = np.outer(np.linspace(0, 1, n), rng.uniform(0.5, 2, p))
    walks = 0.1 * rng.normal(size=(n, p)).cumsum(axis=0) / np.sqrt(n)
    X = (trends + walks + 0.02 * rng.normal(size=(n, p))) * np.geomspace(1, 3000, p)
    path = EBCD(8, max_iter=30).fit(X).elbo_path_
    assert (np.diff(path) >= -1e-9 * np.abs(path[-1])).all()


def test_a_step_that_fell_is_not_tried_again(monkeypatch):
    model = model_of(draw())
    top = climb(model, starts(model, 4), ignore, tol=1e-10, max_iter=200).states.take(slice(1))
    tried = []

    def step_away(model, states, radii, *_):
        tried.append(float(radii[0]))
        return min(0.1, tried[-1]) * tangents(states.coordinates[0])[:1], 0.0

    monkeypatch.setattr("ebcd.fitting._climb._newton_step", step_away)
    climb(model, top, ignore, tol=1e-10, max_iter=2)
    assert tried == pytest.approx([ClimbSettings.radius, 0.1 / 4])


class TestMerging:
    def test_starts_that_are_one_are_dropped(self):
        model = model_of(draw(5, 50, 12))
        states = starts(model, 1)
        same = model.start(np.concatenate([states.coordinates, -states.coordinates[:, ::-1]]))
        sizes = []
        found = climb(model, same, lambda states: sizes.append(len(states)), tol=1e-8, max_iter=200)
        assert sizes[:3] == [2, 2, 2]
        assert sizes[-1] == 1
        assert len(found.states) == 1
        alone = climb(model, states, ignore, tol=1e-8, max_iter=200)
        np.testing.assert_allclose(found.states.value, alone.states.value, atol=1e-6)

    def test_the_best_is_never_dropped(self):
        model = model_of(draw(7, 50, 12))
        states = starts(model, 10)
        every = climb(model, states, ignore, tol=1e-8, max_iter=300, settings=NEVER_MERGE)
        merged = climb(model, states, ignore, tol=1e-8, max_iter=300)
        assert len(merged.states) < len(every.states) == 10
        assert merged.states.value[0] == pytest.approx(every.states.value[0], abs=1e-6)


class TestJoining:
    def test_states_join_where_others_rest(self):
        model = model_of(draw(5, 50, 12))
        first, others = starts(model, 1), starts(model, 4).take(slice(1, None))
        calls = []

        def more(resting, climbing):
            calls.append((sum(map(len, resting)), len(climbing)))
            return others if len(calls) == 1 else None

        options = {"tol": 1e-8, "max_iter": 300, "settings": NEVER_MERGE}
        found = climb(model, first, ignore, more=more, **options)
        assert calls[0] == (1, 0)
        assert calls[-1] == (4, 0)
        assert found.converged
        alone = [climb(model, part, ignore, **options).states.value for part in (first, others)]
        expected = np.sort(np.concatenate(alone))[::-1]
        np.testing.assert_allclose(found.states.value, expected, atol=1e-6)


class TestEnd:
    def test_the_callback_ends_it(self):
        model = model_of(draw())
        found = climb(model, starts(model, 3), lambda states: True, tol=1e-9, max_iter=50)
        assert (found.converged, found.n_iter, len(found.states)) == (False, 1, 3)

    @pytest.mark.parametrize("max_iter", [0, 2])
    def test_so_does_the_number_of_iterations(self, max_iter):
        model = model_of(draw())
        states = starts(model, 3)
        found = climb(model, states, ignore, tol=1e-12, max_iter=max_iter)
        assert (found.converged, found.n_iter, len(found.states)) == (False, max_iter, 3)

    def test_rest_is_an_optimum(self):
        """Random moves of scores and priors do not find anything better."""
        model = model_of(draw())
        best = climb(model, starts(model, 6), ignore, tol=1e-10, max_iter=300).states.take([0])
        rng = np.random.default_rng(0)
        for size in (1e-3, 1e-2, 1e-1):
            moves = size * rng.normal(size=(200, *best.coordinates.shape[1:]))
            priors = best.shrunk.priors + size * rng.normal(size=(200, K, 2))
            priors[..., 0] = np.minimum(priors[..., 0], 0.0)
            precision = best.precision * np.exp(size * rng.normal(size=(200, 1)))
            others = model.at(best.coordinates + moves, precision, priors)
            assert others.value.max() <= best.value[0] + 1e-7
