"""The bench of the trust check: chosen on some data and seeds, reported on others; what it says."""

import json
import sys

import numpy as np
import pytest

from datassay.train import Recipe
from helpers.snippets import ROOT

sys.path.insert(0, str(ROOT))
from bench.attribution import trust

RESULTS = (ROOT / "bench" / "results.jsonl").read_text("utf-8")
LINES = [json.loads(line) for line in RESULTS.splitlines()]
REPORTED = {
    line["bench"].removeprefix("trust reported: "): line
    for line in LINES
    if line["bench"].startswith("trust reported: ")
}


def test_settings_are_chosen_on_other_data_and_seeds_than_reported():
    chosen, reported = trust.CHOSEN_ON.values(), trust.REPORTED_ON.values()
    assert not {c.data for c in chosen} & {c.data for c in reported}
    assert not {c.seed for c in chosen} & {c.seed for c in reported}


def test_what_is_reported_was_measured_with_ten_times_the_retraining():
    assert REPORTED.keys() == trust.REPORTED_ON.keys()
    for name, line in REPORTED.items():
        assert line["halves"] == trust.REPORTED_ON[name].halves and line["times"] == 10
        for row in line["scores"]:
            assert row["inside"] == (row["low"] <= row["truth"] <= row["high"])
        assert line["inside"] == pytest.approx(np.mean([row["inside"] for row in line["scores"]]))


def test_one_case_at_least_is_not_to_be_trusted_and_one_is():
    best = {
        name: {row["verdict"] for row in line["scores"] if row["question"] == "a prediction"}
        for name, line in REPORTED.items()
    }
    assert any(verdicts == {"do not trust"} for verdicts in best.values())
    assert any("trust" in verdicts for verdicts in best.values())
    assert all(line["inside"] == 1 for line in REPORTED.values())  # what the page of methods says


@pytest.mark.slow
def test_a_case_is_measured(tmp_path):
    case = trust.Trained("wine", 5, Recipe(steps=20), "mlp:width=4", halves=4)
    halves, scores, _ = trust.measured(case, str(tmp_path))
    assert len(halves.halves) == 44 and scores.effects
    assert 0.5 < trust.coverage(halves, scores, 4) <= 1
