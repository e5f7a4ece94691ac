"""What a trained model is to influence: its outputs, and Jacobians equal to torch.func's."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap

from datassay.collect.curvature.output_geometry import (
    DenseFeatures,
    SharedFeatures,
    output_geometry,
    with_weights,
)
from datassay.collect.curvature.output_loss import curvature_root, loss_derivatives, output_losses
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.networks import mlp


def samples(n=70, d=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    names = tuple("abcd"[:k])
    return SampleSet(rng.normal(size=(n, d)), np.arange(n) % k, np.arange(n), class_names=names)


def frozen_network(k=3):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(4, 5), nn.Tanh()).requires_grad_(False)
    return nn.Sequential(body, nn.Linear(5, k))


def jacobians(model, x):
    """[n, k, p] of what trains, in the model's own order of parameters."""
    model = copy.deepcopy(model).double()
    trains = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}

    def outputs(parameters, sample):
        return functional_call(model, parameters, (sample[None],))[0]

    found = vmap(jacrev(outputs), (None, 0))(trains, torch.as_tensor(x).double())
    return {name: block.flatten(2).detach() for name, block in found.items()}


def by_output(blocks, k):
    """[n, k, p] with the weights ordered [w_1, b_1, w_2, b_2, ...]."""
    parts = [block.unflatten(2, (k, -1)) for block in blocks.values()]
    return torch.cat(parts, 3).flatten(2)


@pytest.mark.parametrize(
    "model",
    [nn.Linear(4, 3), nn.Linear(4, 3, bias=False), frozen_network()],
    ids=["linear", "without bias", "last layer"],
)
def test_a_dense_last_layer_is_exact_and_small(model):
    train = samples()
    at = output_geometry(model, train)
    assert isinstance(at.features, SharedFeatures) and at.is_linear
    torch.testing.assert_close(
        at.features.rows(slice(None)), by_output(jacobians(model, train.x), 3)
    )
    expected = copy.deepcopy(model).double()(torch.as_tensor(train.x)).detach()
    torch.testing.assert_close(at.outputs, expected)
    torch.testing.assert_close(at.features.outputs(at.weights), expected)
    assert torch.equal(at.targets, torch.eye(3).double()[torch.as_tensor(train.y)])


def test_any_network_has_its_jacobians():
    torch.manual_seed(0)
    train, model = samples(), mlp((4,), 3, width=6, depth=1)
    at = output_geometry(model, train, projection=None)
    assert isinstance(at.features, DenseFeatures) and not at.is_linear
    rows = at.features.jacobian
    expected = torch.cat(list(jacobians(model, train.x).values()), 2)
    assert rows.shape == expected.shape
    # The order of the parameters is the projection's: inner products know nothing of it.
    torch.testing.assert_close(
        rows.flatten(0, 1) @ rows.flatten(0, 1).T,
        expected.flatten(0, 1) @ expected.flatten(0, 1).T,
    )


def test_projections():
    torch.manual_seed(0)
    train, model = samples(), mlp((4,), 3, width=6, depth=1)
    whole = output_geometry(model, train, projection=None).features.n_parameters
    assert output_geometry(model, train).features.n_parameters == whole  # few enough
    assert output_geometry(model, train, projection=2).features.n_parameters < whole
    for bad in (0, "all"):
        with pytest.raises(SettingError, match=r"projection must be ('auto', None|at least 1 fea)"):
            output_geometry(model, train, projection=bad)


class Shifted(nn.Module):
    """A dense layer with something fixed added: its derivative is 1, its outputs are not all."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x) + x[:, :3]


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 3), nn.Tanh()),
        Shifted(),
        nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
    ],
    ids=["tanh", "added", "relu"],
)
def test_a_layer_that_does_not_end_the_model_is_not_taken_for_linear(model):
    assert not output_geometry(model, samples(n=8)).is_linear


def test_outputs_that_are_not_finite():
    model = nn.Linear(4, 3)
    with torch.no_grad():
        model.weight[0, 0] = torch.nan
    with pytest.raises(ModelError, match="outputs must be finite; sample 0 gives NaN or infinity"):
        output_geometry(model, samples())


def test_losses_must_suit_the_task():
    regression = SampleSet(np.ones((4, 4)), np.arange(4.0), np.arange(4))
    with pytest.raises(SettingError, match="loss must be mse for a regression"):
        output_geometry(nn.Linear(4, 1), regression, "cross_entropy")
    with pytest.raises(SettingError, match="cross_entropy or mse for classes; got 'hinge'"):
        output_geometry(nn.Linear(4, 3), samples(), "hinge")
    assert output_geometry(nn.Linear(4, 1), regression, "mse").targets.shape == (4, 1)


@pytest.mark.parametrize("model", [nn.Linear(4, 3), frozen_network()], ids=["linear", "last layer"])
def test_weights_go_back_into_the_model(model):
    train = samples()
    at = output_geometry(model, train)
    again = output_geometry(with_weights(model, at.weights), train)
    torch.testing.assert_close(again.outputs, at.outputs, rtol=1e-6, atol=1e-6)
    weights = at.weights + torch.linspace(-1, 1, len(at.weights)).double()
    moved = output_geometry(with_weights(model, weights), train)
    torch.testing.assert_close(moved.outputs, at.moved(weights).outputs, rtol=1e-6, atol=1e-6)
    assert next(model.parameters()).dtype == torch.float32


def test_a_subset_is_the_geometry_of_the_subset():
    train, keep = samples(), np.array([3, 1, 60])
    part = output_geometry(nn.Linear(4, 3), train).subset(torch.as_tensor(keep))
    assert len(part) == 3 and len(part.features) == 3
    assert torch.equal(part.targets, torch.eye(3).double()[torch.as_tensor(train.y[keep])])


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("k", [1, 3])
def test_derivatives_are_those_of_the_loss_and_the_root_squares_to_the_hessian(loss, k):
    g = torch.Generator().manual_seed(0)
    f = 3 * torch.randn(5, k, generator=g, dtype=torch.float64)
    y = torch.eye(k).double()[torch.arange(5) % k] if k > 1 else torch.arange(5)[:, None] % 2.0
    y = y.double()

    def one(f, y):
        return output_losses(f[None], y[None], loss)[0]

    slope, curvature = loss_derivatives(f, y, loss)
    torch.testing.assert_close(slope, vmap(torch.func.grad(one))(f, y))
    torch.testing.assert_close(curvature, vmap(jacrev(torch.func.grad(one)))(f, y))
    root = curvature_root(f, loss)
    assert root.shape[2] == (k - 1 if k > 1 and loss == "cross_entropy" else k)
    torch.testing.assert_close(root @ root.mT, curvature)


def test_roots_of_probabilities_at_their_limits():
    root = curvature_root(torch.tensor([[800.0, 0, 0], [0, 800.0, 0]]).double(), "cross_entropy")
    assert torch.isfinite(root).all() and root.abs().max() < 1e-100
