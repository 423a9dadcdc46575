"""What people read of a fitted estimator: words, and a table in notebooks."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from methods import ESTIMATORS
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ebcd import EBCD, PenalizedPCA, PenalizedPCACV
from ebcd.peers import EBMF, EBPCA

P = 15
TAGS = set("div p strong table tr th td span br details summary pre".split())  # noqa: SIM905


def draw(n=80, p=P, seed=0):
    rng = np.random.default_rng(seed)
    L = np.zeros((2, p))
    L[0, :9], L[1, 9:12] = 3.0, 2.0
    return rng.normal(size=(n, 2)) @ L + rng.normal(size=(n, p))


@pytest.fixture(scope="module", params=ESTIMATORS, ids=lambda model: type(model).__name__)
def model(request):
    return request.param.fit(draw())


def used(model, k):
    return model.lfsr_[k] < 0.05 if hasattr(model, "lfsr_") else model.components_[k] != 0


class Table(HTMLParser):
    """Cells of a table, and every tag and attribute on the way."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tags, self.attributes, self.open = [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "br":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data + " "


class TestSummary:
    def test_numbers(self, model):
        lines = model.summary().splitlines()
        for k in range(2):
            share = f"{100 * model.explained_variance_ratio_[k]:.1f}% of the variance"
            start = f"  component {k}: {share}, {used(model, k).sum()} of {P} loadings "
            assert sum(line.startswith(start) for line in lines) == 1
        end = lines[-2] if isinstance(model, EBCD) else lines[-1]
        assert f"{model.n_iter_} iterations" in end

    @pytest.mark.parametrize("loadings", ["sparse", "dense"])
    def test_says_whether_relaxed_scores_are_correlated(self, loadings):
        rng = np.random.default_rng(5)
        L = rng.normal(size=(3, 40)) * ((rng.random((3, 40)) < 0.2) if loadings == "sparse" else 1)
        correlated = np.linalg.cholesky(0.4 * np.eye(3) + 0.6)  # in dense ones they do not show
        Z = rng.normal(size=(80, 3)) @ (correlated.T if loadings == "sparse" else np.eye(3))
        X = Z @ (3 * L) + rng.normal(size=(80, 40))
        fitted = EBCD(3, scores="relaxed").fit(X)
        cosines = np.corrcoef(fitted.transform(X).T)
        zero = np.abs(cosines - np.eye(3)).max() < 1e-6
        assert zero == (loadings == "dense")
        assert ("correlations of the scores are zero" in fitted.summary()) == zero

    def test_lists_the_largest_that_count(self, model):
        parts = re.split(r"\n\n  component \d: ", model.summary())[1:]
        for k, part in enumerate(parts):
            rows = re.findall(r"^    ([+-]\S+)(?: \+- \S+ *)?  (x\d+)$", part, flags=re.MULTILINE)
            count = int(used(model, k).sum())
            assert len(rows) == min(count, 6)
            sizes = np.where(used(model, k), np.abs(model.components_[k]), 0.0)
            order = np.argsort(-sizes, kind="stable")[:count]
            assert [name for _, name in rows] == [f"x{j}" for j in order[:6]]
            for value, name in rows:
                digit = 5e-4 * sizes.max()
                assert float(value) == pytest.approx(model.components_[k, int(name[1:])], abs=digit)
            assert (f"\n    and {count - 6} more" in part) is (count > 6)

    def test_values_are_aligned(self, model):
        rows = re.findall(
            r"^    ([+-]\S+(?: \+- \S+ *)?  )x\d+$", model.summary(), flags=re.MULTILINE
        )
        points = [row.index(".") for row in rows]
        assert len(set(points)) == 1

    def test_large_and_small_numbers_are_plain(self):
        strong = np.random.default_rng(1).normal(size=(80, 1)) * np.where(np.arange(P) < 9, 1e6, 0)
        words = EBCD(2, start="svd").fit(2e3 * draw() + strong).summary()
        assert int(re.search(r"\+- (\d+) ", words)[1]) >= 100  # neither 1.2e+02
        assert "component 1: < 0.1% of the variance" in words  # nor 0.0%

    @pytest.mark.parametrize("factor", [1e-12, 1e-5, 1e4, 1e9])
    def test_any_units(self, factor):
        small = EBCD(2).fit(factor * draw())
        values = re.findall(r"^    ([+-]\S+) \+-", small.summary(), flags=re.MULTILINE)
        assert max(map(len, values)) <= 11
        top = float(values[0])
        assert top == pytest.approx(np.abs(small.components_[0]).max(), rel=1e-3)

    def test_chosen_strength_and_trouble(self):
        cv = PenalizedPCACV(2, alphas=[0.0, 8.0, 100.0]).fit(draw())
        assert f"alpha {cv.alpha_:g} by cross-validation" in cv.summary()
        with pytest.warns(ConvergenceWarning):
            short = EBCD(2, max_iter=1).fit(draw())
        assert short.summary().splitlines()[-2].endswith("NOT CONVERGED")
        assert "NOT" not in cv.summary()

    @pytest.mark.parametrize(
        ("scores", "words"),
        [
            ("orthogonal", "given the scores: 90% intervals cover 62%"),
            ("relaxed", "about the population: 90% intervals cover 83%"),
            ("integrated", "about the population: 90% intervals cover 86%"),
        ],
    )
    def test_says_what_uncertainties_are_about(self, scores, words):
        model = EBCD(2, scores=scores).fit(draw())
        assert f"uncertainties are {words}" in model.summary()
        assert f"uncertainties are {words}" in model._repr_html_()

    def test_others_speak_for_themselves(self):
        assert "uncertainties are" not in EBMF(2).fit(draw()).summary()
        assert "uncertainties are" not in PenalizedPCA(2).fit(draw()).summary()

    def test_says_how_many_components_were_dropped(self):
        noise = np.random.default_rng(1).normal(size=(50, 20))
        model = EBCD(2, scores="integrated").fit(noise)
        assert model.n_components_ == 1
        assert "1 of 2 components was dropped: all its loadings are zero" in model.summary()
        assert "dropped" not in EBCD(2).fit(draw()).summary()

    def test_prior_of_scaled_data_is_called_so(self):
        assert EBCD(2, scale=True).fit(draw()).summary().count("(of the scaled data)") == 2

    def test_names_with_line_breaks_stay_on_a_line(self):
        names = [f"name\n  {j}" for j in range(P)]
        text = EBCD(2).fit(draw()).summary(feature_names=names)
        assert len(text.splitlines()) == len(EBCD(2).fit(draw()).summary().splitlines())


