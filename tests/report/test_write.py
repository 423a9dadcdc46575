"""`write_report` for every estimator and kind of input; nothing is ever half written."""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.decomposition import PCA

from ebcd import EBCD, Gram, PenalizedPCA, PenalizedPCACV, datasets
from ebcd._axes import BLUE
from ebcd.data import as_input
from ebcd.peers import EBMF, EBPCA, ITSPCA, SPC, USLPCA, GPower
from ebcd.report import write_report
from ebcd.report._background import Background, _correlations


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(5)
    loadings = np.zeros((2, 20))
    loadings[0, :6], loadings[1, 8:14] = 2.0, 1.5
    return rng.normal(size=(50, 2)) @ loadings + rng.normal(size=(50, 20)) + 7.0


@pytest.fixture(scope="module")
def model(X):
    return EBCD(2).fit(X)


ESTIMATORS = [
    EBCD(2),
    EBCD(2, noise="per_feature"),
    EBCD(2, scale=True, prior=["point_normal", "normal"]),
    EBCD(1, prior="flat"),
    EBCD(2, center=False),
    PenalizedPCA(2),
    PenalizedPCACV(2, alphas=3, cv=2),
    SPC(2, sumabs=2.0),
    GPower(2),
    ITSPCA(2),
    USLPCA(2, n_nonzero=8),
    EBMF(2),
    EBPCA(2),
]


def test_colours_are_those_of_the_plots(tmp_path, model):
    page = write_report(model, tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"--positive: {BLUE};" in page
    assert "colors of ebcd.plots" not in page


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: str(e)[:40])
def test_every_estimator(tmp_path, X, estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = estimator.fit(X)
    page = write_report(model, tmp_path / "report.html", X=X)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "report.md"]
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert ("has no uncertainties" in text) == (not hasattr(model, "lfsr_"))
    assert ("are 95% credible intervals" in text) == hasattr(model, "lfsr_")
    assert ("| lower | upper |" in text) == hasattr(model, "lfsr_")
    assert ("fits no priors" in text) == (not hasattr(model, "priors_"))
    assert "| PCA |" in text


def test_intervals_in_the_text(tmp_path, X):
    model = EBCD(2).fit(X)
    text = write_report(model, tmp_path / "report.html").with_suffix(".md").read_text("utf-8")
    lower, upper = model.credible_intervals()
    for k in range(2):
        j = int(np.argmax(np.abs(model.components_[k])))
        shown = [model.components_[k, j], lower[k, j], upper[k, j], model.components_sd_[k, j]]
        assert f"| x{j} | {' | '.join(f'{value:.4g}' for value in shown)} |" in text


def test_many_components_are_told_on_demand(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 30))
    model = PenalizedPCA(15, alpha=0.0).fit(X)
    page = write_report(model, tmp_path / "a.html", X=X).read_text("utf-8")
    assert "<summary>9 more components</summary>" in page
    assert page.count("of the variance</h3>") == 15


def test_no_component(tmp_path, X):
    noise = np.random.default_rng(0).normal(size=(60, 8))
    with pytest.warns(UserWarning, match="no component"):
        model = EBCD().fit(noise)
    page = write_report(model, tmp_path / "report.html", X=noise)
    assert "It found none" in page.read_text(encoding="utf-8")
    assert "It found none" in page.with_suffix(".md").read_text(encoding="utf-8")


def test_covariance_only(tmp_path):
    props = datasets.load_pitprops()
    model = EBCD(2).fit_covariance(props.correlation, n_samples=180)
    page = write_report(model, tmp_path / "a.html", feature_names=props.feature_names)
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "There are no scores" in text
    assert "topdiam" in text


def test_gram_gives_variances_but_no_scores(tmp_path, X):
    gram = Gram().update(X)
    model = EBCD(2).fit(gram)
    text = write_report(model, tmp_path / "a.html", X=gram).with_suffix(".md").read_text("utf-8")
    assert "There are no scores" in text
    assert "| PCA |" in text


def test_stored_tables_give_the_same_page(tmp_path, X, model):
    direct = write_report(model, tmp_path / "a.html", X=X)
    stored = write_report(
        model,
        tmp_path / "b.html",
        scores=model.transform(X),
        background=Background.of(model, X),
    )
    assert direct.read_text("utf-8") == stored.read_text("utf-8")


