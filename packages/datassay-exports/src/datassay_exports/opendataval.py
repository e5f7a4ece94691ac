"""Our values as an evaluator of OpenDataVal, which must be installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from datassay.data import load
from datassay.errors import SettingError, install
from datassay.score.values import values

try:
    api: Any = import_module("opendataval.dataval.api")
    BASES: Any = api.DataEvaluator, api.ModelLessMixin
except ImportError:  # making one says what is missing
    BASES = (object,)


class Values(*BASES):  # pyrefly: ignore[invalid-inheritance] (known at run time)
    """`values` of the training samples; "out_of_bag" finds faulty samples, "beta" what teaches.

    Args:
        semivalue: as in `values`.
        random_state: of the draws, as in other evaluators.
        embedding_model: as in evaluators without a model.
        settings: further ones of `values`.

    Raises:
        SettingError: OpenDataVal is not installed.
    """

    def __init__(
        self, semivalue: str = "beta", random_state: Any = None, embedding_model: Any = None,
        **settings: Any,
    ):  # fmt: skip
        if BASES == (object,):
            raise SettingError(f"an evaluator of OpenDataVal needs it: {install('opendataval')}.")
        super().__init__(random_state)
        seed = int(self.random_state.randint(2**31 - 1))
        self.settings: dict[str, Any] = {"semivalue": semivalue, "seed": seed, **settings}
        self.embedding_model = embedding_model

    def train_data_values(self, *_: Any, **__: Any) -> Values:
        """Compute values of the samples of `input_data`; epochs and batches are not used."""
        train, val = self.embeddings(self.x_train, self.x_valid)
        pairs = _samples(train, self.y_train), _samples(val, self.y_valid)
        self.found = values(*load(pairs[0], val=pairs[1]), **self.settings)
        return self

    def evaluate_data_values(self) -> Float[np.ndarray, " n"]:
        """Return [n] values, high: the sample helps."""
        return self.found.value


def _samples(x: Any, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs, and the classes that one-hot rows or numbers encode."""
    rows = torch.stack([torch.as_tensor(x[i]) for i in range(len(x))])
    one_hot = y.ndim == 2 and y.shape[1] > 1 and bool((y.sum(1) == 1).all() and (y >= 0).all())
    targets = y.argmax(1) if one_hot else y.reshape(len(y), -1).squeeze(1)
    return rows.double().numpy(), targets.numpy()
