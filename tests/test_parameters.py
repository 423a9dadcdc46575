"""Every parameter of every public estimator and of `ebnm` refuses what it cannot be, at once."""

import inspect
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone

from ebcd import EBCD, PenalizedPCA, PenalizedPCACV, ebnm, peers
from ebcd._parameters import (
    FLAG,
    NON_NEGATIVE,
    NONE,
    RANDOM_STATE,
    as_generator,
    check_parameters,
    choice,
    integer,
    or_list,
    real,
)

ESTIMATORS = [EBCD, PenalizedPCA, PenalizedPCACV, *(getattr(peers, name) for name in peers.__all__)]


class Unreadable:
    """Data that must not be looked at."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("the data were read")


class Nameless:
    def __repr__(self):
        raise RuntimeError("no representation")


# Wrong for most parameters; LEGAL says for which they are not.
VALUES = {
    "object": object(),
    "without repr": Nameless(),
    "class": dict,
    "function": len,
    "text": "no such name",
    "empty text": "",
    "bytes": b"auto",
    "empty list": [],
    "ragged list": [[1.0], [1.0, 2.0]],
    "list of texts": ["a", "b"],
    "dict": {},
    "complex": 1j,
    "nan": np.nan,
    "inf": np.inf,
    "minus inf": -np.inf,
    "minus one": -1,
    "zero": 0,
    "half": np.float32(0.5),
    "two and a half": 2.5,
    "one as a float": 1.0,
    "true": True,
    "numpy true": np.True_,
    "array": np.ones(2),
    "array with nan": np.array([1.0, np.nan]),
    "number in an array": np.array(1.0),
    "matrix with inf": np.full((4, 2), np.inf),
    "cube": np.ones((2, 2, 2)),
    "huge": 10**18,
    "beyond floats": 10**400,
    "none": None,
}
FLAGS = {"true", "numpy true"}
NUMBERS = {"zero", "half", "two and a half", "one as a float", "huge"}
LEGAL = {
    "n_components": {"huge"},  # what is too large depends on the data
    "center": FLAGS,
    "scale": FLAGS,
    "block": FLAGS,
    "warm_path": FLAGS,
    "verbose": FLAGS | {"zero", "huge"},
    "tol": NUMBERS,
    "max_time": (NUMBERS - {"zero"}) | {"none"},
    "max_memory": (NUMBERS - {"zero"}) | {"none"},
    "checkpoint": {"text", "none"},
    "random_state": {"zero", "huge", "beyond floats", "none"},
    "alpha": NUMBERS | {"array"},
    "alphas": {"array"},
    "n_jobs": {"minus one", "none"},
    "gamma": {"zero", "half"},
    "mu": (NUMBERS - {"zero", "huge"}) | {"array", "none"},
    "n_nonzero": {"huge", "none"},
    "sumabs": (NUMBERS - {"zero", "half"}) | {"array"},
    ("EBCD", "tol"): NUMBERS | {"none"},
    ("ITSPCA", "tol"): NUMBERS | {"none"},
    ("ITSPCA", "max_iter"): {"none"},
    ("ITSPCA", "gamma"): NUMBERS - {"huge"},
    ("ITSPCA", "alpha"): NUMBERS - {"huge"},
    ("SPC", "cv"): {"huge"},
}
# Splits of any kind; what is in them depends on the data.
LEGAL["PenalizedPCACV", "cv"] = {"huge", "none", "dict"} | {
    kind
    for kind in VALUES
    if "list" in kind or "array" in kind or kind in ("matrix with inf", "cube")
}


def parameters_of(made):
    return [name for name in inspect.signature(made).parameters if name != "self"]


def fit(made, **parameters):
    return made(**{"n_components": 2} | parameters).fit(Unreadable())


@pytest.mark.parametrize(
    ("made", "name"), [(made, name) for made in ESTIMATORS for name in parameters_of(made)]
)
def test_every_value(made, name):
    """Wrong ones are named before the data are read, legal ones are not complained of."""
    legal = LEGAL.get((made.__name__, name), LEGAL.get(name, set()))
    for kind, value in VALUES.items():
        with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
            fit(made, **{name: value})
        message = str(caught.value)
        said = f"{kind}: {message}"
        if kind in legal:
            assert message == "the data were read", said
        else:
            assert not isinstance(caught.value, RuntimeError), said
            assert message.startswith(name) or f"unknown {name}" in message, said
            assert re.search(r"must be|Available|pass", message), said
            assert len(message) < 500, said
            if isinstance(value, int | float | str):
                assert str(value) in message or len(str(value)) > 60, said


class TestConstraints:
    @pytest.mark.parametrize(
        ("constraint", "value", "error", "message"),
        [
            (integer(1), 0, ValueError, "n must be an integer of at least 1, got 0"),
            (integer(1, 9), 10, ValueError, "n must be an integer from 1 to 9, got 10"),
            (integer(1), 1.5, TypeError, "n must be an integer of at least 1, got 1.5 (float)"),
            (
                integer(1) | choice("auto", "paper"),
                "many",
                ValueError,
                'n must be an integer of at least 1, "auto" or "paper", got \'many\'',
            ),
            (FLAG, "no", TypeError, "n must be True or False, got 'no' (str)"),
            (
                NON_NEGATIVE | NONE,
                np.nan,
                ValueError,
                "n must be a number of at least 0 or None, got nan",
            ),
            (or_list(NON_NEGATIVE), [1, -1], ValueError, "a list of such numbers, got [1, -1]"),
            (or_list(NON_NEGATIVE), np.zeros((2, 3)), ValueError, "got an array of shape (2, 3)"),
            (real("a finite number"), "x" * 1000, TypeError, "got 'xxx"),
            (RANDOM_STATE, -1, ValueError, "an integer of at least 0, a NumPy generator"),
        ],
    )
    def test_messages(self, constraint, value, error, message):
        with pytest.raises(error) as caught:
            check_parameters({"n": value}, {"n": constraint})
        assert message in str(caught.value)
        assert len(str(caught.value)) < 150

    @pytest.mark.parametrize(
        ("constraint", "value"),
        [
            (integer(1, 9), np.int8(9)),
            (real("a finite number"), np.float16(0.5)),
            (NON_NEGATIVE, 0),
            (or_list(NON_NEGATIVE), (0, 0.5)),
            (or_list(NON_NEGATIVE), np.array([1, 2])),
            (FLAG, np.bool_(False)),
            (RANDOM_STATE, np.random.SeedSequence(3)),
        ],
    )
    def test_allowed(self, constraint, value):
        check_parameters({"n": value}, {"n": constraint})

    @pytest.mark.parametrize(
        "state", [3, np.int64(3), np.random.RandomState(3), np.random.PCG64(3), None]
    )
    def test_generators(self, state):
        assert isinstance(as_generator(state), np.random.Generator)

    def test_default_seed(self):
        assert as_generator(None, default=5).random() == np.random.default_rng(5).random()


@pytest.mark.parametrize("made", ESTIMATORS)
def test_more_components_than_the_data_can_have(made):
    X = np.random.default_rng(0).normal(size=(8, 6))
    with pytest.raises(ValueError, match=r"n_components must be at most 6, .* got 200"):
        made(200).fit(X)
    with pytest.raises(ValueError, match=r"at most 5, the smaller of 5 samples and 6 features"):
        made(6).fit(X[:5])


CALLS = {
    "prior": (lambda value: ebnm(X, prior=value), set()),
    "mode": (lambda value: ebnm(X, mode=value), NUMBERS | {"minus one"}),
    "start": (lambda value: ebnm(X, start=value), {"none"}),
    "x": (lambda value: ebnm(value), {"array"}),
    "s": (lambda value: ebnm(X, value), (NUMBERS - {"zero"}) | {"number in an array"}),
    "n": (lambda value: ebnm(X).sample(value), {"zero"}),
    "random_state": (
        lambda value: ebnm(X).sample(random_state=value),
        {"zero", "huge", "beyond floats", "none"},
    ),
    "level": (lambda value: MODEL.sparsify(value), {"zero", "half", "one as a float"}),
    "probability": (lambda value: MODEL.credible_intervals(value), {"half"}),
    "k": (lambda value: MODEL.top_features(value), {"zero"}),
    "n_samples": (
        lambda value: MODEL.fit_covariance(np.eye(4), value),
        {"huge"},
    ),
}
X = [0.3, -0.1, 7.0, 0.5, -6.0]
MODEL = EBCD(1).fit(np.random.default_rng(0).normal(size=(20, 1)) * [3.0, 3.0, 0.0] + np.eye(20, 3))


@pytest.mark.parametrize("name", CALLS)
def test_functions_and_methods(name):
    call, legal = CALLS[name]
    for kind, value in VALUES.items():
        if kind in legal:
            call(value)
        else:
            with pytest.raises((TypeError, ValueError), match=rf"^(unknown )?{name}\b"):
                call(value)


class Louder(EBCD):
    """An estimator of a user, with a parameter of its own and few of ours."""

    def __init__(self, n_components=1, *, factor=1.0, prior="normal"):
        super().__init__(n_components, prior=prior)
        self.factor = factor

    def transform(self, X):
        return self.factor * super().transform(X)


def test_subclasses_of_users_may_have_parameters_of_their_own():
    X = np.random.default_rng(0).normal(size=(30, 4)) * [4.0, 1.0, 1.0, 1.0]
    model = Louder(factor=2.0).fit(X)
    plain = EBCD(1, prior="normal").fit(X)
    np.testing.assert_array_equal(model.transform(X), 2 * plain.transform(X))
    again = clone(model)
    assert again.get_params() == {"n_components": 1, "factor": 2.0, "prior": "normal"}
    assert pickle.loads(pickle.dumps(model)).elbo_ == model.elbo_
    with pytest.raises(ValueError, match="unknown prior 'norml'"):
        Louder(prior="norml").fit(X)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_every_parameter_is_declared(kind):
    assert set(inspect.signature(kind).parameters) <= set(kind._declared)
