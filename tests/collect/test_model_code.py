"""Code that changed under the same weights: every way of it is told, and nothing else is."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from datassay.collect import fingerprint
from datassay.collect.collection import collect
from datassay.collect.fingerprint import code_fingerprint
from datassay.errors import DatassayError, ModelError, SettingError
from datassay.train.retrain import retrain
from helpers.collecting import classes
from helpers.made_of import MadeOf
from helpers.networks_in_files import COMMENTED, EDITS, MUTATIONS, EditedNetwork


@pytest.fixture
def edited(tmp_path, monkeypatch):
    folder = tmp_path / "code"
    folder.mkdir()
    return EditedNetwork(folder, monkeypatch)


def problem():
    return classes(17), classes(6, seed=1, first=50)


@pytest.fixture
def made(edited, tmp_path):
    """A store of features and one of retrained networks, by the network as it was."""
    train, val = problem()
    collect(edited.model(), train, val, store=tmp_path / "features")
    retrain(edited.model(), train, lr=0.1, steps=2, removed=[1], store=tmp_path / "without")
    return tmp_path


def check_told(model, made):
    train, val = problem()
    with pytest.raises(DatassayError) as refused:
        collect(model, train, val, store=made / "features")
    assert "\n" not in str(refused.value)
    with pytest.raises(DatassayError):
        retrain(model, train, lr=0.1, steps=2, removed=[1], store=made / "without")
    return str(refused.value)


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_an_edit_is_told(edited, made, edit):
    edited.edit(*edit)
    message = check_told(edited.model(), made)
    if edit != EDITS["dropout in evaluation mode"]:  # which is refused for itself
        assert "code must be that which the store was made with" in message
        assert "Undo the change, or name another store." in message
    if edit == EDITS["another backward of an activation"]:
        assert "another: Gate.backward. " in message.replace(" (", ". ")
    edited.edit(*reversed(edit))
    code = code_fingerprint(edited.model())
    edited.edit(*edit)
    assert code_fingerprint(edited.model()) != code  # whatever the rows say


@pytest.mark.parametrize("mutate", MUTATIONS.values(), ids=MUTATIONS)
def test_a_change_of_the_object_is_told(edited, made, mutate):
    module = edited.module()
    model = module.Net()
    code = code_fingerprint(model)
    mutate(module, model)
    assert code_fingerprint(model) != code
    check_told(model, made)


def test_unchanged_code_is_never_refused(edited, made):
    train, val = problem()
    model = edited.model()
    with torch.no_grad():
        model(torch.zeros(2, 5))  # it counts its calls and keeps what it saw
    threads = torch.get_num_threads()
    for again in (model, edited.model()):
        collect(again, train, val, store=made / "features")
    edited.write(*COMMENTED)
    torch.set_num_threads(threads + 1)
    try:
        collect(edited.model(), train, val, store=made / "features")
    finally:
        torch.set_num_threads(threads)
    retrain(edited.model(), train, lr=0.1, steps=2, removed=[1], store=made / "without")


PRINTED = """
import json, sys
from datassay.collect.fingerprint import code_fingerprint
if sys.argv[1] == "file":
    from edited_net import Net
else:
    exec(open(sys.argv[2]).read())  # as a notebook does
print(json.dumps(code_fingerprint(Net())))
"""


@pytest.mark.parametrize("way", ["file", "exec"])
@pytest.mark.slow
def test_other_processes_agree(edited, way):
    path = os.pathsep.join([str(edited.folder), *sys.path])
    for hashes in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", PRINTED, way, str(edited.folder / "edited_net.py")],
            env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": hashes},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(done.stdout) == code_fingerprint(edited.model())


def test_rows_tell_what_the_fingerprint_does_not(tmp_path, monkeypatch):
    monkeypatch.setattr(fingerprint, "code_fingerprint", lambda model: {})
    train, val = problem()

    def scaled(by):  # other gradients, the same outputs
        torch.manual_seed(0)
        layer = nn.Linear(5, 3)
        return MadeOf(lambda net, x: (y := net.layer(x)) + by * (y - y.detach()), layer=layer)

    for _ in range(2):
        collect(scaled(0.0), train, val, store=tmp_path)
    with pytest.raises(ModelError, match=r"holds other Jacobian rows of sample s\d+ at equal"):
        collect(scaled(1e-6), train, val, store=tmp_path)


def test_other_weights_are_still_named_first(edited, made):
    train, val = problem()
    model = edited.model()
    with torch.no_grad():
        model.first.bias += 1
    with pytest.raises(SettingError, match="differs in: weights"):
        collect(model, train, val, store=made / "features")


def test_what_it_looks_into():
    scale = np.array([1.0, 2.0])

    class Held:
        __slots__ = ("size",)

        def __init__(self, size):
            self.size = size

    def model(size=1, factor=scale):
        network = nn.Sequential(nn.Linear(2, 2))
        network.held, network.table = Held(size), {"a": [Held(size)]}
        network.apply_to = lambda x: x * factor
        return network

    same = code_fingerprint(model())
    assert same == code_fingerprint(model())
    assert same != code_fingerprint(model(size=2))
    assert same != code_fingerprint(model(factor=scale * 2))
    loop = model()
    loop.table["a"].append(loop.table)
    loop.me = loop
    assert code_fingerprint(loop)
