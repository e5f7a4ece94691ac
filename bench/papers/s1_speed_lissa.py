"""F-SI of 1000 samples of MNIST 4 vs 9, MLP(1024), against influence functions in the same run.

S1 §6 says that linearisation is about 30 times faster than influence functions. Ours: kernel and
all leave-one-outs at the paper's settings. Baselines: LiSSA as in S1 (Table 2 and its code: depth
and scale 1000, batches of 128, 0.01 of damping a step, which is 10 on the Hessian) and conjugate
gradients on all samples, each with the prediction changes on the same 1000 queries. They run at the
trained weights; that training is not counted, although only they need it. Their first 20 samples
are timed, side by side in float32 on all threads, and the seconds are multiplied by n/20. LiSSA's
whole depth is run.
`--set n=1000 width=1024 depth=1000 steps=2000`.
"""

import time

import numpy as np
import torch
from bench.frame import Case, Options, Row, Task
from bench.networks import trained
from bench.papers.s1_table1 import mnist_pair

from datassay.collect import collect
from datassay.errors import SettingError
from datassay.machine import best_seconds
from datassay.models import mlp
from datassay.score import influence, sample_information
from datassay.train import Recipe

S1 = {"lr": 1e-3, "steps": 2000, "reduction": "mean", "dynamics": "descent"}
S1_LISSA = {"scale": 1000.0, "batch_size": 128}
S1_DAMPING = 0.01 * S1_LISSA["scale"]
TIMED = 20  # samples


def first_samples(network, sets, method: str, damping: float, settings: dict):
    """Influence of the first samples and the seconds for all n, extrapolated; None if refused."""
    removed, start = np.arange(min(TIMED, len(sets[0]))), time.perf_counter()
    how = {"loss": "mse", "damping": damping, "removed": removed, "precision": "float32"}
    try:
        attribution = influence(network, *sets, method=method, **how, **settings)
    except SettingError as error:
        print(f"{method} at damping {damping:g}: {error}", flush=True)
        return None, None
    return attribution, (time.perf_counter() - start) * len(sets[0]) / len(removed)


def agreement(one, other) -> list[float]:
    """Pearson correlation of weight and of prediction changes; empty where one refused."""
    if one is None or other is None:
        return []
    names = ("weight_change", "prediction_change")
    return [float(np.corrcoef(getattr(one, k), getattr(other, k))[0, 1]) for k in names]


def timed(options: Options) -> dict[str, object]:
    n, depth = options.value("n", 1000), options.value("depth", 1000)
    sets = mnist_pair(4, 9, n=n, m=n, seed=0)
    torch.manual_seed(0)
    model = mlp((28, 28), 1, width=options.value("width", 1024))
    repeats = options.repeats or 5
    kernel = best_seconds(lambda: collect(model, *sets), repeats=repeats)
    information = lambda: sample_information(collect(model, *sets), **S1)  # noqa: E731
    ours = best_seconds(information, repeats=repeats)
    steps = options.value("steps", S1["steps"])
    after = trained(model, sets[0], Recipe("sgd", S1["lr"], steps, None, "mse"))
    cases = {
        "lissa": ("lissa", S1_DAMPING, {"depth": depth, **S1_LISSA}),
        "cg": ("cg", S1_DAMPING, {"tolerance": 1e-4}),
        "cg_light_damping": ("cg", 0.01, {"tolerance": 1e-4}),
    }
    results, figures = {}, {}
    for name, case in cases.items():
        results[name], seconds = first_samples(after, sets, *case)
        figures[f"{name}_seconds"] = seconds
        figures["ratio" if name == "lissa" else f"ratio_{name}"] = seconds and seconds / ours
    return {
        "n": n, "m": n, "parameters": sum(w.numel() for w in model.parameters()),
        "training_steps": steps, "depth": depth, "samples_timed": min(TIMED, n),
        "kernel_seconds": kernel, "seconds": ours, **figures, "paper_ratio": 30,
        "lissa_against_cg": agreement(results["lissa"], results["cg"]),
        "light_damping_against_s1": agreement(results["cg_light_damping"], results["cg"]),
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    what = "Information of 1000 MNIST samples, kernel included, against influence by LiSSA"
    return Row(what, f"{lines['papers/s1_speed_lissa']['ratio']:.0f} times faster")


TASK = Task("S1 §6: time", {"s1_speed_lissa": Case(timed)}, lines="papers/", rows=rows)
