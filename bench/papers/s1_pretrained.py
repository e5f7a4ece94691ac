"""S1 with pretrained networks of today: Table 1, Figs 1, 2a, 5a, 8b and 9, five seeds.

S1 fine-tunes a ResNet-18 and a ResNet-50 of ImageNet. Here a network with one hidden layer of 128
learns on features of EfficientNet-Lite0 (ImageNet; cats and dogs, digits of three sources) or of
MiniLM (sentences of SST-2), and the last three blocks of a ResNet-20 of CIFAR-10 are fine-tuned on
cats and dogs with a new head; its batch norms are part of the convolutions. Targets and squared
errors, full batches at half of the largest stable step, as `leave_one_out` has it, are S1's.

"table": real retraining without each of 20 samples (fine-tuned 8); influence by conjugate gradients
at S1's damping of 10 and at a tenth of the largest eigenvalue of the linearised loss; seconds for
all samples, LiSSA's from its first two (not fine-tuned). Options: --repeats, --seed, `--set n=300
steps=400`.
"""

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise

import numpy as np
import torch
from bench import data
from bench.frame import Case, Options, Task
from bench.networks import DEVIATION, MEAN, resnet20, trained
from bench.stats import interval
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from datassay.collect import Backbone, collect
from datassay.data import SampleSet
from datassay.errors import SettingError
from datassay.models import lenet5, mlp
from datassay.score import influence, leave_one_out, sample_information
from datassay.train import Recipe, retrain

Sets = tuple[SampleSet, SampleSet]
WIDTH, LISSA = 128, {"depth": 1000, "scale": 1000.0, "batch_size": 128}
SOURCES = ("MNIST", "USPS", "EMNIST", "MNIST at 16 pixels", "MNIST on photographs")


# Samples. ---------------------------------------------------------------------------------------


def lite0(name: str, images: Callable[[], tuple[np.ndarray, np.ndarray]]) -> SampleSet:
    """All images of a pool as standardised features."""

    def compute() -> dict[str, np.ndarray]:
        x, y = images()
        return {"features": Backbone("lite0")(data.image_set(x, y, name))[0].x, "y": y}

    held = data.kept(data.work() / "feats" / f"{name}_lite0.npz", compute)
    return data.sample_set(data.scaled(held["features"]), held["y"], name)


def some_of(pool: SampleSet, sizes: tuple[int, ...], seed: int) -> list[SampleSet]:
    order = np.random.default_rng((seed, 21)).permutation(len(pool))
    ends = np.cumsum((0, *sizes))
    return [pool.subset(order[a:b]) for a, b in pairwise(ends)]


def pets_lite0() -> SampleSet:
    return lite0("pets", data.cats_dogs)


def sentences() -> SampleSet:
    pool = data.sentence_features("sst2")
    return replace(pool, x=data.scaled(pool.x).astype(np.float32))


def cifar_pets_deer() -> tuple[np.ndarray, np.ndarray]:
    """800 each of cats, deer and dogs."""
    x, y, _ = data.cifar10("train_cat_deer_dog")
    rows = np.concatenate([np.flatnonzero(y == c)[:800] for c in (3, 4, 5)])
    return x[rows], y[rows]


@cache
def digits(source: str) -> tuple[np.ndarray, np.ndarray]:
    """1000 images [28, 28] of a source, in [0, 1]."""
    if source == "USPS":
        with np.load(data.folder("usps", "usps.npz")) as held:
            x, y = held["x_train"][:1000], held["y_train"][:1000]
        x = resized(x[:, None], 28)
    elif source == "EMNIST":
        with np.load(data.folder("emnist", "emnist_mnist_test.npz")) as held:
            rows = np.random.default_rng(0).permutation(len(held["y"]))[:1000]
            x, y = held["x"][rows][:, None] / np.float32(255), held["y"][rows]
    else:
        x, y = (part[:1000] for part in data.idx_images("mnist"))
        if source == "MNIST at 16 pixels":
            x = resized(resized(x, 16), 28)
        elif source == "MNIST on photographs":  # as SVHN's digits lie on walls
            photographs = data.cifar10("test")[0][:1000, :, 2:30, 2:30].mean(1, keepdims=True)
            x = np.abs(photographs - x)
    return x.astype(np.float32), y.astype(np.int64)


