"""The page in a real browser: it loads in silence, draws, sorts, filters and fits a phone."""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from datassay.commands.explain.page import harmful
from datassay.commands.explain.page import page as explain_page
from datassay.commands.report.page import page as report_page
from datassay.commands.run.gallery import predictions
from datassay.commands.run.page import page as run_page
from datassay.methods.partition.division import page as partition_page
from datassay.methods.polynomial.page import page as polynomial_page
from datassay.methods.purify.page import page as purify_page
from datassay.methods.sample.command import SampleSettings
from datassay.methods.sample.job import run as run_sample
from datassay.methods.sample.page import page as sample_page
from datassay.methods.weigh.page import page as weigh_page
from datassay.report.html import render
from datassay.report.predictions import chosen_queries
from datassay.train.recipe import Recipe
from helpers.blocks import divided, evil_images, purified
from helpers.browser import NEEDED, opened, resize, settle, severe, violations_of_schemes
from helpers.command_line import invoke
from helpers.explanations import explained as explained_findings
from helpers.findings import (
    EVIL,
    digit_samples,
    issues_of,
    make_findings,
    row_samples,
    text_samples,
    with_sources,
)
from helpers.polynomials import surrogate_findings
from helpers.runs import compared, write_run
from helpers.weighings import weighed

pytestmark = NEEDED
VISIBLE = "[...document.querySelectorAll('#gallery .card:not([hidden])')]"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "index.html"
    path.write_text(render(run_page(make_findings())), encoding="utf-8")
    return path


def choose(browser, **controls):
    browser.execute_script(
        """const form = document.querySelector("#gallery .controls");
        for (const [name, value] of Object.entries(arguments[0])) {
          const control = form.elements[name];
          control.value = value;
          const target = control.length && !control.options ? [...control] : [control];
          const changed = target.find((c) => c.checked !== false);
          changed.dispatchEvent(new Event("change", { bubbles: true }));
        }""",
        controls,
    )


def visible(browser, key):
    return browser.execute_script(
        f"return {VISIBLE}.map((card) => card.dataset[arguments[0]])", key
    )


def screenshot(browser, path, width):
    height = browser.execute_script("return document.documentElement.scrollHeight")
    resize(browser, width, height)
    settle(browser)
    assert browser.save_screenshot(str(path))
    from PIL import Image

    grey = np.asarray(Image.open(path).convert("L"))
    assert grey.shape == (height, width)
    return grey


def test_code_that_the_page_did_not_come_with_does_not_run(browser, page, tmp_path):
    html = page.read_text(encoding="utf-8")
    planted = "<script>window.planted = 1</script><p onclick='planted = 2' style='color: red'>x</p>"
    path = tmp_path / "index.html"
    path.write_text(html.replace("<footer", f"{planted}<footer"), encoding="utf-8")
    opened(browser, path)
    browser.execute_script("document.querySelector('[onclick]').click()")
    assert browser.execute_script("return window.planted") is None
    colour = "return getComputedStyle(document.querySelector('[onclick]')).color"
    assert browser.execute_script(colour) != "rgb(255, 0, 0)"
    policy = re.search(r'http-equiv="Content-Security-Policy" content="(.*?)"', html)[1]
    assert "unsafe-inline" not in policy and "sha256-" in policy.partition("script-src")[2]


def test_a_class_named_script_is_shown_and_does_not_run(browser, page):
    from selenium.common.exceptions import NoAlertPresentException

    opened(browser, page)
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert
    choose(browser, **{"class": "1"})
    labels = browser.find_elements("css selector", "#gallery .card:not([hidden]) .label")
    assert {label.get_attribute("textContent") for label in labels} == {EVIL}


