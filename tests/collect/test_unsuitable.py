"""Networks that cannot be linearised: one clear error that names the layer."""

import pytest
import torch
from torch import nn

from datassay.collect.jacobian.per_sample import inspect_layers, jacobian
from datassay.errors import ModelError
from datassay.models.networks import mlp
from helpers.jacobians import frozen


class Reads(nn.Module):
    def forward(self, x):
        return x * x.sum().item()


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Fills(nn.Module):
    def forward(self, x):
        out = torch.zeros(1, 5, dtype=x.dtype)
        out += x
        return out


class _NoSetup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad


class OldFunction(nn.Module):
    def forward(self, x):
        return _NoSetup.apply(x)


class _ReadsGradient(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * grad.sum().item()


class BackwardReads(nn.Module):
    def forward(self, x):
        return _ReadsGradient.apply(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 5, batch_first=True)

    def forward(self, x):
        return self.lstm(x[:, None])[0][:, -1]


@pytest.mark.parametrize(
    ("culprit", "label"),
    [
        (Reads(), r"layer '1' \(Reads\)"),
        (Branches(), r"layer '1' \(Branches\)"),
        (Fills(), r"layer '1' \(Fills\)"),
        (OldFunction(), r"layer '1' \(OldFunction\)"),
        (Recurrent(), r"layer '1.lstm' \(LSTM\)"),
        (BackwardReads(), "one layer's backward pass"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_cannot_be_vectorised_is_named(culprit, label):
    model = nn.Sequential(nn.Linear(5, 5), culprit, nn.Linear(5, 2)).double()
    x = torch.ones(2, 5, dtype=torch.float64)
    layers = inspect_layers(model, x[:1])
    with pytest.raises(ModelError, match=rf"torch.func can vectorise; {label} is not: .+ Replace"):
        jacobian(model, layers, x)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def test_a_failure_in_the_models_own_forward_names_the_model():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 2)

        def forward(self, x):
            return self.layer(x) * x.sum().item()

    model, x = Own(), torch.ones(2, 5)
    with pytest.raises(ModelError, match="vectorise; Own is not"):
        jacobian(model, inspect_layers(model, x[:1]), x)


class Outputs(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.layer, self.change = nn.Linear(5, 2), change

    def forward(self, x):
        return self.change(self.layer(x))


def no_gradient(z):
    with torch.no_grad():
        return z * 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda z: z[:, 0], r"output must be \[n, k\].*got \[1\] for one sample. Wrap"),
        (lambda z: z[None], r"output must be \[n, k\].*got \[1, 1, 2\]"),
        (lambda z: (z, z), r"output must be \[n, k\].*got tuple"),
        (lambda z: torch.cat([z, z]), r"output must be \[n, k\].*got \[2, 2\]"),
        (torch.Tensor.detach, "output must depend on its trainable parameters"),
        (no_gradient, "output must depend on its trainable parameters"),
    ],
)
def test_bad_outputs(change, message):
    with pytest.raises(ModelError, match=message):
        inspect_layers(Outputs(change), torch.ones(1, 5))


def test_samples_that_do_not_fit():
    with pytest.raises(
        ModelError, match=r"accept samples of shape \[4\]; it raised: RuntimeError: mat1 and"
    ):
        inspect_layers(mlp((5,), 2), torch.ones(1, 4))
    with pytest.raises(ModelError, match=r"shape \[5\]; it raised: KeyError: 'x'"):
        inspect_layers(Outputs(lambda z: {}["x"]), torch.ones(1, 5))


def test_nothing_to_train():
    for model in (frozen("1.weight", "1.bias", "3.weight", "3.bias"), nn.Flatten()):
        with pytest.raises(ModelError, match="must have a trainable parameter"):
            inspect_layers(model, torch.ones(1, 5))
