"""The plan of an influence: its blocks by hand, its time and memory beside those of a real run."""

import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.errors import SettingError
from datassay.score import InfluencePlan, influence_plan

FACTOR = 3
MEMORY = """
from pathlib import Path
import torch
from torch import nn
import datassay as da
from datassay.machine import resident_bytes
from datassay.score import influence_plan
torch.manual_seed(0)
x, y = torch.randn(150, 40).numpy(), (torch.arange(150) % 3).numpy()
net = nn.Sequential(nn.Linear(40, 60), nn.Tanh(), nn.Linear(60, 3))
small = nn.Sequential(nn.Linear(40, 2), nn.Tanh(), nn.Linear(2, 3))
da.influence(small, (x, y), curvature="blocks")  # what any call loads
plan = influence_plan(net, (x, y), curvature="blocks")
before = resident_bytes()
da.influence(net, (x, y), curvature="blocks")
# Not what getrusage says, which a child process has from its parent.
status = Path("/proc/self/status").read_text()
peak = float(status.split("VmHWM:")[1].split()[0]) * 1024
print(plan.peak_bytes, peak - before)
"""


def network(width=16, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, width), nn.Tanh(), nn.Linear(width, 3))


def samples(n=60, seed=0):
    draw = np.random.default_rng(seed)
    return draw.normal(size=(n, 6)), np.arange(n) % 3


def test_blocks_and_passes_by_hand():
    plan = influence_plan(network(), samples(), samples(10, 1), curvature="blocks")
    assert plan.block.tolist() == ["0", "2"]
    assert plan.size.tolist() == [16 * 7, 3 * 17]
    assert plan.kind.tolist() == ["exact", "exact"]
    assert plan.bytes.tolist() == [24.0 * 112**2, 24.0 * 51**2]
    # Forward and two back a sample for the curvature; forward and back for losses and queries,
    # and once more back for self-influence.
    assert plan.passes == 60 * 3 + 60 * 2 + 10 * 2 + 60
    # 120 gradients by outputs and 130 others: formed, and a product of size²; effects; Cholesky.
    expected = 250 * (2 * 51 + 2 * 51**2) + 2 * 600 * 51 + 4 / 3 * 51**3
    assert plan.flops[1] == pytest.approx(expected)
    assert (plan.n_samples, plan.n_queries, plan.n_models) == (60, 10, 1)
    assert plan.to_table().column_names == ["block", "size", "kind", "bytes", "flops"]
    assert 0 < plan.seconds < 5 and 0 < plan.peak_bytes < 1e8 and plan.fits


def test_factored_blocks_take_another_round_and_models_their_number():
    one = influence_plan(network(), samples(), curvature="ekfac")
    assert one.kind.tolist() == ["factored", "factored"]
    assert one.passes == 2 * 60 * 3 + 2 * 2 * 60 + 60
    two = influence_plan([network(), network(seed=1)], samples(), curvature="ekfac")
    assert two.passes == 2 * one.passes and two.n_models == 2
    assert two.flops.tolist() == (2 * one.flops).tolist()


def test_a_plan_of_some_weights_is_saved_and_read(tmp_path):
    plan = influence_plan(network(), samples(), parameters="2.")
    assert plan.block.tolist() == ["2"]
    plan.save(tmp_path / "plan.parquet")
    again = InfluencePlan.load(tmp_path / "plan.parquet")
    assert again.size.tolist() == plan.size.tolist() and again.passes == plan.passes


def test_the_choice_of_damping_is_counted():
    model, train = network(), samples(90)
    fixed = influence_plan(model, train, curvature="blocks", damping=1.0)
    chosen = influence_plan(model, train, curvature="blocks")
    # Forward and a gradient by each of 3 outputs to linearise; exact curvature comes of these.
    assert chosen.passes - fixed.passes == 90 * (1 + 3)
    assert chosen.seconds > fixed.seconds
    assert chosen.flops.tolist() == fixed.flops.tolist()
    # Of few samples, and of values, nothing is chosen.
    few = influence_plan(model, samples(60), curvature="blocks", damping=1.0).passes
    assert influence_plan(model, samples(60), curvature="blocks").passes == few
    values = train[0], train[1] / 7
    single = nn.Linear(6, 1)
    plans = [influence_plan(single, values, damping=damping).passes for damping in ("auto", 1.0)]
    assert plans[0] == plans[1]


@pytest.mark.slow
@pytest.mark.parametrize("damping", ["auto", 1.0])
@pytest.mark.parametrize("curvature", ["blocks", "ekfac"])
def test_seconds_are_those_of_a_run(curvature, damping):
    train, val = da.load("digits")
    model = da.build_model("mlp:width=24", train)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(100):  # of a network that has not learned, the choice of damping ends early
        loss = nn.functional.cross_entropy(model(torch.tensor(train.x)), torch.tensor(train.y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pairs = []
    for _ in range(3):  # others may be using the cores, for a while
        settings = {"curvature": curvature, "damping": damping, "top": 5}
        planned = influence_plan(model, train, val, **settings).seconds
        started = time.perf_counter()
        da.influence(model, train, val, **settings)
        pairs.append((planned, time.perf_counter() - started))
    # A second is forgiven: a choice of damping ends early where a few settings already decide.
    assert any(run < FACTOR * planned and planned < FACTOR * run + 1 for planned, run in pairs)


@pytest.mark.slow
def test_memory_is_that_of_a_run():
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    planned, real = map(float, run.stdout.split())
    assert real / FACTOR < planned < FACTOR * real


def test_what_cannot_be_planned_is_refused():
    with pytest.raises(SettingError, match="'blocks' or 'ekfac' to be planned; got 'whole'"):
        influence_plan(network(), samples(), curvature="whole")
    with pytest.raises(SettingError, match="none has 'head'"):
        influence_plan(network(), samples(), parameters="head")
    with pytest.raises(SettingError, match="top must be at least 1"):
        influence_plan(network(), samples(), top=0)
