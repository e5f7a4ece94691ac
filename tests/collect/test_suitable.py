"""Networks as people have them: taken as they are, or one clear error that names the layer."""

import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.collect.jacobian.per_sample import (
    inspect_layers,
    jacobian,
    typed_copy,
    vectorizable_layers,
)
from datassay.collect.jacobian.suitable import copy_network
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.models.networks import mlp
from datassay.train import retrain
from helpers.jacobians import frozen
from helpers.made_of import MadeOf

RUN = {"lr": 0.1, "steps": 5}


def samples(n=10, seed=0, shape=(3, 4)):
    x = np.random.default_rng(seed).normal(size=(n, *shape)).astype(np.float32)
    return SampleSet(x=x, y=np.arange(n) % 2, ids=np.arange(n), class_names=("a", "b"))


def attention():
    torch.manual_seed(0)
    return MadeOf(
        lambda net, x: net.head(net.body(x, x, x, need_weights=False)[0].mean(1)),
        body=nn.MultiheadAttention(4, 2, batch_first=True),
        head=nn.Linear(4, 2),
    )


def encoder():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
    return MadeOf(lambda net, x: net.head(net.body(x).mean(1)), body=layer, head=nn.Linear(4, 2))


def recurrent(n_in=4):
    body = nn.LSTM(n_in, 5, batch_first=True)
    last = MadeOf(lambda net, x: net.lstm(x if x.ndim == 3 else x[:, None])[0][:, -1], lstm=body)
    return nn.Sequential(nn.Identity(), last, nn.Linear(5, 2))


def dense():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2))


def descended(model, train, keep):
    """Full-batch descent of the mean of ½ ‖f − y‖², one network at a time, without torch.func."""
    model = model.double().eval()
    x, y = torch.tensor(train.x[keep]).double(), torch.eye(2).double()[train.y[keep]]
    optimizer = torch.optim.SGD(model.parameters(), lr=RUN["lr"])
    for _ in range(RUN["steps"]):
        optimizer.zero_grad()
        (0.5 * (model(x) - y).square().sum(1).mean()).backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("kind", [attention, encoder])
def test_attention_is_collected_and_retrained_without_a_warning(kind, fast):
    """Warnings are errors here; torch's fused attention warns, and cannot be differentiated."""
    train, val = samples(), samples(4, seed=1)
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        assert len(da.collect(kind(), train, val)) == 10
        # The user's own choice is put back.
        assert torch.backends.mha.get_fastpath_enabled() == fast
        assert torch.backends.cuda.flash_sdp_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    retrained = retrain(kind(), train, val, loss="mse", removed=[3, 7], precision="float64", **RUN)
    for i, outputs in zip((3, 7), retrained.outputs_without, strict=True):
        alone = descended(kind(), train, np.delete(np.arange(10), i))
        expected = alone(torch.tensor(val.x).double()).detach().numpy()
        np.testing.assert_allclose(outputs, expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["exact", "cg", "tracin", "gauss_newton"])
def test_attention_has_second_derivatives(method):
    settings = {} if method == "tracin" else {"damping": 5.0}
    attribution = da.influence(encoder(), samples(), samples(4, seed=1), method=method, **settings)
    assert np.isfinite(attribution.effect).all()


@pytest.mark.parametrize(
    "wrap", [lambda m: torch.compile(m, backend="eager"), nn.DataParallel], ids=["compiled", "par"]
)
def test_a_wrapped_network_is_the_one_inside(wrap, tmp_path):
    train, val = samples(), samples(4, seed=1)
    plain, wrapped = dense(), wrap(dense())
    one, two = (da.collect(m, train, val, store=tmp_path / "store") for m in (plain, wrapped))
    assert torch.equal(one.kernel, two.kernel)
    runs = [retrain(m, train, val, removed=[0], **RUN) for m in (plain, wrapped)]
    np.testing.assert_array_equal(*(run.outputs for run in runs))
    kept = da.purify(wrapped, train, step=1, max_fraction=0.1, stop="none", min_per_class=1)
    assert kept.model(torch.tensor(train.x)).shape == (10, 2)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("call", [da.collect, lambda *sets: retrain(*sets, **RUN), da.influence])
