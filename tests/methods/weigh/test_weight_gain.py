"""Weights used: last layers trained again (S0 Algorithm 1), and paired gains with an interval."""

import sys

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from torch import nn

import datassay as da
from datassay.data.samples import SampleSet
from datassay.data.scaling import standardized_inputs
from datassay.errors import DataError, ModelError, SettingError
from datassay.methods.weigh.features import suits_inputs, trained_network
from datassay.methods.weigh.gain import WeightGain, head_gain, head_recipe, network_gain
from datassay.methods.weigh.job import Watched, baseline_of, recorder, weigh
from datassay.methods.weigh.reweight import head_problem, reweight
from datassay.methods.weigh.search import search_weights
from datassay.methods.weigh.settings import METHODS
from datassay.methods.weigh.weights import local_variance_weights
from datassay.score.neighbors.local_variance import local_variance
from datassay.stats import paired_interval
from datassay.train.head_training import HeadRecipe
from datassay.train.history import PredictionHistory
from datassay.train.recipe import Recipe


def moons(n, seed):
    x, y = make_moons(n, noise=0.25, random_state=seed)
    return SampleSet(x, y.astype(np.int64), np.arange(n) + 7, ("a", "b"))


def network(k=2, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, k))


@pytest.fixture(scope="module")
def sets():
    return moons(200, 0), moons(150, 1)


def test_lines_three_to_six_of_algorithm_1(sets):
    """Features, weights and the exact last layer by hand."""
    train, val = sets
    model = network()
    before = [p.clone() for p in model.parameters()]
    reweighted = reweight(model, train, val, n_neighbors=10, max_ratio=30, solver="exact")
    x = torch.tensor(train.x).float()
    features = model[1](model[0](x)).detach()
    weights = local_variance_weights(features.double().numpy(), train.y, 10, 30)
    np.testing.assert_allclose(reweighted.weights, weights)
    assert reweighted.weights.max() / reweighted.weights.min() == pytest.approx(30)
    assert (reweighted.layer, reweighted.n_features, reweighted.metric, reweighted.epoch) == (
        "2",
        16,
        "accuracy",
        0,
    )
    # At the weighted minimum the gradient is that of the ridge.
    w, b = (p.detach().double().requires_grad_() for p in reweighted.model[2].parameters())
    each = nn.functional.cross_entropy(
        features.double() @ w.T + b, torch.tensor(train.y), reduction="none"
    )
    slopes = torch.autograd.grad((torch.tensor(weights) * each).sum(), (w, b))
    torch.testing.assert_close(slopes[0], -1e-4 * w.detach(), atol=1e-6, rtol=0)
    torch.testing.assert_close(slopes[1], -1e-4 * b.detach(), atol=1e-6, rtol=0)
    assert all(torch.equal(a, p) for a, p in zip(before, model.parameters(), strict=True))
    right = reweighted.model(torch.tensor(val.x).float()).argmax(1).numpy() == val.y
    assert reweighted.after == pytest.approx(right.mean()) and reweighted.after > reweighted.before
    assert reweighted.to_table().column_names == ["id", "sample_weight"]
    assert reweighted.to_table()["id"].to_pylist()[0] == 7


def test_weights_of_any_method_and_any_scale(sets):
    train, _ = sets
    mine = np.random.default_rng(0).random(200)
    one, other = (
        reweight(network(1), train, weights=s * mine, recipe=HeadRecipe(epochs=2)) for s in (1, 4)
    )
    assert one.weights.sum() == pytest.approx(1) and one.epoch == 2 and np.isnan(one.after)
    np.testing.assert_allclose(one.weights, mine / mine.sum())
    for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_regression_in_the_targets_own_unit():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (300, 1))
    y = 50 + 20 * np.tanh(4 * x[:, 0]) + rng.standard_normal(300)
    train = val = SampleSet(x, y, np.arange(300))
    model = da.build_model("mlp:width=32", train)
    reweighted = reweight(model, train, val, n_neighbors=10, solver="exact")
    assert reweighted.metric == "R²" and reweighted.after > 0.95
    middle = np.abs(x[:, 0]) < 0.2
    assert reweighted.weights[middle].mean() > 2 * reweighted.weights[np.abs(x[:, 0]) > 0.8].mean()


def test_patience_stops_on_the_validation_samples(sets):
    train, val = sets
    recipe = HeadRecipe(lr=0.1, epochs=60, patience=3)
    reweighted = reweight(network(), train, val, n_neighbors=10, recipe=recipe)
    problem = head_problem(network(), train, val)
    trained = problem.train(reweighted.weights[None], recipe)
    assert reweighted.epoch == int(trained.epoch[0, 0]) < 60
    assert reweighted.after == pytest.approx(float(trained.val_score.max()))


