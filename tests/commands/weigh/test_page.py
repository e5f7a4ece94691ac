"""The page of weigh as text: its figures, what it says, nothing unescaped."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from datassay.act.weigh.weights import SampleWeights
from datassay.commands.weigh.page import concentration, files, gallery, weight_table
from datassay.commands.weigh.page import page as page_of
from datassay.errors import DataError
from datassay.report.html import render
from datassay.report.page import Table
from datassay.report.wording import interval_text
from datassay.score.neighbors.local_variance import local_variance
from helpers.blocks import NAMES
from helpers.weighings import K, gain, samples, weighed


def summary(found):
    return files(found, page_of(found))["summary.json"]


def table(found, name):
    """The rows of a table of the page; None where there is no such table."""
    tables = {b.name: b for b in page_of(found).blocks if isinstance(b, Table)}
    return tables[name].rows if name in tables else None


def test_concentration_by_hand():
    found = weighed()
    weight = np.sort(found.sample_weight)[::-1]
    held = concentration(found)
    assert held["heaviest_share"] == pytest.approx(weight[:16].sum() / weight.sum())
    assert held["effective"] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert held["constant"] == (found.local.variance == 0).sum()
    assert held["ratio"] == pytest.approx(weight[0] / weight[-1])
    first = page_of(found).advice[0]
    assert f"{held['effective']:,.0f} of 160" in first.sentence


def test_agreement_and_doubt_by_hand():
    found = weighed()
    y = found.samples.y
    x = found.samples.x
    distance = ((x[:, None] - x[None]) ** 2).sum(2)
    near = np.argsort(distance, 1, kind="stable")[:, 1:K]
    share = (y[near] == y[:, None]).mean(1)
    assert found.near.agreement == pytest.approx(share)
    assert found.near.counts.sum(1).tolist() == [K - 1] * 160
    assert (found.near.is_doubtful == (share < 0.2)).all()
    theirs = found.samples.source != "<u>ours"
    assert found.near.is_doubtful[theirs].mean() > 0.6
    labels = next(a for a in page_of(found).advice if a.kind == "labels")
    order = [i for i in found.order if found.near.is_doubtful[i]]
    assert labels.ids == tuple(found.samples.ids[order[:10]])
    assert labels.severity == "act"


def test_targets_far_from_their_neighbours_are_doubtful():
    found = weighed(regression=True)
    y = found.samples.y.copy()
    i = int(np.abs(found.samples.x[:, 0] - 1).argmin())
    y[i] += 1000
    train = replace(found.samples, y=y)
    other = replace(found, samples=train, local=local_variance(train.x, y, K))
    assert other.near.is_doubtful[i]
    assert other.near.mean[i, 0] < 200
    assert other.near.is_doubtful.sum() < 8


@pytest.mark.parametrize(
    ("change", "severity", "words"),
    [
        (0.05, "fine", "Training with the weights does better"),
        (-0.05, "act", "Training with the weights does worse"),
        (0.0, "look", "No difference is shown between"),
    ],
)
def test_it_says_whether_the_weights_help(change, severity, words):
    found = replace(weighed(), gain=gain((0.0, change)))
    told = next(a for a in page_of(found).advice if a.kind == "does it help")
    assert told.severity == severity
    assert told.headline.startswith(words)
    shown = found.gain.difference(1)
    assert interval_text(*shown, "accuracy") in told.sentence
    assert "class-balanced weights, is left out" in render(page_of(found))


def test_the_rival_is_told_honestly():
    found = replace(weighed(), gain=gain((0.0, 0.01, 0.05)))
    contest = page_of(found).advice[-1]
    assert (contest.kind, contest.severity) == ("contest", "look")
    assert "local variance does worse" in contest.sentence
    rows = table(found, "Scores with and without weights")
    assert [row.name for row in rows] == ["no weights", "local variance", "class-balanced"]
    assert rows[2].cells[-1] == "better"


def test_the_heaviest_and_the_lightest_are_shown():
    found = weighed()
    shown = gallery(found).cards
    heaviest = [c.id for c in shown if "heaviest" in c.views]
    assert heaviest == [str(i) for i in found.samples.ids[found.order[:80]]]
    lightest = {c.id for c in shown if "lightest" in c.views}
    assert lightest == {str(i) for i in found.samples.ids[found.order[::-1][:48]]}
    assert not lightest & set(heaviest)
    first = shown[0]
    counts = found.near.counts[found.order[0]]
    assert all(f"{NAMES[c]} (×{counts[c]})" in first.figures[1][0] for c in range(2) if counts[c])


def test_classes_add_up():
    rows = table(weighed(), "Weight by class")
    assert sum(int(row.cells[0]) for row in rows) == 160
    held = [float(row.cells[2].removesuffix(" %")) for row in rows]
    assert sum(held) == pytest.approx(100, abs=0.11)
    assert table(weighed(regression=True), "Weight by class") is None


def test_figures_hold_what_they_show():
    found = weighed()
    text = render(page_of(found))
    specs = {
        name: json.loads(spec)
        for name, spec in re.findall(r'id="figure-(\w+)">(.*?)</script>', text)
    }
    assert set(specs) == {"weights", "share", "gain", "boundary"}
    lines = [t.get("name") for t in specs["boundary"]["data"] if t.get("mode") == "lines"]
    assert lines == ["boundary without weights", "boundary with weights"]
    names = [t.get("name") for t in specs["weights"]["data"]]
    assert names == ["all samples", "contradicted by their neighbours"]
    without = render(page_of(replace(found, gain=None, boundary=None)))
    assert "Does it help" not in without
    assert "Where the boundary moves" not in without


def test_equal_weights_are_called_so():
    found = weighed()
    n = len(found.samples)
    even = SampleWeights(np.full(n, 1 / n), found.samples.ids, "class_balanced")
    found = replace(found, weights=even, gain=None, method="class-balanced")
    assert page_of(found).advice[0].headline == "All weights are equal"
    assert concentration(found)["effective"] == pytest.approx(n)
    assert "mean 1" in render(page_of(found))


def test_other_samples_than_those_weighed_are_refused():
    with pytest.raises(DataError, match="Weigh the same SampleSet"):
        replace(weighed(), samples=samples(100))


def test_summaries_are_standard_json():
    never = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}
    for regression in (False, True):
        found = weighed(regression)
        told = json.loads(summary(found), **never)
        assert told["sample_weight_mean"] == 1
        assert told["counts"]["train"] == weight_table(found).num_rows == 160
    zero = np.where(np.arange(160) < 80, 0, 1 / 80)
    paced = SampleWeights(zero, found.samples.ids, "self_paced")
    assert (
        json.loads(summary(replace(found, weights=paced)), **never)["concentration"]["ratio"]
        is None
    )
