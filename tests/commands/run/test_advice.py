"""The advice, on numbers that can be checked by hand."""

from dataclasses import replace

import numpy as np
import pytest

from datassay.act.remove.removal_curve import RemovalCurve
from datassay.act.remove.rivals import Contest
from datassay.commands.run.page import page
from datassay.commands.run.redundancy import redundancy
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


def test_label_errors_are_counted_and_the_most_likely_named_first():
    told = label_advice(ten([-1, 0.2, 0.9, -1, -1, -1, -1, -1, -1, 0.5]))
    assert told.headline == "3 suspected label errors"
    assert "contradicts 3 labels of 10 (30 %)" in told.sentence
    assert "Of the 5 most informative samples 1 is suspected" in told.sentence  # not of all ten
    assert told.ids == ("s2", "s9", "s1")
    assert told.severity == "act"
    gained = make_findings(removal_curve=curve([0.9, 0.897, 0.91], [0.9, 0.89, 0.85]))
    sentence = redundancy_advice(gained).sentence  # a gain needs no tolerance
    assert "gains 1.0 points of accuracy (mean of 1 seed). Removing" in sentence
    assert "true labels" not in told.sentence


def test_precision_and_recall_where_the_truth_is_known():
    truth = np.array([0, 1] * 5)
    truth[[2, 3, 4, 5]] = 1 - truth[[2, 3, 4, 5]]  # 4 wrong, 2 of them among 3 suspicions
    told = label_advice(ten([-1, 0.2, 0.9, 0.1, -1, -1, -1, -1, -1, -1], truth))
    assert "2 of the 4 wrong labels (recall 0.50)" in told.sentence
    assert "2 of 3 suspicions are right (precision 0.67)" in told.sentence


def test_no_suspicion_and_no_wrong_label():
    told = label_advice(ten([-9] * 10, np.array([0, 1] * 5)))
    assert told.severity == "fine"
    assert "no given label differs" in told.sentence
    assert told.ids == ()


def test_no_suspicion_where_labels_are_wrong_has_no_precision():
    told = label_advice(ten([-1] * 10, np.array([1, 1] * 5)))
    assert "0 of the 5 wrong labels (recall 0.00)." in told.sentence
    assert "precision" not in told.sentence


def test_the_largest_fraction_within_half_a_point_is_redundant():
    found = redundancy(curve([0.9, 0.897, 0.895]))
    assert found.fraction == 0.5
    assert found.change == pytest.approx(-0.005)


def test_a_loss_beyond_half_a_point_is_not_redundant_at_one_seed():
    assert redundancy(curve([0.9, 0.897, 0.894])).fraction == 0.1
    assert redundancy(curve([0.9, 0.8, 0.7])).fraction == 0


def test_the_spread_of_seeds_excuses_no_loss():
    noisy = np.array([[0.88, 0.92], [0.70, 0.70], [0.885, 0.885]])
    assert redundancy(curve(noisy)).fraction == 0  # 1.5 points lost
    assert redundancy(curve([*noisy[:2], noisy[2] + 0.011])).fraction == 0.5


def test_redundant_samples_with_their_measured_change():
    told = redundancy_advice(ten([-1] * 10, np.array([0, 1] * 5)))  # fixture's curve
    assert "redundant" in told.headline
    found = make_findings(removal_curve=curve([0.9, 0.897, 0.896], [0.9, 0.89, 0.85]))
    told = redundancy_advice(found)
    assert told.headline == "About 250 redundant samples (50 %)"
    assert "costs 0.4 points of accuracy (mean of 1 seed), within the 0.5 points" in told.sentence
    assert "at random costs 5.0 points of accuracy." in told.sentence
    assert told.severity == "act"


def test_it_says_so_when_random_removal_costs_no_more():
    found = make_findings(removal_curve=curve([0.9, 0.897, 0.896], [0.9, 0.9, 0.897]))
    told = redundancy_advice(found)
    assert "here the ranking buys nothing" in told.sentence
    assert told.severity == "look"


def test_it_says_none_when_none_is_redundant():
    found = make_findings(removal_curve=curve([0.9, 0.88, 0.8], [0.9, 0.89, 0.85]))
    told = redundancy_advice(found)
    assert told.headline == "No redundant samples found"
    assert "10 % of the samples, lowest information first, costs 2.0 points" in told.sentence
    assert "here the ranking buys nothing" in told.sentence


@pytest.mark.parametrize("other", [None, "unranked", "nothing removed"])
def test_unmeasured_redundancy_is_not_claimed(other):
    made = {
        None: None,
        "unranked": RemovalCurve(FRACTIONS, ("random",), np.ones((1, 3, 1)), "accuracy"),
        "nothing removed": RemovalCurve(
            np.zeros(1), ("lowest information first",), np.ones((1, 1, 1)), "accuracy"
        ),
    }
    told = redundancy_advice(make_findings(removal_curve=made[other]))
    assert told.headline == "Redundancy was not measured"


def informative(values, y, names=("a", "b", "c")):
    ids = np.arange(len(y))
    samples = SampleSet(np.zeros((len(y), 1)), np.asarray(y), ids, names)
    scores = SampleInformation(np.asarray(values, float), ids, "functional", 1.0)
    return make_findings(samples, information=scores)


def test_an_informative_class_is_named_with_both_figures():
    y = np.repeat([0, 1, 2], 20)
    values = np.where(y == 2, 3.0, 1.0) * np.tile(np.linspace(0.9, 1.1, 20), 3)
    (told,) = told_of(informative(values, y), "classes")
    assert told.headline == "Class c carries unusually much information"
    assert "carries 3.00 times" in told.sentence
    assert "test, p < 0.001 after" in told.sentence  # all 20 above all 40 others


def test_several_informative_classes_are_one_piece_of_advice():
    y = np.repeat([0, 1, 2], 40)
    values = np.array([1.0, 6.0, 9.0])[y] * np.tile(np.linspace(0.9, 1.1, 40), 3)
    values[y == 1] += np.tile([0, 4], 20)  # some of b above c
    (told,) = told_of(informative(values, y), "classes")
    assert told.headline == "2 classes carry unusually much information"
    assert "class c carries" in told.sentence and ", one of b " in told.sentence


def test_a_class_far_above_too_few_samples_is_not_named():
    (told,) = told_of(informative([1, 1, 1, 1, 9, 9], [0, 0, 1, 1, 2, 2]), "classes")
    assert told.severity == "fine"  # the smallest possible p is 1 in 15, before Bonferroni


def test_a_surely_but_little_more_informative_class_is_not_named():
    y = np.repeat([0, 1, 2], 40)
    (told,) = told_of(informative(np.where(y == 2, 1.4, 1.0), y), "classes")
    assert told.severity == "fine"


def test_zero_information_elsewhere_has_no_ratio():
    y = np.repeat([0, 1, 2], 20)
    (told,) = told_of(informative(np.where(y == 2, 1.0, 0.0), y), "classes")
    assert "the median other sample none" in told.sentence
    assert " inf " not in told.sentence


def test_an_absent_class_and_regression_are_not_tested():
    assert told_of(informative([1, 2], [0, 0]), "classes")[0].severity == "fine"
    assert told_of(make_findings(regression_samples()), "classes") == ()


def test_contests_quote_their_verdict_and_flag_a_rival_that_won():
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
