"""`datassay export`: each tool's schema, what the files say, one line for bad input."""

import hashlib
import json
import sys
import types
from collections import Counter
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from datassay.act.review.label_studio import read_label_studio
from datassay.results import meaning_of
from helpers.command_line import assert_one_error_line, invoke, listed, succeed

EVIL = "<script>alert('&')</script>"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Images in an array and in a folder, texts and a table with an evil label."""
    folder = tmp_path_factory.mktemp("data")
    digits = load_digits()
    images, y = digits.images[:60].astype(np.float32), digits.target[:60] % 2
    y[:4] = 1 - y[:4]
    np.savez(folder / "images.npz", x=images, y=y, class_names=[EVIL, "odd one"])
    for i, image in enumerate(images[:30]):
        path = folder / "photos" / ("odd", "even ä")[i % 2] / f"{i} x.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype(np.uint8)).save(path)
    draw = np.random.default_rng(0)
    rows = [f"{i},{a:.3f},{b:.3f},{EVIL if a + b > 0 else 'fine'}"
            for i, (a, b) in enumerate(draw.normal(size=(60, 2)))]  # fmt: skip
    for twin in (6, 7):
        rows[twin] = f"{twin}," + rows[5].partition(",")[2]
    (folder / "table.csv").write_text("key,a,b,kind\n" + "\n".join(rows) + "\n")
    words = ["red fox", "old hat", "big sea", "new day", "low sun"]
    texts = [
        {"text": f"{' '.join(draw.choice(words, 3))} {('bad', 'good')[i % 2]}", "y": "ny"[i % 2]}
        for i in range(60)
    ]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)) + "\n")
    return folder


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """A finished run of each; the table's holds samples out."""
    out = tmp_path_factory.mktemp("runs")
    fast = ("--model", "linear", "--seed", 1)
    table = ("--target", "kind", "--ids", "key", "--val-fraction", 0.2, "--noise", 0.1)
    succeed("score", data / "images.npz", *fast, "--out", out / "images")
    succeed("score", data / "photos", *fast, "--out", out / "photos", "--noise", 0.1)
    succeed("score", data / "texts.jsonl", *fast, "--target", "y", "--text", "text",
            "--out", out / "texts")  # fmt: skip
    succeed("score", data / "table.csv", *fast, *table, "--out", out / "table")
    succeed("score", "diabetes", *fast, "--out", out / "numbers")
    return out


def export(run, to, out, *options):
    return succeed("export", run, "--to", to, "--out", out, *options)


def size_of(path):
    with Image.open(path) as image:
        return image.size


def test_every_column_of_a_run_says_what_it_holds(runs):
    for name in ("scores", "attribution"):
        schema = pq.read_schema(runs / "table" / f"{name}.parquet")
        said = {field.name: meaning_of(field) for field in schema}
        assert [column for column, told in said.items() if not told.meaning] == []
    said = {f.name: meaning_of(f) for f in pq.read_schema(runs / "table" / "scores.parquet")}
    assert said["information"].unit == "nats"
    assert said["wrong_probability"].sign == "high: more likely wrong"


def test_datalab_has_its_columns_and_low_is_bad(runs, tmp_path):
    export(runs / "table", "datalab", tmp_path)
    table = pq.read_table(tmp_path / "datalab_issues.parquet")
    scores = pq.read_table(runs / "table" / "scores.parquet")
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
    twins = {row_of[one] for one in (5, 6, 7) if one in row_of}
    sets = {row: set(rows) for row, rows in enumerate(table["near_duplicate_sets"].to_pylist())}
    assert len(twins) > 1
    assert {row: rows for row, rows in sets.items() if rows} == {r: twins - {r} for r in twins}


def annotated(tasks, labels):
    """What Label Studio exports of these tasks when a person has chosen labels, all at one time."""
    at = "2026-05-01T10:00:00Z"
    for task, label in zip(tasks, labels, strict=True):
        value = {"choices": [label]} if isinstance(label, str) else {"number": label}
        made = {"from_name": "label", "to_name": "sample", "value": value}
        task["annotations"] = [{"result": [made], "created_at": at, "updated_at": at}]
    return tasks


