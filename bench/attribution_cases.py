"""The cells of the attribution suite: networks, their samples, and what training again gave.

`CASES` lists them. A cell holds the networks trained on all samples and, for many random halves of
these, the outcome of each query under networks trained on the half. Cells take minutes to make and
are kept in a folder: CASE.npz, CASE_modelN.safetensors, and CASE_modelN/checkpoint-T as
transformers' Trainer writes them, with the optimiser's state.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import attribution_gpt as gpt
import attribution_tasks as tasks
import attribution_texts as texts
import numpy as np
import torch
from attribution_tasks import Batch, Task
from joblib import Parallel, delayed
from safetensors.torch import load_model, save_model
from scipy.stats import rankdata, spearmanr
from torch import nn


@dataclass(frozen=True)
class Recipe:
    """How every network of a case is trained.

    Attributes:
        optimizer: "sgd" (momentum .9) or "adamw".
        lr: its step size, of the loss averaged over a batch.
        batch: samples an update.
        epochs: over the samples that a network has; None: `steps` updates whatever it has.
        steps: see epochs.
        cosine: the step size falls to 0 along a cosine; otherwise it stays.
        weight_decay: of AdamW.
    """

    optimizer: str
    lr: float
    batch: int
    epochs: int | None = None
    steps: int = 0
    cosine: bool = False
    weight_decay: float = 0.0

    def updates(self, n: int) -> int:
        """Updates on n samples."""
        return self.steps if self.epochs is None else self.epochs * (n // self.batch)

    def over(self, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of these weights."""
        if self.optimizer == "sgd":
            return torch.optim.SGD(weights, lr=self.lr, momentum=0.9)
        return torch.optim.AdamW(weights, lr=self.lr, weight_decay=self.weight_decay)


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes:
        task: makes data and networks; (its folder for what is kept) → Task.
        recipe: how the networks are trained.
        halves: random halves of the samples.
        seeds: networks a half.
        models: networks of all samples.
        checkpoints: kept along each run of all samples, the last one included.
    """

    task: Callable[[Path], Task]
    recipe: Recipe
    halves: int
    seeds: int
    models: int
    checkpoints: int = 0


CASES = {
    "mlp": Case(tasks.digits, Recipe("sgd", 0.05, 64, steps=300), 100, 5, 5, checkpoints=6),
    "mlp_adam": Case(
        tasks.digits,
        Recipe("adamw", 3e-3, 64, steps=300, weight_decay=0.01),
        100, 5, 5, checkpoints=6,
    ),
    "cnn": Case(
        tasks.fashion,
        Recipe("adamw", 0.003, 64, epochs=30, cosine=True, weight_decay=0.01),
        60, 8, 5, checkpoints=6,
    ),
    # Learnt by heart: networks of one half part by their seeds more than halves do.
    "cnn_long": Case(
        tasks.fashion,
        Recipe("adamw", 0.01, 64, epochs=60, cosine=True, weight_decay=0.01),
        60, 3, 5, checkpoints=6,
    ),
    "bert": Case(
        texts.whole, Recipe("adamw", 5e-4, 16, epochs=3, cosine=True, weight_decay=0.01),
        50, 3, 3, checkpoints=6,
    ),
    "bert_lora": Case(
        texts.adapted, Recipe("adamw", 3e-3, 16, epochs=3, cosine=True, weight_decay=0.01),
        50, 3, 3, checkpoints=6,
    ),
    "gpt": Case(
        gpt.reported,
        Recipe("adamw", 2e-3, 16, epochs=10, cosine=True, weight_decay=0.01),
        50, 1, 1,
    ),
    # Where settings of "gpt" were chosen.
    "gpt_sst2": Case(
        gpt.tuning, Recipe("adamw", 2e-3, 16, epochs=10, cosine=True, weight_decay=0.01), 50, 1, 1
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Checkpoint:
    """The network after some updates, and the folder of it."""

    step: int
    model: nn.Module
    folder: Path


@dataclass(frozen=True)
class Cell:
    """Everything that a contender is given, and the truth that judges it.

    Attributes:
        task: data and networks.
        models: networks of all samples, in evaluation mode.
        halves: [S, n / 2], positions of samples.
        truth: [seeds, S, m], the outcome of each query: its margin, or a text's loss.
        checkpoints: along the run of each of `models`.
    """

    task: Task
    models: list[nn.Module]
    halves: np.ndarray
    truth: np.ndarray
    checkpoints: list[list[Checkpoint]] = field(default_factory=list)


def fitted(
    task: Task,
    recipe: Recipe,
    positions: np.ndarray,
    seed: int,
    kept: Callable[[int, torch.optim.Optimizer, nn.Module], None] = lambda *run: None,
) -> nn.Module:
    """A network trained on some of the samples; `kept` is called after every update.

    The seed decides first weights, order, augmentation and dropout.
    """
    torch.set_num_threads(1)
    model = task.build(seed).train()
    torch.manual_seed(seed)
    optimizer = recipe.over([w for w in model.parameters() if w.requires_grad])
    generator = torch.Generator().manual_seed(seed)
    updates, own = recipe.updates(len(positions)), torch.as_tensor(positions)
    order = own[:0]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    for step in range(1, updates + 1):
        if len(order) < recipe.batch:
            order = own[torch.randperm(len(own), generator=generator)]
        part, order = order[: recipe.batch], order[recipe.batch :]
        batch = task.augment({k: v[part] for k, v in task.train.items()}, generator)
        loss = task.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if recipe.cosine:
            schedule.step()
        kept(step, optimizer, model)
    return model.eval()


def outcomes(task: Task, model: nn.Module, batch: Batch) -> np.ndarray:
    """What is asked of each sample, [m]."""
    with torch.no_grad():
        return task.outcome(model, batch).numpy()


def retrained(name: str, work: Path, positions: np.ndarray, seed: int) -> np.ndarray:
    """Outcomes [m] of the queries under one network of some of the samples."""
    case = CASES[name]
    task = case.task(work)
    model = fitted(task, case.recipe, positions, seed)
    return outcomes(task, model, task.queries)


def cell(name: str, work: Path, jobs: int = 1, part: str = "reported") -> Cell:
    """A cell, made unless its files are there.

    Args:
        name: of CASES.
        work: the folder of the files.
        jobs: processes.
        part: "reported", or "tuning": other halves and other seeds of the same samples.
    """
    case, first = CASES[name], 0 if part == "reported" else 10_000
    stem = name if part == "reported" else f"{name}_{part}"
    task = case.task(work)
    n = len(task.train["labels"])
    models, checkpoints = _models(case, task, n, first, work / stem)
    file = work / f"{stem}.npz"
    if not file.exists():
        rng = np.random.default_rng(first)
        halves = np.stack([rng.permutation(n)[: n // 2] for _ in range(case.halves)])
        found = Parallel(n_jobs=jobs, verbose=5)(
            delayed(retrained)(name, work, half, first + 1000 * (s + 1) + i)
            for s in range(case.seeds)
            for i, half in enumerate(halves)
        )
        truth = np.stack(found).reshape(case.seeds, case.halves, -1)
        np.savez(file, halves=halves, truth=truth, positions=task.positions)
    known = np.load(file)
    return Cell(task, models, known["halves"], known["truth"], checkpoints)


def _models(case: Case, task: Task, n: int, first: int, stem: Path):
    """The networks of all samples and their checkpoints, from files where there are any."""
    models, checkpoints = [], []
    updates = case.recipe.updates(n)
    wanted = sorted({round(updates * (i + 1) / case.checkpoints) for i in range(case.checkpoints)})
    for number in range(case.models):
        run = stem.with_name(f"{stem.name}_model{number}")
        file = run.with_name(f"{run.name}.safetensors")
        folders = [run / f"checkpoint-{step}" for step in wanted]
        if not all(path.exists() for path in (file, *folders)):
            model = fitted(task, case.recipe, np.arange(n), first + number, _writer(run, wanted))
            save_model(model, str(file))
        models.append(_loaded(task, file))
        checkpoints.append([
            Checkpoint(step, _loaded(task, folder / "model.safetensors"), folder)
            for step, folder in zip(wanted, folders, strict=True)
        ])
    return models, checkpoints


def _writer(
    run: Path, wanted: list[int]
) -> Callable[[int, torch.optim.Optimizer, nn.Module], None]:
    """Writes checkpoints after some updates, in the form of transformers' Trainer."""
    history = []

    def write(step: int, optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
        history.append({"step": step, "learning_rate": optimizer.param_groups[0]["lr"]})
        if step in wanted:
            folder = run / f"checkpoint-{step}"
            folder.mkdir(parents=True, exist_ok=True)
            save_model(model, str(folder / "model.safetensors"))
            torch.save(optimizer.state_dict(), folder / "optimizer.pt")
            state = {"global_step": step, "log_history": history}
            (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")

    return write


def _loaded(task: Task, file: Path) -> nn.Module:
    model = task.build(0)
    load_model(model, file)  # weights that layers share stand there once
    return model.eval()


def lds(effect: np.ndarray, halves: np.ndarray, truth: np.ndarray) -> float:
    """Linear datamodelling score: effect [n, m], halves [S, kept], truth [S, m].

    Mean over queries of Spearman's correlation, over halves, of the truth with the sum of effects.
    """
    sums = summed(effect, halves)
    return float(np.mean([spearmanr(a, b)[0] for a, b in zip(sums.T, truth.T, strict=True)]))


def summed(effect: np.ndarray, halves: np.ndarray) -> np.ndarray:
    """Sum of each half's effects: [S, m]."""
    member = np.zeros((len(halves), len(effect)))
    np.put_along_axis(member, halves, 1, axis=1)
    return member @ effect


def lds_drawn_again(
    effect: np.ndarray, halves: np.ndarray, truth: np.ndarray, draws: int = 300
) -> np.ndarray:
    """Scores of halves and queries drawn with replacement, [draws]; the same draws for all."""
    rng, sums = np.random.default_rng(0), summed(effect, halves)
    found = []
    for _ in range(draws):
        half, query = (rng.integers(0, size, size) for size in truth.shape)
        a, b = (rankdata(part[half][:, query], axis=0) for part in (sums, truth))
        a, b = a - a.mean(0), b - b.mean(0)
        found.append(((a * b).sum(0) / np.sqrt((a**2).sum(0) * (b**2).sum(0))).mean())
    return np.array(found)
