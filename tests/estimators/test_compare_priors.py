"""Priors compared: the table says what the models say, and the smaller of two equals wins."""

import sys

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import ebcd
from ebcd import EBCD, compare_priors
from ebcd.estimators import _compare_priors
from ebcd.priors import make_family, make_prior


def draw(slab, seed=0, n=80, p=60):
    rng = np.random.default_rng(seed)
    L = np.where(rng.random((2, p)) < 0.25, slab(rng, (2, p)), 0.0)
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p))


@pytest.fixture(scope="module")
def X():
    return draw(lambda rng, shape: rng.laplace(scale=2.0, size=shape))


@pytest.fixture(scope="module")
def comparison(X):
    return compare_priors(X)


def lines(table):
    return table if isinstance(table, list) else table.to_dict("records")


class TestTable:
    def test_has_what_the_models_have(self, X, comparison):
        assert list(comparison.models) == list(_compare_priors.FAMILIES)
        for line, (name, model) in zip(
            lines(comparison.table), comparison.models.items(), strict=True
        ):
            assert list(line) == ["family", "elbo", "nonzero", "seconds", "n_components"]
            assert line["family"] == name == model.priors_[0].family
            assert line["elbo"] == model.elbo_ == EBCD(2, prior=name).fit(X).elbo_
            assert line["n_components"] == model.n_components_ == 2
            assert line["seconds"] > 0

    def test_nonzero_is_the_share_that_the_posterior_expects(self, comparison):
        line = lines(comparison.table)[0]
        draws = comparison.models["point_laplace"].sample_components(2_000, random_state=0)
        assert line["nonzero"] == pytest.approx((draws != 0).mean(), abs=0.01)
        assert lines(comparison.table)[1]["nonzero"] == 1  # normal

    def test_held_out_samples(self, X):
        pair = ["point_laplace", "normal"]
        for line in lines(compare_priors(X, pair, cv=3).table):
            expected = cross_val_score(EBCD(2, prior=line["family"]), X, cv=3).mean()
            assert line["held_out"] == pytest.approx(expected, rel=1e-12)

    def test_without_pandas(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pandas", None)  # with which scikit-learn 1.6 cannot fit
        rows = [{"family": "normal"}]
        assert _compare_priors._as_table(rows) == rows

    def test_with_pandas(self, comparison):
        pd = pytest.importorskip("pandas")
        assert isinstance(comparison.table, pd.DataFrame)


class TestBest:
    @pytest.mark.parametrize(
        ("slab", "family"),
        [
            (lambda rng, shape: rng.laplace(scale=2.0, size=shape), "point_laplace"),
            (lambda rng, shape: rng.exponential(scale=2.0, size=shape), "point_exponential"),
            (lambda rng, shape: np.full(shape, 1.5), "generalized_binary"),
        ],
    )
    def test_finds_the_truth(self, slab, family):
        assert compare_priors(draw(slab)).best == family

    def test_dense_truth(self):
        rng = np.random.default_rng(1)
        L = rng.normal(size=(2, 60))
        X = rng.normal(size=(80, 2)) @ L + rng.normal(size=(80, 60))
        assert compare_priors(X).best == "normal"

    @pytest.mark.parametrize(
        ("behind", "best"), [(2.9, "normal"), (3.1, "point_laplace"), (-50.0, "normal")]
    )
    def test_the_smaller_of_two_near_equals_wins(self, comparison, behind, best):
        models = {name: comparison.models[name] for name in ("point_laplace", "normal")}
        elbos = {"point_laplace": 10.0, "normal": 10.0 - behind}
        assert self.chosen(models, elbos) == best

    def test_the_higher_of_equally_large_families(self, comparison):
        models = {name: comparison.models[name] for name in ("point_laplace", "point_exponential")}
        assert self.chosen(models, {"point_laplace": 1.0, "point_exponential": 2.0}) == (
            "point_exponential"
        )

    @staticmethod
    def chosen(models, elbos):
        class Model:
            def __init__(self, name):
                self.priors_, self.elbo_ = models[name].priors_, elbos[name]

        stubs = {name: Model(name) for name in models}
        return _compare_priors.best_prior(stubs, {name: make_family(name) for name in models})

    @pytest.mark.parametrize(
        ("family", "number"),
        [
            ("normal", 1),
            ("point_laplace", 2),
            ("generalized_binary", 2),
            ("flat", 0),
        ],
    )
    def test_number_of_parameters(self, X, family, number):
        model = EBCD(1, prior=family).fit(X)
        assert _compare_priors._n_parameters(model, make_family(family)) == number

    def test_flat_has_no_elbo(self, X):
        found = compare_priors(X, ["flat", "normal"])
        assert found.best == "normal"
        assert np.isnan(lines(found.table)[0]["elbo"])
        assert compare_priors(X, ["flat"]).best is None


class TestPriors:
    def test_names_of_ones_own(self, X):
        known = make_prior("point_laplace", weight=0.25, scale=2.0)
        found = compare_priors(X, {"known": known, "fitted": "point_laplace"})
        assert found.models["known"].priors_ == [known, known]
        assert found.best == "known"  # it is true, and has no parameters

    def test_families_and_fitted_priors(self, X):
        found = compare_priors(X, [make_family("normal"), make_prior("laplace", scale=1.0)])
        assert list(found.models) == ["normal", "laplace"]

    @pytest.mark.parametrize("priors", ["normal", [], {}])
    def test_not_a_list(self, X, priors):
        with pytest.raises(ValueError, match="priors must be a list of at least one prior"):
            compare_priors(X, priors)

    def test_same_name_twice(self, X):
        with pytest.raises(ValueError, match="two priors are called 'normal'; pass a dict"):
            compare_priors(X, ["normal", make_family("normal")])
        with pytest.raises(TypeError, match="pass a list as priors"):
            compare_priors(X, prior="normal")


class TestComponents:
    def test_counted_once(self, X):
        found = compare_priors(X, ["normal", "point_laplace"], scores="integrated")
        assert [model.n_components for model in found.models.values()] == ["auto", 2]
        assert all(model.scores == "integrated" for model in found.models.values())

    def test_given(self, X):
        found = compare_priors(X, ["normal", "laplace"], n_components=3, center=False)
        assert [model.n_components for model in found.models.values()] == [3, 3]
        assert not any(model.center for model in found.models.values())
        start = np.eye(60)[:, :1]
        assert compare_priors(X, ["normal"], start=start).models["normal"].n_components_ == 1

    def test_nothing_but_noise(self):
        noise = np.random.default_rng(0).normal(size=(50, 20))
        with pytest.raises(ValueError, match="pass n_components as a number"):
            compare_priors(noise)

    def test_a_prior_that_drops_all_components(self, X):
        with pytest.warns(UserWarning, match="no component was found"):
            found = compare_priors(X, ["point_laplace", "point_mass"])
        assert found.best == "point_laplace"
        line = lines(found.table)[1]
        assert (line["nonzero"], line["n_components"]) == (0, 0)


def test_plot_and_repr(X, comparison):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    found = compare_priors(X, ["flat", "normal", "point_laplace"])
    assert found.plot(ax) is ax
    elbos = np.array([model.elbo_ for model in found.models.values()])
    widths = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(widths, np.nanmax(elbos) - elbos)
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found.models)
    plt.close("all")
    assert repr(comparison).startswith("PriorComparison(best: point_laplace)\n  point_laplace")
    assert ebcd.PriorComparison is type(comparison)
