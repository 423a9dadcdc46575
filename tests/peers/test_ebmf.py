"""`EBMF`: what it finds, what it gives, and what it refuses."""

import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning

from ebcd import Gram
from ebcd.metrics import component_angles
from ebcd.peers import EBMF
from ebcd.priors import make_family, make_prior

NOISES = ["constant", "per_sample", "per_feature"]
L = np.zeros((2, 30))
L[0, :6], L[1, 15:] = 3.0, -1.5


def draw(n=80, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, 30)) + np.arange(30)
    X[rng.random(X.shape) < missing] = np.nan
    return X


class TestFit:
    @pytest.mark.parametrize("missing", [0.0, 0.3])
    @pytest.mark.parametrize("noise", NOISES)
    def test_finds_the_components(self, noise, missing):
        model = EBMF(6, noise=noise).fit(draw(missing=missing))
        assert model.n_components_ == 2
        assert (component_angles(L.T, model.components_.T) < 0.1).all()
        assert np.mean(model.noise_variance_) == pytest.approx(1.0, abs=0.1)
        np.testing.assert_array_equal(model.sparsify()[0].nonzero()[0], np.arange(6))

    @pytest.mark.parametrize("missing", [0.0, 0.1])
    @pytest.mark.parametrize("noise", ["per_sample", "per_feature"])
    def test_components_fainter_than_the_noise_of_others(self, noise, missing):
        rng = np.random.default_rng(5)
        truth = 1.5 * np.kron(np.eye(3, 6), np.ones(10))  # three blocks, and features of noise
        sizes = np.geomspace(1.0, 10.0, 60)
        spread = rng.permutation(sizes) if noise == "per_feature" else sizes.repeat(4)[:, None]
        X = rng.normal(size=(240, 3)) @ truth + spread * rng.normal(size=(240, 60))
        X[rng.random(X.shape) < missing] = np.nan
        model = EBMF(6, noise=noise).fit(X)
        assert model.n_components_ == 3
        assert (component_angles(truth.T, model.components_.T) < 0.4).all()

    def test_attributes(self):
        X = draw()
        model = EBMF(6).fit(X)
        assert model.components_.shape == model.components_sd_.shape == model.lfsr_.shape == (2, 30)
        assert model.scores_.shape == (80, 2)
        np.testing.assert_allclose(np.mean(model.scores_**2, axis=0), 1.0)
        np.testing.assert_allclose(model.mean_, X.mean(axis=0))
        np.testing.assert_allclose(model.explained_variance_, (model.components_**2).sum(axis=1))
        np.testing.assert_allclose(
            model.explained_variance_ratio_, model.explained_variance_ / X.var(axis=0).sum()
        )
        assert (np.diff(model.explained_variance_) < 0).all()
        assert (np.diff(model.elbo_path_) >= 0).all()
        assert model.elbo_path_[-1] == model.elbo_
        assert model.converged_
        assert model.n_samples_ == 80
        assert (model.components_.max(axis=1) > -model.components_.min(axis=1)).all()
        assert "EBMF of 80 samples x 30 features: 2 components" in model.summary()
        assert [prior.family for prior in model.priors_] == ["point_laplace"] * 2
        assert [prior.family for prior in model.scores_priors_] == ["normal"] * 2

    def test_priors_are_on_the_scale_of_what_they_are_about(self):
        model = EBMF(6).fit(draw(500))
        for prior, row in zip(model.priors_, model.components_, strict=True):
            scale = prior.parameters["scale"] * prior.parameters["weight"]
            assert scale == pytest.approx(np.abs(row).mean(), rel=0.1)
        for prior in model.scores_priors_:
            assert prior.parameters["scale"] == pytest.approx(1.0, rel=0.05)

    @pytest.mark.parametrize("noise", NOISES)
    def test_units(self, noise):
        X = draw(missing=0.1)
        one, other = EBMF(4, noise=noise).fit(X), EBMF(4, noise=noise).fit(X * 1e-7)
        np.testing.assert_allclose(other.components_ * 1e7, one.components_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(other.scores_, one.scores_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            np.asarray(other.noise_variance_) * 1e14, one.noise_variance_, rtol=1e-6
        )
        shift = np.isfinite(X).sum() * np.log(1e-7)
        assert other.elbo_ == pytest.approx(one.elbo_ - shift, abs=1e-5)

    @pytest.mark.parametrize("size", [1e-140, 1e140])
    def test_extreme_units(self, size):
        for missing in (0.0, 0.1):
            X = draw(missing=missing)
            model = EBMF(4).fit(X * size)
            expected = EBMF(4).fit(X).components_
            np.testing.assert_allclose(model.components_ / size, expected, rtol=1e-5, atol=1e-8)

    @pytest.mark.parametrize(("noise", "center"), [*zip(NOISES, [True, False, False], strict=True)])
    def test_sparse_data_give_the_same(self, noise, center):
        X = np.where(np.abs(draw() - np.arange(30)) > 1, draw(), 0.0)
        model = EBMF(3, noise=noise, center=center, tol=0.01).fit(X)
        for kind in (sparse.csr_array, sparse.csc_matrix):
            other = EBMF(3, noise=noise, center=center, tol=0.01).fit(kind(X))
            np.testing.assert_allclose(other.components_, model.components_, atol=1e-6)
            np.testing.assert_allclose(other.transform(kind(X)), model.transform(X), atol=1e-6)

    def test_noise_of_each_sample_and_feature(self):
        rng = np.random.default_rng(1)
        E = rng.normal(size=(200, 60))
        F = 4 * rng.normal(size=(200, 1)) * np.r_[np.ones(20), np.zeros(40)]
        by_sample, by_feature = np.repeat([0.5, 2.0], 100), np.repeat([0.5, 2.0], 30)
        one = EBMF(2, noise="per_sample").fit(F + E * by_sample[:, None])
        other = EBMF(2, noise="per_feature").fit(F + E * by_feature)
        for found, true in ((one, by_sample), (other, by_feature)):
            assert found.noise_variance_.shape == true.shape
            assert np.corrcoef(np.log(found.noise_variance_), true)[0, 1] > 0.95

    def test_nonnegative_factors(self):
        rng = np.random.default_rng(2)
        F = rng.exponential(size=(100, 2)) * (rng.random((100, 2)) < 0.4)
        M = rng.exponential(size=(2, 40)) * (rng.random((2, 40)) < 0.4)
        X = 5 * F @ M + 0.5 * rng.normal(size=(100, 40))
        family = "point_exponential"
        model = EBMF(2, loadings_prior=family, scores_prior=family, center=False).fit(X)
        assert model.n_components_ == 2
        assert (model.components_ >= 0).all()
        assert (model.scores_ >= 0).all()
        assert (component_angles(M.T, model.components_.T) < 0.1).all()

    def test_verbose(self, capsys):
        model = EBMF(2, verbose=1).fit(draw())
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("iteration     1   greedy     1 components   ELBO")
        assert float(lines[-1].split()[-1]) <= model.elbo_ + 1e-3
        assert "backfit" in lines[-1]


class TestPriors:
    def test_fixed_on_both_sides(self):
        fixed = make_prior("laplace", scale=1.0), make_prior("normal", scale=1.0)
        model = EBMF(2, loadings_prior=fixed[0], scores_prior=fixed[1]).fit(draw())
        for k in range(2):
            ratio = (
                model.priors_[k].parameters["scale"] * model.scores_priors_[k].parameters["scale"]
            )
            assert ratio == pytest.approx(1.0)  # rescaled against each other only

    def test_fixed_on_one_side_is_fixed_up_to_scale(self):
        X = draw()
        fits = [
            EBMF(2, loadings_prior=make_prior("point_laplace", weight=0.3, scale=scale)).fit(X)
            for scale in (0.1, 50.0)
        ]
        assert fits[0].elbo_ == pytest.approx(fits[1].elbo_, abs=1e-3)
        assert fits[0].priors_[0].parameters["weight"] == 0.3
        np.testing.assert_allclose(fits[0].components_, fits[1].components_, atol=1e-3)

    @pytest.mark.parametrize(
        ("prior", "noise"),
        [
            (make_prior("horseshoe", scale=0.1), "constant"),  # which has no variance
            # some fits end with an empty component
            (
                make_prior("npmle", locations=[-1, 0, 1, 2], weights=[0.1, 0.7, 0.1, 0.1]),
                "per_sample",
            ),
        ],
        ids=["horseshoe", "npmle"],
    )
    def test_fixed_up_to_scale_of_any_shape(self, prior, noise):
        rng, truth = np.random.default_rng(5), np.zeros((2, 30))
        truth[0, :5], truth[1, 15:] = 2.0, 1.0
        X = rng.normal(size=(100, 2)) @ truth + rng.normal(size=(100, 30))
        model = EBMF(3, loadings_prior=prior, noise=noise).fit(X)
        assert model.n_components_ == 2
        assert (component_angles(truth.T, model.components_.T) < 0.15).all()

    def test_one_for_each_component(self):
        families = ["normal", make_family("point_laplace")]
        model = EBMF(2, loadings_prior=families).fit(draw())
        assert [prior.family for prior in model.priors_] == ["normal", "point_laplace"]

    def test_flat_loadings_need_a_scale(self):
        with pytest.raises(ValueError, match="loadings_prior is flat"):
            EBMF(2, loadings_prior="flat").fit(draw())
        with pytest.raises(ValueError, match="scores_prior is flat"):
            EBMF(2, scores_prior="flat").fit(draw())
        X = draw(missing=0.1)
        model = EBMF(2, loadings_prior="flat", scores_prior=make_prior("normal", scale=1.0)).fit(X)
        assert np.isnan(model.elbo_)
        assert np.isfinite(model.elbo_path_).all()
        # nothing but the data chooses a rotation, so only the plane is found
        unit = L / np.linalg.norm(L, axis=1, keepdims=True)
        basis = np.linalg.qr(model.components_.T)[0]
        assert (np.linalg.norm(unit @ basis, axis=1) > 0.98).all()

    def test_elbo_prefers_the_better_family(self):
        sparse_fit, dense_fit = (
            EBMF(2, loadings_prior=f).fit(draw()) for f in ("point_laplace", "normal")
        )
        assert sparse_fit.elbo_ > dense_fit.elbo_ + 5

    def test_draws_of_components(self):
        model = EBMF(2).fit(draw())
        draws = model.sample_components(4000, random_state=0)
        assert draws.shape == (4000, 2, 30)
        error = np.abs(draws.mean(axis=0) - model.components_)
        assert (error <= 5 * model.components_sd_ / np.sqrt(4000) + 1e-12).all()
        np.testing.assert_allclose(draws.std(axis=0), model.components_sd_, rtol=0.25, atol=0.01)


class TestScores:
    @pytest.mark.parametrize("missing", [0.0, 0.2])
    @pytest.mark.parametrize("noise", NOISES)
    @pytest.mark.parametrize("scores", ["normal", "point_normal"])
    def test_of_the_training_data_are_those_of_the_fit(self, scores, noise, missing):
        X = draw(missing=missing)
        model = EBMF(3, noise=noise, scores_prior=scores)
        np.testing.assert_allclose(model.fit_transform(X), model.scores_, atol=1e-6)

    @pytest.mark.parametrize("missing", [0.0, 0.2])
    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    def test_are_gaussian_posterior_means(self, noise, missing):
        model = EBMF(2, noise=noise).fit(draw(missing=missing))
        new = draw(n=5, missing=missing, seed=3)
        for x, found in zip(new, model.transform(new), strict=True):
            seen = np.isfinite(x)
            noise_sd = np.sqrt(np.broadcast_to(model.noise_variance_, 30)[seen])
            A = model.components_[:, seen] / noise_sd
            sd = model.components_sd_[:, seen] / noise_sd
            whitened = (x - model.mean_)[seen] / noise_sd
            prior = [1 / g.parameters["scale"] ** 2 for g in model.scores_priors_]
            precision = A @ A.T + np.diag((sd**2).sum(axis=1) + prior)
            np.testing.assert_allclose(found, np.linalg.solve(precision, A @ whitened), rtol=1e-7)

    def test_missing_entries_are_predicted(self):
        complete = draw(n=200)
        X = complete.copy()
        hidden = np.random.default_rng(4).random(X.shape) < 0.2
        X[hidden] = np.nan
        model = EBMF(4).fit(X)
        predicted = model.inverse_transform(model.transform(X))
        error = np.mean((predicted - complete)[hidden] ** 2)
        plain = np.mean((np.broadcast_to(model.mean_, X.shape) - complete)[hidden] ** 2)
        assert error < 0.5 * plain
        assert error < 1.25  # the noise has variance one

    def test_likelihood_of_samples(self):
        X, new = draw(400), draw(400, seed=5)
        truth = -0.5 * np.linalg.slogdet(2 * np.pi * (L.T @ L + np.eye(30)))[1] - 15
        for noise in NOISES:
            model = EBMF(2, noise=noise).fit(X)
            assert model.score(new) == pytest.approx(truth, abs=1.5)
            product = model.get_covariance() @ model.get_precision()
            np.testing.assert_allclose(product, np.eye(30), atol=1e-8)


class TestMissing:
    def test_rows_without_entries_are_left_out(self):
        X = draw(missing=0.1)
        X[[3, 7]] = np.nan
        with pytest.warns(
            UserWarning, match=r"left out: 2 rows have only missing entries \(3, 7\)"
        ):
            model = EBMF(3).fit(X)
        kept = np.delete(X, [3, 7], axis=0)
        np.testing.assert_allclose(model.components_, EBMF(3).fit(kept).components_, atol=1e-10)
        # nothing is known of their scores but the prior, whose mean is zero
        np.testing.assert_allclose(model.transform(X)[[3, 7]], 0.0, atol=1e-10)

    def test_sparse_data(self):
        X = np.where(np.random.default_rng(1).random((80, 30)) < 0.5, 0.0, draw(missing=0.1))
        dense, thin = EBMF(3).fit(X), EBMF(3).fit(sparse.csr_array(X))
        np.testing.assert_allclose(thin.components_, dense.components_, atol=1e-10)
        np.testing.assert_allclose(thin.transform(sparse.csr_array(X)), dense.scores_, atol=1e-5)

    def test_likelihood_is_that_of_observed_entries(self):
        X = draw(missing=0.2)
        model = EBMF(2).fit(X)
        S = model.get_covariance()
        for x, found in zip(X[:5], model.score_samples(X[:5]), strict=True):
            seen = np.isfinite(x)
            law = stats.multivariate_normal(model.mean_[seen], S[np.ix_(seen, seen)])
            assert found == pytest.approx(law.logpdf(x[seen]))


class TestEdges:
    def test_constant_data(self):
        X = np.full((10, 5), 3.0)
        with pytest.warns(UserWarning, match="^no component was found: the data do not vary$"):
            model = EBMF(2).fit(X)
        assert "the data do not vary" in model.summary()

    def test_nothing_but_noise(self):
        X = np.random.default_rng(6).normal(size=(40, 20))
        with pytest.warns(UserWarning, match="no component was found"):
            model = EBMF(3).fit(X)
        assert model.n_components_ == 0
        assert model.components_.shape == (0, 20)
        assert model.transform(X).shape == (40, 0)
        assert model.sample_components(2).shape == (2, 0, 20)
        assert "nothing stands out" in model.summary()
        rest = X - X.mean(axis=0)
        n = rest.size
        expected = -0.5 * n * (np.log(2 * np.pi * np.mean(rest**2)) + 1)
        assert model.elbo_ == pytest.approx(expected)

    @pytest.mark.parametrize("noise", NOISES)
    def test_data_of_rank_zero(self, noise):
        X = np.outer(np.ones(10), np.arange(5.0))
        with pytest.warns(UserWarning, match="no component was found"):
            model = EBMF(3, noise=noise).fit(X)
        assert model.n_components_ == 0
        np.testing.assert_array_equal(model.explained_variance_ratio_, [])

    @pytest.mark.parametrize("noise", NOISES)
    def test_constant_features(self, noise):
        X = draw()
        X[:, [3, 20]] = 7.0
        model = EBMF(3, noise=noise).fit(X)
        assert model.n_components_ >= 2
        np.testing.assert_allclose(model.components_[:2, [3, 20]], 0.0, atol=0.2)
        assert np.isfinite(model.elbo_)

    def test_as_many_components_as_dimensions(self):
        model = EBMF(4).fit(draw()[:, [0, 1, 2, 20]])
        assert 1 <= model.n_components_ <= 4

    def test_exact_fit_warns(self):
        rng = np.random.default_rng(7)
        with pytest.warns(ConvergenceWarning, match="exactly"):
            model = EBMF(2, center=False).fit(np.outer(rng.normal(size=30), rng.normal(size=20)))
        assert not model.converged_
        assert model.n_components_ == 1

    def test_few_iterations_warn(self):
        with pytest.warns(ConvergenceWarning, match="max_iter=1"):
            model = EBMF(2, max_iter=1).fit(draw())
        assert not model.converged_


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"loadings_prior": "laplac"}, ValueError, "loadings_prior: unknown prior"),
            ({"scores_prior": 3}, TypeError, "scores_prior: prior must be"),
            ({"scores_prior": []}, ValueError, "scores_prior: .* got an empty list"),
        ],
    )
    def test_parameters(self, options, error, message):
        with pytest.raises(error, match=message):
            EBMF(**{"n_components": 2} | options).fit(draw())

    def test_data(self):
        X = draw()
        for change, message in (
            ((0, 0, np.inf), "infinity"),
            ((slice(None), 4, np.nan), "1 of .* features have only missing entries"),
        ):
            bad = X.copy()
            bad[change[0], change[1]] = change[2]
            with pytest.raises(ValueError, match=message):
                EBMF(2).fit(bad)

    def test_needs_the_data(self):
        with pytest.raises(TypeError, match="cannot be fitted to a covariance"):
            EBMF(2).fit_covariance(np.eye(3), 10)
        with pytest.raises(TypeError, match="cannot be fitted to a Gram"):
            EBMF(2).fit(Gram().update(draw()))
        with pytest.raises(TypeError, match="cannot be fitted to a compact matrix"):
            EBMF(2).fit(np.eye(5), n_samples=10)


def test_pickle_holds_no_training_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1)) * np.ones(20) + rng.normal(size=(2000, 20))
    model = EBMF(3).fit(X)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.transform(X), model.transform(X))
    del copy.scores_
    assert len(pickle.dumps(copy)) < 0.1 * X.nbytes
    assert copy.summary() == model.summary()
