"""Gradients of each sample from whole batches are those of autograd, one sample at a time."""

import pytest
import torch
from torch import nn

from datassay.collect.engine.parcel import pack, unpack
from datassay.collect.gradients.batches import rows
from datassay.collect.gradients.blocks import chosen_parameters
from datassay.collect.gradients.criteria import objective
from datassay.collect.gradients.per_sample import PerSample
from datassay.collect.jacobian.per_sample import frozen_copy
from datassay.collect.layers import matrix
from datassay.errors import ModelError
from helpers.jacobians import Tied as Decoder
from helpers.jacobians import Twice
from helpers.made_of import MadeOf
from helpers.per_sample import (
    Adapter,
    Attention,
    Recurrent,
    Tied,
    by_autograd,
    by_parameter,
    check,
    direct,
)

N = 5


def pairs(*shape, k=3):
    torch.manual_seed(1)
    return torch.randn(N, *shape), torch.arange(N) % k


def words(k=7):
    torch.manual_seed(1)
    return torch.randint(0, 7, (N, 6)), torch.arange(N) % k


def convolution(layer, axes):
    pool = nn.AdaptiveAvgPool1d(2) if axes == 1 else nn.AdaptiveAvgPool2d(1)
    return nn.Sequential(layer, nn.ReLU(inplace=True), pool, nn.Flatten(), nn.LazyLinear(3))


CONVOLUTIONS = {
    "strided": {"stride": 2, "padding": 1, "dilation": 2},
    "groups": {"groups": 2},
    "depthwise": {"groups": 4, "out_channels": 8},
    "same": {"padding": "same"},
    "same, even kernel": {"padding": "same", "kernel_size": 4},
    "same, circular": {"padding": "same", "padding_mode": "circular"},
    "valid": {"padding": "valid"},
    "circular": {"padding": 2, "padding_mode": "circular"},
    "reflected, no bias": {"padding": 1, "padding_mode": "reflect", "bias": False},
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case, axes):
    given = {"in_channels": 4, "out_channels": 6, "kernel_size": 3} | CONVOLUTIONS[case]
    layer = (nn.Conv1d if axes == 1 else nn.Conv2d)(**given)
    batch = pairs(4, 9) if axes == 1 else pairs(4, 9, 7)
    model = convolution(layer, axes)
    model(batch[0])  # sizes the last layer
    assert not direct(check(model, batch, N))


def norms():
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.GroupNorm(2, 4),
        nn.Flatten(), nn.Linear(36, 6), nn.LayerNorm(6), nn.BatchNorm1d(6), nn.Linear(6, 3),
    )  # fmt: skip
    torch.manual_seed(0)
    model(torch.randn(20, 2, 5, 5) * 2 + 1)  # running statistics that differ from 0 and 1
    for p in model.parameters():
        nn.init.normal_(p, std=0.5)
    return model


def adapted():
    model = nn.Sequential(Adapter(nn.Linear(5, 6)), nn.Tanh(), Adapter(nn.Linear(6, 3)))
    for layer in (model[0], model[2]):
        nn.init.normal_(layer.lora_b.weight)
    return model


def half_frozen():
    model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 3))
    model[0].requires_grad_(False)
    model[2].weight.requires_grad_(False)
    model[4].bias.requires_grad_(False)
    return model


