"""Linear datamodelling score (Park et al. 2023): do a half's summed effects predict its network?

Spearman's correlation, over random halves, of the margin that networks trained on the half reach
with the sum of the half's effects; mean over queries. The truth is a mean over networks of several
seeds; the bound is how well as many other networks of the same halves repeat it. Cases "its run"
ask for this network alone: trained again from the same weights in the same batches without a half
or a tenth of the samples; its bound is 1. Large networks, texts and language models:
`attribution/halves.py`.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from bench import data
from bench.attribution import problems
from bench.attribution.problems import Problem, lds, log_odds, of_sets, two_logits
from bench.baselines import captum, kronfluence, trak
from bench.frame import Case, Contender, Task
from bench.networks import trained
from torch import nn

from datassay.models import build_model
from datassay.train import Recipe, train_networks

HALVES, NETWORKS = 60, 3
# name → samples, network, recipe
OWN_RUNS = {
    "MLP(32, 32), SGD": ("mlp:width=32,depth=2", Recipe("sgd", 0.1, 400, 32)),
    "MLP(64), Adam": ("mlp:width=64", Recipe("adam", 1e-3, 300, 32)),
}
CASES = {
    "digits, MLP(32, 32), SGD": (
        "digits", 400, "mlp:width=32,depth=2", Recipe("sgd", 0.1, 400, 32)
    ),
    "digits, MLP(64), Adam": ("digits", 400, "mlp:width=64", Recipe("adam", 3e-3, 300, 32)),
    "breast_cancer, MLP(32), Adam": (
        "breast_cancer", 300, "mlp:width=32", Recipe("adam", 3e-3, 200, 32)
    ),
    "synthetic, MLP(64), Adam": ("synthetic", 400, "mlp:width=64", Recipe("adam", 3e-3, 300, 32)),
}  # fmt: skip


@dataclass(frozen=True)
class Halves:
    """What contenders are given, and the truth."""

    problem: Problem
    model: nn.Module
    halves: np.ndarray
    truth: np.ndarray
    again: np.ndarray
    run: dict  # how the network was trained, as method "replay" takes it


def made(name: str, n: int, network: str, recipe: Recipe, seed: int, left: float = 0) -> Halves:
    """One network of all samples, and 2 x NETWORKS of each half.

    left: the share that its own run leaves out, which is the truth then; 0: halves, other seeds.
    """
    train, queries = data.split(name, n, seed)
    queries = queries.subset(np.arange(min(100, len(queries))))

    def build(which: int) -> nn.Module:
        return build_model(network, train, seed=which).requires_grad_(True)

    problem = of_sets(train, queries, build, two_logits)
    run = {"start": build(1000 * seed), "recipe": recipe, "seed": seed}
    model = trained(run["start"], train, recipe, seed)
    rng = np.random.default_rng((seed, 13))
    size = round(n * (1 - (left or 0.5)))
    halves = np.stack([np.sort(rng.permutation(n)[:size]) for _ in range(HALVES)])
    if left:
        truth = np.concatenate([_without(run, train, queries, half) for half in halves])
        return Halves(problem, model, halves, truth, truth, run)
    results = [
        _margins([build(1000 * seed + s)] * HALVES, train, queries, halves, recipe, seed + s)
        for s in range(1, 2 * NETWORKS + 1)
    ]
    truth, again = np.mean(results[:NETWORKS], 0), np.mean(results[NETWORKS:], 0)
    return Halves(problem, model, halves, truth, again, run)


def _without(run, train, queries, half) -> np.ndarray:
    """The margins [1, m] of a run in which samples outside the half weigh nothing."""
    weight = torch.zeros(len(train)).index_fill(0, torch.as_tensor(half), 1.0)
    everyone = np.arange(len(train))[None]
    return _margins(
        [run["start"]], train, queries, everyone, run["recipe"], run["seed"], sample_weight=weight
    )


def _margins(models, train, queries, halves, recipe, seed, **weighted) -> np.ndarray:
    networks = train_networks(models, train, torch.as_tensor(halves), recipe, seed=seed, **weighted)
    labels = torch.as_tensor(queries.y)
    outputs = networks.outputs(torch.as_tensor(queries.x).float())
    if outputs.shape[2] == 1:
        outputs = nn.functional.pad(outputs, (1, 0))
    return torch.stack([log_odds(one, labels) for one in outputs]).numpy()


def effects(of, cell: Halves, seed: int) -> np.ndarray:
    return of(cell.problem, cell.model)


def replay(cell: Halves, seed: int) -> np.ndarray:
    """Effects through the network's own run, of which it predicts what happens."""
    return problems.ours(cell.problem, cell.model, method="replay", check=False, **cell.run)


