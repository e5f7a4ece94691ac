"""Kernel and all leave-one-outs of MLP(1024) on 784 inputs, against one decomposition per sample.

The baseline is the fastest brute force on the same kernel: for each sample one eigendecomposition
of the kernel without it, then the predictions on m = n queries. It is timed on a few samples in the
same run and multiplied by n, both on all threads and on one thread per core side by side (the
faster counts). float64 throughout, as published scores in float32 are wrong for small effects.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import scipy.linalg
import torch
from bench.frame import Case, Options, Row, Task

from datassay.collect import collect
from datassay.data import SampleSet
from datassay.machine import best_seconds
from datassay.models import mlp
from datassay.score import eigenbasis, leave_one_out

SIZES = (250, 500, 1000, 2000)
RUN = {"lr": "auto", "steps": 2000}


def samples(n: int, seed: int) -> SampleSet:
    g = np.random.default_rng(seed)
    x = g.normal(size=(n, 784)).astype("float32") @ np.diag(1 / np.arange(1, 785)).astype("float32")
    y = (x[:, 0] + 0.3 * x[:, 1] ** 2 > 0).astype("int64")
    return SampleSet(x=x, y=y, ids=np.arange(n), class_names=("a", "b"))


def one_removal(kernel, val_kernel, residual, tau: float, i: int, driver: str):
    keep = np.arange(len(kernel)) != i
    part = kernel[np.ix_(keep, keep)]
    if driver == "torch":
        z, q = (t.numpy() for t in torch.linalg.eigh(torch.as_tensor(part)))
    else:
        z, q = scipy.linalg.eigh(part, driver=driver, overwrite_a=True, check_finite=False)
    g = -np.expm1(-tau * z) / z
    return val_kernel[:, keep] @ (q @ (g * (q.T @ residual[keep])))


def brute_seconds(lin, tau: float, n: int) -> float:
    """Seconds for all n removals: the faster of all threads at once and one thread per core."""
    kernel, val_kernel = lin.kernel.numpy(), lin.val_kernel.numpy()
    residual = lin.residual.flatten().numpy()
    few = 3 if n >= 1000 else 6

    def removals(driver):
        for i in range(few):
            one_removal(kernel, val_kernel, residual, tau, i, driver)

    threads = torch.get_num_threads()
    together = min(best_seconds(lambda d=d: removals(d), repeats=2) for d in ("torch", "evd"))
    torch.set_num_threads(1)
    alone = best_seconds(lambda: removals("torch"), repeats=2)
    torch.set_num_threads(threads)
    return min(together, alone / threads) * n / few


def scores_anew(lin) -> None:
    """Leave-one-outs with the decomposition computed anew, which belongs to one linearisation."""
    lin = replace(lin)
    eigenbasis(lin)
    leave_one_out(lin, **RUN)


def growing(options: Options) -> Iterator[tuple[str, dict]]:
    ours, baseline = [], []
    for n in SIZES:
        train, val = samples(n, 0), samples(n, 1)
        torch.manual_seed(0)
        model = mlp((784,), 1, width=1024)
        kernel = best_seconds(lambda m=model, t=train, v=val: collect(m, t, v))
        lin = collect(model, train, val)
        scores = best_seconds(lambda x=lin: scores_anew(x))
        brute = brute_seconds(lin, leave_one_out(lin, **RUN).run.time, n)
        ours.append(scores)
        baseline.append(brute)
        yield "leave_one_out", {
            "n": n, "m": n, "parameters": lin.form.n_parameters, "kernel_seconds": kernel,
            "leave_one_out_seconds": scores, "seconds": kernel + scores,
            "brute_force_seconds": brute, "ratio": brute / scores,
            "ratio_with_kernel": (brute + kernel) / (scores + kernel),
        }  # fmt: skip
    slopes = [np.polyfit(np.log(SIZES), np.log(times), 1)[0] for times in (ours, baseline)]
    yield "exponents", {"sizes": SIZES, "ours": slopes[0], "brute_force": slopes[1]}


def rows(lines: dict[str, dict]) -> list[Row]:
    speed, slopes = lines["speed/leave_one_out n=1000"], lines["speed/exponents"]
    return [
        Row(
            "MLP(1024), 1000 + 1000 samples: kernel and all 1000 leave-one-outs",
            f"{speed['seconds']:.2f} s",
        ),
        Row(
            "The 1000 leave-one-outs alone, against one decomposition per sample (times grow as n "
            f"to the {slopes['ours']:.1f} against {slopes['brute_force']:.1f})",
            f"{speed['ratio']:.0f} times faster",
        ),
    ]


TASK = Task("seconds of all leave-one-outs", {"sizes": Case(growing)}, lines="speed/", rows=rows)
