"""Batched training against each network trained alone, and against a loop written by hand."""

import numpy as np
import pytest
import torch
from torch import nn

from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.networks import mlp
from datassay.train.recipe import Recipe
from datassay.train.training import sample_losses, train_networks


def samples(k=3, n=40, y=None, seed=0):
    x = np.random.default_rng(seed).normal(size=(n, 5)).astype(np.float32)
    y = np.arange(n) % k if y is None else y
    return SampleSet(x=x, y=y, ids=np.arange(n), class_names=tuple("abcd"[:k]))


def regression(columns=None):
    shape = 40 if columns is None else (40, columns)
    return samples(0, y=np.random.default_rng(1).normal(size=shape))


def several_labels():
    return samples(0, y=np.random.default_rng(2).integers(0, 2, (40, 4)).astype(float))


def networks(count, k):
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(mlp((5,), k, width=6))
    return made


def subsets(count, kept=25):
    rng = np.random.default_rng(4)
    return torch.tensor(np.stack([rng.permutation(40)[:kept] for _ in range(count)]))


def assert_same(state, other, rtol=1e-4):
    assert state.keys() == other.keys()
    for name, tensor in state.items():
        torch.testing.assert_close(tensor, other[name], rtol=rtol, atol=1e-6)


def loss_by_hand(outputs, train, which, loss):
    y = torch.tensor(train.y[which])
    if loss == "bce":
        p = torch.sigmoid(outputs)
        return -torch.where(y == 1, p, 1 - p).log().sum(1)
    if not train.is_classification:
        return 0.5 * (outputs - y.float().reshape(len(y), -1)).square().sum(1)
    if loss == "mse":
        one_hot = torch.eye(train.n_classes)[y]
        one_hot = one_hot[:, 1:] if outputs.shape[1] == 1 else one_hot
        return 0.5 * (outputs - one_hot).square().sum(1)
    if outputs.shape[1] == 1:
        p = torch.sigmoid(outputs[:, 0])
        return -torch.where(y == 1, p, 1 - p).log()
    return -outputs.log_softmax(1)[torch.arange(len(y)), y]


TASKS = {
    "classes": (samples(3), 3, "cross_entropy"),
    "classes, squared": (samples(3), 3, "mse"),
    "binary": (samples(2), 1, "cross_entropy"),
    "binary, squared": (samples(2), 1, "mse"),
    "binary, two outputs": (samples(2), 2, "mse"),
    "regression": (regression(), 1, "mse"),
    "regression, two targets": (regression(2), 2, "mse"),
    "several labels": (several_labels(), 4, "bce"),
}


WEIGHTS = torch.rand(3, 40, generator=torch.Generator().manual_seed(7)) + 0.1


def unusual(model):
    """The same function, but not the plain stack that takes closed-form gradients."""
    return nn.Sequential(*model, Same())


class Same(nn.Module):
    def forward(self, x):
        return x * 1.0


@pytest.mark.parametrize("wrap", [lambda m: m, unusual])
@pytest.mark.parametrize(
    ("optimizer", "kept", "weighted"),
    [("adam", 25, False), ("sgd", 25, False), ("sgd", 25, True), ("sgd", 38, True)],
)
@pytest.mark.parametrize("task", TASKS)
def test_networks_trained_together_are_each_trained_by_a_loop(
    task, optimizer, kept, weighted, wrap
):
    train, k, loss = TASKS[task]
    lr, rows = (0.02 if optimizer == "adam" else 0.1), subsets(3, kept)
    models = [wrap(m) for m in networks(3, k)]
    weight = {"sample_weight": 5 * WEIGHTS} if weighted else {}
    trained = train_networks(models, train, rows, Recipe(optimizer, lr, 10, None, loss), **weight)
    for s, model in enumerate(models):
        x, w = torch.tensor(train.x[rows[s]]), WEIGHTS[s, rows[s]] / WEIGHTS[s, rows[s]].mean()
        by_hand = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer]
        step = by_hand(model.parameters(), lr=lr)
        for _ in range(10):
            each = loss_by_hand(model(x), train, rows[s].numpy(), loss)
            step.zero_grad()
            (w * each if weighted else each).mean().backward()
            step.step()
        assert_same({n: t[s] for n, t in trained.state.items()}, model.state_dict())


