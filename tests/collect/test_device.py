"""The same numbers wherever Jacobians and products are computed, and names that are refused.

Every case runs on the processor, named outright; `pytest -m gpu` runs them on an accelerator too.
"""

import numpy as np
import pytest
import torch

import datassay as da
from datassay.collect import choose_form as form_module
from datassay.collect.jacobian.inputs import check_device
from datassay.collect.jacobian.kernel import kernel
from datassay.collect.jacobian.per_sample import factored_jacobian, inspect_layers
from datassay.collect.jacobian.projection import project, projector
from datassay.commands.run.settings import RunSettings
from datassay.commands.run.steps.settings import check_settings
from datassay.errors import SettingError
from datassay.score.linear.eigenbasis import eigenbasis
from datassay.score.linear.panels import SquaredLength, gram, transposed_product
from helpers.jacobians import blocks_of, made

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
@pytest.mark.parametrize("kind", ["coordinates", "sparse_sign"])
@pytest.mark.parametrize("averaged", [False, True])
@pytest.mark.parametrize("case", ["mlp", "lenet5", "used twice"])
def test_features(device, kind, averaged, case):
    model, x = made(case)
    layers = inspect_layers(model, x[:1])
    to = projector(layers, 9, kind, seed=1, averaged=averaged)
    expected = project(factored_jacobian(model, layers, x)[1], to)
    outputs, blocks = factored_jacobian(model.to(device), layers, x.to(device))
    found = project(blocks, to)
    assert outputs.device.type == found.device.type == device
    close(found.cpu(), expected, tolerance=1e-10)


@on_each
def test_products(device):
    g = torch.Generator().manual_seed(0)
    phi, y, w = (torch.randn(*s, generator=g).double() for s in ((60, 7), (60, 3), (7, 4, 2)))
    for found, expected in (
        (gram(phi, device=device), phi.T @ phi),
        (gram(phi, weight=y[:, 0].square(), device=device), phi.T @ (y[:, :1].square() * phi)),
        (transposed_product(phi, y, device), phi.T @ y),
        (SquaredLength(phi.T @ phi, "float64", device)(w), (phi @ w.flatten(1)).square().sum(0)
            .reshape(4, 2).sum(1)),
    ):  # fmt: skip
        assert found.device.type == "cpu"
        close(found, expected, tolerance=1e-10)


@on_each
@pytest.mark.parametrize("outputs", ["joint", "averaged"])
def test_kernel(device, outputs):
    _, blocks, phi = blocks_of("lenet5")
    found = kernel(blocks, blocks, outputs, device=device)
    n, k, _ = phi.shape
    theta = torch.einsum("iap,jbp->iajb", phi, phi)
    mean = theta.diagonal(dim1=1, dim2=3).mean(-1)
    close(found, theta.reshape(n * k, n * k) if outputs == "joint" else mean, tolerance=1e-10)


@on_each
@pytest.mark.parametrize("projection", [None, 12])
def test_scores(device, projection, monkeypatch, tmp_path):
    """Features (projected) and a kernel (exact), through a store, to every score of the pass."""
    monkeypatch.setattr(form_module, "LARGEST_EIGENPROBLEM", 40)
    train, val = da.load("digits")
    train, val = train.subset(np.arange(90)), val.subset(np.arange(30))
    model = da.build_model("mlp:width=8", train)
    settings = {"projection": projection, "outputs": "averaged"}
    plain = da.collect(model, train, val, **settings)
    lin = da.collect(model, train, val, device=device, store=tmp_path / "kept", **settings)
    assert lin.form.products.device == device
    assert (lin.kernel is None) == (projection is not None)
    assert eigenbasis(lin).device == (device if projection else "cpu")
    expected, found = da.leave_one_out(plain), da.leave_one_out(lin)
    close(found.prediction_change, expected.prediction_change, tolerance=1e-6)
    close(found.held_out, expected.held_out, tolerance=1e-6)
    close(da.label_issues(lin).score, da.label_issues(plain).score, tolerance=1e-6)


@pytest.mark.parametrize("device", ["mps", "gpu", "", "cuda:99"])
def test_what_is_not_there_is_refused(device):
    with pytest.raises(SettingError, match=r"device must be .* got"):
        check_device(device)
    with pytest.raises(SettingError, match="device must be"):
        check_settings(RunSettings(device=device), 100)


def test_without_an_accelerator_cuda_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    train, val = da.load("iris")
    model = da.build_model("linear", train)
    with pytest.raises(SettingError, match=r"got 'cuda' and 0 CUDA devices\. Set 'cpu'"):
        da.collect(model, train, val, device="cuda")


def test_a_device_that_torch_finds_is_taken(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [check_device(name) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]
    with pytest.raises(SettingError, match=r"got 'cuda:2' and 2 CUDA devices"):
        check_device("cuda:2")
