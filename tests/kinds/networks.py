"""Networks drawn from layers, losses, loaders and measures, with effects by autograd one by one.

As in `truth`, though of any network: what is one block is taken from the library, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

import datassay as da
from datassay.collect.jacobian.per_sample import typed_copy
from datassay.score.influence.given import given_sets
from datassay.score.influence.trained_network import trained_network
from helpers.made_of import MadeOf
from kinds.judge import unequal

K, N, M, DAMPING = 3, 7, 4, 0.5
WORDS, LENGTH, WIDTH, SIDE = 9, 4, 6, 5


class Square(torch.autograd.Function):
    """A function of the user's own, which torch.func does not take."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * ctx.saved_tensors[0] * gradient


class Low(nn.Module):
    """DoRA: a frozen layer with a low-rank part and a length of each row."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(WIDTH, WIDTH).requires_grad_(False)
        self.a, self.b = nn.Linear(WIDTH, 2, bias=False), nn.Linear(2, WIDTH, bias=False)
        self.size = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        change = self.b(self.a(torch.eye(WIDTH).to(x))).T
        length = (self.base.weight + change).norm(dim=1).detach()
        return self.size / length * (self.base(x) + self.b(self.a(x)))


class Routed(nn.Module):
    """Each row goes to the likeliest of two layers, which see their rows alone."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2)
        self.parts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, x):
        share, chosen = self.gate(x).softmax(-1).max(-1)
        result = torch.zeros_like(x)
        for number, part in enumerate(self.parts):
            if (chosen == number).any():
                result[chosen == number] = part(x[chosen == number])
        return result * share[..., None]


