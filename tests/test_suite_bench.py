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

sys.path.insert(0, str(ROOT))
from bench import run, table, verdicts
from bench.frame import TRUTHS, Case, Options, Task, every_task, task_named
from bench.record import Cell, kept

OTHER_SEED = 1000  # of `python -m bench check --seed`, as CONTRIBUTING.md has it
WITH_QUICK = [n for n in TRUTHS if any(c.quick for c in task_named(n).cases.values())]


@pytest.mark.parametrize("name", TRUTHS)
def test_settings_were_chosen_elsewhere(name):
    task = task_named(name)
    reported = {base + r for base in (0, OTHER_SEED) for r in range(task.repeats)}
    judged_by = {data: reported & set(seeds) for data, seeds in task.chosen_on.items()}
    for case in task.cases:
        both = [seeds for data, seeds in judged_by.items() if case.lower().startswith(data.lower())]
        assert not any(both), f"{case}: chosen on {both} and judged by them"


@pytest.mark.parametrize("name", TRUTHS)
def test_every_truth_has_ours_and_the_trivial(name):
    kinds = {contender.kind for contender in task_named(name).contenders.values()}
    assert {"ours", "trivial"} <= kinds <= {"ours", "trivial", "rival", "bound"}
    assert task_named(name).repeats >= (3 if name in WITH_QUICK else 1)


def test_every_task_is_found_and_stands_in_the_tables_once():
    names = every_task()
    shown = [name for names in table.SECTIONS.values() for name in names]
    assert len(set(names)) == len(names) and len(set(shown)) == len(shown)
    assert set(shown) <= set(names)
    with_rows = {name for name in names if task_named(name).rows.__name__ == "rows"}
    assert with_rows == set(shown)


QUICK = [
    (name, case)
    for name in ("labels", "subclass", "mixture", "purification", "removal", "weights", "acts")
    for case, how in task_named(name).cases.items()
    if how.quick
]


@pytest.mark.parametrize(("name", "case"), QUICK)
def test_contenders_see_no_truth_and_a_seed_draws_the_same(name, case):
    make = task_named(name).cases[case].make
    first, again, other = make(3), make(3), make(4)
    given = first.given if is_dataclass(first) and hasattr(first, "given") else first
    assert given.true_y is None
    if hasattr(first, "given"):
        assert given.source is None
    for field in fields(first):
        one, two = (getattr(problem, field.name) for problem in (first, again))
        if isinstance(one, np.ndarray):
            assert np.array_equal(one, two), field.name
    x, x_again, x_other = (np.asarray(getattr(p, "given", p).x) for p in (first, again, other))
    assert np.array_equal(x, x_again) and not np.array_equal(x, x_other)


def test_the_truth_itself_wins():
    labels = task_named("labels")
    problem = labels.cases["wine, uniform 20 %"].make(0)
    assert labels.judge(problem, problem.wrong.astype(float), 0) == {"AUROC": 1.0}
    mixture = task_named("mixture")
    samples = mixture.cases["two regressions"].make(0)
    parts = np.unique(samples.source, return_inverse=True)[1]
    assert mixture.judge(samples, parts, 0) == {"adjusted Rand": 1.0}


def made(contender, kind, values, **more):
    return Cell("labels", "case", contender, kind, {"AUROC": values}, [1.0], [1.0], **more)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.9, 0.91, 0.92], "first"), ([0.8, 0.85, 0.7], "level"), ([0.5, 0.51, 0.52], "behind")],
)
def test_a_verdict_is_the_paired_interval(values, verdict):
    rival = [0.78, 0.80, 0.79]
    found = [made("a", "ours", values), made("b", "rival", rival), made("c", "bound", [1, 1, 1])]
    (place,) = verdicts.places(found)
    lead = np.subtract(values, rival)
    half = student.ppf(0.975, 2) * lead.std(ddof=1) / np.sqrt(3)
    assert place.lead == pytest.approx((lead.mean(), lead.mean() - half, lead.mean() + half))
    assert (place.verdict, place.rival[0]) == (verdict, "b")


