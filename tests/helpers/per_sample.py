"""Gradients of each sample by autograd, one at a time, and small networks of every kind."""

import torch
from torch import nn

from datassay.collect.gradients.batches import rows, to_model
from datassay.collect.gradients.blocks import chosen_parameters
from datassay.collect.gradients.criteria import objective
from datassay.collect.gradients.per_sample import PerSample
from datassay.collect.layers import matrix


def by_autograd(model, batch, values, n, names):
    """{parameter: [n, ...]}, by definition."""
    tensors = [dict(model.named_parameters())[name].requires_grad_() for name in names]
    results = []
    for i in range(n):
        value = values(model, rows(batch, slice(i, i + 1))).sum()
        slopes = torch.autograd.grad(value, tensors, allow_unused=True, materialize_grads=True)
        results.append([slope.to_dense() for slope in slopes])
    columns = zip(*results, strict=True)
    return {name: torch.stack(list(each)) for name, each in zip(names, columns, strict=True)}


def by_parameter(model, blocks, gradients):
    """The engine's blocks taken apart, {parameter: [n, ...]}."""
    named, results = dict(model.named_parameters()), {}
    for block in blocks:
        if block.name not in gradients:
            continue
        whole = matrix(gradients[block.name], block.shape[0])
        if block.has_bias and block.shape[0] == len(named[block.parameters[0]]) + 1:
            whole, bias = whole[:, :-1], whole[:, -1]
        elif block.has_bias:
            whole, bias = whole[..., :-1], whole[..., -1]
        if block.has_bias:
            results[block.parameters[1]] = bias
        shape = named[block.parameters[0]].shape
        results[block.parameters[0]] = whole.reshape(-1, *shape)
    return results


def check(model, batch, n, loss="auto", parameters=None, device=None):
    """Compare with autograd at 1e-10 of each tensor; returns the engine's object."""
    model = model.double().eval()
    batch = to_model(batch, model)
    few = rows(batch, slice(0, 2))
    values = objective(loss, model, few).losses
    chosen = chosen_parameters(model, parameters)
    engine = PerSample(model, chosen, few, values)
    ours = by_parameter(model, engine.blocks, next(engine.gradients(values, batch)))
    truth = by_autograd(model, batch, values, n, list(chosen))
    largest = max(float(t.abs().max()) for t in truth.values())
    assert largest > 0
    for name, theirs in truth.items():
        mine = ours.get(name, torch.zeros_like(theirs))  # left out: nothing reaches it
        assert float((mine - theirs).abs().max()) <= 1e-10 * largest, name
    return engine


def direct(engine):
    """Tensors that no layer of a known kind owns."""
    return {block.name for block in engine.blocks if not block.layers}


class Tied(nn.Module):
    """An embedding whose weight is that of the last layer, as language models have it."""

    def __init__(self):
        super().__init__()
        self.words, self.middle = nn.Embedding(7, 4), nn.Linear(4, 4)
        self.head = nn.Linear(4, 7)
        self.head.weight = self.words.weight

    def forward(self, x):
        return self.head(torch.tanh(self.middle(self.words(x).mean(1))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.norm(x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


class Adapter(nn.Module):
    """A dense layer with a low-rank part of its own, as LoRA adds it."""

    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + 2.0 * self.lora_b(self.lora_a(x))
