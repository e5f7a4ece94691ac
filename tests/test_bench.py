"""`python -m bench`: nothing is judged by what chose it, and what it measures with is right."""

import os
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from scipy.stats import t as student

from datassay.act import Judged, auroc
from datassay.data import SampleSet
from datassay.train import Recipe

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench import data, detectors, noise, run, table, verdicts
from bench.attribution import halves, inserted_texts, problems, trust, wrong_labels
from bench.frame import TRUTHS, Case, Options, Task, every_task, task_named
from bench.papers import s4_networks
from bench.record import RESULTS, Cell, kept, read
from bench.truths import review, selection
from bench.truths import selection_baselines as rivals

ROOT = Path(__file__).parents[1]
OTHER_SEED = 1000  # of `python -m bench check --seed`, as CONTRIBUTING.md has it
TASKS = {name: task_named(name) for name in TRUTHS}
QUICK = [
    (name, case)
    for name in ("labels", "subclass", "mixture", "purification", "removal", "weights", "actions")
    for case, how in TASKS[name].cases.items()
    if how.quick
]


@pytest.mark.parametrize("name", TRUTHS)
def test_settings_were_chosen_elsewhere_and_ours_meets_the_trivial(name):
    task = TASKS[name]
    reported = {base + r for base in (0, OTHER_SEED) for r in range(task.repeats)}
    judged_by = {data: reported & set(seeds) for data, seeds in task.chosen_on.items()}
    for case in task.cases:
        both = [seeds for data, seeds in judged_by.items() if case.lower().startswith(data.lower())]
        assert not any(both), f"{case}: chosen on {both} and judged by them"
    kinds = {contender.kind for contender in task.contenders.values()}
    assert {"ours", "trivial"} <= kinds <= {"ours", "trivial", "baseline", "bound"}
    assert task.repeats >= (3 if any(case.quick for case in task.cases.values()) else 1)


def test_settings_of_trust_review_and_selection_were_chosen_on_other_data_or_seeds():
    chosen, reported = trust.CHOSEN_ON.values(), trust.REPORTED_ON.values()
    assert not {c.data for c in chosen} & {c.data for c in reported}
    assert not {c.seed for c in chosen} & {c.seed for c in reported}
    of = [{n.rsplit(" ", 1)[0] for n in part} for part in (review.CHOOSE, review.REPORT)]
    assert not of[0] & (of[1] - {"cifar10n"}) and not set(review.CHOOSE) & set(review.REPORT)
    assert set(selection.TASK.cases) == set(selection.REPORTED_ON)
    seeds = {seed for some in selection.REPORTED_ON.values() for seed in some}
    assert max(seeds) < min(map(min, selection.CHOSEN_ON.values()))


def test_every_task_is_found_and_stands_in_the_tables_once():
    names = every_task()
    shown = [name for names in table.SECTIONS.values() for name in names]
    assert len(set(names)) == len(names) and len(set(shown)) == len(shown)
    with_rows = {name for name in names if task_named(name).rows.__name__ == "rows"}
    assert with_rows == set(shown)


@pytest.mark.parametrize(("name", "case"), QUICK)
def test_contenders_see_no_truth_and_a_seed_draws_the_same(name, case):
    first, again, other = map(TASKS[name].cases[case].make, (3, 3, 4))
    given = getattr(first, "given", first)
    assert given.true_y is None and (given is first or given.source is None)
    for field in fields(first) if is_dataclass(first) else ():
        one, two = (getattr(problem, field.name) for problem in (first, again))
        assert not isinstance(one, np.ndarray) or np.array_equal(one, two), field.name
    x, x_again, x_other = (np.asarray(getattr(p, "given", p).x) for p in (first, again, other))
    assert np.array_equal(x, x_again) and not np.array_equal(x, x_other)


def test_the_truth_itself_wins():
    labels, mixture = TASKS["labels"], TASKS["mixture"]
    problem = labels.cases["wine, uniform 20 %"].make(0)
    assert labels.judge(problem, problem.marked.astype(float), 0) == {"AUROC": 1.0}
    samples = mixture.cases["two regressions"].make(0)
    parts = np.unique(samples.source, return_inverse=True)[1]
    assert mixture.judge(samples, parts, 0) == {"adjusted Rand": 1.0}


# Verdicts. ----------------------------------------------------------------------------------


