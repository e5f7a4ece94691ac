"""Leave-one-out: does a score say how far predictions move when the sample is really left out?

The network is trained again without each of 30 samples; the truth is Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖² over
the test inputs. Full-batch descent on the squared error, as S1 has it: without noise of batches two
trainings differ by the sample alone. The lines "truth/digits 4 vs 9, ..." of results.jsonl are the
cases "as loaded", with the weights judged too; "attribution/leave one out, digits" judges effects
on single queries of a network trained on cross-entropy (S1 Table 1: Pearson 0.993, MNIST 4 vs 9).
"""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from bench import data, detectors
from bench.attribution.problems import Problem, of_sets, two_logits
from bench.baselines import kronfluence, trak
from bench.frame import Case, Contender, Row, Task
from bench.networks import trained
from scipy.stats import pearsonr, spearmanr
from torch import nn

from datassay.collect import collect
from datassay.data import SampleSet, load
from datassay.models import build_model
from datassay.score import influence, leave_one_out
from datassay.train import Recipe, retrain


@dataclass(frozen=True)
class Setting:
    """Samples, network and training; lr None: half of the largest stable step."""

    name: str
    n: int
    network: str
    classes: tuple[int, ...] = ()
    steps: int = 300
    lr: float | None = 0.05
    removed: int = 30


QUICK = {
    "digits, MLP(128)": Setting("digits", 200, "mlp:width=128"),
    "digits 4 vs 9, MLP(64)": Setting("digits", 200, "mlp:width=64", (4, 9)),
    "wine, MLP(32, 32)": Setting("wine", 130, "mlp:width=32,depth=2"),
    "synthetic, MLP(64)": Setting("synthetic", 200, "mlp:width=64"),
}
FULL = {
    "mnist 4 vs 9, MLP(512)": Setting("mnist", 1000, "mlp:width=512", (4, 9)),
    "fashion_mnist, MLP(64)": Setting("fashion_mnist", 600, "mlp:width=64"),
    # Narrow and trained far: where the linearised network must fail.
    "digits 4 vs 9, MLP(64), far": Setting("digits", 200, "mlp:width=64", (4, 9), 5000),
    "digits 4 vs 9 as loaded, MLP(1024)": Setting(
        "loaded", 0, "mlp:width=1024", (4, 9), 1000, None, 100
    ),
    "digits 4 vs 9 as loaded, MLP(64), far": Setting(
        "loaded", 0, "mlp:width=64", (4, 9), 5000, None, 60
    ),
}


@dataclass(frozen=True)
class Removals:
    """Samples, network before and after training, its step size, and what really happened."""

    train: SampleSet
    queries: SampleSet
    start: nn.Module
    trained: nn.Module
    removed: np.ndarray
    change: np.ndarray
    steps: int
    lr: float


def as_loaded(classes: tuple[int, ...]) -> tuple[SampleSet, SampleSet]:
    """Two classes of digits as `load` gives them."""
    parts = []
    for part in load("digits", val_fraction=0.4):
        some = part.subset(np.flatnonzero(np.isin(part.y, classes)))
        y, names = np.searchsorted(classes, some.y), tuple(map(str, classes))
        parts.append(replace(some, y=y, class_names=names, kind="row"))
    return parts[0], parts[1]


def made(how: Setting, seed: int) -> Removals:
    if how.name == "loaded":
        train, queries = as_loaded(how.classes)
    else:
        train, queries = data.split(how.name, how.n, seed, how.classes)
        queries = queries.subset(np.arange(min(100, len(queries))))
    start = build_model(how.network, train, seed=seed)
    lr = how.lr
    if lr is None:
        lr = 0.5 * len(train) / float(torch.linalg.eigvalsh(collect(start, train).kernel)[-1])
    rng = np.random.default_rng((seed, 14))
    removed = rng.choice(len(train), how.removed, replace=False)
    real = retrain(start, train, queries, loss="mse", removed=removed, lr=lr, steps=how.steps)
    after = trained(start, train, Recipe("sgd", lr, how.steps, None, loss="mse"))
    return Removals(train, queries, start, after, removed, real.prediction_change, how.steps, lr)


def linearised(cell: Removals, seed: int) -> np.ndarray:
    lin = collect(cell.start, cell.train, cell.queries)
    run = {"lr": cell.lr, "steps": cell.steps, "reduction": "mean", "dynamics": "descent"}
    return leave_one_out(lin, **run).prediction_change


def at_trained_weights(cell: Removals, seed: int) -> np.ndarray:
    attribution = influence(
        cell.trained, cell.train, cell.queries, loss="mse", measure="output", curvature="whole"
    )
    return attribution.prediction_change


def trivial(of, cell: Removals, seed: int) -> np.ndarray:
    return of(cell.train, seed)


def self_influence_loss(cell: Removals, seed: int) -> np.ndarray:
    """The final loss of the trained network itself."""
    with torch.no_grad():
        outputs = cell.trained(torch.as_tensor(cell.train.x).float())
    y, k = torch.as_tensor(cell.train.y), outputs.shape[1]
    targets = y[:, None].float() if k == 1 else nn.functional.one_hot(y, k).float()
    return (outputs - targets).square().sum(1).numpy()


def squared(of, cell: Removals, seed: int) -> np.ndarray:
    """Effects on margins, squared and summed over the test inputs."""
    problem: Problem = of_sets(cell.train, cell.queries, lambda _: cell.trained, two_logits)
    return np.square(of(problem, cell.trained)).sum(1)


def judge(cell: Removals, answer: np.ndarray, seed: int) -> dict[str, float]:
    score = answer[cell.removed]
    return {
        "Pearson": float(pearsonr(score, cell.change)[0]),
        "Spearman": float(spearmanr(score, cell.change)[0]),
    }


def rows(lines: dict[str, dict]) -> list[Row]:
    loo = lines["attribution/leave one out, digits"]
    values = [loo[f"{name}_output"]["spearman"] for name in ("gauss_newton", "tracin")]
    return [
        *[
            Row(
                f"Digits 4 vs 9, MLP({x['width']}), {x['steps']} steps: prediction change against "
                f"{x['retrained']} real retrainings",
                f"Pearson {x['prediction_pearson']:.{digits}f}",
            )
            for width, digits in ((1024, 5), (64, 2))
            for x in [lines[f"truth/digits 4 vs 9, width {width}"]]
        ],
        Row(
            "Attribution of digits above against networks retrained without each of 100 samples, "
            "Spearman: Gauss-Newton (TracIn)",
            "{:.2f} ({:.2f})".format(*values),
            order=1,
        ),
    ]


TASK = Task(
    measure="correlation with what really leaving a sample out changes",
    cases={
        name: Case(partial(made, how), quick=name in QUICK) for name, how in (QUICK | FULL).items()
    },
    contenders={
        "linearised, closed form": Contender(linearised, "ours"),
        "influence, whole curvature": Contender(at_trained_weights, "ours"),
        "final loss of this network": Contender(self_influence_loss, "trivial"),
        **{
            name: Contender(partial(trivial, of), "trivial")
            for name, of in detectors.TRIVIAL.items()
            if name != "final loss"
        },
        "kronfluence, effects squared": Contender(
            partial(squared, kronfluence.effects), needs="kronfluence"
        ),
        "TRAK, effects squared": Contender(partial(squared, trak.effects), needs="trak"),
    },
    judge=judge,
    rows=rows,
)