def test_networks_without_weights_or_statistics_of_their_own_are_refused(call):
    train = samples()
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(2))
    before = torch.get_rng_state()
    with pytest.raises(ModelError, match=r"'1\.weight' of a lazy layer has none yet\."):
        call(lazy, train, train)
    assert torch.equal(torch.get_rng_state(), before)
    scripted = torch.jit.trace(dense().eval(), torch.zeros(1, 3, 4))
    with pytest.raises(ModelError, match="got a TorchScript one"):
        call(scripted, train, train)
    for norm in (nn.BatchNorm1d(4, track_running_stats=False), nn.SyncBatchNorm(4)):
        norm.running_mean = norm.running_var = None
        model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), norm, nn.Linear(4, 2))
        with pytest.raises(ModelError, match=r"'2' does not.*track_running_stats=True"):
            call(model, train, train)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (recurrent, "torch.func can run for many networks at once; got RuntimeError: Batching"),
        (lambda: nn.Linear(9, 2), r"must accept samples of shape \[3, 4\]; it raised"),
        (nn.Flatten, "must have a trainable parameter"),
        (lambda: nn.Linear(4, 2), r"must be \[n, k\], one row per sample; got \[1, 3, 2\]"),
    ],
)
def test_retraining_refuses_what_it_cannot_run(model, message):
    with pytest.raises(ModelError, match=message):
        retrain(model(), samples(), **RUN)


def test_bfloat16_weights_are_read_as_they_are():
    train, half = samples(), dense().bfloat16()
    results = [retrain(m, train, removed=[0], **RUN) for m in (half, dense().bfloat16().float())]
    np.testing.assert_array_equal(*(run.outputs_without for run in results))
    assert half[1].weight.dtype == torch.bfloat16


def changed(change):
    return MadeOf(lambda net, x: change(net.layer(x.flatten(1))), layer=nn.Linear(12, 2))


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda z: z - z.mean(0) + 1, "together differ by"),  # a badly placed normalisation
        (lambda z: z + torch.randn(2), "together differ by"),
        (lambda z: z.mean(0, keepdim=True), r"\[1, 2\]"),
    ],
)
def test_networks_that_mix_samples_are_refused(change, reported):
    with pytest.raises(ModelError, match=f"on that sample alone; .*{reported}"):
        da.collect(changed(change), samples())


@pytest.mark.parametrize(
    "model",
    [
        lambda: MadeOf(lambda net, x: net.layer(x.reshape(1, 12)), layer=nn.Linear(12, 2)),
        lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12), nn.Linear(12, 2), nn.Dropout(0.5)),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.LayerNorm(4), nn.Linear(4, 2)),
    ],
    ids=["one at a time", "evaluation mode", "layer norm"],
)
def test_networks_that_keep_samples_apart_are_taken(model):
    assert da.collect(model(), samples()).outputs.shape == (10, 2)


def test_probabilities_are_told_from_logits():
    train, soft = samples(), nn.Sequential(dense(), nn.Softmax(1))
    values = SampleSet(x=train.x, y=np.eye(2)[train.y], ids=train.ids)  # sum to 1, of a regression
    for model, sets, warned in (
        (soft, train, True), (nn.Sequential(dense(), nn.ReLU()), train, False),
        (soft, values, False),
    ):  # fmt: skip
        notes = da.collect(model, sets).warnings
        assert any("Take the softmax out" in note for note in notes) == warned


