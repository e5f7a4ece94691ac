"""Networks as people have them: attention, wrapped, lazy, scripted, bfloat16, recurrent."""

import numpy as np
import pytest
import torch
from torch import nn

import datassay as da
from datassay.data.samples import SampleSet
from datassay.errors import ModelError
from datassay.train import retrain

RUN = {"lr": 0.1, "steps": 5}


def samples(n=10, seed=0, shape=(3, 4)):
    x = np.random.default_rng(seed).normal(size=(n, *shape)).astype(np.float32)
    return SampleSet(x=x, y=np.arange(n) % 2, ids=np.arange(n), class_names=("a", "b"))


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.attention(x, x, x, need_weights=False)[0].mean(1))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(4, 2, 6, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.LSTM(4, 3, batch_first=True), nn.Linear(3, 2)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


def made(kind, seed=0):
    torch.manual_seed(seed)
    return kind()


def dense():
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


@pytest.mark.parametrize("kind", [SelfAttention, Encoder])
def test_attention_is_collected_and_retrained_without_a_warning(kind):
    """Warnings are errors here; torch's fused attention warns, and cannot be differentiated."""
    train, val = samples(), samples(4, seed=1)
    assert len(da.collect(made(kind), train, val)) == 10
    found = retrain(made(kind), train, val, loss="mse", removed=[3, 7], precision="float64", **RUN)
    for i, outputs in zip((3, 7), found.outputs_without, strict=True):
        alone = descended(made(kind), train, np.delete(np.arange(10), i))
        expected = alone(torch.tensor(val.x).double()).detach().numpy()
        np.testing.assert_allclose(outputs, expected, rtol=1e-9)


@pytest.mark.parametrize("method", ["exact", "cg", "tracin", "gauss_newton"])
def test_attention_has_second_derivatives(method):
    settings = {} if method == "tracin" else {"damping": 5.0}
    found = da.influence(made(Encoder), samples(), samples(4, seed=1), method=method, **settings)
    assert np.isfinite(found.effect).all()


@pytest.mark.parametrize("fast", [True, False])
def test_the_users_choice_of_attention_is_put_back(fast):
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        da.collect(made(SelfAttention), samples())
        assert torch.backends.mha.get_fastpath_enabled() == fast
        assert torch.backends.cuda.flash_sdp_enabled()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


@pytest.mark.parametrize(
    "wrap", [lambda m: torch.compile(m, backend="eager"), nn.DataParallel], ids=["compiled", "par"]
)
def test_a_wrapped_network_is_the_one_inside(wrap, tmp_path):
    train, val = samples(), samples(4, seed=1)
    plain, wrapped = made(dense), wrap(made(dense))
    one = da.collect(plain, train, val, store=tmp_path / "store")
    two = da.collect(wrapped, train, val, store=tmp_path / "store")
    assert torch.equal(one.kernel, two.kernel)
    runs = [retrain(m, train, val, removed=[0], **RUN) for m in (plain, wrapped)]
    np.testing.assert_array_equal(*(run.outputs for run in runs))
    kept = da.purify(wrapped, train, step=1, max_fraction=0.1, stop="none", min_per_class=1)
    assert kept.model(torch.tensor(train.x)).shape == (10, 2)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("call", [da.collect, lambda *sets: retrain(*sets, **RUN)])
def test_lazy_and_scripted_networks_are_refused(call):
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(2))
    before = torch.get_rng_state()
    with pytest.raises(ModelError, match=r"'1\.weight' of a lazy layer has none yet\."):
        call(lazy, samples())
    assert torch.equal(torch.get_rng_state(), before)
    scripted = torch.jit.trace(made(dense).eval(), torch.zeros(1, 3, 4))
    with pytest.raises(ModelError, match="got a TorchScript one"):
        call(scripted, samples())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            Recurrent,
            "torch.func can run for many networks at once; got RuntimeError: Batching rule",
        ),
        (lambda: nn.Linear(9, 2), r"must accept samples of shape \[3, 4\]; it raised"),
        (nn.Flatten, "must have a trainable parameter"),
        (lambda: nn.Linear(4, 2), r"must be \[n, k\], one row a sample; got \[1, 3, 2\]"),
    ],
)
def test_retraining_refuses_what_it_cannot_run(model, message):
    with pytest.raises(ModelError, match=message):
        retrain(made(model), samples(), **RUN)


def test_bfloat16_weights_are_read_as_they_are():
    train, half = samples(), made(dense).bfloat16()
    found = [retrain(m, train, removed=[0], **RUN) for m in (half, made(dense).bfloat16().float())]
    np.testing.assert_array_equal(*(run.outputs_without for run in found))
    assert half[1].weight.dtype == torch.bfloat16


class Centred(nn.Linear):
    """Takes the batch's mean away, as a badly placed normalisation does."""

    def forward(self, x):
        z = super().forward(x.flatten(1))
        return z - z.mean(0) + 1


class Noisy(nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1)) + torch.randn(2)


class Pooled(nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1)).mean(0, keepdim=True)


class OneAtATime(nn.Linear):
    def forward(self, x):
        return super().forward(x.reshape(1, 12))


@pytest.mark.parametrize(
    ("kind", "told"),
    [(Centred, "together differ by"), (Noisy, "together differ by"), (Pooled, r"\[1, 2\]")],
)
def test_networks_that_mix_samples_are_refused(kind, told):
    with pytest.raises(ModelError, match=f"on that sample alone; .*{told}"):
        da.collect(kind(12, 2), samples())


@pytest.mark.parametrize(
    "model",
    [
        lambda: OneAtATime(12, 2),
        lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12), nn.Linear(12, 2), nn.Dropout(0.5)),
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 2, bias=False)),
    ],
    ids=["one at a time", "evaluation mode", "linear"],
)
def test_networks_that_keep_samples_apart_are_taken(model):
    assert da.collect(model(), samples()).outputs.shape == (10, 2)


@pytest.mark.parametrize(("last", "warned"), [(nn.Softmax(1), True), (nn.ReLU(), False)])
def test_probabilities_are_told_from_logits(last, warned):
    torch.manual_seed(0)
    lin = da.collect(nn.Sequential(dense(), last), samples())
    assert any("Take the softmax out" in note for note in lin.warnings) == warned


def test_targets_that_sum_to_one_are_no_probabilities():
    one = samples()
    train = SampleSet(x=one.x, y=np.eye(2)[one.y], ids=one.ids)
    assert da.collect(nn.Sequential(dense(), nn.Softmax(1)), train).warnings == ()


@pytest.mark.parametrize("call", [da.collect, lambda *sets: retrain(*sets, **RUN), da.influence])
def test_batch_norm_without_running_statistics_is_refused(call):
    train, width = samples(), samples().x[0].size
    for norm in (nn.BatchNorm1d(4, track_running_stats=False), nn.SyncBatchNorm(4)):
        norm.running_mean = norm.running_var = None
        model = nn.Sequential(nn.Flatten(), nn.Linear(width, 4), norm, nn.Linear(4, 2))
        with pytest.raises(ModelError, match=r"'2' does not.*track_running_stats=True"):
            call(model, train, train)
    normed = nn.Sequential(nn.Flatten(), nn.Linear(width, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    assert len(da.collect(normed, train)) == 10
