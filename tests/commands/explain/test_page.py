"""The page of explain as text: what it says, its figures by hand, nothing unescaped."""

import json
from dataclasses import replace

import numpy as np
import pytest

from datassay.commands.explain.page import files, gallery, harmful
from datassay.commands.explain.page import page as page_of
from datassay.report.html import render
from datassay.report.page import Table
from datassay.report.predictions import query_data
from helpers.explanations import explained
from helpers.findings import EVIL
from helpers.pages import Elements


def test_what_users_wrote_never_becomes_an_element():
    result = explained("texts")
    hostile = np.array([f"<img src=x onerror=alert({i})>" for i in range(len(result.samples))])
    samples = replace(result.samples, ids=hostile, name=EVIL)
    attribution = replace(result.attribution, ids=hostile)
    result = replace(result, samples=samples, queries=samples, attribution=attribution)
    page = render(page_of(result))
    seen = Elements(page)
    assert all(a["src"].startswith("data:image/png") for a in seen.all("img"))
    assert len(seen.all("script")) == len(
        Elements(render(page_of(explained("texts")))).all("script")
    )
    assert ("p", EVIL) in seen.text
    (data,) = [text for tag, text in seen.text if text.startswith('{"queries"')]
    assert "<" not in data and json.loads(data)["kind"] == "validation"
    assert ("th", hostile[result.first[0]]) in seen.text
    (summary,) = [t for name, t in files(result, page_of(result)).items() if name == "summary.json"]
    assert json.loads(summary)["largest_self_influence"][0] == hostile[result.first[0]]


def test_the_table_is_of_largest_self_influence():
    result = explained()
    own = result.attribution.self_influence
    tables = {b.name: b for b in page_of(result).blocks if isinstance(b, Table)}
    rows = tables["Largest self-influence"].rows
    assert [row.name for row in rows] == [str(i) for i in result.samples.ids[np.argsort(-own)[:20]]]
    times = float(rows[0].cells[3].replace(",", ""))
    assert times == pytest.approx(own.max() / np.median(own), rel=1e-2)


@pytest.mark.parametrize("measure, sign", [("margin", -1), ("loss", 1)])
def test_what_harms_lowers_margins_or_raises_losses(measure, sign):
    result = explained("rows", measure)
    harm = sign * result.attribution.total
    worst = harmful(result)
    assert worst[0] == harm.argmax() and len(worst) == (harm > 0).sum()
    unranked = replace(result, attribution=replace(result.attribution, self_influence=None))
    assert page_of(unranked).advice[0].ids[0] == str(result.samples.ids[harm.argmax()])
    shown = [card for card in gallery(result).cards if "harm" in card.views]
    assert {card.id for card in shown} == {str(i) for i in result.samples.ids[worst[:60]]}


def test_an_output_harms_nobody():
    result = explained("rows", "output")
    assert [one.kind for one in page_of(result).advice] == ["labels"]
    assert [view.value for view in gallery(result).views] == ["labels"]


def test_wrong_predictions_are_counted():
    result = explained()
    outputs = np.eye(10)[result.samples.y]
    right = replace(result, predicted=outputs.copy())
    assert right.n_wrong == 0
    outputs[[3, 8]] = outputs[[3, 8]][:, ::-1]
    wrong = replace(result, predicted=outputs)
    assert wrong.n_wrong == 2
    differ = f"2 of {len(result.queries)} predictions differ from the given label"
    assert (
        differ in page_of(wrong).lead and f"{differ}; either may be wrong." in page_of(wrong).answer
    )
    assert page_of(right).verdict.endswith(" No prediction is wrong.")


@pytest.mark.parametrize(
    "n_contradicted, start",
    [
        (10, "The network contradicts these labels, "),
        (3, "The network contradicts 3 of these 10 labels, "),
        (0, "The network has learned these labels, "),
    ],
)
def test_the_advice_says_whether_the_network_contradicts_the_labels(n_contradicted, start):
    result = explained()
    outputs = np.eye(10)[result.samples.y]
    rows = result.first[:n_contradicted]
    outputs[rows] = np.roll(outputs[rows], 1, axis=1)
    result = replace(result, fitted=outputs)
    assert page_of(result).advice[0].sentence.startswith(start)
    data = query_data(result.predictions)
    ids = {str(i) for i in result.ids[rows]}
    assert data["flag"] == "predicted otherwise"
    assert all(sample["suspect"] == (sample["id"] in ids) for sample in data["samples"])


def test_without_self_influence_there_is_no_table_of_it():
    text = explained()
    text = replace(text, attribution=replace(text.attribution, self_influence=None))
    page = page_of(text)
    assert "labels" not in {section.anchor for section in page.sections}
    assert files(text, page_of(text))["samples.parquet"]["self_influence"].null_count == 500
    assert json.loads(files(text, page)["summary.json"])["median_self_influence"] is None
    assert render(page)


def test_tokens_are_explained_without_outputs():
    result = replace(explained("regression", "loss"), fitted=None, predicted=None)
    (data,) = [
        text for _, text in Elements(render(page_of(result))).text if text.startswith('{"queries"')
    ]
    queries = json.loads(data)["queries"]
    assert {query["predicted"] for query in queries} == {""}
    outcome = result.attribution.outcome
    assert queries[0]["id"] == str(result.samples.ids[outcome.argmax()])  # of largest loss
