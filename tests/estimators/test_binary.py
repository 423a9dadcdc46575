"""Memberships against Bayes' rule by quadrature, and clusters of samples that are known."""

import numpy as np
import pytest
from scipy import integrate, sparse, stats

import ebcd
from ebcd import EBCD, gbcd, memberships


def draw_cells(seed, n_cells=80, n_genes=300, up=False):
    """Draw cells with a baseline and two programmes that overlap."""
    rng = np.random.default_rng(seed)
    truth = rng.random((2, n_cells)) < [[0.3], [0.45]]
    effects = rng.normal(size=(2, n_genes)) * (rng.random((2, n_genes)) < 0.3)
    baseline = 1 + rng.normal(size=n_genes)
    X = baseline + truth.T @ (2 * np.abs(effects) if up else 2 * effects)
    return X + rng.normal(size=X.shape), truth


def share_right(truth, model):
    """Return the share of right memberships, of the best match of each cluster."""
    found = memberships(model)[model.clusters_] > 0.5
    return np.mean([max((cluster == row).mean() for row in found) for cluster in truth])


class TestMemberships:
    def test_bayes_rule(self):
        rng = np.random.default_rng(0)
        clusters = rng.random((2, 30)) < 0.4
        X = rng.normal(size=(40, 2)) @ clusters + 2.5 * rng.normal(size=(40, 30))
        model = EBCD(2, prior="generalized_binary").fit(X)
        found = memberships(model)
        assert ((found > 0.02) & (found < 0.98)).any()  # not all are certain
        for k in range(2):
            prior, x, s, _ = model._normal_means(k)
            g = prior.parameters
            bump = stats.truncnorm(-1 / g["spread"], np.inf, g["mean"], g["spread"] * g["mean"])
            for j in range(30):
                grid = np.linspace(0, 2 * g["mean"], 2001)
                density = integrate.simpson(
                    bump.pdf(grid) * stats.norm.pdf(x[j], grid, s[j]), x=grid
                )
                member = g["weight"] * density
                other = (1 - g["weight"]) * stats.norm.pdf(x[j], 0, s[j])
                assert found[k, j] == pytest.approx(member / (member + other), abs=1e-6)

    def test_without_a_spike(self):
        X = draw_cells(0)[0]
        assert (memberships(EBCD(2, prior="normal").fit(X.T)) == 1).all()

    def test_no_component(self):
        X = np.random.default_rng(0).normal(size=(40, 10))
        with pytest.warns(UserWarning, match="no component"):
            model = EBCD().fit(X)
        assert memberships(model).shape == (0, 10)

    def test_model_without_priors(self):
        with pytest.raises(TypeError, match="fitted priors, as EBCD has, got PenalizedPCA"):
            memberships(ebcd.PenalizedPCA(2).fit(draw_cells(0)[0]))

    def test_frame(self):
        pd = pytest.importorskip("pandas")
        X, _ = draw_cells(0)
        names = [f"cell {i}" for i in range(len(X))]
        model = gbcd(pd.DataFrame(X, index=names), 3)
        frame = ebcd.memberships_frame(model)
        assert list(frame.index) == names
        np.testing.assert_array_equal(frame.to_numpy().T, memberships(model))
        assert ebcd.memberships_frame(model, range(80)).index[-1] == 79


