"""Networks by name, the user's own module, and weights that are read but never run."""

import code
import hashlib
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from datassay.data.samples import SampleSet
from datassay.errors import DataError, ModelError
from datassay.models.build import build_model, n_outputs
from datassay.models.networks import Affine, spread
from datassay.models.reference import import_reference, reference_file
from datassay.models.weights import weights_source


def samples(shape=(5,), k=3, n=12, y=None):
    x = np.random.default_rng(0).normal(3, 2, size=(n, *shape))
    y = np.arange(n) % k if y is None else y
    return SampleSet(x=x, y=y, ids=np.arange(n), class_names=tuple("abcdefghij"[:k]))


def regression(columns=2):
    return samples(k=0, y=np.random.default_rng(1).normal(50, 7, size=(12, columns)))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("linear", (5,)),
        ("logistic", (2, 3)),
        ("mlp", (5,)),
        ("mlp:width=16,depth=3", (4, 4)),
        ("mlp:", (5,)),
        ("cnn", (20, 20)),
        ("cnn", (3, 32, 28)),
        ("lenet5", (28, 28)),
        ("lenet5", (1, 12, 14)),
    ],
)
@pytest.mark.parametrize("k", [2, 4])
def test_output_shapes(name, shape, k):
    model = build_model(name, samples(shape, k))
    assert model(torch.randn(7, *shape)).shape == (7, 1 if k == 2 else k)


def test_output_counts():
    assert [n_outputs(samples(k=k)) for k in (2, 3, 10)] == [1, 3, 10]
    assert n_outputs(regression(1)) == 1 and n_outputs(regression(3)) == 3
    assert n_outputs(samples(k=0, y=np.arange(12.0))) == 1


def test_options_set_the_network():
    model = build_model("mlp:width=16,depth=3", samples())
    sizes = [(m.in_features, m.out_features) for m in model.modules() if type(m) is nn.Linear]
    assert sizes == [(5, 16), (16, 16), (16, 16), (16, 3)]


def test_the_cnn_is_the_papers():
    model = build_model("cnn", samples((28, 28), 10))
    convolutions = [tuple(m.weight.shape) for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert convolutions == [(32, 1, 4, 4), (32, 32, 4, 4), (64, 32, 3, 3), (256, 64, 3, 3)]


def test_columns_are_scaled_each_and_images_as_one():
    x = torch.randn(200, 3) * torch.tensor([1.0, 10.0, 0.0]) + torch.tensor([5.0, -3.0, 0.1])
    scaled = spread(x.numpy()).removed(x)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]))
    images = torch.rand(50, 4, 4) * torch.arange(16.0).reshape(4, 4)
    layer = spread(images.numpy()).removed
    assert layer.scale.shape == layer.shift.shape == ()
    scaled = layer(images)
    torch.testing.assert_close(scaled.mean(), torch.tensor(0.0), rtol=0, atol=1e-5)
    torch.testing.assert_close(scaled.std(correction=0), torch.tensor(1.0))


def test_standardize_units():
    """Rescaled inputs give the same standardised inputs."""
    x = np.random.default_rng(0).normal(size=(40, 3))
    one, other = (spread(v).removed.double()(torch.tensor(v)) for v in (x, 9 * x + 2))
    torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(301, 7), (301, 3, 4)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_the_samples_does_not_change_the_scaling(shape, dtype):
    rng = np.random.default_rng(3)
    x = (1000 + rng.lognormal(sigma=2, size=shape)).astype(dtype)
    layer, result = spread(x).removed, spread(rng.permutation(x)).removed
    assert torch.equal(layer.scale, result.scale) and torch.equal(layer.shift, result.shift)
    expected = x.astype(np.longdouble).mean(0 if x.ndim == 2 else None)
    np.testing.assert_allclose(spread(x).mean.numpy(), expected.astype(float), rtol=1e-14)


@pytest.mark.parametrize(
    ("change", "got"),
    [
        (lambda x: x * 1e-150, r"column 0 of x must vary by .* mean of \d.*e-150 and"),
        (lambda x: x * 1e155, "column 0 of x must vary by 1e-30 to 1e30"),
        (lambda x: x + 1e9 * np.eye(5)[2], r"column 2 of x .* mean of 1e\+09 and a standard dev"),
        (lambda x: 0 * x + 7, "x must differ between samples"),
        (lambda x: 1e-35 * x[:, :, None], "^x must vary by 1e-30"),
    ],
)
def test_what_float32_cannot_hold_apart_is_refused(change, got):
    train = samples()
    with pytest.raises(DataError, match=got):
        build_model("mlp", replace(train, x=change(train.x)))


def test_regression_starts_near_the_mean_in_the_targets_unit():
    train = regression()
    model = build_model("mlp", train)
    assert isinstance(model[2], Affine)
    inner = model[1](model[0](torch.tensor(train.x).float()))
    y = torch.tensor(train.y).float()
    expected = inner * y.std(0, correction=0) + y.mean(0)
    torch.testing.assert_close(model(torch.tensor(train.x).float()), expected)


