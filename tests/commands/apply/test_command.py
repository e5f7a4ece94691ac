"""`datassay apply`: what was decided becomes data, all of it or none."""

import csv
import json
import os
from collections import Counter

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datassay.data import load
from datassay.data.back.origin import source_digest
from datassay.data.back.original import read_changelog
from helpers.command_line import assert_one_error_line, invoke, succeed
from helpers.decided import WHEN, decided

TABLE = 'key;x;y\r\nA1;1,5;"good"\r\nA2;2,5;bad\r\nA3;0,5;good\r\nA4;3,5;bad\r\nA5;1,0;good\r\n'
EXPECTED = TABLE.replace("bad\r\nA3;0,5;good", '"good"').encode()
ROWS = [("A2", "relabel", "bad", "good"), ("A3", "remove", "good", ""), ("A4", "keep", "bad", "")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_bytes(TABLE.encode())
    decided("a.csv", "d.parquet", ROWS, target="y", ids="key")
    return tmp_path


def test_the_same_file_with_other_labels(here):
    result = succeed("apply", "a.csv", "d.parquet", "--out", "clean")
    assert (here / "clean/a.csv").read_bytes() == EXPECTED
    assert (here / "a.csv").read_bytes() == TABLE.encode()
    assert "1 label changed" in result.stdout and "1  bad → good" in result.stdout
    assert "1 sample removed, 4 of 5 stay" in result.stdout
    with open("clean/changelog.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["id"], r["decision"], r["given"], r["label"], r["new_id"]) for r in rows] == [
        ("A2", "relabel", "bad", "good", "A2"),
        ("A3", "remove", "good", "", ""),
        ("A4", "keep", "bad", "", "A4"),
    ]
    assert rows[0]["when"] == "2026-03-01T12:00:00+00:00"
    assert not [p for p in here.iterdir() if p.name.startswith(".")]
    train, val = load("clean", target="y", ids="key")
    assert val is None and train.ids.tolist() == ["A1", "A2", "A4", "A5"]
    assert train.y.tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("words", [["10%", "20%"], ["1,000", "5,000"], ["NA", "EU"]])
def test_labels_that_look_like_amounts_or_gaps_come_back_as_they_are(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    lines = ["u,y\n", *(f'{i}.5,"{words[i % 2]}"\n' for i in range(40))]
    lines = [line.replace('"', "") if "," not in words[0] else line for line in lines]
    (tmp_path / "a.csv").write_text("".join(lines))
    decided("a.csv", "d.parquet", [("3", "relabel", words[1], words[0])], target="y")
    succeed("apply", "a.csv", "d.parquet", "--out", "clean")
    lines[4] = lines[4].replace(words[1], words[0])
    assert (tmp_path / "clean/a.csv").read_text() == "".join(lines)


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["yes", "no"])])
def test_files_of_polars_come_back_with_their_types(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    table = pl.DataFrame({"u": np.arange(20) + 0.5, "k": ["a", "b"] * 10, "y": ["no", "yes"] * 10})
    table = table.with_columns(pl.col("y").cast(kind))
    table.write_ipc("a.arrow")
    rows = [("3", "relabel", "yes", "no"), ("5", "remove", "yes", "")]
    decided("a.arrow", "d.parquet", rows, target="y")
    succeed("apply", "a.arrow", "d.parquet", "--out", "clean")
    again = pl.read_ipc("clean/a.arrow")
    assert again.schema == table.schema and again["y"].to_list() == [
        *["no", "yes", "no", "no", "no"], *["no", "yes"] * 7
    ]  # fmt: skip


def test_rows_of_several_targets_are_removed_and_none_is_given_another(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = ["u,w,v\n", *(f"{i}.5,w{i % 2},{i * i}\n" for i in range(30))]
    (tmp_path / "two.csv").write_text("".join(lines))
    decided("two.csv", "d.parquet", [("3", "remove", "", "")], target="u,v")
    succeed("apply", "two.csv", "d.parquet", "--out", "clean")
    assert (tmp_path / "clean/two.csv").read_text() == "".join(lines[:4] + lines[5:])
    assert load("clean", target="u,v")[0].y[3].tolist() == [4.5, 16]
    decided("two.csv", "e.parquet", [("3", "relabel", "", "1.0")], target="u,v")
    assert_one_error_line(invoke("apply", "two.csv", "e.parquet", "--out", "o"), "these have 2")
    (tmp_path / "gap.csv").write_text("".join(lines).replace("\n2.5,w0,4\n", "\n2.5,w0,\n"))
    decided("gap.csv", "g.parquet", [("3", "remove", "", "")], target="u,v")
    succeed("apply", "gap.csv", "g.parquet", "--out", "o")  # a row that misses one target stays
    assert (tmp_path / "o/gap.csv").read_text().splitlines()[2:4] == ["1.5,w1,1", "2.5,w0,"]


@pytest.mark.parametrize("file", ["a.csv", "a.jsonl", "a.parquet", "a.npz", "f.parquet", "f.npz"])
def test_new_targets_keep_their_digits(tmp_path, file):
    old, new = (2**53 + 1 + 2 * np.arange(30)).tolist(), 2**53 + 3
    if file[0] == "f":
        old, new = np.random.default_rng(0).normal(size=30).tolist(), 0.12345678901234566
    y = np.array(old, dtype="f4" if file == "f.parquet" else None)
    path, x = tmp_path / file, np.arange(30.0) ** 2
    if file == "a.csv":
        path.write_text("".join(["x,y\n", *(f"{a},{b}\n" for a, b in zip(x, old, strict=True))]))
    elif file == "a.jsonl":
        path.write_text(
            "\n".join(json.dumps({"x": a, "y": b}) for a, b in zip(x, old, strict=True))
        )
    elif file.endswith("npz"):
        np.savez(path, x=x[:, None], y=y)
    else:
        pq.write_table(pa.table({"x": x, "y": y}), path)
    decided(path, tmp_path / "d.parquet", [(4, "relabel", "", str(new)), (5, "remove", "", "")])
    succeed("apply", path, tmp_path / "d.parquet", "--out", tmp_path / "out")
    made = tmp_path / "out" / file
    if file == "a.csv":
        after = [int(line.split(",")[1]) for line in made.read_text().splitlines()[1:]]
    elif file == "a.jsonl":
        after = [json.loads(line)["y"] for line in made.read_text().splitlines()]
    else:
        after = np.load(made)["y"] if file.endswith("npz") else pq.read_table(made)["y"]
        after = after.tolist() if file.endswith("npz") else after.to_pylist()
    assert after == [*y.tolist()[:4], np.array(new, y.dtype).item(), *y.tolist()[6:]]


def test_decisions_of_a_page_and_of_label_studio(here):
    digest, inputs = source_digest("a.csv"), {"target": "y", "ids": "key"}
    rows = [{"id": i, "decision": kind, "given": given, "label": label or None, "seen_score": None,
             "when": WHEN.isoformat()} for i, kind, given, label in ROWS]  # fmt: skip
    about = {"digest": digest, "name": "a", "class_names": ["bad", "good"], "inputs": inputs}
    page = {"datassay.decisions": about | {"integer_ids": False}, "decisions": rows}
    (here / "decisions.json").write_text(json.dumps(page))
    succeed("apply", "a.csv", "decisions.json")
    assert (here / "clean/a.csv").read_bytes() == EXPECTED
    tasks = [
        {
            "data": {"sample_id": i, "given_label": given, "data_digest": digest,
                     "data_inputs": inputs},
            "annotations": [{"created_at": WHEN.isoformat(), "result": [
                {"from_name": "fate" if kind == "remove" else "label",
                 "value": {"choices": ["remove" if kind == "remove" else label or given]}}
            ]}],
        }
        for i, kind, given, label in ROWS
    ]  # fmt: skip
    (here / "export.json").write_text("\n" + json.dumps(tasks))
    succeed("apply", "a.csv", "export.json", "--out", "other")
    assert (here / "other/a.csv").read_bytes() == EXPECTED


def test_row_numbers_move_up_and_the_changelog_knows(here):
    decided("a.csv", "d.parquet", [(0, "remove", "good", ""), (3, "remove", "bad", "")])
    result = succeed("apply", "a.csv", "d.parquet", "--out", "clean")
    assert "have new numbers" in result.stdout
    log = read_changelog(here / "clean")
    assert log is not None and log.is_numbered
    assert log.new_ids(np.arange(5)) == ["", "0", "1", "", "2"]


def test_the_run_beside_the_decisions_says_how_the_data_are_read(here):
    digest = pq.read_table("d.parquet").schema.metadata[b"datassay.decisions"]
    os.mkdir("report")
    decided("a.csv", "report/decisions.parquet", ROWS)
    origin = {"inputs": {"data": "a.csv", "target": "y", "ids": "key", "noise": 0.0},
              "digest": json.loads(digest)["digest"], "noise": 0.0}  # fmt: skip
    (here / "report/summary.json").write_text(json.dumps({"origin": origin}))
    result = succeed("apply", "a.csv", "report/decisions.parquet")
    assert "datassay run clean --before report" in result.stdout
    origin["inputs"]["noise"] = 0.1
    (here / "report/summary.json").write_text(json.dumps({"origin": origin}))
    result = invoke("apply", "a.csv", "report/decisions.parquet", "--out", "other")
    assert_one_error_line(result, "a run with --noise 0.1, whose flipped labels are in no file")
    assert not (here / "other").exists()


def test_suggestions_are_accepted_where_nobody_decided(here):
    os.mkdir("report")
    made = decided("a.csv", "report/decisions.parquet", ROWS[2:], target="y", ids="key")
    origin = {"inputs": {"data": "a.csv", "target": "y", "ids": "key"}, "noise": 0.0}
    origin["digest"] = source_digest("a.csv")
    (here / "report/summary.json").write_text(json.dumps({"origin": origin}))
    label = ["good", "bad", "good", "bad", "good"]
    other = ["bad" if one == "good" else "good" for one in label]
    scores = {"id": [f"A{i}" for i in range(1, 6)], "label": [1, 0, 1, 0, 1], "class_name": label,
              "suggested_label": other,
              "wrong_probability": [0.1, 0.95, 0.2, 0.99, 0.9]}  # fmt: skip
    pq.write_table(pa.table(scores), "report/scores.parquet")
    least = ("--accept-suggested", "0.9")
    succeed("apply", "a.csv", "report", *least)  # A4 is kept: somebody decided so
    assert load("clean", target="y", ids="key")[0].y.tolist() == [1, 1, 1, 0, 0]
    os.remove(made)
    for unreviewed in ("report", made):
        result = invoke("apply", "a.csv", unreviewed)
        assert_one_error_line(
            result, "nobody has reviewed this run yet. Run datassay view report, or"
        )
    assert "3 labels changed" in succeed("apply", "a.csv", "report", *least).stdout
    assert_one_error_line(invoke("apply", "a.csv", "d.parquet", *least), "must hold scores.parquet")
    copies = [False, False, True, True, True]  # A4 stays: somebody decided so
    assert_one_error_line(invoke("apply", "a.csv", "report", "--drop-copies"), "it lacks is_copy")
    pq.write_table(pa.table(scores | {"is_copy": copies}), "report/scores.parquet")
    decided("a.csv", "report/decisions.parquet", ROWS[2:], target="y", ids="key")
    for more, y in (((), [1, 0, 0]), (least, [1, 1, 0])):  # A2 is relabelled as suggested
        succeed("apply", "a.csv", "report", "--drop-copies", *more)
        clean = load("clean", target="y", ids="key")[0]
        assert clean.ids.tolist() == ["A1", "A2", "A4"] and clean.y.tolist() == y
    result = invoke("apply", "a.csv", "report", "--accept-suggested", "9")
    assert_one_error_line(result, r"accept-suggested must lie in \[0, 1\]; got 9")


def test_targets_beside_an_input_that_looks_wrong_stay_and_are_counted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "n.csv").write_text("x,y\n0.5,1.25\n1.5,20.5\n0,3.75\n2.5,4\n")
    os.mkdir("report")
    origin = {"inputs": {"data": "n.csv", "target": "y"}, "digest": source_digest("n.csv")}
    (tmp_path / "report/summary.json").write_text(json.dumps({"origin": origin}))
    scores = {"id": list(range(4)), "label": [1.25, 20.5, 3.75, 4.0],
              "suggested_label": [1.0, 2.5, 3.75, 4.0],
              "wrong_probability": [0.1, 0.95, 0.99, 0.2]}  # fmt: skip
    pq.write_table(pa.table(scores), "report/scores.parquet")
    text = succeed("apply", "n.csv", "report", "--accept-suggested", "0.9").stdout
    assert load("clean", target="y")[0].y.tolist() == [1.25, 2.5, 3.75, 4.0]
    assert "1 label changed" in text and "1 suspected target as before: an input looks" in text


def test_options_win_over_what_the_decisions_say(here):
    decided("a.csv", "d.parquet", ROWS, target="x")
    assert_one_error_line(invoke("apply", "a.csv", "d.parquet", "--ids", "key"), "have '2.5'")
    succeed("apply", "a.csv", "d.parquet", "--target", "y", "--ids", "key")
    assert (here / "clean/a.csv").read_bytes() == EXPECTED


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("A9", "remove", "good", "")], "they have no id A9"),
        ([("A1", "relabel", "good", "ugly")], "they have no class ugly. The classes are bad, good"),
        ([("A1", "relabel", "bad", "good")], "must be the one that was reviewed, 'bad'"),
        ([("A1", "keep", "good", ""), ("A1", "remove", "good", "")], "A1 occurs more than once"),
        ([(f"A{i}", "remove", "", "") for i in range(1, 6)], "must leave some samples"),
        ([("A2", "remove", "", ""), ("A4", "remove", "", "")], "must be readable again; .*2 class"),
    ],
)
def test_decisions_that_cannot_be_carried_out(here, rows, message):
    decided("a.csv", "d.parquet", rows, target="y", ids="key")
    before = sorted(p.name for p in here.iterdir())
    result = invoke("apply", "a.csv", "d.parquet", "--out", "clean")
    assert_one_error_line(result, message)
    assert sorted(p.name for p in here.iterdir()) == before


