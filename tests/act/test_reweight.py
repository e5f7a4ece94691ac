"""VBSW for networks (S0 Algorithm 1): weights in feature space, the last layer trained again."""

import sys

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from torch import nn

import datassay as da
from datassay.act.weigh.grid import weighting_grid
from datassay.act.weigh.reweight import head_problem, reweight
from datassay.act.weigh.search import search_weights
from datassay.act.weigh.weights import local_variance_weights
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.train.head_training import HeadRecipe


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
    found = reweight(model, train, val, n_neighbors=10, max_ratio=30, solver="exact")
    x = torch.tensor(train.x).float()
    features = model[1](model[0](x)).detach()
    weights = local_variance_weights(features.double().numpy(), train.y, 10, 30)
    np.testing.assert_allclose(found.weights, weights)
    assert found.weights.max() / found.weights.min() == pytest.approx(30)
    assert (found.layer, found.n_features, found.metric, found.epoch) == ("2", 16, "accuracy", 0)
    # At the weighted minimum the gradient is that of the ridge.
    w, b = (p.detach().double().requires_grad_() for p in found.model[2].parameters())
    each = nn.functional.cross_entropy(
        features.double() @ w.T + b, torch.tensor(train.y), reduction="none"
    )
    slopes = torch.autograd.grad((torch.tensor(weights) * each).sum(), (w, b))
    torch.testing.assert_close(slopes[0], -1e-4 * w.detach(), atol=1e-6, rtol=0)
    torch.testing.assert_close(slopes[1], -1e-4 * b.detach(), atol=1e-6, rtol=0)
    assert all(torch.equal(a, p) for a, p in zip(before, model.parameters(), strict=True))
    right = found.model(torch.tensor(val.x).float()).argmax(1).numpy() == val.y
    assert found.after == pytest.approx(right.mean()) and found.after > found.before
    assert found.to_table().column_names == ["id", "sample_weight"]
    assert found.to_table()["id"].to_pylist()[0] == 7


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
    found = reweight(model, train, val, n_neighbors=10, solver="exact")
    assert found.metric == "R²" and found.after > 0.95
    middle = np.abs(x[:, 0]) < 0.2
    assert found.weights[middle].mean() > 2 * found.weights[np.abs(x[:, 0]) > 0.8].mean()


def test_patience_stops_on_the_validation_samples(sets):
    train, val = sets
    recipe = HeadRecipe(lr=0.1, epochs=60, patience=3)
    found = reweight(network(), train, val, n_neighbors=10, recipe=recipe)
    problem = head_problem(network(), train, val)
    trained = problem.train(found.weights[None], recipe)
    assert found.epoch == int(trained.epoch[0, 0]) < 60
    assert found.after == pytest.approx(float(trained.val_score.max()))


def test_bad_input(sets):
    train, _ = sets
    with pytest.raises(ModelError, match="it has none"):
        reweight(nn.Flatten(), train)
    with pytest.raises(DataError, match="each of the 200 samples"):
        reweight(network(), train, weights=np.ones(3))
    with pytest.raises(ModelError, match="2 outputs"):
        reweight(network(5), train)
    with pytest.raises(SettingError, match="n_neighbors"):
        reweight(network(), train, n_neighbors=200)
    with pytest.raises(SettingError, match="max_ratio"):
        reweight(network(), train, max_ratio=0.5)


def test_the_grid_is_each_pair_trained_alone(sets):
    train, val = sets
    model, recipe = network(), HeadRecipe(lr=0.1, epochs=4)
    grid = weighting_grid(
        model, train, val, n_neighbors=(5, 30), max_ratios=(2.0, 50.0), recipe=recipe, seeds=(0, 1)
    )
    for r, m in enumerate((2.0, 50.0)):
        for j, k in enumerate((5, 30)):
            alone = [
                reweight(model, train, val, n_neighbors=k, max_ratio=m, recipe=recipe, seed=s).after
                for s in (0, 1)
            ]
            assert grid.score[r, j] == pytest.approx(np.mean(alone), abs=1e-6)
    assert grid.to_table().num_rows == 4
    with pytest.raises(SettingError, match="must hold values"):
        weighting_grid(model, train, val, max_ratios=())


def test_search_beats_the_middle_of_its_range_and_is_repeatable(sets):
    pytest.importorskip("optuna")
    train, val = sets
    done = []
    options = {"n_trials": 8, "recipe": HeadRecipe(lr=0.05, epochs=8, patience=4), "seed": 3}
    found = search_weights(network(), train, val, progress=lambda *a: done.append(a), **options)
    assert done[-1] == ("search weights", 8, 8)
    again = search_weights(network(), train, val, **options)
    assert found.to_table().equals(again.to_table())
    ended = [row for row in found.trials.to_pylist() if not row["pruned"]]
    assert found.score == max(row["score"] for row in ended) and 5 <= found.n_neighbors <= 50
    alone = reweight(
        network(),
        train,
        val,
        n_neighbors=found.n_neighbors,
        max_ratio=found.max_ratio,
        recipe=options["recipe"],
    )
    assert alone.after == pytest.approx(found.score)
    assert 0 < found.uniform <= 1
    inner = search_weights(network(), train, **{**options, "n_trials": 2})
    assert inner.trials.num_rows == 2


def test_search_refusals(sets, monkeypatch):
    train, val = sets
    with pytest.raises(SettingError, match="n_neighbors must be a range"):
        search_weights(network(), train, val, n_neighbors=(1, 5))
    with pytest.raises(SettingError, match="n_trials"):
        search_weights(network(), train, val, n_trials=0)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingError, match=r"datassay\[tune\]"):
        search_weights(network(), train, val)
