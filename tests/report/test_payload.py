"""The numbers in the page are the model's, to the digits that the page states."""

import base64
import html
import json
import re
import zlib

import numpy as np
import pytest

from ebcd import EBCD
from ebcd.report import _page, write_report
from ebcd.report._background import Background
from ebcd.report._encode import split_decimals
from ebcd.report._page import PageSettings


def unpack(page):
    """Read header and numbers back, independently of the code that wrote them."""
    header = json.loads(re.search(r'id="header">(.*?)</script>', page, re.DOTALL)[1])
    packed = re.search(r'id="packed">(.*?)</script>', page, re.DOTALL)[1]
    block = zlib.decompress(base64.b64decode(packed))
    found = {}
    for name, entry in header["contents"].items():
        start = entry["start"]
        if "length" in entry:
            found[name] = json.loads(block[start : start + entry["length"]].decode("utf-8"))
            continue
        count, width = int(np.prod(entry["shape"])), entry["width"]
        whole = planes(block, start, count, width)
        power = planes(block, start + width * count, count, 2)
        numbers = [
            float("nan") if w == entry["missing"] else float(f"{w}e{e}")
            for w, e in zip(whole, power, strict=True)
        ]
        found[name] = np.reshape(numbers, entry["shape"])
    return header, found


def planes(block, start, count, width):
    """Whole numbers whose bytes lie apart, lowest first."""
    return [
        int.from_bytes(
            bytes(block[start + byte * count + i] for byte in range(width)), "little", signed=True
        )
        for i in range(count)
    ]


def rounded(values, digits):
    """Round to significant digits by way of Python's own decimal formatting."""
    flat = [float(f"{value:.{digits - 1}e}") for value in np.ravel(values)]
    return np.reshape(flat, np.shape(values))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    loadings = np.zeros((2, 25))
    loadings[0, :6], loadings[1, 10:16] = 2.0, [1.0, -1.0] * 3
    return rng.normal(size=(40, 2)) @ loadings + rng.normal(size=(40, 25))


@pytest.fixture(scope="module")
def model(data):
    return EBCD(2).fit(data)


@pytest.mark.parametrize("digits", [4, 7])
def test_decimals_are_those_of_python(digits):
    rng = np.random.default_rng(0)
    values = rng.normal(size=2000) * 10.0 ** rng.integers(-150, 150, size=2000)
    whole, power = split_decimals(values, digits)
    back = np.array([float(f"{w}e{e}") for w, e in zip(whole, power, strict=True)])
    np.testing.assert_array_equal(back, rounded(values, digits))


def test_decimals_of_special_values():
    values = np.array([0.0, -0.0, np.nan, np.inf, 1e-308, 9.99999, -1e300])
    whole, power = split_decimals(values, 4)
    assert whole.tolist() == [0, 0, 10_000, 10_000, 0, 1000, -1000]
    assert power[[0, 5, 6]].tolist() == [0, -2, 297]


def test_numbers_in_the_page(tmp_path, model, data):
    names = [f"row {i}" for i in range(40)]
    page = write_report(model, tmp_path / "report.html", X=data, row_names=names)
    header, found = unpack(page.read_text(encoding="utf-8"))
    assert header["digits"] == 7
    lower, upper = model.credible_intervals()
    for name, values in {
        "loadings": model.components_,
        "sd": model.components_sd_,
        "lfsr": model.lfsr_,
        "lower": lower,
        "upper": upper,
        "scores": model.transform(data).T,
        "ratio": model.explained_variance_ratio_,
        "path": model.elbo_path_ - model.elbo_path_[-1],
    }.items():
        np.testing.assert_array_equal(found[name], rounded(values, 7), err_msg=name)
    assert found["names"] == [f"x{j}" for j in range(25)]
    assert found["rows"] == names
    assert header["pathEnd"] == model.elbo_path_[-1]