@pytest.mark.parametrize("name", ["images", "photos", "texts", "table", "numbers"])
def test_label_studio_shows_every_kind_and_its_export_is_read_back(runs, data, tmp_path, name):
    printed = export(runs / name, "label-studio", tmp_path / "out", "--top", 7).stdout
    tasks = json.loads((tmp_path / "out" / "tasks.json").read_text())
    config = ElementTree.fromstring((tmp_path / "out" / "config.xml").read_text())
    scores = pq.read_table(runs / name / "scores.parquet")
    rows = np.argsort(-scores["label_issue_score"].to_numpy(), kind="stable")[:7]
    assert [task["data"]["sample_id"] for task in tasks] == scores["id"].to_numpy()[rows].tolist()
    sample = config.find("*[@name='sample']")
    shown = sample.attrib["value"][1:]
    assert sample.tag == {"image": "Image", "text": "Text", "row": "Table"}[shown]
    assert all(task["data"].keys() >= {shown, "given_label", "data_digest"} for task in tasks)
    if shown == "image":
        root = data if name == "photos" else tmp_path
        places = [unquote(t["data"]["image"].removeprefix("/data/local-files/?d=")) for t in tasks]
        assert all(size_of(root / place) == (8, 8) for place in places)
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
    found = read_label_studio(exported)
    word = str if name != "numbers" else (lambda number: f"{number:.12g}")
    told = json.loads((runs / name / "summary.json").read_text())["origin"]
    assert found.digest == told["digest"]
    if name == "table":
        assert (found.inputs["target"], found.inputs["ids"]) == ("kind", "key")
    for decision, task, new in zip(found.decisions, tasks, suggested, strict=True):
        given = task["data"]["given_label"]
        assert decision.id == task["data"]["sample_id"]
        assert (decision.decision == "keep") == (word(new) == given)
        assert decision.label == ("" if word(new) == given else word(new))


def test_a_label_is_a_text_in_the_interface(runs, tmp_path):
    export(runs / "table", "label-studio", tmp_path, "--top", 3)
    config = (tmp_path / "config.xml").read_text()
    assert "<script" not in config
    choices = ElementTree.fromstring(config).iter("Choice")
    assert [choice.attrib["value"] for choice in choices] == [EVIL, "fine", "remove", "unsure"]


def test_tasks_are_the_suspects_unless_told_otherwise(runs, tmp_path):
    export(runs / "table", "label-studio", tmp_path)
    scores = pq.read_table(runs / "table" / "scores.parquet").to_pydict()
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    suspects = {
        one for one, flagged in zip(scores["id"], scores["is_issue"], strict=True) if flagged
    }
    assert {task["data"]["sample_id"] for task in tasks} == suspects
    wrong = dict(zip(scores["id"], scores["wrong_probability"], strict=True))
    assert [t["predictions"][0]["score"] for t in tasks] == [
        wrong[task["data"]["sample_id"]] for task in tasks
    ]


@pytest.mark.parametrize("name", ["table", "images", "texts"])
def test_the_atlas_carries_the_attribution_as_neighbors(runs, tmp_path, name):
    export(runs / name, "embedding-atlas", tmp_path)
    table = pq.read_table(tmp_path / "embedding_atlas.parquet")
    rows, effects = (
        table.to_pylist(),
        pq.read_table(runs / name / "attribution.parquet").to_pylist(),
    )
    n = pq.read_metadata(runs / name / "scores.parquet").num_rows
    strongest = max(abs(one["effect"]) for one in effects)
    assert len({len(row["neighbors"]["ids"]) for row in rows}) == 1
    assert np.isfinite(table["x"].to_numpy() + table["y"].to_numpy()).all()
    held_out = len(rows) - n
    first = n if held_out else 0
    assert Counter(row["split"] for row in rows) == Counter(training=n, validation=held_out)
    for query in range(len(rows) - first):
        row = rows[first + query]
        told = [one for one in effects if one["query"] == query]
        assert row["id"] == told[0]["query_id"]
        pairs = zip(row["neighbors"]["ids"], row["neighbor_effects"], strict=True)
        found = {rows[i]["id"]: effect for i, effect in pairs if effect is not None}
        assert found == {one["id"]: one["effect"] for one in told}
        near = row["neighbors"]["distances"]
        assert near == sorted(near)
        assert near[-1] == pytest.approx(1 - min(abs(e) for e in found.values()) / strongest)
    assert {"table": "a", "images": "image", "texts": "text"}[name] in table.column_names
    assert meaning_of(table.schema.field("x")).meaning.startswith("place on the map: ")


def run_script(path, monkeypatch, **modules):
    """Execute an exported script with stand-ins for the tool's modules."""
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)
    exec(compile(path.read_text(), path, "exec"), {"__file__": str(path), "__name__": "script"})


