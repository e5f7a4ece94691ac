"""A real browser for tests: headless Chromium."""

import shutil
from contextlib import contextmanager
from pathlib import Path

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
LONGEST = 600  # seconds that one step may take: on a loaded machine axe takes minutes for a page


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
    driver.command_executor.client_config.timeout = LONGEST
    try:
        yield driver
    finally:
        driver.quit()


def settle(browser, *, unfold=True):
    """Unfold all, and wait until every figure that shows is drawn and two frames have passed."""
    browser.execute_async_script(
        """const [unfold, done] = arguments;
        const folds = unfold ? document.querySelectorAll("main details") : [];
        for (const fold of folds) fold.open = true;
        (function wait() {
          const all = [...document.querySelectorAll("[data-figure]")];
          const figures = all.filter((f) => f.checkVisibility());
          if (!figures.every((f) => f.querySelector("svg.main-svg"))) return setTimeout(wait, 20);
          requestAnimationFrame(() => requestAnimationFrame(() => done()));
        })();""",
        unfold,
    )


def opened(browser, path, width=1280, anchor="", *, unfold=True):
    browser.get_log("browser")  # forget what earlier pages said
    resize(browser, width)
    browser.get(path.as_uri() + anchor)
    settle(browser, unfold=unfold)
    return browser


def severe(browser):
    return [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def violations(browser):
    """What axe finds on the page as it shows: rule → its first element and why."""
    import axe_core_python

    source = Path(axe_core_python.__file__).with_name("axe.min.js")
    browser.execute_script(source.read_text("utf-8"))
    return browser.execute_async_script(
        """const done = arguments[0];
        axe.run().then((r) => done(Object.fromEntries(r.violations.map((v) =>
          [v.id, v.nodes[0].html.slice(0, 200) + " " + v.nodes[0].failureSummary]))));"""
    )


def violations_of_schemes(browser):
    """What axe finds in dark and in light: scheme and rule → its first element and why."""
    found = {}
    for scheme in ("dark", "light"):
        show_scheme(browser, scheme)
        found |= {f"{scheme}, {rule}": why for rule, why in violations(browser).items()}
    return found


def show_scheme(browser, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def reset(browser):
    """An empty page of the usual width in light, and nothing logged."""
    browser.get("about:blank")
    resize(browser, 1280)
    show_scheme(browser, "light")
    browser.set_script_timeout(LONGEST)
    browser.get_log("browser")


def resize(browser, width, height=900):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
