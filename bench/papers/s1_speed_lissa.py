"""F-SI of 1000 samples of MNIST 4 vs 9, MLP(1024), against influence functions in the same run.

S1 §6 says that linearisation is about 30 times faster than influence functions. Ours: kernel and
all leave-one-outs at the paper's settings. Rivals: LiSSA as in S1 (Table 2 and its code: depth and
scale 1000, batches of 128, 0.01 of damping a step, which is 10 on the Hessian) and conjugate
gradients on all samples, each with the prediction changes on the same 1000 queries. They run at the
trained weights; that training is not counted, although only they need it. Their first chunk of
samples is timed, all of its samples side by side in float32 on all threads, and its seconds are
multiplied by n over the samples in it: chunks do the same work. LiSSA's whole depth is run.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import torch
from record import record
from tasks import mnist_pair
from torch import nn

from datassay.collect import collect, inputs, loss_at
from datassay.data import SampleSet
from datassay.errors import SettingError
from datassay.machine import best_seconds
from datassay.models import mlp
from datassay.score import METHODS, Problem, sample_information
from datassay.train import Recipe, train_networks

S1 = {"lr": 1e-3, "steps": 2000, "reduction": "mean", "dynamics": "descent"}
S1_LISSA = {"scale": 1000.0, "batch_size": 128}
S1_DAMPING = 0.01 * S1_LISSA["scale"]
PAPER_RATIO = 30


def trained(model: nn.Module, train: SampleSet, steps: int) -> nn.Module:
    """The same network after S1's full-batch training."""
    recipe = Recipe("sgd", S1["lr"], steps, None, "mse")
    networks = train_networks([model], train, torch.arange(len(train))[None], recipe)
    result = mlp(train.input_shape, 1, width=model[1].out_features)
    result.load_state_dict({name: t[0] for name, t in networks.state.items()})
    return result


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=1000, help="of LiSSA")
    parser.add_argument("--steps", type=int, default=S1["steps"], help="of the training")
    parser.add_argument("--repeats", type=int, default=5, help="of our own timing")
    given = parser.parse_args()
    train, val = mnist_pair(4, 9, n=given.n, m=given.n, seed=0)
    torch.manual_seed(0)
    model = mlp((28, 28), 1, width=given.width)
    kernel = best_seconds(lambda: collect(model, train, val), repeats=given.repeats)

    def information():
        return sample_information(collect(model, train, val), **S1)

    ours = best_seconds(information, repeats=given.repeats)
    after = trained(model, train, given.steps)
    at = loss_at(after, train, "mse", "float32")
    x = inputs(at.template, val)
    problem = Problem(after, train, val, at, x, S1_DAMPING, 0.0, "float32")
    cases = [
        ("lissa", problem, {"depth": given.depth, **S1_LISSA}),
        ("cg", problem, {"tolerance": 1e-4}),
        ("cg", replace(problem, damping=0.01), {"tolerance": 1e-4}),
    ]
    found = [first_chunk(p, method, settings) for method, p, settings in cases]
    parts = [part for part, _ in found]
    ratios = [seconds and seconds / ours for _, seconds in found]
    record(
        "papers/s1_speed_lissa",
        n=given.n,
        m=given.n,
        parameters=at.n_parameters,
        training_steps=given.steps,
        depth=given.depth,
        samples_timed=len(parts[0].weights),
        kernel_seconds=kernel,
        seconds=ours,
        lissa_seconds=found[0][1],
        cg_seconds=found[1][1],
        cg_light_damping_seconds=found[2][1],
        ratio=ratios[0],
        ratio_cg=ratios[1],
        ratio_cg_light_damping=ratios[2],
        paper_ratio=PAPER_RATIO,
        lissa_against_cg=agreement(parts[0], parts[1]),
        light_damping_against_s1=agreement(parts[2], parts[1]),
    )


def agreement(one, other) -> list[float]:
    """Pearson correlation of squared weight and of prediction changes; empty where one refused."""
    if one is None or other is None:
        return []
    changes = [(p.weights.numpy(), p.outputs.square().sum((1, 2)).numpy()) for p in (one, other)]
    return [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(*changes, strict=True)]


if __name__ == "__main__":
    main()
