"""A review in a real browser: by keys alone, with a server and without one."""

import os
import signal
import time
from urllib.request import urlopen

import numpy as np
import pytest

from datassay.act.review.decisions import read_decisions
from helpers import review_by_keys
from helpers.browser import NEEDED, resize, severe
from helpers.command_line import succeed
from helpers.findings import EVIL
from helpers.review_by_keys import carried_out, review_to_its_end
from helpers.reviews import (
    ask,
    blobs,
    copied,
    focus,
    part,
    press,
    ready,
    scored,
    served,
    shown_id,
    until,
    viewing,
)

pytestmark = NEEDED
SAVED = "return document.querySelector('[data-part=saved]').textContent === 'all saved'"
LEARNED_SO_FAR = "return document.getElementById('reviewing').dataset.learned"
LEARNED = f"{LEARNED_SO_FAR} === '24'"
STAGE = "return document.querySelector('[data-part=stage]')"
TOLD = "return document.querySelector('[data-part=told]').textContent"
OUTCOME = "document.querySelector('[data-part=outcome]').textContent"
TOP = "document.querySelector('h1.finding').textContent"
TILES = "return document.querySelector('[data-part=tiles]').textContent"
WIDTH = "return document.documentElement.scrollWidth"


@pytest.fixture(autouse=True)
def wide(browser):
    resize(browser, 1200)


@pytest.fixture(scope="module")
def of_digits(tmp_path_factory):
    path = tmp_path_factory.mktemp("digits")
    return scored(path / "run", blobs(path, 600, "digits"))


@pytest.fixture
def digits(of_digits, tmp_path):
    return copied(of_digits, tmp_path / "digits")


@pytest.fixture(params=["npz", "table", "numbers"])
def each_kind(request, tmp_path):
    path, kind = tmp_path / request.param, request.param
    inputs = {"table": {"ids": "key", "source": "shop"}}.get(kind, {})
    return scored(path / "run", blobs(path, 90, kind), **inputs)


def in_file(folder):
    read = read_decisions(folder / "decisions.parquet")
    return {one.id: (one.decision, one.label) for one in read.decisions}


def review(browser):
    """Thirty samples by keys, the last two taken back, the next ten accepted at once."""
    from selenium.webdriver.common.keys import Keys

    expected, keys = {}, ["t", "k", "t", "r", "u"]
    for step in range(30):
        suggested = part(browser, "suggested")
        kinds = {"t": "relabel", "k": "keep", "r": "remove", "u": "unsure"}
        key = keys[step % 5]
        if key == "t" and suggested == part(browser, "given"):
            key = "k"  # one of those that tell how many are wrong, looking right
        expected[shown_id(browser)] = kinds[key], suggested if key == "t" else ""
        press(browser, key)
        if step == 23:  # what is left has a new order now
            until(browser, LEARNED)
    assert len(expected) == 30
    press(browser, "z", "z")
    for one in list(expected)[-2:]:
        del expected[one]
    press(browser, "a")
    precision = part(browser, "precision")
    assert precision.startswith("Of these 10 given labels, with ")
    press(browser, Keys.ENTER)
    until(browser, "return !document.querySelector('dialog[open]')")
    until(browser, SAVED)
    return expected


def assert_carried_out(data, decisions, clean):
    """The data as `datassay apply` gave them back hold what was decided, and nothing else."""
    before, after = np.load(data), np.load(clean / data.name)
    names, new = before["class_names"], dict(zip(after["ids"], after["y"], strict=True))
    for one, label in zip(before["ids"], before["y"], strict=True):
        kind, word = decisions.get(str(one), ("keep", ""))
        assert (one in new) == (kind != "remove")
        if kind != "remove":
            assert names[new[one]] == (word if kind == "relabel" else names[label])


