"""Small sets and networks to collect from."""

import numpy as np
import torch

from datassay.data.samples import SampleSet
from datassay.models.networks import mlp


def classes(n=12, k=3, shape=(5,), seed=0, first=0):
    x = np.random.default_rng(seed).normal(size=(n, *shape))
    ids = np.array([f"s{first + i}" for i in range(n)])
    names = tuple("abcdefghij"[:k])
    return SampleSet(x=x, y=np.arange(n) % k, ids=ids, class_names=names)


def regression(n=12, columns=None, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n if columns is None else (n, columns))
    return SampleSet(x=rng.normal(size=(n, 5)), y=y, ids=np.arange(n))


def network(k=3, n_in=5, seed=0):
    torch.manual_seed(seed)
    return mlp((n_in,), k, width=7)
