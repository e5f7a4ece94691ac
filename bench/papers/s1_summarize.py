"""Summarising (S1 Figs 2c, 7b): what is lost by removing the least informative samples.

MNIST 4 vs 9, 1000 training samples: bottom, bottom-iterative (5 % of what remains at a time), top,
and random removal; scores of MLP(1024), and networks really retrained on what is kept: the same
network (Fig. 2c) and one with two hidden layers (Fig. 7b). Accuracy on 2000 other images. The
paper trains full-batch on the squared error for 2000 steps; ours take the library's recipe (Adam,
300 updates of 32, cross-entropy), two hundred times cheaper, and fewer fractions.

    python papers/s1_summarize.py [2c] [7b]     both by default
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import tasks
from figure import curves
from record import record

import datassay as da
from datassay.act import removal_curve
from datassay.train import Recipe

SEEDS = 3
FRACTIONS = (0.0, 0.25, 0.5, 0.8, 0.9, 0.95)
RECIPE = Recipe(batch_size=32)
TRAINED = {"2c": "mlp:width=1024", "7b": "mlp:width=1024,depth=2"}


def main() -> None:
    train, val, test = tasks.draw(tasks.idx_images, (1000, 1000, 2000), 0, "mnist", classes=(4, 9))
    start = time.perf_counter()
    lin = da.collect(da.build_model("mlp:width=1024", train), train, val)
    lowest = np.argsort(da.sample_information(lin).information, kind="stable")
    rankings = {
        "bottom": lowest,
        "bottom iterative": da.summarize(lin, 0.05, iterative=True).removed_first,
        "top": lowest[::-1].copy(),
    }
    scoring = time.perf_counter() - start
    for figure in sys.argv[1:] or TRAINED:
        network = TRAINED[figure]
        start = time.perf_counter()
        models = [da.build_model(network, train, seed=seed + 1) for seed in range(SEEDS)]
        curve = removal_curve(models, train, test, rankings, fractions=FRACTIONS, recipe=RECIPE)
        means = {name: curve.score[r].mean(1) for r, name in enumerate(curve.rankings)}
        record(
            f"s1_summarize/{figure} MNIST 4 vs 9",
            n=1000,
            scored="mlp:width=1024",
            trained=network,
            seeds=SEEDS,
            fractions=list(FRACTIONS),
            accuracy={name: [round(float(v), 4) for v in m] for name, m in means.items()},
            spread=float(curve.score.std(2, ddof=1).mean()),
            scoring_seconds=scoring,
            seconds=time.perf_counter() - start,
        )
        curves(
            f"s1_summarize_{figure}",
            f"S1 Fig. {figure}: trained {network}",
            {name: (FRACTIONS, m) for name, m in means.items()},
            x_title="fraction of the training samples removed",
            y_title="test accuracy",
        )


if __name__ == "__main__":
    main()