def test_damaged_decisions_and_those_about_other_data_are_refused(here):
    (here / "b.csv").write_bytes(TABLE.encode() + b"A6;2,0;bad\r\n")
    other = r"d\.parquet must hold decisions about b\.csv; they are about oth"
    assert_one_error_line(invoke("apply", "b.csv", "d.parquet"), other)
    (here / "d.parquet").write_bytes((here / "d.parquet").read_bytes()[:-30])
    assert_one_error_line(invoke("apply", "a.csv", "d.parquet"), r"d\.parquet cannot be read")
    assert_one_error_line(invoke("apply", "a.csv", "none.parquet"), "must be a file of decisions")
    assert_one_error_line(invoke("apply", "a.csv", "a.csv"), r"a\.csv must hold decisions: Parquet")
    (here / "d.json").write_text(" [1]")
    assert_one_error_line(invoke("apply", "a.csv", "d.json"), "Label Studio")
    assert not (here / "clean").exists()


def test_targets_that_are_taken_are_refused(here):
    os.mkdir("mine")
    (here / "mine/thesis.txt").write_text("years")
    for options in ([], ["--overwrite"]):
        result = invoke("apply", "a.csv", "d.parquet", "--out", "mine", *options)
        assert_one_error_line(result, "mine holds something else")
    assert (here / "mine/thesis.txt").read_text() == "years"
    for out, message in (
        ("clean.csv", "Give --out clean"),
        (".", "out must not replace what is read"),
        ("a.csv/clean", "out must be a folder"),
        ("/proc/clean", "proc"),
    ):
        assert_one_error_line(invoke("apply", "a.csv", "d.parquet", "--out", out), message)


