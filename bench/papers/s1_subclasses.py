"""Under-sampled sub-classes (S1 Fig. 9): rare cats among dogs, against deer, without their labels.

A quarter of the paper's size: pets are 50 cats and 1000 dogs, against 1000 deer; the validation
set is of the same mix. The paper's ResNet-18 is pretrained on ImageNet, which is not in the data
folder. Instead: networks from random weights, which have seen nothing; and the head of a ResNet-20
that was trained on CIFAR-10 itself, so its features have seen these very images with the names cat
and dog: an upper bound, no evidence of finding what nobody labelled.

    python papers/s1_subclasses.py [case ...]
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
from resnet20 import features

import datassay as da
from datassay.act import auroc
from datassay.data import SampleSet

SEEDS = 3
SIZES = {3: 50, 5: 1000, 4: 1000}  # cat, dog, deer
# case → the stem of its figures
FIGURES = {
    "MLP(1024) from scratch": "scratch",
    "linear head of ResNet-20 trained on CIFAR-10": "cifar_features",
}


def pets_and_deer(part: str, seed: int) -> SampleSet:
    """Class 0 pets, class 1 deer; the source names the animal, for judging alone."""
    x, y, _ = tasks.cifar10(part)
    rng = np.random.default_rng(seed)
    some = np.concatenate([rng.choice(np.flatnonzero(y == c), n, False) for c, n in SIZES.items()])
    return SampleSet(
        x[some],
        (y[some] == 4).astype(np.int64),
        some,
        class_names=("pets", "deer"),
        kind="image",
        source=np.array(["", "", "", "cat", "deer", "dog"])[y[some]],
        name="pets vs deer",
    )


def draw(case: str, rows: list[tuple[np.ndarray, np.ndarray, float]]) -> None:
    """All three animals of the first seed; then the class of pets alone, all seeds together."""
    information, animal, _ = rows[0]
    nats = "functional sample information, nats"
    histogram(
        f"s1_subclasses_9_{FIGURES[case]}",
        f"S1 Fig. 9: {case}",
        {name: information[animal == name] for name in ("cat", "dog", "deer")},
        x_title=nats,
    )
    # Coarser: 150 cats in 32 bars are mostly noise.
    histogram(
        f"s1_subclasses_9_{FIGURES[case]}_pets",
        f"S1 Fig. 9, within pets: {case}",
        {
            label: np.concatenate([values[source == name] for values, source, _ in rows])
            for name, label in (("cat", "cat, rare"), ("dog", "dog, common"))
        },
        x_title=nats,
        bins=16,
    )


def main() -> None:
    cases = {
        "MLP(1024) from scratch": ("mlp:width=1024", lambda s: s),
        "LeNet-5 from scratch": ("lenet5", lambda s: s),
        "linear head of ResNet-20 trained on CIFAR-10": ("linear", features),
        "MLP(1024) on ResNet-20 features": ("mlp:width=1024", features),
    }
    sets = [
        [pets_and_deer(part, seed) for part in ("train_cat_deer_dog", "test")]
        for seed in range(SEEDS)
    ]
    for case in sys.argv[1:] or cases:
        network, prepare = cases[case]
        rows, start = [], time.perf_counter()
        for seed, pair in enumerate(sets):
            train, val = map(prepare, pair)
            lin = da.collect(da.build_model(network, train, seed=seed), train, val)
            information = da.sample_information(lin).information
            pets = train.y == 0
            cat = train.source[pets] == "cat"
            rows.append((information, train.source, auroc(cat, information[pets])))
        record(
            f"s1_subclasses/{case}",
            n=len(rows[0][0]),
            seeds=len(rows),
            auroc_cat_among_pets=[r[2] for r in rows],
            information_cat_to_dog=[
                float(r[0][r[1] == "cat"].mean() / r[0][r[1] == "dog"].mean()) for r in rows
            ],
            seconds=time.perf_counter() - start,
        )
        if case in FIGURES:
            draw(case, rows)


if __name__ == "__main__":
    main()
