"""The last layer: found by running, features, put together again, and its weighted training."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError, SettingError
from datassay.train.head import split_head
from datassay.train.head_training import HeadRecipe, train_heads


class Crossed(nn.Module):
    """Defines its output layer before the hidden one; has another layer that only looks last."""

    def __init__(self, softmax=False):
        super().__init__()
        self.out = nn.Linear(7, 3)
        self.hidden = nn.Linear(4, 7)
        self.unused = nn.Linear(7, 3)
        self.softmax = softmax

    def forward(self, x):
        h = torch.tanh(self.hidden(x))
        result = self.out(h)
        self.unused(h)
        return result.softmax(1) if self.softmax else result


def samples(n=60, d=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    y = (x[:, :k] + 0.3 * rng.standard_normal((n, k))).argmax(1)
    return SampleSet(x, y, np.arange(n), tuple("abcdef"[:k]))


def test_the_layer_whose_output_is_the_networks_is_found_by_running():
    torch.manual_seed(0)
    model, data = Crossed(), samples()
    head = split_head(model, data)
    assert head.name == "out" and head.layer is model.out
    done = []
    features = head.features(data, chunk=25, progress=lambda *a: done.append(a[1:]))
    assert done == [(25, 60), (50, 60), (60, 60)]
    x = torch.tensor(data.x).float()
    torch.testing.assert_close(features, torch.tanh(model.hidden(x)).detach())
    torch.testing.assert_close(head.outputs(features), model(x).detach())
    before = copy.deepcopy(model.state_dict())
    changed = head.with_layer(torch.zeros(3, 7), torch.ones(3))
    torch.testing.assert_close(changed(x), torch.ones(60, 3))
    assert all(torch.equal(before[n], w) for n, w in model.state_dict().items())


def test_dropout_and_batch_norm_are_in_evaluation_mode_and_the_mode_is_kept():
    model = nn.Sequential(nn.BatchNorm1d(4), nn.Dropout(0.9), nn.Linear(4, 3)).train()
    data = samples()
    head = split_head(model, data)
    torch.testing.assert_close(head.features(data), head.features(data))
    assert model.training and head.with_layer(torch.zeros(3, 4), None).training
    assert torch.equal(model[0].running_mean, torch.zeros(4))


def test_a_network_that_is_one_layer_and_our_regressions_with_their_scale():
    data = samples()
    one = split_head(nn.Linear(4, 3).double(), data)
    assert one.name == "" and one.features(data).dtype == torch.float64
    y = 5 + 3 * data.x[:, 0]
    regression = SampleSet(data.x, y, data.ids)
    model = da.build_model("mlp:width=8", regression)
    head = split_head(model, regression)
    expected = model(torch.tensor(data.x).float()).detach()
    torch.testing.assert_close(head.outputs(head.features(regression)), expected)
    assert abs(float(head.scale[0]) - y.std()) < 1e-3


def test_word_numbers_stay_whole():
    model = nn.Sequential(nn.EmbeddingBag(10, 4), nn.Linear(4, 2))
    x = np.random.default_rng(0).integers(0, 10, (8, 5))
    data = SampleSet(x, np.arange(8) % 2, np.arange(8), ("a", "b"))
    assert split_head(model, data).features(data).shape == (8, 4)


@pytest.mark.parametrize(
    "model, layer, message",
    [
        (Crossed(softmax=True), None, "something comes after it"),
        (Crossed(), "hidden", "of layer 'hidden',"),
        (Crossed(), "nowhere", "It has out, hidden, unused"),
        (nn.Flatten(), None, "it has none"),
        (nn.Linear(9, 3), None, "must run on samples of shape"),
        (nn.Sequential(nn.Linear(4, 3), nn.Unflatten(1, (3, 1))), None, r"outputs \[n, k\]"),
    ],
)
def test_unsuitable_networks(model, layer, message):
    with pytest.raises(ModelError, match=message):
        split_head(model, samples(), layer)


def test_features_must_be_finite():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    nn.init.constant_(model[0].bias, float("nan"))
    data = samples()
    head = split_head(Crossed(), data)
    broken = type(head)(model, "1", model[1], head.scale, head.shift)
    with pytest.raises(ModelError, match="features must be finite"):
        broken.features(data)


def one_by_one(x, y, weight, seed, recipe, loss):
    """The definition: one torch.nn.Linear, torch's own losses and Adam, the same draws."""
    d, k = x.shape[1], y.shape[1]
    layer = nn.Linear(d, k)
    draw = torch.rand(d, k, generator=torch.Generator().manual_seed(seed))
    layer.weight.data = ((2 * draw - 1) * (6 / (d + k)) ** 0.5).T.clone()
    layer.bias.data.zero_()
    stream = torch.Generator().manual_seed(2**20 + seed)
    adam = torch.optim.Adam(layer.parameters(), lr=recipe.lr, eps=1e-7)
    weight = torch.as_tensor(weight / weight.mean()).float()
    for _ in range(recipe.epochs):
        order = torch.randperm(len(x), generator=stream)
        for rows in order.split(recipe.batch_size):
            out = layer(x[rows])
            if loss == "mse":
                each = 0.5 * (out - y[rows]).square().sum(1)
            elif k == 1:
                each = nn.functional.binary_cross_entropy_with_logits(
                    out, y[rows], reduction="none"
                )[:, 0]
            else:
                each = nn.functional.cross_entropy(out, y[rows], reduction="none")
            adam.zero_grad()
            ((weight[rows] * each).sum() / len(rows)).backward()
            adam.step()
    return layer