class TestHTML:
    def test_table(self, model):
        html = model._repr_html_()
        table = Table(html)
        head, *rows = table.rows
        assert len(rows) == model.n_components_
        assert ("prior " in head) is hasattr(model, "priors_")
        for k, row in enumerate(rows):
            assert row[0] == f"{k} "
            assert row[1] == f"{100 * model.explained_variance_ratio_[k]:.1f}% "
            assert row[2] == f"{used(model, k).sum()} of {P} "
            largest = np.argsort(-np.abs(np.where(used(model, k), model.components_[k], 0)))
            names = [f"x{j}" for j in largest[: min(6, used(model, k).sum())]]
            assert re.findall(r"x\d+", row[3]) == names
            if hasattr(model, "priors_"):
                assert row[4].strip() == model.priors_[k].describe()

    def test_is_complete_and_harmless(self, model):
        table = Table(model._repr_html_())
        assert table.open == []
        assert set(table.tags) <= TAGS
        assert {name for name, _ in table.attributes} <= {"style", "title"}

    def test_names_are_escaped_and_shortened(self):
        pandas = pytest.importorskip("pandas")
        bad = '<script>alert("1")</script>' + "y" * 60
        frame = pandas.DataFrame(draw(), columns=[bad, *(f"x{j}" for j in range(1, P))])
        frame[bad] *= 3
        html = EBCD(2).fit(frame)._repr_html_()
        assert "<script" not in html
        assert ("title", bad) in Table(html).attributes
        assert "y" * 60 not in "".join(row[3] for row in Table(html).rows)

    def test_in_notebooks(self, model):
        bundle = model._repr_mimebundle_()
        assert bundle["text/html"] == model._repr_html_()
        assert bundle["text/plain"] == repr(model)
        with config_context(display="text"):
            assert "text/html" not in model._repr_mimebundle_()
            assert not hasattr(model, "_repr_html_")

    def test_before_the_fit_and_in_pipelines_it_is_the_diagram(self):
        assert "sk-container" in EBCD(2)._repr_html_()
        pipeline = make_pipeline(StandardScaler(), EBCD(2)).fit(draw())
        html = pipeline._repr_html_()
        assert "sk-container" in html
        assert "share" not in html

    def test_no_component(self):
        noise = np.random.default_rng(0).normal(size=(40, 8))
        with pytest.warns(UserWarning, match="no component"):
            html = EBCD().fit(noise)._repr_html_()
        assert "nothing stands out" in html
        assert "table" not in Table(html).tags

    def test_many_components_and_a_hint(self):
        X = np.random.default_rng(0).normal(size=(60, 40)) * np.r_[100.0, np.ones(39)]
        html = PenalizedPCA(25, alpha=0.0).fit(X)._repr_html_()
        assert len(Table(html).rows) == 21
        assert "5 more components" in html
        assert "consider scale=True" in html


class TestIntervals:
    @pytest.mark.parametrize(
        "model",
        [
            EBCD(2),
            EBCD(2, scale=True, noise="per_feature", prior="point_exponential"),
            EBMF(2),
        ],
        ids=repr,
    )
    def test_against_draws(self, model):
        X = np.abs(draw()) * np.linspace(1, 5, P)
        model.fit(X)
        lower, upper = model.credible_intervals(0.8)
        assert lower.shape == upper.shape == model.components_.shape
        draws = model.sample_components(20_000, random_state=0)
        slack = 1e-9 * np.abs(model.components_).max()
        inside = ((draws >= lower - slack) & (draws <= upper + slack)).mean(axis=0)
        assert (inside >= 0.78).all()
        for outside in ((draws < lower - slack), (draws > upper + slack)):
            assert (outside.mean(axis=0) <= 0.115).all()

    def test_normal_where_there_is_no_more(self):
        model = EBPCA(2).fit(draw())
        lower, upper = model.credible_intervals()
        np.testing.assert_allclose(upper - lower, 2 * 1.959963985 * model.components_sd_)
        np.testing.assert_allclose((upper + lower) / 2, model.components_)
        assert not hasattr(model, "sample_components")

    def test_no_uncertainty_no_intervals(self):
        assert not hasattr(PenalizedPCA(2).fit(draw()), "credible_intervals")

    def test_no_component(self):
        noise = np.random.default_rng(0).normal(size=(40, 8))
        with pytest.warns(UserWarning, match="no component"):
            model = EBCD().fit(noise)
        assert model.credible_intervals().shape == (2, 0, 8)
        assert model.sample_components(3).shape == (3, 0, 8)

    @pytest.mark.parametrize("probability", [0.0, 1.0, 95, float("nan")])
    def test_bad_probability(self, probability):
        with pytest.raises(ValueError, match="probability must be a number above 0 and below 1"):
            EBCD(2).fit(draw()).credible_intervals(probability)
