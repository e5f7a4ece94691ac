"""State dicts inside checkpoints: the one that fits is taken and told."""

import argparse
import enum
import functools
import importlib
import os
import subprocess
import sys
import types
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.linear_model import LinearRegression
from torch import nn

from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.build import build_model
from datassay.models.checkpoints import StateDict, best_match, state_dicts
from datassay.models.weights import load_weights, weights_choice, weights_source


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
        "defaultdict": (
            defaultdict(dict, {"model": defaultdict(float, own)}),
            "state dict 'model'",
        ),
        "average too": ({"model": own, "ema": network(5).state_dict()}, "state dict 'model'"),
    }


@pytest.mark.parametrize("name", checkpoints()[1])
def test_the_state_dict_that_fits_is_loaded_and_told(name, tmp_path, caplog):
    model, made = checkpoints()
    held, reported = made[name]
    torch.save(held, path := tmp_path / "checkpoint.pt")
    other = network(9)
    assert load_weights(other, path) == () or name == "average too"
    for key, tensor in model.state_dict().items():
        assert torch.equal(other.state_dict()[key], tensor), key
    assert reported in caplog.text and (reported != "" or not caplog.records)
    source = weights_source(path, other)
    assert source.endswith(f", {reported})" if reported else source[-17:]) and "SHA-256" in source


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
    result = best_match([StateDict("", "", dict(own))], [set(own)])
    assert result.prefix == "" and result.tensors.keys() == own.keys()


def test_what_fits_none_says_what_is_missing(tmp_path):
    torch.save({"model": with_prefix(nn.Linear(5, 4).state_dict(), "0.")}, tmp_path / "w.pt")
    with pytest.raises(ModelError, match=r"1\.bias missing instead of \[4\]"):
        load_weights(network(), tmp_path / "w.pt")
    _, optimizer = trained()
    torch.save({"optimizer": optimizer.state_dict()}, tmp_path / "only.pt")
    with pytest.raises(ModelError, match="must hold a state dict of tensors; got dict"):
        state_dicts(tmp_path / "only.pt")


def equal(model, other):
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def both(first, second):
    """A checkpoint with two state dicts that fit, and their networks."""
    one, two = network(1), network(2)
    return {first: one.state_dict(), second: two.state_dict()}, one, two


AVERAGES = ["ema", "model_ema", "state_dict_ema", "swa_model", "averaged", "emaModel", "EMAModel"]


@pytest.mark.parametrize("average", AVERAGES)
def test_the_weights_that_were_trained_come_before_an_average(average, tmp_path):
    held, _, model = both(average, "model")
    held["model"] = with_prefix(held["model"], "module.")  # and an average that fits as it is
    torch.save(held, path := tmp_path / "w.pt")
    other = network(9)
    (reported,) = load_weights(other, path)
    assert equal(other, model)
    assert reported == (
        f"{path} holds several state dicts of this network: 'model' was taken, not '{average}'. "
        f"Name another as {path}::{average}."
    )
    assert weights_choice(path, other) == (reported,)


@pytest.mark.parametrize("key", ["schema", "gemma", "avgpool"])
def test_other_words_are_no_average(key, tmp_path):
    held, first, _ = both(key, "model")
    torch.save(held, tmp_path / "w.pt")
    load_weights(other := network(9), tmp_path / "w.pt")
    assert equal(other, first)


def test_the_user_names_one_of_several(tmp_path):
    held, model, average = both("model", "ema")
    torch.save({"states": held}, path := tmp_path / "w.pt")
    named = tmp_path / "w.pt::states.ema"
    other = network(9)
    assert load_weights(other, named) == () == weights_choice(named, other)
    assert equal(other, average) and not equal(other, model)
    assert weights_source(named, other).startswith(f"{named} (SHA-256 ")
    with pytest.raises(ModelError, match=r"'ema'; it holds 'states.model', 'states.ema'. Name"):
        load_weights(other, tmp_path / "w.pt::ema")
    torch.save(model.state_dict(), tmp_path / "odd::name.pt")  # a file's own name is its own
    load_weights(other, tmp_path / "odd::name.pt")
    assert equal(other, model)
    with pytest.raises(ModelError, match="it holds one alone, without a name"):
        load_weights(other, tmp_path / "odd::name.pt::model")
    assert path.is_file()


def test_an_average_alone_is_told(tmp_path):
    average = torch.optim.swa_utils.AveragedModel(network(3))
    torch.save(average.state_dict(), path := tmp_path / "w.pt")
    (reported,) = load_weights(other := network(9), path)
    assert equal(other, average.module)
    assert "averaged over the training (it counts its averages)" in reported
    torch.save({"ema": network(4).state_dict(), "optimizer": {}}, path)
    (reported,) = load_weights(other, path)
    assert equal(other, network(4)) and "averaged over the training (ema)" in reported


class Settings:
    """Of a training, as users have it."""

    def __init__(self, **values):
        vars(self).update(values)


class Stage(enum.Enum):
    LAST = 1


