"""Segments of a training run: against dense matrices, and what they refuse."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.collect.gradients.blocks import blocks_of, chosen_parameters
from datassay.errors import SettingError
from datassay.score.influence.optimizer_state import Update, update_of
from datassay.score.influence.segments import TrainingSegment
from helpers.by_block import gauss_newton, losses, slopes

LAYERS = {"0": ["0.weight", "0.bias"], "2": ["2.weight", "2.bias"]}
LR, STEPS = (0.5, 0.2), (30, 80)


def networks():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double() for _ in range(2)]


def data(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, 4, generator=generator).double(), torch.arange(n) % 3


@pytest.mark.parametrize("unit", [0.5, 1.0, 2.0])
def test_another_unit_of_the_loss_leaves_time_times_curvature_as_it_was(unit):
    (model, _), ones = networks(), torch.ones(3)
    segment = TrainingSegment(model, 12.0, Update("Adam", 0.1, {"w": 4 * ones}, {"w": 0.3 * ones}))
    after = segment.of_loss(unit)
    assert after.time * unit == 12.0 and after.network is model
    torch.testing.assert_close(after.update.decay["w"] * after.time, 0.3 * 12 * ones)
    assert after.update.step_sizes["w"].equal(4 * ones) and segment.update.decay["w"][0] < 0.31
    assert TrainingSegment(model, 12.0).of_loss(unit).update is None


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
    attribution = da.influence(
        each[1], (x.numpy(), y.numpy()), (u.numpy(), v.numpy()), method="segments", measure="loss",
        checkpoints=each, lr=LR, steps=STEPS, precision="float64", temperature=1.0,
    )  # fmt: skip
    np.testing.assert_allclose(attribution.effect, truth.detach().numpy(), rtol=1e-5, atol=1e-8)
    assert attribution.method == "segments"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": [10]}, "needs checkpoints of the run and the updates done at each"),
        ({"steps": [10, 10], "lr": 0.1}, "steps must grow"),
        ({"steps": STEPS, "lr": 0.0}, "lr must be positive"),
        ({"steps": STEPS}, "lr must be positive"),
        ({"steps": STEPS, "lr": [0.1]}, "one number or one per checkpoint"),
        ({"steps": STEPS, "lr": LR, "optimizer": [{}]}, "optimizer must be one state a checkpoint"),
    ],
)
def test_what_is_refused(settings, message):
    each, (x, y) = networks(), data(9, 0)
    with pytest.raises(SettingError, match=message):
        da.influence(
            each[1], (x.numpy(), y.numpy()), method="segments", checkpoints=each,
            **settings,
        )  # fmt: skip


def quadratic():
    """A linear network, whose Hessian of the squared error is Kronecker-factored; samples."""
    torch.manual_seed(0)
    x = torch.randn(9, 4).double()
    y = x @ torch.randn(4, 2).double() + torch.randn(9, 2).double()
    return nn.Linear(4, 2, bias=False).double(), x, y


def state(model, sizes, decay=0.0):
    """AdamW's, whose D is sizes."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=decay, eps=0.0)
    held = optimizer.state_dict()
    held["state"] = {0: {"step": torch.tensor(1e9), "exp_avg_sq": sizes.double() ** -2}}
    return held


def removed(start, x, y, u, parts, share=1e-5):
    """Outputs with less without each sample, by preconditioned descent step by step, [n, m]."""
    kept = 1 - share * torch.eye(len(x)).double()[:, :, None]
    weight = start.expand(len(x), -1, -1)
    for sizes, decay, lr, steps in parts:
        for _ in range(steps):
            gradient = (kept * (x @ weight.mT - y)).mT @ x / len(x)
            weight = weight - lr * (sizes * gradient + decay * weight)
    return (u @ ((start - weight) / share).mT).sum(2)


def test_a_larger_loss_is_the_same_run():
    model, _, _ = quadratic()
    update = update_of(state(model, torch.ones(2, 4), 0.3), model)
    part = TrainingSegment(model, 6.0, update).of_loss(3.0)
    (block,) = blocks_of(model, chosen_parameters(model, None))
    metric = part.metrics([block], penalty=0.5)[block.name]
    # t (H + λ) of 3 times the H: λ too; a penalty is part of the loss that is given.
    assert part.time == 2.0
    torch.testing.assert_close(metric.decay, torch.full((2, 4), 0.9 + 0.5).double())
    torch.testing.assert_close(metric.steps, torch.ones(2, 4).double())


SIZES = {
    # a bᵀ, which keeps a Kronecker basis, and any.
    "ekfac": torch.outer(torch.tensor([1.0, 3.0]), torch.tensor([0.2, 1.0, 5.0, 0.7])),
    "blocks": torch.linspace(0.1, 4.0, 8).view(2, 4),
}


@pytest.mark.parametrize("parts", ["one", "one with decay", "two of other metrics"])
@pytest.mark.parametrize("curvature", SIZES)
def test_removal_from_preconditioned_descent(curvature, parts):
    model, x, y = quadratic()
    sizes, decay = SIZES[curvature].double(), 0.3 if parts == "one with decay" else 0.0
    segments = [(sizes, decay, 2e-4, 4000)]
    if parts == "two of other metrics":
        segments = [(sizes, 0.0, 1e-3, 400), (1 / sizes, 0.0, 5e-4, 800)]
    # D ∇L + λ w = 0: the run stays there until a sample is taken out.
    gram, slope = x.T @ x / 9, (x.T @ y / 9).T.flatten()
    hessian = torch.block_diag(gram, gram) + decay * torch.diag(1 / sizes.flatten())
    start = torch.linalg.solve(hessian, slope).view(2, 4)
    with torch.no_grad():
        model.weight.copy_(start)
    u = torch.randn(3, 4).double()
    attribution = da.influence(
        model, (x.numpy(), y.numpy()), (u.numpy(), np.zeros((3, 2))), method="segments",
        measure=lambda m, batch: m(batch[0]).sum(1), checkpoints=[model] * len(segments),
        lr=[p[2] for p in segments], steps=np.cumsum([p[3] for p in segments]).tolist(),
        optimizer=[state(model, *p[:2]) for p in segments], precision="float64",
        curvature=curvature,
    )  # fmt: skip
    truth = removed(start, x, y, u, segments)
    # But for what a step is longer than a flow.
    largest = float(truth.abs().max())
    np.testing.assert_allclose(attribution.effect, truth, rtol=2e-3, atol=1e-3 * largest)
    assert attribution.method == "segments of Adam's run"
