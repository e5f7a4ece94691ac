"""TRAK, with its projections for CPUs, in float32."""

import logging
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call

from bench.attribution.problems import Batch, Language, Problem

BATCH = 64


def output_of(value: Callable, to_loss: Callable):
    """Its model output: value (model, weights, buffers, sample), to_loss (..., batch)."""
    from trak.modelout_functions import AbstractModelOutput

    class Given(AbstractModelOutput):
        def __init__(self):
            super().__init__()

        @staticmethod
        def get_output(model, weights, buffers, *sample):
            return value(model, weights, buffers, sample)

        def get_out_to_loss_grad(self, model, weights, buffers, batch):
            return to_loss(model, weights, buffers, batch).detach()

    return Given()


def _logits(problem: Problem, model, weights, buffers, batch: Batch) -> torch.Tensor:
    def called(*args, **kwargs):
        return functional_call(model, (weights, buffers), args, kwargs)

    return problem.logits(called, batch)  # type: ignore


def classification(problem: Problem):
    """The margin and its weight in the loss, as TRAK's tasks give them."""
    names = list(problem.train)

    def margin(model, weights, buffers, sample):
        batch = {name: t[None] for name, t in zip(names, sample, strict=True)}
        result = _logits(problem, model, weights, buffers, batch)[0]
        own = torch.arange(len(result)) == batch["labels"]
        others = torch.where(own, -torch.inf, result).logsumexp(-1)
        return torch.where(own, result, 0.0).sum() - others

    def to_loss(model, weights, buffers, batch):
        rows = dict(zip(names, batch, strict=True))
        p = _logits(problem, model, weights, buffers, rows).softmax(-1)
        return 1 - p.gather(1, rows["labels"][:, None])

    return output_of(margin, to_loss)


def language(problem: Language):
    """A text is a classification per token, as TRAK's paper has it for language models."""
    names = list(problem.train)

    def chances(model, weights, buffers, batch):
        """Log p of each next token, log (1 - p), and which count."""
        ids = batch["labels"][:, 1:]
        counts, ids = ids != -100, ids.clamp_min(0)
        logits = _logits(problem, model, weights, buffers, batch)[:, :-1]
        own = torch.arange(logits.shape[-1]) == ids[..., None]
        of_all = logits.logsumexp(-1)
        given = torch.where(own, logits, 0.0).sum(-1)
        return given - of_all, torch.where(own, -torch.inf, logits).logsumexp(-1) - of_all, counts

    def odds(model, weights, buffers, sample):
        batch = {name: t[None] for name, t in zip(names, sample, strict=True)}
        log_p, log_rest, counts = chances(model, weights, buffers, batch)
        return ((log_p - log_rest) * counts).sum()

    def to_loss(model, weights, buffers, batch):
        rows = dict(zip(names, batch, strict=True))
        log_p, _, counts = chances(model, weights, buffers, rows)
        return (((1 - log_p.exp()) * counts).sum(1) / counts.sum(1))[:, None]

    return output_of(odds, to_loss)


def _batches(batch: Batch):
    for rows in torch.arange(len(batch["labels"])).split(BATCH):
        yield tuple(t[rows] for t in batch.values()), len(rows)


def effects(
    problem: Problem, model: nn.Module, features: int = 128, task: Any = None
) -> np.ndarray:
    """[n, m]. It inverts a matrix [features, features] of n samples, without a ridge.

    So features ≥ n, its default of 2048 here, give noise.
    """
    from trak import TRAKer

    trained = [name for name, w in model.named_parameters() if w.requires_grad]
    with tempfile.TemporaryDirectory() as folder:
        traker = TRAKer(
            model, task or classification(problem), save_dir=folder, device="cpu",
            train_set_size=len(problem.train["labels"]), proj_dim=features,
            use_half_precision=False, lambda_reg=0.0, logging_level=logging.ERROR,
            grad_wrt=trained if len(trained) < len(list(model.parameters())) else None,
        )  # fmt: skip
        traker.load_checkpoint(model.state_dict(), model_id=0)
        for batch, size in _batches(problem.train):
            traker.featurize(batch=batch, num_samples=size)
        traker.finalize_features()
        traker.start_scoring_checkpoint(
            "queries", model.state_dict(), model_id=0, num_targets=len(problem.queries["labels"])
        )
        for batch, size in _batches(problem.queries):
            traker.score(batch=batch, num_samples=size)
        return np.array(traker.finalize_scores(exp_name="queries"))


def language_effects(problem: Language, model: nn.Module, features: int = 512) -> np.ndarray:
    """What raises the log odds of a query's tokens lowers its loss."""
    return -effects(problem, model, features, language(problem))


def coordinates(model: nn.Module, task: Any, n: int, p: int, folder: str):
    """A TRAKer that keeps p random coordinates of each gradient."""
    from trak import TRAKer
    from trak.projectors import AbstractProjector, ProjectionType

    d = sum(w.numel() for w in model.parameters())

    class Coordinates(AbstractProjector):
        def __init__(self):
            super().__init__(d, p, 0, ProjectionType.normal, "cpu")
            kept = torch.randperm(d, generator=torch.Generator().manual_seed(0))[:p]
            self.kept = kept.sort().values

        def project(self, grads, model_id):
            return torch.cat([g.flatten(1) for g in grads.values()], 1)[:, self.kept]

    traker = TRAKer(
        model, task, train_set_size=n, save_dir=folder, device="cpu", proj_dim=p,
        projector=Coordinates(), use_half_precision=False, logging_level=logging.ERROR,
    )  # fmt: skip
    traker.load_checkpoint(model.state_dict(), model_id=0)
    return traker


def first_output():
    """The network's first output, of images."""

    def value(model, weights, buffers, sample):
        return functional_call(model, (weights, buffers), sample[0][None])[0, 0]

    return output_of(value, lambda model, weights, buffers, batch: torch.ones(len(batch[0]), 1))