def made(contender, kind, values, **more):
    return Cell("labels", "case", contender, kind, {"AUROC": values}, [1.0], [1.0], **more)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [([0.9, 0.91, 0.92], "win"), ([0.8, 0.85, 0.7], "tie"), ([0.5, 0.51, 0.52], "loss")],
)
def test_a_verdict_is_the_paired_interval(values, verdict):
    baseline = [0.78, 0.80, 0.79]
    results = [
        made("a", "ours", values),
        made("b", "baseline", baseline),
        made("c", "bound", [1, 1, 1]),
    ]
    (position,) = verdicts.comparisons([*results, made("missed two seeds", "baseline", [1.0])])
    lead = np.subtract(values, baseline)
    half = student.ppf(0.975, 2) * lead.std(ddof=1) / np.sqrt(3)
    assert position.lead == pytest.approx((lead.mean(), lead.mean() - half, lead.mean() + half))
    assert (position.verdict, position.baseline[0]) == (verdict, "b")


def test_one_seed_is_no_verdict_and_what_is_not_finite_is_said_and_not_recorded():
    results = [made("a", "ours", [0.9]), made("b", "baseline", [0.5])]
    assert [position.verdict for position in verdicts.comparisons(results)] == ["one seed"]
    results = [made("a", "ours", [0.9, 0.8]), made("b", "baseline", [0.8, float("nan")])]
    assert verdicts.comparisons(results) == []
    assert "not compared: labels, case, b: a figure is not finite" in list(
        verdicts.verdicts(results)
    )
    assert not [
        predicted for predicted in verdicts.verdicts(kept("quick")) if "not compared" in predicted
    ]


@pytest.mark.parametrize(
    ("values", "seed", "predicted"),
    [
        ([0.83, 0.82, 0.84], 0, ""),
        ([0.60, 0.62, 0.61], 0, "left its interval: labels, case, a, AUROC: 0.6100"),
        # Fewer seeds are held against the same ones.
        ([0.80], 0, ""),
        ([0.87], 0, "left its interval"),
        # Other seeds: the intervals of both runs must meet, not the new mean lie in the old one.
        ([0.70, 0.76, 0.82], OTHER_SEED, ""),
        ([0.50, 0.51, 0.52], OTHER_SEED, "left its interval"),
        ([], 0, "no answer: labels, case, a: died"),
    ],
)
def test_a_figure_that_left_its_interval_is_named(values, seed, predicted):
    recorded = [made("a", "ours", [0.80, 0.82, 0.84])]
    removed = verdicts.departed(
        [made("a", "ours", values, missing="died" * (not values))], recorded, seed
    )
    assert len(removed) == bool(predicted) and all(predicted in line for line in removed)


def test_recorded_cells_cover_the_quick_list():
    listed = {
        (job.truth, job.case, contender)
        for job in run.jobs(TRUTHS, "quick", 0)
        for contender in job.contenders
    }
    assert {cell.key for cell in kept("quick")} == listed


# Runs. --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_run_from_the_command_line_goes_on_and_says_who_is_missing(tmp_path):
    def python(*words):
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        command = [sys.executable, "-m", "bench", *map(str, words)]
        environment = {**os.environ, "PYTHONPATH": path}
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)

    command = ["purification", "--cases", "digits*10%", "--work", tmp_path, "--workers", 1]
    predicted = [
        python(*command, "--repeats", 1, "--contenders", who).stdout for who in ("*an*", "*random")
    ]
    assert "1/1  purification, digits 4 vs 8, 10%, seed 0" in predicted[0]
    assert " min " not in predicted[1]  # nobody who has answered is asked again
    assert len(read(tmp_path / "quick.jsonl")) == 2  # a fifth less at random, cleanlab
    if find_spec("cleanlab") is None:
        assert "digits 4 vs 8, 10%, cleanlab: cleanlab is not installed" in predicted[0]
    unknown = python("papers/none")
    assert unknown.returncode == 1 and "No task papers/none" in unknown.stderr


def test_a_case_without_contenders_gives_a_line_or_several(monkeypatch, tmp_path, capsys):
    def counted(options):
        return {"told": options.value("n", 1) + options.value("more", (1, 2))[1], "seconds": 0.0}

    def several(options):
        yield "first", {"n": 1}
        raise RuntimeError("no more")

    task = Task("measures", {"one": Case(counted), "two": Case(several)}, lines="here/")
    monkeypatch.setattr(run, "task_named", lambda name: task)
    options = Options(tmp_path, values={"n": "3", "more": "5,6"})
    assert run.measure("any", ["one"], options, keep=False)
    assert "here/one {'seconds': 0.0, 'told': 9}" in capsys.readouterr().out
    assert not run.measure("any", ["t*"], options, keep=False)
    message = capsys.readouterr().out
    assert "here/first" in message and "left out: any, two: RuntimeError: no more" in message


