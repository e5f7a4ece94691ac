"""Samples a second that become p features each: Datassay, torch.func, TRAK, dattri, kronfluence.

Same network, same Fashion-MNIST images, same number of features, float32, same threads; contenders
take turns and the best of several turns counts. Two questions:

- scalar: one gradient per sample, of the network's first output: what TRAK and dattri compute;
- joint: the gradients of all 10 outputs, [n, 10, p]. The libraries that take a scalar need ten such
  passes, so theirs is a tenth of their scalar figure and is not timed again.

"averaged" is Datassay's one row of features per sample for all 10 outputs: 10 backward passes, so
it has no counterpart among the baselines. What a baseline computes is not always the same: each
line says what. Their dense projections for CPUs take minutes per batch and are left out.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from bench.baselines import dattri, kronfluence, trak
from bench.data import folder
from bench.frame import Case, Options, Row, Task
from torch import nn
from torch.func import functional_call, grad, jacrev, vmap

import datassay as da
from datassay.collect import frozen_copy, inspect_layers, projector
from datassay.data import SampleSet

# Features a tensor at most, so that all tensors together have about 4096.
EACH = {"mlp": 1787, "cnn": 587}
SEED, TURNS, BATCH, K = 0, 3, 64, 10
# Datassay takes more samples than features, or it would go on to multiply a kernel, and so many
# that it chooses float32.
SCALAR_SAMPLES, JOINT_SAMPLES, AVERAGED_SAMPLES = 16_384, 2560, 4608
# Every contender: what it does in a turn → samples it did.
Turn = Callable[[], int]


class First(nn.Module):
    """The first output alone, [n, k] → [n, 1]."""

    def forward(self, z):
        """Column 0."""
        return z[:, :1]


def ours(name: str, net: nn.Module, samples: SampleSet) -> tuple[int, dict[str, Turn]]:
    """Datassay's own `collect`, with all that it checks, and p."""
    numbers = SampleSet(samples.x, samples.y.astype(float), ids=samples.ids)
    first = nn.Sequential(net, First())
    few, more = (samples.subset(np.arange(n)) for n in (JOINT_SAMPLES, AVERAGED_SAMPLES))

    def collected(model, train, outputs):
        lin = da.collect(model, train, projection=EACH[name], outputs=outputs, seed=SEED)
        assert lin.form.representation == "features" and lin.form.precision == "float32"
        return len(train)

    layers = inspect_layers(frozen_copy(net, torch.float32), torch.tensor(samples.x[:1]).float())
    tensors = projector(layers, EACH[name], "coordinates", SEED).tensors
    return sum(t.n_features for t in tensors.values()), {
        "datassay scalar": lambda: collected(first, numbers, "joint"),
        "datassay joint": lambda: collected(net, few, "joint"),
        "datassay averaged": lambda: collected(net, more, "averaged"),
    }


