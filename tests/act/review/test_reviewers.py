"""Several reviewers of one run: who decided what, where they disagree, and what then holds."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow.parquet as pq
import pytest

from datassay.act.review.decisions import Decision, Decisions
from datassay.act.review.reviewers import combine, disagreements, file_of, files_in, read_all
from datassay.errors import DataError, SettingError

WHEN = datetime(2026, 11, 23, 9, tzinfo=UTC)


def by(reviewer, **decided):
    """Decisions of one reviewer: id → "keep", "remove", "unsure" or a new label."""
    rows = [
        Decision(name, kind, "cat", "", WHEN, None, reviewer)
        if kind in {"keep", "remove", "unsure"}
        else Decision(name, "relabel", "cat", kind, WHEN, None, reviewer)
        for name, kind in decided.items()
    ]
    return Decisions(tuple(rows), "abc", "pets", ("cat", "dog", "cow"))


def words(decisions):
    return {d.id: d.label or d.decision for d in decisions.decisions}


ANNA, BOB = by("anna", a="dog", b="keep", c="unsure"), by("bob", a="dog", c="cow", d="remove")


def test_who_agrees_is_put_together_and_unsure_is_no_opinion():
    assert disagreements([ANNA, BOB]) == {}
    assert words(combine([ANNA, BOB])) == {"a": "dog", "b": "keep", "c": "cow", "d": "remove"}


def test_a_disagreement_is_refused_by_name_unless_most_may_decide():
    others = [ANNA, by("bob", a="cow", b="keep"), by("", a="cow")]
    assert [d.reviewer for d in disagreements(others)["a"]] == ["anna", "bob", ""]
    message = r"disagree about 1: a \(anna → dog, bob → cow, without a name → cow\).*--majority"
    with pytest.raises(DataError, match=message):
        combine(others)
    assert words(combine(others, majority=True))["a"] == "cow"
    tie = combine(others[:2], majority=True)
    assert words(tie)["a"] == "unsure" and words(tie)["b"] == "keep"


def test_each_reviewer_has_a_file(tmp_path):
    for review in (ANNA, replace(BOB, decisions=())):
        name = file_of("" if not review.decisions else "anna")
        pq.write_table(review.to_table(), tmp_path / name)
    (tmp_path / "decisions.a b.parquet").write_bytes(b"of nobody")
    names = [path.name for path in files_in(tmp_path)]
    assert names == ["decisions.parquet", "decisions.anna.parquet"]
    assert [len(review) for review in read_all(tmp_path)] == [0, 3]
    assert {d.reviewer for d in read_all(tmp_path)[1].decisions} == {"anna"}
    pq.write_table(replace(BOB, digest="other").to_table(), tmp_path / file_of("bob"))
    with pytest.raises(DataError, match="must be about the same data"):
        read_all(tmp_path)
    for name in ("a b", "../up", "-", "ä", "a" * 41):
        with pytest.raises(SettingError, match="reviewer must be 1 to 40 letters"):
            file_of(name)