@pytest.mark.parametrize("name", ["images", "photos"])
def test_fiftyone_gets_each_image_with_both_labels(runs, tmp_path, monkeypatch, name):
    export(runs / name, "fiftyone", tmp_path)
    made = []

    class Dataset:
        def add_samples(self, samples):
            made.extend(samples)

    app = types.SimpleNamespace(wait=lambda: None)
    tool = types.SimpleNamespace(
        Dataset=Dataset, Classification=dict, launch_app=lambda dataset: app,
        Sample=lambda path, **of: {"filepath": path, **of},
    )  # fmt: skip
    run_script(tmp_path / "open_fiftyone.py", monkeypatch, fiftyone=tool)
    scores = pq.read_table(runs / name / "scores.parquet").to_pylist()
    assert [one["sample_id"] for one in made] == [str(row["id"]) for row in scores]
    assert [one["ground_truth"]["label"] for one in made] == [r["class_name"] for r in scores]
    assert [one["information"] for one in made] == [row["information"] for row in scores]
    assert all(size_of(one["filepath"]) == (8, 8) for one in made)


def test_spotlight_gets_a_frame_with_its_suspects(runs, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    export(runs / "images", "spotlight", tmp_path)
    seen = {}
    tool = types.ModuleType("renumics")
    tool.spotlight = types.SimpleNamespace(
        Embedding="embedding", Image="image",
        show=lambda frame, **of: seen.update(of, frame=frame),
    )  # fmt: skip
    issue = types.SimpleNamespace(DataIssue=lambda *of: of)
    run_script(
        tmp_path / "open_spotlight.py", monkeypatch, renumics=tool,
        renumics__spotlight=tool.spotlight, renumics__spotlight__analysis=types.ModuleType("a"),
        renumics__spotlight__analysis__typing=issue,
    )  # fmt: skip
    scores = pq.read_table(runs / "images" / "scores.parquet")
    assert seen["dtype"] == {"embedding": "embedding", "image": "image"}
    assert seen["frame"]["id"].tolist() == scores["id"].to_pylist()
    suspects = np.flatnonzero(scores["is_issue"].to_numpy(zero_copy_only=False)).tolist()
    assert seen["issues"] == [("suspected labels", suspects, "high", ["label"])]
    assert seen["frame"]["image"][0].startswith(b"\x89PNG")


def test_croissant_describes_each_column_of_the_files_beside_it(runs, tmp_path):
    export(runs / "table", "croissant", tmp_path)
    about = json.loads((tmp_path / "croissant.json").read_text())
    assert about["conformsTo"] == "http://mlcommons.org/croissant/1.1"
    for file in about["distribution"]:
        content = (tmp_path / file["contentUrl"]).read_bytes()
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
    for records in about["recordSet"]:
        schema = pq.read_schema(tmp_path / f"{records['@id']}.parquet")
        columns = [field["source"]["extract"]["column"] for field in records["field"]]
        assert columns == schema.names
    kinds = {field["name"]: field for field in about["recordSet"][0]["field"]}
    assert kinds["information"]["dataType"] == "sc:Float"
    assert "unit: nats" in kinds["information"]["description"]


def test_a_second_export_replaces_the_first_and_nothing_else(runs, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for _ in range(2):
        export(runs / "table", "datalab", tmp_path)
    assert listed(tmp_path) == ["datalab_issues.parquet", "notes.txt"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("table", "--to", "excel"), "to must be datalab, .*; got 'excel'"),
        (("table", "--to", "fiftyone"), "fiftyone must have images; table holds none"),
        (("none", "--to", "datalab"), "must hold scores.parquet"),
        (("table", "--to", "label-studio", "--top", 99), "top must lie in 1 to .*; got 99"),
        (("texts", "--to", "label-studio"), "suspects no label"),
        (("table", "--to", "spotlight", "--data", "wine"), "must be the data that .* is about"),
        (
            ("table", "--to", "spotlight", "--data", "~nouser"),
            "~nouser, the data of .*, is not there",
        ),
        (("table", "--to", "spotlight", "--data", "x" * 9999), "is not there"),
    ],
)
def test_one_line_for_bad_input(runs, tmp_path, arguments, words):
    run, *options = arguments
    result = invoke("export", runs / run, *options, "--out", tmp_path / "out")
    assert_one_error_line(result, words)
    assert not (tmp_path / "out").exists()


def test_several_targets_go_only_where_they_fit(tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "two.npz", x=draw.normal(size=(40, 3)), y=draw.normal(size=(40, 2)))
    succeed("score", tmp_path / "two.npz", "--model", "linear", "--out", tmp_path / "run")
    result = invoke("export", tmp_path / "run", "--to", "datalab", "--out", tmp_path / "out")
    assert_one_error_line(result, "datalab must have one label a sample")
    export(tmp_path / "run", "embedding-atlas", tmp_path / "atlas")
    table = pq.read_table(tmp_path / "atlas" / "embedding_atlas.parquet")
    assert pa.types.is_list(table.schema.field("label").type)
    assert Path(tmp_path / "atlas").is_dir()
