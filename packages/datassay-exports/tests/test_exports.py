"""Tools that datassay-exports adds: each one's schema, what the files say, bad input."""

import hashlib
import json
import sys
import types
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datassay.results import meaning_of
from helpers.command_line import assert_one_error_line, invoke, succeed
from helpers.exported import export, runs, size_of


@pytest.mark.parametrize("name", ["table", "images", "texts"])
def test_the_atlas_carries_the_attribution_as_neighbors(tmp_path, name):
    export(runs() / name, "embedding-atlas", tmp_path)
    table = pq.read_table(tmp_path / "embedding_atlas.parquet")
    rows, effects = (
        table.to_pylist(),
        pq.read_table(runs() / name / "attribution.parquet").to_pylist(),
    )
    n = pq.read_metadata(runs() / name / "scores.parquet").num_rows
    strongest = max(abs(one["effect"]) for one in effects)
    assert len({len(row["neighbors"]["ids"]) for row in rows}) == 1
    assert np.isfinite(table["x"].to_numpy() + table["y"].to_numpy()).all()
    held_out = len(rows) - n
    first = n if held_out else 0
    assert Counter(row["split"] for row in rows) == Counter(training=n, validation=held_out)
    for query in range(len(rows) - first):
        row = rows[first + query]
        reported = [one for one in effects if one["query"] == query]
        assert row["id"] == reported[0]["query_id"]
        pairs = zip(row["neighbors"]["ids"], row["neighbor_effects"], strict=True)
        results = {rows[i]["id"]: effect for i, effect in pairs if effect is not None}
        assert results == {one["id"]: one["effect"] for one in reported}
        near = row["neighbors"]["distances"]
        assert near == sorted(near)
        assert near[-1] == pytest.approx(1 - min(abs(e) for e in results.values()) / strongest)
    assert {"table": "a", "images": "image", "texts": "text"}[name] in table.column_names
    assert meaning_of(table.schema.field("x")).meaning.startswith("map coordinate: ")


def run_script(path, monkeypatch, **modules):
    """Execute an exported script with stand-ins for the tool's modules."""
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name.replace("__", "."), module)
    exec(compile(path.read_text(), path, "exec"), {"__file__": str(path), "__name__": "script"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["images", "photos"])
def test_fiftyone_gets_each_image_with_both_labels(tmp_path, monkeypatch, name):
    export(runs() / name, "fiftyone", tmp_path)
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
    scores = pq.read_table(runs() / name / "scores.parquet").to_pylist()
    assert [one["sample_id"] for one in made] == [str(row["id"]) for row in scores]
    assert [one["ground_truth"]["label"] for one in made] == [r["class_name"] for r in scores]
    assert [one["information"] for one in made] == [row["information"] for row in scores]
    assert all(size_of(one["filepath"]) == (8, 8) for one in made)


def test_spotlight_gets_a_frame_with_its_suspects(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    export(runs() / "images", "spotlight", tmp_path)
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
    scores = pq.read_table(runs() / "images" / "scores.parquet")
    assert seen["dtype"] == {"embedding": "embedding", "image": "image"}
    assert seen["frame"]["id"].tolist() == scores["id"].to_pylist()
    suspects = np.flatnonzero(scores["is_issue"].to_numpy(zero_copy_only=False)).tolist()
    assert seen["issues"] == [("suspected labels", suspects, "high", ["label"])]
    assert seen["frame"]["image"][0].startswith(b"\x89PNG")


def test_croissant_describes_each_column_of_the_files_beside_it(tmp_path):
    export(runs() / "table", "croissant", tmp_path)
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("table", "--to", "fiftyone"), "fiftyone must have images; table holds none"),
        (("table", "--to", "spotlight", "--data", "wine"), "must be the data that .* is about"),
        (
            ("table", "--to", "spotlight", "--data", "~nouser"),
            "~nouser, the data of .*, is not there",
        ),
        (("table", "--to", "spotlight", "--data", "x" * 9999), "is not there"),
    ],
)
def test_one_line_for_bad_input(tmp_path, arguments, words):
    run, *options = arguments
    result = invoke("export", runs() / run, *options, "--out", tmp_path / "out")
    assert_one_error_line(result, words)
    assert not (tmp_path / "out").exists()


def test_named_training_samples_and_numbered_validation_samples_go_to_the_atlas(tmp_path):
    x, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    ids = np.array([f"n{i}" for i in range(40)])
    np.savez(tmp_path / "a.npz", x=x[:40], y=y[:40], ids=ids, x_val=x[40:], y_val=y[40:])
    succeed("score", tmp_path / "a.npz", "--model", "linear", "--out", tmp_path / "run")
    export(tmp_path / "run", "embedding-atlas", tmp_path / "atlas")
    table = pq.read_table(tmp_path / "atlas" / "embedding_atlas.parquet")
    assert table["id"].to_pylist() == [*ids.tolist(), *map(str, range(20))]


def test_several_targets_go_to_the_atlas(tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "two.npz", x=draw.normal(size=(40, 3)), y=draw.normal(size=(40, 2)))
    succeed("score", tmp_path / "two.npz", "--model", "linear", "--out", tmp_path / "run")
    export(tmp_path / "run", "embedding-atlas", tmp_path / "atlas")
    table = pq.read_table(tmp_path / "atlas" / "embedding_atlas.parquet")
    assert pa.types.is_list(table.schema.field("label").type)


def test_help_names_them():
    text = " ".join(succeed("export", "--help").stdout.split())
    assert "From other packages: croissant, embedding-atlas, fiftyone, spotlight" in text
