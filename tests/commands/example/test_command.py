"""`datassay example`: faults that are there, a truth that agrees, and scores that find them."""

import json
import re
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

ROOT = Path(__file__).parents[3]
# Data file, how it is read, and the least AUROC of its wrong labels.
DATA = {
    "digits": ("digits.npz", {}, 0.995),
    "people": ("people.csv", {"target": "income", "ids": "person", "drop": "account_code"}, 0.97),
    "texts": ("texts.csv", {"target": "topic", "ids": "id"}, 0.98),
}


def truth_of():
    """Id → true label, fault and original."""
    rows = csv.read_csv("example/truth.csv").to_pylist()
    return {row["id"]: (str(row["true_label"]), row["fault"], row["original"]) for row in rows}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_truth_agrees_with_the_data(here, name):
    file, columns, _ = DATA[name]
    path, command = succeed("example", name).stdout.splitlines()
    assert path == f"example/{file}" and f"  {command.removeprefix('Next: ')}\n" in Path(
        "example/README.txt").read_text()  # fmt: skip
    before = {k: v for k, v in contents(here).items() if k[-5:] != ".json"}  # without the manifest
    truth = truth_of()
    succeed("example", name)
    assert {k: v for k, v in contents(here).items() if k[-5:] != ".json"} == before
    samples, _ = load(path, **columns)
    index = {one: i for i, one in enumerate(samples.ids.tolist())}
    given, x = [samples.class_names[y] for y in samples.y], samples.x.reshape(len(samples), -1)
    assert list(index) == list(truth)
    wrong = {one for one, (label, *_) in truth.items() if label != given[index[one]]}
    copies = {one: reported for one, reported in truth.items() if reported[2]}
    assert wrong == {one for one, (_, fault, _) in truth.items() if fault} - copies.keys()
    assert abs(len(wrong) - WRONG * len(truth)) <= 1
    assert len(copies) == COPIES * {"digits": 1, "people": 2, "texts": 0}[name]
    for one, (_, fault, original) in copies.items():
        apart = np.abs(x[index[one]] - x[index[original]]).sum()
        assert (apart == 0) == (fault == "exact copy") and apart < 9  # a date has parts
        assert given[index[one]] == given[index[original]]
    with pytest.raises(DataError, match="a folder must hold data"):
        load("example")


def test_other_files_are_not_replaced(here):
    succeed("example", "digits")
    assert_one_error_line(invoke("example", "people"), "example holds another example")
    Path("example/truth.csv").write_text("mine")
    assert_one_error_line(invoke("example"), "truth.csv")
    assert Path("example/truth.csv").read_text() == "mine"
    assert_one_error_line(invoke("example", "numbers"), "must be digits, people, texts; got 'num")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_faults_are_found(here, name):
    file, columns, least = DATA[name]
    options = [word for option, value in columns.items() for word in (f"--{option}", value)]
    succeed("example", name)
    succeed("score", f"example/{file}", *options, "--out", "report")
    truth, rows = truth_of(), pq.read_table("report/scores.parquet").to_pylist()
    wrong = np.array([row["class_name"] != truth[row["id"]][0] for row in rows])
    suspect = np.array([row["is_issue"] for row in rows])
    assert roc_auc_score(wrong, [row["label_issue_score"] for row in rows]) > least
    assert (suspect & wrong).sum() > max(0.5 * wrong.sum(), 0.85 * suspect.sum())
    result = json.loads(Path("report/summary.json").read_text())["data_issues"]["near_duplicates"]
    planted = {kind: {frozenset((one, original)) for one, (_, fault, original) in truth.items()
                      if fault == kind} for kind in ("near copy", "exact copy")}  # fmt: skip
    near, groups = planted["near copy"], {r["id"]: r.get("duplicate_group") for r in rows}
    # Of texts from few templates two differ in a word by chance.
    found = {frozenset(pair["ids"]) for pair in result}
    assert near <= found and len(found) <= 1.3 * len(near) + 2 * (name == "texts")
    together = [{groups[one] for one in pair} - {-1, None} for pair in planted["exact copy"]]
    assert all(len(group) == 1 for group in together)
    if name == "people":
        leak = load(f"example/{file}", target="income", ids="person")[0].warnings[0]
        assert "'account_code' predicts the target almost alone" in leak
        succeed("score", f"example/{file}", *options[:-2], "--out", "leaky")
        flagged = pq.read_table("leaky/scores.parquet")["is_issue"].to_numpy() & wrong
        readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
        shown = re.search(r"people: (\d+) of (\d+) flagged, (\d+) without it", readme)
        counts = np.array([flagged.sum(), wrong.sum(), (suspect & wrong).sum()])
        assert np.abs(counts - np.array(shown.groups(), dtype=int)).max() <= 2
