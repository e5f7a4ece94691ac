"""Pictures of the gallery: its commands are run, and the section that decides is shot.

python docs/shoot.py FOLDER [PICTURE ...] runs the commands in FOLDER where they have not run yet. A
picture's title in gallery.md names the section that stands below the page's head on the picture.
"""

import base64
import re
import subprocess
import sys
import time
from pathlib import Path

from selenium import webdriver

DOCS = Path(__file__).parent
ENTRY = re.compile(r'```sh\n([^`]*)```\n\n!\[[^\]]*\]\((\S+) "(.*?)"\)', re.S)
WIDTH, HEIGHT = 1180, 960  # at most
ALONE = """
const headings = [...document.querySelectorAll("h2, h3")];
const heading = headings.find(h => h.textContent.trim().startsWith(arguments[0]));
if (!heading) throw new Error("no section " + arguments[0]);
const shown = heading.closest("section, details");
for (const one of document.querySelectorAll("section, details, footer, .facts, nav"))
  if (!one.contains(shown) && !shown.contains(one)) one.style.display = "none";
for (const one of document.querySelectorAll("details")) one.open = one.contains(shown);
"""

BOTTOM = "const main = document.querySelector('main'); return main.offsetTop + main.offsetHeight"


def shoot(page: Path, section: str, picture: Path) -> None:
    """The page's head and one section, as one screen shows them."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument(f"--window-size={WIDTH},{HEIGHT}")
    with webdriver.Chrome(options=options) as browser:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.resolve().as_uri())
        if section != "top":
            browser.execute_script(ALONE, section)
        time.sleep(1)  # figures draw themselves
        size["height"] = min(HEIGHT, browser.execute_script(BOTTOM))
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        shot = browser.execute_cdp_cmd("Page.captureScreenshot", {})
        picture.write_bytes(base64.b64decode(shot["data"]))


def main(folder: Path, wanted: list[str]) -> None:
    """All pictures that have a title, or those named."""
    folder.mkdir(parents=True, exist_ok=True)
    for commands, name, section in ENTRY.findall((DOCS / "gallery.md").read_text(encoding="utf-8")):
        if wanted and Path(name).stem not in wanted:
            continue
        for command in commands.strip().split("\n"):
            words = command.partition("  #")[0].split()
            out = folder / words[words.index("--out") + 1]
            if not out.exists():
                subprocess.run([sys.executable, "-m", *words], cwd=folder, check=True)
        shoot(out / "index.html", section, DOCS / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
