"""The page in a real browser: it draws, every control works, nothing is fetched, nothing fails."""

import base64
import csv
import io
import json
import os
import re
import shutil
import struct
import zipfile
from copy import copy

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA

from ebcd import EBCD, PenalizedPCA, datasets
from ebcd.report import _page, write_report
from ebcd.report._background import Background
from ebcd.report._page import PageSettings

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

pytestmark = pytest.mark.slow

SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def programs():
    """Paths of browser and driver; without them tests skip, but in continuous integration fail."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if browser and driver:
        return browser, driver
    reason = "needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


CHARTS = "all charts (SVG, zip)"
CATCH_FILE = """
    const [button, done] = [arguments[0], arguments[1]];
    const {createObjectURL} = URL, {click} = HTMLAnchorElement.prototype;
    let blob;
    URL.createObjectURL = (given) => { blob = given; return 'blob:caught'; };
    HTMLAnchorElement.prototype.click = function () {
      URL.createObjectURL = createObjectURL;
      HTMLAnchorElement.prototype.click = click;
      const reader = new FileReader();
      reader.onload = () => done([this.download, reader.result]);
      reader.readAsDataURL(blob);
    };
    button.click();"""


class Page:
    """A report in a browser."""

    def __init__(self, driver, downloads):
        self.driver, self.downloads = driver, downloads

    def open(self, path, width=1280, height=900):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get(path.as_uri())
        self.wait(lambda: self.js("return document.documentElement.dataset.ready === 'yes'"))
        return self

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait(self, condition):
        return WebDriverWait(self.driver, 20, poll_frequency=0.05).until(lambda _: condition())

    def choose(self, identifier, value):
        Select(self.one(f"#{identifier}")).select_by_value(value)

    def type(self, identifier, text):
        field = self.one(f"#{identifier}")
        field.clear()
        field.send_keys(text)

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def hover(self, element, x=0, y=0):
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver).move_to_element_with_offset(element, x, y).perform()
        self.wait(lambda: self.one("#tip").is_displayed())
        return self.one("#tip").text.split("\n")

    def unfold(self):
        """Open the technical details, all of whose charts are then drawn again."""
        self.one("#technical > summary").click()
        self.wait(
            lambda: self.js(
                "return [...document.querySelectorAll('#technical .plot')].every((plot) =>"
                " plot.clientWidth === Number(plot.firstChild.getAttribute('width')))"
            )
        )

    def bars(self, figure=0):
        """Names of the features that a component's chart shows, from above."""
        return self.js(
            "return [...document.querySelectorAll('#bars figure')[arguments[0]]"
            ".querySelectorAll('text.name')].map(node => node.textContent)",
            figure,
        )

    def saved(self, selector, index=0):
        """Click a button that saves a file; return name and content before they reach the disk."""
        button = self.all(selector)[index]
        name, address = self.driver.execute_async_script(CATCH_FILE, button)
        return name, base64.b64decode(address.split(",")[1])

    def downloaded(self, selector, index=0):
        """Click a button that saves a file, and read the file."""
        button = self.all(selector)[index]
        self.js("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()
        complete = (".csv", ".png", ".svg")
        files = self.downloads.iterdir
        self.wait(lambda: any(file.suffix in complete for file in files()))
        (file,) = files()
        content = file.read_bytes()
        file.unlink()
        return file.name, content

    def problems(self):
        """What the console says, and addresses outside the page that were asked for."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]
        events = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        asked = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"]["documentURL"].startswith("file:")  # not the browser's own pages
        ]
        assert any(address.startswith("file:") for address in asked)  # the log works
        return said + [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    browser, program = programs()
    folder = tmp_path_factory.mktemp("browser")
    downloads = folder / "downloads"
    downloads.mkdir()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for switch in (*SWITCHES, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(switch)
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(program))
    yield Page(driver, downloads)
    driver.quit()


@pytest.fixture(scope="module")
def employment():
    jobs = datasets.load_us_employment()
    growth = np.diff(np.log(jobs.data), axis=0)
    X = (growth - growth.mean(axis=0)) / growth.std(axis=0)
    names = [name.replace("_", " ") for name in jobs.feature_names]
    return EBCD(3).fit(X), X, names, jobs.dates[1:]


@pytest.fixture(scope="module")
def report(employment, tmp_path_factory):
    model, X, names, dates = employment
    path = tmp_path_factory.mktemp("report") / "report.html"
    return write_report(
        model, path, X=X, feature_names=names, row_names=dates, title="US employment"
    )


@pytest.fixture
def opened(page, report):
    """The demonstration's report, freshly opened; afterwards nothing may have gone wrong."""
    page.open(report)
    page.js(  # without the focus
        "const count = document.getElementById('bar-count'); count.value = '20';"
        "count.dispatchEvent(new Event('change'))"
    )
    yield page
    assert page.problems() == []


def cut(shown, names):
    """Whether names are shown in this order; long ones may be cut."""
    pairs = zip(shown, names, strict=True)
    return all(whole == part or whole.startswith(part.rstrip("…")) for part, whole in pairs)


def test_draws_every_part(opened, employment):
    model, _, names, _ = employment
    assert opened.one("h1").text == "US employment"
    assert opened.one("title").get_attribute("textContent") == "US employment"
    assert len(opened.all("#bars figure")) == 3
    for k in range(3):
        assert cut(opened.bars(k), [names[j] for j in np.argsort(-np.abs(model.components_[k]))])
    grey = len(opened.all("#bars rect.unclear"))
    assert grey == int((model.lfsr_ > 0.05).sum())
    assert len(opened.all("#bars line.interval")) == 45
    assert model.n_signal_ == 2  # the third is drawn in grey
    assert len(opened.all("#variance-chart rect.positive")) == 2
    assert len(opened.all("#variance-chart rect.unclear")) == 1
    assert len(opened.all("#variance-chart rect.pca")) == 3
    assert len(opened.all("#score-chart path.curve")) == 3
    assert len(opened.all("#prior-charts figure")) == 3
    assert len(opened.all("#trace path.curve")) == 1
    assert "47.7% of the variance" in opened.one("#summary").text


def test_bars_are_as_long_as_the_loadings(opened, employment):
    model = employment[0]
    lengths = opened.js(
        "return [...document.querySelectorAll('#bars figure:first-child rect')]"
        ".filter(r => /positive|negative|unclear/.test(r.getAttribute('class')))"
        ".map(r => Number(r.getAttribute('width')))"
    )
    values = np.sort(np.abs(model.components_[0]))[::-1]
    drawn = np.array(lengths)
    np.testing.assert_allclose(drawn[:12] / drawn[0], values[:12] / values[0], rtol=1e-4)


def drawn_intervals(page, figure):
    """Ends of the lines in a chart, in the units of its axis."""
    places = page.js(
        """const chart = document.querySelectorAll('#bars figure')[arguments[0]];
        const numbers = (node, ...names) => names.map(name => Number(node.getAttribute(name)));
        const marks = [...chart.querySelectorAll('.axis, .grid-line')].map(line =>
          [Number(line.nextSibling.textContent.replace('−', '-')), ...numbers(line, 'x1')]);
        return [marks, [...chart.querySelectorAll('.interval')].map(l => numbers(l, 'x1', 'x2'))]
        """,
        figure,
    )
    marks, ends = map(np.array, places)
    slope, start = np.polyfit(marks[:, 1], marks[:, 0], 1)
    return start + slope * ends


def test_lines_are_the_credible_intervals(opened, employment):
    model = employment[0]
    intervals = model.credible_intervals()
    width = np.ptp(intervals)
    for k in range(3):
        order = np.argsort(-np.abs(model.components_[k]), kind="stable")
        expected = intervals[:, k, order].T
        np.testing.assert_allclose(drawn_intervals(opened, k), expected, atol=1e-5 * width)
    assert (intervals == 0).any()  # posteriors with much mass at zero are among them
    assert "95% credible interval" in opened.one("#bar-legend").text
    assert "standard deviations" not in opened.one("main").text


@pytest.mark.parametrize("settings", [{}, {"scale": True}, {"prior": "point_exponential"}], ids=str)
def test_intervals_of_a_large_page(page, tmp_path, monkeypatch, settings):
    """Such a page has four digits."""
    monkeypatch.setattr(_page, "SETTINGS", PageSettings(precise=20))
    rng = np.random.default_rng(5)
    loadings = rng.laplace(size=(2, 300)) * (rng.random(size=(2, 300)) < 0.3)
    X = (rng.normal(size=(40, 2)) @ loadings + rng.normal(size=(40, 300))) * rng.gamma(2, size=300)
    model = EBCD(2, **settings).fit(np.hstack([X, X[:, :100]]))  # with ties
    page.open(write_report(model, tmp_path / "a.html"))
    intervals = model.credible_intervals() / model._units
    for name, values in {
        "sd.csv": model.components_sd_ / model._units,
        "lfsr.csv": model.lfsr_,
        "lower.csv": intervals[0],
        "upper.csv": intervals[1],
    }.items():
        index = [button.text for button in page.all("#downloads button")].index(name)
        _, content = page.saved("#downloads button", index)
        numbers = np.array([row[1:] for row in table(content)[1:]], dtype=float).T
        slack = 5.1e-4 * np.abs(values) + 1e-280
        assert (np.abs(numbers - values) <= slack).all(), name
    shown = [int(name[1:]) for name in page.bars(0)]
    drawn = drawn_intervals(page, 0)
    np.testing.assert_allclose(drawn, intervals[:, 0, shown].T, atol=1e-3 * np.ptp(intervals))
    assert page.problems() == []


def test_bootstrap_intervals_and_a_weak_component(page, tmp_path, employment):
    model, _, names, _ = employment
    weak = copy(model)
    weak.n_signal_ = 2
    ends = weak.bootstrap(n_boot=5, random_state=0).intervals()
    page.open(
        write_report(weak, tmp_path / "r.html", feature_names=names, bootstrap_intervals=ends)
    )
    assert "95% bootstrap interval for the population" in page.one("#bar-legend").text
    notes = [caption.text for caption in page.all("#bars figcaption")]
    assert ["does not stand out from noise" in note for note in notes] == [False, False, True]
    faint = "return getComputedStyle(arguments[0]).fillOpacity"
    shown = [
        page.js(faint, figure.find_element(By.CSS_SELECTOR, "rect.positive"))
        for figure in page.all("#bars figure")
    ]
    assert shown == ["1", "1", "0.35"]
    shown = page.hover(page.all("#bars svg")[0])
    assert any(line.startswith("95% bootstrap interval ") for line in shown)
    assert not page.problems()


def test_heat_map_has_the_colours_of_the_loadings(opened, employment):
    """The strongest loading is blue, a loading that may be zero is grey."""
    model, _, names, _ = employment
    opened.choose("heat-sort", "data")
    fills = opened.js(
        "return [...document.querySelectorAll('.heat-scroll rect[fill]')]"
        ".map(cell => cell.getAttribute('fill'))"
    )
    cells = np.array([re.findall(r"\d+", fill) for fill in fills], dtype=int).reshape(15, 3, 3)
    strongest = names.index("mining and logging")
    unclear = int(np.argmax(np.where(model.lfsr_[2] > 0.05, np.abs(model.components_[2]), 0)))
    colours = cells[[strongest, unclear], 2]
    assert colours[0][2] - colours[0][0] > 80
    assert max(colours[1]) - min(colours[1]) < 12


def test_hover_shows_values(opened, employment):
    model, _, names, _ = employment
    chart = opened.one("#bars figure svg")
    height = chart.size["height"]
    tip = opened.hover(chart, 20, int(-height / 2 + 8))
    top = int(np.argmax(model.components_[0]))
    assert tip[0] == names[top]
    assert f"{model.components_[0, top]:.4g}" in tip[1]
    lower, upper = model.credible_intervals()[:, 0, top]
    assert tip[2] == f"95% credible interval {lower:.3g} to {upper:.3g}"
    tip = opened.hover(opened.one("#score-chart svg"), 0, 0)
    assert tip[0][:2] == "20"
    assert len(tip) == 4
    tip = opened.hover(opened.one("#variance-chart svg"), 0, 0)
    assert tip[0] == "component 2"
    assert f"{100 * model.explained_variance_ratio_[1]:.1f}%" in tip[1]
    opened.unfold()
    assert opened.hover(opened.one("#prior-charts svg"), 10, 0)[0].startswith("estimated")
    assert opened.hover(opened.one("#trace svg"), 10, 0)[0].startswith("step")
    tip = opened.hover(opened.one(".heat-scroll"), 0, -100)
    assert tip[1].startswith("component")


def test_search_highlights_everywhere(opened, employment):
    model, _, names, _ = employment
    Select(opened.one("#bar-count")).select_by_visible_text("10")
    assert "government" not in opened.bars(0)
    opened.type("search", "GOV")
    assert [item.text for item in opened.all("#matches li")] == ["government"]
    opened.press(Keys.ENTER)
    assert not opened.one("#matches").is_displayed()
    assert opened.bars(0)[-1] == "government"  # outside the largest ten, so it comes last
    assert len(opened.all("#bars rect.highlight")) == 3
    box = opened.one("#feature")
    assert box.find_element(By.CSS_SELECTOR, "h2").text == "government"
    cells = [cell.text for cell in box.find_elements(By.CSS_SELECTOR, "tbody td")]
    j = names.index("government")
    assert cells[5] == f"{model.components_[1, j]:.4g}"
    ends = model.credible_intervals()[:, 1, j]
    assert cells[6:8] == [f"{end:.3g}".replace("-", "−") for end in ends]
    box.find_element(By.CSS_SELECTOR, "button").click()
    assert not box.is_displayed()
    assert not opened.all("#bars rect.highlight")


def test_search_by_keyboard(opened):
    opened.press("/")
    assert opened.js("return document.activeElement.id") == "search"
    opened.press("goods", Keys.ARROW_DOWN)
    chosen = opened.one("#matches [aria-selected=true]")
    assert opened.one("#search").get_attribute("aria-activedescendant") == chosen.get_attribute(
        "id"
    )
    text = chosen.text
    opened.press(Keys.ENTER)
    assert opened.one("#feature h2").text == text
    opened.type("search", "nothing like it")
    assert opened.one("#matches").text == "No feature name contains this"
    opened.press(Keys.ESCAPE)
    assert not opened.one("#matches").is_displayed()


def test_pick_components(opened):
    opened.all("#picker input")[1].click()
    assert len(opened.all("#bars figure")) == 2
    assert len(opened.all("#score-chart path.curve")) == 2
    assert len(opened.all("#prior-charts figure")) == 2
    opened.all("#picker input")[0].click()
    opened.all("#picker input")[2].click()
    assert not opened.all("#bars figure")
    opened.all("#picker input")[1].click()
    assert opened.one("#bars figcaption").text.startswith("Component 2")


def test_level_greys_out(opened, employment):
    model = employment[0]
    opened.type("level", "0.6")
    assert len(opened.all("#bars rect.unclear")) == int((model.lfsr_ > 0.6).sum())
    assert "lfsr > 0.6" in opened.one("#bar-legend").text


def test_sort_bars(opened, employment):
    model, _, names, _ = employment
    opened.choose("bar-sort", "name")
    assert cut(opened.bars(0), sorted(names))
    opened.choose("bar-sort", "value")
    assert cut(opened.bars(1), [names[j] for j in np.argsort(-model.components_[1])])


def heat_names(page):
    """Names in the heat map, from above, by way of the picture that it saves."""
    name, content = page.saved("#heatmap .saves button")
    assert name == "heatmap.svg"
    return re.findall('<text[^>]*"end"[^>]*>([^<]*)<', content.decode())


def test_sort_and_filter_the_heat_map(opened, employment):
    model, _, names, _ = employment
    opened.choose("heat-sort", "value:2")
    assert heat_names(opened) == [names[j] for j in np.argsort(-model.components_[2])]
    opened.choose("heat-sort", "name")
    assert heat_names(opened) == sorted(names)
    opened.type("heat-name", "services")
    assert heat_names(opened) == sorted(name for name in names if "services" in name)
    opened.type("heat-name", " ")
    opened.type("heat-least", "0.5")
    kept = (np.abs(model.components_) >= 0.5).any(axis=0)
    assert heat_names(opened) == sorted(np.array(names)[kept])
    opened.type("heat-least", "0")
    opened.one("#heat-clear").click()
    kept = (model.lfsr_ <= 0.05).any(axis=0)
    assert heat_names(opened) == sorted(np.array(names)[kept])
    assert f"{kept.sum()} of 15 features" in opened.one("#heatmap figcaption").text
    opened.type("heat-name", "zzz")
    assert heat_names(opened) == []
    opened.choose("heat-scale", "own")
    assert "highest of the component" in opened.one("#heatmap .legend").text


def test_heat_map_by_keyboard(opened, employment):
    names = employment[2]
    opened.choose("heat-sort", "data")
    opened.js("document.querySelector('.heat-scroll').focus({preventScroll: true})")
    opened.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    said = opened.one("#live").get_attribute("textContent")
    assert said.startswith(f"{names[1]}, component 2, loading")
    opened.press(Keys.END)
    assert opened.one("#live").get_attribute("textContent").startswith(names[-1])
    opened.press(Keys.ENTER)
    assert opened.one("#feature h2").text == names[-1]
    opened.press(Keys.ESCAPE)
    assert not opened.one("#tip").is_displayed()


def test_charts_by_keyboard(opened, employment):
    model, X, names, dates = employment
    scores = model.transform(X)
    opened.js("document.querySelector('#score-chart svg').focus()")
    opened.press(Keys.HOME, Keys.ARROW_RIGHT)
    said = opened.one("#live").get_attribute("textContent").replace("−", "-")
    assert said.startswith(f"{dates[1]}, component 1: ")
    assert float(said.split(": ")[1].split(",")[0]) == pytest.approx(scores[1, 0], rel=1e-2)
    opened.js("document.querySelector('#bars svg').focus()")
    opened.press(Keys.ARROW_DOWN, Keys.ENTER)
    top = names[int(np.argmax(model.components_[0]))]
    assert opened.one("#feature h2").text == top


def test_tab_reaches_every_control_and_focus_is_visible(opened):
    reached = set()
    for _ in range(120):
        opened.press(Keys.TAB)
        active = opened.js(
            "const n = document.activeElement; if (n === document.body) return null;"
            "const outlined = m => m && getComputedStyle(m).outlineStyle !== 'none';"
            "return [n.id || n.getAttribute('class') || n.tagName,"
            " outlined(n) || outlined(n.nextElementSibling)]"
        )
        if active is None:
            break
        assert active[1], f"{active[0]} has no visible focus"
        reached.add(active[0])
    assert {
        "theme",
        "search",
        "level",
        "bar-sort",
        "heat-name",
        "heat-scroll",
        "score-view",
        "naming",
        "all-charts",
    } <= reached
    assert (
        opened.js(
            "const all = 'input, select, button, svg[tabindex], [role=group]';"
            "return [...document.querySelectorAll(all)].filter(n => !(n.getAttribute('aria-label')"
            " || n.labels?.length || n.textContent.trim())).map(n => n.outerHTML)"
        )
        == []
    )


def test_theme_switches_and_is_drawn_again(opened):
    def ground():
        return opened.js("return getComputedStyle(document.body).backgroundColor")

    light = ground()
    opened.one("#theme").click()
    dark = ground()
    assert sum(map(int, dark[4:-1].split(","))) < 150 < sum(map(int, light[4:-1].split(",")))
    opened.one("#theme").click()
    assert ground() == light


def test_dark_if_the_system_is(opened, report):
    dark = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    opened.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", dark)
    try:
        opened.open(report)
        ground = opened.js("return getComputedStyle(document.body).backgroundColor")
        assert sum(map(int, ground[4:-1].split(","))) < 150
    finally:
        opened.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_every_chart_is_saved(opened):
    buttons = opened.all(".saves button")
    # correlations, 3 components, heat map, variance, scores, other methods, 3 priors, fit
    assert len(buttons) == 24
    for index in range(0, 24, 2):
        name, content = opened.saved(".saves button", index)
        assert name.endswith(".svg")
        text = content.decode("utf-8")
        assert text.startswith("<svg")
        assert "var(" not in text
        assert "class=" not in text
        name, content = opened.saved(".saves button", index + 1)
        assert name.endswith(".png")
        assert content.startswith(b"\x89PNG")
        assert min(struct.unpack(">II", content[16:24])) > 300


def test_files_reach_the_disk(opened, employment):
    name, content = opened.downloaded("#bars .saves button", 1)
    assert name == "component-1.png"
    assert content.startswith(b"\x89PNG")
    name, content = opened.downloaded("#downloads button")
    assert name == "loadings.csv"
    assert [row[0] for row in table(content)[1:]] == employment[2]


def table(content):
    return list(csv.reader(io.StringIO(content.decode("utf-8"), newline="")))


def test_tables_are_saved(opened, employment):
    model, X, names, dates = employment
    expected = {
        "loadings.csv": (names, model.components_.T),
        "sd.csv": (names, model.components_sd_.T),
        "lfsr.csv": (names, model.lfsr_.T),
        "lower.csv": (names, model.credible_intervals()[0].T),
        "upper.csv": (names, model.credible_intervals()[1].T),
        "scores.csv": (dates, model.transform(X)),
        "fit.csv": (map(str, range(len(model.elbo_path_))), model.elbo_path_[:, None]),
        "explained_variance.csv": (
            ["component 1", "component 2", "component 3"],
            np.column_stack(
                [model.explained_variance_ratio_, PCA(3).fit(X).explained_variance_ratio_]
            ),
        ),
    }
    seen = set()
    for index, button in enumerate(opened.all("#downloads button:not(#all-charts)")):
        seen.add(button.text)
        name, content = opened.saved("#downloads button", index)
        assert name == button.text
        header, *rows = table(content)
        if name in expected:
            labels, values = expected[name]
            assert [row[0] for row in rows] == list(labels)
            numbers = np.array([row[1:] for row in rows], dtype=float)
            np.testing.assert_allclose(numbers, values, rtol=1e-6)
            assert len(header) == 1 + values.shape[1]
    assert seen == {*expected, "priors.csv", "shrinkage.csv"}


def test_scatter_and_rows(opened, employment):
    opened.choose("score-view", "scatter")
    opened.choose("score-y", "2")
    assert "Component 3 against component 1" in opened.one("#score-chart figcaption").text
    assert opened.one("#score-chart path.dots").get_attribute("d").count("M") == 119
    tip = opened.hover(opened.one("#score-chart svg"), 10, 10)
    assert tip[0] in employment[3]
    opened.choose("score-view", "rows")
    assert len(opened.all("#score-chart path.curve")) == 3


@pytest.fixture(scope="module")
def wine(tmp_path_factory):
    """A report with groups, and a component that is not found again."""
    wine = load_wine()
    model = EBCD(3, scale=True).fit(wine.data)
    kinds = np.array(["red", "green", "blue"])[wine.target]
    columns = {"kind": kinds, "alcohol": wine.data[:, 0]}
    path = tmp_path_factory.mktemp("wine") / "report.html"
    options = {"feature_names": wine.feature_names, "title": "Wine"}
    page = write_report(
        model, path, X=wine.data, color_by=columns, stability=[1.0, 0.85, 0.1], **options
    )
    return model, wine, kinds, page


@pytest.fixture
def biplot(page, wine):
    yield page.open(wine[-1])
    assert page.problems() == []


def dots(page):
    """Places of the points of each colour, in the units of the axes."""
    found = page.js(
        """const chart = document.querySelector('#score-chart svg');
        const number = text => Number(text.replace('−', '-'));
        const marks = (name) => [...chart.querySelectorAll('.axis, .grid-line')].filter(l =>
          l.getAttribute(name + '1') === l.getAttribute(name + '2')).map(l =>
          [Number(l.getAttribute(name + '1')), number(l.nextSibling.textContent)]);
        const paths = [...chart.querySelectorAll('path.dots')].map(p =>
          [getComputedStyle(p).stroke, p.getAttribute('d')]);
        return [marks('x'), marks('y'), paths]"""
    )
    axes = [np.polyfit(*np.array(marks).T, 1) for marks in found[:2]]
    return {
        colour: np.column_stack(
            [
                np.polyval(axis, places)
                for axis, places in zip(
                    axes,
                    np.array([p[:-2].split(",") for p in d[1:].split("M")], dtype=float).T,
                    strict=True,
                )
            ]
        )
        for colour, d in found[2]
    }


def arrow_names(page):
    """Names beside the arrows, and of colors."""
    return page.js(
        "return [...document.querySelectorAll('#score-chart text.name:not(.under)')]"
        ".map(n => n.textContent)"
    )


def test_biplot(biplot, wine):
    model, data, kinds, _ = wine
    scores = model.transform(data.data)
    assert Select(biplot.one("#score-view")).first_selected_option.get_attribute("value") == (
        "scatter"
    )
    biplot.choose("score-x", "2")
    biplot.choose("score-y", "0")
    points = list(dots(biplot).values())
    assert len(points) == 3  # one colour for each kind
    for kind in ("red", "green", "blue"):
        expected = scores[kinds == kind][:, [2, 0]]
        assert any(
            len(found) == len(expected) and np.allclose(found, expected, atol=0.02)
            for found in points
        )
    legend = biplot.one("#score-chart svg").text
    assert all(kind in legend for kind in ("red", "green", "blue"))
    ends = np.array(
        biplot.js(
            "return [...document.querySelectorAll('#score-chart line.arrow')].map(l =>"
            " ['x2', 'x1', 'y1', 'y2'].map(name => Number(l.getAttribute(name))))"
        )
    )
    drawn = np.sort(np.arctan2(ends[:, 2] - ends[:, 3], ends[:, 0] - ends[:, 1]))
    assert len(drawn) == 10
    shown = arrow_names(biplot)
    loadings = (model.components_ / model.scale_)[[2, 0]].T
    longest = np.argsort(-np.linalg.norm(loadings, axis=1))[:10]
    assert {data.feature_names[j] for j in longest} <= set(shown)
    biplot.one("#score-arrows").click()
    assert not biplot.all("#score-chart line.arrow")


def test_colour_by_numbers_and_label(biplot, wine):
    _, data, kinds, _ = wine
    tip = biplot.hover(biplot.one("#score-chart svg"), 10, 10)
    assert tip[3].removeprefix("kind: ") in kinds
    assert tip[4].startswith("alcohol: 1")
    biplot.choose("score-color", "1")
    assert len(dots(biplot)) > 10  # shades
    low, high = data.data[:, 0].min(), data.data[:, 0].max()
    assert f"alcohol: {low:.3g} to {high:.3g}" in biplot.one("#score-chart svg").text
    biplot.choose("score-color", "")
    assert len(dots(biplot)) == 1
    assert not biplot.all("#score-chart text.small")
    biplot.choose("score-label", "0")
    written = [node.text for node in biplot.all("#score-chart text.small")]
    assert len(written) == 40
    assert set(written) <= set(kinds)


def test_stability_is_beside_each_component(biplot):
    notes = [caption.text for caption in biplot.all("#bars figcaption")]
    for note, share in zip(notes, ("100%", "85%", "10%"), strict=True):
        assert f"found again in {share} of halves" in note
    assert "found again" in biplot.one("#variance-table thead").text


def test_stability_in_blocks(page, wine, tmp_path):
    model, data, _, _ = wine
    options = {"stability": [1.0, 0.85, 0.1], "stability_method": "blocks"}
    page.open(write_report(model, tmp_path / "blocks.html", X=data.data, **options))
    assert "found again in 100% of blocks" in page.one("#bars figcaption").text
    assert page.problems() == []


def test_components_can_be_named(biplot, wine):
    field = biplot.all("#bars .naming")[1]
    field.send_keys("Colour & <b>", Keys.ENTER)
    biplot.wait(lambda: "2 · Colour & <b>" in biplot.one("#score-chart svg").text)
    assert biplot.all("#summary h3")[1].text.startswith("2 · Colour & <b>: ")
    assert "2 · Colour & <b>" in biplot.one("#variance-table").text
    _, content = biplot.saved("#downloads button")
    assert table(content)[0] == ["feature", "component 1", "Colour & <b>", "component 3"]
    biplot.open(wine[-1])  # again
    assert biplot.all("#bars .naming")[1].get_attribute("value") == "Colour & <b>"
    biplot.all("#bars .naming")[1].clear()
    biplot.all("#bars .naming")[1].send_keys(Keys.ENTER)
    biplot.open(wine[-1])
    assert biplot.all("#summary h3")[1].text.startswith("Component 2: ")


def test_names_belong_to_one_report(page, wine, report):
    page.open(wine[-1])
    page.all("#bars .naming")[0].send_keys("mine", Keys.ENTER)
    page.open(report)
    assert page.all("#bars .naming")[0].get_attribute("value") == ""
    page.open(wine[-1])
    page.js("localStorage.clear()")


def test_features_are_cut_where_they_stop_mattering(biplot, wine):
    model = wine[0]
    for k in range(3):
        squares = np.sort((model.components_[k] / model.scale_) ** 2)[::-1]
        count = 1 + int(np.searchsorted(np.cumsum(squares) / squares.sum(), 0.9))
        assert len(biplot.bars(k)) == count
        assert f"{count} features carry 9" in biplot.all("#bars figcaption")[k].text


def test_technical_details_are_folded(biplot):
    assert not biplot.one("#prior-charts").is_displayed()
    assert not biplot.one("#trace").is_displayed()
    biplot.unfold()
    assert biplot.one("#trace svg").is_displayed()
    drawn = biplot.all("#prior-charts circle.atom")
    said = [text.text for text in biplot.all("#prior-charts text.name")]
    assert len(drawn) == len(said) == sum(bool(atoms) for atoms in header_of(biplot)["atoms"])
    assert all("% exactly 0" in text for text in said)


def header_of(page):
    return json.loads(page.one("#header").get_attribute("textContent"))


def test_other_methods(biplot, wine):
    model, data, _, _ = wine
    biplot.choose("other-component", "1")
    text = biplot.one("#other-chart svg").text
    assert all(name in text for name in ("EBCD", "PCA", "varimax"))
    drawn = biplot.js(
        "return [...document.querySelectorAll('#other-chart rect')].filter(r =>"
        " /positive|negative|unclear/.test(r.getAttribute('class')))"
        ".map(r => Number(r.getAttribute('width')))"
    )
    others = Background.of(model, data.data).others.values()
    every = np.abs([model.components_[1], *(found[1] for found in others)]) / model.scale_
    shown = np.argsort(-every.max(axis=0))[:12]
    ours = np.sort((model.components_[1] / model.scale_)[shown])[::-1]
    assert len(drawn) == 3 * 12
    lengths = np.array(drawn[:12])
    big = np.abs(ours) > 0.05
    np.testing.assert_allclose(
        lengths[big] / lengths.max(), np.abs(ours[big]) / np.abs(ours).max(), rtol=1e-3
    )
    tip = biplot.hover(biplot.one("#other-chart svg"), 0, 0)
    assert tip[0] in data.feature_names
    assert [line.split()[0] for line in tip[1:]] == ["EBCD", "PCA", "varimax"]


def test_correlations(biplot, wine):
    assert len(biplot.all("#correlations rect")) == 13 * 13 + 1
    tip = biplot.hover(biplot.one("#correlations svg"), 20, 20)
    one, other = tip[0].split(" and ")
    place = [wine[1].feature_names.index(name) for name in (one, other)]
    expected = np.corrcoef(wine[1].data[:, place].T)[0, 1]
    assert float(tip[1].split()[-1].replace("−", "-")) == pytest.approx(expected, abs=6e-3)


def test_all_charts_in_one_archive(biplot):
    name, content = biplot.saved("#all-charts")
    assert name == "charts.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert {"correlations.svg", "component-1.svg", "biplot-1-2.svg", "prior-3.svg"} < set(names)
        assert len(names) == len(biplot.all("main figure"))
        for name in names:
            text = archive.read(name).decode("utf-8")
            assert text.startswith("<svg")
            assert "var(" not in text


def test_no_card_is_alone_in_the_last_row(page, tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 30))
    model = PenalizedPCA(7, alpha=0.0).fit(X)
    page.open(write_report(model, tmp_path / "a.html", X=X))
    page.all("#picker button")[0].click()
    for count in (7, 6, 5, 4):
        cards = page.all("#bars figure")
        assert len(cards) == count
        last = max(card.location["y"] for card in cards)
        row = [card for card in cards if card.location["y"] == last]
        assert len(row) > 1 or row[0].size["width"] > 1000
        page.all("#picker input")[count - 1].click()
    assert page.problems() == []


