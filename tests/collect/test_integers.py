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

WORDS, LENGTH, N = 11, 4, 30


class Bag(nn.Module):
    """Embeddings, averaged where the word is not 0, and a dense layer on them."""

    def __init__(self, k=2):
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(WORDS, 3)
        self.dense = nn.Linear(3, 5)
        self.last = nn.Linear(5, k)

    def forward(self, x):
        mask = (x != 0).to(self.words.weight.dtype)[..., None]
        mean = (self.words(x) * mask).sum(1) / mask.sum(1).clamp_min(1)
        return self.last(self.dense(mean).tanh())


def samples(n=N, dtype=np.int64, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, WORDS, (n, LENGTH))
    y = ((x == 3).any(1) | (x == 7).any(1)).astype(np.int64)
    return SampleSet(x.astype(dtype), y, np.arange(n), ("no", "yes"))


def jacobians(model, x):
    """[n, k, d] by autograd, a sample and an output at a time."""
    model = frozen_copy(model, torch.float64)
    weights = list(model.parameters())
    rows = []
    for one in torch.as_tensor(x).long():
        f = model(one[None])[0]
        grads = [torch.autograd.grad(f[c], weights, retain_graph=True) for c in range(len(f))]
        rows.append(torch.stack([torch.cat([g.flatten() for g in each]) for each in grads]))
    return torch.stack(rows)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32, np.float64])
def test_the_kernel_of_embeddings_is_that_of_autograd(dtype):
    train, val = samples(dtype=dtype), samples(9, dtype, seed=1)
    model = Bag()
    lin = da.collect(model, train, val, projection=None, outputs="joint")
    j, k = jacobians(model, train.x).flatten(0, 1), jacobians(model, val.x).flatten(0, 1)
    if lin.kernel is not None:
        torch.testing.assert_close(lin.kernel, j @ j.T, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(lin.val_kernel, k @ j.T, rtol=1e-10, atol=1e-10)
    else:
        torch.testing.assert_close(lin.features @ lin.features.T, j @ j.T, rtol=1e-10, atol=1e-10)
    found = da.label_issues(lin)
    assert np.isfinite(found.score).all()


def test_loaded_integers_serve_both_kinds_of_network():
    given = samples(200)
    train, val = da.load((given.x, given.y))
    for model in (Bag(), da.build_model("mlp:width=8", train)):
        lin = da.collect(model, train, val)
        assert np.isfinite(da.leave_one_out(lin).prediction_change).all()


def test_networks_that_take_numbers_get_them_in_their_precision():
    x = np.arange(12).reshape(4, 3)
    model = nn.Sequential(nn.Linear(3, 2)).double()
    assert not takes_integers(model, x)
    assert network_inputs(x, model, torch.float64).dtype == torch.float64
    # What a table's numbers do not say: a network that runs on both gets numbers.
    assert not takes_integers(nn.Flatten(), x)
    assert takes_integers(Bag(), x) and not takes_integers(Bag(), x + 0.5)
    assert Bag().training and takes_integers(Bag().train(), x)


def test_large_integers_are_not_rounded():
    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(4, 2)

        def forward(self, x):
            return self.table(x - 2**40)[:, 0]

    x = 2**40 + np.arange(8).reshape(8, 1) % 4
    lin = da.collect(Large(), SampleSet(x, np.arange(8) % 2, np.arange(8), ("a", "b")))
    assert len(torch.unique(lin.outputs, dim=0)) == 4


def test_an_index_out_of_range_is_told():
    train = samples()
    train.x[3, 1] = WORDS + 5
    with pytest.raises(ModelError, match="index out of range"):
        da.collect(Bag(), train.subset(np.arange(3, 20)))


@pytest.mark.parametrize("batch_size", [None, 8])
def test_training_is_that_of_a_loop(batch_size):
    train, recipe = samples(), Recipe("sgd", 0.3, 12, batch_size, precision="float64")
    seen = []
    found = train_networks(
        [Bag()],
        train,
        torch.arange(N)[None],
        recipe,
        observe=lambda p, _: seen.append(p[0].clone()),
    )
    model, x, y = (
        frozen_copy(Bag(), torch.float64),
        torch.as_tensor(train.x),
        torch.as_tensor(train.y),
    )
    for rows in seen:
        model.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.3 * p.grad
    outputs = model(x).detach()
    torch.testing.assert_close(found.outputs(train.x)[0], outputs, rtol=1e-10, atol=1e-10)


def test_retraining_without_a_sample_takes_them():
    train, val = samples(), samples(7, seed=1)
    found = retrain(Bag(), train, val, lr=0.1, steps=5, removed=np.array([1, 4]))
    assert found.outputs_without.shape == (2, 7, 2) and found.prediction_change.min() > 0