def resized(x: np.ndarray, size: int) -> np.ndarray:
    how = {"size": size, "mode": "bilinear", "antialias": True, "align_corners": False}
    return nn.functional.interpolate(torch.as_tensor(x), **how).numpy()


# Networks. --------------------------------------------------------------------------------------


@cache
def halves() -> tuple[nn.Module, nn.Module]:
    """The ResNet-20 of CIFAR-10 before and in its last three blocks, without batch norms."""
    network = resnet20()[0]
    for module in network.modules():
        for i in (1, 2):
            if hasattr(module, f"bn{i}"):
                conv, norm = getattr(module, f"conv{i}"), getattr(module, f"bn{i}")
                setattr(module, f"conv{i}", fuse_conv_bn_eval(conv, norm))
                setattr(module, f"bn{i}", nn.Identity())
    first, last = nn.Sequential(network.layer1, network.layer2), network.layer3
    return nn.Sequential(Prepared(), network.conv1, nn.ReLU(), *first), last


class Mean(nn.Module):
    """The mean over positions."""

    def forward(self, x):
        """[n, c, h, w] → [n, c]."""
        return x.mean((2, 3))


class Prepared(nn.Module):
    """Images in [0, 1] as the ResNet-20 takes them."""

    def forward(self, x):
        """[n, 3, h, w] → the same."""
        return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(DEVIATION)[:, None, None]


@cache
def pets_inside() -> SampleSet:
    """1500 photographs of cats and dogs as the ResNet-20 has them before its last blocks."""
    x, y = data.cats_dogs()
    rows = np.random.default_rng(0).permutation(len(y))[:1500]
    small = data.halved(data.image_set(x[rows], y[rows], "pets"))
    with torch.inference_mode():
        inside = torch.cat([halves()[0](part) for part in torch.as_tensor(small.x).split(250)])
    return data.image_set(inside.numpy(), y[rows], "pets, ResNet-20")