def test_the_gallery_chooses_sorts_and_reveals(browser, page):
    opened(browser, page)
    more = browser.find_element("class name", "more")
    for n_shown in (48, 96, 120):
        assert len(visible(browser, "id")) == n_shown
        browser.execute_script("arguments[0].click()", more)
    assert not more.is_displayed()
    choose(browser, sort="score", order="asc")
    values = [float(v) for v in visible(browser, "score")]
    assert len(values) == 48 and values == sorted(values)
    choose(browser, **{"class": "8"})
    assert set(visible(browser, "class")) == {"8"}
    assert browser.find_element("css selector", "#gallery [name=shown]").text == "showing 12 of 12"
    choose(browser, **{"class": "", "view": "issues"})
    values = [float(v) for v in visible(browser, "score")]
    assert min(values) > 0 and values == sorted(values, reverse=True)
    assert all("issues" in views.split() for views in visible(browser, "views"))


def test_a_link_opens_what_it_leads_to_and_its_figures_fill_the_width(browser, page):
    browser.get(page.as_uri())
    assert browser.find_elements("css selector", ".fold[open]") == []
    assert browser.find_elements("css selector", "svg.main-svg") == []
    height = browser.execute_script("return document.documentElement.scrollHeight")
    assert height <= 3000 and len(browser.find_elements("css selector", "main > section")) <= 6
    opened(browser, page, anchor="#labels", unfold=False)
    fold = browser.find_element("id", "labels")
    assert fold.get_attribute("open") and fold.find_element("css selector", "svg").is_displayed()
    wide = "return document.querySelector('#labels svg').getBoundingClientRect().width"
    assert browser.execute_script(wide) > 1000
    button = browser.find_element("class name", "button")
    assert button.get_attribute("href").endswith("#review") and "Review" in button.text


def test_controls_work_from_the_keyboard(browser, page):
    from selenium.webdriver.common.keys import Keys

    opened(browser, page)
    browser.find_element("css selector", "[name=view]:checked").send_keys(Keys.ARROW_RIGHT)
    assert all("least" in views for views in visible(browser, "views"))
    before = explained(browser)
    browser.find_element("css selector", "[name=query]:checked").send_keys(Keys.ARROW_RIGHT)
    assert explained(browser) != before
    unlabelled = (
        "return [...document.querySelectorAll('select, input')].filter(c => !c.labels.length)"
    )
    assert browser.execute_script(unlabelled) == []


def explained(browser):
    """What the section on single predictions shows: the query's id, and ids on both sides."""
    return browser.execute_script(
        """const ids = (side) =>
          [...document.querySelectorAll(`[data-side=${side}] .card`)].map((c) => c.dataset.sample);
        const id = document.querySelector(".query .id").textContent;
        return [id, ids("raised"), ids("lowered")];"""
    )


def test_picking_a_prediction_shows_the_samples_behind_it(browser, page):
    result = make_findings()
    opened(browser, page)
    top, positions = result.attribution.top, chosen_queries(predictions(result))
    tiles = browser.find_elements("css selector", ".choices .tile")
    assert len(tiles) == len(positions)
    for k in (0, 7, len(positions) - 1):
        browser.execute_script("arguments[0].click()", tiles[k])
        i = positions[k]
        expected = [
            [str(result.samples.ids[p]) for p in who[i]] for who in (top.raising, top.lowering)
        ]
        assert explained(browser) == [f"validation id {result.validation.ids[i]}", *expected]
        flags = browser.find_elements("css selector", "#why .card.suspect")
        both = np.concatenate([top.raising[i], top.lowering[i]])
        assert len(flags) == result.issues.is_issue[both].sum()
    texts = [e.text for e in browser.find_elements("css selector", ".effect")]
    assert all(text[0] == "+" for text in texts[:5])
    assert all(text[0] == "\N{MINUS SIGN}" for text in texts[5:])


@pytest.mark.parametrize("width", [1280, 800, 390])
def test_no_effect_is_cut(browser, tmp_path, width):
    text = make_findings()
    top = text.attribution.top
    tiny = replace(top, raising_effect=1e-3 * top.raising_effect)  # printed as +1.23e−05
    text = replace(text, attribution=replace(text.attribution, top=tiny))
    path = tmp_path / "index.html"
    path.write_text(render(run_page(text)), encoding="utf-8")
    opened(browser, path, width)
    cut = """return [...document.querySelectorAll(".effect")].filter(
      (e) => e.scrollWidth > e.clientWidth || e.clientHeight > 40).length"""
    assert len(browser.find_elements("css selector", ".effect")) == 10
    assert browser.execute_script(cut) == 0