def test_minibatches_follow_the_seed_and_not_the_networks_beside():
    recipe, train, kept = Recipe(lr=0.02, steps=15, batch_size=8), samples(), subsets(4)
    reported = []
    together = train_networks(
        networks(4, 3), train, kept, recipe, seed=2, progress=lambda *step: reported.append(step)
    ).state
    fewer, other = (
        train_networks(networks(2, 3), train, kept[:2], recipe, seed=seed).state for seed in (2, 1)
    )
    assert_same({n: t[:2] for n, t in together.items()}, fewer)
    assert not torch.equal(fewer["1.weight"], other["1.weight"])
    assert reported == [("retrain networks", i, 15) for i in range(1, 16)]


def test_an_epoch_uses_every_sample_once():
    """A step of 1 moves a constant network to the mean target of its batch."""

    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return x[:, :1] * 0 + self.bias

    train = samples(0, y=np.arange(40.0))
    means = []
    for steps in (1, 2):
        recipe = Recipe("sgd", lr=1.0, steps=steps, batch_size=5, loss="mse")
        state = train_networks([Constant()], train, torch.arange(10)[None], recipe).state
        means.append(float(state["bias"][0, 0]))
    assert means[0] != means[1] and sum(means) == pytest.approx(sum(range(10)) / 5, rel=1e-5)


def test_the_models_are_left_untouched_and_the_outputs_are_theirs():
    models = networks(2, 3)
    before = [{n: t.clone() for n, t in m.state_dict().items()} for m in models]
    trained = train_networks(models, samples(), subsets(2), Recipe(steps=5))
    for model, old in zip(models, before, strict=True):
        assert all(torch.equal(old[n], t) for n, t in model.state_dict().items())
    x = torch.tensor(samples().x)
    outputs = trained.outputs(x)
    assert outputs.shape == (2, 40, 3)
    for s, model in enumerate(models):
        model.load_state_dict({n: t[s] for n, t in trained.state.items()})
        torch.testing.assert_close(outputs[s], model(x).detach(), rtol=1e-5, atol=1e-6)


def test_batch_norm_is_frozen_and_dropout_off():
    def made():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Dropout(0.9), nn.Linear(6, 3))

    recipe = Recipe(steps=5, lr=0.01, batch_size=None)
    a, b = (train_networks([made()], samples(), subsets(1), recipe).state for _ in range(2))
    assert all(torch.equal(a[n], b[n]) for n in a)
    assert torch.equal(a["1.running_mean"][0], torch.zeros(6))


@pytest.mark.parametrize("task", TASKS)
def test_sample_losses(task):
    train, k, loss = TASKS[task]
    outputs = torch.randn(2, 40, k, generator=torch.Generator().manual_seed(0))
    ours = sample_losses(outputs, train, Recipe(loss=loss))
    assert ours.shape == (2, 40)
    for s in range(2):
        expected = loss_by_hand(outputs[s], train, np.arange(40), loss)
        torch.testing.assert_close(ours[s], expected, rtol=1e-5, atol=1e-6)


