"""Per-sample loss gradients a second: ours, torch.func, TRAK, kronfluence; ResNet-20, tiny BERT.

Every sample's gradient of the loss in all weights is taken and multiplied with one query's: a
number a sample, the least that can be kept. TRAK keeps one coordinate, kronfluence the squared
length (of dense layers and convolutions only). Contenders take turns on one thread; the least
processor time counts.

    PYTHONPATH=rivals python bench/attribution_speed.py --work truth

Needs DATASSAY_DATA, and the rivals as `attribution_contenders.py` says.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import attribution_noise as noise
import attribution_texts as texts
import numpy as np
import torch
from attribution_contenders import Rows, kronfluence_task, trak_task
from attribution_tasks import Batch, Task
from record import record
from torch import nn
from torch.func import functional_call, grad, vmap

import datassay as da

TURNS, BATCH = 3, 32


def first(batch: Batch, n: int) -> Batch:
    """The first n rows."""
    return {name: t[:n] for name, t in batch.items()}


def ours(task: Task, model: nn.Module) -> np.ndarray:
    """TracIn of one query."""
    train, query = task.given("train"), task.given("queries")
    return da.influence(model, train, query, method="tracin", lr=1.0, measure="loss").effect


def torch_func(task: Task, model: nn.Module) -> np.ndarray:
    """Every gradient by vmap, then a product."""
    weights = {name: w.detach() for name, w in model.named_parameters()}

    def loss(weights, sample):
        def called(*args, **kwargs):
            return functional_call(model, weights, args, kwargs)

        batch = {name: t[None] for name, t in sample.items()}
        return nn.functional.cross_entropy(task.logits(called, batch), batch["labels"])  # type: ignore

    each = vmap(grad(loss), in_dims=(None, 0), chunk_size=BATCH, randomness="different")
    query = each(weights, task.queries)
    found = []
    for rows in torch.arange(len(task.train["labels"])).split(BATCH):
        gradients = each(weights, {name: t[rows] for name, t in task.train.items()})
        found.append(sum(gradients[k].flatten(1) @ query[k].flatten() for k in gradients))
    return torch.cat(found).numpy()


def trak(task: Task, model: nn.Module) -> np.ndarray:
    """TRAKer.featurize with one coordinate for a projection."""
    from trak import TRAKer
    from trak.projectors import AbstractProjector, ProjectionType

    class One(AbstractProjector):
        def __init__(self):
            super().__init__(1, 1, 0, ProjectionType.normal, "cpu")

        def project(self, grads, model_id):
            return next(iter(grads.values())).flatten(1)[:, :1]

    n = len(task.train["labels"])
    with tempfile.TemporaryDirectory() as folder:
        traker = TRAKer(
            model, trak_task(task), train_set_size=n, save_dir=folder, device="cpu",
            projector=One(), use_half_precision=False, logging_level=logging.ERROR,
        )  # fmt: skip
        traker.load_checkpoint(model.state_dict(), model_id=0)
        for rows in torch.arange(n).split(BATCH):
            traker.featurize(batch=[t[rows] for t in task.train.values()], num_samples=len(rows))
        return np.array(traker.saver.current_store["grads"])[:, 0]


def kronfluence(task: Task, model: nn.Module) -> np.ndarray:
    """Self-influence without a Hessian."""
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.arguments import FactorArguments

    its, data = kronfluence_task(task), Rows(task.train)
    prepared = prepare_model(deepcopy(model), its)
    with tempfile.TemporaryDirectory() as folder:
        analyzer = Analyzer("it", prepared, its, cpu=True, output_dir=folder, disable_tqdm=True)
        identity = FactorArguments(strategy="identity")
        analyzer.fit_all_factors("no", data, per_device_batch_size=BATCH, factor_args=identity)
        analyzer.compute_self_scores("own", "no", data, per_device_train_batch_size=BATCH)
        return analyzer.load_self_scores("own")["all_modules"].numpy()


def rates(task: Task, model: nn.Module) -> dict[str, float]:
    """Samples a second of processor time."""
    contenders: dict[str, Callable] = {
        "ours": ours, "torch.func": torch_func, "TRAK": trak, "kronfluence": kronfluence,
    }  # fmt: skip
    best: dict[str, float] = {}
    for _ in range(TURNS):
        for name, contender in contenders.items():
            start = time.process_time()
            try:
                found = contender(task, model)
            except (ImportError, RuntimeError, ValueError) as error:
                print(f"left out: {name}: {type(error).__name__}: {error}"[:300], flush=True)
                continue
            seconds = time.process_time() - start
            best[name] = max(best.get(name, 0.0), len(found) / seconds)
            print(name, round(len(found) / seconds, 1), flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="keeps BERT's first weights")
    parser.add_argument("--no-record", action="store_true", help="leave results.jsonl alone")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    photographs, sentences = noise.drawn(0)[0], texts.whole(args.work.resolve())
    for name, task, n in (("resnet20", photographs, 256), ("bert", sentences, 512)):
        sets = task.sets and (task.sets[0].subset(np.arange(n)), task.sets[1].subset(np.arange(1)))
        few = replace(task, train=first(task.train, n), queries=first(task.queries, 1), sets=sets)
        found = rates(few, task.build(0).eval())
        rivals = {k: v for k, v in found.items() if k != "ours"}
        fastest = max(rivals, key=rivals.__getitem__)
        if not args.no_record:
            record(
                f"attribution_speed/{name}",
                n=n,
                samples_a_second=found,
                fastest_rival=fastest,
                ratio=found["ours"] / rivals[fastest],
            )


if __name__ == "__main__":
    main()