def test_shrinkage_curves(tmp_path, model):
    page = write_report(model, tmp_path / "report.html").read_text(encoding="utf-8")
    header, found = unpack(page)
    error = np.sqrt(model.noise_variance_ / 40)
    assert header["standardError"] == pytest.approx(error)
    for k, prior in enumerate(model.priors_):
        expected = prior.shrink(found["estimate"][k], error)
        assert found["shrunk"][k] == pytest.approx(expected, rel=2e-3, abs=2e-3 * error)
        # a distribution: point masses and a density, most of which lies within the picture
        step = found["estimate"][k][1] - found["estimate"][k][0]
        ((place, weight),) = header["atoms"][k]
        assert place == 0
        assert weight == pytest.approx(1 - prior.parameters["weight"], abs=1e-6)
        assert 0.9 < weight + found["density"][k].sum() * step < 1.01
        assert found["density"][k].max() < 3 * np.median(found["density"][k]) + 5  # no peak
        assert header["priors"][k] == prior.describe()


def test_curves_of_scaled_data_are_in_the_units_of_the_priors(tmp_path, data):
    stretched = data * np.geomspace(1, 30, 25)
    model = EBCD(2, scale=True).fit(stretched)
    header, found = unpack(write_report(model, tmp_path / "a.html").read_text(encoding="utf-8"))
    same = EBCD(2).fit((data - data.mean(axis=0)) / data.std(axis=0))
    error = np.sqrt(same.noise_variance_ / 40)
    assert header["standardError"] == pytest.approx(error, rel=1e-4)
    largest = np.abs(same.components_).max(axis=1)
    reach = found["estimate"][:, -1]  # components may come in another order
    np.testing.assert_allclose(np.sort(reach), np.sort(1.15 * largest), rtol=1e-3)


def test_many_loadings_have_four_digits(tmp_path, model, data, monkeypatch):
    monkeypatch.setattr(_page, "SETTINGS", PageSettings(precise=20))
    page = write_report(model, tmp_path / "report.html", X=data).read_text(encoding="utf-8")
    header, found = unpack(page)
    assert header["digits"] == 4
    np.testing.assert_array_equal(found["loadings"], rounded(model.components_, 4))
    np.testing.assert_array_equal(found["scores"], rounded(model.transform(data).T, 4))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": True},
        {"noise": "per_feature"},
        {"prior": "point_exponential"},
        {"prior": "generalized_binary"},
    ],
    ids=str,
)
def test_uncertainties_of_many_loadings(tmp_path, monkeypatch, settings):
    """Four digits."""
    monkeypatch.setattr(_page, "SETTINGS", PageSettings(precise=20))
    rng = np.random.default_rng(5)
    loadings = rng.laplace(size=(2, 300)) * (rng.random(size=(2, 300)) < 0.3)
    X = (rng.normal(size=(40, 2)) @ loadings + rng.normal(size=(40, 300))) * rng.gamma(2, size=300)
    model = EBCD(2, **settings).fit(np.hstack([X, X[:, :100]]))  # with ties
    page = write_report(model, tmp_path / "report.html").read_text(encoding="utf-8")
    _, found = unpack(page)
    units = model._units  # loadings of scaled fits are told in standard deviations
    np.testing.assert_array_equal(found["sd"], rounded(model.components_sd_ / units, 4))
    rates = np.where(model.lfsr_ < 1e-290, 0.0, model.lfsr_)
    np.testing.assert_array_equal(found["lfsr"], rounded(rates, 4))
    for name, ends in zip(("lower", "upper"), model.credible_intervals() / units, strict=True):
        np.testing.assert_array_equal(found[name], rounded(ends, 4))


def test_too_many_features_leave_the_largest(tmp_path, model, data, monkeypatch):
    monkeypatch.setattr(_page, "SETTINGS", PageSettings(numbers=20))
    page = write_report(model, tmp_path / "report.html", X=data).read_text(encoding="utf-8")
    header, found = unpack(page)
    share = np.abs(model.components_ / np.linalg.norm(model.components_, axis=1)[:, None])
    largest = sorted(np.argsort(-share.max(axis=0))[:10])
    assert found["names"] == [f"x{j}" for j in largest]
    np.testing.assert_array_equal(found["loadings"], rounded(model.components_[:, largest], 7))
    assert header["features"] == {"shown": 10, "all": 25}
    assert header["rows"] == {"shown": 10, "all": 40}
    assert found["scores"].shape == (2, 10)
    assert "the page has 10 of 25 features, those with the largest" in page
    assert "the page has 10 of 40 rows, evenly spread" in page


