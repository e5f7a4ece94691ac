"""The state of a review: saved at every change, and of this run's labels only."""

import contextlib
import os
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from datassay.act.review import remaining as remaining_module
from datassay.act.review.decisions import read_decisions
from datassay.act.review.remaining import BATCH, remaining
from datassay.commands.view import session as session_module
from datassay.commands.view.session import Refused
from datassay.errors import DataError
from helpers.command_line import succeed
from helpers.reviews import NAMES, blobs, copied, scored, session_of

WHEN = "2026-11-23T09:00:00+00:00"


@pytest.fixture
def session(folder):
    return session_of(folder)


def change(row, decision="keep", label=None):
    return {"row": row, "decision": decision, "label": label, "when": WHEN, "seen": 0.25}


def decide(session, *rows):
    return session.change([change(row) for row in rows])


def test_all_samples_are_listed_most_suspect_first(session, folder):
    listed, scores = session.samples(), pq.read_table(folder / "scores.parquet").to_pydict()
    assert listed["id"] == scores["id"]
    assert [listed["classes"][k] for k in listed["given"]] == scores["class_name"]
    assert [listed["classes"][k] for k in listed["suggested"]] == scores["suggested_label"]
    assert listed["wrong"] == pytest.approx(scores["wrong_probability"], abs=1e-4)
    ordered = np.array(scores["label_issue_score"])[listed["order"]]
    assert (np.diff(ordered) <= 0).all() and sorted(listed["order"]) == list(range(90))
    assert listed["suspect"] == [int(v) for v in scores["is_issue"]]
    assert listed["writable"] and listed["relabels"] == "class"


def test_a_new_session_has_the_decisions_of_the_last(session, folder):
    session.change([change(3), change(4, "relabel", NAMES[0]), change(5, "remove")])
    session.change([change(3, "unsure"), {"row": 5, "decision": None}])
    made = session_of(folder).samples()["decisions"]
    assert [(one["row"], one["decision"], one["label"]) for one in made] == [
        (4, "relabel", NAMES[0]),
        (3, "unsure", ""),  # changed last
    ]
    assert made == session.samples()["decisions"]
    assert made[0]["when"] == WHEN and made[0]["seen"] == 0.25


def test_of_two_decisions_the_later_counts_whatever_the_clock_said(session, folder):
    """Each is of its own day, the first of 2090: a clock that was put right in between."""
    for year, kind in ((2090, "keep"), (2026, "remove"), (1971, "unsure")):
        session.change([change(3, kind) | {"when": f"{year}-01-01T00:00:00+00:00"}])
        os.utime(folder / "decisions.parquet", (4e9, 4e9))
        session = session_of(folder)
        assert [d.decision for d in read_decisions(session.path).decisions] == [kind]
    assert [one["decision"] for one in session.samples()["decisions"]] == ["unsure"]


def test_the_file_says_of_which_data_and_labels(session, folder):
    decide(session, 7)
    read = read_decisions(folder / "decisions.parquet")
    assert read.digest == session.reviewed.digest and read.class_names == NAMES
    assert read.inputs["val_fraction"] == 0.0
    assert read.decisions[0].given == NAMES[session.reviewed.samples.y[7]]


def test_a_disk_that_was_full_once_does_not_end_the_review(tmp_path):
    """The first decision makes the file, the second its journal, the third adds to both."""
    run = scored(tmp_path / "made" / "run", blobs(tmp_path / "made"))

    def fails(*_):
        raise OSError(28, "No space left on device")

    for n_decided, call in ((0, "fsync"), (0, "replace"), (1, "fsync"), (2, "fsync")):
        session = session_of(copied(run, tmp_path / f"{n_decided} {call}"))
        for row in range(n_decided):
            decide(session, row)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, call, fails)
            with pytest.raises(Refused, match="No space left") as refused:
                decide(session, 50)
        assert refused.value.status == 507 and len(session) == n_decided
        assert decide(session, 51) == {"count": n_decided + 1}
        assert decide(session, 50) == {"count": n_decided + 2}
        made = [one.id for one in read_decisions(session.path).decisions]
        assert made == [*(f"<i>{row}" for row in range(n_decided)), "<i>51", "<i>50"]