def test_a_figure_that_is_not_finite_is_said_and_none_is_recorded():
    found = [made("a", "ours", [0.9, 0.8]), made("b", "rival", [0.8, float("nan")])]
    assert verdicts.places(found) == []
    assert "not compared: labels, case, b: a figure is not finite" in list(verdicts.verdicts(found))
    assert not [said for said in verdicts.verdicts(kept("quick")) if "not compared" in said]


def test_who_missed_a_seed_is_not_compared_and_one_seed_is_no_verdict():
    found = [made("a", "ours", [0.9, 0.9, 0.9]), made("b", "rival", [0.8, 0.8, 0.8]),
             made("c", "rival", [1.0])]  # fmt: skip
    assert [place.rival[0] for place in verdicts.places(found)] == ["b"]
    found = [made("a", "ours", [0.9]), made("b", "rival", [0.5])]
    assert [place.verdict for place in verdicts.places(found)] == ["one seed"]


def test_a_figure_that_left_its_interval_is_named():
    recorded = [made("a", "ours", [0.80, 0.82, 0.84])]
    assert verdicts.departed([made("a", "ours", [0.83, 0.82, 0.84])], recorded, 0) == []
    (gone,) = verdicts.departed([made("a", "ours", [0.60, 0.62, 0.61])], recorded, 0)
    assert "left its interval: labels, case, a, AUROC: 0.6100" in gone
    # Fewer seeds are held against the same ones.
    assert verdicts.departed([made("a", "ours", [0.80])], recorded, 0) == []
    assert verdicts.departed([made("a", "ours", [0.87])], recorded, 0)
    # Other seeds: the intervals of both runs must meet, not the new mean lie in the old one.
    assert verdicts.departed([made("a", "ours", [0.70, 0.76, 0.82])], recorded, OTHER_SEED) == []
    assert verdicts.departed([made("a", "ours", [0.50, 0.51, 0.52])], recorded, OTHER_SEED)
    lost = verdicts.departed([made("a", "ours", [], missing="died")], recorded, 0)
    assert lost == ["no answer: labels, case, a: died"]


def python(*words, cwd=ROOT):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "bench", *map(str, words)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_run_from_the_command_line_goes_on_and_says_who_is_missing(tmp_path):
    command = ["purification", "--cases", "digits*10%", "--work", tmp_path, "--workers", 1]
    said = [
        python(*command, "--repeats", 1, "--contenders", who).stdout for who in ("*an*", "*random")
    ]
    assert "1/1  purification, digits 4 vs 8, 10%, seed 0" in said[0]
    assert " min " not in said[1]  # nobody who has answered is asked again
    lines = (tmp_path / "quick.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == 2  # a fifth less at random, cleanlab
    if find_spec("cleanlab") is None:
        assert "digits 4 vs 8, 10%, cleanlab: cleanlab is not installed" in said[0]
    unknown = python("papers/none")
    assert unknown.returncode == 1 and "No task papers/none" in unknown.stderr


def counted(options):
    return {"told": options.value("n", 1) + options.value("more", (1, 2))[1], "seconds": 0.0}


def several(options):
    yield "first", {"n": 1}
    raise RuntimeError("no more")


def test_a_case_without_contenders_gives_a_line_or_several(monkeypatch, tmp_path, capsys):
    task = Task("measures", {"one": Case(counted), "two": Case(several)}, lines="here/")
    monkeypatch.setattr(run, "task_named", lambda name: task)
    options = Options(tmp_path, values={"n": "3", "more": "5,6"})
    assert run.measure("any", ["one"], options, keep=False)
    assert "here/one {'seconds': 0.0, 'told': 9}" in capsys.readouterr().out
    assert not run.measure("any", ["t*"], options, keep=False)
    told = capsys.readouterr().out
    assert "here/first" in told and "left out: any, two: RuntimeError: no more" in told


def test_recorded_cells_cover_the_quick_list():
    recorded = {cell.key for cell in kept("quick")}
    listed = {
        (job.truth, job.case, contender)
        for job in run.jobs(TRUTHS, "quick", 0)
        for contender in job.contenders
    }
    assert recorded == listed
