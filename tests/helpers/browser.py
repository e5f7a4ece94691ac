"""A real browser for tests: headless Chromium."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
SMOKE = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="Chromium or its driver is not installed"),
]
NEEDED = [*SMOKE, pytest.mark.slow]


def in_browser(test):
    for mark in NEEDED:
        test = mark(test)
    return test


FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-background-networking --hide-scrollbars "
    "--disable-component-update --disable-sync --no-first-run --disable-dev-shm-usage"
).split()


@contextmanager
def started(profile):
    """A driver whose browser keeps what it keeps in a folder."""
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    options.page_load_strategy = "normal"
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(30)
    try:
        yield driver
    finally:
        driver.quit()


def settle(browser):
    """Unfold all, and wait until every figure is drawn and two frames have passed."""
    browser.execute_async_script(
        """const done = arguments[0];
        for (const fold of document.querySelectorAll("main details")) fold.open = true;
        (function wait() {
          const figures = [...document.querySelectorAll("[data-figure]")];
          if (!figures.every((f) => f.querySelector("svg.main-svg"))) return setTimeout(wait, 20);
          requestAnimationFrame(() => requestAnimationFrame(() => done()));
        })();"""
    )


def opened(browser, path, width=1280):
    browser.get_log("browser")  # forget what earlier pages said
    resize(browser, width)
    browser.get(path.as_uri())
    settle(browser)
    return browser


def severe(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def resize(browser, width, height=900):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
