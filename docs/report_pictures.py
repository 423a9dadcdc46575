"""Take the pictures of the report in the guide again; needs chromium, chromedriver and Pillow."""

import base64
import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from sklearn.datasets import load_wine

import ebcd
from ebcd.report import write_report
from examples import demo

HERE = Path(__file__).resolve().parent
WIDTH = 1180
SWITCHES = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


def write(folder):
    """Write the report of the demonstration."""
    X, months, sectors = demo.employment_changes()
    return write_report(
        ebcd.EBCD(3).fit(X),
        folder / "report.html",
        X=X,
        row_names=months,
        feature_names=sectors,
        title="US employment, 2006 to 2015",
        source="Monthly growth of jobs in 15 sectors, standardized",
    )


def write_wines(folder):
    """Write a report with groups, and without the time that scores are drawn over otherwise."""
    wine = load_wine()
    return write_report(
        ebcd.EBCD(3, scale=True).fit(wine.data),
        folder / "wine.html",
        X=wine.data,
        feature_names=[name.replace("_", " ") for name in wine.feature_names],
        color_by={"cultivar": wine.target_names[wine.target]},
        title="Wine",
    )


def take(browser, first, last, name):
    """Save the page from the top of one part to the bottom of another."""
    box = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    top = browser.execute_script(box, first)["top"]
    bottom = browser.execute_script(box, last)["bottom"]
    clip = {"x": 0, "y": max(top - 14, 0), "width": WIDTH, "height": bottom - top + 28, "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip})
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    colours = picture.quantize(128, method=Image.Quantize.MAXCOVERAGE)
    colours.save(HERE / "_static" / name, optimize=True)


def main():
    """Open the reports and save parts of them."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name:
        for switch in (*SWITCHES, f"--user-data-dir={name}/profile"):
            options.add_argument(switch)
        browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        size = {"width": WIDTH, "height": 4000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        ready = "return document.documentElement.dataset.ready"

        def show(page):
            browser.get(page.as_uri())
            WebDriverWait(browser, 20).until(lambda b: b.execute_script(ready))

        show(write(Path(name)))
        browser.execute_script("document.querySelector('#summary > details').open = false")
        take(browser, "body", "#components", "report.png")
        take(browser, "#heat", "#scores", "report_scores.png")
        show(write_wines(Path(name)))
        take(browser, "#scores", "#others", "report_biplot.png")
        browser.quit()


if __name__ == "__main__":
    main()