# Noise and detectors. -----------------------------------------------------------------------


def digits(seed):
    return review.without_flat(review.SAMPLES["digits"], 0)


DRAWN = {case: (noise.CASES[case], float(case.split()[-1]) / 100, 0.003)
         for case in ("wine pair 30", "digits uniform 10", "census 1:50 uniform 3")}  # fmt: skip
for kind in ("uniform", "pair", "one-way", "region"):
    spoil = review.NOISES[kind]
    DRAWN[kind] = (lambda seed, spoil=spoil: spoil(digits(seed), seed), review.RATE, 0.012)
DRAWN["input"] = (lambda seed: noise.input_dependent(0.2, digits(seed), seed), 0.2, 0.02)


@pytest.mark.parametrize(("draw", "rate", "room"), DRAWN.values(), ids=DRAWN)
def test_a_seed_draws_the_same_labels_as_many_wrong_as_said(draw, rate, room):
    first, again, other = map(draw, (3, 3, 4))
    assert (first.y == again.y).all() and (first.x == again.x).all()
    assert (first.y != other.y).any()
    assert np.mean(first.y != first.true_y) == pytest.approx(rate, abs=room)


def test_noise_is_where_it_is_said_to_be():
    given = review.NOISES["one-way"](digits(0), 0)
    wrong = given.y != given.true_y
    assert set(given.true_y[wrong]) == {1} and set(given.y[wrong]) == {0}
    noisy = noise.input_dependent(0.2, data.built_in("digits", 0), 0)
    wrong = noisy.y != noisy.true_y
    # Confused classes, not random ones: a few of the 90 ordered pairs hold most.
    pairs = np.bincount(10 * noisy.true_y[wrong] + noisy.y[wrong], minlength=100)
    assert np.sort(pairs)[-20:].sum() > 0.5 * wrong.sum()


@pytest.mark.parametrize("baseline", ["neighbours", "area_under_margin", "final_loss", "margin"])
def test_baselines_rank_wrong_labels_first(baseline):
    cell = noise.CASES["digits uniform 10"](0).subset(np.arange(600))
    assert auroc(cell.y != cell.true_y, getattr(detectors, baseline)(cell, 0)) > 0.9


# Reviews. -----------------------------------------------------------------------------------


def reviewed(n):
    """Two classes, a fifth of class 0 given as 1; the judge half sees it."""
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=n)
    labels = np.where((truth == 0) & (rng.random(n) < 0.2), 1, truth)
    odds = rng.normal(-3, 1, n) + 2 * (labels != truth)
    parts = (np.log(np.full((n, 2), 0.5)), odds, np.ones((n, 1)))
    judged = Judged(labels, *(part.astype(np.float32) for part in parts))
    return review.Reviewed(None, judged, None, truth)


@pytest.mark.slow
def test_a_review_counts_errors_once_and_says_what_is_left():
    one = reviewed(240)
    wrong = one.truth != one.judged.labels
    some = review.learnt(one, 100, 0.0, 0)
    assert len(some.found) == 100 and len(some.said) == 6
    assert some.left == [wrong.sum() - n for n in (0, *some.found[19::20])]
    assert [predicted.errors_found for predicted in some.said] == [0, *some.found[19::20]]
    whole = review.learnt(one, 240, 0.0, 0)
    assert whole.found[-1] == wrong.sum() and whole.left[-1] == 0
    assert review.learnt(one, 100, 1.0, 0).found[-1] == 0  # who always slips finds nothing


def test_learning_finds_more_than_the_fixed_order_and_says_when_to_stop(monkeypatch):
    monkeypatch.setattr(review, "LONG", 160)
    one, chance = reviewed(500), np.random.default_rng(0).random(500)
    answers = (review.ours(one, 0), review.fixed(one, 0), chance)
    learnt, fixed, chance = (review.judge(one, answer, 0) for answer in answers)
    assert learnt["errors in 100"] > fixed["errors in 100"] > chance["errors in 100"]
    assert learnt["stop"] % review.EVERY == 0
    wrong = (one.truth != one.judged.labels).sum()
    assert learnt["found at stop"] + learnt["left at stop"] == wrong


# Attribution. -------------------------------------------------------------------------------


