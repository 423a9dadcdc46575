"""Size of the report's page and the time a browser takes to draw it.

Run with ``make bench``. Needs chromium and chromedriver. Data of 100 samples with ten sparse
components; every loading with its standard deviation, sign rate and interval is in the page. The
time is from the start of the navigation to the end of the first drawing, best of three fresh loads.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from ebcd import EBCD
from ebcd.report import write_report

SIZES = (20_000, 50_000)
COMPONENTS = 10
SWITCHES = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def data(n_features: int) -> np.ndarray:
    """Ten components, each with a tenth of the features, in unit noise."""
    rng = np.random.default_rng(0)
    loadings = rng.laplace(size=(COMPONENTS, n_features))
    loadings *= rng.random(loadings.shape) < 0.1
    return rng.normal(size=(100, COMPONENTS)) @ loadings + rng.normal(size=(100, n_features))


def write(n_features: int, folder: Path) -> tuple[Path, float]:
    """Fit, write the report, and return its path and the seconds that writing took."""
    X = data(n_features)
    names = [
        f"ENSG{number:011d}" for number in np.random.default_rng(1).integers(1e6, size=n_features)
    ]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a few iterations are enough here
        model = EBCD(COMPONENTS, start="svd", max_iter=3).fit(X)
    start = time.process_time()
    path = write_report(model, folder / f"{n_features}.html", X=X, feature_names=names)
    return path, time.process_time() - start


def load(path: Path, folder: Path) -> float:
    """Open the page in a fresh browser, and return the milliseconds until it is drawn."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for switch in (*SWITCHES, f"--user-data-dir={tempfile.mkdtemp(dir=folder)}"):
        options.add_argument(switch)
    browser = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    try:
        browser.get(path.as_uri())
        ready = "return performance.getEntriesByName('ebcd-ready')[0]?.startTime"
        return float(WebDriverWait(browser, 60).until(lambda b: b.execute_script(ready)))
    finally:
        browser.quit()


def main() -> None:
    """Print a table."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("bench_report needs chromium and chromedriver (Debian: chromium chromium-driver)")
        return
    print("| features x components | page, MB | writing, s | opening, s |\n|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        for n_features in SIZES:
            path, writing = write(n_features, Path(name))
            opening = min(load(path, Path(name)) for _ in range(3)) / 1000
            size = path.stat().st_size / 1e6
            print(f"| {n_features:,} x {COMPONENTS} | {size:.2f} | {writing:.1f} | {opening:.2f} |")


if __name__ == "__main__":
    main()
