"""`EBPCA`: its parts against brute force and simulation, and what it gives."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from ebcd import Gram
from ebcd.data import from_matrix
from ebcd.data._settings import SETTINGS as DATA
from ebcd.metrics import component_angles
from ebcd.peers import EBPCA, _ebpca_amp
from ebcd.peers._ebpca_amp import JointPrior, denoise, pass_messages, spectrum


def draw(n, p, signals, seed=0):
    """Data of model (1) times ``sqrt(n)``: unit noise; scores of two values, sparse loadings."""
    rng = np.random.default_rng(seed)
    k = len(signals)
    U = rng.choice([-1.0, 1.0], size=(n, k))
    V = rng.choice([-np.sqrt(5), 0.0, np.sqrt(5)], p=[0.1, 0.8, 0.1], size=(p, k))
    V /= np.sqrt(np.mean(V**2, axis=0))
    X = (U * signals) @ V.T / np.sqrt(n) + rng.normal(size=(n, p))
    return X, U, V


def matrix(X):
    return from_matrix(X, False, False, None).covariance


class TestSpectrum:
    @pytest.mark.parametrize("shape", [(600, 1800), (1800, 600), (1000, 1000)])
    def test_finds_signals_and_alignments(self, shape):
        rng = np.random.default_rng(0)
        n, p = shape
        true = np.array([3.0, 2.0]) * (n / p) ** 0.25
        u, v = (np.linalg.qr(rng.normal(size=(size, 2)))[0] for size in shape)
        X = np.sqrt(p) * (u * true) @ v.T + rng.normal(size=shape)
        found = spectrum(matrix(X), 2)
        np.testing.assert_allclose(found.signals, true, rtol=0.05)
        for vectors, truth, alignment in (
            (found.left, u, found.alignment[0]),
            (found.right, v, found.alignment[1]),
        ):
            cosines = (vectors * truth).sum(axis=0) / np.linalg.norm(vectors, axis=0)
            np.testing.assert_allclose(cosines**2, alignment, atol=0.04)
            np.testing.assert_allclose((vectors**2).mean(axis=0), 1.0)
        assert found.noise * matrix(X).unit == pytest.approx(1.0, rel=0.01)

    def test_signals_solve_the_equation_of_the_singular_values(self):
        X, _, _ = draw(50, 200, [3.0, 2.0])
        found = spectrum(matrix(X), 2)
        values = np.linalg.svd(X, compute_uv=False)
        noise = np.sqrt((values[2:] ** 2).sum() / X.size)
        s2 = found.signals**2
        squared = (4 * s2 + 1) * (s2 + 1) / s2
        np.testing.assert_allclose(squared, (values[:2] / noise) ** 2 / 50)

    def test_drops_what_is_within_the_range_of_noise(self):
        X, _, _ = draw(100, 300, [3.0])
        values = np.linalg.svd(X, compute_uv=False)

        def stands_out(k):
            noise = np.sqrt((values[k:] ** 2).sum() / X.size)
            return values[k - 1] > noise * (np.sqrt(100) + np.sqrt(300))

        kept = spectrum(matrix(X), 5).signals.size
        assert 1 <= kept < 5
        assert stands_out(kept)
        assert not any(stands_out(k) for k in range(kept + 1, 6))

    def test_singular_vectors_of_large_data(self):
        X, _, _ = draw(600, 700, [4.0, 3.0])
        found = spectrum(matrix(X), 2)
        left, _, right = np.linalg.svd(X, full_matrices=False)
        for one, other in ((left[:, :2], found.left), (right[:2].T, found.right)):
            unit = other / np.linalg.norm(other, axis=0)
            np.testing.assert_allclose(np.abs((one * unit).sum(axis=0)), 1.0, rtol=1e-8)


class TestDenoise:
    map_ = np.array([[0.9, 0.2], [0.0, 0.7]])
    covariance = np.array([[0.5, 0.1], [0.1, 0.3]])

    def rows(self, n=60):
        rng = np.random.default_rng(2)
        u = rng.choice([-1.0, 1.0], size=(n, 2))
        root = np.linalg.cholesky(self.covariance)
        return u @ self.map_.T + rng.normal(size=(n, 2)) @ root.T

    def odds(self, prior, x):
        rest = x - prior.support @ self.map_.T
        logs = -0.5 * np.einsum("ij,jk,ik->i", rest, np.linalg.inv(self.covariance), rest)
        odds = prior.weights * np.exp(logs - logs.max())
        return odds / odds.sum()

    def test_posterior_means_atom_by_atom(self):
        x = self.rows()
        found = denoise(x, self.map_, self.covariance, np.random.default_rng(0))
        expected = [self.odds(found.prior, row) @ found.prior.support for row in x]
        np.testing.assert_allclose(found.mean, expected, atol=1e-10)
        _, sd, lfsr, _ = found.prior.posterior(*found.observed)
        for i, row in enumerate(x[:5]):
            odds = self.odds(found.prior, row)
            variance = odds @ (found.prior.support - found.mean[i]) ** 2
            np.testing.assert_allclose(sd[i], np.sqrt(variance), atol=1e-7)
            below, above = odds @ (found.prior.support <= 0), odds @ (found.prior.support >= 0)
            np.testing.assert_allclose(lfsr[i], np.minimum(below, above), atol=1e-10)

    def test_slope_by_finite_differences(self):
        x = self.rows()
        found = denoise(x, self.map_, self.covariance, np.random.default_rng(0))
        slope = np.empty((2, 2))
        for j in range(2):
            step = 1e-5 * np.eye(2)[j]
            ahead, behind = (
                found.prior.posterior(x + sign * step, self.map_, self.covariance).mean
                for sign in (1, -1)
            )
            slope[:, j] = ((ahead - behind) / 2e-5).mean(axis=0)
        np.testing.assert_allclose(found.slope, slope, atol=1e-7)

    def test_distribution_has_the_second_moment_of_the_model(self):
        prior = denoise(self.rows(), self.map_, self.covariance, np.random.default_rng(0)).prior
        np.testing.assert_allclose(prior.weights @ prior.support**2, 1.0)
        assert prior.weights.sum() == pytest.approx(1.0)

    def test_no_other_weights_of_its_atoms_are_likelier_before_it_is_scaled(self):
        x = self.rows()
        prior = denoise(x, self.map_, self.covariance, np.random.default_rng(0)).prior
        atoms = np.linalg.solve(self.map_, x.T).T
        # the atoms that were used are those rows, scaled coordinate by coordinate
        sizes = np.array([self.matching_scale(atoms[:, j], prior.support[:, j]) for j in range(2)])
        used = JointPrior(prior.support * sizes, prior.weights)
        density = np.array([self.densities(used.support, row) for row in x])
        mixture = density @ used.weights
        everywhere = np.array([self.densities(atoms, row) for row in x])
        # at the maximum no atom would gain by more weight
        assert (everywhere / mixture[:, None]).mean(axis=0).max() < 1 + 1e-8

    @staticmethod
    def matching_scale(values, scaled):
        """Number by which all of `scaled` become some of `values`."""
        for candidate in values / scaled[0]:
            if candidate > 0:
                gaps = np.abs(candidate * scaled[:, None] - values).min(axis=1)
                if gaps.max() < 1e-9:
                    return candidate
        raise AssertionError("atoms are not at the rows")

    def densities(self, atoms, x):
        rest = x - atoms @ self.map_.T
        return np.exp(-0.5 * np.einsum("ij,jk,ik->i", rest, np.linalg.inv(self.covariance), rest))

    def test_many_rows_are_sampled(self, monkeypatch):
        x = self.rows(500)
        whole = denoise(x, self.map_, self.covariance, np.random.default_rng(0))
        monkeypatch.setattr(_ebpca_amp, "_ATOMS", 200)
        monkeypatch.setattr(_ebpca_amp, "_ROWS", 300)
        monkeypatch.setattr(_ebpca_amp, "DATA", replace(DATA, small=1000))
        part = denoise(x, self.map_, self.covariance, np.random.default_rng(0))
        assert part.mean.shape == whole.mean.shape
        assert len(part.prior.weights) <= 200
        error = np.mean((part.mean - whole.mean) ** 2) / np.mean(whole.mean**2)
        assert error < 0.05


class TestMessages:
    def test_rows_are_as_state_evolution_says(self):
        signals = np.array([2.5, 1.8])
        X, U, V = draw(1500, 1500, signals, seed=3)
        data = matrix(X)
        found = pass_messages(data, spectrum(data, 2), 4, np.random.default_rng(0))
        for denoised, truth in zip(found[:2], (U, V), strict=True):
            x, map_, covariance = denoised.observed
            signs = np.sign((denoised.mean * truth).sum(axis=0))
            truth = truth * signs
            error = x - truth @ map_.T
            np.testing.assert_allclose(np.cov(error.T, bias=True), covariance, atol=0.06)
            gain = np.linalg.lstsq(truth, x, rcond=None)[0].T
            np.testing.assert_allclose(gain, map_, atol=0.12)

    def test_without_the_correction_rows_are_not(self):
        # the term that is subtracted matters: plain alternation is biased by far more than that
        signals = np.array([1.6])
        X, U, _ = draw(1500, 1500, signals, seed=4)
        data = matrix(X)
        scores, loadings, _ = pass_messages(data, spectrum(data, 1), 4, np.random.default_rng(0))
        x, map_, _ = scores.observed
        plain = data.scores(loadings.mean) / (np.sqrt(1500) * spectrum(data, 1).noise)
        truth = U * np.sign((x * U).sum())
        gains = [float((rows * truth).mean()) for rows in (x, plain)]
        assert abs(gains[0] - map_[0, 0]) < 0.05
        assert gains[1] > map_[0, 0] + 0.1


class TestFit:
    def test_is_better_than_pca(self):
        X, _, V = draw(200, 400, [2.5, 1.8])
        model = EBPCA(2, center=False).fit(X)
        pca = np.linalg.svd(X, full_matrices=False)[2][:2]
        ours, theirs = component_angles(V, model.components_.T), component_angles(V, pca.T)
        assert (ours < 0.7 * theirs).all()

    def test_attributes(self):
        X, U, V = draw(200, 300, [4.0, 3.0])
        X = X + np.arange(300)
        model = EBPCA(2).fit(X)
        assert model.n_components_ == 2
        assert model.n_iter_ == 5
        np.testing.assert_allclose(model.mean_, X.mean(axis=0))
        assert model.noise_variance_ == pytest.approx(1.0, abs=0.05)
        np.testing.assert_allclose(np.mean(model.scores_**2, axis=0), 1.0, atol=0.05)
        true = (V * [4.0, 3.0]).T / np.sqrt(200)
        np.testing.assert_allclose(
            np.linalg.norm(model.components_, axis=1), np.linalg.norm(true, axis=1), rtol=0.15
        )
        assert (model.components_.max(axis=1) > -model.components_.min(axis=1)).all()
        assert model.components_sd_.shape == model.lfsr_.shape == (2, 300)
        assert ((model.lfsr_ >= 0) & (model.lfsr_ <= 1)).all()
        np.testing.assert_allclose(
            model.explained_variance_ratio_, model.explained_variance_ / X.var(axis=0).sum()
        )
        assert np.abs(np.corrcoef(model.scores_.T, U.T)[:2, 2:]).max(axis=1).min() > 0.95
        assert "EBPCA of 200 samples x 300 features: 2 components" in model.summary()
        for prior, row in zip(model.priors_, model.components_, strict=True):
            parameters = prior.parameters
            second = parameters["weights"] @ parameters["locations"] ** 2
            assert second == pytest.approx(np.mean(row**2), rel=0.15)

    def test_scores_of_new_samples_are_posterior_means(self):
        rng = np.random.default_rng(5)
        X, _, V = draw(300, 300, [4.0])
        model = EBPCA(1).fit(X)
        truth = rng.choice([-1.0, 1.0], size=(400, 1))
        new = truth @ (V * 4.0).T / np.sqrt(300) + rng.normal(size=(400, 300)) + model.mean_
        scores = model.transform(new)
        sign = np.sign((scores * truth).sum())
        assert np.mean((sign * scores - truth) ** 2) < 0.1
        least_squares = (new - model.mean_) @ model.components_.T / model.explained_variance_
        assert np.mean((sign * scores - truth) ** 2) < np.mean((sign * least_squares - truth) ** 2)
        # one of them by hand: products with the loadings, then every atom in turn
        prior = model.scores_priors_[0].parameters
        n = 300
        product = (new[0] - model.mean_) @ model.components_[0]
        signal = spectrum(from_matrix(X, True, False, None).covariance, 1).signals[0]
        noise = model.noise_variance_
        loadings = model.components_[0] * np.sqrt(n / noise) / signal
        gram = loadings @ loadings / n
        observed = product / noise / signal
        logs = -0.5 * (observed - gram * signal * prior["locations"]) ** 2 / gram
        odds = prior["weights"] * np.exp(logs - logs.max())
        expected = odds @ prior["locations"] / odds.sum()
        assert scores[0, 0] == pytest.approx(expected, rel=1e-6)

    def test_training_scores_are_close_to_transformed_ones(self):
        X, _, _ = draw(300, 200, [5.0, 4.0])
        model = EBPCA(2)
        assert np.mean((model.fit_transform(X) - model.scores_) ** 2) < 0.01

    @pytest.mark.parametrize("size", [1e-120, 1e-3, 1e120])
    def test_units(self, size):
        X, _, _ = draw(60, 90, [4.0, 3.0])
        one, other = EBPCA(2).fit(X), EBPCA(2).fit(X * size)
        np.testing.assert_allclose(other.components_ / size, one.components_, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(other.scores_, one.scores_, rtol=1e-5, atol=1e-7)

    @pytest.mark.parametrize("center", [True, False])
    def test_sparse_data_give_the_same(self, center):
        X, _, _ = draw(80, 60, [6.0])
        X = np.where(np.abs(X) > 0.5, X, 0.0)
        one = EBPCA(1, center=center).fit(X)
        other = EBPCA(1, center=center).fit(sparse.csr_array(X))
        np.testing.assert_allclose(other.components_, one.components_, atol=1e-8)
        np.testing.assert_allclose(
            other.transform(sparse.csr_array(X)), one.transform(X), atol=1e-8
        )

    def test_gaussian_data_are_fitted_like_pca(self):
        rng = np.random.default_rng(6)
        X = 3 * rng.normal(size=(300, 1)) @ rng.normal(size=(1, 40)) + rng.normal(size=(300, 40))
        model, pca = EBPCA(1).fit(X), PCA(1).fit(X)
        assert component_angles(pca.components_.T, model.components_.T)[0] < 0.02


class TestChanges:
    def fits(self, X, k, rounds):
        return [EBPCA(k, center=False, max_iter=t).fit(X) for t in range(1, rounds + 1)]

    def test_changes_are_those_of_the_components(self):
        X, _, _ = draw(100, 200, [4.0, 2.5])
        fits = self.fits(X, 2, 4)
        L = [fit.components_ for fit in fits]
        expected = [
            np.linalg.norm(new - old) / np.linalg.norm(old) for old, new in itertools.pairwise(L)
        ]
        for fit in fits:
            assert fit.change_path_.shape == (fit.n_iter_,)
            np.testing.assert_allclose(fit.change_path_, fits[-1].change_path_[: fit.n_iter_])
        np.testing.assert_allclose(fits[-1].change_path_[1:], expected, rtol=1e-8)

    def test_first_change_is_from_principal_components(self):
        n, p = 100, 200
        X, _, _ = draw(n, p, [4.0, 2.5])
        values, vectors = (part[:2] for part in np.linalg.svd(X, full_matrices=False)[1:])
        noise = ((X**2).sum() - (values**2).sum()) / X.size
        # roots of the equation of the singular values, (2), and squared cosines, (3)
        g, squares = p / n, values**2 / n / noise
        s2 = np.array([np.roots([g, 1 + g - square, 1]).max() for square in squares])
        cosines = np.sqrt(1 - (1 + g * s2) / (g * s2 * (1 + s2)))
        start = vectors * (np.sqrt(s2 * noise * p / n) * cosines)[:, None]
        model = EBPCA(2, center=False, max_iter=1).fit(X)
        L = model.components_
        start *= np.sign((start * L).sum(axis=1, keepdims=True))
        expected = np.linalg.norm(L - start) / np.linalg.norm(start)
        np.testing.assert_allclose(model.change_path_, [expected], rtol=1e-6)

    def test_one_component_settles(self):
        X, _, _ = draw(200, 400, [2.5])
        path = EBPCA(1, max_iter=12).fit(X).change_path_
        assert path[0] > 0.1
        assert path[-1] < 1e-12

    def test_units_do_not_matter(self):
        X, _, _ = draw(60, 90, [4.0, 3.0])
        one, other = EBPCA(2).fit(X), EBPCA(2).fit(1e6 * X)
        np.testing.assert_allclose(other.change_path_, one.change_path_, rtol=1e-4)

    def test_nothing_to_iterate(self):
        with pytest.warns(UserWarning, match="the data do not vary"):
            model = EBPCA(2).fit(np.ones((10, 5)))
        assert model.change_path_.shape == (model.n_iter_,) == (0,)


class TestEdges:
    def test_nothing_but_noise(self):
        X = np.random.default_rng(7).normal(size=(100, 100))
        with pytest.warns(UserWarning, match="of 3 components stand out from noise"):
            model = EBPCA(3).fit(X)
        assert model.components_.shape == (model.n_components_, 100)

    def test_constant_data(self):
        with pytest.warns(UserWarning, match="^no component was found: the data do not vary$"):
            model = EBPCA(2).fit(np.ones((10, 5)))
        assert model.components_.shape == (0, 5)
        assert model.transform(np.ones((3, 5))).shape == (3, 0)
        assert "the data do not vary" in model.summary()

    def test_exact_fit_warns(self):
        rng = np.random.default_rng(8)
        X = np.outer(rng.normal(size=30), rng.normal(size=20))
        with pytest.warns(ConvergenceWarning, match="exactly"):
            model = EBPCA(1, center=False).fit(X)
        assert component_angles(X[:1].T, model.components_.T)[0] < 1e-3

    def test_denoised_to_a_point_ends_early(self):
        prior = JointPrior(np.array([[1.0, 0.0]]), np.ones(1))
        found = prior.posterior(np.ones((3, 2)), np.eye(2), np.eye(2))
        assert found.mean.tolist() == [[1.0, 0.0]] * 3
        assert _ebpca_amp._degenerate(np.diag([1.0, 0.0]))

    def test_needs_the_data(self):
        with pytest.raises(TypeError, match="cannot be fitted to a covariance"):
            EBPCA(2).fit_covariance(np.eye(3), 10)
        with pytest.raises(TypeError, match="cannot be fitted to a Gram"):
            EBPCA(2).fit(Gram().update(np.eye(3)))
        with pytest.raises(TypeError, match="cannot be fitted to a compact matrix"):
            EBPCA(2).fit(np.eye(5), n_samples=10)
