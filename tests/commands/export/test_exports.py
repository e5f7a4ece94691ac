"""`datassay export`: each tool's schema, what the files say, one line for bad input."""

import json
from functools import partial
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

from datassay.act.review.decisions import label_word
from datassay.act.review.label_studio import read_label_studio
from datassay.commands.export.material import Export
from datassay.results import meaning_of
from helpers.command_line import assert_one_error_line, invoke, listed, succeed
from helpers.exported import EVIL, data, export, runs, size_of


def test_every_column_of_a_run_says_what_it_holds():
    for name in ("scores", "attribution"):
        schema = pq.read_schema(runs() / "table" / f"{name}.parquet")
        reported = {field.name: meaning_of(field) for field in schema}
        assert [column for column, message in reported.items() if not message.meaning] == []
    reported = {f.name: meaning_of(f) for f in pq.read_schema(runs() / "table" / "scores.parquet")}
    assert reported["information"].unit == "nats"
    assert reported["wrong_probability"].sign == "high: more likely wrong"


def test_datalab_has_its_columns_and_low_is_bad(tmp_path):
    export(runs() / "table", "datalab", tmp_path)
    table = pq.read_table(tmp_path / "datalab_issues.parquet")
    scores = pq.read_table(runs() / "table" / "scores.parquet")
    assert table.column_names == [
        *("id", "is_label_issue", "label_score", "given_label", "predicted_label"),
        *("is_outlier_issue", "outlier_score", "is_near_duplicate_issue", "near_duplicate_score"),
        *("near_duplicate_sets", "distance_to_nearest_neighbor"),
    ]
    ours = scores["wrong_probability"].to_numpy()
    np.testing.assert_allclose(table["label_score"].to_numpy(), 1 - ours)
    of = {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
    for name in ("label", "outlier", "near_duplicate"):
        assert ((of[f"{name}_score"] >= 0) & (of[f"{name}_score"] <= 1)).all()
        assert meaning_of(table.schema.field(f"{name}_score")).sign == "low: bad"
    np.testing.assert_array_equal(of["is_outlier_issue"], of["outlier_score"] < 0.5)
    np.testing.assert_array_equal(of["is_near_duplicate_issue"], of["near_duplicate_score"] == 0)
    row_of = {one: row for row, one in enumerate(of["id"])}
    duplicates = {row_of[one] for one in (5, 6, 7) if one in row_of}
    sets = {row: set(rows) for row, rows in enumerate(table["near_duplicate_sets"].to_pylist())}
    assert len(duplicates) > 1
    assert {row: rows for row, rows in sets.items() if rows} == {
        r: duplicates - {r} for r in duplicates
    }


def annotated(tasks, labels):
    """What Label Studio exports of these tasks when a person has chosen labels, all at one time."""
    index = "2026-05-01T10:00:00Z"
    for task, label in zip(tasks, labels, strict=True):
        value = {"choices": [label]} if isinstance(label, str) else {"number": label}
        made = {"from_name": "label", "to_name": "sample", "value": value}
        task["annotations"] = [{"result": [made], "created_at": index, "updated_at": index}]
    return tasks


@pytest.mark.parametrize(
    "name",
    [
        "images",
        "table",
        "numbers",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("photos", "texts")),
    ],
)
def test_label_studio_shows_every_kind_and_its_export_is_read_back(tmp_path, name):
    printed = export(runs() / name, "label-studio", tmp_path / "out", "--top", 7).stdout
    tasks = json.loads((tmp_path / "out" / "tasks.json").read_text())
    config = ElementTree.fromstring((tmp_path / "out" / "config.xml").read_text())
    scores = pq.read_table(runs() / name / "scores.parquet")
    rows = np.argsort(-scores["label_issue_score"].to_numpy(), kind="stable")[:7]
    assert [task["data"]["sample_id"] for task in tasks] == scores["id"].to_numpy()[rows].tolist()
    sample = config.find("*[@name='sample']")
    shown = sample.attrib["value"][1:]
    assert sample.tag == {"image": "Image", "text": "Text", "row": "Table"}[shown]
    assert all(task["data"].keys() >= {shown, "given_label", "data_digest"} for task in tasks)
    if shown == "image":
        root = data() if name == "photos" else tmp_path
        positions = [
            unquote(t["data"]["image"].removeprefix("/data/local-files/?d=")) for t in tasks
        ]
        assert all(size_of(root / position) == (8, 8) for position in positions)
        assert f"DOCUMENT_ROOT={root}" in printed
    results = [task["predictions"][0]["result"][0] for task in tasks]
    control = config.find(f"*[@name='{results[0]['from_name']}']")
    assert {r["to_name"] for r in results} == {control.attrib["toName"]} == {"sample"}
    assert {r["type"] for r in results} == {control.tag.lower()}
    suggested = [next(iter(r["value"].values())) for r in results]
    suggested = [s[0] if isinstance(s, list) else s for s in suggested]
    if name != "numbers":
        assert set(suggested) <= {choice.attrib["value"] for choice in control}
    exported = tmp_path / "project.json"
    exported.write_text(json.dumps(annotated(tasks, suggested)))
    result = read_label_studio(exported)
    word = str if name != "numbers" else partial(label_word, ())  # with all digits
    reported = json.loads((runs() / name / "summary.json").read_text())["origin"]
    assert result.digest == reported["digest"]
    if name == "table":
        assert (result.inputs["target"], result.inputs["ids"]) == ("kind", "key")
    for decision, task, new in zip(result.decisions, tasks, suggested, strict=True):
        given = task["data"]["given_label"]
        assert decision.id == task["data"]["sample_id"]
        assert (decision.decision == "keep") == (word(new) == given)
        assert decision.label == ("" if word(new) == given else word(new))