@pytest.mark.parametrize("make", [digit_samples, text_samples], ids=["image", "text"])
def test_hostile_names_in_an_explanation_show_as_text(browser, tmp_path, make):
    path = tmp_path / "index.html"
    path.write_text(render(run_page(make_findings(with_sources(make())))), encoding="utf-8")
    opened(browser, path)
    for radio in browser.find_elements("css selector", "[name=query]"):
        browser.execute_script("arguments[0].click()", radio)
        inside = "return document.querySelectorAll('#why :is(script:not([id]), b, i)').length"
        assert browser.execute_script(inside) == 0
    shown = browser.execute_script("return document.querySelector('#why').textContent")
    assert (EVIL if make is digit_samples else "b<i>") in shown
    assert severe(browser) == []


def silent_and_narrow(browser, folder, page):
    """Every figure drawn and nothing wider than the screen, on a phone and then on a desk."""
    path = folder / "index.html"
    path.write_text(render(page), encoding="utf-8")
    for width in (390, 1280):
        opened(browser, path, width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert severe(browser) == []
        if width == 390:
            grey = screenshot(browser, path.with_suffix(".png"), 390)
            assert all(part.std() > 1 for part in np.array_split(grey, len(grey) // 600))
    assert violations_of_schemes(browser) == {}


@pytest.mark.parametrize("make", [digit_samples, text_samples, row_samples])
def test_the_page_of_a_run(browser, tmp_path, make):
    samples = replace(with_sources(make()), name="a_very_long_name_without_any_space_" * 4)
    silent_and_narrow(browser, tmp_path, run_page(make_findings(samples)))


def test_the_page_of_a_purification(browser, tmp_path):
    findings = evil_images(purified())
    silent_and_narrow(browser, tmp_path, purify_page(findings))
    removed = findings.purification.removed
    assert visible(browser, "id") == [str(i) for i in findings.samples.ids[removed]][:48]
    choose(browser, view="wrong")
    kept = [str(i) for i in removed if findings.samples.source[i] == findings.majority]
    assert len(visible(browser, "id")) == len(kept)
    link = browser.find_element("css selector", "[data-show=all]")
    browser.execute_script("arguments[0].click()", link)
    choose(browser, sort="chance")
    chances = [float(c) for c in visible(browser, "chance")]
    assert chances == sorted(chances)
    assert len(chances) == min(48, len(removed))


@pytest.mark.parametrize("kind", ["images", "rows", "texts"])
def test_the_page_of_an_explanation(browser, tmp_path, kind):
    result = explained_findings(kind)
    silent_and_narrow(browser, tmp_path, explain_page(result))
    assert visible(browser, "id") == [str(i) for i in result.samples.ids[result.first[:48]]]
    choose(browser, view="harm")
    assert visible(browser, "id") == [str(i) for i in result.samples.ids[harmful(result)[:48]]]
    assert explained(browser)[0].startswith("validation id ")


def test_the_page_of_compared_runs(browser, tmp_path):
    folders = [write_run(tmp_path / f"run{k}{'_long' * 9}", seed=k) for k in range(4)]
    silent_and_narrow(browser, tmp_path, report_page(compared(folders)))
    cells = browser.find_elements("css selector", "[data-figure=information] .heatmap-label")
    assert len(cells) == 16
    assert cells[0].text == "1.00"
    assert browser.find_elements("css selector", "[href='#gallery']") == []


def test_the_page_of_a_partition(browser, tmp_path):
    findings = replace(divided(), router=divided().router | {"is_informative": True, "gain": 0.4})
    silent_and_narrow(browser, tmp_path, partition_page(findings))
    assert len(visible(browser, "id")) == 24
    choose(browser, view="1")
    assert set(visible(browser, "views")) == {"1"}
    legends = browser.find_elements("css selector", "[data-figure=sources] .legendtext")
    assert "<u>ours" in [legend.text for legend in legends]


def test_the_page_of_a_weighting(browser, tmp_path):
    result = weighed()
    silent_and_narrow(browser, tmp_path, weigh_page(result))
    assert visible(browser, "id") == [str(i) for i in result.samples.ids[result.order[:48]]]
    link = browser.find_element("css selector", "[data-show=doubtful]")
    browser.execute_script("arguments[0].click()", link)
    assert all("doubtful" in views for views in visible(browser, "views"))
    choose(browser, view="lightest")
    weights = [float(w) for w in visible(browser, "weight")]
    assert weights == sorted(weights)


def test_the_page_of_a_sampling(browser, tmp_path, monkeypatch):
    monkeypatch.setattr("datassay.methods.sample.job.RECIPE", Recipe(steps=20, loss="mse"))
    settings = SampleSettings(function="runge", n_initial=16, n_new=20, compare=2)
    findings = replace(run_sample(settings), name="<b>mine")
    silent_and_narrow(browser, tmp_path, sample_page(findings))
    assert browser.find_element("css selector", ".about").text == "<b>mine"
    assert browser.find_elements("css selector", ".figure svg.main-svg")


@pytest.mark.parametrize("kind", ["image", "row", "numbers"])
def test_the_page_of_a_polynomial(browser, tmp_path, kind):
    silent_and_narrow(browser, tmp_path, polynomial_page(surrogate_findings(kind)))
    assert browser.find_element("css selector", ".about").text == "mixed & <friends>"
    pictures = browser.find_elements("css selector", ".maps img")
    assert len(pictures) == (4 if kind == "image" else 0)
    assert len(browser.find_elements("css selector", ".apart .bars dd")) > 12


def test_a_table_of_suspects_sorts_and_filters(browser, tmp_path):
    samples = row_samples()
    n = len(samples)
    words = np.array([EVIL, "plain", "=cmd()"])[np.arange(n) % 3]
    rows = pa.table({"word": words, "size": pa.array(np.arange(n) * 1.5, mask=np.arange(n) == 4)})
    samples = replace(samples, rows=rows)
    score = np.where(np.arange(n) % 10 == 4, 1 + np.arange(n) / n, -3.0)
    result = make_findings(samples, issues=issues_of(samples, score))
    path = tmp_path / "index.html"
    path.write_text(render(run_page(result)), encoding="utf-8")
    seen = opened(browser, path, 390)
    assert seen.execute_script("return document.documentElement.scrollWidth") <= 390
    ids = "return [...document.querySelectorAll('#suspects tbody tr:not([hidden]) th')]"
    ids += ".map((cell) => cell.textContent.trim())"
    suspects = [str(i) for i in range(4, n, 10)]
    assert seen.execute_script(ids) == suspects[::-1]  # the most suspect first
    heads = seen.find_elements("css selector", "#suspects thead button")
    size = next(head for head in heads if head.text.strip() == "size")
    for order in (suspects[1:], suspects[:0:-1]):
        seen.execute_script("arguments[0].click()", size)
        assert seen.execute_script(ids) == [*order, "4"]  # what is missing stays last
    box = seen.find_element("css selector", "#suspects input")
    box.send_keys("=CMD")
    kept = [i for i in suspects[:0:-1] if int(i) % 3 == 2]
    assert seen.execute_script(ids) == kept
    shown = seen.find_element("css selector", "#suspects output")
    assert shown.text == f"showing {len(kept)} of {len(suspects)}"
    assert not browser.get_log("browser")


# Commands whose pages no test above opens.
FURTHER = (
    "check iris --fail-on leak --model linear",
    "bench wine --model mlp:width=8 --steps 60 --lr 0.01 --halves 20",
    "complexity iris --repeats 2 --sizes 10,20,40,80",
    "run iris --budget 0",
)


@pytest.mark.parametrize("command", FURTHER)
def test_axe_finds_nothing_on_further_pages(browser, tmp_path, command):
    invoke(*command.split(), "--out", tmp_path)  # a gate ends with its own status
    opened(browser, tmp_path / "index.html")
    assert violations_of_schemes(browser) == {}
