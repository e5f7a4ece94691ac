"""The files of a run: complete, plain, and never half-written."""

import csv
import io
import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from datassay.commands import write_results
from datassay.commands.run.gallery import build_review
from datassay.commands.run.suspects import suspects_file, suspects_shown
from datassay.commands.run.table import score_section
from datassay.data.samples import SampleSet
from datassay.report.wording import percent
from helpers.findings import (
    EVIL,
    digit_samples,
    issues_of,
    make_findings,
    regression_samples,
    row_samples,
    with_sources,
)
from helpers.toy_score import SCORE, Rarity

NAMES = {".datassay.json", "attribution.parquet", "index.html", "scores.parquet", "summary.json"}
NAMES |= {"suspects.csv"}


def names(folder):
    return {p.name for p in folder.iterdir()}


def strict_json(path):
    def refuse(token):
        raise AssertionError(f"{token} is not JSON")

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)


def test_table_has_a_row_a_sample_and_names_for_classes(tmp_path):
    result = make_findings()
    write_results(result, tmp_path)
    table = pq.read_table(tmp_path / "scores.parquet")
    assert table.column_names == [
        "id", "label", "class_name", "suggested_label", "is_issue", "worth_a_look",
        "label_issue_score", "wrong_probability", "information", "prediction_change",
        "weight_change", "loss", "margin", "true_label",
    ]  # fmt: skip
    samples, issues, class_names = (
        result.samples,
        result.issues,
        np.array(result.samples.class_names),
    )
    expected = {
        "id": samples.ids, "label": samples.y, "class_name": class_names[samples.y],
        "suggested_label": class_names[issues.suggested_label], "is_issue": issues.is_issue,
        "label_issue_score": issues.score, "wrong_probability": issues.probability,
        "information": result.information.information,
        "prediction_change": result.leave_one_out.prediction_change,
        "weight_change": result.leave_one_out.weight_change, "loss": result.baselines.loss,
        "margin": result.baselines.margin, "true_label": class_names[samples.true_y],
    }  # fmt: skip
    assert {name: table[name].to_pylist() for name in expected} == {
        name: values.tolist() for name, values in expected.items()
    }
    assert (samples.y != issues.suggested_label).any()
    assert EVIL in table["class_name"].to_pylist()


def test_table_of_a_regression_without_truth_or_networks(tmp_path):
    samples = regression_samples()
    samples = replace(samples, y=np.stack([samples.y, -samples.y], 1))
    text = make_findings(regression_samples(), baselines=None)
    text = replace(text, samples=samples)
    write_results(text, tmp_path)
    table = pq.read_table(tmp_path / "scores.parquet")
    assert not {"class_name", "loss", "margin", "true_label"} & set(table.column_names)
    assert table["label"][0].as_py() == [samples.y[0, 0], -samples.y[0, 0]]


def test_ids_keep_their_type_so_that_the_table_joins(tmp_path):
    write_results(make_findings(row_samples()), tmp_path)
    assert str(pq.read_schema(tmp_path / "scores.parquet").field("id").type) == "int64"
    samples = row_samples()
    names = np.array([f"s{i}" for i in samples.ids], dtype=object)
    write_results(make_findings(replace(samples, ids=names)), tmp_path)
    assert pq.read_table(tmp_path / "scores.parquet")["id"].to_pylist()[:2] == ["s0", "s1"]


def test_summary_is_plain_json_even_where_figures_are_missing(tmp_path):
    findings = make_findings()
    score = findings.removal_curve.score.copy()
    score[0, 0] = math.nan
    curve = replace(findings.removal_curve, score=score)
    write_results(replace(findings, removal_curve=curve), tmp_path)
    summary = strict_json(tmp_path / "summary.json")
    assert summary["removal_curve"]["rankings"][0]["mean"][0] is None
    assert summary["facts"]["model"].startswith("mlp")
    assert summary["warnings"] == ["The validation part was split off: 20 % & stratified."]
    assert summary["advice"][0]["kind"] == "label errors" and summary["counts"]["redundant"] is None


def test_table_says_where_a_sample_came_from_and_what_was_done_to_it(tmp_path):
    samples = with_sources(digit_samples())
    adversarial = np.arange(500) % 5 == 0
    write_results(make_findings(samples, adversarial=adversarial), tmp_path)
    table = pq.read_table(tmp_path / "scores.parquet")
    assert table["source"].to_pylist() == samples.source.tolist()
    assert np.array_equal(table["is_adversarial"], adversarial)
    summary = strict_json(tmp_path / "summary.json")
    assert summary["counts"]["adversarial"] == 100
    assert [row["label"] for row in summary["groups"]["source"]] == [EVIL, "here"]


def test_attribution_has_both_ids_and_the_sign_of_its_direction(tmp_path):
    text = make_findings(row_samples())
    text = replace(text, validation=replace(text.validation, ids=1000 + np.arange(178)))
    write_results(text, tmp_path)
    table = pq.read_table(tmp_path / "attribution.parquet")
    assert table.num_rows == 178 * 2 * 5
    row = table.filter((pc.field("query") == 7) & (pc.field("direction") == "lowers")).to_pylist()
    assert [r["rank"] for r in row] == [1, 2, 3, 4, 5]
    assert {r["query_id"] for r in row} == {text.validation.ids[7]}
    assert [r["effect"] for r in row] == text.attribution.top.lowering_effect[7].tolist()
    lowering = text.attribution.top.lowering[7]
    assert [r["id"] for r in row] == text.samples.ids[lowering].tolist()


