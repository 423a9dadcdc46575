"""The report's sentences say what the numbers say."""

import datetime as dt
import re
from copy import copy

import numpy as np
import pytest

from ebcd import EBCD, PenalizedPCA, datasets
from ebcd.peers import EBPCA
from ebcd.priors import make_prior
from ebcd.report import _words
from ebcd.report._background import Background
from ebcd.report._dates import as_text, days_of
from ebcd.report._facts import Facts
from ebcd.report._words import findings


def facts_of(model, scores=None, rows=None, names=None, X=None):
    data = None if X is None else Background.of(model, X)
    return Facts(model, scores=scores, row_names=rows, feature_names=names, background=data)


@pytest.fixture(scope="module")
def employment():
    jobs = datasets.load_us_employment()
    growth = np.diff(np.log(jobs.data), axis=0)
    X = (growth - growth.mean(axis=0)) / growth.std(axis=0)
    model = EBCD(3)
    scores = model.fit_transform(X)
    return facts_of(model, scores, jobs.dates[1:], jobs.feature_names, X)


def test_opening_names_size_shares_and_end(employment):
    text = _words.opening(employment)
    assert "119 rows (2006-02 to 2015-12) of 15 features" in text
    assert "3 such groups" in text
    assert "which explain 63.8% of the variance" in text
    assert "explain 65.3%" in text
    assert "point_laplace" in text
    assert "3 such groups, called components (as many as requested)" in text
    assert f"converged after {employment.model.n_iter_} iterations" in text


def test_recession_is_in_the_words_of_the_first_component(employment):
    """Which sectors moved together in the recession of December 2007 to June 2009."""
    heading, sentences = next(_words.findings(employment))
    text = " ".join(sentences)
    assert heading == "Component 1: 47.7% of the variance"
    assert text.startswith("10 of 15 features carry 95% of it and move together: construction, ")
    for sector in ("durable_goods", "retail_trade", "financial_activities"):
        assert sector in text
    for sector in ("government", "utilities", "education_and_health_services"):
        assert sector not in text
    period = _words.clear_periods(employment, 0)[0]
    assert period.mean < -1
    assert employment.rows[period.first] < "2008-12" < employment.rows[period.last]
    lowest = employment.rows[int(np.argmin(employment.scores[:, 0]))]
    assert f"Lowest scores: {lowest}" in text
    assert f"From {employment.rows[period.first]} to {employment.rows[period.last]}" in text
    assert "they were jointly below their usual level" in text


@pytest.mark.parametrize(
    ("scores", "about", "covered", "wrong"),
    [
        ("orthogonal", "are 95% credible intervals, given the scores.", "62%", "2%"),
        ("relaxed", "are 95% credible intervals for the population.", "83%", "0.5%"),
        ("integrated", "are 95% credible intervals for the population.", "86%", "0.05%"),
    ],
)
def test_says_what_intervals_are_about(scores, about, covered, wrong):
    X = np.random.default_rng(0).normal(size=(60, 1)) * np.array([2.0, 2.0, 2.0, 0.0])
    model = EBCD(1, scores=scores).fit(X + 0.3 * np.random.default_rng(1).normal(size=X.shape))
    text = " ".join(_words.reading(facts_of(model)))
    assert about in text
    assert f"90% intervals covered {covered} of clearly non-zero loadings" in text
    assert f"and {wrong} of the signs with lfsr < 0.01 were wrong" in text
    assert ("1 is a typical size" in text) == (scores != "integrated")


def test_periods_do_not_depend_on_the_size_of_scores(employment):
    small = copy(employment)
    small.scores = 0.5 * employment.scores
    expected = [(period.first, period.last) for period in _words.clear_periods(employment, 0)]
    found = [(period.first, period.last) for period in _words.clear_periods(small, 0)]
    assert found == expected


def test_components_that_do_not_stand_out_are_named(employment):
    model = copy(employment.model)
    model.n_signal_ = 2
    weak = copy(employment)
    weak.model = model
    assert "Caution: component 3 does not stand out from noise." in _words.opening(weak)
    said = [sentences[0] == "It does not stand out from noise." for _, sentences in findings(weak)]
    assert said == [False, False, True]
    model.n_signal_ = 1
    assert "Caution: components 2, 3 do not stand out from noise." in _words.opening(weak)
    model.n_signal_ = 3
    assert "stand out" not in _words.opening(weak)


