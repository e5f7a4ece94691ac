"""Groups and pairs left out, against training each again from its own decomposition.

The rival decomposes the kernel of what is left for every group; it is timed on a few groups in the
same run and multiplied. Errors are those of the same few groups.
"""

import time

import numpy as np
import torch
from record import record

from datassay.collect import collect
from datassay.data import load
from datassay.machine import best_seconds
from datassay.models import build_model
from datassay.score import eigenbasis, group_information, training_run

FEW = 4


def brute(lin, group, time_: float) -> float:
    """Functional information of one group at σ = 1 by decomposing the kernel of the rest."""
    everything = np.arange(len(lin))
    fits = []
    for keep in (everything, np.setdiff1d(everything, group)):
        z, q = torch.linalg.eigh(lin.kernel[keep][:, keep])
        z = z.clamp_min(0)
        g = torch.where(z > 0, -torch.expm1(-time_ * z) / z.clamp_min(1e-300), time_)
        fits.append(lin.val_kernel[:, keep] @ (q @ (g[:, None] * (q.T @ lin.residual[keep, 0]))))
    return float((fits[0] - fits[1]).square().sum() / (2 * len(lin.val_outputs)))


def case(name: str, lin, groups) -> None:
    eigenbasis(lin)
    seconds = best_seconds(lambda: group_information(lin, groups), repeats=3)
    found = group_information(lin, groups).information[:FEW]
    run = training_run(lin).run
    start = time.perf_counter()
    oracle = np.array([brute(lin, group, run.time) for group in groups[:FEW]])
    rival = (time.perf_counter() - start) / FEW / 2 * len(groups)  # half was the fit on all
    record(
        f"groups/{name}",
        n=len(lin),
        m=len(lin.val_outputs),
        groups=len(groups),
        size=len(groups[0]),
        seconds=seconds,
        brute_force_seconds=rival,
        error=float(np.abs(found / oracle - 1).max()),
    )


def main() -> None:
    train, val = load("digits")
    lin = collect(build_model("mlp:width=256", train), train, val, outputs="averaged")
    classes = [np.flatnonzero(train.y == label) for label in range(10)]
    case("digits, each class", lin, classes)
    case("digits, halves", lin, [np.flatnonzero(train.y % 2 == i) for i in range(2)] * 2)
    pairs = np.stack(np.triu_indices(60, 1), 1)
    case("digits, pairs", lin, list(pairs))


if __name__ == "__main__":
    main()