def test_the_data_come_first(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    X[:, :3] += 3 * rng.normal(size=(200, 1))
    X[:, 3], X[:, 4] = 5.0, rng.exponential(size=200) ** 2
    page = write_report(EBCD(1).fit(X), tmp_path / "a.html", X=X, feature_names=list("abcdef"))
    text = page.with_suffix(".md").read_text("utf-8")
    assert text.index("## The data") < text.index("## What was fitted")
    assert "- 200 rows of 6 features; no cell is missing.\n" in text
    assert "- Constant, so not part of any component: d.\n" in text
    assert "so a few extreme values have a large influence: e (+" in text
    assert re.search(r"Largest correlations: [abc] and [abc] \(0\.9", text)
    words = page.read_text("utf-8")
    assert words.index("Constant, so not") < words.index("<h2>Summary</h2>")


def test_missing_cells_are_counted(tmp_path, X):
    holes = X.copy()
    holes[3, 4] = holes[:2, 7] = np.nan
    page = write_report(EBMF(1).fit(holes), tmp_path / "a.html", X=holes)
    text = page.with_suffix(".md").read_text("utf-8")
    assert "50 rows of 20 features; 3 cells (0.3%) are missing: x7 (2), x4 (1)." in text
    pairs = Background.of(EBMF(1).fit(holes), holes)
    both = ~np.isnan(holes[:, [4, 7]]).any(axis=1)
    i, j = (int(np.flatnonzero(pairs.chosen == k)[0]) for k in (4, 7))
    expected = np.corrcoef(holes[both][:, [4, 7]].T)[0, 1]
    assert pairs.correlations[i, j] == pytest.approx(expected, abs=1e-12)
    assert not pairs.others


@pytest.mark.parametrize("p", [60, 61])
def test_largest_correlations_are_those_of_the_picture(tmp_path, p):
    """Other features are not looked at, so they may have larger ones."""
    X = np.random.default_rng(0).normal(size=(80, p))
    X[:, :2] += 3 * np.random.default_rng(1).normal(size=(80, 1))
    page = write_report(EBCD(1).fit(X), tmp_path / "r.html", X=X)
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    some = "Largest correlations of the 60 features with the largest loadings: x"
    assert ("Largest correlations: x" in text) == (p == 60)
    assert (some in text) == (p == 61)


def test_logarithms_are_for_tails_to_the_right(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 4))
    for value, advised in ((-20.0, False), (20.0, True)):
        X[0, 0] = value
        page = write_report(EBCD(1, scores="integrated").fit(X), tmp_path / "r.html", X=X)
        text = page.with_suffix(".md").read_text(encoding="utf-8")
        assert "a few extreme values" in text
        assert ("taking logarithms may help" in text) == advised


def test_skewness_is_that_of_scipy(X):
    matrix = np.abs(X) ** 2
    expected = stats.skew(matrix, axis=0)
    for data in (matrix, sparse.csr_array(matrix)):
        np.testing.assert_allclose(Background.of(EBCD(1).fit(data), data).skewness, expected)


def test_background_of_statistics(X):
    gram = Gram().update(X)
    model = EBCD(2).fit(gram)
    known, direct = Background.of(model, gram), Background.of(model, X)
    np.testing.assert_allclose(known.correlations, direct.correlations, atol=1e-8)
    np.testing.assert_allclose(known.others["PCA"], direct.others["PCA"], atol=1e-6)
    assert known.missing.size == known.skewness.size == 0


def test_background_of_a_million_features():
    """Not through a matrix of all pairs of them."""
    wide = sparse.random_array((4, 1_000_000), density=1e-5, random_state=0)
    chosen = np.unique(wide.coords[1])[:3]
    direct = _correlations(wide.tocsr(), None, chosen)
    np.testing.assert_allclose(
        _correlations(None, as_input(wide, True, False), chosen), direct, atol=1e-10
    )


