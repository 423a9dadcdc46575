"""Relaxed and integrated scores and EBMF, against bounds that are written out, and brute force."""

import numpy as np
import pytest
from scipy import special
from score_models import NormalComponents, OneComponent, OneFactor, brute_force

from ebcd import EBCD
from ebcd.datasets import make_simulation
from ebcd.fitting._scores import UncorrelatedScores
from ebcd.peers import EBMF

MODELS = ("relaxed", "integrated")
ALL = ("orthogonal", *MODELS)


def draw(seed, k=1, n=20, p=4):
    """Centred data with a few loadings that are zero."""
    rng = np.random.default_rng([18, seed])
    L = 3 * rng.laplace(size=(p, k)) * (rng.random((p, k)) < 0.8)
    X = rng.normal(size=(n, k)) @ L.T + rng.normal(size=(n, p))
    return X - X.mean(axis=0)


def fit(X, k=1, scores="integrated", prior="point_laplace", **options):
    options = {"tol": 1e-10, "center": False} | options
    return EBCD(k, prior=prior, scores=scores, **options).fit(X)


@pytest.mark.parametrize("seed", [0, 2, 3])
@pytest.mark.parametrize("prior", ["point_laplace", "point_normal", "normal", "point_exponential"])
@pytest.mark.parametrize("scores", MODELS)
def test_one_component_is_the_best_there_is(scores, prior, seed):
    X = draw(seed)
    best = brute_force(OneComponent(X, scores, prior), climbs=8)
    assert fit(X, 1, scores, prior).elbo_ == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("scores", MODELS)
def test_two_components_are_the_best_there_are(scores, seed, monkeypatch):
    X = draw(seed, k=2)
    best = brute_force(NormalComponents(X, 2, scores), climbs=4)
    with monkeypatch.context() as patch:
        patch.setattr(UncorrelatedScores, "worth", lambda self, k: 0.0)
        assert fit(X, 2, scores, "normal").elbo_ == pytest.approx(best, abs=1e-6)
    if scores == "relaxed":
        plain = brute_force(NormalComponents(X, 2, "orthogonal"), climbs=4)
        assert plain < best < plain + 0.5  # what the correlation has to be worth
        assert fit(X, 2, scores, "normal").elbo_ == pytest.approx(plain, abs=1e-6)


def test_a_component_at_an_optimum_is_kept():
    """Whoever asks for two gets two, even if the ELBO of one is higher, as that of a fit tells."""
    X = draw(0, k=2)
    one, two = (fit(X, k) for k in (1, 2))
    assert two.n_components_ == 2
    assert two.elbo_ < one.elbo_ - 1


@pytest.mark.parametrize("seed", [0, 3])
def test_one_factor_is_the_best_there_is(seed):
    X = draw(seed, n=8)
    model = EBMF(1, scores_prior="point_laplace", center=False, tol=1e-10).fit(X)
    assert model.n_components_ == 1
    assert model.elbo_ == pytest.approx(brute_force(OneFactor(X), climbs=3), abs=1e-5)


@pytest.mark.parametrize("seed", [0, 2, 3])
def test_one_factor_with_normal_scores_is_one_component(seed):
    X = draw(seed)
    model = EBMF(1, center=False, tol=1e-10).fit(X)
    best = brute_force(OneComponent(X, "integrated", "point_laplace"), climbs=8)
    assert model.elbo_ == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_bound_is_below_the_log_likelihood(seed):
    """Scores integrated out by a normal density of each sample, loadings by a grid."""
    X = draw(seed, n=12, p=2)
    model = fit(X, prior="normal")
    scale, noise = model.priors_[0].parameters["scale"], model.noise_variance_
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    loadings = scale * np.stack(np.meshgrid(nodes, nodes), axis=-1)
    covariance = loadings[..., :, None] * loadings[..., None, :] + noise * np.eye(2)
    traces = np.trace(np.linalg.solve(covariance, X.T @ X), axis1=-2, axis2=-1)
    logs = -0.5 * (12 * np.linalg.slogdet(2 * np.pi * covariance)[1] + traces)
    log_weights = np.log(weights / weights.sum())
    exact = special.logsumexp(logs + log_weights[:, None] + log_weights)
    assert exact - 3 < model.elbo_ < exact


def test_integrated_scores_are_those_of_ebmf_on_simulation_1():
    X = make_simulation(1, random_state=0)[0]
    options = {"tol": 1e-6, "max_iter": 5000}
    both = EBCD(2, scores="integrated", **options).fit(X), EBMF(2, **options).fit(X)
    assert both[0].elbo_ == pytest.approx(both[1].elbo_, abs=0.01)


@pytest.mark.parametrize("scores", ALL)
class TestIdentities:
    """What must not matter, to 1e-8 of what it is compared with."""

    X = draw(7, k=2, n=40, p=6)

    def same(self, model, scores, signs=1.0, order=slice(None), size=1.0):
        plain = fit(self.X, 2, scores)
        n, p = self.X.shape
        assert model.elbo_ == pytest.approx(plain.elbo_ - n * p * np.log(size), abs=1e-8)
        noise = plain.noise_variance_ * size**2
        assert model.noise_variance_ == pytest.approx(noise, rel=1e-8)
        expected = size * np.abs(plain.components_ * signs)[:, order]
        np.testing.assert_allclose(np.abs(model.components_), expected, atol=1e-8 * size)
        covariance = model.components_.T @ model.components_ / size**2
        mirrored = (plain.components_ * signs)[:, order]
        np.testing.assert_allclose(covariance, mirrored.T @ mirrored, atol=1e-8)

    def test_signs_of_columns(self, scores):
        signs = np.array([1, -1, -1, 1, 1, -1.0])
        self.same(fit(self.X * signs, 2, scores), scores, signs=signs)

    def test_order_of_columns(self, scores):
        order = np.array([3, 0, 5, 1, 4, 2])
        self.same(fit(self.X[:, order], 2, scores), scores, order=order)

    @pytest.mark.parametrize("size", [1e-6, 3.7, 1e9])
    def test_units(self, scores, size):
        self.same(fit(size * self.X, 2, scores), scores, size=size)

    def test_rotated_samples(self, scores):
        """Only the covariance counts: samples may be mixed by any rotation."""
        mixing = np.linalg.qr(np.random.default_rng(0).normal(size=(40, 40)))[0]
        self.same(fit(mixing @ self.X, 2, scores), scores)

    def test_order_of_samples(self, scores):
        self.same(fit(self.X[::-1], 2, scores), scores)

    def test_covariance_in_place_of_data(self, scores):
        S = self.X.T @ self.X / 40
        options = {"prior": "point_laplace", "scores": scores, "tol": 1e-10}
        self.same(EBCD(2, **options).fit_covariance(S, 40), scores)