TWO = torch.ones(2, 40)
BAD = [
    (Recipe("lbfgs"), {}, "optimizer must be 'adam' or 'sgd'; got 'lbfgs'"),
    (Recipe(loss="hinge"), {}, "loss must be cross_entropy or mse.*got 'hinge'"),
    (Recipe(lr=0.0), {}, "lr must be positive; got 0.0"),
    (Recipe(lr=float("nan")), {}, "lr must be positive; got nan"),
    (Recipe(steps=0), {}, "steps must be positive; got 0"),
    (Recipe(batch_size=0), {}, "batch_size must be positive; got 0"),
    (Recipe(), {"subsets": subsets(2)}, r"one non-empty row a network; got \[2, 25\] for 1 net"),
    (Recipe(), {"subsets": subsets(1)[:, :0]}, r"one non-empty row a network; got \[1, 0\]"),
    (Recipe(), {"subsets": torch.tensor([[3, 40]])}, r"positions in 0..39; got 3 to 40"),
    (Recipe(), {"subsets": torch.tensor([[-1, 4]])}, r"positions in 0..39; got -1 to 4"),
    (Recipe(loss="bce"), {}, r"several labels per sample, y \[n, k\] of 0 and 1; got classes"),
    (Recipe(loss="bce"), {"train": regression(2)}, "several labels per sample.*got other numbers"),
    (Recipe(loss="cross_entropy"), {"train": regression()}, "loss must be mse for a regression"),
    (Recipe(), {"sample_weight": TWO}, r"\[networks, n\], 1 networks; got shape \[2, 40\]"),
    (Recipe(), {"sample_weight": torch.ones(3)}, "every sample; got 3 weights, 0 of them neg"),
    (Recipe(), {"sample_weight": -TWO[0]}, "got 40 weights, 40 of them negative"),
    (Recipe(), {"sample_weight": 0 * TWO[0]}, "positive somewhere in every subset"),
    (Recipe(), {"sample_weight": lambda _: torch.ones(3)}, r"position, \[1, 25\]; got shape \[3\]"),
    (Recipe(), {"sample_weight": lambda at: at / 0}, "with others"),
]


@pytest.mark.parametrize(("recipe", "given", "message"), BAD)
def test_bad_settings(recipe, given, message):
    given = {"train": samples(), "subsets": subsets(1)} | given
    with pytest.raises(SettingError, match=message):
        train_networks(networks(1, 3), recipe=recipe, **given)


@pytest.mark.parametrize("n_outputs", [1, 2, 4])
@pytest.mark.parametrize("loss", ["mse", "cross_entropy"])
def test_outputs_must_fit_the_classes(n_outputs, loss):
    """One output beside three classes would be broadcast against them in silence."""
    with pytest.raises(ModelError, match=f"must have 3 outputs, one per class; got {n_outputs}"):
        train_networks(networks(1, n_outputs), samples(3), subsets(1), Recipe(loss=loss))


@pytest.mark.parametrize("batch_size", [None, 8])
def test_uniform_weights_change_nothing(batch_size):
    recipe = Recipe(steps=10, lr=0.02, batch_size=batch_size)
    plain = train_networks(networks(3, 3), samples(), subsets(3), recipe).state
    for weight in (torch.full((40,), 0.3), lambda positions: torch.ones(positions.shape)):
        same = train_networks(networks(3, 3), samples(), subsets(3), recipe, sample_weight=weight)
        assert_same(same.state, plain, rtol=1e-5)


@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("wrap", [lambda m: m, unusual])
def test_what_is_observed_are_the_outputs_before_the_update(batch_size, wrap):
    seen = []
    train, models = samples(), [wrap(m) for m in networks(2, 3)]
    train_networks(
        models,
        train,
        subsets(2),
        Recipe(steps=2, lr=0.1, batch_size=batch_size),
        observe=lambda positions, outputs: seen.append((positions.clone(), outputs.clone())),
    )
    assert len(seen) == 2
    positions, outputs = seen[0]
    for s, model in enumerate(models):
        expected = model(torch.tensor(train.x[positions[s]])).detach()
        torch.testing.assert_close(outputs[s], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("frozen", ["1.weight", "3.bias"])
def test_frozen_weights_stay_in_every_network(optimizer, frozen):
    train, models = samples(), networks(2, 3)
    for model in models:
        model.get_parameter(frozen).requires_grad_(False)
    recipe = Recipe(optimizer, 0.05, 5, None, weight_decay=0.1)
    result = train_networks(models, train, subsets(2), recipe)
    for name in dict(models[0].named_parameters()):
        moved = [
            not torch.equal(result.state[name][s], models[s].get_parameter(name)) for s in (0, 1)
        ]
        assert moved == [name != frozen] * 2
