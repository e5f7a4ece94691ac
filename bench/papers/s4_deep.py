"""Purification with networks on wrongly labelled images, which S4 only announces.

    python papers/s4_deep.py choose [case ...]        what ranks best, on MNIST
    python papers/s4_deep.py [case ...]       Fashion-MNIST, seeds 0 to 2: cases are those of CASES
    python papers/s4_deep.py influence [case ...]     influence by its rule, the slow one, seed 0

3000 training samples. "choose" asks which order puts wrong labels first. The cases then judge what
is removed by two networks trained anew on the rest, 1000 updates, on the clean test set: by
`purify`'s own order for networks, the suspects of `label_issues`; by loss, each refit stopped by
the held-out rule; and, as many as those suspects, by rankings that need trained networks. Intervals
are of the mean over seeds, those of differences paired.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import s4_tasks
import torch
from record import record
from s1_label_errors import network_probabilities
from scipy.stats import t as student
from sklearn.metrics import average_precision_score
from torch import nn

from datassay.act import purify, validation_score
from datassay.collect import collect
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.score import influence, label_issues
from datassay.train import Recipe, train_networks

N, SEEDS, CHOOSING = 3000, 3, 100
RANKING, JUDGING = Recipe(steps=400), Recipe(steps=1000)
N_RANKING, N_JUDGING = 5, 2
OURS, LOSS = "label_issues", "loss by its rule"
# name → network, share of wrong labels, kind of noise
CASES = {
    "mlp 30% pair": ("mlp:width=256", 0.3, "pair"),
    "mlp 20% uniform": ("mlp:width=256", 0.2, "uniform"),
    "lenet5 30% uniform": ("lenet5", 0.3, "uniform"),
    "mlp 30% uniform": ("mlp:width=256", 0.3, "uniform"),
    "mlp pure": ("mlp:width=256", 0.0, "uniform"),
}
Ranking = Callable[[str, SampleSet, int], np.ndarray]


def networks(network: str, train: SampleSet, seed: int, count: int) -> list[nn.Module]:
    """Networks at starting weights of their own."""
    return [build_model(network, train, seed=1000 * seed + s) for s in range(count)]


def losses(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """Final loss, the mean over five networks."""
    everyone = torch.arange(len(train)).expand(N_RANKING, -1)
    models = networks(network, train, seed, N_RANKING)
    trained = train_networks(models, train, everyone, RANKING, seed=seed)
    y = torch.as_tensor(train.y)
    outputs = trained.outputs(torch.as_tensor(train.x).float()).double()
    each = [nn.functional.cross_entropy(f, y, reduction="none") for f in outputs]
    return torch.stack(each).mean(0).numpy()


def margins(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """Pleiss et al. (2020): the label's margin over the training, negated, of five networks."""
    n, y = len(train), torch.as_tensor(train.y)
    total, count = torch.zeros(n, dtype=torch.float64), torch.zeros(n)

    def observe(at: torch.Tensor, outputs: torch.Tensor) -> None:
        label = y[at][..., None]
        other = outputs.scatter(2, label, -torch.inf).max(2).values
        total.index_add_(
            0, at.flatten(), (outputs.gather(2, label)[..., 0] - other).flatten().double()
        )
        count.index_add_(0, at.flatten(), torch.ones(at.numel()))

    everyone = torch.arange(n).expand(N_RANKING, -1)
    models = networks(network, train, seed, N_RANKING)
    train_networks(models, train, everyone, RANKING, seed=seed, observe=observe)
    return -(total / count.clamp_min(1)).numpy()


