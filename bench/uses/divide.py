"""Influence over pairs: how true the orders of removal are, and what they cost.

All models are softmax regressions with a bias on SD-2 (S4 §4), 700/300 or the same share of fewer
samples; "published" training is S4's: Adam 1e-3, batches of 64 in order, no penalty, until the loss
is 0.1 or for 1000 epochs.
"""

import time
from collections.abc import Iterator

import numpy as np
import torch
from bench.frame import Case, Options, Row, Task
from scipy.stats import spearmanr
from torch import nn

from datassay.collect import OutputGeometry, output_geometry
from datassay.data import SampleSet, sd_mixture
from datassay.score import RemovalEffects, geometry_effects
from datassay.train import fit_convex

SEEDS = 3
DAMPING = 0.01


def ridge_fit(samples: SampleSet, ridge: float) -> OutputGeometry:
    """At the minimum of the mean loss with this ridge."""
    outputs = samples.n_classes or 1
    loss = "cross_entropy" if samples.is_classification else "mse"
    index = output_geometry(nn.Linear(samples.x.shape[1], outputs), samples, loss)
    return index.move_to(fit_convex(index.features, index.targets, loss, ridge).weights[0])


def published_fit(samples: SampleSet, seed: int) -> OutputGeometry:
    """Where S4's training ends."""
    torch.manual_seed(seed)
    model = nn.Linear(samples.x.shape[1], samples.n_classes)
    x, y = torch.as_tensor(samples.x).float(), torch.as_tensor(samples.y)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(1000):
        losses = []
        for some, labels in zip(x.split(64), y.split(64), strict=True):
            loss = nn.functional.cross_entropy(model(some), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if np.mean(losses) <= 0.1:
            break
    return output_geometry(model, samples)


def effects(index: OutputGeometry, order: str, ridge: float, damping: float) -> RemovalEffects:
    ids = np.arange(len(index))
    return geometry_effects(index, ids, ridge=ridge, damping=damping, order=order)


def agreement(truth: RemovalEffects, other: RemovalEffects) -> float:
    return float(spearmanr(truth.effect, other.effect).statistic)


def common(a: RemovalEffects, b: RemovalEffects, top: int = 10) -> int:
    return len(set(a.ranking[:top]) & set(b.ranking[:top]))


def fidelity(options: Options) -> Iterator[tuple[str, dict]]:
    """Ranks against true leave-one-out, and against the published step where nothing is exact."""
    sets = [sd_mixture((350, 150), seed=seed) for seed in range(SEEDS)]
    cases = [(r, d, "retrain") for r in (1e-2, 1e-3) for d in (0.0, DAMPING)]
    for ridge, damping, truth in [*cases, (0.0, DAMPING, "step")]:
        ranks: dict[str, list[float]] = {"fixed": [], "adjoint": []}
        shared, means = [], []
        for seed, samples in enumerate(sets):
            index = ridge_fit(samples, ridge) if ridge else published_fit(samples, seed)
            exact = effects(index, truth, ridge, damping)
            results = {order: effects(index, order, ridge, damping) for order in ranks}
            for order in ranks:
                ranks[order].append(agreement(exact, results[order]))
            shared.append(common(exact, results["adjoint"]))
            means.append(exact.mean_effect)
        yield f"fidelity ridge {ridge:g} damping {damping:g}", {
            "n": 500, "seeds": SEEDS, "against": truth, "mean_effect": means,
            **{f"spearman_{order}": values for order, values in ranks.items()},
            "spearman_adjoint_lowest_seed": min(ranks["adjoint"]), "top_ten_in_common": shared,
        }  # fmt: skip


def speed(options: Options) -> Iterator[tuple[str, dict]]:
    """One step of purification, n = 1000, after the published training: same run, same arrays."""
    for seed in range(SEEDS):
        index = published_fit(sd_mixture((700, 300), seed=seed), seed)
        results, seconds = {}, {}
        # Interleaved, so that a busy machine slows all of them.
        for order in ("adjoint", "fixed", *("step", *("fixed", "adjoint") * 3) * 2):
            start = time.perf_counter()
            results[order] = effects(index, order, 0.0, DAMPING)
            took = time.perf_counter() - start
            seconds[order] = min(took, seconds.get(order, took))
        figures = {f"seconds_{order}": took for order, took in seconds.items()}
        for order in ("adjoint", "fixed"):
            figures |= {
                f"ratio_{order}": seconds["step"] / seconds[order],
                f"top_ten_{order}": common(results["step"], results[order]),
                f"spearman_{order}": agreement(results["step"], results[order]),
            }
        yield f"speed seed {seed}", {
            "n": 1000, "features": 41, "classes": 4, "damping": DAMPING, **figures,
        }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    ranks = [lines[f"divide/fidelity ridge {r} damping 0.01"]["spearman_adjoint_lowest_seed"]
             for r in (0.01, 0.001)]  # fmt: skip
    fastest = min(lines[f"divide/speed seed {seed}"]["ratio_adjoint"] for seed in range(SEEDS))
    return Row(
        "What each removal does to the variance of influence, against exact leave-one-out "
        "(ridge 0.01, 0.001): Spearman, lowest of 3 seeds; against one Newton step a sample",
        f"{ranks[0]:.3f}, {ranks[1]:.3f}; {fastest:.0f} times faster",
    )


TASK = Task(
    measure="orders of removal, against true removal",
    cases={"fidelity": Case(fidelity), "speed": Case(speed)},
    lines="divide/",
    rows=rows,
)
