"""Kronfluence: EK-FAC of dense layers and convolutions, as its own examples set it up."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from bench.attribution.problems import Batch, Language, Problem, log_odds

BATCH = 64
DEFAULT_DAMPING = 1e-8
HEURISTIC = None  # 0.1 of the mean eigenvalue


class Rows(Dataset):
    """One dictionary per sample."""

    def __init__(self, batch: Batch):
        self.batch = batch

    def __len__(self):
        return len(self.batch["labels"])

    def __getitem__(self, position):
        return {name: t[position] for name, t in self.batch.items()}


def task_of(train_loss: Callable, measurement: Callable, mask: Callable, tracked: list[str] | None):
    """Its task; loss (batch, model, sample), measurement (batch, model)."""
    from kronfluence.task import Task

    class Given(Task):
        def compute_train_loss(self, batch, model, sample=False):
            return train_loss(batch, model, sample)

        def compute_measurement(self, batch, model):
            return measurement(batch, model)

        def get_attention_mask(self, batch):
            return mask(batch)

        def get_influence_tracked_modules(self):
            return tracked

    return Given()


def classification(problem: Problem):
    """Cross-entropy, labels drawn from the network for the Fisher; less the margin, measured."""

    def loss(batch, model, sample):
        logits, labels = problem.logits(model, batch), batch["labels"]
        if sample:
            labels = torch.multinomial(logits.detach().softmax(-1), 1).flatten()
        return nn.functional.cross_entropy(logits, labels, reduction="sum")

    def measured(batch, model):
        return -log_odds(problem.logits(model, batch), batch["labels"]).sum()

    return task_of(loss, measured, lambda b: b.get("attention_mask"), problem.tracked)


def language(problem: Language):
    """As in its example on WikiText: losses summed over tokens, layers of the blocks."""

    def loss(batch, model, sample=False):
        logits = problem.logits(model, batch)[:, :-1].flatten(0, 1)
        labels = batch["labels"][:, 1:].flatten()
        if sample:
            drawn = torch.multinomial(logits.detach().softmax(-1), 1).flatten()
            labels = torch.where(labels == -100, labels, drawn)
        return nn.functional.cross_entropy(logits, labels, reduction="sum")

    return task_of(loss, loss, lambda b: b["labels"] != -100, problem.tracked)


@contextmanager
def analysed(model: nn.Module, task: Any, train: Dataset, how: str, batch: int) -> Iterator:
    """An analyzer with its factors fitted: "ekfac", or "identity", no Hessian."""
    from kronfluence.analyzer import Analyzer, prepare_model
    from kronfluence.arguments import FactorArguments

    torch.manual_seed(0)
    prepared = prepare_model(deepcopy(model), task)
    with tempfile.TemporaryDirectory() as folder:
        analyzer = Analyzer("it", prepared, task, cpu=True, output_dir=folder, disable_tqdm=True)
        analyzer.fit_all_factors(
            how, train, per_device_batch_size=batch, factor_args=FactorArguments(strategy=how)
        )
        yield analyzer


def effects(
    problem: Problem, model: nn.Module, damping: float | None = DEFAULT_DAMPING, task: Any = None
) -> np.ndarray:
    from kronfluence.arguments import ScoreArguments

    train, queries = Rows(problem.train), Rows(problem.queries)
    with analysed(model, task or classification(problem), train, "ekfac", BATCH) as analyzer:
        analyzer.compute_pairwise_scores(
            "pairs", "ekfac", queries, train, per_device_query_batch_size=BATCH,
            per_device_train_batch_size=BATCH, score_args=ScoreArguments(damping_factor=damping),
        )  # fmt: skip
        return analyzer.load_pairwise_scores("pairs")["all_modules"].T.numpy()


def own(
    problem: Problem, model: nn.Module, damping: float | None = DEFAULT_DAMPING, how: str = "ekfac"
) -> np.ndarray:
    """Self-influence, [n]; by "identity" the squared length of the loss gradient."""
    from kronfluence.arguments import ScoreArguments

    train = Rows(problem.train)
    with analysed(model, classification(problem), train, how, BATCH) as analyzer:
        analyzer.compute_self_scores(
            "own", how, train, per_device_train_batch_size=BATCH,
            score_args=ScoreArguments(damping_factor=damping),
        )  # fmt: skip
        return analyzer.load_self_scores("own")["all_modules"].numpy()


def dense(model: nn.Module) -> nn.Module:
    """With nn.Linear for transformers' Conv1D, which its example replaces so too."""
    model = deepcopy(model)
    for block in model.get_submodule("transformer.h"):
        for position in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            old = block.get_submodule(position)
            new = nn.Linear(*old.weight.shape)
            new.load_state_dict({"weight": old.weight.T, "bias": old.bias})
            block.set_submodule(position, new)
    return model


def language_effects(
    problem: Language, model: nn.Module, damping: float | None = DEFAULT_DAMPING
) -> np.ndarray:
    """Its scores are gradient products through the inverse Hessian; a text that helps lowers it."""
    return -effects(problem, dense(model), damping, language(problem))


def gradients_of_first_output(net: nn.Module, x: torch.Tensor) -> Iterator[Callable[[], int]]:
    """Its nearest pass: squared length of every per-sample gradient, nothing projected or kept."""

    def first(batch, model, sample=False):
        return model(batch[0])[:, 0].sum()

    data = torch.utils.data.TensorDataset(x[:512])
    task = task_of(first, first, lambda batch: None, None)
    with analysed(net, task, data, "identity", BATCH) as analyzer:

        def scored() -> int:
            analyzer.compute_self_scores(
                "own", "identity", data, per_device_train_batch_size=BATCH,
                overwrite_output_dir=True,
            )  # fmt: skip
            return len(data)

        yield scored
