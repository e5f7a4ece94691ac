"""What a run says of its labels, on numbers that can be checked by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest

import datassay as da
from datassay.commands.run.gallery import gallery, pick_samples
from datassay.commands.run.job import run
from datassay.commands.run.labels import Labels, confusions, label_facts, label_verdict
from datassay.commands.run.page import page as run_page
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.table import score_table
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.report.html import render
from datassay.report.page import Row, Text
from datassay.report.result_plots import beyond, issue_figure
from datassay.report.wording import rough_percent
from datassay.score.labels.noise import LabelNoise
from helpers.findings import (
    EVIL,
    even_noise,
    issues_of,
    make_findings,
    noisy_pair,
    regression_samples,
)


def label_advice(findings):
    (reported,) = (one for one in run_page(findings).advice if one.kind == "label errors")
    return reported


def noise_sentence(findings):
    """The paragraph on the noise; empty where nothing is said of it."""
    section = next(s for s in run_page(findings).sections if s.anchor == "labels")
    texts = [block.text for block in section.blocks if isinstance(block, Text)]
    return next((text for text in texts if text.startswith(("Wrong labels", "The noise"))), "")


def of_classes(k, score, noise=None, n=200):
    y = (np.arange(n) % k).astype(np.int64)
    names = (EVIL, *(f"c{i}" for i in range(1, k)))
    samples = SampleSet(np.zeros((n, 1)), y, np.arange(n), names)
    return make_findings(samples, issues=issues_of(samples, np.resize(score, n), noise=noise))


def several_labels(n=60, k=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 8))
    y = (x[:, :k] > 0).astype(float)
    y[:6, 1] = 1 - y[:6, 1]
    return SampleSet(x, y, np.arange(n), name="several labels")


def test_suspects_are_called_probably_wrong_and_no_precision_stands_beside_the_bounds():
    result = of_classes(2, np.r_[np.full(50, 8.0), np.full(50, np.log(4)), np.full(100, -8.0)])
    expected = 0.5 * 1 / (1 + np.exp(-8)) + 0.5 * 0.8
    assert result.issues.expected_precision() == pytest.approx(expected)
    assert label_advice(result).sentence.startswith("They are probably wrong.")


def test_where_none_is_sure_those_that_may_be_wrong_are_told_and_those_worth_a_look():
    result = of_classes(2, np.linspace(-9, -2, 200))
    reported, n = label_advice(result), int(result.issues.worth_a_look.sum())
    assert 20 < n < 40 and not result.issues.is_issue.any()
    assert (
        reported.headline == f"Review the {n} most suspect labels" and reported.severity == "look"
    )
    assert f"Up to {n} of 200 may be wrong" in reported.sentence
    assert reported.ids == tuple(str(i) for i in range(199, 189, -1))
    assert {i for i, v in pick_samples(result).items() if "issues" in v} == set(range(200 - n, 200))
    said = run_page(result).verdict
    assert said.startswith(
        f"No label stands out as wrong, but up to {n} of 200 (about {n / 2:.0f} %) may be"
    )
    calm = run_page(of_classes(2, np.full(200, -9.0)))
    assert [card.kind for card in calm.advice] == ["nothing"]
    assert not calm.button and calm.samples is None
    assert calm.verdict.startswith("No label stands out as wrong")


def test_labels_that_nothing_predicts_are_said_to_be_so():
    result = of_classes(2, np.full(200, -6.0))
    unknown = replace(result, issues=replace(result.issues, is_predicted=False))
    assert run_page(unknown).verdict.startswith("The inputs hardly predict the labels, so none")
    assert run_page(result).verdict.startswith("No label stands out as wrong")


def test_noise_reads_as_a_sentence():
    even = LabelNoise("uniform", even_noise(3, 0.09), -0.01)
    assert noise_sentence(of_classes(3, -3.0, (even,))) == (
        "The noise that explains the labels best is alike in all classes (about 9 % of labels)."
    )
    result = of_classes(3, -3.0, (noisy_pair(3),))
    sentence = f"Wrong labels depend on the class: “{EVIL}” is given as “c1” in about 31 % of"
    assert noise_sentence(result) == f"{sentence} cases."
    none = LabelNoise("uniform", even_noise(3, 0.001), -0.01)
    assert noise_sentence(of_classes(3, -3.0, (none,))) == ""


@pytest.mark.parametrize("k", [2, 80])
def test_the_noise_is_a_table_where_it_depends_on_the_class(k):
    result = of_classes(k, -3.0, (noisy_pair(k),))
    section = {s.anchor: s for s in run_page(result).sections}["labels"]
    assert section.blocks[-1].rows == (Row(EVIL, ("c1", "31 %")),)
    assert [(c.given, c.share) for c in confusions(result)] == [("c1", 0.31)]
    (noise,) = label_facts(result)["noise"]
    assert ("transition" in noise) == (k <= 50)
    assert label_facts(result)["confusions"] == [{"true": EVIL, "given": "c1", "share": 0.31}]
    assert EVIL not in render(run_page(result))


def test_the_histogram_counts_what_lies_beyond_its_axis():
    result = of_classes(2, np.r_[-np.inf, np.full(197, -2.0), 40.0, np.inf])
    drawn = issue_figure(result.issues)
    assert sum(np.sum(t.y) for t in drawn.data) == 200 and beyond(result.issues) == 3
    assert "3 samples beyond the axis are counted" in render(run_page(result))
    samples = regression_samples()
    probability = np.where(np.arange(442) == 7, 0.9, 0.0)
    issues = issues_of(samples, np.full(442, 1.0), probability=probability)
    result = make_findings(samples, issues=replace(issues, is_issue=probability > 0.5))
    counts = {t.name: np.sum(t.y) for t in issue_figure(result.issues).data}
    assert counts == {"not suspected": 441, "suspected": 1}  # though every score is above 0
    assert noise_sentence(result) == "" and not confusions(result)


def test_cards_say_how_likely_the_label_is_wrong():
    result = of_classes(2, np.r_[np.log(9), np.full(199, -9.0)])
    texts = {card.id: card.figures[1][0] for card in gallery(result).cards}
    assert texts.pop("0") == "90 % likely wrong"
    assert set(texts.values()) == {"under 1 % likely wrong"}


def test_shares_are_rounded():
    reported = [rough_percent(p) for p in (0.0, 0.004, 0.312, 0.99, 0.9999, float("nan"))]
    assert reported == ["under 1 %", "under 1 %", "about 31 %", "about 99 %", "over 99 %", "n/a"]


def test_several_labels_a_sample():
    samples = several_labels()
    findings = run(samples, samples, RunSettings(model="linear", curve_seeds=0, attribution="none"))
    assert findings.has_several_labels and len(findings.issues.noise) == 3
    issues = replace(findings.issues, is_issue=np.arange(60) < 4)
    subject = "4 of 60 label sets are probably wrong"  # of 180 labels
    assert label_verdict(replace(findings, issues=issues)).sentence.startswith(subject)
    seen = run_page(findings)
    assert "3 labels each" in seen.lead and "at least one label" in render(seen)
    for card in gallery(findings).cards:
        given = np.flatnonzero(samples.y[int(card.id)])
        assert re.findall(r"\d+", card.label) == [str(j) for j in given]
        assert card.verdict or not card.suggested
    table = score_table(findings)
    assert table["suggested_label"].to_pylist() == findings.issues.suggested_label.tolist()
    tied = LabelNoise("class", np.array([[0.96, 0.04], [0.2, 0.8]]), 0.1)
    known = replace(findings, issues=replace(findings.issues, noise=(tied,) * 3))
    sentence = noise_sentence(known)
    assert "label 0 is missing from about 20 % of the samples with it" in sentence
    assert "given where it should not be" in render(run_page(known))
    assert [c.share for c in confusions(known)] == [0.2] * 3 + [0.04] * 3


def test_no_column_is_dropped_where_none_would_be_left():
    labels = Labels(100, 4, 7, 5, 2, 21, leaks=("text",))
    assert labels.sentence.endswith("so wrong labels may be hidden; run again with --drop text")
    alone = replace(labels, is_left_alone=True).sentence
    assert alone.endswith("may be hidden, and no other column is left to judge by")


def test_the_noise_that_is_sought_can_be_told():
    train, val = da.load("wine")
    settings = RunSettings(model="linear", curve_seeds=0, attribution="none")
    (noise,) = run(train, val, replace(settings, label_noise="class")).issues.noise
    assert noise.kind == "class"
    with pytest.raises(SettingError, match="label-noise must be one of auto, uniform, class; got"):
        run(train, val, replace(settings, label_noise="pairs"))