def test_a_review_goes_on_where_one_was_killed_as_it_ended(session, folder):
    decide(session, 1), decide(session, 2)
    lines = (journal := folder / "decisions.parquet.journal").read_bytes()
    session.finish()
    journal.write_bytes(lines)
    assert decide(session_of(folder), 3) == {"count": 3}
    assert len(session_of(folder)) == 3


def test_two_reviews_of_one_folder_do_not_undo_each_other(session, folder):
    other = session_of(folder)
    decide(session, 1)
    decide(session, 2)
    with pytest.raises(Refused, match="another program has written") as refused:
        decide(other, 3)
    assert refused.value.status == 409
    assert len(read_decisions(folder / "decisions.parquet")) == 2


def test_two_reviews_at_once_lose_nothing(session, folder):
    def at_once(one, row):
        with contextlib.suppress(Refused):
            kept.append((one, decide(one, row) and row))

    decide(session, 89)
    for row in range(40):
        both, kept = [session_of(folder), session_of(folder)], []
        threads = [threading.Thread(target=at_once, args=(one, 2 * row % 80 + k))
                   for k, one in enumerate(both)]  # fmt: skip
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        there = {int(str(one.id)[3:]) for one in read_decisions(session.path).decisions}
        assert kept and {row for _, row in kept} <= there


def test_a_key_writes_little_and_the_end_all(session, folder):
    decide(session, *range(40))
    before = session.path.read_bytes()
    decide(session, 50), session.change([{"row": 3, "decision": None}])
    assert session.path.read_bytes() == before
    with (journal := folder / "decisions.parquet.journal").open("ab") as file:
        file.write(b'[{"id": "<i>7", "decis')  # killed in the middle of a line
    again = session_of(folder)
    assert decide(again, 51) == {"count": 41}
    made = read_decisions(session.path)
    assert [one.id for one in made.decisions][-2:] == ["<i>50", "<i>51"] and len(made) == 41
    lines = journal.read_bytes()
    assert again.finish() == 41 and not journal.exists()
    assert np.array_equal(read_decisions(session.path).to_table(), made.to_table())
    journal.write_bytes(lines)  # killed before it was removed
    assert len(read_decisions(session.path)) == 41
    session.path.write_bytes(before)
    journal.write_bytes(lines.replace(b"keep", b"unsure"))
    assert read_decisions(session.path).decisions[-1].decision == "unsure"
    pq.write_table(made.to_table().slice(0, 3), session.path)
    with pytest.raises(DataError, match="journal was begun with"):
        read_decisions(session.path)
    journal.unlink()


def test_a_file_that_is_gone_or_half_written_is_written_again_whole(session, folder):
    decide(session, 1)
    (folder / "decisions.parquet").unlink()
    decide(session, 2)
    assert len(read_decisions(folder / "decisions.parquet")) == 2
    (folder / ".decisions.parquet.0123.part").write_bytes(b"PAR1")  # of a server that was killed
    (folder / ".decisions.parquet.4567.part").mkdir()  # of nobody
    session_of(folder)
    assert [path.is_dir() for path in folder.glob(".*.part")] == [True]
    (folder / ".decisions.parquet.4567.part").rmdir()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        ({"digest": "0" * 64, "name": "wolves"}, "is about other data, wolves. Move it"),
        ({"id": "nobody"}, "its id nobody is not among its samples"),
        ({"given": "bird"}, "has another label"),
        ({"label": "bird", "decision": "relabel"}, "has the new label 'bird'"),
    ],
)
def test_decisions_about_other_labels_are_refused_by_name(session, folder, spoil, message):
    decide(session, 1)
    path = folder / "decisions.parquet"
    read = read_decisions(path)
    of_row = {name: value for name, value in spoil.items() if name not in ("digest", "name")}
    (row,) = read.decisions
    about = {name: value for name, value in spoil.items() if name not in of_row}
    pq.write_table(replace(read, decisions=(replace(row, **of_row),), **about).to_table(), path)
    with pytest.raises(DataError, match=message):
        session_of(folder)
    assert path.exists()


