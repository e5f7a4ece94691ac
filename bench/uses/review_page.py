"""A review of 60,000 images in a real browser: how long its page opens, how fast a key answers.

Fashion-MNIST is scored first, which takes minutes, unless `--set run=FOLDER` names a run. Needs
Chromium and its driver.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench.data import folder
from bench.frame import HERE, Case, Options, Row, Task

sys.path.insert(0, str(HERE.parent / "tests"))

KEYS = 120
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
# All samples, not only the suspects.
SHOW_ALL = """
const form = document.querySelector("#reviewing form");
form.elements.show.value = "all";
form.elements.show.dispatchEvent(new Event("change", { bubbles: true }));
document.querySelector("[data-part=stage]").focus();
"""


def press(driver, key: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver, duration=0).send_keys(key).perform()


def answers(driver, keys: list[str], *, grid: bool) -> np.ndarray:
    """Milliseconds until the page has answered each key; ten a second, faster than anybody."""
    driver.execute_script(WATCH, grid)
    for count, key in enumerate(keys, 1):
        press(driver, key)
        while driver.execute_script("return window.answers.length") < count:
            time.sleep(0.002)
        time.sleep(0.1)
    return np.array(driver.execute_script("return window.answers"))


def opened(driver, url: str) -> float:
    """Seconds until the first sample is drawn."""
    driver.get("about:blank")
    driver.get(url)
    return driver.execute_async_script(OPENED) / 1000


def used(run: Path) -> dict[str, object]:
    """Seconds to open, milliseconds a key."""
    from helpers.browser import resize, started

    call = [sys.executable, "-m", "datassay", "view", str(run), "--no-browser"]
    with tempfile.TemporaryDirectory() as profile, subprocess.Popen(
        call, stdout=subprocess.PIPE, text=True
    ) as server:  # fmt: skip
        assert server.stdout is not None
        begun = time.perf_counter()
        url = next(line for line in server.stdout if line.startswith("http")).strip()
        took = time.perf_counter() - begun
        try:
            with started(profile) as driver:
                resize(driver, 1280, 1000)
                driver.set_script_timeout(60)
                seconds = [opened(driver, url) for _ in range(5)]
                driver.execute_script(SHOW_ALL)
                by_key = answers(driver, ["k", "r", "u"] * (KEYS // 3), grid=False)
                opened(driver, url)
                driver.execute_script(SHOW_ALL)
                press(driver, "g")
                in_grid = answers(driver, ["k", "n", "n"] * (KEYS // 3), grid=True)
                n = driver.execute_script("return document.querySelector('.tile').ariaSetSize")
        finally:
            server.terminate()
    results = {
        f"{name}_{what}_ms": value
        for name, times in (("key", by_key), ("grid", in_grid))
        for what, value in (("median", np.median(times)), ("95", np.quantile(times, 0.95)),
                            ("slowest", times.max()))
    }  # fmt: skip
    return {"n": int(n), "keys": len(by_key) + len(in_grid), "opened_seconds": min(seconds),
            "opened_slowest": max(seconds), **results, "server_start_seconds": took}  # fmt: skip


def measured(options: Options) -> dict[str, object]:
    """Measure a run, or one of 5 % wrong labels that is made first; decisions are put back."""
    run = Path(options.value("run", str(options.work / "run")))
    if not run.exists():
        call = ["datassay", "score", str(folder("fashion_mnist")), "--noise", "0.05", "--model"]
        subprocess.run([sys.executable, "-m", *call, "linear", "--out", str(run)], check=True)
    decisions = run / "decisions.parquet"
    if decisions.exists():
        raise FileExistsError(f"{decisions} holds decisions, which this would change.")
    try:
        return used(run)
    finally:
        decisions.unlink(missing_ok=True)


def rows(lines: dict[str, dict]) -> Row:
    page = lines["review_page"]
    keys = [f"{page[f'{how}_median_ms']:.0f} and {page[f'{how}_95_ms']:.0f} ms"
            for how in ("key", "grid")]  # fmt: skip
    return Row(
        f"A review of {page['n']:,} images in Chromium: page open; a key's answer, median and "
        "95 %, one sample at a time and in a grid",
        f"{page['opened_seconds']:.2f} s; {keys[0]}; {keys[1]}",
    )


TASK = Task("a review's page in a browser", {"review_page": Case(measured)}, rows=rows)
