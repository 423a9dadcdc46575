"""The Gaussian Markov random field, against dense multivariate normal distributions."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, sparse, stats

import ebcd
from ebcd import EBCD, ebnm
from ebcd.priors import FittedPrior, GMRFPrior, make_family, make_prior
from ebcd.priors import _gmrf as gmrf
from ebcd.priors import _graphs as graphs


def graph_weights(seed, n, density=0.2):
    """Random weights, some nodes without neighbours."""
    rng = np.random.default_rng(seed)
    upper = np.triu((rng.random((n, n)) < density) * rng.uniform(0.2, 3.0, (n, n)), 1)
    upper[:, n // 3] = upper[n // 3] = 0.0
    return upper + upper.T


def pieces(n):
    """Weights of a chain that is broken in two, its nodes in a random order."""
    upper = np.diag(np.linspace(0.5, 2.0, n - 1), 1)
    upper[n // 2, n // 2 + 1] = 0.0
    order = np.random.default_rng(n).permutation(n)
    return (upper + upper.T)[order][:, order]


def laplacian(adjacency, n, order=1):
    if isinstance(adjacency, str) and adjacency == "ring":
        weights = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
        return np.linalg.matrix_power(2 * np.eye(n) - weights, order)
    if isinstance(adjacency, str):
        adjacency = ("grid", n, 1)
    if isinstance(adjacency, tuple):
        down, across = (np.diag(np.ones(size - 1), 1) for size in adjacency[1:])
        weights = np.kron(down, np.eye(len(across))) + np.kron(np.eye(len(down)), across)
        weights = weights + weights.T
    else:
        weights = adjacency.toarray() if sparse.issparse(adjacency) else adjacency
    return np.linalg.matrix_power(np.diag(weights.sum(axis=0)) - weights, order)


CASES = {
    "chain": ("chain", 23),
    "one node": ("chain", 1),
    "two nodes": ("chain", 2),
    "ring": ("ring", 40),
    "odd ring": ("ring", 7),
    "ring of one": ("ring", 1),
    "ring of two": ("ring", 2),
    "grid": (("grid", 5, 7), 35),
    "tall grid": (("grid", 20, 4), 80),
    "row": (("grid", 1, 9), 9),
    "graph": (graph_weights(0, 31), 31),
    "sparse graph": (sparse.csr_array(graph_weights(1, 90, 0.02)), 90),
    "two chains": (sparse.coo_array(pieces(14)), 14),
    "no neighbours": (np.zeros((6, 6)), 6),
    "wide band": (graph_weights(2, 70, 0.1), 70),
}


@pytest.fixture(params=CASES, ids=list(CASES))
def case(request):
    return CASES[request.param]


def noise(n, equal, seed=0):
    return np.full(n, 0.7) if equal else np.random.default_rng(seed).uniform(0.3, 3.0, n)


def dense(adjacency, x, s, scale, kappa, order=1):
    """Log-likelihood, posterior mean and covariance, by inverses."""
    n = x.size
    precision = (laplacian(adjacency, n, order) + kappa * np.eye(n)) / scale**2
    value = stats.multivariate_normal.logpdf(x, cov=np.linalg.inv(precision) + np.diag(s**2))
    covariance = np.linalg.inv(precision + np.diag(s**-2))
    return value, covariance @ (x / s**2), covariance


class TestExact:
    @pytest.mark.parametrize("equal", [True, False])
    @pytest.mark.parametrize(
        ("scale", "kappa", "order"), [(1.3, 0.07, 1), (0.2, 3.0, 2), (5.0, 1e-3, 3)]
    )
    def test_against_inverses(self, case, equal, scale, kappa, order):
        adjacency, n = case
        s, x = noise(n, equal), 2 * np.random.default_rng(1).normal(size=n)
        prior = make_prior("gmrf", adjacency=adjacency, scale=scale, kappa=kappa, order=order)
        value, mean, covariance = dense(adjacency, x, s, scale, kappa, order)
        posterior = prior.posterior(x, s)
        assert prior.log_likelihood(x, s) == pytest.approx(value, rel=1e-10)
        np.testing.assert_allclose(posterior.mean, mean, rtol=0, atol=1e-9)
        np.testing.assert_allclose(posterior.sd**2, np.diag(covariance), rtol=1e-8)
        np.testing.assert_array_equal(prior.shrink(x, s), posterior.mean)
        z = np.abs(mean) / posterior.sd
        np.testing.assert_allclose(posterior.lfsr, stats.norm.sf(z), atol=1e-9)
        ends = ebnm(x, s, prior).intervals(0.9)
        expected = stats.norm.interval(0.9, mean, np.sqrt(np.diag(covariance)))
        np.testing.assert_allclose(ends, expected, atol=1e-8)

    @pytest.mark.parametrize(("equal", "order"), [(True, 1), (True, 3), (False, 1), (False, 2)])
    def test_gradients(self, case, equal, order):
        adjacency, n = case
        x, s = 2 * np.random.default_rng(2).normal(size=n), noise(n, equal)
        [graph] = make_family("gmrf", adjacency=adjacency, order=order).graphs
        data = gmrf._observed(graph, x, s)
        for logs in ([0.5, -1.0], [-3.0, 2.0], [2.0, -6.0]):
            found = optimize.approx_fprime(logs, lambda at: data.solved(*np.exp(at))[0].value, 1e-6)
            _, expected = data.solved(*np.exp(logs))
            np.testing.assert_allclose(expected, found, rtol=1e-4, atol=1e-4)

    def test_routes_agree(self, case):
        """Noise that is equal for all practical purposes takes the general route."""
        adjacency, n = case
        x, s = 2 * np.random.default_rng(3).normal(size=n), noise(n, True)
        nearly = s * (1 + 1e-13 * np.arange(n))
        prior = make_prior("gmrf", adjacency=adjacency, scale=0.8, kappa=0.1)
        one, other = prior.posterior(x, s), prior.posterior(x, nearly)
        np.testing.assert_allclose(one.mean, other.mean, atol=1e-10)
        np.testing.assert_allclose(one.sd, other.sd, rtol=1e-10)
        draws = [prior.sample_posterior(x, noise, 3, random_state=0) for noise in (s, nearly)]
        np.testing.assert_allclose(*draws, atol=1e-9)
        assert prior.log_likelihood(x, s) == pytest.approx(prior.log_likelihood(x, nearly))

    def test_a_grid_is_a_graph(self):
        x, s = 2 * np.random.default_rng(4).normal(size=35), noise(35, False)
        weights = -laplacian(("grid", 5, 7), 35)  # the diagonal plays no part
        np.fill_diagonal(weights, 9.0)
        for noises in (0.7, s):
            one = ebnm(x, noises, make_family("gmrf", adjacency=("grid", 5, 7)))
            other = ebnm(x, noises, make_family("gmrf", adjacency=weights))
            assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-8)
            np.testing.assert_allclose(one.mean, other.mean, atol=1e-5)

    @settings(max_examples=40, deadline=None)
    @given(
        seed=st.integers(0, 10_000),
        rows=st.integers(1, 40),
        columns=st.integers(1, 4),
        log_scale=st.floats(-3, 3),
        log_kappa=st.floats(-8, 5),
        spread=st.floats(0, 3),
        order=st.integers(1, 3),
    )
    def test_any_grid(self, seed, rows, columns, log_scale, log_kappa, spread, order):
        rng, n, adjacency = np.random.default_rng(seed), rows * columns, ("grid", rows, columns)
        s, x = np.exp(spread * rng.normal(size=n)), 3 * rng.normal(size=n)
        scale, kappa = np.exp(log_scale), np.exp(log_kappa)
        prior = make_prior("gmrf", adjacency=adjacency, scale=scale, kappa=kappa, order=order)
        value, mean, covariance = dense(adjacency, x, s, scale, kappa, order)
        found = prior.posterior(x, s)
        assert prior.log_likelihood(x, s) == pytest.approx(value, rel=1e-7, abs=1e-7)
        np.testing.assert_allclose(found.mean, mean, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found.sd**2, np.diag(covariance), rtol=1e-5, atol=1e-10)

    def test_long_chains(self):
        """Variances do not lose digits in long and nearly flat chains."""
        n = 10_000
        s = np.where(np.arange(n) % 2, 1.0, 1.0 + 1e-9)
        flat = make_prior("gmrf", adjacency="chain", scale=1e-5, kappa=1e-9)
        x = np.ones(n)
        equal, unequal = flat.posterior(x, 1.0), flat.posterior(x, s)
        np.testing.assert_allclose(unequal.sd, equal.sd, rtol=1e-5)
        np.testing.assert_allclose(unequal.mean, equal.mean, rtol=1e-5)


class TestFit:
    @settings(max_examples=15, deadline=None)
    @given(
        seed=st.integers(0, 10_000),
        equal=st.booleans(),
        size=st.floats(0, 4),
        name=st.sampled_from([name for name, (_, n) in CASES.items() if n > 1]),
        order=st.integers(1, 3),
    )
    def test_highest_likelihood(self, seed, equal, size, name, order):
        """No prior on a wide grid is better by more than a twentieth: noise has shallow optima."""
        adjacency, n = CASES[name]
        rng, s = np.random.default_rng(seed), noise(n, equal, seed)
        truth = size * make_prior("gmrf", adjacency=adjacency, scale=1.0, kappa=0.05).sample(n, rng)
        x = truth + s * rng.normal(size=n)
        result = ebnm(x, s, make_family("gmrf", adjacency=adjacency, order=order))
        data = gmrf._observed(result.prior.graph, x, s)
        grid = np.exp(np.linspace(-12, 12, 13))
        best = max(data.solved(tau, delta)[0].value for tau in grid for delta in grid)
        nothing = stats.norm.logpdf(x, scale=s).sum()
        assert result.log_likelihood >= max(best, nothing) - 0.05

    def test_nothing_but_noise(self):
        x = 0.3 * np.random.default_rng(0).normal(size=40)
        result = ebnm(x, 1.0, make_family("gmrf", adjacency=("grid", 8, 5)))
        assert result.prior.scale == 0
        assert result.prior.describe() == "exactly 0"
        assert not result.mean.any()
        assert not result.sd.any()
        assert not result.sample(3, random_state=0).any()
        assert not result.prior.sample(40, random_state=0).any()
        assert (result.lfsr == 1).all()
        assert (result.lfdr == 1).all()
        assert result.log_likelihood == pytest.approx(stats.norm.logpdf(x).sum())
        # and back from nothing, where a fit may have been before
        again = ebnm(20 * x, 1.0, make_family("gmrf", adjacency=("grid", 8, 5)), start=result)
        assert again.mean.any()

    def test_what_vanishes_is_nothing(self):
        """A warm start next to nothing ends there, and does not fade out for ever."""
        family = make_family("gmrf", adjacency="chain")
        start = make_prior("gmrf", adjacency="chain", scale=1e-6, kappa=1.0)
        result = ebnm(0.1 * np.random.default_rng(0).normal(size=30), 1.0, family, start=start)
        assert result.prior.scale == 0
        model = EBCD(2, prior=make_family("gmrf", adjacency=graph_weights(1, 24)), start="svd")
        model.set_params(noise="per_feature", scores="integrated", tol=1e-3).fit(sample(1))
        assert model.n_components_ == 1

    def test_limits(self):
        """Independent entries and equal ones are limits of the family."""
        rng = np.random.default_rng(1)
        family = make_family("gmrf", adjacency="chain")
        x = 3 * (-1.0) ** np.arange(60) + rng.normal(size=60)
        rough, normal = ebnm(x, 1.0, family), ebnm(x, 1.0, "normal")
        assert rough.log_likelihood == pytest.approx(normal.log_likelihood, abs=1e-4)
        np.testing.assert_allclose(rough.mean, normal.mean, atol=1e-3)
        s = rng.uniform(0.5, 2.0, 60)
        x = 5 + s * (-1.0) ** np.arange(60)
        flat = ebnm(x, s, family)
        assert np.ptp(flat.mean) < 0.02
        assert flat.mean[0] == pytest.approx(np.average(x, weights=s**-2), abs=0.02)
        assert flat.sd[0] == pytest.approx(np.sum(s**-2) ** -0.5, rel=0.01)

    def test_disconnected_parts_have_levels_of_their_own(self):
        weights = pieces(40)
        labels = sparse.csgraph.connected_components(sparse.csr_array(weights))[1]
        truth = np.where(labels == 0, 6.0, -6.0)
        x = truth + np.random.default_rng(0).normal(size=40)
        result = ebnm(x, 1.0, make_family("gmrf", adjacency=weights))
        assert np.mean((result.mean - truth) ** 2) < 0.3

    def test_better_where_neighbours_are_alike(self):
        hill = 4 * np.outer(np.hanning(14), np.hanning(18)).ravel()
        x = hill + np.random.default_rng(0).normal(size=hill.size)
        family = make_family("gmrf", adjacency=("grid", 14, 18))
        error = [np.mean((ebnm(x, 1.0, g).mean - hill) ** 2) for g in (family, "normal")]
        assert error[0] < 0.3 * error[1]


class TestOrder:
    """By default the likelihood chooses the order, and whether the ends of a chain meet."""

    @pytest.mark.parametrize("equal", [True, False])
    @pytest.mark.parametrize(
        ("kind", "orders", "periods", "jumps"),
        [
            ("chain", {1}, 0.75, True),
            ("chain", {2, 3}, 0.75, False),
            ("ring", {2, 3}, 1.0, False),
        ],
    )
    def test_likeliest(self, kind, orders, periods, jumps, equal):
        t, s = np.arange(120) / 120, noise(120, equal)
        truth = 6 * np.sin(2 * np.pi * periods * t + 1)
        x = (np.sign(truth) * 4 if jumps else truth) + s * np.random.default_rng(0).normal(size=120)
        auto = ebnm(x, s, make_family("gmrf", adjacency="chain"))
        each = [
            ebnm(x, s, make_family("gmrf", adjacency=ends, order=order))
            for ends in ("chain", "ring")
            for order in (1, 2, 3)
        ]
        best = max(each, key=lambda result: result.log_likelihood)
        assert auto.prior == best.prior
        assert auto.log_likelihood == best.log_likelihood
        assert auto.prior.graph.adjacency == kind
        assert auto.prior.graph.order in orders

    @pytest.mark.parametrize("kind", ["chain", "ring"])
    def test_warm_starts_keep_it(self, kind):
        x = np.random.default_rng(0).normal(size=60)
        for order in (1, 2, 3):
            start = make_prior("gmrf", adjacency=kind, scale=1.0, kappa=0.5, order=order)
            result = ebnm(x, 1.0, make_family("gmrf", adjacency="chain"), start=start)
            assert result.prior.scale == 0 or result.prior.graph == start.graph
            assert result.log_likelihood >= start.log_likelihood(x)
        family = make_family("gmrf", adjacency="chain", order=1)
        assert ebnm(x + 5, 1.0, family, start=start).prior.graph.order == 1


class TestDraws:
    @pytest.mark.parametrize("equal", [True, False])
    @pytest.mark.parametrize("name", ["chain", "grid", "graph"])
    def test_posterior(self, name, equal):
        adjacency, n = CASES[name]
        x, s = 2 * np.random.default_rng(1).normal(size=n), noise(n, equal)
        prior = make_prior("gmrf", adjacency=adjacency, scale=1.3, kappa=0.07)
        _, mean, covariance = dense(adjacency, x, s, 1.3, 0.07)
        draws = prior.sample_posterior(x, s, 20_000, random_state=0)
        sd = np.sqrt(np.diag(covariance))
        assert (np.abs(draws.mean(axis=0) - mean) < 6 * sd / np.sqrt(20_000)).all()
        found = np.cov(draws.T) / sd / sd[:, None]
        np.testing.assert_allclose(found, covariance / sd / sd[:, None], atol=0.05)

    @pytest.mark.parametrize("name", ["chain", "grid", "graph"])
    def test_prior(self, name):
        adjacency, n = CASES[name]
        prior, rng = make_prior("gmrf", adjacency=adjacency, scale=0.7, kappa=0.2), np.random
        draws = [prior.sample(n, random_state=rng.default_rng(i)) for i in range(6_000)]
        expected = np.linalg.inv((laplacian(adjacency, n) + 0.2 * np.eye(n)) / 0.7**2)
        sd = np.sqrt(np.diag(expected))
        scale = sd * sd[:, None]
        np.testing.assert_allclose(np.cov(np.transpose(draws)) / scale, expected / scale, atol=0.08)


class TestAdjacency:
    def test_equal_families(self):
        weights = graph_weights(0, 20)
        made = [make_family("gmrf", adjacency=a) for a in (weights, sparse.csc_array(weights))]
        assert made[0] == made[1]
        assert hash(made[0]) == hash(made[1])
        assert made[0] != make_family("gmrf", adjacency=2 * weights)
        assert make_family("gmrf", adjacency=["grid", 3, 4]) == make_family(
            "gmrf", adjacency=("grid", 3, 4)
        )
        assert repr(made[0]) == "GMRF(graph of 20 nodes, order=auto)"
        grid = make_family("gmrf", adjacency=("grid", 3, 4), order=2)
        assert repr(grid) == "GMRF(grid of 3 x 4, order=2)"
        assert grid != make_family("gmrf", adjacency=("grid", 3, 4))

    def test_weights_have_no_unit(self):
        x, weights = 2 * np.random.default_rng(0).normal(size=31), graph_weights(0, 31)
        one, other = (ebnm(x, 1.0, make_family("gmrf", adjacency=c * weights)) for c in (1, 1e6))
        assert one.log_likelihood == pytest.approx(other.log_likelihood, abs=1e-6)

    def test_copies_share_eigenvectors(self):
        family = make_family("gmrf", adjacency=graph_weights(0, 20))
        ebnm(np.ones(20), 1.0, family)
        for other in (copy.deepcopy(family), pickle.loads(pickle.dumps(family))):
            assert other == family
            assert other.graphs == family.graphs
        assert len(pickle.dumps(family)) < 4_000

    @pytest.mark.parametrize(
        ("adjacency", "message"),
        [
            (None, "needs the option adjacency.*got None"),
            ("circle", "rows, columns.*got 'circle'"),
            ("grid", "rows, columns.*got 'grid'"),
            (("grid", 4), "rows, columns"),
            (("grid", 4, 0), "rows, columns"),
            (("grid", 4, 2.5), "rows, columns"),
            (("torus", 4, 4), "rows, columns"),
            (object(), "rows, columns"),
            ([["a", "b"], ["c", "d"]], "rows, columns"),
            ([np.ones(3), np.zeros(3), np.ones(3)], "symmetric"),
            (np.ones((3, 4)), "square"),
            (np.ones(4), "square"),
            (np.triu(np.ones((3, 3))), "symmetric"),
            (-np.ones((3, 3)), "non-negative"),
            (np.full((3, 3), np.nan), "non-negative"),
            (np.full((3, 3), np.inf), "finite"),
            (sparse.eye_array(3_001), "up to 3,000"),
            (("graph", 3, [0], [3], [1.0]), "3"),
            (("graph", 10**12, [0], [3], [1.0]), "rows, columns"),
            (("graph", 4, [0], [3]), "rows, columns"),
        ],
    )
    def test_what_is_refused(self, adjacency, message):
        with pytest.raises(ValueError, match=message):
            make_family("gmrf", adjacency=adjacency)

    def test_orders(self):
        with pytest.raises(ValueError, match="order must be 1, 2, 3 or 'auto', got 4"):
            make_family("gmrf", adjacency="chain", order=4)

    def test_by_name_alone(self):
        for call in (lambda: ebnm(np.ones(4), 1.0, "gmrf"), lambda: EBCD(1, prior="gmrf").fit(X)):
            with pytest.raises(ValueError, match=r'needs the option adjacency.*"chain"'):
                call()

    def test_sizes(self):
        family = make_family("gmrf", adjacency=("grid", 4, 5))
        with pytest.raises(ValueError, match=r"grid of 4 x 5, 20 in all, but there are 24"):
            EBCD(1, prior=family).fit(X)
        prior = make_prior("gmrf", adjacency=np.zeros((3, 3)), scale=1.0, kappa=1.0)
        for call in (prior.sample, lambda n: prior.posterior(np.ones(n))):
            with pytest.raises(ValueError, match="graph of 3 nodes"):
                call(4)

    def test_what_a_prior_refuses(self):
        prior = make_prior("gmrf", adjacency="chain", scale=1.0, kappa=0.1)
        with pytest.raises(ValueError, match="infinite at position 2"):
            prior.posterior(np.zeros(4), [1.0, 1.0, np.inf, 1.0])
        for call in (prior.penalty, prior.shifted):
            with pytest.raises(ValueError, match="a gmrf prior"):
                call(1.0)
        for wrong in ({"scale": -1.0}, {"kappa": 0.0}):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                make_prior("gmrf", **{"adjacency": "chain", "scale": 1.0, "kappa": 1.0} | wrong)


class TestStored:
    def test_json(self, case):
        adjacency, n = case
        x, s = 2 * np.random.default_rng(1).normal(size=n), noise(n, False)
        prior = ebnm(x, s, make_family("gmrf", adjacency=adjacency, order=2)).prior
        again = FittedPrior.from_dict(json.loads(json.dumps(prior.to_dict())))
        assert isinstance(again, GMRFPrior)
        assert again == prior
        assert again.log_likelihood(x, s) == prior.log_likelihood(x, s)

    @pytest.mark.parametrize(
        ("name", "noise"),
        [
            ("chain", "constant"),
            ("grid", "constant"),
            ("graph", "constant"),
            ("grid", "per_feature"),
        ],
    )
    def test_models(self, name, noise, tmp_path):
        adjacency = {"chain": "chain", "grid": ("grid", 4, 6), "graph": graph_weights(0, 24)}[name]
        family = make_family("gmrf", adjacency=adjacency)
        model = EBCD(1, prior=family, noise=noise, tol=1e-2).fit(X)
        ebcd.save(model, tmp_path / "m")
        again = ebcd.load(tmp_path / "m")
        assert again.prior == family
        for attribute in ("components_", "components_sd_", "lfsr_", "elbo_"):
            np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute))
        np.testing.assert_array_equal(again.sample_components(2, 1), model.sample_components(2, 1))
        np.testing.assert_array_equal(again.credible_intervals(), model.credible_intervals())


def sample(seed=0, p=24, n=40):
    rng, t = np.random.default_rng(seed), np.arange(p) / p
    curve = np.sin(2 * np.pi * t) + (np.abs(t - 0.6) < 0.1)
    return rng.normal(size=(n, 1)) * curve + rng.normal(size=(n, p))


X = sample()


class TestEBCD:
    @pytest.mark.slow
    @settings(max_examples=15, deadline=None)
    @given(
        seed=st.integers(0, 1000),
        noise=st.sampled_from(["constant", "per_feature"]),
        scores=st.sampled_from(["orthogonal", "relaxed", "integrated"]),
        order=st.sampled_from([1, 2, 3, "auto"]),
        adjacency=st.sampled_from(["chain", "ring", ("grid", 4, 6), ("grid", 2, 12), "graph"]),
        k=st.integers(1, 2),
    )
    def test_elbo_never_falls(self, seed, noise, scores, order, adjacency, k):
        weights = graph_weights(seed, 24) if adjacency == "graph" else adjacency
        family = make_family("gmrf", adjacency=weights, order=order)
        model = EBCD(k, prior=family, noise=noise, scores=scores, start="svd", tol=1e-3)
        model.fit(sample(seed))
        assert (np.diff(model.elbo_path_) >= -1e-9 * abs(model.elbo_)).all()

    @pytest.mark.parametrize("scores", ["orthogonal", "relaxed", "integrated"])
    def test_everything_after_a_fit(self, scores):
        family = make_family("gmrf", adjacency=("grid", 4, 6))
        model = EBCD(1, prior=family, scores=scores).fit(X)
        lower, upper = model.credible_intervals(0.9)
        assert (lower <= model.components_).all()
        assert (model.components_ <= upper).all()
        assert ((model.lfsr_ >= 0) & (model.lfsr_ <= 1)).all()
        assert model.sample_components(3, 0).shape == (3, 1, 24)
        assert "smooth on a grid of 4 x 6" in model.summary()
        assert len(model.top_features(0, 3)) == 3

    def test_report_and_plot(self, tmp_path):
        pytest.importorskip("matplotlib")
        model = EBCD(1, prior=make_family("gmrf", adjacency=("grid", 4, 6))).fit(X)
        axes = ebcd.plots.shrinkage(model)
        [points] = [line for line in axes.lines if line.get_marker() == "."]
        np.testing.assert_allclose(points.get_ydata(), model.components_[0], atol=1e-6)
        result = ebnm(X[0], 1.0, make_family("gmrf", adjacency=("grid", 4, 6)))
        [points] = [line for line in ebcd.plots.shrinkage(result).lines if line.get_marker() == "."]
        np.testing.assert_allclose(points.get_ydata(), result.mean)
        assert "smooth on a grid" in ebcd.report.write_report(model, tmp_path / "r.html").read_text(
            encoding="utf-8"
        )

    def test_compared_with_other_priors(self):
        families = ["normal", make_family("gmrf", adjacency="chain")]
        found = ebcd.compare_priors(sample(p=60), families, n_components=1)
        assert found.best == "gmrf"

    def test_cheap_before_it_is_used(self):
        """Neither a family nor its graph computes eigenvectors."""
        family = make_family("gmrf", adjacency=np.ones((100, 100)) - np.eye(100))
        for order, graph in zip((1, 2, 3), family.graphs, strict=True):
            assert not {"spectral", "banded"} & set(vars(graph))
            assert graphs.as_graph(family.adjacency, order) is graph
