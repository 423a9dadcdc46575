"""Conventions of scikit-learn, and the tools that people combine it with."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from ebcd import EBCD
from ebcd.priors import make_prior


def draw(n=80, p=12, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, :4], L[1, 6:] = 3.0, 1.5
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p)) + 1.0


class TestParameters:
    def test_are_stored_as_given(self):
        prior = make_prior("normal", scale=2.0)
        given = {
            "n_components": 3,
            "prior": [prior, "point_normal"],
            "noise": "per_feature",
            "center": False,
            "scale": True,
            "start": np.ones((4, 3)),
            "tol": 1e-3,
            "max_iter": 7,
            "random_state": 5,
            "verbose": 1,
        }
        parameters = EBCD(**given).get_params(deep=False)
        for name, value in given.items():
            assert parameters[name] is value

    def test_only_the_number_of_components_may_be_positional(self):
        assert EBCD(3).n_components == 3
        with pytest.raises(TypeError, match="positional"):
            EBCD(3, "normal")

    def test_clone_and_set(self):
        model = EBCD(2, prior="normal").fit(draw())
        copy = clone(model).set_params(n_components=1)
        assert copy.get_params() == model.get_params() | {"n_components": 1}
        assert not hasattr(copy, "components_")

    def test_fit_returns_itself_and_leaves_parameters_alone(self):
        model = EBCD(2)
        before = model.get_params()
        assert model.fit(draw()) is model
        assert model.get_params() == before

    def test_representation(self):
        assert repr(EBCD(2, prior="normal")) == "EBCD(n_components=2, prior='normal')"


class TestTools:
    def test_pickle(self):
        X = draw()
        model = EBCD(2, prior="point_normal").fit(X)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.transform(X), model.transform(X))
        np.testing.assert_array_equal(
            copy.sample_components(3, random_state=0), model.sample_components(3, random_state=0)
        )
        assert copy.priors_ == model.priors_
        assert copy.summary() == model.summary()

    def test_cross_validation_scores_are_log_likelihoods(self):
        X = draw()
        scores = cross_val_score(EBCD(2), X, cv=4)
        parts = np.split(np.arange(80), 4)
        expected = [EBCD(2).fit(np.delete(X, test, axis=0)).score(X[test]) for test in parts]
        np.testing.assert_allclose(scores, expected)