@pytest.mark.parametrize("loss, k", [("cross_entropy", 3), ("cross_entropy", 1), ("mse", 2)])
def test_batched_layers_are_the_layers_trained_one_by_one(loss, k):
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.standard_normal((31, 5))).float()
    y = torch.tensor(np.eye(max(k, 2))[rng.integers(0, max(k, 2), 31)][:, -k:]).float()
    weights = np.stack([np.ones(31), rng.random(31)])
    recipe = HeadRecipe(lr=0.05, epochs=4, batch_size=8)
    heads = train_heads(x, y, weights, loss, recipe, seeds=(3, 4))
    for s, seed in enumerate((3, 4)):
        for m, weight in enumerate(weights):
            layer = one_by_one(x, y, weight, seed, recipe, loss)
            torch.testing.assert_close(heads.weight[s, m], layer.weight.data, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(heads.bias[s, m], layer.bias.data, atol=1e-5, rtol=1e-4)
    assert heads.outputs(x).shape == (2, 2, 31, k)


def test_exact_is_the_weighted_minimum_and_the_scale_of_weights_changes_nothing():
    data, rng = samples(200), np.random.default_rng(0)
    x, weight = torch.tensor(data.x), 1 + 5 * rng.random(200)
    y = torch.eye(3, dtype=torch.float64)[torch.as_tensor(data.y)]
    ridge = 1e-2
    recipe = HeadRecipe(solver="exact", ridge=ridge)
    heads = train_heads(x, y, weight[None], "cross_entropy", recipe, bias=False)
    baseline = LogisticRegression(C=1 / (ridge * weight.sum()), fit_intercept=False, tol=1e-8)
    baseline.fit(data.x, data.y, sample_weight=weight)
    np.testing.assert_allclose(heads.weight[0, 0], baseline.coef_, atol=1e-5)
    again = train_heads(x, y, 100 * weight[None], "cross_entropy", recipe, bias=False)
    torch.testing.assert_close(heads.weight, again.weight)
    adam = HeadRecipe(epochs=3)
    one, other = (
        train_heads(x, y, s * weight[None], "cross_entropy", adam).weight for s in (1, 64)
    )
    torch.testing.assert_close(one, other)


def test_patience_returns_the_best_epoch_and_a_callback_may_stop():
    data, val = samples(80), samples(60, seed=5)
    sets = [(torch.tensor(s.x), torch.eye(3)[torch.as_tensor(s.y)]) for s in (data, val)]
    recipe = HeadRecipe(lr=0.3, epochs=40, patience=6)
    weights = np.stack([np.ones(80), np.arange(80) < 12])
    heads = train_heads(*sets[0], weights, "cross_entropy", recipe, val=sets[1])
    best = heads.val_score.max(0).values
    accuracy = (heads.outputs(sets[1][0]).argmax(-1) == torch.as_tensor(val.y)).float().mean(-1)
    torch.testing.assert_close(accuracy, best)
    assert heads.epoch[0, 0] != heads.epoch[0, 1]
    assert len(heads.val_score) == min(40, int(heads.epoch.max()) + 6)
    for layer, epoch in enumerate(heads.epoch[0].tolist()):
        tied = np.flatnonzero(heads.val_score[:, 0, layer] == best[0, layer]) + 1
        losses = {}
        for e in tied.tolist():
            brief = train_heads(*sets[0], weights, "cross_entropy", replace(recipe, epochs=e))
            logits = brief.outputs(sets[1][0])[0, layer]
            losses[e] = float(torch.nn.functional.cross_entropy(logits, sets[1][1]))
        assert len(losses) > 1 and epoch == min(losses, key=losses.__getitem__)
    stop = train_heads(
        *sets[0], weights, "cross_entropy", HeadRecipe(), val=sets[1], on_epoch=lambda e, s: e == 3
    )
    assert len(stop.val_score) == 3 and (stop.epoch == 3).all()


def test_trained_starts_at_the_given_layer():
    data = samples()
    x, y = torch.tensor(data.x).float(), torch.eye(3)[torch.as_tensor(data.y)]
    start = (torch.randn(3, 4), torch.randn(3))
    recipe = HeadRecipe(start="trained", lr=1e-9, epochs=1)
    heads = train_heads(x, y, np.ones((2, 60)), "cross_entropy", recipe, start=start)
    torch.testing.assert_close(heads.weight, start[0].expand(1, 2, 3, 4))
    torch.testing.assert_close(heads.bias, start[1].expand(1, 2, 3))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"recipe": HeadRecipe(solver="sgd")}, SettingError, "solver must be 'adam' or 'exact'"),
        ({"recipe": HeadRecipe(start="warm")}, SettingError, "start must be"),
        ({"recipe": HeadRecipe(start="trained")}, SettingError, "needs the layer"),
        ({"recipe": HeadRecipe(lr=0.0)}, SettingError, "lr must be positive"),
        ({"recipe": HeadRecipe(epochs=0)}, SettingError, "epochs must be positive"),
        ({"loss": "hinge"}, SettingError, "loss must be"),
        ({"sample_weight": np.ones((1, 3))}, DataError, "each of the 4 samples; got 3"),
        ({"sample_weight": -np.ones((1, 4))}, DataError, "finite, not negative and not all 0"),
        ({"sample_weight": np.zeros((1, 4))}, DataError, "finite, not negative and not all 0"),
        ({"sample_weight": np.full((1, 4), np.nan)}, DataError, "finite, not negative"),
    ],
)
def test_refusals(given, error, message):
    x, y = torch.zeros(4, 2), torch.zeros(4, 1)
    given = {"sample_weight": np.ones((1, 4)), "loss": "mse", "recipe": HeadRecipe()} | given
    with pytest.raises(error, match=message):
        train_heads(x, y, **given)
