"""Leave-one-out: does a score say how far predictions move when the sample is really left out?

The network is trained again without each of 30 samples; the truth is Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖² over
the test inputs. Full-batch descent on the squared error, as S1 has it: without noise of batches two
trainings differ by the sample alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import plain
import torch
from attribution_contenders import kronfluence, trak
from attribution_tasks import Task, batch_of
from cells import Case, Contender, Truth
from scipy.stats import pearsonr, spearmanr
from torch import nn
from truths.datamodelling import two_logits

from datassay.collect import collect
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.score import influence, leave_one_out
from datassay.train import Recipe, retrain, train_networks

REMOVED = 30
LR, STEPS = 0.05, 300
CASES = {
    "digits, MLP(128)": ("digits", 200, "mlp:width=128", ()),
    "digits 4 vs 9, MLP(64)": ("digits", 200, "mlp:width=64", (4, 9)),
    "wine, MLP(32, 32)": ("wine", 130, "mlp:width=32,depth=2", ()),
    "synthetic, MLP(64)": ("synthetic", 200, "mlp:width=64", ()),
}
FULL = {
    "mnist 4 vs 9, MLP(512)": ("mnist", 1000, "mlp:width=512", (4, 9)),
    "fashion_mnist, MLP(64)": ("fashion_mnist", 600, "mlp:width=64", ()),
    # Narrow and trained far: where the linearised network must fail.
    "digits 4 vs 9, MLP(64), far": ("digits", 200, "mlp:width=64", (4, 9), 5000),
}


@dataclass(frozen=True)
class Removals:
    """Samples, network before and after training, and what really happened."""

    train: SampleSet
    queries: SampleSet
    start: nn.Module
    trained: nn.Module
    removed: np.ndarray
    change: np.ndarray
    steps: int


def made(
    name: str,
    n: int,
    network: str,
    classes: tuple[int, ...],
    steps: int = STEPS,
    *,
    seed: int,
) -> Removals:
    train, queries = plain.drawn(name, n, seed, classes)
    queries = queries.subset(np.arange(min(100, len(queries))))
    start = build_model(network, train, seed=seed)
    removed = np.random.default_rng((seed, 14)).choice(n, REMOVED, replace=False)
    real = retrain(start, train, queries, loss="mse", removed=removed, lr=LR, steps=steps)
    recipe = Recipe("sgd", LR, steps, None, loss="mse")
    networks = train_networks([start], train, torch.arange(n)[None], recipe)
    trained = build_model(network, train, seed=seed)
    trained.load_state_dict({name: w[0] for name, w in networks.state.items()})
    return Removals(train, queries, start, trained.eval(), removed, real.prediction_change, steps)


def _seeded(how: tuple, seed: int) -> Removals:
    return made(*how, seed=seed)


def linearised(cell: Removals, seed: int) -> np.ndarray:
    lin = collect(cell.start, cell.train, cell.queries)
    run = {"lr": LR, "steps": cell.steps, "reduction": "mean", "dynamics": "descent"}
    return leave_one_out(lin, **run).prediction_change


def at_trained_weights(cell: Removals, seed: int) -> np.ndarray:
    found = influence(
        cell.trained, cell.train, cell.queries, loss="mse", measure="output", curvature="whole"
    )
    return found.prediction_change


def trivial(of, cell: Removals, seed: int) -> np.ndarray:
    return of(cell.train, seed)


def own_loss(cell: Removals, seed: int) -> np.ndarray:
    """The final loss of the trained network itself."""
    with torch.no_grad():
        outputs = cell.trained(torch.as_tensor(cell.train.x).float())
    targets = _targets(cell.train, outputs.shape[1])
    return (outputs - targets).square().sum(1).numpy()


def _targets(samples: SampleSet, outputs: int) -> torch.Tensor:
    y = torch.as_tensor(samples.y)
    return y[:, None].float() if outputs == 1 else nn.functional.one_hot(y, outputs).float()


def squared(of, cell: Removals, seed: int) -> np.ndarray:
    """Effects on margins, squared and summed over the test inputs."""
    task = Task(
        batch_of(cell.train), batch_of(cell.queries), np.arange(len(cell.train)),
        lambda _: cell.trained, two_logits, sets=(cell.train, cell.queries),
    )  # fmt: skip
    return np.square(of(task, cell.trained)).sum(1)


def judge(cell: Removals, answer: np.ndarray, seed: int) -> dict[str, float]:
    score = answer[cell.removed]
    return {
        "Pearson": float(pearsonr(score, cell.change)[0]),
        "Spearman": float(spearmanr(score, cell.change)[0]),
    }


TRUTH = Truth(
    measure="correlation with what really leaving a sample out changes",
    cases={
        name: Case(partial(_seeded, how), quick=name in CASES)
        for name, how in (CASES | FULL).items()
    },
    contenders={
        "linearised, closed form": Contender(linearised, "ours"),
        "influence, whole curvature": Contender(at_trained_weights, "ours"),
        "final loss of this network": Contender(own_loss, "trivial"),
        **{
            name: Contender(partial(trivial, of), "trivial")
            for name, of in plain.TRIVIAL.items()
            if name != "final loss"
        },
        "kronfluence, effects squared": Contender(
            partial(squared, kronfluence), needs="kronfluence"
        ),
        "TRAK, effects squared": Contender(
            partial(squared, partial(trak, features=128)), needs="trak"
        ),
    },
    judge=judge,
)  # fmt: skip
