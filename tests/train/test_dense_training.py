"""Closed-form gradients of dense stacks against autograd on the same networks, in float64."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from datassay.data.samples import SampleSet
from datassay.models.networks import Affine, cnn, linear, mlp
from datassay.train import training
from datassay.train.dense_training import dense_stack
from datassay.train.recipe import Recipe
from datassay.train.training import train_networks

N = 40


class Unrecognised(nn.Module):
    """The same network, such that only autograd can differentiate it."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


def affine(scale=2.0):
    return Affine(torch.tensor(scale), torch.tensor(-0.3))


def twice_relu(d, k):
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(d, 6), relu, nn.Linear(6, 5), relu, nn.Linear(5, k))


def nested(d, k):
    body = nn.Sequential(nn.Linear(d, 6), nn.Tanh(), nn.Dropout(0.5))
    head = nn.Sequential(nn.Identity(), nn.Linear(6, 4), nn.ReLU(inplace=True))
    return nn.Sequential(affine(), nn.Flatten(), body, head, nn.Linear(4, k))


ARCHITECTURES = {
    "linear": lambda d, k: linear((d,), k),
    "bare": nn.Linear,
    "mlp": lambda d, k: mlp((d,), k, width=7),
    "deep": lambda d, k: mlp((d,), k, width=6, depth=3),
    "one ReLU twice": twice_relu,
    "nested, tanh": nested,
    "no biases": lambda d, k: nn.Sequential(
        nn.Linear(d, 6, bias=False), nn.ReLU(), nn.Linear(6, k, bias=False)
    ),
    "outputs of scales that differ": lambda d, k: nn.Sequential(
        affine(),
        nn.Linear(d, 6),
        nn.ReLU(),
        nn.Linear(6, k),
        Affine(torch.rand(k) + 0.5, torch.ones(k)),
    ),
    "nothing between": lambda d, k: nn.Sequential(nn.Linear(d, 6), nn.Linear(6, k)),
}
TASKS = {  # outputs, classes (0: a regression), loss
    "classes": (3, 3, "cross_entropy"),
    "classes, squared": (3, 3, "mse"),
    "binary": (1, 2, "cross_entropy"),
    "binary, squared": (1, 2, "mse"),
    "regression": (2, 0, "mse"),
}


def samples(d, classes, k):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, d))
    y = np.arange(N) % classes if classes else rng.normal(size=(N, k))
    return SampleSet(x=x, y=y, ids=np.arange(N), class_names=tuple("abc"[:classes]))


def subsets(kept, count=3):
    rng = np.random.default_rng(4)
    return torch.tensor(np.stack([rng.permutation(N)[:kept] for _ in range(count)]))


def both(make, task, d, kept, recipe, monkeypatch):
    """Weights by autograd, and by the closed form with autograd out of reach."""
    k, classes, _ = TASKS[task]
    torch.manual_seed(0)
    models = [make(d, k) for _ in range(3)]
    arguments = samples(d, classes, k), subsets(kept), recipe
    slow = train_networks([Unrecognised(m) for m in models], *arguments).state
    with monkeypatch.context() as patch:
        patch.delattr(training, "_write_autograd_gradients")
        patch.delattr(training, "_compute_outputs")
        patch.setattr(training, "partial", None)
        fast = train_networks(models, *arguments).state
    return {name.removeprefix("inner."): w for name, w in slow.items()}, fast


