"""S1 Table 1: the linearised network and influence functions against real retraining.

MNIST 4 vs 9 with 1000 training and 1000 validation samples: an MLP, a convolutional network from
scratch, and the same pretrained on EMNIST letters (the paper's own weights). Pearson correlation of
‖w − w₋ᵢ‖² and Σ_j ‖f(x_j) − f₋ᵢ(x_j)‖² with retraining without each of a random subset of samples.

Retraining takes hours for the convolutional networks: `--only retrain` fills the store, which any
number of calls continue, `--worker 0/2` does every second sample.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from paper_data import mnist_pair, real_data
from torch import nn

from datassay.collect.retrain import retrain
from datassay.data.samples import SampleSet
from datassay.models.networks import cnn, mlp

N_RETRAINED = 40


@dataclass(frozen=True)
class Task:
    """One column of the table at one weight decay, with the paper's own figures."""

    name: str
    network: str
    lr: float
    steps: int
    weight_decay: float  # λ of S1's sum loss
    paper: tuple[float, float, float, float]  # lin. weights, lin. predictions, infl. ..., infl. ...

    @property
    def run(self) -> dict:
        """S1 prints λ; its code applies it to the mean loss (REFERENCE.md)."""
        return {
            "lr": self.lr,
            "steps": self.steps,
            "weight_decay": self.weight_decay,
            "reduction": "mean",
        }


TASKS = [
    Task("mlp", "mlp", 1e-3, 2000, 0.0, (0.987, 0.993, 0.935, 0.920)),
    Task("cnn pretrained", "pretrained", 2e-3, 1000, 0.0, (0.870, 0.875, 0.736, 0.770)),
    Task("mlp, decay", "mlp", 1e-3, 2000, 1e-3, (0.977, 0.993, 0.978, 0.990)),
    Task("cnn pretrained, decay", "pretrained", 2e-3, 1000, 1e-3, (0.964, 0.974, 0.979, 0.954)),
    Task("cnn scratch", "scratch", 1e-2, 1000, 0.0, (0.193, 0.033, 0.319, 0.647)),
    Task("cnn scratch, decay", "scratch", 1e-2, 1000, 1e-3, (-0.012, 0.070, 0.069, 0.407)),
]


def network(task: Task) -> nn.Module:
    torch.manual_seed(0)
    if task.network == "mlp":
        return mlp((28, 28), 1, width=1024)
    model = cnn((28, 28), 1)
    if task.network == "pretrained":
        letters = np.load(real_data() / "emnist_letters_cnn" / "cnn4_letters.npz")
        layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)][:-1]
        with torch.no_grad():
            for layer, key in zip(layers, (0, 2, 4, 6, 9), strict=True):
                layer.weight.copy_(torch.as_tensor(letters[f"{key}.weight"]))
                layer.bias.copy_(torch.as_tensor(letters[f"{key}.bias"]))
    return model


def truth(task: Task, train: SampleSet, val: SampleSet, removed: np.ndarray, store: Path):
    folder = store / task.name.replace(", ", "_").replace(" ", "_")

    def show(step: str, done: int, total: int) -> None:
        if done % 100 == 0:
            print(f"{task.name}: {step}, {done} of {total} updates", flush=True)

    return retrain(
        network(task), train, val, **task.run, removed=removed, store=folder, progress=show
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=[t.name for t in TASKS[:2]])
    parser.add_argument("--store", type=Path, default=Path("table1_store"))
    parser.add_argument("--only", choices=["retrain"])
    parser.add_argument("--worker", default="0/1", help="which share of the samples: 0/2, 1/2")
    settings = parser.parse_args()
    train, val = mnist_pair(4, 9, n=1000, m=1000, seed=0)
    share, of = map(int, settings.worker.split("/"))
    removed = np.random.default_rng(0).choice(len(train), N_RETRAINED, replace=False)
    for task in TASKS:
        if task.name in settings.tasks:
            truth(task, train, val, removed[share::of], settings.store)


if __name__ == "__main__":
    main()