class TestClustersOfSamples:
    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("up", [False, True])
    def test_finds_overlapping_programmes(self, seed, up):
        X, truth = draw_cells(seed, up=up)
        model = gbcd(X, 5)
        assert share_right(truth, model) > 0.98
        assert model.n_components_ == 3  # what is not supported has gone
        assert (memberships(model)[0] > 0.99).all()  # the baseline
        assert model.clusters_.tolist() == [1, 2]

    def test_a_baseline_that_is_the_same_for_all_features(self):
        rng = np.random.default_rng(0)
        truth = rng.random((3, 90)) < 0.4
        X = 2 + truth.T @ rng.normal(size=(3, 400)) + rng.normal(size=(90, 400))
        model = gbcd(X, 4)
        assert model.clusters_.tolist() == [0, 1, 2]
        assert share_right(truth, model) == 1

    @pytest.mark.parametrize("seed", [5, 6, 7])
    @pytest.mark.parametrize("size", [1, 2])
    def test_a_large_cluster_and_its_complement(self, seed, size):
        """Small effects leave them within the error of each other, and the smaller one is taken."""
        rng = np.random.default_rng(seed)
        truth = rng.random((1, 80)) < 0.7
        effect = size * np.abs(rng.normal(size=300)) * (rng.random(300) < 0.3)
        X = 1 + rng.normal(size=300) + truth.T * effect + 0.5 * rng.normal(size=(80, 300))
        model = gbcd(X, 2)
        assert share_right(truth if size == 2 else ~truth, model) == 1
        start = np.stack([np.ones(80), ~truth[0]]).T
        other = EBCD(
            2,
            prior=["generalized_binary"] * 2,
            start=start,
            scores="integrated",
            center=False,
        ).fit(X.T)
        if size == 2:
            assert other.elbo_ <= model.elbo_ + 0.01

    @pytest.mark.slow
    @pytest.mark.parametrize("seed", [16, 113])  # of 113 a third cluster has nearly all cells first
    def test_clusters_in_counts_are_not_their_complements(self, seed):
        """A few highly expressed genes, whose effects oppose the baseline, decide the ELBO."""
        rng = np.random.default_rng([82, seed])
        truth = rng.random((2, 300)) < [[0.3], [0.4]]
        baseline = rng.normal(size=1000)
        effects = rng.normal(size=(2, 1000)) * (rng.random((2, 1000)) < 0.1)
        depth = rng.lognormal(sigma=0.3, size=(300, 1))
        found = rng.poisson(depth * np.exp(baseline - 1 + truth.T @ effects))
        size = found.sum(axis=1, keepdims=True)
        model = gbcd(np.log1p(found / (size / size.mean())), 3)
        assert share_right(truth, model) > 0.98

    def test_kinds_of_input(self):
        X, _ = draw_cells(1)
        X = np.where(X > 1.5, X, 0.0)
        dense = gbcd(X, 3, spread=0.05)
        assert dense.priors_[1].parameters["spread"] == 0.05
        for same in (sparse.csr_array(X), X.tolist()):
            np.testing.assert_allclose(
                gbcd(same, 3, spread=0.05).components_, dense.components_, atol=1e-4
            )

    def test_noise(self):
        X = np.random.default_rng(0).normal(size=(20, 50))
        with pytest.warns(UserWarning, match="no component"):
            model = gbcd(X, "auto")
        assert model.components_.shape == (0, 20)
        assert model.clusters_.size == 0

    def test_what_the_recipe_decides(self):
        X, _ = draw_cells(0)
        with pytest.raises(TypeError, match="no parameter prior; it is fixed by the method"):
            gbcd(X, 3, prior="normal")
        with pytest.raises(TypeError, match="one array or data frame, got Gram"):
            gbcd(ebcd.Gram(), 3)
        with pytest.raises(ValueError, match="spread"):
            gbcd(X, 3, spread=-1.0)
        with pytest.raises(ValueError, match="n_components"):
            gbcd(X, 200)

    def test_is_shown_and_saved(self, tmp_path):
        model = gbcd(draw_cells(0)[0], 3)
        assert len(repr(model)) < 500
        assert "..." in repr(model)
        ebcd.save(model, tmp_path / "m")
        np.testing.assert_array_equal(ebcd.load(tmp_path / "m").clusters_, model.clusters_)

    def test_noisy_samples_are_no_clusters(self):
        X, truth = draw_cells(2)
        rng = np.random.default_rng(0)
        X += np.where(np.arange(80) < 8, 1.5, 0.0)[:, None] * rng.normal(size=X.shape)
        model = gbcd(X, 6)
        assert model.n_components_ == 3
        assert share_right(truth, model) > 0.95
