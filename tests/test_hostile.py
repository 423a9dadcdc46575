"""Some of the hostile calls of `benchmarks/hostile.py`, and those that once went wrong."""

import numpy as np
import pytest

from benchmarks import hostile

# What was found: crashes, silence, numbers that are none, errors that name nothing.
FOUND = [
    ("EBCD", "checkpoint", "'\\ud800'"),
    ("EBCD", "start", "huge numbers"),
    ("EBCD", "start", "tiny numbers"),
    ("EBCD", "prior", "far prior"),
    ("EBCD integrated", "prior", "far prior"),
    ("EBCD integrated", "start", "tiny numbers"),
    ("EBCD integrated", "checkpoint", "'\\x00'"),
    ("PenalizedPCA", "n_components", "np.int8(2)"),
    ("PenalizedPCA", "tol", "1e+308"),
    ("PenalizedPCA", "tol", "np.float32(0.5)"),
    ("PenalizedPCACV", "cv", "range"),
    ("PenalizedPCACV", "n_jobs", "1000000000000000000"),
    ("ITSPCA", "gamma", "1e+155"),
    ("EBCD.fit", "X", repr(10**400)),
    ("EBCD.inverse_transform", "X", "matrix with inf"),
    ("EBCD.credible_intervals", "probability", "np.longdouble"),
    ("ebnm", "s", "1e+155"),
    ("ebnm", "mode", "1e+155"),
    ("FittedPrior.posterior", "s", "1e+308"),
    ("FittedPrior.penalty", "s", "5e-324"),
    ("FittedPrior.penalty", "values", "huge numbers"),
    ("FittedPrior.rescaled", "factor", "nan"),
    ("FittedPrior.shifted", "offset", "''"),
    ("NPMLE", "grid", "1e+155"),
    ("NPMLE", "adapts", "records"),
    ("Spatial", "wavelet", "array of two"),
    ("GeneralizedBinary", "spread", "5e-324"),
    ("Deconvolver", "c0", "inf"),
    ("Deconvolver", "degrees_of_freedom", "np.uint64 max"),
    ("make_prior point_laplace", "scale", "5e-324"),
    ("make_prior point_mass", "mode", "1e+155"),
    ("ElasticNet", "l1_ratio", "None"),
    ("SCAD", "gamma", "1e+308"),
    ("MCP", "gamma", "5e-324"),
    ("NonNegative", "penalty", "0.5"),
    ("covariance_distance", "L", "huge numbers"),
    ("make_simulation", "random_state", "'auto'"),
    ("Chunks", "source", "[None]"),
    ("Gram.merge", "other", "None"),
    ("compare_priors", "priors", "3.7"),
    ("compare_priors", "cv", "ragged"),
]


@pytest.fixture(scope="module")
def calls():
    return {call.name: call for call in hostile.calls()}


@pytest.mark.parametrize(("name", "parameter", "kind"), FOUND)
def test_what_was_found(calls, name, parameter, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert hostile.attempt(calls[name], parameter, hostile.VALUES[kind]()) == ""


def test_some_calls():
    pytest.importorskip("pandas")  # frames are among the results
    count, wrong = hostile.run(share=0.02, seed=20261118)
    assert count > 400
    assert not wrong, "\n".join(wrong)


def test_right_arguments_are_right(calls):
    for call in calls.values():
        for parameter, value in call.right.items():
            assert hostile.attempt(call, parameter, value) == ""


def test_a_call_that_changes_its_input_is_seen():
    def careless(x):
        x[0] = np.nan

    call = hostile.Call("careless", careless, {}, ["x"])
    assert hostile.attempt(call, "x", np.ones(2)) == "changes its input"
    call = hostile.Call("careless", lambda x: np.log(x), {}, ["x"])
    assert "not finite" in hostile.attempt(call, "x", np.zeros(2))