def test_thirty_by_keys_then_killed_then_back(browser, digits, tmp_path):
    with viewing(digits) as (process, url):
        ready(browser, url)
        expected = review(browser)
        counted, position = part(browser, "count"), shown_id(browser)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        held = in_file(digits)
        assert expected.items() <= held.items() and len(held) == 38
        accepted = [held[one] for one in held if one not in expected]
        assert all(decision == "relabel" and label for decision, label in accepted)
        assert sum(decision == "relabel" for decision, _ in held.values()) >= 10
    with viewing(digits) as (process, url):
        ready(browser, url)
        until(browser, LEARNED)
        assert part(browser, "count") == counted and shown_id(browser) == position
        focus(browser)
        press(browser, "z")  # what was decided together is taken back together
        until(browser, SAVED)
        assert in_file(digits) == expected
        process.send_signal(signal.SIGINT)
        message = process.communicate(timeout=120)[0]
        assert process.returncode == 0
        assert f"28 decisions lie in {digits / 'decisions.parquet'}." in message
        assert "Next: datassay apply " in message
    data = digits.parent / "digits.npz"
    succeed("apply", data, digits / "decisions.parquet", "--out", tmp_path / "clean")
    assert_carried_out(data, expected, tmp_path / "clean")
    again = ("--before", digits, "--model", "linear", "--budget", 8, "--out", tmp_path / "after")
    message = succeed("run", tmp_path / "clean", *again).stdout
    assert "Correcting " in message and "points of accuracy" in " ".join(message.split())
    page = (tmp_path / "after" / "index.html").read_text(encoding="utf-8")
    assert 'id="before"' in page
    # What was on its way when the server was killed has ended short, and nobody has news since.
    gone = ("CONTENT_LENGTH_MISMATCH", "/api/news", "/api/remaining")
    assert [o for o in severe(browser) if not any(word in o["message"] for word in gone)] == []


def test_a_gone_server_is_told_and_nothing_is_lost(browser, digits, tmp_path):
    with viewing(digits) as (process, url):
        ready(browser, url)
        press(browser, "k")
        until(browser, SAVED)
        process.kill()
        process.wait()
    press(browser, "r", "u")
    until(browser, "return /^2 not saved: the server does/.test("
                   "document.querySelector('[data-part=saved]').textContent)")  # fmt: skip
    read = downloaded(browser, tmp_path)
    assert [one.decision for one in read.decisions] == ["keep", "remove", "unsure"]
    leave(browser)


def leave(browser):
    """Go elsewhere though decisions are not saved."""
    from selenium.common.exceptions import NoAlertPresentException, UnexpectedAlertPresentException

    try:
        browser.get("about:blank")
        browser.switch_to.alert.accept()
    except (NoAlertPresentException, UnexpectedAlertPresentException):
        pass


