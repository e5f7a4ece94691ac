"""Gradients, Hessian products and output changes against brute force in float64."""

import sys

import numpy as np
import pytest
import torch
from torch import nn

from datassay.collect.curvature.hessian import (
    hessian,
    hessian_products,
    loss_at,
    loss_gradients,
    output_changes,
    outputs_at,
)
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.networks import cnn, lenet5, mlp
from datassay.train.recipe import Recipe
from datassay.train.training import sample_losses
from helpers.made_of import MadeOf

CURVATURE = sys.modules[loss_at.__module__]  # `datassay.collect` is the function
# (classes, outputs, loss); 0 classes is a regression.
TASKS = [
    (2, 1, "mse"), (2, 1, "cross_entropy"), (2, 2, "cross_entropy"), (3, 3, "cross_entropy"),
    (3, 3, "mse"), (0, 2, "mse"),
]  # fmt: skip


def samples(n=9, classes=2, outputs=1, seed=0, shape=(4,)):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, *shape))
    y = np.arange(n) % classes if classes else rng.normal(size=(n, outputs))
    names = tuple("abc"[:classes])
    return SampleSet(x=x, y=y, ids=np.arange(n), class_names=names)


def network(outputs=1, seed=0, shape=(4,)):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(*shape, 5), nn.Tanh(), nn.Linear(5, outputs)).double()


def per_sample(model, train, loss):
    """Losses as `train_networks` has them, [n]."""
    out = model(torch.tensor(train.x))
    return sample_losses(out[None], train, Recipe(loss=loss))[0]


def flat(grads):
    return torch.cat([g.flatten() for g in grads])


def brute(model, train, loss):
    """Gradients [n, d] and the Hessian of the mean loss [d, d], entry by entry."""
    weights = [p for p in model.parameters() if p.requires_grad]
    losses = per_sample(model, train, loss)
    each = torch.stack([flat(torch.autograd.grad(v, weights, retain_graph=True)) for v in losses])
    slope = flat(torch.autograd.grad(losses.mean(), weights, create_graph=True))
    rows = [flat(torch.autograd.grad(s, weights, retain_graph=True)) for s in slope]
    return each, torch.stack(rows)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize(("classes", "outputs", "loss"), TASKS)
def test_against_brute_force(classes, outputs, loss, frozen):
    train, model = samples(9, classes, outputs), network(outputs)
    model[0].requires_grad_(not frozen)
    index = loss_at(model, train, loss)
    gradients, whole = brute(model, train, loss)
    torch.testing.assert_close(loss_gradients(index, 0, 9), gradients, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(loss_gradients(index, 3, 5), gradients[3:5], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(hessian(index), whole, rtol=1e-10, atol=1e-12)
    torch.manual_seed(1)
    vectors = torch.randn(3, index.n_parameters).double()
    torch.testing.assert_close(
        hessian_products(index, vectors), vectors @ whole, rtol=1e-9, atol=1e-11
    )
    with torch.no_grad():  # large logits stay finite
        model[2].weight.mul_(1e4)
    large = loss_at(model, train, loss)
    assert (
        torch.isfinite(hessian(large)).all() and torch.isfinite(loss_gradients(large, 0, 9)).all()
    )
    with torch.no_grad():
        model[2].weight.div_(1e4)
    some = torch.tensor([7, 0, 4])
    part = brute(model, train.subset(some.numpy()), loss)[1]
    torch.testing.assert_close(
        hessian_products(index, vectors, some), vectors @ part, rtol=1e-9, atol=1e-11
    )


@pytest.mark.parametrize("limit", [1, 100])
def test_chunks_do_not_matter(limit, monkeypatch):
    train, model = samples(9, 3, 3), network(3)
    index = loss_at(model, train, "cross_entropy")
    vectors = torch.ones(2, index.n_parameters).double()
    x = torch.tensor(samples(7, seed=2).x)
    whole = (
        hessian_products(index, vectors),
        output_changes(index, x, vectors),
        outputs_at(index, x),
    )
    monkeypatch.setattr(CURVATURE, "ACTIVATION_VALUES", limit)
    parts = (
        hessian_products(index, vectors),
        output_changes(index, x, vectors),
        outputs_at(index, x),
    )
    for a, b in zip(parts, whole, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)


def test_output_changes_are_the_jacobian_times_the_move():
    train, model = samples(9, 3, 3), network(3)
    index = loss_at(model, train, "mse")
    x = torch.tensor(samples(6, seed=2).x)
    moves = torch.randn(4, index.n_parameters, generator=torch.Generator().manual_seed(0)).double()
    weights = list(model.parameters())
    for j in range(6):
        for a in range(3):
            row = flat(torch.autograd.grad(model(x[j : j + 1])[0, a], weights))
            result = output_changes(index, x, moves)[:, j, a]
            torch.testing.assert_close(result, moves @ row, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("build", [cnn, lenet5])
def test_convolutions(build):
    shape = (20, 20)
    train = samples(4, 2, 1, shape=shape)
    torch.manual_seed(0)
    model = build(shape, 1).double()
    index = loss_at(model, train, "cross_entropy")
    weights = list(model.parameters())
    vector = torch.randn(index.n_parameters, generator=torch.Generator().manual_seed(0)).double()
    losses = per_sample(model, train, "cross_entropy")
    slope = flat(torch.autograd.grad(losses.mean(), weights, create_graph=True))
    product = flat(torch.autograd.grad(slope @ vector, weights))
    result = hessian_products(index, torch.stack([vector, 2 * vector]))
    torch.testing.assert_close(result, torch.stack([product, 2 * product]), rtol=1e-8, atol=1e-10)


NAN = network()
nn.init.constant_(NAN[0].weight, torch.nan)
READS = MadeOf(lambda net, x: net.layer(x) * x.sum().item(), layer=nn.Linear(4, 1))


@pytest.mark.parametrize(
    ("model", "train", "settings", "call", "message"),
    [
        (network(), samples(), ["hinge"], None, "loss must be cross_entropy or mse for classes"),
        (network(2), samples(9, 0, 2), ["cross_entropy"], None, "loss must be mse for a regress"),
        (network(), samples(), ["mse", "float16"], None, "precision must be 'float32' or 'float64"),
        (network(3), samples(), ["mse"], None, r"2 outputs, one per class \(or 1 for two"),
        (mlp((4,), 1, width=1000), samples(), ["mse"], hessian, "at most 4096 weights; .* 6001"),
        (
            NAN,
            samples(),
            ["mse"],
            lambda index: outputs_at(index, index.x),
            "outputs must be finite",
        ),
        (
            READS,
            samples(),
            ["mse"],
            lambda position: loss_gradients(position, 0, 9),
            "torch.func can differen",
        ),
    ],
)
def test_failures(model, train, settings, call, message):
    with pytest.raises((SettingError, ModelError), match=message):
        call(loss_at(model, train, *settings))
