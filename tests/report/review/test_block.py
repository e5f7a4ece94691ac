"""What a review shows, without a server: plain values, all of them of the samples named."""

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from datassay.commands.run.gallery import build_review
from datassay.commands.run.page import page as run_page
from datassay.report.html import render
from datassay.report.review.labels import listing, near_duplicates_of
from datassay.report.review.showcase import MOST_IN_PAGE, review_block
from helpers.findings import (
    EVIL,
    digit_samples,
    issues_of,
    make_findings,
    regression_samples,
    row_samples,
    text_samples,
    with_sources,
)


def unpacked(text):
    return json.loads(gzip.decompress(base64.b64decode(text)))


def data_of(page):
    return unpacked(re.search(r'id="review-data">([^<]*)</script>', page)[1])


def test_the_page_holds_the_most_suspect_and_no_more():
    samples = digit_samples(600)
    score = np.linspace(-1, 2, 600)
    result = make_findings(samples, issues=issues_of(samples, score))
    assert result.issues.is_issue.sum() > MOST_IN_PAGE
    data = data_of(render(run_page(result)))
    most = np.argsort(-score)[:MOST_IN_PAGE]
    assert data["id"] == [str(i) for i in samples.ids[most]]
    assert data["order"] == list(range(MOST_IN_PAGE)) == list(range(len(data["details"])))
    assert data["given"] == samples.y[most].tolist() and data["classes"][1] == EVIL


def test_a_page_without_suspects_says_so():
    samples = digit_samples(60)
    result = make_findings(samples, issues=issues_of(samples, np.full(60, -30.0)))
    page = render(run_page(result))
    assert "No label stands out as wrong. <code>datassay view</code>" in page
    assert data_of(page)["id"] == []


@pytest.mark.parametrize("make", [digit_samples, text_samples, row_samples, regression_samples])
def test_every_kind_is_listed_as_plain_values(make):
    samples = make()
    result = make_findings(samples)
    shown = build_review(result)
    rows = shown.order[:7]
    listed = listing(shown, rows)
    assert json.loads(json.dumps(listed, allow_nan=False)) == listed
    assert listed["id"] == [str(i) for i in samples.ids[rows].tolist()]
    if samples.class_names:
        assert listed["relabels"] == "class" and listed["given"] == samples.y[rows].tolist()
    else:
        assert listed["relabels"] == "number"
        assert [float(v) for v in listed["given"]] == samples.y[rows].tolist()
    block = review_block(shown, rows)
    data = unpacked(str(block.context["data"]))
    assert data["apply"].startswith("datassay apply ")
    parts = {"image": "image", "text": "text"}.get(samples.kind, "values")
    assert all(set(one["drawing"]) == {parts} for one in data["details"])


def test_sources_are_named_once():
    samples = with_sources(digit_samples(30))
    shown = build_review(make_findings(samples))
    listed = listing(shown, np.arange(30))
    assert [listed["sources"][k] for k in listed["source"]] == samples.source.tolist()
    assert len(listed["sources"]) == 2


def test_equal_samples_and_near_ones_are_twins():
    ids = np.array(["a", "b", "c", "d", "e"])
    group = np.array([-1, 4, -1, 4, -1])
    result = near_duplicates_of(ids, group, [("a", "e"), ("e", "b"), ("a", "nobody")])
    assert result == {0: (4,), 1: (3, 4), 3: (1,), 4: (0, 1)}


def test_many_equal_samples_are_not_all_shown():
    result = near_duplicates_of(np.arange(9), np.zeros(9, int), [])
    assert {len(others) for others in result.values()} == {4}
    assert all(i not in others for i, others in result.items())


def test_what_a_browser_keeps_is_of_these_labels_only():
    result = make_findings(digit_samples(40))
    shown = build_review(result)
    keys = {listing(shown, np.arange(3))["key"], listing(shown, np.arange(40))["key"]}
    assert len(keys) == 1
    y = shown.samples.y.copy()
    y[3] = (y[3] + 1) % 10
    other = replace(shown, samples=replace(shown.samples, y=y))
    assert listing(other, np.arange(3))["key"] not in keys


def test_the_review_comes_before_the_evidence():
    anchors = [section.anchor for section in run_page(make_findings()).sections]
    assert anchors[0] == "review"
