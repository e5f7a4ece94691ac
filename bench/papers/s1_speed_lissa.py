"""F-SI of 1000 samples of MNIST 4 vs 9, MLP(1024), against influence functions in the same run.

S1 §6 says that linearisation is about 30 times faster than influence functions. Ours: kernel and
all leave-one-outs at the paper's settings. Rivals: LiSSA as in S1 (Table 2 and its code: depth and
scale 1000, batches of 128, 0.01 of damping a step, which is 10 on the Hessian) and conjugate
gradients on all samples, each with the prediction changes on the same 1000 queries. They run at the
trained weights; that training is not counted, although only they need it. Their first chunk of
samples is timed, all of its samples side by side in float32 on all threads, and its seconds are
multiplied by n over the samples in it: chunks do the same work. LiSSA's whole depth is run.
`--set n=1000 width=1024 depth=1000 steps=2000`.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from bench.frame import Case, Options, Row, Task
from bench.networks import trained
from bench.papers.s1_table1 import mnist_pair

from datassay.collect import collect, inputs, loss_at
from datassay.errors import SettingError
from datassay.machine import best_seconds
from datassay.models import mlp
from datassay.score import METHODS, Problem, sample_information
from datassay.train import Recipe

S1 = {"lr": 1e-3, "steps": 2000, "reduction": "mean", "dynamics": "descent"}
S1_LISSA = {"scale": 1000.0, "batch_size": 128}
S1_DAMPING = 0.01 * S1_LISSA["scale"]


def first_chunk(problem: Problem, method: str, settings: dict):
    """Changes of the first samples and the seconds for all n, extrapolated; None if refused."""
    start = time.perf_counter()
    try:
        part = next(METHODS[method](problem, **settings))
    except SettingError as error:
        print(f"{method} at damping {problem.damping:g}: {error}", flush=True)
        return None, None
    seconds = time.perf_counter() - start
    return part, seconds * len(problem.train) / len(part.weights)


def agreement(one, other) -> list[float]:
    """Pearson correlation of squared weight and of prediction changes; empty where one refused."""
    if one is None or other is None:
        return []
    changes = [(p.weights.numpy(), p.outputs.square().sum((1, 2)).numpy()) for p in (one, other)]
    return [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(*changes, strict=True)]


def timed(options: Options) -> dict[str, object]:
    n, depth = options.value("n", 1000), options.value("depth", 1000)
    train, val = mnist_pair(4, 9, n=n, m=n, seed=0)
    torch.manual_seed(0)
    model = mlp((28, 28), 1, width=options.value("width", 1024))
    repeats = options.repeats or 5
    kernel = best_seconds(lambda: collect(model, train, val), repeats=repeats)
    information = lambda: sample_information(collect(model, train, val), **S1)  # noqa: E731
    ours = best_seconds(information, repeats=repeats)
    steps = options.value("steps", S1["steps"])
    after = trained(model, train, Recipe("sgd", S1["lr"], steps, None, "mse"))
    at = loss_at(after, train, "mse", "float32")
    x = inputs(at.template, val)
    problem = Problem(after, train, val, at, x, S1_DAMPING, 0.0, "float32")
    cases = [
        ("lissa", problem, {"depth": depth, **S1_LISSA}),
        ("cg", problem, {"tolerance": 1e-4}),
        ("cg", replace(problem, damping=0.01), {"tolerance": 1e-4}),
    ]
    found = [first_chunk(p, method, settings) for method, p, settings in cases]
    parts = [part for part, _ in found]
    figures = {}
    for name, (_, seconds) in zip(("lissa", "cg", "cg_light_damping"), found, strict=True):
        figures[f"{name}_seconds"] = seconds
        ratio = "ratio" if name == "lissa" else f"ratio_{name}"
        figures[ratio] = seconds and seconds / ours
    return {
        "n": n, "m": n, "parameters": at.n_parameters, "training_steps": steps, "depth": depth,
        "samples_timed": len(parts[0].weights), "kernel_seconds": kernel, "seconds": ours,
        **figures, "paper_ratio": 30, "lissa_against_cg": agreement(parts[0], parts[1]),
        "light_damping_against_s1": agreement(parts[2], parts[1]),
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> list[Row]:
    what = "Information of 1000 MNIST samples, kernel included, against influence by LiSSA"
    return [Row(what, f"{lines['papers/s1_speed_lissa']['ratio']:.0f} times faster")]


TASK = Task("S1 §6: time", {"s1_speed_lissa": Case(timed)}, lines="papers/", rows=rows)
