"""A review of 60,000 images in a real browser: how long its page opens, how fast a key answers.

python bench/review_page.py [RUN]; without a run Fashion-MNIST is scored first, which takes minutes.
Needs Chromium and its driver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record import record
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains

KEYS = 120
FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage".split()
# From the key's own time stamp to the frame in which the next sample is drawn, picture and all.
WATCH = """
window.answers = [];
document.addEventListener("keydown", (event) => {
  const before = event.timeStamp, grid = arguments[0];
  (function drawn() {
    const where = grid ? ".tile.current .drawn" : ".stage:not(.waiting) .subject";
    const image = document.querySelector(`${where} img`);
    if (!image || !image.complete) return requestAnimationFrame(drawn);
    image.decode().then(() => requestAnimationFrame(() =>
      setTimeout(() => window.answers.push(performance.now() - before))));
  })();
}, true);
"""
OPENED = """
const done = arguments[0];
(function wait() {
  const image = document.querySelector(".stage:not(.waiting) .subject img");
  if (!document.querySelector("#reviewing[data-ready]") || !image || !image.complete)
    return requestAnimationFrame(wait);
  requestAnimationFrame(() => setTimeout(() => done(performance.now())));
})();
"""


def scored(folder: Path) -> Path:
    """Fashion-MNIST with 5 % wrong labels, scored by the quickest model."""
    data = Path(os.environ["DATASSAY_DATA"]) / "fashion_mnist"
    call = ["datassay", "score", str(data), "--noise", "0.05", "--model", "linear"]
    subprocess.run([sys.executable, "-m", *call, "--out", str(folder)], check=True)
    return folder


def browser(profile: str) -> webdriver.Chrome:
    """Headless Chromium."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}", "--window-size=1280,1000"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    driver.set_script_timeout(60)
    return driver


def answers(driver: webdriver.Chrome, keys: list[str], *, grid: bool) -> np.ndarray:
    """Milliseconds until the page has answered each key; ten a second, faster than anybody."""
    driver.execute_script(WATCH, grid)
    for count, key in enumerate(keys, 1):
        ActionChains(driver, duration=0).send_keys(key).perform()
        while driver.execute_script("return window.answers.length") < count:
            time.sleep(0.002)
        time.sleep(0.1)
    return np.array(driver.execute_script("return window.answers"))


def shown_all(driver: webdriver.Chrome) -> None:
    """All samples, not only the suspects."""
    driver.execute_script("""
        const form = document.querySelector("#reviewing form");
        form.elements.show.value = "all";
        form.elements.show.dispatchEvent(new Event("change", { bubbles: true }));""")


def measure(folder: Path) -> dict[str, object]:
    """Seconds to open, milliseconds a key."""
    call = [sys.executable, "-m", "datassay", "view", str(folder), "--no-browser"]
    with tempfile.TemporaryDirectory() as profile, subprocess.Popen(
        call, stdout=subprocess.PIPE, text=True
    ) as server:  # fmt: skip
        assert server.stdout is not None
        begun = time.perf_counter()
        url = next(line for line in server.stdout if line.startswith("http")).strip()
        started = time.perf_counter() - begun
        driver = browser(profile)
        try:
            opened = []
            for _ in range(5):
                driver.get("about:blank")
                driver.get(url)
                opened.append(driver.execute_async_script(OPENED) / 1000)
            shown_all(driver)
            driver.execute_script("document.querySelector('[data-part=stage]').focus()")
            one = answers(driver, ["k", "r", "u"] * (KEYS // 3), grid=False)
            driver.get("about:blank")
            driver.get(url)
            driver.execute_async_script(OPENED)
            shown_all(driver)
            driver.execute_script("document.querySelector('[data-part=stage]').focus()")
            ActionChains(driver, duration=0).send_keys("g").perform()
            grid = answers(driver, ["k", "n", "n"] * (KEYS // 3), grid=True)
            n = driver.execute_script("return document.querySelector('.tile').ariaSetSize")
        finally:
            driver.quit()
            server.terminate()
    return {
        "n": int(n),
        "keys": len(one) + len(grid),
        "opened_seconds": min(opened),
        "opened_slowest": max(opened),
        "key_median_ms": np.median(one),
        "key_95_ms": np.quantile(one, 0.95),
        "key_slowest_ms": one.max(),
        "grid_median_ms": np.median(grid),
        "grid_95_ms": np.quantile(grid, 0.95),
        "grid_slowest_ms": grid.max(),
        "server_start_seconds": started,
    }


def main() -> None:
    """Measure a run, or one that is made first; its decisions are put back."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else scored(Path(place) / "run")
        decisions = folder / "decisions.parquet"
        if decisions.exists():
            raise SystemExit(f"{decisions} holds decisions, which this would change.")
        try:
            record("review_page", **measure(folder))
        finally:
            decisions.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
