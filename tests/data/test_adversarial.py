"""Adversarial samples: the step by its definition, only successes replace, the same for a seed."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.act.remove.auroc import auroc
from datassay.act.remove.removal_curve import train_all
from datassay.data.corrupt.adversarial import add_adversarial
from datassay.data.samples import SampleSet
from datassay.errors import DataError


def problem(n=60, k=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % k
    x = rng.normal(size=(n, 4)).astype(np.float32)
    x[:, :k] += np.eye(k)[y]
    samples = SampleSet(x, y, np.arange(n), class_names=tuple("abc"[:k]))
    torch.manual_seed(seed)
    model = nn.Linear(4, 1 if k == 2 else k)
    with torch.no_grad():
        if k == 2:
            model.weight[0, :2] += torch.tensor([-1.0, 1.0])
        else:
            model.weight[:, :k] += torch.eye(k)
    return samples, model


@pytest.mark.parametrize("k", [2, 3])
def test_the_step_is_the_sign_of_the_loss_gradient(k):
    """Linear network: ∂loss/∂x = Wᵀ (p − onehot), by hand."""
    samples, model = problem(k=k)
    result = add_adversarial(samples, model, 0.1, epsilon=0.7)
    w, b = (p.detach().double().numpy() for p in (model.weight, model.bias))
    if k == 2:  # one logit f stands for (0, f)
        w, b = np.stack([0 * w[0], w[0]]), np.array([0.0, b[0]])
    z = samples.x @ w.T + b
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    slope = (p - np.eye(k)[samples.y]) @ w
    expected = np.clip(samples.x + 0.7 * np.sign(slope), samples.x.min(), samples.x.max())
    index = result.replaced
    assert index.sum() == 6
    np.testing.assert_allclose(result.samples.x[index], expected[index], atol=1e-6)
    assert np.array_equal(result.samples.x[~index], samples.x[~index])
    right = z.argmax(1) == samples.y
    fooled = right & ((expected @ w.T + b).argmax(1) != samples.y)
    assert not (index & ~fooled).any()
    assert result.success == pytest.approx(fooled.sum() / right.sum())
    assert np.array_equal(result.samples.y, samples.y) and result.samples.ids is samples.ids


def test_the_same_seed_gives_the_same_samples_and_the_model_stays():
    samples, model = problem()
    before = model.weight.clone()
    model.train()
    draws = [add_adversarial(samples, model, 0.1, epsilon=1.0, seed=s).replaced for s in (0, 0, 1)]
    assert np.array_equal(draws[0], draws[1]) and not np.array_equal(draws[0], draws[2])
    assert torch.equal(model.weight, before) and model.training
    assert model.weight.requires_grad and model.weight.grad is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fraction": 1.5}, r"fraction must lie in \[0, 1\]; got 1.5"),
        ({"fraction": 0.1, "epsilon": 0.0}, "epsilon must be finite and positive; got 0.0"),
        ({"fraction": 0.1, "seed": -1}, "seed must be an integer"),
        ({"fraction": 0.9, "epsilon": 1e-6}, "54 samples must be replaced; .* Raise epsilon"),
    ],
)
def test_what_is_refused(settings, message):
    samples, model = problem()
    with pytest.raises(DataError, match=message):
        add_adversarial(samples, model, **settings)


def test_regression_has_no_classes_to_confuse():
    with pytest.raises(DataError, match="diabetes is a regression set"):
        add_adversarial(da.load("diabetes")[0], nn.Linear(10, 1), 0.1)


def test_information_finds_adversarial_digits():
    """S1 Fig. 10 in small: adversarial samples inform more than their neighbours do."""
    train, val = da.load("digits")
    train = train.subset(np.arange(600))
    trained = train_all([da.build_model("mlp", train, seed=9)], train)
    model = da.build_model("mlp", train, seed=9)
    model.load_state_dict({k: v[0] for k, v in trained.state.items()})
    result = add_adversarial(train, model, 0.1, epsilon=0.15)
    lin = da.collect(da.build_model("mlp", result.samples), result.samples, val)
    assert auroc(result.replaced, da.sample_information(lin).information) > 0.75
