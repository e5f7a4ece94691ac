"""Adversarial samples (S1 Fig. 10): does information find them? Cats and dogs, FGSM, ε = 0.01.

As in the paper, a pretrained network is fine-tuned on the 1000 samples, 10 % of them are replaced
by successful adversarial examples of it, and information is computed at the pretrained weights.
No ImageNet network is in the data folder: ours is the 4-layer CNN pretrained on the 2000 cats and
dogs of the other part, which the samples are not among. Beside it the same from random weights.
Photographs halved to 32 x 32; ε is in units of pixel values in [0, 1].

    python papers/s1_adversarial.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tasks
from figure import histogram
from record import record
from torch import nn

import datassay as da
from datassay.act import auroc, train_all, validation_score
from datassay.data import SampleSet, add_adversarial
from datassay.train import Recipe

SEEDS = 2
FINE_TUNING = Recipe(steps=100)


def trained(model: nn.Module, samples: SampleSet, recipe: Recipe, seed: int):
    """The network trained, and its networks object for accuracies."""
    networks = train_all([model], samples, recipe, seed)
    own = {name: tensor[0] for name, tensor in networks.state.items()}
    result = da.build_model("cnn", samples)
    result.load_state_dict(own)
    return result, networks


def main() -> None:
    rows, shown = [], {}
    start = time.perf_counter()
    for seed in range(SEEDS):
        names = ("cat", "dog")
        train, val = map(tasks.halved, tasks.draw(tasks.cats_dogs, (1000, 500), seed, names=names))
        (other,) = map(
            tasks.halved, tasks.draw(tasks.cats_dogs, (2000,), seed, "test", names=names)
        )
        base, networks = trained(da.build_model("cnn", other, seed=seed), other, Recipe(), seed)
        tuned, _ = trained(base, train, FINE_TUNING, seed)
        found = add_adversarial(train, tuned, 0.1, epsilon=0.01, seed=seed)
        starts = {"pretrained": base, "random": da.build_model("cnn", train, seed=seed + 50)}
        row = {
            "accuracy_pretrained": float(validation_score(networks, val)[0]),
            "success": found.success,
        }
        for name, model in starts.items():
            lin = da.collect(model, found.samples, val)
            information = da.sample_information(lin).information
            ours, others = information[found.replaced], information[~found.replaced]
            row[f"auroc_{name}"] = auroc(found.replaced, information)
            row[f"information_ratio_{name}"] = float(ours.mean() / others.mean())
            shown.setdefault(name, {"normal": others, "adversarial": ours})
        rows.append(row)
    record(
        "s1_adversarial/cats vs dogs",
        n=1000,
        seeds=SEEDS,
        epsilon=0.01,
        **{name: float(np.mean([row[name] for row in rows])) for name in rows[0]},
        auroc_pretrained_each=[row["auroc_pretrained"] for row in rows],
        seconds=time.perf_counter() - start,
    )
    histogram(
        "s1_adversarial_10",
        "S1 Fig. 10: 10 % adversarial examples, cats vs dogs",
        shown["pretrained"],
        x_title="functional sample information, nats",
    )


if __name__ == "__main__":
    main()
