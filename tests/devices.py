"""Public functions on a device: the processor's numbers, and few copies and waits.

The device is a pretended one; `pytest -m gpu` runs the same on CUDA.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay import act, score, train
from datassay.score.index import plan as index_plan_module
from datassay.score.influence.short_training import quadrature
from datassay.train.recipe import Recipe
from helpers import language_models as tiny
from helpers import pretended_device as pretended

PLACES = [
    pretended.NAME,
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
        ],
    ),
]
TOLERANCE = {pretended.NAME: 1e-6, "cuda": 1e-3}
SHORT = Recipe("adam", 0.01, 12, 8, precision="float64")
LARGEST = {"outputs": "landmarks", "projection": 20}
SENTENCE = {"answer": "sat under the red tree", "prompt": "the cat ", "precision": "float64"}


@pytest.fixture(scope="module")
def digits():
    pretended.install()
    first, second = da.load("digits")
    return first.subset(np.arange(60)), second.subset(np.arange(20))


@pytest.fixture(autouse=True)
def let_pretend(monkeypatch):
    monkeypatch.setattr("datassay.collect.collection.check_device", lambda device: device)
    monkeypatch.setattr("datassay.score.influence.linearized.training.STEPS", 10)


def seeded(*layers: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(*(make() for make in layers))


def dense():
    return seeded(nn.Flatten, lambda: nn.Linear(64, 6), nn.Tanh, lambda: nn.Linear(6, 10))


def linear():
    return seeded(nn.Flatten, lambda: nn.Linear(64, 10))


def convolution():
    layers = (lambda: nn.Conv2d(1, 3, 3, stride=2), lambda: nn.BatchNorm2d(3), nn.Flatten)
    return seeded(*layers, nn.Tanh, lambda: nn.Linear(27, 10))


def gpt():
    torch.manual_seed(3)
    return tiny.gpt2().eval()


def numbers(outcome: Any):
    """Yield all arrays of numbers of an outcome, in order."""
    if isinstance(outcome, torch.Tensor):
        outcome = outcome.detach().cpu().numpy()
    if isinstance(outcome, np.ndarray | float) and np.asarray(outcome).dtype.kind in "fiub":
        yield np.asarray(outcome, dtype=float)
    elif isinstance(outcome, nn.Module):
        yield from numbers(dict(outcome.state_dict()))
    elif isinstance(outcome, dict):
        yield from numbers(list(outcome.values()))
    elif isinstance(outcome, list | tuple):
        for part in outcome:
            yield from numbers(part)
    elif is_dataclass(outcome):
        yield from numbers([getattr(outcome, field.name) for field in fields(outcome)])


def of_linearization(lin):
    fisher = da.sample_information(lin, lr=0.01, smoothing="fisher").information
    plain = da.sample_information(lin, lr=0.01).information
    loo = da.leave_one_out(lin)
    return [loo.held_out, da.label_issues(lin).score, plain, fisher, da.values(lin).value]


def of_sets(lin):
    return [
        score.linear_influence(lin, ridge=0.1), score.average_information(lin, draws=10),
        score.common_information(lin, [[0, 1, 2], [4, 5]]), score.nearest_pairs(lin),
        score.group_information(lin, np.arange(60) % 3), score.nearest_sets(lin),
        score.pair_information(lin, [[0, 1], [2, 3]]), score.kl_information(lin, batch_size=10),
        score.marginal_information(lin, [0, 1, 2], draws=5), score.removal_scores(lin),
    ]  # fmt: skip


def ask_index(model, data, others, folder, **settings):
    made = da.index(model, data, folder, **settings)
    opened = da.open_index(folder, model, **settings)
    before = [made.query(others, top=5), opened.query(others, top=5)]
    opened.append(others)
    return [*before, opened.query(others, top=5), opened.self_influence]


def choose_damping(queries, **on):
    samples = da.load("digits")[0].subset(np.arange(80))
    result = da.influence(linear(), samples, queries, **on)
    assert "chosen" in result.method
    return result


def fit_curve(net, a, b):
    rankings = {"rising": np.arange(60)}
    return act.removal_curve([net] * 2, a, b, rankings, fractions=(0.1, 0.3), recipe=SHORT, seed=0)


# Of those that take the name of a device; the second argument has it.
BY_NAME = {
    "collect": lambda a, b, on: da.collect(dense(), a, b, projection=None, outputs="joint", **on),
    "projected": lambda a, b, on: da.collect(convolution(), a, b, projection=8, **on),
    "mixed": lambda a, b, on: da.collect(dense(), a, b, projection=8, outputs="mixed", **on),
    "landmarks": lambda a, b, on: of_linearization(da.collect(dense(), a, b, **LARGEST, **on)),
    "scores": lambda a, b, on: of_linearization(da.collect(dense(), a, b, projection=8, **on)),
    "sets": lambda a, b, on: of_sets(da.collect(dense(), a, b, projection=8, **on)),
    "landmark sets": lambda a, b, on: of_sets(da.collect(dense(), a, b, **LARGEST, **on)),
    "attribution": lambda a, b, on: da.attribution(da.collect(dense(), a, b, projection=8, **on)),
    "summarize": lambda a, b, on: (
        da.summarize(da.collect(dense(), a, projection=8, **on), 0.3).keep
    ),
    "blocks": lambda a, b, on: da.influence(dense(), a, b, curvature="blocks", **on),
    "ekfac": lambda a, b, on: da.influence(convolution(), a, b, curvature="ekfac", **on),
    "whole": lambda a, b, on: da.influence(linear(), a, b, curvature="whole", **on),
    "chosen": lambda a, b, on: choose_damping(b, **on),
    "tracin": lambda a, b, on: da.influence(dense(), a, b, method="tracin", top=5, **on),
    "text": lambda a, b, on: (
        da.lm.influence(gpt(), tiny.tokenizer(), tiny.sentences(3), **SENTENCE, **on).effect
    ),
}
# Of those that compute where the network is.
BY_NETWORK = {
    "network": lambda net, a, b: da.influence(net, a, b),
    "exact": lambda net, a, b: da.influence(net, a, b, method="exact", damping=0.1),
    "cg": lambda net, a, b: da.influence(net, a, b, method="cg", damping=0.1),
    "retrain": lambda net, a, b: train.retrain(
        net, a, b, lr=0.01, steps=9, removed=[0, 1], precision="float64"
    ),
    "train": lambda net, a, b: (
        train.train_networks(
            [net] * 2, a, torch.arange(60).expand(2, -1), SHORT, sample_weight=torch.arange(60.0)
        ).state
    ),
    "trained_network": lambda net, a, b: act.trained_network(net, a, seed=0),
    "removal_curve": fit_curve,
    "purify": lambda net, a, b: da.purify(net, a, b, recipe=SHORT, max_fraction=0.1).keep,
    "removal_effects": lambda net, a, b: da.removal_effects(net, a, ridge=0.01, order="fixed"),
    "influence_moments": lambda net, a, b: da.influence_moments(net, a, ridge=0.01),
    "reweight": lambda net, a, b: act.reweight(net, a, b).weights,
    "set_effects": lambda net, a, b: score.set_effects(net, a, [np.array([0, 1])], ridge=0.01),
    "pair_influence": lambda net, a, b: score.pair_influence(net, a, ridge=0.01),
    "head_problem": lambda net, a, b: act.head_problem(net, a, b),
    "search_weights": lambda net, a, b: act.search_weights(net, a, b, n_trials=2),
    "projection_quality": lambda net, a, b: score.projection_quality(net, a, b, n_features=(8, 16)),
    "assay": lambda net, a, b: (
        da.assay((a.x, a.y), model=net, budget=0.0).scores.select_dtypes("number").to_numpy()
    ),
    "standard_scores": lambda net, a, b: score.standard_scores(lambda _: net, a, b, recipe=SHORT),
}
OF_LINEAR = {
    "exact",
    "cg",
    "removal_effects",
    "set_effects",
    "pair_influence",
    "partition",
}  # d² of a network with hidden layers takes long


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BY_NAME)
def test_named_devices_give_the_numbers_of_the_processor(name, place, digits):
    check_same(BY_NAME[name](*digits, {}), BY_NAME[name](*digits, {"device": place}), place)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", BY_NETWORK)
def test_networks_on_a_device_give_the_numbers_of_the_processor(name, place, digits):
    make = linear if name in OF_LINEAR else dense
    on_it = BY_NETWORK[name](make().to(place), *digits)
    check_same(BY_NETWORK[name](make(), *digits), on_it, place)


@pytest.mark.parametrize("place", PLACES)
def test_an_index_on_a_device_is_that_of_the_processor(place, digits, tmp_path):
    expected = ask_index(dense(), *digits, str(tmp_path / "a"))
    check_same(expected, ask_index(dense(), *digits, str(tmp_path / "b"), device=place), place)
    by_network = ask_index(convolution().to(place), *digits, str(tmp_path / "c"))
    check_same(ask_index(convolution(), *digits, str(tmp_path / "d")), by_network, place)


def check_same(expected: Any, found: Any, place: str):
    pairs = list(zip(numbers(expected), numbers(found), strict=True))
    assert pairs
    for wanted, value in pairs:
        scale = np.nanmax(np.abs(wanted), initial=0)
        atol = TOLERANCE[place] * max(scale, 1e-6)
        np.testing.assert_allclose(value, wanted, rtol=0, atol=atol)


def counted(call: Callable[[], Any]) -> dict[str, int]:
    pretended.counts.clear()
    call()
    return dict(pretended.counts)


def test_training_waits_for_no_update(digits):
    samples, net = digits[0], dense().to(pretended.NAME)
    subsets = torch.arange(60)[None]

    def run(steps, size=None):
        recipe = Recipe("adam", 0.01, steps, size, precision="float64")
        return counted(lambda: train.train_networks([net], samples, subsets, recipe))

    assert run(4) == run(40)
    few, many = run(6, 10), run(60, 10)  # an epoch's order is sent at once: 6 updates
    assert many.pop(pretended.SENT) - few.pop(pretended.SENT) == 9
    assert few == many


def test_a_lanczos_run_waits_once():
    pretended.install()
    draw = torch.randn(50, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrix, start = draw @ draw.T, draw[0]
    expected = quadrature(matrix, start)
    there = [t.to(pretended.NAME) for t in (matrix, start)]
    assert counted(lambda: quadrature(*there)) == {pretended.FETCHED: 2}
    for value, wanted in zip(quadrature(*there), expected, strict=True):
        torch.testing.assert_close(value, wanted)


def test_effects_are_fetched_once_a_batch(digits):
    def fetches(n):
        on = {"device": pretended.NAME, "curvature": "blocks"}
        samples = digits[0].subset(np.arange(n))
        return counted(lambda: da.influence(dense(), samples, digits[1], **on))[pretended.FETCHED]

    assert fetches(60) == fetches(30) <= 10


def test_plans_wait_before_they_read_the_clock(digits, monkeypatch):
    on = {"device": pretended.NAME}
    kinds = counted(lambda: score.influence_plan(dense(), *digits, **on))
    assert kinds[pretended.SYNCHRONIZED] == 6
    monkeypatch.setattr(index_plan_module, "LONGEST_BASES", 0)
    kinds = counted(lambda: score.index_plan(dense(), digits[0], **on))
    assert kinds[pretended.SYNCHRONIZED] >= 6


def test_the_device_is_as_strict_as_cuda():
    pretended.install()
    here, there = torch.ones(3), torch.ones(3).to(pretended.NAME)
    for mix in (lambda: here + there, lambda: torch.dot(there, here), lambda: here[there.long()]):
        with pytest.raises(RuntimeError, match="same device"):
            mix()
    with pytest.raises(TypeError, match="convert"):
        there.numpy()
    kinds = counted(lambda: [float(there[0]), there.cpu(), here.to(there), there[there > 0]])
    assert kinds == {pretended.WAITED: 2, pretended.FETCHED: 1, pretended.SENT: 1}
    assert float((there + 1).sum()) == 6
