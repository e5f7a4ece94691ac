"""`datassay bench`: both sides of a claim agree; of DATA files, page, plan, one line an error."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay.commands.bench.claims as claims
from datassay.commands.bench.claims import CASES, Measured, in_turns
from helpers.command_line import columns, listed, refusals, succeed, summary, words

FIGURES = {
    "leave-one-out": (0, 1e-9),
    "retraining": (0, 1e-5),
    "fidelity": (0.98, 1.0),
    "labels": (0.95, 1.0),
    "weights": (0, 1e-12),
    "polynomial": (0.95, 1.0),
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(claims, "N_POINTS", 500)
    monkeypatch.setattr(claims, "DESCENT", {"lr": 0.05, "steps": 100})


@pytest.mark.parametrize("name", CASES)
def test_both_sides_agree(name):
    measured = CASES[name](1)
    low, high = FIGURES[name]  # every case has a bound
    assert low <= measured.value <= high
    assert measured.seconds > 0
    assert measured.ratio == measured.rival_seconds / measured.seconds
    if measured.rival_value is not None:
        assert measured.value > measured.rival_value - 0.01


def test_a_wrong_answer_shows(monkeypatch):
    plain = claims.trained
    monkeypatch.setattr(claims, "trained", lambda *a: plain(*a[:3], 1.01 * a[3]))
    assert CASES["leave-one-out"](0).value > 1e-4


def test_the_brute_force_is_the_flow_it_claims_to_be():
    rows = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    residual, t = torch.arange(6.0, dtype=torch.float64)[:, None], 0.3
    kernel = rows @ rows.T
    moved = torch.zeros_like(residual)
    for _ in range(20_000):  # the same flow by small steps of the outputs
        moved += t / 20_000 * kernel @ (residual - moved)
    outputs = claims.trained(kernel, kernel, residual, t)
    np.testing.assert_allclose(outputs, moved, rtol=1e-3, atol=1e-3)


def test_the_quickest_turn_counts_and_the_calls_alternate():
    calls = []
    call = lambda name, answer: lambda: calls.append(name) or answer  # noqa: E731
    *answers, (ours, theirs) = in_turns(call("a", 1), call("b", 2), turns=2, part=0.5)
    assert calls == ["a", "b", "a", "b"]
    assert answers == [1, 2]
    assert 0 <= ours < 1 and 0 <= theirs < 2


def test_files_and_table(tmp_path, monkeypatch):
    done = Measured("a polynomial", "RidgeCV", 1.0, 2.5, "accuracy", 0.98, 0.97)
    monkeypatch.setitem(CASES, "polynomial", lambda seed: replace(done, value=0.9 + seed / 100))
    args = ["--case", "polynomial", "--case", "retraining", "--seed", 2, "--out", tmp_path]
    result, table = succeed("bench", *args), columns(tmp_path / "bench.parquet")
    assert table["case"] == ["polynomial", "retraining"]
    assert table["value"][0] == 0.92 and table["ratio"][0] == 2.5
    assert table["rival_value"] == [0.97, None]
    told = summary(tmp_path)
    assert told["facts"]["Seed"] == "2"
    assert [case["what"] for case in told["cases"]] == table["what"]
    assert "0.920 against 0.970" in words(result) + (tmp_path / "index.html").read_text()
    assert result.stdout.split()[-1].endswith("index.html")


SHORT = ["--model", "mlp:width=8", "--steps", 60, "--lr", 0.01, "--halves", 20]
NETWORK = """
from torch import nn

def network():
    return nn.Sequential(nn.LayerNorm(13), nn.Linear(13, 8), nn.Tanh(), nn.Linear(8, 3))
