"""Weighed sets."""

from dataclasses import replace
from functools import cache

import numpy as np

from datassay.methods.weigh.gain import WeightGain
from datassay.methods.weigh.job import WeighFindings
from datassay.methods.weigh.weights import weights_of_variance
from datassay.score.neighbors.local_variance import local_variance
from helpers import blocks

K = 12


def samples(n=160, seed=0):
    """Two rules, of which one is rare."""
    return blocks.samples(n, seed, minority=0.1)


def gain(changes=(0.0, 0.05, 0.01), n_seeds=4, n_val=60):
    """Scores of each weighting, with little noise: the first is without weights."""
    draw = np.random.default_rng(3)
    each = 0.8 + np.array(changes)[:, None] + draw.normal(0, 0.001, (n_seeds, len(changes), n_val))
    names = ("no weights", "local variance", "class-balanced")[: len(changes)]
    return WeightGain(names, each, "accuracy", 1.0)


@cache
def weighed(regression=False):
    train = samples()
    if regression:
        y = 100 + 10 * train.x[:, 0] ** 2
        train = replace(train, y=y, class_names=())
    local = local_variance(train.x, train.y, K)
    weights = weights_of_variance(local, train.ids, 40, None, 2)
    shown = gain() if not regression else replace(gain((0, -0.03)), metric="R²", unit=0.0)
    return WeighFindings(
        train,
        samples(60, seed=1) if not regression else replace(samples(60, seed=1), class_names=()),
        weights,
        local,
        "the standardised inputs, 2 columns",
        False,
        shown,
        "local variance",
        facts={"Data": "<b>", "Seed": "0", "Command": "datassay weigh <x>"},
    )
