"""Retraining networks side by side against a Python loop that trains one after the other.

Seconds a network and update of full-batch descent without one sample each, on all threads. The
two sides and a large matrix product take turns in the same process and the quickest update of
each counts. `ratio_at_gemm_rate` is what the ratio would be if our products ran at the rate of
that large one and all else were free: no exact batching of the same operations can exceed it.

Run it without OMP_WAIT_POLICY=PASSIVE, which makes the loop's many small calls two to three times
slower, and on a quiet machine.
"""

import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from bench.frame import Case, Options, Row, Task
from torch import nn

from datassay.data import SampleSet
from datassay.machine import best_seconds
from datassay.train import Recipe, networks_at_a_time, train_networks

# Inputs, hidden units, outputs.
NETWORKS = {
    "64-13-10": (64, (13,), 10),
    "64-32-32-10": (64, (32, 32), 10),
    "784-1024-1": (784, (1024,), 1),
}
SIZES = (50, 200, 700, 1000)
ROUNDS = 5
SECONDS = 0.5  # a side and round
LR = 1e-3


def network(n_inputs: int, hidden: tuple[int, ...], n_outputs: int) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Flatten()]
    for width in hidden:
        layers += [nn.Linear(n_inputs, width), nn.ReLU()]
        n_inputs = width
    return nn.Sequential(*layers, nn.Linear(n_inputs, n_outputs))


def samples(n: int, n_inputs: int, n_outputs: int) -> SampleSet:
    g, classes = np.random.default_rng(0), max(2, n_outputs)
    names = tuple(map(str, range(classes)))
    x = g.normal(size=(n, n_inputs)).astype(np.float32)
    return SampleSet(x=x, y=g.integers(classes, size=n), ids=np.arange(n), class_names=names)


def loop(case, train: SampleSet, steps: int, left_out: int) -> tuple[nn.Module, float]:
    """The network trained without one sample, and the seconds of the quickest update."""
    model = network(*case)
    keep = np.delete(np.arange(len(train)), left_out)
    x, y = torch.tensor(train.x[keep]), torch.tensor(train.y[keep])
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    target = y if case[2] > 1 else y.float()[:, None]
    loss = nn.CrossEntropyLoss() if case[2] > 1 else lambda out, t: 0.5 * (out - t).square().mean()
    quickest = np.inf
    for _ in range(steps):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss(model(x), target).backward()
        optimizer.step()
        quickest = min(quickest, time.perf_counter() - start)
    return model, quickest


def together(case, train: SampleSet, steps: int, networks: int):
    """The networks without one sample each, and the seconds of the quickest update of all."""
    n, times = len(train), []
    kept = torch.stack([torch.tensor(np.delete(np.arange(n), s % n)) for s in range(networks)])
    recipe = Recipe("sgd", LR, steps, None, "cross_entropy" if case[2] > 1 else "mse")
    models = [network(*case)] * networks
    trained = train_networks(
        models, train, kept, recipe, progress=lambda *_: times.append(time.perf_counter())
    )
    return trained, float(np.diff(times).min())


def operations(case, n: int) -> float:
    """Of one update as we compute it; a first layer takes 2 n or 4 · inputs a unit and sample."""
    n_inputs, hidden, n_outputs = case
    sizes = [*hidden, n_outputs]
    first = sizes[0] * (2 * n if n < 2 * n_inputs else 4 * n_inputs)
    return n * (first + 6 * sum(a * b for a, b in pairwise(sizes)))


def error(case, train: SampleSet, networks: int) -> float:
    """Largest relative difference of the weights' change after 20 updates, network 1."""
    alone, trained = loop(case, train, 20, 1)[0], together(case, train, 20, max(2, networks))[0]
    flat = nn.utils.parameters_to_vector
    change = flat(alone.parameters()) - flat(network(*case).parameters())
    ours = torch.cat([trained.state[n][1].flatten() for n, _ in alone.named_parameters()])
    return float(((ours - flat(alone.parameters())).norm() / change.norm()).detach())


def side_by_side(name: str, options: Options) -> Iterator[tuple[str, dict]]:
    case, matrix = NETWORKS[name], torch.randn(2048, 2048)
    for n in SIZES:
        train = samples(n, case[0], case[2])
        networks = networks_at_a_time(network(*case), train)
        rate, alone, ours = 0.0, np.inf, np.inf
        for _ in range(ROUNDS):
            rate = max(rate, 2 * 2048**3 / best_seconds(lambda: matrix @ matrix, repeats=3))
            steps = max(3, int(SECONDS / loop(case, train, 3, 0)[1]))
            alone = min(alone, loop(case, train, steps, 0)[1])
            steps = max(3, int(SECONDS / together(case, train, 3, networks)[1]))
            ours = min(ours, together(case, train, steps, networks)[1] / networks)
        yield name, {
            "n": n, "parameters": sum(p.numel() for p in network(*case).parameters()),
            "networks_side_by_side": networks, "loop_us": 1e6 * alone, "ours_us": 1e6 * ours,
            "ratio": alone / ours, "ratio_at_gemm_rate": alone * rate / operations(case, n),
            "gflops": operations(case, n) / ours / 1e9, "gemm_gflops": rate / 1e9,
            "error": error(case, train, networks),
        }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    small, large = lines["retraining/64-32-32-10 n=50"], lines["retraining/784-1024-1 n=1000"]
    return Row(
        "Retraining many networks at once, against one after the other: 3466 parameters, "
        "50 samples; MLP(1024), 1000 samples",
        f"{small['ratio']:.0f} and {large['ratio']:.1f} times faster",
        order=1,
    )


TASK = Task(
    measure="retraining side by side",
    cases={name: Case(partial(side_by_side, name)) for name in NETWORKS},
    lines="retraining/",
    rows=rows,
)
