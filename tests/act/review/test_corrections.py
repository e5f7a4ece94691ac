"""What decisions make of labels."""

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from datassay.act.review.corrections import SHOWN, corrected, corrections
from datassay.act.review.decisions import KEEP, RELABEL, REMOVE, UNSURE, Decision, Decisions
from datassay.data import SampleSet
from datassay.errors import DataError

WHEN = datetime(2026, 3, 1, 12, 30, 15, 250_000, UTC)
CLASSES = ("cat", "dog", "<script>")


def decided(name, kind, given="cat", label="", seen=None):
    return Decision(name, kind, given, label, WHEN, seen)


THREE = (
    decided("a", RELABEL, "cat", "<script>", 0.9),
    decided("c", REMOVE, "dog"),
    decided("b", UNSURE, "dog", seen=0.25),
)


@pytest.fixture
def samples():
    return SampleSet(
        np.arange(8.0).reshape(4, 2), np.array([0, 1, 1, 0]), np.array(list("abcd")), CLASSES
    )


def test_labels_and_samples_after_the_decisions(samples):
    corrections_ = corrections(THREE, samples.ids, samples.y, CLASSES)
    assert corrections_.keep.tolist() == [True, True, False, True]
    assert corrections_.y.tolist() == [2, 1, 1, 0]
    assert corrections_.is_new.tolist() == [True, False, False, False]
    assert corrections_.index.tolist() == [0, 2, 1]
    assert samples.y.tolist() == [0, 1, 1, 0]
    after = corrected(samples, Decisions(THREE))
    assert after.ids.tolist() == ["a", "b", "d"] and after.y.tolist() == [2, 1, 0]
    np.testing.assert_array_equal(after.x, samples.x[[0, 1, 3]])
    back = corrections((replace(THREE[0], label="cat"),), samples.ids, samples.y, CLASSES)
    assert not back.is_new.any()  # taken back to what was given
    text = corrections((decided("7", REMOVE),), np.array([5, 7]), np.array([0, 0]), CLASSES)
    assert text.keep.tolist() == [True, False]  # ids are compared as text


def test_targets_take_numbers():
    y = np.array([1.5, 2.0, 3.123456])
    given = (decided(0, RELABEL, "1.5", "-4e2"), decided(2, KEEP, "3.123"))
    corrections_ = corrections(given, np.arange(3), y, ())
    assert corrections_.y.tolist() == [-400.0, 2.0, 3.123456]
    assert corrections_.is_new.tolist() == [True, False, False]


NUMBERS = SampleSet(np.zeros((2, 1)), np.array([1.0, 2.0]), np.arange(2))


@pytest.mark.parametrize(
    ("of", "decision", "message"),
    [
        (None, decided("x" * 200, KEEP), "they have no id xxx.*…"),
        (None, decided("a", RELABEL, "cat", "bird"), "a class of the data; they have no class b"),
        (None, decided("a", KEEP, "dog"), "of a must be the one that was reviewed, 'dog'.*'cat'"),
        (NUMBERS, decided(1, RELABEL, "2.0", "big"), "finite number; for 1 it is 'big'"),
        (NUMBERS, decided(1, RELABEL, "2.0", "nan"), "finite number"),
        (NUMBERS, decided(1, KEEP, "2.1"), "must be the one that was reviewed"),
    ],
)
def test_decisions_about_other_samples_are_refused(samples, of, decision, message):
    with pytest.raises(DataError, match=message):
        corrected(of or samples, Decisions((decision,)))


def test_one_of_several_labels_is_not_decided():
    labels = np.array([[0.0, 1.0], [1.0, 1.0]])
    removed = corrections((decided(0, REMOVE, "any"),), np.arange(2), labels, ())
    assert removed.keep.tolist() == [False, True]
    with pytest.raises(DataError, match="these have 2"):
        corrections((decided(0, RELABEL, "", "1"),), np.arange(2), labels, ())


def test_new_labels_go_to_their_samples_in_whatever_order_they_were_decided(samples):
    given = (decided("d", RELABEL, "cat", "dog"), decided("b", RELABEL, "dog", "cat"),
             decided("a", RELABEL, "cat", CLASSES[2]))  # fmt: skip
    after = corrections(given, samples.ids, samples.y, CLASSES)
    assert after.y.tolist() == [2, 0, 1, 1] and after.index.tolist() == [3, 1, 0]
    targets = (decided(2, RELABEL, "", "30"), decided(0, RELABEL, "", "10"))
    assert corrections(targets, np.arange(3), np.zeros(3), ()).y.tolist() == [10, 0, 30]


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, 2**63, 2**70])
@pytest.mark.parametrize("sign", [1, -1])
def test_whole_targets_stay_whole_while_int64_holds_the_new_ones(number, sign):
    y = np.array([1, 2**53 + 1])
    after = corrections((decided(0, RELABEL, "1", str(sign * number)),), np.arange(2), y, ()).y
    assert after[0] == sign * number
    assert after.dtype == (np.int64 if number < 2**63 else np.float64)
    unchanged = corrections((decided(0, KEEP, "1"),), np.arange(2), y, ()).y
    assert unchanged.dtype == np.int64 and unchanged.tolist() == y.tolist()


def test_a_refusal_names_the_first_and_counts_the_others(samples):
    for n, end in ((SHOWN, f"no id {', '.join('vwxyz'[:SHOWN])}\\. "), (SHOWN + 2, " and 2 more")):
        unknown = tuple(decided(name, KEEP, "") for name in "vwxyzAB"[:n])
        with pytest.raises(DataError, match=end):
            corrections(unknown, samples.ids, samples.y, CLASSES)
