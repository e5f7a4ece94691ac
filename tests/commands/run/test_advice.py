"""The advice, on numbers that can be checked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from datassay.act.remove.baselines import Contest
from datassay.act.remove.removal_curve import RemovalCurve
from datassay.commands.run.findings import redundancy
from datassay.commands.run.page import page
from datassay.data.samples import SampleSet
from datassay.report.wording import count, number, percent, score_change
from datassay.score.sample_information import SampleInformation
from helpers.findings import issues_of, make_findings, regression_samples


def told_of(findings, kind):
    """The pieces of advice of one kind."""
    return tuple(one for one in page(findings).advice if one.kind == kind)


def label_advice(findings):
    (told,) = told_of(findings, "label errors")
    return told


def redundancy_advice(findings):
    (told,) = told_of(findings, "redundancy")
    return told


FRACTIONS = np.array([0.0, 0.1, 0.5])


def ten(score, true_y=None, information=None):
    """Ten samples of two classes with these label issue scores."""
    y = np.array([0, 1] * 5)
    ids = np.array([f"s{i}" for i in range(10)])
    samples = SampleSet(np.zeros((10, 2)), y, ids, ("a", "b"), true_y=true_y)
    issues = issues_of(samples, score)
    values = np.arange(10.0) if information is None else information
    return make_findings(
        samples, issues=issues, information=SampleInformation(values, ids, "functional", 1.0)
    )


def curve(ours, random=None, metric="accuracy"):
    rows = {"lowest information first": ours}
    if random is not None:
        rows["random"] = random
    score = np.stack([np.asarray(r, float) for r in rows.values()])
    score = score[:, :, None] if score.ndim == 2 else score
    return RemovalCurve(FRACTIONS, tuple(rows), score, metric)


# Three suspicions; 4 labels are wrong, 2 of them suspected; none suspected, none or five wrong.
MIXED = np.array([0, 1, 1, 0, 1, 0, 0, 1, 0, 1])
LABELS = {
    "unknown": (
        [-1, 0.2, 0.9, -1, -1, -1, -1, -1, -1, 0.5], None, "act", ("s2", "s9", "s1"),
        ("3 labels of 10 (30 %)", "Of the 5 most informative samples 1 is suspected"), "precision",
    ),
    "known": (
        [-1, 0.2, 0.9, 0.1, -1, -1, -1, -1, -1, -1], MIXED, "act", ("s2", "s1", "s3"),
        ("2 of the 4 wrong labels (recall 0.50)", "2 of 3 suspicions are right (precision 0.67)"),
        "5 wrong",
    ),
    "clean": ([-9] * 10, np.array([0, 1] * 5), "fine", (), ("no given label differs",), "recall"),
    "missed": (
        [-1] * 10, np.array([1, 1] * 5), "look", None,
        ("0 of the 5 wrong labels (recall 0.00).",), "precision",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("score", "truth", "severity", "ids", "said", "unsaid"), LABELS.values(),
                         ids=LABELS)  # fmt: skip
def test_label_errors_are_counted_and_the_most_likely_named_first(
    score, truth, severity, ids, said, unsaid
):
    told = label_advice(ten(score, truth))
    assert told.severity == severity and (ids is None or told.ids == ids)
    assert all(words in told.sentence for words in said) and unsaid not in told.sentence


@pytest.mark.parametrize(
    ("ours", "fraction", "change"),
    [
        ([0.9, 0.897, 0.895], 0.5, -0.005),  # within half a point
        ([0.9, 0.897, 0.894], 0.1, -0.003),
        ([0.9, 0.8, 0.7], 0, None),
        # The spread of seeds excuses no loss: 1.5 points, and 0.4.
        ([[0.88, 0.92], [0.70, 0.70], [0.885, 0.885]], 0, None),
        ([[0.88, 0.92], [0.70, 0.70], [0.896, 0.896]], 0.5, -0.004),
    ],
)
def test_the_largest_fraction_within_half_a_point_is_redundant(ours, fraction, change):
    found = redundancy(curve(ours))
    assert found.fraction == fraction
    assert change is None or found.change == pytest.approx(change)


@pytest.mark.parametrize(
    ("ours", "random", "severity", "headline", "said"),
    [
        ([0.9, 0.897, 0.896], [0.9, 0.89, 0.85], "act", "About 250 redundant samples (50 %)",
         ("costs 0.4 points", "within the 0.5 points", "at random costs 5.0 points")),
        ([0.9, 0.897, 0.91], [0.9, 0.89, 0.85], "act", "About 250 redundant samples (50 %)",
         ("gains 1.0 points of accuracy (mean of 1 seed). Removing",)),  # needs no tolerance
        ([0.9, 0.897, 0.896], [0.9, 0.9, 0.897], "look", "About 250 redundant samples (50 %)",
         ("the ranking buys nothing",)),
        ([0.9, 0.88, 0.8], [0.9, 0.89, 0.85], "fine", "No redundant samples found",
         ("10 % of the samples", "costs 2.0 points", "the ranking buys nothing")),
    ],
)  # fmt: skip
def test_redundant_samples_with_their_measured_change(ours, random, severity, headline, said):
    told = redundancy_advice(make_findings(removal_curve=curve(ours, random)))
    assert (told.headline, told.severity) == (headline, severity)
    assert all(words in told.sentence for words in said)


@pytest.mark.parametrize(
    "other",
    [
        None,
        RemovalCurve(FRACTIONS, ("random",), np.ones((1, 3, 1)), "accuracy"),
        RemovalCurve(np.zeros(1), ("lowest information first",), np.ones((1, 1, 1)), "accuracy"),
    ],
)
def test_unmeasured_redundancy_is_not_claimed(other):
    told = redundancy_advice(make_findings(removal_curve=other))
    assert told.headline == "Redundancy was not measured"


def informative(values, y, names=("a", "b", "c")):
    ids = np.arange(len(y))
    samples = SampleSet(np.zeros((len(y), 1)), np.asarray(y), ids, names)
    scores = SampleInformation(np.asarray(values, float), ids, "functional", 1.0)
    return make_findings(samples, information=scores)


THREE, SPREAD = np.repeat([0, 1, 2], 40), np.tile(np.linspace(0.9, 1.1, 40), 3)
TWO_HIGH = np.array([1.0, 6.0, 9.0])[THREE] * SPREAD
TWO_HIGH[THREE == 1] += np.tile([0, 4], 20)  # some of b above c
CLASSES = {
    "one": (np.where(THREE == 2, 3.0, 1.0) * SPREAD, THREE, "Class c carries", " 3.00 times"),
    "two": (TWO_HIGH, THREE, "2 classes carry", "class c carries"),
    "of others that inform nothing": (
        np.where(THREE == 2, 1.0, 0.0), THREE, "Class c carries", "the median other sample none",
    ),
    # The smallest possible p is 1 in 15, before Bonferroni.
    "too few samples": ([1, 1, 1, 1, 9, 9], [0, 0, 1, 1, 2, 2], None, ""),
    "surely, but little more": (np.where(THREE == 2, 1.4, 1.0), THREE, None, ""),
    "absent": ([1, 2], [0, 0], None, ""),
}  # fmt: skip


@pytest.mark.parametrize(("values", "y", "headline", "said"), CLASSES.values(), ids=CLASSES)
def test_classes_that_surely_inform_much_more_are_named(values, y, headline, said):
    (told,) = told_of(informative(values, y), "classes")
    assert (told.severity == "fine") == (headline is None)
    assert told.headline.startswith(headline or "") and said in told.sentence
    assert " inf " not in told.sentence


def test_a_regression_has_no_classes_to_test():
    assert told_of(make_findings(regression_samples()), "classes") == ()


def test_contests_quote_their_verdict_and_flag_a_baseline_that_won():
    won = Contest("AUROC", ("ours", "loss"), (0.9, 0.8), (0.0, 0.0), "won", "Ours won.")
    lost = replace(won, values=(0.7, 0.8), outcome="lost", verdict="Loss won.")
    told = told_of(make_findings(contests=(won, lost)), "contest")
    assert [(a.sentence, a.severity) for a in told] == [
        ("Ours won.", "fine"),
        ("Loss won.", "look"),
    ]


def test_all_advice_in_order():
    kinds = [a.kind for a in page(make_findings()).advice]
    assert kinds == ["label errors", "redundancy", "classes", "contest"]


def test_numbers_read_well():
    assert [number(v) for v in (0.94, 12.34, 0.0, 1.2e-5, 123.4, 1437.2, float("nan"))] == [
        "0.940", "12.3", "0.00", "1.20e-05", "123", "1,437", "n/a",
    ]  # fmt: skip
    assert (count(1, "class", "classes"), count(2, "class", "classes")) == ("1 class", "2 classes")
    assert (percent(0.1), percent(0.004), percent(0.29)) == ("10 %", "0.4 %", "29 %")
    assert percent(0.0003) == "under 0.1 %"
    assert (
        score_change(-0.0125, "R²") == "0.013 of R²" or score_change(-0.0125, "R²") == "0.012 of R²"
    )