def held_out(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """Confident learning's score: the label's probability from networks without it, negated."""
    probabilities = network_probabilities(train, network, seed)
    return -probabilities[np.arange(len(train)), train.y]


def by_labels(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """The library's own, of the network before any training."""
    return label_issues(collect(build_model(network, train, seed=seed), train)).score


def by_both(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """The same with the cross-validated networks as second judge."""
    lin = collect(build_model(network, train, seed=seed), train)
    return label_issues(lin, pred_probs=network_probabilities(train, network, seed)).score


def by_influence(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """Own influence at trained weights: how much a sample's presence lowers its own loss."""
    model = build_model(network, train, seed=seed)
    everyone = torch.arange(len(train))[None]
    trained = train_networks([model], train, everyone, RANKING, seed=seed)
    model.load_state_dict({name: w[0] for name, w in trained.state.items()})
    found = influence(model, train, train.subset(np.arange(10)), measure="loss", curvature="ekfac")
    assert found.self_influence is not None
    return found.self_influence


def by_held_out_influence(network: str, train: SampleSet, seed: int) -> np.ndarray:
    """How much a sample's presence raises the loss of the fifth left out, wrong labels and all.

    Of that fifth itself nothing is known: it takes the mean of the others.
    """
    order = np.random.default_rng(seed).permutation(len(train))
    out, rest = np.split(order, [len(train) // 5])
    model = build_model(network, train, seed=seed)
    trained = train_networks([model], train, torch.as_tensor(rest)[None], RANKING, seed=seed)
    model.load_state_dict({name: w[0] for name, w in trained.state.items()})
    found = influence(
        model, train.subset(rest), train.subset(out), measure="loss", curvature="ekfac"
    )
    score = np.full(len(train), found.total.mean())
    score[rest] = found.total
    return score


RIVALS: dict[str, Ranking] = {
    "loss of five": losses,
    "area under the margin": margins,
    "confident learning": held_out,
}
CHOICES: dict[str, Ranking] = RIVALS | {
    OURS: by_labels,
    "label_issues, two judges": by_both,
    "self-influence": by_influence,
    "influence on held-out loss": by_held_out_influence,
}


def choose(cases: list[str]) -> None:
    """Precision of each order among as many as are wrong; no network is judged."""
    for case in cases:
        network, noise, kind = CASES[case]
        train, _ = s4_tasks.idx_noisy("mnist", N, noise, kind, CHOOSING)
        wrong = _wrong(train)
        figures: dict[str, list[float]] = {}
        for order, ranking in CHOICES.items():
            score = ranking(network, train, CHOOSING)
            first = np.argsort(-score, kind="stable")[: wrong.sum()]
            found = average_precision_score(wrong, score)
            figures[order] = [float(found), float(wrong[first].mean())]
        record(
            f"papers/s4_deep/choose {case}", n=N, seed=CHOOSING, data="mnist",
            **{f"{order}: average precision, precision": v for order, v in figures.items()},
        )  # fmt: skip


def judged(network: str, train: SampleSet, keep: np.ndarray, test: SampleSet, seed: int) -> float:
    """Mean test accuracy of networks trained on what is kept."""
    models = networks(network, train, 50 + seed, N_JUDGING)
    subsets = torch.as_tensor(np.sort(keep)).expand(N_JUDGING, -1)
    return float(validation_score(train_networks(models, train, subsets, JUDGING), test).mean())


def one(case: str, seed: int) -> tuple[dict[str, float], dict[str, list]]:
    """Accuracy by what is kept; number removed and share of them that was wrong."""
    network, noise, kind = CASES[case]
    train, test = s4_tasks.idx_noisy("fashion_mnist", N, noise, kind, seed)
    wrong, everyone = _wrong(train), np.arange(N)
    model = build_model(network, train, seed=seed)
    removed = {"all samples": everyone[:0], "only right labels": np.flatnonzero(wrong)}
    removed[OURS] = label_issues(collect(model, train)).suspects
    by_loss = purify(model, train, order="loss", stop="held_out", recipe=RANKING, seed=seed)
    removed[LOSS] = by_loss.removed
    for rival, ranking in RIVALS.items():
        order = np.argsort(-ranking(network, train, seed), kind="stable")
        removed[f"{rival}, as many"] = order[: len(removed[OURS])]
    accuracy = {
        what: judged(network, train, np.setdiff1d(everyone, gone), test, seed)
        for what, gone in removed.items()
    }
    told = {
        what: [len(gone), float(wrong[gone].mean()) if len(gone) else None]
        for what, gone in removed.items()
    }
    print(case, seed, accuracy, told, flush=True)
    return accuracy, told


def report(case: str) -> None:
    """All seeds of a case, and by how much ours is ahead of each rival."""
    start = time.perf_counter()
    found = [one(case, seed) for seed in range(SEEDS)]
    accuracy = {what: [a[what] for a, _ in found] for what in found[0][0]}
    record(
        f"papers/s4_deep/{case}", n=N, seeds=SEEDS, networks=N_JUDGING,
        seconds=time.perf_counter() - start,
        **{f"accuracy, {what}": interval(values) for what, values in accuracy.items()},
        **{
            f"{OURS} ahead of {what}": interval(np.subtract(accuracy[OURS], values))
            for what, values in accuracy.items() if what != OURS
        },
        **{f"removed, precision: {what}": [t[what] for _, t in found] for what in accuracy},
    )  # fmt: skip


def with_influence(case: str) -> None:
    """S4's own way, V of the last layer: what it removes, and what that is worth, at one seed."""
    network, noise, kind = CASES[case]
    train, test = s4_tasks.idx_noisy("fashion_mnist", N, noise, kind, 0)
    model, start = build_model(network, train, seed=0), time.perf_counter()
    found = purify(model, train, order="fixed", stop="held_out", recipe=RANKING)
    precision = float(_wrong(train)[found.removed].mean()) if len(found.removed) else None
    record(
        f"papers/s4_deep/influence {case}", n=N, seeds=1, removed=len(found.removed),
        precision=precision, seconds=time.perf_counter() - start,
        accuracy=judged(network, train, found.keep, test, 0),
    )  # fmt: skip


def interval(values: object) -> list[float]:
    """Mean and half the 95 % interval over seeds."""
    v = np.asarray(values, float)
    return [v.mean(), student.ppf(0.975, len(v) - 1) * v.std(ddof=1) / np.sqrt(len(v))]


def _wrong(train: SampleSet) -> np.ndarray:
    return np.zeros(N, bool) if train.true_y is None else train.true_y != train.y


def main() -> None:
    what, rest = sys.argv[1:2], sys.argv[2:]
    if what == ["choose"]:
        choose(rest or [case for case, (_, noise, _) in CASES.items() if noise])
    elif what == ["influence"]:
        for case in rest or CASES:
            with_influence(case)
    else:
        for case in sys.argv[1:] or CASES:
            report(case)


if __name__ == "__main__":
    main()
