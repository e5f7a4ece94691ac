"""Effects of training samples on queries, as quanda and captum want them."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.data import TensorDataset

QUERIES = 256  # at once


def effects_on_queries(index: Any, inputs: Any, classes: Any, measure: str) -> Float[Tensor, "m n"]:
    """Return what each of n samples adds to m queries' measure; of a loss, takes off."""
    tensors = torch.as_tensor(inputs), torch.as_tensor(classes)
    parts = zip(*(array.cpu().split(QUERIES) for array in tensors), strict=True)
    answers = (index.query(TensorDataset(*batch), top=None, measure=measure) for batch in parts)
    effect = torch.tensor(np.concatenate([np.asarray(answer.effect).T for answer in answers]))
    return -effect if measure == "loss" else effect


def self_influences(index: Any) -> Float[Tensor, " n"]:
    """Return how much each training sample lowers its own loss, times n; high: suspect."""
    return torch.from_numpy(len(index) * index.self_influence())
