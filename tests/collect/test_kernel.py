"""Kernels and projections against the explicit Jacobian."""

import math
import sys
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from datassay.collect.jacobian.blocks import DenseFactors, map_block
from datassay.collect.jacobian.kernel import kernel
from datassay.collect.jacobian.per_sample import factored_jacobian, inspect_layers, jacobian, mixing
from datassay.collect.jacobian.projection import project, projector, tensor_projection
from datassay.collect.layers import Layers
from helpers.jacobians import blocks_of, full, made

MODELS = ["mlp", "lenet5", "batch norm", "no bias", "used twice", "frozen bias", "bare linear"]


@pytest.mark.parametrize("max_bytes", [2**28, 400])
@pytest.mark.parametrize("case", MODELS)
def test_equals_the_product_of_jacobians(case, max_bytes):
    _, blocks, phi = blocks_of(case)
    left = {name: map_block(b, lambda t: t[:4]) for name, b in blocks.items()}
    right = {name: map_block(b, lambda t: t[1:6]) for name, b in blocks.items()}
    k = phi.shape[1]
    expected = phi[:4].flatten(0, 1) @ phi[1:].flatten(0, 1).T
    joint = kernel(left, right, "joint", max_bytes)
    torch.testing.assert_close(joint, expected, rtol=1e-12, atol=1e-12)
    averaged = kernel(left, right, "averaged", max_bytes)
    mean = sum(phi[:4, a] @ phi[1:, a].T for a in range(k)) / k
    torch.testing.assert_close(averaged, mean, rtol=1e-12, atol=1e-12)
    single = {name: map_block(b, Tensor.float) for name, b in blocks.items()}
    double = {name: map_block(b, Tensor.double) for name, b in single.items()}  # multiplied as such
    assert torch.equal(kernel(single, single, "joint"), kernel(double, double, "joint"))


@pytest.mark.parametrize("outputs", ["joint", "averaged"])
@pytest.mark.parametrize("same", [True, False])
def test_gradients_that_are_one_for_all_samples_are_multiplied_once(outputs, same, monkeypatch):
    def block(n):
        gradients = torch.eye(4).expand(n, 4, 4).contiguous()
        gradients[-1, 0, 0] = 1.0 if same else 2.0
        return {"last": DenseFactors(torch.randn(n, 5), gradients, True)}

    left, right = block(40), block(9)
    result = kernel(left, right, outputs, max_bytes=8 * 9 * 16 * 3)
    monkeypatch.setattr(sys.modules[kernel.__module__], "_find_common_gram", lambda *_: None)
    torch.testing.assert_close(result, kernel(left, right, outputs), rtol=1e-14, atol=1e-14)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(u=st.floats(0.1, 10), v=st.floats(0.1, 10))
def test_units(u, v):
    """Gradients × u, inputs × v: a layer without bias has its kernel × u² v²."""
    _, blocks, _ = blocks_of("bare linear")
    block = blocks[""]
    before = DenseFactors(block.inputs, block.gradients, False)
    after = DenseFactors(v * block.inputs, u * block.gradients, False)
    expected = (u * v) ** 2 * kernel({"": before}, {"": before}, "joint")
    torch.testing.assert_close(kernel({"": after}, {"": after}, "joint"), expected)


# Features a tensor, and how they are drawn; of whole tensors nothing is.
DRAWN = [*product([1, 9], ["coordinates", "sparse_sign"]), (None, "coordinates")]


def explicit(to, size):
    """P as a matrix, [p, d]."""
    matrix = torch.zeros(to.n_features, size, dtype=torch.float64)
    if to.kind == "whole":
        return torch.eye(size, dtype=torch.float64)
    if to.kind == "coordinates":
        matrix[torch.arange(to.n_features), to.index] = to.scale
    else:
        matrix[to.index, torch.arange(size)] = to.sign
    return matrix


@pytest.mark.parametrize(("p", "kind"), DRAWN)
@pytest.mark.parametrize("case", ["mlp", "lenet5", "used twice", "no bias"])
def test_projection_equals_its_matrix(case, p, kind):
    layers, blocks, _ = blocks_of(case)
    to = projector(layers, p, kind, seed=3)
    gradients = full(blocks)
    expected = [gradients[n] @ explicit(t, gradients[n].shape[2]).T for n, t in to.tensors.items()]
    ours = project(blocks, to)
    # Tensors stand side by side in the order of the blocks, here compared as a set of columns.
    order = [n for b in blocks for n in to.tensors if n == b or n.rpartition(".")[0] == b]
    expected = dict(zip(to.tensors, expected, strict=True))
    torch.testing.assert_close(
        ours, torch.cat([expected[n] for n in order], 2), rtol=1e-12, atol=1e-15
    )
    assert ours.shape[2] == sum(t.n_features for t in to.tensors.values())
    first = project({n: map_block(b, lambda t: t[:2]) for n, b in blocks.items()}, to)
    assert torch.equal(first, ours[:2])


