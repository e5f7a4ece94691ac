"""Purification with deep networks on wrongly labelled Fashion-MNIST, which S4 only announces.

5000 training samples. Influence and loss rank step by step, each stopped by the held-out rule; the
rivals remove as many as influence did: random, loss once (no refits), confident learning (cleanlab
on 5-fold probabilities of the same network). Judged by five networks trained anew on what is kept,
1500 updates, on the clean test set.

    python papers/s4_deep.py [case ...]       cases: those of CASES; needs datassay[bench]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import s4_tasks
import torch
from cleanlab.rank import get_label_quality_scores
from record import record
from s1_label_errors import network_probabilities
from torch import nn

from datassay.act import purify, train_all, validation_score
from datassay.collect import collect, output_losses
from datassay.data import SampleSet
from datassay.models import build_model
from datassay.score import label_issues
from datassay.train import Recipe, train_networks

RANKING = Recipe(steps=400)
JUDGING = Recipe(steps=1500)
SEEDS = 5
# name → network, size, share of wrong labels, kind of noise
CASES = {
    "mlp 30% uniform": ("mlp:width=256", 5000, 0.3, "uniform"),
    "mlp 20% uniform": ("mlp:width=256", 5000, 0.2, "uniform"),
    "mlp 30% pair": ("mlp:width=256", 5000, 0.3, "pair"),
    "mlp pure": ("mlp:width=256", 5000, 0.0, "uniform"),
    "lenet5 30% uniform": ("lenet5", 5000, 0.3, "uniform"),
}


def judged(network: str, train: SampleSet, keep: np.ndarray, test: SampleSet) -> list[float]:
    """Test accuracy of five networks trained on what is kept."""
    models: list[nn.Module] = [build_model(network, train, seed=100 + s) for s in range(SEEDS)]
    subsets = torch.as_tensor(np.sort(keep)).expand(SEEDS, -1)
    return validation_score(train_networks(models, train, subsets, JUDGING, seed=1), test).tolist()


def loss_once(network: str, train: SampleSet) -> np.ndarray:
    """Losses of one trained network, the rival that costs one training."""
    trained = train_all([build_model(network, train, seed=0)], train, RANKING)
    outputs = trained.outputs(torch.as_tensor(train.x).float())[0].double()
    targets = nn.functional.one_hot(torch.as_tensor(train.y), train.n_classes).double()
    return output_losses(outputs, targets, "cross_entropy").numpy()


def issue_scores(network: str, train: SampleSet) -> np.ndarray:
    """The library's own label scores, from the linearised network: no training at all."""
    return label_issues(collect(build_model(network, train, seed=0), train)).score


def rival_scores(network: str, train: SampleSet, seed: int) -> dict[str, np.ndarray]:
    """What each rival that ranks once would remove first has the highest score."""
    return {
        "random": np.random.default_rng(seed).random(len(train)),
        "loss once": loss_once(network, train),
        "confident learning": -get_label_quality_scores(
            train.y, network_probabilities(train, network, seed)
        ),
        "label_issues": issue_scores(network, train),
    }


def run(name: str, seed: int) -> dict[str, object]:
    network, n, noise, kind = CASES[name]
    train, test = s4_tasks.idx_noisy("fashion_mnist", n, noise, kind, seed)
    truth = train.y if train.true_y is None else train.true_y
    wrong = truth != train.y
    model = build_model(network, train, seed=seed)
    figures: dict[str, object] = {"wrong": int(wrong.sum())}
    kept, start = {}, time.perf_counter()
    for order in ("fixed", "loss"):
        found = purify(model, train, order=order, stop="held_out", recipe=RANKING, seed=seed)
        kept[f"{'influence' if order == 'fixed' else order} by its rule"] = found.keep
        figures[f"removed_{order}"] = len(found.removed)
        figures[f"precision_{order}"] = wrong[found.removed].mean() if len(found.removed) else None
        figures[f"seconds_{order}"] = time.perf_counter() - start
        start = time.perf_counter()
    number = int(figures["removed_fixed"])
    if number:
        same = purify(
            model, train, order="loss", stop="none", max_fraction=number / n, recipe=RANKING,
            seed=seed,
        )  # fmt: skip
        kept["loss, as many"] = same.keep
        figures["precision_loss, as many"] = wrong[same.removed].mean()
        for rival, score in rival_scores(network, train, seed).items():
            order = np.argsort(-score, kind="stable")
            kept[rival] = order[number:]
            figures[f"precision_{rival}"] = wrong[order[:number]].mean()
    kept["all samples"] = np.arange(n)
    kept["only right labels"] = np.flatnonzero(~wrong)
    figures["accuracy"] = {
        what: [np.mean(a), np.std(a, ddof=1)]
        for what, a in ((k, judged(network, train, keep, test)) for k, keep in kept.items())
    }
    return figures


def main() -> None:
    for name in sys.argv[1:] or CASES:
        network, n, noise, kind = CASES[name]
        start = time.perf_counter()
        figures = run(name, 0)
        record(
            f"papers/s4_deep/{name}",
            n=n,
            network=network,
            noise=noise,
            kind=kind,
            seeds=SEEDS,
            **figures,
            seconds=time.perf_counter() - start,
        )


if __name__ == "__main__":
    main()