def _made(call, **layers: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return lambda: MadeOf(call, **{name: make() for name, make in layers.items()})


def _linear(n: int = WIDTH, k: int = WIDTH, **settings) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(n, k, **settings)


def _positions() -> nn.Module:
    return nn.Embedding(LENGTH, WIDTH)


def _add_positions(net, h):
    return h + net.table(torch.arange(h.shape[1])[None])


ENCODER = {"d_model": WIDTH, "nhead": 2, "dim_feedforward": 8}
# Of rows [..., WIDTH], whatever comes before.
OF_ROWS: dict[str, Callable[[], nn.Module]] = {
    "dense": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()),
    "no bias": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.GELU()),
    "layer norm": lambda: nn.LayerNorm(WIDTH),
    "RMS norm": lambda: nn.RMSNorm(WIDTH),
    "PReLU": nn.PReLU,
    "gated": lambda: nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GLU()),
    "residual": _made(lambda net, h: h + torch.tanh(net.body(h)), body=_linear()),
    "used twice": _made(lambda net, h: net.body(torch.tanh(net.body(h))), body=_linear()),
    "DoRA": Low,
    "routed": Routed,
    "weight norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "spectral norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)),
    "bilinear": _made(lambda net, h: net.pair(h, h), pair=lambda: nn.Bilinear(WIDTH, WIDTH, WIDTH)),
    "own function": _made(lambda net, h: Square.apply(net.body(h)), body=_linear()),
    "functional": _made(lambda net, h: h @ net.body.weight.T, body=_linear(bias=False)),
    "checkpoint": _made(
        lambda net, h: checkpoint(net.body, h, use_reentrant=True), body=_linear()
    ),
    "double": _made(lambda net, h: net.body(h.double()).tanh().to(h.dtype), body=_linear()),
    "scale before a norm": _made(
        lambda net, h: functional.normalize(h * net.scale.weight[0], dim=-1),
        scale=_linear(1, 1, bias=False),
    ),
}  # fmt: skip
# Of sequences [b, LENGTH, WIDTH].
OF_SEQUENCES: dict[str, Callable[[], nn.Module]] = {
    "GRU": _made(
        lambda net, h: net.cell(h)[0], cell=lambda: nn.GRU(WIDTH, WIDTH, batch_first=True)
    ),
    "LSTM, time first": _made(
        lambda net, h: net.cell(h.transpose(0, 1))[0].transpose(0, 1),
        cell=lambda: nn.LSTM(WIDTH, WIDTH),
    ),
    "attention": _made(
        lambda net, h: h + net.look(h, h, h, need_weights=False)[0],
        look=lambda: nn.MultiheadAttention(WIDTH, 2, batch_first=True),
    ),
    "encoder": lambda: nn.TransformerEncoderLayer(**ENCODER, batch_first=True),
    "encoder, time first": _made(
        lambda net, h: net.body(h.transpose(0, 1)).transpose(0, 1),
        body=lambda: nn.TransformerEncoderLayer(**ENCODER),
    ),
    "dense, time first": _made(
        lambda net, h: net.body(h.transpose(0, 1)).tanh().transpose(0, 1), body=_linear()
    ),
    "convolution": _made(
        lambda net, h: net.body(h.mT).mT, body=lambda: nn.Conv1d(WIDTH, WIDTH, 3, padding="same")
    ),
    "folded": _made(
        lambda net, h: net.norm(net.body(h.flatten(0, 1))).unflatten(0, h.shape[:2]),
        body=_linear(), norm=lambda: nn.GroupNorm(2, WIDTH),
    ),
    "rows that are not 0": _made(
        lambda net, h: torch.zeros_like(h).masked_scatter(
            h[..., :1].expand_as(h) > 0, net.body(h[h[..., 0] > 0])
        ),
        body=_linear(),
    ),
    "positions": _made(_add_positions, table=_positions),
    "positions, repeated": _made(
        lambda net, h: torch.cat([h, h]).add(
            net.table(torch.arange(LENGTH)[None]).expand(2 * len(h), -1, -1)
        )[: len(h)],
        table=_positions,
    ),
    "choices": _made(
        lambda net, h: (h.repeat_interleave(2, 0) + net.table(torch.arange(LENGTH)[None])).tanh()
        .unflatten(0, (len(h), 2)).sum(1),
        table=_positions,
    ),
}  # fmt: skip
# Of pictures [b, 2, SIDE, SIDE].
OF_PICTURES: dict[str, Callable[[], nn.Module]] = {
    "convolution": lambda: nn.Conv2d(2, 2, 3, padding=1),
    "depthwise": lambda: nn.Conv2d(2, 2, 3, padding=1, groups=2, padding_mode="circular"),
    "transposed": lambda: nn.ConvTranspose2d(2, 2, 3, padding=1),
    "batch norm": lambda: nn.BatchNorm2d(2),
    "group norm": lambda: nn.GroupNorm(1, 2),
    "bias before a norm": lambda: nn.Sequential(
        nn.ConvTranspose2d(2, 2, 3, padding=1), nn.InstanceNorm2d(2, affine=True)
    ),
    "PReLU": lambda: nn.PReLU(2),
}
# From inputs to rows or sequences; how the inputs look.
STARTS: dict[str, Callable[[], nn.Module]] = {
    "values": lambda: nn.Sequential(nn.Linear(5, WIDTH), nn.Tanh()),
    "sequences": lambda: nn.Linear(5, WIDTH),
    "words": lambda: nn.Embedding(WORDS, WIDTH, padding_idx=0),
    "words of a length": lambda: nn.Embedding(WORDS, WIDTH, max_norm=0.8),
    "words, sparse": lambda: nn.Embedding(WORDS, WIDTH, sparse=True),
    "bags": lambda: nn.EmbeddingBag(WORDS, WIDTH, mode="sum"),
    "pictures": lambda: nn.Conv2d(1, 2, 3, padding=1),
    "frames": lambda: nn.Conv2d(1, 2, 3, padding=1),
}


class Network(nn.Module):
    """A start, some layers, and a head on the mean of what they give."""

    def __init__(self, drawn: Drawn):
        super().__init__()
        self.kind = drawn.start
        tables = {"pictures": OF_PICTURES, "frames": OF_PICTURES}
        self.start = STARTS[drawn.start]()
        table = OF_ROWS | OF_SEQUENCES | {}
        chosen = tables.get(drawn.start, table)
        self.body = nn.Sequential(*(chosen[name]() for name in drawn.layers))
        flat = 2 * SIDE * SIDE if drawn.start in tables else WIDTH
        self.head = nn.Linear(flat, drawn.outputs)

    def encode(self, x):
        if "words" in self.kind or self.kind == "bags":
            x = x.long()
        if self.kind == "frames":
            h = self.body(self.start(x.flatten(0, 1)))
            return h.unflatten(0, (len(x), -1)).mean(1).flatten(1)
        h = self.body(self.start(x))
        return h.flatten(1) if self.kind == "pictures" else h.mean(1) if h.ndim == 3 else h

    def forward(self, x):
        return self.head(self.encode(x))