def test_the_smallest_components_are_weak_in_any_order():
    X = np.random.default_rng(0).normal(size=(60, 8))
    X[:, :4] += 3 * np.random.default_rng(1).normal(size=(60, 1))
    model = EBCD(2).fit(X)
    model.components_, model.n_signal_ = model.components_[::-1], 1
    model.explained_variance_ = model.explained_variance_[::-1]
    assert facts_of(model).model._weak == [0]


def test_opposite_signs_are_told_apart():
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    X = np.outer(z, [2.0, 2.0, -1.9, 0.0]) + 0.3 * rng.normal(size=(60, 4))
    facts = facts_of(EBCD(1).fit(X), names=["a", "b", "c", "d"])
    first, second = next(_words.findings(facts))[1]
    assert first.startswith("3 of 4 features carry over 99% of it. These move together: ")
    assert second == "c moves in the opposite direction."
    X[:, :2] = rng.normal(size=(60, 2))
    X[:, 0] -= X[:, 2]
    facts = facts_of(EBCD(1).fit(X), names=["a", "b", "c", "d"])
    first, second = next(_words.findings(facts))[1]
    assert re.fullmatch(
        r"2 of 4 features carry over 99% of it. [ac] moves in one direction.", first
    )
    assert second == f"{'a' if '. c' in first else 'c'} moves in the opposite direction."


def test_period_of_opposite_signs():
    z = np.concatenate([np.zeros(20), np.full(10, 3.0), np.zeros(30)])
    rng = np.random.default_rng(0)
    X = np.outer(z, [2.0, -2.0, 2.0]) + 0.1 * rng.normal(size=(60, 3))
    model = EBCD(1)
    scores = model.fit_transform(X)
    model.n_signal_ = 1  # one feature alone does not count
    rows = [f"{1950 + i}" for i in range(60)]
    text = " ".join(next(_words.findings(facts_of(model, scores, rows)))[1])
    # the largest loading is positive, and the features of its sign come first
    direction = X[20:30].mean(axis=0) * np.sign(model.components_[0])
    first, second = ("above", "below") if direction[0] > 0 else ("below", "above")
    assert (
        f"From 1970 to 1979 the former were {first} their usual level and the latter {second}"
        in text
    )


@pytest.mark.parametrize("seed", range(5))
def test_clearest_run_by_brute_force(seed):
    scores = np.random.default_rng(seed).normal(loc=0.8, size=25)
    totals = {(i, j): (scores[i:j] - 1).sum() for i in range(26) for j in range(i, 26)}
    first, last = _words.clearest_run(scores)
    assert totals[first, last] == pytest.approx(max(totals.values()))


def test_clearest_run_by_hand():
    assert _words.clearest_run(np.array([0.0, 2.0, 0.5, 3.0, -1.0, 2.0])) == (1, 4)


def test_shares_and_lists():
    assert [_words.percent(share) for share in (0.4768, 0.0004, 0.0)] == ["47.7%", "0.04%", "0.0%"]
    assert [_words.percent(share, 0) for share in (0.994, 0.996, 1.0)] == [
        "99%",
        "over 99%",
        "100%",
    ]
    assert [_words.percent(share) for share in (0.9994, 0.9996)] == ["99.9%", "over 99.9%"]
    assert _words.percent(np.sum(np.full(10, 0.1)), 0) == "100%"  # rounding aside
    assert _words.listed(["a", "b and c"]) == "a, b and c"
    assert _words.listed(["a", "b, c"]) == "a; b, c"
    assert _words.listed(list("abcdefgh"), most=6) == "a, b, c, and 5 more"


def test_one_feature_alone():
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(50, 6))
    X[:, 2] = 3 * rng.normal(size=50)
    facts = facts_of(EBCD(1).fit(X))
    weak, only = next(_words.findings(facts))[1]
    assert (weak, only) == ("It does not stand out from noise.", "x2 alone carries over 99% of it.")


def test_one_feature_with_a_clear_sign_among_larger_ones():
    X = np.random.default_rng(0).normal(size=(50, 6))
    model = EBCD(1).fit(X)
    model.components_ = np.array([[0.6, -0.5, 0.5, 0.0, 0.0, 0.0]])
    model.lfsr_, model.n_signal_ = np.array([[0.4, 0.03, 0.06, 1.0, 1.0, 1.0]]), 1
    said = next(_words.findings(facts_of(model)))[1]
    assert said == ["Only x1 has a clear sign; it carries 29% of it."]