def test_what_is_left_is_ordered_anew(session):
    suspects = np.flatnonzero(session.reviewed.worth_a_look).tolist()
    session.change([change(suspects[0]), change(suspects[1], "remove")])
    session.change([change(suspects[2], "relabel", NAMES[0])])
    left = session.remaining()
    assert sorted(left["order"]) == list(range(90))
    assert left["order"][-3:] == [suspects[0], suspects[1], suspects[2]]
    assert len(left["wrong"]) == 90 and not {*left["finds"]} & {*suspects}
    assert left["learned"] == 0 and left["outcome"].startswith(
        "3 of 90 labels reviewed, 0 of them wrong; of the other 87, "
    )
    assert isinstance(left["sentence"], str) and isinstance(left["enough"], bool)


def test_what_nobody_looked_at_teaches_nothing_and_what_is_decided_stays_as_it_was_shown(
    session, monkeypatch
):
    """Those accepted at once share their time; others are looked at one by one."""
    seen = []

    def note(judged, known, passed):
        seen.append((dict(known), list(passed)))
        return remaining(judged, known, passed)

    monkeypatch.setattr(remaining_module, "remaining", note)
    before = session.samples()
    at_once, alone = list(range(10)), list(range(10, BATCH + 10))
    decide(session, *at_once)
    kinds = ("keep", "relabel", "remove", "unsure")
    for k, row in enumerate(alone):
        kind = kinds[k % 4]
        made = change(row, kind, NAMES[0] if kind == "relabel" else None)
        session.change([made | {"when": f"2026-11-23T09:01:{k:02}+00:00"}])
    left = session.remaining()
    known, passed = seen[0]  # of whole batches; then of all, for how many are wrong
    y = session.reviewed.samples.y
    counted = alone[: BATCH - 10]  # those of the last whole batch, the others wait
    expected = {row: int(y[row]) if k % 4 == 0 else 0 for k, row in enumerate(counted) if k % 4 < 2}
    assert known == expected
    assert sorted(passed) == sorted({*at_once, *counted} - set(known))
    for name in ("wrong", "suggested"):
        assert [left[name][row] for row in at_once + alone] == [
            before[name][row] for row in at_once + alone
        ], name


def test_beside_a_sample_stand_those_most_like_it(session):
    row = int(np.flatnonzero(session.reviewed.worth_a_look)[0])
    (detail,) = session.details([row])
    samples, given, other = session.reviewed.samples, *detail["groups"]
    assert {one["label"] for one in given["samples"]} == {NAMES[samples.y[row]]}
    assert {one["label"] for one in other["samples"]} == {NAMES[session.reviewed.suggested[row]]}
    for group in (given, other):
        apart = [one["distance"] for one in group["samples"]]
        assert len(apart) == 4 and apart == sorted(apart)
        marked = {one["id"] for one in group["samples"] if one["suspect"]}
        assert marked <= set(samples.ids[session.reviewed.is_issue].astype(str))
    assert str(samples.ids[row]) not in {one["id"] for one in given["samples"]}


@pytest.mark.parametrize("kind", ["table", "numbers"])
def test_rows_show_the_users_own_columns(tmp_path, kind):
    inputs = {"ids": "key", "source": "shop"} if kind == "table" else {}
    session = session_of(scored(tmp_path / "run", blobs(tmp_path, 90, kind), **inputs))
    listed, (detail,) = session.samples(), session.details([4])
    names = [name for name, _ in detail["drawing"]["values"]]
    own = {"a", "b", "word"} if kind == "table" else {"a", "b", "c", "d"}
    assert set(names) == own
    for group in detail["groups"]:
        assert all([n for n, _ in one["drawing"]["values"]] == names for one in group["samples"])
    assert listed["sources"] == (["shop0", "shop1"] if kind == "table" else [])
    if kind == "numbers":
        assert listed["relabels"] == "number" and listed["id"][4] == "4"
        session.change([change(4, "relabel", "3.50"), change(5)])
        read = read_decisions(session.path)
        assert read.decisions[0].label == "3.5" and read.decisions[0].id == 4
        assert float(read.decisions[1].given) == pytest.approx(session.reviewed.samples.y[5])
        with pytest.raises(Refused, match="is no finite number"):
            session.change([change(4, "relabel", "nan")])
        with pytest.raises(Refused, match="must be a number"):
            session.change([change(4, "relabel", "much")])
        for no_number in (10**400, True, "1_000", "0x10", "٣", None, [1]):
            with pytest.raises(Refused, match="is no finite number"):
                session.change([change(4, "relabel", no_number)])
        for digits in ("9007199254740993", "0.12345678901234566"):
            session.change([change(4, "relabel", digits)])
            assert read_decisions(session.path).decisions[-1].label == digits


