"""One row of features a sample for all outputs: unbiased for the mean of their kernels."""

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import datassay as da
from datassay.collect import choose_form
from datassay.collect.collection import collect
from datassay.collect.jacobian.blocks import DenseFactors
from datassay.collect.jacobian.projection import project, projector
from datassay.collect.layers import Layers
from datassay.score.leave_one_out import leave_one_out

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


def test_scores_rank_as_those_of_the_averaged_kernel(monkeypatch):
    """Digits, 700 samples: features in place of the exact kernel, 256 hidden units."""
    monkeypatch.setattr(choose_form, "LARGEST_EIGENPROBLEM", 256)
    train, val = da.load("digits")
    train, val = train.subset(np.arange(700)), val.subset(np.arange(100))
    model = da.build_model("mlp:width=256", train)
    exact = collect(model, train, val, outputs="averaged", projection=None)
    ours = collect(model, train, val, outputs="averaged", projection=150)
    assert (ours.form.representation, ours.form.outputs) == ("features", "averaged")
    assert ours.features.shape == (700, ours.form.n_features) and ours.rows_per_sample == 1
    assert ours.form.result_bytes == ours.features.element_size() * 800 * ours.form.n_features
    found, oracle = leave_one_out(ours), leave_one_out(exact)
    assert spearmanr(found.prediction_change, oracle.prediction_change)[0] > 0.85
    assert (found.held_out.argmax(1) == oracle.held_out.argmax(1)).mean() > 0.9