ENCODER = {"d_model": 6, "nhead": 2, "dim_feedforward": 8, "batch_first": True}
# Network, batch, and the tensors that must be differentiated directly.
CASES = {
    "norms": (norms, pairs(2, 5, 5), set()),
    "used twice": (Twice, pairs(5), set()),
    "tied": (Tied, words(), {"head.bias"}),
    "used elsewhere": (Decoder, pairs(5), {"encode.weight", "encode.bias"}),
    "attention": (
        Attention,
        pairs(4, 6),
        {
            "attention.in_proj_weight", "attention.in_proj_bias",
            "attention.out_proj.weight", "attention.out_proj.bias",
        },
    ),
    "encoder layer": (
        lambda: nn.Sequential(nn.TransformerEncoderLayer(**ENCODER), nn.Flatten(),
                              nn.Linear(24, 3)),
        pairs(4, 6),
        {
            "0.self_attn.in_proj_weight", "0.self_attn.in_proj_bias",
            "0.self_attn.out_proj.weight", "0.self_attn.out_proj.bias",
        },
    ),
    "padding row": (
        lambda: nn.Sequential(nn.Embedding(7, 3, padding_idx=0), nn.Flatten(), nn.Linear(18, 7)),
        words(),
        set(),
    ),
    "LoRA by hand": (adapted, pairs(5), set()),
    "only of its own": (lambda: type("Own", (nn.Linear,), {})(5, 3), pairs(5), {"weight", "bias"}),
    "frozen parts": (half_frozen, pairs(5), {"2.bias"}),
    "weight norm": (
        lambda: nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(5, 6)), nn.Tanh(), nn.Linear(6, 3)
        ),
        pairs(5),
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_networks(case):
    factory, batch, expected = CASES[case]
    torch.manual_seed(0)
    engine = check(factory(), batch, N)
    assert expected is None or direct(engine) == expected
    assert not engine.warnings
    names = {name for block in engine.blocks for name in block.parameters}
    assert names == {n for n, p in engine.model.named_parameters() if p.requires_grad}
    only = check(factory(), batch, N, parameters="*weight") if case == "LoRA by hand" else engine
    assert only is engine or {"0.base.weight", "2.lora_b.weight"} <= {
        b.parameters[0] for b in only.blocks
    }


def test_a_recurrent_network_is_said_to_be_done_one_sample_at_a_time():
    torch.manual_seed(0)
    engine = check(Recurrent(), pairs(6, 4), N)
    assert direct(engine) == {
        f"cells.{n}_l0" for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    }
    assert len(engine.warnings) == 1 and "one sample at a time" in engine.warnings[0]


def test_several_values_a_sample_and_cotangents():
    """Each cotangent's gradients are Σ_t v_t ∂value_t, over the same pass."""
    torch.manual_seed(0)
    model, (x, _) = Twice().double(), pairs(5)
    x = x.double()
    engine = PerSample(model, chosen_parameters(model, None), x[:2], lambda m, b: m(b))
    vectors = torch.randn(2, N, 3).double()
    results = list(engine.gradients(lambda m, b: m(b), x, lambda v: vectors))
    for vector, gradients in zip(vectors, results, strict=True):
        for i in range(N):
            value = (model(x[i : i + 1]) * vector[i]).sum()
            slope = torch.autograd.grad(value, model.body.weight)[0]
            uses = gradients["body"]
            assert len(uses) == 2  # a position each
            ours = sum(u.lhs[i].mT @ u.rhs[i] for u in uses)
            # A weight that is used twice shares no column with a bias.
            torch.testing.assert_close(ours[:, :5], slope, rtol=1e-10, atol=1e-12)


def built(model, loss):
    few = pairs(5)
    return PerSample(model, chosen_parameters(model, None), few, objective(loss, model, few).losses)


def mean(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])[None]


@pytest.mark.parametrize(
    ("call", "loss", "message"),
    [
        (lambda x: x - x.mean(0), "auto", "depend on that sample alone; samples together"),
        (lambda x: x, mean, "must have one row per sample"),
        (lambda x: x[:, :4], "cross_entropy", "must run on the batches given; that raised"),
    ],
)
def test_losses_that_are_refused(call, loss, message):
    with pytest.raises(ModelError, match=message):
        built(MadeOf(lambda net, x: net.head(call(x)), head=nn.Linear(5, 3)), loss)
    (x, y), model = pairs(5), nn.Linear(5, 3)
    values = objective("auto", model, (x, y)).losses
    with pytest.raises(ModelError, match="must be finite; got NaN or infinity"):
        next(built(model, "auto").gradients(values, (x / 0, y)))


class Jagged(nn.Module):
    """Its first layer gets the words of all samples in one long row, without the padding."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Linear(3, 5), nn.Linear(5, 3)

    def forward(self, x):
        is_word = x[..., 0] != 0
        hidden = x.new_zeros(*is_word.shape, 5)
        hidden[is_word] = torch.tanh(self.words(x[is_word]))
        return self.head(hidden.sum(1))


class TimeFirst(Jagged):
    def forward(self, x):
        return self.head(torch.tanh(self.words(x.transpose(0, 1))).sum(0))


class SecondUse(Jagged):
    """Samples that begin with a 1 use the head's weights once more."""

    def forward(self, x):
        hidden = torch.tanh(self.words(x.sum(1)))
        again = hidden @ self.head.weight.T**2
        return self.head(hidden) + again * (x[:, 0, 0] == 1)[:, None]


