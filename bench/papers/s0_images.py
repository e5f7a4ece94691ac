"""VBSW on images: MNIST with LeNet-5, CIFAR-10 with a ResNet-20 (S0 Table 2, Fig. 3).

python papers/s0_images.py [mnist|cifar|figure ...]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import resnet20
import tasks
import torch
from figure import galleries
from record import record
from s0_gain import PAIR, best_mean_se, figures, halves, over_images, retrained, right, tuned
from s0_lenet import lenet

from datassay.act import HeadProblem, Weightings, head_problem, local_variance_weights
from datassay.data import SampleSet
from datassay.report import draw
from datassay.train import HeadRecipe

NETWORKS, EPOCHS, RETRAININGS = 5, 4, 10
RETRAINED = {"fresh": 8, "trained": 4}  # epochs of the last layer on MNIST; the paper: 25
MNIST_PAIRS = (PAIR, (20, 2.0), (20, 5.0))
CIFAR_PAIRS = tuple((k, m) for k in (10, 20, 50) for m in (2.0, 5.0, 40.0))
CIFAR_EPOCHS = 10
CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
PARTS = ("train_cat_deer_dog", "train_other7")
SEEDS = tuple(range(RETRAININGS))
SHOWN = 10


def image_set(x: np.ndarray, y: np.ndarray, names: tuple[str, ...], name: str) -> SampleSet:
    """Images under their positions."""
    return SampleSet(x, y, np.arange(len(y)), names, kind="image", name=name)


def mnist_sets() -> tuple[SampleSet, SampleSet]:
    """All of MNIST."""
    digits = tuple(map(str, range(10)))
    train, test = (tasks.idx_images("mnist", part) for part in ("train", "test"))
    return image_set(*train, digits, "mnist"), image_set(*test, digits, "mnist")


def cifar_sets() -> tuple[SampleSet, SampleSet]:
    """The training images in the folder, 5000 each of three classes and 1000 of the rest."""
    train, test = tasks.cifar10(*PARTS)[:2], tasks.cifar10("test")[:2]
    return image_set(*train, CLASSES, "cifar10"), image_set(*test, CLASSES, "cifar10")


def mnist(starts: Sequence[str] = tuple(RETRAINED)) -> None:
    train, test = mnist_sets()
    networks = [lenet(train, seed, EPOCHS, "mnist") for seed in range(NETWORKS)]
    began = time.perf_counter()
    recipes = [HeadRecipe(start=start, epochs=RETRAINED[start]) for start in starts]
    cells = [retrained(n, train, test, MNIST_PAIRS, recipes, RETRAININGS) for n in networks]
    for start, some in zip(starts, zip(*cells, strict=True), strict=True):
        record(
            f"s0_images/mnist {start}",
            n=len(train),
            networks=NETWORKS,
            retrainings=RETRAININGS,
            **figures(some),
            **tuned(some, MNIST_PAIRS),
            seconds=time.perf_counter() - began,
        )


def cifar() -> None:
    train, test = cifar_sets()
    problem, features = as_published(resnet20.trained(), train, test)
    counts = np.bincount(train.y)
    few = np.sort(
        np.concatenate([
            np.random.default_rng(0).permutation(np.flatnonzero(train.y == c))[: counts.min()]
            for c in range(len(counts))
        ])
    )
    balanced = replace(
        problem,
        features=problem.features[few],
        targets=problem.targets[few],
        labels=train.y[few],
    )
    for name, case, factor in (
        ("all", problem, np.ones(len(train))),
        ("1000 a class", balanced, np.ones(len(few))),
        ("class-balanced", problem, 1 / counts[train.y]),
    ):
        for start in ("fresh", "trained"):
            held_out_gain(f"{name}, {start}", case, factor, start, features, test.y)


def as_published(
    network: torch.nn.Module, train: SampleSet, test: SampleSet
) -> tuple[HeadProblem, torch.Tensor]:
    """S0's settings with nothing chosen, and the seconds of each part: waited, and of one core."""
    clock = [now()]
    problem = head_problem(network, train)
    clock.append(now())
    vbsw = local_variance_weights(problem.features.double().numpy(), train.y, *PAIR)
    clock.append(now())
    weights = np.stack([np.full(len(train), 1 / len(train)), vbsw])
    trained = problem.train(weights, HeadRecipe(), seeds=SEEDS)
    clock.append(now())
    parts = np.diff(clock, axis=0)
    features = problem.head.features(test)
    hits = right(trained, features, test.y)
    before = problem.head.outputs(features).argmax(1).numpy() == test.y
    record(
        "s0_images/cifar as published",
        n=len(train),
        **gains(before, hits[:, 0], hits[:, 1]),
        constant_neighbourhoods=int((vbsw == vbsw.min()).sum()),
        weight_share_of_heaviest_tenth=float(np.sort(vbsw)[-len(vbsw) // 10 :].sum()),
        seconds=dict(zip(("features", "weights", "retraining"), parts.tolist(), strict=True)),
        seconds_of_all=parts.sum(0),
    )
    return problem, features


def now() -> tuple[float, float]:
    """Seconds on the wall and of this process."""
    return time.perf_counter(), time.process_time()


def held_out_gain(
    name: str,
    problem: HeadProblem,
    factor: np.ndarray,
    start: str,
    features: torch.Tensor,
    y: np.ndarray,
) -> None:
    """k, m and each layer's epoch chosen on one half of the test images, gains on the other."""
    began, choose = time.perf_counter(), halves(len(y))
    weightings = Weightings(problem, max(k for k, _ in CIFAR_PAIRS), "auto")
    weights = factor * np.stack([np.ones(len(factor)), *(weightings(*p) for p in CIFAR_PAIRS)])
    one_hot = torch.nn.functional.one_hot(torch.as_tensor(y[choose]), len(CLASSES))
    stopped = replace(problem, val=(features[choose], one_hot.float()))
    recipe = HeadRecipe(start=start, epochs=CIFAR_EPOCHS, patience=CIFAR_EPOCHS)
    trained = stopped.train(weights, recipe, seeds=SEEDS)
    score = stopped.scores(trained)
    best = int(score[1:].argmax())
    held, target = features[~choose], y[~choose]
    before = problem.head.outputs(held).argmax(1).numpy() == target
    hits = right(trained, held, target)
    record(
        f"s0_images/cifar {name}",
        n=len(factor),
        chosen=f"k {CIFAR_PAIRS[best][0]}, m {CIFAR_PAIRS[best][1]:g}",
        chosen_half=[100 * float(score[0]), 100 * float(score[1 + best])],
        epochs=[trained.epoch[:, j].double().mean().item() for j in (0, 1 + best)],
        **gains(before, hits[:, 0], hits[:, 1 + best]),
        accuracy_by_pair=(100 * hits.mean((0, 2))).round(2).tolist(),
        seconds=time.perf_counter() - began,
    )


def gains(before: np.ndarray, uniform: np.ndarray, vbsw: np.ndarray) -> dict[str, object]:
    """Accuracy and gains of one network's retrainings; intervals of 95 % over images."""
    return {
        "baseline": 100 * before.mean(),
        "uniform": best_mean_se(100 * uniform.mean(1)),
        "vbsw": best_mean_se(100 * vbsw.mean(1)),
        "uniform_gain": over_images(uniform.mean(0) - before),
        "vbsw_gain": over_images(vbsw.mean(0) - before),
        "vbsw_minus_uniform": over_images(vbsw.mean(0) - uniform.mean(0)),
        "uniform_s0_gain": 100 * float(uniform.mean(1).max() - before.mean()),
        "vbsw_s0_gain": 100 * float(vbsw.mean(1).max() - before.mean()),
    }


def figure() -> None:
    """The heaviest samples under the first LeNet-5 and under the ResNet-20."""
    mnist_train, cifar_train = mnist_sets()[0], cifar_sets()[0]
    rows = {}
    for network, train in (
        (lenet(mnist_train, 0, EPOCHS, "mnist"), mnist_train),
        (resnet20.trained(), cifar_train),
    ):
        features = head_problem(network, train).features.double().numpy()
        order = np.argsort(-local_variance_weights(features, train.y, *PAIR), kind="stable")
        for title, some in (("heaviest", order[:SHOWN]), ("at random", _random(len(train)))):
            pictures = draw(train, some)
            rows[f"{train.name}, {title}"] = [
                (p.image, train.class_names[train.y[i]])
                for p, i in zip(pictures, some, strict=True)
            ]
    galleries("s0_heavy_samples", "S0 Fig. 3: heaviest training samples", rows)


def _random(n: int) -> np.ndarray:
    return np.random.default_rng(0).choice(n, SHOWN, replace=False)


if __name__ == "__main__":
    steps = {"mnist": mnist, "cifar": cifar, "figure": figure}
    for step in sys.argv[1:] or steps:
        steps[step]()
