"""VBSW on images: MNIST with LeNet-5, CIFAR-10 with a ResNet-20 (S0 Table 2, Fig. 3)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from bench.data import CIFAR_TRAIN, cifar10, idx_images, image_set, kept, work
from bench.frame import Case, Options, Row, Task
from bench.networks import resnet20
from bench.papers.figure import galleries
from bench.papers.s0_gain import PAIR, figures, halves, over_images, retrained, right, tuned
from bench.stats import best_mean_error
from torch import nn
from torch.nn.functional import cross_entropy

from datassay.act import HeadProblem, Weightings, head_problem, local_variance_weights
from datassay.data import SampleSet
from datassay.models import lenet5
from datassay.report import draw
from datassay.train import HeadRecipe

BATCH, LR = 128, 2e-3
NETWORKS, EPOCHS, RETRAININGS = 5, 4, 10
RETRAINED = {"fresh": 8, "trained": 4}  # epochs of the last layer on MNIST; the paper: 25
MNIST_PAIRS = (PAIR, (20, 2.0), (20, 5.0))
CIFAR_PAIRS = tuple((k, m) for k in (10, 20, 50) for m in (2.0, 5.0, 40.0))
CIFAR_EPOCHS = 10
CLASSES = tuple("airplane automobile bird cat deer dog frog horse ship truck".split())
SEEDS = tuple(range(RETRAININGS))
SHOWN = 10


def lenet(samples: SampleSet, seed: int) -> nn.Module:
    """LeNet-5 trained by Adam, its rate falling in a line from 0.002 to 0; kept."""
    torch.manual_seed(seed)
    model = lenet5(samples.input_shape, samples.n_classes)

    def learnt() -> dict[str, np.ndarray]:
        x, y = torch.as_tensor(samples.x), torch.as_tensor(samples.y)
        optimizer = torch.optim.Adam(model.parameters(), LR, fused=True)
        steps = EPOCHS * -(-len(x) // BATCH)
        rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
                rate.step()
        return {name: t.numpy() for name, t in model.state_dict().items()}

    state = kept(work() / f"lenet_{samples.name}_{seed}.npz", learnt)
    model.load_state_dict({name: torch.as_tensor(t) for name, t in state.items()})
    return model.eval()


def mnist_sets() -> tuple[SampleSet, SampleSet]:
    """All of MNIST."""
    train, test = (image_set(*idx_images("mnist", part), "mnist") for part in ("train", "test"))
    return train, test


def cifar_sets() -> tuple[SampleSet, SampleSet]:
    """The training images in the folder, 5000 each of three classes and 1000 of the rest."""
    parts = (cifar10(*CIFAR_TRAIN), cifar10("test"))
    train, test = (image_set(x, y, "cifar10", names=CLASSES) for x, y, _ in parts)
    return train, test


def mnist(start: str, options: Options) -> dict[str, object]:
    train, test = mnist_sets()
    recipes = [HeadRecipe(start=start, epochs=RETRAINED[start])]
    networks = (lenet(train, seed) for seed in range(NETWORKS))
    cells = [retrained(n, train, test, MNIST_PAIRS, recipes, RETRAININGS)[0] for n in networks]
    return {"n": len(train), "networks": NETWORKS, "retrainings": RETRAININGS, **figures(cells),
            **tuned(cells, MNIST_PAIRS)}  # fmt: skip


def cifar(options: Options) -> Iterator[tuple[str, dict]]:
    train, test = cifar_sets()
    problem, features, published = as_published(resnet20(), train, test)
    yield "cifar as published", published
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
            yield f"cifar {name}, {start}", held_out_gain(case, factor, start, features, test.y)


def as_published(
    network: torch.nn.Module, train: SampleSet, test: SampleSet
) -> tuple[HeadProblem, torch.Tensor, dict]:
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
    return problem, features, {
        "n": len(train), **gains(before, hits[:, 0], hits[:, 1]),
        "constant_neighbourhoods": int((vbsw == vbsw.min()).sum()),
        "weight_share_of_heaviest_tenth": float(np.sort(vbsw)[-len(vbsw) // 10 :].sum()),
        "seconds": dict(zip(("features", "weights", "retraining"), parts.tolist(), strict=True)),
        "seconds_of_all": parts.sum(0),
    }  # fmt: skip


def now() -> tuple[float, float]:
    """Seconds on the wall and of this process."""
    return time.perf_counter(), time.process_time()


def held_out_gain(
    problem: HeadProblem,
    factor: np.ndarray,
    start: str,
    features: torch.Tensor,
    y: np.ndarray,
) -> dict[str, object]:
    """k, m and each layer's epoch chosen on one half of the test images, gains on the other."""
    choose = halves(len(y))
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
    return {
        "n": len(factor), "chosen": f"k {CIFAR_PAIRS[best][0]}, m {CIFAR_PAIRS[best][1]:g}",
        "chosen_half": [100 * float(score[0]), 100 * float(score[1 + best])],
        "epochs": [trained.epoch[:, j].double().mean().item() for j in (0, 1 + best)],
        **gains(before, hits[:, 0], hits[:, 1 + best]),
        "accuracy_by_pair": (100 * hits.mean((0, 2))).round(2).tolist(),
    }  # fmt: skip