def lengths(*sizes, width=6):
    """Samples of some lengths, padded with 0."""
    torch.manual_seed(2)
    is_word = torch.arange(width) < torch.tensor(sizes)[:, None]
    return torch.randn(len(sizes), width, 3) * is_word[..., None], torch.arange(len(sizes)) % 3


@pytest.mark.parametrize("sizes", [(4, 4, 2, 6), (4, 4, 4, 3), (4, 4, 1, 5, 6)])
def test_samples_whose_parts_are_one_long_row_are_told_apart(sizes):
    """The total may divide by the batch; the first two, which are looked at first, are alike."""
    engine = check(Jagged(), lengths(*sizes), len(sizes))
    assert any("one at a time, since words" in warning for warning in engine.warnings)


@pytest.mark.parametrize("n", [2, 3, 4, 6])
def test_a_first_axis_that_counts_time_is_seen_in_any_batch(n):
    """Training came by single samples, queries come together; n = 6 is the length, too."""
    model, (x, y) = TimeFirst().double().eval(), lengths(*[6] * n)
    x = x.double()
    single = objective("cross_entropy", model, (x[:1], y[:1])).losses
    engine = PerSample(model, chosen_parameters(model, None), (x[:1], y[:1]), single)
    together = next(engine.gradients(single, (x, y)))
    alone = [next(engine.gradients(single, (x[i : i + 1], y[i : i + 1]))) for i in range(n)]
    for block in engine.blocks:
        ours = matrix(together[block.name], block.shape[0])
        each = torch.cat([matrix(g[block.name], block.shape[0]) for g in alone])
        torch.testing.assert_close(ours, each)


def test_a_measure_that_mixes_queries_is_refused():
    model, (x, y) = TimeFirst().double().eval(), lengths(6, 6, 6)
    batch = (x.double(), y)
    own = objective("cross_entropy", model, batch).losses
    engine = PerSample(model, chosen_parameters(model, None), rows(batch, slice(0, 1)), own)

    def centred(model, batch):
        outputs = model(batch[0])
        return (outputs - outputs.mean(0))[:, 0]

    with pytest.raises(ModelError, match="that sample alone; samples together differ by"):
        next(engine.gradients(centred, batch))


def test_a_use_of_weights_that_the_first_samples_do_not_show_is_refused():
    batch = lengths(6, 6, 6, 6)
    check(SecondUse(), batch, 4)
    batch[0][3, 0, 0] = 1.0
    with pytest.raises(ModelError, match="gradients by head are not autograd's: the network uses"):
        check(SecondUse(), batch, 4)


