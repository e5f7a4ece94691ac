"""Linear datamodelling score (Park et al. 2023): do a half's summed effects predict its network?

Spearman's correlation, over random halves, of the margin that networks trained on the half reach
with the sum of the half's effects; mean over queries. The truth is a mean over networks of several
seeds; the bound is how well as many other networks of the same halves repeat it. Large networks,
texts and language models: `attribution.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import plain
import torch
from attribution_cases import summed
from attribution_contenders import kronfluence, nearness, ours, same_label, trak
from attribution_tasks import Batch, Task, batch_of, log_odds
from cells import Case, Contender, Truth
from scipy.stats import spearmanr
from torch import nn

from datassay.models import build_model
from datassay.train import Recipe, train_networks

HALVES, NETWORKS = 60, 3
# name → samples, network, recipe
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

    task: Task
    model: nn.Module
    halves: np.ndarray
    truth: np.ndarray
    again: np.ndarray


def made(name: str, n: int, network: str, recipe: Recipe, seed: int) -> Halves:
    """One network of all samples, and 2 x NETWORKS of each half."""
    train, queries = plain.drawn(name, n, seed)
    queries = queries.subset(np.arange(min(100, len(queries))))

    def build(which: int) -> nn.Module:
        return build_model(network, train, seed=which).requires_grad_(True)

    task = Task(
        batch_of(train), batch_of(queries), np.arange(n), build, two_logits, sets=(train, queries)
    )
    everything = torch.arange(n)[None]
    networks = train_networks([build(1000 * seed)], train, everything, recipe, seed=seed)
    model = build(0)
    model.load_state_dict({name: w[0] for name, w in networks.state.items()})
    rng = np.random.default_rng((seed, 13))
    halves = np.stack([np.sort(rng.permutation(n)[: n // 2]) for _ in range(HALVES)])
    found = [
        _margins([build(1000 * seed + s)] * HALVES, train, queries, halves, recipe, seed + s)
        for s in range(1, 2 * NETWORKS + 1)
    ]
    truth, again = np.mean(found[:NETWORKS], 0), np.mean(found[NETWORKS:], 0)
    return Halves(task, model.eval(), halves, truth, again)


def two_logits(model: nn.Module, batch: Batch) -> torch.Tensor:
    """A network of one logit, for two classes, as the rivals take it: 0 beside it."""
    outputs = model(batch["x"])
    return outputs if outputs.shape[-1] > 1 else nn.functional.pad(outputs, (1, 0))


def _margins(models, train, queries, halves, recipe, seed) -> np.ndarray:
    """[S, m]."""
    networks = train_networks(models, train, torch.as_tensor(halves), recipe, seed=seed)
    labels = torch.as_tensor(queries.y)
    outputs = networks.outputs(torch.as_tensor(queries.x).float())
    if outputs.shape[2] == 1:
        outputs = nn.functional.pad(outputs, (1, 0))
    return torch.stack([log_odds(one, labels) for one in outputs]).numpy()


def effects(of, cell: Halves, seed: int) -> np.ndarray:
    return of(cell.task, cell.model)


def loss_alone(task: Task, model: nn.Module) -> np.ndarray:
    """Each sample's loss, for queries of its label and against the others."""
    with torch.no_grad():
        loss = nn.functional.cross_entropy(
            task.logits(model, task.train), task.train["labels"], reduction="none"
        )
    return loss.numpy()[:, None] * same_label(task)


def label_alone(task: Task, model: nn.Module) -> np.ndarray:
    """For queries of its label, against the others."""
    return same_label(task)


def inputs_alike(task: Task, model: nn.Module) -> np.ndarray:
    """Nearness of inputs, by a Gaussian of the median distance, signed by the labels."""
    a, b = (part["x"].flatten(1) for part in (task.train, task.queries))
    apart = torch.cdist(a, b)
    return torch.exp(-((apart / apart.median()) ** 2) * 4).numpy() * same_label(task)


def tracin(task: Task, model: nn.Module) -> np.ndarray:
    """Captum's TracInCP of the last weights alone: the fall of the query's loss."""
    import tempfile

    from captum.influence import TracInCP
    from torch.utils.data import TensorDataset

    if model(task.train["x"][:1]).shape[1] == 1:
        model = nn.Sequential(model, nn.ZeroPad1d((1, 0)))
    data = TensorDataset(task.train["x"], task.train["labels"])
    with tempfile.NamedTemporaryFile(suffix=".pt") as file:
        torch.save(model.state_dict(), file.name)

        def load(net, path):
            net.load_state_dict(torch.load(path, weights_only=True))
            return 1.0

        found = TracInCP(
            model, data, [file.name], load, loss_fn=nn.CrossEntropyLoss(reduction="none"),
            batch_size=len(data), sample_wise_grads_per_batch=False,
        )  # fmt: skip
        return found.influence((task.queries["x"], task.queries["labels"])).T.numpy()


def ceiling(cell: Halves, seed: int) -> np.ndarray:
    return cell.again


def judge(cell: Halves, answer: np.ndarray, seed: int) -> dict[str, float]:
    """Mean over queries; of a query for which all halves are said to be alike it is 0."""
    # The bound answers with margins, not with effects.
    said = answer if answer.shape == cell.truth.shape else summed(answer, cell.halves)
    each = [
        0.0 if np.ptp(a) == 0 else spearmanr(a, b)[0]
        for a, b in zip(said.T, cell.truth.T, strict=True)
    ]
    return {"LDS": float(np.mean(each))}


TRUTH = Truth(
    measure="linear datamodelling score of one network's effects",
    cases={
        **{name: Case(partial(made, *how), quick=True) for name, how in CASES.items()},
        **{
            f"{name}, MLP(64), Adam": Case(
                partial(made, name, 1000, "mlp:width=64", Recipe("adam", 3e-3, 500, 64))
            )
            for name in ("mnist", "fashion_mnist")
        },
    },
    contenders={
        "influence": Contender(partial(effects, ours), "ours"),
        "loss alone": Contender(partial(effects, loss_alone), "trivial"),
        "label alone": Contender(partial(effects, label_alone), "trivial"),
        "inputs alike": Contender(partial(effects, inputs_alike), "trivial"),
        "last layer alike": Contender(partial(effects, nearness), "trivial"),
        "kronfluence": Contender(partial(effects, kronfluence), needs="kronfluence"),
        "kronfluence, its heuristic damping": Contender(
            partial(effects, partial(kronfluence, damping=None)), needs="kronfluence"
        ),
        # 128 is the least that its projection for CPUs takes.
        "TRAK, 128 features": Contender(
            partial(effects, partial(trak, features=128)), needs="trak"
        ),
        "captum, TracInCP": Contender(partial(effects, tracin), needs="captum"),
        "as many networks again": Contender(ceiling, "bound"),
    },
    judge=judge,
    # The damping of few samples.
    chosen_on=dict.fromkeys(("digits", "breast_cancer", "synthetic", "wine"), range(100, 103)),
)  # fmt: skip