@pytest.mark.filterwarnings("ignore:no component was found")
def test_too_many_features_without_a_component(tmp_path, monkeypatch):
    monkeypatch.setattr(_page, "SETTINGS", PageSettings(numbers=20))
    model = EBCD("auto").fit(np.random.default_rng(0).normal(size=(60, 30)))
    page = write_report(model, tmp_path / "report.html").read_text(encoding="utf-8")
    assert unpack(page)[0]["features"] == {"shown": 20, "all": 30}


def test_page_stays_below_the_limit(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 400)) + np.outer(rng.normal(size=20), np.ones(400))
    names = [rng.bytes(2000).hex() for _ in range(400)]  # nothing to compress
    model = EBCD(1).fit(X)
    page = write_report(model, tmp_path / "a.html", X=X, feature_names=names)
    assert page.stat().st_size < 5_000_000
    monkeypatch.setattr(_page, "SETTINGS", PageSettings(bytes=500_000))
    page = write_report(model, tmp_path / "b.html", X=X, feature_names=names)
    assert page.stat().st_size < 500_000
    assert unpack(page.read_text(encoding="utf-8"))[0]["features"]["shown"] < 400


HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<!--",
    "{{ style }}",
    "a|b`*_[c](d)",
    "日本語 ß 𝛑\u2028",
    "x",
    "x",
    "",
    "line\nbreak",
]


def test_names_cannot_break_out(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 10)) + 3 * np.outer(rng.normal(size=30), np.ones(10))
    model = EBCD(1).fit(X)
    rows = [*HOSTILE, *HOSTILE, *HOSTILE]
    path = write_report(
        model,
        tmp_path / "report.html",
        X=X,
        feature_names=HOSTILE,
        row_names=rows,
        title=HOSTILE[0],
        source=HOSTILE[1],
    )
    page = path.read_text(encoding="utf-8")
    _, found = unpack(page)
    assert found["names"] == HOSTILE
    assert found["rows"] == rows
    assert page.count("</script>") == 3  # the templates' own
    assert "<img" not in page
    assert "<!--" not in page
    assert f"<title>{html.escape(HOSTILE[0])}</title>" in page
    text = path.with_suffix(".md").read_text(encoding="utf-8")
    assert "<script>" not in text.replace("\\<", "")
    assert r"a\|b\`\*\_\[c\](d)" in text


def test_groups_to_colour_by(tmp_path, model, data):
    kinds = np.array(["b", "a", "", "a"] * 10, dtype=object)
    kinds[2], kinds[6] = None, np.nan
    many = [f"kind {i % 12}" for i in range(40)]
    numbers = np.where(np.arange(40) == 3, np.nan, np.arange(40.0))
    page = write_report(
        model,
        tmp_path / "a.html",
        X=data,
        color_by={"kinds": kinds, "many": many, "numbers": numbers},
    )
    header, found = unpack(page.read_text(encoding="utf-8"))
    assert [group["name"] for group in header["groups"]] == ["kinds", "many", "numbers"]
    assert header["groups"][0]["categories"] == ["a", "b"]
    np.testing.assert_array_equal(found["group_0"][:4], [1, 0, np.nan, 0])
    categories = header["groups"][1]["categories"]
    assert len(categories) == 9
    assert categories[-1] == "others"
    shown = [categories[int(i)] for i in found["group_1"]]
    assert all(one in (other, "others") for one, other in zip(shown, many, strict=True))
    assert header["groups"][2]["categories"] is None
    np.testing.assert_array_equal(found["group_2"], numbers)


def test_groups_follow_the_rows_that_are_kept(tmp_path, model, data, monkeypatch):
    monkeypatch.setattr(_page, "SETTINGS", PageSettings(numbers=20))
    page = write_report(model, tmp_path / "a.html", X=data, color_by=np.arange(40))
    header, found = unpack(page.read_text(encoding="utf-8"))
    assert header["groups"] == [{"name": "group", "categories": None}]
    rows = found["group_0"].astype(int)
    np.testing.assert_allclose(found["scores"], model.transform(data)[rows].T, rtol=1e-6)


