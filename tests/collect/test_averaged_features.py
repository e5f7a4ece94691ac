"""One row of features a sample for all outputs: unbiased for the mean of their kernels."""

import pytest
import torch

from datassay.collect.jacobian.blocks import DenseFactors
from datassay.collect.jacobian.projection import project, projector
from datassay.collect.layers import Layers

N, K = 6, 3


def blocks():
    g = torch.Generator().manual_seed(0)
    inputs = torch.randn(N, 5, generator=g, dtype=torch.float64)
    gradients = torch.randn(N, K, 4, generator=g, dtype=torch.float64)
    direct = torch.randn(N, K, 9, generator=g, dtype=torch.float64)
    return {"dense": DenseFactors(inputs, gradients, True), "direct": direct}


def full():
    given = blocks()
    dense = given["dense"]
    weight = (dense.gradients[..., None] * dense.inputs[:, None, None]).flatten(2)
    return torch.cat([weight, dense.gradients, given["direct"]], 2)  # [n, k, 33]


@pytest.mark.parametrize("kind", ["coordinates", "sparse_sign"])
@pytest.mark.parametrize("each", [None, 7], ids=["whole", "projected"])
def test_the_mean_over_seeds_is_the_averaged_kernel(kind, each):
    layers = Layers({"dense": (5, 4, True)}, {"direct": 9}, K)
    exact = torch.einsum("ikp,jkp->ij", full(), full()) / K
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
