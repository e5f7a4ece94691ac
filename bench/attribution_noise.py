"""Wrong labels found by self-influence: networks trained on samples of which a tenth is wrong.

A ResNet-20 that was trained on CIFAR-10, fine-tuned by AdamW on 600 of its test images, 60 with
another label, until it has learnt most of the wrong ones; and `NETWORKS`, those of the attribution
suite and two more. A contender gives [n], higher: more likely wrong.

The temperature of self-influence was chosen on "mlp", "mlp_adam", "mnist" and "mnist_long".
"""

from __future__ import annotations

import lzma
import sys
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from attribution_cases import CASES, Case, Recipe, fitted
from attribution_contenders import Contender, kronfluence
from attribution_tasks import Batch, Task, batch_of, data_folder, fashion, small_cnn
from torch import nn
from torch.func import functional_call, grad, vmap

import datassay as da
from datassay.data import SampleSet, load

sys.path.append(str(Path(__file__).parent / "papers"))

RECIPE = Recipe("adamw", 3e-4, 32, epochs=8, weight_decay=0.01)
N, N_WRONG, SEEDS = 600, 60, 3


@dataclass(frozen=True)
class NoisyCell:
    """A network that was trained on wrong labels: task, network, and which were wrong, [n] bool."""

    task: Task
    model: nn.Module
    wrong: np.ndarray


@cache
def photographs():
    """CIFAR-10's test images [n, 3, 32, 32] in [0, 1] and labels."""
    folder = data_folder() / "cifar10"
    x = np.load(lzma.open(folder / "test_x.npy.xz"))
    return x.transpose(0, 3, 1, 2).astype(np.float32) / 255, np.load(folder / "test_meta.npz")["y"]


def noisy_cell(seed: int) -> NoisyCell:
    """Draw images and wrong labels, and fine-tune."""
    task, wrong = drawn(seed)
    return NoisyCell(task, fitted(task, RECIPE, np.arange(N), seed), wrong)


def drawn(seed: int) -> tuple[Task, np.ndarray]:
    """Images with some wrong labels, the network before fine-tuning, and which are wrong."""
    import resnet20

    x, y = photographs()
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(x))[:N]
    wrong = np.zeros(N, dtype=bool)
    wrong[rng.permutation(N)[:N_WRONG]] = True
    true = y[kept].astype(np.int64)
    given = np.where(wrong, (true + rng.integers(1, 10, N)) % 10, true)
    names = tuple(str(c) for c in range(10))
    train = SampleSet(x[kept], given, ids=np.arange(N), class_names=names, kind="image")
    few = train.subset(np.arange(10))

    def build(seed: int) -> nn.Module:
        return resnet20.trained().requires_grad_(True)

    return Task(batch_of(train), batch_of(few), kept, build, sets=(train, few)), wrong


# Further networks. ------------------------------------------------------------------------


def mnist(work: Path) -> Task:
    """The CNN of `fashion` on 1000 MNIST images."""
    train, _ = load(data_folder() / "mnist")
    kept = np.sort(np.random.default_rng(0).permutation(len(train))[:1000])
    x = (train.x[kept].reshape(-1, 1, 28, 28) - 0.1307) / 0.3081
    train = replace(train.subset(kept), x=x.astype(np.float32))
    few = train.subset(np.arange(10))
    return Task(batch_of(train), batch_of(few), kept, small_cnn, sets=(train, few))


def fashion_resnet(work: Path) -> Task:
    """A ResNet-8 of width 8 with batch norm on 1000 Fashion-MNIST images, none moved."""

    def build(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return ResNet8()

    known = fashion(work)
    return Task(known.train, known.queries, known.positions, build, sets=known.sets)


class ResNet8(nn.Module):
    """Three residual blocks of widths 8, 16 and 32, 20 122 weights: [n, 1, h, w] → [n, 10]."""

    def __init__(self):
        import resnet20

        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8))
        sizes = ((8, 8, 1), (8, 16, 2), (16, 32, 2))
        self.blocks = nn.Sequential(*(resnet20.Block(*size) for size in sizes))
        self.last = nn.Linear(32, 10)

    def forward(self, x):
        """Logits."""
        return self.last(self.blocks(self.first(x).relu()).mean((2, 3)))


ADAM = Recipe("adamw", 0.003, 64, epochs=30, cosine=True, weight_decay=0.01)
NETWORKS: dict[str, Case] = {
    **{name: CASES[name] for name in ("mlp", "mlp_adam", "cnn", "cnn_long", "bert", "bert_lora")},
    "mnist": Case(mnist, replace(ADAM, epochs=15), 0, 0, 0),
    "mnist_long": Case(mnist, replace(ADAM, lr=0.01, epochs=60), 0, 0, 0),
    "resnet8": Case(fashion_resnet, replace(ADAM, epochs=20), 0, 0, 0),
}
KINDS = ("uniform", "pair")  # with two classes they are one


