"""A review to its end by keys alone, with what was meant beside what the file holds."""

import time

from datassay.act.review.decisions import read_decisions
from helpers.reviews import part, press, until

SAVED = (
    "return /^(all saved|saved in)/.test(document.querySelector('[data-part=saved]').textContent)"
)
ENDED = "return !document.querySelector('[data-part=finish]').hidden"
SHOWN = """return [document.querySelector('[data-part=place]').textContent,
  document.querySelector('[data-act=take]').matches(':not(:disabled, [hidden])'),
  document.querySelector('[data-part=suggested]').textContent,
  document.querySelector('[data-part=decided]').textContent,
  document.querySelector('[data-part=finish]').hidden]"""
KINDS = {"t": "relabel", "k": "keep", "r": "remove", "u": "unsure"}


def in_file(folder):
    """Decisions of a run's folder, by id as a page has it."""
    read = read_decisions(folder / "decisions.parquet")
    return {str(one.id): (one.decision, one.label) for one in read.decisions}


def review_to_its_end(browser, folder, *, most=400, bulk=17):
    """Decide until the end shows; gives what was meant, and how often a decided one was shown."""
    from selenium.webdriver.common.keys import Keys

    meant, n_shown_decided = {}, 0
    accepts = "!document.querySelector('[data-act=accept]').hidden"
    for step in range(most):
        place, can_take, suggested, decided, is_open = browser.execute_script(SHOWN)
        if not is_open:
            break
        n_shown_decided += bool(decided)
        if step % bulk == bulk - 1 and browser.execute_script(f"return {accepts}"):
            press(browser, "a")
            if not browser.execute_script("return !!document.querySelector('dialog[open]')"):
                continue
            press(browser, Keys.ENTER)
            until(browser, "return !document.querySelector('dialog[open]')")
            until(browser, SAVED)
            made = in_file(folder)
            meant |= {name: one for name, one in made.items() if name not in meant}
            continue
        key = "k" if not can_take else "tttkttru"[step % 8]
        sample = place.partition(" · id ")[2].partition(" · ")[0]
        meant[sample] = KINDS[key], suggested if key == "t" else ""
        press(browser, key)
    until(browser, SAVED)
    assert browser.execute_script(ENDED), "no end shows"
    return meant, n_shown_decided


def carried_out(browser, seconds=600):
    """Press the button of the end, and wait; gives what the page then says of the gain."""
    browser.execute_script("document.querySelector('[data-act=carry]').click()")
    state = "return document.getElementById('reviewing').dataset.finish"
    end = time.monotonic() + seconds
    while browser.execute_script(state) in (None, "idle", "running"):
        assert time.monotonic() < end
        time.sleep(0.5)
    return browser.execute_script(state), part(browser, "gain")
