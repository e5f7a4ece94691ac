"""Effects of training samples on queries, as quanda and captum want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import TensorDataset

QUERIES = 256  # at once


def added(index: Any, inputs: Any, classes: Any, measure: str) -> Float[Tensor, "m n"]:
    """What each of n training samples adds to the measure of m queries; of a loss, takes off it."""
    given = torch.as_tensor(inputs), torch.as_tensor(classes)
    parts = zip(*(one.cpu().split(QUERIES) for one in given), strict=True)
    asked = (index.query(TensorDataset(*part), top=None, measure=measure) for part in parts)
    effect = torch.tensor(np.concatenate([np.asarray(one.effect).T for one in asked]))
    return -effect if measure == "loss" else effect


def own(index: Any) -> Float[Tensor, " n"]:
    """What each training sample lowers its own loss by, times n; high: suspect."""
    return torch.from_numpy(len(index) * index.self_influence())
