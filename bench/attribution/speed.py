"""Per-sample loss gradients per second: ours, torch.func, TRAK, kronfluence; ResNet-20, tiny BERT.

Every sample's gradient of the loss in all weights is taken and multiplied with one query's: a
number a sample, the least that can be kept. TRAK keeps one coordinate, kronfluence the squared
length (of dense layers and convolutions only). Contenders take turns on one thread; the least
processor time counts.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from bench.attribution import problems, texts, wrong_labels
from bench.attribution.problems import Batch, Problem
from bench.baselines import kronfluence, trak
from bench.frame import Case, Options, Row, Task
from torch import nn

TURNS, BATCH = 3, 32


def ours(problem: Problem, model: nn.Module) -> np.ndarray:
    """TracIn of one query."""
    return problems.ours(problem, model, method="tracin", lr=1.0, measure="loss")


def torch_func(problem: Problem, model: nn.Module) -> np.ndarray:
    """Every gradient by vmap, then a product."""
    each, results = wrong_labels.gradients(problem, model, BATCH), []
    query = each(problem.queries)
    for rows in torch.arange(len(problem)).split(BATCH):
        gradients = each(first(problem.train, rows))
        results.append(sum(gradients[k].flatten(1) @ query[k].flatten() for k in gradients))
    return torch.cat(results).numpy()


def by_trak(problem: Problem, model: nn.Module) -> np.ndarray:
    """TRAKer.featurize with one coordinate for a projection."""
    n = len(problem)
    with tempfile.TemporaryDirectory() as folder:
        traker = trak.coordinates(model, trak.classification(problem), n, 1, folder)
        for rows in torch.arange(n).split(BATCH):
            batch = [t[rows] for t in problem.train.values()]
            traker.featurize(batch=batch, num_samples=len(rows))
        return np.array(traker.saver.current_store["grads"])[:, 0]


CONTENDERS: dict[str, Callable] = {
    "ours": ours,
    "torch.func": torch_func,
    "TRAK": by_trak,
    "kronfluence": partial(kronfluence.own, how="identity"),
}


def first(batch: Batch, rows: torch.Tensor | slice) -> Batch:
    return {name: t[rows] for name, t in batch.items()}


def rates(whole: Callable[[], Problem], n: int, options: Options) -> dict[str, object]:
    torch.set_num_threads(1)
    problem = whole()
    sets = problem.sets
    if sets is not None:
        sets = (sets[0].subset(np.arange(n)), sets[1].subset(np.arange(1)))
    train, queries = first(problem.train, slice(n)), first(problem.queries, slice(1))
    problem = replace(problem, train=train, queries=queries, sets=sets)
    model, best = problem.build(0).eval(), {}
    for _ in range(TURNS):
        for name, contender in CONTENDERS.items():
            start = time.process_time()
            try:
                contender(problem, model)
            except (ImportError, RuntimeError, ValueError) as error:
                print(f"left out: {name}: {type(error).__name__}: {error}"[:300], flush=True)
                continue
            rate = n / (time.process_time() - start)
            best[name] = max(best.get(name, 0.0), rate)
    fastest = max((k for k in best if k != "ours"), key=best.__getitem__)
    ratio = best["ours"] / best[fastest]
    return {"n": n, "samples_a_second": best, "fastest_baseline": fastest, "ratio": ratio}


def rows(lines: dict[str, dict]) -> Row:
    ratios = [lines[f"attribution_speed/{name}"]["ratio"] for name in TASK.cases]
    return Row(
        "Per-sample loss gradients, ResNet-20 and tiny BERT, against the fastest of "
        "torch.func, TRAK and kronfluence: samples per second",
        "{:.1f} and {:.1f} times as many".format(*ratios),
    )


TASK = Task(
    measure="per-sample loss gradients per second",
    cases={
        "resnet20": Case(partial(rates, lambda: wrong_labels.photographs(0)[0], 256)),
        "bert": Case(partial(rates, texts.whole, 512)),
    },
    lines="attribution_speed/",
    rows=rows,
)