def test_data_frame_names_features_and_rows(tmp_path, X):
    pd = pytest.importorskip("pandas")
    index = pd.date_range("2001-01-31", periods=50, freq="D")
    frame = pd.DataFrame(X, columns=[f"gene {j}" for j in range(20)], index=index)
    model = EBCD(2).set_output(transform="pandas").fit(frame)
    text = write_report(model, tmp_path / "a.html", X=frame).with_suffix(".md").read_text("utf-8")
    assert "(2001-01-31 to 2001-03-21)" in text
    assert "gene 3" in text
    plain = write_report(model, tmp_path / "b.html", X=frame.reset_index(drop=True))
    assert "2001" not in plain.with_suffix(".md").read_text("utf-8")


def test_sparse_data(tmp_path, X, model):
    counts = sparse.csr_array(np.where(X > 7, X, 0.0))
    for estimator in (EBCD(1), EBMF(1)):
        page = write_report(estimator.fit(counts), tmp_path / "a.html", X=counts)
        assert "| PCA |" in page.with_suffix(".md").read_text("utf-8")


def test_missing_entries_leave_pca_out(tmp_path, X):
    holes = X.copy()
    holes[3, 4] = np.nan
    page = write_report(EBMF(1).fit(holes), tmp_path / "a.html", X=holes)
    assert "PCA's explained variance is not shown" in page.read_text("utf-8").replace("&#x27;", "'")


def test_existing_report_is_replaced(tmp_path, X, model):
    path = tmp_path / "report.html"
    path.write_text("old")
    assert write_report(model, path, X=X) == path
    assert path.read_text("utf-8").startswith("<!doctype html>")


def test_failure_leaves_the_old_report(tmp_path, model, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="scores must have"):
        write_report(model, path, scores=np.zeros((4, 9)))
    monkeypatch.setattr("pathlib.Path.replace", _no_space)
    with pytest.raises(OSError, match="no space"):
        write_report(model, path)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def _no_space(self, target):
    raise OSError("no space")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"scores": np.zeros((4, 9))}, ValueError, "scores must have .* 2 components"),
        ({"scores": np.zeros(4)}, ValueError, "scores must have"),
        ({"row_names": ["a"]}, ValueError, "row_names need the scores"),
        ({"scores": np.zeros((4, 2)), "row_names": ["a"]}, ValueError, "each of the 4 rows, got 1"),
        ({"feature_names": ["a"]}, ValueError, "feature_names must have one name"),
        ({"stability": [1.0]}, ValueError, "share between 0 and 1 for each of the 2 components"),
        ({"color_by": ["a"]}, ValueError, "one entry for each of the None rows"),
        ({"scores": np.zeros((4, 2)), "color_by": ["a"]}, ValueError, "of the 4 rows, got shape"),
    ],
)
def test_bad_arguments(tmp_path, model, arguments, error, message):
    with pytest.raises(error, match=message):
        write_report(model, tmp_path / "report.html", **arguments)
    assert not list(tmp_path.iterdir())


def test_bad_paths(tmp_path, model):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        write_report(model, tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_report(model, tmp_path)
    with pytest.raises(ValueError, match="must name the page"):
        write_report(model, tmp_path / "report.md")


def test_bad_models(tmp_path):
    with pytest.raises(TypeError, match="fitted estimator of ebcd"):
        write_report(PCA(), tmp_path / "report.html")
    with pytest.raises(ValueError, match="not fitted"):
        write_report(EBCD(), tmp_path / "report.html")


def test_bad_bootstrap_intervals(tmp_path):
    model = EBCD(1).fit(np.random.default_rng(0).normal(size=(20, 4)))
    with pytest.raises(ValueError, match=r"shape \(2, k, p\) = \(2, 1, 4\), got shape \(1, 4\)"):
        write_report(model, tmp_path / "r.html", bootstrap_intervals=np.zeros((1, 4)))
    assert not list(tmp_path.iterdir())


def test_notes_and_units(tmp_path, X, model):
    notes = ["Two rows were left out <here>.", "Warning: few rows."]
    page = write_report(model, tmp_path / "r.html", notes=notes, standardized=True)
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "- Two rows were left out \\<here\\>.\n- Warning: few rows.\n" in text
    words = page.read_text(encoding="utf-8")
    assert "<li>Two rows were left out &lt;here&gt;.</li><li>Warning: few rows.</li>" in words
    assert "in standard deviations of that feature" in words