def test_other_methods_beside_ours(tmp_path, model, data, monkeypatch):
    monkeypatch.setattr(_page, "LISTED", 25)  # all features
    page = write_report(model, tmp_path / "a.html", X=data).read_text(encoding="utf-8")
    header, found = unpack(page)
    centred = data - data.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / 40)
    principal = (np.sqrt(values[::-1]) * vectors[:, ::-1]).T[:2]
    ours, theirs = model.components_, found["other_PCA"]
    for k in range(2):
        fits = [np.allclose(np.abs(theirs[k]), np.abs(row), rtol=1e-3) for row in principal]
        assert sum(fits) == 1
        cosine = theirs[k] @ ours[k] / np.linalg.norm(theirs[k]) / np.linalg.norm(ours[k])
        assert header["others"][0]["cosines"][k] == pytest.approx(cosine, abs=1e-3)
        assert cosine > 0
    # a rotation: the same sums of squares and products
    rotated = found["other_varimax"]
    np.testing.assert_allclose(rotated.T @ rotated, principal.T @ principal, atol=1e-2)
    assert (rotated**4).sum() >= (principal**4).sum()
    np.testing.assert_array_equal(found["compared"], range(25))


def test_others_have_the_features_that_the_chart_shows(tmp_path, model, data):
    page = write_report(model, tmp_path / "a.html", X=data).read_text(encoding="utf-8")
    header, found = unpack(page)
    which = found["compared"].astype(int)
    known = Background.of(model, data).others
    for k in range(2):
        size = np.max([np.abs(one[k]) for one in (model.components_, *known.values())], axis=0)
        assert set(np.argsort(-size)[: header["listed"]]) <= set(which)
    assert found["other_PCA"].shape == (2, len(which))
    assert len(which) <= 2 * header["listed"]
    np.testing.assert_allclose(found["other_PCA"], known["PCA"][:, which], rtol=1e-3)


def test_correlations(tmp_path, model, data):
    page = write_report(model, tmp_path / "a.html", X=data).read_text(encoding="utf-8")
    _, found = unpack(page)
    which = [int(name[1:]) for name in found["correlated"]]
    assert sorted(which) == list(range(25))
    np.testing.assert_allclose(
        found["correlations"], np.corrcoef(data.T)[which][:, which], atol=1e-4
    )


def test_stability_and_what_to_look_at_first(tmp_path, data):
    many = EBCD(8).fit(data)
    shares = np.array([1.0, 0.1, 0.9, 0.5, 0.8, 0.0, 0.7, 0.3])
    page = write_report(many, tmp_path / "a.html", X=data, stability=shares)
    header, _ = unpack(page.read_text(encoding="utf-8"))
    assert header["stability"] == shares.tolist()
    assert header["first"] == [0, 2, 4]
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "Look first at components 1, 3, 5 (found again in at least 80% of random halves" in text
    assert "Found again in 90% of random halves of the rows." in text
    assert "| component | EBCD | PCA | found again |" in text
    few = EBCD(2).fit(data)
    header, _ = unpack(write_report(few, tmp_path / "b.html").read_text(encoding="utf-8"))
    assert header["stability"] is None
    assert header["first"] == [0, 1]


def test_loadings_of_a_scaled_fit_are_in_standard_deviations(tmp_path, data):
    """The report of a scaled fit says what that of the standardised data says."""
    stretched = data * np.geomspace(1, 1000, 25)
    scaled = EBCD(2, scale=True).fit(stretched)
    X = (data - data.mean(axis=0)) / data.std(axis=0)
    plain = EBCD(2).fit(X)
    one, other = (
        unpack(write_report(m, tmp_path / "a.html", X=x).read_text(encoding="utf-8"))
        for m, x in ((scaled, stretched), (plain, X))
    )
    order = [0, 1] if abs(one[1]["loadings"][0] @ other[1]["loadings"][0]) > 1 else [1, 0]
    for name in ("loadings", "sd", "ratio"):
        expected = np.abs(other[1][name][order])
        np.testing.assert_allclose(np.abs(one[1][name]), expected, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(one[1]["pca"], other[1]["pca"], rtol=1e-4)
    assert sorted(one[0]["carriers"]) == sorted(other[0]["carriers"])


def test_ordered_priors(tmp_path):
    grid = np.linspace(0, 3, 32)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) * np.sin(grid) * 2 + 0.5 * rng.normal(size=(60, 32))
    model = EBCD(1, prior="spatial").fit(X)
    page = write_report(model, tmp_path / "a.html", X=X).read_text(encoding="utf-8")
    header, found = unpack(page)
    assert header["ordered"] == [True]
    assert found["correlated"] == [f"x{j}" for j in range(32)]  # in the order of the data