def test_an_earlier_result_is_replaced_unless_it_was_changed(here):
    succeed("apply", "a.csv", "d.parquet")
    decided("a.csv", "d.parquet", ROWS[:1], target="y", ids="key")
    succeed("apply", "a.csv", "d.parquet")
    assert b"A3" in (here / "clean/a.csv").read_bytes()
    with open("clean/a.csv", "a") as file:
        file.write("A6;1,0;good\n")
    result = invoke("apply", "a.csv", "d.parquet")
    assert_one_error_line(
        result, "changed since datassay apply made them; in clean a.csv is changed."
    )
    assert b"A6" in (here / "clean/a.csv").read_bytes()
    succeed("apply", "a.csv", "d.parquet", "--overwrite")
    assert b"A6" not in (here / "clean/a.csv").read_bytes()
    (here / "clean/a.csv").unlink()
    assert_one_error_line(invoke("apply", "a.csv", "d.parquet"), "in clean a.csv is missing.")
    (here / "clean/.git").mkdir()
    for name in ("notes.txt", "b.csv"):
        (here / "clean" / name).write_text("mine")
    message = "a.csv is missing and .git, b.csv, notes.txt are new. Choose another folder, or give"
    assert_one_error_line(invoke("apply", "a.csv", "d.parquet"), message)
    assert (here / "clean/notes.txt").read_text() == "mine"
    succeed("apply", "a.csv", "d.parquet", "--overwrite")
    assert (here / "clean/a.csv").exists()


