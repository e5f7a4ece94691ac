"""Who says what a sample did to a query: ours and the rivals, each as its own documents advise.

A contender takes a task and one trained network and gives effects [n, m]: the margin of each query
with the sample less without, in any unit. Each runs in a process of its own with one thread, so
that its memory can be told.

The rivals are no dependency of the library; beside its own torch they install as

    pip install --no-deps --target rivals kronfluence traker einops einconv opt_einsum peft
    PYTHONPATH=rivals python bench/attribution.py
"""

from __future__ import annotations

import logging
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import torch
from attribution_tasks import Batch, Task, log_odds
from cells import memory
from torch import nn
from torch.func import functional_call
from torch.utils.data import Dataset

import datassay as da

Contender = Callable[[Task, nn.Module], np.ndarray]
BATCH = 64


@dataclass(frozen=True)
class Verdict:
    """What a contender says of one network, and its cost.

    Attributes:
        effect: [n, m].
        seconds: of processor time, imports left out.
        mib: the most memory held beyond what task, network and imports take.
    """

    effect: np.ndarray
    seconds: float
    mib: float


# Ours. --------------------------------------------------------------------------------------


def ours(task: Task, model: nn.Module, **settings) -> np.ndarray:
    """The library as it comes, `method` left alone."""
    train, queries = task.given("train"), task.given("queries")
    found = da.influence(model, train, queries, measure=task.measure, **settings)
    return np.asarray(found.effect)


# Rivals. ------------------------------------------------------------------------------------


class Rows(Dataset):
    """One dictionary a sample."""

    def __init__(self, batch: Batch):
        self.batch = batch

    def __len__(self):
        return len(self.batch["labels"])

    def __getitem__(self, position):
        return {name: t[position] for name, t in self.batch.items()}


def kronfluence_task(task: Task):
    """Cross-entropy, labels drawn from the network for the Fisher; less the margin, measured."""
    from kronfluence.task import Task as KronfluenceTask

    class Classification(KronfluenceTask):
        def compute_train_loss(self, batch, model, sample=False):
            logits = task.logits(model, batch)
            labels = batch["labels"]
            if sample:
                labels = torch.multinomial(logits.detach().softmax(-1), 1).flatten()
            return nn.functional.cross_entropy(logits, labels, reduction="sum")

        def compute_measurement(self, batch, model):
            return -log_odds(task.logits(model, batch), batch["labels"]).sum()

        def get_attention_mask(self, batch):
            return batch.get("attention_mask")

        def get_influence_tracked_modules(self):
            return task.tracked

    return Classification()


def kronfluence(
    task: Task,
    model: nn.Module,
    damping: float | None = 1e-8,
    own: bool = False,
    its: Any = None,
) -> np.ndarray:
    """EK-FAC of dense layers and convolutions; damping 1e-8 is its default.

    Args:
        task: data.
        model: the network.
        damping: None is its heuristic, 0.1 of the mean eigenvalue.
        own: self-influence [n] instead.
        its: a task of its kind; None: `kronfluence_task`.
    """
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.arguments import FactorArguments, ScoreArguments

    torch.manual_seed(0)
    its = its or kronfluence_task(task)
    prepared = prepare_model(deepcopy(model), its)
    train, queries = Rows(task.train), Rows(task.queries)
    with tempfile.TemporaryDirectory() as folder:
        analyzer = Analyzer("it", prepared, its, cpu=True, output_dir=folder, disable_tqdm=True)
        analyzer.fit_all_factors(
            "ekfac", train, per_device_batch_size=BATCH, factor_args=FactorArguments("ekfac")
        )
        settings = {
            "score_args": ScoreArguments(damping_factor=damping),
            "per_device_train_batch_size": BATCH,
        }
        if own:
            analyzer.compute_self_scores("own", "ekfac", train, **settings)
            return analyzer.load_self_scores("own")["all_modules"].numpy()
        analyzer.compute_pairwise_scores(
            "pairs", "ekfac", queries, train, per_device_query_batch_size=BATCH, **settings
        )
        return analyzer.load_pairwise_scores("pairs")["all_modules"].T.numpy()


def trak_task(task: Task):
    """The margin and its weight in the loss, as TRAK's tasks give them."""
    from trak.modelout_functions import AbstractModelOutput

    names = list(task.train)

    def logits(model, weights, buffers, batch):
        def called(*args, **kwargs):
            return functional_call(model, (weights, buffers), args, kwargs)

        return task.logits(called, batch)  # type: ignore

    class Margin(AbstractModelOutput):
        def __init__(self):
            super().__init__()

        @staticmethod
        def get_output(model, weights, buffers, *sample):
            batch = {name: t[None] for name, t in zip(names, sample, strict=True)}
            found = logits(model, weights, buffers, batch)[0]
            own = torch.arange(len(found)) == batch["labels"]
            others = torch.where(own, -torch.inf, found).logsumexp(-1)
            return torch.where(own, found, 0.0).sum() - others

        def get_out_to_loss_grad(self, model, weights, buffers, batch):
            rows = dict(zip(names, batch, strict=True))
            p = logits(model, weights, buffers, rows).softmax(-1)
            return (1 - p.gather(1, rows["labels"][:, None])).detach()

    return Margin()


