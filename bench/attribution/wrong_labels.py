"""Wrong labels found by self-influence: networks trained on samples of which a tenth is wrong.

A ResNet-20 that was trained on CIFAR-10, fine-tuned by AdamW on 600 of its test images, 60 with
another label, until it has learnt most of the wrong ones; and `NETWORKS`, those of `cases.py` and
three more. A contender gives [n], higher: more likely wrong. The temperature of self-influence was
chosen on "mlp", "mlp_adam", "mnist" and "mnist_long".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
import torch
from bench.attribution.cases import SETTINGS, Recipe, Setting, fitted
from bench.attribution.halves import ours_and_others
from bench.attribution.problems import (
    Batch,
    Problem,
    as_it_is,
    fashion,
    of_sets,
    small_cnn,
    standardised,
)
from bench.baselines import kronfluence
from bench.data import cifar10, folder, image_set
from bench.frame import Case, Contender, Row, Task
from bench.networks import Block, resnet20
from torch import nn
from torch.func import functional_call, grad, vmap

import datassay as da
from datassay.act import auroc
from datassay.data import load

RECIPE = Recipe("adamw", 3e-4, 32, epochs=8)
N, N_WRONG = 600, 60


@dataclass(frozen=True)
class Noisy:
    """A network that was trained on wrong labels, and which were wrong, [n] bool."""

    problem: Problem
    model: nn.Module
    wrong: np.ndarray


def fine_tuned(seed: int) -> Noisy:
    problem, wrong = photographs(seed)
    return Noisy(problem, fitted(problem, RECIPE, np.arange(N), seed), wrong)


def photographs(seed: int) -> tuple[Problem, np.ndarray]:
    """Images with some wrong labels, the network before fine-tuning, and which are wrong."""
    x, y, _ = cifar10("test")
    rng = np.random.default_rng(seed)
    kept = rng.permutation(len(x))[:N]
    wrong = np.zeros(N, dtype=bool)
    wrong[rng.permutation(N)[:N_WRONG]] = True
    given = np.where(wrong, (y[kept] + rng.integers(1, 10, N)) % 10, y[kept])
    train = image_set(x[kept], given, "cifar10", names=tuple("0123456789"))
    few = train.subset(np.arange(10))
    return of_sets(train, few, lambda seed: resnet20().requires_grad_(True)), wrong


@cache
def mnist() -> Problem:
    """The CNN of `fashion` on 1000 MNIST images."""
    train, _ = load(folder("mnist"))
    kept = np.sort(np.random.default_rng(0).permutation(len(train))[:1000])
    train = standardised(train.subset(kept), 0.1307, 0.3081)
    return of_sets(train, train.subset(np.arange(10)), small_cnn)


@cache
def fashion_resnet() -> Problem:
    """A ResNet-8 of width 8 with batch norm on 1000 Fashion-MNIST images, none moved."""

    def build(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return ResNet8()

    return replace(fashion(), build=build, augment=as_it_is)


class ResNet8(nn.Module):
    """Three residual blocks of widths 8, 16 and 32, 20 122 weights: [n, 1, h, w] → [n, 10]."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8))
        sizes = ((8, 8, 1), (8, 16, 2), (16, 32, 2))
        self.blocks = nn.Sequential(*(Block(*size) for size in sizes))
        self.last = nn.Linear(32, 10)

    def forward(self, x):
        """Logits."""
        return self.last(self.blocks(self.first(x).relu()).mean((2, 3)))


ADAM = Recipe("adamw", 0.003, 64, epochs=30, cosine=True)
NETWORKS: dict[str, Setting] = {
    **{n: SETTINGS[n] for n in ("mlp", "mlp_adam", "cnn", "cnn_long", "bert", "bert_lora")},
    "mnist": Setting(mnist, replace(ADAM, epochs=15)),
    "mnist_long": Setting(mnist, replace(ADAM, lr=0.01, epochs=60)),
    "resnet8": Setting(fashion_resnet, replace(ADAM, epochs=20)),
}