def test_bad_input(sets):
    for model, given, error, message in (
        (nn.Flatten(), {}, ModelError, "it has none"),
        (network(), {"weights": np.ones(3)}, DataError, "each of the 200 samples"),
        (network(5), {}, ModelError, "2 outputs"),
        (network(), {"n_neighbors": 200}, SettingError, "n_neighbors"),
        (network(), {"max_ratio": 0.5}, SettingError, "max_ratio"),
    ):
        with pytest.raises(error, match=message):
            reweight(model, sets[0], **given)


def test_search_beats_the_middle_of_its_range_and_is_repeatable(sets):
    pytest.importorskip("optuna")
    train, val = sets
    done = []
    options = {"n_trials": 8, "recipe": HeadRecipe(lr=0.05, epochs=8, patience=4), "seed": 3}
    search = search_weights(network(), train, val, progress=lambda *a: done.append(a), **options)
    assert done[-1] == ("search weights", 8, 8)
    again = search_weights(network(), train, val, **options)
    assert search.to_table().equals(again.to_table())
    ended = [row for row in search.trials.to_pylist() if not row["pruned"]]
    assert search.score == max(row["score"] for row in ended) and 5 <= search.n_neighbors <= 50
    pair = {"n_neighbors": search.n_neighbors, "max_ratio": search.max_ratio}
    alone = reweight(network(), train, val, **pair, recipe=options["recipe"])
    assert alone.after == pytest.approx(search.score)
    assert 0 < search.uniform <= 1
    inner = search_weights(network(), train, **{**options, "n_trials": 2})
    assert inner.trials.num_rows == 2


def test_search_refusals(sets, monkeypatch):
    train, val = sets
    with pytest.raises(SettingError, match="n_neighbors must be a range"):
        search_weights(network(), train, val, n_neighbors=(1, 5))
    with pytest.raises(SettingError, match="n_trials"):
        search_weights(network(), train, val, n_trials=0)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingError, match="run pip install optuna"):
        search_weights(network(), train, val)


RECIPE = Recipe(steps=60, lr=0.05, batch_size=16)