def trak(
    task: Task,
    model: nn.Module,
    features: int = 128,
    ridge: float = 0.0,
    its: Any = None,
    only: str = "",
) -> np.ndarray:
    """TRAK with its Gaussian projection for CPUs, in float32.

    It inverts a matrix [features, features] of n samples, by default without a ridge, so that
    features ≥ n, its default of 2048 here, give noise. `its` is a task of its kind, `only` a
    part of the names of the weights that count.
    """
    from trak import TRAKer

    names = list(task.train)

    def parts(batch: Batch):
        for rows in torch.arange(len(batch["labels"])).split(BATCH):
            yield tuple(batch[name][rows] for name in names), len(rows)

    trained = [name for name, w in model.named_parameters() if w.requires_grad and only in name]
    with tempfile.TemporaryDirectory() as folder:
        traker = TRAKer(
            model, its or trak_task(task), save_dir=folder, device="cpu",
            train_set_size=len(task.train["labels"]), proj_dim=features,
            use_half_precision=False, lambda_reg=ridge,
            logging_level=logging.ERROR,
            grad_wrt=trained if len(trained) < len(list(model.parameters())) else None,
        )  # fmt: skip
        traker.load_checkpoint(model.state_dict(), model_id=0)
        for batch, size in parts(task.train):
            traker.featurize(batch=batch, num_samples=size)
        traker.finalize_features()
        traker.start_scoring_checkpoint(
            "queries", model.state_dict(), model_id=0, num_targets=len(task.queries["labels"])
        )
        for batch, size in parts(task.queries):
            traker.score(batch=batch, num_samples=size)
        return np.array(traker.finalize_scores(exp_name="queries"))


def word_overlap(task: Task, model: nn.Module) -> np.ndarray:
    """BM25 of a sample for a query, less where their labels differ; it sees no network."""
    return bm25(*task.texts or ([], [])) * same_label(task)


def bm25(texts: list[str], asked: list[str]) -> np.ndarray:
    """Okapi's score of each text for each query, with k 1.5 and b 0.75: [n, m]."""
    samples, queries = ([text.lower().split() for text in part] for part in (texts, asked))
    words = {word: i for i, word in enumerate(sorted({w for text in samples for w in text}))}
    counts = np.zeros((len(samples), len(words)))
    for row, text in enumerate(samples):
        np.add.at(counts[row], [words[word] for word in text], 1)
    k, b = 1.5, 0.75
    lengths = counts.sum(1, keepdims=True)
    holds = (counts > 0).sum(0)
    rarity = np.log1p((len(samples) - holds + 0.5) / (holds + 0.5))
    weight = counts * (k + 1) / (counts + k * (1 - b + b * lengths / lengths.mean())) * rarity
    found = [weight[:, [words[w] for w in text if w in words]].sum(1) for text in queries]
    return np.stack(found, 1)


def nearness(task: Task, model: nn.Module) -> np.ndarray:
    """Cosine of what the last layer sees, less where labels differ."""
    seen: list[torch.Tensor] = []
    last = [m for m in model.modules() if isinstance(m, nn.Linear) and m.out_features <= 10][-1]
    handle = last.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        for batch in (task.train, task.queries):
            task.logits(model, batch)
    handle.remove()
    a, b = (nn.functional.normalize(part, dim=1) for part in seen)
    return (a @ b.T).numpy() * same_label(task)


def same_label(task: Task) -> np.ndarray:
    """1 where a sample and a query share their label, -1 elsewhere: [n, m]."""
    same = task.train["labels"][:, None] == task.queries["labels"][None]
    return same.numpy() * 2.0 - 1


TRAK_SIZES = (128, 512)
RIVALS: dict[str, Contender] = {
    "kronfluence": kronfluence,
    "kronfluence, its heuristic damping": partial(kronfluence, damping=None),
    **{f"TRAK, {p} features": partial(trak, features=p) for p in TRAK_SIZES},
    "embedding similarity": nearness,
}
TEXT_RIVALS: dict[str, Contender] = {"BM25": word_overlap}
OURS: dict[str, Contender] = {"ours": ours}
NEEDS = {"kronfluence": "kronfluence.analyzer", "TRAK": "trak"}


# One process a verdict. ---------------------------------------------------------------------


def asked(name: str, contender: Contender, task: Task, model: nn.Module) -> Verdict:
    """What a contender says, measured in a fresh process.

    Raises:
        RuntimeError: the contender failed; what it raised is the text.
    """
    packed = cloudpickle.dumps((name, contender, task, model), protocol=5)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_judged, (packed,))


def _judged(packed: bytes) -> Verdict:
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    name, contender, task, model = cloudpickle.loads(packed)
    import_module(NEEDS.get(name.partition(",")[0], "datassay"))
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts anew
    before, start = memory("VmRSS"), time.process_time()
    effect = contender(task, model)
    seconds = time.process_time() - start
    return Verdict(np.asarray(effect), seconds, memory("VmHWM") - before)