"""


def test_the_answer_stands_first_and_the_files_say_the_same(tmp_path):
    result, out = succeed("bench", "wine", *SHORT, "--out", tmp_path), tmp_path
    assert listed(out) == ["bench.parquet", "index.html", "summary.json"]
    assert result.stdout.splitlines()[-1] == str(out / "index.html")
    assert "train on halves of the samples" in result.stderr
    printed, page = words(result), (out / "index.html").read_text()
    for text in ("Which samples caused a prediction:", "loss alone", "the ceiling is", "free"):
        assert text in printed and text in page
    assert page.index("Which samples caused a prediction:") < page.index("<h2")
    assert all(f'data-figure="{name}"' in page for name in ("predictions", "samples"))
    table, told = columns(out / "bench.parquet"), summary(out)
    assert [row["score"] for row in told["scores"]] == table["score"]
    assert told["halves"] == 20 and told["smoothness"]["parting"] > 0
    assert set(table["verdict"]) <= {"trust", "with care", "do not trust"}
    for low, value, high in zip(table["low"], table["correlation"], table["high"], strict=True):
        assert -1 <= low <= value <= high <= 1
    for text in ("adam, step size 0.01, 60 updates", "20 random halves"):
        assert text in " ".join(told["facts"].values())


def test_the_users_own_network_and_the_same_again_from_the_store(tmp_path):
    (tmp_path / "mine.py").write_text(NETWORK)
    args = ["wine", *SHORT, "--model", f"{tmp_path / 'mine.py'}:network", "--optimizer", "sgd",
            "--lr", 0.1, "--batch-size", "none", "--store", tmp_path / "kept"]  # fmt: skip
    succeed("bench", *args, "--out", tmp_path / "a")
    succeed("bench", *args, "--out", tmp_path / "b")
    first, again = (columns(tmp_path / name / "bench.parquet") for name in "ab")
    assert first["correlation"] == again["correlation"]
    assert "updates of all samples" in summary(tmp_path / "b")["facts"]["Training"]


def test_a_run_that_cannot_be_predicted_is_not_trusted(tmp_path):
    result = succeed("bench", "wine", *SHORT, "--lr", 3, "--out", tmp_path)
    table = columns(tmp_path / "bench.parquet")
    verdicts = dict(zip(table["score"], table["verdict"], strict=True))
    assert verdicts["influence"] == "do not trust"
    assert "do not trust “influence”" in words(result)


def test_an_estimator_is_fitted_in_the_networks_place(tmp_path):
    model = "sklearn.naive_bayes:GaussianNB"
    succeed("bench", "wine", "--model", model, "--halves", 20, "--out", tmp_path)
    told = summary(tmp_path)
    assert "GaussianNB, fitted anew" in told["facts"]["Model"]
    scores = {row["score"]: row for row in told["scores"]}
    assert "influence" not in scores and {"label issue score", "final loss"} <= scores.keys()
    # Its fits to a half differ by nothing: naive Bayes draws no random numbers.
    assert told["ceiling"]["value"] == pytest.approx(1)
    assert told["smoothness"] is None and "default network" in told["facts"]["Scores"]


def test_a_plan_runs_nothing(tmp_path):
    result = succeed("bench", "wine", *SHORT, "--plan", "--out", tmp_path / "out")
    assert "40 fits" in words(result) and "Nothing was run" in result.stdout
    assert not (tmp_path / "out").exists()


test_bad_input_costs_one_line_and_writes_nothing = refusals({
    "bench --case nope": "a case must be one of leave-one-out, .*; got 'nope'",
    "bench --seed -1": "seed must be an integer",
    "bench --lr 0.1": "lr needs DATA",
    "bench --plan": "plan needs DATA",
    "--case labels": "case is measured without DATA",
    "--halves 3": r"halves must lie in \[20, .*got 3",
    "--steps 0": "steps must lie in .*got 0",
    "--minutes 0": "minutes must lie in .*got 0",
    "--queries 1": "queries must be at least 2",
    "--batch-size x": "batch-size must be 'none' or a whole number",
    "--optimizer lbfgs": "optimizer must be 'adam' or 'sgd'",
    "--model sklearn.svm:SVC --lr 0.1": "lr is of networks; sklearn.svm:SVC",
    "--model sklearn.svm:SVR": "model must be a classifier",
    "--val-fraction 0": "val-fraction must be above 0 for bench",
}, "bench wine")  # fmt: skip
