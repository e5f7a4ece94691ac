"""What is left to review follows what was decided."""

import numpy as np
import pytest

from datassay.act.review.judged import Judged
from datassay.act.review.remaining import remaining
from datassay.errors import SettingError


def made(n=400, k=3, seed=0, rate=0.1):
    """Labels of which some are wrong, and a judge that mostly tells; with the true classes."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(k, size=n)
    wrong = rng.random(n) < rate
    labels = np.where(wrong, (truth + 1) % k, truth)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), truth] += 2.5
    logits[np.arange(n), labels] += 2.5
    log_posterior = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    p_given = np.exp(log_posterior[np.arange(n), labels])
    places = rng.normal(size=(n, 4)) / 2
    found = (labels, log_posterior, np.log(1 - p_given) - np.log(p_given), places)
    return Judged(*(a if a.dtype == np.int64 else a.astype(np.float32) for a in found)), truth


def test_what_was_looked_at_is_known_and_out_of_the_order():
    judged, truth = made()
    first = remaining(judged, {}).order[:30].tolist()
    known = {i: int(truth[i]) for i in first[:20]}
    found = remaining(judged, known, first[20:25])
    assert set(found.order.tolist()) == set(range(len(judged))) - set(first[:25])
    wrong = {i: truth[i] != judged.labels[i] for i in known}
    assert all(found.probability[i] == float(value) for i, value in wrong.items())
    assert [found.suggested[i] for i in known] == [truth[i] for i in known]
    assert found.errors_found == sum(wrong.values())


def test_suggested_is_another_class_than_the_given_one():
    judged, _ = made()
    found = remaining(judged, {})
    assert (found.suggested != judged.labels).all()


def test_without_decisions_the_order_is_the_judges():
    judged, _ = made()
    np.testing.assert_array_equal(
        remaining(judged, {}).order, np.argsort(-judged.log_odds, kind="stable")
    )


def test_numbers_keep_their_order():
    judged, _ = made()
    numbers = Judged(
        np.full(len(judged), -1), judged.log_posterior[:, :0], judged.log_odds, judged.places
    )
    before = remaining(numbers, {}).order
    after = remaining(numbers, {int(before[0]): 1, int(before[1]): 0}, {int(before[2])})
    np.testing.assert_array_equal(after.order, before[3:])
    assert not after.learns and after.errors_found == 1


@pytest.mark.parametrize(
    ("known", "passed", "match"),
    [({400: 0}, (), "positions"), ({0: 3}, (), "true class"), ({}, (-1,), "positions")],
)
def test_what_does_not_exist_is_refused(known, passed, match):
    judged, _ = made()
    with pytest.raises(SettingError, match=match):
        remaining(judged, known, passed)
