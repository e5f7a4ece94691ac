"""Networks, their samples, and what training again gave; made once and stored.

`SETTINGS` lists them. A cell holds the networks trained on all samples and, for many random halves
of these, the outcome of each query under networks trained on the half. Cells take minutes to make
and are stored in the folder of `bench.data.work`: NAME.npz and NAME_modelN.safetensors.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from bench.attribution import gpt, problems, texts
from bench.attribution.problems import Problem
from bench.data import work
from joblib import Parallel, delayed
from safetensors.torch import load_model, save_model
from torch import nn


@dataclass(frozen=True)
class Recipe:
    """How every network of a setting is trained."""

    optimizer: str  # "sgd" (momentum .9) or "adamw"
    lr: float  # its step size, of the loss averaged over a batch
    batch: int  # samples an update
    # over the samples that a network has; None: `steps` updates whatever it has
    epochs: int | None = None
    steps: int = 0  # see epochs
    cosine: bool = False  # the step size falls to 0 along a cosine; otherwise it stays
    weight_decay: float = 0.01  # of AdamW

    def updates(self, n: int) -> int:
        """Updates on n samples."""
        return self.steps if self.epochs is None else self.epochs * (n // self.batch)

    def over(self, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of these weights."""
        if self.optimizer == "sgd":
            return torch.optim.SGD(weights, lr=self.lr, momentum=0.9)
        return torch.optim.AdamW(weights, lr=self.lr, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Setting:
    """What is trained."""

    problem: Callable[[], Problem]  # makes data and networks
    recipe: Recipe  # how the networks are trained
    halves: int = 0  # random halves of the samples
    seeds: int = 0  # networks a half
    models: int = 0  # networks of all samples


def _adam(lr: float, batch: int, epochs: int) -> Recipe:
    return Recipe("adamw", lr, batch, epochs=epochs, cosine=True)


SETTINGS = {
    "mlp": Setting(problems.digits, Recipe("sgd", 0.05, 64, steps=300), 100, 5, 5),
    "mlp_adam": Setting(problems.digits, Recipe("adamw", 3e-3, 64, steps=300), 100, 5, 5),
    "cnn": Setting(problems.fashion, _adam(0.003, 64, 30), 60, 8, 5),
    # Learnt by heart: networks of one half part by their seeds more than halves do.
    "cnn_long": Setting(problems.fashion, _adam(0.01, 64, 60), 60, 3, 5),
    "bert": Setting(texts.whole, _adam(5e-4, 16, 3), 50, 3, 3),
    "bert_lora": Setting(texts.adapted, _adam(3e-3, 16, 3), 50, 3, 3),
    "gpt": Setting(gpt.reported, _adam(2e-3, 16, 10), 50, 1, 1),
    # Where settings of "gpt" were chosen.
    "gpt_sst2": Setting(gpt.tuning, _adam(2e-3, 16, 10), 50, 1, 1),
}


@dataclass(frozen=True)
class Networks:
    """Everything that a contender is given, and the truth that judges it."""

    problem: Problem  # data and networks
    models: list[nn.Module]  # networks of all samples, in evaluation mode
    halves: np.ndarray  # [S, n / 2], positions of samples
    truth: np.ndarray  # [seeds, S, m], the outcome of each query: its margin, or a text's loss


def fitted(
    problem: Problem,
    recipe: Recipe,
    positions: np.ndarray,
    seed: int,
) -> nn.Module:
    """A network trained on some of the samples.

    The seed decides first weights, order, augmentation and dropout.
    """
    torch.set_num_threads(1)
    model = problem.build(seed).train()
    torch.manual_seed(seed)
    optimizer = recipe.over([w for w in model.parameters() if w.requires_grad])
    generator = torch.Generator().manual_seed(seed)
    updates, own = recipe.updates(len(positions)), torch.as_tensor(positions)
    order = own[:0]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for _ in range(updates):
        if len(order) < recipe.batch:
            order = own[torch.randperm(len(own), generator=generator)]
        part, order = order[: recipe.batch], order[recipe.batch :]
        batch = problem.augment({k: v[part] for k, v in problem.train.items()}, generator)
        loss = problem.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if recipe.cosine:
            schedule.step()
    return model.eval()


def retrained(name: str, positions: np.ndarray, seed: int) -> np.ndarray:
    """Outcomes [m] of the queries under one network of some of the samples."""
    setting = SETTINGS[name]
    problem = setting.problem()
    model = fitted(problem, setting.recipe, positions, seed)
    with torch.no_grad():
        return problem.outcome(model, problem.queries).numpy()


@cache
def networks(name: str) -> Networks:
    """A cell, made unless its files are there."""
    setting, stem = SETTINGS[name], work() / name
    stem.parent.mkdir(parents=True, exist_ok=True)
    problem = setting.problem()
    models = _models(setting, problem, stem)
    file = stem.with_suffix(".npz")
    if not file.exists():
        rng, n = np.random.default_rng(0), len(problem)
        halves = np.stack([rng.permutation(n)[: n // 2] for _ in range(setting.halves)])
        result = Parallel(n_jobs=os.cpu_count(), verbose=5)(
            delayed(retrained)(name, half, 1000 * (s + 1) + i)
            for s in range(setting.seeds)
            for i, half in enumerate(halves)
        )
        truth = np.stack(result).reshape(setting.seeds, setting.halves, -1)
        np.savez(file, halves=halves, truth=truth)
    known = np.load(file)
    return Networks(problem, models, known["halves"], known["truth"])


def _models(setting: Setting, problem: Problem, stem: Path) -> list[nn.Module]:
    models = []
    for number in range(setting.models):
        file = stem.with_name(f"{stem.name}_model{number}.safetensors")
        if not file.exists():
            everyone = np.arange(len(problem))
            save_model(fitted(problem, setting.recipe, everyone, number), str(file))
        models.append(loaded(problem, file))
    return models


def loaded(problem: Problem, file: Path) -> nn.Module:
    model = problem.build(0)
    load_model(model, file)  # weights that layers share stand there once
    return model.eval()