def cubes(model, batch):
    """A loss of the user's own."""
    f, y = model(batch[0]), batch[1]
    return functional.cross_entropy(f, y.long(), reduction="none") ** 1.5


def of_encoding(model, batch):
    """A measure that does not go by the head."""
    return model.encode(batch[0]).sin().sum(1)


def _by_output(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    return lambda model, batch: function(model(batch[0])[0], batch[1][0])[None]


# By name: as it is given, outputs, and a sample's loss by its outputs and target.
LOSSES: dict[str, tuple[Any, int, Callable[[Tensor, Tensor], Tensor] | None]] = {
    "auto": ("auto", K, lambda f, y: functional.cross_entropy(f, y.long())),
    "smoothed": (
        nn.CrossEntropyLoss(label_smoothing=0.2), K,
        lambda f, y: functional.cross_entropy(f, y.long(), label_smoothing=0.2),
    ),
    "one output": ("auto", 1, lambda f, y: functional.softplus(f[0]) - y * f[0]),
    "values": ("mse", 1, lambda f, y: (f[0] - y) ** 2 / 2),
    "Huber": (nn.HuberLoss(), 1, lambda f, y: functional.huber_loss(f[0], y.to(f))),
    "own": (cubes, K, None),
}  # fmt: skip
MEASURES: dict[str, tuple[Any, Callable[[Any, Any], Tensor] | None]] = {
    "loss": ("loss", None),
    "encoding": (of_encoding, of_encoding),
}
LOADERS = ("arrays", "1", "2", "3", "all", "list")


@dataclass(frozen=True)
class Drawn:
    """What a network is built from."""

    start: str
    layers: tuple[str, ...]
    loss: str = "auto"
    train: str = "arrays"
    queries: str = "arrays"
    measure: str = "loss"
    seed: int = 0
    outputs: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "outputs", LOSSES[self.loss][1])


def draw(seed: int) -> Drawn:
    rng = np.random.default_rng(seed)
    start = str(rng.choice(list(STARTS)))
    tables = OF_PICTURES if start in {"pictures", "frames"} else OF_ROWS
    if "words" in start or start == "sequences":
        tables = OF_ROWS | OF_SEQUENCES
    layers = tuple(map(str, rng.choice(list(tables), rng.integers(1, 4))))
    picked = (str(rng.choice(list(table))) for table in (LOSSES, LOADERS, LOADERS, MEASURES))
    return Drawn(start, layers, *picked, seed=seed)