def gains(before: np.ndarray, uniform: np.ndarray, vbsw: np.ndarray) -> dict[str, object]:
    """Accuracy and gains of one network's retrainings; intervals of 95 % over images."""
    return {
        "baseline": 100 * before.mean(),
        "uniform": best_mean_error(100 * uniform.mean(1)),
        "vbsw": best_mean_error(100 * vbsw.mean(1)),
        "uniform_gain": over_images(uniform.mean(0) - before),
        "vbsw_gain": over_images(vbsw.mean(0) - before),
        "vbsw_minus_uniform": over_images(vbsw.mean(0) - uniform.mean(0)),
        "uniform_s0_gain": 100 * float(uniform.mean(1).max() - before.mean()),
        "vbsw_s0_gain": 100 * float(vbsw.mean(1).max() - before.mean()),
    }


def figure(options: Options) -> None:
    """The heaviest samples under the first LeNet-5 and under the ResNet-20."""
    mnist_train, cifar_train = mnist_sets()[0], cifar_sets()[0]
    rows = {}
    for network, train in (
        (lenet(mnist_train, 0), mnist_train),
        (resnet20(), cifar_train),
    ):
        features = head_problem(network, train).features.double().numpy()
        order = np.argsort(-local_variance_weights(features, train.y, *PAIR), kind="stable")
        some_at_random = np.random.default_rng(0).choice(len(train), SHOWN, replace=False)
        for title, some in (
            ("heaviest", order[:SHOWN]),
            ("at random", some_at_random),
        ):
            pictures = draw(train, some)
            rows[f"{train.name}, {title}"] = [
                (p.image, train.class_names[train.y[i]])
                for p, i in zip(pictures, some, strict=True)
            ]
    galleries("s0_heavy_samples", "S0 Fig. 3: heaviest training samples", rows)


def rows(lines: dict[str, dict]) -> list[Row]:
    mnist, bias = lines["s0_images/mnist fresh"], lines["papers/s0_active_bias"]
    values = [mnist[name][1] for name in ("baseline", "vbsw_all", "uniform_all")]
    values += [bias[name][1] for name in ("vanilla", "vanilla_vbsw", "vanilla_uniform")]
    return [
        Row(
            "LeNet-5, accuracy in %: as trained, last layer retrained with these weights (and "
            "without): all of MNIST; 10 000 images of Fashion-MNIST",
            "{:.2f}, {:.2f} ({:.2f}); {:.2f}, {:.2f} ({:.2f})".format(*values),
            bench="papers/s0_images.py, papers/s0_active_bias.py",
        )
    ]


TASK = Task(
    measure="S0 Table 2 and Fig. 3: last layers retrained under weights",
    cases={
        **{f"mnist {start}": Case(partial(mnist, start)) for start in RETRAINED},
        "cifar": Case(cifar),
        "figure": Case(figure),
    },
    lines="s0_images/",
    rows=rows,
)