def test_datamodelling_score_is_the_mean_rank_correlation_of_sums_over_halves():
    rng = np.random.default_rng(0)
    effect, truth = rng.normal(size=(8, 3)), rng.normal(size=(12, 3))
    chosen = np.stack([rng.permutation(8)[:4] for _ in range(12)])
    by_hand = [
        spearmanr([effect[half, j].sum() for half in chosen], truth[:, j])[0] for j in range(3)
    ]
    assert np.isclose(problems.lds(problems.summed(effect, chosen), truth), np.mean(by_hand))
    assert problems.lds(np.ones((12, 3)), truth) == 0


def test_inserted_texts_are_asked_for_by_their_second_half_and_placed_by_their_effect():
    effect = np.zeros((inserted_texts.N + 2, 2))
    effect[:3, 0] = [-3, -1, 2]
    effect[inserted_texts.N :] = [[-2, 0], [0, -1]]
    assert inserted_texts.places(effect).tolist() == [2, 1]
    labels = torch.tensor([[0, 5, 6, 7, 8, 0], [0, 5, 6, 0, -100, -100]])
    wanted = inserted_texts.halves({"input_ids": labels, "labels": labels})
    assert wanted["labels"].tolist() == [[-100] * 3 + [7, 8, 0], [-100, -100, 6, 0, -100, -100]]
    assert wanted["input_ids"] is labels


def test_simple_scores_of_wrong_labels_by_hand():
    torch.manual_seed(0)
    model, x, y = torch.nn.Linear(4, 3), torch.randn(7, 4), torch.arange(7) % 3
    problem = problems.Problem({"x": x, "labels": y}, {}, lambda seed: model)
    f = model(x).detach()
    others = f.masked_fill(torch.eye(3)[y].bool(), -torch.inf).amax(1)
    given = f[torch.arange(7), y]
    away = (f.softmax(1) - torch.eye(3)[y]).norm(dim=1)
    slopes = away**2 * (x.square().sum(1) + 1)  # of weights and biases
    for score, by_hand in (
        (wrong_labels.margin, others - given),
        (wrong_labels.loss, f.logsumexp(1) - given),
        (wrong_labels.el2n, away),
        (wrong_labels.tracin, slopes),
    ):
        np.testing.assert_allclose(score(problem, model), by_hand, rtol=1e-4)
    p = f.double().softmax(-1).gather(1, y[:, None])[:, 0]
    torch.testing.assert_close(problems.log_odds(f.double(), y), torch.log(p / (1 - p)))


def test_images_are_moved_or_mirrored_and_keep_their_labels():
    x = torch.zeros(200, 1, 5, 5)
    x[:, 0, 2, 1] = 1
    batch = {"x": x, "labels": torch.arange(200)}
    moved = problems.shifted_and_mirrored(batch, torch.Generator().manual_seed(0))
    positions = {tuple(position) for position in moved["x"][:, 0].nonzero()[:, 1:].tolist()}
    assert positions == {(row, column) for row in (1, 2, 3) for column in (0, 1, 2, 3, 4)}
    assert torch.equal(moved["labels"], batch["labels"]) and moved["x"].sum() == 200


def test_words_in_common_count_for_the_same_label_and_against_another():
    texts = (["a good film", "a bad film", "other words here"], ["good", "nothing"])
    train, queries = ({"labels": torch.tensor(y)} for y in ([1, 0, 1], [1, 0]))
    problem = problems.Problem(train, queries, torch.nn.Identity, texts=texts)
    result = halves.word_overlap(problem, torch.nn.Identity())
    assert result[0, 0] > 0 and not np.any(result[1:, 0]) and not np.any(result[:, 1])
    other = replace(problem, queries={"labels": torch.tensor([0, 0])})
    assert np.array_equal(problems.same_label(other)[:, 0], [-1, 1, -1])
    assert halves.word_overlap(other, torch.nn.Identity())[0, 0] == -result[0, 0]


def test_reported_trust_was_measured_with_ten_times_the_retraining():
    lines = {line["bench"]: line for line in read(RESULTS)}
    for name, case in trust.REPORTED_ON.items():
        line = lines[f"trust reported: {name}"]
        assert line["halves"] == case.halves and line["times"] == 10
        inside = [row["low"] <= row["truth"] <= row["high"] for row in line["scores"]]
        # What the page of methods says.
        assert all(inside) and [row["inside"] for row in line["scores"]] == inside


