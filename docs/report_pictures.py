"""Take the pictures of the report in the guide again; needs chromium, chromedriver and Pillow."""

import base64
import io
import shutil
import tempfile
from pathlib import Path

from PIL import Image
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

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
        source="Monthly growth of jobs in 15 sectors, standardised",
    )


def take(browser, first, last, name):
    """Save the page from the top of one part to the bottom of another."""
    box = "return document.querySelector(arguments[0]).getBoundingClientRect()"
    top = browser.execute_script(box, first)["top"]
    bottom = browser.execute_script(box, last)["bottom"]
    clip = {"x": 0, "y": max(top - 14, 0), "width": WIDTH, "height": bottom - top + 28, "scale": 1}
    shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip})
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    colours = picture.quantize(64, method=Image.Quantize.MAXCOVERAGE)
    colours.save(HERE / "_static" / name, optimize=True)


def main():
    """Open the report and save two parts of it."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as name:
        for switch in (*SWITCHES, f"--user-data-dir={name}/profile"):
            options.add_argument(switch)
        browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        size = {"width": WIDTH, "height": 4000, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(write(Path(name)).as_uri())
        ready = "return document.documentElement.dataset.ready"
        WebDriverWait(browser, 20).until(lambda b: b.execute_script(ready))
        browser.execute_script("document.querySelector('#summary > details').open = false")
        take(browser, "body", "#components", "report.png")
        take(browser, "#heat", "#scores", "report_scores.png")
        browser.quit()


if __name__ == "__main__":
    main()
