"""The same numbers wherever Jacobians and products are computed, and names that are refused.

Every case runs on the processor, named outright; `pytest -m gpu` runs them on an accelerator too.
"""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.collect import choose_form as form_module
from datassay.collect.jacobian.inputs import check_device
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.settings import check_settings
from datassay.errors import SettingError
from datassay.score.linear.eigenbasis import eigenbasis

NO_GPU = "no accelerator that torch can use: torch.cuda.is_available() is False"
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)],
    ),
]
on_each = pytest.mark.parametrize("device", DEVICES)


def close(found, expected, tolerance):
    found, expected = torch.as_tensor(found), torch.as_tensor(expected)
    scale = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance * scale)


@on_each
@pytest.mark.parametrize(
    ("settings", "convolution"),
    [({}, True), ({"projection": 12}, False),
     ({"projection": 12, "projection_kind": "sparse_sign"}, True)],
)  # fmt: skip
def test_scores(device, settings, convolution, monkeypatch, tmp_path):
    """Features (projected) and a kernel (exact), through a store, to every score of the pass."""
    monkeypatch.setattr(form_module, "LARGEST_EIGENPROBLEM", 40)
    train, val = da.load("digits")
    train, val = train.subset(np.arange(90)), val.subset(np.arange(30))
    first = [nn.Conv2d(1, 4, 3), nn.Flatten()] if convolution else [nn.Flatten(), nn.Linear(64, 8)]
    torch.manual_seed(0)
    model = nn.Sequential(*first, nn.Tanh(), nn.Linear(144 if convolution else 8, 10))
    settings = {"projection": None, "outputs": "averaged"} | settings
    plain = da.collect(model, train, val, **settings)
    lin = da.collect(model, train, val, device=device, store=tmp_path / "kept", **settings)
    assert lin.form.products.device == device
    assert (lin.kernel is None) == bool(settings["projection"])
    assert eigenbasis(lin).device == (device if settings["projection"] else "cpu")
    for name in ("outputs", "kernel", "features", "val_outputs", "val_kernel", "val_features"):
        if getattr(plain, name) is not None:
            close(getattr(lin, name), getattr(plain, name), tolerance=1e-10)
    expected, loo = da.leave_one_out(plain), da.leave_one_out(lin)
    close(loo.prediction_change, expected.prediction_change, tolerance=1e-6)
    close(loo.held_out, expected.held_out, tolerance=1e-6)
    close(da.label_issues(lin).score, da.label_issues(plain).score, tolerance=1e-6)


@pytest.mark.parametrize("device", ["mps", "gpu", "", "cuda:99"])
def test_what_is_not_there_is_refused(device, monkeypatch):
    with pytest.raises(SettingError, match=r"device must be .* got"):
        check_device(device)
    with pytest.raises(SettingError, match="device must be"):
        check_settings(RunSettings(device=device), 100)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [check_device(name) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]
    with pytest.raises(SettingError, match=r"got 'cuda:2' and 2 CUDA devices"):
        check_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    train, _ = da.load("iris")
    with pytest.raises(SettingError, match=r"got 'cuda' and 0 CUDA devices\. Set 'cpu'"):
        da.collect(da.build_model("linear", train), train, device="cuda")