def spoilt(name: str, kind: str, seed: int) -> Noisy:
    """Draw wrong labels of a kind in a network's samples, and train it from the seed."""
    problem = NETWORKS[name].problem()
    true = problem.train["labels"].numpy()
    n, k = len(true), int(true.max()) + 1
    rng = np.random.default_rng(1000 + seed)
    wrong = np.zeros(n, dtype=bool)
    wrong[rng.permutation(n)[: n // 10]] = True
    moved = rng.integers(1, k, n) if kind == "uniform" else 1
    given = np.where(wrong, (true + moved) % k, true)
    sets = problem.sets
    if sets is not None:
        sets = (replace(sets[0], y=given.astype(sets[0].y.dtype)), sets[1])
    train = {**problem.train, "labels": torch.tensor(given)}
    problem = replace(problem, train=train, sets=sets)
    return Noisy(problem, fitted(problem, NETWORKS[name].recipe, np.arange(n), seed), wrong)


# Contenders. --------------------------------------------------------------------------------


def outputs(problem: Problem, model: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    rows = torch.arange(len(problem)).split(100)
    batches: list[Batch] = [{k: t[some] for k, t in problem.train.items()} for some in rows]
    with torch.no_grad():
        parts = [problem.logits(model, part) for part in batches]
    return torch.cat(parts), problem.train["labels"]


def loss(problem: Problem, model: nn.Module) -> np.ndarray:
    return nn.functional.cross_entropy(*outputs(problem, model), reduction="none").numpy()


def margin(problem: Problem, model: nn.Module) -> np.ndarray:
    """Largest other logit less that of the given label."""
    f, y = outputs(problem, model)
    given = nn.functional.one_hot(y, f.shape[1]).bool()
    return (f.masked_fill(given, -torch.inf).amax(1) - f[given]).numpy()


def el2n(problem: Problem, model: nn.Module) -> np.ndarray:
    """Length of the probabilities less the given label (Paul et al., 2021)."""
    f, y = outputs(problem, model)
    return (f.softmax(1) - nn.functional.one_hot(y, f.shape[1])).norm(dim=1).numpy()


def gradients(problem: Problem, model: nn.Module, chunk: int = 16) -> Callable:
    """Batch → each sample's loss gradient by weight, by torch.func."""
    weights = {name: w.detach() for name, w in model.named_parameters() if w.requires_grad}

    def of_one(weights, one):
        def called(*args, **kwargs):
            return functional_call(model, weights, args, kwargs)

        batch = {name: t[None] for name, t in one.items()}
        return nn.functional.cross_entropy(problem.logits(called, batch), batch["labels"])  # type: ignore

    each = vmap(grad(of_one), in_dims=(None, 0), chunk_size=chunk, randomness="different")
    return partial(each, weights)


def tracin(problem: Problem, model: nn.Module) -> np.ndarray:
    """Squared length of the loss gradient, at the last checkpoint; GraNd is its root."""
    result = gradients(problem, model)(problem.train)
    return sum(g.flatten(1).square().sum(1) for g in result.values()).numpy()


def ours(problem: Problem, model: nn.Module, **settings) -> np.ndarray:
    """The library as it comes: what each sample did to its own loss."""
    train, queries = problem.given("train"), problem.given("queries")
    return np.asarray(
        da.influence(model, train, queries, measure="loss", **settings).self_influence
    )


def asked(of: Callable, result: Noisy, seed: int) -> np.ndarray:
    return of(result.problem, result.model)


def judge(result: Noisy, answer: np.ndarray, seed: int) -> dict[str, float]:
    return {"AUROC": auroc(result.wrong, answer)}


def rows(lines: dict[str, dict]) -> Row:
    line = lines["attribution/wrong labels, ResNet-20"]
    reported = {name: f"{figures['auroc']:.2f}" for name, figures in line["contenders"].items()}
    what = f"fine-tuned ResNet-20, {line['wrong']} of {line['n']} labels wrong"
    return Row(f"Wrong labels by self-influence, {what}: AUROC", ours_and_others(reported))


def _cases() -> dict[str, Case]:
    cases = {"ResNet-20": Case(fine_tuned)}
    for name in NETWORKS:
        for kind in ("uniform", "pair")[: 1 if name.startswith("bert") else 2]:  # two classes: one
            cases[f"{name}, {kind}"] = Case(partial(spoilt, name, kind))
    return cases


TASK = Task(
    measure="wrong labels found by self-influence: AUROC",
    cases=_cases(),
    contenders={
        # The library as it comes, and at one temperature of gradients and Hessian.
        "ours": Contender(partial(asked, ours), "ours"),
        **{
            f"ours, temperature {t}": Contender(
                partial(asked, partial(ours, temperature=float(t))), "ours"
            )
            for t in (1, 2)
        },
        "loss": Contender(partial(asked, loss), "trivial"),
        "margin": Contender(partial(asked, margin), "trivial"),
        "EL2N": Contender(partial(asked, el2n)),
        "TracIn": Contender(partial(asked, tracin)),
        "kronfluence": Contender(partial(asked, kronfluence.own), needs="kronfluence"),
        "kronfluence, its heuristic damping": Contender(
            partial(asked, partial(kronfluence.own, damping=kronfluence.HEURISTIC)),
            needs="kronfluence",
        ),
    },
    judge=judge,
    repeats=3,
    rows=rows,
)