def test_several_labels_are_kept_or_removed_but_not_renamed(tmp_path):
    session = session_of(scored(tmp_path / "run", blobs(tmp_path, 90, "several")))
    listed = session.samples()
    assert listed["relabels"] == "" and {"none", "label 1"} <= set(listed["given"])
    assert session.change([change(4), change(5, "remove"), change(6, "unsure")]) == {"count": 3}
    assert [one["row"] for one in session_of(session.path.parent).samples()["decisions"]] == [
        4,
        5,
        6,
    ]
    with pytest.raises(Refused, match="cannot be given another label"):
        session.change([change(4, "relabel", "1")])
    assert len(session.remaining()["order"]) == 90


def test_labels_of_several_targets_are_taken_and_applied_as_suggested(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with np.load(blobs(tmp_path, 90, "several")) as several:
        pairs = list(zip(several["x"], several["y"], strict=True))
    rows = [",".join([*(f"{v:.3f}" for v in x), *map(str, y)]) for x, y in pairs]
    (tmp_path / "pumps.csv").write_text("\n".join(["a,b,c,d,seal,oil leak", *rows]))
    session = session_of(scored(tmp_path / "run", "pumps.csv", target="seal,oil leak"))
    listed = session.samples()
    assert listed["relabels"] == "set" and {"none", "oil leak", "seal + oil leak"} <= set(
        listed["given"]
    )
    row = next(k for k in listed["order"] if listed["suggested"][k] != listed["given"][k])
    session.change([change(row, "relabel", listed["suggested"][row]), change(5, "remove")])
    with pytest.raises(Refused, match="joined by"):
        session.change([change(7, "relabel", "seal + rust")])
    succeed("apply", "pumps.csv", "run", "--out", "clean")
    lines, before = (Path(p).read_text().splitlines() for p in ("clean/pumps.csv", "pumps.csv"))
    wanted = {"none": "0,0", "seal": "1,0", "oil leak": "0,1", "seal + oil leak": "1,1"}
    place = 1 + row - (row > 5)
    assert lines[place] == before[1 + row][:-3] + wanted[listed["suggested"][row]]
    lines.pop(place)
    assert lines == [line for k, line in enumerate(before) if k not in {6, 1 + row}]


def test_nobody_types_logarithms(session):
    samples = replace(session.reviewed.samples, class_names=(), y=np.linspace(0, 1, 90))
    logarithms = replace(session.reviewed, samples=samples, inputs={"log_target": True})
    assert logarithms.relabels == ""
    assert replace(logarithms, inputs={}).relabels == "number"


def test_a_new_suggestion_has_other_samples_beside_it(session, monkeypatch):
    monkeypatch.setattr(session_module, "BATCH", 1)
    row = int(np.flatnonzero(session.reviewed.worth_a_look)[0])
    decided = np.flatnonzero(~session.reviewed.worth_a_look)[:3].tolist()
    for k, one in enumerate(decided):
        session.change([change(one) | {"when": f"2026-11-23T09:00:{k:02d}Z"}])
    left = session.remaining()
    (detail,) = session.details([row])
    other = NAMES[left["suggested"][row]]
    assert {one["label"] for one in detail["groups"][1]["samples"]} == {other}
