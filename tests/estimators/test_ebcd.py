"""What `EBCD` finds, in every form of input, and what can be done with it."""

import re
import tracemalloc
from functools import cache

import numpy as np
import pytest
from families import make_family
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning

from ebcd import EBCD, Gram
from ebcd.metrics import component_angles
from ebcd.priors import PRIORS, make_prior


def truth(p=30):
    L = np.zeros((2, p))
    L[0, : p // 4], L[1, p // 2 :] = 2.5, -1.5
    return L


def draw(n=60, p=30, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ truth(p) + rng.normal(size=(n, p)) + rng.normal(size=p)


def weak(n, p, k, size, seed):
    rng = np.random.default_rng(seed)
    L = rng.laplace(size=(k, p)) * (rng.random((k, p)) < 0.3) * size
    return rng.normal(size=(n, k)) @ L + rng.normal(size=(n, p)) + 1


def relative(ours, reference):
    return np.linalg.norm(ours - reference) / np.linalg.norm(reference)


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def merged(X):
    total = Gram()
    for chunk in np.array_split(X, 4):
        total = total + Gram().update(chunk)
    return total


INPUTS = {
    "Fortran order": np.asfortranarray,
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": read_only,
    "list": np.ndarray.tolist,
    "csr_matrix": sparse.csr_matrix,
    "csc_matrix": sparse.csc_matrix,
    "csr_array": sparse.csr_array,
    "csc_array": sparse.csc_array,
    "coo_array": sparse.coo_array,
    "Gram": lambda X: Gram().update(X),
    "merged Gram": merged,
}
DATA = {
    "tall": (draw(), 2),
    "wide": (draw(20, 60), 2),
    "square": (draw(40, 40), 2),
    "tall and weak": (weak(80, 30, 3, 0.5, 0), 3),
    "tall and weaker": (weak(80, 30, 3, 0.5, 2), 3),
    "square and weak": (weak(60, 60, 3, 0.7, 1), 3),
    "wide and weak": (weak(40, 100, 3, 0.6, 2), 3),
}
CLEAR = ["tall", "wide", "square"]
SOME = ["Fortran order", "csr_array", "csc_matrix", "merged Gram"]
SETTINGS = {
    "default": {},
    "scaled": {"scale": True},
    "per feature": {"noise": "per_feature"},
    "uncentred": {"center": False},
}


@cache
def fitted(data):
    X, k = DATA[data]
    return EBCD(k).fit(X)


def check_same(model, reference, accuracy):
    assert relative(model.components_, reference.components_) < accuracy
    assert relative(model.components_sd_, reference.components_sd_) < accuracy
    np.testing.assert_allclose(model.noise_variance_, reference.noise_variance_, rtol=accuracy)
    np.testing.assert_allclose(model.scale_, reference.scale_, rtol=accuracy)
    np.testing.assert_allclose(
        model.explained_variance_ratio_, reference.explained_variance_ratio_, rtol=10 * accuracy
    )
    assert model.elbo_ == pytest.approx(reference.elbo_, rel=accuracy)
    assert model.n_samples_ == reference.n_samples_


class TestSameResultFromEveryInput:
    @pytest.mark.parametrize(
        ("kind", "data"), [(kind, CLEAR[i % 3]) for i, kind in enumerate(INPUTS)]
    )
    def test_default_settings(self, kind, data):
        X, k = DATA[data]
        check_same(EBCD(k).fit(INPUTS[kind](X)), fitted(data), 1e-8)

    @pytest.mark.parametrize("kind", SOME)
    @pytest.mark.parametrize("data", [data for data in DATA if data not in CLEAR])
    def test_weak_signals(self, kind, data):
        # a start that depends on the kind of input would show here
        X, k = DATA[data]
        check_same(EBCD(k).fit(INPUTS[kind](X)), fitted(data), 1e-8)

    @pytest.mark.parametrize("kind", SOME)
    @pytest.mark.parametrize(
        ("setting", "data"), [*zip(SETTINGS, ["tall", "wide", "tall", "wide"], strict=True)]
    )
    def test_other_settings(self, kind, data, setting):
        X, k = DATA[data]
        model, reference = EBCD(k, **SETTINGS[setting]), EBCD(k, **SETTINGS[setting])
        check_same(model.fit(INPUTS[kind](X)), reference.fit(X), 1e-8)
        np.testing.assert_allclose(model.mean_, reference.mean_, rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("kind", ["Fortran order", "csr_array", "merged Gram"])
    def test_number_of_components(self, kind):
        X, _ = DATA["tall"]
        check_same(EBCD().fit(INPUTS[kind](X)), EBCD().fit(X), 1e-8)

    @pytest.mark.parametrize("data", DATA)
    def test_memory_mapped(self, data, tmp_path):
        X, k = DATA[data]
        np.save(tmp_path / "X.npy", X)
        mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
        check_same(EBCD(k).fit(mapped), fitted(data), 1e-8)

    @pytest.mark.parametrize("data", CLEAR)
    @pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
    def test_single_precision(self, data, make):
        X, k = DATA[data]
        model = EBCD(k).fit(make(X.astype(np.float32)))
        check_same(model, fitted(data), 1e-4)
        assert model.components_.dtype == np.float64
        assert model.transform(X.astype(np.float32)).dtype == np.float32

    def test_data_are_left_alone(self):
        X, k = DATA["tall"]
        for make in (np.asarray, sparse.csr_array):
            before = make(X.copy())
            given = before.copy()
            EBCD(k, scale=True).fit(given).transform(given)
            assert abs(given - before).max() == 0


class TestMemory:
    """Peaks of allocated memory."""

    @staticmethod
    def peak(model, X):
        tracemalloc.start()
        model.fit(X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    def test_wide_data_are_not_copied(self):
        X = draw(600, 6000)
        assert self.peak(EBCD(2, start="varimax"), X) < 0.5 * X.nbytes

    @pytest.mark.parametrize("is_sparse", [False, True])
    @pytest.mark.parametrize(
        ("scores", "k", "most"),
        [
            ("orthogonal", 1, 4.6),
            ("orthogonal", 3, 6.8),
            ("integrated", 1, 6.0),
            ("integrated", 3, 14.5),
        ],
    )
    def test_few_rows_with_many_columns(self, scores, k, most, is_sparse):
        X = draw(8, 150_000)
        most *= X.nbytes
        if is_sparse:
            X[np.random.default_rng(1).random(X.shape) < 0.9] = 0.0
            X = sparse.csr_array(X)
        assert self.peak(EBCD(k, scores=scores), X) < most

    @pytest.mark.filterwarnings("ignore:the fit stopped after max_iter")
    def test_sparse_data_stay_sparse(self):
        entries = np.random.default_rng(0).random((1500, 5000))
        X = sparse.csr_array(np.where(entries < 0.002, entries, 0.0))
        dense = 8 * X.shape[0] * X.shape[1]
        assert self.peak(EBCD(1, start="svd", max_iter=5), X) < 0.5 * dense


class TestEquivalences:
    """The paper's other formulations of the same fit."""

    @pytest.mark.parametrize("data", DATA)
    def test_covariance_alone(self, data):
        X, k = DATA[data]
        reference = fitted(data)
        model = EBCD(k).fit_covariance(np.cov(X.T, bias=True), len(X))
        check_same(model, reference, 1e-8)
        assert not hasattr(model, "mean_")
        scores = model.transform(X - X.mean(axis=0))
        np.testing.assert_allclose(scores, reference.transform(X), atol=1e-6)
        np.testing.assert_allclose(model.inverse_transform(scores), scores @ model.components_)

    @pytest.mark.parametrize("method", ["transform", "score"])
    @pytest.mark.parametrize("is_sparse", [False, True])
    def test_data_that_are_not_centred_as_the_covariance_was(self, method, is_sparse):
        X, k = DATA["tall"]
        S = np.cov(X.T, bias=True)
        model = EBCD(k).fit_covariance(S, len(X))
        far = X - X.mean(axis=0)
        far[:, 3] += 2 * far[:, 3].std()
        as_kind = sparse.csr_array if is_sparse else np.asarray
        with pytest.warns(UserWarning, match=r"1 of \d+ columns of X have means far from zero"):
            getattr(model, method)(as_kind(far))
        for rows in ([0], slice(5), slice(None)):  # new samples, whose means are not quite zero
            getattr(model, method)((X - X.mean(axis=0))[rows])
        getattr(EBCD(k, center=False).fit_covariance(S, len(X)), method)(far)


class TestScores:
    @pytest.mark.parametrize("setting", SETTINGS)
    @pytest.mark.parametrize("data", ["tall", "wide"])
    def test_of_the_training_data(self, setting, data):
        X, k = DATA[data]
        model = EBCD(k, **SETTINGS[setting])
        scores = model.fit_transform(X)
        np.testing.assert_allclose(scores, model.transform(X), atol=1e-12)
        np.testing.assert_allclose(scores.T @ scores, len(X) * np.eye(k), atol=1e-6 * len(X))
        np.testing.assert_allclose(scores, model.transform(sparse.csr_array(X)), atol=1e-10)
        if model.center:
            np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-10)

    def test_are_a_linear_map(self):
        X, k = DATA["tall"]
        model = EBCD(k).fit(X)
        rng = np.random.default_rng(0)
        one, other = rng.normal(size=(2, 5, X.shape[1]))
        origin = model.transform(np.zeros((1, X.shape[1])))
        expected = 2 * model.transform(one) - 3 * model.transform(other) + 2 * origin
        np.testing.assert_allclose(model.transform(2 * one - 3 * other), expected, atol=1e-10)
        np.testing.assert_allclose(
            model.transform(one), np.vstack([model.transform(row[None]) for row in one])
        )
        np.testing.assert_allclose(model.transform(model.mean_[None]), 0.0, atol=1e-12)

    def test_find_the_truth(self):
        X = draw(400, 40)
        model = EBCD().fit(X)
        assert model.n_components_ == 2
        assert (component_angles(truth(40).T, model.components_.T) < 0.1).all()
        assert model.noise_variance_ == pytest.approx(1.0, abs=0.1)


class TestImpliedGaussian:
    @pytest.mark.parametrize("setting", SETTINGS)
    def test_covariance_and_precision(self, setting):
        X, k = DATA["tall"]
        model = EBCD(k, **SETTINGS[setting]).fit(X)
        p = X.shape[1]
        noise = np.broadcast_to(model.noise_variance_, p)
        covariance = model.get_covariance()
        expected = model.components_.T @ model.components_ + np.diag(noise)
        np.testing.assert_allclose(covariance, expected)
        np.testing.assert_allclose(covariance @ model.get_precision(), np.eye(p), atol=1e-9)

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_log_likelihood(self, setting):
        X, k = DATA["tall"]
        model = EBCD(k, **SETTINGS[setting]).fit(X)
        gaussian = stats.multivariate_normal(model.mean_, model.get_covariance())
        new = draw(10, seed=5)
        np.testing.assert_allclose(model.score_samples(new), gaussian.logpdf(new), rtol=1e-9)
        np.testing.assert_allclose(
            model.score_samples(sparse.csr_array(new)), gaussian.logpdf(new), rtol=1e-9
        )
        assert model.score(new) == pytest.approx(gaussian.logpdf(new).mean())

    def test_without_means(self):
        X, k = DATA["tall"]
        model = EBCD(k).fit_covariance(np.cov(X.T, bias=True), len(X))
        gaussian, X = stats.multivariate_normal(cov=model.get_covariance()), X - X.mean(axis=0)
        np.testing.assert_allclose(model.score_samples(X), gaussian.logpdf(X), rtol=1e-9)


class TestScaling:
    """With ``scale=True`` as if standardised by hand, all in the units of the data."""

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    @pytest.mark.parametrize("start", ["auto", "given"])
    def test_everything_is_in_the_units_of_the_data(self, noise, start):
        X = draw() * np.random.default_rng(1).uniform(0.1, 20, 30)
        mean, sd = X.mean(axis=0), X.std(axis=0)
        loadings = np.random.default_rng(2).normal(size=(30, 2))
        by_hand, given = ("auto", "auto") if start == "auto" else (loadings, sd[:, None] * loadings)
        manual = EBCD(2, noise=noise, start=by_hand).fit((X - mean) / sd)
        model = EBCD(2, noise=noise, start=given, scale=True).fit(X)

        np.testing.assert_allclose(model.mean_, mean)
        np.testing.assert_allclose(model.scale_, sd)
        order = [
            int(np.abs(model.components_ / sd @ row).argmax()) for row in manual.components_
        ]  # by explained variance, which depends on units
        signs = np.sign(((model.components_ / sd)[order] * manual.components_).sum(axis=1))
        ours = model.components_[order] * signs[:, None]
        np.testing.assert_allclose(ours, manual.components_ * sd, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(
            model.components_sd_[order], manual.components_sd_ * sd, rtol=1e-6, atol=1e-9
        )
        np.testing.assert_allclose(model.lfsr_[order], manual.lfsr_, rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(model.noise_variance_, manual.noise_variance_ * sd**2, rtol=1e-7)
        assert model.elbo_ == pytest.approx(manual.elbo_ - len(X) * np.log(sd).sum(), rel=1e-9)
        np.testing.assert_allclose(
            model.transform(X)[:, order] * signs, manual.transform((X - mean) / sd), atol=1e-6
        )
        np.testing.assert_allclose(
            model.score_samples(X),
            manual.score_samples((X - mean) / sd) - np.log(sd).sum(),
            rtol=1e-8,
        )
        np.testing.assert_allclose(
            model.explained_variance_, (model.components_**2).sum(axis=1), rtol=1e-10
        )
        total = X.var(axis=0).sum()
        np.testing.assert_allclose(
            model.explained_variance_ratio_, model.explained_variance_ / total, rtol=1e-10
        )

    def test_order_and_signs_are_those_of_the_units_of_the_data(self):
        X = draw() * np.r_[np.full(15, 1.0), np.full(15, 50.0)]
        X[:, 29] *= -100
        for noise in ("constant", "per_feature"):
            model = EBCD(2, scale=True, noise=noise).fit(X)
            assert (np.diff(model.explained_variance_) <= 0).all()
            for row in model.components_:
                assert row[np.abs(row).argmax()] > 0

    @pytest.mark.parametrize("noise", ["constant", "per_feature"])
    @pytest.mark.parametrize("factor", [1e-3, 1.5, 2.0, 700.0])
    def test_elbo_in_other_units(self, noise, factor):
        # a change of units adds the log of its Jacobian, whatever the noise model
        X, k = DATA["tall"]
        one = EBCD(k, noise=noise, tol=1e-9).fit(X)
        other = EBCD(k, noise=noise, tol=1e-9).fit(factor * X)
        assert other.elbo_ == pytest.approx(one.elbo_ - X.size * np.log(factor), rel=1e-9)
        np.testing.assert_allclose(other.components_, factor * one.components_, rtol=1e-3, atol=0)


class TestAttributes:
    def test_elbo_and_iterations(self):
        X, k = DATA["tall"]
        model = EBCD(k).fit(X)
        assert model.elbo_ == model.elbo_path_[-1]
        assert isinstance(model.elbo_, float)
        assert model.converged_ is True
        assert 1 <= len(model.elbo_path_) <= model.n_iter_
        assert (model.n_samples_, model.n_features_in_, model.n_components_) == (*X.shape, k)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("data", ["tall and weak", "tall"])
    def test_no_more_iterations_than_asked_for(self, data):
        X, k = DATA[data]
        for max_iter in (1, 2, 3, 4, 6, 9, 14, 40):
            model = EBCD(k, start="svd", max_iter=max_iter).fit(X)
            assert model.n_iter_ <= max_iter
            assert (np.diff(model.elbo_path_) >= -1e-9 * abs(model.elbo_)).all()
            assert len(model.elbo_path_) <= max_iter

    def test_sign_rates(self):
        X, k = DATA["tall"]
        model = EBCD(k).fit(X)
        assert ((model.lfsr_ >= 0) & (model.lfsr_ <= 1)).all()
        order = [int(np.abs(row @ model.components_.T).argmax()) for row in truth()]
        rates = model.lfsr_[order]
        assert (rates[truth() != 0] < 0.01).all()
        assert np.median(rates[truth() == 0]) > 0.3

    def test_noise_is_one_number_or_one_per_feature(self):
        X, k = DATA["tall"]
        assert isinstance(EBCD(k).fit(X).noise_variance_, float)
        assert EBCD(k, noise="per_feature").fit(X).noise_variance_.shape == (30,)
        assert EBCD(k, scale=True).fit(X).noise_variance_.shape == (30,)

    def test_second_fit_forgets_the_first(self):
        X, k = DATA["tall"]
        model = EBCD(k).fit(X)
        other = draw(30, 12)
        model.fit(other)
        check_same(model, EBCD(k).fit(other), 1e-12)
        assert model.n_features_in_ == 12
        model.fit_covariance(np.cov(X.T, bias=True), len(X))
        assert not hasattr(model, "mean_")
        assert model.transform(X - X.mean(axis=0)).shape == (len(X), k)


class TestPosterior:
    def test_sparsify(self):
        X, k = DATA["tall"]
        model = EBCD(k).fit(X)
        for level in (0.01, 0.05, 0.5):
            kept = model.sparsify(level)
            np.testing.assert_array_equal(kept[model.lfsr_ > level], 0.0)
            sure = model.lfsr_ <= level
            np.testing.assert_array_equal(kept[sure], model.components_[sure])
        np.testing.assert_array_equal(model.sparsify(), model.sparsify(0.05))
        assert ((model.sparsify() != 0).sum(axis=1) < 20).all()

    @pytest.mark.parametrize(
        ("setting", "prior"),
        [*zip(SETTINGS, ["point_laplace", "point_exponential", "normal", "laplace"], strict=True)],
    )
    def test_samples_have_the_moments_of_the_components(self, setting, prior):
        X, k = DATA["tall"]
        model = EBCD(k, prior=prior, **SETTINGS[setting]).fit(X)
        k = model.n_components_
        samples = model.sample_components(400, random_state=0)
        assert samples.shape == (400, k, X.shape[1])
        error = (samples.mean(axis=0) - model.components_) / model.components_sd_ * np.sqrt(400)
        assert (np.abs(error) < 6).all()
        assert np.median(np.abs(error)) < 1.0
        ratio = samples.std(axis=0) / model.components_sd_
        assert 0.95 < np.median(ratio) < 1.05

    def test_samples_follow_the_seed(self):
        X, k = DATA["tall"]
        model = EBCD(k).fit(X)
        one, same, other = (model.sample_components(3, random_state=seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, same)
        assert (one != other).any()
        assert model.sample_components(2, np.random.default_rng(0)).shape == (2, k, 30)

    def test_one_sided_samples(self):
        X = draw() - 2 * draw().mean(axis=0)
        model = EBCD(2, prior="point_exponential").fit(X)
        assert (model.sample_components(50, random_state=0) >= 0).all()


class TestOrderAndSign:
    @pytest.mark.parametrize("prior", ["point_laplace", "unimodal", "npmle", "generalized_binary"])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_rules(self, prior, sign):
        X = sign * draw(60, 12)
        model = EBCD(2, prior=prior, start="varimax").fit(X)
        assert (np.diff(model.explained_variance_) <= 0).all()
        for row in model.components_:
            assert row[np.abs(row).argmax()] > 0
        # the prior is that of the component as it is shown
        scores = model.transform(X)
        b = (X - X.mean(axis=0)).T @ scores / len(X)
        s = np.sqrt(model.noise_variance_ / len(X))
        for prior_found, row, observed in zip(model.priors_, model.components_, b.T, strict=True):
            assert relative(prior_found.shrink(observed, s), row) < 0.02

    @pytest.mark.parametrize("prior", [name for name in PRIORS if PRIORS[name].side])
    @pytest.mark.parametrize(
        "start", ["greedy", "svd", pytest.param("auto", marks=pytest.mark.slow)]
    )
    def test_one_sided_components_stay_on_their_side(self, prior, start):
        X = draw(80, 20)
        model = EBCD(2, prior=prior, start=start).fit(X)
        assert model.n_components_ == 2
        side = PRIORS[prior].side
        assert (side * model.components_ >= 0).all()
        assert (side * model.components_.sum(axis=1) > 0).all()


class TestPriors:
    def test_list_keeps_its_order(self):
        X = draw(100, 20)
        strong_last = truth(20).T[:, np.argsort((truth(20) ** 2).sum(axis=1))]
        model = EBCD(2, prior=["normal", "laplace"], start=strong_last).fit(X)
        assert [prior.family for prior in model.priors_] == ["normal", "laplace"]
        assert model.explained_variance_[0] < model.explained_variance_[1]
        one = EBCD(2, prior="normal", start=strong_last).fit(X)
        assert one.explained_variance_[0] > one.explained_variance_[1]

    def test_list_with_an_empty_component(self):
        X = draw(100, 20)
        priors = ["point_mass", "normal", "laplace"]
        model = EBCD(3, prior=priors, start="svd").fit(X)
        assert [prior.family for prior in model.priors_] == ["normal", "laplace"]
        assert model.n_components_ == 2

    def test_short_list_is_continued_with_its_last(self):
        model = EBCD(2, prior=["normal"], start="svd").fit(draw())
        assert [prior.family for prior in model.priors_] == ["normal", "normal"]

    def test_fitted_prior_stays_as_it_is(self):
        prior = make_prior("point_laplace", weight=0.3, scale=1.7)
        X, k = DATA["tall"]
        model = EBCD(k, prior=prior).fit(X)
        assert model.priors_ == [prior] * k
        free = EBCD(k).fit(X)
        assert free.elbo_ > model.elbo_
        assert EBCD(k, prior=free.priors_).fit(X).elbo_ == pytest.approx(free.elbo_, abs=0.1)

    def test_fixed_and_free_priors_together(self):
        prior = make_prior("normal", scale=2.0)
        model = EBCD(2, prior=[prior, "point_laplace"], start="svd").fit(draw())
        assert model.priors_[0] == prior
        assert model.priors_[1].family == "point_laplace"

    @pytest.mark.slow
    def test_families_with_options_are_in_the_units_of_the_data(self):
        X, k = DATA["tall"]
        grid = np.linspace(-5, 5, 41)
        one = EBCD(k, prior=make_family("npmle", grid=grid)).fit(X)
        other = EBCD(k, prior=make_family("npmle", grid=1000 * grid)).fit(1000 * X)
        np.testing.assert_allclose(other.components_, 1000 * one.components_, rtol=1e-3, atol=1e-2)
        for prior in one.priors_:
            distance = np.abs(prior.parameters["locations"][:, None] - grid).min(axis=1)
            assert (distance < 1e-9).all()

    @pytest.mark.parametrize("prior", PRIORS)
    @pytest.mark.filterwarnings("ignore:no component was found")
    def test_every_family(self, prior):
        X = draw(60, 12)
        model = EBCD(2, prior=make_family(prior), start="varimax").fit(X)
        assert all(found.family == prior for found in model.priors_)
        assert np.isfinite(model.components_).all()
        assert ((model.lfsr_ >= 0) & (model.lfsr_ <= 1)).all()
        rotates = prior in ("normal", "flat")  # which do not say which rotation
        if prior != "point_mass" and not PRIORS[prior].side and not rotates:
            assert (component_angles(truth(12).T, model.components_.T) < 0.25).all()

    def test_flat_prior_gives_principal_components(self):
        X = draw(60, 16)
        model = EBCD(2, prior="flat", start="svd").fit(X)
        _, values, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        expected = (right[:2].T * values[:2] ** 2) @ right[:2] / 60
        np.testing.assert_allclose(model.components_.T @ model.components_, expected, atol=1e-6)

    @pytest.mark.parametrize(
        ("prior", "scores", "noise"),
        [
            ("flat", "orthogonal", "constant"),
            ("flat", "relaxed", "per_feature"),
            ("flat", "integrated", "constant"),
            (["flat", "point_laplace"], "orthogonal", "per_feature"),
            (["flat", "point_laplace"], "relaxed", "constant"),
            (["flat", "point_laplace"], "integrated", "per_feature"),
        ],
        ids=str,
    )
    def test_flat_prior_has_no_elbo(self, prior, scores, noise):
        """Its density has no scale; the fit climbs all the same, and nothing warns."""
        model = EBCD(2, prior=prior, scores=scores, noise=noise).fit(draw(60, 16))
        assert np.isnan(model.elbo_)
        assert "ELBO" not in model.summary()
        assert model.converged_
        assert (np.diff(model.elbo_path_) > -1e-6).all()

    @pytest.mark.parametrize(("scores", "missing"), [("relaxed", 0.05), ("integrated", 0.0)])
    def test_flat_prior_holds_no_lengths(self, scores, missing):
        X = draw(300, 50)
        X[np.random.default_rng(0).random(X.shape) < missing] = np.nan
        flat, normal = (EBCD(2, prior=prior, scores=scores).fit(X) for prior in ("flat", "normal"))
        size = normal.explained_variance_.sum()
        np.testing.assert_allclose(flat.explained_variance_.sum(), size, rtol=0.05)
        np.testing.assert_allclose(
            flat.components_sd_.mean(), normal.components_sd_.mean(), rtol=0.1
        )
        np.testing.assert_allclose(flat.score(X), normal.score(X), rtol=1e-3)
        again = flat.inverse_transform(flat.transform(X))
        np.testing.assert_allclose(again, normal.inverse_transform(normal.transform(X)), atol=0.2)

    @pytest.mark.parametrize("prior", ["flat", [make_prior("flat"), "normal"]], ids=str)
    @pytest.mark.parametrize("scores", ["relaxed", "integrated"])
    def test_flat_prior_and_fewer_samples_than_features(self, prior, scores):
        """Loadings grow and scores shrink without end."""
        with pytest.raises(ValueError, match=r'needs more samples than features.*prior="normal"'):
            EBCD(2, prior=prior, scores=scores).fit(draw(60, 100))
        assert EBCD(2, prior=prior).fit(draw(60, 100)).converged_


class TestStarts:
    def test_given_loadings_set_the_number_of_components(self):
        X = draw()
        for n_components in ("auto", 2):
            model = EBCD(n_components, start=truth().T).fit(X)
            assert model.n_components_ == 2
        assert EBCD(start=truth().T[:, :1]).fit(X).n_components_ == 1

    def test_given_loadings_are_where_it_starts(self):
        X = draw()
        done = EBCD(2, tol=1e-10).fit(X)
        again = EBCD(2, start=done.components_.T, tol=1e-6).fit(X)
        assert again.n_iter_ < 10  # priors and noise start anew, scores are there already
        assert again.elbo_ == pytest.approx(done.elbo_, abs=1e-6)

    def test_lists_and_frames(self):
        X = draw()
        expected = EBCD(2, start=truth().T).fit(X).components_
        np.testing.assert_allclose(EBCD(2, start=truth().T.tolist()).fit(X).components_, expected)


class TestNumberOfComponents:
    def test_papers_rule_finds_more(self):
        X = draw(40, 20)
        automatic = EBCD().fit(X).n_components_
        with pytest.warns(ConvergenceWarning):
            paper = EBCD("paper", max_iter=5).fit(X).n_components_
        assert automatic == 2
        assert 2 <= paper <= 20

    def test_papers_rule_stops_at_an_empty_component(self):
        with pytest.warns(UserWarning, match="no component was found"):
            assert EBCD("paper", prior="point_mass").fit(draw()).n_components_ == 0

    def test_fewer_are_kept_if_some_are_empty(self):
        X = draw(200, 20)
        priors = [make_family("point_laplace"), make_family("point_laplace"), "point_mass"]
        model = EBCD(3, prior=priors, start="svd").fit(X)
        assert model.n_components_ == 2
        assert model.components_.shape == (2, 20)
        assert model.transform(X).shape == (200, 2)


class TestNothingFound:
    @pytest.fixture
    def X(self):
        return np.random.default_rng(0).normal(size=(50, 8)) + 4.0

    @pytest.mark.parametrize("setting", SETTINGS)
    def test_shapes_and_message(self, X, setting):
        model = EBCD(**SETTINGS[setting])
        X = X - 4.0 if setting == "uncentred" else X
        with pytest.warns(UserWarning, match="nothing stands out from noise. Pass n_components"):
            scores = model.fit_transform(X)
        assert scores.shape == (50, 0)
        assert model.n_components_ == 0
        assert model.components_.shape == model.components_sd_.shape == model.lfsr_.shape == (0, 8)
        assert model.explained_variance_.shape == model.explained_variance_ratio_.shape == (0,)
        assert model.priors_ == []
        assert model.sample_components(3).shape == (3, 0, 8)
        assert model.sparsify().shape == (0, 8)
        assert list(model.get_feature_names_out()) == []
        assert model.converged_
        np.testing.assert_allclose(model.inverse_transform(scores), np.tile(model.mean_, (50, 1)))
        noise = np.broadcast_to(model.noise_variance_, 8)
        np.testing.assert_allclose(model.get_covariance(), np.diag(noise))
        np.testing.assert_allclose(model.get_precision(), np.diag(1 / noise))
        expected = stats.norm.logpdf(X, model.mean_, np.sqrt(noise)).sum(axis=1)
        np.testing.assert_allclose(model.score_samples(X), expected)
        assert "0 components" in model.summary()
        assert "nothing stands out" in model.summary()
        if setting == "default":
            assert model.elbo_ == pytest.approx(expected.sum())

    @pytest.mark.filterwarnings("ignore:no component was found")
    def test_frame(self, X):
        pytest.importorskip("pandas")
        assert EBCD().fit(X).loadings_frame().shape == (8, 0)


class TestForPeople:
    @pytest.fixture
    def model(self):
        return EBCD(2).fit(draw())

    def test_top_features(self, model):
        top = model.top_features(1, 4)
        assert len(top) == 4
        sizes = [abs(feature.loading) for feature in top]
        assert sizes == sorted(sizes, reverse=True)
        for feature in top:
            j = int(feature.name.removeprefix("x"))
            assert feature.loading == model.components_[1, j]
            assert feature.sd == model.components_sd_[1, j]
            assert feature.lfsr == model.lfsr_[1, j]
        assert len(model.top_features()) == 10
        assert len(model.top_features(0, 99)) == 30

    def test_names_may_be_given(self, model):
        names = [f"gene {j}" for j in range(30)]
        plain = model.top_features(0, 3)
        named = model.top_features(0, 3, feature_names=names)
        assert [f.name for f in named] == [f"gene {f.name[1:]}" for f in plain]
        assert [f[1:] for f in named] == [f[1:] for f in plain]
        assert named[0].name in model.summary(feature_names=np.array(names))
        assert "gene" not in model.summary()

    def test_names_of_rows_may_be_given(self, model):
        pytest.importorskip("pandas")
        names = [f"gene {j}" for j in range(30)]
        assert list(model.loadings_frame(feature_names=names).index) == names

    @pytest.mark.parametrize("method", ["summary", "top_features", "loadings_frame"])
    def test_wrong_number_of_names(self, model, method):
        if method == "loadings_frame":
            pytest.importorskip("pandas")
        with pytest.raises(ValueError, match="feature_names must have one name for each of the 30"):
            getattr(model, method)(feature_names=["a", "b"])

    def test_summary(self, model):
        text = model.summary()
        assert text.startswith("EBCD of 60 samples x 30 features: 2 components, ")
        share = 100 * model.explained_variance_ratio_
        assert f"{share.sum():.1f}% of the variance" in text
        for k in range(2):
            assert f"component {k}: {share[k]:.1f}% of the variance" in text
            assert model.priors_[k].describe() in text
            assert model.top_features(k, 1)[0].name in text
        assert f"noise variance {model.noise_variance_:.4g}" in text
        assert "hint" not in text

    def test_summary_of_one_loading(self):
        X = np.random.default_rng(0).normal(size=(60, 8)) * [5, *[1] * 7]
        assert "1 of 8 loadings has a clear sign" in EBCD(1).fit(X).summary()

    def test_components_that_do_not_stand_out(self):
        X = draw()
        model = EBCD(4).fit(X)
        assert model.n_signal_ == EBCD().fit(X).n_components_ == EBCD().fit(X).n_signal_ == 2
        assert "components 2, 3 do not stand out from noise" in model.summary()
        assert "component 2 does not stand out from noise" in EBCD(3).fit(X).summary()
        assert EBCD(1).fit(X).n_signal_ == 1
        assert "stand out" not in EBCD(2).fit(X).summary()

    def test_components_that_do_not_stand_out_from_uneven_rows(self):
        """Also if there are too many rows to keep them until somebody asks."""
        rng = np.random.default_rng(0)
        X = np.exp(0.5 * rng.normal(size=(300, 1))) * rng.normal(size=(300, 1000))
        X += rng.normal(size=(300, 1)) * np.r_[np.full(100, 1.5), np.zeros(900)]
        assert EBCD(5, max_iter=5).fit(X).n_signal_ == 1

    @pytest.mark.parametrize("parameters", [{"scale": True}, {"noise": "per_feature"}])
    def test_how_many_stand_out_from_a_covariance(self, parameters):
        X = draw()
        model = EBCD(3, **parameters).fit_covariance(np.cov(X.T, bias=True), len(X))
        assert model.n_signal_ == 2

    def test_hint_about_scaling(self):
        X = draw()
        uneven = X * np.r_[20.0, np.ones(29)]
        assert "consider scale=True" in EBCD(2).fit(uneven).summary()
        assert "scale=True" not in EBCD(2, scale=True).fit(uneven).summary()

    def test_one_component(self):
        assert "1 component," in EBCD(1).fit(draw()).summary()

    def test_loadings_frame(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(draw(), columns=[f"gene {j}" for j in range(30)])
        model = EBCD(2).fit(frame)
        loadings = model.loadings_frame()
        assert list(loadings.index) == list(frame.columns)
        assert loadings.index.name == "feature"
        assert list(loadings.columns) == ["ebcd0", "ebcd1"]
        np.testing.assert_array_equal(loadings.to_numpy(), model.components_.T)
        assert model.top_features(0, 1)[0].name.startswith("gene")

    def test_frames_need_pandas(self, model, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "pandas", None)
        with pytest.raises(ImportError, match="pip install pandas"):
            model.loadings_frame()

    def test_verbose(self, capsys):
        model = EBCD(2, verbose=1, start="svd").fit(draw())
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) >= len(model.elbo_path_) - 1
        last = lines[-1]
        for word in ("iteration", "ELBO", "change", "2 components", " s"):
            assert word in last
        printed = float(re.search(r"ELBO\s+(-?[\d.]+)", last).group(1))
        assert printed == pytest.approx(model.elbo_, abs=1e-3)

    def test_silent_by_default(self, capsys):
        EBCD(2).fit(draw())
        assert capsys.readouterr().out == ""


class TestWarnings:
    def test_too_few_iterations(self):
        X, k = DATA["tall and weak"]
        match = r"stopped after max_iter=3 iterations .* tol=1e-05; raise max_iter or tol"
        with pytest.warns(ConvergenceWarning, match=match):
            model = EBCD(k, start="svd", max_iter=3).fit(X)
        assert model.converged_ is False

    def test_exact_fit(self):
        X = np.random.default_rng(0).normal(size=(20, 1)) @ np.ones((1, 5))
        match = "with 1 component the model can fit the data exactly, .* has no maximum$"
        with pytest.warns(ConvergenceWarning, match=match):
            model = EBCD(1).fit(X)
        assert model.converged_ is False
        assert model.noise_variance_ < 1e-8

    def test_tolerance_zero_stops_at_rounding(self):
        model = EBCD(2, tol=0.0, max_iter=5000).fit(draw())
        assert model.converged_


class TestUnevenFeatures:
    """Noise per feature: the units of single features must not matter."""

    @staticmethod
    def draw(unit):
        rng = np.random.default_rng(3)
        L = np.zeros((2, 30))
        for row in L:
            row[rng.choice(30, 6, replace=False)] = 2 * rng.normal(size=6)
        X = rng.normal(size=(100, 2)) @ L + rng.normal(size=(100, 30))
        return np.hstack([X, unit * rng.normal(size=(100, 2))])

    @pytest.mark.parametrize("unit", [10.0, 100.0, 1e6])
    @pytest.mark.parametrize("start", ["auto", "greedy", "varimax"])
    def test_units_of_two_features(self, unit, start):
        one, other = (
            EBCD(2, noise="per_feature", start=start).fit(self.draw(u)) for u in (1.0, unit)
        )
        shift = 2 * 100 * np.log(unit)
        # not quite the same: the prior is that of the loadings in their units
        assert other.elbo_ + shift == pytest.approx(one.elbo_, abs=2.0)
        np.testing.assert_allclose(other.components_[:, :30], one.components_[:, :30], atol=0.05)

    def test_pure_noise_of_a_huge_unit(self):
        X = self.draw(1e5)
        model = EBCD(2, noise="per_feature", start=np.eye(32)[:, :2]).fit(X)
        assert np.isfinite(model.components_sd_).all()


def test_one_thread_for_small_data_only():
    from ebcd.data import CovarianceMatrix
    from ebcd.fitting._threads import threads_for

    def threads():
        from threadpoolctl import threadpool_info

        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    before = threads()
    with threads_for(CovarianceMatrix(np.eye(3), 10)):
        assert threads() <= {1}
    assert threads() == before
    with threads_for(CovarianceMatrix(np.eye(3), 10**7)):
        assert threads() == before
