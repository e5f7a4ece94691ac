"""What a trained model is to influence: its outputs, and Jacobians equal to torch.func's."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.func import jacrev, vmap

from datassay.collect.curvature.output_geometry import (
    DenseFeatures,
    SharedFeatures,
    output_geometry,
    with_weights,
)
from datassay.collect.loss import loss_named
from datassay.data.samples import SampleSet
from datassay.errors import ModelError, SettingError
from datassay.models.networks import mlp
from helpers.jacobians import oracle
from helpers.made_of import MadeOf


def samples(n=70, d=4, k=3, seed=0):
    rng = np.random.default_rng(seed)
    names = tuple("abcd"[:k])
    return SampleSet(rng.normal(size=(n, d)), np.arange(n) % k, np.arange(n), class_names=names)


def frozen_network(k=3):
    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(4, 5), nn.Tanh()).requires_grad_(False)
    return nn.Sequential(body, nn.Linear(5, k))


def jacobians(model, x):
    return oracle(copy.deepcopy(model).double(), torch.as_tensor(x).double())[1]


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
    index = output_geometry(model, train)
    assert isinstance(index.features, SharedFeatures) and index.is_linear
    torch.testing.assert_close(
        index.features.rows(slice(None)), by_output(jacobians(model, train.x), 3)
    )
    expected = copy.deepcopy(model).double()(torch.as_tensor(train.x)).detach()
    torch.testing.assert_close(index.outputs, expected)
    torch.testing.assert_close(index.features.outputs(index.weights), expected)
    assert torch.equal(index.targets, torch.eye(3).double()[torch.as_tensor(train.y)])


def test_any_network_has_its_jacobians():
    torch.manual_seed(0)
    train, model = samples(), mlp((4,), 3, width=6, depth=1)
    index = output_geometry(model, train, projection=None)
    assert isinstance(index.features, DenseFeatures) and not index.is_linear
    rows = index.features.jacobian
    expected = torch.cat(list(jacobians(model, train.x).values()), 2)
    assert rows.shape == expected.shape
    # The order of the parameters is the projection's: inner products know nothing of it.
    torch.testing.assert_close(
        rows.flatten(0, 1) @ rows.flatten(0, 1).T, expected.flatten(0, 1) @ expected.flatten(0, 1).T
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


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 3), nn.Tanh()),
        # Something fixed is added: its derivative is 1, its outputs are not all.
        MadeOf(lambda net, x: net.layer(x) + x[:, :3], layer=nn.Linear(4, 3)),
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


@pytest.mark.parametrize("model", [nn.Linear(4, 3), frozen_network()], ids=["linear", "last layer"])
def test_weights_go_back_into_the_model(model):
    train = samples()
    index = output_geometry(model, train)
    again = output_geometry(with_weights(model, index.weights), train)
    torch.testing.assert_close(again.outputs, index.outputs, rtol=1e-6, atol=1e-6)
    weights = index.weights + torch.linspace(-1, 1, len(index.weights)).double()
    moved = output_geometry(with_weights(model, weights), train)
    torch.testing.assert_close(moved.outputs, index.move_to(weights).outputs, rtol=1e-6, atol=1e-6)
    assert next(model.parameters()).dtype == torch.float32
    keep = np.array([3, 1, 60])
    part = index.subset(torch.as_tensor(keep))
    assert len(part) == 3 and len(part.features) == 3
    assert torch.equal(part.targets, index.targets[keep])


@pytest.mark.parametrize("loss", ["cross_entropy", "mse"])
@pytest.mark.parametrize("k", [1, 3])
def test_derivatives_are_those_of_the_loss_and_the_root_squares_to_the_hessian(loss, k):
    g = torch.Generator().manual_seed(0)
    f = 3 * torch.randn(5, k, generator=g, dtype=torch.float64)
    y = torch.eye(k).double()[torch.arange(5) % k] if k > 1 else torch.arange(5)[:, None] % 2.0
    y = y.double()
    kind = loss_named(loss)
    slope = torch.func.grad(kind.value)
    torch.testing.assert_close(kind.gradient(f, y), vmap(slope)(f, y))
    curvature = kind.hessian(f)
    torch.testing.assert_close(curvature, vmap(jacrev(slope))(f, y))
    root = kind.root(f)
    assert root.shape[2] == (k - 1 if k > 1 and loss == "cross_entropy" else k)
    torch.testing.assert_close(root @ root.mT, curvature)


def test_roots_of_probabilities_at_their_limits():
    f = torch.tensor([[800.0, 0, 0], [0, 800.0, 0]]).double()
    root = loss_named("cross_entropy").root(f)
    assert torch.isfinite(root).all() and root.abs().max() < 1e-100