def test_ordered_features_are_a_curve(page, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1)) * np.sin(np.linspace(0, 3, 32)) * 2
    model = EBCD(1, prior="spatial").fit(X + 0.5 * rng.normal(size=(60, 32)))
    page.open(write_report(model, tmp_path / "a.html", X=X))
    assert len(page.all("#bars path.curve")) == len(page.all("#bars path.band")) == 1
    assert not page.all("#bars rect.positive")
    assert page.one("#bars path.curve").get_attribute("d").count("L") == 31
    assert heat_names(page)[:3] == ["x0", "x1", "x2"]
    _, picture = page.saved("#heatmap .saves button")
    ends = [float(x) for x in re.findall(r'x="([\d.]+)"[^>]*text-anchor="end"', picture.decode())]
    assert 0 < max(ends) < 50  # short names leave the room to the map
    tip = page.hover(page.one("#bars svg"), 0, 0)
    assert f"loading {model.components_[0, int(tip[0][1:])]:.4g}" == tip[1]
    assert page.problems() == []


def test_names_of_arrows_on_a_phone(page, wine):
    model, data, _, path = wine
    page.open(path, width=400)
    shown = arrow_names(page)
    largest = np.argsort(-np.linalg.norm((model.components_ / model.scale_)[:2], axis=0))[:6]
    names = [data.feature_names[j] for j in largest]
    short = [name for name in names if len(name) < 14]
    assert len(short) > 2
    assert set(short) <= set(shown)
    assert page.problems() == []


