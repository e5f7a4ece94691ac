"""`datassay report`: files and page of compared runs, changed labels, one line for bad input."""

import json
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datassay.act.review.gain import GainRow, ReviewGain
from datassay.commands.report.page import FILES, _tabulate_levels, page
from datassay.errors import DataError
from datassay.report.html import render
from helpers.command_line import (
    assert_one_error_line,
    columns,
    contents,
    invoke,
    listed,
    planted,
    succeed,
)
from helpers.runs import compared, write_run

NO_SUMMARIES = (b"{", b"[1]", b'{"facts": {}, "before": {"gain": {"rows": 1}}}')


@pytest.fixture
def runs(tmp_path):
    return [write_run(tmp_path / name, seed=s) for s, name in enumerate(("first", "second"))]


def vote_rows(seen):
    """The rows of the table of votes."""
    return next(block.rows for block in seen.blocks if getattr(block, "name", "") == "Votes")


def change(folder, **columns_of):
    table = pq.read_table(folder / "scores.parquet").to_pydict() | columns_of
    pq.write_table(pa.table(table), folder / "scores.parquet")


@pytest.mark.slow
def test_real_runs_are_compared_from_their_folders(tmp_path):
    for seed in (0, 1):
        plain = ("--model", "linear", "--attribution", "none", "--noise", 0.2, "--seed", seed)
        succeed("score", "wine", *plain, "--out", tmp_path / f"s{seed}")
    folders = [tmp_path / "s0", tmp_path / "s1"]
    result = succeed("report", *folders, "--out", tmp_path / "both")
    assert listed(tmp_path / "both") == sorted([*FILES, "index.html"])
    assert f"Page: {tmp_path / 'both' / 'index.html'}" in result.stdout
    assert f"Next: datassay view {folders[0]}" in result.stdout  # it suspects most
    table = columns(tmp_path / "both" / "consensus.parquet")
    scores = [columns(folder / "scores.parquet") for folder in folders]
    shared = set(scores[0]["id"]) & set(scores[1]["id"])
    assert set(table["id"]) == shared
    for name, of in zip(("s0", "s1"), scores, strict=True):
        by_id = dict(zip(of["id"], of["information"], strict=True))
        assert table[f"information: {name}"] == [by_id[i] for i in table["id"]]
    summary = json.loads((tmp_path / "both" / "summary.json").read_text())
    assert summary["shared"] == len(shared)
    assert sum(summary["suspected_by"]) + summary["relabelled"] == len(shared)
    assert [run["facts"]["Seed"] for run in summary["runs"]] == ["0", "1"]


def run_columns(findings):
    (table,) = page(findings).sections[0].blocks
    return table.columns


def test_runs_that_differ_by_seed_say_so_and_give_their_mean_a_reliability(runs):
    findings = compared(runs)
    assert run_columns(findings) == ("run", "samples", "suspects", "seed")
    assert findings.facts["Model"] == "mlp"
    (answer,) = [line for line in page(findings).answer if "consensus.parquet" in line]
    assert "reliability 0.99" in answer or "reliability 1.00" in answer


def test_unlike_networks_get_no_reliability(tmp_path, runs):
    write_run(runs[1], seed=1, noise=3.0, Model="linear")
    findings = compared(runs)
    assert "model" in run_columns(findings)
    *_, agreement = page(findings).advice
    assert agreement.severity == "act"
    assert "reliability" not in agreement.sentence
    assert "depends on the run" in agreement.sentence


def test_votes_count_runs_that_suspect_the_same_label(runs):
    suspected = np.zeros(30, bool)
    suspected[[3, 4, 5]] = True
    change(runs[0], is_issue=suspected, true_label=["cat", "dog"] * 14 + ["dog", "dog"])
    change(runs[1], is_issue=np.roll(suspected, 1))
    findings = compared(runs)
    assert [(row.name, row.cells[0]) for row in vote_rows(page(findings))] == [
        ("2 runs", "2"),
        ("1 run", "2"),
        ("no run", "26"),
    ]
    assert findings.is_wrong.nonzero()[0].tolist() == [28]
    assert findings.suggested[[2, 3, 4, 6]].tolist() == ["", "cat", "dog", "dog"]
    (labels,) = page(findings).advice
    assert labels.headline == "Review 2 labels that both runs suspect"
    assert set(labels.ids) == {"s3", "s4", "s5", "s6"}
    assert set(labels.ids[:2]) == {"s4", "s5"}
    assert "0 % of those suspected by both runs are wrong" in labels.sentence


