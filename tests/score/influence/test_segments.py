"""Segments of a training run: against dense matrices, and what they refuse."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.errors import SettingError
from helpers.by_block import gauss_newton, losses, slopes

LAYERS = {"0": ["0.weight", "0.bias"], "2": ["2.weight", "2.bias"]}
LR, STEPS = (0.5, 0.2), (30, 80)


def networks():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double() for _ in range(2)]


def data(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=generator).double(), torch.arange(n) % 3


def test_effects_are_the_definition():
    each, (x, y), (u, v) = networks(), data(24, 0), data(5, 1)
    times = (LR[0] * 30, LR[1] * 50)
    truth = 0.0
    for names in LAYERS.values():
        query = slopes(each[1], u, lambda f: losses(f, v), names)
        for model, time in zip(each[::-1], times[::-1], strict=True):
            hessian = gauss_newton(model, x, y, names)
            decay = torch.matrix_exp(-time * hessian)
            # (I − exp(−tH)) H⁻¹ as an integral, for H may be singular.
            grid = (torch.arange(4000).double() + 0.5) / 4000 * time
            values, vectors = torch.linalg.eigh(hessian)
            weights = torch.exp(-grid[:, None] * values).mean(0) * time
            response = (vectors * weights) @ vectors.T
            gradients = slopes(model, x, lambda f: losses(f, y), names)
            truth = truth - gradients @ response @ query.T / len(x)
            query = query @ decay
    found = da.influence(
        each[1], (x.numpy(), y.numpy()), (u.numpy(), v.numpy()), method="segments", measure="loss",
        checkpoints=each, lr=LR, steps=STEPS, precision="float64", temperature=1.0,
    )  # fmt: skip
    np.testing.assert_allclose(found.effect, truth.detach().numpy(), rtol=1e-5, atol=1e-8)
    assert found.method == "segments, temperature 1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": [10]}, "needs checkpoints of the run and the updates done at each"),
        ({"steps": [10, 10]}, "steps must grow"),
        ({"steps": STEPS, "lr": 0.0}, "lr must be positive"),
        ({"steps": STEPS, "lr": [0.1]}, "one number or one per checkpoint"),
    ],
)
def test_what_is_refused(settings, message):
    each, (x, y) = networks(), data(9, 0)
    with pytest.raises(SettingError, match=message):
        da.influence(
            each[1], (x.numpy(), y.numpy()), method="segments", checkpoints=each,
            **{"lr": 0.1, **settings},
        )  # fmt: skip
