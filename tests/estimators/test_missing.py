"""Estimators with missing values: what counts as missing, results, and what is refused."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

import ebcd
from ebcd import EBCD, Chunks, Gram, PenalizedPCA
from ebcd.data._streamed import ChunkRows

N, P = 60, 12
SCORES = ["orthogonal", "relaxed", "integrated"]


def draw(n=N, p=P, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, : p // 2], L[1, p // 3 :] = 2.0, -1.5
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p)) + 3.0


def with_holes(X, share=0.15, seed=1):
    return np.where(np.random.default_rng(seed).random(X.shape) < share, np.nan, X)


@pytest.fixture(scope="module")
def X():
    return with_holes(draw())


@pytest.fixture(scope="module")
def model(X):
    return EBCD(2).fit(X)


class TestKinds:
    @pytest.mark.parametrize(
        "make",
        [
            np.asfortranarray,
            np.ndarray.tolist,
            lambda X: np.ma.masked_array(np.where(np.isnan(X), 1e6, X), np.isnan(X)),
            sparse.csr_array,
            sparse.csc_matrix,
            sparse.coo_array,
        ],
    )
    def test_arrays(self, make, X, model):
        other = EBCD(2).fit(make(X))
        np.testing.assert_allclose(other.components_, model.components_, atol=1e-6)
        np.testing.assert_allclose(other.transform(make(X)), model.transform(X), atol=1e-6)
        assert other.n_missing_ == np.isnan(X).sum()

    def test_a_mask_over_whole_numbers(self):
        whole = np.round(10 * draw()).astype(int)
        mask = np.isnan(with_holes(draw()))
        masked = np.ma.masked_array(np.where(mask, -999, whole), mask)
        expected = EBCD(2).fit(np.where(mask, np.nan, whole))
        np.testing.assert_array_equal(EBCD(2).fit(masked).components_, expected.components_)

    @pytest.mark.parametrize("dtype", ["float64", "Float64", "Float32"])
    def test_frames(self, dtype, X, model):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(X, columns=[f"f{j}" for j in range(P)]).astype(dtype)
        other = EBCD(2).fit(frame)
        np.testing.assert_allclose(other.components_, model.components_, atol=1e-5)
        filled = other.impute(frame)
        assert isinstance(filled, pandas.DataFrame)
        assert list(filled.columns) == list(frame.columns)
        assert filled.index.equals(frame.index)
        np.testing.assert_allclose(filled, model.impute(X), atol=1e-5)

    def test_frame_of_nullable_integers(self):
        pandas = pytest.importorskip("pandas")
        whole = np.round(10 * draw())
        mask = np.isnan(with_holes(draw()))
        frame = pandas.DataFrame(whole).astype("Int64").mask(mask)
        assert frame.isna().to_numpy().sum() == mask.sum()
        expected = EBCD(2).fit(np.where(mask, np.nan, whole)).components_
        np.testing.assert_allclose(EBCD(2).fit(frame).components_, expected, atol=1e-8)

    def test_polars(self, X, model):
        polars = pytest.importorskip("polars")
        frame = polars.DataFrame(X, schema=[f"f{j}" for j in range(P)])
        filled = EBCD(2).fit(frame).impute(frame)
        assert isinstance(filled, polars.DataFrame)
        np.testing.assert_allclose(filled.to_numpy(), model.impute(X), atol=1e-6)

    def test_sparse_data_stay_sparse(self, X, model):
        data = sparse.csc_array(X)
        filled = model.impute(data)
        assert filled.format == "csc"
        np.testing.assert_allclose(filled.toarray(), model.impute(X), atol=1e-12)
        assert np.isnan(data.data).any()

    def test_single_precision(self, X, model):
        low = X.astype(np.float32)
        assert EBCD(2).fit(low).transform(low).dtype == np.float32
        assert model.impute(low).dtype == np.float32


class TestRefused:
    def test_a_feature_without_entries(self, X):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(X, columns=[f"f{j}" for j in range(P)])
        frame["f3"] = np.nan
        with pytest.raises(ValueError, match=r"1 of 12 features have only missing .*: f3; leave"):
            EBCD(2).fit(frame)

    @pytest.mark.parametrize(
        "fit",
        [
            lambda X: EBCD(2).fit(draw()).transform(Chunks([X[:30], X[30:]])),
            lambda X: EBCD(2, center=False).fit(X, n_samples=100),
            lambda X: Gram().update(X),
            lambda X: PenalizedPCA(2).fit(X),
            lambda X: PenalizedPCA(2).fit(draw()).transform(X),
        ],
    )
    def test_what_cannot_do_without_them_names_what_can(self, fit, X):
        with pytest.raises(ValueError, match=r"contains NaN.*EBCD fits .* in memory.*impute\(X\)"):
            fit(X)

    @pytest.mark.parametrize("options", [{}, {"max_memory": "100MB"}])
    def test_chunks_that_are_not_put_together(self, options, X, monkeypatch):
        monkeypatch.setattr(ChunkRows, "together", lambda rows: rows)
        with pytest.raises(ValueError, match=r"contains NaN.*EBCD fits .* in memory"):
            EBCD(2, **options).fit(X if options else [X[:30], X[30:]])

    def test_dask(self, X):
        array = pytest.importorskip("dask.array")
        with pytest.raises(ValueError, match="in memory"):
            EBCD(2).fit(array.from_array(X, chunks=(20, P)))

    def test_masks_of_chunks(self):
        masked = np.ma.masked_array(draw(), np.isnan(with_holes(draw())))
        with pytest.raises(ValueError, match="contains NaN"):
            Gram().update(masked)

    def test_chunks_to_impute(self, model, X):
        with pytest.raises(ValueError, match="impute needs all rows in memory"):
            model.impute([X[:30], X[30:]])

    @pytest.mark.parametrize("scores", ["orthogonal", "integrated"])
    def test_too_few_rows(self, scores):
        X = np.random.default_rng(2).normal(size=(3, 10))
        X[0, 1] = np.nan
        with pytest.raises(
            ValueError, match="data with missing values need at least two more samples"
        ):
            EBCD(3, scores=scores).fit(X)
        message = "n_components=1 and the entries of 2 samples; use more samples"
        with pytest.raises(ValueError, match=message):
            EBCD(1, scores=scores).fit(X)
        with (
            pytest.warns(UserWarning, match="the data do not vary"),
            pytest.warns(UserWarning, match="1 row has only missing entries"),
        ):
            EBCD(1, scores=scores).fit([[1.0], [np.nan]])


class TestRows:
    def test_a_row_without_entries_is_left_out(self, X, model):
        more = np.vstack([X, np.full((1, P), np.nan)])
        with pytest.warns(UserWarning, match=r"left out: 1 row has only missing entries \(60\)"):
            other = EBCD(2).fit(more)
        assert other.n_samples_ == N
        np.testing.assert_allclose(other.components_, model.components_, atol=1e-10)
        np.testing.assert_allclose(other.transform(more)[-1], 0.0, atol=1e-12)
        np.testing.assert_allclose(other.impute(more)[-1], other.mean_)
        assert other.score_samples(more)[-1] == pytest.approx(0.0, abs=1e-9)

    @pytest.mark.parametrize(
        ("scores", "options"),
        [*zip(SCORES, [{}, {"noise": "per_feature"}, {"scale": True}], strict=True)],
    )
    def test_likelihoods_and_expectations_are_those_of_the_gaussian(self, scores, options, X):
        model = EBCD(2, scores=scores, **options).fit(X)
        S, filled = model.get_covariance(), model.impute(X)
        likelihoods = model.score_samples(X)
        for i in range(20):
            seen = ~np.isnan(X[i])
            expected = multivariate_normal(model.mean_[seen], S[np.ix_(seen, seen)])
            assert likelihoods[i] == pytest.approx(expected.logpdf(X[i, seen]), rel=1e-9)
            slope = np.linalg.solve(S[np.ix_(seen, seen)], (X[i] - model.mean_)[seen])
            means = model.mean_[~seen] + S[np.ix_(~seen, seen)] @ slope
            np.testing.assert_allclose(filled[i, ~seen], means, rtol=1e-8)
            np.testing.assert_array_equal(filled[i, seen], X[i, seen])

    @pytest.mark.parametrize("scores", SCORES)
    def test_scores_of_a_row_do_not_depend_on_others(self, scores, X):
        model = EBCD(2, scores=scores).fit(X)
        whole = draw(seed=5)
        together = model.transform(np.vstack([X, whole]))
        np.testing.assert_allclose(together[:N], model.transform(X), atol=1e-10)
        np.testing.assert_allclose(together[N:], model.transform(whole), atol=1e-10)

    def test_integrated_scores_are_posterior_means(self, X):
        model = EBCD(2, scores="integrated", noise="per_feature").fit(X)
        loadings, variances = model._filling
        tau = 1 / model.noise_variance_
        for x, z in zip(X[:10], model.transform(X[:10]), strict=True):
            seen = ~np.isnan(x)
            inner = np.eye(2) + np.diag(variances[:, seen] @ tau[seen])
            inner += (loadings * tau)[:, seen] @ loadings[:, seen].T
            along = (loadings * tau)[:, seen] @ (x - model.mean_)[seen]
            np.testing.assert_allclose(z, np.linalg.solve(inner, along), rtol=1e-7)

    def test_scores_of_training_data_are_uncorrelated_as_far_as_they_are_known(self, X, model):
        shares = (~np.isnan(X)).mean(axis=1)
        Z = model.transform(X)
        np.testing.assert_allclose((Z.T * shares) @ Z / shares.sum(), np.eye(2), atol=1e-2)

    def test_new_holes_in_a_model_of_complete_data(self):
        whole = draw()
        model = EBCD(2).fit(whole)
        assert model.n_missing_ == 0
        scores = model.transform(with_holes(whole, 0.1))
        close = model.transform(whole)
        assert np.corrcoef(scores[:, 0], close[:, 0])[0, 1] > 0.9
        one = whole.copy()
        one[4, 7] = np.nan
        np.testing.assert_allclose(model.transform(one)[:4], close[:4], atol=1e-12)
        assert np.abs(model.transform(one)[4] - close[4]).max() < 0.5

    def test_no_component(self):
        X = with_holes(np.random.default_rng(0).normal(size=(50, 10)))
        with pytest.warns(UserWarning, match="no component was found"):
            model = EBCD().fit(X)
        assert model.transform(X).shape == (50, 0)
        means = np.broadcast_to(np.nanmean(X, axis=0), X.shape)
        np.testing.assert_allclose(model.impute(X)[np.isnan(X)], means[np.isnan(X)])


class TestResults:
    @pytest.mark.parametrize("scores", SCORES)
    def test_uncertainty_grows_where_entries_are_missing(self, scores):
        whole = draw(n=200)
        holes = whole.copy()
        holes[:150, 0] = np.nan
        before, after = (EBCD(2, scores=scores).fit(data) for data in (whole, holes))
        ratio = after.components_sd_ / before.components_sd_
        # three of four are missing, so that the noise doubles; how long components are in the
        # population is as uncertain as before (in 120 data sets errors grew by 1.34)
        assert (ratio[:, 0] > 1.34).all()
        # those of loadings near zero depend on whether they seem to be zero
        clear = np.abs(before.components_[:, 1:]) > 1
        np.testing.assert_allclose(ratio[:, 1:][clear], 1.0, rtol=0.2)
        short, long = (np.diff(m.credible_intervals(0.9), axis=0)[0, :, 0] for m in (before, after))
        assert (long > 1.34 * short).all()

    @pytest.mark.parametrize(
        ("scores", "noise"),
        [("orthogonal", "per_feature"), ("relaxed", "constant"), ("integrated", "per_feature")],
    )
    def test_results_do_not_depend_on_units(self, scores, noise, X):
        one, other = (EBCD(2, scores=scores, noise=noise).fit(factor * X) for factor in (1.0, 1e6))
        np.testing.assert_allclose(other.components_, 1e6 * one.components_, rtol=1e-3, atol=1e3)
        observed = (~np.isnan(X)).sum()
        assert other.elbo_ == pytest.approx(one.elbo_ - observed * np.log(1e6), abs=1e-3)

    def test_mean_is_that_of_what_is_expected(self):
        """A feature is missing where another is large: its mean is not that of the rest."""
        rng = np.random.default_rng(0)
        z = rng.normal(size=(500, 1))
        X = z * np.full(8, 3.0) + rng.normal(size=(500, 8))
        holes = X.copy()
        holes[z[:, 0] > 0, 0] = np.nan
        for scores in SCORES:
            model = EBCD(1, scores=scores).fit(holes)
            assert np.nanmean(holes[:, 0]) < -2
            assert abs(model.mean_[0] - X[:, 0].mean()) < 0.3
            assert abs(model.components_[0, 0] - 3) < 0.4

    def test_number_that_stands_out(self, X):
        assert EBCD(4).fit(X).n_signal_ == 2
        assert EBCD().fit(X).n_components_ == 2

    def test_half_missing_loading_is_not_shrunk_twice(self):
        rng = np.random.default_rng(0)
        L = np.array([[1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 1.0, 1.0]])
        X = rng.normal(size=(4000, 1)) @ L + 0.5 * rng.normal(size=(4000, 8))
        holes = with_holes(X, 0.5)
        holes = holes[~np.isnan(holes).all(axis=1)]
        found = EBCD(1, scores="integrated").fit(holes).components_[0]
        np.testing.assert_allclose(found, L[0], atol=0.05)

    @pytest.mark.parametrize("start", ["greedy", "svd", "varimax", "loadings"])
    def test_starts(self, start, X, model):
        given = model.components_.T if start == "loadings" else start
        other = EBCD(2, start=given).fit(X)
        assert other.elbo_ == pytest.approx(model.elbo_, abs=0.5)

    @pytest.mark.parametrize(
        ("prior", "scores"),
        [
            ("npmle", "orthogonal"),
            ("horseshoe", "integrated"),
            ("flat", "orthogonal"),
            ("generalized_binary", "integrated"),
            ("spatial", "integrated"),
        ],
    )
    def test_priors(self, prior, scores, X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = EBCD(2, prior=prior, scores=scores, tol=1e-3).fit(X)
        assert model.n_components_ == 2
        assert np.isfinite(model.components_).all()
        assert (np.diff(model.elbo_path_) > -1e-4).all()

    def test_paper_rule_and_list_of_priors(self, X):
        model = EBCD(2, prior=["normal", "point_laplace"]).fit(X)
        assert [prior.family for prior in model.priors_] == ["normal", "point_laplace"]

    def test_saved_models_keep_it(self, tmp_path, X, model):
        ebcd.save(model, tmp_path / "model.npz")
        again = ebcd.load(tmp_path / "model.npz")
        np.testing.assert_array_equal(again.transform(X), model.transform(X))
        np.testing.assert_array_equal(again.impute(X), model.impute(X))

    def test_bootstrap_knows_how_much_was_missing(self, X, model):
        sparse_data = EBCD(2).fit(with_holes(draw(), 0.5))
        draws = [m.bootstrap(n_boot=10, random_state=0).sd.mean() for m in (model, sparse_data)]
        assert draws[1] > 1.1 * draws[0]

    def test_checkpoint(self, tmp_path, X):
        file = tmp_path / "fit.npz"
        with pytest.warns(UserWarning, match="max_iter"):
            EBCD(2, checkpoint=file, max_iter=3, tol=1e-9, scores="relaxed").fit(X)
        assert file.exists()
        resumed = EBCD(2, checkpoint=file, max_iter=500, tol=1e-9, scores="relaxed").fit(X)
        straight = EBCD(2, tol=1e-9, scores="relaxed").fit(X)
        assert not file.exists()
        assert resumed.elbo_ == pytest.approx(straight.elbo_, abs=1e-5)

    def test_time_limit(self, X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = EBCD(2, max_time=1e-9).fit(X)
        assert not model.converged_
        assert np.isfinite(model.components_).all()

    def test_comparison_of_priors(self, X):
        table = ebcd.compare_priors(X, ["point_laplace", "normal"], n_components=2)
        assert table.best in ("point_laplace", "normal")

    def test_constant_feature(self, X):
        more = np.column_stack([X, np.full(N, 7.0)])
        more[3, -1] = np.nan
        model = EBCD(2).fit(more)
        assert not model.components_[:, -1].any()
        assert model.impute(more)[3, -1] == 7.0


def test_sparse_data_that_do_not_fit_into_memory(monkeypatch):
    def refused(x):
        raise MemoryError("Unable to allocate 1.9 GiB")

    X = sparse.csr_array(([1.0, np.nan], ([0, 5], [0, 3])), shape=(500_000, 500))
    monkeypatch.setattr("ebcd.data._observed.as_dense", refused)
    with pytest.raises(MemoryError, match="made dense, which takes 2 GB here; fill in"):
        EBCD(1).fit(X)
