"""The page of an answer: what it says, in a browser, and with texts that are markup."""

import json

import numpy as np
import pytest
import torch
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import datassay as da
from datassay.lm.page import page as page_of
from datassay.report.html import render
from helpers import language_models as tiny
from helpers.browser import in_browser, resize, severe
from helpers.findings import EVIL
from helpers.pages import Elements, assert_asks_no_network, assert_policy

N = 8


@pytest.fixture(scope="module")
def found():
    torch.manual_seed(0)
    texts = [*tiny.sentences(N - 1), f"the cat {EVIL} sat\nunder </script> tree"]
    ids = [f"t{i}" for i in range(N - 1)] + [EVIL]
    return da.lm.influence(
        tiny.gpt2(), tiny.tokenizer(), texts, f"sat\nunder {EVIL} tree", prompt="the cat ",
        ids=ids, top=3,
    )  # fmt: skip


def told(html):
    seen = Elements(html)
    held = [text for tag, text in seen.text if tag == "script" and '"picks"' in text]
    return json.loads(held[0])


def test_its_numbers_are_those_of_the_result(found):
    data = told(render(page_of(found)))
    whole = data["context"] + "".join(data["tokens"])
    assert whole == found.question.prompt + found.question.answer
    whole = np.concatenate([found.effect.sum(1, keepdims=True), found.effect], 1)
    assert len(data["picks"]) == whole.shape[1]
    by_id = {text["id"]: text for text in data["texts"]}
    parts = {str(found.ids[part.text]): part for part in found.parts}
    for k, pick in enumerate(data["picks"]):
        order = [str(found.ids[i]) for i in np.argsort(-whole[:, k], kind="stable")]
        raised = [data["texts"][index]["id"] for index, _ in pick["raised"]]
        lowered = [data["texts"][place]["id"] for place, _ in pick["lowered"]]
        assert raised == order[: len(raised)]
        assert lowered == order[::-1][: len(lowered)]
        for position, own in pick["raised"] + pick["lowered"]:
            part = parts[data["texts"][position]["id"]]
            effect = part.effect.sum(1) if k == 0 else part.effect[:, k - 1]
            np.testing.assert_allclose(own, effect, rtol=6e-3)
    for i, name in enumerate(found.ids):
        if str(name) in by_id:
            np.testing.assert_allclose(by_id[str(name)]["effects"], whole[i], rtol=6e-3)
    first = [data["texts"][named[0][0]]["id"] for named in data["baselines"]]
    scores = (found.bm25, found.embedding)
    assert first == [str(found.ids[np.argmax(score)]) for score in scores]


def test_it_is_one_small_file_and_all_texts_are_text(found, tmp_path):
    path = found.save(tmp_path / "page")
    html = path.read_text(encoding="utf-8")
    assert EVIL not in html and len(html) < 300_000  # plotly is not needed
    seen = Elements(html)
    assert_asks_no_network(seen)
    assert_policy(seen)
    written = {file.name for file in (tmp_path / "page").iterdir()}
    assert written == {"index.html", "effects.parquet", "tokens.parquet", ".datassay.json"}
    assert found.save(tmp_path / "page") == path  # what is ours is replaced
    assert EVIL not in found._repr_html_()


def test_without_baselines_and_tokens():
    torch.manual_seed(0)
    attribution = da.lm.influence(
        tiny.gpt2(), tiny.tokenizer(), tiny.sentences(4), "cat ran", prompt="the ", top=2,
        per_token=False, baselines=False,
    )  # fmt: skip
    html = render(page_of(attribution))
    data = told(html)
    assert len(data["picks"]) == 1 and not data["baselines"]
    assert "Who is right" not in html


@in_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_tokens_are_picked_by_click_and_keys(browser, found, tmp_path, width):
    resize(browser, width)
    browser.get(found.save(tmp_path / "page").as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    shown = browser.find_element(By.CSS_SELECTOR, ".asked")
    assert shown.text.startswith("The whole answer: log-probability")
    tokens = browser.find_elements(By.CSS_SELECTOR, ".told-answer .words .token")
    assert len(tokens) == len(found.tokens)
    tokens[1].click()
    assert shown.text.startswith("Token 2, “under”: log-probability")
    first = browser.find_element(By.CSS_SELECTOR, "[data-side=raised] .card")
    assert first.get_attribute("data-text") == str(found.ids[found.effect[:, 1].argmax()])
    shaded = first.find_elements(By.CSS_SELECTOR, "blockquote span[style]")
    assert shaded and "nats" in shaded[0].get_attribute("title")
    browser.switch_to.active_element.send_keys(Keys.ARROW_LEFT)
    assert shown.text.startswith("Token 1, “sat”: log-probability")
    assert not browser.find_elements(By.CSS_SELECTOR, ".told img, .told script, .told b")
    assert EVIL in browser.find_element(By.CSS_SELECTOR, "[data-baseline]").text
    assert not severe(browser)
