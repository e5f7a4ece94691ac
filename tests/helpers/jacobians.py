"""Small networks and their Jacobians by brute force."""

import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional
from torch.nn.utils import prune

from datassay.collect.jacobian.blocks import DenseFactors
from datassay.collect.jacobian.per_sample import frozen_copy, inspect_layers, jacobian
from datassay.models.networks import cnn, lenet5, linear, mlp


class Tied(nn.Module):
    """The decoder is the transposed encoder, by a functional call the module list cannot show."""

    def __init__(self):
        super().__init__()
        self.encode, self.out = nn.Linear(5, 4), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(functional.linear(torch.tanh(self.encode(x)), self.encode.weight.T))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(5, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.head(torch.tanh(self.body(torch.tanh(self.body(x)))))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 5), nn.Linear(5, 5)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.spare = nn.Linear(5, 2), nn.Linear(7, 3)

    def forward(self, x):
        return self.used(x)


class Tokens(nn.Module):
    """A dense layer on [n·T, d]: two axes, yet several vectors per sample."""

    def __init__(self):
        super().__init__()
        self.token, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x):
        tokens = torch.tanh(self.token(x.reshape(-1, 3)))
        return self.head(tokens.reshape(len(x), -1, 4).sum(1))


class Embedded(nn.Module):
    """Indices that arrive as numbers."""

    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(6, 4), nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.table(x.abs().mul(3).long().clamp(0, 5)).mean(1))


class Rooted(nn.Module):
    """A parameter of its own at the root, beside a layer."""

    def __init__(self):
        super().__init__()
        self.gain, self.layer = nn.Parameter(torch.rand(5) + 0.5), nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x * self.gain) + self.gain[:3]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


def batch_norm():
    model = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))
    model(torch.randn(50, 5) * 2 + 1)  # running statistics that differ from 0 and 1
    return model


def frozen(*names):
    model = mlp((5,), 3, width=7)
    for name in names:
        model.get_parameter(name).requires_grad_(False)
    return model


def hooked():
    """A user's hook after a dense layer, as old-style activations and normalisations have."""
    model = mlp((5,), 3, width=7)
    model[1].register_forward_hook(lambda m, i, o: torch.sin(2 * o))
    return model


class Bare(nn.Conv2d):
    """No layer that is known: whatever a subclass does, it is differentiated as it stands."""

    def forward(self, x):
        return super().forward(x).flatten(1)


class Named(nn.Module):
    """Layers called in another order than they were made, and by keyword."""

    def __init__(self):
        super().__init__()
        self.head, self.middle = nn.Linear(4, 2), nn.Linear(12, 4)
        self.first = nn.Conv2d(1, 2, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.middle(self.first(input=x).flatten(1))))