def test_phone(page, report):
    page.open(report, width=360, height=740)
    wide = page.js(
        "return [document.documentElement.scrollWidth, innerWidth,"
        " ...[...document.querySelectorAll('svg text')].filter(n => {"
        " const r = n.getBoundingClientRect(); return r.left < 0 || r.right > 361; })"
        ".map(n => n.textContent)]"
    )
    assert wide == [360, 360]
    beyond = page.js(
        "return [...document.querySelectorAll('#other-chart text')].filter(n =>"
        " n.getBoundingClientRect().right > n.closest('svg').getBoundingClientRect().right)"
        ".map(n => n.textContent)"
    )
    assert beyond == []
    page.choose("score-view", "scatter")
    page.unfold()
    assert page.js("return document.documentElement.scrollWidth") == 360
    page.type("search", "gov")
    page.press(Keys.ENTER)
    assert page.js("return document.documentElement.scrollWidth") == 360
    heights = [cell.size["height"] for cell in page.all("#feature td")]
    assert max(heights) < 30  # no number is broken into lines
    assert page.problems() == []


def test_print(page, report):
    page.open(report)
    page.one("#theme").click()  # dark on the screen, light on paper
    state = "const root = document.documentElement; return [root.dataset.theme, root.className]"
    page.js("dispatchEvent(new Event('beforeprint'))")
    assert page.js(state) == ["light", "paper"]
    width = page.js("return document.body.clientWidth")
    assert 0.9 * width < page.one("#score-chart svg").size["width"] <= width
    page.js("dispatchEvent(new Event('afterprint'))")
    assert page.js(state) == ["dark", ""]
    answer = page.driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(answer["data"]).startswith(b"%PDF")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        for selector in (".tools", "#theme", ".saves", "#downloads"):
            assert not page.one(selector).is_displayed()
        assert page.one("#summary").is_displayed()
        ground = page.js("return getComputedStyle(document.body).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
    finally:
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert page.problems() == []


def test_many_features(page, tmp_path):
    """Rows out of view are reached by scrolling, by the keyboard and by search."""
    rng = np.random.default_rng(0)
    loadings = rng.laplace(size=(8, 1000)) * (rng.random((8, 1000)) < 0.2)
    X = rng.normal(size=(60, 8)) @ loadings + rng.normal(size=(60, 1000))
    model = EBCD(8, start="svd", tol=1.0).fit(X)
    page.open(write_report(model, tmp_path / "big.html", X=X))
    frame, sheet = page.one(".heat-frame").size, page.one(".heat-scroll svg").size
    assert sheet["width"] > frame["width"] - 70  # all but the overview
    assert len(page.all("#bars figure")) == 6  # the others can be picked
    page.all("#picker button")[0].click()
    assert len(page.all("#bars figure")) == 8
    page.choose("heat-sort", "data")
    assert heat_names(page)[0] == "x0"
    page.js("document.querySelector('.heat-scroll').scrollTop = 700 * 20")
    page.wait(lambda: heat_names(page)[0] == "x700")
    page.type("search", "x123")
    page.press(Keys.ENTER)
    assert "x123" in heat_names(page)
    assert page.bars(0)[-1] == "x123"
    overview = page.one(".heat-overview")
    page.js("arguments[0].scrollIntoView({block: 'center'})", overview)
    ActionChains(page.driver).move_to_element(overview).click().perform()
    assert 450 < int(heat_names(page)[0][1:]) < 550
    page.js("document.querySelector('.heat-scroll').focus({preventScroll: true})")
    page.press(Keys.END)
    assert heat_names(page)[-1] == "x999"
    assert page.problems() == []


def test_hostile_names(page, tmp_path):
    names = ["</script><script>document.title='broken'</script>", "<img src=x onerror=alert(1)>"]
    names += ["same", "same", "日本語 ß 𝛑", "", 'quote " and, comma', "line\nbreak"]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 8)) + 3 * np.outer(rng.normal(size=30), np.ones(8))
    model = EBCD(1).fit(X)
    rows = names * 3 + names[:6]
    path = write_report(
        model, tmp_path / "a.html", X=X, feature_names=names, row_names=rows, title=names[0]
    )
    page.open(path)
    assert page.driver.title == names[0]
    page.type("search", "same")
    assert [item.text for item in page.all("#matches li")] == ["same (column 2)", "same (column 3)"]
    page.press(Keys.ENTER)
    assert len(page.all("#bars rect.highlight")) == 1
    _, content = page.saved("#downloads button")
    assert [row[0] for row in table(content)[1:]] == names
    assert not page.all("img")
    assert page.problems() == []