def noisy_network(name: str, kind: str, seed: int, work: Path) -> NoisyCell:
    """Draw wrong labels of a kind in a network's samples, and train it from the seed."""
    case = NETWORKS[name]
    task = case.task(work)
    true = task.train["labels"].numpy()
    n, k = len(true), int(true.max()) + 1
    rng = np.random.default_rng(1000 + seed)
    wrong = np.zeros(n, dtype=bool)
    wrong[rng.permutation(n)[: n // 10]] = True
    moved = rng.integers(1, k, n) if kind == "uniform" else 1
    given = np.where(wrong, (true + moved) % k, true)
    sets = task.sets
    if sets is not None:
        sets = (replace(sets[0], y=given.astype(sets[0].y.dtype)), sets[1])
    task = replace(task, train={**task.train, "labels": torch.tensor(given)}, sets=sets)
    return NoisyCell(task, fitted(task, case.recipe, np.arange(n), seed), wrong)


def noisy_cells(name: str, work: Path) -> list[NoisyCell]:
    """Every kind of noise and seed."""
    if name not in NETWORKS:
        return [noisy_cell(seed) for seed in range(SEEDS)]
    kinds = KINDS[:1] if name.startswith("bert") else KINDS
    return [noisy_network(name, kind, seed, work) for kind in kinds for seed in range(SEEDS)]


# Contenders. --------------------------------------------------------------------------------


def outputs(task: Task, model: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits [n, k] and given labels."""
    with torch.no_grad():
        parts = [task.logits(model, part) for part in batches(task.train)]
    return torch.cat(parts), task.train["labels"]


def learnt(cell: NoisyCell) -> float:
    """Share of the wrong labels that the network predicts."""
    f, y = outputs(cell.task, cell.model)
    return float((f.argmax(1) == y)[torch.from_numpy(cell.wrong)].double().mean())


def batches(samples: Batch) -> list[Batch]:
    """Of 100 samples."""
    rows = torch.arange(len(samples["labels"])).split(100)
    return [{name: t[some] for name, t in samples.items()} for some in rows]


def loss(task: Task, model: nn.Module) -> np.ndarray:
    """Cross-entropy of the given label."""
    return nn.functional.cross_entropy(*outputs(task, model), reduction="none").numpy()


def margin(task: Task, model: nn.Module) -> np.ndarray:
    """Largest other logit less that of the given label."""
    f, y = outputs(task, model)
    given = nn.functional.one_hot(y, f.shape[1]).bool()
    return (f.masked_fill(given, -torch.inf).amax(1) - f[given]).numpy()


def el2n(task: Task, model: nn.Module) -> np.ndarray:
    """Length of the probabilities less the given label (Paul et al., 2021)."""
    f, y = outputs(task, model)
    return (f.softmax(1) - nn.functional.one_hot(y, f.shape[1])).norm(dim=1).numpy()


def tracin(task: Task, model: nn.Module) -> np.ndarray:
    """Squared length of the loss gradient, at the last checkpoint; GraNd is its root."""
    weights = {name: w.detach() for name, w in model.named_parameters() if w.requires_grad}

    def of_one(weights, one):
        def called(*args, **kwargs):
            return functional_call(model, weights, args, kwargs)

        batch = {name: t[None] for name, t in one.items()}
        logits = task.logits(called, batch)  # type: ignore
        return nn.functional.cross_entropy(logits, batch["labels"])

    each = vmap(grad(of_one), in_dims=(None, 0), chunk_size=16)
    found = each(weights, task.train)
    return sum(g.flatten(1).square().sum(1) for g in found.values()).numpy()


def ours(task: Task, model: nn.Module, **settings) -> np.ndarray:
    """The library as it comes: what each sample did to its own loss."""
    found = da.influence(
        model, task.given("train"), task.given("queries"), measure="loss", **settings
    )
    return np.asarray(found.self_influence)


NOISE_RIVALS: dict[str, Contender] = {
    "loss": loss,
    "margin": margin,
    "EL2N": el2n,
    "TracIn": tracin,
    "kronfluence": lambda task, model: kronfluence(task, model, own=True),
    "kronfluence, its heuristic damping": lambda task, model: kronfluence(task, model, None, True),
}
# The library as it comes, and at one temperature of gradients and Hessian.
NOISE_OURS: dict[str, Contender] = {
    "ours": ours,
    **{f"ours, temperature {t}": partial(ours, temperature=float(t)) for t in (1, 2)},
}
