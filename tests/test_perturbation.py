"""The rounding check of the tests: DATASSAY_PERTURB moves weights, and nothing else."""

import torch
from torch import nn

from helpers import perturbation


def made(seed, scale, monkeypatch):
    """Weights of a fresh network, what the stream then draws, and 4 copies of a head."""
    monkeypatch.setenv("DATASSAY_PERTURB", scale)
    monkeypatch.setenv("DATASSAY_PERTURB_SEED", seed)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 7), nn.LSTM(7, 3))

    def start(self, kind, given, seeds, m):
        return torch.rand(1, 6, 1, 2).expand(1, 6, m, 2).flatten(2)

    after = torch.rand(3)
    copies = perturbation._perturbed_heads(start)(None, "drawn", None, [0], 4).unflatten(2, (4, 2))
    return nn.utils.parameters_to_vector(network.parameters()).detach(), after, copies


def test_weights_and_copies_of_a_head_move_by_the_scale_and_the_stream_does_not(monkeypatch):
    untouched = nn.init.uniform_
    monkeypatch.setenv("DATASSAY_PERTURB", "0")
    perturbation.install()
    assert nn.init.uniform_ is untouched  # off unless asked
    for name in perturbation.DRAWN:
        original = getattr(nn.init, name)
        original = getattr(original, "__wrapped__", original)  # where the whole run is perturbed
        monkeypatch.setattr(nn.init, name, perturbation._perturbed(original))
    settings = (("0", "1e-6"), ("0", "1e-6"), ("1", "1e-6"), ("0", "0"))
    perturbed, again, other, plain = (made(*how, monkeypatch) for how in settings)
    assert torch.equal(perturbed[0], again[0]) and torch.equal(perturbed[1], plain[1])
    for moved in (perturbed, other):
        relative = (moved[0] / plain[0] - 1).abs()
        assert 0.5e-6 < relative.mean() < 1.2e-6 and relative.max() < 6e-6
    assert not torch.equal(perturbed[0], other[0])
    copies = perturbed[2]
    assert torch.equal(copies, copies[:, :, :1].expand_as(copies))
    assert 0.2e-6 < (copies / plain[2] - 1).abs().mean() < 2e-6
