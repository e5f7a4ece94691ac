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


def reviewed_by(judged, truth, decisions):
    """A reviewer who knows the truth looks at twenty at a time; what is said before each."""
    known, said = {}, []
    while len(known) < decisions:
        said.append(remaining(judged, known))
        known |= {int(i): int(truth[i]) for i in said[-1].order[:20]}
    return known, [*said, remaining(judged, known)]


def test_the_number_left_lies_in_the_interval_and_stopping_is_said_once_it_is_small():
    inside = []
    for seed in range(8):
        judged, truth = made(n=800, seed=seed)
        wrong = truth != judged.labels
        known, said = reviewed_by(judged, truth, 300)
        left = [wrong.sum() - found.errors_found for found in said]
        inside += [
            found.interval[0] <= true <= found.interval[1]
            for found, true in zip(said, left, strict=True)
        ]
        assert not said[0].can_stop and "95 %" in said[0].sentence
        assert len(known) == 300
        for found in said:
            next_errors = wrong[found.order[:20]].sum()
            assert not found.can_stop or next_errors <= 3
        assert said[-1].interval[1] - said[-1].interval[0] < said[0].interval[1]
    assert np.mean(inside) >= 0.9


def test_errors_of_one_confusion_are_found_sooner_than_in_the_fixed_order():
    """Only class 0 is given as 1, and the judge believes in errors of all kinds."""
    rng = np.random.default_rng(0)
    n, k = 2000, 4
    truth = rng.integers(k, size=n)
    labels = np.where((truth == 0) & (rng.random(n) < 0.2), 1, truth)
    odds = rng.normal(-3, 1, n) + 1.0 * (labels != truth)
    log_posterior = np.full((n, k), np.log(0.1 / 3))
    log_posterior[np.arange(n), labels] = np.log(0.9)
    places = np.ones((n, 1))
    parts = (log_posterior, odds, places)
    judged = Judged(labels, *(part.astype(np.float32) for part in parts))
    wrong = labels != truth
    known, _ = reviewed_by(judged, truth, 100)
    fixed = wrong[np.argsort(-judged.log_odds, kind="stable")[:100]].sum()
    assert wrong[list(known)].sum() > 1.5 * fixed


def test_where_nothing_is_found_the_classes_take_turns():
    """All errors are of the class that the judge trusts: the fixed order never gets there."""
    labels = np.repeat([0, 1], [900, 100])
    odds = np.where(labels == 0, -9.0, -1.0) + np.linspace(0, 0.5, 1000)
    log_posterior = np.log(np.full((1000, 2), 0.5))
    parts = (log_posterior, odds, np.ones((1000, 1)))
    judged = Judged(labels, *(part.astype(np.float32) for part in parts))
    first = remaining(judged, {}).order[:40].tolist()
    assert set(labels[first]) == {1}
    found = remaining(judged, {i: 1 for i in first})
    assert (labels[found.order[:20]] == 0).all()
    assert not found.can_stop


def test_when_all_are_looked_at_one_can_stop():
    judged, truth = made(n=30)
    found = remaining(judged, {i: int(t) for i, t in enumerate(truth)})
    assert found.can_stop and len(found.order) == 0 and found.interval == (0.0, 0.0)
    assert np.isnan(found.expected_precision(20))


def test_numbers_learn_how_many_are_wrong():
    judged, _ = made(n=600)
    numbers = Judged(np.full(600, -1), judged.log_posterior[:, :0], judged.log_odds, judged.places)
    first = np.argsort(-judged.log_odds)[:60]
    none = remaining(numbers, {int(i): 0 for i in first})
    every = remaining(numbers, {int(i): 1 for i in first})
    assert none.errors_left < remaining(numbers, {}).errors_left < every.errors_left