class Positions(Jagged):
    """In batches of more than two, it counts how often the table's rows stand there."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(6, 3)

    def forward(self, x):
        places = self.table(torch.arange(6)[None])
        if len(x) > 2:
            places = places * len(places)
        return self.head(torch.tanh(self.words(x + places)).sum(1))


def test_a_row_that_stands_for_all_samples_is_compared_with_the_network_as_it_is():
    """A pass repeats that row for each sample, which this network would see."""
    engine = check(Positions(), lengths(6, 6, 6, 6), 4)
    assert any("one at a time" in warning for warning in engine.warnings)


@pytest.mark.parametrize("as_matrices", [False, True])
def test_comparing_runs_the_network_no_second_time(as_matrices):
    torch.manual_seed(0)
    model, batch = convolution(nn.Conv2d(4, 3, 3), 2), pairs(4, 7, 7)
    model(batch[0])
    losses = objective("cross_entropy", model, batch).losses
    engine = PerSample(model, chosen_parameters(model, None), rows(batch, slice(0, 2)), losses)
    n_runs = []
    model.register_forward_pre_hook(lambda *_: n_runs.append(1))
    compared = next(engine.gradients(losses, batch, as_matrices=as_matrices))
    assert len(n_runs) == 1
    assert isinstance(compared["0"][0], torch.Tensor) == as_matrices
    known = next(engine.gradients(losses, batch, is_known=True))
    for block in engine.blocks:
        pair = (matrix(g[block.name], block.shape[0]) for g in (compared, known))
        torch.testing.assert_close(*pair)


def test_a_worker_process_takes_the_same_pass():
    torch.manual_seed(0)
    model, batch = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)), pairs(4)
    losses = objective("cross_entropy", model, batch).losses
    here = PerSample(model, chosen_parameters(model, None), rows(batch, slice(0, 2)), losses)
    there = unpack(pack(here))  # the network travels apart from what is listed beside it
    for engine in (here, there):
        gradients = next(engine.gradients(losses, batch))
        for block in engine.blocks:
            expected = next(here.gradients(losses, batch, is_known=True))[block.name]
            ours = matrix(gradients[block.name], block.shape[0])
            assert torch.equal(ours, matrix(expected, block.shape[0]))
        assert engine.warnings == []


class Sorted(Jagged):
    """The first layer gets samples in the order of their first number."""

    def forward(self, x):
        order = x[:, 0].argsort()
        return self.head(torch.tanh(self.words(x[order]))[order.argsort()])


def test_samples_that_only_a_later_batch_moves_are_told_apart():
    x, y = pairs(3)
    x = x[x[:, 0].argsort()].double()
    engine = check(Sorted(), (x, y), N)
    batch = (-x, y)
    values = objective("cross_entropy", engine.model, batch).losses
    ours = by_parameter(engine.model, engine.blocks, next(engine.gradients(values, batch)))
    for name, theirs in by_autograd(engine.model, batch, values, N, list(ours)).items():
        torch.testing.assert_close(ours[name], theirs)


def test_a_second_use_of_weights_that_a_mask_hid_at_first_is_refused():
    batch = lengths(6, 6, 6, 6)
    engine = check(SecondUse(), batch, 4)
    batch[0][3, 0, 0] = 1.0
    batch = (batch[0].double(), batch[1])
    values = objective("cross_entropy", engine.model, batch).losses
    with pytest.raises(ModelError, match="gradients by head are not autograd's: the network uses"):
        list(engine.gradients(values, batch))


class Frames(nn.Module):
    """A convolution sees the two frames of all samples in one axis."""

    def __init__(self):
        super().__init__()
        self.frames, self.head = nn.Conv2d(1, 3, 3), nn.Linear(3, 3)

    def forward(self, x):
        seen = self.frames(x.flatten(0, 1)).relu().mean((2, 3))
        return self.head(seen.unflatten(0, (len(x), -1)).mean(1))


class Experts(nn.Module):
    """Each sample goes to the two likeliest of three experts, some to none."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 3) for _ in range(3))

    def forward(self, x):
        share, chosen = self.gate(x).softmax(1).topk(2, 1)
        total = x.new_zeros(len(x), 3)
        for number, expert in enumerate(self.experts):
            row, rank = (chosen == number).nonzero(as_tuple=True)
            total = total.index_add(0, row, expert(x[row]) * share[row, rank][:, None])
        return total


class Keeping(nn.Module):
    """It keeps its last activation, which torch does not copy."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4, sparse=True)
        self.head, self.last = nn.Linear(4, 3), None

    def forward(self, x):
        self.last = torch.tanh(self.words(x).mean(1))
        return self.head(self.last)


@pytest.mark.parametrize(
    ("model", "batch"),
    [(Frames(), pairs(2, 1, 5, 5)), (Experts(), pairs(6)), (Keeping(), words(3))],
)
def test_networks_that_torch_differentiates_though_no_layer_is_plain(model, batch):
    model(batch[0])
    check(frozen_copy(model, torch.float64), batch, N)


class Rounding(nn.Sequential):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).float()


def test_a_network_that_rounds_is_differentiated_as_autograd_does_and_says_so():
    model, batch = Rounding(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3)), pairs(6)
    own = objective("auto", model, batch).losses
    engine = PerSample(model, chosen_parameters(model, None), rows(batch, slice(0, 2)), own)
    truth = by_autograd(model, batch, own, N, list(chosen_parameters(model, None)))
    ours = by_parameter(model, engine.blocks, next(engine.gradients(own, batch)))
    for name, theirs in truth.items():
        torch.testing.assert_close(ours[name].float(), theirs.float(), atol=0.02, rtol=0.05)
    assert any("computes in less than float32" in warning for warning in engine.warnings)
