"""Purification with networks on wrongly labelled images, which S4 only announces.

Fashion-MNIST, 3000 training samples, seeds 0 to 2. What is removed is judged by two networks
trained anew on the rest, 1000 updates, on the clean test set: by `purify`'s own order for networks,
the suspects of `label_issues`; by loss, each refit stopped by the held-out rule; and, as many as
those suspects, by rankings that need trained networks. Intervals are of the mean over seeds, those
of differences paired. The order was chosen on MNIST and another draw (lines "choose ...").
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from bench.data import even_draw, idx_images, image_set
from bench.frame import Case, Options, Row, Task
from bench.networks import trained_on_all
from bench.stats import mean_half
from sklearn.model_selection import StratifiedKFold
from torch import nn

from datassay.act import purify, task_recipe, validation_score
from datassay.collect import collect
from datassay.data import SampleSet, add_label_noise
from datassay.models import build_model
from datassay.score import label_issues
from datassay.train import Recipe, train_networks

N, SEEDS, FOLDS = 3000, 3, 5
RANKING, JUDGING = Recipe(steps=400), Recipe(steps=1000)
N_RANKING, N_JUDGING = 5, 2
OURS, LOSS = "label_issues", "loss by its rule"
# name → network, share of wrong labels, kind of noise
SETS = {
    "mlp 30% pair": ("mlp:width=256", 0.3, "pair"),
    "mlp 20% uniform": ("mlp:width=256", 0.2, "uniform"),
    "lenet5 30% uniform": ("lenet5", 0.3, "uniform"),
    "mlp 30% uniform": ("mlp:width=256", 0.3, "uniform"),
    "mlp pure": ("mlp:width=256", 0.0, "uniform"),
}


def networks(network: str, train: SampleSet, seed: int, count: int) -> list[nn.Module]:
    """Networks at starting weights of their own."""
    return [build_model(network, train, seed=1000 * seed + s) for s in range(count)]


def losses(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """Final loss, the mean over five networks."""
    trained = trained_on_all(networks(network, train, seed, N_RANKING), train, RANKING, seed)
    y = torch.as_tensor(train.y)
    outputs = trained.outputs(torch.as_tensor(train.x).float()).double()
    each = [nn.functional.cross_entropy(f, y, reduction="none") for f in outputs]
    return torch.stack(each).mean(0).numpy()


def margins(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """Pleiss et al. (2020): the label's margin over the training, negated, of five networks."""
    n, y = len(train), torch.as_tensor(train.y)
    total, count = torch.zeros(n, dtype=torch.float64), torch.zeros(n)

    def observe(index: torch.Tensor, outputs: torch.Tensor) -> None:
        label = y[index][..., None]
        other = outputs.scatter(2, label, -torch.inf).max(2).values
        lead = (outputs.gather(2, label)[..., 0] - other).flatten().double()
        total.index_add_(0, index.flatten(), lead)
        count.index_add_(0, index.flatten(), torch.ones(index.numel()))

    models = networks(network, train, seed, N_RANKING)
    trained_on_all(models, train, RANKING, seed, observe=observe)
    return -(total / count.clamp_min(1)).numpy()


def held_out(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """Confident learning's score: the label's probability from networks without it, negated."""
    n, held = len(train), np.empty(len(train), dtype=int)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    for f, (_, out) in enumerate(folds.split(train.x, train.y)):
        held[out] = f
    size = min(int((held != f).sum()) for f in range(FOLDS))
    subsets = np.stack([np.flatnonzero(held != f)[:size] for f in range(FOLDS)])
    models = [build_model(network, train, seed=10 * seed + f) for f in range(FOLDS)]
    recipe = task_recipe(train)
    trained = train_networks(models, train, torch.as_tensor(subsets), recipe, seed=seed)
    outputs = trained.outputs(torch.as_tensor(train.x).float())[held, torch.arange(n)]
    return -outputs.softmax(1).double().numpy()[np.arange(n), train.y]


PACKAGES: dict[str, Callable[[str, SampleSet, int], np.ndarray]] = {
    "loss of five": losses,
    "area under the margin": margins,
    "confident learning": held_out,
}


def judged(network: str, train: SampleSet, keep: np.ndarray, test: SampleSet, seed: int) -> float:
    models = networks(network, train, 50 + seed, N_JUDGING)
    trained = trained_on_all(models, train, JUDGING, rows=np.sort(keep))
    return float(validation_score(trained, test).mean())


def one(case: str, seed: int) -> tuple[dict[str, float], dict[str, list]]:
    """Accuracy by what is kept; number removed and share of them that was wrong."""
    network, noise, kind = SETS[case]
    clean = even_draw("fashion_mnist", "train", N, seed, tuple(range(10)), "Fashion-MNIST")
    train = add_label_noise(clean, noise, kind=kind, seed=seed)
    test = image_set(*idx_images("fashion_mnist", "test"), train.name)
    wrong = np.zeros(N, bool) if train.true_y is None else train.true_y != train.y
    everyone, model = np.arange(N), build_model(network, train, seed=seed)
    removed = {"all samples": everyone[:0], "only right labels": np.flatnonzero(wrong)}
    removed[OURS] = label_issues(collect(model, train)).suspects
    by_loss = purify(model, train, order="loss", stop="held_out", recipe=RANKING, seed=seed)
    removed[LOSS] = by_loss.removed
    for baseline, ranking in PACKAGES.items():
        order = np.argsort(-ranking(network, train, seed), kind="stable")
        removed[f"{baseline}, as many"] = order[: len(removed[OURS])]
    accuracy = {
        what: judged(network, train, np.setdiff1d(everyone, dropped), test, seed)
        for what, dropped in removed.items()
    }
    reported = {
        what: [len(gone), float(wrong[gone].mean()) if len(gone) else None]
        for what, gone in removed.items()
    }
    return accuracy, reported


def measured(case: str, options: Options) -> dict[str, object]:
    """All seeds of a case, and by how much ours is ahead of each baseline."""
    results = [one(case, seed) for seed in range(SEEDS)]
    accuracy = {what: [a[what] for a, _ in results] for what in results[0][0]}
    ahead = {what: np.subtract(accuracy[OURS], values) for what, values in accuracy.items()}
    return {
        "n": N, "seeds": SEEDS, "networks": N_JUDGING,
        **{f"accuracy, {what}": mean_half(values) for what, values in accuracy.items()},
        **{f"{OURS} ahead of {w}": mean_half(values) for w, values in ahead.items() if w != OURS},
        **{f"removed, precision: {what}": [t[what] for _, t in results] for what in accuracy},
    }  # fmt: skip


def rows(lines: dict[str, dict]) -> Row:
    deep = lines["papers/s4_deep/mlp 30% pair"]
    names = ("all samples", OURS, "loss of five, as many", "confident learning, as many",
             "only right labels")  # fmt: skip
    values = [deep[f"accuracy, {name}"][0] for name in names]
    return Row(
        "Fashion-MNIST, 3000 samples, 30 % of each class labelled as the next, MLP(256): "
        "accuracy before, after purification (loss ranking and confident learning, as many "
        "removed; only right labels)",
        "{:.3f}, {:.3f} ({:.3f}, {:.3f}; {:.3f})".format(*values),
    )


TASK = Task(
    measure="S4 §5: purification with networks",
    cases={case: Case(partial(measured, case)) for case in SETS},
    lines="papers/s4_deep/",
    rows=rows,
)
