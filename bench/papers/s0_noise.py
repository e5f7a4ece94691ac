"""Wrong labels under VBSW (S0 Table 4): LeNet-5 on noisy Fashion-MNIST, clean test images.

The paper has a ResNet-20 on CIFAR-10, one a level, and 30 retrainings.

    python papers/s0_noise.py [rates in per cent]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tasks
from record import record
from s0_gain import PAIR, figures, retrained, tuned
from s0_lenet import lenet

from datassay.data import SampleSet, add_label_noise
from datassay.train import HeadRecipe

RATES, N_TRAIN, NETWORKS, EPOCHS, RETRAININGS = (10, 20, 30, 40), 10_000, 3, 5, 10
PAIRS, RECIPE = (PAIR, (20, 5.0), (50, 5.0)), HeadRecipe(epochs=10)


def main(rates: tuple[int, ...]) -> None:
    x, y = tasks.idx_images("fashion_mnist", "test")
    names = tuple(map(str, range(10)))
    test = SampleSet(x, y, np.arange(len(y)), names, kind="image", name="fashion_mnist")
    for rate in rates:
        start, cells = time.perf_counter(), []
        for seed in range(NETWORKS):
            [clean] = tasks.draw(tasks.idx_images, (N_TRAIN,), seed, "fashion_mnist")
            noisy = add_label_noise(clean, rate / 100, seed=seed)
            network = lenet(noisy, seed, EPOCHS, f"fashion_{rate}")
            cells += retrained(network, noisy, test, PAIRS, [RECIPE], RETRAININGS)
        record(
            f"s0_noise/{rate} %",
            n=N_TRAIN,
            networks=NETWORKS,
            retrainings=RETRAININGS,
            **figures(cells),
            **tuned(cells, PAIRS),
            seconds=time.perf_counter() - start,
        )


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or RATES)
