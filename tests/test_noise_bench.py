"""Noise of the bench does as it says, detectors find it, and reviews are counted right."""

import sys

import numpy as np
import pytest

from datassay.act import Judged, auroc
from helpers.snippets import ROOT

sys.path.insert(0, str(ROOT))
from bench import data, detectors, noise
from bench.truths import review


@pytest.mark.parametrize("case", ["wine pair 30", "digits uniform 10", "census 1:50 uniform 3"])
def test_a_seed_draws_the_same_cell(case):
    first, again, other = (noise.CASES[case](seed) for seed in (3, 3, 4))
    assert (first.y == again.y).all() and (first.x == again.x).all()
    assert (first.y != other.y).any()
    rate = float(case.split()[-1]) / 100
    assert np.mean(first.y != first.true_y) == pytest.approx(rate, abs=0.003)


def test_input_dependent_noise_is_where_a_linear_scorer_is_unsure():
    noisy = noise.input_dependent(0.2, data.built_in("digits", 0), 0)
    wrong = noisy.y != noisy.true_y
    assert wrong.mean() == pytest.approx(0.2, abs=0.02)
    # Confused classes, not random ones: a few of the 90 ordered pairs hold most.
    pairs = np.bincount(10 * noisy.true_y[wrong] + noisy.y[wrong], minlength=100)
    assert np.sort(pairs)[-20:].sum() > 0.5 * wrong.sum()


@pytest.mark.parametrize("rival", ["neighbours", "area_under_margin", "final_loss", "margin"])
def test_rivals_rank_wrong_labels_first(rival):
    cell = noise.CASES["digits uniform 10"](0).subset(np.arange(600))
    assert auroc(cell.y != cell.true_y, getattr(detectors, rival)(cell, 0)) > 0.9


# Reviews. -----------------------------------------------------------------------------------


def reviewed(n=500, seed=0):
    """Two classes, a tenth of class 0 given as 1; the judge half sees it."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=n)
    labels = np.where((truth == 0) & (rng.random(n) < 0.2), 1, truth)
    odds = rng.normal(-3, 1, n) + 2 * (labels != truth)
    posterior = np.log(np.full((n, 2), 0.5))
    parts = (posterior, odds, np.ones((n, 1)))
    judged = Judged(labels, *(part.astype(np.float32) for part in parts))
    return review.Reviewed(None, judged, None, truth)


def test_reviews_were_chosen_on_other_data_than_they_are_reported_on():
    of = [{n.rsplit(" ", 1)[0] for n in part} for part in (review.CHOOSE, review.REPORT)]
    assert not of[0] & (of[1] - {"cifar10n"})
    assert not set(review.CHOOSE) & set(review.REPORT)


@pytest.mark.parametrize("kind", ["uniform", "pair", "one-way", "region"])
def test_one_label_in_twenty_is_wrong(kind):
    given = review.NOISES[kind](review.without_flat(review.SAMPLES["digits"], 0), 0)
    wrong = given.y != given.true_y
    assert wrong.mean() == pytest.approx(review.RATE, abs=0.012)
    if kind == "one-way":
        assert set(given.true_y[wrong]) == {1} and set(given.y[wrong]) == {0}


def test_a_review_counts_errors_once_and_says_what_is_left():
    one = reviewed()
    wrong = one.truth != one.judged.labels
    some = review.learnt(one, 100, 0.0, 0)
    assert len(some.found) == 100 and len(some.said) == 6
    assert some.left == [wrong.sum() - n for n in (0, *some.found[19::20])]
    assert [said.errors_found for said in some.said] == [0, *some.found[19::20]]
    whole = review.learnt(one, 500, 0.0, 0)
    assert whole.found[-1] == wrong.sum() and whole.left[-1] == 0
    assert review.learnt(one, 100, 1.0, 0).found[-1] == 0  # who always slips finds nothing


def test_learning_finds_more_than_the_fixed_order_and_says_when_to_stop():
    one = reviewed()
    long = review.ours(one, 0)
    learnt, fixed = (
        review.judge(one, answer, 0)
        for answer in (long, review.fixed(one, 0))
    )  # fmt: skip
    chance = review.judge(one, np.random.default_rng(0).random(500), 0)
    assert learnt["errors in 100"] >= fixed["errors in 100"] > chance["errors in 100"]
    assert learnt["stop"] % review.EVERY == 0
    wrong = (one.truth != one.judged.labels).sum()
    assert learnt["found at stop"] + learnt["left at stop"] == wrong