@pytest.mark.parametrize(("p", "kind"), DRAWN)
@pytest.mark.parametrize("case", ["lenet5", "strided", "convolution without bias"])
def test_convolutions_are_projected_from_factors(case, p, kind):
    model, x = made(case)
    layers = inspect_layers(model, x[:1])
    for averaged in (False, True):
        to = projector(layers, p, kind, seed=3, averaged=averaged)
        ours = project(factored_jacobian(model, layers, x)[1], to)
        expected = project(jacobian(model, layers, x)[1], to)
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", ["coordinates", "sparse_sign"])
def test_inner_products_are_unbiased(kind):
    g = torch.Generator().manual_seed(0)
    a, b = torch.randn(2, 60, generator=g, dtype=torch.float64)
    results = []
    for seed in range(400):
        matrix = explicit(tensor_projection(60, 15, kind, seed), 60)
        results.append(float((matrix @ a) @ (matrix @ b)))
    results = torch.tensor(results)
    assert abs(results.mean() - a @ b) <= 4 * results.std() / math.sqrt(len(results))
    to = tensor_projection(50, 20, kind, seed=1)
    assert kind == "sparse_sign" or (len(to.index.unique()), to.scale) == (20, math.sqrt(50 / 20))
    assert tensor_projection(20, 20, kind, 1).kind == "whole"
    assert tensor_projection(21, 20, kind, 1).kind == kind
    # 21 entries leave some of 20 features empty; the width must not depend on the draw.
    layers, blocks, _ = blocks_of("mlp")
    widths = {project(blocks, projector(layers, 20, kind, seed)).shape[2] for seed in range(5)}
    assert widths == {20 + 7 + 20 + 3}


@pytest.mark.parametrize("kind", ["coordinates", "sparse_sign"])
def test_draws_are_seeded_and_tensors_draw_apart(kind):
    layers, _, _ = blocks_of("lenet5")
    one, same, other = (projector(layers, 5, kind, seed).tensors for seed in (0, 0, 1))
    assert all(torch.equal(one[n].index, same[n].index) for n in one if one[n].index is not None)
    drawn = [n for n in one if one[n].index is not None]
    assert any(not torch.equal(one[n].index, other[n].index) for n in drawn)
    sizes = {"a": 400, "b": 400}
    duplicates = type(layers)({}, sizes, 1)
    pair = projector(duplicates, 5, kind, 0).tensors
    assert not torch.equal(pair["a"].index, pair["b"].index)


N, K = 6, 3


def blocks():
    g = torch.Generator().manual_seed(0)
    inputs = torch.randn(N, 5, generator=g, dtype=torch.float64)
    gradients = torch.randn(N, K, 4, generator=g, dtype=torch.float64)
    direct = torch.randn(N, K, 9, generator=g, dtype=torch.float64)
    return {"dense": DenseFactors(inputs, gradients, True), "direct": direct}


def written_out():
    given = blocks()
    dense = given["dense"]
    weight = (dense.gradients[..., None] * dense.inputs[:, None, None]).flatten(2)
    return torch.cat([weight, dense.gradients, given["direct"]], 2)  # [n, k, 33]


@pytest.mark.parametrize("kind", ["coordinates", "sparse_sign"])
@pytest.mark.parametrize("each", [None, 7], ids=["whole", "projected"])
def test_the_mean_over_seeds_is_the_averaged_kernel(kind, each):
    layers = Layers({"dense": (5, 4, True)}, {"direct": 9}, K)
    exact = torch.einsum("ikp,jkp->ij", written_out(), written_out()) / K
    draws = []
    for seed in range(200):
        features = project(blocks(), projector(layers, each, kind, seed, averaged=True))
        assert features.shape == (N, 1, features.shape[2])
        draws.append(features[:, 0] @ features[:, 0].T)
    draws = torch.stack(draws)
    error = draws.std(0) / len(draws) ** 0.5
    assert float(((draws.mean(0) - exact) / error).abs().max()) < 4.5


def test_the_rows_are_the_joint_ones_added_up_under_signs():
    layers = Layers({"dense": (5, 4, True)}, {"direct": 9}, K)
    joint = project(blocks(), projector(layers, 7, "coordinates", 3))
    to = projector(layers, 7, "coordinates", 3, averaged=True)
    signs = torch.cat([to.mixing[n] for n in ("dense.weight", "dense.bias", "direct")], 1)
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    expected = (joint * signs).sum(1, keepdim=True) / K**0.5
    torch.testing.assert_close(project(blocks(), to), expected)


@pytest.mark.parametrize("case", ["mlp", "lenet5", "no bias", "used twice"])
def test_of_mixtures_it_is_the_mean_over_them(case):
    model, x = made(case)
    layers = inspect_layers(model, x[:1])
    phi = torch.cat(list(full(jacobian(model, layers, x)[1]).values()), 2)  # [n, k, d]
    mix = mixing(phi.shape[1], 7).to(phi) * (7 / phi.shape[1]) ** 0.5
    mixed = torch.einsum("nkd,ks->snd", phi, mix)
    blocks = jacobian(model, layers, x, 7)[1]
    averaged = kernel(blocks, blocks, "averaged")
    torch.testing.assert_close(averaged, (mixed @ mixed.mT).mean(0), rtol=1e-10, atol=1e-10)
