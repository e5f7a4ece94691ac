"""Scripts in whatever a user names: pages in a real browser, every figure hovered, none runs."""

import atexit
import contextlib
import functools
import json
import random
import tempfile
from pathlib import Path
from typing import Any

from helpers.attack.attempt import Attempt, command
from helpers.attack.case import Case, table, write_csv
from helpers.browser import severe, started

RUN = "window.ran=1"
PAYLOADS = (
    f"<script>{RUN}</script>", f"</script><script>{RUN}</script>",
    f"</title><script>{RUN}</script>", f"<img src=x onerror={RUN}>", f"<svg onload={RUN}>",
    f'"><img src=x onerror={RUN}>', f"' onmouseover='{RUN}' x='",
    f"<a href=javascript:{RUN}>x</a>", f'<a href="javascript:{RUN}" target="_self">x</a>',
    "<iframe srcdoc='<script>parent.ran=1</script>'>", f"<style onload={RUN}></style>",
    f"<math><mi xlink:href='javascript:{RUN}'>x</mi></math>", f"<details open ontoggle={RUN}>",
    f"${{{RUN}}}", "{{ ''.__class__ }}", f"`;{RUN}//", f"\\u003cscript>{RUN}</script>",
    f"&lt;script&gt;{RUN}&lt;/script&gt;", f"--><script>{RUN}</script><!--",
    f"]]><script>{RUN}</script>", f"%3Cscript%3E{RUN}%3C/script%3E",
)  # fmt: skip
COMMANDS = {
    "run": ["--model", "linear", "--curve-seeds", "1"],
    "score": ["--model", "linear"],
    "summarize": ["--model", "linear"],
    "purify": [],
    "partition": [],
    "weigh": ["--model", "linear", "--seeds", "1"],
    "polynomial": [],
    "complexity": ["--model", "linear", "--repeats", "1"],
}
HOVER = """
const done = arguments[0];
(async () => {
  let hovered = 0;
  for (const plot of document.querySelectorAll('.js-plotly-plot')) {
    const data = plot.data || [];
    for (let curve = 0; curve < data.length; curve++) {
      const n = Math.min(12, (data[curve].x || data[curve].y || []).length);
      for (let point = 0; point < n; point++) {
        try {
          Plotly.Fx.hover(plot, [{curveNumber: curve, pointNumber: point}]);
          hovered += 1;
        } catch (error) {}
      }
    }
  }
  for (const one of document.querySelectorAll('button, .card, summary, a[href^="#"], label')) {
    one.dispatchEvent(new MouseEvent('mouseover', {bubbles: true}));
    if (one.offsetParent !== null) one.click();
    hovered += 1;
  }
  await new Promise(resolve => setTimeout(resolve, 100));
  done({hovered, ran: window.ran || 0,
        foreign: document.querySelectorAll('iframe, object, embed, math, base').length});
})();
"""


def case(draw: random.Random, folder: Path) -> Case:
    """A table with payloads for names, texts and values, through one command to its page."""
    lines = table(draw)
    positions = draw.sample(["ids", "label", "column", "category", "text", "file", "source"], 3)
    words = {index: draw.choice(PAYLOADS) for index in positions}
    columns = {"ids": 0, "category": 4, "text": 5, "label": 6}
    for position, word in words.items():
        if position in columns:
            for k, row in enumerate(lines[1:]):
                row[columns[position]] += word if position != "ids" or k % 2 else ""
    lines[0][1] = words.get("column", "age")
    name = words.get("file", "data").replace("/", "\u2215")[:60] + ".csv"
    write_csv(folder / name, lines)
    of = draw.choice(list(COMMANDS))
    arguments = [of, name, "--ids", "key", "--out", "out", *COMMANDS[of]]
    if "source" in words:
        arguments += ["--source", "city"]
        for row in lines[1:]:
            row[4] += words["source"]
        write_csv(folder / name, lines)

    def judge(ended: Attempt) -> str | None:
        page = folder / "out" / "index.html"
        return None if ended.status or not page.exists() else _opened(page)

    return Case(f"{of} with {json.dumps(words)}", command(arguments), judge)


def _opened(page: Path) -> str | None:
    """What a page did that it must not, with every figure hovered and every button pressed."""
    browser = _browser()
    browser.get(page.resolve().as_uri())
    seen = browser.execute_async_script(HOVER)
    reported = [entry["message"] for entry in severe(browser)]
    if seen["ran"]:
        return "a script ran"
    if seen["foreign"]:
        return "an element of the user's is in the page"
    return f"console: {reported[0][:200]}" if reported else None


@functools.cache
def _browser() -> Any:
    """One Chromium for all cases."""
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    profile = stack.enter_context(tempfile.TemporaryDirectory(prefix="profile-"))
    return stack.enter_context(started(profile))
