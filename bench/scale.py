"""All of Fashion-MNIST from files to page: seconds a stage, peak memory, and how time grows with n.

`python scale.py` runs n = 7500 to 60 000 (10 outputs, 10 000 validation images), each in a fresh
process, then fits the exponent. `python scale.py labels` adds 10 % wrong labels and, in the same
process, confident learning with 5-fold retraining of the same network. Sizes and settings can be
given: `python scale.py sizes 7500 15000 products=float64 projection=400 model=cnn`. What `run` does
beyond the scores is left out: retrained networks (`--curve-seeds 0`, as `datassay score` does) and
effects on single predictions, which "auto" leaves out at these sizes.

Set OMP_NUM_THREADS=2 on two idle cores; DATASSAY_DATA names the folder that holds fashion_mnist.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from record import peak_mib, record

SIZES = (7500, 15_000, 30_000, 60_000)
DEFAULTS = {"model": "mlp", "projection": "1787", "outputs": "averaged", "products": "auto"}
NOISE, FOLDS, EPOCHS, BATCH = 0.1, 5, 10, 64


class Stages:
    """A progress callback that adds up the seconds between calls by the step that reported."""

    def __init__(self):
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note a report."""
        now = time.perf_counter()
        self.seconds[step] = self.seconds.get(step, 0.0) + now - self._last
        self._last = now

    def lap(self, step: str) -> None:
        """The time since the last report belongs to this step."""
        self(step, 1, 1)


def samples(n: int, noise: float):
    """The first n of a fixed shuffle of the training images, and all test images."""
    from datassay.data import add_label_noise, load

    train, val = load(Path(os.environ["DATASSAY_DATA"]) / "fashion_mnist")
    order = np.random.default_rng(0).permutation(len(train))[:n]
    train = train.subset(np.sort(order))
    return (add_label_noise(train, noise, seed=0) if noise else train), val


def case(n: int, noise: float, given: dict[str, str]) -> dict[str, object]:
    """One run from files to page; what it took."""
    started = time.perf_counter()
    stages = Stages()
    from datassay.commands import RunSettings, run, write_results

    stages.lap("import")
    train, val = samples(n, noise)
    stages.lap("load")
    projection = None if given["projection"] == "none" else int(given["projection"])
    settings = RunSettings(curve_seeds=0, **{**given, "projection": projection})
    found = run(train, val, settings, stages)
    stages.lap("findings")
    with tempfile.TemporaryDirectory() as folder:
        page = write_results(found, Path(folder) / "out")
        size = page.stat().st_size
    stages.lap("page")
    figures = {
        "n": n,
        "m": len(val),
        "k": 10,
        "form": found.facts["Jacobian"],
        "scores": found.facts["Scores"],
        "influence": found.facts.get("Influence", ""),
        "seconds": time.perf_counter() - started,
        "stages": {name: round(s, 2) for name, s in stages.seconds.items()},
        "page_megabytes": size / 1e6,
        "peak_mib": peak_mib(),
    }
    return figures | (label_figures(train, found, given) if noise else {})


def label_figures(train, found, given: dict[str, str]) -> dict[str, object]:
    """How well the wrong labels are found, beside confident learning on the same labels."""
    from datassay.act import auroc

    wrong = train.y != train.true_y
    issues = found.issues
    started = time.perf_counter()
    probabilities = out_of_fold(train, given["model"])
    rival = {name: auroc(wrong, s) for name, s in confident_scores(probabilities, train.y).items()}
    return {
        "noise": NOISE,
        "auroc": auroc(wrong, issues.score),
        "precision": (issues.is_issue & wrong).sum() / issues.is_issue.sum(),
        "recall": (issues.is_issue & wrong).sum() / wrong.sum(),
        "confident_learning_seconds": time.perf_counter() - started,
        "confident_learning_accuracy": float((probabilities.argmax(1) == train.true_y).mean()),
        **{f"auroc_confident_{name}": value for name, value in rival.items()},
    }


def out_of_fold(train, model: str) -> np.ndarray:
    """Class probabilities of each sample by the network that did not see its fold, [n, k]."""
    import torch

    from datassay.models import build_model
    from datassay.train import Recipe, train_networks

    n = len(train)
    fold = np.random.default_rng(0).permutation(n) % FOLDS
    probabilities = np.empty((n, train.n_classes))
    kept = n - int((fold == 0).sum())
    recipe = Recipe(steps=EPOCHS * kept // BATCH, batch_size=BATCH)
    for f in range(FOLDS):
        subset = torch.as_tensor(np.flatnonzero(fold != f)[None])
        networks = train_networks([build_model(model, train, seed=f)], train, subset, recipe)
        x = torch.as_tensor(train.x[fold == f])
        parts = [networks.outputs(part)[0].softmax(1) for part in x.split(1000)]
        probabilities[fold == f] = torch.cat(parts).numpy()
    return probabilities


def confident_scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """Higher: more likely wrong. Northcutt et al. (2021) and cleanlab's label quality scores."""
    given = probabilities[np.arange(len(y)), y]
    others = probabilities.copy()
    others[np.arange(len(y)), y] = -1
    # Thresholds t_j of the confident joint: the mean probability of class j where j was given.
    threshold = np.array([probabilities[y == j, j].mean() for j in range(probabilities.shape[1])])
    adjusted = probabilities - threshold
    own = adjusted[np.arange(len(y)), y]
    rest = adjusted.copy()
    rest[np.arange(len(y)), y] = -2
    return {
        "self_confidence": -given,
        "margin": others.max(1) - given,
        "adjusted_margin": rest.max(1) - own,
    }


def fresh(n: int, noise: float, given: dict[str, str]) -> dict[str, object]:
    """The case in a process of its own."""
    command = [sys.executable, __file__, "case", json.dumps([n, noise, given])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: list[str]) -> None:
    given = DEFAULTS | dict(a.split("=", 1) for a in arguments if "=" in a)
    sizes = [int(a) for a in arguments if a.isdecimal()] or list(SIZES)
    if "labels" in arguments:
        record(f"scale/labels {given['model']}", **fresh(sizes[-1], NOISE, given))
        return
    seconds = []
    for n in sizes:
        figures = fresh(n, 0.0, given)
        seconds.append(figures["seconds"])
        record(f"scale/fashion {given['model']}", **figures)
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
        record("scale/exponent", sizes=sizes, seconds=seconds, exponent=exponent, **given)


if __name__ == "__main__":
    if sys.argv[1:2] == ["case"]:
        print(json.dumps(case(*json.loads(sys.argv[2])), default=float))
    else:
        main(sys.argv[1:])
