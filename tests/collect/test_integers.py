"""Networks that look up whole numbers get integers, however the samples are kept."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.collect.jacobian.inputs import network_inputs, takes_integers
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.train.recipe import Recipe
from datassay.train.retrain import retrain
from datassay.train.training import train_networks
from helpers.jacobians import oracle
from helpers.made_of import MadeOf

WORDS, LENGTH, N = 11, 4, 30


def bag():
    """Embeddings, averaged where the word is not 0, and a dense layer on them."""

    def call(net, x):
        mask = (x != 0).to(net.words.weight.dtype)[..., None]
        mean = (net.words(x) * mask).sum(1) / mask.sum(1).clamp_min(1)
        return net.last(net.dense(mean).tanh())

    torch.manual_seed(0)
    words = nn.Embedding(WORDS, 3)
    return MadeOf(call, words=words, dense=nn.Linear(3, 5), last=nn.Linear(5, 2))


def samples(n=N, dtype=np.int64, seed=0):
    x = np.random.default_rng(seed).integers(0, WORDS, (n, LENGTH))
    y = ((x == 3).any(1) | (x == 7).any(1)).astype(np.int64)
    return SampleSet(x.astype(dtype), y, np.arange(n), ("no", "yes"))


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.float32, np.float64])
def test_the_kernel_of_embeddings_is_that_of_autograd(dtype):
    train, val = samples(dtype=dtype), samples(9, dtype, seed=1)
    lin = da.collect(bag(), train, val, projection=None, outputs="joint")
    exact = frozen_copy(bag(), torch.float64)
    j, k = (
        torch.cat(list(oracle(exact, torch.as_tensor(s.x).long())[1].values()), 2).flatten(0, 1)
        for s in (train, val)
    )
    kernel, val_kernel = lin.kernel, lin.val_kernel
    if kernel is None:
        kernel, val_kernel = lin.features @ lin.features.T, lin.val_features @ lin.features.T
    torch.testing.assert_close(kernel, j @ j.T, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(val_kernel, k @ j.T, rtol=1e-10, atol=1e-10)
    assert np.isfinite(da.label_issues(lin).score).all()


def test_loaded_integers_serve_both_kinds_of_network():
    given = samples(200)
    train, val = da.load((given.x, given.y))
    for model in (bag(), da.build_model("mlp:width=8", train)):
        lin = da.collect(model, train, val)
        assert np.isfinite(da.leave_one_out(lin).prediction_change).all()
    train.x[3, 1] = WORDS + 5
    with pytest.raises(ModelError, match="index out of range"):
        da.collect(bag(), train.subset(np.arange(3, 20)))


def test_networks_that_take_numbers_get_them_in_their_precision():
    x = np.arange(12).reshape(4, 3)
    model = nn.Sequential(nn.Linear(3, 2)).double()
    assert not takes_integers(model, x)
    assert network_inputs(x, model, torch.float64).dtype == torch.float64
    # What a table's numbers do not say: a network that runs on both gets numbers.
    assert not takes_integers(nn.Flatten(), x)
    assert takes_integers(bag(), x) and not takes_integers(bag(), x + 0.5)
    large = MadeOf(lambda net, x: net.table(x - 2**40)[:, 0], table=nn.Embedding(4, 2))
    x = 2**40 + np.arange(8).reshape(8, 1) % 4  # is not rounded
    lin = da.collect(large, SampleSet(x, np.arange(8) % 2, np.arange(8), ("a", "b")))
    assert len(torch.unique(lin.outputs, dim=0)) == 4


@pytest.mark.parametrize("batch_size", [None, 8])
def test_training_is_that_of_a_loop(batch_size):
    train, recipe = samples(), Recipe("sgd", 0.3, 12, batch_size, precision="float64")
    seen, rows = [], torch.arange(N)[None]
    networks = train_networks(
        [bag()], train, rows, recipe, observe=lambda p, _: seen.append(p[0].clone())
    )
    model, x, y = frozen_copy(bag(), torch.float64), *map(torch.as_tensor, (train.x, train.y))
    for some in seen:
        model.zero_grad()
        nn.functional.cross_entropy(model(x[some]), y[some]).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.3 * p.grad
    torch.testing.assert_close(networks.outputs(x)[0], model(x).detach(), rtol=1e-10, atol=1e-10)
    without = retrain(bag(), train, samples(7, seed=1), lr=0.1, steps=5, removed=np.array([1, 4]))
    assert without.outputs_without.shape == (2, 7, 2) and without.prediction_change.min() > 0