class Pairs(nn.Module):
    """A convolution that sees several images per sample."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Conv2d(1, 2, 2), nn.Linear(18, 2)

    def forward(self, x):
        seen = torch.tanh(self.body(x.reshape(-1, 1, 4, 4)))
        return self.head(seen.reshape(len(x), -1, 18).sum(1))


def convolutions(kernel=(2, 3), **settings):
    body = nn.Conv2d(2, 4, kernel, **settings)
    return nn.Sequential(body, nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(2), nn.Flatten())


def hooked_convolution():
    model = convolutions()
    model[0].register_forward_hook(lambda m, i, o: torch.sin(o[..., :2]))
    return model


CASES = {
    "called otherwise": (Named, (1, 3, 4)),
    "several images per sample": (Pairs, (3, 4, 4)),
    "strided": (lambda: convolutions(stride=(2, 1), padding=(0, 2), dilation=(1, 2)), (2, 5, 7)),
    "convolution without bias": (lambda: convolutions(bias=False), (2, 5, 6)),
    "groups": (lambda: convolutions(groups=2), (2, 5, 6)),
    "circular": (lambda: convolutions(padding=1, padding_mode="circular"), (2, 5, 6)),
    "padded to the same size": (lambda: convolutions(3, padding="same"), (2, 5, 6)),
    "hooked convolution": (hooked_convolution, (2, 5, 6)),
    "bare convolution": (lambda: Bare(2, 3, 3), (2, 3, 3)),
    "mlp": (lambda: mlp((5,), 3, width=7), (5,)),
    "deep mlp": (lambda: mlp((5,), 2, width=6, depth=2), (5,)),
    "linear": (lambda: linear((2, 3), 4), (2, 3)),
    "cnn": (lambda: cnn((20, 20), 2), (20, 20)),
    "lenet5": (lambda: lenet5((1, 12, 12), 3), (1, 12, 12)),
    "batch norm": (batch_norm, (5,)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 3)), (5,)),
    "used twice": (Twice, (5,)),
    "shared weight": (Shared, (5,)),
    "tied functionally": (Tied, (5,)),
    "unused layer": (Unused, (5,)),
    "no bias": (lambda: nn.Sequential(nn.Linear(5, 6, bias=False), nn.Linear(6, 2)), (5,)),
    "frozen weight": (lambda: frozen("1.weight"), (5,)),
    "frozen bias": (lambda: frozen("1.bias"), (5,)),
    "frozen layer": (lambda: frozen("1.weight", "1.bias"), (5,)),
    "sequence": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Flatten()), (2, 3)),
    "flattened tokens": (Tokens, (4, 3)),
    "conv1d": (lambda: nn.Sequential(nn.Conv1d(2, 3, 3), nn.Tanh(), nn.Flatten()), (2, 6)),
    "embedding": (Embedded, (4,)),
    "attention": (Attention, (3, 6)),
    "root parameter": (Rooted, (5,)),
    "bare linear": (lambda: nn.Linear(5, 3), (5,)),
    "dropout": (lambda: nn.Sequential(nn.Linear(5, 9), nn.Dropout(0.5), nn.Linear(9, 2)), (5,)),
    "in-place relu": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)),
        (5,),
    ),
    "user hook": (hooked, (5,)),
    "weight norm": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(5, 6)), nn.Tanh(), nn.Linear(6, 2)
        ),
        (5,),
    ),
    "pruned": (  # a hook sets the weight before each call
        lambda: nn.Sequential(
            prune.l1_unstructured(nn.Linear(5, 6), "weight", 0.4), nn.Tanh(), nn.Linear(6, 2)
        ),
        (5,),
    ),
}


def made(case, n=4):
    factory, shape = CASES[case]
    torch.manual_seed(0)
    model = frozen_copy(factory(), torch.float64)
    return model, torch.randn(n, *shape, dtype=torch.float64)


def oracle(model, x):
    """f₀ and the Jacobian by every trained parameter, {name: [n, k, size]}, by definition."""
    trained = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}

    def f(trained, sample):
        return functional_call(model, trained, (sample[None],))[0]

    blocks = vmap(jacrev(f), in_dims=(None, 0))(trained, x)
    return model(x).detach(), {n: j.detach().flatten(2) for n, j in blocks.items()}


def full(blocks):
    """The factors multiplied out, {parameter name: [n, k, size]}."""
    results = {}
    for name, block in blocks.items():
        if isinstance(block, DenseFactors):
            prefix = f"{name}." if name else ""
            outer = torch.einsum("nko,ni->nkoi", block.gradients, block.inputs)
            results[f"{prefix}weight"] = outer.flatten(2)
            if block.has_bias:
                results[f"{prefix}bias"] = block.gradients
        else:
            results[name] = block
    return results


def blocks_of(case, n=6):
    model, x = made(case, n)
    layers = inspect_layers(model, x[:1])
    phi = torch.cat(list(oracle(model, x)[1].values()), 2)  # [n, k, d]
    return layers, jacobian(model, layers, x)[1], phi
