"""`datassay example`: faults that are there, a truth that agrees, and scores that find them."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from sklearn.metrics import roc_auc_score

from datassay.data import load
from datassay.data.synthetic.examples import COPIES, EXAMPLES, WRONG
from datassay.errors import DataError
from helpers.command_line import assert_one_error_line, contents, invoke, succeed

# Data file, how it is read, and the least AUROC of its wrong labels.
DATA = {
    "digits": ("digits.npz", {}, 0.995),
    "people": ("people.csv", {"target": "income", "ids": "person", "drop": "account_code"}, 0.97),
    "texts": ("texts.csv", {"target": "topic", "ids": "id"}, 0.98),
}


def truth_of():
    """Id → true label, fault and original."""
    rows = csv.read_csv("example/truth.csv", convert_options=csv.ConvertOptions(
        column_types=dict.fromkeys(("true_label", "fault", "original"), "string")
    )).to_pylist()  # fmt: skip
    return {row.pop("id"): row for row in rows}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_truth_agrees_with_the_data(here, name):
    shown = succeed("example", name).stdout.splitlines()
    file, columns, _ = DATA[name]
    assert shown[0] == f"example/{file}"
    assert shown[1].removeprefix("Next: ") in Path("example/README.txt").read_text()
    before = contents(here)
    succeed("example", name)
    assert contents(here) == before
    truth = truth_of()
    samples, _ = load(f"example/{file}", **columns)
    assert samples.ids.tolist() == list(truth)
    given = dict(zip(truth, (samples.class_names[y] for y in samples.y), strict=True))
    x = dict(zip(truth, samples.x.reshape(len(samples), -1), strict=True))
    wrong = [one for one in truth if given[one] != truth[one]["true_label"]]
    assert abs(len(wrong) - WRONG * len(truth)) <= 1
    assert not [i for i, t in truth.items() if ("random" in t["fault"] or "taken" in t["fault"])
                is not (i in wrong)]  # fmt: skip
    copies = {i: t for i, t in truth.items() if "copy" in t["fault"]}
    kinds = {"digits": ["near"], "people": ["exact", "near"], "texts": []}[name]
    assert len(copies) == COPIES * len(kinds)
    for one, told in copies.items():
        assert given[one] == given[told["original"]]
        apart = np.abs(x[one] - x[told["original"]]).sum()
        assert (apart == 0) == (told["fault"] == "exact copy") and apart < 9  # a date has parts
    with pytest.raises(DataError, match="a folder must hold data"):
        load("example")


def test_other_files_are_not_replaced(here):
    succeed("example", "digits", "--out", "one")
    result = invoke("example", "people", "--out", "one")
    assert_one_error_line(result, "one holds another example")
    Path("one/truth.csv").write_text("mine")
    assert_one_error_line(invoke("example", "--out", "one"), "truth.csv")
    assert Path("one/truth.csv").read_text() == "mine"
    assert_one_error_line(invoke("example", "numbers"), "must be digits, people, texts; got 'num")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_faults_are_found(here, name):
    succeed("example", name)
    file, columns, least = DATA[name]
    options = [word for option, value in columns.items() for word in (f"--{option}", value)]
    succeed("score", f"example/{file}", *options, "--out", "report")
    truth, rows = truth_of(), pq.read_table("report/scores.parquet").to_pylist()
    wrong = [str(row["label"]) != truth[row["id"]]["true_label"] for row in rows]
    assert roc_auc_score(wrong, [row["label_issue_score"] for row in rows]) > least
    suspects = np.array([row["is_issue"] for row in rows])
    assert suspects.sum() > 0.5 * sum(wrong) and np.mean(np.array(wrong)[suspects]) > 0.85
    found = json.loads(Path("report/summary.json").read_text())["data_issues"]
    near = {frozenset(pair["ids"]) for pair in found["near_duplicates"]}
    planted = {(i, t["original"]) for i, t in truth.items() if t["fault"] == "near copy"}
    assert len(near) <= 1.3 * len(planted) and set(map(frozenset, planted)) <= near
    group = {row["id"]: row.get("duplicate_group") for row in rows}
    exact = {(i, t["original"]) for i, t in truth.items() if t["fault"] == "exact copy"}
    assert all(group[a] is not None and group[a] == group[b] for a, b in exact)
    if name == "people":
        leaks = load(f"example/{file}", target="income", ids="person")[0].warnings
        assert "'account_code' predicts the target almost alone" in leaks[0]