def test_an_array_whose_rows_are_not_those_that_stay_is_not_written(tmp_path, monkeypatch):
    from datassay.data.formats import npz

    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", x=np.arange(30.0).reshape(10, 3), y=np.arange(10) % 2)
    decided("a.npz", "d.parquet", [("3", "remove", "1", "")])
    plain = npz._drop_rows

    def rolled(content, name, keep, changed):
        return plain(content, name, np.roll(keep, name == "x"), changed)

    with monkeypatch.context() as patch:
        patch.setattr(npz, "_drop_rows", rolled)
        assert_one_error_line(invoke("apply", "a.npz", "d.parquet"), "must read as decided.*(x)")
    succeed("apply", "a.npz", "d.parquet")
    assert np.load("clean/a.npz")["x"][:, 0].tolist() == [0, 3, 6, *range(12, 30, 3)]


def test_a_failure_while_writing_leaves_nothing(here, monkeypatch):
    from datassay.data.formats import delimited

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("datassay.commands.apply.job.check_written", full)
        result = invoke("apply", "a.csv", "d.parquet")
        assert_one_error_line(result, "writing to clean failed: No space left")
    # What is written is read again before it counts.
    monkeypatch.setattr(delimited, "rewrite_text", lambda text, *_: text)
    assert_one_error_line(invoke("apply", "a.csv", "d.parquet"), "must read as decided")
    assert sorted(p.name for p in here.iterdir()) == ["a.csv", "d.parquet"]