def assert_same(slow, fast):
    assert set(slow) == set(fast)
    for name, w in slow.items():
        torch.testing.assert_close(fast[name], w, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("d", [5, 30])  # n > 2 inputs: by weights; below: in function space
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_architecture_equals_autograd(architecture, weight_decay, d, monkeypatch):
    recipe = Recipe("sgd", 0.1, 12, None, weight_decay=weight_decay, precision="float64")
    assert_same(*both(ARCHITECTURES[architecture], "classes", d, 36, recipe, monkeypatch))


@pytest.mark.parametrize("d", [5, 30])
@pytest.mark.parametrize("kept", [25, 36])  # copied, and shared with weights 0
@pytest.mark.parametrize("batch_size", [None, 8])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("task", TASKS)
def test_every_task_and_batch_equals_autograd(task, optimizer, batch_size, kept, d, monkeypatch):
    recipe = Recipe(optimizer, 0.05, 12, batch_size, TASKS[task][2], 0.1, "float64")
    assert_same(*both(ARCHITECTURES["deep"], task, d, kept, recipe, monkeypatch))


def test_function_space_is_used_below_twice_as_many_samples_as_inputs(monkeypatch):
    used = []
    kept = training.FunctionSpace

    def spy(layer, start, x):
        used.append(x.shape[1])
        return kept(layer, start, x)

    monkeypatch.setattr(training, "FunctionSpace", spy)
    for d, share, optimizer, batch in [
        (21, 36, "sgd", None),
        (20, 36, "sgd", None),
        (22, 25, "sgd", None),
        (23, 36, "adam", None),
        (24, 36, "sgd", 8),
    ]:
        recipe = Recipe(optimizer, 0.1, 2, batch)
        train_networks([mlp((d,), 3, width=4)] * 2, samples(d, 3, 3), subsets(share, 2), recipe)
    assert used == [21]


def test_function_space_loses_less_to_float32_than_descent_on_the_weights():
    """Updates far below the weights' last digit are kept in coordinates that start at 0."""
    train, kept = samples(30, 3, 3), subsets(36, 2)
    torch.manual_seed(0)
    model = mlp((30,), 3, width=64)
    start = model.state_dict()["1.weight"]

    def change(network, precision):
        recipe = Recipe("sgd", 1e-5, 300, None, precision=precision)
        state = train_networks([network] * 2, train, kept, recipe).state
        name = next(n for n in state if n.endswith("1.weight"))
        return (state[name][0].double() - start.double()).norm()

    exact = change(model, "float64")
    ours = abs(change(model, "float32") - exact)
    assert ours < 0.1 * abs(change(Unrecognised(model), "float32") - exact)


def changed(change):
    """Dense layers 5 → 5 with ReLU between, and something done to them."""
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))
    change(model)
    return model


class Doubled(nn.Sequential):
    def forward(self, x):
        return 2 * super().forward(x)


def stacked(*layers):
    return lambda: nn.Sequential(*layers)


FIRST, LAST = nn.Linear(5, 4), nn.Linear(4, 3)
OTHERS = {
    "batch norm": stacked(FIRST, nn.BatchNorm1d(4), LAST),
    "another activation": stacked(FIRST, nn.GELU(), LAST),
    "two activations": stacked(FIRST, nn.Tanh(), nn.ReLU(), LAST),
    "activation at the end": stacked(nn.Linear(5, 3), nn.ReLU()),
    "activation at the start": stacked(nn.ReLU(), nn.Linear(5, 3)),
    "fixed layer inside": stacked(FIRST, affine(), LAST),
    "weight norm": stacked(weight_norm(nn.Linear(5, 4)), LAST),
    "sequential of its own": lambda: Doubled(nn.Linear(5, 3)),
    "no dense layer": nn.Flatten,
    "one layer twice": lambda: changed(lambda m: m.__setitem__(2, m[0])),
    "one weight twice": lambda: changed(lambda m: setattr(m[2], "weight", m[0].weight)),
    "a hook": lambda: changed(lambda m: m[0].register_forward_hook(lambda *a: 2 * a[2])),
    "a forward of its own": lambda: changed(lambda m: setattr(m[0], "forward", lambda x: x)),
}


@pytest.mark.parametrize("which", OTHERS)
def test_anything_else_is_left_to_autograd(which):
    torch.manual_seed(0)
    assert dense_stack([OTHERS[which]().eval()] * 2, torch.zeros(1, 5)) is None


def test_images_convolutions_and_fixed_layers_that_differ():
    assert dense_stack([cnn((20, 20), 1)], torch.zeros(1, 20, 20)) is None
    assert dense_stack([mlp((4, 5), 1)], torch.zeros(1, 4, 5)) is not None
    assert dense_stack([nn.Linear(5, 2)], torch.zeros(1, 4, 5)) is None  # a vector of outputs each
    plain = nn.Sequential(*changed(lambda m: None))
    assert dense_stack([plain], torch.zeros(1, 5)) is not None
    for other, is_plain in ((2.0, True), (3.0, False)):
        both = [nn.Sequential(affine(scale), nn.Linear(5, 3)) for scale in (2.0, other)]
        assert (dense_stack(both, torch.zeros(1, 5)) is not None) == is_plain