def beside():
    """What trainings keep beside their tensors."""
    return {
        "namespace": argparse.Namespace(lr=0.1, sizes=[1, 2], path=Path("a/b")),
        "simple": types.SimpleNamespace(a=1),
        "own class": Settings(inner=Settings(a=(1, 2)), stage=Stage.LAST),
        "enum as a key": {Stage.LAST: 2.0},
        "collections": [
            Counter("aab"),
            OrderedDict(a=1),
            defaultdict(list, {"a": [1]}),
            deque([1]),
        ],
        "times": (datetime.now(UTC), timedelta(1), Decimal("0.1"), Fraction(1, 3), uuid.uuid4()),
        "numpy": (np.float64(0.5), np.arange(3), np.dtype("int8"), np.bool_(True)),
        "torch": (torch.float16, torch.device("cpu"), torch.Size([2])),
        "plain": (frozenset({1}), range(3), slice(2), 1j, b"x", bytearray(b"y")),
        "partial": functools.partial(nn.BatchNorm1d, eps=1e-3),
        "an estimator": LinearRegression(),
    }


@pytest.mark.parametrize("name", beside())
def test_settings_beside_the_weights_do_no_harm(name, tmp_path):
    model, _ = trained()
    path = tmp_path / "args.pt"
    torch.save({"args": beside()[name], "model": model.state_dict()}, path)
    before = set(torch.serialization.get_safe_globals())
    load_weights(other := network(9), path)
    assert equal(other, model)
    assert set(torch.serialization.get_safe_globals()) == before


def test_a_class_of_the_file_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "planted.py").write_text("open('was_imported', 'w')\nclass Settings: pass\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    own = type("Settings", (), {"__module__": "planted"})
    with monkeypatch.context() as inside:
        inside.setitem(sys.modules, "planted", types.SimpleNamespace(Settings=own))
        torch.save({"args": own(), "model": network(1).state_dict()}, tmp_path / "w.pt")
    load_weights(other := network(9), tmp_path / "w.pt")
    assert equal(other, network(1)) and not (tmp_path / "was_imported").exists()


class Calls:
    """Pickled as a call."""

    def __init__(self, function, *args, state=None):
        self.call = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.call


RUN = "open('was_run', 'w').close()"
MALICIOUS = {
    "os.system": lambda: Calls(os.system, "touch was_run"),
    "exec": lambda: Calls(exec, RUN),
    "eval": lambda: Calls(eval, RUN),
    "inside a namespace": lambda: argparse.Namespace(a=[{"b": Calls(os.system, "touch was_run")}]),
    "import": lambda: Calls(importlib.import_module, "antigravity"),
    "__setstate__": lambda: Calls(functools.partial, print, state=(exec, (RUN,), {}, {})),
    "chained": lambda: Calls(Calls, os.system, "touch was_run"),
    "code": lambda: Calls(types.new_class, "name"),
    "as a factory": lambda: Calls(defaultdict, os.getcwd),
}


@pytest.mark.parametrize("name", MALICIOUS)
def test_what_could_run_code_is_refused_by_its_name_and_not_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": network().state_dict(), "args": MALICIOUS[name]()}, tmp_path / "w.pt")
    named = (
        r"w\.pt must be .*; it holds more than tensors \([\w.]+\), which was not run.*save_model"
    )
    with pytest.raises(ModelError, match=named):
        load_weights(network(), tmp_path / "w.pt")
    assert not (tmp_path / "was_run").exists() and "antigravity" not in sys.modules


def planted(*_, **__):
    """A function of no package of the standard library, which a file wants to have called."""
    open("was_run", "w").close()


class Planted:
    def __setstate__(self, state):
        planted()

    def __new__(cls, *_):
        planted()
        return object.__new__(cls)

    def __getstate__(self):
        return {"a": 1}


def test_code_of_other_packages_is_not_run_either(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    held = {
        "call": Calls(planted, 1),
        "under its old name": Calls(subprocess.call, ["touch", "was_run"]),  # commands.call
        "new": Planted(),
        "state": Calls(Planted, state={"b": Calls(planted)}),
        "in a factory": Calls(defaultdict, planted),
        "in a partial": Calls(functools.partial, planted),
        "getattr": Calls(getattr, Planted, "__init__"),
        "wrapped": Calls(torch._tensor._rebuild_from_type_v2, planted, Planted, (), {}),
    }
    os.remove("was_run")  # made here
    for key in held:
        torch.save({"model": network(1).state_dict(), "args": held[key]}, tmp_path / "w.pt")
        if key == "wrapped":
            with pytest.raises(ModelError, match="more than tensors"):
                load_weights(network(9), tmp_path / "w.pt")
        else:
            load_weights(other := network(9), tmp_path / "w.pt")
            assert equal(other, network(1))
        assert not (tmp_path / "was_run").exists(), key


def test_a_whole_network_is_refused_with_the_line_that_writes_safetensors(tmp_path):
    line = r"\(Linear\)\. Where .* safetensors\.torch\.save_model\(model, \"weights"
    for held in (nn.Linear(2, 1), {"model": nn.Linear(2, 1), "epoch": 1}):
        torch.save(held, tmp_path / "w.pt")
        with pytest.raises(ModelError, match=line):
            load_weights(network(), tmp_path / "w.pt")