def plane(n=80, seed=0, corrupted=0.0):
    """Two classes by the first coordinate; a share of the labels is turned round."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(n, 2)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    wrong = np.arange(n) < corrupted * n
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
    expected = paired_interval([outcomes[:, 1] - outcomes[:, 0]])
    assert gain.difference(1) == pytest.approx((expected.gain, expected.half))
    assert gain.difference(0, against=1) == pytest.approx((-expected.gain, expected.half))
    assert (gain.score == outcomes.mean(2)).all() and (gain.each == outcomes.mean(0)).all()


def test_the_verdict_is_the_side_of_zero_and_one_of_several_may_look_so_by_chance():
    noise = np.random.default_rng(1).normal(0, 0.05, (4, 2, 50))
    for shift, verdict in ((0.3, "better"), (-0.3, "worse"), (0.0, "no difference")):
        gain = WeightGain(("no weights", "ours"), noise + np.array([0, shift])[:, None], "R²")
        assert gain.verdict(1) == verdict == gain.to_table().to_pylist()[1]["verdict"]
    scores = np.zeros((4, 4, 50))
    scores[:, 1] = 0.0215 + np.random.default_rng(5).normal(0, 0.05, (4, 50))
    alone = WeightGain(("no weights", "ours"), scores[:, :2], "R²")
    further = WeightGain(("no weights", "ours", "a", "b"), scores, "R²")
    assert 0.017 < alone.interval(1).p < 0.05
    assert (alone.verdict(1), further.verdict(1)) == ("better", "perhaps better")
    assert further.verdict(1, against=2) == "better" and further.verdict(0) == "no difference"


def test_equal_weights_gain_exactly_nothing():
    (train, _), (val, _) = plane(), plane(30, seed=1)
    same = {"same": np.full(len(train), 7.0)}
    gain, networks = network_gain(starts(), train, val, same, recipe=RECIPE)
    assert gain.difference(1)[0] == 0 and 0 < gain.difference(1)[1] < 0.1
    assert gain.difference(0) == (0, 0) and gain.verdict(1) == "no difference"
    assert list(networks) == ["no weights", "same"]
    with pytest.raises(SettingError, match=r"n_seeds must be at least 2.*got 1"):
        network_gain(starts(n=1), train, val, {}, recipe=RECIPE)
    problem = head_problem(starts()[0], train, val)
    short = HeadRecipe(epochs=2)
    assert head_gain(problem, val, same, recipe=short, n_seeds=2).difference(1)[0] == 0


@pytest.mark.parametrize("whole", [True, False], ids=["network", "last layer"])
def test_a_rare_class_counts_as_much_as_the_frequent_one(whole):
    """As `run` judges: accuracy would fall by what balanced accuracy gains."""
    draw = np.random.default_rng(3)
    y = (np.arange(600) % 20 == 0).astype(np.int64)
    x = (draw.normal(size=(600, 2)) + 1.5 * y[:, None]).astype(np.float32)
    both = SampleSet(x, y, np.arange(600), ("many", "few"))
    train, val = both.subset(np.arange(300)), both.subset(np.arange(300, 600))
    weights = {"balanced": np.where(train.y == 1, 19.0, 1.0)}
    if whole:
        gain, networks = network_gain(starts(), train, val, weights, recipe=RECIPE)
        outputs = [networks[name].outputs(val.x)[:, :, 0] for name in gain.names]
        recall = [
            [((o > 0).numpy() == val.y)[:, val.y == c].mean() for c in (0, 1)] for o in outputs
        ]
        np.testing.assert_allclose(gain.score.mean(0), np.mean(recall, 1), rtol=1e-6)
    else:
        gain = head_gain(head_problem(starts()[0], train, val), val, weights, n_seeds=3)
    assert gain.metric == "balanced accuracy" and gain.unit > 1
    assert gain.difference(1)[0] > 0.1 and gain.scores[:, :, val.y == 0].mean((0, 2))[1] < 0.95


@pytest.mark.parametrize("whole", [True, False], ids=["network", "last layer"])
def test_leaving_out_wrong_labels_helps(whole):
    (train, wrong), (val, _) = plane(corrupted=0.5), plane(60, seed=1)
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
    for m, result in enumerate(networks.values()):
        outputs = result.outputs(torch.as_tensor(val.x)).double().numpy()
        error = ((outputs - val.y) ** 2).sum(1) / ((val.y - val.y.mean(0)) ** 2).sum(0)
        assert gain.score[:, m] == pytest.approx((1 - error).mean(1))
    assert gain.metric == "R²"


@pytest.mark.parametrize("n", [20, 1000, 60_000])
def test_the_last_layer_is_trained_for_a_bounded_time(n):
    recipe = head_recipe(n)
    updates = recipe.epochs * -(-n // recipe.batch_size)
    assert 1000 <= updates <= 6100


def test_inputs_are_standardised_and_constant_columns_stay_out():
    x = np.random.default_rng(0).normal(5, 3, (30, 3))
    x[:, 1] = 4
    samples = SampleSet(x, np.arange(30) % 2, np.arange(30), ("a", "b"))
    result = standardized_inputs(samples)
    assert result.mean(0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert result.std(0) == pytest.approx([1, 0, 1])
    assert suits_inputs(samples)
    wide = SampleSet(np.zeros((4, 51)), np.arange(4) % 2, np.arange(4), ("a", "b"))
    assert not suits_inputs(wide)


def test_every_method_gives_weights_that_sum_to_one():
    train, _ = plane(corrupted=0.1)
    local = local_variance(train.x, train.y, 5)
    history = PredictionHistory(len(train))
    model = starts()[0]
    network = trained_network(model, train, observe=recorder(history, train))
    watched = Watched(network, history)
    for method in METHODS:
        result = weigh(method, train, local, watched, n_columns=2)
        assert result.weight.sum() == pytest.approx(1)
        assert (result.weight >= 0).all()
        assert result.method == method
    paced = weigh("self_paced", train, local, watched, n_columns=2).weight
    with torch.no_grad():
        logit = network(torch.as_tensor(train.x))[:, 0].double()
    loss = nn.functional.binary_cross_entropy_with_logits(
        logit, torch.as_tensor(train.y).double(), reduction="none"
    )
    assert np.all(np.diff(paced[np.argsort(loss.numpy())]) <= 1e-12)  # the easier, the heavier


def test_the_baseline_is_class_balanced_where_classes_differ_in_size():
    train, _ = plane()
    assert baseline_of("local_variance", train.subset(np.flatnonzero(train.y == 1)[:40])) is None
    uneven = train.subset(np.r_[np.flatnonzero(train.y == 0), np.flatnonzero(train.y == 1)[:5]])
    assert baseline_of("local_variance", uneven) == "class_balanced"
    assert baseline_of("class_balanced", uneven) == "local_variance"
    assert baseline_of("local_variance", line()) is None
