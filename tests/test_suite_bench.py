"""`python -m bench`: nothing is judged by what chose it, and verdicts are what they say."""

import os
import subprocess
import sys
from dataclasses import fields, is_dataclass
from importlib.util import find_spec

import numpy as np
import pytest
from scipy.stats import t as student

from helpers.snippets import ROOT

sys.path.insert(0, str(ROOT / "bench"))
import cells
import suite
import table

OTHER_SEED = 1000  # of `python -m bench check --seed`, as CONTRIBUTING.md has it


@pytest.mark.parametrize("name", cells.TRUTHS)
def test_settings_were_chosen_elsewhere(name):
    truth = cells.truth_named(name)
    reported = {base + r for base in (0, OTHER_SEED) for r in range(truth.repeats)}
    judged_by = {data: reported & set(seeds) for data, seeds in truth.chosen_on.items()}
    for case in truth.cases:
        both = [seeds for data, seeds in judged_by.items() if case.lower().startswith(data.lower())]
        assert not any(both), f"{case}: chosen on {both} and judged by them"


@pytest.mark.parametrize("name", cells.TRUTHS)
def test_every_truth_has_ours_the_trivial_and_quick_cases(name):
    truth = cells.truth_named(name)
    kinds = {contender.kind for contender in truth.contenders.values()}
    assert {"ours", "trivial"} <= kinds <= {"ours", "trivial", "rival", "bound"}
    assert any(case.quick for case in truth.cases.values())
    assert truth.repeats >= 3


QUICK = [
    (name, case)
    for name in ("labels", "subclass", "mixture", "purification", "removal", "weights", "acts")
    for case, how in cells.truth_named(name).cases.items()
    if how.quick
]


@pytest.mark.parametrize(("name", "case"), QUICK)
def test_contenders_see_no_truth_and_a_seed_draws_the_same(name, case):
    make = cells.truth_named(name).cases[case].make
    first, again, other = make(3), make(3), make(4)
    given = first.given if is_dataclass(first) and hasattr(first, "given") else first
    assert given.true_y is None
    if hasattr(first, "given"):
        assert given.source is None
    for field in fields(first):
        one, two = (getattr(task, field.name) for task in (first, again))
        if isinstance(one, np.ndarray):
            assert np.array_equal(one, two), field.name
    x, x_again, x_other = (
        np.asarray(getattr(task, "given", task).x) for task in (first, again, other)
    )
    assert np.array_equal(x, x_again) and not np.array_equal(x, x_other)


def test_the_truth_itself_wins():
    labels = cells.truth_named("labels")
    task = labels.cases["wine, uniform 20 %"].make(0)
    assert labels.judge(task, task.wrong.astype(float), 0) == {"AUROC": 1.0}
    mixture = cells.truth_named("mixture")
    samples = mixture.cases["two regressions"].make(0)
    parts = np.unique(samples.source, return_inverse=True)[1]
    assert mixture.judge(samples, parts, 0) == {"adjusted Rand": 1.0}


def made(contender, kind, values, **more):
    return suite.Cell("labels", "case", contender, kind, {"AUROC": values}, [1.0], [1.0], **more)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.9, 0.91, 0.92], "first"), ([0.8, 0.85, 0.7], "level"), ([0.5, 0.51, 0.52], "behind")],
)
def test_a_verdict_is_the_paired_interval(values, verdict):
    rival = [0.78, 0.80, 0.79]
    found = [made("a", "ours", values), made("b", "rival", rival), made("c", "bound", [1, 1, 1])]
    (place,) = suite.places(found)
    lead = np.subtract(values, rival)
    half = student.ppf(0.975, 2) * lead.std(ddof=1) / np.sqrt(3)
    assert place.lead == pytest.approx((lead.mean(), lead.mean() - half, lead.mean() + half))
    assert (place.verdict, place.rival[0]) == (verdict, "b")


def test_a_figure_that_is_not_finite_is_said():
    found = [made("a", "ours", [0.9, 0.8]), made("b", "rival", [0.8, float("nan")])]
    assert suite.places(found) == []
    assert "not compared: labels, case, b: a figure is not finite" in list(suite.verdicts(found))


def test_the_recorded_figures_are_all_compared():
    assert not [said for said in suite.verdicts(suite.kept("quick")) if "not compared" in said]


def test_one_seed_is_no_verdict():
    found = [made("a", "ours", [0.9]), made("b", "rival", [0.5])]
    assert [place.verdict for place in suite.places(found)] == ["one seed"]


def test_a_contender_that_missed_a_seed_is_not_compared():
    found = [made("a", "ours", [0.9, 0.9, 0.9]), made("b", "rival", [0.8, 0.8, 0.8]),
             made("c", "rival", [1.0])]  # fmt: skip
    assert [place.rival[0] for place in suite.places(found)] == ["b"]


def test_a_figure_that_left_its_interval_is_named():
    recorded = [made("a", "ours", [0.80, 0.82, 0.84])]
    assert suite.departed([made("a", "ours", [0.83, 0.82, 0.84])], recorded, 0) == []
    (gone,) = suite.departed([made("a", "ours", [0.60, 0.62, 0.61])], recorded, 0)
    assert "left its interval: labels, case, a, AUROC: 0.6100" in gone
    # Fewer seeds are held against the same ones.
    assert suite.departed([made("a", "ours", [0.80])], recorded, 0) == []
    assert suite.departed([made("a", "ours", [0.87])], recorded, 0)
    # Other seeds: the intervals of both runs must meet, not the new mean lie in the old one.
    assert suite.departed([made("a", "ours", [0.70, 0.76, 0.82])], recorded, OTHER_SEED) == []
    assert suite.departed([made("a", "ours", [0.50, 0.51, 0.52])], recorded, OTHER_SEED)
    lost = suite.departed([made("a", "ours", [], missing="died")], recorded, 0)
    assert lost == ["no answer: labels, case, a: died"]


@pytest.mark.slow
def test_a_run_from_the_command_line_goes_on_and_says_who_is_missing(tmp_path):
    command = [
        *(sys.executable, "-m", "bench", "--truths", "purification", "--cases", "digits*10%"),
        *("--work", str(tmp_path), "--workers", "1", "--repeats", "1", "--contenders"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = [
        subprocess.run(
            [*command, who], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        ).stdout
        for who in ("*an*", "*random")
    ]
    assert "1/1  purification, digits 4 vs 8, 10%, seed 0" in said[0]
    assert " min " not in said[1]  # nobody who has answered is asked again
    lines = (tmp_path / "quick.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 2  # a fifth less at random, cleanlab
    if find_spec("cleanlab") is None:
        assert "digits 4 vs 8, 10%, cleanlab: cleanlab is not installed" in said[0]


def test_recorded_cells_cover_the_quick_list():
    recorded = {cell.key for cell in suite.kept("quick")}
    listed = {
        (job.truth, job.case, contender)
        for job in cells.jobs(cells.TRUTHS, "quick", 0)
        for contender in job.contenders
    }
    assert recorded == listed
    assert "`python -m bench`" in table.full_tables()