class _NoSetup(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad


class _ReadsGradient(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad * grad.sum().item()


def between(call):
    return nn.Sequential(nn.Linear(5, 5), MadeOf(lambda _, x: call(x)), nn.Linear(5, 2))


@pytest.mark.parametrize(
    ("model", "label"),
    [
        (between(lambda x: x * x.sum().item()), r"layer '1' \(MadeOf\)"),
        (between(lambda x: x if x.sum() > 0 else -x), r"layer '1' \(MadeOf\)"),
        (between(lambda x: torch.zeros(1, 5, dtype=x.dtype).add_(x)), r"layer '1' \(MadeOf\)"),
        (between(_NoSetup.apply), r"layer '1' \(MadeOf\)"),
        (between(_ReadsGradient.apply), "one layer's backward pass"),
        (recurrent(5), r"layer '1.lstm' \(LSTM\)"),
        (MadeOf(lambda net, x: net.layer(x) * x.sum().item(), layer=nn.Linear(5, 2)), "MadeOf"),
    ],
    ids=["reads", "branches", "fills", "old function", "backward reads", "lstm", "its own"],
)
def test_what_cannot_be_vectorised_is_named(model, label):
    model, x = model.double(), torch.ones(2, 5, dtype=torch.float64)
    layers = inspect_layers(model, x[:1])
    with pytest.raises(ModelError, match=rf"torch.func can vectorise; {label} is not: .+ Replace"):
        jacobian(model, layers, x)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    alone = vectorizable_layers(model, layers, x)
    f, blocks = jacobian(model, alone, x)
    for i, k in ((0, 0), (1, 1)):
        slopes = torch.autograd.grad(model(x[i : i + 1])[0, k], list(model.parameters()))
        for name, slope in zip(dict(model.named_parameters()), slopes, strict=True):
            torch.testing.assert_close(blocks[name][i, k], slope.flatten())
    assert torch.equal(f, model(x[:1]).detach().expand(2, 2)) and label[:5] in alone.unvectorized


def test_a_network_that_is_not_vectorised_is_said_to_be_slow():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 4), nn.PReLU(), nn.Linear(4, 2))
    (warning,) = da.collect(model, samples()).warnings
    assert "one at a time, slowly: every layer must be one that torch.func can" in warning


def test_what_deepcopy_cannot_take_is_shared():
    model = nn.Linear(3, 2)
    model.lock, model.kept = threading.Lock(), [{"last": model.weight * 2}, (i for i in "ab")]
    copied = copy_network(model)
    assert copied.lock is model.lock and copied.kept[1] is model.kept[1]
    assert copied.weight is not model.weight and torch.equal(copied.weight, model.weight)
    with open(os.devnull) as file:
        owner = SimpleNamespace(model=model, file=file)
        owner.part = SimpleNamespace(owner=owner, lock=model.lock)  # they hold each other
        model.kept = owner
        assert copy_network(model).kept.file is file
    model.kept = type("Own", (), {"__deepcopy__": lambda self, memo: 1 / 0})()
    assert copy_network(model).kept is model.kept
    model = type("Own", (nn.Linear,), {"__deepcopy__": lambda self, memo: 1 / 0})(3, 2)
    with pytest.raises(
        ModelError, match=r"can be copied; that raised ZeroDivisionError.+state_dict"
    ):
        copy_network(model)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_layers_whose_inputs_the_network_converts(dtype):
    model = MadeOf(
        lambda net, x: net.head(net.body(x.double()).tanh().float()),
        body=nn.Linear(3, 4).double(), head=nn.Linear(4, 2),
    )  # fmt: skip
    copied = typed_copy(model, getattr(torch, dtype))
    x = torch.randn(3, 3)
    assert torch.allclose(copied(x.to(getattr(torch, dtype))).float(), model(x), atol=1e-6)
    assert da.collect(model, samples(shape=(3,))).outputs.shape == (10, 2)


def of_outputs(change):
    return MadeOf(lambda net, x: change(net.layer(x)), layer=nn.Linear(5, 2))


def no_gradient(z):
    with torch.no_grad():
        return z * 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (of_outputs(lambda z: z[:, 0]), r"must be \[n, k\].*got \[1\] for one sample. Wrap"),
        (of_outputs(lambda z: z[None]), r"output must be \[n, k\].*got \[1, 1, 2\]"),
        (of_outputs(lambda z: (z, z)), r"output must be \[n, k\].*got tuple"),
        (of_outputs(lambda z: torch.cat([z, z])), r"output must be \[n, k\].*got \[2, 2\]"),
        (of_outputs(torch.Tensor.detach), "output must depend on its trainable parameters"),
        (of_outputs(no_gradient), "output must depend on its trainable parameters"),
        (mlp((4,), 2), r"accept samples of shape \[5\]; it raised: RuntimeError: mat1 and"),
        (of_outputs(lambda z: {}["x"]), r"shape \[5\]; it raised: KeyError: 'x'"),
        (nn.Flatten(), "must have a trainable parameter"),
        (frozen("1.weight", "1.bias", "3.weight", "3.bias"), "must have a trainable parameter"),
    ],
)
def test_bad_outputs(model, message):
    with pytest.raises(ModelError, match=message):
        inspect_layers(model, torch.ones(1, 5))
