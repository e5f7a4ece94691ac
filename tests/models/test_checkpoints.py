"""State dicts inside checkpoints: the one that fits is taken and told."""

import argparse

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.build import build_model
from datassay.models.checkpoints import StateDict, fitting, state_dicts
from datassay.models.weights import load_weights, weights_source


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def trained(seed=1):
    """A network, and its optimiser after a step."""
    model = network(seed)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(8, 5)).sum().backward()
    optimizer.step()
    return model, optimizer


def with_prefix(state, prefix):
    return {prefix + name: tensor for name, tensor in state.items()}


def checkpoints():
    model, optimizer = trained()
    own, rest = model.state_dict(), {"optimizer": optimizer.state_dict(), "epoch": 3}
    return model, {
        "plain": (own, ""),
        "model": ({**rest, "model": own}, "state dict 'model'"),
        "lightning": (
            {"state_dict": with_prefix(own, "model."), "hyper_parameters": {"lr": 0.1}, **rest},
            "state dict 'state_dict', names without 'model.'",
        ),
        "data parallel": (with_prefix(own, "module."), "names without 'module.'"),
        "both": (
            {"net": with_prefix(own, "module._orig_mod."), **rest},
            "state dict 'net', names without 'module._orig_mod.'",
        ),
        "two networks": (
            {"teacher": {"weight": torch.zeros(2)}, "states": {"student": own}, **rest},
            "state dict 'states.student'",
        ),
        "average too": ({"model": own, "ema": network(5).state_dict()}, "state dict 'model'"),
    }


@pytest.mark.parametrize("name", checkpoints()[1])
def test_the_state_dict_that_fits_is_loaded_and_told(name, tmp_path, caplog):
    model, made = checkpoints()
    held, told = made[name]
    torch.save(held, path := tmp_path / "checkpoint.pt")
    other = network(9)
    load_weights(other, path)
    for key, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[key], tensor), key
    assert told in caplog.text and (told != "" or not caplog.records)
    source = weights_source(path, other)
    assert source.endswith(f", {told})" if told else source[-17:]) and "SHA-256" in source


def test_prefixes_in_safetensors_and_built_in_networks(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    train = SampleSet(x, np.arange(20) % 3, np.arange(20), ("a", "b", "c"))
    other = build_model("mlp:width=8", train, seed=9)
    save_file(with_prefix(other[1].state_dict(), "net."), path := tmp_path / "w.safetensors")
    made = build_model("mlp:width=8", train, weights=path)
    assert all(
        torch.equal(a, b) for a, b in zip(made.parameters(), other.parameters(), strict=True)
    )


def test_a_prefix_that_is_the_models_own_stays():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.module = network()

    own = Inside().state_dict()
    found = fitting([StateDict("", "", dict(own))], [set(own)])
    assert found.prefix == "" and found.tensors.keys() == own.keys()


def test_what_fits_none_says_what_is_missing(tmp_path):
    torch.save({"model": with_prefix(nn.Linear(5, 4).state_dict(), "0.")}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match=r"1\.bias missing instead of \[4\]"):
        load_weights(network(), tmp_path / "w.pt")
    _, optimizer = trained()
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "only.pt")
    with pytest.raises(ModelError, match="must hold a state dict of tensors; got dict"):
        state_dicts(tmp_path / "only.pt")


def test_what_needs_unpickling_is_refused_with_the_line_that_writes_safetensors(tmp_path):
    model, _ = trained()
    path = tmp_path / "args.pt"
    torch.save({"model": model.state_dict(), "args": argparse.Namespace(lr=0.1)}, path)
    line = r"\(argparse\.Namespace\)\. Where .* safetensors\.torch\.save_model\(model, \"weights"
    with pytest.raises(ModelError, match=line):
        load_weights(network(), path)
