"""The plan counts what the run would do, without doing it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay as da
from datassay.act.remove import removal_curve
from datassay.collect.form import ProductSettings, step_bytes
from datassay.commands.run import job
from datassay.commands.run.job import run
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.budget import affordable_networks, budget_fact, forward_work
from datassay.commands.run.steps.plan import plan
from datassay.errors import ModelError, SettingError
from datassay.machine import matrix_rate
from datassay.train.training import train_networks

DIGITS = da.load("digits")
SETTINGS = RunSettings()
STEPS = [
    "collect", "decompose", "leave one out", "attribution", "label issues", "influence",
    "groups and pairs", "retrain", "compare acts", "page",
]  # fmt: skip


def test_digits():
    planned = plan(*DIGITS, SETTINGS)
    assert [s.name for s in planned.steps] == STEPS
    assert all(s.seconds > 0 and s.bytes > 0 for s in planned.steps)
    most = max(s.bytes for s in planned.steps)
    assert planned.peak_bytes == planned.program_bytes + most < 2e9
    assert planned.program_bytes > 2e8 and planned.fits
    assert planned.available_bytes > planned.peak_bytes
    collect, decompose, leave, effects, labels, _, several, retrain, acts, _ = (
        s.detail for s in planned.steps
    )
    assert "exact averaged kernel, 1438 x 1438, float64" in collect
    assert "1438 x 1438 eigenproblem, dual" in decompose
    assert "1438 removals, 10 x 1 outputs" in leave
    assert "1438 x 359 effects, the 5 largest" in effects
    assert "1438 x 1438 kernel" in labels
    assert "each sample with its likest" in several
    assert "300 updates of 64 samples" in retrain
    assert "held-out part" in acts


def test_a_small_model_is_planned_in_the_primal():
    planned = plan(*DIGITS, replace(SETTINGS, model="logistic"))
    assert planned.form.representation == "features"
    assert "650 x 650 eigenproblem, primal" in planned.steps[1].detail


def test_without_retraining_that_step_is_gone():
    names = [s.name for s in plan(*DIGITS, replace(SETTINGS, curve_seeds=0)).steps]
    assert names == [n for n in STEPS if n not in {"retrain", "compare acts"}]


def test_a_store_is_a_step_of_its_own():
    steps = plan(*da.load("iris"), replace(SETTINGS, curve_seeds=0, store="kept")).steps
    assert steps[1].name == "store" and " GB in kept; " in steps[1].detail


def test_the_start_of_an_engine_is_a_step():
    train, val = da.load("iris")
    steps = {
        engine: {s.name: s.seconds for s in plan(train, val, RunSettings(engine=engine)).steps}
        for engine in ("in_process", "ray")
    }
    assert steps["ray"].keys() - steps["in_process"].keys() == {"engine"}
    assert steps["ray"]["engine"] > 1


def test_more_seeds_cost_more():
    one, five = (plan(*DIGITS, replace(SETTINGS, curve_seeds=c)).steps[7].flops for c in (1, 5))
    assert five == pytest.approx(5 * one)


def test_known_truth_saves_the_round_that_judges_the_suspects():
    train, val = DIGITS
    noisy = da.add_label_noise(train, 0.1)
    assert plan(noisy, val, SETTINGS).steps[7].flops < plan(train, val, SETTINGS).steps[7].flops


def test_the_plan_keeps_the_model_and_the_samples_as_they_were():
    train, _ = DIGITS
    x, model = train.x.copy(), da.build_model("mlp:width=8", train)
    before = [p.clone() for p in model.parameters()]
    forward_work(model, train)
    assert np.array_equal(train.x, x)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_forward_work_counts_two_operations_a_weight():
    train, _ = DIGITS
    work = forward_work(da.build_model("mlp:width=8", train), train)
    assert (work.convolutions, work.products) == (0, 2 * (64 * 8 + 8 * 10))


def test_forward_work_of_a_convolution():
    train, _ = DIGITS
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 5, bias=False), torch.nn.Flatten())
    assert forward_work(network, train).convolutions == 2 * 25 * 3 * 4 * 4


def test_a_bad_setting_is_refused_as_the_run_would():
    with pytest.raises(SettingError, match="steps"):
        plan(*DIGITS, replace(SETTINGS, steps=0))
    with pytest.raises(ModelError, match="model must be one of"):
        plan(*DIGITS, replace(SETTINGS, model="nope"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_matrix_rate_is_a_rate(dtype):
    assert 1e8 < matrix_rate(dtype, size=256) < 1e15


def test_attribution_is_counted_only_where_it_is_asked_for():
    steps = {s.name: s for s in plan(*DIGITS, SETTINGS).steps}
    without = {s.name: s for s in plan(*DIGITS, replace(SETTINGS, attribution="none")).steps}
    assert "attribution" not in without
    # Fewer queries than modes: the same product, moved from one step to the other.
    product = 2 * 1438 * 10 * 1438 * 359
    assert steps["attribution"].flops == product
    assert without["leave one out"].flops == steps["leave one out"].flops + product


def test_effects_at_trained_networks_are_a_step_after_training():
    steps = plan(*DIGITS, replace(SETTINGS, attribution_at="trained")).steps
    names = [s.name for s in steps]
    assert "attribution" not in names
    assert names[-4:] == ["retrain", "compare acts", "trained effects", "page"]
    assert steps[-2].detail.endswith("curvature by layers")
    more = replace(SETTINGS, attribution_at="trained", curve_seeds=2 * SETTINGS.curve_seeds)
    effects = {s.name: s for s in plan(*DIGITS, more).steps}["trained effects"]
    assert effects.flops == 2 * steps[-2].flops


def test_groups_and_pairs_are_a_step_until_they_take_long():
    steps = {s.name: s for s in plan(*DIGITS, SETTINGS).steps}
    pairs = 4 * 1438 * 1438 * (359 + 60) * 10 + 2 * 1438**3
    assert pairs < steps["groups and pairs"].flops < 10 * pairs
    joint = replace(SETTINGS, outputs="joint", projection=None)
    assert "groups and pairs" not in {s.name for s in plan(*DIGITS, joint).steps}


def test_subsets_are_a_step_that_grows_with_their_number():
    found = {
        draws: {s.name: s for s in plan(*DIGITS, replace(SETTINGS, subsets=draws)).steps}
        for draws in (0, 8, 16)
    }
    assert "random subsets" not in found[0]
    few, many = found[8]["random subsets"], found[16]["random subsets"]
    assert many.flops == pytest.approx(2 * few.flops)
    # Of a kernel, decompositions of a quarter, a half and three quarters of its rows lead.
    whole = found[0]["decompose"].flops
    assert 8 * (1 / 64 + 1 / 8 + 27 / 64) * whole * 0.7 < few.flops
    assert few.bytes > found[0]["decompose"].bytes / 2


def test_a_check_is_a_step_of_so_many_networks():
    small = replace(SETTINGS, check=19, steps=100)
    steps = {s.name: s for s in plan(*DIGITS, small).steps}
    parameters = 38_410 - 522  # biases are added, not multiplied
    assert steps["check"].flops == pytest.approx(20 * 100 * 1438 * 6 * parameters)
    assert "check" not in [s.name for s in plan(*DIGITS, SETTINGS).steps]


def test_60_000_samples_of_10_outputs_are_planned_within_the_goal():
    """10 000 queries: the averaged kernel by 1024 landmarks, effects left out."""
    x = np.random.default_rng(0).random((60_000, 64), np.float32)
    y = np.arange(60_000) % 10
    names = tuple("abcdefghij")
    train = da.SampleSet(x=x, y=y, ids=np.arange(60_000), class_names=names)
    planned = plan(train, train.subset(np.arange(10_000)), replace(SETTINGS, memory=8e9))
    assert planned.form.outputs == "averaged" and planned.form.landmarks == 1024
    assert planned.peak_bytes < 8e9
    assert "attribution" not in [s.name for s in planned.steps]
    assert "primal" in planned.steps[1].detail


def test_choosing_the_projection_is_a_step_before_all_others():
    asked = replace(SETTINGS, curve_seeds=0, rank_correlation=0.9)
    first, *others = plan(*DIGITS, asked).steps
    assert first.name == "compare projections" and "400 samples" in first.detail
    # 400 x 10 rows are decomposed where the run itself has 1438.
    assert first.flops > next(s.flops for s in others if s.name == "decompose")
    assert [s.name for s in others] == [n for n in STEPS if n not in {"retrain", "compare acts"}]


def test_steps_hold_what_is_counted_by_hand():
    """60 000 x 4096 float32 rows, products in float32; 256 MiB a panel."""
    form = replace(plan(*DIGITS, SETTINGS).form, representation="features", outputs="averaged")
    form = replace(
        form, n_rows=60_000, n_features=4096, products=ProductSettings("float32"), result_bytes=1e9
    )
    held, matrix = step_bytes(form), 8 * 4096**2
    assert held["decompose"] == 1e9 + 4 * matrix + 2**27
    residuals = 8 * 2 * 33 * 60_000 * 10  # two offsets, 33 penalties
    assert held["label issues"] == 1e9 + 2 * matrix + residuals + 2 * 2**28
    assert (
        step_bytes(replace(form, products=ProductSettings("float32", in_store=True)))[
            "label issues"
        ]
        == held["label issues"] - 1e9
    )


def test_a_budget_trains_fewer_networks_and_says_so():
    train, val = da.load("digits")
    work = forward_work(da.build_model("mlp", train), train)
    counts = {}
    for budget in (0, 10, 40, float("inf")):
        settings = RunSettings(budget=budget)
        seeds = affordable_networks(work, train, val, settings)
        counts[budget] = seeds
        told = budget_fact(work, train, val, settings, seeds).get("Retraining budget", "")
        assert ("--budget" in told) == (seeds < settings.curve_seeds)
    assert counts[0] == 0 and counts[float("inf")] == 5
    assert sorted(counts.values()) == list(counts.values())
    needed = RunSettings(budget=0, attribution_at="trained")
    assert affordable_networks(work, train, val, needed) == 1


@pytest.mark.parametrize("held_out", [True, False])
def test_every_network_that_is_trained_is_counted(held_out, monkeypatch):
    train, val = da.load("digits")
    train = da.add_label_noise(train.subset(np.arange(200)), 0.15)
    val = val if held_out else None
    settings, made = replace(SETTINGS, model="logistic", curve_seeds=2), []

    def counted(models, *rest, **more):
        made.extend(models)
        return train_networks(models, *rest, **more)

    monkeypatch.setattr(removal_curve, "train_networks", counted)
    monkeypatch.setattr(job, "act_table", lambda *_: None)
    assert run(train, val, settings).issues.is_issue.any()
    (step,) = (s for s in plan(train, val, settings).steps if s.name == "retrain")
    assert step.detail.startswith(f"{len(made)} networks, ")


def test_networks_that_the_budget_leaves_out_are_not_built(monkeypatch):
    train, val = da.load("iris")
    seeds, settings = [], replace(SETTINGS, model="logistic", budget=0)

    def built(*given, seed, **more):
        seeds.append(seed)
        return da.build_model(*given, seed=seed, **more)

    monkeypatch.setattr(job, "build_model", built)
    assert run(train, val, settings).removal_curve is None
    assert seeds == [0]
