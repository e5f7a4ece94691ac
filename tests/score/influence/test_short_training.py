"""Damping that follows the length of training: the decrement by its definition, and effects."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.score.influence.block_basis import _decrement_terms
from datassay.score.influence.exact_blocks import Penalty, auto_damping
from datassay.score.influence.short_training import (
    LEFT_TO_LEARN,
    ShortTraining,
    left_to_learn,
    quadrature,
)
from datassay.score.influence.trained_network import soften_loss, trained_network

DRAW = torch.Generator().manual_seed(0)


def hessian(p=12):
    root = torch.randn(p, p - 3, generator=DRAW, dtype=torch.float64)
    return root @ root.T  # singular


def trained(steps, rows=600, k=3, width=5):
    """A linear classifier after some full-batch steps, its samples, and others."""
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(1))
    noise = torch.randn(rows, k, generator=torch.Generator().manual_seed(2))
    y = (x[:, :k] + 0.5 * noise).argmax(1)
    torch.manual_seed(3)
    net = nn.Linear(width, k)
    optimizer = torch.optim.SGD(net.parameters(), 0.1 if steps == 1 else 0.5)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net, (x.numpy(), y.numpy()), (x[:7].flip(0).numpy(), y[:7].flip(0).numpy())


def test_the_quadrature_is_that_of_all_eigenvalues():
    matrix, start = hessian(), torch.randn(12, generator=DRAW, dtype=torch.float64)
    values, weights = quadrature(matrix, start)
    for shift in (0.1, 3.0):
        solved = start @ torch.linalg.solve(matrix + shift * torch.eye(12).double(), start)
        assert float((weights / (values + shift)).sum()) == pytest.approx(float(solved))
    nothing = quadrature(matrix, 0 * start)
    assert float(nothing[1].sum()) == 0


def test_the_least_damping_brings_the_decrement_to_its_bound():
    matrices, slopes = {"a": hessian(), "b": hessian(6)}, {}
    for name, matrix in matrices.items():
        slopes[name] = torch.randn(1, len(matrix), generator=DRAW, dtype=torch.float64)
    penalties = {"a": Penalty(0.5, 0.0), "b": Penalty(2.0, 0.1)}

    def decrement(more):
        total = 0.0
        for name, matrix in matrices.items():
            share, decay = penalties[name]
            added = share * matrix.diagonal().mean() + decay + more
            g = slopes[name][0]
            total += float(g @ torch.linalg.solve(matrix + added * torch.eye(len(g)).double(), g))
        return total

    def along():
        return _decrement_terms(slopes, {}, matrices, penalties)

    left = ShortTraining(slopes, decrement(0.7) / LEFT_TO_LEARN)
    assert left.solve(along()) == left.damping == pytest.approx(0.7, rel=1e-6)
    enough = ShortTraining(slopes, 1.01 * decrement(0.0) / LEFT_TO_LEARN)
    assert enough.solve(along()) == 0


def test_what_is_left_is_the_gradient_of_the_mean_loss():
    net, train, _ = trained(2)
    samples = da.load(train, val_fraction=0.0)[0]
    network = trained_network(
        net, samples, loss="auto", parameters=None, precision="float64", device=None,
        progress=lambda *_: None,
    )  # fmt: skip
    soften_loss(network, 2.0)
    left = left_to_learn(network, "auto")
    x, y = (torch.as_tensor(one) for one in train)
    wide = net.double()
    value = 2 * nn.functional.cross_entropy(wide(x.double()) / 2, y)
    weight, bias = torch.autograd.grad(value, [wide.weight, wide.bias])
    (matrix,) = left.gradients.values()
    assert torch.allclose(matrix, torch.cat([weight, bias[:, None]], 1))
    assert left.null_loss == pytest.approx(2 * np.log(3))


@pytest.mark.parametrize("steps", [1, 4000])
def test_effects_of_short_training_are_damped_more(steps, monkeypatch):
    """The formula written out for a linear classifier; at the minimum nothing is added."""
    net, train, queries = trained(steps)
    monkeypatch.setattr("datassay.score.influence.gradient_methods.choose", lambda *_: None)
    result = da.influence(
        net, train, queries, measure="margin", temperature=1.0, precision="float64"
    )
    net = net.double().requires_grad_(False)
    x, y = torch.as_tensor(train[0]).double(), torch.as_tensor(train[1])
    wide = torch.cat([x, torch.ones(len(x), 1)], 1)
    p = torch.softmax(net(x), 1)
    slopes = (p - nn.functional.one_hot(y, 3))[:, :, None] * wide[:, None]  # [n, k, columns]
    curved = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    h = torch.einsum("nkl,na,nb->kalb", curved, wide, wide).reshape(18, 18) / len(x)
    share = auto_damping(len(x), is_exact=True) * float(h.diagonal().mean())
    mean = slopes.mean(0).flatten()

    def solve(more, vectors):
        return torch.linalg.solve(h + (share + more) * torch.eye(18).double(), vectors)

    low, high = 0.0, 1e3
    if float(mean @ solve(0.0, mean)) <= LEFT_TO_LEARN * np.log(3):
        high = 0.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        above = float(mean @ solve(middle, mean)) > LEFT_TO_LEARN * np.log(3)
        low, high = (middle, high) if above else (low, middle)
    assert (high > 0) == (steps == 1) == ("short training" in result.method)
    q = torch.cat([torch.as_tensor(queries[0]).double(), torch.ones(7, 1)], 1)
    label = nn.functional.one_hot(torch.as_tensor(queries[1]), 3).double()
    others = torch.softmax(net(q[:, :-1]).masked_fill(label.bool(), -torch.inf), 1)
    margin = ((label - others)[:, :, None] * q[:, None]).flatten(1)  # [m, 18]
    expected = -(slopes.flatten(1) @ solve(high, margin.T)) / len(x)
    np.testing.assert_allclose(result.effect, expected, rtol=1e-4, atol=1e-9)
    whole = {"bytes_per_sample": 128}
    index = da.index(net.requires_grad_(True), train, precision="float64", temperature=1.0, **whole)
    stored = index.query(queries, measure="margin", top=None)
    np.testing.assert_allclose(stored.effect, expected, rtol=1e-3, atol=1e-6)
    assert stored.method.partition(", short")[2] == result.method.partition(", short")[2]