@pytest.mark.slow
def test_a_trust_case_is_measured(tmp_path):
    case = trust.Trained("wine", 5, Recipe(steps=20), "mlp:width=4", halves=4)
    halves, scores, _ = trust.measured(case, str(tmp_path))
    assert len(halves.halves) == 44 and scores.effects
    assert 0.5 < trust.coverage(halves, scores, 4) <= 1


# Baselines of selection. -----------------------------------------------------------------------


def dynamics(right, y=None, embedding=None):
    """Two classes; right [networks, epochs, n] says with what probability the label is given."""
    right = np.asarray(right, float)
    n = right.shape[2]
    y = np.zeros(n, int) if y is None else np.asarray(y)
    probability = np.where(y[:, None] == np.arange(2), right[..., None], 1 - right[..., None])
    return rivals.Dynamics(probability, np.zeros((n, 1)) if embedding is None else embedding, y)


@dataclass(frozen=True, eq=False)
class Given:
    train: SampleSet
    dynamics: rivals.Dynamics | None
    seed: int = 0


def task(y, embedding=None):
    seen = None if embedding is None else dynamics(np.ones((1, 3, len(y))), y, embedding)
    x, ids = np.zeros((len(y), 1), np.float32), np.arange(len(y))
    return Given(SampleSet(x, np.asarray(y), ids, ("a", "b")), seen)


def test_forgetting_margins_areas_and_error_lengths():
    seen = dynamics([[[0.9, 0.9, 0.1], [0.1, 0.9, 0.1], [0.9, 0.9, 0.1], [0.2, 0.9, 0.1]]])
    assert list(seen.forgetting) == [2, 0, 4]  # falls, and what is never learned
    right = np.full((2, 4, 2), 0.5)
    right[0, :, 1] = 0.8
    seen = dynamics(right, y=[1, 0])
    np.testing.assert_allclose(seen.aum, [0, np.log(4) / 2], atol=1e-12)
    np.testing.assert_allclose(seen.final_margin, seen.aum)
    lengths = [np.sqrt(0.5), (np.sqrt(0.5) + np.sqrt(0.08)) / 2]
    np.testing.assert_allclose(seen.el2n, lengths)


@pytest.mark.parametrize("kept", [4, 5, 11])
def test_classes_stay_in_proportion(kept):
    y = np.array([0] * 20 + [1] * 10)
    counts = np.bincount(y[rivals.at_random(task(y), kept)])
    assert counts.sum() == kept and abs(counts[0] - 2 * kept / 3) < 1


def test_k_centre_takes_the_corners_and_moderate_the_median_distance():
    corners = np.array([[0, 0], [0, 10], [10, 0], [10, 10]], float)
    near = corners.repeat(5, 0) + np.random.default_rng(0).normal(0, 0.1, (20, 2))
    assert sorted(rivals.k_centre(task(np.arange(20) % 2, near), 4) // 5) == [0, 1, 2, 3]
    z = np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 20])[:, None]
    distance = np.abs(z[:, 0] - z.mean())
    assert distance[rivals.moderate(task(np.zeros(9, int), z), 1)[0]] == np.median(distance)


def test_strata_are_filled_from_the_rarest_and_the_hardest_go():
    aum = np.concatenate([np.linspace(0, 0.01, 80), np.linspace(0.9, 1.0, 20)])
    chosen, pruned = (
        rivals.stratified(aum, np.arange(100), beta, 30, np.random.default_rng(0))
        for beta in (0.0, 0.5)
    )
    assert len(set(chosen)) == 30 and (chosen >= 80).sum() == 20 and pruned.min() >= 50


def test_what_divided_networks_cost_is_what_they_hold_and_experts_are_a_mixture():
    d, c, k, width = 20, 5, 3, s4_networks.WIDTH
    experts = s4_networks.Experts(d, width, c, k, seed=0)
    one, x = s4_networks.dense(d, width, c, 0), torch.randn(7, d)
    macs = sum(p.numel() for p in one.parameters() if p.ndim == 2)
    weights = [sum(p.numel() for p in network.parameters()) for network in (one, experts)]
    cost = s4_networks.costs(d, c, k)
    assert cost[f"one network, {width} units"] == (macs, 4 * weights[0])
    assert cost["mixture of experts"][1] == 4 * weights[1]
    with torch.no_grad():
        gate, each = experts.gate(x).softmax(1), [e(x).softmax(1) for e in experts.experts]
        mixed = sum(gate[:, [i]] * p for i, p in enumerate(each))
        torch.testing.assert_close(experts(x).exp(), mixed)