def torch_func(net: nn.Module, x: torch.Tensor, p: int) -> dict[str, Turn]:
    """torch.func by itself: all gradients, then p random coordinates or a dense projection."""
    weights = {n: w.detach() for n, w in net.named_parameters()}
    buffers = dict(net.named_buffers())
    d = sum(w.numel() for w in weights.values())
    kept = torch.randperm(d, generator=torch.Generator().manual_seed(SEED))[:p].sort().values
    # One block of columns stands for all: the whole matrix would not fit in memory.
    block = torch.randn(d, 512)

    def outputs(weights, sample):
        return functional_call(net, {**weights, **buffers}, (sample[None],))[0]

    one = vmap(grad(lambda w, s: outputs(w, s)[0]), in_dims=(None, 0))
    every = vmap(jacrev(outputs), in_dims=(None, 0))

    def chosen(gradients, start):
        flat = [g.flatten(start) for g in gradients.values()]
        ends = np.cumsum([g.shape[-1] for g in flat])
        parts = []
        for g, end in zip(flat, ends, strict=True):
            index = kept[(kept >= end - g.shape[-1]) & (kept < end)] - (end - g.shape[-1])
            parts.append(g.gather(-1, index.expand(*g.shape[:-1], -1)))
        return torch.cat(parts, -1)

    def dense(gradients):
        flat = torch.cat([g.flatten(1) for g in gradients.values()], 1)
        return [flat @ block for _ in range(-(-p // 512))]

    batch, few = x[:BATCH], x[:8]  # of 8: 10 gradients of 64 samples would take gigabytes
    return {
        "torch.func scalar": lambda: len(chosen(one(weights, batch), 1)),
        "torch.func joint": lambda: len(chosen(every(weights, few), 2)),
        "torch.func dense scalar": lambda: len(dense(one(weights, batch))[0]),
    }


def by_trak(net: nn.Module, x: torch.Tensor, p: int, location: str) -> dict[str, Turn]:
    """TRAKer.featurize of the next batch each turn, as it skips those that it has."""
    traker = trak.coordinates(net, trak.first_output(), len(x), p, location)
    rows = iter(torch.arange(len(x)).split(BATCH))

    def taken() -> int:
        part = next(rows).numpy()
        traker.featurize(batch=(x[part],), inds=part)
        return BATCH

    return {"traker coordinates scalar": taken}


def best_rates(turns: dict[str, Turn], missing: dict[str, str]) -> dict[str, float]:
    """Samples a second, the best of several turns after one to warm up; the slow have that one."""
    rates: dict[str, float] = {}
    for turn in range(TURNS + 1):
        for what, take in turns.items():
            if what in missing or (turn and rates[what] < 10):
                continue
            start = time.perf_counter()
            try:
                done = take()
            except Exception as error:  # noqa: BLE001  whatever a baseline raises, the line says so
                missing[what] = f"{type(error).__name__}: {error}"[:300]
                continue
            rate = done / (time.perf_counter() - start)
            rates[what] = rate if turn <= 1 else max(rates[what], rate)  # the first warms up
    return {what: rate for what, rate in rates.items() if what not in missing}


def measured(name: str, options: Options) -> dict[str, object]:
    train, _ = da.load(folder("fashion_mnist"))
    samples = train.subset(np.arange(SCALAR_SAMPLES))
    torch.manual_seed(SEED)
    net = frozen_copy(da.build_model(name, samples, seed=SEED), torch.float32)
    x = torch.tensor(samples.x[:AVERAGED_SAMPLES], dtype=torch.float32)
    # dattri writes a file beside wherever it runs.
    with (
        tempfile.TemporaryDirectory() as position,
        contextlib.chdir(position),
        contextlib.ExitStack() as s,
    ):
        p, turns = ours(name, net, samples)
        gradients = kronfluence.gradients_of_first_output
        baselines = {
            "torch.func": lambda: torch_func(net, x, p),
            "traker": lambda: by_trak(net, x, p, position),
            "dattri": lambda: dattri.features(net, x[:BATCH], p, position),
            "kronfluence": lambda: {
                "kronfluence gradients only, scalar": s.enter_context(
                    contextlib.contextmanager(gradients)(net, x)
                )
            },
        }
        missing: dict[str, str] = {}
        for baseline, made in baselines.items():
            try:
                turns |= made()
            except Exception as error:  # noqa: BLE001
                missing[baseline] = f"{type(error).__name__}: {error}"[:300]
        rates = best_rates(turns, missing)
    # Of what is comparable: all parameters, p features.
    others = {w: r for w, r in rates.items() if not w.startswith("datassay") and "only" not in w}
    scalar = {w: r for w, r in others.items() if w.endswith("scalar")}
    joint = {w: r if w.endswith("joint") else r / K for w, r in others.items()}
    fastest = {k: max(v, key=v.__getitem__) for k, v in (("scalar", scalar), ("joint", joint))}
    return {
        "p": p, "k": K, "dtype": "float32", "samples_a_second": rates,
        "scalar_ratio": rates["datassay scalar"] / scalar[fastest["scalar"]],
        "joint_ratio": rates["datassay joint"] / joint[fastest["joint"]],
        "fastest_baseline": fastest, "missing": missing,
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    both = [lines[f"throughput/{name}"] for name in ("cnn", "mlp")]
    ratios = [f"{both[0][f'{w}_ratio']:.1f} and {both[1][f'{w}_ratio']:.1f} times faster"
              for w in ("scalar", "joint")]  # fmt: skip
    what = ("Per-sample Jacobians at equal p, CNN and MLP, against the fastest of torch.func, "
            "TRAK, dattri and kronfluence: one output; ten outputs")  # fmt: skip
    return Row(what, "; ".join(ratios))


TASK = Task(
    measure="per-sample Jacobians a second",
    cases={name: Case(partial(measured, name)) for name in EACH},
    lines="throughput/",
    rows=rows,
)