def downloaded(browser, folder):
    """What the button downloads, read as `datassay apply` reads it."""
    allowed = {"behavior": "allow", "downloadPath": str(folder)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", allowed)
    browser.find_element("css selector", "[data-act=download]").click()
    end, path = time.monotonic() + 120, folder / "decisions.json"
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    return read_decisions(path)


def test_the_page_alone_keeps_and_downloads(browser, digits, tmp_path):
    url = (digits / "index.html").as_uri()
    ready(browser, url)
    browser.execute_script("localStorage.clear()")
    ready(browser, url)
    ids, labels = [], []
    for key in ("t", "k", "t"):
        ids.append(shown_id(browser))
        labels.append(part(browser, "suggested") if key == "t" else "")
        press(browser, key)
    ready(browser, url)
    assert part(browser, "count").startswith("3 of ")
    read = downloaded(browser, tmp_path)
    assert [(one.id, one.label) for one in read.decisions] == list(zip(ids, labels, strict=True))
    with served(digits) as server:
        listed = ask(server, "/api/samples")[1]
    assert read.digest == listed["digest"] and read.class_names == tuple(listed["classes"])
    succeed("apply", digits.parent / "digits.npz", tmp_path / "decisions.json",
            "--out", tmp_path / "clean")  # fmt: skip
    decided = {one.id: (one.decision, one.label) for one in read.decisions}
    assert_carried_out(digits.parent / "digits.npz", decided, tmp_path / "clean")
    given = {listed["id"][k]: listed["classes"][listed["given"][k]] for k in listed["order"]}
    assert all(one.given == given[one.id] for one in read.decisions)


def test_another_class_by_typing_some_of_its_name(browser, digits):
    from selenium.webdriver.common.keys import Keys

    with served(digits) as server:
        ready(browser, server.url)
        while part(browser, "given") == EVIL:
            press(browser, "n")
        first = shown_id(browser)
        press(browser, "o", *"<SCR")
        assert part(browser, "matches") == EVIL
        press(browser, Keys.ENTER)
        second = shown_id(browser)
        press(browser, "o", *"xyz", Keys.ENTER)
        assert part(browser, "other-note") == "No class is called so."
        press(browser, Keys.ESCAPE, "o", *"e", Keys.ARROW_DOWN, Keys.ENTER)
        until(browser, SAVED)
        press(browser, "?")
        assert browser.find_element("css selector", "[data-dialog=keys]").is_displayed()
        press(browser, Keys.ESCAPE)
    held = in_file(digits)
    assert held[first] == ("relabel", EVIL)
    assert held[second][0] in {"relabel", "keep"}


def test_a_number_is_typed(browser, tmp_path):
    from selenium.webdriver.common.keys import Keys

    folder = scored(tmp_path / "run", blobs(tmp_path, 90, "numbers"))
    with served(folder) as server:
        ready(browser, server.url)
        first = shown_id(browser)
        press(browser, "o", *"a lot", Keys.ENTER)
        assert part(browser, "other-note") == "Type a number."
        press(browser, *[Keys.BACKSPACE] * 5, *"-12.5", Keys.ENTER)
        until(browser, SAVED)
        assert not browser.find_element("css selector", "[data-act=accept]").is_displayed()
    assert in_file(folder) == {int(first): ("relabel", "-12.5")}


def show(browser, value):
    browser.execute_script(
        "const { elements } = document.querySelector('#reviewing form');"
        "elements.show.value = arguments[0];"
        "elements.show.dispatchEvent(new Event('change', { bubbles: true }))",
        value,
    )


def test_no_key_touches_what_is_decided_unless_somebody_goes_back(browser, digits):
    from selenium.webdriver.common.keys import Keys

    def accept_all(expected):
        press(browser, "a", Keys.ENTER)
        until(browser, "return !document.querySelector('dialog[open]')")
        until(browser, SAVED)
        made = in_file(digits)
        assert len(made) >= expected and {kind for kind, _ in made.values()} == {"relabel"}
        return made

    with served(digits) as server:
        ready(browser, server.url)
        show(browser, "suspects")
        focus(browser)
        for expected in (10, 20, 30):  # the order of what is left changes within the third
            accept_all(expected)
            assert part(browser, "decided") == ""
        until(browser, LEARNED)
        made = accept_all(31)
        while not browser.execute_script(f"{STAGE}.hidden"):
            assert part(browser, "decided") == ""
            press(browser, "u")
            until(browser, SAVED)
            batches = str(len(in_file(digits)) // 24 * 24)  # what these teach may bring others
            until(browser, f"{LEARNED_SO_FAR} === '{batches}'")
        before = in_file(digits)
        assert made.items() <= before.items()
        press(browser, *"ktruko")  # nothing is under the keys now
        assert part(browser, "end-title") == "The review is done"
        assert in_file(digits) == before
        press(browser, "p")
        again, seen = shown_id(browser), part(browser, "decided")
        assert seen.startswith("Decided: ")
        press(browser, "r")
        until(browser, SAVED)
        assert in_file(digits) == before | {again: ("remove", "")}
        ready(browser, server.url)  # opened again: no decided sample is under the keys either
        press(browser, "k")
        until(browser, SAVED)
        after = in_file(digits)
        assert before.keys() <= after.keys() and len(after) <= len(before) + 1
        assert {one: after[one] for one in before} == before | {again: ("remove", "")}


HOLD_ORDER = """const asked = window.fetch;
window.fetch = (path, ...rest) => window.isReleased || !path.includes("remaining") ?
  asked(path, ...rest) : new Promise((done) => {
    window.release = () => { window.isReleased = true; done(asked(path, ...rest)); };
  });"""


def test_a_key_decides_what_it_was_pressed_on_though_a_new_order_comes(browser, digits):
    from selenium.webdriver.common.keys import Keys

    with served(digits) as server:
        ready(browser, server.url)
        browser.execute_script(HOLD_ORDER)
        press(browser, *"k" * 25)  # 24 ask for a new order, which takes long
        until(browser, SAVED)
        before = in_file(digits)
        press(browser, "p")
        revisited, given = shown_id(browser), part(browser, "given")
        press(browser, "o", *("six" if given == "two" else "two"))
        until(browser, "return !!window.release")
        browser.execute_script("window.release()")
        until(browser, LEARNED)
        assert shown_id(browser) == revisited
        press(browser, Keys.ENTER)
        until(browser, SAVED)
        after = in_file(digits)
        assert after == before | {revisited: after[revisited]}
        assert after[revisited][0] == "relabel" and part(browser, "decided") == ""
        held = dict.fromkeys(("key", "code"), "k") | {"bubbles": True, "repeat": True}
        script = f"{STAGE.removeprefix('return ')}.dispatchEvent(new KeyboardEvent(...arguments))"
        browser.execute_script(script, "keydown", held)  # a key held down decides once
        assert shown_id(browser) not in after and in_file(digits) == after
        press(browser, "g")
        for value in ("done", "all"):  # a decided sample is the last of many: it stays in view
            show(browser, value)
        assert browser.find_element("css selector", ".tile.current").is_displayed()


@pytest.mark.parametrize("mode", ["server", "page"])
def test_what_users_wrote_shows_as_text(browser, each_kind, mode):
    def look(url):
        ready(browser, url)
        if mode == "page":
            browser.execute_script("localStorage.clear()")
        inside = "return document.querySelectorAll('#review :is(script:not([type]), i, .values b)')"
        press(browser, "k", "g", "g", "k")
        assert browser.execute_script(f"{inside}.length") == 0
        text = browser.execute_script("return document.querySelector('#review').textContent")
        if "numbers" not in each_kind.parts[-2]:
            assert EVIL in text
            assert ("<i>" in text) == ("npz" in each_kind.parts[-2])
        assert severe(browser) == []

    if mode == "page":
        return look((each_kind / "index.html").as_uri())
    with served(each_kind) as server:
        look(server.url)


def test_a_phone_and_a_grid(browser, digits):
    from selenium.webdriver.common.keys import Keys

    with served(digits) as server:
        try:
            resize(browser, 390)
            ready(browser, server.url)
            assert browser.execute_script(WIDTH) <= 390
            browser.execute_script("document.querySelector('[data-part=filters]').open = true")
            press(browser, "g")
            assert browser.execute_script(WIDTH) <= 390
            small = "return [...document.querySelectorAll('#reviewing button')].filter((b) => "
            small += "b.checkVisibility() && b.getBoundingClientRect().height < 36).length"
            assert browser.execute_script(small) == 0
        finally:
            resize(browser, 1200)
        ready(browser, server.url)
        press(browser, "g")
        browser.execute_script(
            "const { elements } = document.querySelector('#reviewing form');"
            "elements.show.value = 'all';"
            "elements.show.dispatchEvent(new Event('change', { bubbles: true }))"
        )
        assert browser.find_element("name", "shown").get_attribute("value") == "600 samples"
        tiles = "return document.querySelectorAll('.tile[role=option]').length"
        assert 10 < browser.execute_script(tiles) < 150
        browser.execute_script("document.querySelector('[data-part=tiles]').focus()")
        press(browser, Keys.END)
        current = until(browser, "return document.querySelector('.tile.current')?.ariaPosInSet")
        assert current == "600" and browser.execute_script(tiles) < 150
        until(browser, "return document.querySelectorAll('.tile.current img').length === 1")
        press(browser, Keys.HOME, Keys.ARROW_DOWN, "k")
        until(browser, SAVED)
        (held,) = in_file(digits).values()
        assert held == ("keep", "")


@pytest.mark.parametrize("kind", ["digits", "npz", "table", "numbers", "several", "many"])
def test_a_review_by_keys_changes_nothing_unasked_and_ends_with_the_gain(browser, tmp_path, kind):
    inputs = {"table": {"ids": "key", "source": "shop"}}.get(kind, {})
    n = {"digits": 300, "many": 400}.get(kind, 90)
    folder = scored(tmp_path / "run", blobs(tmp_path, n, kind), **inputs)
    with served(folder, command="datassay run x --model linear --budget 8") as server:
        ready(browser, server.url)
        meant, n_shown_decided = review_to_its_end(browser, folder)
        assert review_by_keys.in_file(folder) == meant and n_shown_decided == 0
        outcome = until(browser, f"return {OUTCOME}.includes('labels reviewed') && {OUTCOME}")
        assert outcome == until(browser, f"return {TOP}.includes('labels reviewed') && {TOP}")
        state, gain = carried_out(browser)
        assert state == "done", gain
        assert "before" in gain and "change" in gain and "Corrected data: " in gain
        top = browser.execute_script(f"return {TOP}")
        link = browser.execute_script("return document.querySelector('.start .button').href")
        assert top.split(".")[0] in gain and top != outcome
        with urlopen(link) as answer:
            assert answer.status == 200 and b'data-mode="page"' in answer.read()
        assert severe(browser) == []
    assert (tmp_path / "run-after" / "index.html").exists()
    assert (tmp_path / "run-corrected" / "changelog.csv").exists()


def test_two_windows_of_one_review_see_each_others_decisions(browser, digits):
    with served(digits) as server:
        ready(browser, server.url)
        first, other = shown_id(browser), browser.current_window_handle
        browser.switch_to.new_window("window")
        ready(browser, server.url)
        assert shown_id(browser) == first
        press(browser, "r")
        until(browser, SAVED)
        browser.close()
        browser.switch_to.window(other)
        until(
            browser, f"{TOLD}.startsWith('{first} was decided in another window: to be removed.')"
        )
        assert shown_id(browser) != first and part(browser, "count").startswith("1 of ") is False
        press(browser, "z")  # what another window decided is not ours to undo
        assert in_file(digits) == {first: ("remove", "")}


def test_a_link_in_focus_leaves_the_keys_alive_and_the_check_can_be_skipped(browser, digits):
    with served(digits) as server:
        ready(browser, server.url)
        assert part(browser, "count").startswith("Step 1 of 2, a random check: 0 of 24 ")
        assert "doubtful ones more often" in part(browser, "learned")
        press(browser, "g")
        assert "likely wrong" not in browser.execute_script(TILES)  # nothing sways the count
        browser.execute_script("document.querySelector('nav a').focus()")
        press(browser, "s")
        assert part(browser, "count").startswith("Step 2 of 2: 0 of ")
        until(browser, f"{TILES}.includes('likely wrong')")
        press(browser, "g")
        browser.execute_script("document.querySelector('nav a').focus()")
        first = shown_id(browser)
        next_steps = "return document.getElementById('next').checkVisibility()"
        assert browser.execute_script(next_steps)
        press(browser, "k")
        until(browser, SAVED)
        assert in_file(digits) == {first: ("keep", "")}
        until(browser, f"return {TOP}.startsWith('1 of ')")
        button = browser.execute_script(
            "return document.querySelector('.start .button').textContent"
        )
        assert button.startswith("Review ") and button.endswith(" more labels")
        press(browser, "f")
        assert part(browser, "end-title").endswith("to review are still open")
        press(browser, "k")
        assert in_file(digits) == {first: ("keep", "")}


def test_reviewers_who_disagree_are_shown_to_each_other(browser, digits):
    for name, key in (("anna", "k"), ("bob", "r")):
        with served(digits, reviewer=name) as server:
            ready(browser, server.url)
            press(browser, key)
            until(browser, SAVED)
            press(browser, "p")
            seen = part(browser, "decided")
    assert seen == "Decided: to be removed · anna keep"