def inputs(drawn: Drawn, n: int, role: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([drawn.seed, role])
    shape = {"values": (5,), "pictures": (1, SIDE, SIDE), "frames": (2, 1, SIDE, SIDE)}
    x = rng.normal(size=(n, *shape.get(drawn.start, (LENGTH, 5)))).astype(np.float32)
    if "words" in drawn.start or drawn.start == "bags":
        x = rng.integers(0, WORDS, (n, LENGTH))
    if drawn.loss in {"values", "Huber"}:
        return x, rng.normal(size=n).astype(np.float32)
    return x, rng.permutation(np.arange(n) % max(2, drawn.outputs))


def as_given(how: str, x: np.ndarray, y: np.ndarray) -> Any:
    """Samples as a user holds them."""
    if how == "arrays":
        return x, y
    pairs = list(zip(torch.tensor(x), torch.tensor(y), strict=True))
    if how == "list":
        return pairs
    return DataLoader(pairs, batch_size=len(x) if how == "all" else int(how))  # type: ignore[arg-type]


def network(drawn: Drawn) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(drawn.seed)
        model = Network(drawn).eval()
        for buffer in model.buffers():  # running statistics other than 0 and 1
            buffer += 0.3 * torch.rand(buffer.shape) if buffer.is_floating_point() else 0
    return model


def slopes(model: nn.Module, value: Tensor, names: tuple[str, ...]) -> Tensor:
    """A number's gradient, flat; by `backward`, which checkpoints take alone."""
    named = dict(model.named_parameters())
    model.zero_grad()
    if value.requires_grad:
        value.backward(retain_graph=True)
    pieces = [torch.zeros_like(p) if p.grad is None else p.grad for p in map(named.get, names)]
    return torch.cat([p.to_dense().flatten() for p in pieces])


def truth(drawn: Drawn, blocks: list[tuple[str, ...]]) -> Tensor:
    """[N, M], one sample at a time."""
    model = typed_copy(network(drawn), torch.float64)
    _, _, of_outputs = LOSSES[drawn.loss]
    loss = cubes if of_outputs is None else _by_output(of_outputs)
    measure = MEASURES[drawn.measure][1] or loss
    samples, queries = (singles(*inputs(drawn, n, role)) for role, n in enumerate((N, M)))
    total = torch.zeros(N, M).double()
    for names in blocks:
        mine, theirs = (
            torch.stack([slopes(model, function(model, one).sum(), names) for one in some])
            for some, function in ((samples, loss), (queries, measure))
        )
        hessian = mine.T @ mine
        if of_outputs is not None:
            hessian = sum(_curvature(model, one, of_outputs, names) for one in samples)
        hessian = hessian / N
        shift = DAMPING * hessian.diagonal().mean() * torch.eye(len(hessian)).double()
        if shift.any():
            total -= mine @ torch.linalg.solve(hessian + shift, theirs.T) / N
    return total


def singles(x: np.ndarray, y: np.ndarray) -> list[tuple[Tensor, Tensor]]:
    values = torch.tensor(x)
    values = values.double() if values.is_floating_point() else values
    return [(values[i : i + 1], torch.tensor(y[i : i + 1])) for i in range(len(x))]


def _curvature(model, sample, of_outputs, names) -> Tensor:
    f = model(sample[0])[0]
    by_output = torch.stack([slopes(model, value, names) for value in f])
    s = torch.autograd.functional.hessian(lambda f: of_outputs(f, sample[1][0]), f.detach())
    return by_output.T @ s @ by_output


def failure(drawn: Drawn) -> str:
    """What is wrong with influence, an index or a kernel of these; empty: nothing."""
    try:
        return _difference(drawn)
    except Exception as error:  # noqa: BLE001 the judge tells of whatever comes
        return f"raised {type(error).__name__}: {str(error)[:300]}"


def _difference(drawn: Drawn) -> str:
    x, y = inputs(drawn, N, 0)
    model, loss = network(drawn), LOSSES[drawn.loss][0]
    train, queries = as_given(drawn.train, x, y), as_given(drawn.queries, *inputs(drawn, M, 1))
    measure = MEASURES[drawn.measure][0]
    settings = {"curvature": "blocks", "damping": DAMPING, "temperature": 1.0, "loss": loss}
    found = da.influence(
        model, train, queries, measure=measure, precision="float64", **settings
    ).effect
    read = trained_network(
        model, given_sets(model, train, None, loss)[0], loss=loss, parameters=None,
        precision="float64", device=None, progress=lambda *_: None,
    ).per_sample  # fmt: skip
    right = truth(drawn, [b.parameters for b in read.blocks if b.name not in read._flat]).numpy()
    if wrong := unequal(found, right):
        return f"influence: {wrong}"
    index = da.index(model, train, bytes_per_sample=40_000, precision="float64", **settings)
    if wrong := unequal(index.query(queries, top=None, measure=measure).effect, right, 1e-3):
        return f"index: {wrong}"
    kernel = da.collect(
        model, (x, y), projection=None, outputs="joint", precision="float64", allow_trained=True
    ).kernel
    copied = typed_copy(model, torch.float64)
    names = tuple(name for name, p in copied.named_parameters() if p.requires_grad)
    rows = [slopes(copied, f, names) for one in singles(x, y) for f in copied(one[0])[0]]
    jacobian = torch.stack(rows)
    wrong = unequal(kernel.numpy(), (jacobian @ jacobian.T).numpy())
    return f"collect: {wrong}" if wrong else ""
