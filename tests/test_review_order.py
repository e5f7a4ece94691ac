"""The suite of bench/review_order.py: its noises do as they say, and reviews are counted right."""

import sys

import numpy as np
import pytest

from datassay.act import Judged
from helpers.snippets import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import review_cases
import review_order


def cell(n=500, seed=0):
    """Two classes, a tenth of class 0 given as 1; the judge half sees it."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    labels = np.where((truth == 0) & (rng.random(n) < 0.2), 1, truth)
    odds = rng.normal(-3, 1, n) + 2 * (labels != truth)
    posterior = np.log(np.full((n, 2), 0.5))
    parts = (posterior, odds, np.ones((n, 1)))
    judged = Judged(labels, *(part.astype(np.float32) for part in parts))
    return review_order.Cell(judged, truth, {"random": rng.random(n)})


def test_settings_were_chosen_on_other_data_than_they_are_reported_on():
    of = [{name.rsplit(" ", 1)[0] for name in part} for part in
          (review_cases.CHOOSE, review_cases.REPORT)]  # fmt: skip
    assert not of[0] & (of[1] - {"cifar10n"})
    assert not set(review_cases.CHOOSE) & set(review_cases.REPORT)
    assert set(review_cases.FIVE) <= set(review_cases.REPORT)


@pytest.mark.parametrize("noise", ["uniform", "pair", "one-way", "region"])
def test_one_label_in_twenty_is_wrong(noise, tmp_path):
    samples = review_cases.without_flat(review_cases.SAMPLES["digits"], tmp_path, 0)
    given = review_cases.NOISES[noise](samples, 0)
    wrong = given.y != given.true_y
    assert wrong.mean() == pytest.approx(review_cases.RATE, abs=0.012)
    if noise == "one-way":
        assert set(given.true_y[wrong]) == {1} and set(given.y[wrong]) == {0}


def test_a_review_counts_errors_once_and_says_what_is_left():
    one = cell()
    wrong = one.truth != one.judged.labels
    review = review_order.learnt(one, 100, 0.0, 0)
    assert len(review.found) == 100 and len(review.said) == 6
    assert review.left == [wrong.sum() - n for n in (0, *review.found[19::20])]
    assert [said.errors_found for said in review.said] == [0, *review.found[19::20]]
    whole = review_order.learnt(one, 500, 0.0, 0)
    assert whole.found[-1] == wrong.sum() and whole.left[-1] == 0


def test_a_reviewer_who_always_slips_finds_nothing():
    assert review_order.learnt(cell(), 100, 1.0, 0).found[-1] == 0


def test_figures_name_every_order_and_its_first_stop():
    one = cell()
    line = review_order.figures(one, 0)
    assert line["learnt"] >= line["fixed"] > line["random"]
    assert line["stop"] % review_order.EVERY == 0
    assert line["found at stop"] + line["left at stop"] == line["wrong"]
    assert 0 <= line["held"] <= 1