def test_tasks_are_the_labels_to_review_unless_told_otherwise(tmp_path):
    export(runs() / "table", "label-studio", tmp_path)
    scores = pq.read_table(runs() / "table" / "scores.parquet").to_pydict()
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    columns = ("id", "is_issue", "worth_a_look", "label", "suggested_label", "wrong_probability")
    wrong = {
        one: p if given != suggested else 1 - p
        for one, first, second, given, suggested, p in zip(*map(scores.get, columns), strict=True)
        if first or second
    }
    assert any(scores["worth_a_look"]) and sum(scores["is_issue"]) < len(wrong)
    assert {t["data"]["sample_id"]: t["predictions"][0]["score"] for t in tasks} == wrong
    config = (tmp_path / "config.xml").read_text()  # a label is a text in it
    assert "<script" not in config
    choices = ElementTree.fromstring(config).iter("Choice")
    assert [choice.attrib["value"] for choice in choices] == [EVIL, "fine", "remove", "unsure"]


def test_a_second_export_replaces_the_first_and_nothing_else(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        export(runs() / "table", "datalab", tmp_path)
    assert listed(tmp_path) == ["datalab_issues.parquet", "notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("table", "--to", "excel"), "to must be datalab, label-studio.*; got 'excel'"),
        (("none", "--to", "datalab"), "must hold scores.parquet"),
        (("table", "--to", "label-studio", "--top", 999), "top must lie in 1 to .*; got 999"),
        (("texts", "--to", "label-studio"), "has no label that is worth a look"),
    ],
)
def test_one_line_for_bad_input(tmp_path, arguments, words):
    run, *options = arguments
    result = invoke("export", runs() / run, *options, "--out", tmp_path / "out")
    assert_one_error_line(result, words)
    assert not (tmp_path / "out").exists()


def test_several_targets_go_only_where_they_fit(tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "two.npz", x=draw.normal(size=(40, 3)), y=draw.normal(size=(40, 2)))
    succeed("score", tmp_path / "two.npz", "--model", "linear", "--out", tmp_path / "run")
    result = invoke("export", tmp_path / "run", "--to", "datalab", "--out", tmp_path / "out")
    assert_one_error_line(result, "datalab must have one label per sample")


@pytest.mark.parametrize(
    ("added", "predicted"),
    [
        ("text", "mine of datassay.exports must name an Export; it names a str"),
        (Export("datalab", "", print), "an export must have a name of its own; .* another datalab"),
    ],
)
def test_an_export_of_another_package_replaces_none_of_ours(monkeypatch, added, predicted):
    run = runs() / "table"  # made before, without the plug-in
    monkeypatch.setattr("datassay.plugins.plugins", lambda group: {"mine": added})
    assert_one_error_line(invoke("export", run, "--to", "datalab"), predicted)
