"""The pages of purify and partition as text: their figures, what they say, nothing unescaped."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from datassay.act.purify.result import Purification
from datassay.commands.partition.job import PartitionFindings, source_counts
from datassay.commands.partition.page import block_table
from datassay.commands.partition.page import files as partition_files
from datassay.commands.partition.page import gallery as surest_gallery
from datassay.commands.partition.page import page as partition_page
from datassay.commands.purify.job import before_and_after, foreign, majority_source
from datassay.commands.purify.page import files as purify_files
from datassay.commands.purify.page import gallery as removed_gallery
from datassay.commands.purify.page import page as purify_page
from datassay.commands.purify.page import purified_table, trace_table
from datassay.errors import DataError
from datassay.report.html import render
from datassay.report.page import Table
from helpers.blocks import NAMES, divided, purified, samples
from helpers.findings import EVIL

NEVER = {"parse_constant": lambda name: pytest.fail(f"{name} is no JSON")}


def purify_summary(findings):
    return json.loads(purify_files(findings, purify_page(findings))["summary.json"], **NEVER)


def table(page, name):
    """The rows of a table of the page."""
    return next(b.rows for b in page.blocks if isinstance(b, Table) and b.name == name)


def test_purify_says_what_was_right():
    findings = purified()
    gone = findings.purification.removed
    assert len(gone) > 10
    hits = (findings.samples.source[gone] == f"{EVIL}theirs").mean()
    first, truth, gain, *rest = purify_page(findings).advice
    assert (first.severity, truth.severity) == ("act", "fine")
    assert first.ids == tuple(findings.samples.ids[gone[:10]])
    assert f"precision {hits:.2f}" in truth.sentence
    score = findings.purification.trace.validation
    assert f"from {score[0]:.3f} to {score[findings.purification.steps]:.3f}" in gain.sentence
    assert rest[-1].kind == "contest"
    assert f"against {findings.rival.trace.test[findings.rival.steps]:.3f}" in rest[-1].sentence


def test_before_and_after_are_the_traces_own_points():
    findings = purified()
    start, stop, rival = before_and_after(findings)
    assert start["removed"] == 0
    assert np.isnan(start["precision"])
    assert stop["variance"] == findings.purification.trace.variance[findings.purification.steps]
    assert rival["removed"] == len(findings.rival.removed)
    truth = foreign(findings)
    mask = findings.samples.source != majority_source(findings.samples)
    assert (truth.mask == mask).all()
    assert stop["recall"] == mask[findings.purification.removed].sum() / mask.sum()


def test_removed_samples_are_shown_in_their_order():
    findings = purified()
    shown = removed_gallery(findings).cards
    assert [card.id for card in shown] == list(findings.samples.ids[findings.purification.removed])
    steps = purified_table(findings).to_pydict()["step"]
    for rank, (card, i) in enumerate(zip(shown, findings.purification.removed, strict=True), 1):
        assert card.figures[0][0] == f"no. {rank}, step {steps[i]}"
        assert card.label == NAMES[findings.samples.y[i]]
        assert (card.suggested == "") == (findings.chance[i] > 0.5)
        assert (card.verdict == "") == (findings.samples.source[i] != "<u>ours")


def test_classes_add_up():
    findings = purified()
    rows = [
        [int(cell) for cell in row.cells[:3]]
        for row in table(purify_page(findings), "Classes before and after")
    ]
    before, removed, after = map(sum, zip(*rows, strict=True))
    assert (before, removed, after) == (
        160,
        len(findings.purification.removed),
        len(findings.purification.keep),
    )


def test_figures_show_the_trace_and_the_threshold():
    findings = purified()
    text = render(purify_page(findings))
    specs = dict(re.findall(r'id="figure-(\w+)">(.*?)</script>', text))
    assert set(specs) == {"variance", "score", "surprise", "precision"}
    surprise = json.loads(specs["surprise"])
    texts = {a["text"] for a in surprise["layout"]["annotations"]}
    stop = int(findings.purification.trace.removed[findings.purification.steps])
    assert texts == {"threshold 1.39", "blind guess 0.69", f"stop: {stop}"}
    names = [trace.get("name") for trace in json.loads(specs["variance"])["data"]]
    assert {"by influence", "by loss, same rule"} <= set(names)


def test_without_a_rival_or_a_truth_nothing_is_made_up():
    findings = replace(purified(rival=False), majority="")
    page = render(purify_page(findings))
    assert "by loss" not in page
    assert "The truth is known" not in page
    assert "removed in error" not in page
    assert [a.kind for a in purify_page(findings).advice][:2] == ["foreign samples", "validation"]
    assert set(trace_table(findings).to_pydict()["ranking"]) == {findings.purification.order}
    assert purify_summary(findings)["counts"]["known_foreign"] is None


def test_a_majority_is_more_than_half():
    assert majority_source(samples()) == "<u>ours"
    assert majority_source(samples(minority=0.5)) == ""
    assert majority_source(replace(samples(), source=None)) == ""


def test_other_samples_than_those_that_were_judged_are_refused():
    findings, other = purified(), samples(100)
    assert isinstance(findings.purification, Purification)
    with pytest.raises(DataError, match="purification must have the samples' ids"):
        replace(findings, samples=other)
    with pytest.raises(DataError, match="Divide the same SampleSet"):
        replace(divided(), samples=other)


def test_partition_says_how_many_and_whether_inputs_tell():
    findings = divided()
    assert isinstance(findings, PartitionFindings)
    blocks, router, _, truth = partition_page(findings).advice
    assert blocks.headline.startswith("2 blocks")
    assert "the inputs do not tell" in router.headline.lower()
    assert router.severity == "look"
    assert f"index between blocks and sources is {findings.agreement:.2f}" in truth.sentence
    routed = replace(findings, router=findings.router | {"is_informative": True, "gain": 0.4})
    assert partition_page(routed).advice[1].severity == "act"


def test_block_tables_add_up():
    findings = divided()
    rows = table(partition_page(findings), "Blocks")
    assert [int(row.cells[0]) for row in rows] == [*findings.partition.sizes, 160]
    names, counts = source_counts(findings)
    assert counts.sum() == 160
    inside = (findings.partition.block == 0) & (findings.samples.source == names[1])
    assert counts[0, 1] == inside.sum()
    blocks = block_table(findings).to_pydict()
    assert blocks["responsibility"] == findings.partition.responsibility.max(1).tolist()


def test_the_surest_samples_of_each_block_are_shown():
    findings = divided()
    shown = surest_gallery(findings).cards
    place = {str(i): k for k, i in enumerate(findings.samples.ids)}
    for block in range(2):
        own = [card for card in shown if card.views == (str(block),)]
        assert len(own) == 12
        values = [card.keys["responsibility"] for card in own]
        assert values == sorted(values, reverse=True)
        others = set(np.flatnonzero(findings.partition.block == block)) - {place[c.id] for c in own}
        assert max(findings.own_responsibility[list(others)]) <= values[-1]


def test_summaries_are_standard_json():
    assert purify_summary(purified())["start"]["precision"] is None
    divided_files = partition_files(divided(), partition_page(divided()))
    assert json.loads(divided_files["summary.json"], **NEVER)["blocks"] == 2