def test_period_of_one_feature_and_of_none():
    z = np.concatenate([np.full(10, -3.0), np.zeros(40)])
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(50, 6))
    X[:, 2] += z
    model = EBCD(1)
    scores = model.fit_transform(X)
    model.n_signal_ = 1  # one feature alone does not count
    rows = [f"{1950 + i}" for i in range(50)]
    only, period, _ = next(_words.findings(facts_of(model, scores, rows)))[1]
    assert only == "x2 alone carries over 99% of it."
    assert period.startswith("From 1950 to 1959 it was below its usual level (average score −")
    model.lfsr_ = np.ones_like(model.lfsr_)
    none, period, _ = next(_words.findings(facts_of(model, scores, rows)))[1]
    assert none == "None of its loadings has a clear sign."
    assert period.startswith("From 1950 to 1959 the score was low (average score −")


def test_no_feature_has_a_clear_sign():
    X = np.random.default_rng(0).normal(size=(50, 6))
    model = EBCD(1).fit(X)
    model.lfsr_, model.n_signal_ = np.full_like(model.lfsr_, 0.5), 1
    assert next(_words.findings(facts_of(model)))[1] == ["None of its loadings has a clear sign."]


def test_method_without_uncertainties_says_so():
    X = np.random.default_rng(0).normal(size=(50, 6))
    facts = facts_of(PenalizedPCA(2, alpha=0.5).fit(X))
    assert "fitted with penalty l1, strength 0.5" in _words.opening(facts)
    missing = " ".join(_words.left_out(facts))
    for words in ("no uncertainties", "no priors", "no scores", "PCA's explained variance"):
        assert words in missing
    assert len(_words.reading(facts)) == 3


def test_prior_that_was_given_was_not_learned():
    X = np.random.default_rng(0).normal(size=(50, 6))
    prior = make_prior("normal", scale=1.0)
    text = _words.opening(facts_of(EBCD(1, prior=prior).fit(X)))
    assert "by a fixed prior, not one learned" in text
    assert "nothing was tuned" in _words.opening(facts_of(EBPCA(1).fit(X + 3 * X[:, :1])))


def test_fit_that_did_not_converge():
    X = np.random.default_rng(0).normal(size=(30, 20))
    with pytest.warns(Warning, match="max_iter"):
        model = EBCD(2, start="svd", tol=0.0, max_iter=1).fit(X)
    assert "Caution: the fit stopped after 1 iteration, before" in _words.opening(facts_of(model))


@pytest.mark.parametrize(
    ("labels", "days"),
    [
        (["1970-01-01", "1970-01-03"], [0, 2]),
        (["1970/01/01", "1970/03/01"], [0, 59]),
        (["1970-01", "1970-02"], [0, 31]),
        (["1970", "1971"], [0, 365]),
        (["197001", "197003"], [0, 59]),
        (["19700101", "19700102"], [0, 1]),
        (["1970Q1", "1970Q2", "1970-Q3"], [0, 90, 181]),
        (["1970-01-01 12:00", "1970-01-01T18:00:00"], [0.5, 0.75]),
        (["2009-02", "2009-01", "2009-02"], [14276, 14245, 14276]),
        (["1/30/1970", "2/1/1970"], [29, 31]),
        (["30.01.1970", "01.02.1970"], [29, 31]),
        (["01/02/1970", "02/01/1970", "02/03/1970"], [1, 31, 33]),  # in order with months first
    ],
)
def test_dates(labels, days):
    np.testing.assert_allclose(days_of(labels), days)


@pytest.mark.parametrize(
    "labels",
    [
        [],
        ["a", "b"],
        ["2009-01", "total"],
        ["2009-13", "2009-14"],
        ["1970", "1970"],  # plain numbers
        ["1", "2", "3"],
        ["0999", "1000"],
        ["01/02/2020", "01/03/2020"],  # days of January, or months
        ["13/13/2020", "14/13/2020"],
        ["1/2-2020"],
    ],
)
def test_not_dates(labels):
    assert days_of(labels) is None


def test_dates_as_objects():
    assert as_text(dt.date(2009, 3, 1)) == "2009-03-01"
    assert as_text(dt.datetime(2009, 3, 1)) == "2009-03-01"
    assert as_text(dt.datetime(2009, 3, 1, 13, 30)) == "2009-03-01 13:30:00"
    assert as_text(np.datetime64("2009-03")) == "2009-03"
    assert as_text("2009-03-01 00:00") == "2009-03-01 00:00"
    assert as_text(17) == "17"
