"""Gains of a weighting: paired, with an interval over seeds and validation samples."""

import numpy as np
import pytest
import torch
from torch import nn

from datassay.act.weigh.decision_boundary import decision_boundary
from datassay.act.weigh.features import (
    standardized_inputs,
    suits_inputs,
    trained_network,
)
from datassay.act.weigh.gain import WeightGain, head_gain, head_recipe, network_gain
from datassay.act.weigh.methods import METHODS, Watched, recorder, rival_of, weigh
from datassay.act.weigh.reweight import head_problem
from datassay.data.samples import SampleSet
from datassay.errors import SettingError
from datassay.score.neighbors.local_variance import local_variance
from datassay.stats import paired
from datassay.train.head_training import HeadRecipe
from datassay.train.history import PredictionHistory
from datassay.train.recipe import Recipe, network_recipe

RECIPE = Recipe(steps=60, lr=0.05, batch_size=16)


def plane(n=80, seed=0, spoilt=0.0):
    """Two classes by the first coordinate; a share of the labels is turned round."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    wrong = np.arange(n) < spoilt * n
    return SampleSet(x, np.where(wrong, 1 - y, y), np.arange(n), ("a", "b")), wrong


def line(n=60, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 2)).astype(np.float32)
    y = np.stack([x @ [1.0, -2.0], 3 * x[:, 0] ** 2], 1).astype(np.float64)
    return SampleSet(x, y, np.arange(n))


def starts(k=1, n=3):
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, k)) for _ in range(n)]


def test_the_difference_is_paired_over_seeds_and_samples():
    outcomes = np.random.default_rng(0).random((5, 2, 40))  # [S, M, m]
    gain = WeightGain(("no weights", "ours"), outcomes, "R²")
    expected = paired([outcomes[:, 1] - outcomes[:, 0]])
    assert gain.difference(1) == pytest.approx((expected.gain, expected.half))
    assert gain.difference(0, against=1) == pytest.approx((-expected.gain, expected.half))
    assert (gain.score == outcomes.mean(2)).all() and (gain.each == outcomes.mean(0)).all()


@pytest.mark.parametrize(
    ("shift", "verdict"), [(0.3, "better"), (-0.3, "worse"), (0.0, "no difference")]
)
def test_the_verdict_is_the_side_of_zero(shift, verdict):
    noise = np.random.default_rng(1).normal(0, 0.05, (4, 2, 50))
    noise[:, 1] += shift
    gain = WeightGain(("no weights", "ours"), noise, "R²")
    assert gain.verdict(1) == verdict
    assert gain.to_table().to_pylist()[1]["verdict"] == verdict


def test_one_of_several_weightings_may_look_so_by_chance():
    change = 0.0215 + np.random.default_rng(5).normal(0, 0.05, (4, 50))
    scores = np.zeros((4, 4, 50))
    scores[:, 1] = change
    alone = WeightGain(("no weights", "ours"), scores[:, :2], "R²")
    beside = WeightGain(("no weights", "ours", "a", "b"), scores, "R²")
    assert 0.017 < alone.interval(1).p < 0.05
    assert (alone.verdict(1), beside.verdict(1)) == ("better", "perhaps better")
    assert beside.verdict(1, against=2) == "better" and beside.verdict(0) == "no difference"


def test_equal_weights_gain_exactly_nothing():
    (train, _), (val, _) = plane(), plane(30, seed=1)
    same = {"same": np.full(len(train), 7.0)}
    gain, networks = network_gain(starts(), train, val, same, recipe=RECIPE)
    assert gain.difference(1)[0] == 0 and 0 < gain.difference(1)[1] < 0.1
    assert gain.difference(0) == (0, 0) and gain.verdict(1) == "no difference"
    assert list(networks) == ["no weights", "same"]
    problem = head_problem(starts()[0], train, val)
    short = HeadRecipe(epochs=2)
    assert head_gain(problem, val, same, recipe=short, n_seeds=2).difference(1)[0] == 0


@pytest.mark.parametrize("whole", [True, False], ids=["network", "last layer"])
def test_leaving_out_wrong_labels_helps(whole):
    (train, wrong), (val, _) = plane(spoilt=0.5), plane(60, seed=1)
    weights = {"right ones": np.where(wrong, 0.0, 1.0)}
    if whole:
        gain, _ = network_gain(starts(), train, val, weights, recipe=RECIPE)
    else:
        problem = head_problem(starts()[0], train, val)
        recipe = HeadRecipe(epochs=40, lr=0.02)
        gain = head_gain(problem, val, weights, recipe=recipe, n_seeds=3)
    assert gain.verdict(1) == "better"
    assert gain.score[:, 1].min() > 0.8
    assert gain.each.mean(1) == pytest.approx(gain.score.mean(0))


def test_scores_are_those_of_the_networks():
    train, val = line(), line(40, seed=1)
    recipe = Recipe(steps=40, lr=0.05, loss="mse")
    gain, networks = network_gain(starts(k=2), train, val, {"w": np.arange(60.0)}, recipe=recipe)
    for m, found in enumerate(networks.values()):
        outputs = found.outputs(torch.as_tensor(val.x)).double().numpy()
        error = ((outputs - val.y) ** 2).sum(1) / ((val.y - val.y.mean(0)) ** 2).sum(0)
        assert gain.score[:, m] == pytest.approx((1 - error).mean(1))
    assert gain.metric == "R²"


def test_too_few_seeds_are_refused():
    (train, _), (val, _) = plane(), plane(30, seed=1)
    with pytest.raises(SettingError, match=r"n_seeds must be at least 2.*got 1"):
        network_gain(starts(n=1), train, val, {}, recipe=RECIPE)


@pytest.mark.parametrize("n", [20, 1000, 60_000])
def test_the_last_layer_is_trained_for_a_bounded_time(n):
    recipe = head_recipe(n)
    updates = recipe.epochs * -(-n // recipe.batch_size)
    assert 1000 <= updates <= 6100
    assert 500 <= network_recipe(len(plane()[0])).steps <= 3000


def test_inputs_are_standardised_and_constant_columns_stay_out():
    x = np.random.default_rng(0).normal(5, 3, (30, 3))
    x[:, 1] = 4
    samples = SampleSet(x, np.arange(30) % 2, np.arange(30), ("a", "b"))
    found = standardized_inputs(samples)
    assert found.mean(0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert found.std(0) == pytest.approx([1, 0, 1])
    assert suits_inputs(samples)
    wide = SampleSet(np.zeros((4, 51)), np.arange(4) % 2, np.arange(4), ("a", "b"))
    assert not suits_inputs(wide)


def test_every_method_gives_weights_that_sum_to_one():
    train, _ = plane(spoilt=0.1)
    local = local_variance(train.x, train.y, 5)
    history = PredictionHistory(len(train))
    model = starts()[0]
    network = trained_network(model, train, observe=recorder(history, train))
    watched = Watched(network, history)
    for method in METHODS:
        found = weigh(method, train, local, watched, n_columns=2)
        assert found.weight.sum() == pytest.approx(1)
        assert (found.weight >= 0).all()
        assert found.method == method
    paced = weigh("self_paced", train, local, watched, n_columns=2).weight
    with torch.no_grad():
        logit = network(torch.as_tensor(train.x))[:, 0].double()
    loss = nn.functional.binary_cross_entropy_with_logits(
        logit, torch.as_tensor(train.y).double(), reduction="none"
    )
    assert np.all(np.diff(paced[np.argsort(loss.numpy())]) <= 1e-12)  # the easier, the heavier


def test_the_rival_is_class_balanced_where_classes_differ_in_size():
    train, _ = plane()
    assert rival_of("local_variance", train.subset(np.flatnonzero(train.y == 1)[:40])) is None
    uneven = train.subset(np.r_[np.flatnonzero(train.y == 0), np.flatnonzero(train.y == 1)[:5]])
    assert rival_of("local_variance", uneven) == "class_balanced"
    assert rival_of("class_balanced", uneven) == "local_variance"
    assert rival_of("local_variance", line()) is None


def test_the_boundary_is_where_the_classes_change():
    (train, _), (val, _) = plane(200), plane(30, seed=1)
    _, networks = network_gain(starts(), train, val, {}, recipe=RECIPE)
    found = decision_boundary(train, list(networks.values()))
    assert found.lead.shape == (1, 2, 90, 90)
    assert found.lead[0, 0] == pytest.approx(-found.lead[0, 1])
    agrees = (found.lead[0, 1] > 0) == (found.horizontal > 0)[None]
    assert agrees.mean() > 0.85
    assert found.horizontal[0] < train.x[:, 0].min()