def test_seeds():
    def weights(seed):
        return torch.cat([
            p.flatten() for p in build_model("mlp", samples(), seed=seed).parameters()
        ])

    torch.manual_seed(5)
    state = torch.get_rng_state()
    assert torch.equal(weights(0), weights(0)) and not torch.equal(weights(0), weights(1))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("name", "train", "message"),
    [
        ("transformer", samples(), "model must be one of linear, .*got 'transformer'"),
        ("mlp:wide=3", samples(), "mlp takes positive integers for width, depth; got 'wide=3'"),
        ("mlp:width=0", samples(), "got 'width=0'"),
        ("mlp:width=-4", samples(), "got 'width=-4'"),
        ("mlp:width=2.5", samples(), "got 'width=2.5'"),
        ("mlp:width=²", samples(), "got 'width=²'"),
        ("mlp:width", samples(), "got 'width'"),
        ("linear:width=3", samples(), "linear takes no options; got 'width=3'"),
        ("cnn", samples(), r"cnn takes images.*got samples of shape \[5\]. Use --model mlp"),
        ("cnn", samples((8, 8)), "at least 20 x 20 pixels; got 8 x 8"),
        ("lenet5", samples((1, 28, 11)), "at least 12 x 12 pixels; got 28 x 11"),
    ],
)
def test_bad_names(name, train, message):
    with pytest.raises(ModelError, match=message):
        build_model(name, train)