def test_method_without_uncertainties(page, tmp_path, employment):
    _, X, names, _ = employment
    model = PenalizedPCA(1, alpha=6.0).fit(X)
    page.open(write_report(model, tmp_path / "a.html", X=X, feature_names=names))
    page.choose("bar-count", "20")
    assert len(page.all("#bars rect.positive")) == np.count_nonzero(model.components_ > 0)
    assert not page.all("#bars line.interval")
    assert "interval" not in page.one("#bar-legend").text
    assert not {"lower.csv", "upper.csv"} & {b.text for b in page.all("#downloads button")}
    assert not page.one("#level").is_displayed()
    assert not page.one("#priors").is_displayed()
    assert len(page.all("#score-chart path.curve")) == 1
    page.unfold()
    assert "criterion after each step" in page.one("#trace").text
    assert "has no uncertainties of loadings, so there are no inter" in page.one("#summary").text
    assert page.problems() == []


def test_no_component(page, tmp_path):
    noise = np.random.default_rng(0).normal(size=(60, 8))
    with pytest.warns(UserWarning, match="no component"):
        model = EBCD().fit(noise)
    page.open(write_report(model, tmp_path / "a.html", X=noise))
    assert "nothing stands out" in page.one("#summary").text
    assert "shrink" not in page.one("#summary").text  # nothing was shrunk
    assert page.one("#tables .card").text.splitlines() == ["fit.csv", CHARTS]
    assert "fitted priors" not in page.one("#technical").text
    for selector in ("#components", "#heat", "#scores", ".tools"):
        assert not page.one(selector).is_displayed()
    assert page.problems() == []


def test_failure_is_told(page, tmp_path, report):
    """A file that was cut says so instead of showing nothing."""
    text = report.read_text(encoding="utf-8")
    start = text.index('id="packed">') + len('id="packed">')
    broken = tmp_path / "a.html"
    broken.write_text(text[:start] + text[start + 400 :], encoding="utf-8")
    page.driver.get(broken.as_uri())
    page.wait(lambda: page.one("#failure").is_displayed())
    assert "could not be drawn" in page.one("#failure").text
    assert page.one("#summary").is_displayed()
    assert any("broken" not in message for message in page.problems())
