"""Rivals that explain a language model: each as its own documents advise for one.

Effects [n, m] have the sign of the outcome, a loss: a text that helps a query lowers it.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from attribution_contenders import bm25, kronfluence, ours, trak
from attribution_gpt import LanguageTask
from attribution_tasks import Batch
from torch import Tensor, nn
from torch.func import functional_call

import datassay as da


def dense(model: nn.Module) -> nn.Module:
    """With nn.Linear for transformers' Conv1D, which kronfluence's example replaces so too."""
    model = deepcopy(model)
    for block in model.get_submodule("transformer.h"):
        for place in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
            old = block.get_submodule(place)
            new = nn.Linear(*old.weight.shape)
            new.load_state_dict({"weight": old.weight.T, "bias": old.bias})
            block.set_submodule(place, new)
    return model


def kronfluence_task(task: LanguageTask):
    """As in its example on WikiText: losses summed over tokens, layers of the blocks."""
    from kronfluence.task import Task as KronfluenceTask

    class LanguageModeling(KronfluenceTask):
        def compute_train_loss(self, batch, model, sample=False):
            logits = task.logits(model, batch)[:, :-1].flatten(0, 1)
            labels = batch["labels"][:, 1:].flatten()
            if sample:
                drawn = torch.multinomial(logits.detach().softmax(-1), 1).flatten()
                labels = torch.where(labels == -100, labels, drawn)
            return nn.functional.cross_entropy(logits, labels, reduction="sum")

        def compute_measurement(self, batch, model):
            return self.compute_train_loss(batch, model)

        def get_attention_mask(self, batch):
            return batch["labels"] != -100

        def get_influence_tracked_modules(self):
            return task.tracked

    return LanguageModeling()


def ekfac(task: LanguageTask, model: nn.Module, damping: float | None = 1e-8) -> np.ndarray:
    """kronfluence; its scores are gradient products through the inverse Hessian."""
    return -kronfluence(task, dense(model), damping, its=kronfluence_task(task))


def trak_task(task: LanguageTask):
    """A text is a classification a token, as TRAK's paper has it for language models."""
    from trak.modelout_functions import AbstractModelOutput

    names = list(task.train)

    def chances(model, weights, buffers, batch) -> tuple[Tensor, Tensor, Tensor]:
        """Log p of each next token, log (1 - p), and which count."""

        def called(*args, **kwargs):
            return functional_call(model, (weights, buffers), args, kwargs)

        ids = batch["labels"][:, 1:]
        counts, ids = ids != -100, ids.clamp_min(0)
        logits = task.logits(called, batch)[:, :-1]  # type: ignore
        own = torch.arange(logits.shape[-1]) == ids[..., None]
        of_all = logits.logsumexp(-1)
        given = torch.where(own, logits, 0.0).sum(-1)
        return given - of_all, torch.where(own, -torch.inf, logits).logsumexp(-1) - of_all, counts

    class Tokens(AbstractModelOutput):
        def __init__(self):
            super().__init__()

        @staticmethod
        def get_output(model, weights, buffers, *sample):
            batch = {name: t[None] for name, t in zip(names, sample, strict=True)}
            log_p, log_rest, counts = chances(model, weights, buffers, batch)
            return ((log_p - log_rest) * counts).sum()

        def get_out_to_loss_grad(self, model, weights, buffers, batch):
            rows = dict(zip(names, batch, strict=True))
            log_p, _, counts = chances(model, weights, buffers, rows)
            rest = (1 - log_p.exp()) * counts
            return (rest.sum(1) / counts.sum(1))[:, None].detach()

    return Tokens()


def projected(
    task: LanguageTask, model: nn.Module, features: int = 512, ridge: float = 0.0, only: str = ""
) -> np.ndarray:
    """TRAK: what raises the log odds of a query's tokens lowers its loss."""
    return -trak(task, model, features, ridge, its=trak_task(task), only=only)


def gradient_product(task: LanguageTask, model: nn.Module) -> np.ndarray:
    """TracIn at the trained network: one gradient times the other."""
    found = da.influence(
        model, task.given("train"), task.given("queries"), method="tracin", measure="loss"
    )
    return np.asarray(found.effect)


def shared_words(task: LanguageTask, model: nn.Module) -> np.ndarray:
    """BM25."""
    return -bm25(*task.texts or ([], []))


def nearness(task: LanguageTask, model: nn.Module) -> np.ndarray:
    """Cosine of the mean of the last layer's states, less that mean over the samples."""
    a, b = (mean_state(model, batch) for batch in (task.train, task.queries))
    a, b = (nn.functional.normalize(part - a.mean(0), dim=1) for part in (a, b))
    return -(a @ b.T).numpy()


def mean_state(model: nn.Module, batch: Batch) -> Tensor:
    """What the output layer sees, averaged over a text's tokens: [b, width]."""
    with torch.no_grad():
        seen = model.get_submodule("transformer")(batch["input_ids"]).last_hidden_state
    mask = (batch["labels"] != -100)[..., None]
    return (seen * mask).sum(1) / mask.sum(1)


def chance(task: LanguageTask, model: nn.Module) -> np.ndarray:
    """Numbers that mean nothing."""
    shape = (len(task.train["labels"]), len(task.queries["labels"]))
    return np.random.default_rng(0).normal(size=shape)


def of_output_layer(task: LanguageTask, model: nn.Module) -> np.ndarray:
    """Kronfluence of the output layer, which its example leaves out, and its heuristic damping."""
    return ekfac(replace(task, tracked=["lm_head"]), model, None)


# "chosen" on gpt_sst2, ours and theirs among the same: damping, and all weights or those of the
# embedding, which is also the output layer.
RIVALS = {
    "kronfluence": ekfac,
    "kronfluence, chosen": of_output_layer,
    "TRAK": projected,
    "gradient product": gradient_product,
    "embedding similarity": nearness,
    "BM25": shared_words,
    "random": chance,
}
OURS = {"ours": ours, "ours, chosen": partial(ours, parameters="wte", damping=1.0)}