OWN = """
import torch
from torch import nn

network = nn.Linear(5, 3)
number = 7

def factory():
    return nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))

def sized(width):
    return nn.Linear(5, width)

def broken():
    raise OSError("no such checkpoint")

def gives_number():
    return 7

def ends():
    raise SystemExit(3)

def tied():
    first, last = nn.Linear(5, 5, bias=False), nn.Linear(5, 5, bias=False)
    last.weight = first.weight
    return nn.Sequential(first, last)

def stops():
    import asyncio
    raise asyncio.CancelledError

def turns():
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    return nn.Linear(5, 3)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "datassay_own_net.py").write_text(OWN)
    (tmp_path / "datassay_own_bad.py").write_text("def f(:\n")
    (tmp_path / "datassay_own_fails.py").write_text("1 / 0\n")
    (tmp_path / "datassay_own_script.py").write_text("raise SystemExit(2)\n")
    (tmp_path / "code.py").write_text(OWN)  # as a module of Python's own is called
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["network", "factory"])
@pytest.mark.parametrize("module", ["datassay_own_net", "datassay_own_net.py", "./code.py"])
def test_the_users_own_module(own, module, name, caplog):
    model = build_model(f"{module}:{name}", samples())
    assert model(torch.randn(2, 5)).shape == (2, 3)
    assert isinstance(model, nn.Module)


def test_what_is_installed_goes_before_the_current_folder(own, caplog, monkeypatch):
    monkeypatch.syspath_prepend("")  # as `python -m datassay` has it
    caplog.set_level("INFO")
    result = import_reference("code:InteractiveConsole", "a class")
    assert result is code.InteractiveConsole and reference_file("code:x") == code.__file__
    assert f"imported from {code.__file__}. What is installed goes first; for the" in caplog.text
    path = sys.path.copy()
    build_model("./code.py:network", samples())
    assert sys.path == path and sys.modules["code"] is code
    assert f"imported from {Path('code.py').resolve()}." in caplog.text


def test_what_a_factory_sets_in_torch_is_put_back(own):
    build_model("datassay_own_net:turns", samples())
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()
    assert not torch.are_deterministic_algorithms_enabled()


def test_the_users_own_factory_is_seeded(own):
    a, b, c = (build_model("datassay_own_net:factory", samples(), seed=s) for s in (0, 0, 1))
    assert torch.equal(a[0].weight, b[0].weight) and not torch.equal(a[0].weight, c[0].weight)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("datassay_own_none:x", "file.py:factory that can be imported.*ModuleNotFoundError"),
        ("mpl:width=3", "one of linear, .*'mpl:width=3' raised ModuleNotFoundError"),
        ("datassay_own_net:absent", "'datassay_own_net:absent' raised AttributeError"),
        (":factory", "':factory' raised ValueError"),
        ("datassay_own_bad:f", "raised SyntaxError"),
        ("datassay_own_fails:f", "raised ZeroDivisionError: division by zero"),
        ("datassay_own_script:f", "raised SystemExit: 2. Put what the script runs behind `if __na"),
        ("datassay_own_none.py:factory", "raised FileNotFoundError"),
        ("datassay_own_net:stops", "calling it raised CancelledError: no message"),
        ("code:network", "no attribute 'network'.* the file of this folder write code.py:name"),
        ("datassay_own_net:ends", "calling it raised SystemExit: 3"),
        ("datassay_own_net:number", "function that needs no arguments.*TypeError: 'int' object"),
        ("datassay_own_net:sized", "needs no arguments.*missing 1 required.*Wrap it"),
        ("datassay_own_net:broken", "calling it raised OSError: no such checkpoint"),
        ("datassay_own_net:gives_number", "must give a torch.nn.Module; got int"),
    ],
)
def test_bad_modules(own, name, message):
    with pytest.raises(ModelError, match=message):
        build_model(name, samples())


def saved(path, state):
    torch.save(state, path) if path.suffix == ".pt" else save_file(state, path)
    return path


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
@pytest.mark.parametrize("part", ["whole", "network alone"])
@pytest.mark.parametrize("train", [samples(), regression()], ids=["classes", "regression"])
def test_weights_of_a_built_in_network(tmp_path, suffix, part, train):
    other = build_model("mlp:width=8", train, seed=9)
    other[0].shift.add_(1)
    state = (other if part == "whole" else other[1]).state_dict()
    path = saved(tmp_path / f"w{suffix}", state)
    model = build_model("mlp:width=8", train, weights=path)
    for name, tensor in model.state_dict().items():
        # The network alone keeps the scaling of these samples.
        same = torch.equal(tensor, other.state_dict()[name])
        assert same or (part == "network alone" and name == "0.shift")


def first(change):
    """A state dict with another first weight."""
    return lambda state: state | {"1.weight": change(state["1.weight"])}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s | {"1.weight": torch.zeros(4, 5)}, r"1.weight \[4, 5\] instead of \[8, 5\]"),
        (lambda s: {n: t for n, t in s.items() if n != "3.bias"}, r"3.bias missing instead of \[3"),
        (lambda s: s | {"9.bias": torch.zeros(4)}, "9.bias unknown. Check --model"),
        (lambda s: s | {"\x1b[31mred\n": torch.zeros(1)}, "�\\[31mred� unknown"),
        (first(lambda t: t.to_sparse()), "1.weight is sparse or quantized"),
        (first(lambda t: t.to("meta")), "1.weight is on the meta device"),
        (first(lambda t: t + 1j), "1.weight is complex64"),
        (first(lambda t: t.int()), "1.weight is int32"),
        (first(lambda t: t * float("nan")), "1.weight is not finite in the model's float32"),
        (first(lambda t: t.double() * 1e60), "1.weight is not finite in the model's float32"),
        (lambda s: {"step": 3}, "must hold a state dict of tensors; got dict. Save"),
        (lambda s: [torch.zeros(2)], "must hold a state dict of tensors; got list"),
    ],
)
def test_weights_that_do_not_fit(tmp_path, change, message):
    state = change(build_model("mlp:width=8", samples())[1].state_dict())
    with pytest.raises(ModelError, match=message):
        build_model("mlp:width=8", samples(), weights=saved(tmp_path / "w.pt", state))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_weights_of_another_precision_are_told(tmp_path, dtype, caplog):
    model = build_model("mlp:width=8", samples())
    state = {name: t.to(dtype) for name, t in model.state_dict().items()}
    path = saved(tmp_path / "w.pt", state)
    made = build_model("mlp:width=8", samples(), weights=path)
    result = made.state_dict()
    assert all(torch.equal(t, state[name].float()) for name, t in result.items())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    message = f"{str(dtype)[6:]} turned into the network's precision"
    assert (
        weights_source(path, made) == f"{path} (SHA-256 {digest}, {message})"
        and message in caplog.text
    )


def test_tied_weights_need_one_name_and_must_agree(own, tmp_path):
    one = {"0.weight": torch.ones(5, 5)}
    path = saved(tmp_path / "w.safetensors", one)
    model = build_model("datassay_own_net:tied", samples(), weights=path)
    assert model[0].weight is model[1].weight and model[0].weight.sum() == 25
    path = saved(tmp_path / "w.pt", one | {"1.weight": torch.zeros(5, 5)})
    with pytest.raises(ModelError, match=r"same values for 0\.weight and 1\.weight, which are one"):
        build_model("datassay_own_net:tied", samples(), weights=path)


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_unreadable_weights(tmp_path, suffix):
    model = build_model("mlp:width=8", samples())
    good = saved(tmp_path / f"good{suffix}", model.state_dict())
    truncated, empty = tmp_path / f"truncated{suffix}", tmp_path / f"empty{suffix}"
    truncated.write_bytes(good.read_bytes()[:-100])
    empty.write_bytes(b"")
    flipped = bytearray(good.read_bytes())
    flipped[good.read_bytes().find(model[1][1].weight.detach().numpy().tobytes())] ^= 1
    (tmp_path / "flipped.pt").write_bytes(flipped)
    os.mkfifo(pipe := tmp_path / f"pipe{suffix}")
    (tmp_path / f"text{suffix}").write_text("hello world\n")
    (tmp_path / f"plain{suffix}").write_bytes(pickle.dumps(samples, protocol=2))
    bad = [truncated, empty, tmp_path / f"missing{suffix}", tmp_path, pipe, Path("/dev/zero")]
    bad += [tmp_path / f"text{suffix}", tmp_path / f"plain{suffix}"]
    bad += [tmp_path / "flipped.pt"] * (suffix == ".pt")
    for path in bad:
        with pytest.raises(
            ModelError, match=r"\.safetensors file or a plain state.*; "
        ) as reported:
            build_model("mlp:width=8", samples(), weights=path)
        assert "weights_only" not in str(reported.value)  # torch's advice is to unpickle it