def loss_alone(problem: Problem, model: nn.Module) -> np.ndarray:
    """Each sample's loss, for queries of its label and against the others."""
    with torch.no_grad():
        loss = nn.functional.cross_entropy(
            problem.logits(model, problem.train), problem.train["labels"], reduction="none"
        )
    return loss.numpy()[:, None] * problems.same_label(problem)


def label_alone(problem: Problem, model: nn.Module) -> np.ndarray:
    """For queries of its label, against the others."""
    return problems.same_label(problem)


def inputs_alike(problem: Problem, model: nn.Module) -> np.ndarray:
    """Nearness of inputs, by a Gaussian of the median distance, signed by the labels."""
    a, b = (part["x"].flatten(1) for part in (problem.train, problem.queries))
    apart = torch.cdist(a, b)
    alike = torch.exp(-((apart / apart.median()) ** 2) * 4).numpy()
    return alike * problems.same_label(problem)


def ceiling(cell: Halves, seed: int) -> np.ndarray:
    return cell.again


def judge(cell: Halves, answer: np.ndarray, seed: int) -> dict[str, float]:
    """The bound answers with margins, not with effects."""
    reported = answer if answer.shape == cell.truth.shape else problems.summed(answer, cell.halves)
    return {"LDS": lds(reported, cell.truth)}


TASK = Task(
    measure="linear datamodelling score of one network's effects",
    cases={
        **{name: Case(partial(made, *how), quick=True) for name, how in CASES.items()},
        **{
            f"{name}, MLP(64), Adam": Case(
                partial(made, name, 1000, "mlp:width=64", Recipe("adam", 3e-3, 500, 64))
            )
            for name in ("mnist", "fashion_mnist")
        },
        **{
            f"digits, {name}, its run, {left:g} left out": Case(
                partial(made, "digits", 400, *how, left=left)
            )
            for name, how in OWN_RUNS.items()
            for left in (0.1, 0.5)
        },
    },
    contenders={
        "influence": Contender(partial(effects, problems.ours), "ours"),
        "influence, replay": Contender(replay, "ours", cases="*its run*"),
        "loss alone": Contender(partial(effects, loss_alone), "trivial"),
        "label alone": Contender(partial(effects, label_alone), "trivial"),
        "inputs alike": Contender(partial(effects, inputs_alike), "trivial"),
        "last layer alike": Contender(partial(effects, problems.nearness), "trivial"),
        "kronfluence": Contender(partial(effects, kronfluence.effects), needs="kronfluence"),
        "kronfluence, its heuristic damping": Contender(
            partial(effects, partial(kronfluence.effects, damping=kronfluence.HEURISTIC)),
            needs="kronfluence",
        ),
        # 128 is the least that its projection for CPUs takes.
        "TRAK, 128 features": Contender(partial(effects, trak.effects), needs="trak"),
        "captum, TracInCP": Contender(partial(effects, captum.tracin), needs="captum"),
        "as many networks again": Contender(ceiling, "bound"),
    },
    judge=judge,
    # The damping of few samples.
    chosen_on=dict.fromkeys(("digits", "breast_cancer", "synthetic", "wine"), range(100, 103)),
)
