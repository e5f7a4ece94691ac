"""The page of a run in a real browser, once in every test run; test_browser.py goes further."""

from datassay.commands.run.page import page as run_page
from datassay.report.html import render
from helpers.browser import SMOKE, opened, severe
from helpers.findings import make_findings

pytestmark = SMOKE


def test_it_loads_in_silence_and_draws_every_figure(browser, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(render(run_page(make_findings())), encoding="utf-8")
    opened(browser, path)
    assert browser.title == "digits & <friends> · datassay"
    assert severe(browser) == []
    assert len(browser.find_elements("css selector", ".figure svg.main-svg")) >= 5
    bars = "return document.querySelectorAll('[data-figure=information] .bars .point').length"
    assert browser.execute_script(bars) >= 30
    likelier = "return [...document.querySelectorAll('.acts .likelier')].map(b => b.dataset.act)"
    chance = browser.find_element("css selector", "[data-part=chance]").text
    percent = float(chance.split("%")[0].replace("over", ""))
    assert (
        browser.execute_script(likelier) == ["take"] if percent > 80 else ["keep"][: percent <= 50]
    )