def test_labels_that_changed_have_no_votes_and_a_word_of_their_own(runs):
    names = ["cat", "dog"] * 15
    names[0], names[1] = names[1], names[0]
    suspected = np.zeros(30, bool)
    suspected[[0, 1, 7]] = True
    change(runs[0], is_issue=suspected)
    change(runs[1], class_name=names, is_issue=np.zeros(30, bool))
    findings = compared(runs)
    assert findings.relabelled.nonzero()[0].tolist() == [0, 1]
    assert [row.cells[0] for row in vote_rows(page(findings))] == ["0", "1", "27"]
    labels, changed, _ = page(findings).answer
    assert not page(findings).advice and not page(findings).commands
    assert changed.startswith("2 labels changed: “first” suspects 2 of them, “second” none")
    assert "“first” suspects 1 of the 28 labels that did not change" in labels
    assert findings.warnings == ()
    change(runs[1], class_name=["dog", "cat"] * 15)
    (warning,) = compared(runs).warnings
    assert warning.startswith("100 % of the shared samples have different labels")


def test_targets_are_compared_and_shown_as_numbers(tmp_path, runs):
    for folder in runs:
        table = pq.read_table(folder / "scores.parquet").drop_columns(["class_name"]).to_pydict()
        table |= {"label": [0.5 + i for i in range(30)], "suggested_label": [[1.0, 2.0]] * 30}
        pq.write_table(pa.table(table), folder / "scores.parquet")
    findings = compared(runs)
    assert findings.label[:2].tolist() == ["0.500", "1.50"]
    assert set(findings.suggested) == {"", "1.00, 2.00"}
    assert findings.is_wrong is None


def test_a_run_of_equal_scores_still_makes_a_page(tmp_path, runs):
    out = tmp_path / "out"
    change(runs[0], information=[0.0] * 30, label_issue_score=[-1.0] * 30, is_issue=[False] * 30)
    change(runs[1], is_issue=[False] * 30)
    succeed("report", *runs, "--out", out)
    html = (out / "index.html").read_text()
    assert "No run suspects a label" in html
    assert 'id="agreement"' not in html
    assert json.loads((out / "summary.json").read_text())["reliability"] is None
    assert page(compared(runs)).advice[-1].headline == "Information cannot be compared"


def test_a_run_without_its_summary_is_read_by_its_scores_and_its_path_names_it(tmp_path):
    folders = [write_run(tmp_path / k / "out", seed=s) for s, k in enumerate("ab")]
    (folders[0] / "summary.json").unlink()
    findings = compared(folders)
    assert findings.runs[0].facts == {}
    assert findings.consensus.names == tuple(map(str, folders))
    assert render(page(findings))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda a, b: [a], "two or more different folders"),
        (lambda a, b: [a, a], "two or more different folders"),
        (lambda a, b: [a, a.parent / "none"], "none must hold scores.parquet"),
        (lambda a, b: [a, write_run(b, shift=28)], "they share 2"),
    ],
)
def test_folders_that_cannot_be_compared_cost_one_line(tmp_path, runs, spoil, message):
    planted(tmp_path / "out", FILES)  # of an earlier comparison
    before = contents(tmp_path / "out")
    result = invoke("report", *spoil(*runs), "--out", tmp_path / "out")
    assert_one_error_line(result, message)
    assert contents(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("name", "content"),
    [("scores.parquet", b"PAR1 not"), *(("summary.json", text) for text in NO_SUMMARIES)],
)
def test_damaged_files_are_named(tmp_path, runs, name, content):
    (runs[1] / name).write_bytes(content)
    result = invoke("report", *runs, "--out", tmp_path / "out")
    assert_one_error_line(result, name)


@pytest.mark.parametrize(
    "columns_of",
    [
        {"information": ["a"] * 30},
        {"label_issue_score": [None] * 30},
        {"is_issue": [0.0] * 30},
        {"information": [np.nan] * 30},
        {"label": [None] * 30},
        {"id": [None, *range(29)]},
    ],
)
def test_columns_of_other_kinds_are_refused(runs, columns_of):
    change(runs[1], **columns_of)
    named = f"column {next(iter(columns_of))} of .* must hold a (finite|value)"
    with pytest.raises(DataError, match=named):
        compared(runs)
    pq.write_table(pa.table({"id": [1]}), runs[1] / "scores.parquet")
    with pytest.raises(DataError, match="lacks label, suggested_label, information"):
        compared(runs)


def test_before_and_after_are_told_with_their_levels():
    row = GainRow("labels that both agree on", 740, 0.9027, 0.9169, -0.0013, 0.0297, "")
    gain = ReviewGain((row,), "accuracy", 2, 5)
    runs = (SimpleNamespace(n_suspects=41), SimpleNamespace(n_suspects=0, gain=gain))
    score, suspects = _tabulate_levels(SimpleNamespace(runs=runs)).rows
    assert score.cells == ("740", "90.3 %", "91.7 %", "1.4 points", "−0.1 to 3.0")
    assert suspects.cells == ("", "41", "0", "−41", "")