def test_summary_quotes_counts_and_curve_as_they_are(tmp_path):
    result = make_findings()
    write_results(result, tmp_path)
    summary = strict_json(tmp_path / "summary.json")
    assert summary["counts"]["train"] == 500
    assert summary["counts"]["suspected_label_errors"] == result.issues.is_issue.sum()
    labels = summary["labels"]
    assert labels["expected_precision"] == pytest.approx(result.issues.expected_precision())
    (noise,) = labels["noise"]
    assert labels["share_wrong"] == list(result.issues.share_wrong)
    assert noise["kind"] == "uniform" and noise["classes"] == list(result.samples.class_names)
    np.testing.assert_allclose(noise["transition"], result.issues.noise[0].transition)
    wrong = (result.samples.y != result.samples.true_y).sum()
    assert summary["counts"]["known_label_errors"] == wrong
    curve, score = summary["removal_curve"], result.removal_curve.score
    assert curve["rankings"][2]["name"] == "random"
    assert curve["rankings"][2]["mean"][3] == pytest.approx(score[2, 3].mean())
    assert curve["rankings"][2]["std"][3] == pytest.approx(score[2, 3].std(ddof=1))


def test_each_column_of_the_suspects_on_the_page_is_the_field_that_it_names():
    draw = np.random.default_rng(0)
    samples = SampleSet(
        np.zeros((80, 1)), draw.integers(3, size=80), np.array([f"id{i}" for i in range(80)][::-1]),
        ("no", "yes", "maybe"), rows=pa.table({"price": draw.normal(size=80), "n": range(80)}),
    )  # fmt: skip
    found = make_findings(samples, issues=issues_of(samples, draw.normal(size=80)))
    shown, issues = suspects_shown(found), found.issues
    information, position = found.information.information, {n: i for i, n in enumerate(samples.ids)}
    rows = [position[row.name] for row in shown.rows]
    listed = np.flatnonzero(issues.is_issue | issues.worth_a_look)
    assert rows == sorted(listed, key=lambda i: -issues.score[i]) and len(rows) > 5
    expected = {
        "given": lambda i: samples.class_names[samples.y[i]],
        "suggested": lambda i: samples.class_names[issues.suggested_label[i]],
        "wrong": lambda i: percent(round(float(issues.known_probability[i]), 2)),
        "percentile": lambda i: f"{100 * (information < information[i]).sum() / 79:.0f}",
        "price": lambda i: f"{samples.rows['price'][i].as_py():.6g}",
        "n": lambda i: f"{i}",
    }
    assert set(shown.columns) == {"id", *expected}
    for name, cell in expected.items():
        column = shown.columns.index(name) - 1
        assert [row.cells[column] for row in shown.rows] == [cell(i) for i in rows], name


def test_a_further_score_shows_the_samples_at_both_ends():
    samples, draw = row_samples(), np.random.default_rng(0)
    values = draw.normal(size=len(samples))
    values[::9] = np.nan
    section = score_section(SCORE, samples, Rarity(values, samples.ids))
    (table,) = (b for b in section.blocks if getattr(b, "columns", ()) == ("id", "rarity"))
    order = [i for i in np.argsort(-values) if np.isfinite(values[i])]
    ends = [*order[:5], *order[-5:]]
    assert [row.name for row in table.rows] == [str(samples.ids[i]) for i in ends]
    assert [row.cells for row in table.rows] == [(f"{values[i]:.2g}",) for i in ends]


def test_suspects_are_a_spreadsheet_that_computes_nothing():
    samples = SampleSet(
        np.zeros((60, 1)),
        (np.arange(60) % 2).astype(np.int64),
        np.array([f"-id{i}" if i == 7 else f"id{i}" for i in range(60)]),
        ("=no", "yes"),
        rows=pa.table({"+sum": ["@x"] * 60, "price": -1.5 * np.arange(60), "plain": ["a,b"] * 60}),
    )
    score = np.where(np.isin(np.arange(60), [7, 20, 33]), np.arange(60) + 1.0, -3.0)
    result = make_findings(samples, issues=issues_of(samples, score))
    table = list(csv.reader(io.StringIO(suspects_file(result))))
    assert table[0][:6] == [
        "id", "given", "suggested", "list", "wrong_probability", "information"
    ]  # fmt: skip
    assert sorted(table[0][6:]) == ["'+sum", "plain", "price"]
    rows = [dict(zip(table[0], row, strict=True)) for row in table[1:]]
    assert [row["id"] for row in rows] == ["id33", "id20", "'-id7"]
    assert rows[0]["price"] == "-49.5" and rows[0]["'+sum"] == "'@x" and rows[0]["plain"] == "a,b"
    assert rows[1]["given"] == "'=no"
    none = make_findings(samples, issues=issues_of(samples, np.full(60, -9.0)))
    assert len(suspects_file(none).splitlines()) == 1
    by_group = replace(result.issues, by_group=np.arange(60) == 20)  # only other groups say so
    unsure = replace(result, issues=by_group)
    table = list(csv.reader(io.StringIO(suspects_file(unsure))))
    assert [row[4] == "" for row in table[1:]] == [False, True, False]
    shown = suspects_shown(unsure)
    assert [row.cells[2] for row in shown.rows][1] == "not clear" and "other groups" in shown.note
    assert np.isnan(build_review(unsure).probability).sum() == 1