def head(samples: SampleSet, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return mlp(samples.x.shape[1:], 1 if samples.n_classes == 2 else samples.n_classes, width=WIDTH)


def blocks(samples: SampleSet, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(deepcopy(halves()[1]), Mean(), nn.Linear(64, 1))


# Table 1. ---------------------------------------------------------------------------------------


def agreement(change, real, rows) -> dict[str, float]:
    """Pearson's and Spearman's correlation of prediction changes, Pearson's of weights."""
    ours, true = change.prediction_change[rows], real.prediction_change
    weights = np.corrcoef(change.weight_change[rows], real.weight_change)[0, 1]
    predictions = np.corrcoef(ours, true)[0, 1]
    return {"weights": weights, "predictions": predictions, "rank": spearmanr(ours, true)[0]}


def over_seeds(options: Options, figures_of: Callable[[int], dict[str, float]]) -> dict:
    """Figures of all seeds: the mean and the ends of its 95 % interval."""
    figures: dict[str, list[float]] = {}
    seeds = range(options.seed, options.seed + (options.repeats or 5))
    for seed in seeds:
        for name, value in figures_of(seed).items():
            figures.setdefault(name, []).append(float(value))
        print(seed, {name: float(f"{v[-1]:.3g}") for name, v in figures.items()}, flush=True)
    each = {name: [float(v) for v in interval(values)] for name, values in figures.items()}
    return {"seeds": len(seeds), **each}


def table(pool, network, n_removed: int, n: int, steps: int, options: Options) -> dict[str, object]:
    n, steps = options.value("n", n), options.value("steps", steps)

    def figures_of(seed: int) -> dict[str, float]:
        train, val = some_of(pool(), (n, n), seed)
        return of_seed(train, val, network(train, seed), n_removed, steps)

    return {"n": n, "steps": steps, "retrained": n_removed, **over_seeds(options, figures_of)}


def of_seed(train, val, model, n_removed: int, steps: int) -> dict[str, float]:
    start, how = time.process_time(), {"reduction": "mean", "dynamics": "descent", "steps": steps}
    lin = collect(model, train, val, allow_trained=True)
    largest = leave_one_out(lin, **how).largest_eigenvalue / len(train)
    lr = 0.5 / largest
    change = leave_one_out(lin, lr=lr, **how)
    figures = {"linearised seconds": time.process_time() - start}
    removed = np.arange(n_removed)
    run = {"lr": lr, "steps": steps, "reduction": "mean", "loss": "mse", "removed": removed}
    real = retrain(model, train, val, **run)
    figures |= named("linearised", agreement(change, real, removed))
    after = trained(model, train, Recipe("sgd", lr, steps, None, "mse"))
    for name, damping in (("influence", 10.0), ("influence, a tenth", largest / 10)):
        start, seconds = time.process_time(), f"{name} seconds"
        try:
            result = influence(
                after, train, val, method="cg", loss="mse", damping=damping, removed=removed,
                precision="float32", tolerance=1e-4,
            )  # fmt: skip
        except SettingError:  # an indefinite Hessian
            figures |= named(name, dict.fromkeys(("weights", "predictions", "rank"), np.nan))
            continue
        figures[seconds] = (time.process_time() - start) * len(train) / n_removed
        figures |= named(name, agreement(result, real, slice(None)))
    if any(isinstance(module, nn.Conv2d) for module in model.modules()):
        return figures
    start = time.process_time()
    try:
        influence(
            after, train, val, method="lissa", loss="mse", damping=10.0, removed=removed[:2],
            precision="float32", **LISSA,
        )  # fmt: skip
    except SettingError:  # it diverges
        return figures
    return figures | {"lissa seconds": (time.process_time() - start) * len(train) / 2}


def named(name: str, figures: dict[str, float]) -> dict[str, float]:
    return {f"{name}, {what}": float(value) for what, value in figures.items()}


# Figures. ---------------------------------------------------------------------------------------


def uses(seed: int) -> dict[str, float]:
    """Figs 1, 5a, 8b and 9: the top tenth's share, architectures, wrong labels, rare cats."""
    figures = {}
    for name, pool in (("cats vs dogs, Lite0", pets_lite0()), ("SST-2, MiniLM", sentences())):
        train, val = some_of(pool, (500, 500), seed)
        information = informed(head(train, seed), train, val)
        top = np.sort(information)[-len(train) // 10 :]
        figures[f"{name}, top tenth"] = top.sum() / information.sum()
        wrong = np.random.default_rng((seed, 22)).random(len(train)) < 0.1
        given = replace(train, y=np.where(wrong, 1 - train.y, train.y))
        information = informed(head(train, seed), given, val)
        figures[f"{name}, wrong labels"] = roc_auc_score(wrong, information)
        figures[f"{name}, wrong over right"] = ratio(information, wrong)
    figures |= rare_cats(seed)
    return figures | architectures(seed)


def rare_cats(seed: int) -> dict[str, float]:
    """Cats are 5 % of the pets, who are to be told from deer."""
    pool = lite0("cifar_cat_deer_dog", cifar_pets_deer)
    rng = np.random.default_rng((seed, 23))
    cats, deer, dogs = (rng.permutation(np.flatnonzero(pool.y == c)) for c in (3, 4, 5))
    parts = []
    for a, b in ((0, 400), (400, 800)):
        few = (b - a) // 20
        rows = np.concatenate([cats[a // 20 : b // 20], dogs[a : b - few], deer[a:b]])
        parts.append(data.sample_set(pool.x[rows], pool.y[rows] != 4, "pets or deer"))
    is_cat, is_pet = pool.y[rows] == 3, pool.y[rows] != 4
    information = informed(head(parts[0], seed), *parts)
    within = roc_auc_score(is_cat[is_pet], information[is_pet])
    return {"rare cats": roc_auc_score(is_cat, information), "rare cats among pets": within}


def architectures(seed: int) -> dict[str, float]:
    """The same photographs by three networks: correlation of their information."""
    x, y = data.cats_dogs()
    order = np.random.default_rng((seed, 24)).permutation(1500)[:600]
    rows = np.random.default_rng(0).permutation(len(y))[:1500][order]
    small = data.halved(data.image_set(x[rows], y[rows], "pets"))
    torch.manual_seed(seed)
    each = {
        "Lite0": (pets_lite0().subset(rows), head),
        "ResNet-20": (pets_inside().subset(order), blocks),
        "LeNet-5": (small, lambda samples, seed: lenet5((3, 32, 32), 1)),
    }  # fmt: skip
    information = {}
    for name, (samples, network) in each.items():
        halves_of = samples.subset(np.arange(300)), samples.subset(np.arange(300, 600))
        information[name] = informed(network(samples, seed), *halves_of)
    names = list(information)
    return {
        f"{a} and {b}": float(np.corrcoef(information[a], information[b])[0, 1])
        for i, a in enumerate(names) for b in names[i + 1 :]
    }  # fmt: skip


def informed(model: nn.Module, train: SampleSet, val: SampleSet) -> np.ndarray:
    lin = collect(model, train, val, allow_trained=True)
    return sample_information(lin).information


def ratio(information: np.ndarray, which: np.ndarray) -> float:
    return float(information[which].mean() / information[~which].mean())


def sources(seed: int) -> dict[str, float]:
    """Fig. 2a: 200 MNIST digits and 200 of another source; who informs more, and who is harder."""
    figures = {}
    for other in SOURCES[1:]:
        for network, prepared in (("pixels", pixels), ("Lite0", features)):
            both = [some_of(prepared(name), (200, 200), seed) for name in ("MNIST", other)]
            for what, value in compared(both, network, seed).items():
                figures[f"{other}, {network}: {what}"] = value
    return figures


def pixels(source: str) -> SampleSet:
    return data.image_set(*digits(source), source)


def features(source: str) -> SampleSet:
    return lite0(source.replace(" ", "_"), partial(digits, source))


def compared(both: list[list[SampleSet]], network: str, seed: int) -> dict[str, float]:
    """Other source over MNIST: information, squared error when held out, size of the gradient."""
    sets = [
        data.image_set(*(np.concatenate([getattr(s[part], key) for s in both]) for key in "xy"), "")
        for part in (0, 1)
    ]
    torch.manual_seed(seed)
    shape = sets[0].x.shape[1:]
    model = mlp(shape, 10, width=1024 if network == "pixels" else WIDTH)
    lin = collect(model, *sets, outputs="averaged", allow_trained=True)
    loo, other = leave_one_out(lin), np.arange(400) >= 200
    error = np.square(loo.held_out - np.eye(10)[sets[0].y]).sum(1)
    return {
        "information": ratio(sample_information(lin).information, other),
        "held-out error": ratio(error, other),
    }


TABLES = {
    "cats vs dogs, Lite0": (pets_lite0, head, 20, 300, 400),
    "SST-2, MiniLM": (sentences, head, 20, 300, 400),
    "cats vs dogs, fine-tuned ResNet-20": (pets_inside, blocks, 8, 100, 100),
}  # fmt: skip
TASK = Task(
    measure="S1's figures with pretrained networks of today",
    cases={name: Case(partial(table, *how)) for name, how in TABLES.items()}
    | {
        "uses": Case(partial(over_seeds, figures_of=uses)),
        "sources": Case(partial(over_seeds, figures_of=sources)),
    },
    lines="papers/s1_pretrained/",
)
