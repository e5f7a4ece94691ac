"""Damping and temperature chosen by training the linearised network again."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.score.influence.exact_blocks import Penalty
from datassay.score.influence.linearized import choice, training
from datassay.score.influence.trained_network import soften_loss, trained_network

N, K, WIDTH = 120, 3, 6


def drawn(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, WIDTH, generator=generator)
    noise = torch.randn(N, K, generator=generator)
    return x, (x[:, :K] + noise).argmax(1)


def descend(x, y, steps, decay=0.0, weights=None):
    """Train a linear classifier from 0 on; weights: of the samples."""
    net = nn.Linear(WIDTH, K)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    weights = torch.ones(len(x)) if weights is None else weights
    optimizer = torch.optim.SGD(net.parameters(), 0.5, weight_decay=decay)
    for _ in range(steps):
        optimizer.zero_grad()
        losses = nn.functional.cross_entropy(net(x), y, reduction="none")
        ((losses * weights).sum() / weights.sum()).backward()
        optimizer.step()
    return net


def prepared(net, x, y):
    samples = da.load((x.numpy(), y.numpy()), val_fraction=0.0)[0]
    network = trained_network(
        net, samples, loss="auto", parameters=None, precision="float32", device=None,
        progress=lambda *_: None,
    )  # fmt: skip
    soften_loss(network, "auto")
    return network


def test_retrained_halves_are_those_of_a_linear_network():
    x, y = drawn()
    net = descend(x, y, 30)
    jacobian, f, labels = training.linearize(prepared(net, x, y))
    torch.testing.assert_close(f, net(x).detach())
    weights = torch.cat([net.weight, net.bias[:, None]], 1).flatten().detach()
    torch.testing.assert_close(jacobian @ weights, f, rtol=1e-4, atol=1e-5)
    half = (torch.arange(N) % 2 == 0).float()
    loss = prepared(net, x, y).self_influence_loss
    whole = training.Runs(jacobian.flatten(0, 1), f, labels, torch.ones(1, N) / N, loss)
    (outputs,) = training.retrain(whole, half[None] / half.sum())
    truth = descend(x, y, 30, weights=half)(x).detach()
    missed = (outputs - truth).norm() / (truth - f).norm()  # of what the other half changed
    assert missed < 0.4


def test_what_is_convex_and_trained_to_its_end_has_its_own_hessian():
    x, y = drawn()
    net = descend(x, y, 3000, decay=0.01)
    queries = (x[:20].numpy(), y[:20].numpy())
    train = (x.numpy(), y.numpy())
    result = da.influence(net, train, queries, measure="margin", weight_decay=0.01)
    assert "damping 0.1 chosen by linearised training" in result.method
    assert "temperature" not in result.method  # that of the loss
    same = da.influence(
        net, train, queries, measure="margin", weight_decay=0.01, damping=0.1, temperature=1.0
    )
    np.testing.assert_allclose(result.effect, same.effect, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(result.self_influence, same.self_influence, rtol=1e-6)


@pytest.mark.parametrize("n_roots", [5, 40])  # fewer and more than weights
def test_products_of_an_exact_block_are_the_definition(n_roots):
    generator = torch.Generator().manual_seed(0)
    roots, gradients, queries = (
        torch.randn(rows, 12, generator=generator).double() for rows in (n_roots, 7, 3)
    )
    penalties = [Penalty(share, 0.01) for share in (1.0, 0.1)]
    products = choice._multiply_by_exact_inverse(roots, 9, penalties, gradients, queries)
    hessian = roots.T @ roots / 9
    for product, penalty in zip(products, penalties, strict=True):
        damping = penalty.share * hessian.diagonal().mean() + penalty.decay
        damped = hessian + damping * torch.eye(12).double()
        truth = gradients @ torch.linalg.inv(damped) @ queries.T
        torch.testing.assert_close(product, truth, rtol=1e-9, atol=1e-12)


def test_a_short_training_is_damped_most():
    x, y = drawn()
    chosen = choice.choose(prepared(descend(x, y, 2), x, y), "auto", 0.0, 0)
    assert chosen.damping == max(choice.SHARES) and chosen.correlation > 0.9


@pytest.mark.parametrize("why", ["few samples", "values", "too large", "against its labels"])
def test_nothing_is_chosen(why, monkeypatch):
    x, y = drawn()
    net = nn.Linear(WIDTH, K)
    if why == "few samples":
        x, y = x[:60], y[:60]
    elif why == "values":
        net, y = nn.Linear(WIDTH, 1), x[:, 0]
    elif why == "too large":
        monkeypatch.setattr(choice, "MOST_VALUES", 80 * 3 * 20)
    else:
        net = descend(x, y, 30)
        net.weight.data.neg_()
        net.bias.data.neg_()
    assert choice.choose(prepared(net, x, y), "auto", 0.0, 0) is None
    result = da.influence(net, (x.numpy(), y.numpy()), (x[:5].numpy(), y[:5].numpy()))
    assert "chosen" not in result.method
