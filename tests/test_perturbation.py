"""The rounding check of the tests: DATASSAY_PERTURB moves weights, and nothing else."""

import pytest
import torch
from torch import nn

from helpers import perturbation


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setenv("DATASSAY_PERTURB", "1e-6")
    monkeypatch.setenv("DATASSAY_PERTURB_SEED", "0")
    for name in perturbation.DRAWN:
        original = getattr(nn.init, name)
        original = getattr(original, "__wrapped__", original)  # where the whole run is perturbed
        monkeypatch.setattr(nn.init, name, perturbation._perturbed(original))


def made():
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 7), nn.LSTM(7, 3))
    return nn.utils.parameters_to_vector(network.parameters()).detach(), torch.rand(3)


def test_weights_move_by_the_scale_and_the_stream_does_not(monkeypatch, installed):
    perturbed, after = made()
    again, _ = made()
    monkeypatch.setenv("DATASSAY_PERTURB_SEED", "1")
    other, _ = made()
    monkeypatch.setenv("DATASSAY_PERTURB", "0")
    plain, after_plain = made()
    assert torch.equal(perturbed, again) and torch.equal(after, after_plain)
    for moved in (perturbed, other):
        relative = (moved / plain - 1).abs()
        assert 0.5e-6 < relative.mean() < 1.2e-6 and relative.max() < 6e-6
    assert not torch.equal(perturbed, other)


def test_copies_of_a_head_move_as_one(installed):
    torch.manual_seed(0)

    def start(self, kind, given, seeds, m):
        return torch.rand(1, 6, 1, 2).expand(1, 6, m, 2).flatten(2)

    theta = perturbation._perturbed_heads(start)(None, "drawn", None, [0], 4)
    copies = theta.unflatten(2, (4, 2))
    torch.manual_seed(0)
    plain = torch.rand(1, 6, 1, 2)
    assert torch.equal(copies, copies[:, :, :1].expand_as(copies))
    assert 0.2e-6 < (copies / plain - 1).abs().mean() < 2e-6


def test_off_unless_asked(monkeypatch):
    monkeypatch.delenv("DATASSAY_PERTURB", raising=False)
    before = nn.init.uniform_
    perturbation.install()
    assert nn.init.uniform_ is before
