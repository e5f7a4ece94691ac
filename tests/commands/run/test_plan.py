"""The plan counts what the run would do, without doing it."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import datassay as da
from datassay.act.remove import removal_curve
from datassay.collect.embedding_pass import EmbeddingPass
from datassay.collect.form import ProductSettings, step_bytes
from datassay.commands.run import job
from datassay.commands.run.job import run
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps import settings as run_settings
from datassay.commands.run.steps.budget import affordable_networks, budget_fact, forward_work
from datassay.commands.run.steps.plan import EMBED, Plan, lines, plan
from datassay.errors import ModelError, SettingError
from datassay.plan import PlanStep
from datassay.train.recipe import Recipe
from datassay.train.together import train_in_stacks

DIGITS = da.load("digits")
SETTINGS = RunSettings()


def test_digits():
    planned = plan(*DIGITS, SETTINGS)
    assert [s.name for s in planned.steps] == [
        "collect", "eigendecomposition", "leave one out", "attribution", "label issues",
        "influence", "groups and pairs", "retrain", "compare actions", "page",
    ]  # fmt: skip
    assert all(s.seconds > 0 and s.bytes > 0 for s in planned.steps)
    most = max(s.bytes for s in planned.steps)
    assert planned.peak_bytes == planned.program_bytes + most < 2e9
    assert planned.program_bytes > 2e8 and planned.fits
    assert planned.available_bytes > planned.peak_bytes
    reported = {
        "collect": "exact averaged kernel, 1438 x 1438, float64",
        "eigendecomposition": "1438 x 1438 eigenproblem, dual",
        "leave one out": "1438 removals, 10 x 1 outputs",
        "attribution": "1438 x 359 effects, the 5 largest",
        "label issues": "1438 x 1438 kernel",
        "groups and pairs": "each sample with the one most like it",
        "retrain": f"{Recipe().steps} updates of 64 samples",
        "compare actions": "held-out part",
    }
    assert all(reported.get(step.name, "") in step.detail for step in planned.steps)


def test_a_plan_shows_whole_seconds_and_what_shortens_them():
    parts = (PlanStep("start", "read", pilot=0.3), PlanStep(EMBED, "images", 1e6, pilot=87.6))
    total, hint, start, table = lines(Plan(parts, 1e9, 1e10, plan(*DIGITS, SETTINGS).form))
    assert [list(c.cells) for c in table.columns][2:] == [["", ""], ["<1", "88"]]
    assert start == "To start it, type the same without --plan."
    assert hint == "Shorter: --store DIR keeps the embeddings for the next run."
    assert total.startswith("About 88 s")
    trained = [PlanStep(name, "", pilot=6) for name in ("retrain", "compare actions")]
    _, hint, *_ = lines(Plan(tuple(trained), 1e9, 1e10, plan(*DIGITS, SETTINGS).form))
    assert hint.startswith("Shorter: --budget SECONDS stops ")
    work = object.__new__(EmbeddingPass)  # the first batch, which is slow, does not count
    work.clocks, work.total = [(16, 30.0), (32, 32.0)], 320
    assert work._estimate_seconds() == 40


def steps(settings=SETTINGS, data=DIGITS, **changes):
    """Of a plan, by their names, in order."""
    return {step.name: step for step in plan(*data, replace(settings, **changes)).steps}


def test_what_is_not_asked_for_is_no_step_and_what_is_has_its_place():
    whole, iris = list(steps()), da.load("iris")
    bare = [name for name in whole if name not in {"retrain", "compare actions"}]
    assert list(steps(curve_seeds=0)) == bare
    assert list(steps(data=iris, curve_seeds=0, store="kept"))[1] == "store"
    of_ray, others = (steps(data=iris, engine=name) for name in ("ray", "processes"))
    assert of_ray.keys() - steps(data=iris).keys() == {"engine"}
    assert 0 < of_ray["engine"].seconds == pytest.approx(4 * others["engine"].seconds)
    assert "attribution" not in steps(attribution="none")
    joint = {"outputs": "joint", "projection": None}
    assert "groups and pairs" not in steps(**joint)  # which would take long
    assert "check" not in whole and "random subsets" not in whole
    first, *others = steps(curve_seeds=0, rank_correlation=0.9).values()
    assert first.name == "compare projections" and "400 samples" in first.detail
    # 400 x 10 rows are decomposed where the run itself has 1438.
    assert first.flops > next(s.flops for s in others if s.name == "eigendecomposition")
    assert [s.name for s in others] == bare


def test_forward_work_counts_two_operations_a_weight_and_leaves_all_as_it_was():
    train, _ = DIGITS
    x, model = train.x.copy(), da.build_model("mlp:width=8", train)
    before = [p.clone() for p in model.parameters()]
    work = forward_work(model, train)
    assert (work.convolutions, work.products) == (0, 2 * (64 * 8 + 8 * 10))
    assert np.array_equal(train.x, x)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    network = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 5, bias=False), torch.nn.Flatten())
    assert forward_work(network, train).convolutions == 2 * 25 * 3 * 4 * 4


def test_a_bad_setting_is_refused_as_the_run_would():
    with pytest.raises(SettingError, match="steps"):
        plan(*DIGITS, replace(SETTINGS, steps=0))
    with pytest.raises(ModelError, match="model must be one of"):
        plan(*DIGITS, replace(SETTINGS, model="nope"))


def test_work_is_that_of_the_arithmetic():
    ours, without = steps(), steps(attribution="none", curve_seeds=1)
    assert ours["retrain"].flops == pytest.approx(3 * without["retrain"].flops)
    # Fewer queries than modes: the same product, moved from one step to the other.
    product = 2 * 1438 * 10 * 1438 * 359
    assert ours["attribution"].flops == product
    assert without["leave one out"].flops == ours["leave one out"].flops + product
    pairs = 4 * 1438 * 1438 * (359 + 60) * 10 + 2 * 1438**3
    assert pairs < ours["groups and pairs"].flops < 10 * pairs
    few, many = (steps(subsets=draws)["random subsets"] for draws in (8, 16))
    assert many.flops == pytest.approx(2 * few.flops)
    # Of a kernel, decompositions of a quarter, a half and three quarters of its rows lead.
    whole = ours["eigendecomposition"]
    assert 8 * (1 / 64 + 1 / 8 + 27 / 64) * whole.flops * 0.7 < few.flops
    assert few.bytes > whole.bytes / 2
    parameters = 38_410 - 522  # biases are added, not multiplied
    check = steps(check=19, steps=100)["check"]
    assert check.flops == pytest.approx(20 * 100 * 1438 * 6 * parameters)


def test_effects_at_trained_networks_are_a_step_after_training():
    ours, more = (steps(attribution_at="trained", curve_seeds=c) for c in (5, 10))
    assert "attribution" not in ours
    assert list(ours)[-4:] == ["retrain", "compare actions", "trained effects", "page"]
    assert ours["trained effects"].detail.endswith("curvature by layers")
    assert more["trained effects"].flops == 2 * ours["trained effects"].flops


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


def test_steps_hold_what_is_counted_by_hand():
    """60 000 x 4096 float32 rows, products in float32; a panel as large as p x p."""
    form = replace(plan(*DIGITS, SETTINGS).form, representation="features", outputs="averaged")
    form = replace(
        form, n_rows=60_000, n_features=4096, products=ProductSettings("float32"), result_bytes=1e9
    )
    held, matrix = step_bytes(form), 8 * 4096**2
    assert held["eigendecomposition"] == 1e9 + 4 * matrix + matrix / 2
    residuals = 8 * 2 * 33 * 60_000 * 10  # two offsets, 33 penalties
    assert held["label issues"] == 1e9 + 2 * matrix + residuals + 2 * matrix
    stored = step_bytes(replace(form, products=ProductSettings("float32", in_store=True)))
    assert stored["label issues"] == held["label issues"] - 1e9


def test_a_budget_trains_fewer_networks_and_says_so(monkeypatch):
    """As many on every machine: what is measured here decides nothing."""
    train, val = DIGITS
    work, counts = forward_work(da.build_model("mlp", train), train), []
    monkeypatch.setattr("datassay.plan.rate", None)
    for budget in (0, 10, 40, float("inf")):
        settings = RunSettings(budget=budget)
        seeds = affordable_networks(work, train, val, settings)
        counts.append(seeds)
        reported = budget_fact(work, train, val, settings, seeds).get("Retraining budget", "")
        assert ("--budget" in reported) == (seeds < settings.curve_seeds)
    assert counts == sorted(counts) and counts[::3] == [0, 3]
    needed = RunSettings(budget=0, attribution_at="trained")
    assert affordable_networks(work, train, val, needed) == 1


@pytest.mark.parametrize("held_out", [pytest.param(True, marks=pytest.mark.slow), False])
def test_every_network_that_is_trained_is_counted(held_out, monkeypatch):
    train, val = da.load("digits")
    train = da.add_label_noise(train.subset(np.arange(100)), 0.15)
    val = val if held_out else None
    settings, made = replace(SETTINGS, model="logistic", curve_seeds=2), []

    def counted(models, *rest, **more):
        made.extend(models)
        return train_in_stacks(models, *rest, **more)

    monkeypatch.setattr(removal_curve, "train_in_stacks", counted)
    monkeypatch.setattr(job, "act_table", lambda *_: None)
    assert run(train, val, settings).issues.is_issue.any()
    assert steps(settings, (train, val))["retrain"].detail.startswith(f"{len(made)} networks, ")


def test_networks_that_the_budget_leaves_out_are_not_built(monkeypatch):
    train, val = da.load("iris")
    seeds, settings = [], replace(SETTINGS, model="logistic", budget=0)

    def built(*given, seed, **more):
        seeds.append(seed)
        return da.build_model(*given, seed=seed, **more)

    monkeypatch.setattr(run_settings, "build_model", built)
    assert run(train, val, settings).removal_curve is None
    assert seeds == [0]
