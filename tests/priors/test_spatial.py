"""The wavelet prior of ordered features, against brute force and identities."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats

import ebcd
from ebcd import EBCD, ebnm
from ebcd.priors import FittedPrior, SpatialPrior, make_family, make_prior
from ebcd.priors._spatial import SETTINGS, _shifts
from ebcd.priors._wavelets import FILTERS, Basis

LENGTHS = [1, 2, 3, 5, 8, 17, 33, 64, 100, 101]


def curve(p):
    t = np.arange(p) / p
    return 3 * np.sin(2 * np.pi * t) + 2 * (np.abs(t - 0.6) < 0.1)


def observed(p, seed=0, unequal=False):
    rng = np.random.default_rng(seed)
    s = rng.uniform(0.5, 1.5, p) if unequal else np.ones(p)
    return curve(p) + s * rng.normal(size=p), s


def matrix(name, p):
    return Basis(name, p).analyse(np.eye(p))


def shifted_bases(name, p):
    """Matrices whose rows are the basis vectors of every shift."""
    for places in _shifts(p).T:
        yield matrix(name, p) @ np.eye(p)[places]


class TestWavelets:
    @pytest.mark.parametrize("p", LENGTHS)
    @pytest.mark.parametrize("name", FILTERS)
    def test_orthonormal(self, name, p):
        W = matrix(name, p)
        np.testing.assert_allclose(W @ W.T, np.eye(p), rtol=0, atol=1e-12)
        np.testing.assert_allclose(Basis(name, p).synthesise(W), np.eye(p), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("p", LENGTHS)
    @pytest.mark.parametrize("name", FILTERS)
    def test_variances_of_entries(self, name, p):
        variances = np.random.default_rng(0).random((p, SETTINGS.shifts))
        each = zip(shifted_bases(name, p), variances.T, strict=True)
        wanted = np.mean([(basis**2).T @ v for basis, v in each], axis=0)
        found = Basis(name, p).spread(variances, _shifts(p))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)

    @pytest.mark.parametrize(("name", "moments"), [("haar", 1), ("db3", 3), ("sym8", 8)])
    def test_vanishing_moments(self, name, moments):
        taps = FILTERS[name]
        detail, place = taps * (-1.0) ** np.arange(taps.size), np.linspace(-1, 1, taps.size)
        for power in range(moments):
            assert abs(detail @ place**power) < 1e-10
        assert taps.sum() == pytest.approx(np.sqrt(2), abs=1e-12)

    def test_shifts_differ(self):
        for p in (64, 100, 1000):
            assert np.unique(_shifts(p)[0]).size == SETTINGS.shifts
            assert np.unique(_shifts(p)[0] % 16).size == 16 or p == 100


class TestBound:
    @pytest.mark.parametrize("p", [40, 101])
    def test_fit_maximises_it(self, p):
        x, _ = observed(p)
        fit = ebnm(x, 1.0, make_family("spatial", wavelet="db3"))
        levels = fit.prior.levels["db3"]
        for j, factor in itertools.product(range(len(levels)), (0.8, 1.25)):
            other = [g.rescaled(factor) if i == j else g for i, g in enumerate(levels)]
            assert SpatialPrior({"db3": other}).log_likelihood(x) <= fit.log_likelihood + 1e-7

    def test_auto_weighs_wavelets(self):
        x, _ = observed(90)
        fits = [ebnm(x, 1.0, make_family("spatial", wavelet=name)) for name in FILTERS]
        values = np.array([fit.log_likelihood for fit in fits])
        auto = ebnm(x, 1.0, "spatial")
        expected = special.logsumexp(values) - np.log(3)
        assert auto.log_likelihood == pytest.approx(expected, abs=1e-6)
        mean = special.softmax(values) @ [fit.mean for fit in fits]
        np.testing.assert_allclose(auto.mean, mean, atol=1e-6)

    def test_unequal_noise_is_a_bound(self):
        p = 12
        x, s = observed(p, unequal=True)
        scales = (0.3, 1.0, 3.0)
        part = Basis("haar", p).levels
        scale = np.concatenate(
            [np.full(a.stop - a.start, b) for a, b in zip(part, scales, strict=True)]
        )
        prior = SpatialPrior({"haar": [make_prior("normal", scale=b) for b in scales]})
        logs = [
            stats.multivariate_normal.logpdf(x, cov=W.T @ np.diag(scale**2) @ W + np.diag(s**2))
            for W in shifted_bases("haar", p)
        ]
        bound = prior.log_likelihood(x, s)
        assert np.mean(logs) - 8 < bound <= np.mean(logs)
        # with normal priors each shift has an exact mean; one centre for all of them shrinks more
        exact = [
            C @ np.linalg.solve(C + np.diag(s**2), x)
            for C in (W.T @ np.diag(scale**2) @ W for W in shifted_bases("haar", p))
        ]
        np.testing.assert_allclose(prior.posterior(x, s).mean, np.mean(exact, axis=0), atol=0.3)

    def test_rounds_never_lower_it(self):
        x, s = observed(50, unequal=True)
        family, values = make_family("spatial", wavelet="haar"), []
        result = ebnm(x, s, family)
        for _ in range(5):
            values.append(result.log_likelihood)
            result = ebnm(x, s, family, start=result)
        assert (np.diff(values) >= -1e-9).all()


class TestPosterior:
    @pytest.mark.parametrize("unequal", [False, True])
    def test_draws_have_its_moments(self, unequal):
        x, s = observed(40, unequal=unequal)
        result = ebnm(x, s, "spatial")
        draws = result.sample(4000, random_state=0)
        assert (np.abs(draws.mean(axis=0) - result.mean) < 6 * result.sd / np.sqrt(4000)).all()
        np.testing.assert_allclose(draws.std(axis=0), result.sd, rtol=0.12)
        rates = np.minimum((draws <= 0).mean(axis=0), (draws >= 0).mean(axis=0))
        np.testing.assert_allclose(result.lfsr, rates, atol=0.1)

    @pytest.mark.parametrize("unequal", [False, True])
    def test_intervals_hold_the_truth(self, unequal):
        inside = []
        for seed in range(4):
            x, s = observed(64, seed, unequal)
            lower, upper = ebnm(x, s, "spatial").prior.interval(x, s, 0.9)
            inside.append((lower <= curve(64)) & (curve(64) <= upper))
        assert 0.8 < np.mean(inside) < 0.99

    @pytest.mark.parametrize("p", [1, 2, 3, 17, 64, 101])
    def test_any_length_and_units(self, p):
        x, s = observed(p, unequal=True)
        plain, scaled = ebnm(x, 1.0, "spatial"), ebnm(1e-5 * x, 1e-5, "spatial")
        np.testing.assert_allclose(scaled.mean, 1e-5 * plain.mean, rtol=1e-7, atol=1e-12)
        assert np.isfinite(ebnm(x, s, "spatial").mean).all()

    def test_better_than_without_order(self):
        x, _ = observed(256)
        error = [np.mean((ebnm(x, 1.0, g).mean - curve(256)) ** 2) for g in ("spatial", "normal")]
        assert error[0] < 0.2 * error[1]

    def test_prior_for_other_lengths(self):
        prior = ebnm(*observed(64), "spatial").prior
        for p in (1, 20, 64, 300):
            assert prior.sample(p, random_state=0).shape == (p,)
            assert prior.posterior(*observed(p)).mean.shape == (p,)

    def test_mirrored_rescaled_stored(self):
        x, s = observed(40, unequal=True)
        prior = ebnm(x, s, "spatial").prior
        value = prior.log_likelihood(x, s)
        assert prior.mirrored().log_likelihood(-x, s) == pytest.approx(value, abs=1e-8)
        big = prior.rescaled(7.0).log_likelihood(7 * x, 7 * s)
        assert big == pytest.approx(value - 40 * np.log(7), abs=1e-8)
        again = FittedPrior.from_dict(json.loads(json.dumps(prior.to_dict())))
        assert again.log_likelihood(x, s) == value

    def test_what_it_refuses(self):
        prior = ebnm(*observed(16), "spatial").prior
        with pytest.raises(ValueError, match="infinite at position 2"):
            prior.posterior(np.zeros(4), [1.0, 1.0, np.inf, 1.0])
        with pytest.raises(ValueError, match="needs all of them"):
            ebnm([1.0, 2.0], [1.0, np.inf], "spatial")
        for call in (prior.penalty, prior.shifted):
            with pytest.raises(ValueError, match="spatial prior"):
                call(1.0)
        with pytest.raises(ValueError, match="no marginal densities"):
            prior.log_marginal(np.zeros(1), np.ones(1))
        with pytest.raises(ValueError, match="wavelet"):
            make_family("spatial", wavelet="db4")
        with pytest.raises(ValueError, match="wavelet"):
            make_prior("spatial", priors={"db4": []})
        with pytest.raises(ValueError, match="family"):
            make_family("spatial", family="point_exponential")
        with pytest.raises(ValueError, match="EBMF has no priors"):
            ebcd.peers.EBMF(1, loadings_prior="spatial").fit(np.eye(4))


def sample(p=24, n=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) * curve(p) / 3 + rng.normal(size=(n, p))


class TestEBCD:
    @pytest.mark.slow
    @settings(max_examples=8, deadline=None)
    @given(
        seed=st.integers(0, 1000),
        p=st.integers(5, 40),
        noise=st.sampled_from(["constant", "per_feature"]),
        wavelet=st.sampled_from(sorted(FILTERS)),
    )
    def test_elbo_never_falls(self, seed, p, noise, wavelet):
        family = make_family("spatial", wavelet=wavelet)
        model = EBCD(1, prior=family, noise=noise, start="svd", tol=1e-3).fit(sample(p, seed=seed))
        assert (np.diff(model.elbo_path_) >= -1e-9 * abs(model.elbo_)).all()

    @pytest.mark.parametrize("scores", ["orthogonal", "integrated"])
    def test_everything_after_a_fit(self, scores, tmp_path):
        X, family = sample(), make_family("spatial", wavelet="db3", family="point_normal")
        model = EBCD(1, prior=family, scores=scores, tol=1e-2).fit(X)
        lower, upper = model.credible_intervals(0.9)
        assert (lower <= upper).all()
        assert ((model.lfsr_ >= 0) & (model.lfsr_ <= 1)).all()
        assert (model.components_sd_ > 0).all()
        assert model.sample_components(3, 0).shape == (3, 1, 24)
        assert "smooth" in model.summary()
        ebcd.save(model, tmp_path / "m")
        again = ebcd.load(tmp_path / "m")
        np.testing.assert_array_equal(again.sample_components(2, 1), model.sample_components(2, 1))
        top = model.top_features(0, 3)
        assert len(top) == 3

    def test_smoother_than_components_without_order(self):
        X, truth = sample(100, seed=1), curve(100)
        cosine = {}
        for prior in ("spatial", "normal"):
            found = EBCD(1, prior=prior).fit(X).components_[0]
            cosine[prior] = abs(found @ truth) / np.linalg.norm(found) / np.linalg.norm(truth)
        assert np.arccos(cosine["spatial"]) < 0.6 * np.arccos(cosine["normal"])
