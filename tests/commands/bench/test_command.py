"""`datassay bench`: both sides of each case give the same answer, and a wrong one would show."""

import json

import numpy as np
import pytest
import torch

import datassay.commands.bench.claims as claims
from datassay.commands.bench.claims import CASES, Measured, in_turns
from helpers.command_line import assert_one_error_line, columns, invoke, succeed

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


def test_every_case_has_a_bound():
    assert FIGURES.keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_both_sides_agree(name):
    measured = CASES[name](1)
    low, high = FIGURES[name]
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


def test_files_and_table(tmp_path):
    result = succeed(
        "bench",
        "--case",
        "polynomial",
        "--case",
        "retraining",
        "--seed",
        2,
        "--out",
        tmp_path / "b",
    )
    table = columns(tmp_path / "b" / "bench.parquet")
    assert table["case"] == ["polynomial", "retraining"]
    assert table["rival_value"][0] == pytest.approx(0.98, abs=0.02)
    assert table["rival_value"][1] is None
    summary = json.loads((tmp_path / "b" / "summary.json").read_text())
    assert summary["facts"]["Seed"] == "2"
    assert [case["what"] for case in summary["cases"]] == table["what"]
    assert "RidgeCV" in result.stdout and "RidgeCV" in (tmp_path / "b" / "index.html").read_text()
    assert result.stdout.split()[-1].endswith("index.html")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--case", "nope"], "a case must be one of leave-one-out, .*; got 'nope'"),
        (["--seed", -1], "seed must be an integer"),
    ],
)
def test_bad_input_costs_one_line(tmp_path, args, message):
    result = invoke("bench", *args, "--out", tmp_path / "b")
    assert_one_error_line(result, message)
    assert not (tmp_path / "b").exists()


def test_the_ratio_is_the_rivals_time_over_ours():
    assert Measured("a", "b", 0.5, 2.0, "c", 0.0).ratio == 4