def pictures(root):
    from PIL import Image

    rng = np.random.default_rng(0)
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (8, 8), dtype=np.uint8)).save(root / name)


@pytest.mark.parametrize("copy", [False, True])
def test_photographs_by_links_or_copies(here, copy):
    pictures(here / "photos")
    rows = [("cat/1.png", "relabel", "cat", "dog"), ("dog/2.png", "unsure", "dog", "")]
    decided("photos", "p.parquet", rows)
    succeed("apply", "photos", "p.parquet", *["--copy"] * copy)
    train, _ = load("clean", val_fraction=0.0)
    assert train.ids.tolist() == ["cat/2.png", "dog/1-2.png", "dog/1.png", "dog/2.png"]
    assert not train.columns  # nothing that is no image is told of
    assert (here / "clean/dog/1-2.png").samefile(here / "photos/cat/1.png") is not copy
    log = read_changelog(here / "clean")
    assert log is not None
    assert log.new_ids(np.array(["cat/1.png", "cat/2.png"])) == ["dog/1-2.png", "cat/2.png"]
    decided("clean", "p.parquet", [("cat/2.png", "keep", "cat", "")])  # and once more
    succeed("apply", "clean", "p.parquet", "--out", "twice")
    assert load("twice", val_fraction=0.0)[0].ids.tolist() == train.ids.tolist()
    result = invoke("apply", "clean", "p.parquet", "--out", "clean/inside")
    assert_one_error_line(result, "out must lie outside of what is read")


def test_a_built_in_set(here):
    given = load("wine", val_fraction=0.0)[0]
    other = given.class_names[(given.y[0] + 1) % 3]
    decided("wine", "w.parquet", [(0, "relabel", given.class_names[given.y[0]], other)])
    succeed("apply", "wine", "w.parquet")
    after = load("clean", val_fraction=0.0)[0]
    assert after.class_names[after.y[0]] == other and len(after) == len(given)


def test_parquet_of_other_types(here):
    y = pa.array([True, False, True, False, True])
    pq.write_table(pa.table({"x": [1.5, 2.5, 0.5, 3.0, 9.0], "y": y}), "t.parquet")
    decided("t.parquet", "d.parquet", [(1, "relabel", "False", "True")])
    succeed("apply", "t.parquet", "d.parquet")
    after = pq.read_table("clean/t.parquet")["y"]
    assert after.type == pa.bool_()
    assert Counter(after.to_pylist()) == {True: 4, False: 1}


def test_logarithms_are_no_targets(here):
    with open("r.csv", "w") as file:
        file.write("x,y\n" + "".join(f"{i},{i**3 + 0.5}\n" for i in range(30)))
    decided("r.csv", "d.parquet", [(3, "remove", "3.3", "")], log_target=True)
    succeed("apply", "r.csv", "d.parquet")
    decided("r.csv", "d.parquet", [(3, "relabel", "3.3", "4")], log_target=True)
    assert_one_error_line(invoke("apply", "r.csv", "d.parquet"), "--log-target")


def test_labels_that_spreadsheets_would_compute_stay_text(here):
    (here / "f.csv").write_text("x,y\n1,=1+1\n2,<script>\n3,=1+1\n4,<script>\n")
    decided("f.csv", "d.parquet", [(0, "relabel", "=1+1", "<script>")])
    succeed("apply", "f.csv", "d.parquet")
    assert (here / "clean/f.csv").read_text() == "x,y\n1,<script>\n2,<script>\n3,=1+1\n4,<script>\n"
    assert "'=1+1" in (here / "clean/changelog.csv").read_text()
    log = read_changelog(here / "clean")
    assert log is not None and log.rows[0]["given"] == "=1+1"
